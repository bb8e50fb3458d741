"""Calculations in queries: random ones give what plain Python gives, and the edges are as the reference says."""

import math
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest

import omnigraph as og
from expression_texts import SCHEMA, ExpressionWriter, random_records
from omnigraph.engine import arithmetic
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.query.bind import bind_query
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.schema.bind import bind_schema
from omnigraph.schema.catalog import Catalog
from raised_codes import has_code
from reference_reader import PlainGraph, answer
from reference_scalars import CalculationError

ROWS = 40
OVERFLOW = "calculation_overflow"


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    found = bind_schema(parse_schema(Source(SCHEMA)).tree).value
    assert found is not None
    return found


def new_graph(path: Path, random: Random) -> og.Graph:
    graph = og.create_graph(str(path / "graph"), SCHEMA)
    graph.load(random_records(random, ROWS), mode="append")
    return graph


def plain(graph: og.Graph) -> PlainGraph:
    nodes = [row["p"] for row in graph.query("query q() { match { $p: T } return { $p } }").rows()]
    return PlainGraph({"T": [{**node, "@id": node["id"]} for node in nodes]})


def bound(text: str, catalog: Catalog) -> ReadQuery:
    parsed = parse_queries(Source(text))
    assert not parsed.diagnostics, (text, parsed.diagnostics)
    found = bind_query(parsed.tree.queries[0], catalog)
    assert isinstance(found.value, ReadQuery), (text, found.diagnostics)
    return found.value


def rounded(value: Any) -> Any:
    """Floats to twelve digits, since a power of numpy and one of Python may differ in the last."""
    if isinstance(value, float):
        return 0.0 if value == 0 else float(f"{value:.12g}")
    return tuple(map(rounded, value)) if isinstance(value, list | tuple) else value


def expected(query: ReadQuery, graph: PlainGraph) -> Any:
    try:
        return [tuple(map(rounded, row)) for row in answer(query, graph).rows]
    except CalculationError:
        return OVERFLOW


def answered(graph: og.Graph, text: str) -> Any:
    try:
        return [tuple(map(rounded, row.values())) for row in graph.query(text).rows()]
    except og.QueryError as error:
        return error.code


def compare(path: Path, catalog: Catalog, random: Random, queries: int) -> None:
    graph = new_graph(path, random)
    stored = plain(graph)
    writer = ExpressionWriter(random)
    for _ in range(queries):
        text = writer.query()
        assert answered(graph, text) == expected(bound(text, catalog), stored), text


@pytest.mark.parametrize("seed", range(3))
def test_an_expression_means_what_plain_python_means(tmp_path: Path, catalog: Catalog, seed: int) -> None:
    compare(tmp_path, catalog, Random(seed), 100)


@pytest.mark.soak
def test_many_expressions_mean_what_plain_python_means(tmp_path: Path, catalog: Catalog) -> None:
    for number in range(40):
        path = tmp_path / str(number)
        path.mkdir()
        compare(path, catalog, SystemRandom(), 500)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.create_graph(str(tmp_path_factory.mktemp("edges") / "graph"), SCHEMA)
    graph.load(
        [
            {"type": "T", "data": {"k": "big", "i": 2**63 - 1, "f": 1e308, "s": "a"}},
            {"type": "T", "data": {"k": "small", "i": 2, "f": 0.5, "s": "b", "m": "2026-03-01T23:30:00Z"}},
        ],
        mode="append",
    )
    return graph


def values(graph: og.Graph, expression: str, where: str = "") -> list[Any]:
    text = f"query q() {{ match {{ $p: T  {where} }} return {{ {expression} as x }} order {{ $p.k }} }}"
    return [row["x"] for row in graph.query(text).rows()]


def test_an_overflow_is_an_error_in_a_column_and_unknown_in_a_condition(graph: og.Graph) -> None:
    with pytest.raises(og.QueryError, match=r"`\$p\.i \+ 1` does not fit", check=has_code(OVERFLOW)):
        values(graph, "$p.i + 1")
    assert values(graph, "$p.k", "$p.i + 1 > 0") == ["small"]
    assert values(graph, "$p.k", '$p.i + 1 > 0 or $p.s = "a"') == ["big", "small"]


