"""The splits of an input, read one by one, give what the input gives: rows, lines, and what is wrong with it."""

import gzip
import io
import json
import pickle
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as pa_orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.decoding.input_files import FileDamagedError
from omnigraph.engine.decoding.record_error import ColumnError, RecordError
from omnigraph.ops.load_inputs import GraphSource, InputSource, LoadInput, TypedSource, expand_inputs
from omnigraph.spark.load.input_splits import (
    Split,
    check_reachable,
    count_lines_before,
    plan_splits,
    read_split,
    spool_inputs,
)
from omnigraph.spark.spark_errors import SparkUsageError
from record_reading import CATALOG
from worlds import runtime

Found = tuple[list[tuple[str, int, str]], list[tuple[int, str, bytes]]]
"""Type, line and id of every row; line, message and text of every record that is refused."""

LINES = [
    '{"type":"Person","data":{"name":"ada","age":36}}',
    "",
    "// a comment",
    '{"type":"Person","data":{"name":"bob","age":"old"}}',
    '{"edge":"Knows","from":"ada","to":"bob","id":"k1"}',
    '\ufeff{"type":"Person","data":{"name":"a byte order mark in the middle"}}',
    "{",
    '{"type":"Person","data":{"name":"eve\\nand adam","age":1}}',
    "   ",
    '{"type":"Person","data":{"name":"zoë"}}',
    '{"metadata":{"branch":"further on"}}',
    '{"data":{"id":"zed","name":"zed"},"type":"Person"}',
]
METADATA = '{"metadata":{"branch":"main"}}'
CELLS = ["ada,36", "bob,old", '"a,b",1', '"two\nlines",2', "", '"say ""hi""",3', "too,many,cells", "zoë,4"]


def graph_file(path: Path, text: bytes) -> InputSource:
    path.write_bytes(text)
    (one,) = expand_inputs(LoadInput(graph=(GraphSource(data=path),)), CATALOG)
    return one


def typed_file(path: Path, type_: str = "Person", *, is_edge: bool = False) -> InputSource:
    (one,) = expand_inputs(LoadInput(typed=(TypedSource(type=type_, is_edge=is_edge, data=path),)), CATALOG)
    return one


def whole(one: InputSource) -> Found:
    return gathered([(one, Split(number=0, input=0, start=0, end=-1))])


def by_splits(one: InputSource, target: int) -> Found:
    splits = plan_splits([one], target_bytes=target)
    return gathered([(pickle.loads(pickle.dumps(one)), split) for split in splits])  # noqa: S301 - our own bytes


def gathered(parts: list[tuple[InputSource, Split]]) -> Found:
    rows: list[tuple[int, str, int, str]] = []
    rejected: list[tuple[int, RecordError, bytes]] = []
    lines: dict[int, int] = {}
    for one, split in parts:
        refused: list[tuple[RecordError, bytes]] = []
        reading = read_split(one, split, runtime().ids, reject=lambda *bad, to=refused: to.append(bad))
        for window in reading:
            ids = window.rows["id"].to_pylist()
            rows += [
                (split.number, window.type.name, line, id_)
                for line, id_ in zip(window.lines.to_pylist(), ids, strict=True)
            ]
        lines[split.number] = reading.lines
        rejected += [(split.number, error, text) for error, text in refused]
    before = count_lines_before([split for _, split in parts], lines)
    return (
        sorted((type_, before[number] + line, id_) for number, type_, line, id_ in rows),
        sorted(
            (before[number] + error.line, RecordError(*_moved(error, before[number])).__str__(), text)
            for number, error, text in rejected
        ),
    )


def _moved(error: RecordError, lines: int) -> tuple[str, int, str | None, str | None, str | None, str, str]:
    return error.file, error.line + lines, error.type, error.property, error.value, error.reason, error.unit


