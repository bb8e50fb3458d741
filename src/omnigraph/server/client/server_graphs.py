"""The graphs of a server: list, create and delete them."""

import builtins
from typing import Self

from omnigraph.lang.source import Source
from omnigraph.server.client.http_transport import Transport, quote_path
from omnigraph.server.client.requests import get_text, name_sources

# The default limit for connecting and for each read from the socket, not for a whole call.
_TIMEOUT_SECONDS = 60.0


def connect_server(
    url: str, token: str | None = None, *, seconds: float = _TIMEOUT_SECONDS, allow_plain_http: bool = False
) -> "ServerGraphs":
    """Connect to a server, to list, create and delete its graphs; the arguments are those of `connect`.

    Raises:
        BadArgumentError: The URL is not a valid server address, or the token would be sent unencrypted.
    """
    return ServerGraphs(Transport(url, token, seconds=seconds, allow_plain_http=allow_plain_http))


class ServerGraphs:
    """The graphs of a server. Create it with `omnigraph.connect_server`; `close` it, or use it in `with`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def __repr__(self) -> str:
        return f"ServerGraphs({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._transport.url

    def list(self) -> builtins.list[str]:
        """Return the names of the graphs that the owner of the token may see."""
        return [entry["id"] for entry in self._transport.request_json("GET", "/graphs")["graphs"]]

    def create(self, graph: str, schema: str | Source) -> str:
        """Create an empty graph with a schema; return the id of its first commit.

        Raises:
            DeniedError: No policy names the action `graph_create` for it, or the server has no place for graphs.
            PlaceTakenError: There is such a graph.
            SourceError: The schema has errors.
        """
        body = {"graph": graph, "schema": get_text(schema)}
        answer = self._transport.request_json("POST", "/graphs", body, sources=name_sources(schema))
        commit_id: str = answer["commit_id"]
        return commit_id

    def delete(self, graph: str) -> None:
        """Delete a graph that a client created, with all of its data.

        Raises:
            DeniedError: No policy names the action `graph_delete` for it, or it is a graph of the server's settings.
            MissingError: There is no such graph.
        """
        self._transport.request_json("DELETE", quote_path("graphs", graph), query={"confirm": "true"})

    def close(self) -> None:
        """Close all idle connections to the server."""
        self._transport.close()
