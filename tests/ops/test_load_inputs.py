"""What a load is given becomes inputs: in a fixed order, each file once, nothing passed over in silence."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.engine.decoding.input_files import FileFormatError
from omnigraph.engine.decoding.typed_files import TypedFile
from omnigraph.errors import BadArgumentError, FileDeniedError, FileMissingError, MissingError
from omnigraph.ops.load_inputs import GraphSource, InputSource, LoadInput, TypedSource, expand_inputs, parse_maps
from omnigraph.ops.open_table import TypeMissingError
from raised_codes import has_code
from record_reading import CATALOG
from worlds import runtime


def put(path: Path, text: str = "name\na\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def people(data: Path | str | tuple[Path, ...], **columns: str) -> tuple[InputSource, ...]:
    source = TypedSource(type="Person", is_edge=False, data=data, columns=columns)
    return expand_inputs(LoadInput(typed=(source,)), CATALOG)


def names(inputs: tuple[InputSource, ...], below: Path) -> list[str]:
    return [str(Path(one.name).relative_to(below)) for one in inputs]


# --- files, directories, patterns ----------------------------------------------------------------------


def test_a_directory_stands_for_its_files_by_name(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "sub/c.csv", "_SUCCESS", ".b.csv.crc", "_temporary/x.csv"):
        put(tmp_path / name)

    assert names(people(tmp_path), tmp_path) == ["a.csv", "b.csv", "sub/c.csv"]


def test_a_pattern_stands_for_the_files_that_it_matches(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "c.parquet", "_a.csv"):
        put(tmp_path / name)

    assert names(people(f"{tmp_path}/*.csv"), tmp_path) == ["a.csv", "b.csv"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    put(tmp_path / "a[1].csv")
    put(tmp_path / "a1.csv")

    assert names(people(tmp_path / "a[1].csv"), tmp_path) == ["a[1].csv"]


def test_a_file_in_a_directory_that_can_not_be_loaded_is_not_passed_over(tmp_path: Path) -> None:
    put(tmp_path / "a.csv")
    put(tmp_path / "b.xlsx")

    with pytest.raises(FileFormatError, match=r"b\.xlsx"):
        people(tmp_path)


@pytest.mark.parametrize("name", ["empty", "no*.csv"])
def test_what_stands_for_no_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(MissingError, match="names nothing to load"):
        people(tmp_path / name)


def test_directories_below_hold_values_and_those_of_a_pattern_do_not(tmp_path: Path) -> None:
    put(tmp_path / "age=3" / "city=A%20B" / "a.csv")
    put(tmp_path / "age=__HIVE_DEFAULT_PARTITION__" / "b.csv")

    def partitions(data: Path | str) -> list[dict[str, str | None]]:
        return [dict(one.source.partition) for one in people(data) if isinstance(one.source, TypedFile)]

    assert partitions(tmp_path) == [{"age": "3", "city": "A B"}, {"age": None}]
    assert partitions(tmp_path / "age=3") == [{"city": "A B"}]
    assert partitions(f"{tmp_path}/age=*/city=*/*.csv") == [{}]


def test_graph_records_have_no_columns_in_the_names_of_directories(tmp_path: Path) -> None:
    put(tmp_path / "age=3" / "a.jsonl", "")

    with pytest.raises(MissingError, match="names a column of one type"):
        expand_inputs(LoadInput(graph=(GraphSource(data=tmp_path),)), CATALOG)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileMissingError, match=r"people\.csv"):
        people(tmp_path / "people.csv")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    put(tmp_path / "closed" / "a.csv")
    (tmp_path / "closed").chmod(0)

    with pytest.raises(FileDeniedError):
        people(tmp_path / "closed")


def test_a_file_is_named_once(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv")
    (tmp_path / "link.csv").symlink_to(path)

    with pytest.raises(BadArgumentError, match=r"link\.csv.*same file as .*a\.csv"):
        people((path, tmp_path / "link.csv"))


def test_a_file_is_of_one_type(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", "")
    typed = TypedSource(type="File", is_edge=False, data=path)

    with pytest.raises(BadArgumentError, check=has_code("input_twice")):
        expand_inputs(LoadInput(graph=(GraphSource(data=path),), typed=(typed,)), CATALOG)


# --- graph JSONL ---------------------------------------------------------------------------------------


def test_graph_jsonl_is_read_from_files_and_streams(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", '{"type":"File","id":"a"}\n')
    stream = GraphSource(data=[b'{"type":"File",', b'"id":"b"}\n'], name="<stdin>")

    found = expand_inputs(LoadInput(graph=(GraphSource(data=path), stream)), CATALOG)

    assert [(one.name, one.size, one.type) for one in found] == [(str(path), 25, None), ("<stdin>", None, None)]
    assert [part.rows["id"].to_pylist() for one in found for part in one.read_rows(runtime().ids)] == [["a"], ["b"]]


def test_a_file_of_one_type_is_no_graph_jsonl(tmp_path: Path) -> None:
    path = put(tmp_path / "people.csv")

    with pytest.raises(FileFormatError, match="name the type, as in `--node Person=PATH`"):
        expand_inputs(LoadInput(graph=(GraphSource(data=path),)), CATALOG)


def test_what_is_wrong_with_a_file_is_said_when_it_is_read(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", "")
    (one,) = expand_inputs(LoadInput(graph=(GraphSource(data=path),)), CATALOG)
    path.unlink()

    with pytest.raises(FileMissingError):
        list(one.read_rows(runtime().ids))


# --- types and columns ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name, is_edge, near", [("Persn", False, "Person"), ("Know", True, "Knows")])
def test_an_unknown_type_is_refused_with_the_near_one(tmp_path: Path, name: str, is_edge: bool, near: str) -> None:
    source = TypedSource(type=name, is_edge=is_edge, data=put(tmp_path / "a.csv"))

    with pytest.raises(TypeMissingError, match=f"did you mean `{near}`"):
        expand_inputs(LoadInput(typed=(source,)), CATALOG)


def test_a_node_type_is_no_edge_type(tmp_path: Path) -> None:
    source = TypedSource(type="Person", is_edge=True, data=put(tmp_path / "a.csv"))

    with pytest.raises(BadArgumentError, check=has_code("type_kind")):
        expand_inputs(LoadInput(typed=(source,)), CATALOG)


def test_arrow_data_is_an_input_with_a_name() -> None:
    source = TypedSource(type="knows", is_edge=True, data=pa.table({"from": ["a"], "to": ["b"]}))

    (one,) = expand_inputs(LoadInput(typed=(source,)), CATALOG)

    (found,) = one.read_rows(runtime().ids)
    assert (one.name, one.type, found.rows["dst"].to_pylist()) == ("<edges Knows>", CATALOG.edges["Knows"], ["b"])


def test_columns_are_mapped(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", "full name,years\nAda,36\n")
    maps = parse_maps(["Person.name=full name", "Person.age=years"])
    source = TypedSource(type="Person", is_edge=False, data=path, columns=maps["Person"])

    (one,) = expand_inputs(LoadInput(typed=(source,)), CATALOG)

    (found,) = one.read_rows(runtime().ids)
    assert found.rows.select(["id", "age"]).to_pylist() == [{"id": "Ada", "age": 36}]


@pytest.mark.parametrize("text", ["Person", "Person.name", "Person=name", ".name=x", "Person.=x", "Person.name="])
def test_a_map_that_is_no_map_is_refused(text: str) -> None:
    with pytest.raises(BadArgumentError, match=r"Type\.property=column"):
        parse_maps([text])


def test_a_property_is_mapped_once() -> None:
    with pytest.raises(BadArgumentError, match="`full_name` came before"):
        parse_maps(["Person.name=full_name", "Person.name=other"])
