"""Order is total, null is smallest, a limit gives exactly the first rows; and little is read for it."""

import random
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.clock import SystemClock
from omnigraph.engine.bindings import Bindings
from omnigraph.engine.output import sort, sort_keys
from omnigraph.engine.output.result_pipeline import build_result
from omnigraph.engine.query_budget import Budget, QueryMemoryError
from omnigraph.query.params import ParameterError
from plain_tables import PlainCache, PlainRows, World, tuples
from reference_reader import Record
from schema_making import catalog_from

CATALOG = catalog_from("""
node P {
    k: String?
    i: I32?
    u: U64?
    f: F64?
    g: F32?
    b: Bool?
    d: Date?
    t: DateTime?
    e: enum(red, green)?
    tags: [String]?
    face: Vector(2)?
}
edge E: P -> P { w: F64? }
""")
POOLS: dict[str, Sequence[Any]] = {
    "k": ("", "a", "b", "é", "\uff5e", "\U0001f642"),
    "i": (-(2**31), -1, 0, 1, 2**31 - 1),
    "u": (0, 1, 2**63, 2**64 - 1),
    "f": (-1e300, -0.0, 0.0, 5e-324, 0.1, 1e300),
    "g": (-0.0, 0.0, 2.5),
    "b": (False, True),
    "d": (date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)),
    "t": (datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 0, 0, 0, 1, tzinfo=UTC)),
    "e": ("red", "green"),
}


def people(*values: Any, of: str = "i") -> World:
    """Nodes a, b, c, … with these values."""
    return World(CATALOG, {"P": [{"@id": chr(97 + n), of: value} for n, value in enumerate(values)]})


def ids(over: World, tail: str, at: Sequence[int] | None = None, **params: Any) -> str:
    """The ids in the order that a query gives, joined."""
    positions = list(range(len(over.records["P"]))) if at is None else at
    declared = ", ".join(f"${name}: I64" for name in params)
    text = f"query q({declared}) {{ match {{ $p: P }} return {{ $p.@id as id }} {tail} }}"
    return "".join(row[0] for row in over.rows(text, {"p": positions}, params=params))


def test_null_is_smallest() -> None:
    some = people(2, None, 1, None)

    assert ids(some, "order { $p.i }") == "bdca"
    assert ids(some, "order { $p.i desc }") == "acbd"


def test_ties_are_broken_by_id_ascending_whichever_way_the_key_goes() -> None:
    some = people(1, 1, 0, 0)

    assert ids(some, "order { $p.i }", at=[3, 2, 1, 0]) == "cdab"
    assert ids(some, "order { $p.i desc }", at=[3, 2, 1, 0]) == "abcd"


def test_ties_are_broken_by_the_variables_in_order_of_appearance() -> None:
    some = people(0, 0, 0)
    text = "query q() { match { $b: P $a: P } return { $a.@id as a, $b.@id as b } order { $a.i } }"

    found = some.rows(text, {"a": [0, 1, 0], "b": [2, 0, 1]})

    assert found == [("b", "a"), ("a", "b"), ("a", "c")]


def test_both_zeros_are_equal_so_the_id_decides() -> None:
    assert ids(people(0.0, -0.0, 0.0, of="f"), "order { $p.f }") == "abc"
    assert ids(people(0.0, -0.0, 0.0, of="f"), "order { $p.f desc } limit 2") == "ab"


def test_texts_are_in_order_of_code_points() -> None:
    assert ids(people("\U0001f642", "\uff5e", "b", "Z", "é", of="k"), "order { $p.k }") == "dceba"


def test_a_second_key_decides_what_the_first_leaves_open() -> None:
    some = World(CATALOG, {"P": [{"@id": "a", "i": 1, "k": "y"}, {"@id": "b", "i": 1}, {"@id": "c", "i": 0, "k": "z"}]})

    assert ids(some, "order { $p.i desc, $p.k desc }") == "abc"
    assert ids(some, "order { $p.i desc, $p.k }") == "bac"


def test_a_key_that_stands_there_again_changes_nothing() -> None:
    assert ids(people(2, 1, 3), "order { $p.i, $p.i desc }") == "bac"


def test_a_limit_without_an_order_goes_by_id() -> None:
    assert ids(people(1, 2, 3, 4), "limit 2", at=[3, 1, 2, 0]) == "ab"


def test_pages_don_t_overlap() -> None:
    some = people(1, 1, 1, 1, 1)

    assert [ids(some, f"order {{ $p.i }} limit 2 offset {skip}", at=[4, 2, 0, 1, 3]) for skip in (0, 2, 4, 6)] == [
        "ab",
        "cd",
        "e",
        "",
    ]


def test_an_offset_alone_skips_rows() -> None:
    assert ids(people(3, 2, 1), "offset 1") == "bc"


def test_a_limit_of_nothing_gives_no_row() -> None:
    assert ids(people(3, 2, 1), "limit 0") == ""


def test_limit_and_offset_may_be_parameters() -> None:
    assert ids(people(3, 2, 1), "order { $p.i } limit $n offset $skip", n=1, skip=1) == "b"


