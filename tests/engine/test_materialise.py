"""Records and lists of nodes come out as objects, in every format."""

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.test_output_projection import result  # the world of the columns


def test_a_record_is_a_struct_with_what_it_holds() -> None:
    shown = result("{ name: $p.name, age: $p.age, all: [$p], inner: { who: $p } } as r")

    ada, bob = shown.rows()
    assert ada["r"]["all"] == [ada["r"]["inner"]["who"]]
    assert (bob["r"]["name"], bob["r"]["age"], bob["r"]["all"][0]["id"]) == ("Bob", None, "Bob")
    type_ = shown.schema.field("r").type
    assert [child.name for child in type_] == ["name", "age", "all", "inner"]
    assert [child.nullable for child in type_] == [False, True, False, False]
    assert shown.schema.field("r").nullable is False


def test_an_element_outside_of_a_list_is_a_null_object() -> None:
    shown = result("[$p][1] as none, [$p][0] as some", [0])

    (row,) = shown.rows()
    assert row["none"] is None
    assert row["some"]["id"] == "Ada"
    assert next(iter(shown.json_rows()))["none"] is None


@pytest.mark.parametrize(
    "output", ["[$p, $p] as x", "{ a: { b: [$p] } } as x", "[$p][3] as x", "[{ t: $p.tags }] as x"]
)
def test_every_format_writes_nested_values(output: str) -> None:
    shown = result(output)
    wanted: list[Any] = [row["x"] for row in shown.json_rows()]

    files = {name: io.BytesIO() for name in ("jsonl", "csv", "arrow", "parquet")}
    for name, file in files.items():
        shown.write(file, name)

    lines = files["jsonl"].getvalue().decode().splitlines()
    assert [json.loads(line)["x"] for line in lines] == wanted
    assert pq.read_table(files["parquet"]).to_pylist() == shown.rows()
    assert pa.ipc.open_file(files["arrow"]).read_all().to_pylist() == shown.rows()
    assert len(files["csv"].getvalue().splitlines()) == 3
