"""Errors that only a server raises: authentication, routing, malformed requests and limits."""

from omnigraph.errors import Kind, OmnigraphError

# Errors that take arguments pass them on to `super().__init__`, which makes them picklable.


class UnauthenticatedError(OmnigraphError):
    """A request has no token, or one that is not or no longer valid."""

    kind = Kind.DENIED
    code = "unauthenticated"
    message = "a valid token is needed: send `Authorization: Bearer …`"


class GraphMissingError(OmnigraphError):
    """The server has no graph of that name."""

    kind = Kind.NOT_FOUND
    code = "graph_not_found"
    graph: str
    message = "this server has no graph `{graph}`; GET /graphs lists its graphs"


class GraphUnavailableError(OmnigraphError):
    """The server has the graph, but could not open it."""

    kind = Kind.UNAVAILABLE
    code = "graph_unavailable"
    graph: str
    message = "the graph `{graph}` can't be opened now; the server's log says why"


class StoredQueryMissingError(OmnigraphError):
    """There is no stored query of that name that the actor may run; the error does not reveal whether one exists."""

    kind = Kind.NOT_FOUND
    code = "stored_query_not_found"
    name: str
    message = "there is no stored query `{name}` that you may run; GET …/queries lists those you may"


class RouteMissingError(OmnigraphError):
    """No route has that path."""

    kind = Kind.NOT_FOUND
    code = "route_not_found"
    message = "no route has this path; GET /openapi.json lists all routes"


class MethodRefusedError(OmnigraphError):
    """A route has that path, but not for that method."""

    kind = Kind.USAGE
    code = "method_not_allowed"
    message = "this path does not support that method; GET /openapi.json lists the methods it supports"


class BadRequestError(OmnigraphError):
    """A request is malformed; `place` names the part of it."""

    kind = Kind.USAGE
    code = "bad_request"
    place: str
    reason: str
    message = "can't understand the request: {place}: {reason}"


class BadCursorError(OmnigraphError):
    """A cursor does not come from this server, or belongs to another request."""

    kind = Kind.USAGE
    code = "bad_cursor"
    message = "the cursor does not come from an earlier page of this request: start again without it"


class BodyTooLargeError(OmnigraphError):
    """The body of a request is longer than the server accepts."""

    kind = Kind.EXHAUSTED
    code = "body_too_large"
    limit: int
    message = "the body has more than {limit} bytes, the limit of this server: send less per request"


class BodyTooSlowError(OmnigraphError):
    """The body of a request did not arrive in time."""

    kind = Kind.EXHAUSTED
    code = "body_too_slow"
    seconds: float
    message = "the body did not arrive within {seconds:g} seconds: send it faster, or less per request"


class AnswerTooLargeError(OmnigraphError):
    """A response is too large for one JSON document."""

    kind = Kind.EXHAUSTED
    code = "answer_too_large"
    what: str
    limit: int
    message = (
        "the response has more than {limit} {what}, the limit of one JSON document: request less, or a"
        " stream with `Accept: application/x-ndjson` or `application/vnd.apache.arrow.stream`"
    )


class RequestTooLongError(OmnigraphError):
    """A request takes longer than the server allows."""

    kind = Kind.EXHAUSTED
    code = "request_too_long"
    seconds: float
    message = "this takes longer than {seconds:g} seconds, the limit of one request: ask for less at a time"


class RangeRefusedError(OmnigraphError):
    """A requested byte range begins after the end."""

    kind = Kind.USAGE
    code = "range_refused"
    size: int
    message = "the requested range begins after the end: there are {size} bytes"


class RowTooLargeError(OmnigraphError):
    """A single row is too large for a response to an agent."""

    kind = Kind.EXHAUSTED
    code = "row_too_large"
    row: int
    limit: int
    message = (
        "the row at offset {row} alone has more than {limit} bytes, the limit of one response: return"
        " fewer of its properties, or skip it with a larger offset"
    )


class ColumnsDifferError(OmnigraphError):
    """A stored query returns other columns in the queried state than on main, whose columns its tool declares."""

    kind = Kind.USAGE
    code = "columns_differ"
    query: str
    message = (
        "the schema of that state differs from that of main, so `{query}` returns other columns than its tool"
        " declares: use graph_query instead"
    )


class GraphUnclearError(OmnigraphError):
    """An agent did not name a graph, and the number of graphs that it may see is not one."""

    kind = Kind.USAGE
    code = "graph_unclear"
    graphs: tuple[str, ...]

    def facts(self) -> dict[str, object]:
        """Return the graphs that the agent may see."""
        return {"graphs": list(self.graphs)}

    def __str__(self) -> str:
        paths = ", ".join(f"/mcp/{graph}" for graph in self.graphs)
        return f"name the graph in the path: {paths}" if paths else "there is no graph that you may see"


class AgentsMissingError(OmnigraphError):
    """An agent uses MCP, but the packages for it are not installed."""

    kind = Kind.UNAVAILABLE
    code = "mcp_missing"
    message = "this server does not support MCP: run `pip install 'omnigraph[mcp]'` on its machine"


class TooManyRequestsError(OmnigraphError):
    """The actor has reached the limit of concurrent requests or writes."""

    kind = Kind.EXHAUSTED
    code = "too_many_requests"
    what: str
    limit: int
    message = "{limit} of your {what} are in progress, the limit per actor: wait until one of them ends"


class ServerBusyError(OmnigraphError):
    """The server is overloaded by the requests of all actors together."""

    kind = Kind.UNAVAILABLE
    code = "server_busy"
    message = "the server is overloaded: try again a little later"


class ServerStoppingError(OmnigraphError):
    """The server is shutting down: it completes running requests and accepts no new ones."""

    kind = Kind.UNAVAILABLE
    code = "server_stopping"
    message = "the server is shutting down and accepts no new requests: try again a little later"


class HostRefusedError(OmnigraphError):
    """The `Host` header of a request names another host."""

    kind = Kind.USAGE
    code = "host_refused"
    message = "this server does not answer to that host name; `allowed_hosts` in its settings lists its names"


class OriginRefusedError(OmnigraphError):
    """The request comes from a page of another site in a user's browser."""

    kind = Kind.USAGE
    code = "origin_refused"
    message = "this server does not answer pages of other sites; `allowed_hosts` in its settings lists its names"


class OpenServerError(OmnigraphError):
    """A server would allow every client everything, without this being confirmed."""

    kind = Kind.USAGE
    code = "open_server"
    address: str
    reason: str
    message = "not serving on {address}: {reason}"
