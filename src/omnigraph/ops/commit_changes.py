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
from omnigraph.ops.diff import types_of
from omnigraph.ops.row_diff import Changes, Document, Pair, TypeCounts, encode, without_zeros
from omnigraph.ops.schema_change import SchemaChange
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.storage.lance_table import Table
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

    def __iter__(self) -> Iterator[Changes]:
        """Some rows that changed alike at a time; ChangeUnreadableError when a table that it needs is damaged."""
        for pair in self.pairs:
            with self._reading(pair):
                for changes in pair.changes():
                    self.go_on()
                    yield changes

    def records(self) -> Iterator[Document]:
        """Each changed row as a JSON object: type, id, the change, the properties before and after."""
        for changes in self:
            yield from changes.records()

    def counts(self) -> dict[str, TypeCounts]:
        """By type, how many rows changed; types of which none did are left out."""
        totals: dict[str, TypeCounts] = {}
        for pair in self.pairs:
            self.go_on()
            with self._reading(pair):
                pair.count_into(totals.setdefault(pair.type.name, TypeCounts()))
        return without_zeros(totals)

    def blocks(self) -> Iterator[bytes]:
        """As lines of JSON, some at once: one that begins the commit, one for each row, one that ends it with counts.

        Each line names the commit. What is not ended is not complete: it may be begun again.
        """
        lines = [_line(self.cursor, {"begin": self._head()})]
        size = len(lines[0])
        totals: dict[str, TypeCounts] = {}
        for changes in self:
            totals.setdefault(changes.type.name, TypeCounts()).add(changes)
            for record in changes.records():
                lines.append(_line(self.cursor, record))
                size += len(lines[-1])
                if size >= BLOCK_BYTES:
                    yield b"".join(lines)
                    lines, size = [], 0
        lines.append(_line(self.cursor, {"end": {"types": _counts_json(without_zeros(totals))}}))
        yield b"".join(lines)

    def summary(self) -> Document:
        """The change as one JSON object without its rows: they are only counted."""
        return {"commit": self.cursor, **self._head(), "types": _counts_json(self.counts())}

    def to_json(self) -> Document:
        """The whole change as one JSON object, with every row of it: for a page of small commits."""
        found = self.to_json_within(None)
        assert found is not None  # noqa: S101 - there is no limit
        return found

    def to_json_within(self, most_rows: int | None) -> Document | None:
        """The same; None when it has more rows than that, of which no more are read."""
        totals: dict[str, TypeCounts] = {}
        rows: list[Document] = []
        for changes in self:
            totals.setdefault(changes.type.name, TypeCounts()).add(changes)
            if most_rows is not None and len(rows) + changes.count > most_rows:
                return None
            rows += changes.records()
        return {"commit": self.cursor, **self._head(), "types": _counts_json(without_zeros(totals)), "rows": rows}

    @contextmanager
    def _reading(self, pair: Pair) -> Iterator[None]:
        try:
            yield
        except PinUnreadableError as error:
            raise ChangeUnreadableError(self.cursor, pair.type.table_key, str(error)) from error

    def _head(self) -> Document:
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


def _line(commit_id: str, document: Document) -> bytes:
    return encode({"commit": commit_id, **document}) + b"\n"


def _counts_json(totals: Mapping[str, TypeCounts]) -> Document:
    return {name: one.to_json() for name, one in totals.items()}


class Asked:
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
class _Pin:
    """A table as a commit found it, or left it."""

    type: AnyType
    version: int


def change_set(
    tables: Callable[[str, int], Table],
    commit: Commit,
    schemas: tuple[str | None, str],
    catalogs: tuple[Catalog | None, Catalog],
    asked: Asked,
    *,
    unchanged: Collection[str] = (),
) -> ChangeSet:
    """What a commit changed: `schemas` and `catalogs` are those before and behind it. Nothing is read yet.

    What is the same in both catalogs has one identity, also where a merge found out that two branches added the same.
    `tables` gives a table by its location and version. Those at the locations `unchanged` are known to say what they
    said before.
    """
    before, after = _pins(commit, catalogs)
    places = {path: path for path in after if path in before}
    schema, lasting = None, {}
    if commit.schema_after is not None:
        places |= _moved(before, after)
        schema = _schema_change(commit, schemas, catalogs, before, after, places, asked)
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
                fills=None if change is None else fills_of(change),
            )
        )
    return ChangeSet(commit=commit, schema=schema, pairs=tuple(pairs))


def _pins(commit: Commit, catalogs: tuple[Catalog | None, Catalog]) -> tuple[dict[str, _Pin], dict[str, _Pin]]:
    """The tables that a commit touched, by location: as it found them, and as it left them, in declared order."""
    old, new = ({one.table_key: one for one in types_of(catalog)} if catalog else {} for catalog in catalogs)
    before: dict[str, _Pin] = {}
    left: dict[str, tuple[str, _Pin]] = {}
    for change in commit.changes:
        if change.before is not None:
            path = change.path if change.replaced is None else change.replaced.path
            before[path] = _Pin(old[change.table_key], int(change.before))
        if change.after is not None:
            left[change.table_key] = change.path, _Pin(new[change.table_key], int(change.after))
    return before, dict(left[key] for key in new if key in left)


def _moved(before: Mapping[str, _Pin], after: Mapping[str, _Pin]) -> dict[str, str]:
    """By the location behind a commit, that before it, of types whose table is another one.

    Two branches added the same type, each with a table of its own, and a merge took one of them.
    """
    left = {pin.type.identity: path for path, pin in before.items() if path not in after}
    fresh = {path: pin.type.identity for path, pin in after.items() if path not in before}
    return {path: left[identity] for path, identity in fresh.items() if identity in left}


def _schema_change(
    commit: Commit,
    schemas: tuple[str | None, str],
    catalogs: tuple[Catalog | None, Catalog],
    before: Mapping[str, _Pin],
    after: Mapping[str, _Pin],
    places: Mapping[str, str],
    asked: Asked,
) -> SchemaChange:
    """Tables tell who is who: one at the same place is the same type, and so is one that was not touched."""
    touched = {change.table_key for change in commit.changes}
    olds: Sequence[AnyType] = () if catalogs[0] is None else types_of(catalogs[0])
    untouched = {type_.table_key: type_ for type_ in olds if type_.table_key not in touched}
    twins = {after[path].type.table_key: before[place].type for path, place in places.items()} | untouched
    lasting = [TypeChange(twins[one.table_key], one) for one in types_of(catalogs[1]) if one.table_key in twins]
    return SchemaChange(
        before=schemas[0],
        after=schemas[1],
        added=tuple(pin.type for path, pin in after.items() if path not in places and asked.has(path, pin.type)),
        dropped=tuple(
            pin.type for path, pin in before.items() if path not in places.values() and asked.has(path, pin.type)
        ),
        lasting=tuple(one for one in lasting if _is_asked(one, asked, after)),
    )


def _is_asked(change: TypeChange, asked: Asked, after: Mapping[str, _Pin]) -> bool:
    path = next((path for path, pin in after.items() if pin.type is change.new), None)
    return asked.has(path, change.new, change.old)


def fills_of(change: TypeChange) -> Fills:
    """What a new schema fills the new properties of a type with."""
    values = change.new_columns().fills
    return {p.name: values.get(p.name) for p in change.added()}
