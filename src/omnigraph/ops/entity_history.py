"""The history of one node or edge: every version that it has had on a branch, newest first.

Only commits that moved the table of its type are looked into, and of these only what they changed. A table is known by
its location, so a type that was renamed is followed back, and properties are shown by the names that they had then.
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
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.argument_checks import check_count, check_text
from omnigraph.ops.commit_changes import build_fills
from omnigraph.ops.diff import list_types
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.ops.row_diff import Document, build_documents, encode_type_name, list_visible_columns, to_jsonl_name
from omnigraph.ops.schema_change import describe_reshape
from omnigraph.ops.schema_history import SchemaHistory
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.schema.identity import renumber_catalog
from omnigraph.storage import filters
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.table_cache import PinUnreadableError

VersionKind: TypeAlias = Literal["inserted", "updated", "deleted", "reshaped", "as_of"]

MIN_LOOKAHEAD = 16
"""So many commits are looked at together at first: whether the row lies where it lay before all of them."""
MAX_SUGGESTION_IDS = 5_000
"""Among so many ids the one is looked for that was likely meant."""


class EntityMissingError(OmnigraphError):
    """No node or edge of the type has that id, nor had it ever; `near` is one that was likely meant."""

    kind = Kind.NOT_FOUND
    code = "entity_not_found"

    def __init__(self, type: str, id: str, branch: str, near: str | None) -> None:
        super().__init__(type, id, branch, near)
        self.type, self.id, self.branch, self.near = type, id, branch, near

    def __str__(self) -> str:
        way_out = f"; did you mean `{self.near}`?" if self.near else ""
        return f"the branch `{self.branch}` has no {self.type} `{self.id}` in its history{way_out}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityVersion:
    """What one commit made of a node or edge; blobs are named in `changed` and left out of the documents.

    `reshaped` is a version that only a new schema made, and `as_of` what the row was behind the oldest commit that can
    be looked into, whoever made it so. What is `after` here is `before` in the next later one.
    """

    commit: Commit
    type: AnyType
    """As the commit left it, or found it when it went."""
    id: str
    change: VersionKind
    changed: tuple[str, ...] = ()
    before: Document | None = None
    after: Document | None = None

    def to_json(self) -> Document:
        """What every door shows."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityHistory:
    """The versions of a node or edge, newest first."""

    versions: tuple[EntityVersion, ...]
    ends_before: str | None = None
    """The oldest commit that could be looked into, when what it was made on was collected or dropped for good."""

    def to_json(self) -> Document:
        """What every door shows."""
        return {"versions": [one.to_json() for one in self.versions], "ends_before": self.ends_before}


def read_entity_history(session: Session, type_name: str, row_id: str, *, limit: int | None = None) -> EntityHistory:
    """The versions of one node or edge on a branch, newest first and at most `limit`, with what each changed.

    Raises:
        TypeMissingError: The branch has no type of that name, nor ever had.
        EntityMissingError: There never was one with that id.
    """
    session.allow(Action.READ)
    check_text("type_name", type_name)
    check_text("id", row_id)
    check_count("limit", limit)
    head = session.head()
    walk = _HistoryWalk(session, head, _locate_table(session, head, type_name), row_id)
    versions = tuple(islice(walk.iter_versions(), limit))
    if not versions and not walk.is_there:
        raise EntityMissingError(type_name, row_id, session.log.branch, walk.find_near_id())
    return EntityHistory(versions=versions, ends_before=walk.ends_before)


def _locate_table(session: Session, head: Head, name: str) -> str:
    """The location of a type's table: of the one that has the name now, or had it last."""
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
        found = None if type_ is None else next((c for c in commit.changes if c.table_key == type_.table_key), None)
        if found is not None:
            return _get_old_path(found)
    raise TypeMissingError(name, find_closest(name, {one.name for one in list_types(catalog)}))


def _get_old_path(change: PinChange) -> str:
    return change.path if change.replaced is None else change.replaced.path


@dataclass(frozen=True, slots=True)
class _RowState:
    """The row before or behind a commit; the table may not be there, and the row not in it."""

    type: AnyType | None = None
    table: LanceTable | None = None
    spot: RowLocation | None = None

    def to_document(self) -> Document | None:
        if self.type is None or self.table is None or self.spot is None:
            return None
        return build_documents(self.type, read_row(self.table, self.spot, list_visible_columns(self.table)))[0]


