"""Compare two states of a graph: rows inserted, deleted or updated, type by type."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.engine.migrating.type_changes import TypeChange
from omnigraph.engine.query_budget import Budget
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.limits import ResourceLimits, resolve_budget
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.ops.row_diff import ChangePosition, Pair, RowChangeCounts, RowChanges, drop_zeros, encode
from omnigraph.ops.schema_change import SchemaChange
from omnigraph.ops.session import Session, hide_rows
from omnigraph.ops.snapshot_reader import SnapshotReader
from omnigraph.ops.surroundings import Surroundings, read_surroundings
from omnigraph.policy import Action
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.schema.identity import join_aliases, renumber_catalog

# Rows that are read together for a page: many may have been rewritten with equal values, which no page shows. The same
# for all pages, because a position counts the changes in such a batch.
PAGE_BATCH_ROWS = 256


@dataclass(frozen=True, slots=True)
class DiffPosition:
    """A position in a diff: a type, a position in its changes, and the changes there that earlier pages have."""

    type: str = ""
    """Empty: the first type."""
    row: ChangePosition = field(default_factory=ChangePosition)
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class DiffPage:
    """A page of a diff, and where the next one begins; None if this is the last."""

    lines: list[bytes]
    next: DiffPosition | None


class Diff:
    """The changes that turn one state into another, computed lazily and a chunk at a time.

    The cost follows the difference: tables with the same version, and fragments that both states have, are not read. A
    property that only one of the states has is a difference of the rows that have a value for it.
    """

    def __init__(self, session: Session, before: Snapshot, after: Snapshot, types: Sequence[str] | None = None) -> None:
        # The states may be on two branches, each with its own policy.
        for state in (before, after):
            session.allow(Action.READ, state.branch, hides_rows=True)
        self.before, self.after = before, after
        self._session = session
        catalogs = CatalogPair(session, before, after)
        catalogs.check_names(types)
        self.schema = catalogs.build_change(types)
        """The difference between the two schemas; None if they are equal."""
        self._pairs = build_pairs(session, catalogs, types)

    def __repr__(self) -> str:
        return f"<Diff of {_format_state(self.before)} and {_format_state(self.after)}>"

    def __iter__(self) -> Iterator[RowChanges]:
        for pair in self._pairs:
            yield from pair.iter_changes()

    def counts(self) -> dict[str, RowChangeCounts]:
        """Return the number of changed rows by type, without types that have none."""
        totals: dict[str, RowChangeCounts] = {}
        for pair in self._pairs:
            pair.count_into(totals.setdefault(pair.type.name, RowChangeCounts()))
        return drop_zeros(totals)

    def to_json(self) -> dict[str, object]:
        """Return the JSON form: both commits, the schema change and row counts. `json_lines` has the rows."""
        return {
            "before": self.before.commit.id,
            "after": self.after.commit.id,
            "schema": None if self.schema is None else self.schema.to_json(),
            "types": {name: counts.to_json() for name, counts in self.counts().items()},
        }

    def read_page(self, start: "DiffPosition", limit: int) -> "DiffPage":
        """Return at most `limit` changes from a position on, as lines of JSON; what comes before it is not read.

        Raises:
            ValueError: These two states have no such position.
        """
        numbers = {pair.type.name: number for number, pair in enumerate(self._pairs)}
        first = numbers.get(start.type, -1) if start.type else 0
        if first < 0:
            raise ValueError(start)
        lines: list[bytes] = []
        position, skipped = start.row, start.skipped
        for pair in self._pairs[first:]:
            for chunk_position, changes in pair.iter_changes_from(position, PAGE_BATCH_ROWS, self._session.reads.lru):
                self._session.check_cancelled()
                if skipped >= changes.count:
                    raise ValueError(start)
                for number, record in enumerate(changes.records()):
                    if number < skipped:
                        continue
                    if len(lines) == limit:
                        return DiffPage(lines, DiffPosition(pair.type.name, chunk_position, number))
                    lines.append(encode(record))
                skipped = 0
            position = ChangePosition()
        return DiffPage(lines, None)

    def read_surroundings(
        self, changes: Sequence[Mapping[str, Any]], limit: int, budget: Budget | None = None
    ) -> Surroundings:
        """Return what lies around some of the changes, unchanged, in the state after them; at most `limit` edges.

        Raises:
            BadArgumentError: There are too many edges asked for.
            QueryTimeoutError, QueryMemoryError: It exceeds the budget, or the limits of the settings.
        """
        limits = ResourceLimits(budget=budget)
        reader = SnapshotReader(self._session, self.after, resolve_budget(self._session, limits))
        return read_surroundings(reader, changes, limit)

    def json_lines(self) -> Iterator[bytes]:
        """Yield each change as a line of JSON: type, id, kind, and the properties before and after."""
        for changes in self:
            for record in changes.records():
                yield encode(record) + b"\n"


def _format_state(state: Snapshot) -> str:
    return f"{state.branch}@{state.commit.id}"


class CatalogPair:
    """The types of two states, matched by identity.

    A type that two branches added alike, and that a merge unified, counts as one.
    """

    def __init__(self, session: Session, before: Snapshot, after: Snapshot) -> None:
        self.before, self.after = before, after
        self.same = join_aliases(before.manifest.schema.same, after.manifest.schema.same)
        self.old = renumber_catalog(session.load_catalog(before), self.same)
        self.new = renumber_catalog(session.load_catalog(after), self.same)
        self.old_types = _match_types(self.old, self.new)
        lasting = {type_.name for type_ in self.old_types.values()}
        self.dropped = [type_ for type_ in self.old.types if type_.name not in lasting]

    def check_names(self, names: Sequence[str] | None) -> None:
        """Check that at least one of the states has each type.

        Raises:
            TypeMissingError: Neither state has a type of that name.
        """
        type_names = {type_.name for catalog in (self.old, self.new) for type_ in catalog.types}
        for name in names or ():
            if name not in type_names:
                raise TypeMissingError(name, find_closest(name, type_names))

    def build_change(self, names: Sequence[str] | None) -> SchemaChange | None:
        """Return how the schemas differ in the selected types, or None if they don't."""
        old = self.before.manifest.schema
        new = self.after.manifest.schema
        if old.fingerprint == new.fingerprint:
            return None
        new_types = self.new.types
        matched = [TypeChange(self.old_types[type_.name], type_) for type_ in new_types if type_.name in self.old_types]
        added = (type_ for type_ in new_types if type_.name not in self.old_types)
        change = SchemaChange(
            before=old.id,
            after=new.id,
            added=tuple(type_ for type_ in added if _is_selected(names, type_)),
            dropped=tuple(type_ for type_ in self.dropped if _is_selected(names, type_)),
            lasting=tuple(pair for pair in matched if pair.old != pair.new and _is_selected(names, pair.old, pair.new)),
        )
        # Without a selection, schemas with other fingerprints differ even if no type does.
        return change if names is None or change.added or change.dropped or change.lasting else None


