"""A write on S3 ends as committed, not committed, or unknown; never as a lie, whatever the network does."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from lance import LanceDataset

from faulty_proxy import ALWAYS, MANIFEST_PUT, PATIENCE, SIDECAR, Act, Fault, FaultyProxy
from omnigraph.commit import freshness, group_commit, publisher, recovery_log
from omnigraph.commit.branch_errors import OutcomeUnknownError
from omnigraph.commit.commit_queue import CommitQueue
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.recovery import recover
from omnigraph.commit.sidecar import Lease, Sidecar, list_sidecars
from omnigraph.errors import Kind
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.options import Options
from omnigraph.storage.layout import build_table_path
from omnigraph.storage.object_store import StoreDeniedError, StoreUnavailableError
from s3_server import copied, fresh_uri, s3_server
from worlds import FAST, new_world, rows, runtime, seeded_world, state

IMPATIENT = {"client_max_retries": "1", "client_retry_timeout": "2", "timeout": "1s"}
"""Storage options of a client that gives up soon, so that a test needs not wait."""
CALM = replace(FAST, heartbeat_seconds=30, lease_seconds=60)
"""No heartbeat comes in between the requests that a test counts."""
TWO = ("node:A", "node:B")
pytestmark = pytest.mark.usefixtures("with_sidecars")


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.fixture(scope="module")
def running_proxy(server: dict[str, str]) -> Iterator[FaultyProxy]:
    with FaultyProxy(server["aws_endpoint"]) as proxy:
        yield proxy


@pytest.fixture
def proxy(running_proxy: FaultyProxy) -> Iterator[FaultyProxy]:
    running_proxy.plan()
    yield running_proxy
    running_proxy.clear()


@pytest.fixture
def direct(server: dict[str, str]) -> Options:
    """Settings that go past the proxy."""
    return replace(CALM, storage=server)


@pytest.fixture
def through(server: dict[str, str], proxy: FaultyProxy) -> Options:
    """Settings that go through the proxy, with the client's own retries."""
    return replace(CALM, storage={**server, "aws_endpoint": proxy.endpoint})


@pytest.fixture
def impatient(through: Options) -> Options:
    return replace(through, storage={**through.storage, **IMPATIENT})


@pytest.fixture(scope="module")
def template(server: dict[str, str]) -> str:
    return seeded_world(fresh_uri(), replace(CALM, storage=server)).uri


@pytest.fixture
def world(template: str, direct: Options) -> Session:
    """A seeded graph of its own for each test, reached past the proxy: what everybody else sees."""
    return open_session(copied(template), is_read_only=False, runtime=runtime(direct))


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writers of this test stand for different processes: the mutex between threads is not theirs."""
    monkeypatch.setattr(publisher, "get_queue", lambda *_: CommitQueue())
    monkeypatch.setattr(group_commit, "get_branch_lock", lambda *_: threading.Lock())


@pytest.fixture
def asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if more time had passed since each look than a state is trusted for: no version that is younger is trimmed."""
    monkeypatch.setattr(freshness, "RECENT_SECONDS", 0.0)


def opened(world: Session, options: Options) -> Session:
    session = open_session(world.uri, is_read_only=False, runtime=runtime(options))
    session.head()
    return session


def insert(session: Session, row: str, tables: tuple[str, ...] = TWO) -> str:
    writes = [TableWrite(table_key=key, append=rows({row: 7})) for key in tables]
    done = write_tables(session, writes, operation="insert", actor="x")
    assert done is not None
    return done.commit.id


def history(session: Session) -> list[str]:
    return [commit.id for commit in session.log.iter_history(session.head())]


def once_visible(world: Session, commit_id: str, row: str = "n") -> None:
    """The commit is the third and newest one, and the row is there in both tables."""
    assert history(world).count(commit_id) == 1
    assert history(world)[0] == commit_id
    assert len(history(world)) == 3
    assert all(state(world)[key][row] == 7 for key in TWO)


# --- the response is lost, the effect is not -------------------------------------------------------


