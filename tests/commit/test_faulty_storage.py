"""A store that fails at the worst moment: never a wedge, never a double commit, never a lie."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lance import LanceDataset

from omnigraph.commit import recovery_log
from omnigraph.commit.branch_errors import OutcomeUnknownError
from omnigraph.commit.recovery import recover
from omnigraph.commit.sidecar import Sidecar, list_sidecars
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import RECOVERY
from omnigraph.storage.object_store import StoreUnavailableError
from worlds import reopened, rows, runtime, seeded_world, state

TWO = ("node:A", "node:B")
pytestmark = pytest.mark.usefixtures("with_sidecars")


class Faulty:
    """An ObjectStore whose named methods fail on keys under `prefix`, `times` times."""

    def __init__(self, inner: object, method: str, prefix: str = RECOVERY, times: int = 10**9) -> None:
        self._inner, self._method, self._prefix, self.left = inner, method, prefix, times

    def __getattr__(self, name: str) -> Callable[..., object]:
        right = getattr(self._inner, name)

        def call(*arguments: object) -> object:
            if name == self._method and str(arguments[0]).startswith(self._prefix) and self.left:
                self.left -= 1
                raise StoreUnavailableError(f"{name} {arguments[0]}", "injected")
            return right(*arguments)

        return call


@pytest.fixture
def world(tmp_path: Path) -> Session:
    return seeded_world(tmp_path / "g")


def break_store(session: Session, method: str, times: int = 10**9) -> None:
    session.store.objects = Faulty(session.store.objects, method, times=times)  # type: ignore[assignment]


def write_two(session: Session, value: int = 7) -> str:
    done = write_tables(
        session, [TableWrite(table_key=key, append=rows({"n": value})) for key in TWO], operation="w", actor="x"
    )
    assert done is not None
    return done.commit.id


def test_a_sidecar_that_cannot_be_put_ends_the_write_and_nothing_happened(world: Session) -> None:
    before = state(world)
    break_store(world, "put_if_absent")

    with pytest.raises(StoreUnavailableError):
        write_two(world)

    assert state(world) == before
    assert write_two(reopened(world))


def test_a_sidecar_that_cannot_be_deleted_is_only_a_warning(world: Session, caplog: pytest.LogCaptureFixture) -> None:
    break_store(world, "delete")

    commit_id = write_two(world)

    assert world.head().snapshot.commit.id == commit_id
    assert "was not removed" in caplog.text
    healed = reopened(world)
    assert list_sidecars(healed.store) == ([], [])
    assert [row.kind for row in recovery_log.read_rows(healed.store)] == ["RolledForward"]
    outcomes = json.loads(recovery_log.read_rows(healed.store)[0].outcomes)
    assert outcomes["operation"] == "w"
    assert [(one["table"], one["outcome"]) for one in outcomes["tables"]] == sorted(
        (world.resolve_snapshot().pin(key).path, "RolledForward") for key in TWO
    )
    assert state(healed)["node:A"]["n"] == 7


def test_a_listing_that_fails_is_loud_for_recovery_and_silent_for_writes(
    world: Session, caplog: pytest.LogCaptureFixture
) -> None:
    break_store(world, "list_under")

    with pytest.raises(StoreUnavailableError):
        recover(world.store, world.log)
    commit_id = write_two(world)

    assert world.head().snapshot.commit.id == commit_id
    assert caplog.text == ""


def failing_commits(
    monkeypatch: pytest.MonkeyPatch, is_hit: Callable[[dict[str, object]], bool], how: str, times: int
) -> None:
    """Make Lance's commit fail for some calls: before it has an effect, or after."""
    right = LanceDataset.commit
    left = [times]

    def commit(base: LanceDataset, transaction: Any, **options: Any) -> LanceDataset:
        if left[0] and is_hit(options):
            left[0] -= 1
            if how == "after":
                right(base, transaction, **options)
            raise OSError("injected: connection reset")
        return right(base, transaction, **options)

    monkeypatch.setattr(LanceDataset, "commit", staticmethod(commit))


def swapping(options: dict[str, object]) -> bool:
    return not options.get("detached")


