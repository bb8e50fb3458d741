"""Run a read: of one snapshot, within its time and memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from omnigraph.commit.manifest_types import MAIN, Snapshot
from omnigraph.engine.embedders.factory import build_query_embedder
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.executor import execute
from omnigraph.engine.output.result_pipeline import ResultFrame, resolve_row_range
from omnigraph.engine.predicate_eval import QueryInputs
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_profile import QueryProfile
from omnigraph.engine.result import Result, Target
from omnigraph.engine.search.search_arguments import check_search_arguments
from omnigraph.engine.view import View
from omnigraph.errors import Kind, NotAReadError, OmnigraphError
from omnigraph.lang.source import Source
from omnigraph.ops.limits import ResourceLimits, resolve_budget
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.query.logical_plan import ReadQuery, iter_predicates
from omnigraph.query.params import ParameterError, ParameterProblem, check_params

MAX_PARAMS = 1_000
MAX_EAGER_ROWS = 4_096
"""A result of at most so many rows is complete when the query is; a larger one is fetched as it is read."""


class TargetAmbiguousError(OmnigraphError):
    """A query is asked of a commit and of an instant at once."""

    kind = Kind.USAGE
    code = "target_ambiguous"

    def __str__(self) -> str:
        return "a query reads one state: give either a snapshot or a time, not both"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCall:
    """A query as it was asked for."""

    source: Source
    name: str | None = None
    params: Mapping[str, object] = field(default_factory=dict)
    branch: str = MAIN
    snapshot: str | None = None
    at: datetime | None = None
    seconds: float | None = None
    """How long it may run; None: as the settings say."""
    memory_bytes: int | None = None


def query(session: Session, call: QueryCall, budget: Budget | None = None) -> Result:
    """Run a query on one snapshot: the newest, or that of a commit or an instant.

    Whoever may want to cancel it hands in the `budget`, which then counts instead of the call's own.

    Raises:
        SourceError, TextTooLargeError, QueryMissingError, QueryAmbiguousError, NotAReadError, ParameterError: The call
            is wrong; nothing was read.
        BranchMissingError, CommitMissingError, TargetAmbiguousError: There is no such state.
        AggregateOverflowError: A sum or count is too large for its type.
        QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out.
    """
    snapshot = resolve_snapshot(session, call)
    budget = budget or start_budget(session, call)
    planned, reading = begin(session, call, snapshot, budget)
    plan = session.plans.get_or_plan(planned, snapshot, reading)
    answer = execute(planned, plan, reading)
    return _build_result(call, snapshot, answer, budget)


def resolve_snapshot(session: Session, call: QueryCall) -> Snapshot:
    """The state that a call asks for, if it may be read: what every read begins with."""
    session.allow(Action.READ, call.branch)
    if call.snapshot is not None and call.at is not None:
        raise TargetAmbiguousError
    return session.checkout(call.branch).resolve_snapshot(commit_id=call.snapshot, at=call.at)


def start_budget(session: Session, call: QueryCall) -> Budget:
    """The time and memory of a call: its own, or what the settings allow."""
    return resolve_budget(session, ResourceLimits(seconds=call.seconds, memory_bytes=call.memory_bytes))


def begin(
    session: Session, call: QueryCall, snapshot: Snapshot, budget: Budget, trace: QueryProfile | None = None
) -> tuple[ReadQuery, ExecutionContext]:
    """The query as it is planned, and all that it works with; every mistake of the call is found here."""
    catalog = session.load_catalog(snapshot)
    planned = session.prepared.get_or_prepare(call.source, call.name, snapshot.manifest.schema.id, catalog)
    if not isinstance(planned, ReadQuery):
        raise NotAReadError(planned.name)
    if len(call.params) > MAX_PARAMS:
        problem = f"{len(call.params):,} parameters are given, and a query takes at most {MAX_PARAMS:,}"
        raise ParameterError([ParameterProblem("*", problem)])
    inputs = QueryInputs(check_params(planned.params, call.params, budget.check), session.runtime.clock.now())
    resolve_row_range(planned, inputs)
    if planned.params:
        check_search_arguments((*planned.results, *iter_predicates(planned.pattern)), inputs)
    reading = ExecutionContext(
        view=View(catalog, session.open_tables(snapshot)),
        inputs=inputs,
        budget=budget,
        cache=session.reads,
        traversal=session.runtime.options.traversal_mode,
        embed=build_query_embedder(session.runtime, budget),
        profile=trace,
    )
    return planned, reading


def _build_result(call: QueryCall, snapshot: Snapshot, answer: ResultFrame, budget: Budget) -> Result:
    is_past = call.snapshot is not None or call.at is not None
    target = Target(snapshot.branch, snapshot.commit.id if is_past else None)
    has_blobs = any(pa.types.is_large_binary(field.type) for field in answer.schema)
    if answer.size > MAX_EAGER_ROWS or has_blobs:
        return Result(answer.with_budget(budget.create_remainder()), commit_id=snapshot.commit.id, target=target)
    result = Result(answer, commit_id=snapshot.commit.id, target=target)
    result.to_arrow()
    return result
