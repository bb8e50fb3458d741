"""Graphs that earlier releases have written stay what they were: each is an archive, with the answers it gave then."""

import json
import os
import tarfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from rich_graph import STATES, knows, person, read_all, runtime

FIXTURES = Path(__file__).parents[1] / "fixtures"
ARCHIVES = sorted(path.name.removesuffix(".tar.xz") for path in FIXTURES.glob("*.tar.xz"))
"""One for each form of what is stored that has been released; tools/older_graph.py writes them."""


@pytest.fixture(params=ARCHIVES)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(FIXTURES / f"{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    for sidecar in (tmp_path / "graph" / "__recovery").iterdir():
        os.utime(sidecar, (0, 0))  # whatever the clock says, its operation is dead
    return tmp_path / "graph"


@pytest.fixture
def answers(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root.parent / "answers.json").read_text("utf-8"))
    return found


def opened(root: Path, **how: Any) -> og.Graph:
    return og.open_graph(str(root), runtime=runtime(), **how)


def errors_of(root: Path) -> list[str]:
    """Return what a deep check finds that is not a note."""
    result = og.check_graph(str(root), runtime=runtime(), deep=True)
    return [f"{one.code} {one.place}: {one.message}" for one in result.findings if one.severity.value != "note"]


def test_there_is_a_graph_of_each_stored_form() -> None:
    assert {"graph-without-checksums", "graph-with-checksums"} <= set(ARCHIVES)


@pytest.mark.parametrize("state", STATES)
def test_every_state_answers_as_it_did(state: str, root: Path, answers: dict[str, Any]) -> None:
    with opened(root, read_only=True) as graph:
        assert read_all(graph, state) == answers[state]


def test_a_deep_check_finds_what_a_process_has_left_that_died_and_nothing_else(root: Path) -> None:
    found = errors_of(root)

    assert [one.partition(" ")[0] for one in found] == ["operation_dead"]
    opened(root).close()
    assert errors_of(root) == []


def test_every_commit_can_be_read_at_its_time(root: Path, answers: dict[str, Any]) -> None:
    with opened(root, read_only=True) as graph:
        commits = graph.commits()
        counts = [
            graph.query("query q() { match { $p: P } return { count($p) as n } }", snapshot=one.id).rows()[0]["n"]
            for one in commits
        ]

    assert len(commits) == len(answers["main"]["history"])
    assert counts[0] == len(answers["main"]["scan"])
    assert counts[-1] == 0


def insert(graph: og.Graph) -> None:
    graph.load([person("new"), knows("new", "a", 3)], mode="append")


def update(graph: og.Graph) -> None:
    graph.mutate('query q() { update P set { age: 5 } where name = "d" }')


def delete(graph: og.Graph) -> None:
    graph.mutate('query q() { delete P where name = "d" }')


def optimize(graph: og.Graph) -> None:
    assert [one.error for one in graph.optimize(all_indexes=True).tables] == [None, None, None]


def clean_up(graph: og.Graph) -> None:
    graph.cleanup(keep=1, grace=timedelta(0), confirm=True)


def merge(graph: og.Graph) -> None:
    graph.merge("side")


def branch_and_tag(graph: og.Graph) -> None:
    graph.branches.create("more")
    graph.load([person("new")], mode="append", branch="more")
    graph.tags.create("now")


def repeat_a_request(graph: og.Graph) -> None:
    """Send a request whose key is in a sealed run: it has been done."""
    before = graph.snapshot().commit.id
    graph.mutate("query q() { insert N { number: 9001 } }", idempotency_key="number 9001")
    assert graph.snapshot().commit.id == before


Write = Callable[[og.Graph], None]
WRITES: list[Write] = [insert, update, delete, optimize, clean_up, merge, branch_and_tag, repeat_a_request]


@pytest.mark.parametrize("write", WRITES)
def test_it_is_written_and_maintained_as_a_new_one(write: Write, root: Path, answers: dict[str, Any]) -> None:
    with opened(root) as graph:
        write(graph)
    with opened(root, read_only=True) as graph:
        rows = read_all(graph)
        old = read_all(graph, "old")

    assert old == answers["old"]
    if write in (optimize, clean_up, branch_and_tag, repeat_a_request):
        assert {**rows, "history": None} == {**answers["main"], "history": None}
    assert errors_of(root) == []


def test_all_writes_after_each_other_leave_it_whole(root: Path, answers: dict[str, Any]) -> None:
    with opened(root) as graph:
        for write in (optimize, merge, update, delete, optimize, clean_up):
            write(graph)
        assert read_all(graph, "old") == answers["old"]

    assert errors_of(root) == []


def test_a_clone_says_the_same(root: Path, answers: dict[str, Any], tmp_path: Path) -> None:
    og.clone_graph(str(root), str(tmp_path / "clone"), runtime=runtime())

    with opened(tmp_path / "clone", read_only=True) as graph:
        for state in STATES:
            assert read_all(graph, state) == answers[state]


@pytest.mark.parametrize("root", ["graph-without-checksums"], indirect=True)
def test_it_is_recorded_by_one_commit_for_each_branch_and_every_later_damage_is_found(root: Path) -> None:
    before = {branch: len(opened(root).commits(branch=branch)) for branch in ("main", "side")}

    og.check_graph(str(root), record=True, runtime=runtime())
    again = og.check_graph(str(root), record=True, runtime=runtime())
    graph = opened(root)
    after = {branch: len(graph.commits(branch=branch)) - before[branch] for branch in before}
    proved = graph.verify()
    data = max((root / "nodes").rglob("*.lance"), key=lambda path: path.stat().st_size)
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    found = og.check_graph(str(root), deep=True, runtime=runtime())

    assert after == {"main": 1, "side": 1}
    assert not again.has_errors
    assert [graph.commits(branch=branch)[0].operation for branch in before] == ["record", "record"]
    assert proved.digest == graph.commits()[0].digest
    assert data.relative_to(root).as_posix() in {one.place for one in found.findings}
