"""Aggregates by group: null keys, weights, exact sums, and the one row without any."""

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.engine.output import sort_keys
from omnigraph.errors import QueryError
from plain_tables import World
from raised_codes import has_code
from reference_reader import Record, SumOverflowError
from schema_making import catalog_from

CATALOG = catalog_from("""
node P {
    k: String?
    i: I32?
    n: I64?
    u: U64?
    f: F64?
    g: F32?
    b: Bool?
    d: Date?
    t: DateTime?
    e: enum(red, green)?
    code: String
    tags: [String]?
    @unique(code)
}
edge E: P -> P { w: F64? }
""")


def person(id_: str, **values: Any) -> Record:
    return {"@id": id_, "code": f"c-{id_}", **values}


def world(*people: Record, edges: Sequence[Record] = ()) -> World:
    return World(CATALOG, {"P": people, "E": edges})


def grouped(
    over: World, output: str, at: Sequence[int] | None = None, weight: Sequence[int] | None = None
) -> list[Any]:
    positions = list(range(len(over.records["P"]))) if at is None else at
    return over.rows(f"query q() {{ match {{ $p: P }} return {{ {output} }} }}", {"p": positions}, weight)


def by_first(rows: list[Any]) -> dict[Any, Any]:
    return {row[0]: row[1:] for row in rows}


def test_projections_that_are_no_aggregates_are_the_keys() -> None:
    people = world(person("a", k="x", i=1), person("b", k="y", i=2), person("c", k="x", i=3))

    found = by_first(grouped(people, "$p.k, count(*) as n, sum($p.i) as total"))

    assert found == {"x": (2, 4), "y": (1, 2)}


def test_null_keys_form_one_group() -> None:
    people = world(person("a", i=1), person("b", k="x"), person("c", i=3))

    found = by_first(grouped(people, "$p.k, count(*) as n"))

    assert found == {None: (2,), "x": (1,)}


def test_both_zeros_are_one_key_that_is_shown_without_its_sign() -> None:
    people = world(person("a", f=-0.0), person("b", f=0.0), person("c", f=-0.0))

    found = grouped(people, "$p.f, count(*) as n")

    assert found == [(0.0, 3)]
    assert math.copysign(1.0, found[0][0]) == 1.0


def test_a_whole_node_is_a_key_by_its_identity() -> None:
    people = world(person("a", k="x"), person("b", k="x"))

    found = grouped(people, "$p, count(*) as n", at=[0, 1, 0])

    assert sorted((row[0]["id"], row[1]) for row in found) == [("a", 2), ("b", 1)]


def test_a_unique_property_that_may_be_null_still_groups_its_nulls() -> None:
    catalog = catalog_from("node P { mail: String? @unique }")
    people = World(catalog, {"P": [{"@id": "a"}, {"@id": "b"}, {"@id": "c", "mail": "m"}]})

    found = people.rows("query q() { match { $p: P } return { $p.mail, count(*) as n } }", {"p": [0, 1, 2]})

    assert sorted(found, key=str) == [("m", 1), (None, 2)]


def test_a_key_that_is_the_same_in_every_row_makes_one_group() -> None:
    people = world(person("a"), person("b"))

    assert grouped(people, "1 as one, count(*) as n") == [(1, 2)]


def test_a_constant_key_over_no_rows_has_no_group() -> None:
    assert grouped(world(), "1 as one, count(*) as n") == []


def test_without_rows_and_keys_there_is_one_row() -> None:
    found = grouped(world(), "count(*) as n, count($p.i) as i, sum($p.i) as s, avg($p.f) as a, min($p.k) as k")

    assert found == [(0, 0, None, None, None)]


@pytest.mark.parametrize("at", [[], [0, 0]])
def test_the_one_row_can_be_ordered_and_cut(at: list[int]) -> None:
    people = world(person("a"))
    text = "query q() {{ match {{ $p: P }} return {{ count(*) as n, sum($p.i) as s }} order {{ n desc, s }} {} }}"

    assert people.rows(text.format("limit 3"), {"p": at}) == [(len(at), None)]
    assert people.rows(text.format("offset 1"), {"p": at}) == []


def test_without_rows_but_with_keys_there_is_none() -> None:
    assert grouped(world(), "$p.k, count(*) as n") == []


def test_nulls_are_skipped_by_all_but_the_count_of_rows() -> None:
    people = world(person("a", i=None), person("b", i=4), person("c", i=None))

    found = grouped(people, "count(*) as rows, count($p) as p, count($p.i) as i, sum($p.i) as s, avg($p.i) as a")

    assert found == [(3, 3, 1, 4, 4.0)]


