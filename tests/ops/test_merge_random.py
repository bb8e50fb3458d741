"""Random edits of two branches, merged both ways, against a model of dictionaries."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from merge_edits import EDIT, apply_edit, as_model, copied
from merge_model import State, broken, merge_states
from merging import contents, new_graph, run, try_merge
from omnigraph.ops.merge_result import MergeOutcome


def model_merge(base: State, ours: State, theirs: State, prefer: str | None = None) -> tuple[State | None, object]:
    """Return the merged state, or None when there is a conflict, and how many edges stay with kept nodes."""
    found, is_clash, restored = merge_states(base, ours, theirs, prefer)
    return (None, {}) if broken(found) or (is_clash and prefer is None) else (found, restored)


class Rounds:
    """One graph for all examples: each has its own two branches."""

    def __init__(self, root: Path) -> None:
        self.graph = new_graph(root)
        run(self.graph, 'insert Knows { from: "b", to: "c" } insert Owns { from: "a", to: "x" }')
        run(self.graph, 'update P set { email: "e2" } where name = "b"')
        self.count = 0


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    return Rounds(tmp_path_factory.mktemp("rounds"))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ours=st.lists(EDIT, max_size=5),
    theirs=st.lists(EDIT, max_size=5),
    strategy=st.sampled_from([None, "ours", "theirs"]),
)
@example(  # a city that is kept brings back an edge of one who has bought another meanwhile
    ours=[("drop", ("C", "x")), ("put", ("Owns", ("a", "y")), 0, 2)],
    theirs=[("put", ("C", "x"), 0, 2)],
    strategy="theirs",
)
@example(  # the email of one who goes is taken by one who comes
    ours=[("drop", ("P", "b")), ("put", ("P", "e"), 2, 2)],
    theirs=[("put", ("P", "c"), 0, 2)],
    strategy=None,
)
@example(  # an edge between one who is kept and one who is not
    ours=[("put", ("P", "b"), 0, 2)],
    theirs=[("drop", ("P", "a")), ("drop", ("P", "b"))],
    strategy="ours",
)
def test_random_edits_of_two_branches_merge_as_a_model_does(
    ours: list[Any], theirs: list[Any], strategy: str | None, rounds: Rounds
) -> None:
    graph, rounds.count = rounds.graph, rounds.count + 1
    names = [f"{side}{rounds.count}" for side in ("ours", "theirs", "back")]
    base = as_model(contents(graph))
    states = []
    for name, edits in zip(names[:2], (ours, theirs), strict=True):
        graph.branches.create(name)
        state = copied(base)
        for edit in edits:
            apply_edit(graph, name, state, edit)
        assert as_model(contents(graph, name)) == state
        states.append(state)
    graph.branches.create(names[2], from_=names[0])
    mirrored = {"ours": "theirs", "theirs": "ours"}.get(strategy or "")

    planned = graph.merge(names[1], into=names[0], strategy=strategy, dry_run=True)
    there = try_merge(graph, names[1], into=names[0], strategy=strategy)
    back = try_merge(graph, names[2], into=names[1], strategy=mirrored)

    expected, restored = model_merge(base, states[0], states[1], strategy)
    assert (there.conflict_total == 0) == (expected is not None) == (back.conflict_total == 0)
    assert (planned.outcome, planned.tables, planned.conflicts) == (there.outcome, there.tables, there.conflicts)
    if there.outcome is MergeOutcome.MERGED:
        assert there.restored_edges == planned.restored_edges == restored
    merged = states[0] if expected is None else expected
    assert as_model(contents(graph, names[0])) == merged
    if expected is not None:
        assert as_model(contents(graph, names[1])) == merged


ROUND = st.tuples(st.lists(EDIT, max_size=3), st.lists(EDIT, max_size=3))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(ROUND, min_size=2, max_size=4))
def test_branches_that_cross_again_and_again_merge_from_where_they_last_were_equal(
    parts: list[tuple[list[Any], list[Any]]], rounds: Rounds
) -> None:
    graph, rounds.count = rounds.graph, rounds.count + 1
    names = [f"left{rounds.count}", f"right{rounds.count}"]
    common = as_model(contents(graph))
    for name in names:
        graph.branches.create(name)
    for step, part in enumerate(parts):
        states = [copied(common) for _ in names]
        for name, state, edits in zip(names, states, part, strict=True):
            for edit in edits:
                apply_edit(graph, name, state, edit)
            graph.branches.create(f"{name}-{step}", from_=name)

        there = try_merge(graph, f"{names[1]}-{step}", into=names[0])
        back = try_merge(graph, f"{names[0]}-{step}", into=names[1])

        expected, _ = model_merge(common, states[0], states[1])
        assert (there.conflict_total == 0) == (expected is not None) == (back.conflict_total == 0)
        merged = states if expected is None else [expected, expected]
        assert [as_model(contents(graph, name)) for name in names] == merged
        if expected is None:
            return
        common = expected
