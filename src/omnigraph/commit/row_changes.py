"""Know the rows that recent small commits of this process changed, so that most checks against them read no table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.manifest_types import Commit
from omnigraph.commit.requirements import (
    CountsWithin,
    IdsAbsent,
    IdsPresent,
    Keys,
    Requirement,
    RowsUnchanged,
    SelectionUnchanged,
    ValuesAbsent,
    is_one_of_rows,
)
from omnigraph.concurrency import ProcessState
from omnigraph.lru_cache import LruCache
from omnigraph.storage.key_lookup import RowLocations

# A change with more rows is not kept: it is checked by reading the table.
MAX_KEPT_ROWS = 64
# The same for wide rows. With the limit of commits, all kept changes take at most 8 MiB.
MAX_KEPT_BYTES = 16 * 1024
# Writers that wait longer than this number of commits read the table again.
MAX_KEPT_COMMITS = 512
# Requirements about more ids are checked by reading: building their set would take as long.
MAX_COMPARED_IDS = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """The rows of one table that a small write inserts, replaces or deletes."""

    ids: frozenset[str]
    rows: pa.Table | None
    """The rows after the write; None if it deletes them."""
    is_fresh: bool
    """Whether no row existed before."""
    located: RowLocations | None = None
    """Where the replaced or deleted rows were, if all of them were looked up."""
    moves_rows: bool = False
    """Whether other rows may have other addresses since: maintenance rewrites files, and changes no row."""


_REWRITE = RowChange(ids=frozenset(), rows=None, is_fresh=True, moves_rows=True)

# The changes of one commit by table key; None if a change of that table is not known.
TableChanges: TypeAlias = Mapping[str, RowChange | None]


def is_unaffected(requirement: Requirement, change: RowChange) -> bool:
    """Return whether a change of its table certainly leaves a requirement met; False if the table has to be read."""
    match requirement:
        case IdsAbsent() | IdsPresent() | RowsUnchanged():
            return _is_apart(requirement.ids, change)
        case SelectionUnchanged():
            select = requirement.select_rows
            if select is None or not _is_apart(requirement.ids, change):
                return False
            return change.rows is None or not len(select(change.rows))
        case ValuesAbsent():
            return change.rows is None or not is_one_of_rows(change.rows, requirement.columns, requirement.values)
        case CountsWithin():
            return change.is_fresh and not _counts(requirement, change)
        case _:
            return False


def is_overtaken(requirement: Requirement, change: RowChange) -> bool:
    """Return whether a change has written one of the rows that a requirement wants unchanged."""
    if not isinstance(requirement, RowsUnchanged | SelectionUnchanged) or callable(requirement.ids):
        return False
    return len(requirement.ids) <= MAX_COMPARED_IDS and not _is_apart(requirement.ids, change)


def _is_apart(keys: Keys, change: RowChange) -> bool:
    """Return whether none of the changed rows has one of the ids."""
    if callable(keys) or len(keys) > MAX_COMPARED_IDS:
        return False
    return change.ids.isdisjoint(keys.to_pylist() if isinstance(keys, pa.Array) else keys)


def _counts(requirement: CountsWithin, change: RowChange) -> bool:
    """Return whether one of the new rows may count for one of the keys."""
    keys = requirement.keys
    if callable(keys) or change.rows is None:
        return True
    values = keys if isinstance(keys, pa.Array) else pa.array(list(keys), pa.string())
    return bool(pc.any(pc.is_in(change.rows.column(requirement.column), value_set=values)).as_py())


class RecentChanges:
    """The changes of the latest small commits that this process has published. Thread-safe."""

    def __init__(self) -> None:
        self._changes: LruCache[str, TableChanges] = LruCache(MAX_KEPT_COMMITS)

    def remember(self, commit: Commit, changes: TableChanges) -> None:
        """Keep the changes of a published commit, and forget those that were used least recently."""
        # By digest, which covers random version numbers: ids may be repeated by a test, digests never.
        if commit.digest is not None:
            self._changes.put(commit.digest, changes)

    def find(self, commit: Commit) -> TableChanges | None:
        """Return the changes of a commit; None if this process did not publish it, or has forgotten them."""
        return None if commit.digest is None else self._changes.get(commit.digest)


RECENT_CHANGES = ProcessState(RecentChanges)


def find_change(table_key: str, between: Sequence[Commit]) -> RowChange | None:
    """Return what commits together changed about one table; None if that is not known of one of them."""
    changes: list[RowChange] = []
    for commit in between:
        if not any(change.table_key == table_key for change in commit.changes):
            continue
        if commit.is_maintenance:
            changes.append(_REWRITE)
            continue
        known = RECENT_CHANGES.get().find(commit)
        change = None if known is None else known.get(table_key)
        if change is None:
            return None
        changes.append(change)
    return combine_changes(changes)


def combine_changes(changes: Sequence[RowChange]) -> RowChange | None:
    """Return several changes of one table as one; None if their rows have different columns."""
    if len(changes) == 1:
        return changes[0]
    rows = [change.rows for change in changes if change.rows is not None]
    # Rows of other callers may have their columns in another order.
    if any(table.schema != rows[0].schema for table in rows[1:]):
        return None
    return RowChange(
        ids=frozenset().union(*(change.ids for change in changes)),
        # In one piece: a predicate over the rows of 63 other writes takes as long as one over a single row.
        rows=pa.concat_tables(rows).combine_chunks() if rows else None,
        is_fresh=all(change.is_fresh for change in changes),
        moves_rows=any(change.moves_rows for change in changes),
    )
