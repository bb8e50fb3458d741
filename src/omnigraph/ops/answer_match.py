"""Answer the matches of a mutation, over what its earlier statements have written."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph.commit.commit_plan import CommitPlan
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import Pin, Snapshot
from omnigraph.commit.publisher import abandon
from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.commit.version_builder import VersionBuilder
from omnigraph.engine.constraints.edge_constraints import check_endpoints
from omnigraph.engine.constraints.violations import ConstraintFindings
from omnigraph.engine.embedders.factory import build_query_embedder
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.executor import execute
from omnigraph.engine.planning.planner import plan_read
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.rerankers.factory import build_query_reranker
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.view import View
from omnigraph.engine.writing.match_dependencies import find_read_types
from omnigraph.engine.writing.write_buffer import PendingTable, WriteBuffer
from omnigraph.errors import QueryError
from omnigraph.ops.session import Session, hide_rows, open_whole_tables
from omnigraph.ops.write_tables import TableWrite, stage_writes
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.schema.catalog import Catalog, EdgeType


@dataclass(frozen=True, slots=True)
class MatchAnswerer:
    """Answers matches on a state and the pending rows of one mutation.

    If a match reads no type with pending rows, it reads the state itself. Otherwise the pending rows are staged as
    unpublished versions of their tables, which the match reads like any others and which are removed afterwards.
    """

    session: Session
    head: Head
    catalog: Catalog
    inputs: QueryInputs
    budget: Budget
    build_write: Callable[[PendingTable], TableWrite] | None
    """Builds the write of pending rows to stage; None in a dry run, which writes no file."""

    def answer(self, read: ReadQuery, pending: WriteBuffer) -> pa.Table:
        """Return the columns of a match for all its rows.

        Raises:
            QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out.
            ConstraintError: It reads edges that an earlier statement has inserted, to nodes that do not exist.
            QueryError: It is a dry run, and the match reads what an earlier statement writes.
        """
        touched = pending.touched
        types = find_read_types(read, self.catalog)
        if not any(table.type.name in types for table in touched):
            return self._read(read, self.head.snapshot, self.session.reads)
        if self.build_write is None:
            written = ", ".join(table.type.name for table in touched if table.type.name in types)
            raise QueryError.match_of_dry_run(written)
        _check_ends(pending, types)
        with self._stage(touched, self.build_write) as snapshot:
            return self._read(read, snapshot, self.session.reads.without_derived())

    def build_context(self, snapshot: Snapshot, cache: GraphCache) -> ExecutionContext:
        """Return the context of a read on a state."""
        session = self.session
        return ExecutionContext(
            # Readers are cached for other operations, so the budget of this one must not limit their tables.
            view=View(self.catalog, hide_rows(session, SnapshotTables(session.handles, snapshot))),
            inputs=self.inputs,
            budget=self.budget,
            cache=cache,
            traversal=session.runtime.options.traversal_mode,
            embed=build_query_embedder(session.runtime, self.budget),
            rerank=build_query_reranker(session.runtime, self.budget),
        )

    def _read(self, read: ReadQuery, snapshot: Snapshot, cache: GraphCache) -> pa.Table:
        context = self.build_context(snapshot, cache)
        frame = execute(read, plan_read(read, context), context)
        rows = frame.fetch(0, frame.size)
        self.budget.claim(rows.nbytes, f"the {frame.size:,} rows of a match")
        return pa.Table.from_batches([rows])

    @contextmanager
    def _stage(
        self, touched: Sequence[PendingTable], build_write: Callable[[PendingTable], TableWrite]
    ) -> Iterator[Snapshot]:
        """Yield a state with the pending rows, whose files are removed at the end."""
        session, base = self.session, self.head.snapshot
        tables = open_whole_tables(session, base)
        for table in touched:
            # The reader of the base comes first: its columns are extended, and it stays the newest of the branch.
            session.reads.get_reader(View(self.catalog, SnapshotTables(session.handles, base)), table.type)
        moves = stage_writes(session, tables, [build_write(table) for table in touched], None)
        files = [file for move in moves for file in move.staged.files]
        staged: Mapping[str, Pin] = {}
        try:
            effective = tuple(move for move in moves if move.staged.has_effect)
            plan = CommitPlan(base=self.head, operation="match", actor="", moves=effective)
            staged = VersionBuilder(session.store, session.handles, base.branch, files).apply(plan).moved
            yield replace(base, manifest=replace(base.manifest, pins={**base.pins, **staged}))
        finally:
            for pin in staged.values():
                session.reads.forget(pin.path, pin.version)
                session.handles.forget(pin.path, pin.version)
            abandon(session.log, None, files)


def _check_ends(pending: WriteBuffer, types: frozenset[str]) -> None:
    """Check that the pending edges of some types have both ends: a hop along another one leads nowhere."""
    findings = ConstraintFindings()
    for table in pending.touched:
        if isinstance(table.type, EdgeType) and table.type.name in types:
            check_endpoints(pending, table.type, findings)
    # The requirements are those of the whole mutation, which is checked again at its end.
    findings.require()