def test_a_version_that_can_not_be_written_leaves_nothing(world: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state(world)
    files = table_files(world)
    right = GraphStorage.write_file
    calls = iter([False, True])

    def write(store: GraphStorage, path: str, data: bytes) -> None:
        if "/_versions/" in path and next(calls, False):
            raise StoreUnavailableError("write a file", "injected")
        right(store, path, data)

    monkeypatch.setattr(GraphStorage, "write_file", write)

    with pytest.raises(StoreUnavailableError, match="injected"):
        write_two(world)

    assert state(world) == before
    assert table_files(world) == files
    assert list_sidecars(world.store) == ([], [])
    assert write_two(world)


def table_files(session: Session) -> list[str]:
    """All but Lance's own notes on transactions, which no version needs."""
    return [info.key for info in session.store.objects.list_under("nodes") if "/_transactions/" not in info.key]


@pytest.mark.parametrize("times", [1, 3])
def test_a_lost_response_of_the_swap_ends_as_committed_with_the_right_id(
    times: int, world: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_commits(monkeypatch, swapping, "after", times)

    commit_id = write_two(world)

    history = list(world.log.iter_history(reopened(world).head()))
    assert [commit.id for commit in history].count(commit_id) == 1
    assert len(history) == 3
    assert state(world)["node:A"]["n"] == 7


def test_a_response_that_stays_lost_is_settled_by_looking(world: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_commits(monkeypatch, swapping, "after", 10**9)

    commit_id = write_two(world)

    assert reopened(world).head().snapshot.commit.id == commit_id


def test_a_swap_that_never_happens_and_can_never_be_asked_is_unknown(
    world: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(world)
    failing_commits(monkeypatch, swapping, "before", 10**9)

    with pytest.raises(OutcomeUnknownError) as unknown:
        write_two(world)

    monkeypatch.undo()
    assert unknown.value.commit_id not in [commit.id for commit in world.log.iter_history(world.head())]
    assert state(world) == before
    assert len(list_sidecars(world.store)[0]) == 1, "the sidecar stays: recovery decides"
    assert write_two(world)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff not json",
        b"[]",
        b'{"format": 1}',
        b'{"format": 99, "id": "x"}',
        b'{"format": 1, "id": "x", "new": 1}',
    ],
)
def test_a_broken_sidecar_blocks_nothing_and_is_reported(
    content: bytes, world: Session, caplog: pytest.LogCaptureFixture
) -> None:
    world.store.objects.put(f"{RECOVERY}/broken.json", content)

    opened = reopened(world)
    write_two(opened)
    report = recover(opened.store, opened.log)

    assert [broken.key for broken in report.broken] == [f"{RECOVERY}/broken.json"]
    assert "broken.json" in caplog.text
    assert opened.store.objects.get(f"{RECOVERY}/broken.json").data == content


@pytest.mark.parametrize(
    "fields",
    [
        {"files": ["../precious"]},
        {"files": ["/tmp/precious"]},  # noqa: S108 - a text, and refused
        {"files": ["nodes/../precious"]},
        {"files": ["__manifest/_versions/1.manifest"]},
        {"files": ["nodes"]},
        {"manifest_path": "../other/__manifest"},
    ],
)
def test_a_sidecar_that_names_what_no_operation_makes_is_broken_and_nothing_is_deleted(
    fields: dict[str, Any], world: Session
) -> None:
    precious = Path(world.uri).parent / "precious"
    precious.write_text("mine")
    dead = Sidecar(
        id="01", commit_id="02", branch="main", manifest_path="__manifest", base_seq=0, operation="w", actor="a",
        started_at="", state="abandoned",
    )  # fmt: skip
    content = msgspec.json.encode(msgspec.structs.replace(dead, **fields))
    world.store.objects.put(f"{RECOVERY}/01.json", content)
    before = [info.key for info in world.store.objects.list_under("__manifest")]

    report = recover(world.store, world.log)

    assert [broken.key for broken in report.broken] == [f"{RECOVERY}/01.json"]
    assert precious.read_text() == "mine"
    assert [info.key for info in world.store.objects.list_under("__manifest")] == before


def test_an_audit_that_fails_keeps_the_sidecar_and_the_retry_writes_one_row(
    world: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_store(world, "delete", times=1)
    write_two(world)
    opened = open_session(world.uri, is_read_only=True, runtime=runtime())
    failing_commits(monkeypatch, swapping, "before", 1)

    first = recover(opened.store, opened.log)
    second = recover(opened.store, opened.log)

    assert len(first.failed) == 1
    assert len(second.rolled_forward) == 1
    assert len(recovery_log.read_rows(opened.store)) == 1
    assert list_sidecars(opened.store) == ([], [])
