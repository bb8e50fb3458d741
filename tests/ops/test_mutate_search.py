"""Text searches choose what a mutation changes: as a query would, also among rows that are pending."""

from pathlib import Path

import pytest

import omnigraph as og
from mutating import column, new_graph, rows, run

SCHEMA = "node Note { name: String @key  text: String? @index  seen: Bool? }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = new_graph(tmp_path, SCHEMA)
    run(
        graph,
        'insert Note { name: "a", text: "Running shoes" }'
        ' insert Note { name: "b", text: "she runs far" }'
        ' insert Note { name: "c", text: "a walk" }'
        ' insert Note { name: "d" }',
    )
    return graph


@pytest.mark.parametrize(
    "predicate, gone",
    [
        ('search(text, "run")', ["a", "b"]),
        ('search(text, "run walk")', ["a", "b", "c"]),
        ('match_text(text, "running far")', ["b"]),
        ('fuzzy(text, "shoos")', ["a"]),
        ('not search(text, "run")', ["c"]),
        ('search(text, "run") and name != "a"', ["b"]),
        ('search(text, "the")', []),
    ],
)
def test_what_a_search_finds_is_deleted(graph: og.Graph, predicate: str, gone: list[str]) -> None:
    run(graph, f"delete Note where {predicate}")

    assert column(graph, "Note", "id") == [name for name in "abcd" if name not in gone]


def test_a_search_looks_into_what_is_pending(graph: og.Graph) -> None:
    run(
        graph,
        'insert Note { name: "e", text: "a good run" }'
        ' update Note set { text: "sitting" } where name = "a"'
        ' update Note set { seen: true } where search(text, "run")',
    )

    seen = {row["id"]: row["seen"] for row in rows(graph, "Note", "id", "seen")}
    assert seen == {"a": None, "b": True, "c": None, "d": None, "e": True}


def test_the_text_may_be_a_parameter(graph: og.Graph) -> None:
    done = run(graph, "query q($t: String) { delete Note where search(text, $t) }", t="walks")

    assert done.affected_nodes == 1


def test_nothing_to_look_for_is_refused(graph: og.Graph) -> None:
    with pytest.raises(og.ParameterError, match=r"parameter `\$t`: `search` has nothing to look for"):
        run(graph, "query q($t: String?) { delete Note where search(text, $t) }", t=None)

    assert len(rows(graph, "Note", "id")) == 4


@pytest.mark.parametrize(
    "predicate, params",
    [("search(text, $t)", {"t": None, "k": 1}), ("fuzzy(text, $t, $k)", {"t": "run", "k": -1})],
)
def test_what_a_search_looks_for_is_checked_even_when_there_is_no_row(
    tmp_path: Path, predicate: str, params: dict[str, object]
) -> None:
    graph = new_graph(tmp_path, SCHEMA)

    with pytest.raises(og.ParameterError):
        run(graph, f"query q($t: String?, $k: I64) {{ delete Note where {predicate} }}", **params)
