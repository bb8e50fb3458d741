"""Choose the engine that runs a read: arrays in memory, or DuckDB, which spills to disk."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, cast

from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.executor import PrefixEngine
from omnigraph.engine.physical_plan import Check, Close, Expand, Link, Node, PhysicalPlan, Scan, iter_steps
from omnigraph.errors import BadArgumentError
from omnigraph.extensions import Extension, load_extension
from omnigraph.options import Options, QueryEngine
from omnigraph.query.union_types import list_members

# What the adjacency of an edge takes: both ends of its rows, and its place in the lists of both directions, as 32-bit
# numbers. 22 million edges between a million nodes took 354 MB.
_BYTES_PER_EDGE = 16
# A node's entry in the list offsets of both directions.
_BYTES_PER_NODE = 16


class LocalEngineFactory(Protocol):
    """Builds the engine that runs joins in DuckDB, which is imported on first use."""

    def __call__(self, context: ExecutionContext, options: Options) -> PrefixEngine:
        """Return an engine for one query."""
        ...


@dataclass(frozen=True, slots=True)
class QueryEngineChoice:
    """An engine, never AUTO, and the reason for it."""

    engine: QueryEngine
    reason: str

    def __str__(self) -> str:
        return f"engine {self.engine.value}: {self.reason}"


def choose_query_engine(requested: QueryEngine, plan: PhysicalPlan, context: ExecutionContext) -> QueryEngineChoice:
    """Choose the engine of a read: memory for whatever fits, else local.

    A function of the snapshot, the plan and the memory limit: what is cached in memory does not matter.

    Raises:
        BadArgumentError: The engine does not run in this process.
    """
    if requested is QueryEngine.SPARK:
        raise BadArgumentError("engine", "`spark`", "`auto`, `memory` or `local`")
    if requested is not QueryEngine.AUTO:
        return QueryEngineChoice(requested, "as requested")
    needed = sum(_measure_adjacency(edge, context) for edge in sorted(set(_iter_edges(plan))))
    limit = context.budget.memory_bytes
    size = _format_size(needed)
    if math.isinf(limit):
        return QueryEngineChoice(QueryEngine.MEMORY, f"{size} of adjacency, and there is no memory limit")
    if needed <= limit:
        return QueryEngineChoice(QueryEngine.MEMORY, f"{size} of adjacency, which fits into {_format_size(limit)}")
    return QueryEngineChoice(QueryEngine.LOCAL, f"{size} of adjacency do not fit into {_format_size(limit)}")


def build_prefix_engine(choice: QueryEngineChoice, context: ExecutionContext, options: Options) -> PrefixEngine | None:
    """Return the engine that runs the first steps of a plan; None if all run in memory."""
    if choice.engine is not QueryEngine.LOCAL:
        return None
    return cast("LocalEngineFactory", load_extension(Extension.LOCAL_ENGINE))(context, options)


def _iter_edges(plan: PhysicalPlan) -> Iterator[str]:
    """Yield the edge types whose adjacency a plan reads."""
    for source in plan.sources:
        yield from _iter_edges(source)
    for _, part in plan.parts:
        yield from _iter_edges(part)
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
    return () if link.derived is not None else tuple(list_members(link.edge))


def _measure_adjacency(edge: str, context: ExecutionContext) -> int:
    type_ = context.get_edge_type(edge)
    nodes = sum(context.get_reader(end).size for end in {type_.source, type_.target})
    return context.get_reader(edge).size * _BYTES_PER_EDGE + nodes * _BYTES_PER_NODE


def _format_size(nbytes: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:,.0f} {unit}"
        nbytes /= 1024
    return f"{nbytes:,.1f} GiB"
