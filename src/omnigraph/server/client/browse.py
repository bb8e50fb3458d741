"""What tools that show a graph ask of a server: findings, types, nodes and their neighbours, permissions."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from omnigraph.engine.result import Result
from omnigraph.graph.arguments import build_query_source, build_schema_source
from omnigraph.json_struct import decode_struct
from omnigraph.lang.source import Source
from omnigraph.ops.argument_checks import parse_choice
from omnigraph.ops.catalog_report import CatalogReport
from omnigraph.ops.find_entities import EntityMatches
from omnigraph.ops.lint import LintReport
from omnigraph.ops.neighbours import NeighbourPage
from omnigraph.ops.permissions import BranchPermissions, Permissions
from omnigraph.options import QueryEngine
from omnigraph.server.client.requests import GraphCalls, build_query_body, build_state
from omnigraph.server.http.paging import MAX_PAGE_ITEMS


class RemoteBrowse:
    """The part of a graph on a server that tools use to show it. Each method is documented in `BrowseMethods`."""

    _calls: GraphCalls

    # --- rows --------------------------------------------------------------------------------------

    def query_window(  # noqa: PLR0913 - all but the text by name
        self,
        source: str | Source,
        *,
        offset: int = 0,
        limit: int = 100,
        sort: Sequence[tuple[str, bool] | str] = (),
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        engine: QueryEngine | str = QueryEngine.AUTO,
    ) -> Result:
        """Run a query and return `limit` of its rows from `offset` on; see `Graph.query_window`."""
        # A column alone is one that ascends, as in an embedded graph.
        keys = [(key, False) if isinstance(key, str) else key for key in sort]
        body = {
            **build_query_body(source, name, params, branch, snapshot, at),
            "offset": offset,
            "limit": limit,
            "sort": [{"column": column, "descending": descending} for column, descending in keys],
            "seconds": seconds,
            "memory_bytes": memory_bytes,
            "engine": parse_choice("engine", QueryEngine, engine).value,
        }
        # As an Arrow stream, like any query: values keep their types.
        return self._calls.fetch_rows("query", body=body, source=source)

    # --- texts and types ---------------------------------------------------------------------------

    def lint(
        self,
        query: str | Source | None = None,
        *,
        schema: str | Source | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
    ) -> LintReport:
        """Check a text of queries, a schema, or both; see `Graph.lint`."""
        texts = {
            "query": None if query is None else build_query_source(query).text,
            "schema": None if schema is None else build_schema_source(schema).text,
        }
        state = build_state(branch, snapshot, at)
        return decode_struct(LintReport, self._calls.post("lint", {**texts, **state}))

    def catalog(
        self, *, branch: str = "main", snapshot: str | None = None, at: datetime | None = None
    ) -> CatalogReport:
        """Return the types of a state, with numbers of rows and indexes; see `Graph.catalog`."""
        # `as` is a word of Python, so it can't be an argument by name.
        query: dict[str, object] = {**build_state(branch, snapshot, at), "as": "catalog"}
        return decode_struct(CatalogReport, self._calls.get("schema", **query))

    # --- nodes and edges ---------------------------------------------------------------------------

    def neighbours(  # noqa: PLR0913 - all but the nodes by name
        self,
        nodes: Iterable[tuple[str, str]],
        *,
        edges: Sequence[str] | None = None,
        direction: str = "both",
        limit: int = 100,
        cursor: str | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
    ) -> NeighbourPage:
        """Return edges of some nodes, and the nodes at the other ends; see `Graph.neighbours`."""
        body = {
            "nodes": [{"type": type_name, "id": id_} for type_name, id_ in nodes],
            "edges": edges,
            "direction": direction,
            "limit": limit,
            "cursor": cursor,
            **build_state(branch, snapshot, at),
            "seconds": seconds,
            "memory_bytes": memory_bytes,
        }
        return decode_struct(NeighbourPage, self._calls.post("neighbours", body))

    def search(
        self,
        text: str,
        *,
        types: Sequence[str] | None = None,
        limit: int = 20,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
    ) -> EntityMatches:
        """Find nodes by a text that a person types; see `Graph.search`."""
        limits = {"limit": limit, "seconds": seconds, "memory_bytes": memory_bytes}
        body = {"text": text, "types": types, **limits, **build_state(branch, snapshot, at)}
        return decode_struct(EntityMatches, self._calls.post("search", body))

    # --- permissions -------------------------------------------------------------------------------

    def permissions(self, *, branches: Sequence[str] | None = None) -> Permissions:
        """Return what the owner of the token may do; see `Graph.permissions`."""
        # A branch that is missing, or that may not be read, gives a page without branches.
        if branches is None:
            pages = list(self._calls.iter_pages("me", limit=MAX_PAGE_ITEMS))
        else:
            pages = [self._calls.get("me", branch=name) for name in branches] or [self._calls.get("me", limit=1)]
        # With an empty list only the graph as a whole is asked about.
        found = [] if branches == [] else [item for page in pages for item in page["branches"]]
        return decode_struct(Permissions, pages[0], branches=tuple(map(_decode_branch, found)))

    def me(self) -> dict[str, Any]:
        """Return the owner of the token, who signs commits: `actor`, `groups`, and whether `is_authenticated`."""
        document: dict[str, Any] = self._calls.transport.request_json("GET", "/me")
        return document

    # --- running requests --------------------------------------------------------------------------

    def running(self) -> list[dict[str, Any]]:
        """List the requests of the token's owner that were sent with a `query_id` and are running, oldest first."""
        requests: list[dict[str, Any]] = self._calls.get("running")["running"]
        return requests

    def cancel(self, query_id: str) -> bool:
        """Cancel a request of the token's owner by its `query_id`; return whether it was running."""
        return bool(self._calls.delete("running", query_id)["cancelled"])


def _decode_branch(document: Mapping[str, Any]) -> BranchPermissions:
    return decode_struct(BranchPermissions, document)
