"""An index finds exactly the rows that the column has, for every type: the same as comparing the whole column."""

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.commit.commit_plan import CommitPlan, Move
from omnigraph.commit.publisher import publish
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.engine.view import View
from omnigraph.lang.source import Source
from omnigraph.ops.create import create
from omnigraph.ops.optimize import OptimizeCall, optimize
from omnigraph.ops.optimize_table import UpkeepCall
from omnigraph.ops.session import Session
from omnigraph.options import Options
from omnigraph.query.expr import Const, Expr, In, Prop, StartsWith
from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType
from omnigraph.storage.index_staging import stage_index
from query import evaluate as meaning
from query.predicates import NOWHERE, both, compare, const, either, member, no, null
from read_thresholds import as_if_large
from row_worlds import write
from upkeep_calls import eager
from worlds import runtime

DAYS = (date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31))
INSTANTS = (
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
)
TEXTS = (
    "",
    "a",
    "a'b",
    'x"y',
    "back\\slash",
    "100%",
    "_",
    "new\nline",
    "é",
    "日本",
    "\U0010ffff",
    "a\U0010ffff",
    "nul\0",
)
FLOATS = (-1e300, -2.5, -1.0, -5e-324, -0.0, 0.0, 5e-324, 0.1, 1.0, 2.5, 3.0, 1e300)
SINGLES = tuple(float(np.float32(value)) for value in (-2.5, -0.0, 0.0, 1e-45, 0.1, 1.0, 2.5, 3.4e38))
VALUES: dict[Scalar, tuple[Any, ...]] = {
    Scalar.STRING: TEXTS,
    Scalar.BOOL: (True, False),
    Scalar.I32: (-(2**31), -1, 0, 1, 2, 3, 2**31 - 1),
    Scalar.I64: (-(2**63), -(2**53) - 1, -1, 0, 1, 2, 3, 2**53 + 1, 2**63 - 1),
    Scalar.U32: (0, 1, 2, 3, 2**31, 2**32 - 1),
    Scalar.U64: (0, 1, 2, 3, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1),
    Scalar.F32: SINGLES,
    Scalar.F64: FLOATS,
    Scalar.DATE: DAYS,
    Scalar.DATETIME: INSTANTS,
}
"""What the rows hold, beside nothing. No door lets a NaN or an infinity in."""
NUMBERS = tuple(
    (type_, value)
    for type_ in VALUES
    if type_.is_numeric
    for value in (*VALUES[type_], *((1e39, -1e39, 0.3) if type_ is Scalar.F64 else ()))
)
"""What numbers of any type are compared with."""
COLOR = EnumOf(("red", "green", "blue"))
COLUMNS: dict[str, ValueType] = {
    **{type_.value.lower(): type_ for type_ in VALUES},
    "color": COLOR,
    **{f"{type_.value.lower()}s": ListOf(type_) for type_ in VALUES},
}
SCHEMA = "node P {\n" + "".join(f"  {name}: {type_}? @index\n" for name, type_ in COLUMNS.items()) + "}"
PYTHON_OPS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
INPUTS = QueryInputs({}, meaning.NOW)
KEY = "node:P"


def column(name: str) -> Prop:
    return Prop(variable="p", name=name, type=COLUMNS[name], nullable=True, origin=NOWHERE)


def random_value(random: Random, type_: ValueType) -> Any:
    if random.random() < 0.2:
        return None
    if isinstance(type_, ListOf):
        return [random.choice(VALUES[type_.element]) for _ in range(random.randrange(4))]
    return random.choice(type_.values if isinstance(type_, EnumOf) else VALUES[type_])  # type: ignore[index]  # a scalar


