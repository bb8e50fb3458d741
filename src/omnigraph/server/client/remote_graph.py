"""Connect to a graph on a server; the interface is that of an embedded graph."""

from typing import Self

from omnigraph.errors import BadArgumentError
from omnigraph.server.client.algorithms import RemoteAlgorithms
from omnigraph.server.client.browse import RemoteBrowse
from omnigraph.server.client.history import RemoteHistory
from omnigraph.server.client.http_transport import MAX_IDLE_CONNECTIONS, Transport
from omnigraph.server.client.maintenance import RemoteMaintenance
from omnigraph.server.client.reads import RemoteReads
from omnigraph.server.client.requests import GraphCalls
from omnigraph.server.client.retries import MAX_RETRIES
from omnigraph.server.client.writes import RemoteWrites

# The default limit for connecting and for each read from the socket, not for a whole call.
_TIMEOUT_SECONDS = 60.0


def connect(
    url: str,
    token: str | None = None,
    *,
    graph: str | None = None,
    seconds: float = _TIMEOUT_SECONDS,
    allow_plain_http: bool = False,
    retries: int = MAX_RETRIES,
    max_connections: int = MAX_IDLE_CONNECTIONS,
) -> "RemoteGraph":
    """Connect to a graph on a server, by name; without a name, to the only graph that the token's owner may see.

    Args:
        url: `https://host`, or `http://localhost:8080`. A token is sent over plain HTTP to loopback addresses only,
            unless `allow_plain_http` is set.
        token: The bearer token; None for a server without authentication.
        graph: The graph's name on the server.
        seconds: How long the server may be silent before a call fails.
        allow_plain_http: Send the token over plain HTTP to any host. Use it on a trusted network only.
        retries: How often a request is sent again that the server refused because it is busy or stopping, after the
            time that it asks for; also one that reads or has an idempotency key, if the connection broke off.
        max_connections: How many connections are kept for later requests; more threads open further ones.

    Raises:
        BadArgumentError: The URL is not a valid server address, the token would be sent unencrypted, or no name was
            given and the server shows several graphs or none.
        ServerUnreachableError: The server does not respond.
    """
    transport = Transport(
        url, token, seconds=seconds, allow_plain_http=allow_plain_http, retries=retries, max_idle=max_connections
    )
    if graph is None:
        try:
            graph = _find_only_name(transport)
        except BaseException:
            transport.close()
            raise
    return RemoteGraph(transport, graph)


def list_graphs(url: str, token: str | None) -> list[str]:
    """Return the names of the graphs that the owner of a token may see on a server.

    Raises:
        BadArgumentError, ServerUnreachableError: As `connect`.
        OmnigraphError: The server does not accept the token.
    """
    transport = Transport(url, token, seconds=_TIMEOUT_SECONDS, allow_plain_http=False)
    try:
        return _read_names(transport)
    finally:
        transport.close()


def _find_only_name(transport: Transport) -> str:
    names = _read_names(transport)
    if len(names) != 1:
        listed = ", ".join(names) or "none that you may see"
        raise BadArgumentError("graph", "left out", f"name one of the server's graphs: {listed}")
    return names[0]


def _read_names(transport: Transport) -> list[str]:
    return [entry["id"] for entry in transport.request_json("GET", "/graphs")["graphs"]]


class RemoteGraph(RemoteReads, RemoteBrowse, RemoteHistory, RemoteWrites, RemoteMaintenance):
    """A graph on a server: the methods of `Graph`, with the same results and errors. Thread-safe.

    Commits are signed by the owner of the token. Create it with `omnigraph.connect`; `close` it, or use it in `with`.
    """

    def __init__(self, transport: Transport, graph: str) -> None:
        self._calls = GraphCalls(transport, graph)

    def __repr__(self) -> str:
        return f"RemoteGraph({self.uri!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def algorithms(self) -> RemoteAlgorithms:
        """The graph algorithms, which the server runs."""
        return RemoteAlgorithms(self._calls)

    def abort(self) -> None:
        """End all requests in flight, from another thread: their calls fail with `ServerUnreachableError`."""
        self._calls.transport.abort()

    def close(self) -> None:
        """Close all idle connections to the server."""
        self._calls.transport.close()
