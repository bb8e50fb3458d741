"""Processes that merge different branches into main at the same time, while others write: nothing is lost."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from merging import SCHEMA, contents, new_graph, run
from omnigraph.ops.merge_result import MergeOutcome
from zygote import Zygote

TIMES = 3
NAMES = ("a", "b")
WIDER = [
    SCHEMA.replace("m: I32?", "m: I32?  rank: I32 @default(7)"),
    SCHEMA.replace("m: I32?", "m: I32?  rank: I32 @default(7)  nick: String?"),
]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = new_graph(tmp_path)
    for name in NAMES:
        made.branches.create(name)
    run(made, 'insert C { name: "z" }')  # so that no first merge is a fast forward
    return made


def together(zygote: Zygote, jobs: Sequence[tuple[str, Mapping[str, object]]]) -> list[Any]:
    started = [zygote.start(f"race.merge_jobs:{target}", job) for target, job in jobs]
    ended = [zygote.wait(pid) for pid in started]
    assert [one.error for one in ended] == [None] * len(jobs)
    return [one.result for one in ended]


def check_history(graph: og.Graph, merges: int) -> None:
    """One line of commits without a gap; each merge has a second parent of its own, and landed once."""
    commits = graph.commits()
    assert [one.seq for one in commits] == list(range(len(commits) - 1, -1, -1))
    assert all(later.parent == earlier.id for later, earlier in pairwise(commits))
    parents = [one.merged_parent for one in commits if one.merged_parent is not None]
    assert len(parents) == len(set(parents)) == merges


def test_two_processes_merge_different_branches_and_nothing_is_lost(graph: og.Graph, zygote: Zygote) -> None:
    jobs = [("write_and_merge", {"uri": graph.uri, "name": name, "times": TIMES}) for name in NAMES]
    writer = ("write_rows", {"uri": graph.uri, "name": "w", "times": TIMES})

    *mergers, written = together(zygote, [*jobs, writer])

    found = contents(graph)["P"]
    assert {one for merger in mergers for one in merger["merged"]} == {f"{n}{t}" for n in NAMES for t in range(TIMES)}
    assert {*written, *(one for merger in mergers for one in merger["merged"]), *"abcd"} == found.keys()
    assert [found[name]["n"] for name in NAMES] == [TIMES] * 2
    assert all("changed while" in told for merger in mergers for told in merger["conflicts"])
    check_history(graph, 2 * TIMES)


def test_merging_again_afterwards_does_nothing(graph: og.Graph, zygote: Zygote) -> None:
    together(zygote, [("write_and_merge", {"uri": graph.uri, "name": name, "times": 1}) for name in NAMES])
    before = graph.commits()[0].id

    again = [graph.merge(name).outcome for name in NAMES]

    assert again == [MergeOutcome.ALREADY_UP_TO_DATE] * 2
    assert graph.commits()[0].id == before


def test_merges_beside_changes_of_the_schema_keep_both(graph: og.Graph, zygote: Zygote) -> None:
    merge = ("write_and_merge", {"uri": graph.uri, "name": "a", "times": TIMES})
    change = ("change_schema", {"uri": graph.uri, "schemas": WIDER})

    merger, landed = together(zygote, [merge, change])

    found = contents(graph)["P"]
    assert landed == [0, 1]
    assert merger["merged"] == [f"a{number}" for number in range(TIMES)]
    assert {*merger["merged"], *"abcd"} == found.keys()
    assert {(one["rank"], one["nick"]) for one in found.values()} == {(7, None)}
    check_history(graph, TIMES)


def test_processes_that_merge_crosswise_lose_nothing_and_bring_nothing_back(graph: og.Graph, zygote: Zygote) -> None:
    jobs = [
        ("write_and_take", {"uri": graph.uri, "own": own, "other": other, "times": TIMES})
        for own, other in (NAMES, reversed(NAMES))
    ]

    together(zygote, jobs)
    last = graph.merge(NAMES[0], into=NAMES[1]), graph.merge(NAMES[1], into=NAMES[0])

    assert [one.conflicts for one in last] == [(), ()]
    assert contents(graph, NAMES[0]) == contents(graph, NAMES[1])
    assert contents(graph, NAMES[0])["P"].keys() == {*"abcd", *(f"{name}-{TIMES - 1}" for name in NAMES)}
    assert [graph.merge(NAMES[1], into=NAMES[0]).outcome] == [MergeOutcome.ALREADY_UP_TO_DATE]
