"""Joins by the order of values, against every pair looked at."""

import operator
from collections.abc import Callable
from datetime import date
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.engine.bindings import Bindings
from omnigraph.engine.operators import text_parts
from omnigraph.engine.operators.join import ComparedKeys, MemberKeys, match_alternatives, match_keys, semi_join
from omnigraph.engine.operators.join_matches import JoinMatches
from omnigraph.engine.operators.multiplicity import OVERFLOWED
from omnigraph.engine.physical_plan import Membership
from omnigraph.engine.planning import planner
from omnigraph.query.expr import Op
from worlds import runtime

OPS: dict[Op, Callable[[Any, Any], bool]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
VALUES: dict[pa.DataType, st.SearchStrategy[object]] = {
    pa.int64(): st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63)]),
    pa.uint64(): st.sampled_from([0, 1, 2**63, 2**64 - 1]),
    pa.float64(): st.sampled_from([-0.0, 0.0, 0.5, -1.5, float("inf"), float("-inf")]),
    pa.string(): st.text(alphabet="aZé😀", max_size=2),
    pa.date32(): st.dates(min_value=date(1969, 12, 30), max_value=date(1970, 1, 2)),
}


@st.composite
def two_columns(draw: st.DrawFn) -> tuple[list[object], list[object], pa.DataType]:
    type_ = draw(st.sampled_from(list(VALUES)))
    columns = st.lists(st.none() | VALUES[type_], max_size=8)
    return draw(columns), draw(columns), type_


def sizes(mine: list[Any], others: list[Any]) -> tuple[int, int]:
    return len(mine), len(others)


def list_pairs(found: JoinMatches) -> list[tuple[int, int]]:
    rows, others = found.list_pairs()
    assert (np.diff(rows) >= 0).all()
    return list(zip(rows.tolist(), others.tolist(), strict=True))


def in_order(value: object) -> object:
    """What Python compares as the language does: texts by their code points, as UTF-8 has them."""
    return value.encode() if isinstance(value, str) else value


@example(columns=([-0.0, 0.0], [0.0, -0.0], pa.float64()), op=Op.LT)
@example(columns=([-0.0, 0.0], [0.0, -0.0], pa.float64()), op=Op.LE)
@given(columns=two_columns(), op=st.sampled_from(list(OPS)))
def test_the_pairs_are_those_for_which_the_comparison_is_true(
    columns: tuple[list[object], list[object], pa.DataType], op: Op
) -> None:
    mine, others, type_ = columns

    found = match_keys([ComparedKeys(pa.array(mine, type_), op, pa.array(others, type_))], None, sizes(mine, others))

    assert set(list_pairs(found)) == {
        (row, other)
        for row, a in enumerate(mine)
        for other, b in enumerate(others)
        if a is not None and b is not None and OPS[op](in_order(a), in_order(b))
    }


@pytest.mark.parametrize("weight", [None, np.array([2, 3, 5])])
@pytest.mark.parametrize("own", [None, np.array([1, 10, 100, 1000])])
def test_rows_are_weighted_by_their_pairs(weight: np.ndarray | None, own: np.ndarray | None) -> None:
    left, right = Bindings({"a": np.arange(4)}, 4, own), Bindings({"b": np.arange(3)}, 3, weight)
    found = match_keys([ComparedKeys(pa.array([1, 3, None, 2]), Op.LT, pa.array([2, 3, 1]))], None, (4, 3))

    counted = semi_join(left, right, found, has_multiplicity=True)
    there = semi_join(left, right, found, has_multiplicity=False)

    assert counted is not None
    assert there is not None
    assert counted.columns["a"].tolist() == there.columns["a"].tolist() == [0, 3]
    pairs = np.array([2, 1] if weight is None else [5, 3]) * (1 if own is None else own[[0, 3]])
    assert counted.multiplicity is not None
    assert counted.multiplicity.tolist() == pairs.tolist()
    assert there.multiplicity is None