@pytest.mark.parametrize("target", [1, 3, 7, 20, 50, 51, 52, 100, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n", ""], ids=["lf", "crlf", "open"])
def test_graph_jsonl_in_splits_is_the_same(tmp_path: Path, target: int, end: str) -> None:
    text = ((end or "\n").join([METADATA, *LINES]) + end).encode()
    one = graph_file(tmp_path / "in.jsonl", b"\xef\xbb\xbf" + text)

    rows, rejected = by_splits(one, target)

    assert (rows, rejected) == whole(one)
    assert len(rows) == 5
    assert len(rejected) == 4


@given(st.lists(st.sampled_from(LINES), max_size=12), st.integers(1, 200))
def test_any_lines_in_any_splits_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], target: int
) -> None:
    one = graph_file(tmp_path_factory.mktemp("any") / "in.jsonl", "\n".join(lines).encode())

    assert by_splits(one, target) == whole(one)


@pytest.mark.parametrize("target", [1, 9, 40, 1000])
def test_jsonl_of_one_type_in_splits_is_the_same(tmp_path: Path, target: int) -> None:
    path = tmp_path / "people.jsonl"
    path.write_text('{"name":"ada"}\n\n{"name":1}\n// no\n{"name":"bob"}\n', encoding="utf-8")
    one = typed_file(path)

    rows, rejected = by_splits(one, target)

    assert (rows, rejected) == whole(one)
    assert [line for _, line, _ in rows] == [1, 5]
    assert [line for line, _, _ in rejected] == [3]


@pytest.mark.parametrize("target", [1, 2, 5, 12, 30, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_csv_in_splits_is_the_same(tmp_path: Path, target: int, end: str) -> None:
    path = tmp_path / "people.csv"
    path.write_text("\ufeff" + end + end.join(["name,age", *CELLS * 3]) + end, encoding="utf-8", newline="")
    one = typed_file(path)

    rows, rejected = by_splits(one, target)

    assert (rows, rejected) == whole(one)
    assert len(rows) == 15
    assert len(rejected) == 6


@given(st.lists(st.sampled_from(CELLS), max_size=12), st.integers(1, 60), st.booleans())
def test_any_csv_in_any_splits_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, cells: list[str], target: int, is_closed: bool
) -> None:
    path = tmp_path_factory.mktemp("any") / "people.csv"
    path.write_text("\n".join(["name,age", *cells]) + "\n" * is_closed, encoding="utf-8", newline="")
    one = typed_file(path)

    assert by_splits(one, target) == whole(one)


def test_a_header_with_line_breaks_stands_before_every_split(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text('"na\nme",age\n' + "".join(f"p{n},{n}\n" for n in range(50)), encoding="utf-8")
    source = TypedSource(type="Person", is_edge=False, data=path, columns={"name": "na\nme"})
    (one,) = expand_inputs(LoadInput(typed=(source,)), CATALOG)

    rows, rejected = by_splits(one, 20)

    assert len(plan_splits([one], target_bytes=20)) > 10
    assert [line for _, line, _ in rows] == list(range(3, 53))
    assert rejected == []


def test_a_csv_with_carriage_returns_alone_is_one_split(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("name,age\rada,1\rbob,2\nzoë,3\n", encoding="utf-8", newline="")
    one = typed_file(path)

    assert len(plan_splits([one], target_bytes=1)) == 1
    assert len(by_splits(one, 1)[0]) == 3


def test_quotes_that_are_wrong_are_told_by_their_line_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("name,age\n" + "ada,1\n" * 10 + 'b"ob,2\n', encoding="utf-8")

    with pytest.raises(FileDamagedError, match="on line 12, a quote stands inside of a cell"):
        plan_splits([typed_file(path)], target_bytes=20)


@pytest.mark.parametrize("target", [1, 300, 10**9])
def test_parquet_in_splits_is_the_same(tmp_path: Path, target: int) -> None:
    path = tmp_path / "people.parquet"
    table = pa.table({"name": [f"p{n}" for n in range(100)], "mood": ["happy", "odd"] * 50})
    pq.write_table(table, path, row_group_size=7)
    one = typed_file(path)

    rows, rejected = by_splits(one, target)

    assert (rows, rejected) == whole(one)
    assert [line for line, _, _ in rejected] == list(range(2, 101, 2))


def test_every_row_group_is_a_split_when_it_is_large_enough(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"name": [f"p{n}" for n in range(100)]}), path, row_group_size=10)

    splits = plan_splits([typed_file(path)], target_bytes=1)

    assert [(split.start, split.end) for split in splits] == [(n, n + 1) for n in range(10)]


def test_orc_in_splits_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "people.orc"
    table = pa.table({"name": [f"person {n} " + str(n * n) * 20 for n in range(40_000)]})
    pa_orc.write_table(table, path, stripe_size=64 * 1024, compression="uncompressed")
    one = typed_file(path)

    assert len(plan_splits([one], target_bytes=1)) > 1
    assert by_splits(one, 1) == whole(one)


def test_a_file_without_rows_has_a_split_in_which_its_columns_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"nome": pa.array([], pa.utf8())}), path)

    with pytest.raises(ColumnError, match="unknown column"):
        by_splits(typed_file(path), 1)


