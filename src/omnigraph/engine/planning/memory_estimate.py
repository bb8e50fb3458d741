"""Estimate the memory that a plan takes in the memory engine: a function of the snapshot and the settings."""

from collections.abc import Iterator

from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.physical_plan import (
    Check,
    Close,
    EdgeAccessMode,
    Expand,
    Link,
    MemoryEstimate,
    Node,
    PhysicalPlan,
    Scan,
    iter_steps,
)
from omnigraph.query.expr import Expr, Prop
from omnigraph.query.expr_tree import walk
from omnigraph.query.logical_plan import ReadQuery, iter_predicates, list_sources
from omnigraph.query.union_types import list_members
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf

# What the adjacency of an edge takes: both ends of its rows, and its place in the lists of both directions, as 32-bit
# numbers. 22 million edges between a million nodes took 354 MB.
_BYTES_PER_EDGE = 16
# A node's entry in the list offsets of both directions.
_BYTES_PER_NODE = 16
# Values of a column, with their part of the offsets. Texts and lists of any length count as short ones: their sizes are
# known only where they were read.
_BYTES_PER_TEXT, _BYTES_PER_LIST, _BYTES_PER_NUMBER, _BYTES_PER_COMPONENT = 32, 64, 8, 4
# A column is read as a whole once fetches of its rows have cost as much: a fetched row counts as this many scanned.
_SCANNED_PER_FETCHED = 512


def estimate_memory(query: ReadQuery, plan: PhysicalPlan, context: ExecutionContext) -> MemoryEstimate:
    """Return what a plan needs of adjacency, and of columns that it filters, joins, groups or sorts by.

    What only the rows of the result have is fetched for these, and not counted; edges that indexes find neither.
    """
    if plan.memory is not None:
        return plan.memory
    edges = sorted({edge for part in _iter_plans(plan) for edge in _iter_edges(part)})
    columns: dict[tuple[str, str], int] = {}
    for part_query, part in _iter_reads(query, plan):
        for type_name, column, nbytes in _iter_columns(part_query, part, context):
            columns[type_name, column] = max(nbytes, columns.get((type_name, column), 0))
    return MemoryEstimate(sum(_measure_adjacency(edge, context) for edge in edges), sum(columns.values()))


def _iter_plans(plan: PhysicalPlan) -> Iterator[PhysicalPlan]:
    yield plan
    for part in (*plan.sources, *(part for _, part in plan.parts)):
        yield from _iter_plans(part)


def _iter_reads(query: ReadQuery, plan: PhysicalPlan) -> Iterator[tuple[ReadQuery, PhysicalPlan]]:
    yield query, plan
    for source, own in zip(list_sources(query), plan.sources, strict=True):
        yield from _iter_reads(source, own)
    for part, own in plan.parts:
        yield from _iter_reads(part, own)


def _iter_edges(plan: PhysicalPlan) -> Iterator[str]:
    """Yield the edge types whose adjacency a plan reads."""
    for step in iter_steps(plan.steps):
        if isinstance(step, Expand | Close):
            yield from _list_edges(step.link)
        if isinstance(step, Scan | Expand | Check):
            yield from _iter_subtree_edges(step.node)


def _iter_subtree_edges(node: Node) -> Iterator[str]:
    for subtree in node.subtrees:
        yield from _list_edges(subtree.link)
        yield from _iter_subtree_edges(subtree.node)


def _list_edges(link: Link) -> tuple[str, ...]:
    is_looked_up = link.access is EdgeAccessMode.INDEXED
    return () if link.derived is not None or is_looked_up else tuple(list_members(link.edge))


def _measure_adjacency(edge: str, context: ExecutionContext) -> int:
    type_ = context.get_edge_type(edge)
    nodes = sum(context.get_reader(end).size for end in {type_.source, type_.target})
    return context.get_reader(edge).size * _BYTES_PER_EDGE + nodes * _BYTES_PER_NODE


def _iter_columns(query: ReadQuery, plan: PhysicalPlan, context: ExecutionContext) -> Iterator[tuple[str, str, int]]:
    """Yield the type and name of each column that is read for many rows, and the bytes of what is read of it."""
    rows: dict[str, tuple[str, float]] = {}
    for step in iter_steps(plan.steps):
        if isinstance(step, Scan | Expand | Check):
            for node in _iter_nodes(step.node):
                rows[node.variable] = (node.type, max(step.rows, rows.get(node.variable, ("", 0.0))[1]))
    for expr in (*iter_predicates(query.pattern), *_list_decisive(query)):
        for part in walk(expr):
            if isinstance(part, Prop) and part.variable in rows:
                type_name, count = rows[part.variable]
                size = context.get_reader(type_name).size
                read = min(float(size), count * _SCANNED_PER_FETCHED)
                yield type_name, part.name, int(read * _measure_value(part))


def _iter_nodes(node: Node) -> Iterator[Node]:
    yield node
    for subtree in node.subtrees:
        yield from _iter_nodes(subtree.node)


def _list_decisive(query: ReadQuery) -> tuple[Expr, ...]:
    """Return the expressions of the output that are evaluated for all matches, not for rows of the result alone."""
    having = () if query.having is None else (query.having,)
    columns = tuple(column.value for column in query.output) if query.distinct else ()
    grouped = () if query.grouping is None else (*query.grouping.keys, *query.grouping.aggregates)
    return (*having, *columns, *grouped, *(term.value for term in query.order), *query.per)


def _measure_value(prop: Prop) -> int:
    type_ = prop.type
    if isinstance(type_, VectorOf):
        return type_.size * _BYTES_PER_COMPONENT
    if isinstance(type_, ListOf):
        return _BYTES_PER_LIST
    return _BYTES_PER_TEXT if _is_text(type_) else _BYTES_PER_NUMBER


def _is_text(type_: ValueType) -> bool:
    return isinstance(type_, EnumOf) or type_ in (Scalar.STRING, Scalar.BLOB)
