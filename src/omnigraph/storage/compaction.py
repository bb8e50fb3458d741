"""Fragments that take the place of others with the same rows, staged; and how they follow when the table moves on.

A group says which fragments of its `origin` it was read from, and the new fragments that hold their living rows, in the
same order. Moved onto a newer version, a row that is not in its old place there any more is deleted from the new one:
whatever was done to it meanwhile stays done, and the rewriting is never in anybody's way.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from lance import LanceOperation
from lance.fragment import FragmentMetadata
from lance.optimize import CompactionTask

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.options import UpkeepOptions
from omnigraph.storage.checksum_stamping import Announce, stamp_deletions, stamp_fragment
from omnigraph.storage.deletion_vectors import invert_offsets
from omnigraph.storage.index_staging import (
    IndexUntrainableError,
    OutdatedSegmentError,
    StoredIndex,
    build_segment,
    list_stored_indexes,
)
from omnigraph.storage.io_counters import attribute_requests
from omnigraph.storage.lance_table import Fragment, LanceTable, verify
from omnigraph.storage.layout import format_detached_name
from omnigraph.storage.staging import StagedWrite, WriteKind, WriteObserver, list_blob_files, list_open_files, restage
from omnigraph.storage.table_cache import VerifyLevel, translate_rewrite_errors

RESERVED_FRAGMENT_NUMBERS = 4_096
"""Numbers left free for fragments that others add meanwhile: an index names rows by the number of their fragment."""

_MAX_FRAGMENT_ID_FIELD = 11
"""The field of a stored version that has it."""

Offsets: TypeAlias = npt.NDArray[np.int64]
_FragmentJson: TypeAlias = dict[str, Any]
"""Lance's JSON of a fragment."""


class OutdatedRewriteError(OmnigraphError):
    """Rewritten fragments have no place in the table any more."""

    kind = Kind.CONFLICT
    code = "rewrite_outdated"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"rewritten fragments of {self.path} don't fit it any more ({self.reason}): plan it again"


class RewriteMismatchError(OmnigraphError):
    """A compaction gave another number of rows than it was given. Nothing of it is used."""

    kind = Kind.INTERNAL
    code = "rewrite_mismatch"

    def __init__(self, path: str, expected: int, found: int) -> None:
        super().__init__(path, expected, found)
        self.path, self.expected, self.found = path, expected, found

    def __str__(self) -> str:
        return f"compacting {self.expected} rows of {self.path} gave {self.found}; nothing was changed: report it"


@dataclass(frozen=True, slots=True)
class CompactedGroup:
    """A group of fragments of one version, by number, and the fragments written from them, as Lance's JSON."""

    old: tuple[int, ...]
    new: tuple[str, ...]


def list_group_files(table: LanceTable, group: CompactedGroup) -> tuple[str, ...]:
    """The files that were written for a group, relative to the root."""
    names = [file["path"] for text in group.new for file in json.loads(text)["files"]]
    return (*(f"{table.path}/data/{name}" for name in names), *list_blob_files(table, group.new))


def list_unused_files(staged: StagedWrite, published: LanceTable) -> tuple[str, ...]:
    """Files of a rewriting that the version published from it does not use: of groups that came to nothing."""
    used = {file for one in published.list_fragments() for file in one.files}
    groups = map(json.loads, staged.rewrites)
    names = [file["path"] for group in groups for one in group["written"] for file in one["files"]]
    stems = tuple(f"{staged.path}/data/{name.removesuffix('.lance')}" for name in names if name not in used)
    data = [file for file in staged.files if file.removesuffix(".lance").startswith(stems)] if stems else []
    preview = (
        [] if staged.preview in (0, published.version) else [f"{staged.path}/{format_detached_name(staged.preview)}"]
    )
    return (*data, *preview)


