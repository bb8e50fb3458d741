"""Choose the engine that runs a read: arrays in memory, or DuckDB, which spills to disk."""

import math
from dataclasses import dataclass
from typing import Protocol, cast

from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.executor import PrefixEngine
from omnigraph.engine.physical_plan import MemoryEstimate, PhysicalPlan
from omnigraph.engine.planning.memory_estimate import estimate_memory
from omnigraph.errors import BadArgumentError
from omnigraph.extensions import Extension, load_extension
from omnigraph.options import Options, QueryEngine
from omnigraph.query.logical_plan import ReadQuery


class LocalEngineFactory(Protocol):
    """Builds the engine that runs joins in DuckDB, which is imported on first use."""

    def __call__(self, context: ExecutionContext, options: Options) -> PrefixEngine:
        """Return an engine for one query."""
        ...


@dataclass(frozen=True, slots=True)
class QueryEngineChoice:
    """An engine, never AUTO, and what it was chosen by; nothing if it was requested."""

    engine: QueryEngine
    needed: MemoryEstimate | None = None
    limit: float = math.inf
    """The bytes that a query may use."""

    @property
    def reason(self) -> str:
        """Why it was chosen, for a person."""
        if self.needed is None:
            return "as requested"
        size = f"{_format_size(self.needed.adjacency)} of adjacency and {_format_size(self.needed.columns)} of columns"
        if math.isinf(self.limit):
            return f"{size}, and there is no memory limit"
        fit = ", which fit" if self.engine is QueryEngine.MEMORY else " do not fit"
        return f"{size}{fit} into {_format_size(self.limit)}"

    def __str__(self) -> str:
        return f"engine {self.engine.value}: {self.reason}"


def choose_query_engine(
    requested: QueryEngine, query: ReadQuery, plan: PhysicalPlan, context: ExecutionContext
) -> QueryEngineChoice:
    """Choose the engine of a read: memory for whatever fits, else local.

    A function of the snapshot, the plan and the memory limit: what is cached in memory does not matter.

    Raises:
        BadArgumentError: The engine does not run in this process.
    """
    if requested is QueryEngine.SPARK:
        raise BadArgumentError("engine", "`spark`", "`auto`, `memory` or `local`")
    if requested is not QueryEngine.AUTO:
        return QueryEngineChoice(requested)
    needed = estimate_memory(query, plan, context)
    limit = context.budget.memory_bytes
    engine = QueryEngine.MEMORY if needed.total <= limit else QueryEngine.LOCAL
    return QueryEngineChoice(engine, needed, limit)


def build_prefix_engine(choice: QueryEngineChoice, context: ExecutionContext, options: Options) -> PrefixEngine | None:
    """Return the engine that runs the first steps of a plan; None if all run in memory."""
    if choice.engine is not QueryEngine.LOCAL:
        return None
    return cast("LocalEngineFactory", load_extension(Extension.LOCAL_ENGINE))(context, options)


def _format_size(nbytes: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:,.0f} {unit}"
        nbytes /= 1024
    return f"{nbytes:,.1f} GiB"
