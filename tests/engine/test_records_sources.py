"""Where rows of one type come from: compressed text, ORC, Arrow data; and what is kept of a row that is refused."""

import gzip
import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as pa_orc
import pyarrow.parquet as pa_parquet
import pytest

from omnigraph.engine.decoding import csv_rows
from omnigraph.engine.decoding.csv_quoting import QuoteChecker
from omnigraph.engine.decoding.graph_jsonl import read_graph_records
from omnigraph.engine.decoding.input_files import FileDamagedError
from omnigraph.engine.decoding.record_error import ColumnError, RecordError
from omnigraph.engine.decoding.typed_files import TypedFile, TypedTable, read_typed
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.schema.catalog import AnyType
from record_reading import CATALOG
from worlds import runtime

Sifted = tuple[list[TypedRows], list[tuple[RecordError, bytes]]]


def type_of(name: str) -> AnyType:
    found = CATALOG.find_type(name)
    assert found is not None
    return found


def sifted(source: Path | pa.Table, type_name: str) -> Sifted:
    rejected: list[tuple[RecordError, bytes]] = []
    type_ = type_of(type_name)
    typed: TypedFile | TypedTable = (
        TypedFile(path=source, type=type_, columns={})
        if isinstance(source, Path)
        else TypedTable(label=f"<nodes {type_name}>", data=source, type=type_, columns={})
    )
    found = list(read_typed(typed, runtime().ids, reject=lambda error, text: rejected.append((error, text))))
    return found, rejected


def column(found: Sequence[TypedRows], name: str) -> list[object]:
    return [value for part in found for value in part.rows[name].to_pylist()]


