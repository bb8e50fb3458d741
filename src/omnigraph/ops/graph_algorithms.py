"""Offer the graph algorithms as methods: the object that `Graph.algorithms` returns."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict, Unpack

from omnigraph.engine.algorithms.shortest_paths import Direction
from omnigraph.engine.query_budget import Budget
from omnigraph.ops.algorithm_call import (
    Algorithm,
    AlgorithmCall,
    AlgorithmResult,
    Components,
    LabelPropagation,
    Pagerank,
    ShortestPaths,
    TriangleCount,
)
from omnigraph.ops.algorithms import DistributedAlgorithms, run_algorithm
from omnigraph.ops.argument_checks import parse_choice
from omnigraph.ops.limits import ResourceLimits
from omnigraph.ops.session import Session
from omnigraph.options import Engine


# One checked list of keyword arguments for all algorithms. A missing key has the default of `AlgorithmCall`.
class AlgorithmOptions(TypedDict, total=False):
    """The keyword arguments that every algorithm accepts.

    `into` is a `Type.property` that gets the value of each node, in one commit. `engine` is `auto`, `local` or
    `spark`. `snapshot` is a commit's id and `at` an instant, to read an earlier state. `seconds` limits the run time
    and `memory_bytes` the memory of this process; a `budget` replaces both, and can also be cancelled.
    """

    into: str | None
    engine: Engine | str
    branch: str
    snapshot: str | None
    at: datetime | None
    actor: str
    message: str | None
    seconds: float | None
    memory_bytes: int | None
    budget: Budget | None


@dataclass(frozen=True, slots=True)
class Algorithms:
    """The algorithms over the edges of one type, whose source and target nodes have the same type.

    Each returns `id` and a value for every node, by id, and the same values on either engine. See `AlgorithmOptions`
    for the keyword arguments of all of them.

    Raises:
        TypeMissingError, QueryError: The call is wrong.
        QueryTimeoutError, QueryMemoryError: It exceeds its time or memory limit.
        LoadError, ConflictError: The values can't be written.
    """

    _session: Session
    # A factory, so that pyspark is imported only if an algorithm runs on Spark.
    _distributed: Callable[[Session], DistributedAlgorithms]

    def pagerank(
        self,
        edge: str,
        *,
        damping: float = 0.85,
        tolerance: float = 1e-10,
        max_rounds: int = 100,
        **options: Unpack[AlgorithmOptions],
    ) -> AlgorithmResult:
        """Compute the PageRank of each node; the ranks add up to 1.

        Iterates until the sum of all changes in a round is below `tolerance`, for at most `max_rounds` rounds.
        """
        return self._run(edge, Pagerank(damping=damping, tolerance=tolerance, max_rounds=max_rounds), options)

    def connected_components(self, edge: str, **options: Unpack[AlgorithmOptions]) -> AlgorithmResult:
        """Compute the weakly connected component of each node, named by its smallest node id."""
        return self._run(edge, Components(), options)

    def label_propagation(
        self, edge: str, *, max_rounds: int = 10, **options: Unpack[AlgorithmOptions]
    ) -> AlgorithmResult:
        """Compute communities: in each round every node takes the label that most of its neighbours have.

        A label is the id of the node it started from; the smallest of equally frequent labels is taken.
        """
        return self._run(edge, LabelPropagation(max_rounds=max_rounds), options)

    def shortest_paths(
        self,
        edge: str,
        start: str,
        *,
        direction: Direction | str = Direction.OUT,
        weight: str | None = None,
        **options: Unpack[AlgorithmOptions],
    ) -> AlgorithmResult:
        """Compute the distance of each node from the node with the id `start`; null if there is no path.

        `direction` is `out`, `in` or `both`. The distance is the number of edges or, with `weight`, a non-negative
        property of the edges, the smallest sum of weights.
        """
        parsed_direction = parse_choice("direction", Direction, direction)
        return self._run(edge, ShortestPaths(start=start, direction=parsed_direction, weight=weight), options)

    def triangle_count(self, edge: str, **options: Unpack[AlgorithmOptions]) -> AlgorithmResult:
        """Count the triangles of each node: sets of three nodes connected to each other in any direction."""
        return self._run(edge, TriangleCount(), options)

    def _run(self, edge: str, algorithm: Algorithm, options: AlgorithmOptions) -> AlgorithmResult:
        # A session that acts for a user signs with that user's name, whatever `actor` is.
        call = AlgorithmCall(
            edge=edge,
            into=options.get("into"),
            engine=parse_choice("engine", Engine, options.get("engine", Engine.AUTO)),
            branch=options.get("branch", "main"),
            snapshot=options.get("snapshot"),
            at=options.get("at"),
            actor=self._session.resolve_signer(options.get("actor", "anonymous")),
            message=options.get("message"),
            limits=ResourceLimits(
                seconds=options.get("seconds"), memory_bytes=options.get("memory_bytes"), budget=options.get("budget")
            ),
        )
        return run_algorithm(self._session, call, algorithm, self._distributed)
