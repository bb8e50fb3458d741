"""The keys by which rows of a load meet: ids, the ends of edges, unique values; as 64-bit hashes with the job's seed.

Equal values have equal hashes. That two values share one by chance is so unlikely (about n²/2^65 for n values) that a
hash that nobody else has is proof, and one that somebody has is a suspicion.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.requirements import normalize_zeros
from omnigraph.engine.bulk.endpoints import ENDS
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.storage.column_hashing import HASHED_BYTES, Hashes, hash_rows, measure_longest_text
from omnigraph.storage.columnar_sets import Column, Positions, concat_chunks, to_mask

WantedKeys: TypeAlias = Mapping[str, Mapping[str, bytes]]
"""By type and role, sorted hashes, packed: rows that have one of them are wanted."""


def format_unique_role(number: int) -> str:
    """The role of a type's unique group."""
    return f"unique {number}"


def find_roles(type_: AnyType) -> dict[str, tuple[str, ...]]:
    """Every role that rows of a type have keys in, and its columns."""
    roles: dict[str, tuple[str, ...]] = {ID: (ID,)}
    if isinstance(type_, EdgeType):
        roles |= {column: (column,) for column, _ in ENDS}
    return roles | {format_unique_role(number): columns for number, columns in enumerate(type_.unique)}


def hash_ids(column: Column, seed: int) -> Hashes:
    """The hashes of ids, which are also those of ends."""
    return _hash_columns([column], seed)


def hash_keys(rows: pa.Table, columns: Sequence[str], seed: int) -> tuple[Hashes, Positions | None]:
    """The hashes of a group of columns, and the rows that have them: those without a null; None when all do."""
    group = normalize_zeros(rows.select(list(columns)))
    is_held = None
    for column in group.columns:
        if column.null_count:
            valid = to_mask(pc.is_valid(column))
            is_held = valid if is_held is None else is_held & valid
    if is_held is None:
        return _hash_columns(group.columns, seed), None
    held = np.flatnonzero(is_held)
    group = group.take(pa.array(held))
    return _hash_columns(group.columns, seed), held


def _hash_columns(columns: Sequence[Column], seed: int) -> Hashes:
    if not len(columns[0]):
        return np.empty(0, np.uint64)
    hashes = hash_rows([_shorten(column, seed) for column in columns], np.uint64(seed))
    hashes *= np.uint64(0x9E3779B97F4A7C15)
    hashes ^= hashes >> np.uint64(29)
    return hashes


def _shorten(column: Column, seed: int) -> Column:
    """Of long texts only the ends are hashed: here they are replaced by a digest of the whole."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    if all(measure_longest_text(chunk) <= HASHED_BYTES for chunk in _iter_chunks(column)):
        return column
    texts = concat_chunks(column).to_pylist()
    key = seed.to_bytes(8)
    return pa.array(
        [
            text if len(text.encode()) <= HASHED_BYTES else blake2b(text.encode(), key=key, digest_size=31).hexdigest()
            for text in texts
        ],
        pa.string(),
    )


def _iter_chunks(column: Column) -> Iterator[pa.Array]:
    yield from column.chunks if isinstance(column, pa.ChunkedArray) else [column]


class RowSelector:
    """Chooses the wanted rows."""

    def __init__(self, wanted: WantedKeys, seed: int) -> None:
        self._seed = seed
        self._wanted = {
            name: {role: np.frombuffer(packed, np.uint64) for role, packed in roles.items()}
            for name, roles in wanted.items()
        }

    def select(self, type_: AnyType, rows: pa.Table) -> Positions:
        """The positions of those rows of a type that are wanted, ascending."""
        roles = self._wanted.get(type_.name, {})
        is_wanted = np.zeros(rows.num_rows, np.bool_)
        known = find_roles(type_)
        for role, hashes in roles.items():
            found, held = hash_keys(rows, known[role], self._seed)
            hits = find_among(found, hashes)
            is_wanted[hits if held is None else held[hits]] = True
        return np.flatnonzero(is_wanted)


def find_among(hashes: Hashes, known: Hashes) -> Positions:
    """The positions of the hashes that are among the known ones, which are sorted."""
    return np.flatnonzero(is_among_sorted(hashes, known))


def is_among_sorted(hashes: Hashes, known: Hashes) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """For each hash whether it is among the known ones, which are sorted."""
    if not len(known):
        return np.zeros(len(hashes), np.bool_)
    at = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return np.asarray(known[at] == hashes, np.bool_)
