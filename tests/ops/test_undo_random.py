"""Random edits, reverted and applied elsewhere commit by commit, against a model of dictionaries."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from merge_edits import EDIT, apply_edit, as_model, copied
from merge_model import State, broken, merge_states
from merging import contents, new_graph, run
from omnigraph.ops.merge_result import MergeOutcome, MergeResult

Commits = list[tuple[str, State, State]]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = new_graph(tmp_path_factory.mktemp("undo"))
    run(graph, 'insert Knows { from: "b", to: "c" } insert Owns { from: "a", to: "x" }')
    run(graph, 'update P set { email: "e2" } where name = "b"')
    return graph


def head(graph: og.Graph, branch: str) -> str:
    return graph.snapshot(branch=branch).commit.id


def apply_edits(graph: og.Graph, branch: str, state: State, edits: list[Any]) -> Commits:
    """Make the edits, one commit each; return the commits that came of it, with the states around them."""
    commits = []
    for edit in edits:
        before, newest = copied(state), head(graph, branch)
        apply_edit(graph, branch, state, edit)
        if head(graph, branch) != newest:
            commits.append((head(graph, branch), before, copied(state)))
    return commits


def try_undo(call: Callable[..., MergeResult], commit: str, **options: Any) -> MergeResult:
    try:
        return call(commit, **options)
    except og.MergeConflictsError as error:
        return error.result


def expect(base: State, ours: State, theirs: State, prefer: str | None) -> State | None:
    found, is_clash, _ = merge_states(base, ours, theirs, prefer)
    return None if broken(found) or (is_clash and prefer is None) else found


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edits=st.lists(EDIT, min_size=1, max_size=6),
    others=st.lists(EDIT, max_size=3),
    place=st.integers(0, 5),
    strategy=st.sampled_from([None, "ours", "theirs"]),
    is_revert=st.booleans(),
    is_compacted=st.booleans(),
)
def test_a_commit_is_undone_or_applied_as_a_model_does(
    edits: list[Any],
    others: list[Any],
    place: int,
    strategy: str | None,
    is_revert: bool,
    is_compacted: bool,
    graph: og.Graph,
) -> None:
    number = len(graph.branches.list())
    mine, other = f"mine{number}", f"other{number}"
    graph.branches.create(mine)
    graph.branches.create(other)
    state = as_model(contents(graph, mine))
    elsewhere = copied(state)
    commits = apply_edits(graph, mine, state, edits)
    apply_edits(graph, other, elsewhere, others)
    if not commits:
        return
    commit, before, after = commits[place % len(commits)]
    if is_compacted:
        graph.optimize(branch=mine)

    if is_revert:
        call, target, ours = graph.revert, mine, state
        expected = expect(after, state, before, strategy)
    else:
        call, target, ours = graph.cherry_pick, other, elsewhere
        expected = expect(before, elsewhere, after, strategy)
    planned = call(commit, branch=target, strategy=strategy, dry_run=True)
    done = try_undo(call, commit, branch=target, strategy=strategy)

    assert (done.conflict_total == 0) == (expected is not None)
    assert (planned.outcome, planned.tables, planned.conflicts) == (done.outcome, done.tables, done.conflicts)
    assert as_model(contents(graph, target)) == (ours if expected is None else expected)
    if done.outcome is MergeOutcome.MERGED:
        recorded = graph.commit(head(graph, target))
        assert (recorded.refers_to, recorded.merged_parent) == (commit, None)
    if done.commit_id is not None and is_revert:
        again = try_undo(graph.revert, done.commit_id, branch=mine)
        assert again.conflict_total == 0
        assert as_model(contents(graph, mine)) == state


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(EDIT, min_size=1, max_size=5), place=st.integers(0, 4), more=st.lists(EDIT, max_size=2))
def test_a_reset_gives_a_branch_the_rows_of_any_state_and_loses_none(
    edits: list[Any], place: int, more: list[Any], graph: og.Graph
) -> None:
    branch = f"reset{len(graph.branches.list())}"
    graph.branches.create(branch)
    state = as_model(contents(graph, branch))
    commits = apply_edits(graph, branch, state, edits)
    if not commits:
        return
    commit, _, after = commits[place % len(commits)]
    newest = head(graph, branch)

    done = graph.reset(branch, to=commit)

    assert as_model(contents(graph, branch)) == after
    assert (done.commit_id is None) == (commit == newest)
    if done.commit_id is not None:
        recorded = graph.commit(done.commit_id)
        assert (recorded.parent, recorded.refers_to, recorded.operation) == (newest, commit, "reset")
    apply_edits(graph, branch, after, more)
    assert as_model(contents(graph, branch)) == after
    graph.reset(branch, to=newest)
    assert as_model(contents(graph, branch)) == state
