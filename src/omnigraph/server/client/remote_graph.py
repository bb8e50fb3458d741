"""A graph of a server, with the interface of the embedded one."""

from typing import Self

from omnigraph.ops.argument_checks import BadArgumentError
from omnigraph.server.client.history import RemoteHistory
from omnigraph.server.client.http_transport import Transport
from omnigraph.server.client.maintenance import RemoteMaintenance
from omnigraph.server.client.reads import RemoteReads
from omnigraph.server.client.requests import GraphCalls
from omnigraph.server.client.writes import RemoteWrites

_TIMEOUT_SECONDS = 60.0


def connect(
    url: str,
    token: str | None = None,
    *,
    graph: str | None = None,
    seconds: float = _TIMEOUT_SECONDS,
    allow_plain_http: bool = False,
) -> "RemoteGraph":
    """A graph of a server, by its name there; without a name, the only one that the token's owner may see.

    Args:
        url: `https://host`, or `http://localhost:8080`. A token goes over plain HTTP to loopback only, unless
            `allow_plain_http` says that nobody listens on the way.
        token: Who asks; None for a server that lets everybody in.
        graph: The graph's name.
        seconds: How long the server may take to say something.
        allow_plain_http: See `url`.

    Raises:
        BadServerUrlError: There can't be a server at that address.
        BadArgumentError: There are several graphs, or none, and no name.
        ServerUnreachableError: Nobody answers there.
    """
    transport = Transport(url, token, seconds=seconds, allow_plain_http=allow_plain_http)
    if graph is None:
        names = [one["id"] for one in transport.request_json("GET", "/graphs")["graphs"]]
        if len(names) != 1:
            listed = ", ".join(names) or "none that you may see"
            raise BadArgumentError("graph", "left out", f"name one of the server's graphs: {listed}")
        graph = names[0]
    return RemoteGraph(transport, graph)


class RemoteGraph(RemoteReads, RemoteHistory, RemoteWrites, RemoteMaintenance):
    """A graph behind a server: the calls of `Graph`, with the same answers and errors. Safe from several threads.

    The actor of what it writes is the owner of the token. Made by `omnigraph.connect`; `close` it, or use it in `with`.
    """

    def __init__(self, transport: Transport, graph: str) -> None:
        self._calls = GraphCalls(transport, graph)

    def __repr__(self) -> str:
        return f"RemoteGraph({self.uri!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._calls.transport.close()
