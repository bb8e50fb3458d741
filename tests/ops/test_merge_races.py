"""Merging while others write to the target: made again, or a conflict; nothing is lost."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph as og
from merging import SCHEMA, contents, kinds, new_graph, row, run, scatter, try_merge
from omnigraph.ops.merge_result import MergeOutcome
from worlds import runtime


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path)


class Meanwhile:
    """Faults that do something else, once, when the merge is about to be published."""

    def __init__(self, first: Callable[[], object]) -> None:
        self._waiting = [first]
        self.tries = 0

    def reach(self, point: str) -> None:
        """Called by the publisher."""
        if point == "publish.staged":
            self.tries += 1
            if self._waiting:
                self._waiting.pop()()


def racing(graph: og.Graph, first: Callable[[], object]) -> tuple[og.Graph, Meanwhile]:
    other = og.open_graph(graph.uri, runtime=runtime())
    faults = Meanwhile(first)
    other._session.store.runtime = replace(runtime(), faults=faults)
    return other, faults


@pytest.mark.parametrize("is_forward", [True, False])
def test_a_merge_is_made_again_when_somebody_writes_to_the_target(is_forward: bool, graph: og.Graph) -> None:
    run(graph, 'update P set { n: 2 } where name = "a"', "dev")
    if not is_forward:
        run(graph, 'update P set { n: 2 } where name = "b"')
    other, faults = racing(graph, lambda: run(graph, 'update P set { m: 3 } where name = "a"'))

    done = other.merge("dev")

    assert (done.outcome, faults.tries) == (MergeOutcome.MERGED, 2)
    assert row(graph, "a") == {"name": "a", "n": 2, "m": 3, "email": None}


def test_a_writer_of_other_tables_is_nobody_in_the_way(graph: og.Graph) -> None:
    run(graph, 'update C set { v: 2 } where name = "x"', "dev")
    run(graph, 'update C set { v: 3 } where name = "y"')
    other, faults = racing(graph, lambda: run(graph, 'update Knows set { w: 8 } where from = "a"'))

    done = other.merge("dev")

    assert (done.outcome, faults.tries) == (MergeOutcome.MERGED, 1)
    found = contents(graph)
    assert [one["w"] for one in found["Knows"].values()] == [8]
    assert {name: one["v"] for name, one in found["C"].items()} == {"x": 2, "y": 3}


def test_an_edge_that_comes_meanwhile_is_an_orphan_too(graph: og.Graph) -> None:
    run(graph, 'delete P where name = "c"', "dev")
    run(graph, 'update C set { v: 3 } where name = "y"')
    other, _ = racing(graph, lambda: run(graph, 'insert Knows { from: "d", to: "c" }'))

    done = try_merge(other, "dev")

    assert [kind for kind, *_ in kinds(done)] == ["OrphanEdge"]


def test_a_row_that_comes_meanwhile_must_keep_the_rules_that_a_merge_brings(graph: og.Graph) -> None:
    graph.apply_schema(SCHEMA.replace("v: I32?", "v: I32?  @range(v, 0..9)"), branch="dev")
    run(graph, 'update P set { n: 2 } where name = "b"')
    other, _ = racing(graph, lambda: run(graph, 'insert C { name: "z", v: 99 }'))

    done = try_merge(other, "dev")

    assert done.outcome is MergeOutcome.CONFLICTS
    assert "@range(v" not in graph.schema


def changed_schema(graph: og.Graph) -> None:
    graph.apply_schema(SCHEMA.replace("v: I32?", "v: I32?  a: I32?"))


def overwritten(graph: og.Graph) -> None:
    graph.load(io.BytesIO(b'{"type":"P","data":{"name":"z"}}\n'), mode="overwrite")


def merged_elsewhere(graph: og.Graph) -> None:
    graph.branches.create("third")
    run(graph, 'insert P { name: "z" }', "third")
    graph.merge("third")


@pytest.mark.parametrize("meanwhile", [changed_schema, overwritten, merged_elsewhere])
def test_what_changes_the_question_is_a_conflict(meanwhile: Callable[[og.Graph], None], graph: og.Graph) -> None:
    run(graph, 'delete Knows where from = "a"')
    run(graph, 'update P set { n: 2 } where name = "a"', "dev")
    other, _ = racing(graph, lambda: meanwhile(graph))

    with pytest.raises(og.ConflictError):
        other.merge("dev")

    assert graph.commits()[0].merged_parent != graph.commits(branch="dev")[0].id


def test_the_same_merge_at_once_is_made_once(graph: og.Graph) -> None:
    run(graph, 'update P set { n: 2 } where name = "a"', "dev")
    other, _ = racing(graph, lambda: graph.merge("dev"))

    done = other.merge("dev")

    assert done.outcome is MergeOutcome.ALREADY_UP_TO_DATE
    assert [one.operation for one in graph.commits()].count("merge") == 1


@pytest.mark.parametrize("is_forward", [True, False])
def test_optimize_of_the_target_takes_no_round(is_forward: bool, graph: og.Graph) -> None:
    scatter(graph)
    graph.branches.create("later")
    run(graph, 'update P set { n: 2 } where name = "a"', "later")
    if not is_forward:
        run(graph, 'update P set { n: 3 } where name = "b"')
    before = contents(graph)["P"]
    other, faults = racing(graph, graph.optimize)

    other.merge("later")

    assert [one.operation for one in graph.commits()[:2]] == ["merge", "optimize"]
    assert faults.tries == 1
    assert contents(graph)["P"] == {**before, "a": {**before["a"], "n": 2}}
