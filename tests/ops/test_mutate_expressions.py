"""Stored values may be calculated: from parameters in an insert, from the row as it was in an update."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import omnigraph as og
from raised_codes import has_code

SCHEMA = """
node P {
    name: String @key
    n: I32?
    total: I64
    text: String?
    born: Date?
}
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.create_graph(str(tmp_path / "graph"), SCHEMA)
    graph.load(
        [
            {"type": "P", "data": {"name": "a", "n": 1, "total": 10, "text": "x", "born": "2026-01-31"}},
            {"type": "P", "data": {"name": "b", "total": 20}},
        ],
        mode="append",
    )
    return graph


def stored(graph: og.Graph, name: str) -> dict[str, object]:
    row = graph.query("query q($n: String) { match { $p: P { name: $n } } return { $p } }", params={"n": name}).rows()[
        0
    ]
    found: dict[str, object] = row["p"]
    return found


def test_an_update_calculates_from_the_row_as_it_was(graph: og.Graph) -> None:
    graph.mutate('query q() { update P set { n: n + 1, total: total + n, text: text + "!" } where name = "a" }')

    row = stored(graph, "a")
    assert (row["n"], row["total"], row["text"]) == (2, 11, "x!")


def test_null_in_gives_null(graph: og.Graph) -> None:
    graph.mutate('query q() { update P set { n: n + 1, total: coalesce(n, 0) + 1 } where name = "b" }')

    row = stored(graph, "b")
    assert (row["n"], row["total"]) == (None, 1)


def test_an_insert_calculates_from_its_parameters(graph: og.Graph) -> None:
    graph.mutate(
        "query q($s: String, $n: I64) { insert P { name: lower($s), n: $n * 2, total: length($s),"
        ' born: to_date("2026-03-01") + days(1) } }',
        params={"s": "CEE", "n": 4},
    )

    row = stored(graph, "cee")
    assert (row["n"], row["total"], str(row["born"])) == (8, 3, "2026-03-02")


@pytest.mark.parametrize(
    "change, code",
    [
        ("n: total * 1000000000", "value_out_of_range"),
        ("total: total * 9223372036854775807", "calculation_overflow"),
        ("total: nullif(total, 10)", "value_missing"),
    ],
)
def test_a_value_that_does_not_fit_changes_nothing(graph: og.Graph, change: str, code: str) -> None:
    before = stored(graph, "a")

    with pytest.raises(og.QueryError, check=has_code(code)):
        graph.mutate(f'query q() {{ update P set {{ {change} }} where name = "a" }}')  # noqa: S608 - no SQL

    assert stored(graph, "a") == before


def test_increments_of_one_row_by_many_threads_are_all_applied(graph: og.Graph) -> None:
    def increment(_number: int) -> None:
        graph.mutate('query q() { update P set { total: total + 1 } where name = "a" }')

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(increment, range(24)))

    assert stored(graph, "a")["total"] == 34


def test_a_calculation_may_select_the_rows(graph: og.Graph) -> None:
    done = graph.mutate("query q() { update P set { n: 7 } where total / 2 > 5 }")

    assert done.affected_nodes == 1
    assert stored(graph, "b")["n"] == 7