@dataclass
class Graph:
    """A graph whose rows hold every type, and its states: some indexed in full, some in part."""

    session: Session
    random: Random
    made: int = 0

    def rows(self, ids: list[str]) -> pa.Table:
        rows = [
            {"id": row_id, **{name: random_value(self.random, type_) for name, type_ in COLUMNS.items()}}
            for row_id in ids
        ]
        return pa.Table.from_pylist(rows, build_arrow_schema(self.view().get_type("P")))

    def append(self, count: int) -> None:
        ids = [f"id{number}" for number in range(self.made, self.made + count)]
        self.made += count
        write(self.session, KEY, append=self.rows(ids))

    def index(self) -> None:
        """Index every column as it is declared."""
        for name, type_ in COLUMNS.items():
            scalar_kind = "BITMAP" if type_ is Scalar.BOOL else "BTREE"
            self.index_one(name, "LABEL_LIST" if isinstance(type_, ListOf) else scalar_kind)

    def index_one(self, name: str, kind: str = "BTREE", fragments: list[int] | None = None) -> None:
        staged = stage_index(self.view().tables.open_table(KEY), name, kind, f"{name}_index", fragments=fragments)
        moves = (Move(table_key=KEY, staged=staged),)
        plan = CommitPlan(base=self.session.head(), operation="x", actor="test", moves=moves)
        publish(self.session.log, self.session.handles, plan)

    def view(self) -> View:
        snapshot = self.session.resolve_snapshot()
        return View(self.session.load_catalog(snapshot), self.session.open_tables(snapshot))


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, View]:
    """The states of one graph, by what they are."""
    session = create(
        str(tmp_path_factory.mktemp("g") / "g"), Source(SCHEMA, "all.pg"), actor="t", runtime=runtime(eager())
    )
    graph = Graph(session, Random(7))
    graph.append(150)
    graph.append(50)
    graph.index()
    found = {"indexed": graph.view()}
    graph.append(40)
    write(session, KEY, upsert=graph.rows([f"id{number}" for number in range(0, 60, 3)]))
    write(session, KEY, delete=[f"id{number}" for number in range(1, 220, 7)])
    found["written since"] = graph.view()
    optimize(session, OptimizeCall(upkeep=UpkeepCall(actor="t")))
    found["optimised"] = graph.view()
    return found


STATES = ("indexed", "written since", "optimised")


def by_column(view: View) -> TableReader:
    """Rows of which every column is in memory."""
    rows = GraphCache(Options()).get_reader(view, view.get_type("P"))
    for name in COLUMNS:
        rows.load_column(name)
    return rows


def by_index(view: View) -> TableReader:
    """Rows of which nothing is in memory, and nothing has room there."""
    return GraphCache(Options(cache_bytes=0)).get_reader(view, view.get_type("P"))


def contains(name: str, value: Const) -> In:
    return In(element=value, collection=column(name), origin=NOWHERE)


def predicates_of(name: str) -> Iterator[Expr]:
    """Every comparison of a column with what it can be compared with."""
    type_, own = COLUMNS[name], column(name)
    if isinstance(type_, ListOf):
        others = NUMBERS if type_.element.is_numeric else [(type_.element, value) for value in VALUES[type_.element]]
        yield from (contains(name, const(value, kind)) for kind, value in others)
        return
    yield null(own)
    values: list[tuple[Scalar, Any]]
    if isinstance(type_, EnumOf) or type_ is Scalar.STRING:
        values = [(Scalar.STRING, text) for text in (*TEXTS, *COLOR.values, "re")]
        yield from (StartsWith(text=own, prefix=const(text), origin=NOWHERE) for _, text in values)
    elif isinstance(type_, Scalar) and type_.is_numeric:
        values = list(NUMBERS)
    else:
        assert isinstance(type_, Scalar)
        values = [(type_, value) for value in VALUES[type_]]
    for op in PYTHON_OPS:
        yield from (compare(own, op, const(value, kind)) for kind, value in values)
        yield from (compare(const(value, kind), op, own) for kind, value in values[:3])
    for kind in dict.fromkeys(kind for kind, _ in values):
        yield member(own, *(value for other, value in values if other is kind), of=kind)
        yield from (member(own, value, of=kind) for other, value in values if other is kind)


@pytest.mark.parametrize("most", [24, pytest.param(10**9, marks=pytest.mark.soak)], ids=["some", "all"])
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", COLUMNS)
def test_an_index_finds_what_the_column_has(states: dict[str, View], name: str, state: str, most: int) -> None:
    view = states[state]
    plain, by_lookup = by_column(view), []
    every = list(predicates_of(name))
    chosen = Random(f"{name} {state}").sample(every, min(most, len(every)))

    with as_if_large():
        rows = by_index(view)
        for predicate in chosen:
            by_lookup.append(rows.describe_current_access(predicate, INPUTS).startswith("index"))
            found = rows.find_where(predicate, INPUTS)
            assert found.tolist() == plain.find_where(predicate, INPUTS).tolist(), predicate

    assert sum(by_lookup) > len(by_lookup) / 5  # what is unequal, or near no number, asks none


def test_indexes_of_several_columns_are_asked_together(states: dict[str, View]) -> None:
    view, random = states["written since"], Random(3)
    plain, every = by_column(view), list(chain.from_iterable(map(predicates_of, COLUMNS)))

    with as_if_large():
        rows = by_index(view)
        for _ in range(60):
            terms = random.sample(every, 3)
            shapes: list[Expr] = [
                both(*terms),
                either(*terms),
                both(either(*terms[:2]), no(terms[2])),
                either(both(*terms[:2]), terms[2]),
            ]
            predicate = random.choice(shapes)
            assert rows.find_where(predicate, INPUTS).tolist() == plain.find_where(predicate, INPUTS).tolist(), (
                predicate
            )


