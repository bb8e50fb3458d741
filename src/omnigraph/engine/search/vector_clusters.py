"""Clusters of vectors by direction, which exclude most vectors from an exact nearest-neighbour search.

A vector at the angle `t` from the centre of its cluster is at least `|t - q|` from a query at the angle `q` from that
centre. In numbers: its cosine is at most `along * a + across * sqrt(1 - a * a)`, where `a` is the cosine of the query
and the centre, and `along` and `across` are the components of the vector along its centre and across it. This holds
for any centres, good or bad; how many vectors it excludes depends on how well they fit. Nothing is approximate.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.search.tokenizer import Check
from omnigraph.engine.tables.row_layout import Layout

Matrix = NDArray[np.float32]
# Two levels of this many centres: assigning a vector to one of 1,024 clusters takes 64 comparisons.
_CENTRES_PER_LEVEL = 32
# Limit of the vectors from which centres are computed.
_MAX_SAMPLE_ROWS = 16_384
# Rounds of k-means.
_KMEANS_ROUNDS = 3
_CHUNK_ROWS = 1_024
# Largest error of a bound: it is computed from single-precision numbers that were computed in double precision.
BOUND_ERROR = 1e-6


@dataclass(frozen=True, slots=True)
class ClusterCentres:
    """Cluster centres in two levels, as unit vectors: coarse ones, and the fine ones of each coarse cluster."""

    coarse: Matrix
    fine: tuple[Matrix, ...]

    @property
    def leaves(self) -> NDArray[np.float64]:
        """All fine centres, as unit vectors in double precision: the bound of a vector close to its centre needs it."""
        return _normalize(np.concatenate(self.fine).astype(np.float64))


@dataclass(frozen=True)
class VectorClusters:
    """By position, the cluster of each vector and its components along the cluster's centre and across it."""

    layout: Layout
    centres: ClusterCentres
    leaves: NDArray[np.float64]
    group: NDArray[np.int32]
    along: NDArray[np.float32]
    across: NDArray[np.float32]

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        centres = self.centres.coarse.nbytes + sum(fine.nbytes for fine in self.centres.fine)
        by_position = self.group.nbytes + self.along.nbytes + self.across.nbytes
        return by_position + self.leaves.nbytes + centres

    def compute_bounds(self, query: NDArray[np.float64], rows: Positions | None) -> NDArray[np.float32]:
        """Return upper bounds of the cosines of these rows, or of all, and a unit query, up to `BOUND_ERROR`."""
        cosines = np.clip(np.vecdot(self.leaves, query), -1.0, 1.0)
        sines = np.sqrt(1.0 - cosines * cosines)
        group, along, across = self.group, self.along, self.across
        if rows is not None:
            group, along, across = group.take(rows), along.take(rows), across.take(rows)
        bounds: NDArray[np.float32] = cosines.astype(np.float32).take(group)
        bounds *= along
        bounds += sines.astype(np.float32).take(group) * across
        return bounds


def build_clusters(
    matrix: Matrix, layout: Layout, usable: Positions, older: VectorClusters | None, check: Check
) -> VectorClusters:
    """Build the clusters of a column, reusing the centres and rows of an older version.

    `usable` are rows with a vector that is not zero; `check` is called regularly, and may raise.
    """
    centres = find_centres(matrix, usable, check) if older is None else older.centres
    leaves = centres.leaves if older is None else older.leaves
    size = len(matrix)
    clusters = VectorClusters(
        layout, centres, leaves, np.zeros(size, np.int32), np.zeros(size, np.float32), np.ones(size, np.float32)
    )
    start = 0
    for run in layout.match_runs(Layout(()) if older is None else older.layout):
        stop = start + run.rows
        if run.start is not None and older is not None:
            older_rows = slice(run.start, run.start + run.rows)
            clusters.group[start:stop] = older.group[older_rows]
            clusters.along[start:stop] = older.along[older_rows]
            clusters.across[start:stop] = older.across[older_rows]
        else:
            _assign(matrix, clusters, start, stop, check)
        start = stop
    return clusters


