"""A disk that is full: a write says so and has no effect, and cleanup, which makes room, works all the same.

The disk is a small one in memory that only a process of its own sees. Where a process may not mount one, these tests
are skipped, and those at the end, whose disk is full by injection, remain.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lance import LanceDataset

import omnigraph as og
from branching import branch, put
from collecting import DAY, TABLES, again, collect, content, looked_at, pass_time, readable, small_world
from omnigraph.commit.branch_errors import OutcomeUnknownError
from omnigraph.commit.sidecar import list_sidecars
from omnigraph.errors import OmnigraphError
from omnigraph.ops.check_findings import FindingSeverity
from omnigraph.ops.session import Session
from omnigraph.ops.tag import create_tag
from omnigraph.storage.io_counters import convert_store_error
from omnigraph.storage.layout import DERIVED, EDGES, MANIFEST, NODES, RESERVE
from omnigraph.storage.object_store import StoreFullError, StoreUnavailableError
from upkeep_calls import AtPoint
from worlds import FAST

DISK_BYTES = 12 << 20
PAGE = 4_096
NO_SPACE = "LanceError(IO): Generic LocalFileSystem error: Unable to copy data: No space left on device (os error 28)"
IN_OWN_DISK = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
MOUNT = f'mount -t tmpfs -o size={DISK_BYTES} tmpfs "$0" && exec "$@"'


def in_own_disk(place: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process for which `place` is a small disk."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    return subprocess.run(
        [*IN_OWN_DISK, MOUNT, str(place), *command], env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("disk")
    if shutil.which("unshare") is None or in_own_disk(place, "true").returncode:
        pytest.skip("this process may not mount a disk")
    return place


def tell(place: Path, story: str) -> Any:
    """Run a story on a disk of its own; what it tells."""
    result = in_own_disk(place, sys.executable, __file__, story, str(place))
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.splitlines()[-1])


def test_a_write_ends_as_done_or_as_not_done_and_its_outcome_is_never_unknown(place: Path) -> None:
    told = tell(place, "writes")

    assert set(told["outcomes"]) == {"done", "store_full"}
    assert told["seen"] == told["done"]
    assert told["errors"] == []
    assert told["sidecars"] == 0


@pytest.mark.parametrize("what", ["graphs", "branches", "tags"])
def test_what_is_made_is_there_or_was_refused(place: Path, what: str) -> None:
    told = tell(place, f"creations: {what}")

    assert set(told["outcomes"]) == {"done", "store_full"}
    assert told["there"] == [number for number, one in enumerate(told["outcomes"]) if one == "done"]
    assert told["errors"] == []


@pytest.mark.parametrize("story", ["few versions", "many branches", "long history", "derived", "again"])
def test_cleanup_makes_room(place: Path, story: str) -> None:
    told = tell(place, f"cleanup: {story}")

    assert told["before"] == "store_full"
    assert told["removed"] > 0
    assert told["after"] == "done"
    assert told["readable"] == [told["newest"]]
    assert told["errors"] == []


@pytest.mark.parametrize("story", ["few versions", "long history", "derived"])
def test_no_file_of_a_table_goes_before_every_branch_knows(place: Path, story: str) -> None:
    told = tell(place, f"cleanup: {story}")

    assert told["files_at_floor"] == told["files_before"]


def test_a_cleanup_that_finds_no_room_even_so_says_that_and_has_removed_no_file_of_a_table(place: Path) -> None:
    told = tell(place, "cleanup: no reserve")

    assert told["outcome"] == "store_full"
    assert told["files_after"] == told["files_before"]
    assert told["errors"] == []


# --- stories: each is run in a process of its own, on a disk of its own ------------------------------------------


def leave(disk: Path, pages: int) -> None:
    """Fill the disk up to so many pages."""
    (disk / "filler").unlink(missing_ok=True)
    with (disk / "filler").open("wb", buffering=0) as file:
        free = os.statvfs(disk).f_bavail - pages
        file.write(bytes(free * PAGE))
    assert os.statvfs(disk).f_bavail == pages


def outcome(verb: Callable[[], object]) -> str:
    try:
        verb()
    except OmnigraphError as error:
        return error.code
    return "done"


def errors(session: Session) -> list[str]:
    found = og.check_graph(session.uri, runtime=session.runtime).findings
    return [one.message for one in found if one.severity is FindingSeverity.ERROR]


def table_files(session: Session) -> list[str]:
    return [info.key for room in (NODES, EDGES) for info in session.store.objects.list_under(room)]


def tell_writes(disk: Path) -> object:
    session = small_world(disk / "g")
    put(session, {"a": 0}, *TABLES)
    outcomes, done = [], 0
    for pages in range(40):
        leave(disk, pages)
        outcomes.append(outcome(partial(put, session, {"a": pages}, *TABLES)))
        done = pages if outcomes[-1] == "done" else done
        leave(disk, 60)
        assert content(session, session.resolve_snapshot()) == {"node:A": {"a": done}, "node:B": {"a": done}}
    seen = content(again(session), session.resolve_snapshot())["node:A"]["a"]
    sidecars = len(list_sidecars(session.store)[0])
    return {"outcomes": outcomes, "seen": seen, "done": done, "errors": errors(session), "sidecars": sidecars}


def tell_creations(disk: Path, what: str) -> object:
    session = small_world(disk / "g")
    verbs: dict[str, Callable[[str], object]] = {
        "graphs": lambda name: small_world(disk / name),
        "branches": lambda name: branch(session, name),
        "tags": lambda name: create_tag(session, name, actor="test"),
    }
    outcomes = []
    for pages in range(24):
        leave(disk, pages)
        outcomes.append(outcome(partial(verbs[what], f"n{pages}")))
    leave(disk, 60)
    found: Iterable[str]
    if what == "graphs":
        found = [one.name for one in disk.glob("n*") if outcome(partial(looked_at, str(one))) == "done"]
    else:
        manifest = again(session).head().snapshot.manifest
        found = manifest.live_branches if what == "branches" else manifest.tags
    return {"outcomes": outcomes, "there": sorted(int(name[1:]) for name in found), "errors": errors(session)}


def tell_cleanup(disk: Path, story: str) -> object:
    has_reserve = story in {"few versions", "many branches", "again"}
    options = replace(FAST, reserve_bytes=256 * 1024 if has_reserve else 0)
    rows = 20_000 if has_reserve else 1_000
    session = small_world(disk / "g", options)
    for number in range(40 if story == "long history" else 3):
        put(session, {f"r{row}": number for row in range(rows)})
    if story == "many branches":
        for number in range(6):
            branch(session, f"b{number}")
    pass_time(session.uri, 2 * DAY)
    if story == "again":  # the reserve was used once, and is there again
        leave(disk, 0)
        collect(again(session, options=options))
        (disk / "filler").unlink()
        put(session, {f"r{row}": -1 for row in range(rows)})
        pass_time(session.uri, 2 * DAY)
    if story == "derived":
        (disk / "g" / DERIVED).mkdir(exist_ok=True)
        (disk / "g" / DERIVED / "topology-0123456789abcdef").write_bytes(bytes(64 * PAGE))
    leave(disk, 0)
    before, files_before, at_floor = outcome(lambda: put(session, {"late": 1})), table_files(session), []
    faults = AtPoint("cleanup.floor", lambda: at_floor.extend(table_files(session)))
    newest = session.head().snapshot.commit.seq
    if story == "no reserve":
        ended = outcome(lambda: collect(again(session, options=options, faults=faults)))
        files = {"files_before": files_before, "files_after": table_files(session)}
        return {"outcome": ended, **files, "errors": errors(session)}
    removed = collect(again(session, options=options, faults=faults)).bytes_removed
    seen = readable(session)
    told = {"before": before, "removed": removed, "after": outcome(lambda: put(session, {"late": 1}))}
    told |= {"files_before": files_before, "files_at_floor": at_floor, "readable": seen, "newest": newest}
    return {**told, "errors": errors(session)}


def tell_story(story: str, disk: Path) -> object:
    name, _, rest = story.partition(": ")
    if name == "writes":
        return tell_writes(disk)
    return tell_cleanup(disk, rest) if name == "cleanup" else tell_creations(disk, rest)


# --- a disk that is full by injection: wherever tests run --------------------------------------------------------


def swaps_fail(monkeypatch: pytest.MonkeyPatch, reason: str, times: int = 10**9) -> None:
    """Let Lance fail to make versions of manifests."""
    right, left = LanceDataset.commit, [times]

    def commit(base: LanceDataset, transaction: Any, **options: Any) -> LanceDataset:
        if not options.get("detached") and left[0]:
            left[0] -= 1
            raise OSError(reason)
        return right(base, transaction, **options)

    monkeypatch.setattr(LanceDataset, "commit", staticmethod(commit))


def without_notes(session: Session) -> list[str]:
    """All files of tables but Lance's own notes on transactions, which no version needs."""
    return [key for key in table_files(session) if "/_transactions/" not in key]