def test_a_group_of_nulls_only_has_no_sum() -> None:
    people = world(person("a", k="x"), person("b", k="y", i=1))

    found = by_first(grouped(people, "$p.k, sum($p.i) as s, avg($p.i) as a, max($p.i) as m, count($p.i) as n"))

    assert found == {"x": (None, None, None, 0), "y": (1, 1.0, 1, 1)}


def test_different_values_are_counted_once_and_null_never() -> None:
    people = world(person("a", k="x"), person("b", k="x"), person("c", k="y"), person("d"))

    assert grouped(people, "count(distinct $p.k) as k, count(distinct $p) as p", at=[0, 1, 2, 3, 3]) == [(2, 4)]


def test_different_values_are_counted_in_each_group() -> None:
    people = world(person("a", k="x", i=1), person("b", k="x", i=1), person("c", k="y", i=1), person("d", k="y"))

    found = by_first(grouped(people, "$p.k, count(distinct $p.i) as n"))

    assert found == {"x": (1,), "y": (1,)}


def test_a_count_of_lists_counts_those_that_are_there() -> None:
    people = world(person("a", tags=("x",)), person("b", tags=()), person("c"))

    assert grouped(people, "count($p.tags) as n") == [(2,)]


def test_min_and_max_keep_the_type() -> None:
    early, late = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
    people = world(
        person("a", k="é", i=-1, u=2**64 - 1, b=True, d=date(1970, 1, 1), t=early, e="red"),
        person("b", k="z", i=5, u=0, b=False, d=date(1969, 12, 31), t=late, e="green"),
    )

    names = ("k", "i", "u", "b", "d", "t", "e")
    found = grouped(people, ", ".join(f"min($p.{name}) as {name}1, max($p.{name}) as {name}2" for name in names))

    assert found == [
        ("z", "é", -1, 5, 0, 2**64 - 1, False, True, date(1969, 12, 31), date(1970, 1, 1), early, late, "green", "red")
    ]


def test_the_smaller_of_both_zeros_is_always_the_one_without_a_sign() -> None:
    people = world(person("a", f=-0.0, g=-0.0), person("b", f=0.0, g=0.0))

    first = grouped(people, "min($p.f) as f, min($p.g) as g", at=[0, 1])
    second = grouped(people, "min($p.f) as f, min($p.g) as g", at=[1, 0])

    assert str(first) == str(second) == "[(0.0, 0.0)]"


def test_every_row_counts_as_often_as_its_weight_says() -> None:
    people = world(person("a", k="x", i=10), person("b", k="x", i=1), person("c", k="y"))

    folds = (
        "count(*) as n, count($p.i) as c, sum($p.i) as s, avg($p.i) as a, min($p.i) as lo, count(distinct $p.i) as d"
    )
    found = by_first(grouped(people, f"$p.k, {folds}", weight=[3, 1, 5]))

    assert found == {"x": (4, 4, 31, 7.75, 1, 2), "y": (5, 0, None, None, None, 0)}


def test_a_sum_of_integers_is_exact_up_to_the_last_that_fits() -> None:
    people = world(person("a", n=2**63 - 1), person("b", n=2**62), person("c", n=-(2**62)))

    assert grouped(people, "sum($p.n) as s") == [(2**63 - 1,)]


@pytest.mark.parametrize("values", [(2**63 - 1, 1), (-(2**63), -1)])
def test_a_sum_of_integers_that_does_not_fit_is_refused(values: tuple[int, int]) -> None:
    people = world(*(person(str(n), n=value) for n, value in enumerate(values)))

    with pytest.raises(QueryError, match=r"`sum\(\$p.n\)` is larger than I64"):
        grouped(people, "sum($p.n) as s")


def test_a_sum_of_unsigned_integers_is_of_i64_too() -> None:
    people = world(person("a", u=2**63), person("b", u=2**63))

    with pytest.raises(QueryError, check=has_code("aggregate_overflow")):
        grouped(people, "sum($p.u) as s")


def test_an_average_of_integers_does_not_overflow() -> None:
    people = world(person("a", u=2**64 - 1), person("b", u=2**64 - 3))

    assert grouped(people, "avg($p.u) as a") == [(float(2**64 - 2),)]


