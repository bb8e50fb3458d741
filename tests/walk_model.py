"""A plain model of walks: every walk without a repeated edge, one at a time, and the rules that choose from them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelEdge:
    """An edge of the model, by ids; `weight` is its own for the cheapest walk."""

    id: str
    source: str
    target: str
    weight: float | int = 1


@dataclass(frozen=True, slots=True)
class ModelWalk:
    """A walk by ids; costs are added from the start."""

    nodes: tuple[str, ...]
    edges: tuple[str, ...]
    cost: float | int = 0

    @property
    def ids(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.nodes, self.edges


def iter_walks(
    edges: list[ModelEdge],
    start: str,
    high: int,
    *,
    is_undirected: bool = False,
    may_be_inner: Callable[[str], bool] = lambda _: True,
) -> Iterator[ModelWalk]:
    """Every walk of at most `high` edges from a start, that of no edge included."""

    def extend(walk: ModelWalk) -> Iterator[ModelWalk]:
        yield walk
        here = walk.nodes[-1]
        if len(walk.edges) == high or (walk.edges and not may_be_inner(here)):
            return
        for edge in edges:
            if edge.id in walk.edges:
                continue
            ends = {(edge.source, edge.target), *([(edge.target, edge.source)] if is_undirected else [])}
            for source, target in ends:
                if source == here:
                    yield from extend(ModelWalk((*walk.nodes, target), (*walk.edges, edge.id), walk.cost + edge.weight))

    yield from extend(ModelWalk((start,), ()))


def choose_walks(kind: str, walks: list[ModelWalk], low: int, high: int | None) -> list[ModelWalk]:
    """The walks of one pair of ends that a path variable is bound to, out of all of them."""
    within = [walk for walk in walks if len(walk.edges) >= low and (high is None or len(walk.edges) <= high)]
    if kind == "path" or not within:
        return within
    if kind == "cheapest":
        return [min(within, key=lambda walk: (walk.cost, len(walk.edges), walk.ids))]
    # The distance decides whether a pair matches; a walk that leads nowhere is none, unless it is asked for.
    distance = min(len(walk.edges) for walk in walks if walk.edges or low == 0)
    if distance < low:
        return []
    shortest = [walk for walk in within if len(walk.edges) == distance]
    return [min(shortest, key=lambda walk: walk.ids)] if kind == "shortest" else shortest
