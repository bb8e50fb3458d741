"""What a selective question costs that nothing in memory answers: the pages of an index, and not a column."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from mutating import run
from omnigraph.schema.arrow import build_arrow_schema, to_arrow_type
from omnigraph.schema.types import Scalar
from omnigraph.storage.lance_table import read_io_counts
from row_worlds import write
from upkeep_calls import eager
from worlds import runtime

ROWS = 60_000
TYPES = ("I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime", "String")
SCHEMA = (
    "node P {\n"
    + "".join(f"  {name.lower()}: {name} @index\n" for name in TYPES)
    + "  bool: Bool @index\n  strings: [String] @index\n  u64s: [U64] @index\n}\n"
    + "".join(f"node U{name} {{ x: {name} @unique  pad: String }}\n" for name in TYPES)
)
SECOND = 10**6
FEW_BYTES = 120_000
"""Less than any of the columns has, and more than a page of an index: 4,096 values with their rows take 20 to 60 KB."""


def values(name: str, numbers: np.ndarray) -> pa.Array:
    """Different values of a type for different numbers, in their order."""
    match name:
        case "String":
            return pa.array([f"text {number:07}" for number in numbers])
        case "Date":
            return pa.array(numbers.astype(np.int32)).cast(pa.date32())
        case "DateTime":
            return pa.array(numbers * SECOND).cast(pa.timestamp("us", "UTC"))
        case _:
            return pa.array(numbers).cast(to_arrow_type(Scalar(name)))


def literal(name: str, number: int) -> str:
    """The value of a number, as a query writes it."""
    match name:
        case "String":
            return f'"text {number:07}"'
        case "Date":
            return f'date("{np.datetime64(number, "D")}")'
        case "DateTime":
            return f'datetime("{np.datetime64(number, "s")}Z")'
        case _:
            return f"{number}.0" if name.startswith("F") else f"{number}"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A graph whose rows lie in random order, with every declared index."""
    uri = str(tmp_path_factory.mktemp("g") / "g")
    graph = og.create_graph(uri, SCHEMA, runtime=runtime(eager()))
    session = graph._session
    catalog = session.load_catalog(session.resolve_snapshot())
    numbers = np.random.default_rng(5).permutation(ROWS)
    ids = pa.array([f"id{number}" for number in range(ROWS)])
    columns = {
        **{name.lower(): values(name, numbers) for name in TYPES},
        "bool": pa.array(numbers < 20),
        "strings": pa.array([[f"t{number // 4}", "all"] for number in numbers]),
        "u64s": pa.array([[2**63 + int(number) // 4] for number in numbers], pa.list_(pa.uint64())),
    }
    write(session, "node:P", append=pa.table({"id": ids, **columns}).cast(build_arrow_schema(catalog.nodes["P"])))
    for name in TYPES:
        schema = build_arrow_schema(catalog.nodes[f"U{name}"])
        pad = pa.array([f"some longer text that is not repeated {number}" for number in numbers])
        rows = pa.table({"id": ids, "x": columns[name.lower()], "pad": pad}).cast(schema)
        write(session, f"node:U{name}", append=rows)
    graph.optimize()
    return uri


def question(predicate: str) -> str:
    return f"query q() {{ match {{ $p: P  {predicate} }} return {{ count($p) as n }} }}"


def cold(uri: str) -> og.Graph:
    """The graph, with nothing of its tables in memory."""
    graph = og.open_graph(uri, runtime=runtime())
    graph.snapshot()
    return graph


SELECTIVE = {
    **{f"{name} {op}": f"$p.{name.lower()} {op} {literal(name, 3)}" for name in TYPES for op in ("=", "<")},
    **{f"{name} >": f"$p.{name.lower()} > {literal(name, ROWS - 3)}" for name in TYPES},
    "Bool": "$p.bool = true",
    "[String]": '$p.strings contains "t7"',
    "[U64]": f"$p.u64s contains {2**63 + 7}",
    "String prefix": '$p.string starts_with "text 000000"',
}


@pytest.mark.parametrize("predicate", SELECTIVE.values(), ids=SELECTIVE)
def test_a_selective_question_reads_pages_of_an_index_and_not_the_column(stored: str, predicate: str) -> None:
    graph = cold(stored)
    before = read_io_counts()

    found = graph.query(question(predicate)).rows()

    assert 1 <= next(iter(found))["n"] <= 20
    assert read_io_counts().nbytes - before.nbytes < (FEW_BYTES if "contains" not in predicate else 5 * FEW_BYTES)


@pytest.mark.parametrize("predicate", SELECTIVE.values(), ids=SELECTIVE)
def test_the_plan_names_the_index_and_expects_few_rows_before_and_after(stored: str, predicate: str) -> None:
    graph = cold(stored)

    first = graph.explain(question(predicate)).text
    graph.query(question(predicate))

    assert graph.explain(question(predicate)).text == first
    scan = graph.explain(question(predicate)).to_json()["plan"]["steps"][0]  # type: ignore[index]  # JSON
    assert "index " in first
    assert scan["estimated_rows"] < ROWS / 100


@pytest.mark.parametrize(
    "predicate",
    [
        "$p.u64 > 20000",
        '$p.date < date("2100-01-01")',
        "$p.i32 != 3",
        "$p.bool = false",
        '$p.i32 > 20000  $p.string contains "77"  $p.string contains "78"  $p.string contains "79"',
    ],
)
def test_a_question_that_many_rows_answer_reads_the_column(stored: str, predicate: str) -> None:
    explained = cold(stored).explain(question(predicate)).text

    assert " column," in explained


def test_a_look_up_tells_its_requests(stored: str) -> None:
    explained = cold(stored).explain(question("$p.u64 = 5"), analyze=True)

    step = explained.to_json()["plan"]["steps"][0]  # type: ignore[index]  # JSON
    assert step["actual"]["requests"] > 0
    assert explained.measured is not None
    assert explained.measured.requests >= step["actual"]["requests"]


def test_a_small_table_that_is_asked_again_and_again_has_its_column_read_once(stored: str) -> None:
    graph = cold(stored)

    costs = []
    for number in range(12):
        before = read_io_counts()
        graph.query(question(f"$p.i64 = {number * 4_099}"))
        costs.append(read_io_counts().nbytes - before.nbytes)

    assert max(costs[:3]) < FEW_BYTES
    assert costs[-4:] == [0, 0, 0, 0]


@pytest.mark.parametrize("name", TYPES)
def test_a_unique_value_is_looked_up_in_the_index(stored: str, tmp_path: Path, name: str) -> None:
    shutil.copytree(stored, tmp_path / "g")
    graph = cold(str(tmp_path / "g"))
    before = read_io_counts()

    with pytest.raises(og.OmnigraphError, match="@unique violation"):
        run(graph, f'insert U{name} {{ x: {literal(name, 17)}, pad: "x" }}')

    assert read_io_counts().nbytes - before.nbytes < FEW_BYTES
    run(graph, f'insert U{name} {{ x: {literal(name, ROWS + 1)}, pad: "x" }}')
