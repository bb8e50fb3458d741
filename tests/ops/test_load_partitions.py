"""Directories as Hive and Spark write them: the values in their names are those of all rows below."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.orc as pa_orc
import pyarrow.parquet as pa_parquet
import pytest

import omnigraph as og
from load_calls import loaded, text_of
from omnigraph.commit.idempotency import KeyReusedError
from omnigraph.engine.decoding.record_error import ColumnError
from omnigraph.ops.load import LoadError, LoadInput, TypedSource
from worlds import runtime

SCHEMA = """
node Person { name: String @key  year: I32?  day: Date?  city: String?  mood: enum(good, bad)? }
edge Knows: Person -> Person { year: I32? }
"""
WRITERS: dict[str, Callable[[Path, pa.Table], object]] = {
    "parquet": lambda path, rows: pa_parquet.write_table(rows, path),
    "orc": lambda path, rows: pa_orc.write_table(rows, str(path)),
    "csv": lambda path, rows: pa_csv.write_csv(rows, path),
    "jsonl": lambda path, rows: path.write_bytes(text_of(rows.to_pylist())),
}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())


def put(place: Path, ending: str, **columns: list[object]) -> Path:
    place.mkdir(parents=True)
    WRITERS[ending](place / f"part-0.{ending}", pa.table(columns))
    return place


def given(place: Path | str, type_: str = "Person", **columns: str) -> LoadInput:
    return LoadInput(typed=(TypedSource(type=type_, is_edge=type_ == "Knows", data=place, columns=columns),))


def people(graph: og.Graph) -> list[tuple[object, ...]]:
    rows = graph.table("Person").to_table().sort_by("name")
    return [tuple(row[name] for name in ("name", "year", "city", "mood")) for row in rows.to_pylist()]


@pytest.mark.parametrize("ending", WRITERS)
def test_values_of_directories_are_decoded_as_the_property(graph: og.Graph, tmp_path: Path, ending: str) -> None:
    put(tmp_path / "in" / "year=2025" / "city=A%2FB", ending, name=["a", "b"])
    put(tmp_path / "in" / "year=2026" / "city=", ending, name=["c"], mood=["good"])
    put(tmp_path / "in" / "year=__HIVE_DEFAULT_PARTITION__" / "city=__HIVE_DEFAULT_PARTITION__", ending, name=["d"])

    loaded(graph, "append", inputs=given(tmp_path / "in"))

    assert people(graph) == [
        ("a", 2025, "A/B", None),
        ("b", 2025, "A/B", None),
        ("c", 2026, "", "good"),
        ("d", None, None, None),
    ]


@pytest.mark.parametrize("ending", WRITERS)
def test_a_column_of_the_files_counts_more_than_their_directory(graph: og.Graph, tmp_path: Path, ending: str) -> None:
    put(tmp_path / "in" / "year=2025", ending, name=["a"], year=[1999])

    loaded(graph, "append", inputs=given(tmp_path / "in"))

    assert people(graph) == [("a", 1999, None, None)]


@pytest.mark.parametrize("ending", WRITERS)
def test_a_value_that_does_not_fit_is_the_error_of_each_row(graph: og.Graph, tmp_path: Path, ending: str) -> None:
    put(tmp_path / "in" / "year=last", ending, name=["a", "b"])
    put(tmp_path / "in" / "year=1", ending, name=["c"])

    result = loaded(graph, "append", inputs=given(tmp_path / "in"), on_error=tmp_path / "bad")

    assert (result.rejected, people(graph)) == (2, [("c", 1, None, None)])
    assert (tmp_path / "bad" / "rejected.jsonl").read_text() == (
        '{"type":"Person","data":{"name":"a","year":"last"}}\n{"type":"Person","data":{"name":"b","year":"last"}}\n'
    )


def test_a_bad_line_is_not_blamed_for_what_its_directory_holds(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), "node Person { name: String @key  year: I32 }", runtime=runtime())
    place = put(tmp_path / "in" / "year=2025", "jsonl", name=["a"])
    (place / "part-0.jsonl").write_text('{"name": "a", "nme": "b"}\n')

    with pytest.raises(LoadError) as refused:
        loaded(graph, "append", inputs=given(tmp_path / "in"))

    assert [problem.property for problem in refused.value.problems] == ["nme"]


@pytest.mark.parametrize("ending", WRITERS)
def test_a_directory_without_a_property_is_named_with_the_ways_out(
    graph: og.Graph, tmp_path: Path, ending: str
) -> None:
    put(tmp_path / "in" / "dt=1", ending, name=["a"])

    with pytest.raises(ColumnError, match=r"no property for the directories `dt=…`; map one to it, or leave it out"):
        loaded(graph, "append", inputs=given(tmp_path / "in"))
    loaded(graph, "append", inputs=given(tmp_path / "in", year="dt"))
    loaded(graph, "merge", inputs=given(f"{tmp_path}/in/dt=*/*"))

    assert people(graph) == [("a", 1, None, None)]


def test_ends_of_edges_may_be_in_the_names_of_directories(graph: og.Graph, tmp_path: Path) -> None:
    put(tmp_path / "people", "csv", name=["a", "b"])
    put(tmp_path / "in" / "from=a" / "year=7", "parquet", to=["b"])

    loaded(graph, "append", inputs=given(tmp_path / "people"))
    loaded(graph, "append", inputs=given(tmp_path / "in", "Knows"))

    assert graph.query("query q() { match { $a knows $b } return { $a.name as x, $b.name as y } }").rows() == [
        {"x": "a", "y": "b"}
    ]


def test_the_same_files_below_other_directories_are_another_load(graph: og.Graph, tmp_path: Path) -> None:
    put(tmp_path / "one" / "year=1", "csv", name=["a"])
    put(tmp_path / "two" / "year=2", "csv", name=["a"])

    loaded(graph, "merge", inputs=given(tmp_path / "one"), idempotency_key="k")

    with pytest.raises(KeyReusedError):
        loaded(graph, "merge", inputs=given(tmp_path / "two"), idempotency_key="k")
