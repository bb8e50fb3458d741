"""What differs between two states of a graph: rows that came, went or say something else, type by type."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.migrating.type_changes import TypeChange
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.ops.row_diff import Pair, RowChangeCounts, RowChanges, drop_zeros, encode
from omnigraph.ops.schema_change import SchemaChange
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.schema.identity import join_aliases, renumber_catalog
from omnigraph.storage.lance_table import LanceTable


class Diff:
    """What has to be done to one state to make it another. Found when it is asked for, a part at a time.

    It costs what differs: tables with the same version, and fragments that both have, are not read. A property that
    only one of the states has is a difference of the rows that have a value of it.
    """

    def __init__(self, session: Session, before: Snapshot, after: Snapshot, types: Sequence[str] | None = None) -> None:
        for state in (before, after):
            session.allow(Action.READ, state.branch)
        self.before, self.after = before, after
        shapes = _CatalogPair(session, before, after)
        shapes.check_names(types)
        self.schema = shapes.build_change(types)
        """What differs between the schemas of the two; None when they say the same."""
        self._pairs = _build_pairs(session, shapes, types)

    def __repr__(self) -> str:
        return f"<Diff of {_format_state(self.before)} and {_format_state(self.after)}>"

    def __iter__(self) -> Iterator[RowChanges]:
        for pair in self._pairs:
            yield from pair.iter_changes()

    def counts(self) -> dict[str, RowChangeCounts]:
        """By type, how much differs; types in which nothing does are left out."""
        totals: dict[str, RowChangeCounts] = {}
        for pair in self._pairs:
            pair.count_into(totals.setdefault(pair.type.name, RowChangeCounts()))
        return drop_zeros(totals)

    def to_json(self) -> dict[str, object]:
        """The two commits, what differs between their schemas, and in how many rows; `json_lines` tells which."""
        return {
            "before": self.before.commit.id,
            "after": self.after.commit.id,
            "schema": None if self.schema is None else self.schema.to_json(),
            "types": {name: one.to_json() for name, one in self.counts().items()},
        }

    def json_lines(self) -> Iterator[bytes]:
        """Each change as a JSON object with its line feed: type, id, kind, the properties before and after."""
        for changes in self:
            for record in changes.records():
                yield encode(record) + b"\n"


def _format_state(state: Snapshot) -> str:
    return f"{state.branch}@{state.commit.id}"


class _CatalogPair:
    """The types of two states, and which of them are the same: what two branches added alike is one."""

    def __init__(self, session: Session, before: Snapshot, after: Snapshot) -> None:
        self.before, self.after = before, after
        self.same = join_aliases(before.manifest.schema.same, after.manifest.schema.same)
        self.old, self.new = (renumber_catalog(session.load_catalog(state), self.same) for state in (before, after))
        self.twins = _match_types(self.old, self.new)
        lasting = {twin.name for twin in self.twins.values()}
        self.gone = [type_ for type_ in list_types(self.old) if type_.name not in lasting]

    def check_names(self, names: Sequence[str] | None) -> None:
        """TypeMissingError for a name that neither state has."""
        known = {type_.name for catalog in (self.old, self.new) for type_ in list_types(catalog)}
        for name in names or ():
            if name not in known:
                raise TypeMissingError(name, find_closest(name, known))

    def build_change(self, names: Sequence[str] | None) -> SchemaChange | None:
        """What became of the types of these names, or of all."""
        old, new = (state.manifest.schema for state in (self.before, self.after))
        if old.fingerprint == new.fingerprint:
            return None
        lasting = [TypeChange(self.twins[one.name], one) for one in list_types(self.new) if one.name in self.twins]
        found = SchemaChange(
            before=old.id,
            after=new.id,
            added=tuple(one for one in list_types(self.new) if one.name not in self.twins and _is_selected(names, one)),
            dropped=tuple(one for one in self.gone if _is_selected(names, one)),
            lasting=tuple(one for one in lasting if one.old != one.new and _is_selected(names, one.old, one.new)),
        )
        return found if names is None or found.added or found.dropped or found.lasting else None


def _build_pairs(session: Session, shapes: _CatalogPair, names: Sequence[str] | None) -> list[Pair]:
    """The tables that differ, in declared order; those of types that are gone come last."""
    before, after, pairs = shapes.before, shapes.after, []
    for type_ in list_types(shapes.new):
        twin = shapes.twins.get(type_.name)
        if not _is_selected(names, type_, twin):
            continue  # not even looked at: a state whose data was dropped may still be asked for other types
        pin, there = after.pin(type_.table_key), None if twin is None else before.pin(twin.table_key)
        if there is None or (there.path, there.version) != (pin.path, pin.version):
            earlier = None if there is None else LanceTable(session.handles, there.path, there.version)
            later = LanceTable(session.handles, pin.path, pin.version)
            pairs.append(Pair(type=type_, old_type=twin or type_, before=earlier, after=later, same=shapes.same))
    for type_ in shapes.gone:
        if _is_selected(names, type_):
            pin = before.pin(type_.table_key)
            gone = LanceTable(session.handles, pin.path, pin.version)
            pairs.append(Pair(type=type_, old_type=type_, before=gone, after=None))
    return pairs


def _is_selected(names: Sequence[str] | None, *types: AnyType | None) -> bool:
    return names is None or any(type_ is not None and type_.name in names for type_ in types)


def _match_types(old: Catalog, new: Catalog) -> dict[str, AnyType]:
    """By the name of a later type, the earlier one: the same, whatever its name; else one of that kind and name."""
    left = {type_.identity: type_ for type_ in list_types(old)}
    found = {type_.name: left.pop(type_.identity) for type_ in list_types(new) if type_.identity in left}
    by_key = {type_.table_key: type_ for type_ in left.values()}
    others = (type_ for type_ in list_types(new) if type_.name not in found and type_.table_key in by_key)
    return {**found, **{type_.name: _as_twin(by_key[type_.table_key], type_) for type_ in others}}


def _as_twin(old: AnyType, new: AnyType) -> AnyType:
    """A type that is known by its name alone, with the identities of properties of that name and type."""
    identities = {(p.name, p.type): p.identity for p in new.properties}
    known = tuple(replace(p, identity=identities.get((p.name, p.type), p.identity)) for p in old.properties)
    return replace(old, properties=known)


def list_types(catalog: Catalog) -> list[AnyType]:
    """All types with a table, in declared order, nodes first."""
    return [*catalog.nodes.values(), *catalog.edges.values()]
