"""Parameters and results of the graph algorithms."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

import pyarrow as pa

from omnigraph.commit.manifest_types import MAIN
from omnigraph.engine.algorithms.shortest_paths import Direction
from omnigraph.errors import QueryError
from omnigraph.ops.limits import ResourceLimits
from omnigraph.ops.load import LoadResult
from omnigraph.options import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmCall:
    """The arguments that all algorithms share: edge type, snapshot, engine, and where the values are written."""

    edge: str
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
    """The parameters of PageRank."""

    damping: float = 0.85
    tolerance: float = 1e-10
    max_rounds: int = 100

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
    """The parameters of label propagation."""

    max_rounds: int = 10

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


Algorithm: TypeAlias = Pagerank | Components | LabelPropagation | ShortestPaths | TriangleCount


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmResult:
    """The value of each node in one snapshot. `rounds` and `is_converged` apply to iterative algorithms."""

    name: str
    edge: str
    node: str
    commit_id: str
    """The commit whose snapshot was read."""
    engine: Engine
    table: pa.Table = field(repr=False)
    """Columns `id` and the value, one row per node, sorted by id."""
    rounds: int | None = None
    is_converged: bool = True
    written: LoadResult | None = None
    """The result of the load that wrote the values to a property; None without `into`."""

    def to_arrow(self) -> pa.Table:
        """Return the ids of all nodes and their values, sorted by id."""
        return self.table


def _check_positive(name: str, value: float) -> None:
    # Written with `not`, so that NaN is rejected too.
    if not value > 0:
        raise QueryError.algorithm_argument(name, str(value), "a number above 0 is needed")
