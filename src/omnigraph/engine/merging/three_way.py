"""Three-way merge of the rows of one table. Pure: no table is read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.engine.constraints.violations import MAX_REPORTED_PROBLEMS
from omnigraph.engine.merging.chosen_values import ChosenValues
from omnigraph.engine.merging.conflict_values import format_column
from omnigraph.engine.merging.conflicts import ConflictKind
from omnigraph.engine.merging.side_changes import SideChanges
from omnigraph.engine.writing.blobs import REFERENCE
from omnigraph.schema.arrow import END_NAMES, ID
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.columnar_sets import Mask, are_equal, concat_chunks, find_positions, is_among

Prefer: TypeAlias = Literal["kept", "taken"]
SameBlobs: TypeAlias = Callable[[str, pa.Array, pa.Array], Mask]
"""Compares two arrays of references to blobs of a column: True where the bytes are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """Rows on which the two sides disagree: in one property or, if that is None, whether the row exists.

    The values are in their JSON form, and there may be fewer than `total`, which counts all.
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
    """The changes to apply to the table of the kept side; incomplete if there are clashes."""

    put: pa.Table
    deleted: pa.Array
    clashes: tuple[Clash, ...]
    spared: pa.Array
    """The ids of rows that stay although one side deleted them, because the preferred side changed them."""
    disputed: pa.Array
    """The ids of rows that the kept side changed and the other one deleted, if no side is preferred: clashes."""


def merge_three_way(
    type_: AnyType,
    kept: SideChanges,
    taken: SideChanges,
    *,
    prefer: Prefer | None = None,
    same_blobs: SameBlobs | None = None,
    chosen: ChosenValues | None = None,
    limit: int = MAX_REPORTED_PROBLEMS,
) -> RowMerge:
    """Merge the changes of the taken side into the kept side.

    Changes to different properties of a row are combined, and equal changes count once. Different changes to the same
    property are a clash, unless one side is preferred: then its value wins. With `chosen`, every clash has a decision.
    At most `limit` rows of each clash are listed.
    """
    merge = _ThreeWayMerge(type_, kept, taken, prefer, same_blobs or _refuse_blobs, chosen, limit)
    put = [*merge.merge_inserts(), *merge.merge_updates(), *merge.revise_changed()]
    deleted = merge.merge_deletes()
    # Changed on one side and deleted on the other: the preferred side decides, else it is a clash.
    changed = taken.deleted.filter(pa.array(is_among(taken.deleted, kept.after.column(ID))))
    spared = changed if prefer == "kept" else changed.slice(0, 0)
    if prefer == "taken":
        spared = kept.deleted.filter(pa.array(is_among(kept.deleted, taken.after.column(ID))))
    if chosen is not None and prefer is None:
        revived = kept.deleted.filter(pa.array(is_among(kept.deleted, taken.after.column(ID))))
        spared = pa.concat_arrays(
            [
                changed.filter(pa.array(chosen.find_staying(changed, is_kept_deleted=False))),
                revived.filter(pa.array(chosen.find_staying(revived, is_kept_deleted=True))),
            ]
        )
    return RowMerge(
        put=pa.concat_tables([kept.inserted.slice(0, 0), *put]).combine_chunks(),
        deleted=deleted,
        clashes=tuple(merge.clashes),
        spared=spared,
        disputed=changed if prefer is None and chosen is None else changed.slice(0, 0),
    )


def _refuse_blobs(name: str, kept: pa.Array, taken: pa.Array) -> Mask:
    # Callers without `same_blobs` merge types without blobs.
    raise AssertionError(f"the blobs of {name} can't be compared: {len(kept)} and {len(taken)}")


class _ThreeWayMerge:
    """The state of merging one table; collects the clashes."""

    def __init__(
        self,
        type_: AnyType,
        kept: SideChanges,
        taken: SideChanges,
        prefer: Prefer | None,
        same_blobs: SameBlobs,
        chosen: ChosenValues | None,
        limit: int,
    ) -> None:
        self.type = type_
        self.kept = kept
        self.taken = taken
        self.prefer = prefer
        self.same_blobs = same_blobs
        # A preferred side leaves nothing to decide about rows.
        self.chosen = chosen if prefer is None else None
        self.limit = limit
        self.clashes: list[Clash] = []

    def merge_inserts(self) -> Iterator[pa.Table]:
        mine, theirs = self.kept.inserted, self.taken.inserted
        at = find_positions(theirs.column(ID), mine.column(ID))
        yield theirs.filter(pa.array(at < 0))
        both = np.flatnonzero(at >= 0)
        if len(both):
            mine = mine.take(pa.array(at[both]))
            theirs = theirs.take(pa.array(both))
            my_values = _build_known_masks(mine, self.kept.absent)
            their_values = _build_known_masks(theirs, self.taken.absent)
            yield self._merge_rows(ConflictKind.DIVERGENT_INSERT, None, (mine, my_values), (theirs, their_values))

    def merge_updates(self) -> Iterator[pa.Table]:
        kept, taken = self.kept, self.taken
        at = find_positions(taken.after.column(ID), kept.after.column(ID))
        is_deleted = is_among(taken.after.column(ID), kept.deleted)
        # Rows that only the taken side touched go over whole; the rest is merged property by property.
        yield taken.after.filter(pa.array((at < 0) & ~is_deleted))
        both = np.flatnonzero(at >= 0)
        if len(both):
            mine = kept.after.take(pa.array(at[both])), _select_rows(kept.changed, at[both])
            theirs = taken.after.take(pa.array(both)), _select_rows(taken.changed, both)
            base = taken.before.take(pa.array(both)), _select_rows(taken.unknown, both)
            yield self._merge_rows(ConflictKind.DIVERGENT_UPDATE, base, mine, theirs)
        if is_deleted.any():
            self._add_delete_clash(taken, np.flatnonzero(is_deleted), is_kept_deleted=True)
            if self.prefer == "taken":
                yield taken.after.filter(pa.array(is_deleted))
            elif self.chosen is not None:
                yield self._revise(self.chosen, taken, np.flatnonzero(is_deleted), is_kept_deleted=True)[0]

    def revise_changed(self) -> Iterator[pa.Table]:
        """Yield rows that the kept side changed and the other one deleted, and that get values of neither side."""
        rows = find_positions(self.taken.deleted, self.kept.after.column(ID))
        rows = rows[rows >= 0]
        if self.chosen is not None and len(rows):
            revised, is_revised = self._revise(self.chosen, self.kept, rows, is_kept_deleted=False)
            yield revised.filter(pa.array(is_revised))

    def _revise(
        self, chosen: ChosenValues, changes: SideChanges, rows: np.ndarray, *, is_kept_deleted: bool
    ) -> tuple[pa.Table, Mask]:
        """Return those of the changed rows that stay, as they were decided to be, and which were revised."""
        staying = rows[
            chosen.find_staying(changes.after.column(ID).take(pa.array(rows)), is_kept_deleted=is_kept_deleted)
        ]
        after, before = (part.take(pa.array(staying)) for part in (changes.after, changes.before))
        return chosen.revise(after, before, _select_rows(changes.changed, staying))

    def merge_deletes(self) -> pa.Array:
        deleted = self.taken.deleted
        is_changed = is_among(deleted, self.kept.after.column(ID))
        # Rows that both sides deleted need nothing more.
        is_to_delete = ~is_among(deleted, self.kept.deleted) & ~is_changed
        if is_changed.any():
            rows = find_positions(deleted.filter(pa.array(is_changed)), self.kept.after.column(ID))
            self._add_delete_clash(self.kept, rows, is_kept_deleted=False)
            if self.prefer == "taken":
                is_to_delete |= is_changed
            elif self.chosen is not None:
                staying = self.chosen.find_staying(deleted.filter(pa.array(is_changed)), is_kept_deleted=False)
                is_to_delete[np.flatnonzero(is_changed)[~staying]] = True
        return deleted.filter(pa.array(is_to_delete))

    def _add_delete_clash(self, changes: SideChanges, rows: np.ndarray, *, is_kept_deleted: bool) -> None:
        # With a preferred side there are no clashes: the caller applies its change.
        if self.prefer is not None or self.chosen is not None:
            return
        reported = rows[: self.limit]
        after = self._build_documents(changes.after, changes.changed, reported)
        # A column without an entry in `unknown` is known everywhere: `mask & ~~mask` is `mask`.
        is_known = {name: mask & ~changes.unknown.get(name, ~mask) for name, mask in changes.changed.items()}
        before = self._build_documents(changes.before, is_known, reported)
        no_values: list[object] = [None] * len(reported)
        self.clashes.append(
            Clash(
                kind=ConflictKind.DELETE_VS_UPDATE,
                property=None,
                ids=changes.after.column(ID).take(pa.array(reported)).to_pylist(),
                base=before,
                is_base_known=[bool(document) for document in before],
                kept=no_values if is_kept_deleted else after,
                taken=after if is_kept_deleted else no_values,
                total=len(rows),
            )
        )

    def _build_documents(self, rows: pa.Table, changed: Mapping[str, Mask], selected: np.ndarray) -> list[object]:
        """Return the changed properties of each selected row as a dict."""
        documents: list[dict[str, object]] = [{} for _ in selected]
        for name, mask in changed.items():
            if mask[selected].any():
                values = self._format_values(rows, name, selected)
                for position in np.flatnonzero(mask[selected]):
                    documents[position][END_NAMES.get(name, name)] = values[position]
        return list(documents)

    def _format_values(self, rows: pa.Table, name: str, selected: np.ndarray) -> list[object]:
        return format_column(self.type, name, concat_chunks(rows.column(name).take(pa.array(selected))))

    def _merge_rows(
        self,
        kind: ConflictKind,
        base: tuple[pa.Table, Mapping[str, Mask]] | None,
        mine: tuple[pa.Table, Mapping[str, Mask]],
        theirs: tuple[pa.Table, Mapping[str, Mask]],
    ) -> pa.Table:
        """Merge rows that both sides wrote, given in the same order; return those that take a value."""
        kept, mine_changed = mine
        taken, theirs_changed = theirs
        takes = {}
        clashes = {}
        for name in kept.schema.names:
            takes[name] = theirs_changed[name] & ~mine_changed[name]
            clashes[name] = self._find_differing(name, kept, taken, mine_changed[name] & theirs_changed[name])
        self._follow_texts(mine_changed, theirs_changed, takes, clashes)
        if self.chosen is not None:
            ids = kept.column(ID)
            taken_by_choice = {name: self.chosen.find_taken(name, ids, mask) for name, mask in clashes.items()}
            for p in self.type.properties:
                if p.embedding is not None:
                    taken_by_choice[p.name] = taken_by_choice[p.name] | taken_by_choice[p.embedding.source]
            takes = {name: mask | taken_by_choice[name] for name, mask in takes.items()}
        elif self.prefer is None:
            for name, mask in clashes.items():
                self._add_clash(kind, name, mask, base, kept, taken)
        elif self.prefer == "taken":
            takes = {name: mask | clashes[name] for name, mask in takes.items()}
        columns = [_choose_values(kept.column(name), taken.column(name), takes[name]) for name in kept.schema.names]
        is_put = np.logical_or.reduce(list(takes.values()))
        merged = pa.table(columns, schema=kept.schema)
        if self.chosen is not None:
            merged, is_set = self.chosen.set_chosen(merged, None if base is None else base[0], clashes)
            is_put = is_put | is_set
        return merged.filter(pa.array(is_put))

    def _find_differing(self, name: str, kept: pa.Table, taken: pa.Table, candidates: Mask) -> Mask:
        """Return which of the candidate rows have different values in a column."""
        rows = np.flatnonzero(candidates)
        differs = np.zeros(len(candidates), np.bool_)
        if len(rows):
            mine, theirs = (concat_chunks(part.column(name).take(pa.array(rows))) for part in (kept, taken))
            # References differ even for equal blobs, so blobs are compared by their bytes.
            is_same = self.same_blobs(name, mine, theirs) if mine.type == REFERENCE else are_equal(mine, theirs)
            differs[rows] = ~is_same
        return differs

    def _follow_texts(
        self,
        mine_changed: Mapping[str, Mask],
        theirs_changed: Mapping[str, Mask],
        takes: dict[str, Mask],
        clashes: dict[str, Mask],
    ) -> None:
        """Take each embedding from the side its source text comes from, whatever either side did to the embedding."""
        for p in self.type.properties:
            if p.embedding is None:
                continue
            text = p.embedding.source
            is_ours = mine_changed[text] & ~theirs_changed[text]
            is_theirs = theirs_changed[text] & ~mine_changed[text]
            # Neither side changed the text, or both did alike: then the embeddings themselves are merged.
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
        reported = rows[: self.limit]
        before: list[object] = [None] * len(reported)
        is_base_known = [True] * len(reported)
        if base is not None:
            base_rows, unknown = base
            is_base_known = (~unknown.get(name, np.zeros(len(mask), np.bool_)))[reported].tolist()
            values = self._format_values(base_rows, name, reported)
            before = [value if is_known else None for value, is_known in zip(values, is_base_known, strict=True)]
        self.clashes.append(
            Clash(
                kind=kind,
                property=END_NAMES.get(name, name),
                ids=kept.column(ID).take(pa.array(reported)).to_pylist(),
                base=before,
                is_base_known=is_base_known,
                kept=self._format_values(kept, name, reported),
                taken=self._format_values(taken, name, reported),
                total=len(rows),
            )
        )


def _build_known_masks(rows: pa.Table, absent: frozenset[str]) -> dict[str, Mask]:
    """Return masks that count an inserted row as changed in every column that its side has."""
    return {name: np.full(rows.num_rows, name not in absent) for name in rows.schema.names}


def _select_rows(changed: Mapping[str, Mask], rows: np.ndarray) -> dict[str, Mask]:
    return {name: mask[rows] for name, mask in changed.items()}


def _choose_values(kept: pa.ChunkedArray, taken: pa.ChunkedArray, is_taken: Mask) -> pa.Array:
    if not is_taken.any():
        return concat_chunks(kept)
    rows = np.arange(len(is_taken))
    # One `take` over both columns chooses per row, for any column type.
    both = pa.concat_arrays([concat_chunks(kept), concat_chunks(taken)])
    return both.take(pa.array(np.where(is_taken, rows + len(rows), rows)))
