"""Export: every value comes back, in a fixed order, of any state."""

import io
import json
import struct
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.engine.decoding.graph_jsonl import read_graph_records
from omnigraph.engine.decoding.typed_files import TypedFile, read_typed
from omnigraph.engine.jsonl_encoding import iter_json_lines
from omnigraph.engine.writing import blobs as blobs_module
from omnigraph.ops import export as export_module
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.schema.catalog import AnyType
from record_reading import CATALOG, SCHEMA
from record_values import VALUES
from worlds import runtime

PEOPLE: list[dict[str, object]] = [
    {"id": "b", "name": "b", "age": None, "mood": None, "level": 1},
    {"id": "a", "name": "a", "age": 3, "mood": "sad", "level": -(2**63)},
]
THING: dict[str, object] = {
    "id": "x",
    "text": "é\0\n\u2028😀",
    "flag": True,
    "i32": -(2**31),
    "u32": 2**32 - 1,
    "i64": 2**53,
    "u64": 2**64 - 1,
    "f32": struct.unpack("<f", struct.pack("<f", 0.1))[0],
    "f64": -0.0,
    "day": date(1, 1, 1),
    "seen": datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC),
    "vec": [1.0, -0.0, struct.unpack("<f", struct.pack("<f", 3.3e-38))[0]],
    "tags": ["", "a"],
    "nums": [2**63 - 1, 0],
    "days": [],
}
NULLS: dict[str, object] = {"id": "w"}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """A graph with a row of every kind, in three commits."""
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, actor="ada", runtime=runtime())
    put(graph, "Person", PEOPLE)
    put(graph, "Thing", [THING, NULLS])
    put(graph, "File", [{"id": "f", "body": bytes(range(256))}, {"id": "e", "body": b""}])
    put(graph, "Knows", [{"id": "k", "src": "a", "dst": "b", "since": date(2020, 1, 1)}])
    put(graph, "Likes", [{"id": '["a","x"]', "src": "a", "dst": "x", "weight": 1e300}])
    return graph


def type_of(name: str) -> AnyType:
    found = CATALOG.find_type(name)
    assert found is not None
    return found


def put(graph: og.Graph, type_name: str, rows: list[dict[str, object]]) -> None:
    type_ = type_of(type_name)
    table = pa.Table.from_pylist(rows, schema=build_arrow_schema(type_))
    write_tables(graph._session, [TableWrite(table_key=type_.table_key, append=table)], operation="put", actor="ada")


def exported(graph: og.Graph, **arguments: object) -> bytes:
    out = io.BytesIO()
    graph.export(out, **arguments)  # type: ignore[arg-type]
    return out.getvalue()


def decoded(data: bytes) -> dict[str, pa.Table]:
    found = read_graph_records(io.BytesIO(data), CATALOG, runtime().ids, name="out.jsonl")
    return {rows.type.name: rows.rows for rows in found}


def stored(graph: og.Graph, type_name: str) -> pa.Table:
    schema = build_arrow_schema(type_of(type_name))
    rows = graph.table(type_name).to_table(blob_handling="all_binary").select(schema.names)
    return rows.sort_by("id").cast(schema)


def bits(table: pa.Table) -> list[dict[str, object]]:
    """Rows that are equal only when every bit of every float is."""
    return json.loads(json.dumps(table.to_pylist(), default=repr))  # type: ignore[no-any-return]


def test_every_value_comes_back(graph: og.Graph) -> None:
    found = decoded(exported(graph))

    assert sorted(found) == ["File", "Knows", "Likes", "Person", "Thing"]
    for name, rows in found.items():
        assert bits(rows) == bits(stored(graph, name))


def test_the_order_is_that_of_the_schema_and_the_ids(graph: og.Graph) -> None:
    records = [json.loads(line) for line in exported(graph).splitlines()]

    order = [(one.get("type") or one["edge"], one.get("id") or one["data"].get("name")) for one in records]
    assert order == [
        ("Person", "a"),
        ("Person", "b"),
        ("Thing", "w"),
        ("Thing", "x"),
        ("File", "e"),
        ("File", "f"),
        ("Knows", "k"),
        ("Likes", None),
    ]


def test_two_exports_of_one_state_are_equal(graph: og.Graph) -> None:
    assert exported(graph) == exported(graph)


def test_the_forms_are_those_of_the_reference(graph: og.Graph) -> None:
    people, things, files, edges = (
        exported(graph, types=[name]).splitlines() for name in ("Person", "Thing", "File", "Likes")
    )

    assert people[0] == b'{"type":"Person","data":{"name":"a","age":3,"mood":"sad","level":"-9223372036854775808"}}'
    thing = json.loads(things[1])["data"]
    assert (thing["i64"], thing["u64"], thing["u32"]) == ("9007199254740992", "18446744073709551615", 4294967295)
    assert (thing["f32"], thing["day"], thing["seen"]) == (0.1, "0001-01-01", "2026-01-02T03:04:05.123456Z")
    assert thing["vec"] == [1.0, -0.0, 3.3e-38]
    assert json.loads(files[0]) == {"type": "File", "id": "e", "data": {"body": "base64:"}}
    assert edges == [b'{"edge":"Likes","from":"a","to":"x","data":{"weight":1e300}}']