def stage_rewrite(table: LanceTable, groups: Sequence[CompactedGroup]) -> StagedWrite:
    """Groups that were written from this version, each with its new fragments, numbered apart from all others."""
    there = {one.number: one for one in table.list_fragments()}
    number = find_highest_number(table) + RESERVED_FRAGMENT_NUMBERS
    rewrites: list[str] = []
    for group in groups:
        new = [json.loads(text) for text in group.new]
        expected = sum(there[old].rows - there[old].deleted for old in group.old)
        found = sum(fragment["physical_rows"] for fragment in new)
        if expected != found:
            raise RewriteMismatchError(table.path, expected, found)
        for fragment in new:
            fragment["id"] = number
            number += 1
        rewrites.append(_encode_group(sorted(group.old), new, sorted(group.old), new))
    return StagedWrite(
        change=WriteKind.REWRITE,
        path=table.path,
        base=table.version,
        origin=table.version,
        base_rows=table.count(),
        rewrites=tuple(rewrites),
        blobs=list_blob_files(table, [text for group in groups for text in group.new]),
    )


def _encode_group(read: list[int], written: list[_FragmentJson], old: list[int], new: list[_FragmentJson]) -> str:
    """A group as text: the fragments it was read from and those written, ever the same; and what makes it fit `base`.

    There, `new` take the place of `old`: less than was written and read, when rows went meanwhile.
    """
    return json.dumps({"read": read, "written": written, "old": old, "new": new})


def find_highest_number(table: LanceTable) -> int:
    """The highest number that a fragment of the table has ever had, also one that is gone: none may have it again.

    An index says by their numbers which fragments it covers, and does not forget those that are gone. Lance keeps the
    number in the version, and shows it to nobody; so it is read from the version's own bytes.
    """
    dataset = table.handles.open(table.path, table.version)
    content = bytes(dataset._ds.serialized_manifest())  # noqa: SLF001 - there is no public way
    stored = max(_iter_field_values(content, _MAX_FRAGMENT_ID_FIELD), default=0)
    return max([stored, *(one.number for one in table.list_fragments())])


def _iter_field_values(message: bytes, wanted: int) -> Iterator[int]:
    """The values of a field of numbers in a message of Protocol Buffers."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        match tag & 7:
            case 0:
                value, at = _read_varint(message, at)
                if tag >> 3 == wanted:
                    yield value
            case 2:
                length, at = _read_varint(message, at)
                at += length
            case kind:
                at += {1: 8, 5: 4}[kind]


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of as many bytes as it needs, and where the next begins."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def map_fragment_segments(indexes: Sequence[StoredIndex]) -> dict[int, frozenset[str]]:
    """By fragment, the segments that will follow its rows: Lance rewrites rows together only if all of them do."""
    segments = [segment for index in indexes if index.follows_rows for segment in index.segments]
    numbers = {number for segment in segments for number in segment.fragments}
    return {number: frozenset(one.uuid for one in segments if number in one.fragments) for number in numbers}


def build_rewrite_operation(staged: StagedWrite, there: Mapping[int, FragmentMetadata]) -> LanceOperation.Rewrite:
    """What Lance is asked to do, to a version that has these fragments."""
    groups = []
    for group in map(json.loads, staged.rewrites):
        new = [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in group["new"]]
        if group["old"]:
            groups.append(LanceOperation.RewriteGroup([there[number] for number in group["old"]], new))
    return LanceOperation.Rewrite(groups, [])


def rebase_staged(staged: StagedWrite, table: LanceTable) -> StagedWrite:
    """A staged write of any kind, moved onto another version of its table.

    OutdatedRewriteError and OutdatedSegmentError when maintenance that was staged has to be planned again.
    """
    if staged.change not in (WriteKind.REWRITE, WriteKind.INDEX):
        return restage(staged, table)
    moved = replace(staged, base=table.version, base_rows=table.count())
    if staged.change is WriteKind.REWRITE:
        moved = replace(moved, rewrites=_rebase_groups(staged, table))
    if moved.indexes or moved.replaced_indexes:
        seen = staged.preview if staged.change is WriteKind.REWRITE else staged.base
        moved = replace(moved, replaced_indexes=_find_replaced_segments(moved, table, seen))
    return moved


# --- rows that went meanwhile ---------------------------------------------------------------------------


def _rebase_groups(staged: StagedWrite, table: LanceTable) -> tuple[str, ...]:
    origin = LanceTable(table.handles, staged.path, staged.origin)
    then = {one.number: one for one in origin.list_fragments()}
    now = {one.number: one for one in table.list_fragments()}
    highest = find_highest_number(table)
    found = []
    for group in map(json.loads, staged.rewrites):
        read, written = group["read"], group["written"]
        if any(fragment["id"] <= highest for fragment in written):
            raise OutdatedRewriteError(staged.path, "others have added too many fragments")
        old = [number for number in read if _is_there(then[number], now)]
        gone = _find_gone_rows(read, old, origin, table, then, now)
        new = list(_iter_without_rows(staged, table, written, gone)) if old else []
        found.append((read, written, old, new))
    if not any(new for *_, new in found):
        raise OutdatedRewriteError(staged.path, "all its rows were written anew or deleted")
    sorts = map_fragment_segments(list_stored_indexes(table))
    if any(len({sorts.get(number) for number in old}) > 1 for *_, old, _ in found):
        raise OutdatedRewriteError(staged.path, "some of its rows were indexed meanwhile")
    return tuple(_encode_group(*group) for group in found)


def _is_there(before: Fragment, now: Mapping[int, Fragment]) -> bool:
    """Whether the same file still serves under the same number; a number alone may be somebody else's by now."""
    after = now.get(before.number)
    return after is not None and after.files == before.files


