"""Vectors in groups of like direction, which tell of most vectors that they can't be among the nearest.

A vector at the angle `t` from the centre of its group is at least `|t - q|` from a query at the angle `q` from that
centre. In numbers: its cosine is at most `along * a + across * sqrt(1 - a * a)`, where `a` is the cosine of the query
and the centre, and `along` and `across` are the parts of the vector towards its centre and away from it. This holds
for any centres, good or bad; how many vectors it leaves depends on how well they fit. Nothing is approximate.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.search.tokenizer import Check
from omnigraph.engine.tables.row_layout import Layout

Matrix = NDArray[np.float32]
_CENTRES_PER_LEVEL = 32
"""Groups are made in two steps, so many each time: assigning a vector takes 64 comparisons, and there are 1,024."""
_MAX_SAMPLE_ROWS = 16_384
"""From so many vectors centres are found."""
_KMEANS_ROUNDS = 3
"""How often centres are moved into the middle of their groups."""
_CHUNK_ROWS = 1_024
BOUND_ERROR = 1e-6
"""By how much a bound can be off: it is made of numbers in single precision that were computed in double."""


@dataclass(frozen=True, slots=True)
class ClusterCentres:
    """Directions of length one: some, and for each of them a few more, by which its group is divided again."""

    coarse: Matrix
    fine: tuple[Matrix, ...]

    @property
    def leaves(self) -> NDArray[np.float64]:
        """The fine ones, group by group, of length one in double precision: close to a centre that counts."""
        return _normalize(np.concatenate(self.fine).astype(np.float64))


@dataclass(frozen=True)
class VectorClusters:
    """By position the group of each vector as it was written, and its parts towards the group's centre and away."""

    layout: Layout
    centres: ClusterCentres
    leaves: NDArray[np.float64]
    group: NDArray[np.int32]
    along: NDArray[np.float32]
    across: NDArray[np.float32]

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        fine = sum(one.nbytes for one in self.centres.fine)
        own = self.group.nbytes + self.along.nbytes + self.across.nbytes
        return own + self.leaves.nbytes + self.centres.coarse.nbytes + fine

    def compute_bounds(self, query: NDArray[np.float64], rows: Positions | None) -> NDArray[np.float32]:
        """The most that the cosine of each row, or of all, and a query of length one can be, but for `BOUND_ERROR`."""
        towards = np.clip(np.vecdot(self.leaves, query), -1.0, 1.0)
        away = np.sqrt(1.0 - towards * towards)
        group, along, across = self.group, self.along, self.across
        if rows is not None:
            group, along, across = group.take(rows), along.take(rows), across.take(rows)
        found: NDArray[np.float32] = towards.astype(np.float32).take(group)
        found *= along
        found += away.astype(np.float32).take(group) * across
        return found


def build_clusters(
    matrix: Matrix, layout: Layout, usable: Positions, older: VectorClusters | None, check: Check
) -> VectorClusters:
    """The groups of the vectors of a column; what an older version knows of the same rows is taken over.

    `usable` are rows with a vector that is not zero; `check` is called now and then, and may raise.
    """
    centres = find_centres(matrix, usable, check) if older is None else older.centres
    leaves = centres.leaves if older is None else older.leaves
    size = len(matrix)
    found = VectorClusters(
        layout, centres, leaves, np.zeros(size, np.int32), np.zeros(size, np.float32), np.ones(size, np.float32)
    )
    start = 0
    for piece in layout.match_runs(Layout(()) if older is None else older.layout):
        stop = start + piece.rows
        if piece.start is not None and older is not None:
            there = slice(piece.start, piece.start + piece.rows)
            found.group[start:stop] = older.group[there]
            found.along[start:stop], found.across[start:stop] = older.along[there], older.across[there]
        else:
            _assign(matrix, found, start, stop, check)
        start = stop
    return found


def find_centres(matrix: Matrix, usable: Positions, check: Check) -> ClusterCentres:
    """Centres that fit these rows, of which none is a vector of zeros; the same for the same rows."""
    at = usable[np.linspace(0, len(usable) - 1, min(_MAX_SAMPLE_ROWS, len(usable))).astype(np.int64)]
    sample = _normalize(matrix[at])
    coarse = _run_kmeans(sample, check)
    nearest = _find_nearest(sample, coarse)
    fine = []
    for number in range(len(coarse)):
        own = sample[nearest == number]
        fine.append(_run_kmeans(own, check) if len(own) else coarse[number : number + 1])
    return ClusterCentres(coarse, tuple(fine))


def _assign(matrix: Matrix, found: VectorClusters, start: int, stop: int, check: Check) -> None:
    """Fill in what there is to know of some rows."""
    centres = found.centres
    firsts = np.cumsum([0, *(len(one) for one in centres.fine)])
    for begin in range(start, stop, _CHUNK_ROWS):
        check()
        some = slice(begin, min(begin + _CHUNK_ROWS, stop))
        exact = _normalize(matrix[some].astype(np.float64))
        part = exact.astype(np.float32)
        coarse = _find_nearest(part, centres.coarse)
        own = np.empty(len(part), np.int32)
        for number in np.unique(coarse).tolist():
            rows = np.flatnonzero(coarse == number)
            own[rows] = firsts[number] + _find_nearest(part[rows], centres.fine[number])
        cosine = np.clip(np.vecdot(exact, found.leaves[own]), -1.0, 1.0)
        found.group[some], found.along[some], found.across[some] = own, cosine, np.sqrt(1.0 - cosine * cosine)


def _run_kmeans(sample: Matrix, check: Check) -> Matrix:
    """Centres of unit vectors: at first each as far from the others as can be, then moved into the middle."""
    centres = _choose_initial_centres(sample, check)
    for _ in range(_KMEANS_ROUNDS):
        check()
        nearest = _find_nearest(sample, centres)
        counts = np.bincount(nearest, minlength=len(centres))
        order = np.argsort(nearest, kind="stable")
        is_filled = counts > 0
        sums = np.add.reduceat(sample[order], (np.cumsum(counts) - counts)[is_filled], axis=0)
        centres = centres.copy()
        centres[is_filled] = _normalize(sums)
    return centres


def _choose_initial_centres(sample: Matrix, check: Check) -> Matrix:
    """Some of the vectors: each the one that is farthest from those before it; the first is the farthest from all."""
    chosen = [int(np.argmin(np.vecdot(sample, sample.mean(axis=0))))]
    closest = np.vecdot(sample, sample[chosen[0]])
    while len(chosen) < min(_CENTRES_PER_LEVEL, len(sample)):
        check()
        chosen.append(int(np.argmin(closest)))
        np.maximum(closest, np.vecdot(sample, sample[chosen[-1]]), out=closest)
    return sample[chosen]


def _find_nearest(part: Matrix, centres: Matrix) -> NDArray[np.int64]:
    """The number of the centre that is nearest to each row."""
    # Not as one product of matrices: that would take all cores, and wait for them when others work.
    found: NDArray[np.int64] = np.argmax(np.vecdot(part[:, np.newaxis], centres), axis=1)
    return found


def _normalize(rows: NDArray[Any]) -> NDArray[Any]:
    """The rows at length one; what has no length, or is no number, becomes zeros."""
    with np.errstate(invalid="ignore", over="ignore"):  # what stands for a null may be anything
        lengths = np.sqrt(np.vecdot(rows, rows))
        is_safe = (lengths > 0) & np.isfinite(lengths)
        found: NDArray[Any] = rows * np.divide(1, lengths, out=np.zeros_like(lengths), where=is_safe)[:, np.newaxis]
    if not is_safe.all():
        found[~is_safe] = 0
    return found
