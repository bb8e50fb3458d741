"""What differs between two states of a graph: rows that came, went or say something else, type by type."""

from collections.abc import Iterator, Sequence

from omnigraph.commit.records import Snapshot
from omnigraph.lang.suggest import closest
from omnigraph.ops.row_changes import Changes, Pair, TypeCounts, encode, without_zeros
from omnigraph.ops.session import Session
from omnigraph.ops.table import TypeMissingError
from omnigraph.policy import Action
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.storage.dataset import Table


class Diff:
    """What has to be done to one state to make it another. Found when it is asked for, a part at a time.

    It costs what differs: tables with the same version, and fragments that both have, are not read.
    """

    def __init__(self, session: Session, before: Snapshot, after: Snapshot, types: Sequence[str] | None = None) -> None:
        for state in (before, after):
            session.allow(Action.READ, state.branch)
        self.before, self.after = before, after
        self._pairs = _pairs(session, before, after, types)

    def __iter__(self) -> Iterator[Changes]:
        for pair in self._pairs:
            yield from pair.changes()

    def counts(self) -> dict[str, TypeCounts]:
        """By type, how much differs; types in which nothing does are left out."""
        totals: dict[str, TypeCounts] = {}
        for pair in self._pairs:
            pair.count_into(totals.setdefault(pair.type.name, TypeCounts()))
        return without_zeros(totals)

    def to_json(self) -> dict[str, object]:
        """The two commits, and how much differs; what it is, is told by `json_lines`."""
        counts = {name: one.to_json() for name, one in self.counts().items()}
        return {"before": self.before.commit.id, "after": self.after.commit.id, "types": counts}

    def json_lines(self) -> Iterator[bytes]:
        """Each change as a JSON object with its line feed: type, id, kind, the properties before and after."""
        for changes in self:
            for record in changes.records():
                yield encode(record) + b"\n"


def _pairs(session: Session, before: Snapshot, after: Snapshot, names: Sequence[str] | None) -> list[Pair]:
    """The tables that differ, in declared order; the same table is known by its location, whatever its type's name."""
    old, new = session.catalog(before), session.catalog(after)
    _check_names(names, old, new)
    olds = {before.pins[type_.table_key].path: type_ for type_ in types_of(old)}
    pairs = []
    for type_ in types_of(new):
        twin = olds.pop(after.pins[type_.table_key].path, None)
        if names is not None and type_.name not in names and (twin is None or twin.name not in names):
            continue  # not even looked at: a state whose data was dropped may still be asked for other types
        pin, there = after.pin(type_.table_key), None if twin is None else before.pin(twin.table_key)
        if there is None or there.version != pin.version:
            earlier = None if there is None else Table(session.handles, there.path, there.version)
            later = Table(session.handles, pin.path, pin.version)
            pairs.append(Pair(type=type_, old_type=twin or type_, before=earlier, after=later))
    for path, type_ in olds.items():
        if names is None or type_.name in names:
            gone = Table(session.handles, path, before.pin(type_.table_key).version)
            pairs.append(Pair(type=type_, old_type=type_, before=gone, after=None))
    return pairs


def types_of(catalog: Catalog) -> list[AnyType]:
    """All types with a table, in declared order, nodes first."""
    return [*catalog.nodes.values(), *catalog.edges.values()]


def _check_names(names: Sequence[str] | None, *catalogs: Catalog) -> None:
    known = {type_.name for catalog in catalogs for type_ in types_of(catalog)}
    for name in names or ():
        if name not in known:
            raise TypeMissingError(name, closest(name, known))