def build_pairs(session: Session, catalogs: CatalogPair, names: Sequence[str] | None) -> list[Pair]:
    """Return the tables that differ, in declared order; those of dropped types come last."""
    pairs: list[Pair] = []
    # Their rows are read later, by calls with limits of their own.
    states = (catalogs.before, catalogs.after)
    tables = [hide_rows(session, SnapshotTables(session.handles, state)) for state in states]
    for type_ in catalogs.new.types:
        old_type = catalogs.old_types.get(type_.name)
        if not _is_selected(names, type_, old_type):
            continue  # its pin is not even resolved: a state that lost the data of one type can still be compared
        after = tables[1].open_table(type_.table_key)
        before = None if old_type is None else tables[0].open_table(old_type.table_key)
        # The same version at the same location has the same rows, unless others are left out of it.
        if before is None or (before.path, before.cache_version) != (after.path, after.cache_version):
            pairs.append(Pair(type=type_, old_type=old_type or type_, before=before, after=after, same=catalogs.same))
    for type_ in catalogs.dropped:
        if _is_selected(names, type_):
            before = tables[0].open_table(type_.table_key)
            pairs.append(Pair(type=type_, old_type=type_, before=before, after=None))
    return pairs


def _is_selected(names: Sequence[str] | None, *types: AnyType | None) -> bool:
    return names is None or any(type_ is not None and type_.name in names for type_ in types)


def _match_types(old: Catalog, new: Catalog) -> dict[str, AnyType]:
    """Return the old type of each new one, by the new name: the same identity, else the same kind and name."""
    unmatched = {type_.identity: type_ for type_ in old.types}
    new_types = new.types
    by_name = {type_.name: unmatched.pop(type_.identity) for type_ in new_types if type_.identity in unmatched}
    # A type that was dropped and declared again has another identity. Its rows are compared all the same.
    by_key = {type_.table_key: type_ for type_ in unmatched.values()}
    redeclared = [type_ for type_ in new_types if type_.name not in by_name and type_.table_key in by_key]
    by_name.update({type_.name: _adopt_identities(by_key[type_.table_key], type_) for type_ in redeclared})
    return by_name


def _adopt_identities(old: AnyType, new: AnyType) -> AnyType:
    """Return the old type with the property identities of the new one, where names and types are equal."""
    identities = {(p.name, p.type): p.identity for p in new.properties}
    properties = tuple(replace(p, identity=identities.get((p.name, p.type), p.identity)) for p in old.properties)
    return replace(old, properties=properties)
