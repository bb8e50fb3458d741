"""Executors have another working directory than the driver: a relative path means what it means on the driver."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from load_calls import person, text_of
from mutating import new_graph
from omnigraph.engine.decoding.record_error import ColumnError
from omnigraph.errors import MissingError
from omnigraph.ops.load import GraphSource, LoadInput, TypedSource
from omnigraph.ops.load_inputs import GraphLines, InputSource, expand_inputs
from omnigraph.spark.load import load_input
from omnigraph.spark.load.input_splits import Range, Split, make_path_absolute, plan_splits
from raised_codes import has_code
from spark_loading import APART, left_over, reasons, spark_loaded

PEOPLE = 60


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory that no process of Spark is in, with files."""
    made = tmp_path / "data"
    made.mkdir()
    (made / "in.jsonl").write_bytes(text_of(person(f"p{number}", age=number) for number in range(PEOPLE)))
    (made / "in.csv").write_text("name,age\n" + "".join(f"p{number},{number}\n" for number in range(PEOPLE)))
    (made / "bad.csv").write_text("name,age\n" + "".join(f"p{number},old\n" for number in range(PEOPLE)))
    monkeypatch.chdir(made)
    return made


def typed(path: str) -> LoadInput:
    return LoadInput(typed=(TypedSource(type="Person", is_edge=False, data=path),))


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("given", [LoadInput(graph=(GraphSource(data="in.jsonl"),)), typed("in.csv")])
def test_a_relative_path_is_of_the_drivers_directory(spark: SparkSession, graph: og.Graph, given: LoadInput) -> None:
    spark_loaded(spark, graph, "append", given, APART)

    assert graph.snapshot().pin("node:Person").rows == PEOPLE


def test_messages_have_the_name_that_was_given(spark: SparkSession, graph: og.Graph, place: Path) -> None:
    spark_loaded(spark, graph, "append", typed("bad.csv"), APART, on_error=place / "bad", max_errors=PEOPLE)

    assert {one["file"] for one in reasons(place / "bad")} == {"bad.csv"}


@pytest.mark.parametrize("name", ["in.jsonl", "in.csv"])
def test_what_an_executor_does_not_find_is_said_to_be_missing_there(
    spark: SparkSession, graph: og.Graph, place: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def plan(
        inputs: Sequence[InputSource], *, target_bytes: int, planned: Mapping[int, Sequence[Range]] | None
    ) -> list[Split]:
        """Executors see the directory of the driver here, so the file goes before they look."""
        found = plan_splits(inputs, target_bytes=target_bytes, planned=planned)
        (place / name).unlink()
        return found

    monkeypatch.setattr(load_input, "plan_splits", plan)
    given = typed(name) if name.endswith(".csv") else LoadInput(graph=(GraphSource(data=name),))

    with pytest.raises(MissingError, check=has_code("input_not_on_executor")) as refused:
        spark_loaded(spark, graph, "append", given, APART)

    assert refused.value.args[:2] == (name, str(place / name))
    assert "the executor on" in str(refused.value)
    assert left_over(graph) == []


@pytest.mark.usefixtures("place")
def test_a_mistake_of_columns_has_the_name_that_was_given(spark: SparkSession, graph: og.Graph, place: Path) -> None:
    (place / "odd.csv").write_text("naem,age\np1,2\n")

    with pytest.raises(ColumnError, match=r"odd\.csv"):
        spark_loaded(spark, graph, "append", typed("odd.csv"), APART)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("given", [LoadInput(graph=(GraphSource(data="in.jsonl"),)), typed("in.csv")])
def test_an_input_has_an_absolute_path_and_the_name_that_was_given(graph: og.Graph, given: LoadInput) -> None:
    session = graph._session
    (one,) = expand_inputs(given, session.load_catalog(session.resolve_snapshot()))

    found = make_path_absolute(one)

    path = found.source.data if isinstance(found.source, GraphLines) else getattr(found.source, "path", None)
    assert isinstance(path, Path)
    assert path.is_absolute()
    assert found.name == found.source.name == path.name
