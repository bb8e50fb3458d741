"""What joins without a hop touch: pairs are not built where another way finds or counts them."""

import re
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine import executor
from omnigraph.engine.operators import text_parts
from omnigraph.engine.operators.join import join
from omnigraph.engine.pipeline import Pipeline
from omnigraph.engine.planning import decorrelate
from worlds import runtime

SCHEMA = """
node A { key: String @key  x: I64  z: I64  g: I64  l: [I64]?  t: String? }
node B { key: String @key  y: I64  w: I64  g: I64  e: I64?  s: String }
"""
ROWS, OTHERS = 3_000, 400


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    random = np.random.default_rng(5)
    graph = og.create_graph(tmp_path_factory.mktemp("g") / "g", SCHEMA, runtime=runtime())
    numbers = random.integers(0, 1_000, (3, ROWS))
    others = random.integers(0, 1_000, (3, OTHERS))
    lists = [None if row % 7 == 0 else random.integers(0, 90, row % 4).tolist() for row in range(ROWS)]
    a = {
        "key": [f"a{row}" for row in range(ROWS)],
        "x": numbers[0],
        "z": numbers[1],
        "g": numbers[2] % 20,
        "l": pa.array(lists, pa.list_(pa.int64())),
        "t": [None if row % 11 == 0 else f"text {row % 97} of {row % 89}é" for row in range(ROWS)],
    }
    b = {
        "key": [f"b{row}" for row in range(OTHERS)],
        "y": others[0],
        "w": others[1],
        "g": others[2] % 20,
        "e": pa.array([None if row % 5 == 0 else row % 100 for row in range(OTHERS)], pa.int64()),
        "s": [f"{row % 120} of" for row in range(OTHERS)],
    }
    graph.load(nodes={"A": pa.table(a), "B": pa.table(b)}, mode="append")
    return graph


@pytest.fixture
def built() -> Iterator[list[int]]:
    """The numbers of pairs that joins build while a test runs; a product fails."""
    sizes: list[int] = []

    def count(*arguments: Any) -> Any:
        pairs = join(*arguments)
        sizes.append(pairs.size)
        return pairs

    with patch.object(executor, "join", count), patch.object(executor, "build_product", None):
        yield sizes


def ask(graph: og.Graph, match: str, returned: str = "count(*) as n") -> list[dict[str, Any]]:
    return list(graph.query(f"query q() {{ match {{ {match} }} return {{ {returned} }} }}").rows())


def rows_of(graph: og.Graph) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    a = ask(graph, "$a: A", "$a.key as k, $a.x as x, $a.z as z, $a.g as g, $a.l as l, $a.t as t")
    return a, ask(graph, "$b: B", "$b.key as k, $b.y as y, $b.w as w, $b.g as g, $b.e as e, $b.s as s")


CONDITIONS: list[tuple[str, Any]] = [
    ("$a.l contains $b.e", lambda a, b: a["l"] is not None and b["e"] is not None and b["e"] in a["l"]),
    ("$b.e in $a.l", lambda a, b: a["l"] is not None and b["e"] is not None and b["e"] in a["l"]),
    ("($a.x = $b.y or $a.z = $b.w)", lambda a, b: a["x"] == b["y"] or a["z"] == b["w"]),
    ("($a.x = $b.y or $a.z = $b.w or $a.g = $b.g)", lambda a, b: (a["x"] - b["y"]) * (a["z"] - b["w"]) == 0
     or a["g"] == b["g"]),
    ("$a.t contains $b.s", lambda a, b: a["t"] is not None and b["s"] in a["t"]),
    ("$a.x < $b.y  $a.z > $b.w", lambda a, b: a["x"] < b["y"] and a["z"] > b["w"]),
    ("$a.x <= $b.y  $a.z <= $b.w + 1", lambda a, b: a["x"] <= b["y"] and a["z"] <= b["w"] + 1),
    ("$a.g = $b.g  $a.x < $b.y  $a.z >= $b.w", lambda a, b: a["g"] == b["g"] and a["x"] < b["y"] and a["z"] >= b["w"]),
    ("$a.g = $b.g  $a.x != $b.y", lambda a, b: a["g"] == b["g"] and a["x"] != b["y"]),
    ("$a.g + 1 = $b.g  $a.x < $b.y", lambda a, b: a["g"] + 1 == b["g"] and a["x"] < b["y"]),
]  # fmt: skip


@pytest.mark.parametrize("condition, is_pair", CONDITIONS)
def test_a_count_builds_no_pair(condition: str, is_pair: Any, graph: og.Graph, built: list[int]) -> None:
    mine, others = rows_of(graph)
    pairs = sum(is_pair(a, b) for a in mine for b in others)

    counted = ask(graph, f"$a: A  $b: B  {condition}")

    assert counted == [{"n": pairs}]
    assert pairs
    assert built == []


@pytest.mark.parametrize("condition, is_pair", CONDITIONS)
def test_a_list_builds_only_the_pairs_of_the_result(
    condition: str, is_pair: Any, graph: og.Graph, built: list[int]
) -> None:
    mine, others = rows_of(graph)
    pairs = {(a["k"], b["k"]) for a in mine for b in others if is_pair(a, b)}

    listed = ask(graph, f"$a: A  $b: B  {condition}", "$a.key as a, $b.key as b")

    assert {(row["a"], row["b"]) for row in listed} == pairs
    assert len(listed) == len(pairs) == sum(built)