LOST = {
    "the connection breaks": Fault(Act.LOSE, "PUT", MANIFEST_PUT),
    "it breaks every time": Fault(Act.LOSE, "PUT", MANIFEST_PUT, times=ALWAYS),
    "it is told as 500": Fault(Act.MISTELL, "PUT", MANIFEST_PUT, status=500),
    "it is told as 503 every time": Fault(Act.MISTELL, "PUT", MANIFEST_PUT, status=503, times=ALWAYS),
    "the client's own retry is told 412": Fault(Act.MISTELL, "PUT", MANIFEST_PUT, status=412),
    "it is told as 403": Fault(Act.MISTELL, "PUT", MANIFEST_PUT, status=403),
}


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=pytest.mark.soak if how == "it is told as 503 every time" else ()) for how in LOST]
)
def test_a_swap_whose_response_is_lost_is_committed_once(
    how: str, world: Session, impatient: Options, proxy: FaultyProxy
) -> None:
    writer = opened(world, impatient)
    fault = LOST[how]
    proxy.plan(replace(fault))

    commit_id = insert(writer, "n")

    once_visible(world, commit_id)
    assert list_sidecars(world.store) == ([], [])
    assert insert(writer, "m")


@pytest.mark.usefixtures("apart")
def test_a_lost_response_is_committed_even_when_others_have_written_since(
    world: Session, impatient: Options, proxy: FaultyProxy
) -> None:
    writer = opened(world, impatient)
    others: list[str] = []
    proxy.plan(
        Fault(Act.LOSE, "PUT", MANIFEST_PUT, then=lambda: others.append(insert(world, "other"))),
        Fault(Act.LOSE, "PUT", MANIFEST_PUT, nth=1, times=ALWAYS),
    )

    mine = insert(writer, "n")
    proxy.clear()
    later = insert(writer, "m")

    assert history(world)[:3] == [later, others[0], mine]
    assert {"n", "other", "m"} <= set(state(world)["node:A"])


