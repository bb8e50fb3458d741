"""The rows of a predicate are the same by key, by index, from memory and by a scan."""

from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mutating import new_graph, run
from omnigraph.bug_error import BugError
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.options import Options
from omnigraph.query.expr import Expr, Identity, MetaColumn, ParamRef, Prop, TextMatch, TextMode
from omnigraph.query.expr_tree import walk
from omnigraph.schema.types import Scalar
from omnigraph.storage.lance_table import read_io_counts
from property_profiles import SOME_AND_MANY, profile
from query import evaluate as meaning
from query.predicates import NOWHERE, both, compare, const, either, member, no, predicates, prop, random_params
from raised_codes import has_code
from read_thresholds import as_if_large
from row_worlds import (
    NODES,
    Model,
    add_index,
    live_rows,
    new_session,
    random_history,
    rows_of,
    table_of,
    view_of,
    write,
)
from worlds import runtime

HISTORIES = 8
PREDICATES = predicates(("p",)).filter(lambda expr: not any(isinstance(part, TextMatch) for part in walk(expr)))
INPUTS = QueryInputs({}, meaning.NOW)
COLUMNS = ("age", "rank", "score", "name", "code", "color", "ok", "tags")


@dataclass(frozen=True)
class World:
    session: Session
    model: Model

    def expected(self, predicate: Expr, params: dict[str, object]) -> set[str]:
        found = set()
        for row_id, row in self.model.items():
            values = {("p", name): tuple(value) if isinstance(value, list) else value for name, value in row.items()}
            if meaning.evaluate(predicate, {**values, ("p", "@id"): row_id}, params) is True:
                found.add(row_id)
        return found


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> list[World]:
    """Histories of 0 to 12 commits; every other one with indexes on some or all fragments."""
    made = []
    for seed in range(HISTORIES):
        session = new_session(tmp_path_factory.mktemp("world") / "g")
        model = random_history(session, seed, 2 * seed)
        numbers = [fragment.number for fragment in rows_of(session).table.list_fragments()]
        if seed % 2 and numbers:
            add_index(session, "code", fragments=numbers)
            add_index(session, "rank", fragments=numbers[: len(numbers) // 2 + 1])
            add_index(session, "color", "BITMAP", fragments=numbers[:1])
        made.append(World(session, model))
    return made


def every_way(session: Session) -> list[TableReader]:
    """Rows of which nothing, every column, or every column and its codes are in memory; and with no memory at all."""
    resident = rows_of(session, cache=GraphCache(Options()))
    coded = rows_of(session, cache=GraphCache(Options()))
    for name in COLUMNS:
        resident.load_column(name)
        if name != "tags":
            coded.load_codes(name)
    return [
        rows_of(session, cache=GraphCache(Options())),
        resident,
        coded,
        rows_of(session, cache=GraphCache(Options(cache_bytes=0))),
    ]


def ids_at(rows: TableReader, at: np.ndarray) -> list[str]:
    found: list[str] = rows.take_values("id", at).to_pylist()
    return found


@SOME_AND_MANY
def test_every_way_finds_the_same_rows(examples: int, worlds: list[World]) -> None:
    ways = [every_way(world.session) for world in worlds]

    @settings(profile(examples))
    @given(PREDICATES, st.integers(0, HISTORIES - 1), st.integers(0, 2**32))
    def check(predicate: Expr, place: int, seed: int) -> None:
        world, params = worlds[place], random_params(seed)
        expected = world.expected(predicate, params)
        for rows in ways[place]:
            found = rows.find_where(predicate, QueryInputs(params, meaning.NOW))
            assert found.tolist() == sorted(set(found.tolist()))
            assert set(ids_at(rows, found)) == expected

    check()


@SOME_AND_MANY
def test_within_some_rows_only_those_are_found(examples: int, worlds: list[World]) -> None:
    ways = [every_way(world.session) for world in worlds]

    @settings(profile(examples))
    @given(PREDICATES, st.integers(0, HISTORIES - 1), st.integers(0, 2**32))
    def check(predicate: Expr, place: int, seed: int) -> None:
        world, params = worlds[place], random_params(seed)
        for rows in ways[place]:
            at = rows.get_positions()
            within = at[[Random(seed + row).random() < 0.5 for row in range(len(at))]] if len(at) else at
            found = rows.find_where(predicate, QueryInputs(params, meaning.NOW), within)
            assert set(found.tolist()) <= set(within.tolist())
            assert set(ids_at(rows, found)) == world.expected(predicate, params) & set(ids_at(rows, within))

    check()


def test_an_estimate_lies_between_no_row_and_all(worlds: list[World]) -> None:
    ways = [every_way(world.session) for world in worlds]

    @settings(profile(200))
    @given(PREDICATES, st.integers(0, HISTORIES - 1), st.integers(0, 2**32))
    def check(predicate: Expr, place: int, seed: int) -> None:
        inputs = QueryInputs(random_params(seed), meaning.NOW)
        for rows in ways[place]:
            assert 0 <= rows.estimate(predicate, inputs) <= rows.count
            assert rows.describe_access(predicate, inputs).split(" ")[0] in ("key", "index", "column")

    check()


# --- how ------------------------------------------------------------------------------------------


def test_an_index_is_used_for_a_column_that_is_not_in_memory(worlds: list[World]) -> None:
    predicate = compare(prop("code"), "=", const("red"))
    large, small = (rows_of(worlds[7].session, cache=GraphCache(Options(cache_bytes=n))) for n in (0, 10**6))

    assert large.describe_current_access(predicate, INPUTS) == "index code_index"
    assert small.describe_current_access(predicate, INPUTS) == "column in memory"


def test_alternatives_ask_indexes_only_if_each_has_one(worlds: list[World]) -> None:
    rows = rows_of(worlds[7].session, cache=GraphCache(Options(cache_bytes=0)))
    indexed, other = compare(prop("code"), "=", const("nobody")), compare(prop("age"), "=", const(77))

    with as_if_large():
        assert (
            rows.describe_current_access(either(indexed, compare(prop("rank"), "=", const(77))), INPUTS)
            == "index code_index"
        )
        assert rows.describe_current_access(either(indexed, other), INPUTS) == "scan"
        assert rows.describe_current_access(both(either(indexed, other), indexed), INPUTS) == "index code_index"


def test_an_index_that_most_rows_pass_is_not_used(worlds: list[World]) -> None:
    predicate = compare(prop("code"), "!=", const("red"))
    rows = rows_of(worlds[7].session, cache=GraphCache(Options(cache_bytes=0)))

    assert rows.describe_current_access(predicate, INPUTS) == "scan"


def test_a_column_that_has_no_room_is_scanned(worlds: list[World]) -> None:
    rows = rows_of(worlds[6].session, cache=GraphCache(Options(cache_bytes=0)))

    rows.find_where(compare(prop("age"), ">", const(1)), INPUTS)

    assert rows.describe_current_access(compare(prop("age"), ">", const(1)), INPUTS) == "scan"
    assert not rows.is_resident("age")


def test_a_search_is_not_answered_here(worlds: list[World]) -> None:
    search = TextMatch(mode=TextMode.ANY, prop=prop("name"), query=const("a"), origin=NOWHERE)

    with pytest.raises(BugError, check=has_code("search_not_here")):
        rows_of(worlds[7].session).find_where(search, INPUTS)


@pytest.mark.parametrize("name", ["age", "tags"])
def test_a_predicate_reads_no_other_column(worlds: list[World], name: str) -> None:
    rows = rows_of(worlds[6].session, cache=GraphCache(Options()))

    rows.find_where(no(compare(prop("age"), ">", const(1))), INPUTS)

    assert rows.is_resident(name) == (name == "age")


def test_a_filter_reads_the_bytes_of_its_own_columns(tmp_path: Path) -> None:
    session, random = new_session(tmp_path / "g"), Random(1)
    long_texts = live_rows(random, [f"id {number}" for number in range(500)])
    for row in long_texts.values():
        row["name"] = row["code"] = random.randbytes(500).hex()
    write(session, NODES, append=table_of(session, long_texts))
    session = open_session(session.uri, is_read_only=True, runtime=runtime())
    rows = rows_of(session)
    before = read_io_counts()

    found = rows.find_where(compare(prop("rank"), ">", const(1)), INPUTS)

    assert len(found) > 0
    assert read_io_counts().nbytes - before.nbytes < 100_000


# --- keys ------------------------------------------------------------------------------------------

KEYED = """
node One { k: String @key  v: I64? }
node Day { on: Date @key }
node Number { n: I64 @key }
node Two { a: String  b: enum(x, y)  @key(a, b) }
"""


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Session:
    graph = new_graph(tmp_path_factory.mktemp("keyed"), KEYED)
    run(graph, 'insert One { k: "a", v: 1 } insert One { k: "b" } insert One { k: "" }')
    run(graph, 'insert Day { on: date("2026-01-02") } insert Number { n: 5 } insert Number { n: -7 }')
    run(graph, 'insert Two { a: "p", b: "x" } insert Two { a: "p", b: "y" } insert Two { a: "q", b: "x" }')
    return graph._session


def column(session: Session, type_name: str, name: str) -> Prop:
    found = view_of(session).get_type(type_name).find_property(name)
    assert found is not None
    return Prop(variable="p", name=name, type=found.type, nullable=found.nullable, origin=NOWHERE)


ID = Identity(variable="p", part=MetaColumn.ID, origin=NOWHERE)
PARAM = ParamRef(name="n", type=Scalar.I32, origin=NOWHERE)


@pytest.mark.parametrize(
    "type_name, make, access, expected",
    [
        ("One", lambda c: compare(c("k"), "=", const("a")), "key", ["a"]),
        ("One", lambda c: compare(const("a"), "=", c("k")), "key", ["a"]),
        ("One", lambda c: compare(c("k"), "=", const(None, Scalar.STRING)), "key", []),
        ("One", lambda _: compare(ID, "=", const("b")), "key", ["b"]),
        ("One", lambda _: member(ID, "b", "z", "a", "b"), "key", ["a", "b"]),
        (
            "One",
            lambda c: both(compare(c("k"), "=", const("a")), compare(c("v"), ">", const(1, Scalar.I64))),
            "key",
            [],
        ),
        ("One", lambda c: both(compare(ID, "=", const("a")), compare(c("k"), "=", const("b"))), "key", []),
        ("One", lambda c: no(compare(c("k"), "=", const("a"))), "column", ["", "b"]),
        (
            "One",
            lambda c: either(compare(c("k"), "=", const("a")), compare(c("k"), "=", const("b"))),
            "column",
            ["a", "b"],
        ),
        ("Number", lambda c: compare(c("n"), "=", const(5, Scalar.I64)), "key", ["5"]),
        ("Number", lambda c: compare(c("n"), "=", PARAM), "key", ["-7"]),
        ("Number", lambda c: compare(c("n"), "=", const(5.0, Scalar.F64)), "column", ["5"]),
        ("Two", lambda c: compare(c("a"), "=", const("p")), "column", ['["p","x"]', '["p","y"]']),
        ("Two", lambda c: both(compare(c("a"), "=", const("p")), member(c("b"), "x")), "key", ['["p","x"]']),
        ("Two", lambda c: both(member(c("a"), "p", "q"), member(c("b"), "x", "z")), "key", ['["p","x"]', '["q","x"]']),
    ],
)
def test_a_key_names_its_row(keyed: Session, type_name: str, make: object, access: str, expected: list[str]) -> None:
    predicate = make(lambda name: column(keyed, type_name, name))  # type: ignore[operator]  # a lambda of the table above
    inputs = QueryInputs({"n": -7}, meaning.NOW)
    rows = rows_of(keyed, type_name, GraphCache(Options()))

    assert rows.describe_access(predicate, inputs) == access
    assert sorted(ids_at(rows, rows.find_where(predicate, inputs))) == expected


def test_a_day_names_its_row(keyed: Session) -> None:
    day = meaning.NOW.date()
    predicate = compare(column(keyed, "Day", "on"), "=", const(day, Scalar.DATE))
    rows = rows_of(keyed, "Day")

    assert rows.describe_access(predicate, INPUTS) == "key"
    assert ids_at(rows, rows.find_where(predicate, INPUTS)) == ["2026-01-02"]
