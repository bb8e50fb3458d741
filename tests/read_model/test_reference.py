"""The engine answers like the reference reader: random graphs, random queries, every way to store and to read them."""

import math
import shutil
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.clock import SystemClock
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.ops.session import Session
from omnigraph.options import Options, Traversal
from omnigraph.query.bind import bind_query
from omnigraph.query.expr import Entity, Expr, ShapedType
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.query.params import check_params
from omnigraph.runtime import Runtime
from omnigraph.schema.arrow import to_arrow_type
from property_profiles import profile
from read_queries import Asked, Triple, random_stage_triple, random_triple, triples
from read_seeding import Arm, Indexes, Past, grown, seed
from read_thresholds import as_if_large, gone
from reference_reader import NOW, PlainGraph, SumOverflowError, TooManyError, answer
from worlds import FAST

ARMS = [
    *(Arm(past, indexes) for past in Past for indexes in Indexes),
    *(Arm(past, indexes, is_optimized=True) for past in Past for indexes in (Indexes.NONE, Indexes.PARTIAL)),
]
TINY_CACHE = 2_000


class FixedClock(SystemClock):
    """Time passes, but the date is always the same."""

    def now(self) -> datetime:
        return NOW


@dataclass(frozen=True)
class Reader:
    """A way to read: settings, and whether the engine is made to believe that the graph is large."""

    name: str
    options: Options
    is_large: bool = False
    chunk_rows: int = 3
    """How many rows are made at once, of a graph that is large."""
    engine: str = "memory"


CSR, INDEXED = (replace(FAST, traversal_mode=mode) for mode in (Traversal.CSR, Traversal.INDEXED))
READERS = (
    Reader("csr", CSR),
    Reader("indexed", INDEXED),
    Reader("no room to keep anything", replace(FAST, cache_bytes=0)),
    Reader("as if large, csr", CSR, is_large=True),
    Reader("as if large, by what the one before left on disk", CSR, is_large=True, chunk_rows=1),
    Reader("as if large, indexed", INDEXED, is_large=True, chunk_rows=2),
    Reader("as if large, little room", replace(FAST, cache_bytes=TINY_CACHE), is_large=True, chunk_rows=11),
)
LOCAL = Reader("local", FAST, engine="local")
FOLLOWERS = (Reader("follows, csr", CSR), Reader("follows as if large", FAST, is_large=True))
"""Those who read after every commit, and extend what they know."""
SHARDS = 4
LONG_SHARDS, LONG_WORLDS, LONG_QUERIES = 16, 480, 50
"""A long run has few graphs with many queries: to store and open a graph in every way costs more than a query."""
ALL_WAYS = 8
"""One graph in so many of a long run is read in all ways; the others in one, for five times as many queries."""
LONG_LEAST = 20_000
"""Queries that a long run compares at least, less than it has, since some are too large for the reference."""
MOST_TRIED = 200_000
"""Bindings that the reference tries for one query of a long run; a few random ones in thousands need far more."""


@pytest.mark.parametrize("shard", range(SHARDS))
def test_the_engine_answers_like_the_reference(shard: int, tmp_path: Path) -> None:
    for number in range(shard, 40, SHARDS):
        compare(number, tmp_path, most_tried=50_000)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_stages_unions_and_windows_are_answered_like_the_reference(shard: int, tmp_path: Path) -> None:
    for number in range(shard, 24, SHARDS):
        compare(number, tmp_path, most_tried=20_000, write=random_stage_triple)


@pytest.mark.parametrize("write", [random_triple, random_stage_triple])
def test_the_local_engine_answers_like_the_reference(write: Callable[..., Triple], tmp_path: Path) -> None:
    for number in range(100, 107):
        compare(number, tmp_path, most_tried=20_000, write=write, readers=(LOCAL,), queries=8)


@pytest.mark.soak
@pytest.mark.parametrize("shard", range(LONG_SHARDS))
def test_stages_unions_and_windows_are_answered_like_the_reference_for_long(shard: int, tmp_path: Path) -> None:
    assert compare_shard(shard, tmp_path, random_stage_triple) >= LONG_LEAST // LONG_SHARDS