@dataclass(frozen=True, slots=True)
class _HistoryStep:
    """A commit that touched the table: how it found and left it, and what it made of the schema."""

    commit: Commit
    before: PinChange | None
    after: PinChange | None
    schemas: tuple[Catalog, Catalog]
    is_end: bool = False
    """What the commit was made on can't be read any more."""

    @property
    def is_plain(self) -> bool:
        """Whether it brought no earlier version of a row back, as merges and repairs can, and reshaped none."""
        commit = self.commit
        is_forward = commit.merged_parent is None and commit.operation != REPAIR and commit.schema_after is None
        return is_forward and not self.is_end and self.before is not None and self.after is not None


class _HistoryWalk:
    """From the newest state back, holding where the row lies."""

    def __init__(self, session: Session, head: Head, path: str, row_id: str) -> None:
        self._session, self._head, self._path, self._id = session, head, path, row_id
        self._schemas = SchemaHistory(session.log)
        self._current = _RowState()
        """The row behind the commit that is looked at next."""
        self._key: str | None = None
        """What the table is called there."""
        self._newest: LanceTable | None = None
        for pin in head.snapshot.pins.values():
            if pin.path == path:
                self._key = pin.table_key
                self._newest = LanceTable(session.handles, path, pin.version)
                self._current = _RowState(table=self._newest, spot=locate_row(self._newest, row_id))
        self.is_there = self._current.spot is not None
        self.ends_before: str | None = None

    def iter_versions(self) -> Iterator[EntityVersion]:
        """The versions, newest first, as far back as they can be read."""
        steps, ahead = self._iter_steps(), MIN_LOOKAHEAD
        waiting: deque[_HistoryStep] = deque()
        while waiting or (waiting := deque(islice(steps, 1))):
            self._session.check_cancelled()
            if self._current.spot is not None and waiting[0].is_plain:
                waiting.extend(islice(steps, max(ahead - len(waiting), 0)))
                run = list(takewhile(lambda step: step.is_plain, waiting))
                skipped = self._skip_unchanged(run)
                ahead = ahead * 4 if skipped == len(run) else MIN_LOOKAHEAD
                for _ in range(skipped):
                    waiting.popleft()
                if skipped:
                    continue
            step = waiting.popleft()
            try:
                found, there = (None, _RowState()) if step.is_end else self._apply_step(step)
            except PinUnreadableError:  # damaged by something else: `check` tells about that
                step, found, there = replace(step, is_end=True), None, _RowState()
            if step.is_end:
                self.ends_before = step.commit.id
                found = self._build_as_of(step)
                if found is not None:
                    yield found
                return
            self._current, self._key = there, None if step.before is None else step.before.table_key
            if found is not None:
                yield found

    def _iter_steps(self) -> Iterator[_HistoryStep]:
        """The commits that touched the table, newest first, to the one that made it."""
        session, head, path = self._session, self._head, self._path
        is_collected = build_collected_predicate(session.log, head)
        same = head.snapshot.manifest.schema.same  # what two branches added alike has one identity since they merged
        new = renumber_catalog(session.load_catalog(head.snapshot), same)
        for commit, parent in pairwise(chain(session.log.iter_history(head), [None])):
            assert commit is not None  # noqa: S101 - only the last one is none, and it is never first
            session.check_cancelled()
            old = new
            if commit.schema_before is not None:
                old = renumber_catalog(self._schemas.load_catalog(head, commit.schema_before), same)
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
        """How many of these commits, one after the other, have left the row where it lies; then it lies there still.

        A row that was deleted from its place never comes back to it, so not all of them have to be looked at.
        """
        spot = self._current.spot
        assert spot is not None  # noqa: S101 - asked only then

        def is_there_before(step: _HistoryStep) -> bool:
            try:
                return spot.is_live_in(self._open_table(step))
            except PinUnreadableError:
                return False

        if is_there_before(run[-1]):
            skipped = len(run)
        else:
            skipped = bisect_left(run, True, key=lambda step: not is_there_before(step))
        if skipped:
            self._current = _RowState(table=self._open_table(run[skipped - 1]), spot=spot)
        return skipped

    def _apply_step(self, step: _HistoryStep) -> tuple[EntityVersion | None, _RowState]:
        """What a commit made of the row, if it made something of it, and the row as it found it."""
        old, new = step.schemas
        here = _RowState() if step.after is None else replace(self._current, type=_find_type(new, step.after.table_key))
        if step.before is None:
            there = _RowState()
        else:
            table = self._open_table(step)
            spot = (
                locate_row(table, self._id)
                if self._current.table is None
                else locate_row_before(
                    table,
                    self._current.table,
                    self._id,
                    self._current.spot,
                    is_maintenance=step.commit.is_maintenance,
                )
            )
            there = _RowState(_find_type(old, step.before.table_key), table, spot)
        return self._build_version(step.commit, there, here), there

    def _build_as_of(self, step: _HistoryStep) -> EntityVersion | None:
        """The row behind a commit that can't be looked into, if there was one."""
        if self._key is None or self._current.spot is None:
            return None
        self._allow(step.commit)
        type_ = _find_type(step.schemas[1], self._key)
        try:
            after = replace(self._current, type=type_).to_document()
        except PinUnreadableError:  # then this, too, is damaged
            return None
        return EntityVersion(commit=step.commit, type=type_, id=self._id, change="as_of", after=after)

    def _allow(self, commit: Commit) -> None:
        if commit.branch != self._session.log.branch:
            self._session.allow(Action.READ, commit.branch)

    def _open_table(self, step: _HistoryStep) -> LanceTable:
        """The table as a commit found it."""
        self._allow(step.commit)
        assert step.before is not None and step.before.before is not None  # noqa: PT018, S101 - asked only then
        expect_versions(self._session.store.verifier, [step.before])
        return LanceTable(self._session.handles, _get_old_path(step.before), int(step.before.before))

    def find_near_id(self) -> str | None:
        """An id of the newest state that was likely meant."""
        if self._newest is None or not self._id:
            return None
        begins_alike = filters.build_prefix_match(ID, self._id[0])
        return find_closest(
            self._id, self._newest.scan([ID], begins_alike, limit=MAX_SUGGESTION_IDS).column(ID).to_pylist()
        )

    def _build_version(self, commit: Commit, old: _RowState, new: _RowState) -> EntityVersion | None:
        """What a commit made of the row, if it made something of it."""
        if commit.is_maintenance or (old.spot is None and new.spot is None):
            return None
        kind: VersionKind
        changed: tuple[str, ...] = ()
        if old.spot is None or new.spot is None:
            kind = "inserted" if old.spot is None else "deleted"
        else:
            assert old.type and new.type and old.table and new.table  # noqa: PT018, S101 - there is a row
            shape = TypeChange(old.type, new.type) if commit.schema_after is not None else None
            if shape is None and old.spot == new.spot:
                return None
            fills = None if shape is None else build_fills(shape)
            found = compare_row(old.table, old.spot, new.table, new.spot, fills)
            if found is not None:
                kind, changed = "updated", tuple(map(to_jsonl_name, found.changed))
            elif shape is not None and describe_reshape(shape) is not None:
                kind, changed = "reshaped", _list_reshaped_names(shape)
            else:
                return None
        type_ = new.type if new.type is not None and new.spot is not None else old.type
        assert type_ is not None  # noqa: S101 - there is a row on one side
        return EntityVersion(
            commit=commit,
            type=type_,
            id=self._id,
            change=kind,
            changed=changed,
            before=old.to_document(),
            after=new.to_document(),
        )


def _find_type(catalog: Catalog, table_key: str) -> AnyType:
    return next(one for one in list_types(catalog) if one.table_key == table_key)


def _find_earlier_table(commit: Commit, after: PinChange, old: Catalog, new: Catalog) -> PinChange | None:
    """The table that a type had before a commit, if that is another one than it left.

    Two branches added the same type, each with a table of its own, and a merge took one of them.
    """
    identity = _find_type(new, after.table_key).identity
    left = (change for change in commit.changes if change.before is not None)
    return next((change for change in left if _find_type(old, change.table_key).identity == identity), None)


def _list_reshaped_names(change: TypeChange) -> tuple[str, ...]:
    """The properties that a new schema renamed, added or dropped: by their names in it, if they have one."""
    renamed = [new for new, old in change.old_names.items() if new != old]
    return (*renamed, *(p.name for p in change.iter_added()), *(p.name for p in change.iter_dropped()))