def test_nulls_are_written(graph: og.Graph) -> None:
    nothing = json.loads(exported(graph, types=["Thing"]).splitlines()[0])

    assert nothing["data"] == dict.fromkeys(p.name for p in CATALOG.nodes["Thing"].properties)


def test_rows_that_lie_out_of_order_are_looked_up_in_batches(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    put(graph, "File", [{"id": f"{(number * 37) % 100:03}", "body": b"x"} for number in range(100)])
    monkeypatch.setattr(blobs_module, "BATCH_ROWS", 7)

    ids = [json.loads(line)["id"] for line in exported(graph, types=["File"]).splitlines()]

    assert ids == [*(f"{number:03}" for number in range(100)), "e", "f"]


def test_deleted_rows_are_not_written(graph: og.Graph) -> None:
    write_tables(graph._session, [TableWrite(table_key="node:File", delete=["e"])], operation="cut", actor="ada")
    put(graph, "File", [{"id": "a", "body": b"x"}])

    ids = [json.loads(line)["id"] for line in exported(graph, types=["File"]).splitlines()]

    assert ids == ["a", "f"]


def test_an_older_state_is_written(graph: og.Graph) -> None:
    first = graph.commits()[-2]

    by_id = exported(graph, snapshot=first.id)
    by_time = exported(graph, at=datetime.fromisoformat(first.at))

    assert sorted(decoded(by_id)) == ["Person"]
    assert by_time == by_id


def test_only_the_types_asked_for_are_written(graph: og.Graph) -> None:
    out = io.BytesIO()

    result = graph.export(out, types=["knows", "File"])

    assert result.rows == {"File": 2, "Knows": 1}
    assert result.commit_id == graph.snapshot().commit.id
    assert sorted(decoded(out.getvalue())) == ["File", "Knows"]


def test_an_unknown_type_is_refused(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(og.TypeMissingError, match="did you mean `Person`"):
        graph.export(tmp_path / "out.jsonl", types=["Persn"])

    assert not (tmp_path / "out.jsonl").exists()


def test_a_file_is_there_whole_or_not_at_all(graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out" / "all.jsonl"
    graph.export(target, types=["File"])
    before = target.read_bytes()

    def breaks(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(export_module, "iter_json_lines", breaks)
    with pytest.raises(KeyboardInterrupt):
        graph.export(target)

    assert target.read_bytes() == before
    assert [path.name for path in target.parent.iterdir()] == ["all.jsonl"]


def test_a_directory_is_no_file(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(og.ExportTargetError, match="name a file"):
        graph.export(tmp_path)


def test_parquet_has_a_file_for_each_type_that_is_read_back(graph: og.Graph, tmp_path: Path) -> None:
    graph.export(tmp_path / "out", format="parquet")

    files = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.*"))
    assert files == [
        "edges/Knows.parquet",
        "edges/Likes.parquet",
        "nodes/File.parquet",
        "nodes/Person.parquet",
        "nodes/Thing.parquet",
        "nodes/Visit.parquet",
    ]
    for name in ("Person", "Thing", "File", "Knows", "Likes"):
        (path,) = (tmp_path / "out").rglob(f"{name}.parquet")
        (found,) = read_typed(TypedFile(path=path, type=type_of(name), columns={}), runtime().ids)
        assert bits(found.rows) == bits(stored(graph, name))


def test_parquet_needs_a_directory(graph: og.Graph) -> None:
    with pytest.raises(og.ExportTargetError, match="name a directory"):
        graph.export(io.BytesIO(), format=og.ExportFormat.PARQUET)


# --- any rows ------------------------------------------------------------------------------------------

ROWS = st.lists(
    st.fixed_dictionaries(
        {"id": st.text(min_size=1, max_size=8), **{name: st.none() | one for name, one in VALUES.items()}}
    ),
    min_size=1,
    max_size=5,
)


@given(rows=ROWS, start=st.integers(0, 2))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_rows_come_back(rows: list[dict[str, object]], start: int) -> None:
    type_ = type_of("Thing")
    table = pa.Table.from_pylist(rows, schema=build_arrow_schema(type_)).slice(start)

    found = decoded(b"".join(iter_json_lines(type_, table)))

    assert bits(found["Thing"]) == bits(table) if table.num_rows else found == {}


@given(values=st.lists(st.binary(max_size=20), min_size=1, max_size=4))
def test_any_bytes_come_back(values: list[bytes]) -> None:
    type_ = type_of("File")
    table = pa.table(
        {"id": [str(number) for number in range(len(values))], "body": pa.array(values, pa.large_binary())}
    )

    assert decoded(b"".join(iter_json_lines(type_, table)))["File"]["body"].to_pylist() == values
