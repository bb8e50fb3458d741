"""Where a clone may be made, and what becomes of one that was begun and not finished."""

import errno
import os
import shutil
import threading
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from cloning import Every, branched, cloned, on, opened, present, readable, tree
from mutating import new_graph, run
from omnigraph.commit import clone_lock
from omnigraph.commit.clone_lock import CloneLock, find_clones
from omnigraph.commit.manifest_log import NotAGraphError, UnfinishedCloneError
from omnigraph.commit.place_errors import PlaceTakenError
from omnigraph.commit.sidecar import Lease
from omnigraph.errors import BadArgumentError
from omnigraph.faults import InjectedFaultError
from omnigraph.ops import clone as clone_verb
from omnigraph.options import Durability
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.uri import parse_uri
from raised_codes import has_code
from upkeep_calls import AtPoint
from worlds import FAST, runtime


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    return branched(tmp_path_factory.mktemp("template")).uri


@pytest.fixture
def graph(template: str, tmp_path: Path) -> og.Graph:
    return og.open_graph(str(shutil.copytree(template, tmp_path / "g")), runtime=runtime())


def store_at(place: Path) -> GraphStorage:
    return GraphStorage(parse_uri(str(place)), runtime())


# --- the place --------------------------------------------------------------------------------------


def test_a_graph_is_never_written_over(graph: og.Graph, tmp_path: Path) -> None:
    other = new_graph(tmp_path / "there")
    before = tree(other.uri)

    with pytest.raises(og.PlaceTakenError) as raised:
        cloned(graph, other.uri)

    assert "holds a graph" in str(raised.value)
    assert tree(other.uri) == before


def test_a_directory_with_anything_in_it_is_refused(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "notes.txt").write_text("mine")

    with pytest.raises(og.PlaceTakenError) as raised:
        cloned(graph, tmp_path / "c")

    assert "`notes.txt`" in str(raised.value)
    assert list(tree(tmp_path / "c")) == ["notes.txt"]


@pytest.mark.parametrize("empty", ["c", "c/__recovery"])
def test_an_empty_directory_will_do(empty: str, graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / empty).mkdir(parents=True)

    cloned(graph, tmp_path / "c")

    assert present(opened(tmp_path / "c")) == present(graph)


@pytest.mark.parametrize("place", ["g", "g/nodes/c", "g/../g", "", "link", "link/c"])
def test_a_clone_is_never_inside_of_its_source_or_around_it(place: str, graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "g")
    before = tree(graph.uri)

    with pytest.raises(BadArgumentError, check=has_code("nested_places")):
        cloned(graph, tmp_path / place)

    assert tree(graph.uri) == before


def test_a_place_whose_name_only_begins_alike_is_another_one(graph: og.Graph, tmp_path: Path) -> None:
    cloned(graph, tmp_path / "g2")

    assert present(opened(tmp_path / "g2")) == present(graph)


def test_there_must_be_a_graph_to_clone(tmp_path: Path) -> None:
    with pytest.raises(NotAGraphError):
        cloned(str(tmp_path / "nothing"), tmp_path / "c")

    assert not (tmp_path / "c").exists()


