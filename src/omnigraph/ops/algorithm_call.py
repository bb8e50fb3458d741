"""Algorithms as they are asked for, and what they answer."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

import pyarrow as pa

from omnigraph.commit.manifest_types import MAIN
from omnigraph.engine.algorithms.shortest_paths import Direction
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.ops.limits import ResourceLimits
from omnigraph.ops.load import LoadResult
from omnigraph.options import Engine


class MixedEndsError(OmnigraphError):
    """The edges of a type lead from one node type to another, and an algorithm is over nodes of one type."""

    kind = Kind.INVALID
    code = "mixed_ends"

    def __init__(self, edge: str, source: str, target: str) -> None:
        super().__init__(edge, source, target)
        self.edge, self.source, self.target = edge, source, target

    def __str__(self) -> str:
        return (
            f"`{self.edge}` leads from {self.source} to {self.target}; an algorithm needs edges between nodes of one"
            " type"
        )


class AlgorithmArgumentError(OmnigraphError):
    """An argument of an algorithm does not fit; `reason` says what would."""

    kind = Kind.INVALID
    code = "algorithm_argument"

    def __init__(self, name: str, value: str, reason: str) -> None:
        super().__init__(name, value, reason)
        self.name, self.value, self.reason = name, value, reason

    def __str__(self) -> str:
        return f"{self.name}={self.value}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmCall:
    """What every algorithm is asked: over which edges of which state, where it runs, where the values go."""

    edge: str
    into: str | None = None
    """`Type.property`, which gets the value of each node."""
    engine: Engine = Engine.AUTO
    branch: str = MAIN
    snapshot: str | None = None
    at: datetime | None = None
    actor: str = "anonymous"
    message: str | None = None
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    """How long it may run, and what it may use in this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pagerank:
    """Its parameters."""

    damping: float = 0.85
    tolerance: float = 1e-10
    max_rounds: int = 100

    name = "pagerank"
    column = "rank"
    type = pa.float64()

    def __post_init__(self) -> None:
        if not 0 < self.damping < 1:
            raise AlgorithmArgumentError("damping", str(self.damping), "a number between 0 and 1 is needed")
        _check_positive("tolerance", self.tolerance)
        _check_positive("max_rounds", self.max_rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """Connected components have no parameters."""

    name = "connected_components"
    column = "component"
    type = pa.string()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPropagation:
    """Its parameters."""

    max_rounds: int = 10

    name = "label_propagation"
    column = "label"
    type = pa.string()

    def __post_init__(self) -> None:
        _check_positive("max_rounds", self.max_rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortestPaths:
    """From which node, which way, and by which property of the edges; without one every edge counts 1."""

    start: str
    direction: Direction = Direction.OUT
    weight: str | None = None

    name = "shortest_paths"
    column = "distance"

    @property
    def type(self) -> pa.DataType:
        """A number of edges, or a sum of weights."""
        return pa.int64() if self.weight is None else pa.float64()


@dataclass(frozen=True, slots=True, kw_only=True)
class TriangleCount:
    """Counting triangles has no parameters."""

    name = "triangle_count"
    column = "triangles"
    type = pa.int64()


Algorithm: TypeAlias = Pagerank | Components | LabelPropagation | ShortestPaths | TriangleCount


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmResult:
    """What an algorithm found on one state. `rounds` and `is_converged` are of those that work in rounds."""

    name: str
    edge: str
    node: str
    commit_id: str
    """The commit whose state was looked at."""
    engine: Engine
    table: pa.Table = field(repr=False)
    """`id` and the value of every node, by id."""
    rounds: int | None = None
    is_converged: bool = True
    written: LoadResult | None = None
    """What the commit did, when the values became a property."""

    def to_arrow(self) -> pa.Table:
        """The ids of all nodes and their values, by id."""
        return self.table


def _check_positive(name: str, value: float) -> None:
    if not value > 0:
        raise AlgorithmArgumentError(name, str(value), "a number above 0 is needed")
