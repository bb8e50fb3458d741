"""Read the history of one node or edge: every version it had on a branch, newest first.

Only commits that wrote the table of its type are read, and of these only what they changed. A table is identified by
its location, so a renamed type is followed back, and properties are shown by the names they had at the time.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise, takewhile
from typing import Literal, TypeAlias

from omnigraph.commit.gc_horizon import build_collected_predicate
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_repair import OPERATION as REPAIR
from omnigraph.commit.manifest_types import Commit, PinChange
from omnigraph.commit.time_travel import expect_versions
from omnigraph.engine.entity_trace import RowLocation, compare_row, locate_row, locate_row_before, read_row
from omnigraph.engine.migrating.type_changes import TypeChange
from omnigraph.errors import MissingError
from omnigraph.json_struct import JsonStruct
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.argument_checks import check_count, check_text
from omnigraph.ops.commit_changes import build_fills
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.ops.redaction import redact_commit
from omnigraph.ops.row_diff import Document, build_documents, encode_type_name, list_visible_columns, to_jsonl_name
from omnigraph.ops.schema_change import describe_reshape
from omnigraph.ops.schema_history import SchemaHistory
from omnigraph.ops.seen_history import SeenHistory, SeenVersion
from omnigraph.ops.session import Session, list_row_rules
from omnigraph.policy import Action
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.schema.identity import renumber_catalog
from omnigraph.storage import filters
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.table_cache import PinUnreadableError

VersionKind: TypeAlias = Literal["inserted", "updated", "deleted", "reshaped", "as_of"]

# Number of commits skipped together at first, if the row has the same location before all of them.
MIN_LOOKAHEAD = 16
# Number of ids that are compared with a missing one to suggest the id that was likely meant.
MAX_SUGGESTION_IDS = 5_000


class EntityVersion(JsonStruct, frozen=True, kw_only=True):
    """The version of a node or edge that one commit made; blobs are named in `changed` and omitted from documents.

    `reshaped` is a version made by a schema change alone. `as_of` is the row after the oldest commit that can be read,
    which may be a version that an earlier commit made. `after` equals `before` of the next later version.
    """

    commit: Commit
    type: AnyType
    """The type after the commit; the type before it, if the row was deleted."""
    id: str
    change: VersionKind
    changed: tuple[str, ...] = ()
    before: Document | None = None
    after: Document | None = None

    def to_json(self) -> Document:
        """Return the JSON form."""
        commit = self.commit
        return {
            "commit": commit.id,
            "merged_parent": commit.merged_parent,
            "merged_branch": None if commit.merged_from is None else commit.merged_from.branch,
            "branch": commit.branch,
            "actor": commit.actor,
            "at": commit.at,
            "operation": commit.operation,
            "message": commit.message,
            **encode_type_name(self.type),
            "id": self.id,
            "change": self.change,
            "changed": list(self.changed),
            "before": self.before,
            "after": self.after,
        }


class EntityHistory(JsonStruct, frozen=True, kw_only=True):
    """The versions of a node or edge, newest first; `ends_before` is set if older ones can no longer be read."""

    versions: tuple[EntityVersion, ...]
    ends_before: str | None = None
    """The oldest commit that could be read, if the state before it was collected or permanently dropped."""


def read_entity_history(session: Session, type_name: str, row_id: str, *, limit: int | None = None) -> EntityHistory:
    """Return the versions of a node or edge on a branch, newest first and at most `limit`, with their changes.

    Raises:
        TypeMissingError: The branch has and had no type of that name.
        MissingError: No row of the type has or had that id.
    """
    session.allow(Action.READ, hides_rows=True)
    check_text("type_name", type_name)
    check_text("id", row_id)
    check_count("limit", limit)
    head = session.head()
    if list_row_rules(session, head.snapshot):
        return _read_seen_history(session, type_name, row_id, limit)
    walk = _HistoryWalk(session, head, _locate_table(session, head, type_name), row_id)
    versions = tuple(islice(walk.iter_versions(), limit))
    if not versions and not walk.has_row:
        raise MissingError.entity_not_found(type_name, row_id, session.log.branch, walk.find_near_id())
    return EntityHistory(versions=versions, ends_before=walk.ends_before)


def _read_seen_history(session: Session, type_name: str, row_id: str, limit: int | None) -> EntityHistory:
    """Return the versions that an actor sees who does not see all rows."""
    history = SeenHistory(session, type_name, row_id)
    versions = tuple(
        _build_seen_version(session, version, row_id) for version in islice(history.iter_versions(), limit)
    )
    if not versions:
        raise MissingError.entity_not_found(type_name, row_id, session.log.branch, history.find_near_id())
    return EntityHistory(versions=versions, ends_before=history.ends_before)


def _build_seen_version(session: Session, version: SeenVersion, row_id: str) -> EntityVersion:
    before, after = version.before, version.after
    row = after or before
    assert row is not None  # noqa: S101 - a version has one of the two
    kind: VersionKind = "updated" if version.commit.schema_after is None else "reshaped"
    if before is None or after is None:
        kind = "inserted" if before is None else "deleted"
    if version.is_as_of:
        kind = "as_of"
    return EntityVersion(
        commit=redact_commit(session, version.commit),
        type=row.type,
        id=row_id,
        change=kind,
        changed=version.changed,
        before=None if before is None else before.to_document(),
        after=None if after is None else after.to_document(),
    )


def _locate_table(session: Session, head: Head, name: str) -> str:
    """Return the location of the table of the type that has a name now, or else had it last."""
    snapshot = head.snapshot
    catalog = session.load_catalog(snapshot)
    type_ = catalog.find_type(name) or catalog.find_edge(name)
    if type_ is not None:
        return snapshot.pins[type_.table_key].path
    schemas = SchemaHistory(session.log)
    for commit in session.log.iter_history(head):
        session.check_cancelled()
        if commit.schema_before is None:
            continue
        earlier = schemas.load_catalog(head, commit.schema_before)
        type_ = earlier.find_type(name) or earlier.find_edge(name)
        change = None if type_ is None else next((c for c in commit.changes if c.table_key == type_.table_key), None)
        if change is not None:
            return _get_old_path(change)
    raise TypeMissingError(name, find_closest(name, {candidate.name for candidate in catalog.types}))


def _get_old_path(change: PinChange) -> str:
    return change.path if change.replaced is None else change.replaced.path


@dataclass(frozen=True, slots=True)
class _RowState:
    """The row before or after a commit: its type, table and location, or None where they don't exist."""

    type: AnyType | None = None
    table: LanceTable | None = None
    location: RowLocation | None = None

    def to_document(self) -> Document | None:
        if self.type is None or self.table is None or self.location is None:
            return None
        return build_documents(self.type, read_row(self.table, self.location, list_visible_columns(self.table)))[0]