def test_a_branch_that_is_not_there_is_told_before_anything_is_written(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(og.BranchMissingError) as raised:
        cloned(graph, tmp_path / "c", branches=["reviw"])

    assert raised.value.near == "review"
    assert not (tmp_path / "c").exists()


# --- half-done clones -------------------------------------------------------------------------------


def failing(point: str, times: int = 1) -> Every:
    left = [times]

    def fail() -> None:
        left[0] -= 1
        if not left[0]:
            raise InjectedFaultError(point)

    return Every(point, fail)


def test_a_clone_that_failed_is_no_graph_and_says_so(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(InjectedFaultError):
        cloned(graph, tmp_path / "c", faults=failing("clone.ready"))

    with pytest.raises(UnfinishedCloneError) as raised:
        opened(tmp_path / "c")
    assert f"unfinished clone of {graph.uri}" in str(raised.value)
    assert f"omnigraph clone {graph.uri} {tmp_path / 'c'}" in str(raised.value)


def test_no_graph_is_made_where_a_clone_is_unfinished(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(InjectedFaultError):
        cloned(graph, tmp_path / "c", faults=failing("clone.claimed"))

    with pytest.raises(UnfinishedCloneError):
        og.create_graph(str(tmp_path / "c"), "node A { v: I64 }", runtime=runtime())


def test_the_same_clone_goes_on_at_once_and_copies_only_what_is_missing(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(InjectedFaultError):
        cloned(graph, tmp_path / "c", faults=failing("clone.flushed"))

    run(graph, 'insert Person { name: "later" }')
    done = cloned(graph, tmp_path / "c")

    # The new rows and their version; and the first version of each table, whose name may be reused.
    assert done.files == 2 + 6
    assert readable(opened(tmp_path / "c")) == readable(graph)
    assert find_clones(store_at(tmp_path / "c")) == []


def test_what_an_earlier_try_copied_and_nobody_needs_goes(graph: og.Graph, tmp_path: Path) -> None:
    graph.branches.create("other")
    on(graph, "other", 'insert Person { name: "only here" }')
    with pytest.raises(InjectedFaultError):
        cloned(graph, tmp_path / "c", faults=failing("clone.ready"))

    cloned(graph, tmp_path / "c", branches=["main"])
    cloned(graph, tmp_path / "fresh", branches=["main"])

    there, expected = (
        sorted(path for path in tree(tmp_path / name) if not path.startswith("__manifest/data"))
        for name in ("c", "fresh")
    )
    assert there == expected
    assert len(tree(tmp_path / "c")) == len(tree(tmp_path / "fresh"))


def test_a_file_that_came_short_is_copied_again(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(InjectedFaultError):
        cloned(graph, tmp_path / "c", faults=failing("clone.flushed"))
    short = next((tmp_path / "c" / "nodes").glob("*/data/*.lance"))
    short.write_bytes(short.read_bytes()[:10])

    cloned(graph, tmp_path / "c")

    assert readable(opened(tmp_path / "c")) == readable(graph)


def test_an_unfinished_clone_of_another_graph_is_not_gone_on_with(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(InjectedFaultError):
        cloned(graph, tmp_path / "c", faults=failing("clone.flushed"))
    before = tree(tmp_path / "c")

    with pytest.raises(og.PlaceTakenError) as raised:
        cloned(new_graph(tmp_path / "other"), tmp_path / "c")

    assert f"an unfinished clone of another graph, {graph.uri}" in str(raised.value)
    assert tree(tmp_path / "c") == before


def test_two_clones_are_not_made_at_one_place(graph: og.Graph, tmp_path: Path) -> None:
    found: list[PlaceTakenError] = []

    def again() -> None:
        with pytest.raises(PlaceTakenError, check=has_code("clone_busy")) as raised:
            cloned(graph, tmp_path / "c")
        found.append(raised.value)

    cloned(graph, tmp_path / "c", faults=AtPoint("clone.copied", again))

    assert len(found) == 1
    assert readable(opened(tmp_path / "c")) == readable(graph)


def test_of_two_that_claim_a_place_in_one_moment_one_gets_it(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, armed = threading.Barrier(2), Lease.arm

    def arm_together(lease: Lease) -> None:
        armed(lease)
        with suppress(threading.BrokenBarrierError):  # whoever tries again is alone
            both.wait(timeout=60)
        both.abort()

    monkeypatch.setattr(Lease, "arm", arm_together)
    ended: list[str] = []

    def clone() -> None:
        try:
            cloned(graph, tmp_path / "c", options=replace(FAST, lease_seconds=60))
        except (PlaceTakenError, og.PlaceTakenError) as error:
            ended.append(error.code)
        else:
            ended.append("done")
        finally:
            both.abort()  # one that was refused before it armed will not come

    threads = [threading.Thread(target=clone) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert ended.count("done") == 1
    assert len(ended) == 2
    assert readable(opened(tmp_path / "c")) == readable(graph)


def test_a_clone_that_was_made_before_the_place_was_claimed_is_left_alone(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before: dict[str, tuple[int, int]] = {}

    def claim_late(*arguments: Any) -> AbstractContextManager[CloneLock]:
        monkeypatch.undo()
        cloned(graph, tmp_path / "c")
        before.update(tree(tmp_path / "c"))
        return clone_lock.lock_clone_target(*arguments)

    monkeypatch.setattr(clone_verb, "lock_clone_target", claim_late)
    with pytest.raises(og.PlaceTakenError):
        cloned(graph, tmp_path / "c")

    assert tree(tmp_path / "c") == before


def test_one_file_that_fails_stops_the_others(graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = os.copy_file_range
    tried: list[int] = []

    def full(source: int, target: int, count: int) -> int:
        tried.append(source)
        if len(tried) == 60:  # among the files of tables: the manifests come before
            raise OSError(errno.ENOSPC, "full")
        return copied(source, target, count)

    monkeypatch.setattr(os, "copy_file_range", full)
    with pytest.raises(og.StoreUnavailableError) as raised:
        cloned(graph, tmp_path / "c")
    monkeypatch.undo()

    assert "No space left on device" in str(raised.value)
    assert [path for path in tree(tmp_path / "c") if path.endswith(".part")] == []
    assert cloned(graph, tmp_path / "c").files > 0
    assert present(opened(tmp_path / "c")) == present(graph)


def test_a_clone_that_was_taken_over_does_not_become_a_graph(graph: og.Graph, tmp_path: Path) -> None:
    """Its maker slept for longer than its lease, and somebody else has made the clone, and written to it, since."""

    def overtake() -> None:
        cloned(graph, tmp_path / "c", options=replace(FAST, lease_seconds=-1))
        run(og.open_graph(str(tmp_path / "c"), runtime=runtime()), 'insert Person { name: "theirs" }')

    with pytest.raises(og.FencedError):
        cloned(graph, tmp_path / "c", faults=AtPoint("clone.ready", overtake))

    assert b'"theirs"' in present(opened(tmp_path / "c"))["main"]


def test_a_graph_that_is_made_at_the_target_meanwhile_stays(graph: og.Graph, tmp_path: Path) -> None:
    shutil.copytree(new_graph(tmp_path / "other").uri, tmp_path / "theirs")

    def made() -> None:
        for name in ("__manifest", "nodes", "edges"):
            shutil.copytree(tmp_path / "theirs" / name, tmp_path / "c" / name, dirs_exist_ok=True)

    with pytest.raises(og.PlaceTakenError) as raised:
        cloned(graph, tmp_path / "c", faults=AtPoint("clone.flushed", made))

    assert "created at the same time" in str(raised.value)
    assert list(present(opened(tmp_path / "c"))) == ["main"]


def test_a_clone_whose_claim_alone_was_left_is_finished_by_the_next_call(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(InjectedFaultError):
        cloned(graph, tmp_path / "c", faults=failing("clone.placed"))

    done = cloned(graph, tmp_path / "c")

    assert (done.files, done.branches["main"]) == (0, graph.snapshot().commit.id)
    assert find_clones(store_at(tmp_path / "c")) == []


def test_a_claim_that_was_left_goes_when_the_clone_is_opened(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(InjectedFaultError):
        cloned(graph, tmp_path / "c", faults=failing("clone.placed"))

    made = og.open_graph(str(tmp_path / "c"), runtime=runtime())

    assert find_clones(store_at(tmp_path / "c")) == []
    assert present(made) == present(graph)


# --- durability -------------------------------------------------------------------------------------


def test_every_file_and_directory_is_flushed_before_the_last_one(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: set[int] = set()
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        flushed.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def files() -> dict[Path, int]:
        return {path: path.stat().st_ino for path in (tmp_path / "c").rglob("*") if path.is_file()}

    def look() -> None:
        there.update(files())
        directories = {path.parent for path in there} | {tmp_path / "c", tmp_path}
        unsafe.extend(path for path, number in there.items() if number not in flushed)
        unsafe.extend(path for path in directories if path.stat().st_ino not in flushed)
        flushed.clear()

    there: dict[Path, int] = {}
    unsafe: list[Path] = []
    monkeypatch.setattr(os, "fsync", watched)
    cloned(
        graph,
        tmp_path / "c",
        faults=Every("clone.ready", look),
        options=replace(FAST, durability=Durability.FSYNC),
    )

    (last,) = files().keys() - there.keys()
    assert unsafe == []
    assert last.parent == tmp_path / "c" / "__manifest" / "_versions"
    assert {last.stat().st_ino, last.parent.stat().st_ino} <= flushed
