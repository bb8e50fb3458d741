"""The algorithms of a graph, each one call: what `Graph.algorithms` is."""

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


class AlgorithmOptions(TypedDict, total=False):
    """What every algorithm may be given, by name.

    `into` is a `Type.property` that gets the value of each node, in one commit. `engine` is `auto`, `local` or
    `spark`. `snapshot` is a commit's id and `at` an instant, for the state of then. `seconds` is how long it may run,
    and `memory_bytes` what it may use in this process; a `budget` can also be cancelled, and counts instead.
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
    """Algorithms over the edges of one type, which lead from nodes of one type to nodes of the same.

    Each gives `id` and a value for every node, by id, and the same values on either engine. See `AlgorithmOptions` for what all
    of them take.

    Raises:
        TypeMissingError, MixedEndsError, AlgorithmArgumentError: The call is wrong.
        QueryTimeoutError, QueryMemoryError: It needs more than it may use.
        LoadError, ConflictError: The values can't be written.
    """

    _session: Session
    _distributed: Callable[[Session], DistributedAlgorithms]

    def pagerank(
        self,
        edge: str,
        *,
        damping: float = 0.85,
        tolerance: float = 1e-10,
        max_rounds: int = 100,
        **asked: Unpack[AlgorithmOptions],
    ) -> AlgorithmResult:
        """How central each node is; all ranks add up to 1.

        Rounds go on until all ranks together change by less than `tolerance`.
        """
        return self._run(edge, Pagerank(damping=damping, tolerance=tolerance, max_rounds=max_rounds), asked)

    def connected_components(self, edge: str, **asked: Unpack[AlgorithmOptions]) -> AlgorithmResult:
        """Which nodes are connected, whichever way edges run: the smallest id of the component."""
        return self._run(edge, Components(), asked)

    def label_propagation(
        self, edge: str, *, max_rounds: int = 10, **asked: Unpack[AlgorithmOptions]
    ) -> AlgorithmResult:
        """Communities: in each round every node takes the label that most of its neighbours have.

        A label is the id of the node that it started from; of several as frequent ones the smallest is taken.
        """
        return self._run(edge, LabelPropagation(max_rounds=max_rounds), asked)

    def shortest_paths(
        self,
        edge: str,
        start: str,
        *,
        direction: Direction | str = Direction.OUT,
        weight: str | None = None,
        **asked: Unpack[AlgorithmOptions],
    ) -> AlgorithmResult:
        """How far each node is from the one with the id `start`; null where no path leads.

        `direction` is `out`, `in` or `both`. With `weight`, a property of the edges that is never negative, the least
        sum of weights counts instead of the number of edges.
        """
        way = parse_choice("direction", Direction, direction)
        return self._run(edge, ShortestPaths(start=start, direction=way, weight=weight), asked)

    def triangle_count(self, edge: str, **asked: Unpack[AlgorithmOptions]) -> AlgorithmResult:
        """In how many triangles each node is: sets of three nodes that are all connected, whichever way edges run."""
        return self._run(edge, TriangleCount(), asked)

    def _run(self, edge: str, algorithm: Algorithm, asked: AlgorithmOptions) -> AlgorithmResult:
        call = AlgorithmCall(
            edge=edge,
            into=asked.get("into"),
            engine=parse_choice("engine", Engine, asked.get("engine", Engine.AUTO)),
            branch=asked.get("branch", "main"),
            snapshot=asked.get("snapshot"),
            at=asked.get("at"),
            actor=self._session.resolve_signer(asked.get("actor", "anonymous")),
            message=asked.get("message"),
            limits=ResourceLimits(
                seconds=asked.get("seconds"), memory_bytes=asked.get("memory_bytes"), budget=asked.get("budget")
            ),
        )
        return run_algorithm(self._session, call, algorithm, self._distributed)
