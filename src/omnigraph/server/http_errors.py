"""Errors that only a server raises: authentication, routing, malformed requests and limits."""

from omnigraph.errors import Kind, MissingError, OmnigraphError, variant


class BadRequestError(OmnigraphError):
    """A request is malformed; `place` names the part of it."""

    kind = Kind.USAGE
    code = "bad_request"
    place: str
    reason: str
    message = "can't understand the request: {place}: {reason}"

    @variant
    def method_not_allowed(self) -> str:
        """Report that a route has that path, but not for that method."""
        return "this path does not support that method; GET /openapi.json lists the methods it supports"

    @variant
    def bad_cursor(self) -> str:
        """Report that a cursor does not come from this server, or belongs to another request."""
        return "the cursor does not come from an earlier page of this request: start again without it"

    @variant
    def range_refused(self, size: int) -> str:
        """Report that a requested byte range begins after the end."""
        return f"the requested range begins after the end: there are {size} bytes"

    @variant
    def columns_differ(self, query: str) -> str:
        """Report that a stored query returns other columns in the queried state than on main, as its tool declares."""
        return (
            f"the schema of that state differs from that of main, so `{query}` returns other columns than its tool"
            " declares: use graph_query instead"
        )

    @variant
    def graph_unclear(self, graphs: tuple[str, ...]) -> str:
        """Report that an agent did not name a graph, and the number of graphs that it may see is not one."""
        paths = ", ".join(f"/mcp/{graph}" for graph in graphs)
        return f"name the graph in the path: {paths}" if paths else "there is no graph that you may see"

    @variant
    def host_refused(self) -> str:
        """Report that the `Host` header of a request names another host."""
        return "this server does not answer to that host name; `allowed_hosts` in its settings lists its names"

    @variant
    def origin_refused(self) -> str:
        """Report that the request comes from a page of another site in a user's browser."""
        return "this server does not answer pages of other sites; `allowed_hosts` in its settings lists its names"


class ResourceMissingError(MissingError):
    """A server has no such route, graph or stored query."""

    kind = Kind.NOT_FOUND

    @variant
    def route_not_found(self) -> str:
        """Report that no route has that path."""
        return "no route has this path; GET /openapi.json lists all routes"

    @variant
    def graph_not_found(self, graph: str) -> str:
        """Report that the server has no graph of that name."""
        return f"this server has no graph `{graph}`; GET /graphs lists its graphs"

    @variant
    def stored_query_not_found(self, name: str) -> str:
        """Report that the actor may run no stored query of that name; it does not reveal whether one exists."""
        return f"there is no stored query `{name}` that you may run; GET …/queries lists those you may"


class RequestLimitError(OmnigraphError):
    """A request or its response exceeds a limit of the server."""

    kind = Kind.EXHAUSTED

    @variant
    def body_too_large(self, limit: int) -> str:
        """Report that the body of a request is longer than the server accepts."""
        return f"the body has more than {limit} bytes, the limit of this server: send less per request"

    @variant
    def body_too_slow(self, seconds: float) -> str:
        """Report that the body of a request did not arrive in time."""
        return f"the body did not arrive within {seconds:g} seconds: send it faster, or less per request"

    @variant
    def answer_too_large(self, what: str, limit: int) -> str:
        """Report that a response is too large for one JSON document."""
        return (
            f"the response has more than {limit} {what}, the limit of one JSON document: request less, or a"
            " stream with `Accept: application/x-ndjson` or `application/vnd.apache.arrow.stream`"
        )

    @variant
    def graphs_full(self, limit: int) -> str:
        """Report that the server has as many graphs of clients as it may have."""
        return f"there are {limit} graphs that clients created, the limit of this server: delete one first"

    @variant
    def row_too_large(self, row: int, limit: int) -> str:
        """Report that a single row is too large for a response to an agent."""
        return (
            f"the row at offset {row} alone has more than {limit} bytes, the limit of one response: return"
            " fewer of its properties, or skip it with a larger offset"
        )

    @variant
    def request_too_long(self, seconds: float) -> str:
        """Report that a request takes longer than the server allows."""
        return f"this takes longer than {seconds:g} seconds, the limit of one request: ask for less at a time"

    @variant
    def too_many_requests(self, what: str, limit: int) -> str:
        """Report that the actor has reached the limit of concurrent requests or writes."""
        return f"{limit} of your {what} are in progress, the limit per actor: wait until one of them ends"


class ServerUnavailableError(OmnigraphError):
    """The server can't serve this now: try again later."""

    kind = Kind.UNAVAILABLE

    @variant
    def server_busy(self) -> str:
        """Report that the server is overloaded by the requests of all actors together."""
        return "the server is overloaded: try again a little later"

    @variant
    def server_stopping(self) -> str:
        """Report that the server is shutting down: it completes running requests and accepts no new ones."""
        return "the server is shutting down and accepts no new requests: try again a little later"

    @variant
    def write_lost(self) -> str:
        """Report that a mutation is not committed: the process that would have published it ended before that."""
        return "the server's process for this branch ended before it committed this, so nothing changed: send it again"

    @variant
    def worker_failed(self, code: int) -> str:
        """Report that a worker of the server ended while it started."""
        return f"a worker of the server ended with code {code} while it started; the server's log may say why"

    @variant
    def graph_unavailable(self, graph: str) -> str:
        """Report that the server has the graph, but could not open it."""
        return f"the graph `{graph}` can't be opened now; the server's log says why"

    @variant
    def address_unavailable(self, address: str, reason: str) -> str:
        """Report that a server can't listen on its address."""
        return f"can't listen on {address}: {reason}; choose another with --bind HOST:PORT"

    @variant
    def explorer_missing(self) -> str:
        """Report that the page of the explorer was not built into this installation."""
        return "this installation has no explorer: install a released wheel, or run `python tools/build_explorer.py`"

    @variant
    def mcp_missing(self) -> str:
        """Report that an agent uses MCP, but the packages for it are not installed."""
        return "this server does not support MCP: run `pip install 'omnigraph[mcp]'` on its machine"


class UnauthenticatedError(OmnigraphError):
    """A request has no token, or one that is not or no longer valid."""

    kind = Kind.DENIED
    code = "unauthenticated"
    message = "a valid token is needed: send `Authorization: Bearer …`"