@pytest.mark.soak
@pytest.mark.parametrize("shard", range(LONG_SHARDS))
def test_the_engine_answers_like_the_reference_for_long(shard: int, tmp_path: Path) -> None:
    write = partial(random_triple, most_nodes=10, most_edges=25)

    assert compare_shard(shard, tmp_path, write) >= LONG_LEAST // LONG_SHARDS


def compare_shard(shard: int, root: Path, write: Callable[..., Triple]) -> int:
    """Compare the queries of one shard of a long run; return how many there were."""
    first = SystemRandom().randrange(2**32)
    compared = 0
    for number in range(first + shard, first + LONG_WORLDS, LONG_SHARDS):
        is_in_all_ways = number // LONG_SHARDS % ALL_WAYS == 0
        readers = READERS if is_in_all_ways else (Random(-number).choice((*READERS, LOCAL)),)
        compared += compare(number, root, most_tried=MOST_TRIED, write=write, readers=readers, queries=LONG_QUERIES)
    return compared


@pytest.mark.soak
def test_a_small_example_is_found_for_what_differs(tmp_path: Path) -> None:
    @settings(profile(300), derandomize=False)
    @given(triples(), st.sampled_from(ARMS))
    def check(triple: Triple, arm: Arm) -> None:
        compare_all(triple, arm, tmp_path / "g", MOST_TRIED)

    check()


@pytest.mark.soak
@pytest.mark.parametrize("shard", range(40))
def test_every_way_to_read_a_larger_graph_gives_the_same(shard: int, tmp_path: Path) -> None:
    chance = Random(shard)
    triple = random_triple(chance, queries=8, most_nodes=150, most_edges=400)
    session = seed(tmp_path / "g", triple.world, chance.choice(ARMS))

    answers = {reader.name: [_limited(reader, session.uri, asked) for asked in triple.queries] for reader in READERS}

    for name, found in answers.items():
        for asked, first, other in zip(triple.queries, answers["csr"], found, strict=True):
            if first is not None and other is not None:
                assert_same(replace(first, is_ordered="limit" in asked.text), other, f"{name}:\n{asked.text}")


def _limited(reader: Reader, uri: str, asked: Asked) -> "Rows | None":
    """The answer; None when there are too many matches to look at, as a product of hundreds of nodes may have."""
    with as_if_large(chunk_rows=64, cells=2_048) if reader.is_large else nullcontext():
        found = found_by(opened(uri, reader), asked, memory_bytes=2**22)
    return None if found.failure == "query_memory" else found


def test_every_limit_that_is_lowered_here_is_there() -> None:
    assert gone() == []


def compare(
    number: int,
    root: Path,
    *,
    most_tried: float = math.inf,
    write: Callable[..., Triple] = random_triple,
    readers: Sequence[Reader] = READERS,
    **sizes: int,
) -> int:
    """Compare the queries of one random graph, always the same for a number; return how many there were."""
    chance = Random(number)
    triple, arm = write(chance, **sizes), chance.choice(ARMS)
    try:
        return compare_all(triple, arm, root / str(number), most_tried, readers)
    except BaseException as error:
        error.add_note(f"example {number}: {arm}\n{triple.world.schema}\n{triple.world.graph}")
        raise


def compare_all(
    triple: Triple, arm: Arm, place: Path, most_tried: float = math.inf, readers: Sequence[Reader] = READERS
) -> int:
    """Read a graph in every way, after each commit or at the end; queries with more to try are left out.

    Return the number of queries that were compared.
    """
    try:
        followers: list[tuple[Reader, og.Graph]] = []
        expected: list[tuple[Asked, Rows]] = []
        states = grown(place, triple.world, arm)
        # Before the last commit only the followers read.
        for session, held in states if readers is READERS else deque(states, maxlen=1):
            wanted = ((asked, expectation(asked, held, session, most_tried)) for asked in triple.queries)
            expected = [(asked, rows) for asked, rows in wanted if rows is not None]
            if readers is READERS:
                followers = followers or [(reader, opened(session.uri, reader)) for reader in FOLLOWERS]
            for reader, graph in followers:
                check_answers(reader, graph, expected)
        for reader in readers:
            check_answers(reader, opened(str(place), reader), expected)
        return len(expected)
    finally:
        shutil.rmtree(place)


