"""One commit as what it changed: the schema first, then rows that came, went or say something else, type by type.

The change is that against the commit's first parent, also for a merge. So whoever has the state of that parent and
applies the change has the state of the commit.

A schema change is told as what it does to every row of a type: properties renamed, dropped, added with a value. Rows
are listed where they say something else than that makes of them: not at all after `schema apply`, and after a merge
that brought a schema where the other branch wrote them. The rows of a type that was dropped are not listed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from omnigraph.commit.manifest_types import Commit
from omnigraph.engine.changed_ranges import Fills
from omnigraph.engine.migrating.type_changes import TypeChange
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.ops.diff import list_types
from omnigraph.ops.row_diff import Document, Pair, RowChangeCounts, RowChanges, drop_zeros, encode
from omnigraph.ops.schema_change import SchemaChange
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.table_cache import PinUnreadableError

BLOCK_BYTES = 64 * 1024


class ChangeUnreadableError(OmnigraphError):
    """A version of a table that a commit found or made can't be read, so what it changed can't be told."""

    kind = Kind.CORRUPT
    code = "change_unreadable"

    def __init__(self, commit_id: str, table_key: str, reason: str) -> None:
        super().__init__(commit_id, table_key, reason)
        self.commit_id, self.table_key, self.reason = commit_id, table_key, reason

    def __str__(self) -> str:
        return (
            f"what commit {self.commit_id} did to {self.table_key} can't be told: {self.reason}."
            " Whoever follows starts anew from a whole state: export a later snapshot, and go on behind its commit"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """What one commit changed. Rows are read when they are asked for, a bounded number at once, as often as asked."""

    commit: Commit
    schema: SchemaChange | None = None
    """The change of the schema, if there is one; it comes before that of the rows."""
    pairs: tuple[Pair, ...] = field(default=(), repr=False)
    go_on: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)
    """Asked for every part that is read: what it raises ends the reading."""

    @property
    def cursor(self) -> str:
        """What to go on behind, when this change is done with."""
        return self.commit.id

    def __iter__(self) -> Iterator[RowChanges]:
        """Some rows that changed alike at a time; ChangeUnreadableError when a table that it needs is damaged."""
        for pair in self.pairs:
            with self._wrap_read_errors(pair):
                for changes in pair.iter_changes():
                    self.go_on()
                    yield changes

    def records(self) -> Iterator[Document]:
        """Each changed row as a JSON object: type, id, the change, the properties before and after."""
        for changes in self:
            yield from changes.records()

    def counts(self) -> dict[str, RowChangeCounts]:
        """By type, how many rows changed; types of which none did are left out."""
        totals: dict[str, RowChangeCounts] = {}
        for pair in self.pairs:
            self.go_on()
            with self._wrap_read_errors(pair):
                pair.count_into(totals.setdefault(pair.type.name, RowChangeCounts()))
        return drop_zeros(totals)

    def blocks(self) -> Iterator[bytes]:
        """As lines of JSON, some at once: one that begins the commit, one for each row, one that ends it with counts.

        Each line names the commit. What is not ended is not complete: it may be begun again.
        """
        lines = [_encode_line(self.cursor, {"begin": self._build_header()})]
        size = len(lines[0])
        totals: dict[str, RowChangeCounts] = {}
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
        """The change as one JSON object without its rows: they are only counted."""
        return {"commit": self.cursor, **self._build_header(), "types": _encode_counts(self.counts())}

    def to_json(self) -> Document:
        """The whole change as one JSON object, with every row of it: for a page of small commits."""
        found = self.to_json_within(None)
        assert found is not None  # noqa: S101 - there is no limit
        return found

    def to_json_within(self, most_rows: int | None) -> Document | None:
        """The same; None when it has more rows than that, of which no more are read."""
        totals: dict[str, RowChangeCounts] = {}
        rows: list[Document] = []
        for changes in self:
            totals.setdefault(changes.type.name, RowChangeCounts()).add(changes)
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
            raise ChangeUnreadableError(self.cursor, pair.type.table_key, str(error)) from error

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
    return {name: one.to_json() for name, one in totals.items()}


class TypeFilter:
    """The types that are asked for: by name, and by the locations of their tables, which outlive a name.

    It is asked about commits in their order, and remembers the tables that it met, whatever they are called later.
    """

    def __init__(self, names: Collection[str] | None = None, paths: Iterable[str] = ()) -> None:
        self._names, self._paths = names, set(paths)

    def has(self, path: str | None, *types: AnyType | None) -> bool:
        """Whether a table is among them: by its location, if it is known, or by a name before or behind the commit."""
        if self._names is None or path in self._paths:
            return True
        is_named = any(type_ is not None and type_.name in self._names for type_ in types)
        if is_named and path is not None:
            self._paths.add(path)
        return is_named


@dataclass(frozen=True, slots=True)
class _TypedVersion:
    """A table as a commit found it, or left it."""

    type: AnyType
    version: int


def build_change_set(
    tables: Callable[[str, int], LanceTable],
    commit: Commit,
    schemas: tuple[str | None, str],
    catalogs: tuple[Catalog | None, Catalog],
    asked: TypeFilter,
    *,
    unchanged: Collection[str] = (),
) -> ChangeSet:
    """What a commit changed: `schemas` and `catalogs` are those before and behind it. Nothing is read yet.

    What is the same in both catalogs has one identity, also where a merge found out that two branches added the same.
    `tables` gives a table by its location and version. Those at the locations `unchanged` are known to say what they
    said before.
    """
    before, after = _find_pins(commit, catalogs)
    places = {path: path for path in after if path in before}
    schema, lasting = None, {}
    if commit.schema_after is not None:
        places |= _find_moved_tables(before, after)
        schema = _build_schema_change(commit, schemas, catalogs, before, after, places, asked)
        lasting = {one.new.table_key: one for one in schema.lasting}
    if commit.is_maintenance:
        return ChangeSet(commit=commit, schema=schema)
    # A purged table has got files without what was dropped; those that it had are not to be read any more.
    skipped = {*unchanged, *(() if commit.merged_parent else (purge.path for purge in commit.purged))}
    pairs = []
    if schema is None:  # a repair has put another table in the place of one: its rows are gone, and no schema says so
        gone = {path: pin for path, pin in before.items() if path not in after and asked.has(path, pin.type)}
        pairs = [
            Pair(type=pin.type, old_type=pin.type, before=tables(path, pin.version), after=None)
            for path, pin in gone.items()
        ]
    for path, pin in after.items():
        place = places.get(path)
        twin = None if place is None else before[place]
        is_same = place == path and twin is not None and (twin.version == pin.version or path in skipped)
        if is_same or not (asked.has(path, pin.type, None if twin is None else twin.type) or asked.has(place)):
            continue
        change = lasting.get(pin.type.table_key)
        pairs.append(
            Pair(
                type=pin.type,
                old_type=pin.type if twin is None else twin.type,
                before=None if place is None or twin is None else tables(place, twin.version),
                after=tables(path, pin.version),
                fills=None if change is None else build_fills(change),
            )
        )
    return ChangeSet(commit=commit, schema=schema, pairs=tuple(pairs))


def _find_pins(
    commit: Commit, catalogs: tuple[Catalog | None, Catalog]
) -> tuple[dict[str, _TypedVersion], dict[str, _TypedVersion]]:
    """The tables that a commit touched, by location: as it found them, and as it left them, in declared order."""
    old, new = ({one.table_key: one for one in list_types(catalog)} if catalog else {} for catalog in catalogs)
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
    """By the location behind a commit, that before it, of types whose table is another one.

    Two branches added the same type, each with a table of its own, and a merge took one of them.
    """
    left = {pin.type.identity: path for path, pin in before.items() if path not in after}
    fresh = {path: pin.type.identity for path, pin in after.items() if path not in before}
    return {path: left[identity] for path, identity in fresh.items() if identity in left}


def _build_schema_change(
    commit: Commit,
    schemas: tuple[str | None, str],
    catalogs: tuple[Catalog | None, Catalog],
    before: Mapping[str, _TypedVersion],
    after: Mapping[str, _TypedVersion],
    places: Mapping[str, str],
    asked: TypeFilter,
) -> SchemaChange:
    """Tables tell who is who: one at the same place is the same type, and so is one that was not touched."""
    touched = {change.table_key for change in commit.changes}
    olds: Sequence[AnyType] = () if catalogs[0] is None else list_types(catalogs[0])
    untouched = {type_.table_key: type_ for type_ in olds if type_.table_key not in touched}
    twins = {after[path].type.table_key: before[place].type for path, place in places.items()} | untouched
    lasting = [TypeChange(twins[one.table_key], one) for one in list_types(catalogs[1]) if one.table_key in twins]
    return SchemaChange(
        before=schemas[0],
        after=schemas[1],
        added=tuple(pin.type for path, pin in after.items() if path not in places and asked.has(path, pin.type)),
        dropped=tuple(
            pin.type for path, pin in before.items() if path not in places.values() and asked.has(path, pin.type)
        ),
        lasting=tuple(one for one in lasting if _is_selected(one, asked, after)),
    )


def _is_selected(change: TypeChange, asked: TypeFilter, after: Mapping[str, _TypedVersion]) -> bool:
    path = next((path for path, pin in after.items() if pin.type is change.new), None)
    return asked.has(path, change.new, change.old)


def build_fills(change: TypeChange) -> Fills:
    """What a new schema fills the new properties of a type with."""
    values = change.build_new_columns().fills
    return {p.name: values.get(p.name) for p in change.iter_added()}
