"""What comes out: columns with their names, types and values; whole or batch by batch."""

import csv
import io
import json
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.clock import SystemClock
from omnigraph.engine.query_budget import Budget, QueryMemoryError
from omnigraph.engine.result import Result
from omnigraph.engine.result_forms import Target
from omnigraph.errors import LibraryMissingError
from plain_tables import World
from reference_reader import NOW
from schema_making import catalog_from

CATALOG = catalog_from("""
node P {
    name: String
    age: I32?
    big: I64?
    huge: U64?
    share: F32?
    height: F64?
    glad: Bool?
    born: Date?
    seen: DateTime?
    mood: enum(glad, sad)?
    tags: [String]?
    days: [Date]?
    face: Vector(2)?
    photo: Blob?
    @key(name)
}
edge Knows: P -> P { since: Date? }
""")
ADA = {
    "@id": "Ada",
    "name": "Ada",
    "age": 36,
    "big": 2**53,
    "huge": 2**64 - 1,
    "share": 0.1,
    "height": 1.5,
    "glad": True,
    "born": date(1815, 12, 10),
    "seen": datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
    "mood": "glad",
    "tags": ("x", ""),
    "days": (date(1, 1, 1),),
    "face": (0.5, 0.25),
    "photo": b"\x00\xff",
}
BOB = {"@id": "Bob", "name": "Bob"}
KNOWS = {"@id": "1", "@src": "Ada", "@dst": "Bob", "since": date(2020, 2, 29)}
WORLD = World(CATALOG, {"P": [ADA, BOB], "Knows": [KNOWS]})
ALL = ", ".join(f"$p.{name}" for name in ADA if name != "@id")


def result(output: str, at: list[int] | None = None, *, tail: str = "", over: World = WORLD) -> Result:
    query = over.query(f"query q() {{ match {{ $p: P }} return {{ {output} }} {tail} }}")
    answer = over.answer(query, {"p": [0, 1] if at is None else at})
    return Result(answer, commit_id="c1", target=Target("main"))


def test_a_column_is_named_by_its_alias_else_by_its_text() -> None:
    assert result("$p.name as who, $p.age, $p.@id, $p").columns == ("who", "p.age", "p.@id", "p")


def test_a_whole_node_is_an_object_of_its_id_and_properties_without_blob_and_vector() -> None:
    (row,) = result("$p", [0]).rows()

    assert list(row["p"]) == ["id", "@type", *(name for name in ADA if name not in ("@id", "face", "photo"))]
    assert (row["p"]["id"], row["p"]["age"], row["p"]["tags"]) == ("Ada", 36, ["x", ""])


def test_a_whole_edge_has_its_ends() -> None:
    query = WORLD.query("query q() { match { $a: P $a $e:knows $b } return { $e } }")
    answer = WORLD.answer(query, {"a": [0], "b": [1], "e": [0]})

    assert Result(answer, commit_id="c", target=Target("main")).rows() == [
        {"e": {"id": "1", "src": "Ada", "dst": "Bob", "@type": "Knows", "since": date(2020, 2, 29)}}
    ]


def test_every_type_comes_out_as_python_s_own() -> None:
    ada, bob = result(ALL).rows()

    assert ada["p.seen"] == ADA["seen"]
    assert ada["p.seen"].tzinfo is not None
    assert (ada["p.huge"], ada["p.born"], ada["p.photo"], ada["p.face"]) == (
        2**64 - 1,
        date(1815, 12, 10),
        b"\x00\xff",
        [0.5, 0.25],
    )
    assert {value for name, value in bob.items() if name != "p.name"} == {None}


def test_fields_say_what_may_be_null_and_what_is_an_enum() -> None:
    schema = result("$p.name, $p.age, $p.mood, count(*) as n, min($p.name) as first").schema

    assert [field.nullable for field in schema] == [False, True, True, False, True]
    assert schema.field("p.mood").metadata == {b"omnigraph:type": b"enum(glad, sad)"}
    assert schema.field("n").type == pa.int64()


def test_constants_parameters_and_now_are_columns() -> None:
    query = WORLD.query(
        'query q($n: I64, $none: String?) { match { $p: P } return { "x" as text, $n, $none as none, now() as at } }'
    )
    answer = WORLD.answer(query, {"p": [0, 1]}, params={"n": 7})

    rows = Result(answer, commit_id="c", target=Target("main")).rows()

    assert rows == [{"text": "x", "n": 7, "none": None, "at": NOW}] * 2


