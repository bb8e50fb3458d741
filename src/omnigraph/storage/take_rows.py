"""Rows by their positions, also where rows were deleted.

Once a fragment has deleted rows, `take` of the whole dataset walks it from its start for every row that is asked for:
2,000 rows out of 200,000 took 8 s of a core. The fragment itself, asked for the same rows, took 7 ms; but it takes the
longer for each row, the more were deleted. Many rows are read from the file itself, or by their addresses.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from lance import LanceDataset

from omnigraph.storage.columnar_sets import Positions
from omnigraph.storage.data_file_reader import DataFileReader
from omnigraph.storage.row_addresses import Addresses, RowAddressMap

_ADDRESS = "_rowaddr"  # as in storage/lance_table.py, which asks here
_MAX_CONCURRENT_FRAGMENTS = 8
"""How many fragments are asked at a time."""
MAX_FRAGMENT_TAKE_ROWS = 1_000
"""Up to so many rows, fragments are asked: nothing has to be known of what was deleted."""
MAX_ADDRESSES_PER_SCAN = 5_000
"""How many addresses are asked for at a time."""
_THREADS = 2


def take_rows(
    dataset: LanceDataset,
    positions: Positions,
    columns: Sequence[str],
    described: Sequence[str],
    places: RowAddressMap,
    raw: Callable[[int], DataFileReader | None],
) -> pa.Table | None:
    """The rows at these positions among those that live, in that order; None where `take` of the dataset is as good.

    `described` are those of the columns that a fragment can't be asked for by position: blobs, of which descriptions
    are taken, and addresses. `raw` are the rows of a fragment whose file can be read by itself.
    """
    if not len(positions) or positions.min() < 0 or positions.max() >= places.starts[-1]:
        return None  # what is wrong with them is told by the dataset
    wanted, back = np.unique(positions, return_inverse=True)
    at = places.find_fragments(wanted)
    is_holed = np.array([bool(count) for count in places.deleted], np.bool_)[at]
    if not is_holed.any():
        return None
    parts: list[pa.Table] = []
    if not is_holed.all():
        parts.append(dataset.take(pa.array(wanted[~is_holed]), columns=list(columns)))
    holed = wanted[is_holed]
    if described or len(holed) > MAX_FRAGMENT_TAKE_ROWS:
        parts += _take_many(dataset, places.to_addresses(holed), columns, None if described else raw)
    else:
        fragments = dataset.get_fragments()
        numbers = np.unique(at[is_holed]).tolist()
        asked = [(fragments[number], wanted[at == number] - places.starts[number]) for number in numbers]
        with ThreadPoolExecutor(min(_MAX_CONCURRENT_FRAGMENTS, len(asked)), thread_name_prefix="take") as threads:
            parts += threads.map(lambda one: one[0].take(pa.array(one[1]), columns=list(columns)), asked)
    order = np.concatenate([np.flatnonzero(~is_holed), np.flatnonzero(is_holed)])
    placed = np.empty(len(wanted), np.int64)
    placed[order] = np.arange(len(wanted))
    return pa.concat_tables(parts).take(pa.array(placed[back]))


def _take_many(
    dataset: LanceDataset,
    addresses: Addresses,
    columns: Sequence[str],
    raw: Callable[[int], DataFileReader | None] | None,
) -> list[pa.Table]:
    """The rows at these addresses, which ascend in each fragment; in order."""
    fragments, starts = np.unique(addresses >> np.uint64(32), return_index=True)
    order = np.argsort(starts)
    of_each = zip(fragments[order].tolist(), np.split(addresses, np.sort(starts)[1:]), strict=True)

    def of_one(fragment: int, asked: Addresses) -> list[pa.Table]:
        file = None if raw is None else raw(fragment)
        if file is not None:
            return [file.take((asked & np.uint64(0xFFFF_FFFF)).astype(np.int64), columns)]
        return [
            _take_at_addresses(dataset, part, columns)
            for part in np.split(asked, range(MAX_ADDRESSES_PER_SCAN, len(asked), MAX_ADDRESSES_PER_SCAN))
        ]

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="take") as threads:
        return [part for parts in threads.map(of_one, *zip(*of_each, strict=True)) for part in parts]


def _take_at_addresses(dataset: LanceDataset, addresses: Addresses, columns: Sequence[str]) -> pa.Table:
    """The rows at these addresses, ascending."""
    scanner = dataset.scanner(
        columns=[name for name in columns if name != _ADDRESS],
        filter=f"{_ADDRESS} in ({', '.join(map(str, addresses.tolist()))})",
        with_row_address=True,
    )
    found = scanner.to_table()
    order = np.argsort(found.column(_ADDRESS).to_numpy())
    if not np.array_equal(found.column(_ADDRESS).to_numpy()[order], addresses):
        raise ValueError(f"of {len(addresses):,} rows, Lance gives {found.num_rows:,}, or others")
    return found.take(pa.array(order)).select(list(columns))
