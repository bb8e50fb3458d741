"""Hash the keys of a load's rows, such as ids, ends of edges and unique values, to 64 bits with the job's seed.

Equal values have equal hashes. Two of n values share a hash by chance with a probability of about n²/2^65. So a hash
that occurs once proves that its value does, and one that occurs twice is a suspicion.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.commit.requirements import find_complete, normalize_zeros
from omnigraph.engine.constraints.edge_constraints import list_ends
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.storage.column_hashing import HASHED_BYTES, Hashes, hash_rows, measure_longest_text
from omnigraph.storage.columnar_sets import Column, Positions, concat_chunks

WantedKeys: TypeAlias = Mapping[str, Mapping[str, bytes]]
"""Sorted, packed hashes by type and role: rows that have one of them are requested."""

# In the results of the key shuffle, precedes the name of a node type: ids that edges name and no node has.
MISSING_PREFIX = "!"
# The prefix of a result: keys that no other row of the load has, so that rows with no other ones are checked alone.
SEPARATE = "~"
# The prefix of a result: ids that several rows of the load have, where their first rows can be checked alone.
REPEATED = "="


def format_unique_role(number: int) -> str:
    """Return the role of a unique group of a type, by its number."""
    return f"unique {number}"


def find_roles(type_: AnyType) -> dict[str, tuple[str, ...]]:
    """Return every role in which rows of a type have keys, with its columns."""
    roles: dict[str, tuple[str, ...]] = {ID: (ID,)}
    if isinstance(type_, EdgeType):
        roles |= {end.column: (end.column,) for end in list_ends(type_)}
    return roles | {format_unique_role(number): columns for number, columns in enumerate(type_.unique)}


def hash_ids(column: Column, seed: int) -> Hashes:
    """Return the hashes of ids or ends; an end has the hash of its node's id."""
    return _hash_columns([column], seed)


def hash_keys(rows: pa.Table, columns: Sequence[str], seed: int) -> tuple[Hashes, Positions | None]:
    """Return the hashes of a group of columns, and the positions of the rows without a null; None for all rows.

    A row with a null in the group has no key, and so no hash.
    """
    group = rows.select(list(columns))
    complete = find_complete(group)
    if complete is not None:
        group = group.take(pa.array(complete))
    return _hash_columns(normalize_zeros(group).columns, seed), complete


def _hash_columns(columns: Sequence[Column], seed: int) -> Hashes:
    if not len(columns[0]):
        return np.empty(0, np.uint64)
    hashes = hash_rows([_shorten(column, seed) for column in columns], np.uint64(seed))
    hashes *= np.uint64(0x9E3779B97F4A7C15)
    hashes ^= hashes >> np.uint64(29)
    return hashes


def _shorten(column: Column, seed: int) -> Column:
    """Replace long texts of a column by a digest, because `hash_rows` hashes only their ends."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    if all(measure_longest_text(chunk) <= HASHED_BYTES for chunk in _iter_chunks(column)):
        return column
    key = seed.to_bytes(8)

    def shorten(text: str) -> str:
        data = text.encode()
        # 31 bytes are 62 hexadecimal digits, fewer than HASHED_BYTES.
        return text if len(data) <= HASHED_BYTES else blake2b(data, key=key, digest_size=31).hexdigest()

    return pa.array([shorten(text) for text in concat_chunks(column).to_pylist()], pa.string())


def _iter_chunks(column: Column) -> Iterator[pa.Array]:
    yield from column.chunks if isinstance(column, pa.ChunkedArray) else [column]


class RowSelector:
    """Select the rows that have a requested key."""

    def __init__(self, wanted: WantedKeys, seed: int) -> None:
        self._seed = seed
        self._wanted = {
            name: {role: np.frombuffer(packed, np.uint64) for role, packed in roles.items()}
            for name, roles in wanted.items()
        }

    def select(self, type_: AnyType, rows: pa.Table) -> Positions:
        """Return the positions of the requested rows of a type, ascending."""
        is_wanted = np.zeros(rows.num_rows, np.bool_)
        columns = find_roles(type_)
        for role, wanted_hashes in self._wanted.get(type_.name, {}).items():
            hashes, complete = hash_keys(rows, columns[role], self._seed)
            hits = find_among(hashes, wanted_hashes)
            is_wanted[hits if complete is None else complete[hits]] = True
        return np.flatnonzero(is_wanted)


def find_among(hashes: Hashes, ordered: Hashes) -> Positions:
    """Return the positions of the hashes that are among the sorted ones."""
    return np.flatnonzero(is_among_sorted(hashes, ordered))


def is_among_sorted(hashes: Hashes, ordered: Hashes) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return, for each hash, whether it is among the sorted ones."""
    if not len(ordered):
        return np.zeros(len(hashes), np.bool_)
    at = np.minimum(np.searchsorted(ordered, hashes), len(ordered) - 1)
    return np.asarray(ordered[at] == hashes, np.bool_)