def test_parameters_of_every_shape_come_out_as_they_were_given() -> None:
    query = WORLD.query(
        "query q($l: [Date], $v: Vector(2), $b: Blob, $d: DateTime?) { match { $p: P } return { $l, $v, $b, $d } }"
    )
    given = {"l": ["2024-02-29"], "v": [0.5, 1.0], "b": "base64:AP8=", "d": "2026-01-02T04:04:05+01:00"}
    answer = WORLD.answer(query, {"p": [0]}, params=given)

    document = Result(answer, commit_id="c", target=Target("main")).to_json()

    assert document["rows"] == [{**given, "d": "2026-01-02T03:04:05Z"}]


def test_the_json_form_is_the_same_batch_by_batch() -> None:
    asked = result(f"{ALL}, $p")
    asked.to_arrow()

    assert list(asked.json_rows(1)) == asked.to_json()["rows"]


def test_the_json_form_is_for_programs_that_read_numbers_as_floats() -> None:
    document = result(ALL).to_json()

    assert {name: value for name, value in document.items() if name not in ("rows", "types")} == {
        "query_name": "q",
        "target": {"branch": "main"},
        "commit_id": "c1",
        "row_count": 2,
        "columns": [f"p.{name}" for name in ADA if name != "@id"],
    }
    rows: Any = document["rows"]
    assert rows[0] == {
        "p.name": "Ada",
        "p.age": 36,
        "p.big": "9007199254740992",
        "p.huge": "18446744073709551615",
        "p.share": 0.1,
        "p.height": 1.5,
        "p.glad": True,
        "p.born": "1815-12-10",
        "p.seen": "2026-01-02T03:04:05.000678Z",
        "p.mood": "glad",
        "p.tags": ["x", ""],
        "p.days": ["0001-01-01"],
        "p.face": [0.5, 0.25],
        "p.photo": "base64:AP8=",
    }
    assert rows[1] == {"p.name": "Bob", **{name: None for name in rows[0] if name != "p.name"}}
    assert json.loads(json.dumps(document)) == document


def test_the_fields_of_a_whole_node_are_json_too() -> None:
    rows: Any = result("$p").to_json()["rows"]

    assert rows[0]["p"]["huge"] == "18446744073709551615"
    assert rows[0]["p"]["seen"] == "2026-01-02T03:04:05.000678Z"
    assert rows[1]["p"]["age"] is None


def written(asked: Result, format: str) -> bytes:
    out = io.BytesIO()
    asked.write(out, format)
    assert not out.closed
    return out.getvalue()


def test_lines_of_json_are_the_rows_of_the_document() -> None:
    asked = result(ALL)

    assert [json.loads(line) for line in written(asked, "jsonl").splitlines()] == asked.to_json()["rows"]


def test_csv_tells_null_from_an_empty_text_and_has_json_for_what_is_not_flat() -> None:
    over = World(CATALOG, {"P": [ADA, {"@id": "", "name": ""}, {"@id": "x", "name": 'a "b", c\nd', "height": 1e300}]})

    text = written(result(ALL, [0, 1, 2], over=over), "csv").decode()

    names = ",".join(f'"p.{name}"' for name in ADA if name != "@id")
    ada = (
        '"Ada",36,9007199254740992,18446744073709551615,0.1,1.5,true,1815-12-10,"2026-01-02T03:04:05.000678Z","glad",'
        '"[""x"",""""]","[""0001-01-01""]","[0.5,0.25]","base64:AP8="'
    )
    assert text == f'{names}\n{ada}\n""{"," * 13}\n"a ""b"", c\nd",,,,,1e+300{"," * 8}\n'


def test_an_object_is_json_in_csv() -> None:
    text = written(result("$p", [1]), "csv").decode()

    assert json.loads(next(iter(csv.DictReader(io.StringIO(text))))["p"]) == result("$p", [1]).to_json()["rows"][0]["p"]  # type: ignore[index]  # a list