def test_compressed_text_is_one_split(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(LINES).encode()))
    one = graph_file(path, path.read_bytes())

    assert len(plan_splits([one], target_bytes=1)) == 1
    assert len(by_splits(one, 1)[0]) == 5


def test_a_stream_is_spooled_and_keeps_its_name(tmp_path: Path) -> None:
    stream = GraphSource(data=io.BytesIO("\n".join(LINES).encode()), name="<stdin>")
    inputs = spool_inputs(expand_inputs(LoadInput(graph=(stream,)), CATALOG), tmp_path)

    rows, rejected = by_splits(inputs[0], 30)

    assert len(rows) == 5
    assert all(message.startswith("<stdin>, line ") for _, message, _ in rejected)


def test_a_table_is_spooled_and_split_by_its_batches(tmp_path: Path) -> None:
    batches = [pa.record_batch({"name": [f"p{n}-{m}" for m in range(10)]}) for n in range(10)]
    source = TypedSource(type="Person", is_edge=False, data=pa.Table.from_batches(batches))
    (one,) = spool_inputs(expand_inputs(LoadInput(typed=(source,)), CATALOG), tmp_path)

    rows, _ = by_splits(one, 200)

    assert len(plan_splits([one], target_bytes=200)) > 1
    assert [line for _, line, _ in rows] == list(range(1, 101))


def test_a_stream_that_was_not_spooled_is_not_split() -> None:
    stream = GraphSource(data=io.BytesIO(b""), name="<stdin>")
    inputs = expand_inputs(LoadInput(graph=(stream,)), CATALOG)

    with pytest.raises(TypeError, match="has to be spooled"):
        plan_splits(inputs)


@pytest.mark.parametrize("master, is_refused", [("local[2]", False), ("spark://host:7077", True), ("yarn", True)])
def test_a_stream_is_refused_where_tasks_run_elsewhere(master: str, is_refused: bool) -> None:
    stream = GraphSource(data=io.BytesIO(b""), name="<stdin>")
    inputs = expand_inputs(LoadInput(graph=(stream,)), CATALOG)

    with pytest.raises(SparkUsageError, match="only this process can read `<stdin>`") if is_refused else nullcontext():
        check_reachable(inputs, master)


def test_splits_are_numbered_over_all_inputs(tmp_path: Path) -> None:
    text = "\n".join(json.dumps({"type": "Person", "data": {"name": f"p{n}"}}) for n in range(50)).encode()
    inputs = [graph_file(tmp_path / name, text) for name in ("a.jsonl", "b.jsonl")]

    splits = plan_splits(inputs, target_bytes=len(text) // 3 + 1)

    assert [(split.number, split.input) for split in splits] == [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 1)]
    assert sum(split.size for split in splits) == 2 * len(text)
