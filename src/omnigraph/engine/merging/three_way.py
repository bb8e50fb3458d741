"""The three-way merge of one table's rows: what one side has to take from the other. Pure: no table is read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.engine.merging.conflict_values import ENDS, format_column
from omnigraph.engine.merging.conflicts import ConflictKind
from omnigraph.engine.merging.side_changes import SideChanges
from omnigraph.engine.writing.blobs import REFERENCE
from omnigraph.engine.writing.violations import MAX_REPORTED_PROBLEMS
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.columnar_sets import Mask, are_equal, concat_chunks, find_positions, is_among

Prefer: TypeAlias = Literal["kept", "taken"]
SameBlobs: TypeAlias = Callable[[str, pa.Array, pa.Array], Mask]
"""Row by row, whether the blobs of a column that two references lead to have the same bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """Rows about which the two sides don't agree, in one property or, if that is None, whether they should be there.

    The values are in their JSON form, and there are at most `MAX_REPORTED_PROBLEMS` of them.
    """

    kind: ConflictKind
    property: str | None
    ids: Sequence[str]
    base: Sequence[object]
    is_base_known: Sequence[bool]
    kept: Sequence[object]
    taken: Sequence[object]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMerge:
    """What is to be done to the table of the side that is kept. With clashes, it is only a part of it."""

    put: pa.Table
    deleted: pa.Array
    clashes: tuple[Clash, ...]
    spared: pa.Array
    """The ids of rows that stay although one side deleted them, because the preferred side changed them."""
    disputed: pa.Array
    """The ids of rows that the kept side has changed and the other one deleted, where none is preferred: a clash."""


def merge_three_way(
    type_: AnyType,
    kept: SideChanges,
    taken: SideChanges,
    *,
    prefer: Prefer | None = None,
    same_blobs: SameBlobs | None = None,
) -> RowMerge:
    """Bring the changes of one side to the other.

    Edits of different properties of one row come together, and equal ones are one. Where both say something else about
    the same thing, it is a clash; unless one side is preferred, whose word counts then.
    """
    merge = _ThreeWayMerge(type_, kept, taken, prefer, same_blobs or _refuse_blobs)
    put = [*merge.merge_inserts(), *merge.merge_updates()]
    deleted = merge.merge_deletes()
    changed = taken.deleted.filter(pa.array(is_among(taken.deleted, kept.after.column(ID))))
    spared = changed if prefer == "kept" else changed.slice(0, 0)
    if prefer == "taken":
        spared = kept.deleted.filter(pa.array(is_among(kept.deleted, taken.after.column(ID))))
    return RowMerge(
        put=pa.concat_tables([kept.inserted.slice(0, 0), *put]).combine_chunks(),
        deleted=deleted,
        clashes=tuple(merge.clashes),
        spared=spared,
        disputed=changed if prefer is None else changed.slice(0, 0),
    )


def _refuse_blobs(name: str, kept: pa.Array, taken: pa.Array) -> Mask:
    raise AssertionError(f"the blobs of {name} can't be compared: {len(kept)} and {len(taken)}")


