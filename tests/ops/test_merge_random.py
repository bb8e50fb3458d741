"""Random edits of two branches, merged both ways, against a model of dictionaries."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from merging import Contents, change, contents, new_graph, run

NODES, ENDS = ("a", "b", "c", "e"), (("a", "b"), ("b", "c"), ("a", "a"), ("c", "e"))
State = dict[str, dict[str, dict[str, Any]]]
EDIT = st.one_of(
    st.tuples(st.just("node"), st.sampled_from(NODES), st.sampled_from(["n", "m"]), st.integers(2, 3)),
    st.tuples(st.just("edge"), st.sampled_from(ENDS), st.sampled_from(["w", "z"]), st.integers(2, 3)),
    st.tuples(st.just("drop node"), st.sampled_from(NODES)),
    st.tuples(st.just("drop edge"), st.sampled_from(ENDS)),
)


def apply_edit(graph: og.Graph, branch: str, state: State, edit: tuple[Any, ...]) -> None:
    """One edit, of the branch and of the model; what is not there is inserted."""
    nodes, edges = state["P"], state["Knows"]
    match edit:
        case ("node", name, prop, value):
            known = name in nodes
            nodes[name] = {**nodes.get(name, {"n": None, "m": None}), prop: value}
            text = change("P", prop, value, name=name)
            run(graph, text if known else f'insert P {{ name: "{name}", {prop}: {value} }}', branch)
        case ("edge", (start, end), prop, value) if start in nodes and end in nodes:
            known = f"{start}>{end}" in edges
            edges[f"{start}>{end}"] = {**edges.get(f"{start}>{end}", {"w": None, "z": None}), prop: value}
            text = change("Knows", prop, value, from_=start, to=end)
            fresh = f'insert Knows {{ from: "{start}", to: "{end}", {prop}: {value} }}'
            run(graph, text if known else fresh, branch)
        case ("drop node", name) if name in nodes:
            del nodes[name]
            state["Knows"] = {key: one for key, one in edges.items() if name not in key.split(">")}
            run(graph, f'delete P where name = "{name}"', branch)
        case ("drop edge", (start, end)) if f"{start}>{end}" in edges:
            del edges[f"{start}>{end}"]
            run(graph, f'delete Knows where from = "{start}" and to = "{end}"', branch)
        case _:
            pass


def model_merge(base: State, ours: State, theirs: State) -> State | None:
    """The merged state by the book, or None when there is a conflict."""
    found: State = {}
    for kind in base:
        found[kind] = {}
        for key in base[kind].keys() | ours[kind].keys() | theirs[kind].keys():
            old, mine, other = base[kind].get(key), ours[kind].get(key), theirs[kind].get(key)
            if other in (mine, old):
                merged = mine
            elif mine == old:
                merged = other
            elif mine is None or other is None:
                return None
            else:
                merged = {}
                for prop in mine:
                    values = [mine[prop], other[prop]]
                    changed = [one for one in values if old is None or one != old[prop]]
                    if len(changed) == 2 and values[0] != values[1]:
                        return None
                    merged[prop] = changed[0] if changed else values[0]
            if merged is not None:
                found[kind][key] = merged
    if any(end not in found["P"] for key in found["Knows"] for end in key.split(">")):
        return None
    return found


def as_model(found: Contents) -> State:
    return {
        "P": {key: {"n": one["n"], "m": one["m"]} for key, one in found["P"].items()},
        "Knows": {f"{one['src']}>{one['dst']}": {"w": one["w"], "z": one["z"]} for one in found["Knows"].values()},
    }


class Rounds:
    """One graph for all examples: each has its own two branches."""

    def __init__(self, root: Path) -> None:
        self.graph = new_graph(root)
        self.count = 0


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    return Rounds(tmp_path_factory.mktemp("rounds"))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ours=st.lists(EDIT, max_size=4), theirs=st.lists(EDIT, max_size=4))
def test_random_edits_of_two_branches_merge_as_a_model_does(ours: list[Any], theirs: list[Any], rounds: Rounds) -> None:
    graph, rounds.count = rounds.graph, rounds.count + 1
    names = [f"{side}{rounds.count}" for side in ("ours", "theirs", "back")]
    base = as_model(contents(graph))
    states = []
    for name, edits in zip(names[:2], (ours, theirs), strict=True):
        graph.branches.create(name)
        state: State = {kind: {key: dict(one) for key, one in rows.items()} for kind, rows in base.items()}
        for edit in edits:
            apply_edit(graph, name, state, edit)
        assert as_model(contents(graph, name)) == state
        states.append(state)
    graph.branches.create(names[2], from_=names[0])

    there = graph.merge(names[1], into=names[0])
    back = graph.merge(names[2], into=names[1])

    expected = model_merge(base, *states)
    assert (there.conflict_total == 0) == (expected is not None) == (back.conflict_total == 0)
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
        states = [{kind: {key: dict(one) for key, one in rows.items()} for kind, rows in common.items()} for _ in names]
        for name, state, edits in zip(names, states, part, strict=True):
            for edit in edits:
                apply_edit(graph, name, state, edit)
            graph.branches.create(f"{name}-{step}", from_=name)

        there = graph.merge(f"{names[1]}-{step}", into=names[0])
        back = graph.merge(f"{names[0]}-{step}", into=names[1])

        expected = model_merge(common, states[0], states[1])
        assert (there.conflict_total == 0) == (expected is not None) == (back.conflict_total == 0)
        merged = states if expected is None else [expected, expected]
        assert [as_model(contents(graph, name)) for name in names] == merged
        if expected is None:
            return
        common = expected
