"""Racing processes try to break what the schema promises: they can't, and losing is a typed error."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from mutating import column, new_graph, rows, run
from zygote import Zygote

SHARED = 24
RACERS = ("ann", "ben", "cid", "dot")


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path)


def together(zygote: Zygote, jobs: Sequence[tuple[str, Mapping[str, object]]]) -> list[dict[str, int]]:
    """How the tries of each process ended; all of them run at once."""
    started = [zygote.start(f"race.constraint_jobs:{target}", job) for target, job in jobs]
    ended = [zygote.wait(pid) for pid in started]
    assert [one.error for one in ended] == [None] * len(jobs)
    return [one.result for one in ended]


def done(ended: Sequence[Mapping[str, int]]) -> int:
    return sum(one.get("done", 0) for one in ended)


def shared_people(graph: og.Graph) -> None:
    run(graph, " ".join(f'insert Person {{ name: "n{number}" }}' for number in range(SHARED)))


@pytest.mark.parametrize("how", ["take_emails", "move_emails"])
def test_no_two_processes_get_the_same_unique_value(how: str, graph: og.Graph, zygote: Zygote) -> None:
    ended = together(zygote, [(how, {"uri": graph.uri, "name": name, "emails": SHARED}) for name in RACERS])

    held = Counter(email for email in column(graph, "Person", "email") if email is not None)
    assert set(held.values()) == {1}
    assert done(ended) >= len(held)
    assert sum(sum(one.values()) for one in ended) == SHARED * len(RACERS)
    if how == "take_emails":
        assert len(held) == SHARED
        assert done(ended) == SHARED


def test_a_publisher_that_does_not_look_again_gives_a_value_twice(tmp_path: Path, zygote: Zygote) -> None:
    most = 0
    for number in range(20):  # on a busy machine, processes may happen to run one after the other
        graph = new_graph(tmp_path / str(number))
        bug = {"uri": graph.uri, "emails": SHARED, "bug": "no requirements"}
        together(zygote, [("take_emails", {**bug, "name": name}) for name in RACERS])
        most = max(Counter(column(graph, "Person", "email")).values())
        if most > 1:
            break

    assert most > 1, "the race is too tame to notice"


def test_no_edge_outlives_its_node(graph: og.Graph, zygote: Zygote) -> None:
    shared_people(graph)

    ended = together(
        zygote,
        [
            ("hang_edges", {"uri": graph.uri, "name": "x", "nodes": SHARED}),
            ("hang_edges", {"uri": graph.uri, "name": "xy", "nodes": SHARED}),
            ("delete_nodes", {"uri": graph.uri, "nodes": SHARED}),
        ],
    )

    there = set(column(graph, "Person", "id"))
    ends: list[dict[str, Any]] = rows(graph, "Knows", "src", "dst")
    assert all({edge["src"], edge["dst"]} <= there for edge in ends)
    assert len(there) == SHARED - ended[2].get("done", 0)
    # A delete that meets a new edge is run again, and takes it too.
    refused = sum(one.get("ConstraintError", 0) for one in ended[:2])
    removed = sum(one.get("done", 0) for one in ended[:2]) - len(ends)
    assert refused + removed > 0, "they never met: the race tested nothing"


def test_no_node_gets_more_edges_than_it_may_have(graph: og.Graph, zygote: Zygote) -> None:
    shared_people(graph)
    run(graph, 'insert City { name: "Rome" }')
    city = column(graph, "City", "id")[0]

    ended = together(zygote, [("take_jobs", {"uri": graph.uri, "people": SHARED, "city": city}) for _ in RACERS])

    assert Counter(column(graph, "WorksAt", "src")) == {f"n{number}": 1 for number in range(SHARED)}
    assert done(ended) == SHARED


def test_no_node_is_left_with_fewer_edges_than_it_must_have(graph: og.Graph, zygote: Zygote) -> None:
    run(graph, 'insert Person { name: "p" } insert Person { name: "q" }')
    for number in range(SHARED):
        team = f"t{number}"
        ends = " ".join(f'insert Leads {{ from: "{team}", to: "{person}" }}' for person in "pq")
        run(graph, f'insert Team {{ name: "{team}" }} {ends}')

    together(zygote, [("drop_leads", {"uri": graph.uri, "teams": SHARED, "person": person}) for person in "pq"])

    left = Counter(column(graph, "Leads", "src"))
    assert left.keys() == {f"t{number}" for number in range(SHARED)}
    assert set(left.values()) <= {1, 2}


def test_a_loser_gets_through_when_it_tries_again(graph: og.Graph, zygote: Zygote) -> None:
    shared_people(graph)
    together(
        zygote,
        [
            ("hang_edges", {"uri": graph.uri, "name": "x", "nodes": SHARED}),
            ("delete_nodes", {"uri": graph.uri, "nodes": SHARED}),
        ],
    )

    run(graph, 'delete Person where name starts_with "n"')

    assert column(graph, "Person", "id") == []
    assert rows(graph, "Knows") == []
