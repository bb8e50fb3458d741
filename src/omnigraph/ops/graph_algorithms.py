"""Offer the graph algorithms as methods: the object that `Graph.algorithms` returns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict, Unpack

from omnigraph.engine.algorithms.network import Direction
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.result import Result
from omnigraph.ops.algorithm_call import (
    Algorithm,
    AlgorithmCall,
    AlgorithmResult,
    Betweenness,
    Components,
    CoreNumbers,
    LabelPropagation,
    Leiden,
    NodeSimilarity,
    Pagerank,
    ShortestPaths,
    StrongComponents,
    TopologicalOrder,
    TriangleCount,
    build_algorithm,
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
    """The algorithms over the edges of one type, or of several, whose names are then a sequence.

    Each returns `id` and a value for every node, by id, and the same values on either engine and on every machine. If
    the edges have nodes of several types at their ends, the column `type` tells their ids apart, and a node that is a
    value, or `start`, is written with its type: `Person/ada`. `weight` is a number of the edges. Direction, parallel
    edges and loops count as each algorithm says. See `AlgorithmOptions` for the keyword arguments of all of them.

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
        edge: str | Sequence[str],
        *,
        damping: float = 0.85,
        tolerance: float = 1e-10,
        max_rounds: int = 100,
        weight: str | None = None,
        **options: Unpack[AlgorithmOptions],
    ) -> AlgorithmResult:
        """Compute the PageRank of each node; the ranks add up to 1.

        Iterates until the sum of all changes in a round is below `tolerance`, for at most `max_rounds` rounds. Parallel
        edges each count; with `weight`, a node passes its rank on by the weights of its edges.
        """
        algorithm = Pagerank(damping=damping, tolerance=tolerance, max_rounds=max_rounds, weight=weight)
        return self._run(edge, algorithm, options)

    def connected_components(self, edge: str | Sequence[str], **options: Unpack[AlgorithmOptions]) -> AlgorithmResult:
        """Compute the weakly connected component of each node, named by its smallest node id."""
        return self._run(edge, Components(), options)

    def label_propagation(
        self,
        edge: str | Sequence[str],
        *,
        max_rounds: int = 10,
        weight: str | None = None,
        **options: Unpack[AlgorithmOptions],
    ) -> AlgorithmResult:
        """Compute communities: in each round every node takes the label that most of its neighbours have.

        A label is the id of the node it started from; the smallest of equally frequent labels is taken.
        """
        return self._run(edge, LabelPropagation(max_rounds=max_rounds, weight=weight), options)

    def leiden(
        self,
        edge: str | Sequence[str],
        *,
        resolution: float = 1.0,
        seed: int = 0,
        max_rounds: int = 500,
        weight: str | None = None,
        **options: Unpack[AlgorithmOptions],
    ) -> AlgorithmResult:
        """Compute communities that have more edges inside than by chance, each connected, named by its smallest node.

        Edges count in both directions, parallel edges each, and a loop twice. A greater `resolution` makes smaller
        communities. Equal `seed` and edges make equal communities. The result has their `modularity`.
        """
        algorithm = Leiden(resolution=resolution, seed=seed, max_rounds=max_rounds, weight=weight)
        return self._run(edge, algorithm, options)

    def betweenness(
        self,
        edge: str | Sequence[str],
        *,
        samples: int | None = None,
        seed: int = 0,
        direction: Direction | str = Direction.OUT,
        weight: str | None = None,
        normalized: bool = True,
        **options: Unpack[AlgorithmOptions],
    ) -> AlgorithmResult:
        """Compute how many of the shortest paths between others lead through each node.

        With `samples`, only paths from so many nodes are followed, which `seed` chooses, and the result is an estimate.
        Of parallel edges the lightest counts, loops don't. `normalized` divides by the number of pairs of others.
        """
        algorithm = Betweenness(
            samples=samples,
            seed=seed,
            direction=parse_choice("direction", Direction, direction),
            weight=weight,
            normalized=normalized,
        )
        return self._run(edge, algorithm, options)

    def core_numbers(self, edge: str | Sequence[str], **options: Unpack[AlgorithmOptions]) -> AlgorithmResult:
        """Compute the core number: the largest k so that a node is in a part where all have k neighbours there.

        Directions, parallel edges and loops don't count.
        """
        return self._run(edge, CoreNumbers(), options)

    def strongly_connected_components(
        self, edge: str | Sequence[str], **options: Unpack[AlgorithmOptions]
    ) -> AlgorithmResult:
        """Compute sets of nodes that all reach each other along the direction of edges, named by the smallest id."""
        return self._run(edge, StrongComponents(), options)

    def topological_order(self, edge: str | Sequence[str], **options: Unpack[AlgorithmOptions]) -> AlgorithmResult:
        """Compute a position for each node, from 0 on, that is after the sources of all edges to it.

        Nodes come in waves: those without incoming edges, then those that only these lead to; in each by id.

        Raises:
            QueryError: Edges go in a circle, or a loop is one; the error names the nodes of one cycle.
        """
        return self._run(edge, TopologicalOrder(), options)

    def node_similarity(
        self,
        edge: str | Sequence[str],
        *,
        top: int = 10,
        direction: Direction | str = Direction.OUT,
        weight: str | None = None,
        **options: Unpack[AlgorithmOptions],
    ) -> AlgorithmResult:
        """Compute the `top` nodes most similar to each: which share most of the neighbours that one of them has.

        The result has a row for each pair with a common neighbour: `id`, `similar` and `similarity`, best first, equals
        by id. With `weight`, the sum of smaller weights is divided by that of larger ones. Parallel edges count once,
        and their weights are added; a loop makes a node its own neighbour.
        """
        parsed_direction = parse_choice("direction", Direction, direction)
        return self._run(edge, NodeSimilarity(top=top, direction=parsed_direction, weight=weight), options)

    def shortest_paths(
        self,
        edge: str | Sequence[str],
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

    def triangle_count(self, edge: str | Sequence[str], **options: Unpack[AlgorithmOptions]) -> AlgorithmResult:
        """Count the triangles of each node: sets of three nodes connected to each other in any direction."""
        return self._run(edge, TriangleCount(), options)

    def run(
        self,
        name: str,
        edge: str | Sequence[str],
        parameters: Mapping[str, object] | None = None,
        **options: Unpack[AlgorithmOptions],
    ) -> Result:
        """Run the algorithm of a name, with its parameters by name, and return rows like those of a query.

        The names and parameters are those of the other methods. The result's notes say what the rows don't: whether it
        converged, the modularity of communities, how many nodes were changed.

        Raises:
            QueryError: There is no such algorithm or parameter.
        """
        return self._run(edge, build_algorithm(name, parameters or {}), options).to_result()

    def _run(self, edge: str | Sequence[str], algorithm: Algorithm, options: AlgorithmOptions) -> AlgorithmResult:
        # A session that acts for a user signs with that user's name, whatever `actor` is.
        call = AlgorithmCall(
            edges=(edge,) if isinstance(edge, str) else tuple(edge),
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