def test_a_deep_predicate_is_answered_without_a_filter(states: dict[str, View]) -> None:
    predicate: Expr = compare(column("i32"), "=", const(1))
    for depth in range(60):
        other = compare(column("u64"), "=", const(depth % 4, Scalar.U64))
        predicate = either(predicate, other) if depth % 2 else both(predicate, either(other, null(column("i64"))))
    view = states["indexed"]

    with as_if_large():
        found = by_index(view).find_where(predicate, INPUTS)

    assert found.tolist() == by_column(view).find_where(predicate, INPUTS).tolist()
    assert len(found) > 0


@pytest.mark.parametrize("type_", [Scalar.F32, Scalar.F64])
def test_zeros_of_both_signs_are_equal_where_a_page_of_an_index_ends(tmp_path: Path, type_: Scalar) -> None:
    session = create(str(tmp_path / "g"), Source(f"node P {{ x: {type_}? @index }}"), actor="t", runtime=runtime())
    graph = Graph(session, Random())
    values = np.repeat([-1.0, -0.0, 0.0, 1.0], [4_096, 4_096, 4_096, 100])
    columns = {"id": [f"{number}" for number in range(len(values))], "x": values}
    write(session, KEY, append=pa.Table.from_pydict(columns, build_arrow_schema(graph.view().get_type("P"))))
    graph.index_one("x")
    own, rows = Prop(variable="p", name="x", type=type_, nullable=True, origin=NOWHERE), by_index(graph.view())

    with as_if_large():
        for op, is_true in PYTHON_OPS.items():
            for zero in (0.0, -0.0):
                found = rows.find_where(compare(own, op, const(zero, type_)), INPUTS)
                assert found.tolist() == np.flatnonzero(is_true(values, 0.0)).tolist(), (op, zero)


@pytest.mark.parametrize("name", ["f32s", "f64s"])
def test_zeros_of_both_signs_are_equal_in_lists(states: dict[str, View], name: str) -> None:
    lists = by_column(states["indexed"]).load_column(name).to_pylist()
    expected = [at for at, items in enumerate(lists) if items is not None and 0.0 in items]

    with as_if_large():
        for zero in (0.0, -0.0):
            found = by_index(states["indexed"]).find_where(contains(name, const(zero, Scalar.F64)), INPUTS)
            assert found.tolist() == expected


def numbered(root: Path, parts: list[np.ndarray]) -> Graph:
    """A graph of numbers, each part with a segment of the index of its own."""
    session = create(str(root / "g"), Source("node P { x: I64? @index }"), actor="t", runtime=runtime())
    graph = Graph(session, Random())
    schema = build_arrow_schema(graph.view().get_type("P"))
    for numbers in parts:
        ids = [f"{number}" for number in range(graph.made, graph.made + len(numbers))]
        graph.made += len(numbers)
        write(session, KEY, append=pa.Table.from_pydict({"id": ids, "x": numbers}, schema))
        graph.index_one("x", fragments=[graph.view().tables.open_table(KEY).list_fragments()[-1].number])
    return graph


def test_an_estimate_comes_from_all_segments_of_an_index(tmp_path: Path) -> None:
    view = numbered(tmp_path, [np.arange(10_000), np.arange(10_000, 30_000)]).view()
    own = Prop(variable="p", name="x", type=Scalar.I64, nullable=True, origin=NOWHERE)

    with as_if_large():
        rows = by_index(view)
        shares = [rows.estimate(compare(own, ">=", const(bound, Scalar.I64)), INPUTS) / 30_000 for bound in (0, 10_000)]
        found = rows.find_where(compare(own, ">=", const(29_000, Scalar.I64)), INPUTS)

    assert shares == pytest.approx([1.0, 2 / 3], abs=0.05)
    assert found.tolist() == list(range(29_000, 30_000))
    assert not rows.is_resident("x")


def test_an_estimate_is_the_same_whatever_is_in_memory(tmp_path: Path) -> None:
    view = numbered(tmp_path, [np.random.default_rng(1).permutation(10_000)]).view()
    predicate = compare(
        Prop(variable="p", name="x", type=Scalar.I64, nullable=True, origin=NOWHERE), "<", const(900, Scalar.I64)
    )

    with as_if_large():
        cold, warm = by_index(view), by_column_x(view)
        estimates = [rows.estimate(predicate, INPUTS) for rows in (cold, warm, cold)]
        accesses = [rows.describe_access(predicate, INPUTS) for rows in (cold, warm)]

    assert len(set(estimates)) == 1
    assert estimates[0] == pytest.approx(900, rel=0.1)
    assert accesses == ["index x_index", "index x_index"]


def by_column_x(view: View) -> TableReader:
    rows = GraphCache(Options()).get_reader(view, view.get_type("P"))
    rows.load_column("x")
    return rows
