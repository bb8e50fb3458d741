"""Run a read query on one snapshot, within a time and memory budget."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

import pyarrow as pa

from omnigraph.commit.manifest_types import MAIN, Snapshot
from omnigraph.engine.embedders.factory import build_query_embedder
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.executor import execute
from omnigraph.engine.output.result_pipeline import ResultFrame, resolve_row_range
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.query_profile import QueryProfile
from omnigraph.engine.query_progress import ReportProgress
from omnigraph.engine.rerankers.factory import build_query_reranker
from omnigraph.engine.result import Result
from omnigraph.engine.result_forms import Target
from omnigraph.engine.search.search_arguments import SEARCHES, check_search_arguments
from omnigraph.engine.view import View
from omnigraph.errors import BadArgumentError, QueryError
from omnigraph.lang.source import Source
from omnigraph.ops.limits import ResourceLimits, resolve_budget
from omnigraph.ops.query_engine import build_prefix_engine, choose_query_engine
from omnigraph.ops.recent_state import resolve_recent_state
from omnigraph.ops.session import Session
from omnigraph.options import QueryEngine
from omnigraph.policy import Action
from omnigraph.query.logical_plan import ReadQuery, iter_predicates, iter_stages
from omnigraph.query.params import ParameterError, ParameterProblem, check_params
from omnigraph.schema.catalog import Catalog

MAX_PARAMS = 1_000
# A result of at most this number of rows is complete when the query returns; a larger one is fetched while it is read.
MAX_EAGER_ROWS = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRead:
    """A text of another language as a read, the values of its parameters, and notes about it."""

    read: ReadQuery
    params: Mapping[str, object]
    notes: tuple[str, ...] = ()


PrepareRead: TypeAlias = Callable[[Session, str, Catalog, Callable[[], None]], PreparedRead]
"""Parses and binds a text: in a session, for the schema of an id, whose catalog it is, checking the budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCall:
    """The arguments of a query."""

    source: Source
    name: str | None = None
    params: Mapping[str, object] = field(default_factory=dict)
    branch: str = MAIN
    snapshot: str | None = None
    at: datetime | None = None
    seconds: float | None = None
    """The time limit; None for that of the settings."""
    memory_bytes: int | None = None
    engine: QueryEngine = QueryEngine.AUTO
    max_staleness: float = 0.0
    """The newest state may have been replaced so many seconds ago."""
    min_commit: str | None = None
    """A commit that the state contains."""
    progress: ReportProgress | None = None
    """Called again and again, in another thread, while DuckDB runs the query."""
    prepare: PrepareRead | None = None
    """For a text of another language: how it becomes a read."""


def query(session: Session, call: QueryCall, budget: Budget | None = None) -> Result:
    """Run a query on one snapshot: the newest, or that of a commit or an instant.

    A caller that may want to cancel it passes a `budget`, which replaces the call's own limits.

    Raises:
        SourceError, LimitError, MissingError, BadArgumentError, ParameterError: The call is wrong; nothing was read.
        QueryError: It is a mutation, or a sum or count is too large for its type.
        BranchMissingError, CommitMissingError: There is no such state.
        QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out.
    """
    budget = budget or start_budget(session, call)
    snapshot = resolve_snapshot(session, call, budget.check, hides_rows=True)
    return query_snapshot(session, call, snapshot, budget)


def query_snapshot(session: Session, call: QueryCall, snapshot: Snapshot, budget: Budget) -> Result:
    """Run a query on a snapshot that the caller may read; raises what `query` raises, but for the state."""
    return _build_result(call, snapshot, execute_query(session, call, snapshot, budget), budget)


def execute_query(session: Session, call: QueryCall, snapshot: Snapshot, budget: Budget) -> ResultFrame:
    """Return the rows of a query as positions, before any of its columns is read."""
    bound, context = begin(session, call, snapshot, budget)
    plan = session.plans.get_or_plan(bound, snapshot, context)
    choice = choose_query_engine(call.engine, bound, plan, context)
    prefix = build_prefix_engine(choice, context, session.runtime.options)
    return execute(bound, plan, context, prefix=prefix)


