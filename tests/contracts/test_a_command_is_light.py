"""The process of a command imports what the command needs: that is most of what its first answer takes."""

import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og

SCHEMA = "node Person {\n  name: String @key\n  age: I32?\n}\nedge Knows: Person -> Person\n"
PEOPLE = [
    {"type": "Person", "data": {"name": "Ada", "age": 36}},
    {"type": "Person", "data": {"name": "Bob", "age": None}},
    {"edge": "Knows", "from": "Ada", "to": "Bob", "data": {}},
]
RUN = """
import sys
from omnigraph.cli.main import main

code = main()
sys.stderr.write("\\n".join(sorted(sys.modules)))
sys.exit(code)
"""
QUERY = """
query q() { match { $a: Person { name: "Ada" }  $a knows $b  $b: Person } return { $b.name as name, $b.age as age } }
"""
NOT_FOR_A_COMMAND = {
    "_duckdb",
    "duckdb",
    "http.client",
    "importlib.metadata",
    "pandas",
    "polars",
    "pyarrow.parquet",
    "pyspark",
    "ulid",
}
NOT_FOR_A_QUERY = {*NOT_FOR_A_COMMAND, "numpy.ma", "re2"}
ROOMS_OF_WRITING = tuple(
    f"omnigraph.engine.{room}" for room in ("algorithms", "bulk", "decoding", "merging", "migrating")
)
OPS_OF_A_QUERY = {
    "argument_checks",
    "commit_signature",
    "limits",
    "open",
    "plan_cache",
    "query",
    "query_cache",
    "query_engine",
    "recent_state",
    "select_query",
    "tail_keeper",
    "session",
}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "people.omni")
    og.create_graph(uri, SCHEMA).load(PEOPLE, mode="append")
    return uri


def test_a_query_imports_what_reading_needs(uri: str) -> None:
    modules = modules_after("query", uri, "-e", QUERY)

    ops = {name.removeprefix("omnigraph.ops.") for name in modules if name.startswith("omnigraph.ops.")}
    assert modules & NOT_FOR_A_QUERY == set()
    assert [name for name in modules if name.startswith((*ROOMS_OF_WRITING, "omnigraph.spark"))] == []
    assert ops == OPS_OF_A_QUERY


@pytest.mark.parametrize(
    "statement",
    [
        'insert Person { name: "Cyd", age: 3 }',
        'insert Knows { from: "Bob", to: "Ada" }',
        'update Person set { age: 37 } where name = "Ada"',
        'delete Person where name = "Ada"',
        'delete Knows where from = "Ada"',
    ],
)
def test_a_mutation_imports_no_library_that_it_does_not_need(uri: str, statement: str) -> None:
    modules = modules_after("mutate", uri, "-e", f"query m() {{ {statement} }}")

    assert modules & NOT_FOR_A_COMMAND == set()


def test_a_small_load_does_not_import_pandas(uri: str, tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text('{"type": "Person", "data": {"name": "Cyd"}}\n', encoding="utf-8")

    modules = modules_after("load", uri, "--mode", "append", "--data", str(tmp_path / "more.jsonl"))

    assert {"pandas", "pyspark"} & modules == set()


def modules_after(*arguments: str) -> set[str]:
    """The modules that the process of a command has imported when it ends."""
    result = subprocess.run([sys.executable, "-c", RUN, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return set(result.stderr.split("\n"))