def test_counts_beyond_all_rows_are_fine() -> None:
    assert ids(people(3, 2, 1), "limit $n offset $skip", n=2**63 - 1, skip=1) == "bc"
    assert ids(people(3, 2, 1), "limit $n offset $skip", n=2**63 - 1, skip=2**63 - 1) == ""


@pytest.mark.parametrize("word", ["limit", "offset"])
def test_a_parameter_that_counts_rows_is_not_negative(word: str) -> None:
    with pytest.raises(ParameterError, match=f"`{word}` takes a whole number of at least 0, got -1"):
        ids(people(1), f"{word} $n", n=-1)


def test_ties_that_straddle_the_limit_are_decided_exactly() -> None:
    some = people(*(n % 3 for n in range(20)))

    assert ids(some, "order { $p.i } limit 9", at=list(reversed(range(20)))) == "adgjmpsbe"


def test_distinct_rows_come_once() -> None:
    some = people("x", "y", "x", None, None, of="k")
    text = "query q() { match { $p: P } return distinct { $p.k } order { $p.k desc } }"

    assert some.rows(text, {"p": [0, 1, 2, 3, 4, 0]}) == [("y",), ("x",), (None,)]


def test_distinct_compares_whole_nodes_by_identity() -> None:
    some = people("x", "x", of="k")
    text = "query q() { match { $p: P } return distinct { $p } limit 5 }"

    assert [row[0]["id"] for row in some.rows(text, {"p": [1, 0, 1]})] == ["a", "b"]


def test_distinct_ignores_how_many_matches_a_row_stands_for() -> None:
    text = "query q() { match { $p: P } return distinct { $p.i } limit 5 }"

    assert people(1, 1, 2).rows(text, {"p": [0, 1, 2]}, weight=[5, 1, 7]) == [(1,), (2,)]


def test_distinct_rows_of_constants_are_one() -> None:
    text = "query q() { match { $p: P } return distinct { 1 as one } limit 5 }"

    assert people(1, 2).rows(text, {"p": [0, 1]}) == [(1,)]


def test_a_match_that_was_counted_is_listed_when_rows_are_asked_for() -> None:
    text = "query q() { match { $p: P } return { $p.i } order { $p.i desc } }"

    assert people(1, 2).rows(text, {"p": [0, 1]}, weight=[2, 3]) == [(2,), (2,), (2,), (1,), (1,)]


# --- what is read ------------------------------------------------------------------------------------------


def finished(over: World, text: str, size: int, budget: Budget | None = None) -> tuple[list[Any], PlainRows]:
    query = over.query(text)
    reading = over.reading(budget=budget)
    answer = build_result(query, Bindings({"p": np.arange(size)}, size), reading)
    rows: Any = reading.get_reader("P")
    return tuples(answer.fetch(0, answer.size)), rows


def test_only_the_rows_that_come_out_are_fetched() -> None:
    some = World(CATALOG, {"P": [{"@id": f"{n:04}", "i": n % 100, "k": "x"} for n in range(1000)]})

    _, rows = finished(some, "query q() { match { $p: P } return { $p.k } order { $p.i desc } limit 3 }", 1000)

    assert ("k", 3) in rows.read
    assert not [entry for entry in rows.read if entry[0] == "k" and entry[1] > 3]


def test_a_later_key_is_read_only_of_the_rows_in_doubt() -> None:
    some = World(CATALOG, {"P": [{"@id": f"{n:04}", "i": n // 10, "k": str(n)} for n in range(1000)]})

    _, rows = finished(some, "query q() { match { $p: P } return { $p.i } order { $p.i, $p.k } limit 5 }", 1000)

    assert max(count for column, count in rows.read if column == "k") == 10


def test_sorting_more_than_the_memory_holds_is_refused() -> None:
    some = World(CATALOG, {"P": [{"@id": str(n), "i": n} for n in range(1000)]})

    with pytest.raises(QueryMemoryError, match="sorting 1,000 rows"):
        finished(
            some,
            "query q() { match { $p: P } return { $p.i } order { $p.i } }",
            1000,
            Budget(SystemClock(), memory_bytes=1000),
        )


# --- against plain Python ------------------------------------------------------------------------------------

ORDERS = (*(f"$p.{name}" for name in POOLS), "$p.@id", "$q.k", "$q.i", "$q.@id")


@st.composite
def some_people(draw: st.DrawFn) -> list[Record]:
    names = draw(st.lists(st.sampled_from("hgfedcba"), min_size=1, max_size=8, unique=True))
    some = {name: st.none() | st.sampled_from(pool) for name, pool in POOLS.items()}
    return [{"@id": name, **draw(st.fixed_dictionaries(some))} for name in names]


@pytest.mark.parametrize("many", [1, 4096])
@settings(max_examples=120)
@given(data=st.data())
def test_order_and_limit_are_as_in_plain_python(many: int, data: st.DataObject) -> None:
    records = data.draw(some_people())
    place = st.integers(0, len(records) - 1)
    pairs = data.draw(st.lists(st.tuples(place, place), max_size=30, unique=True))
    columns = {"p": [pair[0] for pair in pairs], "q": [pair[1] for pair in pairs]}
    keys = data.draw(st.lists(st.tuples(st.sampled_from(ORDERS), st.sampled_from(["", " asc", " desc"])), max_size=3))
    order = f"order {{ {', '.join(key + way for key, way in keys)} }}" if keys else ""
    limit = data.draw(st.sampled_from(["", "limit 0", "limit 1", "limit 3", "limit 7", "limit 100"]))
    offset = data.draw(st.sampled_from(["", "offset 1", "offset 4"]))
    is_distinct = data.draw(st.booleans())
    shown = "$p.@id as a, $q.@id as b, $p.f as f"
    if is_distinct:
        shown = ", ".join(f"{key} as c{number}" for number, (key, _) in enumerate(keys)) or "$p.k, $q.i"
    output = f"return {'distinct' if is_distinct else ''} {{ {shown} }}"
    text = f"query q() {{ match {{ $p: P $q: P }} {output} {order} {limit or 'limit 50'} {offset} }}"
    over = World(CATALOG, {"P": records})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sort_keys, "_MIN_RANKED_ROWS", many)
        # Every page is narrowed down as one of many rows is.
        patch.setattr(sort, "_MAX_EXTRA_ROWS", -1_000 if many == 1 else 0)
        patch.setattr(sort, "_LARGE_TOP_DIVISOR", 1_000 if many == 1 else 1)
        found = over.rows(text, columns)

    assert found == over.expected(text, columns)


@pytest.mark.parametrize("top", [1, 10, 499, 500, 501, 5000])
def test_the_first_of_many_are_the_first_of_all(top: int) -> None:
    chance = random.Random(top)
    records = [
        {"@id": f"{chance.random()}", "k": chance.choice("abc"), "i": chance.choice([None, 1, 2])} for _ in range(5000)
    ]
    some = World(CATALOG, {"P": records})
    text = "query q() {{ match {{ $p: P }} return {{ $p.@id as id }} order {{ $p.i desc, $p.k }} {} }}"

    whole, _ = finished(some, text.format(""), 5000)
    first, _ = finished(some, text.format(f"limit {top}"), 5000)

    assert first == whole[:top]
    assert whole == some.expected(text.format(""), {"p": list(range(5000))})


def test_rows_of_a_table_in_order_of_ids_need_no_ids() -> None:
    some = World(CATALOG, {"P": [{"@id": f"{n:04}", "i": 1} for n in range(100)]})

    found, rows = finished(some, "query q() { match { $p: P } return { $p.i } order { $p.i } limit 3 }", 100)

    assert found == [(1,)] * 3
    assert [column for column, _ in rows.read if column == "id"] == []


@pytest.mark.parametrize("key", ["$p.@id", "$p.k"])
def test_asking_for_the_first_again_and_again_gives_the_same(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_keys, "_MIN_RANKED_ROWS", 1)
    chance = random.Random(1)
    some = World(CATALOG, {"P": [{"@id": f"{chance.random()}", "k": chance.choice("abc")} for _ in range(50)]})
    query = some.query(f"query q() {{ match {{ $p: P }} return {{ $p.@id as id }} order {{ {key} desc }} limit 7 }}")
    reading = some.reading()

    found = [build_result(query, Bindings({"p": np.arange(50)}, 50), reading).fetch(0, 7).to_pylist() for _ in range(6)]

    assert all(rows == found[0] for rows in found)
    assert (("P", 1), "order", key.removeprefix("$p.").removeprefix("@")) in cast("PlainCache", reading.cache).kept


@pytest.mark.parametrize("way", ["", " desc"])
@pytest.mark.parametrize("least", [-50, -(2**31)], ids=["many ties", "few ties"])
def test_the_first_of_thousands_are_those_of_a_whole_sort(way: str, least: int) -> None:
    chance = random.Random(7)
    values = [chance.choice((None, chance.randint(least, -least - 1))) for _ in range(3_000)]
    some = World(CATALOG, {"P": [{"@id": f"{n:04}", "i": value} for n, value in enumerate(values)]})

    whole = ids(some, f"order {{ $p.i{way} }}")

    assert ids(some, f"order {{ $p.i{way} }} limit 2") == whole[:8]
    assert ids(some, f"order {{ $p.i{way} }} limit 5 offset 1498") == whole[4 * 1498 : 4 * 1503]


@pytest.mark.parametrize("way", ["", " desc"])
def test_a_page_across_two_values_is_not_cut_by_the_next_key(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort, "_MAX_EXTRA_ROWS", -1_000)
    monkeypatch.setattr(sort, "_LARGE_TOP_DIVISOR", 1_000)
    chance = random.Random(3)
    records = [{"@id": f"{n:04}", "i": chance.choice((None, -5, 0, 7)), "k": chance.choice("abc")} for n in range(40)]
    some = World(CATALOG, {"P": records})

    whole = ids(some, f"order {{ $p.i{way}, $p.k desc }}")

    for offset in range(0, 40, 3):
        page = ids(some, f"order {{ $p.i{way}, $p.k desc }} limit 6 offset {offset}")
        assert page == whole[4 * offset : 4 * (offset + 6)]