def resolve_snapshot(
    session: Session, call: QueryCall, check: Callable[[], None] = lambda: None, *, hides_rows: bool = False
) -> Snapshot:
    """Return the state that a call reads, after checking that the caller may read it.

    `hides_rows` is as for `Session.allow`.
    """
    session.allow(Action.READ, call.branch, hides_rows=hides_rows)
    is_past = call.snapshot is not None or call.at is not None
    is_relaxed = call.max_staleness != 0 or call.min_commit is not None
    if (call.snapshot is not None and call.at is not None) or (is_past and is_relaxed):
        raise BadArgumentError.target_ambiguous()
    branch_session = session.checkout(call.branch)
    if is_relaxed:
        return resolve_recent_state(branch_session, call.max_staleness, call.min_commit, check)
    return branch_session.resolve_snapshot(commit_id=call.snapshot, at=call.at)


def build_target(call: QueryCall, snapshot: Snapshot) -> Target:
    """Return the target of a result: the branch, or the commit if the call names a past state."""
    is_past = call.snapshot is not None or call.at is not None
    return Target(snapshot.branch, snapshot.commit.id if is_past else None)


def start_budget(session: Session, call: QueryCall) -> Budget:
    """Start the time and memory budget of a call: its own limits, or those of the settings."""
    return resolve_budget(session, ResourceLimits(seconds=call.seconds, memory_bytes=call.memory_bytes))


def begin(
    session: Session, call: QueryCall, snapshot: Snapshot, budget: Budget, trace: QueryProfile | None = None
) -> tuple[ReadQuery, ExecutionContext]:
    """Return the bound query and its execution context; every mistake in the call is reported from here."""
    catalog = session.load_catalog(snapshot)
    if len(call.params) > MAX_PARAMS:
        problem = f"{len(call.params):,} parameters are given, and a query takes at most {MAX_PARAMS:,}"
        raise ParameterError([ParameterProblem("*", problem)])
    prepared = _prepare(session, call, snapshot.manifest.schema.id, catalog, budget)
    bound = prepared.read
    params = check_params(bound.params, prepared.params, budget.check)
    inputs = QueryInputs(params, session.runtime.clock.now(), budget)
    for stage in iter_stages(bound):
        # Only its checks matter here: a negative LIMIT is reported before anything is read.
        resolve_row_range(stage, inputs)
        # Without parameters, search arguments are literals.
        if bound.params and not stage.kinds.isdisjoint(SEARCHES):
            check_search_arguments((*stage.results, *iter_predicates(stage.pattern)), inputs)
    context = ExecutionContext(
        view=View(catalog, session.open_tables(snapshot)),
        inputs=inputs,
        budget=budget,
        cache=session.reads,
        traversal=session.runtime.options.traversal_mode,
        embed=build_query_embedder(session.runtime, budget),
        rerank=build_query_reranker(session.runtime, budget),
        profile=trace,
        progress=call.progress,
        notes=prepared.notes,
    )
    return bound, context


def _prepare(session: Session, call: QueryCall, schema_id: str, catalog: Catalog, budget: Budget) -> PreparedRead:
    if call.prepare is not None:
        return call.prepare(session, schema_id, catalog, budget.check)
    bound = session.prepared.get_or_prepare(call.source, call.name, schema_id, catalog, budget.check)
    if not isinstance(bound, ReadQuery):
        raise QueryError.not_a_read(bound.name)
    return PreparedRead(read=bound, params=call.params)


def _build_result(call: QueryCall, snapshot: Snapshot, frame: ResultFrame, budget: Budget) -> Result:
    target = build_target(call, snapshot)
    # Blobs can be large even in few rows, so they are always fetched lazily.
    has_blobs = any(pa.types.is_large_binary(field.type) for field in frame.schema)
    if frame.size > MAX_EAGER_ROWS or has_blobs:
        return Result(frame.with_budget(budget.create_remainder()), commit_id=snapshot.commit.id, target=target)
    result = Result(frame, commit_id=snapshot.commit.id, target=target)
    # Fetch the rows now, within the budget of the call.
    result.to_arrow()
    return result