def put(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


# --- compressed --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, text", [("p.csv.gz", "name,age\na,1\n"), ("p.JSONL.GZ", '{"name":"a","age":1}\n')])
def test_compressed_text_is_read(tmp_path: Path, name: str, text: str) -> None:
    path = put(tmp_path / name, gzip.compress(text.encode()))

    found, rejected = sifted(path, "Person")

    assert (column(found, "name"), column(found, "age"), rejected) == (["a"], [1], [])


@pytest.mark.parametrize("damage", [lambda data: data[:-4], lambda _: b"no gzip", lambda data: data[:30] + b"\0" * 9])
def test_compressed_text_that_breaks_off_is_refused(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    path = put(tmp_path / "p.csv.gz", damage(gzip.compress(b"name,age\n" + b"a,1\n" * 1000)))

    with pytest.raises(FileDamagedError, match="compressed data is damaged or breaks off"):
        sifted(path, "Person")


# --- CSV ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["name,age\na,1", "\ufeffname,age\r\na,1\r\n", '\n"name",age\n\na,1\n\n'])
def test_a_csv_may_have_a_mark_and_line_ends_of_windows_and_blank_lines(tmp_path: Path, text: str) -> None:
    found, rejected = sifted(put(tmp_path / "p.csv", text), "Person")

    assert (column(found, "name"), column(found, "age"), rejected) == (["a"], [1], [])


@pytest.mark.parametrize("text", ["name,age", "name,age\n", "name,age\r\n\r\n"])
def test_a_csv_may_hold_no_rows(tmp_path: Path, text: str) -> None:
    assert sifted(put(tmp_path / "p.csv", text), "Person") == ([], [])


def test_rows_of_a_csv_have_the_lines_that_an_editor_shows(tmp_path: Path) -> None:
    path = put(tmp_path / "t.csv", 'id,text,i32\na,"one\ntwo",1\n\nb,x\nc,"\n",oops\n')

    _, rejected = sifted(path, "Thing")

    assert [(error.line, error.unit) for error, _ in rejected] == [(5, "line"), (6, "line")]


def test_rows_are_counted_right_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_rows, "BLOCK_BYTES", 64)
    lines = ["name,age", *(f"n{row},{row}" if row % 7 else f"n{row}" for row in range(1, 101))]
    path = put(tmp_path / "p.csv", "\n".join(lines))

    found, rejected = sifted(path, "Person")

    assert len(found) > 5
    lines_of_rows = [line for part in found for line in part.lines.to_pylist()]
    assert lines_of_rows == [int(str(age)) + 1 for age in column(found, "age")]
    assert [error.line for error, _ in rejected] == list(range(8, 102, 7))


QUOTES = {
    "never closed": ('name\n"a\nb\nc\n', "the quote that is opened on line 2 is never closed"),
    "inside of a cell": ('name\na\nb"c"\n', "on line 3, a quote stands inside of a cell"),
    "behind a blank": ('name,age\na, "1"\n', "on line 2, a quote stands inside of a cell"),
    "text behind a quote": ('name\n"a"b\n', "on line 2, text follows a closing quote"),
}


@pytest.mark.parametrize("case", QUOTES)
def test_quotes_that_are_not_in_order_stop_the_read(tmp_path: Path, case: str) -> None:
    text, reason = QUOTES[case]

    with pytest.raises(FileDamagedError, match=reason):
        sifted(put(tmp_path / "p.csv", text), "Person")


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_quotes_are_checked_however_the_chunks_fall(size: int) -> None:
    data = b'name,age\n"a ""x"" b","1"\n"",2\n'
    check = QuoteChecker("p.csv")

    for start in range(0, len(data), size):
        check.feed(data[start : start + size])
    check.finish()

    check.feed(b'\n"a"')
    with pytest.raises(FileDamagedError, match="on line 5, text follows"):
        check.feed(b"x")


def test_a_cell_that_is_no_text_is_refused_with_its_row(tmp_path: Path) -> None:
    path = put(tmp_path / "p.csv", b"name,age\na,1\nb\xff,2\nc,\xff\n")

    found, rejected = sifted(path, "Person")

    assert column(found, "name") == ["a"]
    assert [(error.line, error.property, error.reason) for error, _ in rejected] == [
        (3, "name", "the cell is not UTF-8: byte 0xff at offset 1; save it as UTF-8"),
        (4, "age", "the cell is not UTF-8: byte 0xff at offset 0; save it as UTF-8"),
    ]


# --- ORC, Parquet and Arrow data ---------------------------------------------------------------------


def test_orc_is_read(tmp_path: Path) -> None:
    pa_orc.write_table(pa.table({"name": ["a", "b"], "age": pa.array([1, None], pa.int64())}), tmp_path / "p.orc")

    found, rejected = sifted(tmp_path / "p.orc", "Person")

    assert (column(found, "name"), column(found, "age"), rejected) == (["a", "b"], [1, None], [])


def test_a_damaged_orc_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileDamagedError):
        sifted(put(tmp_path / "p.orc", b"ORC, but not really"), "Person")


def test_a_file_without_rows_still_has_its_columns_checked(tmp_path: Path) -> None:
    pa_parquet.write_table(pa.table({"nmae": pa.array([], pa.utf8())}), tmp_path / "p.parquet")

    with pytest.raises(ColumnError, match='unknown column "nmae"'):
        sifted(tmp_path / "p.parquet", "Person")


def test_arrow_data_is_read_and_named_in_messages() -> None:
    found, rejected = sifted(pa.table({"name": ["a", "b"], "age": [1, 2**40]}), "Person")

    assert column(found, "name") == ["a"]
    ((error, _),) = rejected
    assert str(error).startswith("<nodes Person>, row 2: `Person.age`: 1099511627776 can't be held exactly by I32")


def test_a_column_that_has_the_right_type_is_passed_on_as_it_is() -> None:
    names = pa.array(["a", "b"])

    found, _ = sifted(pa.table({"name": names, "mood": ["sad", "happy"]}), "Person")

    assert found[0].rows["name"].chunk(0).buffers()[2].address == names.buffers()[2].address