@pytest.mark.parametrize("word", ["not", "exists"])
@pytest.mark.parametrize(
    "condition, is_pair",
    [
        ("$b.g = $a.g  $b.x > $a.x", lambda a, b: b["g"] == a["g"] and b["x"] > a["x"]),
        ("$b.x > $a.x", lambda a, b: b["x"] > a["x"]),
        ("$b.g = $a.g  $b.x != $a.x", lambda a, b: b["g"] == a["g"] and b["x"] != a["x"]),
        ("$b.x = $a.x  $b != $a", lambda a, b: b["x"] == a["x"] and b["k"] != a["k"]),
    ],
)
def test_the_largest_of_each_group_is_found_without_pairs(
    word: str, condition: str, is_pair: Any, graph: og.Graph, built: list[int]
) -> None:
    mine, _ = rows_of(graph)
    by_match = {True: 0, False: 0}
    for a in mine:
        by_match[any(is_pair(a, b) for b in mine)] += 1

    counted = ask(graph, f"$a: A  {word} {{ $b: A  {condition} }}")

    assert counted == [{"n": by_match[word == "exists"]}]
    assert built == []


def test_parts_of_one_length_are_searched_together(graph: og.Graph) -> None:
    with patch.object(text_parts, "_search_part", None), patch.object(text_parts, "MIN_HASHED_PARTS", 1):
        counted = ask(graph, "$a: A  $b: B  $a.t contains $b.s")

    assert counted[0]["n"] > 0


@pytest.mark.parametrize(
    "query",
    [
        "match { $a: A  $b: B } return { $a.g, count($b) as n } limit 0",
        "match { $a: A  $b: B } return { sum($a.x) as n } limit 0 offset 3",
        "match { $a: A  $b: B } return { count(distinct $a.x) as n, min($b.y) as m } limit 0",
        "match { $a: A } return { $a.key, row_number() over { order { $a.x } } as n } limit 0",
        "match { $a: A } with { $a, $a.x as v } order { v } match { $b: B  $b.y = $v } return { $v } limit 0",
        "match { $a: A  let $n = count { $b: B  $b.g = $a.g } } return { $n } order { $n } limit 0",
    ],
)
def test_nothing_runs_for_no_row(query: str, graph: og.Graph) -> None:
    with patch.object(Pipeline, "run", None):
        assert list(graph.query(f"query q() {{ {query} }}").rows()) == []


def test_nothing_is_looked_for_after_a_stage_without_rows(graph: og.Graph) -> None:
    query = "match { $a: A } with { $a } limit 0 match { $b: B  $b.g = $a.g } return { count($b) as n }"

    with patch.object(Pipeline, "run", None):
        assert list(graph.query(f"query q() {{ {query} }}").rows()) == [{"n": 0}]


# --- aggregates of several variables through one node --------------------------------------------------

HUB = """
node S { key: String @key  v: I64 }
node H { key: String @key }
node T { key: String @key  v: I64? }
edge Enters: S -> H
edge Leaves: H -> T
"""
ENDS = 2_000
"""The paths through the one hub are its square."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.create_graph(tmp_path_factory.mktemp("hub") / "g", HUB, runtime=runtime())
    numbers = list(range(ENDS))
    s, t = [f"s{number}" for number in numbers], [f"t{number}" for number in numbers]
    values = pa.array([None if number % 3 == 0 else number % 50 for number in numbers], pa.int64())
    nodes = {
        "S": pa.table({"key": s, "v": [number % 70 for number in numbers]}),
        "H": pa.table({"key": ["h"]}),
        "T": pa.table({"key": t, "v": values}),
    }
    edges = {
        "Enters": pa.table({"from": s, "to": ["h"] * ENDS}),
        "Leaves": pa.table({"from": ["h"] * ENDS, "to": t}),
    }
    graph.load(nodes=nodes, edges=edges, mode="append")
    return graph


def test_aggregates_of_both_ends_list_no_path(hub: og.Graph) -> None:
    query = """query q() { match { $s enters $h  $h leaves $t } return { count(*) as n, sum($s.v) as a, avg($t.v) as b,
        min($s.v) as c, max($t.v) as d, count(distinct $s) as e, count(distinct $t.v) as f, median($t.v) as m } having
        { n > 3 } }"""
    mine = [number % 70 for number in range(ENDS)]
    others = [number % 50 for number in range(ENDS) if number % 3]

    explained = hub.explain(query, analyze=True)

    (row,) = hub.query(query).rows()
    assert row["n"] == ENDS**2
    assert row["a"] == sum(mine) * ENDS
    assert row["b"] == sum(others) / len(others)
    assert (row["c"], row["d"], row["e"], row["f"]) == (min(mine), max(others), ENDS, len(set(others)))
    assert row["m"] == float(np.median(others))
    rows = [int(text.replace(",", "")) for text in re.findall(r"\[([\d,]+) rows?,", explained.text)]
    assert max(rows) <= ENDS


def test_a_condition_on_the_row_sees_the_aggregates_of_all_parts(hub: og.Graph) -> None:
    query = "match { $s enters $h  $h leaves $t } return { max($s.v) as a } having { max($t.v) < min($s.v) }"

    assert list(hub.query(f"query q() {{ {query} }}").rows()) == []


@pytest.mark.parametrize("word", ["not", "exists"])
def test_a_test_of_a_shared_hop_reads_the_edges_of_a_hub_once(
    word: str, hub: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decorrelate, "MIN_REPEATED_EDGES", 0.0)
    query = (
        f"query q() {{ match {{ $s enters $h  {word} {{ $r enters $h  $r.v > $s.v }} }} return {{ count(*) as n }} }}"
    )
    largest = sum(number % 70 == 69 for number in range(ENDS))

    explained = hub.explain(query, analyze=True)

    assert list(hub.query(query).rows()) == [{"n": largest if word == "not" else ENDS - largest}]
    rows = [int(text.replace(",", "")) for text in re.findall(r"\[([\d,]+) rows?,", explained.text)]
    assert max(rows) <= ENDS