def manifest_data(session: Session) -> list[str]:
    return [info.key for info in session.store.objects.list_under(f"{MANIFEST}/data")]


@pytest.mark.parametrize("error", ["No space left on device (os error 28)", "Disk quota exceeded (os error 122)"])
def test_what_the_system_says_of_a_full_disk_is_known(error: str) -> None:
    assert convert_store_error("write", OSError(f"LanceError(IO): {error}")).code == "store_full"


def test_a_swap_that_a_full_disk_refuses_has_a_known_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = small_world(tmp_path / "g")
    put(session, {"a": 1}, *TABLES)
    before, heads = without_notes(session), manifest_data(session)
    swaps_fail(monkeypatch, NO_SPACE)

    with pytest.raises(StoreFullError):
        put(session, {"a": 2}, *TABLES)

    monkeypatch.undo()
    assert without_notes(session) == before
    assert manifest_data(session) == heads
    assert list_sidecars(session.store) == ([], [])
    assert put(session, {"a": 3}, *TABLES)


def test_a_swap_that_a_disk_fails_to_answer_has_an_unknown_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = small_world(tmp_path / "g")
    swaps_fail(monkeypatch, "LanceError(IO): Connection timed out (os error 110)")

    with pytest.raises(OutcomeUnknownError):
        put(session, {"a": 2})


