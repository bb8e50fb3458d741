"""A process that opens a graph and asks it imports what reading needs: that is most of what its first answer takes."""

import subprocess
import sys

import pytest

import omnigraph as og

SCHEMA = "node Person {\n  name: String @key\n  age: I32?\n}\nedge Knows: Person -> Person\n"
PEOPLE = [
    {"type": "Person", "data": {"name": "Ada", "age": 36}},
    {"type": "Person", "data": {"name": "Bob", "age": None}},
    {"edge": "Knows", "from": "Ada", "to": "Bob", "data": {}},
]
ASK = """
import sys
import omnigraph

graph = omnigraph.open_graph(sys.argv[1], read_only=True)
match = '$a: Person { name: "Ada" }  $a knows $b  $b: Person'
query = f"query q() {{ match {{ {match} }} return {{ $b.name as name, $b.age as age }} }}"
assert list(graph.query(query).rows()) == [{"name": "Bob", "age": None}]
sys.stdout.write("\\n".join(sorted(sys.modules)))
"""
NOT_FOR_A_QUERY = (
    "http.client",
    "importlib.metadata",
    "numpy.ma",
    "pandas",
    "polars",
    "pyarrow.parquet",
    "pyspark",
    "re2",
    "tomllib",
    "ulid",
)
ROOMS_OF_WRITING = tuple(
    f"omnigraph.engine.{room}" for room in ("algorithms", "bulk", "decoding", "merging", "migrating")
)
OPS_OF_A_QUERY = {
    "argument_checks",
    "limits",
    "open",
    "plan_cache",
    "query",
    "query_cache",
    "select_query",
    "session",
    "tail_keeper",
}

PANDAS_LATER = """
import sys
import omnigraph

omnigraph.open_graph
assert "pandas" not in sys.modules
import pandas as pd
import pyarrow as pa

assert pa.array(pd.Series([1.0, float("nan")])).null_count == 1
assert pa.array([1, pd.NA], from_pandas=True).null_count == 1
assert pa.table({"a": pd.Series([1, 2])}).to_pandas()["a"].tolist() == [1, 2]
assert not any("omnigraph" in type(finder).__module__ for finder in sys.meta_path)
assert type(pd.__spec__.loader).__name__ == "SourceFileLoader"
"""

PANDAS_FIRST = """
import sys
import pandas as pd
import omnigraph
import pyarrow as pa

omnigraph.open_graph
assert not any("omnigraph" in type(finder).__module__ for finder in sys.meta_path)
assert pa.array(pd.Series([1.0, float("nan")])).null_count == 1
"""

ARROW_ASKS = """
import sys
import omnigraph
import pyarrow as pa

omnigraph.open_graph
assert pa.array([1, None]).null_count == 1
assert pa.array(sys.modules["pandas"].Series([float("nan")])).null_count == 1
assert pa.array([1, sys.modules["pandas"].NA], from_pandas=True).null_count == 1
"""


@pytest.fixture(scope="module")
def modules_of_a_query(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    uri = str(tmp_path_factory.mktemp("graphs") / "people.omni")
    og.create_graph(uri, SCHEMA).load(PEOPLE, mode="append")
    return set(run(ASK, uri).split("\n"))


def test_a_query_imports_no_library_that_it_does_not_need(modules_of_a_query: set[str]) -> None:
    assert modules_of_a_query & set(NOT_FOR_A_QUERY) == set()


def test_a_query_imports_no_room_of_writing(modules_of_a_query: set[str]) -> None:
    found = [name for name in modules_of_a_query if name.startswith((*ROOMS_OF_WRITING, "omnigraph.spark"))]

    assert found == []


def test_a_query_imports_no_other_verb(modules_of_a_query: set[str]) -> None:
    ops = {name.removeprefix("omnigraph.ops.") for name in modules_of_a_query if name.startswith("omnigraph.ops.")}

    assert ops == OPS_OF_A_QUERY


@pytest.mark.parametrize("code", [PANDAS_LATER, PANDAS_FIRST, ARROW_ASKS], ids=["later", "first", "by pyarrow"])
def test_pyarrow_knows_pandas_whenever_it_is_imported(code: str) -> None:
    pytest.importorskip("pandas")

    run(code)


def run(code: str, *arguments: str) -> str:
    """What a fresh interpreter prints."""
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout
