"""Files of one type: Parquet, CSV and JSONL, columns by name, nothing guessed."""

from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.engine.decoding import typed_source
from omnigraph.engine.decoding.record_error import ColumnError, RecordError
from omnigraph.engine.decoding.typed_files import FileDamagedError, FileFormatError, TypedFile, read_typed
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.errors import FileMissingError
from omnigraph.schema.catalog import AnyType
from record_reading import CATALOG
from worlds import runtime


def type_of(name: str) -> AnyType:
    found = CATALOG.find_type(name)
    assert found is not None
    return found


def read(path: Path, type_name: str, **columns: str) -> list[TypedRows]:
    named = {name.rstrip("_"): column for name, column in columns.items()}
    return list(read_typed(TypedFile(path=path, type=type_of(type_name), columns=named), runtime().ids))


def refusals(path: Path, type_name: str) -> list[RecordError]:
    errors: list[RecordError] = []
    file = TypedFile(path=path, type=type_of(type_name), columns={})
    for _ in read_typed(file, runtime().ids, reject=lambda error, _: errors.append(error)):
        pass
    return errors


def sifted(path: Path, type_name: str) -> tuple[list[TypedRows], list[tuple[RecordError, bytes]]]:
    rejected: list[tuple[RecordError, bytes]] = []
    file = TypedFile(path=path, type=type_of(type_name), columns={})
    found = list(read_typed(file, runtime().ids, reject=lambda error, text: rejected.append((error, text))))
    return found, rejected


def names(found: list[TypedRows]) -> list[str]:
    return [name for part in found for name in part.rows["name"].to_pylist()]


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


def parquet(path: Path, **columns: pa.Array) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


# --- CSV ---------------------------------------------------------------------------------------------


def test_csv_cells_are_the_json_forms_of_their_types(tmp_path: Path) -> None:
    path = written(
        tmp_path / "things.csv",
        "id,text,flag,i32,u64,f32,day,seen,vec,tags\n"
        'x,"a,\n""b""",true,-5,18446744073709551615,1,2024-02-29,2026-01-02T03:04:05Z,"[1, 2, 3.5]","[""p""]"\n',
    )

    ((found,),) = (read(path, "Thing"),)

    (row,) = found.rows.to_pylist()
    assert row["text"] == 'a,\n"b"'
    assert (row["flag"], row["i32"], row["u64"], row["f32"]) == (True, -5, 2**64 - 1, 1.0)
    assert (row["day"], row["seen"]) == (date(2024, 2, 29), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert (row["vec"], row["tags"]) == ([1.0, 2.0, 3.5], ["p"])
    assert sorted(found.left_out) == ["days", "f64", "i64", "nums", "u32"]


def test_an_empty_cell_is_null_but_for_text(tmp_path: Path) -> None:
    path = written(tmp_path / "things.csv", "id,text,i32,day,vec\nx,,,,\n")

    (found,) = read(path, "Thing")

    (row,) = found.rows.to_pylist()
    assert (row["text"], row["i32"], row["day"], row["vec"]) == ("", None, None, None)
    assert "i32" not in found.left_out


@pytest.mark.parametrize(
    "column, cell",
    [("i32", "x"), ("i32", "1.0"), ("i32", "null"), ("i32", "2147483648"), ("flag", "True"), ("f64", "NaN")],
)
def test_a_cell_that_does_not_fit_is_refused_with_its_row(tmp_path: Path, column: str, cell: str) -> None:
    path = written(tmp_path / "things.csv", f"id,{column}\na,\nb,{cell}\n")

    (error,) = refusals(path, "Thing")

    assert (error.unit, error.line, error.property) == ("line", 3, column)


def test_an_empty_cell_of_a_required_number_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "people.csv", "name,level\na,\n")

    (error,) = refusals(path, "Person")

    assert (error.property, error.value) == ("level", '""')


def test_a_row_with_too_few_cells_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "people.csv", "name,age\na,1\nb\nc,3,4\nd,4\n")

    found, rejected = sifted(path, "Person")

    assert names(found) == ["a", "d"]
    assert found[0].lines.to_pylist() == [2, 5]
    assert [(error.line, error.reason, text) for error, text in rejected] == [
        (3, "the row has 1 cell, the header has 2", b"b"),
        (4, "the row has 3 cells, the header has 2", b"c,3,4"),
    ]


# --- columns -----------------------------------------------------------------------------------------


def test_an_unknown_column_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "people.csv", "name,agee\na,1\n")

    with pytest.raises(ColumnError, match='unknown column "agee" for `Person`; did you mean `age`'):
        read(path, "Person")


def test_a_column_is_mapped(tmp_path: Path) -> None:
    path = written(tmp_path / "people.csv", "full_name\nAda\n")

    (found,) = read(path, "Person", name="full_name")

    assert found.rows["id"].to_pylist() == ["Ada"]


def test_a_mapped_column_takes_the_place_of_the_name(tmp_path: Path) -> None:
    path = written(tmp_path / "people.csv", "full_name,name\nAda,x\n")

    with pytest.raises(ColumnError, match='unknown column "name"'):
        read(path, "Person", name="full_name")


def test_a_mapped_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "people.csv", "name\nAda\n")

    with pytest.raises(ColumnError, match='no column "years", which should hold `age`'):
        read(path, "Person", age="years")


def test_a_map_of_an_unknown_property_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "people.csv", "name\nAda\n")

    with pytest.raises(ColumnError, match="did you mean `age`"):
        read(path, "Person", agee="name")


@pytest.mark.parametrize("header", ["from,to", "src,dst", "to,from"])
def test_the_ends_of_an_edge_are_columns(tmp_path: Path, header: str) -> None:
    path = written(tmp_path / "knows.csv", f"{header}\na,b\n")

    (found,) = read(path, "Knows")

    ends = (found.rows["src"].to_pylist(), found.rows["dst"].to_pylist())
    assert ends == ((["b"], ["a"]) if header == "to,from" else (["a"], ["b"]))


def test_an_edge_without_an_end_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "knows.csv", "from\na\n")

    with pytest.raises(ColumnError, match="an edge needs the column `to`"):
        read(path, "Knows")


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "knows.csv", "from,src,to\na,a,b\n")

    with pytest.raises(ColumnError, match="two columns hold `from`"):
        read(path, "Knows")


# --- JSONL -------------------------------------------------------------------------------------------


def test_a_jsonl_of_one_type_holds_the_properties(tmp_path: Path) -> None:
    path = written(tmp_path / "knows.jsonl", '{"a":"x","to":"y","since":"2020-01-01"}\n// no\n{"a":"y","to":"x"}\n')

    (found,) = read(path, "Knows", from_="a")

    assert found.rows["src"].to_pylist() == ["x", "y"]
    assert found.rows["since"].to_pylist() == [date(2020, 1, 1), None]
    assert found.lines.to_pylist() == [1, 3]
    assert found.left_out["since"].to_pylist() == [False, True]


def test_an_unknown_name_in_a_jsonl_of_one_type_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "people.jsonl", '{"name":"a"}\n{"name":"b","agee":1}\n')

    (error,) = refusals(path, "Person")

    assert (error.line, error.reason) == (2, 'unknown property "agee" of `Person`; did you mean `age`?')


def test_a_long_jsonl_is_read_in_parts_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "people.jsonl", "".join(f'{{"name":"{number}"}}\nbad\n' for number in range(10)))
    monkeypatch.setattr(typed_source, "BATCH_ROWS", 3)
    seen: list[int] = []
    file = TypedFile(path=path, type=type_of("Person"), columns={})

    parts = list(read_typed(file, runtime().ids, reject=lambda error, _: seen.append(error.line)))

    assert len(parts) > 3
    assert [name for part in parts for name in part.rows["name"].to_pylist()] == [str(number) for number in range(10)]
    assert seen == list(range(2, 21, 2))


# --- Parquet -----------------------------------------------------------------------------------------


def test_parquet_columns_are_cast_within_their_family(tmp_path: Path) -> None:
    path = parquet(
        tmp_path / "things.parquet",
        id=pa.array(["x"]).dictionary_encode(),
        text=pa.array(["t"], pa.large_utf8()),
        i32=pa.array([5], pa.int64()),
        u64=pa.array([7.0], pa.float64()),
        f32=pa.array([0.1], pa.float64()),
        day=pa.array(["2020-01-02"]),
        seen=pa.array([datetime(2020, 1, 1, tzinfo=UTC)], pa.timestamp("ns", "Europe/Paris")),
        vec=pa.array([[1.0, 2.0, 3.0]], pa.list_(pa.float64())),
        nums=pa.array([[1, 2]], pa.list_(pa.int32())),
    )

    (found,) = read(path, "Thing")

    (row,) = found.rows.to_pylist()
    assert (row["id"], row["text"], row["i32"], row["u64"], round(row["f32"], 6)) == ("x", "t", 5, 7, 0.1)
    assert (row["day"], row["seen"]) == (date(2020, 1, 2), datetime(2020, 1, 1, tzinfo=UTC))
    assert (row["vec"], row["nums"]) == ([1.0, 2.0, 3.0], [1, 2])


