"""Small random graphs to read: schemas, and records full of what goes wrong.

Few different values, so that they meet; nulls, the ends of every number type, both zeros, texts whose order depends on
how they are encoded, equal-looking texts that differ, ids that sort unlike what they are made of; self-loops, parallel
edges, cycles and nodes without edges.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import product
from random import Random
from typing import Any

from reference_reader import PlainGraph, Record
from reference_search import STEMS

COMPOSED, DECOMPOSED = "\u00e9", "e\u0301"
"""One letter in two spellings: different texts."""
TEXTS = ("", "a", "A", "ab", "b", COMPOSED, DECOMPOSED, "zoo", 'O\'Neil "q" \\ %_', "\uff5e", "\U0001f642")
"""The last two sort one way by code point, the other way by UTF-16."""
IDS = ("a", "b", "c", "A", "ab", COMPOSED, DECOMPOSED, "9", "10", "'", '["x"]', " ", "\uff5e", "\U0001f642")
INTEGER_KEYS = (-1, 0, 1, 2, 9, 10, 11, 2**53 + 1, -(2**63), 2**63 - 1)
BODIES = (
    "",
    "the",
    "running graphs",
    "Running the graph engine",
    "a Graph runs",
    "table, tables; query!",
    "queries of a graph engine",
    "engine graph",
    "graph graph graph cat",
    "CAF\u00c9 cats",
    "Z\u00fcrich cafe index",
    "quick dog go",
    "indexed data and quickly running data",
    "abc rgahp",
)
VECTORS = ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (-1.0, 0.0), (2.0, 0.0), (0.5, -0.5), (3.0, 4.0))


@dataclass(frozen=True)
class Kind:
    """A property that types may have: its type as written, and the values it takes."""

    name: str
    type: str
    values: Sequence[Any]
    is_nullable: bool = True

    @property
    def is_scalar(self) -> bool:
        """Whether it compares, groups and orders."""
        return not self.type.startswith(("[", "Vector", "Blob"))


KINDS = (
    Kind("i", "I32", (-(2**31), -1, 0, 1, 2, 3, 2**31 - 1)),
    Kind("n", "I64", (-2, 0, 1, 2, 3)),
    Kind("big", "I64", (-(2**63), -(2**53) - 1, -1, 0, 2, 2**53, 2**53 + 1, 2**63 - 1)),
    Kind("c", "U32", (0, 1, 2, 3, 2**32 - 1)),
    Kind("u", "U64", (0, 1, 2, 2**53 + 1, 2**63, 2**64 - 1)),
    Kind("f", "F64", (-2.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0)),
    Kind("wild", "F64", (-1e300, -0.0, 0.0, 5e-324, 0.1, 2.0, 2.0**53, 2.0**63, 2.0**64, 1e300)),
    Kind("g", "F32", (-1.5, -0.0, 0.0, 0.10000000149011612, 1.0, 2.5)),
    Kind("s", "String", TEXTS),
    Kind("b", "Bool", (False, True)),
    Kind("d", "Date", (date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31))),
    Kind(
        "t",
        "DateTime",
        (
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            datetime(2024, 2, 29, tzinfo=UTC),
            datetime(2024, 2, 29, 0, 0, 0, 1, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        ),
    ),
    Kind("e", "enum(red, green, blue)", ("red", "green", "blue")),
    Kind("l", "[String]", ((), ("a",), ("a", "b"), (COMPOSED, "", "a"), ("zoo", "zoo"))),
    Kind("m", "[I64]", ((), (1,), (2, 3), (0, -(2**63), 2**63 - 1))),
    Kind("file", "Blob", (b"", b"\x00\xff", b"hello" * 20)),
    Kind("x", "String", BODIES),
    Kind("v", "Vector(2)", VECTORS),
)
TEXT, VECTOR = KINDS[-2:]
BY_NAME = {kind.name: kind for kind in KINDS}
TAME = ("i", "n", "c", "f", "g", "wild")
"""Numbers whose sums fit."""
STORED_WORDS = ("running", "graph", "graphs", "engine", "queries", "query", "table", "cats", "cafe", "data", "quick")
"""Some that the texts above have, in one form or another."""
QUERY_WORDS = (*STORED_WORDS, *STORED_WORDS, *sorted(STEMS))


_KEYS = {"k": ("k",), "z": ("z",), "pair": ("n", "s")}


@dataclass(frozen=True)
class TypeSpec:
    """A node type, or with ends an edge type."""

    name: str
    properties: Mapping[str, bool]
    """Names of kinds, and whether each is nullable."""
    key: str | None = None
    source: str = ""
    target: str = ""

    @property
    def is_edge(self) -> bool:
        """Whether it has ends."""
        return bool(self.source)

    @property
    def key_properties(self) -> tuple[str, ...]:
        """The properties that a node's id is made of."""
        return _KEYS.get(self.key or "", ())

    def declaration(self, *, is_indexed: bool = False) -> str:
        """Its part of the schema; with an index on everything that can have one, if that is wanted."""
        marks = {name: " @index" if is_indexed and BY_NAME[name].type != "Blob" else "" for name in self.properties}
        types = {name: f"{BY_NAME[name].type}{'?' if null else ''}" for name, null in self.properties.items()}
        lines = [f"  {name}: {type_}{marks[name]}" for name, type_ in types.items()]
        if self.key == "k":
            lines.insert(0, "  k: String @key")
        elif self.key == "z":
            lines.insert(0, "  z: I64 @key")
        elif self.key == "pair":
            lines.append("  @key(n, s)")
        elif self.key == "ends":
            lines.append("  @key(src, dst)")
        head = f"edge {self.name}: {self.source} -> {self.target}" if self.is_edge else f"node {self.name}"
        return "\n".join([f"{head} {{", *lines, "}"])


