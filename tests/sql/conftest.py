"""A small graph with every type of property, for SQL."""

from datetime import UTC, datetime

import pytest

import omnigraph as og
from worlds import runtime

SCHEMA = """
node Person {
  name: String @key  age: U64?  seen: DateTime?  born: Date?  tags: [String]?  photo: Blob?  v: Vector(2)?  f: F64?
}
node Topic { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge Likes: Person -> Topic
"""
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
PEOPLE = [
    {"name": "ada", "age": 2**64 - 1, "seen": NOON, "born": "1815-12-10", "tags": ["a", "b"], "v": [1.0, 2.0]},
    {"name": "bob", "age": 7, "f": 1.5, "photo": "base64:AAEC"},
    {"name": "cyd", "age": 30, "f": -2.0},
]


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.create_graph(str(tmp_path_factory.mktemp("sql") / "people.omni"), SCHEMA, runtime=runtime())
    records = [{"type": "Person", "data": data} for data in PEOPLE]
    graph.load([*records, {"type": "Topic", "data": {"name": "chess"}}], mode="append")
    ends = [("ada", "bob"), ("bob", "cyd"), ("cyd", "ada")]
    edges = [{"edge": "Knows", "from": a, "to": b, "data": {"since": "2026-01-05"}} for a, b in ends]
    graph.load([*edges, {"edge": "Likes", "from": "ada", "to": "chess", "data": {}}], mode="append")
    return graph