def test_weights_that_multiply_beyond_64_bits_are_refused() -> None:
    people = world(person("a", n=3))

    with pytest.raises(QueryError, check=has_code("aggregate_overflow")):
        grouped(people, "sum($p.n) as s", weight=[2**62])


def test_a_count_beyond_64_bits_is_refused() -> None:
    people = world(person("a"), person("b"))

    with pytest.raises(QueryError, match=r"`count\(\*\)`"):
        grouped(people, "count(*) as n", weight=[2**62, 2**62])


def test_a_sum_of_floats_is_exact_before_it_is_rounded() -> None:
    people = world(person("a", f=1e300), person("b", f=1.0), person("c", f=-1e300))

    assert grouped(people, "sum($p.f) as s") == [(1.0,)]


def test_a_sum_of_floats_does_not_depend_on_the_order() -> None:
    people = world(*(person(str(n), f=value) for n, value in enumerate((0.1, 0.2, 0.3, 1e16, -1e16, 5e-324))))

    found = {
        grouped(people, "sum($p.f) as s", at=at)[0]
        for at in ([0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [3, 0, 4, 1, 5, 2])
    }

    assert found == {(math.fsum((0.1, 0.2, 0.3)),)}


def test_a_sum_of_floats_is_the_same_counted_or_listed() -> None:
    people = world(person("a", f=0.1), person("b", f=0.7))

    listed = grouped(people, "sum($p.f) as s, avg($p.f) as a", at=[0] * 10 + [1] * 3)
    counted = grouped(people, "sum($p.f) as s, avg($p.f) as a", at=[0, 1], weight=[10, 3])

    assert listed == counted


def test_a_sum_of_floats_beyond_the_largest_is_refused() -> None:
    people = world(person("a", f=1.7e308), person("b", f=1.7e308))

    with pytest.raises(QueryError, match="F64"):
        grouped(people, "sum($p.f) as s")


def test_the_ends_of_edges_are_keys() -> None:
    edges: list[Record] = [
        {"@id": "1", "@src": "a", "@dst": "b", "w": 1.5},
        {"@id": "2", "@src": "a", "@dst": "c", "w": 2.0},
        {"@id": "3", "@src": "b", "@dst": "c"},
    ]
    over = world(person("a"), person("b"), person("c"), edges=edges)
    text = "query q() { match { $a: P $a $e:e $b } return { $e.@src as src, sum($e.w) as w, count(*) as n } }"

    found = over.rows(text, {"a": [0, 0, 1], "b": [1, 2, 2], "e": [0, 1, 2]})

    assert sorted(found) == [("a", 3.5, 2), ("b", None, 1)]


def test_groups_come_out_by_their_keys_when_there_is_a_limit() -> None:
    people = world(person("a", k="y"), person("b", k="x"), person("c", k="z"), person("d"))
    text = "query q() { match { $p: P } return { $p.k, count(*) as n } limit 3 }"

    assert people.rows(text, {"p": [0, 1, 2, 3]}) == [(None, 1), ("x", 1), ("y", 1)]


# --- against plain Python --------------------------------------------------------------------------------

POOLS: dict[str, Sequence[Any]] = {
    "k": ("", "a", "b", "é", "\uff5e", "\U0001f642"),
    "i": (-(2**31), -1, 0, 1, 2**31 - 1),
    "n": (-(2**63), -1, 0, 1, 2**53 + 1, 2**63 - 1),
    "u": (0, 1, 2**63, 2**64 - 1),
    "f": (-1e300, -0.0, 0.0, 0.1, 0.2, 0.7, 5e-324, 2.0**53, 1e300),
    "g": (-0.0, 0.0, 0.10000000149011612, 2.5),
    "b": (False, True),
    "d": (date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)),
    "t": (datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 0, 0, 0, 1, tzinfo=UTC)),
    "e": ("red", "green"),
}
KEYS = (*(f"$p.{name} as k{name}" for name in POOLS), "$p.@id as kid", "$p as whole", "$q.k as kq", "$q.@id as qid")
AGGREGATES = (
    "count(*) as rows",
    *(f"count($p.{name}) as c{name}" for name in POOLS),
    *(f"count(distinct $p.{name}) as d{name}" for name in POOLS),
    *(f"sum($p.{name}) as s{name}" for name in ("i", "n", "u", "f", "g")),
    *(f"avg($p.{name}) as a{name}" for name in ("i", "n", "u", "f", "g")),
    *(f"min($p.{name}) as lo{name}" for name in POOLS),
    *(f"max($p.{name}) as hi{name}" for name in POOLS),
    "count(distinct $q) as dq",
    "max($q.@id) as hq",
)