def test_a_bad_row_among_many_is_found() -> None:
    ages = [1] * 5000
    ages[1234] = 2**31
    ages[4999] = -(2**31) - 1

    found, rejected = sifted(pa.table({"name": [str(row) for row in range(5000)], "age": ages}), "Person")

    assert [error.line for error, _ in rejected] == [1235, 5000]
    assert len(column(found, "name")) == 4998


def test_bytes_that_are_no_text_in_a_column_of_text_are_refused() -> None:
    broken = pa.Array.from_buffers(
        pa.utf8(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")]
    )

    found, rejected = sifted(pa.table({"name": broken}), "Person")

    assert column(found, "name") == ["a"]
    assert [(error.line, error.reason) for error, _ in rejected] == [(2, "the text is not UTF-8")]


def test_lists_of_the_right_length_are_vectors() -> None:
    given = pa.table({"id": ["a", "b"], "vec": pa.array([[1.0, 2.0, 3.0], None], pa.list_(pa.float64()))})

    found, _ = sifted(given, "Thing")

    assert column(found, "vec") == [[1.0, 2.0, 3.0], None]


# --- what is kept of a row that is refused -----------------------------------------------------------


def test_a_refused_row_of_a_csv_can_be_mended_and_loaded(tmp_path: Path) -> None:
    path = put(tmp_path / "t.csv", 'id,text,i32,day,vec,tags\nx,"a ""b""",oops,2020-01-01,"[1,2,3]",\n')

    _, ((error, text),) = sifted(path, "Thing")

    assert error.property == "i32"
    assert json.loads(text) == {
        "type": "Thing",
        "id": "x",
        "data": {"text": 'a "b"', "i32": "oops", "day": "2020-01-01", "vec": [1, 2, 3], "tags": None},
    }
    assert loaded(text.replace(b'"oops"', b"5"))[0]["i32"] == 5


def test_a_refused_row_of_arrow_data_can_be_mended_and_loaded() -> None:
    given = pa.table(
        {
            "id": ["x"],
            "i32": pa.array([2**31], pa.int64()),
            "f64": [float("nan")],
            "seen": pa.array([datetime(2020, 1, 1, 1, 2, 3, tzinfo=UTC)], pa.timestamp("us", "Europe/Paris")),
            "vec": [[0.5, 1.0, 2.0]],
            "tags": pa.array([["p"]], pa.list_(pa.utf8())),
        }
    )

    _, ((_, text),) = sifted(given, "Thing")

    assert json.loads(text)["data"]["f64"] == "nan"
    (row,) = loaded(text.replace(b"2147483648", b"7").replace(b'"nan"', b"1.5"))
    assert (row["i32"], row["f64"], row["seen"]) == (7, 1.5, datetime(2020, 1, 1, 1, 2, 3, tzinfo=UTC))
    assert (row["vec"], row["tags"]) == ([0.5, 1.0, 2.0], ["p"])


def test_a_refused_blob_keeps_its_bytes() -> None:
    _, ((_, text),) = sifted(pa.table({"id": [""], "body": [b"\x00\x01\xff"]}), "File")

    assert loaded(text.replace(b'"id":""', b'"id":"f"'))[0]["body"] == b"\x00\x01\xff"


def test_a_refused_line_of_one_type_can_be_mended_and_loaded(tmp_path: Path) -> None:
    path = put(tmp_path / "k.jsonl", '{"src":"a","dst":"b","since":"2020-02-30"}\n{"src":"a"\n')

    _, ((_, first), (_, second)) = sifted(path, "Knows")

    assert json.loads(first) == {"edge": "Knows", "from": "a", "to": "b", "data": {"since": "2020-02-30"}}
    assert second == b'{"src":"a"'
    assert loaded(first.replace(b"02-30", b"02-28"))[0]["src"] == "a"


def loaded(line: bytes) -> list[dict[str, object]]:
    (found,) = read_graph_records(io.BytesIO(line), CATALOG, runtime().ids, name="again")
    rows: list[dict[str, object]] = found.rows.to_pylist()
    return rows