def test_an_overflow_in_a_branch_that_is_not_taken_is_none(graph: og.Graph) -> None:
    assert values(graph, "case { $p.i < 10 => $p.i * 9 else => 0 }") == [0, 18]
    assert values(graph, "coalesce($p.i, $p.i * 9)") == [2**63 - 1, 2]
    with pytest.raises(og.QueryError, check=has_code(OVERFLOW)):
        values(graph, "case { $p.i > 10 => $p.i * 9 else => 0 }")


def test_floats_are_finite_or_null(graph: og.Graph) -> None:
    assert values(graph, "$p.f * 10.0") == [None, 5.0]
    assert values(graph, "$p.i / 0") == [None, None]
    assert values(graph, "$p.i % 0") == [None, None]


@pytest.mark.parametrize(
    "expression",
    [
        'replace($t, "a", $t)',
        "replace($t, $p.s, $t)",
        'join(split($t, ""), $t)',
        " + ".join(["$t"] * 90) + " + upper($t) + lower($t)",
        "length(replace($t, $p.s, $t))",
    ],
)
def test_a_text_that_grows_claims_its_memory_before_it_is_built(graph: og.Graph, expression: str) -> None:
    text = f"query q($t: String) {{ match {{ $p: T }} return {{ {expression} as x }} }}"

    with pytest.raises(og.OmnigraphError, match="building texts with", check=has_code("query_memory")):
        graph.query(text, params={"t": "a" * 20_000}, memory_bytes=1 << 20).rows()
    condition = f"query q($t: String) {{ match {{ $p: T  to_string({expression}) > $t }} return {{ $p.k }} }}"
    with pytest.raises(og.OmnigraphError, check=has_code("query_memory")):
        graph.query(condition, params={"t": "a" * 20_000}, memory_bytes=1 << 20).rows()
    assert graph.query(text, params={"t": "aa"}, memory_bytes=5 << 20).rows()


def test_positions_in_a_text_may_be_as_large_as_an_integer(graph: og.Graph) -> None:
    assert values(graph, f"substring($p.k, 1, {2**63 - 1})") == ["ig", "mall"]
    assert values(graph, f"substring($p.k, {2**63 - 1}, {2**63 - 1})") == ["", ""]


def test_a_column_calculates_with_aggregates(graph: og.Graph) -> None:
    row = graph.query(
        "query q() { match { $p: T } return { length($p.s) as n, sum($p.f) / count(*) as mean, count(*) * 2 as two } }"
    ).rows()
    assert row == [{"n": 1, "mean": 5e307, "two": 4}]


def test_a_zone_and_a_pattern_may_be_parameters(graph: og.Graph) -> None:
    text = (
        'query q($z: String, $r: String) { match { $p: T { k: "small" } } '
        "return { date($p.m, $z) as d, extract($p.k, $r) as e } }"
    )
    row = graph.query(text, params={"z": "Asia/Tokyo", "r": "s(m.)"}).rows()[0]
    assert (str(row["d"]), row["e"]) == ("2026-03-02", "ma")
    with pytest.raises(og.QueryError, check=has_code("bad_zone")):
        graph.query(text, params={"z": "Mars/Olympus", "r": "s"}).rows()
    with pytest.raises(og.QueryError, check=has_code("bad_pattern")):
        graph.query(text, params={"z": "UTC", "r": "("}).rows()


def test_a_calculation_is_a_group_key_and_a_sort_key(graph: og.Graph) -> None:
    text = (
        "query q() { match { $p: T } return { upper($p.s) as s, count(*) as n } order { length(upper($p.s)), s desc } }"
    )
    assert [tuple(row.values()) for row in graph.query(text).rows()] == [("B", 1), ("A", 1)]


def test_many_rows_are_calculated_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call of a kernel for all rows of a chunk: no call per row."""
    graph = og.create_graph(str(tmp_path / "graph"), SCHEMA)
    graph.load([{"type": "T", "data": {"k": f"k{n}", "i": n}} for n in range(5_000)], mode="append")
    calls: list[int] = []
    calculate = arithmetic.calculate_integers

    def counted(*arguments: Any) -> Any:
        calls.append(len(arguments[1].values))
        return calculate(*arguments)

    monkeypatch.setattr(arithmetic, "calculate_integers", counted)
    assert (
        math.fsum(row["x"] for row in graph.query("query q() { match { $p: T } return { $p.i * 2 as x } }").rows())
        == 5_000 * 4_999
    )
    assert sum(calls) == 5_000
    assert len(calls) <= 10