@dataclass(frozen=True)
class World:
    """A schema, and a graph of it; `types` by name."""

    types: Mapping[str, TypeSpec]
    graph: PlainGraph = field(repr=False)

    @property
    def schema(self) -> str:
        """The schema's text."""
        return "\n".join(spec.declaration() for spec in self.types.values()) + "\n"

    @property
    def indexed_schema(self) -> str:
        """The same with every index that there can be."""
        return "\n".join(spec.declaration(is_indexed=True) for spec in self.types.values()) + "\n"

    @property
    def nodes(self) -> list[TypeSpec]:
        """The node types."""
        return [spec for spec in self.types.values() if not spec.is_edge]

    @property
    def edges(self) -> list[TypeSpec]:
        """The edge types."""
        return [spec for spec in self.types.values() if spec.is_edge]

    def records(self) -> Iterator[tuple[TypeSpec, Record]]:
        """Every record with its type, nodes first."""
        for spec in self.types.values():
            for record in (self.graph.edges if spec.is_edge else self.graph.nodes)[spec.name]:
                yield spec, record


def random_world(chance: Random, most_nodes: int = 7, most_edges: int = 12) -> World:
    """A graph of one to three node types and up to four edge types."""
    nodes = [_node_type(chance, name) for name in ("A", "B", "C")[: chance.randint(1, 3)]]
    count = chance.choice((0, 1, 2, 2, 3, 4))
    edges = [_edge_type(chance, name, nodes) for name in ("Knows", "Likes", "In", "Of")[:count]]
    node_records = {spec.name: _nodes(chance, spec, most_nodes) for spec in nodes}
    edge_records = {spec.name: _edges(chance, spec, node_records, most_edges) for spec in edges}
    return World({spec.name: spec for spec in (*nodes, *edges)}, PlainGraph(node_records, edge_records))


def _node_type(chance: Random, name: str) -> TypeSpec:
    key, properties = chance.choice(("k", "k", "z", "pair", None)), _properties(chance, 2, 9)
    return TypeSpec(name, {**properties, "n": False, "s": False} if key == "pair" else properties, key)


def _edge_type(chance: Random, name: str, nodes: Sequence[TypeSpec]) -> TypeSpec:
    source = chance.choice(nodes).name
    target = chance.choice((source, source, chance.choice(nodes).name))
    key = chance.choice((None, None, None, "ends"))
    return TypeSpec(name, _properties(chance, 0, 3), key, source, target)


def _properties(chance: Random, least: int, most: int) -> dict[str, bool]:
    chosen = chance.sample((*KINDS, TEXT, TEXT, VECTOR), chance.randint(least, most))
    return {kind.name: chance.randrange(4) > 0 for kind in chosen}


def _nodes(chance: Random, spec: TypeSpec, most: int) -> list[Record]:
    if spec.key == "pair":
        pairs = list(product(BY_NAME["n"].values, BY_NAME["s"].values))
        keyed = chance.sample(pairs, min(_size(chance, most), len(pairs)))
        return [{**_values(chance, spec), "@id": pair_id(str(n), s), "n": n, "s": s} for n, s in keyed]
    keys: list[Any] = list(INTEGER_KEYS if spec.key == "z" else IDS)
    keys += [100 + number if spec.key == "z" else f"id{number}" for number in range(most - len(keys))]
    own = [] if spec.key is None else [spec.key]
    chosen = chance.sample(keys, min(_size(chance, most), len(keys)))
    return [{"@id": str(key), **dict.fromkeys(own, key), **_values(chance, spec)} for key in chosen]


def _edges(chance: Random, spec: TypeSpec, nodes: Mapping[str, Sequence[Record]], most: int) -> list[Record]:
    sources, targets = nodes[spec.source], nodes[spec.target]
    if not sources or not targets:
        return []
    pairs = [(chance.choice(sources)["@id"], chance.choice(targets)["@id"]) for _ in range(_size(chance, most))]
    if spec.key == "ends":
        pairs = list(dict.fromkeys(pairs))
    found: list[Record] = []
    for number, (src, dst) in enumerate(pairs):
        id_ = pair_id(src, dst) if spec.key == "ends" else f"{spec.name}-{len(pairs) - number:02}"
        found.append({"@id": id_, "@src": src, "@dst": dst, **_values(chance, spec)})
    return found


def _size(chance: Random, most: int) -> int:
    """Mostly many: an empty table is a case, but not every other one."""
    return chance.choice((most, most, most, most, most - 1, most - 1, most - 2, most // 2, 1, 0))


def pair_id(first: str, second: str) -> str:
    """The id of what is keyed by two values, such as an edge by its ends: a JSON array."""
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in (first, second))
    return "[" + ",".join(f'"{text}"' for text in quoted) + "]"


def _values(chance: Random, spec: TypeSpec) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, is_nullable in spec.properties.items():
        is_null = is_nullable and chance.randrange(4) == 0
        found[name] = None if is_null else chance.choice(BY_NAME[name].values)
    return found
