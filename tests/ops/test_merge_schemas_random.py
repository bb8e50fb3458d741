"""Random schema changes and edits of two branches, merged both ways, against a model of dictionaries."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from merging import SCHEMA, change, contents, new_graph, run, try_merge
from omnigraph.ops.merge_result import MergeOutcome

COLUMNS: dict[str, tuple[str, object]] = {
    "rank": ("rank: I32 @default(7)", 7),
    "zero": ("zero: I32 @default(0)", 0),
    "score": ("score: I32?", None),
    "level": ("level: I32? @default(2)", 2),
}
"""New properties of a person: how they are declared, and what rows say that were there before."""
Columns = st.sets(st.sampled_from(sorted(COLUMNS)), max_size=2)
Edits = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(20, 40)), max_size=3)


class Rounds:
    """One graph for all examples: each has its own branches."""

    def __init__(self, root: Path) -> None:
        self.graph = new_graph(root)
        self.count = 0


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    return Rounds(tmp_path_factory.mktemp("rounds"))


def schema_with(columns: set[str], *, is_renamed: bool) -> str:
    added = "  ".join(COLUMNS[name][0] for name in sorted(columns))
    text = SCHEMA.replace("m: I32?", f"m: I32?  {added}")
    return text.replace("v: I32?", 'size: I32? @rename_from("v")') if is_renamed else text


def edited(graph: og.Graph, branch: str, columns: set[str], edits: list[tuple[str, int]]) -> dict[str, dict[str, Any]]:
    """Set `n` of persons, and every new property with it; what the branch changed, by person."""
    done: dict[str, dict[str, Any]] = {}
    for name, value in edits:
        values = {"n": value, **dict.fromkeys(columns, value + 1)}
        if name in "ef" and name not in done:
            told = ", ".join(f"{prop}: {one}" for prop, one in values.items())
            run(graph, f'insert P {{ name: "{name}", {told} }}', branch)
        else:
            for prop, one in values.items():
                run(graph, change("P", prop, one, name=name), branch)
        done[name] = values
    return done


def model(ours: dict[str, dict[str, Any]], theirs: dict[str, dict[str, Any]], columns: set[str]) -> object:
    """By person, the properties after the merge; None when the sides don't agree."""
    found = {name: {"n": 1, **{one: COLUMNS[one][1] for one in columns}} for name in "abcd"}
    for name in {*ours, *theirs}:
        mine, others = ours.get(name, {}), theirs.get(name, {})
        if any(mine[prop] != others[prop] for prop in mine.keys() & others.keys()):
            return None
        row = found.setdefault(name, {"n": None, **{one: COLUMNS[one][1] for one in columns}})
        row.update({**mine, **others})
    return found


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mine=Columns, others=Columns, ours=Edits, theirs=Edits, is_renamed=st.booleans())
def test_random_schemas_and_edits_merge_as_a_model_does(
    mine: set[str],
    others: set[str],
    ours: list[tuple[str, int]],
    theirs: list[tuple[str, int]],
    is_renamed: bool,
    rounds: Rounds,
) -> None:
    graph, rounds.count = rounds.graph, rounds.count + 1
    left, right, copy = (f"{side}{rounds.count}" for side in ("left", "right", "copy"))
    for name in (left, right):
        graph.branches.create(name)
    graph.apply_schema(schema_with(mine, is_renamed=is_renamed), branch=left)
    graph.apply_schema(schema_with(others, is_renamed=False), branch=right)
    done = edited(graph, left, mine, ours), edited(graph, right, others, theirs)
    graph.branches.create(copy, from_=left)

    there, back = try_merge(graph, right, into=left), try_merge(graph, copy, into=right)

    expected = model(*done, mine | others)
    assert (there.conflict_total == 0) == (expected is not None) == (back.conflict_total == 0), there.conflicts
    if expected is not None:
        names = ["n", *sorted(mine | others)]
        for branch in (left, right):
            found = contents(graph, branch)
            assert {key: {name: row[name] for name in names} for key, row in found["P"].items()} == expected
            assert {*found["C"]["x"]} == {"name", "size" if is_renamed else "v"}
        again = try_merge(graph, right, into=left)
        assert again.outcome in (MergeOutcome.ALREADY_UP_TO_DATE, MergeOutcome.FAST_FORWARD, MergeOutcome.MERGED)
        assert contents(graph, left) == contents(graph, right)
