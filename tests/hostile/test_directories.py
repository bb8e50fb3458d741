"""A graph directory that a stranger made: nothing outside of it is read, written or removed, and nothing hangs."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph as og
from damaging import made
from hostile_graphs import HOSTILE, call_every_verb, link_away, replace_by_pipe, serve, set_up, table_of
from omnigraph.ops.check_findings import FindingSeverity
from omnigraph.storage.object_store import ForeignFileError
from watching import watch
from worlds import FAST, runtime


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a graph with branches, indexes and deletions, to be copied by each test."""
    root = tmp_path_factory.mktemp("pristine") / "graph"
    made(root)
    return root


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_outside_of_the_graph_is_touched(name: str, pristine: Path, tmp_path: Path) -> None:
    root, outside = set_up(name, pristine, tmp_path)
    before = {path: path.lstat().st_mtime_ns for path in outside.rglob("*")}

    with watch(outside) as events:
        call_every_verb(root, tmp_path)

    assert events == []
    assert {path: path.lstat().st_mtime_ns for path in outside.rglob("*")} == before


@pytest.mark.parametrize("name", HOSTILE)
def test_a_server_touches_nothing_outside_of_the_graph(name: str, pristine: Path, tmp_path: Path) -> None:
    root, outside = set_up(name, pristine, tmp_path)
    before = {path: path.lstat().st_mtime_ns for path in outside.rglob("*")}

    with watch(outside) as events:
        statuses = serve(root)

    assert events == []
    assert {path: path.lstat().st_mtime_ns for path in outside.rglob("*")} == before
    assert [route for route, status in statuses if status in (404, 405, 422)] == []


def test_a_check_names_a_table_that_is_a_link(pristine: Path, tmp_path: Path) -> None:
    root = tmp_path / "graph"
    shutil.copytree(pristine, root)
    (tmp_path / "outside").mkdir()
    table = table_of(root)
    link_away(table, tmp_path / "outside")

    with og.open_graph(str(root), runtime=runtime()) as graph:
        result = graph.check()

    linked = [finding for finding in result.findings if finding.code == "foreign_file"]
    assert [(finding.place, finding.severity) for finding in linked] == [(f"nodes/{table.name}", FindingSeverity.ERROR)]


def test_a_repair_does_not_go_back_over_what_a_link_hides(pristine: Path, tmp_path: Path) -> None:
    root = tmp_path / "graph"
    shutil.copytree(pristine, root)
    (tmp_path / "outside").mkdir()
    link_away(table_of(root), tmp_path / "outside")

    with og.open_graph(str(root), runtime=runtime()) as graph, pytest.raises(ForeignFileError):
        graph.repair(confirm=True, force=True)


@pytest.mark.parametrize("place", ["__recovery/01X.json", "_schema.pg"])
def test_a_check_names_what_is_no_plain_file_and_goes_on(place: str, pristine: Path, tmp_path: Path) -> None:
    root = tmp_path / "graph"
    shutil.copytree(pristine, root)
    replace_by_pipe(root / place)

    with og.open_graph(str(root), runtime=runtime()) as graph:
        findings = graph.check().findings

    assert [(finding.place, "named pipe" in finding.message) for finding in findings if finding.place == place] == [
        (place, True)
    ]


def test_a_table_that_is_a_link_is_used_where_the_settings_allow_it(pristine: Path, tmp_path: Path) -> None:
    root = tmp_path / "graph"
    shutil.copytree(pristine, root)
    (tmp_path / "outside").mkdir()
    link_away(table_of(root), tmp_path / "outside")
    names = "query q() { match { $p: P } return { $p.name } }"

    with og.open_graph(str(root), runtime=runtime(replace(FAST, follow_links=True))) as graph:
        graph.mutate('query q() { insert P { name: "new" } }')
        rows = graph.query(names).rows()

    assert {"p.name": "new"} in rows
    with og.open_graph(str(root), runtime=runtime()) as graph, pytest.raises(ForeignFileError):
        graph.query(names)


@pytest.mark.parametrize("name", [b"00000000000000000000.manifest", b"1.manifest", b"\xff.manifest"])
def test_a_file_that_lance_takes_for_a_version_is_named(name: bytes, pristine: Path, tmp_path: Path) -> None:
    root = tmp_path / "graph"
    shutil.copytree(pristine, root)
    Path(os.fsdecode(bytes(root / "__manifest" / "_versions") + b"/" + name)).touch()

    with pytest.raises(ForeignFileError, match="named like a version that no graph reaches"):
        og.open_graph(str(root), runtime=runtime())