@dataclass(frozen=True, slots=True)
class _HistoryStep:
    """A commit that wrote the table: the table before and after it, and the schemas before and after it."""

    commit: Commit
    before: PinChange | None
    after: PinChange | None
    schemas: tuple[Catalog, Catalog]
    is_end: bool = False
    """Whether the state before the commit can no longer be read."""

    @property
    def is_plain(self) -> bool:
        """Whether it can't restore an earlier version of a row, as merges and repairs can, nor change the schema."""
        commit = self.commit
        is_forward = commit.merged_parent is None and commit.operation != REPAIR and commit.schema_after is None
        return is_forward and not self.is_end and self.before is not None and self.after is not None


class _HistoryWalk:
    """A walk from the newest state back through history, tracking the location of the row."""

    def __init__(self, session: Session, head: Head, path: str, row_id: str) -> None:
        self._session = session
        self._head = head
        self._path = path
        self._id = row_id
        self._schemas = SchemaHistory(session.log)
        # The row after the commit that is visited next, and the key of its table at that time.
        self._current = _RowState()
        self._table_key: str | None = None
        self._head_table: LanceTable | None = None
        for pin in head.snapshot.pins.values():
            if pin.path == path:
                self._table_key = pin.table_key
                self._head_table = LanceTable(session.handles, path, pin.version)
                self._current = _RowState(table=self._head_table, location=locate_row(self._head_table, row_id))
        self.has_row = self._current.location is not None
        self.ends_before: str | None = None

    def iter_versions(self) -> Iterator[EntityVersion]:
        """Yield the versions that can be read, newest first."""
        steps = self._iter_steps()
        lookahead = MIN_LOOKAHEAD
        waiting: deque[_HistoryStep] = deque()
        while waiting or (waiting := deque(islice(steps, 1))):
            self._session.check_cancelled()
            if self._current.location is not None and waiting[0].is_plain:
                waiting.extend(islice(steps, max(lookahead - len(waiting), 0)))
                run = list(takewhile(lambda step: step.is_plain, waiting))
                skipped = self._skip_unchanged(run)
                # Most commits leave a row alone: grow the window while all of its commits could be skipped.
                lookahead = lookahead * 4 if skipped == len(run) else MIN_LOOKAHEAD
                for _ in range(skipped):
                    waiting.popleft()
                if skipped:
                    continue
            step = waiting.popleft()
            try:
                version, state_before = (None, _RowState()) if step.is_end else self._apply_step(step)
            except PinUnreadableError:  # damaged, not collected: `check` reports it, the history just ends
                step, version, state_before = replace(step, is_end=True), None, _RowState()
            if step.is_end:
                self.ends_before = step.commit.id
                version = self._build_as_of(step)
                if version is not None:
                    yield version
                return
            self._current, self._table_key = state_before, None if step.before is None else step.before.table_key
            if version is not None:
                yield version

    def _iter_steps(self) -> Iterator[_HistoryStep]:
        """Yield the commits that wrote the table, newest first, down to the one that created it."""
        session, head, path = self._session, self._head, self._path
        is_collected = build_collected_predicate(session.log, head)
        # A type that two branches added alike has had one identity since their merge.
        same = head.snapshot.manifest.schema.same
        new = renumber_catalog(session.load_catalog(head.snapshot), same)
        for commit, parent in pairwise(chain(session.log.iter_history(head), [None])):
            assert commit is not None  # noqa: S101 - only the last item is None, and it is never the first of a pair
            session.check_cancelled()
            old = new
            if commit.schema_before is not None:
                old = renumber_catalog(self._schemas.load_catalog(head, commit.schema_before), same)
            # A purge cuts off the earlier states of the table; those of a collected parent can't be read either.
            is_lost = any(purge.path == path for purge in commit.purged)
            if is_lost or (parent is not None and is_collected(parent)):
                yield _HistoryStep(commit, None, None, (old, new), is_end=True)
                return
            before = next((c for c in commit.changes if c.before is not None and _get_old_path(c) == path), None)
            after = next((c for c in commit.changes if c.after is not None and c.path == path), None)
            if before is None and after is not None and commit.schema_after is not None:
                before = _find_earlier_table(commit, after, old, new)
                path = path if before is None else _get_old_path(before)
            if before is not None or after is not None:
                yield _HistoryStep(commit, before, after, (old, new))
                if before is None:
                    return
            new = old

    def _skip_unchanged(self, run: Sequence[_HistoryStep]) -> int:
        """Skip the leading commits that did not move the row, and return their number.

        A row deleted from its location never returns to it, so a binary search finds the first commit that moved it.
        """
        location = self._current.location
        assert location is not None  # noqa: S101 - the caller has checked it

        def is_live_before(step: _HistoryStep) -> bool:
            try:
                return location.is_live_in(self._open_table(step))
            except PinUnreadableError:
                return False

        # Usually the whole run left the row alone: one lookup before the oldest commit is enough.
        if is_live_before(run[-1]):
            skipped = len(run)
        else:
            skipped = bisect_left(run, True, key=lambda step: not is_live_before(step))
        if skipped:
            self._current = _RowState(table=self._open_table(run[skipped - 1]), location=location)
        return skipped

    def _apply_step(self, step: _HistoryStep) -> tuple[EntityVersion | None, _RowState]:
        """Return the version that a commit made of the row, if any, and the row before the commit."""
        old, new = step.schemas
        state_after = _RowState()
        if step.after is not None:
            state_after = replace(self._current, type=_find_type(new, step.after.table_key))
        if step.before is None:
            state_before = _RowState()
        else:
            table = self._open_table(step)
            newer = self._current
            if newer.table is None:
                location = locate_row(table, self._id)
            else:
                is_maintenance = step.commit.is_maintenance
                location = locate_row_before(
                    table, newer.table, self._id, newer.location, is_maintenance=is_maintenance
                )
            state_before = _RowState(_find_type(old, step.before.table_key), table, location)
        return self._build_version(step.commit, state_before, state_after), state_before

    def _build_as_of(self, step: _HistoryStep) -> EntityVersion | None:
        """Return the row after a commit whose earlier state can't be read, if the row existed."""
        if self._table_key is None or self._current.location is None:
            return None
        self._allow(step.commit)
        type_ = _find_type(step.schemas[1], self._table_key)
        try:
            after = replace(self._current, type=type_).to_document()
        except PinUnreadableError:  # this version is damaged as well
            return None
        return EntityVersion(
            commit=redact_commit(self._session, step.commit), type=type_, id=self._id, change="as_of", after=after
        )

    def _allow(self, commit: Commit) -> None:
        # A history continues through the branches that this one was forked from, which a policy may deny.
        if commit.branch != self._session.log.branch:
            self._session.allow(Action.READ, commit.branch)

    def _open_table(self, step: _HistoryStep) -> LanceTable:
        """Open the table as it was before a commit."""
        self._allow(step.commit)
        assert step.before is not None and step.before.before is not None  # noqa: PT018, S101 - the caller has checked it
        expect_versions(self._session.store.verifier, [step.before])
        return LanceTable(self._session.handles, _get_old_path(step.before), int(step.before.before))

    def find_near_id(self) -> str | None:
        """Return the id of the newest state that was likely meant, or None."""
        if self._head_table is None or not self._id:
            return None
        same_first = filters.build_prefix_match(ID, self._id[0])
        ids = self._head_table.scan([ID], same_first, limit=MAX_SUGGESTION_IDS).column(ID).to_pylist()
        return find_closest(self._id, ids)

    def _build_version(self, commit: Commit, old: _RowState, new: _RowState) -> EntityVersion | None:
        """Return the version that a commit made of the row, or None if it left the row unchanged."""
        # Maintenance moves rows without changing them.
        if commit.is_maintenance or (old.location is None and new.location is None):
            return None
        kind: VersionKind
        changed: tuple[str, ...] = ()
        if old.location is None or new.location is None:
            kind = "inserted" if old.location is None else "deleted"
        else:
            assert old.type and new.type and old.table and new.table  # noqa: PT018, S101 - there is a row
            shape = TypeChange(old.type, new.type) if commit.schema_after is not None else None
            # Rows are never changed in place, so the same location means the same values.
            if shape is None and old.location == new.location:
                return None
            fills = None if shape is None else build_fills(shape)
            difference = compare_row(old.table, old.location, new.table, new.location, fills)
            if difference is not None:
                kind, changed = "updated", tuple(map(to_jsonl_name, difference.changed))
            elif shape is not None and describe_reshape(shape) is not None:
                kind, changed = "reshaped", _list_reshaped_names(shape)
            else:
                return None
        type_ = new.type if new.type is not None and new.location is not None else old.type
        assert type_ is not None  # noqa: S101 - there is a row on one side
        return EntityVersion(
            commit=redact_commit(self._session, commit),
            type=type_,
            id=self._id,
            change=kind,
            changed=changed,
            before=old.to_document(),
            after=new.to_document(),
        )


def _find_type(catalog: Catalog, table_key: str) -> AnyType:
    return next(type_ for type_ in catalog.types if type_.table_key == table_key)


def _find_earlier_table(commit: Commit, after: PinChange, old: Catalog, new: Catalog) -> PinChange | None:
    """Return the change of the table that a type had before a commit, if the commit replaced the table.

    This happens when two branches added the same type, each with its own table, and a merge took one of them.
    """
    identity = _find_type(new, after.table_key).identity
    removed = (change for change in commit.changes if change.before is not None)
    return next((change for change in removed if _find_type(old, change.table_key).identity == identity), None)


def _list_reshaped_names(change: TypeChange) -> tuple[str, ...]:
    """Return the properties that a new schema renamed, added or dropped, by new name where they have one."""
    renamed = [new for new, old in change.old_names.items() if new != old]
    return (*renamed, *(p.name for p in change.iter_added()), *(p.name for p in change.iter_dropped()))
