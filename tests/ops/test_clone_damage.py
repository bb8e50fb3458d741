"""Clones and exports copy no damage: what is shown now is refused, what only the past needs is left out."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import damaging as harm
import omnigraph as og
from earlier_release import without_checksums
from omnigraph.ops.check_findings import FindingSeverity
from omnigraph.storage import lance_table
from upkeep_calls import opened, optimized
from worlds import FAST, runtime

ALL = "query q() { match { $p: P } return { $p.name, $p.age } }"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return Path(harm.made(tmp_path / "g").uri)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


PRESENT: dict[str, Callable[[Path], Path]] = {
    "data": harm.data_file,
    "deletions": harm.deletion_file,
    "version": harm.version_of,
    "index": lambda root: harm.index_files(root)[0],
}


@pytest.mark.parametrize("name", PRESENT)
def test_a_clone_refuses_damage_of_what_is_shown(name: str, root: Path, tmp_path: Path) -> None:
    file = PRESENT[name](root)
    flip(file)
    place = file.parent if name == "index" else file

    with pytest.raises(og.PinUnreadableError) as caught:
        opened(str(root)).clone(str(tmp_path / "copy"))

    assert place.relative_to(root).as_posix() in str(caught.value)
    assert "omnigraph repair" in str(caught.value)
    with pytest.raises(og.UnfinishedCloneError):
        opened(str(tmp_path / "copy"))


def test_a_clone_refuses_damage_that_a_list_tells_of(tmp_path: Path) -> None:
    with without_checksums():
        root = Path(harm.made(tmp_path / "g").uri)
    og.check_graph(str(root), record=True, runtime=runtime())
    flip(harm.data_file(root))

    with pytest.raises(og.PinUnreadableError, match="does not match its checksum"):
        opened(str(root)).clone(str(tmp_path / "copy"))


def test_a_clone_compares_files_that_its_own_process_has_written(tmp_path: Path) -> None:
    graph = harm.made(tmp_path / "g")
    flip(harm.data_file(tmp_path / "g"))

    with pytest.raises(og.PinUnreadableError):
        graph.clone(str(tmp_path / "copy"))


@pytest.mark.parametrize("name", ["data", "version"])
def test_a_clone_leaves_damage_of_the_past_out(name: str, root: Path, tmp_path: Path) -> None:
    graph = opened(str(root))
    file = PRESENT[name](root)
    for branch in ("main", "side"):
        graph.load(harm.people("v", "w", "x"), mode="append", branch=branch)
        optimized(graph, branch=branch)
    flip(file)

    graph.clone(str(tmp_path / "copy"))
    found = og.check_graph(str(tmp_path / "copy"), deep=True, runtime=runtime())

    assert not (tmp_path / "copy" / file.relative_to(root)).exists()
    assert {one.code for one in found.findings} <= {"past_damaged"}
    assert not found.has_errors
    assert opened(str(tmp_path / "copy")).query(ALL).rows() == graph.query(ALL).rows()


def test_a_clone_does_without_damaged_idempotency_keys(tmp_path: Path) -> None:
    settings = runtime(replace(FAST, head_commits=2))
    graph = og.create_graph(str(tmp_path / "g"), harm.SCHEMA, runtime=settings)
    for name in "abcde":
        graph.load(harm.people(name), mode="append", idempotency_key=name)
    for run in (tmp_path / "g" / "__manifest" / "keys").iterdir():
        flip(run)

    graph.clone(str(tmp_path / "copy"))
    copy = og.open_graph(str(tmp_path / "copy"), runtime=settings)
    before = copy.snapshot().commit.id
    copy.load(harm.people("a"), mode="append", idempotency_key="a")

    assert copy.snapshot().commit.id == before
    assert not list((tmp_path / "copy" / "__manifest").glob("keys/*"))


def export(graph: og.Graph, tmp_path: Path, way: str) -> None:
    if way == "stream":
        graph.export(io.BytesIO())
    else:
        graph.export(str(tmp_path / "out"), format=way)


@pytest.mark.parametrize("way", ["stream", "parquet"])
def test_an_export_refuses_damage_of_a_large_file(
    way: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_table, "SMALL_BYTES", 0)  # as if every file were large
    graph = opened(str(root))
    file = harm.data_file(root)
    data = bytearray(file.read_bytes())
    at = data.index(b"a@x")
    data[at : at + 1] = b"A"  # a value that can be decoded
    file.write_bytes(data)

    with pytest.raises(og.PinUnreadableError, match="does not match its checksum"):
        export(graph, tmp_path, way)


def test_an_export_does_not_mind_an_index(root: Path, tmp_path: Path) -> None:
    flip(harm.index_files(root)[0])

    export(opened(str(root)), tmp_path, "stream")


def test_a_sound_graph_is_cloned_with_all_its_past(root: Path, tmp_path: Path) -> None:
    graph = opened(str(root))
    optimized(graph)

    done = graph.clone(str(tmp_path / "copy"))
    found = og.check_graph(str(tmp_path / "copy"), deep=True, runtime=runtime())

    assert done.collected == 0
    assert [one for one in found.findings if one.severity is not FindingSeverity.NOTE] == []
