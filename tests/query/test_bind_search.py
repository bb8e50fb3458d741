import pytest

from omnigraph.query.expr import Bm25, Const, Nearest, ParamRef, Rrf, TextMatch, TextMode
from omnigraph.schema.types import Scalar, VectorOf
from query.reading import matching, problems_behind, problems_in, returning

PARAMS = "$t: String, $v: Vector(2), $w: Vector(3), $l: [F32], $n: I32, $m: I32?"


@pytest.mark.parametrize(
    "text, mode",
    [
        ('search($p.bio, "x")', TextMode.ANY),
        ("match_text($p.bio, $t)", TextMode.ALL),
        ("fuzzy($p.bio, $t)", TextMode.FUZZY),
        ("fuzzy($p.bio, $t, 0)", TextMode.FUZZY),
        ("fuzzy($p.bio, $t, $n)", TextMode.FUZZY),
    ],
)
def test_a_text_search_is_a_predicate(text: str, mode: TextMode) -> None:
    (found,) = matching(f"$p: Person {text}", PARAMS).pattern.filters

    assert isinstance(found, TextMatch)
    assert found.mode is mode
    assert found.nullable  # `bio` can be null


@pytest.mark.parametrize(
    "text, expected",
    [
        ('search($p.age, "x")', [("T19", "$p.age")]),
        ('search($p.status, "x")', [("T19", "$p.status")]),
        ('search($p, "x")', [("T19", "$p")]),
        ('search("bio", "x")', [("T19", '"bio"')]),
        ("search($p.bio, 3)", [("T19", "3")]),
        ("search($p.bio, null)", [("T19", "null")]),
        ("search($p.bio, $n)", [("T19", "$n")]),
        ("search($p.bio, $p.name)", [("T19", "$p.name")]),
        ("match_text($p.age, 3)", [("T19", "$p.age"), ("T19", "3")]),
        ('fuzzy($p.bio, "x", -1)', [("T20", "-1")]),
        ('fuzzy($p.bio, "x", 1.5)', [("T20", "1.5")]),
        ('fuzzy($p.bio, "x", $m)', [("T20", "$m")]),
        ('search($p.boi, "x")', [("T2", "boi")]),
    ],
)
def test_a_text_search_has_a_string_property_and_a_string(text: str, expected: list[tuple[str, str]]) -> None:
    assert problems_in(f"$p: Person {text}", PARAMS) == expected


@pytest.mark.parametrize("query", ["$v", "[1, 0.5]", "$t", '"x"'])
def test_nearest_takes_a_vector_of_its_size_or_a_text(query: str) -> None:
    rank = returning(f"{{ $p }} order {{ nearest($p.face, {query}) }} limit 3", params=PARAMS).rank

    assert isinstance(rank, Nearest)
    assert rank.query.type in (VectorOf(2), Scalar.STRING)


def test_a_rank_is_taken_out_of_the_order_and_other_keys_stay() -> None:
    query = returning("{ $p } order { bm25($p.bio, $t) desc, $p.age }", params=PARAMS)

    assert isinstance(query.rank, Bm25)
    assert len(query.order) == 1


@pytest.mark.parametrize("k, expected", [("", 60), (", 10", 10), (", k=7", 7)])
def test_rrf_has_a_k_of_60_unless_given(k: str, expected: int) -> None:
    rank = returning(f"{{ $p }} order {{ rrf(nearest($p.face, $v), bm25($p.bio, $t){k}) }} limit 3", params=PARAMS).rank

    assert isinstance(rank, Rrf)
    assert isinstance(rank.k, Const)
    assert rank.k.value == expected


def test_k_may_be_a_parameter() -> None:
    rank = returning("{ $p } order { rrf(bm25($p.name, $t), bm25($p.bio, $t), k=$n) } limit 3", params=PARAMS).rank

    assert isinstance(rank, Rrf)
    assert isinstance(rank.k, ParamRef)


def test_an_alias_of_a_rank_orders_like_the_rank() -> None:
    query = returning("{ nearest($p.face, $v) as d } order { d } limit 3", params=PARAMS)

    assert query.rank == query.output[0].value


@pytest.mark.parametrize(
    "order, expected",
    [
        ("nearest($p.face, $w)", [("T15", "$w")]),
        ("nearest($p.face, $l)", [("T15", "$l")]),
        ("nearest($p.face, [1])", [("T15", "[1]")]),
        ("nearest($p.face, $p.bio)", [("T15", "$p.bio")]),
        ("nearest($p.bio, $t)", [("T15", "$p.bio")]),
        ("bm25($p.age, $t)", [("T21", "$p.age")]),
        ("bm25($p.bio, 3)", [("T21", "3")]),
        ("rrf(bm25($p.bio, $t), $p.age)", [("T21", "$p.age")]),
        ("rrf(bm25($p.bio, $t), bm25($q.bio, $t))", [("T21", "rrf(bm25($p.bio, $t), bm25($q.bio, $t))")]),
        ("rrf(bm25($p.bio, $t), bm25($p.name, $t), 0)", [("T21", "0")]),
        ("rrf(bm25($p.bio, $t), bm25($p.name, $t), k=$m)", [("T21", "$m")]),
        ("rrf(bm25($p.bio, $t), nearest($p.face))", [("T15", "nearest($p.face)")]),
        ("$p.age, nearest($p.face, $v)", [("T18", "nearest($p.face, $v)")]),
        ("nearest($p.face, $v) desc", [("T18", "nearest($p.face, $v)")]),
        ("bm25($p.bio, $t) asc", [("T18", "bm25($p.bio, $t)")]),
    ],
)
def test_each_rule_of_ranks_has_its_code_and_place(order: str, expected: list[tuple[str, str]]) -> None:
    found = problems_behind(f"{{ $p.name }} order {{ {order} }} limit 3", "$p: Person $q: Person", PARAMS)

    assert found == expected


@pytest.mark.parametrize(
    "tail, expected",
    [
        ("{ $p } order { nearest($p.face, $v) }", [("T17", "nearest($p.face, $v)")]),
        ("{ nearest($p.face, $v) as d } order { d }", [("T17", "d")]),
        ("{ count(*) } order { bm25($p.bio, $t) }", [("T18", "bm25($p.bio, $t)")]),
        ("{ bm25($p.bio, $t) as s, count(*) }", [("T18", "bm25($p.bio, $t)")]),
        ("distinct { $p.name } order { bm25($p.bio, $t) }", [("T18", "bm25($p.bio, $t)")]),
        ("{ min(nearest($p.face, $v)) as d }", [("T18", "nearest($p.face, $v)")]),
    ],
)
def test_a_rank_goes_with_a_limit_and_without_groups(tail: str, expected: list[tuple[str, str]]) -> None:
    assert problems_behind(tail, params=PARAMS) == expected


@pytest.mark.parametrize("tail", ["{ $p } order { bm25($p.bio, $t) }", "{ nearest($p.face, $v) as d }"])
def test_a_limit_is_not_needed_without_an_order_by_distance(tail: str) -> None:
    assert problems_behind(tail, params=PARAMS) == []
