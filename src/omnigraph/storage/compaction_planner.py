"""Plan which fragments of a table to compact together. Pure: the plan depends on what the version lists only.

Small fragments are merged with others of similar size, so that a row is rewritten about once per doubling of the data
around it, whatever the number of commits; a large fragment is left alone while few of its rows are deleted. The
smallest fragments all count as similar: rewriting so little is as cheap as writing a file at all, and each file that a
read has to open costs more than its rows.

Rewriting a fragment rewrites its blobs, so these count too. No version lists their sizes: see
`find_fragments_to_weigh`.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from omnigraph.options import UpkeepOptions
from omnigraph.storage.fragment_list import Fragment

# A fragment joins smaller ones if its cost is at most this many times their total cost.
MAX_SIZE_RATIO = 2
# Fragments that together stay within both limits are merged, whatever the size of each.
MAX_TAIL_ROWS = 256
MAX_TAIL_BYTES = 2**18
# A row costs one, plus one per this many bytes of blobs in files of their own.
BLOB_BYTES_PER_ROW = 2**10


@dataclass(frozen=True, slots=True)
class _RewriteCandidate:
    """A fragment with the cost of rewriting it."""

    fragment: Fragment
    blob_bytes: int

    @property
    def number(self) -> int:
        return self.fragment.number

    @property
    def rows(self) -> int:
        """The number of live rows."""
        return self.fragment.rows - self.fragment.deleted

    @property
    def nbytes(self) -> int:
        return self.fragment.nbytes + self.blob_bytes

    @property
    def cost(self) -> int:
        return self._estimate_cost(self.rows)

    @property
    def deleted_cost(self) -> int:
        return self._estimate_cost(self.fragment.deleted)

    def _estimate_cost(self, rows: int) -> int:
        """Return the cost of some of its rows, as if the blobs of all rows were of equal size."""
        return rows + self.blob_bytes * rows // (max(self.fragment.rows, 1) * BLOB_BYTES_PER_ROW)


def plan_rewrite_groups(
    fragments: Sequence[Fragment],
    options: UpkeepOptions,
    sorts: Mapping[int, frozenset[str]] | None = None,
    blob_bytes: Mapping[int, int] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Return groups of fragment numbers, ascending, each to be rewritten as few fragments; empty if nothing pays off.

    Only fragments with equal `sorts` are merged; by default all are. `blob_bytes` has the size of a fragment's blobs in
    files of their own, by default zero.
    """
    candidates = [_RewriteCandidate(fragment, (blob_bytes or {}).get(fragment.number, 0)) for fragment in fragments]
    by_sort: dict[frozenset[str], list[_RewriteCandidate]] = {}
    small_candidates = [candidate for candidate in candidates if _is_small(candidate, options)]
    for candidate in sorted(small_candidates, key=lambda candidate: candidate.cost):
        by_sort.setdefault((sorts or {}).get(candidate.number, frozenset()), []).append(candidate)
    groups = [
        group
        for small in by_sort.values()
        for run in _iter_similar_runs(small)
        for group in _split_by_limits(run, options)
        if len(group) >= max(options.merged_fragments, 2)
    ]
    merged = {candidate.number for group in groups for candidate in group}
    # A fragment with many deleted rows is rewritten alone if it joins no group.
    rest = [candidate for candidate in candidates if candidate.number not in merged]
    groups += [[candidate] for candidate in rest if _is_worn(candidate, options)]
    numbers = (sorted(candidate.number for candidate in group) for group in groups)
    return tuple(sorted(map(tuple, numbers)))


def is_in_tail(fragment: Fragment, options: UpkeepOptions, blob_bytes: int = 0) -> bool:
    """Return whether automatic maintenance may compact a fragment, given the size of its blobs."""
    return fragment.rows < options.tail_rows and fragment.nbytes + blob_bytes < options.tail_bytes


def plan_tail_groups(
    fragments: Sequence[Fragment],
    options: UpkeepOptions,
    sorts: Mapping[int, frozenset[str]] | None = None,
    blob_bytes: Mapping[int, int] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Return groups as `plan_rewrite_groups` does, of the small fragments only; empty while these are few.

    Like the levels of a log-structured merge tree: of each size, at most a few fragments remain.
    """
    tail = [
        fragment for fragment in fragments if is_in_tail(fragment, options, (blob_bytes or {}).get(fragment.number, 0))
    ]
    if len(tail) <= options.tail_fragments:
        return ()
    limits = replace(
        options,
        fragment_rows=options.tail_result_rows,
        fragment_bytes=options.tail_result_bytes,
        # No fragment is rewritten alone because of its deleted rows: that is left to `optimize`.
        deleted_rows=sys.maxsize,
    )
    return plan_rewrite_groups(tail, limits, sorts, blob_bytes)


def find_fragments_to_weigh(
    fragments: Sequence[Fragment], options: UpkeepOptions, sorts: Mapping[int, frozenset[str]] | None = None
) -> AbstractSet[int]:
    """Return the fragments of a table with blobs that may be worth rewriting once the size of their blobs is known.

    Blobs make fragments more expensive, so fragments that are not merged without them rarely are with them. But a few
    deleted rows may have had large blobs, so here any number of deleted rows counts.
    """
    groups = plan_rewrite_groups(fragments, replace(options, deleted_rows=0), sorts)
    return {number for group in groups for number in group}


def _is_worn(candidate: _RewriteCandidate, options: UpkeepOptions) -> bool:
    """Return whether enough of a fragment is deleted to rewrite it alone."""
    fragment = candidate.fragment
    has_many = candidate.deleted_cost >= max(options.deleted_rows, 1)
    return has_many and fragment.deleted >= options.deleted_share * fragment.rows


def _is_small(candidate: _RewriteCandidate, options: UpkeepOptions) -> bool:
    # Two fragments below half of the limits fit into one.
    return candidate.rows * 2 < options.fragment_rows and candidate.nbytes * 2 < options.fragment_bytes


def _iter_similar_runs(ascending: Iterable[_RewriteCandidate]) -> Iterator[list[_RewriteCandidate]]:
    run: list[_RewriteCandidate] = []
    cost = nbytes = 0
    for candidate in ascending:
        is_tail = cost + candidate.cost <= MAX_TAIL_ROWS and nbytes + candidate.nbytes <= MAX_TAIL_BYTES
        if run and candidate.cost > MAX_SIZE_RATIO * cost and not is_tail:
            yield run
            run = []
            cost = nbytes = 0
        run.append(candidate)
        cost += candidate.cost
        nbytes += candidate.nbytes
    if run:
        yield run


def _split_by_limits(run: Sequence[_RewriteCandidate], options: UpkeepOptions) -> Iterator[list[_RewriteCandidate]]:
    """Split a run into chunks that each fit into one fragment."""
    chunk: list[_RewriteCandidate] = []
    rows = nbytes = 0
    for candidate in run:
        has_too_many_rows = rows + candidate.rows > options.fragment_rows
        if chunk and (has_too_many_rows or nbytes + candidate.nbytes > options.fragment_bytes):
            yield chunk
            chunk = []
            rows = nbytes = 0
        chunk.append(candidate)
        rows += candidate.rows
        nbytes += candidate.nbytes
    if chunk:
        yield chunk
