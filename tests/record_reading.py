"""One schema with every type, and short ways to read records of it."""

import io

import pyarrow as pa

from omnigraph.engine.decoding.graph_jsonl import read_graph_records
from omnigraph.engine.decoding.record_error import RecordError
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.schema.catalog import Catalog
from schema_making import accepted
from worlds import runtime

SCHEMA = """
node Person @description("keyed by a String") {
  name: String @key
  age: I32?
  mood: enum(happy, sad)?
  level: I64 @default(7)
}
node Thing {
  text: String?
  flag: Bool?
  i32: I32?
  u32: U32?
  i64: I64?
  u64: U64?
  f32: F32?
  f64: F64?
  day: Date?
  seen: DateTime?
  vec: Vector(3)?
  tags: [String]?
  nums: [I64]?
  days: [Date]?
}
node File { body: Blob? }
node Visit {
  day: Date
  at: DateTime
  count: I32
  @key(day, at, count)
}
edge Knows: Person -> Person { since: Date? }
edge Likes: Person -> Thing { weight: F64?
  @key(src, dst) }
"""
CATALOG = accepted(SCHEMA)
NO_BLOBS = accepted("node Person { name: String @key\n age: I32? }\nedge Knows: Person -> Person")


def read(*lines: str | bytes, catalog: Catalog = CATALOG, is_partial: bool = False) -> list[TypedRows]:
    """The rows of these lines, from a file `in.jsonl`."""
    return list(
        read_graph_records(io.BytesIO(text_of(lines)), catalog, runtime().ids, name="in.jsonl", is_partial=is_partial)
    )


def rows_of(*lines: str | bytes, catalog: Catalog = CATALOG) -> pa.Table:
    """The rows of these lines, which are of one type."""
    (found,) = read(*lines, catalog=catalog)
    return found.rows


def refusals(*lines: str | bytes, catalog: Catalog = CATALOG) -> list[RecordError]:
    """What is refused of these lines."""
    errors: list[RecordError] = []
    source = io.BytesIO(text_of(lines))
    for _ in read_graph_records(
        source, catalog, runtime().ids, name="in.jsonl", reject=lambda error, _: errors.append(error)
    ):
        pass
    return errors


def text_of(lines: tuple[str | bytes, ...]) -> bytes:
    """The bytes of a file of these lines."""
    return b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)
