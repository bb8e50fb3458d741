"""Which fragments of a table are worth writing anew, and together. Pure: decided by what the version lists.

Small fragments are merged with others of like size, so that a row is rewritten about once for every doubling of what
surrounds it, whatever the number of commits; a large fragment is left alone for as long as few of its rows are deleted.
The smallest are all of like size: to write so little anew is as cheap as to write a file at all, and each file that a
read has to open costs more than its rows.

To write a fragment anew is to write its blobs anew, so these count too. No version lists how large they are: see
`find_fragments_to_weigh`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from omnigraph.options import UpkeepOptions
from omnigraph.storage.lance_table import Fragment

MAX_SIZE_RATIO = 2
"""A fragment joins smaller ones that weigh, together, at least one for so many of its own."""
MAX_TAIL_ROWS = 256
MAX_TAIL_BYTES = 2**18
"""Fragments that have no more than this together are merged, whatever the size of each."""
BLOB_BYTES_PER_ROW = 2**10
"""A row weighs one, and one more for so many bytes of blobs that lie in files of their own."""


@dataclass(frozen=True, slots=True)
class _WeightedFragment:
    """A fragment, and what it takes to write it anew."""

    fragment: Fragment
    blob_bytes: int

    @property
    def number(self) -> int:
        return self.fragment.number

    @property
    def rows(self) -> int:
        """Those that live."""
        return self.fragment.rows - self.fragment.deleted

    @property
    def nbytes(self) -> int:
        return self.fragment.nbytes + self.blob_bytes

    @property
    def weight(self) -> int:
        return self._weigh(self.rows)

    @property
    def lost_weight(self) -> int:
        return self._weigh(self.fragment.deleted)

    def _weigh(self, rows: int) -> int:
        """Of some of its rows, as if all had equal blobs."""
        return rows + self.blob_bytes * rows // (max(self.fragment.rows, 1) * BLOB_BYTES_PER_ROW)


def plan_rewrite_groups(
    fragments: Sequence[Fragment],
    options: UpkeepOptions,
    sorts: Mapping[int, frozenset[str]] | None = None,
    blob_bytes: Mapping[int, int] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Fragments by number, ascending, each group to become as few new ones as the limits allow; none: nothing pays.

    Only fragments of the same sort come together, by number; all are, unless it is said. So is how much the blobs of
    a fragment take beside its data files: nothing, unless it is said.
    """
    weighed = [_WeightedFragment(one, (blob_bytes or {}).get(one.number, 0)) for one in fragments]
    by_sort: dict[frozenset[str], list[_WeightedFragment]] = {}
    for one in sorted((one for one in weighed if _is_small(one, options)), key=lambda one: one.weight):
        by_sort.setdefault((sorts or {}).get(one.number, frozenset()), []).append(one)
    groups = [
        group
        for small in by_sort.values()
        for run in _iter_similar_runs(small)
        for group in _split_by_limits(run, options)
        if len(group) >= max(options.merged_fragments, 2)
    ]
    merged = {one.number for group in groups for one in group}
    groups += [[one] for one in weighed if one.number not in merged and _is_worn(one, options)]
    return tuple(sorted(tuple(sorted(one.number for one in group)) for group in groups))


def find_fragments_to_weigh(
    fragments: Sequence[Fragment], options: UpkeepOptions, sorts: Mapping[int, frozenset[str]] | None = None
) -> AbstractSet[int]:
    """The fragments of a table with blobs, by number, that may pay once it is known how large their blobs are.

    Blobs make fragments heavier, so what does not come together without them hardly does with them; but few rows that
    are deleted may have had much.
    """
    groups = plan_rewrite_groups(fragments, replace(options, deleted_rows=0), sorts)
    return {number for group in groups for number in group}


def _is_worn(one: _WeightedFragment, options: UpkeepOptions) -> bool:
    """Whether so much of it is deleted that it is worth writing anew by itself."""
    fragment = one.fragment
    is_much = one.lost_weight >= max(options.deleted_rows, 1)
    return is_much and fragment.deleted >= options.deleted_share * fragment.rows


def _is_small(one: _WeightedFragment, options: UpkeepOptions) -> bool:
    return one.rows * 2 < options.fragment_rows and one.nbytes * 2 < options.fragment_bytes


def _iter_similar_runs(ascending: Iterable[_WeightedFragment]) -> Iterator[list[_WeightedFragment]]:
    run: list[_WeightedFragment] = []
    weight = nbytes = 0
    for one in ascending:
        is_tail = weight + one.weight <= MAX_TAIL_ROWS and nbytes + one.nbytes <= MAX_TAIL_BYTES
        if run and one.weight > MAX_SIZE_RATIO * weight and not is_tail:
            yield run
            run, weight, nbytes = [], 0, 0
        run.append(one)
        weight, nbytes = weight + one.weight, nbytes + one.nbytes
    if run:
        yield run


def _split_by_limits(run: Sequence[_WeightedFragment], options: UpkeepOptions) -> Iterator[list[_WeightedFragment]]:
    """The run in pieces, each of which fits into one fragment."""
    piece: list[_WeightedFragment] = []
    rows = nbytes = 0
    for one in run:
        if piece and (rows + one.rows > options.fragment_rows or nbytes + one.nbytes > options.fragment_bytes):
            yield piece
            piece, rows, nbytes = [], 0, 0
        piece.append(one)
        rows, nbytes = rows + one.rows, nbytes + one.nbytes
    if piece:
        yield piece