def test_counts_beyond_64_bits_are_left_to_the_pairs_themselves() -> None:
    left, right = Bindings({"a": np.arange(1)}, 1), Bindings({"b": np.arange(2)}, 2, np.array([OVERFLOWED, 1]))

    found = match_keys([ComparedKeys(pa.array([1]), Op.LT, pa.array([2, 2]))], None, (1, 2))

    assert semi_join(left, right, found, has_multiplicity=True) is None


def is_true(op: Op, a: object, b: object) -> bool:
    return a is not None and b is not None and OPS[op](a, b)


NUMBERS = st.none() | st.integers(0, 3)
KEYS = st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=7)
RANGES = st.sampled_from([Op.LT, Op.LE, Op.GT, Op.GE])


@given(mine=KEYS, others=KEYS, first=st.sampled_from(list(OPS)), second=RANGES, weights=st.booleans())
def test_an_equality_and_two_comparisons_are_one_join(
    mine: list[tuple[Any, ...]], others: list[tuple[Any, ...]], first: Op, second: Op, weights: bool
) -> None:
    ops = (Op.EQ, first, second)
    columns = [
        ComparedKeys(pa.array([a[at] for a in mine], pa.int64()), op, pa.array([b[at] for b in others], pa.int64()))
        for at, op in enumerate(ops)
    ]
    weight = np.arange(1, len(others) + 1) if weights else None
    expected = [
        (row, other)
        for row, a in enumerate(mine)
        for other, b in enumerate(others)
        if all(is_true(op, a[at], b[at]) for at, op in enumerate(ops))
    ]

    found = match_keys(columns, None, sizes(mine, others))

    assert sorted(list_pairs(found)) == expected
    sums = [sum(1 if weight is None else int(weight[b]) for a, b in expected if a == row) for row in range(len(mine))]
    counted = found.sum_pairs(weight)
    assert counted is not None
    assert counted.tolist() == sums
    some = np.arange(len(mine))[::-2]
    assert sorted((int(some[a]), b) for a, b in list_pairs(found.select(some))) == [
        (a, b) for a, b in expected if a in some.tolist()
    ]


@given(mine=KEYS, others=KEYS, count=st.integers(2, 3), weights=st.booleans())
def test_a_pair_of_several_alternatives_is_one(
    mine: list[tuple[Any, ...]], others: list[tuple[Any, ...]], count: int, weights: bool
) -> None:
    columns = [
        ComparedKeys(pa.array([a[at] for a in mine], pa.int64()), Op.EQ, pa.array([b[at] for b in others], pa.int64()))
        for at in range(count)
    ]
    weight = np.arange(1, len(others) + 1) if weights else None

    found = match_alternatives(columns, sizes(mine, others), lambda: None)

    expected = [
        (row, other)
        for row, a in enumerate(mine)
        for other, b in enumerate(others)
        if any(is_true(Op.EQ, a[at], b[at]) for at in range(count))
    ]
    assert sorted(list_pairs(found)) == expected
    counted = found.sum_pairs(weight)
    assert counted is not None
    sums = [sum(1 if weight is None else int(weight[b]) for a, b in expected if a == row) for row in range(len(mine))]
    assert counted.tolist() == sums
    assert list_pairs(found.select(slice(1, 3))) == [(a - 1, b) for a, b in list_pairs(found) if 1 <= a < 3]


TEXTS = st.lists(st.none() | st.text(alphabet="ab é😀", max_size=5), max_size=6)


@example(texts=["", "é", "aé"], parts=["", "\xe9", None], kind=Membership.PART, is_left=False, hashed=1)
@given(
    texts=TEXTS,
    parts=TEXTS,
    kind=st.sampled_from([Membership.PART, Membership.PREFIX]),
    is_left=st.booleans(),
    hashed=st.sampled_from([1, 100]),
)
def test_texts_are_joined_with_their_parts(
    texts: list[str | None], parts: list[str | None], kind: Membership, is_left: bool, hashed: int
) -> None:
    member = MemberKeys(pa.array(texts, pa.string()), kind, pa.array(parts, pa.string()), is_left)

    with patch.object(text_parts, "MIN_HASHED_PARTS", hashed), patch.object(text_parts, "MAX_BLOCK_BYTES", 4):
        found = match_keys([], member, sizes(texts, parts) if is_left else sizes(parts, texts))

    pairs = list_pairs(found) if is_left else [(text, part) for part, text in list_pairs(found)]
    assert sorted(pairs) == [
        (row, other)
        for row, text in enumerate(texts)
        for other, part in enumerate(parts)
        if text is not None
        and part is not None
        and (text.startswith(part) if kind is Membership.PREFIX else part in text)
    ]


