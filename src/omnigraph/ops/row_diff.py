"""The row changes of one type between two states: inserted, updated and deleted rows, computed in chunks."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.engine.changed_ranges import Fills
from omnigraph.engine.jsonl_encoding import encode_json_column
from omnigraph.engine.table_diff import (
    COMPARED_ROWS,
    TableDiff,
    iter_diff_chunks,
    iter_updated_rows,
    match_columns,
    plan_diff_chunks,
    read_rows_at,
)
from omnigraph.lru_cache import ByteCache
from omnigraph.schema.arrow import DST, END_NAMES, ID, SRC
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.schema.identity import Aliases
from omnigraph.storage.columnar_sets import Mask
from omnigraph.storage.lance_table import LanceTable, is_blob

ChangeKind: TypeAlias = Literal["inserted", "updated", "deleted"]
Document: TypeAlias = dict[str, object]

encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChanges:
    """A chunk of rows of one type with the same kind of change, without their blobs.

    Inserted rows have no `before`, deleted rows no `after`. `changed` holds, for each property of updated rows, which
    rows have a new value; it includes blobs.
    """

    type: AnyType
    """The type in the later state, if it has it."""
    old_type: AnyType
    """The type in the earlier state, if it had it."""
    kind: ChangeKind
    before: pa.Table | None = None
    after: pa.Table | None = None
    changed: Mapping[str, Mask] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of rows."""
        rows = self.after if self.after is not None else self.before
        return 0 if rows is None else int(rows.num_rows)

    def records(self) -> Iterator[Document]:
        """Yield each row as a JSON object: type, id, the change, the properties before and after."""
        head = encode_type_name(self.type)
        before = build_documents(self.old_type, self.before)
        after = build_documents(self.type, self.after)
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
    """The number of inserted, updated and deleted rows of a type, and of updated rows by changed property."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    properties: dict[str, int] = field(default_factory=dict)

    def add(self, changes: RowChanges) -> None:
        """Add the rows of a chunk."""
        # The counters are named after the kinds of change.
        setattr(self, changes.kind, getattr(self, changes.kind) + changes.count)
        self.add_properties(changes.changed)

    def add_properties(self, changed: Mapping[str, Mask]) -> None:
        """Add the changed properties of updated rows."""
        for name, mask in changed.items():
            self.properties[name] = self.properties.get(name, 0) + int(mask.sum())

    def to_json(self) -> Document:
        """Return the JSON form."""
        return {
            "inserted": self.inserted,
            "updated": self.updated,
            "deleted": self.deleted,
            "properties": self.properties,
        }


# The kinds of change of a chunk come in this order: inserted, updated, deleted.
_UPDATED = 1
_DELETED = 2


@dataclass(frozen=True, slots=True)
class ChangePosition:
    """A position in the changes of one table: a chunk, the number of a kind of change, and a row of that kind."""

    chunk: int = 0
    kind: int = 0
    row: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A table in two states; None counts as a table without rows."""

    type: AnyType
    old_type: AnyType
    before: LanceTable | None
    after: LanceTable | None
    fills: Fills | None = None
    """New properties with their fill values, which then do not count as changes; None to count them."""
    same: Aliases = field(default_factory=dict)
    """Aliases of column identities: two branches added the same column."""

    def iter_changes(self) -> Iterator[RowChanges]:
        """Yield the changes in a fixed order, in chunks of bounded size."""
        table = self._get_only_table()
        if table is not None:
            for batch in table.iter_batches(list_visible_columns(table), batch_rows=COMPARED_ROWS):
                yield self._build_unpaired(pa.Table.from_batches([batch]), is_new=self.before is None)
            return
        for _, changes in self.iter_changes_from(ChangePosition(), COMPARED_ROWS):
            yield changes

    def iter_changes_from(
        self, start: "ChangePosition", batch_rows: int, cache: ByteCache | None = None
    ) -> Iterator[tuple["ChangePosition", RowChanges]]:
        """Yield the changes from a position on, in the order of `iter_changes`, each chunk with its own position.

        What comes before the position is not read. With a cache, the ids of the two versions are matched once for
        all calls.

        Raises:
            ValueError: There is no such position.
        """
        table = self._get_only_table()
        if table is not None:
            yield from self._iter_only_rows(table, start, batch_rows)
            return
        before, after = self.before, self.after
        assert before is not None and after is not None  # noqa: PT018, S101 - there is no only table
        twins = match_columns(before, after, self.same)
        chunks = plan_diff_chunks(before, after, self.fills, self.same)
        if start.chunk >= max(len(chunks), 1) or start.kind > _DELETED:
            raise ValueError(start)
        for number, compute in enumerate(chunks[start.chunk :], start=start.chunk):
            versions = (before.path, before.cache_version, after.path, after.cache_version)
            key = ("row changes", *versions, tuple(sorted(self.same.items())), number)
            diff = _load_chunk(key, compute, cache)
            lists = (diff.inserted, diff.later, diff.deleted)
            for kind, rows in enumerate(lists):
                first = start.row if (number, kind) == (start.chunk, start.kind) else 0
                if first > len(rows):
                    raise ValueError(start)
                if (number, kind) < (start.chunk, start.kind):
                    continue
                for row in range(first, len(rows), batch_rows):
                    part = slice(row, row + batch_rows)
                    changes = self._read_changes(kind, TableDiff(*(side[part] for side in diff)), twins)
                    if changes is not None:
                        yield ChangePosition(number, kind, row), changes

    def _get_only_table(self) -> LanceTable | None:
        """Return the table that only one of the states has, if that is so: all its rows were inserted or deleted."""
        if self.before is None or self.after is None:
            return self.after or self.before
        return None

    def _iter_only_rows(
        self, table: LanceTable, start: "ChangePosition", batch_rows: int
    ) -> Iterator[tuple["ChangePosition", RowChanges]]:
        is_new = self.before is None
        kind = 0 if is_new else _DELETED
        count = table.count()
        if start.chunk or (start.row and start.kind != kind) or start.row > count:
            raise ValueError(start)
        for row in range(start.row, count, batch_rows):
            positions = np.arange(row, min(row + batch_rows, count))
            rows = read_rows_at(table, positions, list_visible_columns(table))
            yield ChangePosition(0, kind, row), self._build_unpaired(rows, is_new=is_new)

    def _read_changes(self, kind: int, part: TableDiff, old_names: Mapping[str, str]) -> RowChanges | None:
        """Return the changes of one kind among some rows, or None if all of them were rewritten with equal values."""
        before, after = self.before, self.after
        assert before is not None and after is not None  # noqa: PT018, S101 - the caller has both
        if kind != _UPDATED:
            table, positions = (after, part.inserted) if kind < _UPDATED else (before, part.deleted)
            rows = read_rows_at(table, positions, list_visible_columns(table))
            return self._build_unpaired(rows, is_new=kind < _UPDATED)
        for updated in iter_updated_rows(before, after, part, self.fills, old_names):
            return RowChanges(
                type=self.type,
                old_type=self.old_type,
                kind="updated",
                before=updated.before.select(list_visible_columns(before)),
                after=updated.after.select(list_visible_columns(after)),
                changed=updated.changed,
            )
        return None

    def count_into(self, counts: RowChangeCounts) -> None:
        """Add the number of changes to `counts`; reads only ids and rewritten rows."""
        before, after = self.before, self.after
        if before is None or after is None:
            counts.inserted += 0 if after is None else after.count()
            counts.deleted += 0 if before is None else before.count()
            return
        twins = match_columns(before, after, self.same)
        # Inserted and deleted rows are counted by position; updated ones must be read to compare their values.
        for diff in iter_diff_chunks(before, after, self.fills, self.same):
            counts.inserted += len(diff.inserted)
            counts.deleted += len(diff.deleted)
            for updated in iter_updated_rows(before, after, diff, self.fills, twins):
                counts.updated += updated.after.num_rows
                counts.add_properties(updated.changed)

    def _build_unpaired(self, rows: pa.Table, *, is_new: bool) -> RowChanges:
        if is_new:
            return RowChanges(type=self.type, old_type=self.old_type, kind="inserted", after=rows)
        return RowChanges(type=self.type, old_type=self.old_type, kind="deleted", before=rows)


