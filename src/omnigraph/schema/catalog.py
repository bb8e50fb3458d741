"""The catalog: the checked and resolved types of a schema, as all other packages read them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import Enum
from functools import cached_property
from typing import TypeAlias

from omnigraph.schema.types import ValueType

# A typed value in Python: a DateTime is an aware datetime in UTC, a Vector or list is a tuple.
Value: TypeAlias = str | int | float | bool | date | datetime | bytes | list["Value"] | tuple["Value", ...] | None

# The identity of a type or property that is not part of an accepted schema yet; assigned ones start at 1.
UNASSIGNED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationValue:
    """An unknown annotation, kept as declared: `@name(argument, option=value)`."""

    name: str
    argument: Value = None
    options: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """`@embed`: the String property a vector is computed from, and the model that must compute it."""

    source: str
    model: str | None = None


class Metric(Enum):
    """`@metric`: how `nearest` measures the distance of two vectors."""

    COSINE = "cosine"
    L2 = "l2"
    DOT = "dot"


class VectorIndexKind(Enum):
    """The kinds of vector indexes that `@index(kind=…)` declares."""

    IVF_FLAT = "ivf_flat"
    IVF_PQ = "ivf_pq"
    IVF_RQ = "ivf_rq"
    HNSW = "hnsw"


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorIndex:
    """`@index(kind=…, recall=…)`: `nearest` may answer by this index, with at least this expected recall."""

    kind: VectorIndexKind
    recall: float = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """A typed column of a node or edge type."""

    name: str
    type: ValueType
    nullable: bool = False
    has_default: bool = False
    default: Value = None
    embedding: Embedding | None = None
    metric: Metric = Metric.COSINE
    vector_index: VectorIndex | None = None
    language: str | None = None
    """`@language`: the language whose words are stemmed; None is English."""
    description: str | None = None
    renamed_from: str | None = None
    annotations: tuple[AnnotationValue, ...] = ()
    identity: int = UNASSIGNED

    @property
    def is_required(self) -> bool:
        """Whether an insert or record must give a value: the property is not nullable and has no default."""
        return not self.nullable and not self.has_default


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeRule:
    """`@range`: inclusive bounds in the property's type; None is an open bound."""

    property: str
    low: Value
    high: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRule:
    """`@check`: an RE2 pattern that must match somewhere in the value."""

    property: str
    pattern: str


# No slots here and in `Catalog`: `cached_property` needs a `__dict__`.
@dataclass(frozen=True, kw_only=True)
class _TableType:
    """The fields that node and edge types share."""

    name: str
    properties: tuple[Property, ...]
    key: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    indexed: tuple[str, ...] = ()
    ranges: tuple[RangeRule, ...] = ()
    checks: tuple[CheckRule, ...] = ()
    description: str | None = None
    instruction: str | None = None
    renamed_from: str | None = None
    annotations: tuple[AnnotationValue, ...] = ()
    identity: int = UNASSIGNED

    @cached_property
    def by_name(self) -> Mapping[str, Property]:
        """The properties by name, in declared order."""
        return {p.name: p for p in self.properties}

    def find_property(self, name: str) -> Property | None:
        """Return the property with this name, or None."""
        return self.by_name.get(name)


@dataclass(frozen=True, kw_only=True)
class NodeType(_TableType):
    """A node type: one table with `id` and its properties."""

    implements: tuple[str, ...] = ()

    @property
    def table_key(self) -> str:
        """The key of its table in the manifest."""
        return f"node:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cardinality:
    """`@card`: the allowed number of outgoing edges of a type per source node; `high` None is unbounded."""

    low: int = 0
    high: int | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether some number of edges is not allowed."""
        return self.low > 0 or self.high is not None

    def __str__(self) -> str:
        return f"{self.low}..{'*' if self.high is None else self.high}"


@dataclass(frozen=True, kw_only=True)
class EdgeType(_TableType):
    """An edge type: one table with `id`, `src`, `dst` and its properties. `key` may list `src` and `dst`."""

    source: str
    target: str
    cardinality: Cardinality = field(default_factory=Cardinality)

    @property
    def table_key(self) -> str:
        """The key of its table in the manifest."""
        return f"edge:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceType:
    """A set of properties that node types share; an interface has no table."""

    name: str
    properties: tuple[Property, ...]
    unique: tuple[tuple[str, ...], ...] = ()
    indexed: tuple[str, ...] = ()


AnyType: TypeAlias = NodeType | EdgeType


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """A checked schema. Types are in declared order; `next_identity` is the next identity to assign."""

    nodes: Mapping[str, NodeType]
    edges: Mapping[str, EdgeType]
    interfaces: Mapping[str, InterfaceType]
    next_identity: int = 1

    @property
    def types(self) -> tuple[AnyType, ...]:
        """The types that have a table: the node types, then the edge types, each in declared order."""
        return (*self.nodes.values(), *self.edges.values())

    # The binder rejects edge types that differ only in case, so the lower-case name is unique.
    @cached_property
    def _edges_by_folded_name(self) -> dict[str, EdgeType]:
        return {name.lower(): edge for name, edge in self.edges.items()}

    def find_edge(self, name: str) -> EdgeType | None:
        """Return the edge type with this name in any case, or None."""
        return self._edges_by_folded_name.get(name.lower())

    def find_type(self, name: str) -> AnyType | None:
        """Return the node or edge type with exactly this name, or None."""
        return self.nodes.get(name) or self.edges.get(name)


def build_catalog(
    nodes: tuple[NodeType, ...] = (),
    edges: tuple[EdgeType, ...] = (),
    interfaces: tuple[InterfaceType, ...] = (),
    next_identity: int = 1,
) -> Catalog:
    """Build a catalog of these types, in this order."""
    return Catalog(
        nodes={t.name: t for t in nodes},
        edges={t.name: t for t in edges},
        interfaces={t.name: t for t in interfaces},
        next_identity=next_identity,
    )
