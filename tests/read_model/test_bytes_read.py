"""A query reads the columns that it names, and no others: counted in the bytes that Lance fetches."""

import base64
import random
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from lance.lance import register_lance_metrics_recorder, snapshot_lance_metrics

import omnigraph as og
from read_seeding import Named, append, new_graph
from worlds import runtime

PEOPLE, FRIENDS, SIZE = 4_000, 8_000, 128
TEXT_BYTES = 1_000
SCHEMA = f"""
node Person {{
  name: String @key
  age: I32
  bio: String
  face: Vector({SIZE})
}}
edge Knows: Person -> Person {{ since: I32  note: String }}
"""
HEAVY = PEOPLE * TEXT_BYTES // 2
"""Less than any of the three heavy columns has, and much more than all the others together."""
LIGHT_QUERIES = {
    "count": "match { $p: Person } return { count(*) as n }",
    "filter": "match { $p: Person $p.age > 50 } return { count(*) as n }",
    "group": "match { $p: Person } return { $p.age, count(*) as n }",
    "order": "match { $p: Person } return { $p.name } order { $p.age desc } limit 5",
    "hop": "match { $p: Person { age: 30 } $p knows $q } return { $q.age, count(*) as n }",
    "edge": "match { $p: Person $p $e:knows $q $e.since < 2000 } return { count(distinct $q) as n }",
    "several hops": 'match { $p: Person { name: "p1" } $p knows{1,3} $q } return { count($q) as n }',
    "not": "match { $p: Person not { $p knows $q $q.age > 20 } } return { $p.name }",
    "ids": "match { $p: Person } return { $p.@id } limit 100",
}
HEAVY_QUERIES = {
    "text": 'match { $p: Person $p.bio contains "zzzzzz" } return { count(*) as n }',
    "search": 'match { $p: Person search($p.bio, "zzzzzz") } return { count(*) as n }',
    "vector": f"match {{ $p: Person }} return {{ $p.name }} order {{ nearest($p.face, {[1] * SIZE}) }} limit 1",
    "edge text": 'match { $p: Person $p $e:knows $q $e.note contains "zzzzzz" } return { count(*) as n }',
}


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A graph whose texts and vectors are large, and don't compress."""
    chance = random.Random(7)
    people = [_person(chance, f"p{number}") for number in range(PEOPLE)]
    edges = [_edge(chance, number) for number in range(FRIENDS)]
    session = new_graph(tmp_path_factory.mktemp("heavy") / "g", SCHEMA)
    append(session, [*people, *edges])
    return session.uri


def _person(chance: random.Random, name: str) -> Named:
    face = [chance.random() for _ in range(SIZE)]
    return "Person", {"@id": name, "name": name, "age": chance.randrange(99), "bio": _noise(chance), "face": face}


def _edge(chance: random.Random, number: int) -> Named:
    ends = {"@src": f"p{chance.randrange(PEOPLE)}", "@dst": f"p{chance.randrange(PEOPLE)}"}
    return "Knows", {"@id": f"k{number}", **ends, "since": 1990 + number % 30, "note": _noise(chance)}


def _noise(chance: random.Random) -> str:
    return base64.b64encode(chance.randbytes(TEXT_BYTES * 3 // 4)).decode()


class Bytes:
    """How many bytes were read."""

    def __init__(self) -> None:
        self.read = 0


@contextmanager
def measured() -> Iterator[Bytes]:
    """Counts what Lance fetches inside the block."""
    found = Bytes()
    before = _total()
    yield found
    found.read = _total() - before


def _total() -> int:
    register_lance_metrics_recorder()
    name, operation = "lance_object_store_request_bytes_total", "get"
    points = [p for p in snapshot_lance_metrics() if p.name == name and p.attributes["operation"] == operation]
    return sum(int(point.value or 0) for point in points)


def cold(uri: str, body: str) -> tuple[pa.Table, int]:
    """The answer of a query through a fresh handle, and the bytes that it took."""
    graph = og.Graph.open(uri, is_read_only=True, runtime=runtime())
    with measured() as found:
        table = graph.query(f"query q() {{ {body} }}").to_arrow()
    return table, found.read


def test_what_is_not_named_is_not_read(uri: str) -> None:
    found = {name: cold(uri, body) for name, body in LIGHT_QUERIES.items()}

    assert [name for name, (table, _) in found.items() if not table.num_rows] == []
    assert {name: read for name, (_, read) in found.items() if read >= HEAVY / 4} == {}


def test_what_is_named_is_read_and_seen_here(uri: str) -> None:
    found = {name: cold(uri, body) for name, body in HEAVY_QUERIES.items()}

    assert {name: read for name, (_, read) in found.items() if read <= HEAVY} == {}


def test_a_whole_node_is_read_without_its_vectors(uri: str) -> None:
    table, read = cold(uri, "match { $p: Person } return { $p }")

    assert table.num_rows == PEOPLE
    assert HEAVY < read < PEOPLE * (TEXT_BYTES + SIZE * 2)


def test_the_second_time_nothing_is_read(uri: str) -> None:
    graph = og.Graph.open(uri, is_read_only=True, runtime=runtime())
    query = f"query q() {{ {LIGHT_QUERIES['hop']} }}"
    first = graph.query(query).to_arrow()

    with measured() as found:
        second = graph.query(query).to_arrow()

    assert found.read == 0
    assert second.sort_by("q.age") == first.sort_by("q.age")