def test_a_floor_whose_swap_is_not_answered_tells_nothing_of_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = small_world(tmp_path / "g")
    for number in range(3):
        put(session, {"a": number})
    pass_time(session.uri, 2 * DAY)
    swaps_fail(monkeypatch, "LanceError(IO): Connection timed out (os error 110)")

    with pytest.raises(StoreUnavailableError, match="the horizon of `main`") as failed:
        collect(session)

    assert failed.value.code == "store_unavailable"


def test_cleanup_makes_room_for_its_floor_and_keeps_some_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = replace(FAST, reserve_bytes=PAGE)
    session = small_world(tmp_path / "g", options)
    for number in range(3):
        put(session, {"a": number})
    pass_time(session.uri, 2 * DAY)
    reserve = tmp_path / "g" / RESERVE
    first, before, at_floor = reserve.read_bytes(), table_files(session), list[str]()
    faults = AtPoint("cleanup.floor", lambda: at_floor.extend(table_files(session)))
    cleaner = again(session, options=options, faults=faults)
    swaps_fail(monkeypatch, NO_SPACE, times=1)

    done = collect(cleaner)

    assert at_floor == before
    assert done.bytes_removed > 0
    assert len(reserve.read_bytes()) == PAGE
    assert reserve.read_bytes() != first
    assert done.unknown_files == ()
    assert [one.code for one in og.check_graph(session.uri, runtime=session.runtime).findings] == []


if __name__ == "__main__":
    sys.stdout.write(json.dumps(tell_story(sys.argv[1], Path(sys.argv[2]))) + "\n")
