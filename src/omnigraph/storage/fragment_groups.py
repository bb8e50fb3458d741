"""Which fragments of a table are worth writing anew, and together. Pure: decided by what the version lists.

Small fragments are merged with others of like size, so that a row is rewritten about once for every doubling of what
surrounds it, whatever the number of commits; a large fragment is left alone for as long as few of its rows are deleted.
The smallest are all of like size: to write so little anew is as cheap as to write a file at all, and each file that a
read has to open costs more than its rows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from omnigraph.options import UpkeepOptions
from omnigraph.storage.dataset import Fragment

GROWTH = 2
"""A fragment joins smaller ones that have, together, at least one row for so many of its own."""
TAIL_ROWS = 256
TAIL_BYTES = 2**18
"""Fragments that have no more than this together are merged, whatever the size of each."""


def groups_to_rewrite(
    fragments: Sequence[Fragment],
    options: UpkeepOptions,
    sorts: Mapping[int, frozenset[str]] | None = None,
    *,
    has_blobs: bool = False,
) -> tuple[tuple[int, ...], ...]:
    """Fragments by number, ascending, each group to become as few new ones as the limits allow; none: nothing pays.

    Only fragments of the same sort come together, by number; all are, unless it is said. With blobs no fragment is
    taken for cheap to write anew: its blobs lie in files of their own, whose size no version lists.
    """
    by_sort: dict[frozenset[str], list[Fragment]] = {}
    for one in sorted((one for one in fragments if _is_small(one, options)), key=_living_rows):
        by_sort.setdefault((sorts or {}).get(one.number, frozenset()), []).append(one)
    groups = [
        group
        for small in by_sort.values()
        for run in _runs_of_like_size(small, tail_rows=0 if has_blobs else TAIL_ROWS)
        for group in _within_limits(run, options)
        if len(group) >= max(options.merged_fragments, 2)
    ]
    merged = {one.number for group in groups for one in group}
    groups += [[one] for one in fragments if one.number not in merged and is_worn(one, options)]
    return tuple(sorted(tuple(sorted(one.number for one in group)) for group in groups))


def is_worn(fragment: Fragment, options: UpkeepOptions) -> bool:
    """Whether so many of its rows are deleted that it is worth writing anew by itself."""
    return fragment.deleted >= max(options.deleted_rows, options.deleted_share * fragment.rows, 1)


def _living_rows(fragment: Fragment) -> int:
    return fragment.rows - fragment.deleted


def _is_small(fragment: Fragment, options: UpkeepOptions) -> bool:
    return _living_rows(fragment) * 2 < options.fragment_rows and fragment.nbytes * 2 < options.fragment_bytes


def _runs_of_like_size(ascending: Iterable[Fragment], tail_rows: int) -> Iterator[list[Fragment]]:
    run: list[Fragment] = []
    rows = nbytes = 0
    for one in ascending:
        is_tail = rows + _living_rows(one) <= tail_rows and nbytes + one.nbytes <= TAIL_BYTES
        if run and _living_rows(one) > GROWTH * rows and not is_tail:
            yield run
            run, rows, nbytes = [], 0, 0
        run.append(one)
        rows, nbytes = rows + _living_rows(one), nbytes + one.nbytes
    if run:
        yield run


def _within_limits(run: Sequence[Fragment], options: UpkeepOptions) -> Iterator[list[Fragment]]:
    """The run in pieces, each of which fits into one fragment."""
    piece: list[Fragment] = []
    rows = nbytes = 0
    for one in run:
        if piece and (rows + _living_rows(one) > options.fragment_rows or nbytes + one.nbytes > options.fragment_bytes):
            yield piece
            piece, rows, nbytes = [], 0, 0
        piece.append(one)
        rows, nbytes = rows + _living_rows(one), nbytes + one.nbytes
    if piece:
        yield piece
