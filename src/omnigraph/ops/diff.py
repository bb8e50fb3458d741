"""What differs between two states of a graph: rows that came, went or say something else, type by type."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec
import pyarrow as pa

from omnigraph.commit.records import Snapshot
from omnigraph.engine.differences import COMPARED_ROWS, differences, rows_at, updated_rows
from omnigraph.engine.json_rows import json_column
from omnigraph.lang.suggest import closest
from omnigraph.ops.session import Session
from omnigraph.ops.table import TypeMissingError
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType
from omnigraph.storage.column_sets import Mask, Positions
from omnigraph.storage.dataset import Table, is_blob

Kind: TypeAlias = Literal["inserted", "updated", "deleted"]
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Some rows of one type that changed alike; blobs are left out of them.

    A row that came has no `before`, one that went no `after`. `changed` says for each property of rows that were
    updated which of them have another value.
    """

    type: AnyType
    """As the later state has it, if it does."""
    old_type: AnyType
    """As the earlier state had it, if it did."""
    kind: Kind
    before: pa.Table | None = None
    after: pa.Table | None = None
    changed: Mapping[str, Mask] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many rows these are."""
        rows = self.after if self.after is not None else self.before
        return 0 if rows is None else int(rows.num_rows)


@dataclass(slots=True)
class TypeCounts:
    """How many rows of a type came, went and changed, and in how many each property did."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    properties: dict[str, int] = field(default_factory=dict)

    def add(self, changes: Changes) -> None:
        """So many more."""
        setattr(self, changes.kind, getattr(self, changes.kind) + changes.count)
        for name, mask in changes.changed.items():
            self.properties[name] = self.properties.get(name, 0) + int(mask.sum())

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "inserted": self.inserted,
            "updated": self.updated,
            "deleted": self.deleted,
            "properties": self.properties,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """A table in both states; one that is not there has no type and no rows."""

    type: AnyType
    old_type: AnyType
    before: Table | None
    after: Table | None


class Diff:
    """What has to be done to one state to make it another. Found when it is asked for, a part at a time.

    It costs what differs: tables with the same version, and fragments that both have, are not read.
    """

    def __init__(self, session: Session, before: Snapshot, after: Snapshot, types: Sequence[str] | None = None) -> None:
        self.before, self.after = before, after
        self._pairs = _pairs(session, before, after, types)

    def __iter__(self) -> Iterator[Changes]:
        for pair in self._pairs:
            yield from _changes(pair)

    def counts(self) -> dict[str, TypeCounts]:
        """By type, how much differs; types in which nothing does are left out."""
        found: dict[str, TypeCounts] = {}
        for changes in self:
            found.setdefault(changes.type.name, TypeCounts()).add(changes)
        return found

    def json_lines(self) -> Iterator[bytes]:
        """Each change as a JSON object with its line feed: type, id, kind, the properties before and after."""
        for changes in self:
            yield from _json_lines(changes)


def _pairs(session: Session, before: Snapshot, after: Snapshot, names: Sequence[str] | None) -> list[_Pair]:
    """The tables that differ, in declared order; the same table is known by its location, whatever its type's name."""
    old, new = session.catalog(before), session.catalog(after)
    _check_names(names, old, new)
    olds = {before.pin(type_.table_key).path: type_ for type_ in _types(old)}
    pairs = []
    for type_ in _types(new):
        pin = after.pin(type_.table_key)
        twin = olds.pop(pin.path, None)
        there = None if twin is None else before.pin(twin.table_key)
        is_asked = names is None or type_.name in names or (twin is not None and twin.name in names)
        if is_asked and (there is None or there.version != pin.version):
            earlier = None if there is None else Table(session.handles, there.path, there.version)
            later = Table(session.handles, pin.path, pin.version)
            pairs.append(_Pair(type=type_, old_type=twin or type_, before=earlier, after=later))
    for path, type_ in olds.items():
        if names is None or type_.name in names:
            gone = Table(session.handles, path, before.pin(type_.table_key).version)
            pairs.append(_Pair(type=type_, old_type=type_, before=gone, after=None))
    return pairs


def _types(catalog: Catalog) -> list[AnyType]:
    return [*catalog.nodes.values(), *catalog.edges.values()]


def _check_names(names: Sequence[str] | None, *catalogs: Catalog) -> None:
    known = {type_.name for catalog in catalogs for type_ in _types(catalog)}
    for name in names or ():
        if name not in known:
            raise TypeMissingError(name, closest(name, known))


def _changes(pair: _Pair) -> Iterator[Changes]:
    before, after = pair.before, pair.after
    if before is None or after is None:
        table = after or before
        assert table is not None  # noqa: S101 - a pair has one of the two
        for batch in table.batches(_shown(table), batch_rows=COMPARED_ROWS):
            yield _one_sided(pair, pa.Table.from_batches([batch]), is_new=before is None)
        return
    found = differences(before, after)
    for rows in _taken(after, found.inserted):
        yield _one_sided(pair, rows, is_new=True)
    for updated in updated_rows(before, after, found):
        yield Changes(
            type=pair.type,
            old_type=pair.old_type,
            kind="updated",
            before=updated.before.select(_shown(before)),
            after=updated.after.select(_shown(after)),
            changed=updated.changed,
        )
    for rows in _taken(before, found.deleted):
        yield _one_sided(pair, rows, is_new=False)


def _one_sided(pair: _Pair, rows: pa.Table, *, is_new: bool) -> Changes:
    if is_new:
        return Changes(type=pair.type, old_type=pair.old_type, kind="inserted", after=rows)
    return Changes(type=pair.type, old_type=pair.old_type, kind="deleted", before=rows)


def _shown(table: Table) -> list[str]:
    return [field.name for field in table.schema if not is_blob(field)]


def _taken(table: Table, positions: Positions) -> Iterator[pa.Table]:
    for start in range(0, len(positions), COMPARED_ROWS):
        yield rows_at(table, positions[start : start + COMPARED_ROWS], _shown(table))


def _json_lines(changes: Changes) -> Iterator[bytes]:
    type_ = changes.type
    head = {"edge": type_.name} if isinstance(type_, EdgeType) else {"type": type_.name}
    before, after = _documents(changes.old_type, changes.before), _documents(type_, changes.after)
    rows = changes.after if changes.after is not None else changes.before
    ids = [] if rows is None else rows.column(ID).to_pylist()
    for row, row_id in enumerate(ids):
        record: dict[str, object] = {**head, "id": row_id, "change": changes.kind}
        if changes.kind == "updated":
            record["changed"] = [_NAMES.get(name, name) for name, mask in changes.changed.items() if mask[row]]
        record |= {"before": before[row] if before else None, "after": after[row] if after else None}
        yield _encode(record) + b"\n"


_NAMES = {SRC: "from", DST: "to"}


def _documents(type_: AnyType, rows: pa.Table | None) -> list[dict[str, object]]:
    """Rows as graph JSONL has them, without their ids and blobs."""
    if rows is None:
        return []
    ends = (SRC, DST) if isinstance(type_, EdgeType) else ()
    columns = {_NAMES[name]: rows.column(name).to_pylist() for name in ends}
    for p in type_.properties:
        if p.name in rows.schema.names:
            columns[p.name] = json_column(p.type, rows.column(p.name).combine_chunks())
    names = list(columns)
    if not names:
        return [{} for _ in range(rows.num_rows)]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]
