"""The change set of one commit: first the schema change, then the rows inserted, updated and deleted, by type.

A change set is the difference from the commit's first parent, also for a merge: applied to the state of that parent, it
gives the state of the commit.

A schema change states what it does to every row of a type: properties renamed, dropped, or added with a value. Rows are
listed only if they differ from the result of that: none after `schema apply`; after a merge that brought a schema,
those that the other branch wrote. Rows of a dropped type are not listed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from omnigraph.commit.manifest_types import Commit
from omnigraph.engine.changed_ranges import Fills
from omnigraph.engine.migrating.type_changes import TypeChange
from omnigraph.errors import CorruptError
from omnigraph.ops.row_diff import Document, Pair, RowChangeCounts, RowChanges, drop_zeros, encode
from omnigraph.ops.schema_change import SchemaChange
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.table_cache import PinUnreadableError

# JSON lines are joined to blocks of about this size, so that a large commit is streamed in bounded memory.
BLOCK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """The changes of one commit. Rows are read on each iteration, a bounded number at a time."""

    commit: Commit
    schema: SchemaChange | None = None
    """The schema change, if there is one; it applies before the row changes."""
    pairs: tuple[Pair, ...] = field(default=(), repr=False)
    go_on: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)
    """Called for every chunk of rows; an error that it raises ends the iteration."""

    @property
    def cursor(self) -> str:
        """The cursor to resume after, once this change set is processed."""
        return self.commit.id

    def __iter__(self) -> Iterator[RowChanges]:
        """Yield chunks of rows with the same kind of change.

        Raises:
            CorruptError: A table version that it needs is damaged.
        """
        for pair in self.pairs:
            with self._wrap_read_errors(pair):
                for changes in pair.iter_changes():
                    self.go_on()
                    yield changes

    def records(self) -> Iterator[Document]:
        """Yield each changed row as a JSON object: type, id, kind of change, properties before and after."""
        for changes in self:
            yield from changes.records()

    def counts(self) -> dict[str, RowChangeCounts]:
        """Count the changed rows by type; types without any are left out."""
        totals: dict[str, RowChangeCounts] = {}
        for pair in self.pairs:
            self.go_on()
            with self._wrap_read_errors(pair):
                pair.count_into(totals.setdefault(pair.type.name, RowChangeCounts()))
        return drop_zeros(totals)

    def blocks(self) -> Iterator[bytes]:
        """Yield blocks of JSON lines: one that begins the commit, one per row, one that ends it with counts.

        Each line names the commit. Without its end line a commit is incomplete, and may be sent again from the start.
        """
        # Counted while the rows are read: a separate `counts()` would read all of them twice.
        totals: dict[str, RowChangeCounts] = {}
        lines = [_encode_line(self.cursor, {"begin": self._build_header()})]
        size = len(lines[0])
        for changes in self:
            totals.setdefault(changes.type.name, RowChangeCounts()).add(changes)
            for record in changes.records():
                lines.append(_encode_line(self.cursor, record))
                size += len(lines[-1])
                if size >= BLOCK_BYTES:
                    yield b"".join(lines)
                    lines, size = [], 0
        lines.append(_encode_line(self.cursor, {"end": {"types": _encode_counts(drop_zeros(totals))}}))
        yield b"".join(lines)

    def summary(self) -> Document:
        """Return the change set as one JSON object with counts instead of rows."""
        return {"commit": self.cursor, **self._build_header(), "types": _encode_counts(self.counts())}

    def to_json(self) -> Document:
        """Return the change set as one JSON object with all rows; meant for small commits."""
        document = self.to_json_within(None)
        assert document is not None  # noqa: S101 - there is no limit
        return document

    def to_json_within(self, most_rows: int | None) -> Document | None:
        """Return the same as `to_json`, or None if there are more rows than the limit; the rest is then not read."""
        totals: dict[str, RowChangeCounts] = {}
        rows: list[Document] = []
        for changes in self:
            totals.setdefault(changes.type.name, RowChangeCounts()).add(changes)
            # Checked by the count, before the rows are encoded.
            if most_rows is not None and len(rows) + changes.count > most_rows:
                return None
            rows += changes.records()
        return {
            "commit": self.cursor,
            **self._build_header(),
            "types": _encode_counts(drop_zeros(totals)),
            "rows": rows,
        }

    @contextmanager
    def _wrap_read_errors(self, pair: Pair) -> Iterator[None]:
        try:
            yield
        except PinUnreadableError as error:
            raise CorruptError.change_unreadable(self.cursor, pair.type.table_key, str(error)) from error

    def _build_header(self) -> Document:
        commit = self.commit
        return {
            "parent": commit.parent,
            "merged_parent": commit.merged_parent,
            "seq": commit.seq,
            "branch": commit.branch,
            "actor": commit.actor,
            "at": commit.at,
            "operation": commit.operation,
            "message": commit.message,
            "schema": None if self.schema is None else self.schema.to_json(),
        }


def _encode_line(commit_id: str, document: Document) -> bytes:
    return encode({"commit": commit_id, **document}) + b"\n"


def _encode_counts(totals: Mapping[str, RowChangeCounts]) -> Document:
    return {name: counts.to_json() for name, counts in totals.items()}


class TypeFilter:
    """A filter that selects types by name, and by the paths of their tables, which survive a rename.

    Commits must be checked in order: the filter remembers the tables it has selected, and matches them under any name.
    """

    def __init__(self, names: Collection[str] | None = None, paths: Iterable[str] = ()) -> None:
        self._names = names
        self._paths = set(paths)

    def has(self, path: str | None, *types: AnyType | None) -> bool:
        """Return whether a table is selected: by its path, or by the name of its type before or after the commit."""
        if self._names is None or path in self._paths:
            return True
        # The path is remembered, so that later commits are selected even if the type has another name by then.
        is_named = any(type_ is not None and type_.name in self._names for type_ in types)
        if is_named and path is not None:
            self._paths.add(path)
        return is_named


@dataclass(frozen=True, slots=True)
class _TypedVersion:
    """A table version before or after a commit, with its type."""

    type: AnyType
    version: int


def build_change_set(
    tables: Callable[[str, int], LanceTable],
    commit: Commit,
    schemas: tuple[str | None, str],
    catalogs: tuple[Catalog | None, Catalog],
    type_filter: TypeFilter,
    *,
    unchanged: Collection[str] = (),
) -> ChangeSet:
    """Build the change set of a commit. `schemas` and `catalogs` are those before and after it. No row is read yet.

    Both catalogs must use the same identity for the same type or property, also if two branches added it independently
    and a merge unified them. `tables` opens a table by path and version. Tables at the paths `unchanged` are known to
    have the same rows as before.
    """
    before, after = _find_pins(commit, catalogs)
    old_paths = {path: path for path in after if path in before}
    schema = None
    lasting: dict[str, TypeChange] = {}
    if commit.schema_after is not None:
        old_paths |= _find_moved_tables(before, after)
        schema = _build_schema_change(commit, schemas, catalogs, before, after, old_paths, type_filter)
        lasting = {change.new.table_key: change for change in schema.lasting}
    # Maintenance rewrites files, but changes no row.
    if commit.is_maintenance:
        return ChangeSet(commit=commit, schema=schema)
    # A purge rewrites the files of a table without the dropped data, and the old files must no longer be read.
    purged = () if commit.merged_parent else (purge.path for purge in commit.purged)
    skipped = {*unchanged, *purged}
    pairs = []
    # Without a schema change, a table is removed only when a repair replaces it by another: then its rows are deleted.
    if schema is None:
        deleted = {path: pin for path, pin in before.items() if path not in after and type_filter.has(path, pin.type)}
        pairs = [
            Pair(type=pin.type, old_type=pin.type, before=tables(path, pin.version), after=None)
            for path, pin in deleted.items()
        ]
    for path, pin in after.items():
        old_path = old_paths.get(path)
        twin = None if old_path is None else before[old_path]
        is_same = old_path == path and twin is not None and (twin.version == pin.version or path in skipped)
        if is_same:
            continue
        old_type = None if twin is None else twin.type
        # A table that moved may have been selected under its old path.
        if not (type_filter.has(path, pin.type, old_type) or type_filter.has(old_path)):
            continue
        change = lasting.get(pin.type.table_key)
        pairs.append(
            Pair(
                type=pin.type,
                old_type=pin.type if old_type is None else old_type,
                before=None if old_path is None or twin is None else tables(old_path, twin.version),
                after=tables(path, pin.version),
                fills=None if change is None else build_fills(change),
            )
        )
    return ChangeSet(commit=commit, schema=schema, pairs=tuple(pairs))


def _find_pins(
    commit: Commit, catalogs: tuple[Catalog | None, Catalog]
) -> tuple[dict[str, _TypedVersion], dict[str, _TypedVersion]]:
    """Return by path the tables that a commit changed, before it and after it; the latter in declared order."""
    old, new = ({type_.table_key: type_ for type_ in catalog.types} if catalog else {} for catalog in catalogs)
    before: dict[str, _TypedVersion] = {}
    left: dict[str, tuple[str, _TypedVersion]] = {}
    for change in commit.changes:
        if change.before is not None:
            path = change.path if change.replaced is None else change.replaced.path
            before[path] = _TypedVersion(old[change.table_key], int(change.before))
        if change.after is not None:
            left[change.table_key] = change.path, _TypedVersion(new[change.table_key], int(change.after))
    return before, dict(left[key] for key in new if key in left)


def _find_moved_tables(before: Mapping[str, _TypedVersion], after: Mapping[str, _TypedVersion]) -> dict[str, str]:
    """Return the paths of types whose table was replaced by the commit: by new path, the old one.

    This happens when two branches added the same type, each with its own table, and a merge took one of them.
    """
    removed = {pin.type.identity: path for path, pin in before.items() if path not in after}
    added = {path: pin.type.identity for path, pin in after.items() if path not in before}
    return {path: removed[identity] for path, identity in added.items() if identity in removed}


def _build_schema_change(
    commit: Commit,
    schemas: tuple[str | None, str],
    catalogs: tuple[Catalog | None, Catalog],
    before: Mapping[str, _TypedVersion],
    after: Mapping[str, _TypedVersion],
    old_paths: Mapping[str, str],
    type_filter: TypeFilter,
) -> SchemaChange:
    """Build the schema change of a commit, with types matched by their tables.

    A table at the same path is the same type, and so is a table key that the commit did not change.
    """
    touched = {change.table_key for change in commit.changes}
    olds: Sequence[AnyType] = () if catalogs[0] is None else catalogs[0].types
    untouched = {type_.table_key: type_ for type_ in olds if type_.table_key not in touched}
    moved = {after[path].type.table_key: before[old_path].type for path, old_path in old_paths.items()}
    twins = moved | untouched
    lasting = [TypeChange(twins[type_.table_key], type_) for type_ in catalogs[1].types if type_.table_key in twins]
    return SchemaChange(
        before=schemas[0],
        after=schemas[1],
        added=tuple(
            pin.type for path, pin in after.items() if path not in old_paths and type_filter.has(path, pin.type)
        ),
        dropped=tuple(
            pin.type
            for path, pin in before.items()
            if path not in old_paths.values() and type_filter.has(path, pin.type)
        ),
        lasting=tuple(change for change in lasting if _is_selected(change, type_filter, after)),
    )


def _is_selected(change: TypeChange, type_filter: TypeFilter, after: Mapping[str, _TypedVersion]) -> bool:
    path = next((path for path, pin in after.items() if pin.type is change.new), None)
    return type_filter.has(path, change.new, change.old)


def build_fills(change: TypeChange) -> Fills:
    """Return by name the value that a new schema fills each new property of a type with."""
    values = change.build_new_columns().fills
    return {p.name: values.get(p.name) for p in change.iter_added()}
