"""Search a vector index of a table version, and compare vectors without it to measure how much it finds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.storage.columnar_sets import concat_chunks
from omnigraph.storage.lance_table import ADDRESS, LanceTable
from omnigraph.storage.row_addresses import Addresses

# The kinds of vector indexes, by the names of Lance.
IVF_FLAT, IVF_PQ, IVF_RQ, IVF_HNSW = "IVF_FLAT", "IVF_PQ", "IVF_RQ", "IVF_HNSW_SQ"
VECTOR_KINDS = (IVF_FLAT, IVF_PQ, IVF_RQ, IVF_HNSW, "IVF_SQ", "IVF_HNSW_FLAT", "IVF_HNSW_PQ")
# More cells than an index has: a search that finds too few rows goes on until it has looked at all.
_ALL_CELLS = 2**31 - 1
# A graph search remembers at least this many rows, and this many times the requested number.
_MIN_GRAPH_ROWS, _GRAPH_FACTOR = 64, 2
_DISTANCE, _QUERY = "_distance", "query_index"


@dataclass(frozen=True, slots=True)
class StoredVectorIndex:
    """The vector index of a column in one version: what it was built with, and the fragments that it covers."""

    name: str
    kind: str
    metric: str
    """In lower case: cosine, l2 or dot."""
    fragments: frozenset[int]
    segments: tuple[str, ...]
    """The UUIDs of its segments, whose files never change."""


def list_vector_indexes(table: LanceTable, column: str) -> tuple[StoredVectorIndex, ...]:
    """Return the vector indexes of a column, by the version's metadata alone."""
    dataset = table.handles.open(table.path, table.version)
    with table.guard_read():
        descriptions = [index for index in dataset.describe_indices() if list(index.field_names) == [column]]
    existing = frozenset(dataset.fragment_ids()) if descriptions else frozenset()
    return tuple(
        StoredVectorIndex(
            name=index.name,
            kind=index.index_type.upper(),
            metric=str((index.details or {}).get("metric_type", "")).lower(),
            fragments=existing.intersection(number for segment in index.segments for number in segment.fragment_ids),
            segments=tuple(sorted(str(segment.uuid) for segment in index.segments)),
        )
        for index in descriptions
        if index.index_type.upper() in VECTOR_KINDS
    )


@dataclass(frozen=True, slots=True)
class VectorHits:
    """Rows by address, nearest first, and their distances in single precision; by `l2`, these are squares."""

    addresses: Addresses
    distances: NDArray[np.float32]
    vectors: pa.Array | None = None
    """If requested."""


def search_index(
    table: LanceTable,
    column: str,
    index: StoredVectorIndex,
    query: NDArray[np.float32],
    count: int,
    cells: int,
    *,
    with_vectors: bool = False,
) -> VectorHits:
    """Return the `count` rows that an index finds nearest in at least this many cells of each segment.

    Only fragments that the index covers are searched. If there are fewer rows, all cells were searched, and every
    covered row is returned that has a vector, and by `cosine` a direction.
    """
    nearest = {
        "column": column,
        "q": query,
        "k": count,
        "metric": index.metric,
        "minimum_nprobes": cells,
        "maximum_nprobes": _ALL_CELLS,
    }
    if index.kind.startswith("IVF_HNSW"):
        nearest["ef"] = max(_MIN_GRAPH_ROWS, _GRAPH_FACTOR * count)
    hits = _scan(table, nearest, [column] if with_vectors else [], fast_search=True)
    vectors = concat_chunks(hits[column]) if with_vectors else None
    return VectorHits(hits[ADDRESS].to_numpy(), hits[_DISTANCE].to_numpy(), vectors)


def search_all_rows(
    table: LanceTable, column: str, metric: str, queries: NDArray[np.float32], count: int
) -> list[Addresses]:
    """Return the addresses of the `count` nearest rows of each query, by one scan of the column without an index."""
    # A single query has no column that numbers the queries.
    nearest = {"column": column, "q": queries, "k": count, "metric": metric, "use_index": False}
    hits = _scan(table, nearest, [])
    numbers, addresses = hits[_QUERY].to_numpy(), hits[ADDRESS].to_numpy()
    return [addresses[numbers == number] for number in range(len(queries))]


def _scan(
    table: LanceTable, nearest: dict[str, object], columns: Sequence[str], *, fast_search: bool = False
) -> pa.Table:
    dataset = table.handles.open(table.path, table.version)
    with table.guard_read(with_indexes=True):
        scanner = dataset.scanner(
            columns=[*columns, _DISTANCE], nearest=nearest, fast_search=fast_search, with_row_address=True
        )
        return scanner.to_table()


def choose_build_settings(kind: str, metric: str, vectors: int, size: int) -> dict[str, object]:
    """Return the settings with which an index of this kind is built over `vectors` vectors of this size."""
    if kind == IVF_HNSW:
        # A graph over 40,000 vectors of 64 took 3 s to build, and the time grows faster than their number.
        return {"metric": metric, "num_partitions": max(1, vectors // _GRAPH_ROWS)}
    # The square root of the number of vectors is a common number of cells.
    settings: dict[str, object] = {"metric": metric, "num_partitions": max(1, min(int(vectors**0.5), _MAX_CELLS))}
    if kind == IVF_PQ:
        settings["num_sub_vectors"] = _choose_divisor(size, _PQ_PARTS)
    return settings


_MAX_CELLS = 4_096
_GRAPH_ROWS = 16_384
# Numbers of parts into which a vector is divided for product quantization, in order of preference: 8 numbers a part.
_PQ_PARTS: Sequence[int] = (8, 4, 16, 2, 1)


def _choose_divisor(size: int, part_sizes: Sequence[int]) -> int:
    """Return the number of parts of equal size that a vector is divided into."""
    return next(size // part for part in part_sizes if size % part == 0)
