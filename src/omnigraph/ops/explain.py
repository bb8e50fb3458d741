"""Explain a query: its plan with estimates and, after running it, the measured work of each step."""

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.executor import execute
from omnigraph.engine.physical_plan import PhysicalPlan, get_type_name
from omnigraph.engine.planning.explain import build_plan_json, format_plan
from omnigraph.engine.planning.planner import plan_read
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_profile import QueryProfile
from omnigraph.json_struct import JsonStruct
from omnigraph.ops.query import QueryCall, begin, resolve_snapshot, start_budget
from omnigraph.ops.query_engine import QueryEngineChoice, build_prefix_engine, choose_query_engine
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.query.explain import explain_output, title_sources
from omnigraph.query.expr import Nearest
from omnigraph.query.expr_tree import walk
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.query.union_types import list_members

# Below the heading, which names query, branch and commit.
_INDENT = "  "


class QueryMeasurement(JsonStruct, frozen=True, kw_only=True):
    """The measured run of a query: its rows, time and requests, including those to read the result, and planning."""

    json_keys = "rows ms requests planning.ms=planning_ms planning.requests=planning_requests"

    rows: int
    seconds: float
    requests: int
    planning_seconds: float
    planning_requests: int
    """Store requests for column statistics that no earlier plan had read."""

    @property
    def ms(self) -> float:
        """The time of the run in milliseconds."""
        return round(self.seconds * 1e3, 3)

    @property
    def planning_ms(self) -> float:
        """The time of planning in milliseconds."""
        return round(self.planning_seconds * 1e3, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """The plan of a query on one snapshot, with the measurements of a run if it was analyzed."""

    query: ReadQuery
    snapshot: Snapshot
    plan: PhysicalPlan
    choice: QueryEngineChoice
    trace: QueryProfile | None = None
    measured: QueryMeasurement | None = None
    operators: tuple[str, ...] = ()
    """What another engine than memory has run, line by line, if the query was analyzed."""
    searches: tuple[str, ...] = ()
    """For each vector index that a search may use: whether it is exact or approximate, with the expected recall."""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        where = f"{self.snapshot.branch}@{self.snapshot.commit.id}"
        return f"<Explained {self.query.name} at {where}: print it for the plan>"

    @property
    def text(self) -> str:
        """The plan as text, one step per line, with a trailing line break."""
        heading = f"query {self.query.name} at {self.snapshot.branch}, commit {self.snapshot.commit.id}\n"
        lines = [str(self.choice), *(_INDENT + line for line in self.operators)]
        lines += _explain_stage(self.query, self.plan, self.trace)
        body = "".join(f"{_INDENT}{line}\n" for line in [*lines, *self.searches])
        return heading + body + self._format_total()

    def _format_total(self) -> str:
        if self.measured is None:
            return ""
        measured = self.measured
        running = f"{measured.seconds * 1e3:.3f} ms with {_format_count(measured.requests, 'request')}"
        planning = (
            f"{measured.planning_seconds * 1e3:.3f} ms with {_format_count(measured.planning_requests, 'request')}"
        )
        return f"{_format_count(measured.rows, 'row')} in {running}, after planning for {planning}\n"

    def to_json(self) -> dict[str, object]:
        """Return the JSON form."""
        result: dict[str, object] = {
            "query_name": self.query.name,
            "target": {"branch": self.snapshot.branch},
            "commit_id": self.snapshot.commit.id,
            "engine": self._build_engine_json(),
            **_build_stage_json(self.query, self.plan, self.trace),
        }
        if self.searches:
            result["searches"] = list(self.searches)
        if self.measured is not None:
            result["measured"] = self.measured.to_json()
        return result

    def _build_engine_json(self) -> dict[str, object]:
        data: dict[str, object] = {"name": self.choice.engine.value, "reason": self.choice.reason}
        return {**data, "operators": list(self.operators)} if self.operators else data


def _explain_stage(
    query: ReadQuery, plan: PhysicalPlan, trace: QueryProfile | None, *, is_stage: bool = False
) -> Iterator[str]:
    """Yield the lines about a read: the reads that it starts from, its steps and its output."""
    for (title, source), source_plan in zip(title_sources(query), plan.sources, strict=True):
        yield title
        lines = _explain_stage(source, source_plan, trace, is_stage=isinstance(query.source, ReadQuery))
        yield from (_INDENT + line for line in lines)
    # The plan ends with the pattern; the steps after it, such as sorting, come from the query itself.
    yield from format_plan(plan, trace).splitlines()
    yield from explain_output(query, is_stage=is_stage)


def _build_stage_json(
    query: ReadQuery, plan: PhysicalPlan, trace: QueryProfile | None, *, is_stage: bool = False
) -> dict[str, object]:
    output = list(explain_output(query, is_stage=is_stage))
    data: dict[str, object] = {"plan": build_plan_json(plan, trace), "output": output}
    is_chain = isinstance(query.source, ReadQuery)
    sources = [
        {"text": title, **_build_stage_json(source, source_plan, trace, is_stage=is_chain)}
        for (title, source), source_plan in zip(title_sources(query), plan.sources, strict=True)
    ]
    # Left out for a read that starts from nothing: programs that read earlier output find it unchanged.
    return {**data, "sources": sources} if sources else data


def explain(session: Session, call: QueryCall, *, analyze: bool = False, budget: Budget | None = None) -> Explained:
    """Plan a read on the snapshot of the call; with `analyze`, also run it and discard its result.

    Raises:
        What `query` raises for a wrong call; with `analyze`, also what it raises while it runs.
    """
    runtime = session.runtime
    snapshot = resolve_snapshot(session, call)
    # A past state is that of the branch that made it, which may hide rows.
    session.allow(Action.READ, snapshot.branch)
    trace = QueryProfile(runtime.clock, runtime.telemetry) if analyze else None
    query, context = begin(session, call, snapshot, budget or start_budget(session, call), trace)
    # Planned here and not taken from the plan cache: planning is measured too.
    clock = runtime.clock
    planning_start = clock.monotonic()
    with runtime.telemetry.count_requests() as planning:
        plan = plan_read(query, context)
    choice = choose_query_engine(call.engine, query, plan, context)
    if trace is None:
        searches = _describe_searches(query, context)
        return Explained(query=query, snapshot=snapshot, plan=plan, choice=choice, searches=searches)
    prefix = build_prefix_engine(choice, context, runtime.options)
    # The run is timed and its requests are counted apart from planning.
    run_start = clock.monotonic()
    with runtime.telemetry.count_requests() as running:
        result = execute(query, plan, context, prefix=prefix)
    measured = QueryMeasurement(
        rows=result.size,
        seconds=clock.monotonic() - run_start,
        requests=running.count(),
        planning_seconds=run_start - planning_start,
        planning_requests=planning.count(),
    )
    return Explained(
        query=query,
        snapshot=snapshot,
        plan=plan,
        choice=choice,
        trace=trace,
        measured=measured,
        operators=() if prefix is None else tuple(prefix.lines),
        searches=context.list_searches(),
    )


def _describe_searches(query: ReadQuery, context: ExecutionContext) -> tuple[str, ...]:
    """Return what is known before the run about the searches by vector indexes."""
    lines: dict[str, None] = {}
    ranks = () if query.rank is None else tuple(walk(query.rank))
    for rank in (part for part in ranks if isinstance(part, Nearest)):
        for member in list_members(get_type_name(query.types[rank.prop.variable])):
            declared = context.view.get_type(member).by_name[rank.prop.name].vector_index
            if declared is None:
                continue
            way = f"by its {declared.kind.value} index where that is cheaper, recall at least {declared.recall}"
            lines[f"nearest of {member}.{rank.prop.name}: {'exact, as asked' if rank.exact else way}"] = None
    return tuple(lines)


def _format_count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
