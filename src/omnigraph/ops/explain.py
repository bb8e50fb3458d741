"""Show how a query is run: the plan with its estimates, and after running it with what each step really did."""

from dataclasses import dataclass

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.executor import execute
from omnigraph.engine.physical_plan import PhysicalPlan
from omnigraph.engine.planning.explain import build_plan_json, format_plan
from omnigraph.engine.planning.planner import plan_read
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_profile import QueryProfile
from omnigraph.ops.query import QueryCall, begin, resolve_snapshot, start_budget
from omnigraph.ops.session import Session
from omnigraph.query.explain import explain_output
from omnigraph.query.logical_plan import ReadQuery

_INDENT = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMeasurement:
    """A run of the whole query: its rows, what it took (also to read the result), and what planning took before it."""

    rows: int
    seconds: float
    requests: int
    planning_seconds: float
    planning_requests: int
    """To the store, for statistics that no plan had asked for before."""

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        planning = {"ms": round(self.planning_seconds * 1e3, 3), "requests": self.planning_requests}
        ms = round(self.seconds * 1e3, 3)
        return {"rows": self.rows, "ms": ms, "requests": self.requests, "planning": planning}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """How a query is run on one snapshot."""

    query: ReadQuery
    snapshot: Snapshot
    plan: PhysicalPlan
    trace: QueryProfile | None = None
    measured: QueryMeasurement | None = None

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        where = f"{self.snapshot.branch}@{self.snapshot.commit.id}"
        return f"<Explained {self.query.name} at {where}: print it for the plan>"

    @property
    def text(self) -> str:
        """One step a line, ending with a line break."""
        heading = f"query {self.query.name} at {self.snapshot.branch}, commit {self.snapshot.commit.id}\n"
        steps = format_plan(self.plan, self.trace) + "".join(f"{line}\n" for line in explain_output(self.query))
        body = "".join(f"{_INDENT}{line}\n" for line in steps.splitlines())
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
        """What every door shows."""
        found: dict[str, object] = {
            "query_name": self.query.name,
            "target": {"branch": self.snapshot.branch},
            "commit_id": self.snapshot.commit.id,
            "plan": build_plan_json(self.plan, self.trace),
            "output": list(explain_output(self.query)),
        }
        if self.measured is not None:
            found["measured"] = self.measured.to_json()
        return found


def explain(session: Session, call: QueryCall, *, analyze: bool = False, budget: Budget | None = None) -> Explained:
    """The plan of a read on the state that the call asks for; with `analyze`, it is run, and its result thrown away.

    Raises:
        What `query` raises for a call that is wrong; with `analyze`, also what it raises while it runs.
    """
    runtime = session.runtime
    snapshot = resolve_snapshot(session, call)
    trace = QueryProfile(runtime.clock, runtime.telemetry) if analyze else None
    planned, reading = begin(session, call, snapshot, budget or start_budget(session, call), trace)
    clock = runtime.clock
    begun = clock.monotonic()
    with runtime.telemetry.count_requests() as planning:
        plan = plan_read(planned, reading)
    if trace is None:
        return Explained(query=planned, snapshot=snapshot, plan=plan)
    before = clock.monotonic()
    with runtime.telemetry.count_requests() as running:
        answer = execute(planned, plan, reading)
    measured = QueryMeasurement(
        rows=answer.size,
        seconds=clock.monotonic() - before,
        requests=running.count(),
        planning_seconds=before - begun,
        planning_requests=planning.count(),
    )
    return Explained(query=planned, snapshot=snapshot, plan=plan, trace=trace, measured=measured)


def _format_count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
