"""A graph with every property type on nodes and edges, rows in several fragments, some deleted; and what it holds."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random

import pyarrow as pa

import omnigraph as og
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.schema.catalog import AnyType
from omnigraph.schema.types import INTEGER_RANGES, EnumOf, ListOf, Scalar, ValueType, VectorOf
from worlds import runtime

_PROPERTIES = """
  text: String?
  flag: Bool?
  i32: I32?
  i64: I64?
  u32: U32?
  u64: U64?
  f32: F32?
  f64: F64?
  day: Date?
  seen: DateTime?
  mood: enum(happy, sad)?
  vec: Vector(3)?
  body: Blob?
  texts: [String]?
  flags: [Bool]?
  i32s: [I32]?
  i64s: [I64]?
  u32s: [U32]?
  u64s: [U64]?
  f32s: [F32]?
  f64s: [F64]?
  days: [Date]?
  times: [DateTime]?
"""
SCHEMA = f"node Thing {{ {_PROPERTIES} }}\nedge Link: Thing -> Thing {{ {_PROPERTIES} }}"
NODES, EDGES = "node:Thing", "edge:Link"
_TEXTS = ("", "a", "ab", "b", "é", "日本", "x" * 300, "nul\0", "😀")
_FLOATS = (0.0, -0.0, 0.5, -1.5, 3.0)


def type_of(graph: og.Graph, name: str) -> AnyType:
    """A type of the newest state."""
    found = graph._session.load_catalog(graph.snapshot()).find_type(name)
    assert found is not None
    return found


def all_types_graph(root: Path | str, *, seed: int = 7, rows: int = 40) -> og.Graph:
    """Three commits of nodes and edges, and one that deletes some of each."""
    graph = og.create_graph(str(root), SCHEMA, actor="test", runtime=runtime())
    random = Random(seed)
    ids = [f"{number:03}" for number in range(rows)]
    random.shuffle(ids)
    third = rows // 3
    for part in (ids[:third], ids[third : 2 * third], ids[2 * third :]):
        nodes = [{"id": one, **_row(random, type_of(graph, "Thing"))} for one in part]
        edges = [
            {"id": f"e{one}", "src": one, "dst": random.choice(part[1:]), **_row(random, type_of(graph, "Link"))}
            for one in part
        ]
        put(graph, "Thing", nodes)
        put(graph, "Link", edges)
    gone = [
        TableWrite(table_key=EDGES, delete=[f"e{one}" for one in ids[::5]]),
        TableWrite(table_key=NODES, delete=ids[:1]),  # to which no edge leads
    ]
    write_tables(graph._session, gone, operation="cut", actor="test")
    return graph


def put(graph: og.Graph, name: str, rows: Sequence[dict[str, object]]) -> None:
    """Append rows, in one commit."""
    type_ = type_of(graph, name)
    table = pa.Table.from_pylist(list(rows), schema=build_arrow_schema(type_))
    write_tables(graph._session, [TableWrite(table_key=type_.table_key, append=table)], operation="put", actor="test")


def stored(graph: og.Graph, name: str, *, snapshot: str | None = None) -> pa.Table:
    """What the table itself holds, by id."""
    schema = build_arrow_schema(type_of(graph, name))
    rows = graph.table(name, snapshot=snapshot).to_table(blob_handling="all_binary").select(schema.names)
    return rows.sort_by("id").cast(schema)


def _row(random: Random, type_: AnyType) -> dict[str, object]:
    return {p.name: None if random.random() < 0.25 else _value(random, p.type) for p in type_.properties}


def _value(random: Random, type_: ValueType) -> object:
    match type_:
        case EnumOf(values=values):
            return random.choice(values)
        case ListOf(element=element):
            return [_value(random, element) for _ in range(random.randrange(3))]
        case VectorOf(size=size):
            return [random.choice(_FLOATS) for _ in range(size)]
        case Scalar.STRING:
            return random.choice(_TEXTS)
        case Scalar.BLOB:
            return random.randbytes(random.choice([0, 1, 5000]))
        case Scalar.BOOL:
            return random.random() < 0.5
        case Scalar.F32 | Scalar.F64:
            return random.choice(_FLOATS)
        case Scalar.DATE:
            return random.choice([date(1, 1, 1), date(1969, 12, 31), date(2026, 1, 2), date(9999, 12, 31)])
        case Scalar.DATETIME:
            return datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC) + timedelta(days=random.randrange(-700_000, 9))
        case Scalar():
            low, high = INTEGER_RANGES[type_]
            return random.choice([low, high, 0, 1, 2])
