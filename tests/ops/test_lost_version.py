"""The newest version of a manifest that is gone, or replaced by its predecessor, is damage, not a roll-back."""

import os
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

import omnigraph as og
from damaging import codes, made
from omnigraph.clock import SystemClock
from omnigraph.ops.check_findings import FindingSeverity
from omnigraph.runtime import Runtime
from omnigraph.storage.cas_table_errors import NewestVersionDamagedError
from omnigraph.storage.layout import parse_version_number
from worlds import FAST, runtime


class SleepCounter(SystemClock):
    """A clock that counts how often a caller waits, as a writer does before each further try."""

    def __init__(self) -> None:
        super().__init__()
        self.sleeps = 0

    def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        super().sleep(seconds)


INSERT = 'query q() { insert P { name: "new" } }'
NAMES = "query q() { match { $p: P } return { $p.name } }"


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a graph with a branch, to be copied by each test."""
    root = tmp_path_factory.mktemp("pristine") / "graph"
    made(root)
    return root


def remove_newest(versions: Path) -> None:
    min(versions.glob("*.manifest")).unlink()


def remove_three(versions: Path) -> None:
    for path in sorted(versions.glob("*.manifest"))[:3]:
        path.unlink()


def replace_newest(versions: Path) -> None:
    newest, before = sorted(versions.glob("*.manifest"))[:2]
    shutil.copy(before, newest)


LOSSES: dict[str, Callable[[Path], None]] = {
    "removed": remove_newest,
    "three removed": remove_three,
    "replaced by its predecessor": replace_newest,
}


CASES = [*product(LOSSES, ["main"]), ("removed", "side"), ("replaced by its predecessor", "side")]


def damage(pristine: Path, root: Path, loss: str, branch: str) -> Path:
    """Copy a graph, and damage the manifest of a branch."""
    shutil.copytree(pristine, root)
    manifest = root / "__manifest" if branch == "main" else next((root / "__branches").iterdir())
    LOSSES[loss](manifest / "_versions")
    return root


@pytest.mark.parametrize("loss, branch", CASES)
def test_it_is_told_by_reads_writes_cleanup_and_check(pristine: Path, tmp_path: Path, loss: str, branch: str) -> None:
    root = damage(pristine, tmp_path / "graph", loss, branch)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}

    verbs: list[Callable[[og.Graph], object]] = [
        lambda graph: graph.query(NAMES, branch=branch),
        lambda graph: graph.mutate(INSERT, branch=branch),
        lambda graph: graph.cleanup(keep=1, confirm=True),
    ]
    for verb in verbs:
        with pytest.raises(NewestVersionDamagedError), og.open_graph(str(root), runtime=runtime()) as graph:
            verb(graph)
    with og.open_graph(str(root), read_only=True, runtime=runtime()) as graph:
        for _ in range(2):
            with pytest.raises(NewestVersionDamagedError):
                graph.query(NAMES, branch=branch)
    found = codes(str(root), FindingSeverity.ERROR)

    assert "manifest_damaged" in found
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()} == before


def test_a_handle_that_has_not_seen_it_does_not_make_it_anew(pristine: Path, tmp_path: Path) -> None:
    root = tmp_path / "graph"
    shutil.copytree(pristine, root)
    with og.open_graph(str(root), runtime=runtime()) as waiting:
        with og.open_graph(str(root), runtime=runtime()) as graph:
            graph.mutate(INSERT)
        remove_newest(root / "__manifest" / "_versions")

        with pytest.raises(NewestVersionDamagedError):
            waiting.mutate('query q() { insert P { name: "other" } }')

    assert "manifest_damaged" in codes(str(root), FindingSeverity.ERROR)


@pytest.mark.parametrize("loss, branch", CASES)
def test_a_repair_goes_back_and_says_so(pristine: Path, tmp_path: Path, loss: str, branch: str) -> None:
    root = damage(pristine, tmp_path / "graph", loss, branch)

    og.repair_graph(root, runtime=runtime(), confirm=True, force=True)
    with og.open_graph(str(root), runtime=runtime()) as graph:
        graph.mutate(INSERT, branch=branch)
        rows = graph.query(NAMES, branch=branch).rows()
        operations = [commit.operation for commit in graph.commits(branch=branch)]

    assert {"p.name": "new"} in rows
    assert "repair" in operations
    assert codes(str(root), FindingSeverity.ERROR) == []


@pytest.mark.parametrize("content", ["", "{", '{"version":true}', '{"version":4294967296}', '{"version":1}', "[7]"])
def test_a_hint_that_says_nothing_possible_is_ignored(pristine: Path, tmp_path: Path, content: str) -> None:
    root = tmp_path / "graph"
    shutil.copytree(pristine, root)
    (root / "__manifest" / "_versions" / "latest_version_hint.json").write_text(content)

    with og.open_graph(str(root), runtime=runtime()) as graph:
        graph.mutate(INSERT)

        assert {"p.name": "new"} in graph.query(NAMES).rows()


def test_a_version_that_comes_between_the_look_and_the_hint_is_found(pristine: Path, tmp_path: Path) -> None:
    root = tmp_path / "graph"
    shutil.copytree(pristine, root)
    versions = root / "__manifest" / "_versions"
    newest = parse_version_number(min(versions.glob("*.manifest")).name)

    with og.open_graph(str(root), runtime=runtime()) as graph:
        graph.mutate(INSERT)
        (versions / "latest_version_hint.json").write_text(f'{{"version":{newest + 1}}}')

    with og.open_graph(str(root), runtime=runtime()) as graph:
        assert graph.snapshot().manifest_version == newest + 1


@pytest.mark.parametrize("branch", ["main", "side"])
def test_a_write_does_not_spin_where_the_next_version_is_taken_and_nothing_has_moved(
    pristine: Path, tmp_path: Path, branch: str
) -> None:
    root = damage(pristine, tmp_path / "graph", "replaced by its predecessor", branch)
    manifest = root / "__manifest" if branch == "main" else next((root / "__branches").iterdir())
    (manifest / "_versions" / "latest_version_hint.json").unlink()  # as on an object store, which has none
    clock = SleepCounter()

    with (
        pytest.raises(NewestVersionDamagedError),
        og.open_graph(str(root), runtime=Runtime(clock=clock, options=FAST)) as graph,
    ):
        graph.mutate(INSERT, branch=branch)

    assert clock.sleeps <= 3


def test_a_version_is_missed_by_the_note_of_its_checksum_where_the_hint_is_gone_too(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = og.create_graph(str(root), "node P { name: String @key }", runtime=runtime())
    graph.load([{"type": "P", "data": {"name": "a"}}], mode="append")
    versions = root / "__manifest" / "_versions"
    newest = min(versions.glob("*.manifest"))  # Lance counts the names of versions down
    newest.unlink()
    (versions / "latest_version_hint.json").unlink()

    with pytest.raises(NewestVersionDamagedError):
        og.open_graph(str(root), runtime=runtime()).snapshot()


def test_a_backup_by_hard_links_is_not_changed_by_the_next_commit(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = og.create_graph(str(root), "node P { name: String @key }", runtime=runtime())
    shutil.copytree(root, tmp_path / "backup", copy_function=os.link)

    graph.load([{"type": "P", "data": {"name": "a"}}], mode="append")
    backup = og.open_graph(str(tmp_path / "backup"), runtime=runtime())

    assert backup.snapshot().commit.operation == "init"
    assert [one.code for one in og.check_graph(backup.uri, runtime=runtime(), deep=True).findings] == []
