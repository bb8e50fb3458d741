"""Report the types of a state with their properties, constraints, numbers of rows and indexes."""

from collections.abc import Mapping
from typing import Any

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.query_budget import Budget
from omnigraph.json_struct import JsonStruct
from omnigraph.ops.indexes import IndexReport, list_indexes
from omnigraph.ops.session import Session, list_row_rules
from omnigraph.policy import Action
from omnigraph.schema.catalog import AnyType, EdgeType, InterfaceType, NodeType, Property
from omnigraph.schema.catalog_printer import list_constraints
from omnigraph.schema.types import EnumOf
from omnigraph.schema.values import to_json

_LARGEST_NUMBER = 2**53 - 1


class PropertyReport(JsonStruct, frozen=True, kw_only=True):
    """A property: `values` are those of an enum, `low` and `high` the bounds of its `@range`, as in JSON results."""

    name: str
    type: str
    nullable: bool
    required: bool
    has_default: bool = False
    default: Any = None
    description: str | None = None
    values: tuple[str, ...] | None = None
    range: dict[str, Any] | None = None
    pattern: str | None = None


class InterfaceReport(JsonStruct, frozen=True, kw_only=True):
    """An interface, whose properties its node types share."""

    name: str
    properties: tuple[PropertyReport, ...]


class NodeReport(JsonStruct, frozen=True, kw_only=True):
    """A node type: its declaration, the rows of it that the caller sees, and its indexes."""

    name: str
    description: str | None
    rows: int
    implements: tuple[str, ...]
    key: tuple[str, ...]
    unique: tuple[tuple[str, ...], ...]
    constraints: tuple[str, ...]
    properties: tuple[PropertyReport, ...]
    indexes: tuple[IndexReport, ...]


class EdgeReport(JsonStruct, frozen=True, kw_only=True):
    """An edge type: the node types at its ends, and the same as of a node type."""

    json_keys = "name description from=source to=target rows cardinality key unique constraints properties indexes"

    name: str
    description: str | None
    source: str
    target: str
    rows: int
    cardinality: str
    key: tuple[str, ...]
    unique: tuple[tuple[str, ...], ...]
    constraints: tuple[str, ...]
    properties: tuple[PropertyReport, ...]
    indexes: tuple[IndexReport, ...]


class CatalogReport(JsonStruct, frozen=True, kw_only=True):
    """The types of one state, in declared order. `rows` is the number of all rows that the caller sees."""

    branch: str
    commit_id: str
    schema_id: str
    schema_fingerprint: str
    rows: int
    interfaces: tuple[InterfaceReport, ...]
    nodes: tuple[NodeReport, ...]
    edges: tuple[EdgeReport, ...]


def report_catalog(session: Session, snapshot: Snapshot) -> CatalogReport:
    """Return the types of a state. Actors who do not see all rows get the numbers of those they see, and no indexes."""
    session.allow(Action.READ, snapshot.branch, hides_rows=True)
    catalog = session.load_catalog(snapshot)
    counts = _count_rows(session, snapshot, catalog.types)
    indexes: dict[str, tuple[IndexReport, ...]] = {}
    if not list_row_rules(session, snapshot):
        for index in list_indexes(session, snapshot):
            indexes[index.type_name] = (*indexes.get(index.type_name, ()), index)
    record = snapshot.manifest.schema
    return CatalogReport(
        branch=snapshot.branch,
        commit_id=snapshot.commit.id,
        schema_id=record.id,
        schema_fingerprint=record.fingerprint,
        rows=sum(counts.values()),
        interfaces=tuple(map(_describe_interface, catalog.interfaces.values())),
        nodes=tuple(
            _describe_node(type_, counts[type_.name], indexes.get(type_.name, ())) for type_ in catalog.nodes.values()
        ),
        edges=tuple(
            _describe_edge(type_, counts[type_.name], indexes.get(type_.name, ())) for type_ in catalog.edges.values()
        ),
    )


def _count_rows(session: Session, snapshot: Snapshot, types: tuple[AnyType, ...]) -> Mapping[str, int]:
    """Return the number of seen rows by type: that of the manifest, unless rows are hidden."""
    if not list_row_rules(session, snapshot):
        return {
            type_.name: snapshot.pins[type_.table_key].rows if type_.table_key in snapshot.pins else 0
            for type_ in types
        }
    tables = session.open_tables(snapshot)
    budget = session.watch or Budget(session.runtime.clock)
    counts = {}
    for type_ in types:
        budget.check()
        counts[type_.name] = tables.open_table(type_.table_key).count()
    return counts


def _describe_interface(type_: InterfaceType) -> InterfaceReport:
    properties = tuple(_describe_property(p, None, None) for p in type_.properties)
    return InterfaceReport(name=type_.name, properties=properties)


def _describe_node(type_: NodeType, rows: int, indexes: tuple[IndexReport, ...]) -> NodeReport:
    return NodeReport(
        name=type_.name,
        description=type_.description,
        rows=rows,
        implements=type_.implements,
        key=type_.key,
        unique=type_.unique,
        constraints=list_constraints(type_),
        properties=_describe_properties(type_),
        indexes=indexes,
    )


def _describe_edge(type_: EdgeType, rows: int, indexes: tuple[IndexReport, ...]) -> EdgeReport:
    return EdgeReport(
        name=type_.name,
        description=type_.description,
        source=type_.source,
        target=type_.target,
        rows=rows,
        cardinality=str(type_.cardinality),
        key=type_.key,
        unique=type_.unique,
        constraints=list_constraints(type_),
        properties=_describe_properties(type_),
        indexes=indexes,
    )


def _describe_properties(type_: AnyType) -> tuple[PropertyReport, ...]:
    ranges = {rule.property: rule for rule in type_.ranges}
    patterns = {rule.property: rule.pattern for rule in type_.checks}
    reports = []
    for p in type_.properties:
        rule = ranges.get(p.name)
        bounds = None
        if rule is not None:
            bounds = {"low": _encode(p, rule.low), "high": _encode(p, rule.high)}
        reports.append(_describe_property(p, bounds, patterns.get(p.name)))
    return tuple(reports)


def _describe_property(p: Property, bounds: dict[str, Any] | None, pattern: str | None) -> PropertyReport:
    return PropertyReport(
        name=p.name,
        type=str(p.type),
        nullable=p.nullable,
        required=p.is_required,
        has_default=p.has_default,
        default=_encode(p, p.default),
        description=p.description,
        values=p.type.values if isinstance(p.type, EnumOf) else None,
        range=bounds,
        pattern=pattern,
    )


def _encode(p: Property, value: Any) -> Any:  # noqa: ANN401 - any value of a property
    """Return a value as a result has it: an integer that JSON numbers can't hold is a text."""
    encoded = to_json(p.type, value)
    is_large = isinstance(encoded, int) and not -_LARGEST_NUMBER <= encoded <= _LARGEST_NUMBER
    return str(encoded) if is_large else encoded