def _find_gone_rows(
    numbers: Sequence[int],
    kept: Sequence[int],
    origin: LanceTable,
    table: LanceTable,
    then: Mapping[int, Fragment],
    now: Mapping[int, Fragment],
) -> Offsets:
    """Which rows of a group, counted over those that lived in its origin, are not in their old place any more."""
    gone: list[Offsets] = []
    start = 0
    for number in numbers:
        lived = then[number].rows - then[number].deleted
        if number not in kept:
            gone.append(np.arange(start, start + lived))
        elif now[number].deletions != then[number].deletions:
            before, after = _read_live_offsets(origin, then[number]), _read_live_offsets(table, now[number])
            if not np.isin(after, before, assume_unique=True).all():
                raise OutdatedRewriteError(table.path, "rows that were deleted are there again")
            gone.append(start + np.flatnonzero(~np.isin(before, after, assume_unique=True)))
        start += lived
    return np.concatenate(gone) if gone else np.empty(0, np.int64)


def _read_live_offsets(table: LanceTable, fragment: Fragment) -> Offsets:
    """The offsets of the rows of a fragment that are not deleted, ascending."""
    if fragment.deletions is None:
        return np.arange(fragment.rows)
    return invert_offsets(table.read_deleted_offsets([fragment.number])[0], fragment.rows)


def _iter_without_rows(
    staged: StagedWrite, table: LanceTable, written: Sequence[_FragmentJson], gone: Offsets
) -> Iterator[_FragmentJson]:
    """The fragments without these rows, which are counted through all of them; one that loses all is left out."""
    preview = table.handles.open(staged.path, staged.preview)
    store = table.handles.store
    start = 0
    for fragment in written:
        rows = fragment["physical_rows"]
        mine = gone[(gone >= start) & (gone < start + rows)] - start
        start += rows
        if not len(mine):
            yield fragment
            continue
        there = preview.get_fragment(fragment["id"])
        assert there is not None  # noqa: S101 - the preview has every fragment that was written
        errors = translate_rewrite_errors(
            f"delete rows of {table.path}", staged.path, staged.preview, table.handles.explain
        )
        with attribute_requests(store.runtime.telemetry, "table"), errors:
            left: FragmentMetadata | None = there.delete_rows(mine.tolist())
        if left is not None:
            yield stamp_deletions(store, staged.path, left.to_json())


# --- segments -------------------------------------------------------------------------------------------