@pytest.mark.usefixtures("apart")
def test_a_lost_response_that_lance_cannot_settle_never_takes_away_what_others_wrote_since(
    world: Session, direct: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = opened(world, direct)
    right = LanceDataset.commit
    others: list[str] = []

    def commit(base: LanceDataset, transaction: Any, **options: Any) -> LanceDataset:
        made = right(base, transaction, **options)
        if options.get("detached"):
            return made
        if not others:
            with monkeypatch.context() as calm:
                calm.setattr(LanceDataset, "commit", staticmethod(right))
                others.append(insert(world, "other"))
        raise OSError("LanceError(IO): Generic S3 error: no answer")

    with monkeypatch.context() as broken:
        broken.setattr(LanceDataset, "commit", staticmethod(commit))
        mine = insert(writer, "n")
    later = insert(writer, "m")

    assert history(world)[:3] == [later, others[0], mine]
    assert {"n", "other", "m"} <= set(state(world)["node:A"])


@pytest.mark.parametrize("status", [412, 500])
def test_an_init_whose_response_is_lost_has_made_the_graph(
    status: int, impatient: Options, direct: Options, proxy: FaultyProxy
) -> None:
    proxy.plan(Fault(Act.MISTELL, "PUT", MANIFEST_PUT, status=status, times=ALWAYS))

    session = new_world(fresh_uri(), impatient)

    found = open_session(session.uri, is_read_only=True, runtime=runtime(direct))
    assert history(found) == history(session)
    assert len(history(found)) == 1


def breaks_at_a_creation(monkeypatch: pytest.MonkeyPatch, *, is_made: bool, place: str = "/__manifest") -> None:
    """Lance can't tell whether the first version of a table was made."""
    right = LanceDataset.commit

    def commit(base: Any, transaction: Any, **options: Any) -> LanceDataset:
        if not (isinstance(base, str) and base.endswith(place)):
            return right(base, transaction, **options)
        if is_made:
            right(base, transaction, **options)
        raise OSError("LanceError(IO): Generic S3 error: no answer")

    monkeypatch.setattr(LanceDataset, "commit", staticmethod(commit))


@pytest.mark.parametrize("place", ["/__manifest", build_table_path("node", "A")])
def test_an_init_that_lance_cannot_settle_is_settled_by_looking(
    place: str, direct: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks_at_a_creation(monkeypatch, is_made=True, place=place)

    session = new_world(fresh_uri(), direct)

    assert len(history(session)) == 1
    assert insert(session, "n")


def test_an_init_that_may_yet_arrive_is_unknown(direct: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = fresh_uri()
    breaks_at_a_creation(monkeypatch, is_made=False)

    with pytest.raises(OutcomeUnknownError, match="no answer"):
        new_world(uri, direct)

    monkeypatch.undo()
    assert insert(new_world(uri, direct), "n")


def test_an_init_that_cannot_write_the_copy_of_the_schema_has_made_the_graph(
    through: Options, proxy: FaultyProxy, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.plan(Fault(Act.REFUSE, "PUT", r"/_schema\.pg", status=403, times=ALWAYS))

    session = new_world(fresh_uri(), through)

    assert insert(session, "n")
    assert "copy of the schema" in caplog.text


# --- the effect comes late, or in the wrong place --------------------------------------------------


def test_a_swap_that_lands_after_the_client_gave_up_was_reported_as_unknown(
    world: Session, impatient: Options, proxy: FaultyProxy
) -> None:
    writer = opened(world, impatient)
    late = Fault(Act.DELAY, "PUT", MANIFEST_PUT)
    proxy.plan(late, Fault(Act.REFUSE, "PUT", MANIFEST_PUT, status=403, times=ALWAYS))

    with pytest.raises(OutcomeUnknownError) as unknown:
        insert(writer, "n")
    before = history(world)
    late.release.set()
    assert late.forwarded.wait(60)

    assert unknown.value.commit_id not in before
    once_visible(world, unknown.value.commit_id)
    proxy.clear()
    assert insert(writer, "m", ("node:C",))
    world.head().table.trim(2, timedelta(0))
    assert state(opened(world, impatient))["node:A"]["n"] == 7


def test_a_late_swap_after_recovery_has_declared_it_dead_has_no_effect(
    world: Session, impatient: Options, direct: Options, proxy: FaultyProxy
) -> None:
    writer = opened(world, impatient)
    late = Fault(Act.DELAY, "PUT", MANIFEST_PUT)
    proxy.plan(late, Fault(Act.REFUSE, "PUT", MANIFEST_PUT, status=403, times=ALWAYS))
    with pytest.raises(OutcomeUnknownError) as unknown:
        insert(writer, "n")

    judge = opened(world, replace(direct, lease_seconds=-5))
    late.release.set()
    assert late.forwarded.wait(60)

    assert unknown.value.commit_id not in history(world)
    assert "n" not in state(world)["node:A"]
    assert [row.kind for row in recovery_log.read_rows(judge.store)] == ["RolledBack"]
    assert list_sidecars(world.store) == ([], [])


def test_a_slow_swap_is_waited_for(world: Session, through: Options, proxy: FaultyProxy) -> None:
    writer = opened(world, through)
    proxy.plan(Fault(Act.DELAY, "PUT", MANIFEST_PUT, seconds=0.7))

    commit_id = insert(writer, "n")

    once_visible(world, commit_id)


def parked_swap(writer: Session, fault: Fault, proxy: FaultyProxy, between: Callable[[], None]) -> str:
    """A write whose swap is held while `between` happens; its commit id."""
    done: list[str] = []
    proxy.plan(fault)
    thread = threading.Thread(target=lambda: done.append(insert(writer, "parked", ("node:A",))))
    thread.start()
    assert fault.arrived.wait(60)
    between()
    fault.release.set()
    thread.join(60)
    assert done, "the parked write failed"
    return done[0]


@pytest.mark.usefixtures("apart", "asleep")
def test_a_swap_that_lands_behind_the_head_is_not_acknowledged_there(
    world: Session, through: Options, proxy: FaultyProxy
) -> None:
    writer = opened(world, through)
    others: list[str] = []

    def others_write_and_trim() -> None:
        others.extend(insert(world, f"o{number}", ("node:A",)) for number in range(4))
        world.head().table.trim(2, timedelta(0))

    fault = Fault(Act.DELAY, "PUT", MANIFEST_PUT)
    commit_id = parked_swap(writer, fault, proxy, others_write_and_trim)

    landed = [one.status for one in proxy.seen("PUT", MANIFEST_PUT)]
    assert landed == [200, 200], "the first swap landed behind the head, the second one on it"
    assert history(world)[:5] == [commit_id, *reversed(others)]
    assert set(state(world)["node:A"]) == {*"abcd", "o0", "o1", "o2", "o3", "parked"}


def sleeper_past_the_trim(world: Session, options: Options) -> Session:
    """A handle that holds a head whose successors are written and trimmed."""
    sleeper = opened(world, options)
    for number in range(4):
        insert(world, f"o{number}")
    world.head().table.trim(2, timedelta(0))
    return sleeper


@pytest.mark.usefixtures("asleep")
@pytest.mark.parametrize("place", ["local", "s3"])
def test_a_handle_that_slept_past_the_trim_writes_on_the_newest_state(
    place: str, world: Session, direct: Options, tmp_path: Path
) -> None:
    if place == "local":
        world = seeded_world(tmp_path / "g")
    sleeper = sleeper_past_the_trim(world, FAST if place == "local" else direct)

    commit_id = insert(sleeper, "late")

    assert history(world)[0] == commit_id
    assert len(history(world)) == 7
    assert set(state(world)["node:A"]) == {*"abcd", "o0", "o1", "o2", "o3", "late"}


@pytest.mark.usefixtures("asleep")
def test_a_handle_that_slept_past_the_trim_deletes_what_it_has_never_seen(world: Session, direct: Options) -> None:
    sleeper = sleeper_past_the_trim(world, direct)

    done = write_tables(sleeper, [TableWrite(table_key="node:A", delete=["o3"])], operation="delete", actor="x")

    assert done is not None
    assert "o3" not in state(world)["node:A"]


def test_a_delete_that_found_nothing_is_not_forgotten_when_the_write_is_moved(world: Session, direct: Options) -> None:
    writer = opened(world, direct)
    base = writer.head()
    insert(world, "x", ("node:B",))

    with pytest.raises(ConflictError) as conflict:
        write_tables(
            writer,
            [TableWrite(table_key="node:A", append=rows({"n": 1})), TableWrite(table_key="node:B", delete=["x"])],
            operation="w",
            actor="late",
            base=base,
        )

    assert conflict.value.table_key == "node:B"
    assert "n" not in state(world)["node:A"]


# --- no effect -------------------------------------------------------------------------------------

STEPS = {
    "the rows": r"/nodes/\w+/data/",
    "the sidecar": SIDECAR,
    "a table's version": r"/nodes/\w+/_versions/d\d+",
    "the head fragment": r"/__manifest/data/",
    "the swap": MANIFEST_PUT,
}
BEFORE_EFFECT = {
    "500": Fault(Act.REFUSE, "PUT", "", status=500),
    "503": Fault(Act.REFUSE, "PUT", "", status=503),
    "reset": Fault(Act.RESET, "PUT", ""),
}


@pytest.mark.parametrize(
    "how, step",
    [
        pytest.param(how, step, marks=() if how == "503" or step == "the swap" else pytest.mark.soak)
        for how in BEFORE_EFFECT
        for step in STEPS
    ],
)
def test_a_fault_that_passes_is_retried(
    how: str, step: str, world: Session, through: Options, proxy: FaultyProxy
) -> None:
    writer = opened(world, through)
    proxy.plan(replace(BEFORE_EFFECT[how], path=STEPS[step]))

    commit_id = insert(writer, "n")

    once_visible(world, commit_id)
    assert [one.status for one in proxy.seen("PUT", STEPS[step])][1] == 200


@pytest.mark.parametrize("step", [step for step in STEPS if step != "the swap"])
def test_a_fault_that_stays_ends_within_bounds_and_nothing_has_happened(
    step: str, world: Session, impatient: Options, proxy: FaultyProxy
) -> None:
    writer = opened(world, impatient)
    proxy.plan(Fault(Act.REFUSE, "PUT", STEPS[step], times=ALWAYS))

    with pytest.raises(StoreUnavailableError) as failed:
        insert(writer, "n")

    assert failed.value.kind is Kind.UNAVAILABLE
    assert proxy.count("PUT", STEPS[step]) <= 30
    assert len(history(world)) == 2
    assert list_sidecars(world.store) == ([], [])
    proxy.clear()
    assert insert(writer, "m")


@pytest.mark.soak
def test_a_swap_that_is_refused_for_good_is_unknown_within_bounds(
    world: Session, impatient: Options, proxy: FaultyProxy
) -> None:
    writer = opened(world, impatient)
    proxy.plan(Fault(Act.REFUSE, "PUT", MANIFEST_PUT, times=ALWAYS))

    with pytest.raises(OutcomeUnknownError):
        insert(writer, "n")

    assert proxy.count("PUT", MANIFEST_PUT) <= 40
    assert len(history(world)) == 2
    proxy.clear()
    assert insert(writer, "m")


@pytest.mark.parametrize("step", STEPS)
def test_refused_credentials_end_the_write_at_once(
    step: str, world: Session, through: Options, proxy: FaultyProxy
) -> None:
    writer = opened(world, through)
    proxy.plan(Fault(Act.REFUSE, "PUT", STEPS[step], status=403, times=ALWAYS))

    with pytest.raises(OutcomeUnknownError if step == "the swap" else StoreDeniedError) as refused:
        insert(writer, "n")

    # Files of the two tables are sent at the same time; none is sent twice.
    paths = [one.path for one in proxy.seen("PUT", STEPS[step])]
    assert len(paths) == len(set(paths)) <= 2
    assert "test" not in str(refused.value).split("omnigraph-tests")[0], "no credential is shown"
    assert len(history(world)) == 2
    proxy.clear()
    assert insert(writer, "m")


READS = {
    "the list of versions": r"list-type=2.*_versions",
    "the newest version": r"/__manifest/_versions/\d+",
    "the head fragment": r"/__manifest/data/",
    "a table's version": r"/nodes/\w+/_versions/d\d+",
    "the rows": r"/nodes/\w+/data/",
}


def read_afresh(world: Session, options: Options) -> dict[str, dict[str, int]]:
    return state(open_session(world.uri, is_read_only=True, runtime=runtime(options)))


@pytest.mark.parametrize("what", READS)
def test_a_read_that_breaks_off_is_read_again(what: str, world: Session, through: Options, proxy: FaultyProxy) -> None:
    proxy.plan(Fault(Act.TRUNCATE, "GET", READS[what]))

    seen = read_afresh(world, through)

    assert seen == state(world)
    assert proxy.seen("GET", READS[what])[0].act is Act.TRUNCATE


@pytest.mark.parametrize("what", READS)
def test_a_read_that_always_breaks_off_is_an_unavailable_store_and_never_a_short_result(
    what: str, world: Session, impatient: Options, proxy: FaultyProxy
) -> None:
    proxy.plan(Fault(Act.TRUNCATE, "GET", READS[what], times=ALWAYS))

    with pytest.raises(StoreUnavailableError) as failed:
        read_afresh(world, impatient)

    assert failed.value.kind is Kind.UNAVAILABLE
    assert proxy.count("GET") <= 60


@pytest.mark.parametrize("what", READS)
def test_a_read_that_is_refused_says_so_and_never_that_something_is_damaged(
    what: str, world: Session, impatient: Options, proxy: FaultyProxy
) -> None:
    proxy.plan(*(Fault(Act.REFUSE, method, READS[what], status=403, times=ALWAYS) for method in ("GET", "HEAD")))

    with pytest.raises(StoreDeniedError) as refused:
        read_afresh(world, impatient)

    assert refused.value.kind is Kind.DENIED
    assert proxy.count("GET") <= 30


# --- the sidecar under lost responses --------------------------------------------------------------


@pytest.mark.parametrize("how", ["lost", "told as 500", "told as 412"])
@pytest.mark.parametrize("put", ["arming", "confirming"])
def test_a_sidecar_whose_put_was_not_heard_of_is_recognised_as_our_own(
    put: str, how: str, world: Session, through: Options, proxy: FaultyProxy
) -> None:
    writer = opened(world, through)
    act = Act.LOSE if how == "lost" else Act.MISTELL
    proxy.plan(Fault(act, "PUT", SIDECAR, nth=1 if put == "arming" else 2, status=412 if "412" in how else 500))

    commit_id = insert(writer, "n")

    once_visible(world, commit_id)
    assert list_sidecars(world.store) == ([], [])


def lease_of(session: Session) -> Lease:
    return Lease(
        session.store,
        Sidecar(
            id=session.runtime.ids.ulid(),
            commit_id=session.runtime.ids.ulid(),
            branch="main",
            manifest_path="__manifest",
            base_seq=1,
            operation="w",
            actor="x",
            started_at="2026-01-01T00:00:00Z",
        ),
    )


def test_a_renewal_that_landed_unheard_does_not_fence_its_own_operation(
    world: Session, impatient: Options, proxy: FaultyProxy
) -> None:
    lease = lease_of(opened(world, impatient))
    lease.arm()
    proxy.plan(Fault(Act.LOSE, "PUT", SIDECAR, times=ALWAYS))
    with pytest.raises(StoreUnavailableError):
        lease.confirm(["nodes/first"])
    proxy.clear()

    lease.confirm(["nodes/second"])

    assert [found.sidecar.files for found in list_sidecars(world.store)[0]] == [("nodes/second",)]
    lease.disarm()


def test_a_fence_whose_response_is_lost_is_finished_by_the_next_pass(
    world: Session, impatient: Options, direct: Options, proxy: FaultyProxy
) -> None:
    lease = lease_of(opened(world, direct))
    lease.arm()
    lease.stop()
    judge = opened(world, replace(impatient, lease_seconds=60))
    judge.store.runtime = runtime(replace(impatient, lease_seconds=-5))
    proxy.plan(Fault(Act.LOSE, "PUT", SIDECAR))

    first = recover(judge.store, judge.log)
    second = recover(judge.store, judge.log)

    assert len(first.rolled_back) + len(second.rolled_back) == 1
    assert len(recovery_log.read_rows(world.store)) == 1
    assert list_sidecars(world.store) == ([], [])


# --- the proxy itself ------------------------------------------------------------------------------


def put_if_it_can(session: Session, key: str) -> None:
    with suppress(StoreUnavailableError):
        session.store.objects.put(key, b"1")


def test_the_proxy_ends_at_once_even_while_it_holds_a_request(server: dict[str, str]) -> None:
    fault = Fault(Act.DELAY, "PUT", "/held")
    with FaultyProxy(server["aws_endpoint"]) as proxy:
        options = replace(CALM, storage={**server, "aws_endpoint": proxy.endpoint})
        session = open_session(seeded_world(fresh_uri(), options).uri, is_read_only=True, runtime=runtime(options))
        proxy.plan(fault)
        # Whether the held request was still answered depends on the moment of the end; only that it ends is claimed.
        thread = threading.Thread(target=put_if_it_can, args=(session, "held"))
        thread.start()
        assert fault.arrived.wait(60)
        began = time.monotonic()
    ended = time.monotonic()
    thread.join(60)

    assert not thread.is_alive()
    assert ended - began < PATIENCE
