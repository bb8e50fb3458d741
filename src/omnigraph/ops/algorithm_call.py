"""Parameters and results of the graph algorithms."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TypeAlias

import msgspec
import pyarrow as pa

from omnigraph.commit.manifest_types import MAIN
from omnigraph.engine.algorithms.network import Direction
from omnigraph.engine.result import Result
from omnigraph.engine.result_forms import Target
from omnigraph.errors import QueryError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.limits import ResourceLimits
from omnigraph.ops.load import LoadResult
from omnigraph.options import Engine
from omnigraph.struct_decoder import convert


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmCall:
    """The arguments that all algorithms share: edge types, snapshot, engine, and where the values are written."""

    edges: tuple[str, ...]
    into: str | None = None
    """The `Type.property` that the value of each node is written to."""
    engine: Engine = Engine.AUTO
    branch: str = MAIN
    snapshot: str | None = None
    at: datetime | None = None
    actor: str = "anonymous"
    message: str | None = None
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    """The deadline and the memory limit in this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pagerank:
    """The parameters of PageRank. With a `weight` property, ranks are distributed by it."""

    damping: float = 0.85
    tolerance: float = 1e-10
    max_rounds: int = 100
    weight: str | None = None

    # Without annotations, so that these are class attributes and not fields of the dataclass.
    name = "pagerank"
    column = "rank"
    type = pa.float64()

    def __post_init__(self) -> None:
        # The end points are excluded: 0 ignores all edges, and 1 need not converge.
        if not 0 < self.damping < 1:
            raise QueryError.algorithm_argument("damping", str(self.damping), "a number between 0 and 1 is needed")
        _check_positive("tolerance", self.tolerance)
        _check_positive("max_rounds", self.max_rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """Connected components; there are no parameters."""

    name = "connected_components"
    column = "component"
    type = pa.string()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPropagation:
    """The parameters of label propagation. With a `weight` property, labels count as much as their edges weigh."""

    max_rounds: int = 10
    weight: str | None = None

    name = "label_propagation"
    column = "label"
    type = pa.string()

    def __post_init__(self) -> None:
        _check_positive("max_rounds", self.max_rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortestPaths:
    """The parameters of single-source shortest paths. Without a `weight` property every edge has length 1."""

    start: str
    direction: Direction = Direction.OUT
    weight: str | None = None

    name = "shortest_paths"
    column = "distance"

    @property
    def type(self) -> pa.DataType:
        """The type of a distance: a number of edges, or a sum of weights."""
        return pa.int64() if self.weight is None else pa.float64()


@dataclass(frozen=True, slots=True, kw_only=True)
class TriangleCount:
    """Triangle counting; there are no parameters."""

    name = "triangle_count"
    column = "triangles"
    type = pa.int64()


@dataclass(frozen=True, slots=True, kw_only=True)
class Betweenness:
    """The parameters of betweenness: all nodes are sources, or `samples` of them, which `seed` chooses."""

    samples: int | None = None
    seed: int = 0
    direction: Direction = Direction.OUT
    weight: str | None = None
    normalized: bool = True

    name = "betweenness"
    column = "betweenness"
    type = pa.float64()

    def __post_init__(self) -> None:
        if self.samples is not None:
            _check_positive("samples", self.samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leiden:
    """The parameters of Leiden: the greater the resolution, the smaller the communities."""

    resolution: float = 1.0
    seed: int = 0
    max_rounds: int = 500
    weight: str | None = None

    name = "leiden"
    column = "community"
    type = pa.string()

    def __post_init__(self) -> None:
        _check_positive("resolution", self.resolution)
        _check_positive("max_rounds", self.max_rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreNumbers:
    """Core numbers; there are no parameters."""

    name = "core_numbers"
    column = "core"
    type = pa.int64()


@dataclass(frozen=True, slots=True, kw_only=True)
class StrongComponents:
    """Strongly connected components; there are no parameters."""

    name = "strongly_connected_components"
    column = "component"
    type = pa.string()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologicalOrder:
    """Topological order; there are no parameters."""

    name = "topological_order"
    column = "position"
    type = pa.int64()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSimilarity:
    """The parameters of node similarity: the `top` nodes that have most neighbours in common with each."""

    top: int = 10
    direction: Direction = Direction.OUT
    weight: str | None = None

    name = "node_similarity"
    column = "similarity"
    type = pa.float64()

    def __post_init__(self) -> None:
        _check_positive("top", self.top)


Algorithm: TypeAlias = (
    Pagerank
    | Components
    | LabelPropagation
    | ShortestPaths
    | TriangleCount
    | Betweenness
    | Leiden
    | CoreNumbers
    | StrongComponents
    | TopologicalOrder
    | NodeSimilarity
)
ALGORITHMS: Mapping[str, type[Algorithm]] = {
    kind.name: kind
    for kind in (
        *(Pagerank, Betweenness, CoreNumbers, TriangleCount, NodeSimilarity),
        *(Components, StrongComponents, TopologicalOrder, LabelPropagation, Leiden, ShortestPaths),
    )
}
"""The algorithms by name."""


def build_algorithm(name: str, parameters: Mapping[str, object]) -> Algorithm:
    """Return an algorithm with parameters by name, which may be texts, such as those of a command line.

    Raises:
        QueryError: There is no such algorithm or parameter, or a value is none of the parameter.
    """
    kind = ALGORITHMS.get(name)
    if kind is None:
        near = find_closest(name, ALGORITHMS)
        hint = f"did you mean `{near}`?" if near else f"there are {', '.join(ALGORITHMS)}"
        raise QueryError.algorithm_argument("algorithm", name, f"there is no such algorithm; {hint}")
    known = [one.name for one in fields(kind)]
    for parameter, value in parameters.items():
        if parameter not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            reason = f"{name} has no such parameter; {takes}"
            raise QueryError.algorithm_argument(parameter, str(value), reason)
    try:
        return convert(parameters, kind, is_strict=False)
    except msgspec.ValidationError as error:
        values = ", ".join(f"{parameter}={value}" for parameter, value in parameters.items())
        raise QueryError.algorithm_argument(name, values or "without parameters", str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmResult:
    """The value of each node in one snapshot. `rounds` and `is_converged` apply to iterative algorithms."""

    name: str
    edge: str
    """The edge types, with commas between several."""
    node: str
    """The node types at their ends, with commas between several."""
    target: Target
    commit_id: str
    """The commit whose snapshot was read."""
    engine: Engine
    table: pa.Table = field(repr=False)
    """Columns `id` and the value, one row per node, sorted by id; with several node types, before them `type`.

    Of `node_similarity` the columns are `id`, `similar` and `similarity`, and a node has several rows or none.
    """
    rounds: int | None = None
    is_converged: bool = True
    written: LoadResult | None = None
    """The result of the load that wrote the values to a property; None without `into`."""
    modularity: float | None = None
    """How good the communities of `leiden` are: at most 1, and 0 is no better than chance."""

    def to_arrow(self) -> pa.Table:
        """Return the ids of all nodes and their values, sorted by id."""
        return self.table

    def to_result(self) -> Result:
        """Return the table in the form of a query's result, which can be written in any of its formats."""
        notes: list[str] = []
        if not self.is_converged:
            notes.append(f"not converged after {self.rounds} rounds: raise max_rounds")
        if self.modularity is not None:
            notes.append(f"modularity {self.modularity:.6f}")
        if self.written is not None:
            updated = sum(counts.updated or 0 for counts in self.written.nodes.values())
            commit = f"commit {self.written.commit_id}" if self.written.commit_id else "nothing to change"
            notes.append(f"{updated:,} nodes changed: {commit}")
        return Result.of_table(
            self.table, commit_id=self.commit_id, target=self.target, query_name=self.name, notes=tuple(notes)
        )


def _check_positive(name: str, value: float) -> None:
    # Written with `not`, so that NaN is rejected too.
    if not value > 0:
        raise QueryError.algorithm_argument(name, str(value), "a number above 0 is needed")
