"""Take rows by position from fragments with deleted rows.

In such a fragment, `take` of the whole dataset walks from the first row for every row that is requested: 2,000 rows out
of 200,000 took 8 s of a core. `take` of the fragment itself took 7 ms, but its cost per row grows with the number of
deleted rows. Large numbers of rows are therefore read directly from the data file, or by their addresses.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from lance import LanceDataset

from omnigraph.storage.columnar_sets import Positions
from omnigraph.storage.data_file_reader import DataFileReader
from omnigraph.storage.row_addresses import Addresses, RowAddressMap

_ADDRESS = "_rowaddr"  # as in storage/lance_table.py, which imports this module
_MAX_CONCURRENT_FRAGMENTS = 8
# Up to this number of rows `take` of the fragments is used, which needs no deletion vectors.
MAX_FRAGMENT_TAKE_ROWS = 1_000
# Addresses are selected by a filter that is text, so they are split among several scans.
MAX_ADDRESSES_PER_SCAN = 5_000
_THREADS = 2


def take_rows(
    dataset: LanceDataset,
    positions: Positions,
    columns: Sequence[str],
    described: Sequence[str],
    address_map: RowAddressMap,
    open_file: Callable[[int], DataFileReader | None],
) -> pa.Table | None:
    """Return the rows at these positions among the live rows, in order, or None if `take` of the dataset will do.

    `described` are the columns that `take` of a fragment does not support: addresses, and blobs, of which the
    descriptions are returned. `open_file` returns a reader for a fragment whose data file can be read directly.
    """
    # Of positions out of range, `take` of the dataset raises the error.
    if not len(positions) or positions.min() < 0 or positions.max() >= address_map.starts[-1]:
        return None
    distinct, inverse = np.unique(positions, return_inverse=True)
    indices = address_map.find_fragments(distinct)
    has_deletions = np.array([bool(count) for count in address_map.deleted], np.bool_)[indices]
    if not has_deletions.any():
        return None
    tables: list[pa.Table] = []
    if not has_deletions.all():
        tables.append(dataset.take(pa.array(distinct[~has_deletions]), columns=list(columns)))
    affected = distinct[has_deletions]
    if described or len(affected) > MAX_FRAGMENT_TAKE_ROWS:
        tables += _take_by_address(
            dataset, address_map.to_addresses(affected), columns, None if described else open_file
        )
    else:
        fragments = dataset.get_fragments()
        requests = [
            (fragments[index], distinct[indices == index] - address_map.starts[index])
            for index in np.unique(indices[has_deletions]).tolist()
        ]
        with ThreadPoolExecutor(min(_MAX_CONCURRENT_FRAGMENTS, len(requests)), thread_name_prefix="take") as threads:
            tables += threads.map(
                lambda request: request[0].take(pa.array(request[1]), columns=list(columns)), requests
            )
    # The tables have the rows of fragments without deletions first; invert that order, then that of `distinct`.
    order = np.concatenate([np.flatnonzero(~has_deletions), np.flatnonzero(has_deletions)])
    table_rows = np.empty(len(distinct), np.int64)
    table_rows[order] = np.arange(len(distinct))
    return pa.concat_tables(tables).take(pa.array(table_rows[inverse]))


def _take_by_address(
    dataset: LanceDataset,
    addresses: Addresses,
    columns: Sequence[str],
    open_file: Callable[[int], DataFileReader | None] | None,
) -> list[pa.Table]:
    """Return the rows at these addresses, which ascend within each fragment, in their order."""
    fragments, starts = np.unique(addresses >> np.uint64(32), return_index=True)
    # `np.unique` sorts by fragment number; the rows must stay in the order of the addresses.
    order = np.argsort(starts)
    by_fragment = zip(fragments[order].tolist(), np.split(addresses, np.sort(starts)[1:]), strict=True)

    def take_from_fragment(fragment: int, fragment_addresses: Addresses) -> list[pa.Table]:
        file = None if open_file is None else open_file(fragment)
        if file is not None:
            return [file.take((fragment_addresses & np.uint64(0xFFFF_FFFF)).astype(np.int64), columns)]
        splits = range(MAX_ADDRESSES_PER_SCAN, len(fragment_addresses), MAX_ADDRESSES_PER_SCAN)
        return [_scan_addresses(dataset, chunk, columns) for chunk in np.split(fragment_addresses, splits)]

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="take") as threads:
        taken = threads.map(take_from_fragment, *zip(*by_fragment, strict=True))
        return [table for tables in taken for table in tables]


def _scan_addresses(dataset: LanceDataset, addresses: Addresses, columns: Sequence[str]) -> pa.Table:
    """Return the rows at these ascending addresses, by a scan with a filter."""
    scanner = dataset.scanner(
        columns=[name for name in columns if name != _ADDRESS],
        filter=f"{_ADDRESS} in ({', '.join(map(str, addresses.tolist()))})",
        with_row_address=True,
    )
    rows = scanner.to_table()
    order = np.argsort(rows.column(_ADDRESS).to_numpy())
    # A row of another address would end up at the position of the requested one.
    if not np.array_equal(rows.column(_ADDRESS).to_numpy()[order], addresses):
        raise ValueError(f"requested {len(addresses):,} rows by address; Lance returned {rows.num_rows:,}, or others")
    return rows.take(pa.array(order)).select(list(columns))