def find_centres(matrix: Matrix, usable: Positions, check: Check) -> ClusterCentres:
    """Find centres that fit these rows, none of which is zero; the same rows always give the same centres."""
    # Evenly spaced rows, not random ones, so that the result is reproducible.
    at = usable[np.linspace(0, len(usable) - 1, min(_MAX_SAMPLE_ROWS, len(usable))).astype(np.int64)]
    sample = _normalize(matrix[at])
    coarse = _run_kmeans(sample, check)
    nearest = _find_nearest(sample, coarse)
    fine = []
    for number in range(len(coarse)):
        members = sample[nearest == number]
        fine.append(_run_kmeans(members, check) if len(members) else coarse[number : number + 1])
    return ClusterCentres(coarse, tuple(fine))


def _assign(matrix: Matrix, clusters: VectorClusters, start: int, stop: int, check: Check) -> None:
    """Assign the rows from `start` to before `stop` to clusters."""
    centres = clusters.centres
    first_leaves = np.cumsum([0, *(len(fine) for fine in centres.fine)])
    for begin in range(start, stop, _CHUNK_ROWS):
        check()
        chunk = slice(begin, min(begin + _CHUNK_ROWS, stop))
        exact = _normalize(matrix[chunk].astype(np.float64))
        part = exact.astype(np.float32)
        coarse = _find_nearest(part, centres.coarse)
        group = np.empty(len(part), np.int32)
        for number in np.unique(coarse).tolist():
            rows = np.flatnonzero(coarse == number)
            group[rows] = first_leaves[number] + _find_nearest(part[rows], centres.fine[number])
        # In double precision: the bound relies on these components, while the choice of the centre may be off.
        cosine = np.clip(np.vecdot(exact, clusters.leaves[group]), -1.0, 1.0)
        clusters.group[chunk] = group
        clusters.along[chunk] = cosine
        clusters.across[chunk] = np.sqrt(1.0 - cosine * cosine)


def _run_kmeans(sample: Matrix, check: Check) -> Matrix:
    """Compute centres of unit vectors by k-means, starting with vectors that are far from each other."""
    centres = _choose_initial_centres(sample, check)
    for _ in range(_KMEANS_ROUNDS):
        check()
        nearest = _find_nearest(sample, centres)
        counts = np.bincount(nearest, minlength=len(centres))
        order = np.argsort(nearest, kind="stable")
        is_filled = counts > 0
        sums = np.add.reduceat(sample[order], (np.cumsum(counts) - counts)[is_filled], axis=0)
        # An empty cluster keeps its centre.
        centres = centres.copy()
        centres[is_filled] = _normalize(sums)
    return centres


def _choose_initial_centres(sample: Matrix, check: Check) -> Matrix:
    """Choose vectors each of which is the farthest from those before it; the first is the farthest from the mean."""
    chosen = [int(np.argmin(np.vecdot(sample, sample.mean(axis=0))))]
    closest = np.vecdot(sample, sample[chosen[0]])
    while len(chosen) < min(_CENTRES_PER_LEVEL, len(sample)):
        check()
        chosen.append(int(np.argmin(closest)))
        np.maximum(closest, np.vecdot(sample, sample[chosen[-1]]), out=closest)
    return sample[chosen]


def _find_nearest(part: Matrix, centres: Matrix) -> NDArray[np.int64]:
    """Return the number of the centre that is nearest to each row."""
    # Not as a matrix product: that would take all cores, and wait for them while others work.
    numbers: NDArray[np.int64] = np.argmax(np.vecdot(part[:, np.newaxis], centres), axis=1)
    return numbers


def _normalize(rows: NDArray[Any]) -> NDArray[Any]:
    """Return the rows as unit vectors; zeros and rows that are not finite become zeros."""
    # The numbers of a null vector are arbitrary.
    with np.errstate(invalid="ignore", over="ignore"):
        norms = np.sqrt(np.vecdot(rows, rows))
        is_safe = (norms > 0) & np.isfinite(norms)
        units: NDArray[Any] = rows * np.divide(1, norms, out=np.zeros_like(norms), where=is_safe)[:, np.newaxis]
    if not is_safe.all():
        units[~is_safe] = 0
    return units