def _load_chunk(key: tuple[object, ...], compute: Callable[[], TableDiff], cache: ByteCache | None) -> TableDiff:
    diff = None if cache is None else cache.get(key)
    if isinstance(diff, TableDiff):
        return diff
    diff = compute()
    if cache is not None:
        cache.put(key, diff, sum(positions.nbytes for positions in diff) + 512)
    return diff


def drop_zeros(totals: Mapping[str, RowChangeCounts]) -> dict[str, RowChangeCounts]:
    """Return the counts of those types that have changes."""
    return {name: counts for name, counts in totals.items() if counts.inserted or counts.updated or counts.deleted}


def encode_type_name(type_: AnyType) -> dict[str, str]:
    """Return the JSONL field that names a type."""
    return {"edge": type_.name} if isinstance(type_, EdgeType) else {"type": type_.name}


def to_jsonl_name(column: str) -> str:
    """Return the name of a column in graph JSONL."""
    return END_NAMES.get(column, column)


def build_documents(type_: AnyType, rows: pa.Table | None) -> list[Document]:
    """Return rows as graph JSONL objects, without their ids and blobs."""
    if rows is None:
        return []
    ends = (SRC, DST) if isinstance(type_, EdgeType) else ()
    columns = {END_NAMES[name]: rows.column(name).to_pylist() for name in ends}
    for p in type_.properties:
        if p.name in rows.schema.names:
            columns[p.name] = encode_json_column(p.type, rows.column(p.name).combine_chunks())
    names = list(columns)
    # `zip` of no columns would yield no rows.
    if not names:
        return [{} for _ in range(rows.num_rows)]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def list_visible_columns(table: LanceTable) -> list[str]:
    """Return the columns of a table without blobs."""
    return [field.name for field in table.schema if not is_blob(field)]
