"""Rows of one type that came, went or say something else: found a part at a time, told alike by every door."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec
import pyarrow as pa

from omnigraph.engine.changed_ranges import Fills
from omnigraph.engine.jsonl_encoding import encode_json_column
from omnigraph.engine.table_diff import COMPARED_ROWS, iter_diff_chunks, iter_updated_rows, match_columns, read_rows_at
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.schema.identity import Aliases
from omnigraph.storage.columnar_sets import Mask, Positions
from omnigraph.storage.lance_table import LanceTable, is_blob

ChangeKind: TypeAlias = Literal["inserted", "updated", "deleted"]
Document: TypeAlias = dict[str, object]

encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChanges:
    """Some rows of one type that changed alike; blobs are left out of them.

    A row that came has no `before`, one that went no `after`. `changed` says for each property of rows that were
    updated which of them have another value; blobs are among these.
    """

    type: AnyType
    """As the later state has it, if it does."""
    old_type: AnyType
    """As the earlier state had it, if it did."""
    kind: ChangeKind
    before: pa.Table | None = None
    after: pa.Table | None = None
    changed: Mapping[str, Mask] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many rows these are."""
        rows = self.after if self.after is not None else self.before
        return 0 if rows is None else int(rows.num_rows)

    def records(self) -> Iterator[Document]:
        """Each row as a JSON object: type, id, the change, the properties before and after."""
        head = encode_type_name(self.type)
        before, after = build_documents(self.old_type, self.before), build_documents(self.type, self.after)
        rows = self.after if self.after is not None else self.before
        ids = [] if rows is None else rows.column(ID).to_pylist()
        for row, row_id in enumerate(ids):
            record: Document = {**head, "id": row_id, "change": self.kind}
            if self.kind == "updated":
                record["changed"] = [to_jsonl_name(name) for name, mask in self.changed.items() if mask[row]]
            record |= {"before": before[row] if before else None, "after": after[row] if after else None}
            yield record


@dataclass(slots=True)
class RowChangeCounts:
    """How many rows of a type came, went and changed, and in how many each property did."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    properties: dict[str, int] = field(default_factory=dict)

    def add(self, changes: RowChanges) -> None:
        """So many more."""
        setattr(self, changes.kind, getattr(self, changes.kind) + changes.count)
        self.add_properties(changes.changed)

    def add_properties(self, changed: Mapping[str, Mask]) -> None:
        """So many more properties of updated rows."""
        for name, mask in changed.items():
            self.properties[name] = self.properties.get(name, 0) + int(mask.sum())

    def to_json(self) -> Document:
        """What every door shows."""
        return {
            "inserted": self.inserted,
            "updated": self.updated,
            "deleted": self.deleted,
            "properties": self.properties,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A table in two states; one that is not there has no rows."""

    type: AnyType
    old_type: AnyType
    before: LanceTable | None
    after: LanceTable | None
    fills: Fills | None = None
    """If what a new schema brought to every row shall not count: the new properties, and what they were filled with."""
    same: Aliases = field(default_factory=dict)
    """Identities of columns that stand for others: two branches added the same."""

    def iter_changes(self) -> Iterator[RowChanges]:
        """What differs, in the same order whoever asks; a bounded number of rows at once."""
        before, after = self.before, self.after
        if before is None or after is None:
            table = after or before
            if table is not None:
                for batch in table.iter_batches(list_visible_columns(table), batch_rows=COMPARED_ROWS):
                    yield self._build_one_sided(pa.Table.from_batches([batch]), is_new=before is None)
            return
        twins = match_columns(before, after, self.same)
        for found in iter_diff_chunks(before, after, self.fills, self.same):
            for rows in _iter_rows(after, found.inserted):
                yield self._build_one_sided(rows, is_new=True)
            for updated in iter_updated_rows(before, after, found, self.fills, twins):
                yield RowChanges(
                    type=self.type,
                    old_type=self.old_type,
                    kind="updated",
                    before=updated.before.select(list_visible_columns(before)),
                    after=updated.after.select(list_visible_columns(after)),
                    changed=updated.changed,
                )
            for rows in _iter_rows(before, found.deleted):
                yield self._build_one_sided(rows, is_new=False)

    def count_into(self, counts: RowChangeCounts) -> None:
        """Add how much differs; only rows that were written anew are read, and ids."""
        before, after = self.before, self.after
        if before is None or after is None:
            counts.inserted += 0 if after is None else after.count()
            counts.deleted += 0 if before is None else before.count()
            return
        twins = match_columns(before, after, self.same)
        for found in iter_diff_chunks(before, after, self.fills, self.same):
            counts.inserted += len(found.inserted)
            counts.deleted += len(found.deleted)
            for updated in iter_updated_rows(before, after, found, self.fills, twins):
                counts.updated += updated.after.num_rows
                counts.add_properties(updated.changed)

    def _build_one_sided(self, rows: pa.Table, *, is_new: bool) -> RowChanges:
        if is_new:
            return RowChanges(type=self.type, old_type=self.old_type, kind="inserted", after=rows)
        return RowChanges(type=self.type, old_type=self.old_type, kind="deleted", before=rows)


def drop_zeros(totals: Mapping[str, RowChangeCounts]) -> dict[str, RowChangeCounts]:
    """The counts of types in which something changed."""
    return {name: one for name, one in totals.items() if one.inserted or one.updated or one.deleted}


def encode_type_name(type_: AnyType) -> dict[str, str]:
    """A type as graph JSONL names it."""
    return {"edge": type_.name} if isinstance(type_, EdgeType) else {"type": type_.name}


_JSONL_NAMES = {SRC: "from", DST: "to"}


def to_jsonl_name(column: str) -> str:
    """What a column is called in graph JSONL."""
    return _JSONL_NAMES.get(column, column)


def build_documents(type_: AnyType, rows: pa.Table | None) -> list[Document]:
    """Rows as graph JSONL has them, without their ids and blobs."""
    if rows is None:
        return []
    ends = (SRC, DST) if isinstance(type_, EdgeType) else ()
    columns = {_JSONL_NAMES[name]: rows.column(name).to_pylist() for name in ends}
    for p in type_.properties:
        if p.name in rows.schema.names:
            columns[p.name] = encode_json_column(p.type, rows.column(p.name).combine_chunks())
    names = list(columns)
    if not names:
        return [{} for _ in range(rows.num_rows)]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def list_visible_columns(table: LanceTable) -> list[str]:
    """The columns of a table that are shown: all but blobs."""
    return [field.name for field in table.schema if not is_blob(field)]


def _iter_rows(table: LanceTable, positions: Positions) -> Iterator[pa.Table]:
    for start in range(0, len(positions), COMPARED_ROWS):
        yield read_rows_at(table, positions[start : start + COMPARED_ROWS], list_visible_columns(table))
