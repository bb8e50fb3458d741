"""The suspicious keys of single rows of a load, kept as sorted hashes beside the graph: a load may have any number.

A row whose suspicious keys no other row of the load has can be checked by itself: its id exists already, a committed
row has its unique value, or one of its ends is no node. So the task that reads a row decides about it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from omnigraph.engine.constraints.edge_constraints import list_ends
from omnigraph.schema.catalog import Catalog
from omnigraph.spark.load.key_hashes import REPEATED, SEPARATE, is_among_sorted
from omnigraph.storage.column_hashing import Hashes
from omnigraph.storage.columnar_sets import Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHashes:
    """Sorted hashes in an object of a task, all between those of the object before and the one after."""

    key: str
    count: int


@dataclass(slots=True)
class SeparateKeys:
    """Suspicious keys by type and role, as `Knows/src`: few at hand, many in objects."""

    at_hand: dict[str, Hashes] = field(default_factory=dict)
    stored: dict[str, list[StoredHashes]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of keys."""
        return sum(map(len, self.at_hand.values())) + sum(
            part.count for parts in self.stored.values() for part in parts
        )

    def combine(self, other: "SeparateKeys") -> "SeparateKeys":
        """Return the keys of both."""
        stored = {
            role: [*self.stored.get(role, ()), *other.stored.get(role, ())] for role in (*self.stored, *other.stored)
        }
        at_hand = dict(self.at_hand)
        for role, hashes in other.at_hand.items():
            at_hand[role] = np.concatenate([at_hand.get(role, hashes[:0]), hashes])
        return SeparateKeys(at_hand, stored)

    @property
    def roles(self) -> list[str]:
        """The types and roles that have keys."""
        return list(dict.fromkeys([*self.at_hand, *self.stored]))

    def list_objects(self) -> list[str]:
        """Return the keys of all objects."""
        return [part.key for parts in self.stored.values() for part in parts]

    def read_all(self, read: Callable[[str], bytes]) -> dict[str, Hashes]:
        """Return all hashes by type and role; `read` returns the data of an object."""
        return {
            role: np.concatenate(
                [
                    self.at_hand.get(role, np.empty(0, np.uint64)),
                    *(np.frombuffer(read(part.key), np.uint64) for part in self.stored.get(role, ())),
                ]
            )
            for role in self.roles
        }

    def find_among(self, role: str, hashes: Hashes, read: Callable[[str], bytes]) -> Mask:
        """Return which hashes are suspicious in a role. One object is in memory at a time."""
        is_suspect = is_among_sorted(hashes, np.sort(self.at_hand.get(role, np.empty(0, np.uint64))))
        parts = self.stored.get(role, ())
        if not parts or not len(hashes):
            return is_suspect
        order = np.argsort(hashes)
        ordered = hashes[order]
        is_hit = np.zeros(len(hashes), np.bool_)
        for part in parts:
            suspicious = np.frombuffer(read(part.key), np.uint64)
            first, last = (
                np.searchsorted(ordered, suspicious[0]),
                np.searchsorted(ordered, suspicious[-1], side="right"),
            )
            is_hit[first:last] |= is_among_sorted(ordered[first:last], suspicious)
        is_suspect[order] |= is_hit
        return is_suspect


@dataclass(slots=True)
class SuspiciousKeys:
    """The result of a key shuffle."""

    shared: dict[str, Hashes] = field(default_factory=dict)
    """The hashes of keys that rows share, by type and role; also numbers of types."""
    separate: SeparateKeys = field(default_factory=SeparateKeys)
    """The keys of single rows."""
    repeated: SeparateKeys = field(default_factory=SeparateKeys)
    """The ids that several rows have."""

    @classmethod
    def from_parts(
        cls, suspicious: Mapping[str, Sequence[Hashes]], stored: Iterable[tuple[str, StoredHashes]]
    ) -> "SuspiciousKeys":
        """Collect the hashes of all buckets, and the objects that have further ones."""
        keys = cls()
        sides = {SEPARATE: keys.separate, REPEATED: keys.repeated}
        for role, parts in suspicious.items():
            side = sides.get(role[0])
            if side is None:
                keys.shared[role] = np.concatenate(parts)
            else:
                side.at_hand[role[1:]] = np.concatenate(parts)
        for role, part in stored:
            sides[role[0]].stored.setdefault(role[1:], []).append(part)
        return keys

    def take_count(self, prefix: str, name: str) -> int:
        """Remove and return a number of a type, the sum of all buckets."""
        return int(self.shared.pop(f"{prefix}/{name}", np.zeros(1)).sum())

    def list_objects(self) -> list[str]:
        """Return the keys of all objects."""
        return [*self.separate.list_objects(), *self.repeated.list_objects()]


def can_separate(catalog: Catalog, loaded: frozenset[str]) -> bool:
    """Return whether rows of a load can be checked by themselves: not where a rejected edge may be one too few."""
    return not any(
        edge.cardinality.low and (edge.name in loaded or edge.source in loaded) for edge in catalog.edges.values()
    )


def list_missing_ends(catalog: Catalog, name: str) -> dict[str, str]:
    """Return, for an edge type, the node type at each of its end columns; nothing for a node type."""
    edge = catalog.edges.get(name)
    return {} if edge is None else {end.column: end.node for end in list_ends(edge)}
