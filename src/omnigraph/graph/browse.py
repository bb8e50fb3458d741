"""The methods of a graph for tools that show it: check texts, describe types, find nodes and their neighbours."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from omnigraph.engine.query_budget import Budget
from omnigraph.engine.result import Result
from omnigraph.errors import BadArgumentError
from omnigraph.graph import lazy_ops
from omnigraph.graph.arguments import build_query_source, build_schema_source, check_parameters
from omnigraph.graph.blame import blames_damage
from omnigraph.lang.source import Source
from omnigraph.ops.argument_checks import parse_choice
from omnigraph.ops.limits import ResourceLimits
from omnigraph.ops.query import QueryCall, resolve_snapshot
from omnigraph.ops.session import Session
from omnigraph.options import QueryEngine

if TYPE_CHECKING:
    from omnigraph.ops.catalog_report import CatalogReport
    from omnigraph.ops.find_entities import EntityMatches
    from omnigraph.ops.lint import LintReport
    from omnigraph.ops.neighbours import NeighbourPage
    from omnigraph.ops.permissions import Permissions


@blames_damage
class BrowseMethods:
    """The part of `Graph` that tools use to show it."""

    _session: Session

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
        budget: Budget | None = None,
    ) -> Result:
        """Run a query and return `limit` of its rows from `offset` on; `total_rows` of the result counts all.

        `sort` orders all rows first: by a column, or by a column and whether it descends, the first one before the
        others. Pass the `commit_id` of the result as `snapshot` to read other windows of the same rows: where these
        are stays in memory for a while, so that only the rows of the window are read.

        Raises:
            BadArgumentError: The window is too large, or a column can't be sorted by.
            What `query` raises.
        """
        ops = lazy_ops.query_window
        keys = [ops.SortColumn(key) if isinstance(key, str) else ops.SortColumn(*key) for key in sort]
        call = QueryCall(
            source=build_query_source(source),
            name=name,
            params=check_parameters(params),
            branch=branch,
            snapshot=snapshot,
            at=at,
            seconds=seconds,
            memory_bytes=memory_bytes,
            engine=parse_choice("engine", QueryEngine, engine),
        )
        if call.engine is QueryEngine.SPARK:
            raise BadArgumentError("engine", "`spark`", "a window is read here: `auto`, `memory` or `local`")
        window = ops.RowWindow(offset=offset, limit=limit, sort=tuple(keys))
        return ops.query_window(self._session, call, window, budget)

    def lint(
        self,
        query: str | Source | None = None,
        *,
        schema: str | Source | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
    ) -> "LintReport":
        """Check a text of queries against the schema of a state, or against the `schema` given, which is checked too.

        All findings are returned, and the parameters of the queries without errors. Nothing is raised for mistakes.

        Raises:
            LimitError: A text is longer than a query may be.
            BranchMissingError, CommitMissingError: There is no such state.
        """
        return lazy_ops.lint.lint(
            self._session,
            None if query is None else build_query_source(query),
            None if schema is None else build_schema_source(schema),
            branch=branch,
            commit_id=snapshot,
            at=at,
        )

    def catalog(
        self, *, branch: str = "main", snapshot: str | None = None, at: datetime | None = None
    ) -> "CatalogReport":
        """Return the types of a state: properties, constraints, numbers of rows, and how far indexes cover them.

        Raises:
            BranchMissingError, CommitMissingError: There is no such state.
        """
        call = QueryCall(source=Source("", ""), branch=branch, snapshot=snapshot, at=at)
        return lazy_ops.catalog_report.report_catalog(
            self._session, resolve_snapshot(self._session, call, hides_rows=True)
        )

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
        budget: Budget | None = None,
    ) -> "NeighbourPage":
        """Return the edges of some nodes, each a type and an id, and the nodes at the other ends.

        At most `limit` edges are returned, of all types or of those in `edges`, that leave the nodes (`out`), reach
        them (`in`) or `both`; `next_cursor` of the answer, given as `cursor`, continues in the same state. The first
        answer also has the number of edges of each node by type and direction; with a limit of 0, only these.

        Raises:
            TypeMissingError: There is no such type.
            BadArgumentError: There are too many nodes, or the limit is too large.
            BranchMissingError, CommitMissingError: There is no such state.
            QueryTimeoutError, QueryMemoryError: The reading exceeds its limits.
        """
        ops = lazy_ops.neighbours
        call = ops.NeighbourCall(
            nodes=[ops.NodeKey(type_name, id_) for type_name, id_ in nodes],
            edges=edges,
            direction=direction,
            limit=limit,
            cursor=cursor,
            state=lazy_ops.snapshot_reader.StateCall(
                branch=branch,
                snapshot=snapshot,
                at=at,
                limits=ResourceLimits(seconds=seconds, memory_bytes=memory_bytes, budget=budget),
            ),
        )
        return ops.find_neighbours(self._session, call)

    def search(  # noqa: PLR0913 - all but the text by name
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
        budget: Budget | None = None,
    ) -> "EntityMatches":
        """Find nodes by a text that a person types: by id first, then by the words of their String properties.

        A node whose id is the text comes first, then those whose id begins with it in any case, then those with words
        of it, ranked by `bm25` of each property.

        Raises:
            TypeMissingError: There is no such node type.
            BadArgumentError: The text is empty or too long, or the limit is too large.
            BranchMissingError, CommitMissingError: There is no such state.
            QueryTimeoutError, QueryMemoryError: The search exceeds its limits.
        """
        call = lazy_ops.find_entities.FindCall(
            text=text,
            types=types,
            limit=limit,
            state=lazy_ops.snapshot_reader.StateCall(
                branch=branch,
                snapshot=snapshot,
                at=at,
                limits=ResourceLimits(seconds=seconds, memory_bytes=memory_bytes, budget=budget),
            ),
        )
        return lazy_ops.find_entities.find_entities(self._session, call)

    def permissions(self, *, branches: Sequence[str] | None = None) -> "Permissions":
        """Return what the actor of this handle may do on the graph, and on the branches that it may read, or on some.

        Without a policy everything is allowed that the handle can do.
        """
        return lazy_ops.permissions.list_permissions(self._session, branches)
