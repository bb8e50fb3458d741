"""What only a server refuses: who is unknown, what is too large, too slow or too much at once."""

from omnigraph.errors import Kind, OmnigraphError


class UnauthenticatedError(OmnigraphError):
    """A request came without a token, or with one that is not valid (any more)."""

    kind = Kind.DENIED
    code = "unauthenticated"

    def __str__(self) -> str:
        return "a valid token is needed: send `Authorization: Bearer …`"


class GraphMissingError(OmnigraphError):
    """The server has no graph of that name."""

    kind = Kind.NOT_FOUND
    code = "graph_not_found"

    def __init__(self, graph: str) -> None:
        super().__init__(graph)
        self.graph = graph

    def __str__(self) -> str:
        return f"this server has no graph `{self.graph}`; GET /graphs lists those there are"


class GraphUnavailableError(OmnigraphError):
    """The graph is one of the server's, but could not be opened."""

    kind = Kind.UNAVAILABLE
    code = "graph_unavailable"

    def __init__(self, graph: str) -> None:
        super().__init__(graph)
        self.graph = graph

    def __str__(self) -> str:
        return f"the graph `{self.graph}` can't be opened now; the server's log says why"


class StoredQueryMissingError(OmnigraphError):
    """There is no stored query of that name, or none that the actor may run: which of the two is not told."""

    kind = Kind.NOT_FOUND
    code = "stored_query_not_found"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"there is no stored query `{self.name}` that you may run; GET …/queries lists those there are"


class RouteMissingError(OmnigraphError):
    """The server has nothing at that path."""

    kind = Kind.NOT_FOUND
    code = "route_not_found"

    def __str__(self) -> str:
        return "there is nothing at this path; GET /openapi.json lists all"


class MethodRefusedError(OmnigraphError):
    """The path is there, but not for that method."""

    kind = Kind.USAGE
    code = "method_not_allowed"

    def __str__(self) -> str:
        return "this path does not take that method; GET /openapi.json lists those it takes"


class BadRequestError(OmnigraphError):
    """A request can't be understood; `place` is the part of it."""

    kind = Kind.USAGE
    code = "bad_request"

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place, self.reason = place, reason

    def __str__(self) -> str:
        return f"can't understand the request: {self.place}: {self.reason}"


class BadCursorError(OmnigraphError):
    """A cursor that this server did not give out, or not for this request."""

    kind = Kind.USAGE
    code = "bad_cursor"

    def __str__(self) -> str:
        return "the cursor is not one that this request's earlier page gave: start again without it"


class BodyTooLargeError(OmnigraphError):
    """The body of a request is longer than the server takes."""

    kind = Kind.EXHAUSTED
    code = "body_too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return f"the body has more than {self.limit} bytes, the most that this server takes here: send less at once"


class BodyTooSlowError(OmnigraphError):
    """The body of a request did not come in time."""

    kind = Kind.EXHAUSTED
    code = "body_too_slow"

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"the body did not come within {self.seconds:g} seconds: send it faster, or less at once"


class AnswerTooLargeError(OmnigraphError):
    """An answer is too large for one JSON document."""

    kind = Kind.EXHAUSTED
    code = "answer_too_large"

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(what, limit)
        self.what, self.limit = what, limit

    def __str__(self) -> str:
        return (
            f"the answer has more than {self.limit} {self.what}, the most of one JSON document: ask for less, or for a"
            " stream with `Accept: application/x-ndjson` or `application/vnd.apache.arrow.stream`"
        )


class RequestTooLongError(OmnigraphError):
    """What a request asks for takes longer than one may."""

    kind = Kind.EXHAUSTED
    code = "request_too_long"

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"it takes longer than {self.seconds:g} seconds, the most of one request: ask for less at once"


class RangeRefusedError(OmnigraphError):
    """A part is asked for that lies behind the end."""

    kind = Kind.USAGE
    code = "range_refused"

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size

    def __str__(self) -> str:
        return f"the part that is asked for begins behind the end: there are {self.size} bytes"


class RowTooLargeError(OmnigraphError):
    """One row alone is too large for an answer to an agent."""

    kind = Kind.EXHAUSTED
    code = "row_too_large"

    def __init__(self, row: int, limit: int) -> None:
        super().__init__(row, limit)
        self.row, self.limit = row, limit

    def __str__(self) -> str:
        return (
            f"the row at offset {self.row} alone has more than {self.limit} bytes, the most of one answer: return fewer"
            " of its properties, or skip it with a larger offset"
        )


class ColumnsDifferError(OmnigraphError):
    """A stored query has other columns in the state that is asked than in that of main, which its tool declares."""

    kind = Kind.USAGE
    code = "columns_differ"

    def __init__(self, query: str) -> None:
        super().__init__(query)
        self.query = query

    def __str__(self) -> str:
        return (
            f"the schema there differs from that of main, and so do the columns of `{self.query}`, which its tool"
            " declares: ask with graph_query instead"
        )


class GraphUnclearError(OmnigraphError):
    """An agent did not say which graph it is about, and there is not exactly one that it may see."""

    kind = Kind.USAGE
    code = "graph_unclear"

    def __init__(self, graphs: tuple[str, ...]) -> None:
        super().__init__(graphs)
        self.graphs = graphs

    def facts(self) -> dict[str, object]:
        """The graphs that can be seen."""
        return {"graphs": list(self.graphs)}

    def __str__(self) -> str:
        seen = ", ".join(f"/mcp/{graph}" for graph in self.graphs)
        return f"say which graph in the path: {seen}" if seen else "there is no graph that you may see"


class AgentsMissingError(OmnigraphError):
    """Agents ask by MCP, and what that needs is not installed."""

    kind = Kind.UNAVAILABLE
    code = "mcp_missing"

    def __str__(self) -> str:
        return "this server does not speak MCP: `pip install 'omnigraph[mcp]'` where it runs"


class TooManyRequestsError(OmnigraphError):
    """The actor has as many requests under way as one may have."""

    kind = Kind.EXHAUSTED
    code = "too_many_requests"

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(what, limit)
        self.what, self.limit = what, limit

    def __str__(self) -> str:
        return f"{self.limit} {self.what} of yours are under way, the most at the same time: wait for one of them"


class ServerBusyError(OmnigraphError):
    """Everybody together asks for more than the server can do."""

    kind = Kind.UNAVAILABLE
    code = "server_busy"

    def __str__(self) -> str:
        return "the server has more to do than it can: try again a little later"


class ServerStoppingError(OmnigraphError):
    """The server finishes what runs, and takes nothing new."""

    kind = Kind.UNAVAILABLE
    code = "server_stopping"

    def __str__(self) -> str:
        return "the server is about to stop and takes nothing new: try again a little later"


class HostRefusedError(OmnigraphError):
    """A request names a host that this server is not."""

    kind = Kind.USAGE
    code = "host_refused"

    def __str__(self) -> str:
        return "this server does not answer under that host name; `allowed_hosts` of its settings lists its own"


class OriginRefusedError(OmnigraphError):
    """A page of another site asks, through somebody's browser."""

    kind = Kind.USAGE
    code = "origin_refused"

    def __str__(self) -> str:
        return "this server does not answer pages of other sites; `allowed_hosts` of its settings lists its own"


class OpenServerError(OmnigraphError):
    """A server would let everybody do everything, and nobody said twice that it should."""

    kind = Kind.USAGE
    code = "open_server"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address, self.reason = address, reason

    def __str__(self) -> str:
        return f"not serving on {self.address}: {self.reason}"