def check_answers(reader: Reader, graph: og.Graph, expected: Sequence[tuple[Asked, "Rows"]]) -> None:
    """Fails at the first answer that is not the expected one."""
    with as_if_large(reader.chunk_rows) if reader.is_large else nullcontext():
        for asked, wanted in expected:
            assert_same(
                wanted,
                found_by(graph, asked, engine=reader.engine),
                f"{reader.name}:\n{asked.text}{dict(asked.params)}",
            )
        graph._session.reads.wait_for_workers()


# --- what is expected, what is found ---------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """An answer to compare: Arrow types by column, and plain rows. A failure has its code and no rows."""

    types: dict[str, pa.DataType] = field(default_factory=dict)
    rows: tuple[Any, ...] = ()
    is_ordered: bool = True
    failure: str | None = None


def expectation(asked: Asked, graph: PlainGraph, session: Session, most_tried: float) -> Rows | None:
    """What the reference answers; None when it has too much to try."""
    source = Source(asked.text)
    (tree,) = parse_queries(source).require(source).queries
    bound = bind_query(tree, session.load_catalog(session.resolve_snapshot())).require(source)
    assert isinstance(bound, ReadQuery)
    try:
        found = answer(bound, graph, check_params(bound.params, asked.params), most_tried=most_tried)
    except SumOverflowError:
        return Rows(failure="aggregate_overflow")
    except TooManyError:
        return None
    types = {column.name: _arrow(column.value) for column in bound.output}
    return Rows(types, tuple(_plain(row) for row in found.rows), found.is_ordered)


def found_by(graph: og.Graph, asked: Asked, memory_bytes: int | None = None, engine: str = "memory") -> Rows:
    """What the engine answers."""
    try:
        table = graph.query(asked.text, params=asked.params, memory_bytes=memory_bytes, engine=engine).to_arrow()
    except og.OmnigraphError as error:
        return Rows(failure=error.code)
    types = {field.name: field.type for field in table.schema}
    return Rows(types, tuple(_plain(tuple(row.values())) for row in table.to_pylist()))


def assert_same(expected: Rows, found: Rows, about: str) -> None:
    """Fails with the query and both answers."""
    assert found.failure == expected.failure, about
    assert found.types == expected.types, about
    if expected.is_ordered:
        is_same = len(expected.rows) == len(found.rows) and all(map(_is_same, expected.rows, found.rows))
    else:
        is_same = _is_same_bag(expected.rows, found.rows)
    assert is_same, f"{about}\nexpected {expected.rows}\nfound    {found.rows}"


def _is_same_bag(expected: Sequence[Any], found: Sequence[Any]) -> bool:
    """Equal in any order."""
    missing, extra = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    left = list(extra.elements())
    for row in missing.elements():
        same = next((other for other in left if _is_same(row, other)), None)
        if same is None:
            return False
        left.remove(same)
    return not left


def _is_same(expected: Any, found: Any) -> bool:
    """Equal; scores may differ in their last digits."""
    if isinstance(expected, tuple) and isinstance(found, tuple):
        return len(expected) == len(found) and all(map(_is_same, expected, found))
    if isinstance(expected, float) and isinstance(found, float) and expected != found:
        return math.isclose(expected, found, rel_tol=1e-9, abs_tol=1e-12)
    return bool(expected == found)


def _plain(value: Any) -> Any:
    """Hashable and comparable: lists and objects are tuples."""
    if isinstance(value, Mapping):
        return tuple((name, _plain(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return value


def _arrow(expr: Expr) -> pa.DataType:
    if isinstance(expr, Entity):
        # Of a variable that may be null, all parts may be.
        ids = [pa.field(part.value, pa.utf8(), nullable=expr.nullable) for part in expr.ids]
        ids.append(pa.field("@type", pa.utf8(), nullable=expr.nullable))
        fields = [
            (p.name, to_arrow_type(p.type), p.nullable or expr.nullable) for p in expr.fields if p.name != "@type"
        ]
        return pa.struct(ids + [pa.field(name, type_, nullable=nullable) for name, type_, nullable in fields])
    type_ = expr.type
    assert not isinstance(type_, ShapedType)
    return to_arrow_type(type_)


def opened(uri: str, reader: Reader) -> og.Graph:
    """A fresh handle, with nothing read yet."""
    return og.Graph.open(uri, is_read_only=False, runtime=Runtime(options=reader.options, clock=FixedClock()))