@st.composite
def people_of(draw: st.DrawFn, most: int = 8) -> list[Record]:
    names = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=most, unique=True))
    some = {name: st.none() | st.sampled_from(pool) for name, pool in POOLS.items()}
    return [person(name, **draw(st.fixed_dictionaries(some))) for name in names]


@settings(max_examples=150)
@given(data=st.data())
def test_groups_are_as_in_plain_python(data: st.DataObject) -> None:
    people = data.draw(people_of())
    keys = data.draw(st.lists(st.sampled_from(KEYS), max_size=3, unique=True))
    aggregates = data.draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=4, unique=True))
    place = st.integers(0, len(people) - 1)
    pairs = data.draw(st.lists(st.tuples(place, place, st.integers(1, 4)), max_size=20))
    columns = {"p": [pair[0] for pair in pairs], "q": [pair[1] for pair in pairs]}
    weight = data.draw(st.sampled_from([None, [pair[2] for pair in pairs]]))
    text = f"query q() {{ match {{ $p: P $q: P }} return {{ {', '.join((*keys, *aggregates))} }} }}"

    try:
        expected = world(*people).expected(text, columns, weight)
    except (SumOverflowError, OverflowError):
        with pytest.raises(QueryError, check=has_code("aggregate_overflow")):
            world(*people).rows(text, columns, weight)
        return
    found = world(*people).rows(text, columns, weight)

    assert sorted(found, key=repr) == sorted(_unsigned(expected), key=repr)


@settings(max_examples=100)
@given(data=st.data())
def test_groups_in_order_are_as_in_plain_python(data: st.DataObject) -> None:
    people = data.draw(people_of())
    columns = data.draw(st.lists(st.sampled_from((*KEYS[:-4], *AGGREGATES[:-2])), min_size=1, max_size=5, unique=True))
    columns = [*columns, "count(*) as every"]
    place = st.integers(0, len(people) - 1)
    positions = {"p": data.draw(st.lists(place, max_size=20))}
    ways = st.sampled_from(["", " desc"])
    aliases = [column.rpartition(" ")[2] for column in columns]
    order = ", ".join(f"{alias}{data.draw(ways)}" for alias in data.draw(st.permutations(aliases))[:2])
    tail = f"order {{ {order} }} limit {data.draw(st.integers(0, 6))} offset {data.draw(st.integers(0, 2))}"
    text = f"query q() {{ match {{ $p: P }} return {{ {', '.join(columns)} }} {tail} }}"

    try:
        expected = world(*people).expected(text, positions)
    except (SumOverflowError, OverflowError):
        with pytest.raises(QueryError, check=has_code("aggregate_overflow")):
            world(*people).rows(text, positions)
        return

    assert world(*people).rows(text, positions) == expected


@pytest.mark.parametrize("name", ["k", "e"])
def test_an_order_that_is_kept_for_a_column_gives_the_same_extremes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    people = world(*(person(f"{n:03}", **{name: POOLS[name][n % 2] if n % 5 else None}) for n in range(40)))
    output = f"$p.@id as id, min($p.{name}) as lo, max($p.{name}) as hi"
    plain = grouped(people, output)
    monkeypatch.setattr(sort_keys, "_MIN_RANKED_ROWS", 1)

    assert sorted(grouped(people, output)) == sorted(plain)


def _unsigned(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Without the sign of zeros, which a group shows none of."""
    return [tuple(value + 0.0 if isinstance(value, float) else value for value in row) for row in rows]


@pytest.mark.parametrize("at", [[0, 1, 2, 3], [3, 1, 0, 2], [2, 2, 0, 1]], ids=["in order", "mixed", "one twice"])
def test_groups_by_something_unique_are_what_groups_are(at: list[int]) -> None:
    people = world(*(person(name, i=value) for name, value in zip("abcd", (1, None, 5, 7), strict=True)))
    weight = [3, 1, 2, 4]

    found = by_first(
        grouped(people, "$p.@id as id, $p.i as i, count(*) as n, count($p.i) as m, sum($p.i) as s", at, weight)
    )

    for place, value in enumerate((1, None, 5, 7)):
        own = sum(w for position, w in zip(at, weight, strict=True) if position == place)
        given = own if value is not None else 0
        expected = (value, own, given, None if value is None else value * own)
        assert found.get("abcd"[place]) == (expected if own else None)
