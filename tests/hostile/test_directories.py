"""A graph directory that a stranger made: nothing outside of it is read, written or removed, and nothing hangs."""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import omnigraph as og
from damaging import made
from omnigraph.errors import OmnigraphError
from omnigraph.ops.findings import Severity
from omnigraph.storage.objects import ForeignFileError
from watching import watch
from worlds import FAST, runtime

Hostile = Callable[[Path, Path], None]
"""Makes a graph hostile: its directory, and one outside of it that nothing may touch."""


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a graph with branches, indexes and deletions, to be copied by each test."""
    root = tmp_path_factory.mktemp("pristine") / "graph"
    made(root)
    return root


def link_away(path: Path, outside: Path) -> None:
    """Move a file or directory outside, and leave a link in its place."""
    target = outside / path.name
    shutil.move(path, target)
    path.symlink_to(target)


def table_of(root: Path, kind: str = "nodes") -> Path:
    """Return the largest table of a kind."""
    return max((root / kind).iterdir(), key=lambda path: len(list(path.rglob("*"))))


def first_file(directory: Path) -> Path:
    """Return the first plain file of a directory."""
    return min(path for path in directory.iterdir() if path.is_file())


def put_sidecar(root: Path, **fields: object) -> None:
    """Leave the sidecar of an operation that died long ago."""
    recovery = root / "__recovery"
    recovery.mkdir(exist_ok=True)
    sidecar = {
        "format": 1, "id": "01DEAD", "commit_id": "01GONE", "branch": "main", "manifest_path": "__manifest",
        "base_seq": 0, "operation": "load", "actor": "stranger", "started_at": "", "state": "abandoned",
        **fields,
    }  # fmt: skip
    (recovery / "01DEAD.json").write_text(json.dumps(sidecar))


def sidecar_through_a_link(root: Path, outside: Path) -> None:
    (root / "nodes" / "evil").symlink_to(outside)
    put_sidecar(root, files=["nodes/evil/important.txt"])


HOSTILE: dict[str, Hostile] = {
    "a sidecar names a file behind a linked table": sidecar_through_a_link,
    "the tables are a link": lambda root, outside: link_away(root / "nodes", outside),
    "a table is a link": lambda root, outside: link_away(table_of(root), outside),
    "data is a link": lambda root, outside: link_away(table_of(root) / "data", outside),
    "a data file is a link": lambda root, outside: link_away(first_file(table_of(root) / "data"), outside),
    "versions are a link": lambda root, outside: link_away(table_of(root) / "_versions", outside),
    "the manifest is a link": lambda root, outside: link_away(root / "__manifest", outside),
    "the branches are a link": lambda root, outside: link_away(root / "__branches", outside),
    "sidecars are a link": lambda root, outside: replace_by_link(root / "__recovery", outside),
    "derived files are a link": lambda root, outside: replace_by_link(root / "_derived", outside),
    "the copy of the schema is a link": lambda root, outside: link_away(root / "_schema.pg", outside),
    "a sidecar is a pipe": lambda root, _: replace_by_pipe(root / "__recovery" / "01X.json"),
    "a data file is a pipe": lambda root, _: replace_by_pipe(first_file(table_of(root) / "data")),
    "the schema is a pipe": lambda root, _: replace_by_pipe(root / "_schema.pg"),
    "the newest version is a pipe": lambda root, _: replace_by_pipe(first_file(root / "__manifest" / "_versions")),
    "an alien name among versions": lambda root, _: (root / "__manifest" / "_versions" / "alien").touch(),
    "an alien version": lambda root, _: (root / "__manifest" / "_versions" / "99x.manifest").touch(),
}


def replace_by_pipe(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def replace_by_link(path: Path, outside: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    path.symlink_to(outside)


def call_every_verb(root: Path, scratch: Path) -> None:
    """Read, write, maintain and copy a graph; only named errors may come of it."""
    verbs: list[Callable[[og.Graph], object]] = [
        lambda graph: graph.query("query q() { match { $p: P } return { $p.name } }").rows(),
        lambda graph: graph.mutate('query q() { insert P { name: "new" } }'),
        lambda graph: graph.mutate('query q() { delete P where name = "a" }'),
        lambda graph: graph.merge("side"),
        lambda graph: graph.optimize(),
        lambda graph: graph.check(deep=True),
        lambda graph: graph.repair(),
        lambda graph: graph.cleanup(keep=1, grace=timedelta(0), confirm=True),
        lambda graph: og.clone_graph(graph.uri, scratch / "clone"),
    ]
    for verb in verbs:
        with suppress(OmnigraphError), og.open_graph(str(root), runtime=runtime()) as graph:
            verb(graph)


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_outside_of_the_graph_is_touched(name: str, pristine: Path, tmp_path: Path) -> None:
    root, outside = tmp_path / "graph", tmp_path / "outside"
    shutil.copytree(pristine, root)
    outside.mkdir()
    (outside / "important.txt").write_text("precious")
    HOSTILE[name](root, outside)
    before = {path: path.lstat().st_mtime_ns for path in outside.rglob("*")}

    with watch(outside) as events:
        call_every_verb(root, tmp_path)

    assert events == []
    assert {path: path.lstat().st_mtime_ns for path in outside.rglob("*")} == before


def test_a_check_names_a_table_that_is_a_link(pristine: Path, tmp_path: Path) -> None:
    root = tmp_path / "graph"
    shutil.copytree(pristine, root)
    (tmp_path / "outside").mkdir()
    table = table_of(root)
    link_away(table, tmp_path / "outside")

    with og.open_graph(str(root), runtime=runtime()) as graph:
        result = graph.check()

    linked = [finding for finding in result.findings if finding.code == "foreign_file"]
    assert [(finding.place, finding.severity) for finding in linked] == [(f"nodes/{table.name}", Severity.ERROR)]


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
