"""How many neighbours a node has that was itself reached by an edge: more than the average one, in most graphs.

It is sampled when an adjacency is used, and only looked up when a query is planned.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.reading import Reading
from omnigraph.query.ir import Direction

_SAMPLED = 4_096


@dataclass(frozen=True, slots=True)
class MetDegrees:
    """The mean degree, along one direction of an edge type, of nodes that are met as ends of its edges."""

    onward: float
    """Of far ends: who came along the same direction goes on like this. Only where both ends have one type."""
    returning: float
    """Of near ends: who came against the direction goes back like this."""


def met_degrees(reading: Reading, edge: str, direction: Direction) -> MetDegrees | None:
    """What is known of an edge type in a direction; None until its adjacency was used."""
    found = reading.cache.kept.get(_key(reading, edge, direction))
    return found if isinstance(found, MetDegrees) else None


def note_degrees(
    reading: Reading, edge: str, direction: Direction, starts: NDArray[np.int64], targets: Positions
) -> None:
    """Sample the adjacency of an edge type, unless that was done before; `starts` is where each node's list begins."""
    key = _key(reading, edge, direction)
    if key not in reading.cache.kept:
        reading.cache.keep(key, lambda: _sampled(starts, targets), lambda _: 64)


def _sampled(starts: NDArray[np.int64], targets: Positions) -> MetDegrees:
    count, nodes = len(targets), len(starts) - 1
    if not count:
        return MetDegrees(0.0, 0.0)
    places = np.arange(0, count, max(1, count // _SAMPLED))
    near = np.searchsorted(starts, places, side="right") - 1
    far = np.minimum(targets[places], nodes - 1)  # of another type, it means nothing
    return MetDegrees(float((starts[far + 1] - starts[far]).mean()), float((starts[near + 1] - starts[near]).mean()))


def _key(reading: Reading, edge: str, direction: Direction) -> tuple[str, ...]:
    type_ = reading.edge(edge)
    pin = reading.view.snapshot.pin(type_.table_key)
    return ("met degrees", direction.value, pin.path, str(pin.version))