@pytest.mark.parametrize(
    "format, read",
    [
        ("arrow", lambda data: pa.ipc.open_file(data).read_all()),
        ("arrow_stream", lambda data: pa.ipc.open_stream(data).read_all()),
        ("parquet", lambda data: pq.read_table(pa.BufferReader(data))),
    ],
)
@pytest.mark.parametrize("at", [[0, 1], []])
def test_arrow_and_parquet_are_read_back(format: str, read: Callable[[bytes], pa.Table], at: list[int]) -> None:
    asked = result(f"{ALL}, $p", at)

    found = read(written(asked, format))

    assert found.schema.names == asked.schema.names
    assert found.to_pylist() == asked.rows()


def test_the_result_of_a_past_state_names_its_commit() -> None:
    query = WORLD.query("query q() { match { $p: P } return { $p.name } }")
    past = Result(WORLD.answer(query, {"p": [0]}), commit_id="c1", target=Target("main", "c1"))

    assert past.to_json()["target"] == {"snapshot": "c1"}


@given(size=st.integers(1, 12), count=st.integers(0, 11), tail=st.sampled_from(["", "order { $p.name desc }"]))
def test_streamed_batches_are_the_whole_result(size: int, count: int, tail: str) -> None:
    over = World(CATALOG, {"P": [{"@id": f"{n}", "name": f"{n}", "age": n} for n in range(count)]})
    whole = result("$p, $p.age, 1 as one", list(range(count)), tail=tail, over=over).to_arrow()

    streamed = list(result("$p, $p.age, 1 as one", list(range(count)), tail=tail, over=over).batches(size))

    assert all(0 < batch.num_rows <= size for batch in streamed)
    assert pa.Table.from_batches(streamed, whole.schema).to_pylist() == whole.to_pylist()


def test_grouped_results_are_streamed_too() -> None:
    over = World(CATALOG, {"P": [{"@id": f"{n}", "name": f"{n}", "age": n % 5} for n in range(20)]})
    asked = result(
        "$p.age, count(*) as n, min($p.name) as first", list(range(20)), tail="order { $p.age desc }", over=over
    )

    streamed = [batch.to_pylist() for batch in asked.batches(2)]

    assert [[row["p.age"] for row in batch] for batch in streamed] == [[4, 3], [2, 1], [0]]
    assert [row for batch in streamed for row in batch] == asked.rows()


def test_a_streamed_batch_reads_only_its_own_rows() -> None:
    over = World(CATALOG, {"P": [{"@id": f"{n}", "name": f"{n}"} for n in range(100)]})
    asked = result("$p.name", list(range(100)), over=over)
    assert asked._frame is not None
    rows: Any = asked._frame.frame.context.get_reader("P")

    next(asked.batches(10))

    assert rows.read == [("name", 10)]


def test_a_batch_has_at_least_one_row() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        next(result("$p.name").batches(0))


def test_a_result_that_is_larger_than_the_memory_is_refused_whole_but_can_be_streamed() -> None:
    over = World(CATALOG, {"P": [{"@id": f"{n}", "name": "x" * 1000} for n in range(100)]})
    answer = over.answer(over.query("query q() { match { $p: P } return { $p.name } }"), {"p": list(range(100))})
    asked = Result(answer.with_budget(Budget(SystemClock(), memory_bytes=50_000)), commit_id="c", target=Target("main"))

    with pytest.raises(QueryMemoryError, match="the result of 100 rows"):
        asked.to_arrow()
    assert sum(batch.num_rows for batch in asked.batches(10)) == 100


def test_pandas_keeps_integers_and_truths_that_may_be_null() -> None:
    frame = result("$p.name, $p.age, $p.huge, $p.glad, $p.seen").to_pandas()

    assert [str(type_) for type_ in frame.dtypes[["p.age", "p.huge", "p.glad"]]] == ["Int32", "UInt64", "boolean"]
    assert frame["p.huge"][0] == 2**64 - 1
    assert frame["p.seen"][0].to_pydatetime() == ADA["seen"]


def test_polars_has_the_same_rows() -> None:
    asked = result("$p.name, $p.age, $p.huge, $p.tags, $p")

    assert asked.to_polars().to_dicts() == asked.rows()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_library_that_is_missing_is_named(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(LibraryMissingError, match=f"pip install {library}"):
        getattr(result("$p.name"), f"to_{library}")()


def test_a_result_without_rows_has_its_columns() -> None:
    asked = result("$p.name, $p", [])

    assert asked.row_count == 0
    assert asked.to_arrow().schema.names == ["p.name", "p"]
    assert asked.to_json()["rows"] == []
