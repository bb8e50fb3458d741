"""A record has a most size, told at every way in: so whatever a graph holds is exported in lines that load again."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

import omnigraph as og
from omnigraph.engine.bulk.load_errors import LoadError
from omnigraph.engine.constraints import record_size
from omnigraph.engine.constraints.violations import ConstraintError
from worlds import runtime

LIMIT = record_size.MAX_RECORD_BYTES
SCHEMA = """
node Doc {
  name: String @key
  text: String?
  more: String?
  tags: [String]?
  sizes: [I64]?
  place: Vector(3)?
}
node File { data: Blob?  note: String? }
edge Cites: Doc -> Doc { why: String? }
edge Near: Doc -> Doc
"""
ADD = "query q($n: String, $t: String) { insert Doc { name: $n, text: $t } }"
OVERHEAD = len('{"type":"Doc","data":{"name":"a","text":"","more":null,"tags":null,"sizes":null,"place":null}}')


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())


def exported(graph: og.Graph) -> bytes:
    out = io.BytesIO()
    graph.export(out)
    return out.getvalue()


def reloaded(graph: og.Graph, tmp_path: Path) -> bytes:
    """What a graph exports that was loaded from what this one exports."""
    other = og.create_graph(str(tmp_path / "other"), SCHEMA, runtime=runtime())
    other.load(io.BytesIO(exported(graph)), mode="append")
    return exported(other)


@pytest.mark.parametrize("sign", ["x", "\0", "é", '"'])
def test_the_largest_text_that_a_mutation_takes_is_exported_and_loaded_again(
    graph: og.Graph, tmp_path: Path, sign: str
) -> None:
    width = {"x": 1, "\0": 6, "é": 2, '"': 2}[sign]
    rest = LIMIT - OVERHEAD
    text = sign * (rest // width) + "x" * (rest % width)

    graph.mutate(ADD, params={"n": "a", "t": text})

    assert len(exported(graph).rstrip(b"\n")) == LIMIT
    assert reloaded(graph, tmp_path) == exported(graph)


def test_one_byte_more_is_refused_by_a_mutation_with_the_way_out(graph: og.Graph) -> None:
    with pytest.raises(ConstraintError) as caught:
        graph.mutate(ADD, params={"n": "a", "t": "x" * (LIMIT - OVERHEAD + 1)})

    assert str(caught.value) == (
        f"Doc 'a' has {LIMIT + 1} bytes as a record, but the limit is {LIMIT}; `text` has most of them: shorten it,"
        " or store it in a Blob"
    )
    assert exported(graph) == b""


def test_an_update_that_makes_a_row_too_large_is_refused(graph: og.Graph) -> None:
    half = "x" * (LIMIT // 2)
    graph.mutate(ADD, params={"n": "a", "t": half})

    with pytest.raises(ConstraintError, match=r"Doc 'a' has \d+ bytes as a record"):
        graph.mutate('query q($t: String) { update Doc set { more: $t } where name = "a" }', params={"t": half})

    assert len(exported(graph)) < LIMIT


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv", "jsonl"])
def test_a_file_with_a_row_that_is_too_large_is_refused(graph: og.Graph, tmp_path: Path, kind: str) -> None:
    long = "\1" * (LIMIT // 6)
    table = pa.table({"name": ["a", "b"], "text": ["short", long]})
    path = tmp_path / f"docs.{kind}"
    if kind == "parquet":
        pa_parquet.write_table(table, path)
    elif kind == "csv":
        path.write_text(f"name,text\na,short\nb,{long}\n", encoding="utf-8")
    elif kind == "jsonl":
        path.write_text('{"name":"a"}\n{"name":"b","text":"' + "\\u0000" * (LIMIT // 6 - 9) + '"}\n', encoding="utf-8")

    with pytest.raises(LoadError, match=r"(row|line) [23]: Doc 'b' has \d+ bytes as a record") as caught:
        graph.load(nodes={"Doc": table if kind == "arrow" else path}, mode="append")

    assert [(one.rule, one.property) for one in caught.value.problems] == [("size", "text")]
    assert exported(graph) == b""


def test_a_merge_whose_row_becomes_too_large_is_refused(graph: og.Graph) -> None:
    half = "x" * (LIMIT // 2)
    graph.load([{"type": "Doc", "data": {"name": "a", "text": half}}], mode="append")
    before = exported(graph)

    with pytest.raises(LoadError, match="Doc 'a' has"):
        graph.load([{"type": "Doc", "data": {"name": "a", "more": half}}], mode="merge")

    assert exported(graph) == before


def test_long_lists_count_by_what_they_are_as_json(graph: og.Graph, tmp_path: Path) -> None:
    items = pa.array([["y"] * 1_000_000, ["y" * 100] * 90_000], pa.list_(pa.string()))
    graph.load(nodes={"Doc": pa.table({"name": ["a"], "tags": items.slice(0, 1)})}, mode="append")

    with pytest.raises(LoadError, match=r"Doc 'b' has 9\d{6} bytes as a record.*`tags` has most"):
        graph.load(nodes={"Doc": pa.table({"name": ["b"], "tags": items.slice(1, 1)})}, mode="append")

    assert reloaded(graph, tmp_path) == exported(graph)


def test_many_short_numbers_are_not_taken_for_long_ones(graph: og.Graph, tmp_path: Path) -> None:
    numbers = pa.array([[7] * 4_000_000], pa.list_(pa.int64()))
    graph.load(nodes={"Doc": pa.table({"name": ["a"], "sizes": numbers})}, mode="append")

    again = reloaded(graph, tmp_path)

    assert again == exported(graph)


def test_the_ends_of_an_edge_count_too(graph: og.Graph) -> None:
    far = "n" * (LIMIT // 2 - 200)
    graph.load([{"type": "Doc", "data": {"name": far}}], mode="append")

    with pytest.raises(LoadError, match=r"has \d+ bytes as a record.*`(from|to)` has most of them"):
        graph.load(edges={"Cites": pa.table({"from": [far], "to": [far], "why": ["because " * 100]})}, mode="append")
    with pytest.raises(LoadError, match=r"has \d+ bytes as a record"):
        graph.load(edges={"Near": pa.table({"id": ["i" * 1000], "from": [far], "to": [far]})}, mode="append")


def test_a_blob_does_not_count_but_has_a_limit_of_its_own(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.load([{"type": "File", "id": "f", "data": {"data": b"x" * (2 * LIMIT)}}], mode="append")
    assert reloaded(graph, tmp_path) == exported(graph)
    monkeypatch.setattr(record_size, "MAX_BLOB_BYTES", 1_000)

    with pytest.raises(LoadError, match=r"File.data of 'g' has 1001 bytes, but the limit of a Blob is \d+"):
        graph.load([{"type": "File", "id": "g", "data": {"data": b"x" * 1001}}], mode="append")
    with pytest.raises(ConstraintError, match=r"File.data of '.*' has 1002 bytes"):
        graph.mutate('query q() { insert File { data: "base64:' + "AAAA" * 334 + '" } }')


def test_columns_of_rows_are_no_records(graph: og.Graph) -> None:
    edge = graph._session.load_catalog(graph.snapshot()).edges["Cites"]

    found = list(record_size.find_oversized_records(edge, pa.table({"id": ["e"], "why": ["x" * (2 * LIMIT)]})))

    assert found == []


@pytest.mark.parametrize("blobs, longest", [(0, 8), (1, 512), (2, 1016)])
def test_a_line_may_be_as_long_as_a_record_with_its_blobs(blobs: int, longest: int) -> None:
    assert record_size.compute_line_limit(blobs) == longest * 1024 * 1024