LOSSES = {
    "overflow": ("i32", pa.array([1, 2**31], pa.int64())),
    "fraction": ("i64", pa.array([1.0, 2.5], pa.float64())),
    "sign": ("u32", pa.array([1, -1], pa.int32())),
    "nan": ("f64", pa.array([1.0, float("nan")], pa.float64())),
    "too large for F32": ("f32", pa.array([1.0, 1e39], pa.float64())),
    "nanoseconds": ("seen", pa.array([0, 1], pa.timestamp("ns", "UTC"))),
    "beyond the calendar": ("day", pa.array([0, 10_000_000], pa.date32())),
    "text that is no date": ("day", pa.array(["2020-01-01", "x"])),
    "vector length": ("vec", pa.array([[1.0, 2.0, 3.0], [1.0]], pa.list_(pa.float32()))),
    "nan in a vector": ("vec", pa.array([[1.0] * 3, [float("nan")] * 3], pa.list_(pa.float32(), 3))),
    "null in a list": ("nums", pa.array([[1], [None]], pa.list_(pa.int64()))),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_value_that_would_be_lost_is_refused_with_its_row(tmp_path: Path, loss: str) -> None:
    name, column = LOSSES[loss]
    path = parquet(tmp_path / "things.parquet", id=pa.array(["a", "b"]), **{name: column})

    (error,) = refusals(path, "Thing")

    assert (error.unit, error.line, error.property) == ("row", 2, name)


WHY = {
    "nan": "NaN is no F64; give a finite number, or null",
    "nan in a vector": "a Vector holds finite numbers, and element 1 is NaN",
    "null in a list": "a list holds no null, and element 1 is one; leave it out, or make the whole value null",
    "null in a vector": "a Vector holds no null, and element 2 is one; leave it out, or make the whole value null",
    "infinity in a list of vectors' length": "a Vector holds finite numbers, and element 3 is -Infinity",
}
LOSSES["null in a vector"] = ("vec", pa.array([[1.0] * 3, [1.0, None, 1.0]], pa.list_(pa.float32(), 3)))
LOSSES["infinity in a list of vectors' length"] = (
    "vec",
    pa.array([[1.0] * 3, [1.0, 2.0, -float("inf")]], pa.list_(pa.float64())),
)


@pytest.mark.parametrize("loss", WHY)
def test_a_number_that_is_none_and_a_null_inside_are_told_as_such(tmp_path: Path, loss: str) -> None:
    name, column = LOSSES[loss]
    path = parquet(tmp_path / "things.parquet", id=pa.array(["a", "b"]), **{name: column})

    (error,) = refusals(path, "Thing")

    assert error.reason == WHY[loss]


@pytest.mark.parametrize(
    "name, column",
    [
        ("i32", pa.array(["1"])),
        ("text", pa.array([1])),
        ("flag", pa.array([1])),
        ("i64", pa.array([True])),
        ("day", pa.array([datetime(2020, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))),
        ("seen", pa.array([0], pa.timestamp("us"))),
        ("vec", pa.array(["[1, 2, 3]"])),
    ],
)
def test_a_column_of_another_family_is_refused(tmp_path: Path, name: str, column: pa.Array) -> None:
    path = parquet(tmp_path / "things.parquet", id=pa.array(["a"]), **{name: column})

    with pytest.raises(ColumnError, match=f"the column of `{name}` holds"):
        read(path, "Thing")


def test_nulls_are_refused_where_a_value_is_required(tmp_path: Path) -> None:
    path = parquet(tmp_path / "people.parquet", name=pa.array(["a", None]))

    (error,) = refusals(path, "Person")

    assert (error.line, error.property, error.value) == (2, "name", "null")


# --- files -------------------------------------------------------------------------------------------


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"none of .parquet, .orc, .csv, .jsonl"):
        read(tmp_path / "people.xlsx", "Person")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileMissingError):
        read(tmp_path / "people.parquet", "Person")


def test_a_file_that_is_not_what_its_name_says_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "people.parquet", "name\nAda\n")

    with pytest.raises(FileDamagedError):
        read(path, "Person")


def test_an_empty_csv_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ColumnError, match="the file is empty"):
        read(written(tmp_path / "people.csv", ""), "Person")
