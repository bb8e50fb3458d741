"""Read the history of one node or edge as an actor sees it who does not see all rows.

Each state is asked for the row and, for an edge, its ends; the row is seen or not by the values that they have there.
So it is inserted when it comes into sight, and deleted when it leaves it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from omnigraph.commit.gc_horizon import build_collected_predicate
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import Commit
from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.commit.time_travel import read_at_commit
from omnigraph.engine.row_security.masked_tables import find_seen_row
from omnigraph.engine.writing.blobs import list_blob_properties
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.ops.row_diff import Document, build_documents, list_visible_columns, to_jsonl_name
from omnigraph.ops.session import Session, list_row_rules
from omnigraph.policy import Action
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType
from omnigraph.schema.identity import renumber_catalog
from omnigraph.storage.blobs import read_blobs
from omnigraph.storage.lance_table import ADDRESS, LanceTable

# Ids that are compared with a missing one to suggest the id that was likely meant.
_MAX_SUGGESTION_IDS = 5_000


@dataclass(frozen=True, slots=True)
class SeenRow:
    """A row in one state, and its type there."""

    type: AnyType
    table: LanceTable
    rows: pa.Table
    """The row, with its address."""

    def to_document(self) -> Document:
        """Return the row as in graph JSONL."""
        return build_documents(self.type, self.rows.select(list_visible_columns(self.table)))[0]

    def read_blobs(self) -> dict[str, bytes | None]:
        """Return the bytes of all its blobs."""
        addresses = self.rows.column(ADDRESS).to_pylist()
        return {name: read_blobs(self.table, name, addresses)[0] for name in list_blob_properties(self.type)}


@dataclass(frozen=True, slots=True)
class SeenVersion:
    """The row before and after a commit that changed it."""

    commit: Commit
    before: SeenRow | None
    after: SeenRow | None
    changed: tuple[str, ...] = ()
    is_as_of: bool = False
    """Whether the state before the commit can't be read, so that an earlier commit may have made the version."""


class SeenHistory:
    """The versions of a row, newest first. `ends_before` is set if older ones can no longer be read."""

    def __init__(self, session: Session, type_name: str, row_id: str) -> None:
        """Find the type in the newest state.

        Raises:
            TypeMissingError: It has none of that name.
        """
        self._session = session
        self._id = row_id
        self._head = session.head()
        self._same = self._head.snapshot.manifest.schema.same
        catalog = self._load_catalog(self._head)
        type_ = catalog.find_type(type_name) or catalog.find_edge(type_name)
        if type_ is None:
            raise TypeMissingError(type_name, find_closest(type_name, {each.name for each in catalog.types}))
        self._type = type_
        self.ends_before: str | None = None

    def iter_versions(self) -> Iterator[SeenVersion]:
        """Yield the versions that can be read, newest first."""
        session, head = self._session, self._head
        is_collected = build_collected_predicate(session.log, head)
        after = self._read(head.snapshot.commit)
        for commit, parent in pairwise((*session.log.iter_history(head), None)):
            assert commit is not None  # noqa: S101 - only the last item is None
            session.check_cancelled()
            if parent is not None and is_collected(parent):
                self.ends_before = commit.id
                if after is not None:
                    yield SeenVersion(commit, None, after, is_as_of=True)
                return
            if not self._may_change(commit):
                continue
            before = None if parent is None else self._read(parent)
            changed = _compare(before, after)
            if (before is None) != (after is None) or changed:
                yield SeenVersion(commit, before, after, changed)
            after = before

    def find_near_id(self) -> str | None:
        """Return the id of a seen row of the newest state that was likely meant, or None."""
        table = self._session.open_tables(self._head.snapshot).open_table(self._type.table_key)
        return find_closest(self._id, table.scan([ID], limit=_MAX_SUGGESTION_IDS).column(ID).to_pylist())

    def _may_change(self, commit: Commit) -> bool:
        """Return whether a commit wrote a table that decides about the row."""
        if commit.schema_after is not None:
            return True
        keys = {self._type.table_key}
        if isinstance(self._type, EdgeType):
            keys |= {f"node:{self._type.source}", f"node:{self._type.target}"}
        return not commit.is_maintenance and any(change.table_key in keys for change in commit.changes)

    def _read(self, commit: Commit) -> SeenRow | None:
        """Return the row after a commit, if it is seen there."""
        session = self._session
        # A history continues through the branches that this one was forked from, which a policy may deny.
        session.allow(Action.READ, commit.branch, hides_rows=True)
        snapshot = read_at_commit(session.log, self._head, commit.id)
        catalog = renumber_catalog(session.load_catalog(snapshot), self._same)
        type_ = next((each for each in catalog.types if each.identity == self._type.identity), None)
        if type_ is None:
            return None
        # Its name there is that of the tables, also before a rename.
        self._type = type_
        tables = SnapshotTables(session.handles, snapshot)
        rows = find_seen_row(tables, catalog, list_row_rules(session, snapshot), type_, self._id)
        return None if rows is None else SeenRow(type_, tables.open_table(type_.table_key), rows)

    def _load_catalog(self, head: Head) -> Catalog:
        return renumber_catalog(self._session.load_catalog(head.snapshot), self._same)


def _compare(before: SeenRow | None, after: SeenRow | None) -> tuple[str, ...]:
    """Return the properties in which a row differs, by the names in graph JSONL."""
    if before is None or after is None:
        return ()
    if before.table.path == after.table.path and before.rows.equals(after.rows):
        return ()
    old, new = before.to_document(), after.to_document()
    changed = [name for name in dict.fromkeys((*new, *old)) if old.get(name) != new.get(name)]
    old_blobs, new_blobs = before.read_blobs(), after.read_blobs()
    blobs = [name for name in dict.fromkeys((*new_blobs, *old_blobs)) if old_blobs.get(name) != new_blobs.get(name)]
    return (*changed, *map(to_jsonl_name, blobs))