def _find_replaced_segments(staged: StagedWrite, table: LanceTable, seen: int) -> tuple[str, ...]:
    """The segments that go, of those there are now; OutdatedSegmentError unless the new ones still fit.

    They were built from the version `seen`. Rows may have been deleted since, which an index bears; but the files must
    be the same, and nobody else may have indexed them: hits would come twice.
    """
    known = {one.number: one.files for one in LanceTable(table.handles, staged.path, seen).list_fragments()}
    there = {one.number: one.files for one in table.list_fragments()}
    for group in map(json.loads, staged.rewrites):
        there |= {one["id"]: tuple(file["path"] for file in one["files"]) for one in group["new"]}
    stored = {index.name: index.segments for index in list_stored_indexes(table)}
    going = {json.loads(text)["uuid"] for text in staged.replaced_indexes}
    for segment in map(json.loads, staged.indexes):
        covered = set(segment["fragment_ids"])
        is_changed = any(there.get(number) != known[number] for number in covered)
        others = [one for one in stored.get(segment["name"], ()) if one.uuid not in going]
        if is_changed or any(one.fragments & covered for one in others):
            raise OutdatedSegmentError(table.path, segment["name"])
    return tuple(one.text for segments in stored.values() for one in segments if one.uuid in going)


VECTOR_INDEX = "IVF_FLAT"
_MAX_PARTITIONS = 4_096
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentBuild:
    """One segment to build: of which index, over which fragments of the table."""

    name: str
    column: str
    kind: str
    fragments: tuple[int, ...]


def compact(
    table: LanceTable, group: tuple[int, ...], options: UpkeepOptions, announce: Announce = lambda _: None
) -> CompactedGroup:
    """Write the living rows of these fragments, in their order, into as few new ones as the limits allow."""
    dataset = table.handles.open(table.path, table.version)
    metadata = {fragment.fragment_id: fragment.metadata for fragment in dataset.get_fragments()}
    store = table.handles.store
    # What is written anew gets a checksum of its own, so damage must be found here or never.
    verify(table, VerifyLevel.WHOLE, only=group)
    task = CompactionTask.from_json(  # type: ignore[attr-defined]  # its stub lacks it
        json.dumps(
            {
                "task": {"fragments": [metadata[number].to_json() for number in sorted(group)]},
                "read_version": table.version,
                "options": _build_task_options(options),
            }
        )
    )
    errors = translate_rewrite_errors(f"compact {table.path}", table.path, table.version, table.handles.explain)
    with attribute_requests(store.runtime.telemetry, "table"), errors:
        done = task.execute(dataset)
    new = tuple(json.dumps(stamp_fragment(store, table.path, one.to_json(), announce)) for one in done.new_fragments)
    return CompactedGroup(tuple(sorted(group)), new)


def _build_task_options(options: UpkeepOptions) -> Mapping[str, object]:
    """How Lance writes a group that we have chosen. Its planner would have to be talked into every group."""
    return {
        "target_rows_per_fragment": options.fragment_rows,
        "max_rows_per_group": 1_024,
        "materialize_deletions": True,
        "materialize_deletions_threshold": 0.0,
        "defer_index_remap": False,
        "enable_binary_copy": False,
        "enable_binary_copy_force": False,
    }


def build_index_segment(table: LanceTable, segment: SegmentBuild) -> str:
    """Build a segment, as text; IndexUntrainableError where vectors can't be learnt from."""
    settings: dict[str, object] = {}
    if segment.kind == VECTOR_INDEX:
        vectors = table.count_values(segment.column, segment.fragments)
        if not vectors:
            raise IndexUntrainableError(table.path, segment.name)
        settings = {"metric": "cosine", "num_partitions": max(1, min(isqrt(vectors), _MAX_PARTITIONS))}
    return build_segment(table, segment.column, segment.kind, segment.name, segment.fragments, settings)


@contextmanager
def report_open_files(table: LanceTable, witness: WriteObserver) -> Iterator[None]:
    """Tell of files that this process is writing for a table, while it does something that tells nothing itself."""
    is_over = threading.Event()

    def look() -> None:
        known: set[str] = set()
        while not is_over.wait(_POLL_SECONDS):
            fresh = set(list_open_files(table)) - known
            known |= fresh
            try:
                witness.on_begin(sorted(fresh))
            except OmnigraphError:
                return  # whoever does the work is told the same when it is done

    looking = threading.Thread(target=look, name=f"upkeep-{table.path}", daemon=True)
    looking.start()
    try:
        yield
    finally:
        is_over.set()
        looking.join()