class _ThreeWayMerge:
    """One table; clashes are collected on the way."""

    def __init__(
        self, type_: AnyType, kept: SideChanges, taken: SideChanges, prefer: Prefer | None, same_blobs: SameBlobs
    ) -> None:
        self.type, self.kept, self.taken, self.prefer, self.same_blobs = type_, kept, taken, prefer, same_blobs
        self.clashes: list[Clash] = []

    def merge_inserts(self) -> Iterator[pa.Table]:
        mine, theirs = self.kept.inserted, self.taken.inserted
        at = find_positions(theirs.column(ID), mine.column(ID))
        yield theirs.filter(pa.array(at < 0))
        both = np.flatnonzero(at >= 0)
        if len(both):
            mine, theirs = mine.take(pa.array(at[both])), theirs.take(pa.array(both))
            given = [_build_known_masks(part, side.absent) for part, side in ((mine, self.kept), (theirs, self.taken))]
            yield self._merge_rows(ConflictKind.DIVERGENT_INSERT, None, (mine, given[0]), (theirs, given[1]))

    def merge_updates(self) -> Iterator[pa.Table]:
        kept, taken = self.kept, self.taken
        at = find_positions(taken.after.column(ID), kept.after.column(ID))
        is_gone = is_among(taken.after.column(ID), kept.deleted)
        yield taken.after.filter(pa.array((at < 0) & ~is_gone))
        both = np.flatnonzero(at >= 0)
        if len(both):
            mine = kept.after.take(pa.array(at[both])), _select_rows(kept.changed, at[both])
            theirs = taken.after.take(pa.array(both)), _select_rows(taken.changed, both)
            base = taken.before.take(pa.array(both)), _select_rows(taken.unknown, both)
            yield self._merge_rows(ConflictKind.DIVERGENT_UPDATE, base, mine, theirs)
        if is_gone.any():
            self._add_delete_clash(taken, np.flatnonzero(is_gone), is_kept_deleted=True)
            if self.prefer == "taken":
                yield taken.after.filter(pa.array(is_gone))

    def merge_deletes(self) -> pa.Array:
        gone = self.taken.deleted
        is_changed = is_among(gone, self.kept.after.column(ID))
        is_left = ~is_among(gone, self.kept.deleted) & ~is_changed
        if is_changed.any():
            rows = find_positions(gone.filter(pa.array(is_changed)), self.kept.after.column(ID))
            self._add_delete_clash(self.kept, rows, is_kept_deleted=False)
            if self.prefer == "taken":
                is_left |= is_changed
        return gone.filter(pa.array(is_left))

    def _add_delete_clash(self, changes: SideChanges, rows: np.ndarray, *, is_kept_deleted: bool) -> None:
        if self.prefer is not None:
            return
        some = rows[:MAX_REPORTED_PROBLEMS]
        after = self._build_documents(changes.after, changes.changed, some)
        sure = {name: mask & ~changes.unknown.get(name, ~mask) for name, mask in changes.changed.items()}
        before = self._build_documents(changes.before, sure, some)
        nothing: list[object] = [None] * len(some)
        self.clashes.append(
            Clash(
                kind=ConflictKind.DELETE_VS_UPDATE,
                property=None,
                ids=changes.after.column(ID).take(pa.array(some)).to_pylist(),
                base=before,
                is_base_known=[bool(one) for one in before],
                kept=nothing if is_kept_deleted else after,
                taken=after if is_kept_deleted else nothing,
                total=len(rows),
            )
        )

    def _build_documents(self, rows: pa.Table, changed: Mapping[str, Mask], some: np.ndarray) -> list[object]:
        """Of each row those properties that were changed."""
        found: list[dict[str, object]] = [{} for _ in some]
        for name, mask in changed.items():
            if mask[some].any():
                values = self._format_values(rows, name, some)
                for place in np.flatnonzero(mask[some]):
                    found[place][ENDS.get(name, name)] = values[place]
        return list(found)

    def _format_values(self, rows: pa.Table, name: str, some: np.ndarray) -> list[object]:
        return format_column(self.type, name, concat_chunks(rows.column(name).take(pa.array(some))))

    def _merge_rows(
        self,
        kind: ConflictKind,
        base: tuple[pa.Table, Mapping[str, Mask]] | None,
        mine: tuple[pa.Table, Mapping[str, Mask]],
        theirs: tuple[pa.Table, Mapping[str, Mask]],
    ) -> pa.Table:
        """Rows that both sides wrote, in the same order; those in which something is taken."""
        (kept, mine_changed), (taken, theirs_changed) = mine, theirs
        takes, clashes = {}, {}
        for name in kept.schema.names:
            ours, others = mine_changed[name], theirs_changed[name]
            takes[name] = others & ~ours
            clashes[name] = self._find_differing(name, kept, taken, ours & others)
        self._follow_texts(mine_changed, theirs_changed, takes, clashes)
        if self.prefer is None:
            for name, mask in clashes.items():
                self._add_clash(kind, name, mask, base, kept, taken)
        elif self.prefer == "taken":
            takes = {name: mask | clashes[name] for name, mask in takes.items()}
        columns = [_choose_values(kept.column(name), taken.column(name), takes[name]) for name in kept.schema.names]
        is_put = np.logical_or.reduce(list(takes.values()))
        return pa.table(columns, schema=kept.schema).filter(pa.array(is_put))

    def _find_differing(self, name: str, kept: pa.Table, taken: pa.Table, asked: Mask) -> Mask:
        """Which of the asked rows have different values."""
        rows = np.flatnonzero(asked)
        found = np.zeros(len(asked), np.bool_)
        if len(rows):
            mine, theirs = (concat_chunks(part.column(name).take(pa.array(rows))) for part in (kept, taken))
            is_same = self.same_blobs(name, mine, theirs) if mine.type == REFERENCE else are_equal(mine, theirs)
            found[rows] = ~is_same
        return found

    def _follow_texts(
        self,
        mine_changed: Mapping[str, Mask],
        theirs_changed: Mapping[str, Mask],
        takes: dict[str, Mask],
        clashes: dict[str, Mask],
    ) -> None:
        """A vector that is computed from a text comes from where the text comes from, whatever was done to it."""
        for p in self.type.properties:
            if p.embedding is None:
                continue
            text = p.embedding.source
            is_ours = mine_changed[text] & ~theirs_changed[text]
            is_theirs = theirs_changed[text] & ~mine_changed[text]
            is_open = ~is_ours & ~is_theirs & ~clashes[text]
            goes_with_text = clashes[text] & (self.prefer == "taken")
            takes[p.name] = is_theirs | goes_with_text | (takes[p.name] & is_open)
            clashes[p.name] = clashes[p.name] & is_open

    def _add_clash(
        self,
        kind: ConflictKind,
        name: str,
        mask: Mask,
        base: tuple[pa.Table, Mapping[str, Mask]] | None,
        kept: pa.Table,
        taken: pa.Table,
    ) -> None:
        rows = np.flatnonzero(mask)
        if not len(rows):
            return
        some = rows[:MAX_REPORTED_PROBLEMS]
        before: list[object] = [None] * len(some)
        known = [True] * len(some)
        if base is not None:
            known = (~base[1].get(name, np.zeros(len(mask), np.bool_)))[some].tolist()
            values = self._format_values(base[0], name, some)
            before = [value if is_known else None for value, is_known in zip(values, known, strict=True)]
        self.clashes.append(
            Clash(
                kind=kind,
                property=ENDS.get(name, name),
                ids=kept.column(ID).take(pa.array(some)).to_pylist(),
                base=before,
                is_base_known=known,
                kept=self._format_values(kept, name, some),
                taken=self._format_values(taken, name, some),
                total=len(rows),
            )
        )


def _build_known_masks(rows: pa.Table, absent: frozenset[str]) -> dict[str, Mask]:
    """Inserted rows say something in every column that their side knows."""
    return {name: np.full(rows.num_rows, name not in absent) for name in rows.schema.names}


def _select_rows(changed: Mapping[str, Mask], rows: np.ndarray) -> dict[str, Mask]:
    return {name: mask[rows] for name, mask in changed.items()}


def _choose_values(kept: pa.ChunkedArray, taken: pa.ChunkedArray, is_taken: Mask) -> pa.Array:
    if not is_taken.any():
        return concat_chunks(kept)
    rows = np.arange(len(is_taken))
    both = pa.concat_arrays([concat_chunks(kept), concat_chunks(taken)])
    return both.take(pa.array(np.where(is_taken, rows + len(rows), rows)))