# --- whole queries -----------------------------------------------------------------------------------

SCHEMA = """
node N { k: I64 @key  s: String?  f: F64?  d: Date? }
node M { k: String @key  n: I32? }
edge Likes: N -> M
"""
QUERIES = [
    "match { $a: N  $b: N  $a.k < $b.k } return { count($b) as c }",
    "match { $a: N  $b: N  $a.k < $b.k } return { $a.k as a, $b.k as b } limit 7",
    "match { $a: N  $b: N  $a.s >= $b.s } return { $a.k as a, $b.k as b } order { $b.k desc, $a.k } limit 5",
    "match { $a: N  $b: N  $a.f > $b.f } return { $b.k as b, count($a) as c } order { $b.k }",
    "match { $a: N  $b: N  $a.d <= $b.d } return { $a.k as a, count($b) as c, max($b.k) as m } order { $a.k }",
    "match { $a: N  $b: N  $a.k < $b.k  $a.s > $b.s } return { $a.k as a, $b.k as b } order { $a.k, $b.k }",
    "match { $a: N  $m: M  $a.f < $m.n } return { $m.k as m, count($a) as c } order { $m.k }",
    "match { $a: N  $m: M  $a.k >= $m.n  $a likes $x  $x: M } return { count($m) as c }",
    "match { $a: N  not { $b: N  $b.k > $a.k } } return { $a.k as a }",
    "match { $a: N  $b: N  $c: N  $a.k < $b.k  $b.k < $c.k } return { count($a) as c }",
    "match { $a: N  $b: N  $a.k != $b.k } return { count($a) as c }",
    "match { $a: N  $b: N  $a.@id < $b.@id } return { $a.k as a, count($b) as c } order { $a.k }",
    "match { $a: N  $b: N  $a.k < $b.k } return distinct { $a.s as s } order { s }",
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.create_graph(tmp_path_factory.mktemp("g") / "g", SCHEMA, runtime=runtime())
    numbers = range(23)
    nodes = [
        {
            "type": "N",
            "data": {
                "k": number * 7 % 23,
                "s": None if number % 5 == 0 else "abc"[number % 3] * (number % 2 + 1),
                "f": None if number % 7 == 0 else (number % 6) / 2 - 1,
                "d": None if number % 4 == 0 else f"2026-01-{number % 9 + 1:02}",
            },
        }
        for number in numbers
    ]
    others = [{"type": "M", "data": {"k": f"m{one}", "n": None if one == 3 else one - 2}} for one in range(6)]
    edges = [{"edge": "Likes", "from": str(number), "to": f"m{number % 6}", "data": {}} for number in range(0, 23, 2)]
    graph.load([*nodes, *others, *edges], mode="append")
    return graph


def rows(graph: og.Graph, body: str) -> list[dict[str, object]]:
    return list(graph.query(f"query q() {{ {body} }}").rows())


@pytest.mark.parametrize("body", QUERIES)
def test_a_join_by_order_answers_what_all_pairs_answer(
    body: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    paired = rows(graph, body)
    monkeypatch.setattr(planner, "MIN_RANGE_JOIN_PAIRS", 0.0)

    joined = rows(og.open_graph(graph.uri, runtime=runtime()), body)

    assert joined == paired
    assert paired


@pytest.mark.parametrize("side, word", [(0.0, "join on $a.k < $b.k with"), (1_000.0, "product with")])
def test_only_sides_with_many_rows_are_joined_by_order(
    side: float, word: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "MIN_RANGE_JOIN_PAIRS", side)
    fresh = og.open_graph(graph.uri, runtime=runtime())

    plan = fresh.explain(f"query q() {{ {QUERIES[0]} }}").text

    assert word in plan
