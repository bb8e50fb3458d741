"""The reconciler optimises what pays, leaves the rest alone, and keeps to its budget."""

import threading
from datetime import timedelta
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import BadArgumentError
from omnigraph.ops.auto_maintenance import DEFAULT_ACTOR, ReconcilePolicy, Reconciler, ReconcileRound
from omnigraph.ops.branch import Branch, list_branches
from omnigraph.ops.cleanup import CleanupCall, CleanupResult, cleanup
from omnigraph.ops.commit_signature import ActorRefusedError
from omnigraph.ops.session import ReadOnlyError, Session
from upkeep_calls import exported, fragments, opened

SCHEMA = "node P { k: String @key }\nnode Q { k: String @key }\nedge E: P -> P\n"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """A graph with three fragments of P, and nothing else."""
    uri = str(tmp_path / "graph")
    og.create_graph(uri, SCHEMA)
    made = opened(uri)
    for number in range(3):
        add(made, number)
    return made


def add(graph: og.Graph, number: int, branch: str = "main") -> None:
    """One more row, which is one more fragment."""
    graph.load([{"type": "P", "data": {"k": f"p{number}"}}], mode="append", branch=branch)


def test_a_dry_run_tells_what_is_due_and_writes_nothing(graph: og.Graph) -> None:
    before = graph.commits()

    found = graph.optimize(dry_run=True)

    assert [(one.table_key, one.fragments_removed) for one in found.due] == [("node:P", 3)]
    assert graph.commits() == before


def test_a_read_only_graph_has_dry_runs_too(graph: og.Graph) -> None:
    reader = og.open_graph(graph.uri, read_only=True)

    assert reader.optimize(dry_run=True).due == ()  # three fragments are too few by the usual settings
    with pytest.raises(ReadOnlyError):
        reader.optimize()


def test_a_round_optimises_what_pays_and_changes_no_row(graph: og.Graph) -> None:
    before = exported(graph)

    done = graph.reconciler().round()

    assert [(branch, one.table_key) for branch, one in done.tables] == [("main", "node:P")]
    assert fragments(graph, "P") == 1
    assert exported(graph) == before
    assert graph.commits(limit=1, include_maintenance=True)[0].actor == DEFAULT_ACTOR


def test_what_nobody_wrote_is_not_looked_at_again(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    reconciler = graph.reconciler()
    reconciler.round()
    reconciler.round()  # looks at what it made itself
    looks: list[object] = []
    monkeypatch.setattr("omnigraph.ops.auto_maintenance.optimize", lambda *given: looks.append(given))

    assert reconciler.round() == ReconcileRound()
    assert looks == []


def test_branches_are_looked_after_and_forgotten(graph: og.Graph) -> None:
    reconciler = graph.reconciler()
    reconciler.round()
    graph.branches.create("side")
    add(graph, 10, "side")
    add(graph, 11, "side")

    done = reconciler.round()
    graph.branches.delete("side")

    assert [(branch, one.table_key) for branch, one in done.tables] == [("side", "node:P")]
    assert reconciler.round().tables == ()


def test_it_runs_until_it_is_stopped(graph: og.Graph) -> None:
    rounds: list[ReconcileRound] = []
    two = threading.Event()

    def tell(done: ReconcileRound) -> None:
        rounds.append(done)
        if len(rounds) == 2:
            two.set()

    reconciler = graph.reconciler(every_seconds=0.01, budget=1.0, tell=tell)
    running = threading.Thread(target=reconciler.run)
    running.start()

    assert two.wait(60)
    reconciler.stop()
    running.join(60)

    assert not running.is_alive()
    assert [len(one.tables) for one in rounds[:2]] == [1, 0]


def test_a_store_that_fails_ends_a_round_only(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[ReconcileRound] = []

    def tell(done: ReconcileRound) -> None:
        rounds.append(done)
        reconciler.stop()

    reconciler = graph.reconciler(every_seconds=0.01, budget=1.0, tell=tell)
    failures = [og.StoreUnavailableError("list branches", "no answer")]

    def branches(session: Session) -> list[Branch]:
        if failures:
            raise failures.pop()
        return list_branches(session)

    monkeypatch.setattr("omnigraph.ops.auto_maintenance.list_branches", branches)

    reconciler.run()

    assert [len(one.tables) for one in rounds] == [1]


@pytest.mark.parametrize(
    "worked, rest", [(0.0, 60.0), (1.0, 60.0), (60.0, 540.0)], ids=["nothing", "a little", "a lot"]
)
def test_it_rests_in_proportion_to_its_work(worked: float, rest: float) -> None:
    assert ReconcilePolicy(every_seconds=60, budget=0.1).compute_rest(worked) == pytest.approx(rest)


@pytest.mark.parametrize("given", [{"budget": 0.0}, {"budget": 1.5}, {"every_seconds": 0.0}, {"budget": float("nan")}])
def test_a_policy_that_makes_no_sense_is_refused(graph: og.Graph, given: dict[str, float]) -> None:
    with pytest.raises(BadArgumentError):
        graph.reconciler(**given)  # type: ignore[arg-type]  # numbers by name


def test_the_engines_own_names_are_refused(graph: og.Graph) -> None:
    with pytest.raises(ActorRefusedError):
        graph.reconciler(actor="omnigraph:recovery")


def test_a_cleanup_is_scheduled_when_asked_for(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[CleanupCall] = []

    def record(session: Session, call: CleanupCall) -> CleanupResult:
        calls.append(call)
        return cleanup(session, call)

    monkeypatch.setattr("omnigraph.ops.auto_maintenance.cleanup", record)
    never = Reconciler(graph._session, ReconcilePolicy(optimizes=False))
    daily = Reconciler(graph._session, ReconcilePolicy(optimizes=False, cleanup_days=14))

    daily.round()
    assert calls == []  # a day has to pass first
    for one in (never, daily):
        one._next_cleanup = 0
        assert one.round() == ReconcileRound()
        assert one.round() == ReconcileRound()

    assert [(call.older_than, call.keep, call.is_confirmed) for call in calls] == [(timedelta(days=14), None, True)]
    assert fragments(graph, "P") == 3
