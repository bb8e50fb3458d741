"""Stage compacted fragments and index segments, and rebase them when the table has changed in the meantime.

A group names the fragments of its `origin` that it was read from, and the new fragments with their live rows in the
same order. When it is rebased onto a newer version, each row that is no longer at its old address there is deleted from
the new fragments: concurrent changes win, and compaction never blocks other writers.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from lance import LanceOperation
from lance.fragment import FragmentMetadata
from lance.optimize import CompactionTask

from omnigraph.bug_error import BugError
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.options import UpkeepOptions
from omnigraph.storage.cas_table_errors import OutdatedError
from omnigraph.storage.checksum_stamping import Announce, stamp_deletions, stamp_fragment
from omnigraph.storage.deletion_vectors import invert_offsets
from omnigraph.storage.fragment_list import Fragment, build_fragment_json, decode_json, encode_json
from omnigraph.storage.index_staging import (
    IndexUntrainableError,
    StoredIndex,
    build_segment,
    list_stored_indexes,
)
from omnigraph.storage.io_counters import attribute_requests
from omnigraph.storage.lance_table import LanceTable, verify
from omnigraph.storage.layout import format_deletion_name, format_detached_name
from omnigraph.storage.protobuf import iter_integers
from omnigraph.storage.staging import StagedWrite, WriteKind, WriteObserver, list_blob_files, list_open_files, restage
from omnigraph.storage.table_cache import VerifyLevel, translate_rewrite_errors
from omnigraph.storage.vector_search import VECTOR_KINDS, choose_build_settings
from omnigraph.storage.vector_training import VectorModel

# Numbers left free for fragments that other writers add in the meantime: an index refers to fragments by number. A
# commit takes 10 ms and adds a fragment or two, and compacting 1,024 rows less than a millisecond.
MIN_RESERVED_NUMBERS = 64
# More of them for each fragment that is compacted: a group of writers adds up to 64 fragments with one swap. With 64
# threads, compactions of 2 s failed one after the other; now each failure leaves more fragments, hence more numbers.
RESERVED_PER_FRAGMENT = 4
MAX_RESERVED_NUMBERS = 4_096
ROWS_PER_RESERVED_NUMBER = 1_024
# Lance panics beyond this number: it is stored in 32 bits. At 64 numbers per compaction of 32 commits, a table takes
# more than a billion commits to get there; at 4,096 for each it was 33 million.
MAX_FRAGMENT_NUMBER = 2**32 - 1

# The Protocol Buffers field of a stored version that has the highest fragment id.
_MAX_FRAGMENT_ID_FIELD = 11

Offsets: TypeAlias = npt.NDArray[np.int64]
# A fragment in the JSON form of Lance.
_FragmentJson: TypeAlias = dict[str, Any]


class FragmentNumbersExhaustedError(OmnigraphError):
    """A table has used its last fragment number, so no row can be added to it. Reads are not affected."""

    kind = Kind.EXHAUSTED
    code = "fragment_numbers_exhausted"
    path: str
    message = (
        "{path} has used all of its 2^32 fragment numbers; nothing was changed: export the graph, and load it into a"
        " new one"
    )


@dataclass(frozen=True, slots=True)
class CompactedGroup:
    """The numbers of a group of fragments, and the fragments written from them in the JSON form of Lance."""

    old: tuple[int, ...]
    new: tuple[str, ...]


def list_group_files(table: LanceTable, group: CompactedGroup) -> tuple[str, ...]:
    """Return the files that were written for a group, relative to the root."""
    names = [file["path"] for text in group.new for file in decode_json(text)["files"]]
    return (*(f"{table.path}/data/{name}" for name in names), *list_blob_files(table, group.new))


def list_unused_files(staged: StagedWrite, published: LanceTable) -> tuple[str, ...]:
    """Return the files of a staged compaction that the published version does not use: those of dropped groups."""
    used = {file for fragment in published.list_fragments() for file in fragment.files}
    groups = map(decode_json, staged.rewrites)
    names = [file["path"] for group in groups for fragment in group["written"] for file in fragment["files"]]
    # By stem: a data file may have a directory of blobs of the same name.
    stems = tuple(f"{staged.path}/data/{name.removesuffix('.lance')}" for name in names if name not in used)
    data = [file for file in staged.files if file.removesuffix(".lance").startswith(stems)] if stems else []
    if staged.preview not in (0, published.version):
        data.append(f"{staged.path}/{format_detached_name(staged.preview)}")
    return tuple(data)


def stage_rewrite(table: LanceTable, groups: Sequence[CompactedGroup]) -> StagedWrite:
    """Stage groups that were written from this version; their new fragments get unused numbers.

    Raises:
        FragmentNumbersExhaustedError: There are none left.
    """
    fragments = {fragment.number: fragment for fragment in table.list_fragments()}
    number = _reserve_numbers(table, groups, [fragments[old] for group in groups for old in group.old])
    rewrites: list[str] = []
    for group in groups:
        new = [decode_json(text) for text in group.new]
        expected = sum(fragments[old].rows - fragments[old].deleted for old in group.old)
        written_rows = sum(fragment["physical_rows"] for fragment in new)
        if expected != written_rows:
            raise BugError.rewrite_mismatch(table.path, expected, written_rows)
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


def _reserve_numbers(table: LanceTable, groups: Sequence[CompactedGroup], old: Sequence[Fragment]) -> int:
    """Return the first number of the new fragments, after those reserved for other writers by the size of the work."""
    highest = find_highest_number(table)
    free = MAX_FRAGMENT_NUMBER - highest - sum(len(group.new) for group in groups)
    if free < 0:
        raise FragmentNumbersExhaustedError(table.path)
    work = sum(fragment.rows for fragment in old) // ROWS_PER_RESERVED_NUMBER
    least = max(MIN_RESERVED_NUMBERS, RESERVED_PER_FRAGMENT * len(old))
    # Near the end other writers need numbers too: half of the rest is left to them.
    return highest + 1 + min(least + work, MAX_RESERVED_NUMBERS, free // 2)


def _encode_group(read: list[int], written: list[_FragmentJson], old: list[int], new: list[_FragmentJson]) -> str:
    """Return a group as JSON: what it was read from and written as, and what it replaces in the current `base`.

    `read` and `written` never change. `new` replaces `old`, which are fewer if rows were removed in the meantime.
    """
    return encode_json({"read": read, "written": written, "old": old, "new": new})


def find_highest_number(table: LanceTable) -> int:
    """Return the highest number that a fragment of the table has ever had; it is never used again.

    An index records the numbers of the fragments that it covers, also of removed ones. Lance stores the highest number
    in the version but does not expose it, so it is read from the serialized version.
    """
    dataset = table.handles.open(table.path, table.version)
    content = bytes(dataset._ds.serialized_manifest())  # noqa: SLF001 - no public API has it
    stored = max(iter_integers(content, _MAX_FRAGMENT_ID_FIELD), default=0)
    return max([stored, *(fragment.number for fragment in table.list_fragments())])


def map_fragment_segments(indexes: Sequence[StoredIndex]) -> dict[int, frozenset[str]]:
    """Return the segments that follow the rows of each fragment: Lance compacts rows together only if these agree."""
    segments = [segment for index in indexes if index.follows_rows for segment in index.segments]
    numbers = {number for segment in segments for number in segment.fragments}
    return {
        number: frozenset(segment.uuid for segment in segments if number in segment.fragments) for number in numbers
    }


def build_rewrite_operation(staged: StagedWrite, fragments: Mapping[int, FragmentMetadata]) -> LanceOperation.Rewrite:
    """Return the Lance operation of a staged compaction, for a version with these fragments."""
    groups = []
    for group in map(decode_json, staged.rewrites):
        new = [FragmentMetadata.from_json(encode_json(fragment)) for fragment in group["new"]]
        if group["old"]:
            groups.append(LanceOperation.RewriteGroup([fragments[number] for number in group["old"]], new))
    return LanceOperation.Rewrite(groups, [])


def rebase_staged(staged: StagedWrite, table: LanceTable) -> StagedWrite:
    """Return a staged write of any kind, rebased onto another version of its table.

    Raises:
        OutdatedError: A compaction has to be planned, or an index segment built, again.
    """
    if staged.change not in (WriteKind.REWRITE, WriteKind.INDEX):
        return restage(staged, table)
    rebased = replace(staged, base=table.version, base_rows=table.count())
    if staged.change is WriteKind.REWRITE:
        rebased = replace(rebased, rewrites=_rebase_groups(staged, table))
    # Segments of a compaction were built from its preview, which has the new fragments.
    if rebased.indexes or rebased.replaced_indexes:
        built_version = staged.preview if staged.change is WriteKind.REWRITE else staged.base
        rebased = replace(rebased, replaced_indexes=_find_replaced_segments(rebased, table, built_version))
    return rebased


# --- rows removed in the meantime ---------------------------------------------------------------------------


def _rebase_groups(staged: StagedWrite, table: LanceTable) -> tuple[str, ...]:
    origin = LanceTable(table.handles, staged.path, staged.origin)
    old_fragments = {fragment.number: fragment for fragment in origin.list_fragments()}
    new_fragments = {fragment.number: fragment for fragment in table.list_fragments()}
    highest = find_highest_number(table)
    groups = []
    for group in map(decode_json, staged.rewrites):
        read, written = group["read"], group["written"]
        if any(fragment["id"] <= highest for fragment in written):
            raise OutdatedError.rewrite_outdated(staged.path, "other writers have added too many fragments")
        old = [number for number in read if _is_unchanged(old_fragments[number], new_fragments)]
        removed = _find_removed_rows(read, old, origin, table, old_fragments, new_fragments)
        new = list(_iter_without_rows(staged, table, written, removed)) if old else []
        groups.append((read, written, old, new))
    if not any(new for *_, new in groups):
        raise OutdatedError.rewrite_outdated(staged.path, "all its rows were rewritten or deleted")
    # Lance compacts fragments together only if the same segments cover them.
    segments = map_fragment_segments(list_stored_indexes(table))
    if any(len({segments.get(number) for number in old}) > 1 for *_, old, _ in groups):
        raise OutdatedError.rewrite_outdated(staged.path, "some of its rows were indexed in the meantime")
    return tuple(_encode_group(*group) for group in groups)


def _is_unchanged(before: Fragment, fragments: Mapping[int, Fragment]) -> bool:
    """Return whether a fragment still has its number and files; the number alone may have been reused."""
    after = fragments.get(before.number)
    return after is not None and after.files == before.files


def _find_removed_rows(
    numbers: Sequence[int],
    unchanged: Sequence[int],
    origin: LanceTable,
    table: LanceTable,
    old_fragments: Mapping[int, Fragment],
    new_fragments: Mapping[int, Fragment],
) -> Offsets:
    """Return the rows of a group that are no longer at their old address, counted over its live rows in the origin."""
    removed: list[Offsets] = []
    start = 0
    for number in numbers:
        live_rows = old_fragments[number].rows - old_fragments[number].deleted
        if number not in unchanged:
            removed.append(np.arange(start, start + live_rows))
        elif new_fragments[number].deletions != old_fragments[number].deletions:
            before = _read_live_offsets(origin, old_fragments[number])
            after = _read_live_offsets(table, new_fragments[number])
            if not np.isin(after, before, assume_unique=True).all():
                raise OutdatedError.rewrite_outdated(table.path, "deleted rows exist again")
            removed.append(start + np.flatnonzero(~np.isin(before, after, assume_unique=True)))
        start += live_rows
    return np.concatenate(removed) if removed else np.empty(0, np.int64)


def _read_live_offsets(table: LanceTable, fragment: Fragment) -> Offsets:
    """Return the offsets of the rows of a fragment that are not deleted, ascending."""
    if fragment.deletions is None:
        return np.arange(fragment.rows)
    return invert_offsets(table.read_deleted_offsets([fragment.number])[0], fragment.rows)


def _iter_without_rows(
    staged: StagedWrite, table: LanceTable, written: Sequence[_FragmentJson], removed: Offsets
) -> Iterator[_FragmentJson]:
    """Yield the fragments without rows counted over all of them; a fragment that loses all its rows is left out."""
    preview = table.handles.open(staged.path, staged.preview)
    store = table.handles.store
    start = 0
    for fragment in written:
        rows = fragment["physical_rows"]
        offsets = removed[(removed >= start) & (removed < start + rows)] - start
        start += rows
        if not len(offsets):
            yield fragment
            continue
        target = preview.get_fragment(fragment["id"])
        assert target is not None  # noqa: S101 - the preview has every fragment that was written
        errors = translate_rewrite_errors(
            f"delete rows of {table.path}", staged.path, staged.preview, table.handles.explain
        )
        with attribute_requests(store.runtime.telemetry, "table"), errors:
            remaining: FragmentMetadata | None = target.delete_rows(offsets.tolist())
        if remaining is not None:
            described = stamp_deletions(store, staged.path, remaining.to_json())
            if table.handles.keys is not None:
                name = format_deletion_name(described).removeprefix("_deletions/")
                whole = Fragment(fragment["id"], rows, 0, tuple(file["path"] for file in fragment["files"]), None, 0)
                table.handles.keys.note_deleted(table, whole, name, offsets)
            yield described


# --- segments -------------------------------------------------------------------------------------------


def _find_replaced_segments(staged: StagedWrite, table: LanceTable, built_version: int) -> tuple[str, ...]:
    """Return the existing segments that the new ones, built from the version `built_version`, replace.

    Raises:
        OutdatedError: The files of a covered fragment have changed, or another segment covers it by now.
    """
    built = LanceTable(table.handles, staged.path, built_version)
    built_files = {fragment.number: fragment.files for fragment in built.list_fragments()}
    files = {fragment.number: fragment.files for fragment in table.list_fragments()}
    for group in map(decode_json, staged.rewrites):
        for fragment in group["new"]:
            files[fragment["id"]] = tuple(file["path"] for file in fragment["files"])
    stored = {index.name: index.segments for index in list_stored_indexes(table)}
    replaced = {decode_json(text)["uuid"] for text in staged.replaced_indexes}
    for segment in map(decode_json, staged.indexes):
        # An index tolerates rows that were deleted since. But if its fragments have other files, it points to wrong
        # rows, and if another segment covers one of them too, every hit is returned twice.
        covered = set(segment["fragment_ids"])
        is_changed = any(files.get(number) != built_files[number] for number in covered)
        remaining = [other for other in stored.get(segment["name"], ()) if other.uuid not in replaced]
        if is_changed or any(other.fragments & covered for other in remaining):
            raise OutdatedError.index_segment_outdated(table.path, segment["name"])
    return tuple(old.text for segments in stored.values() for old in segments if old.uuid in replaced)


_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentBuild:
    """One segment to build: its index, and the fragments that it covers."""

    name: str
    column: str
    kind: str
    fragments: tuple[int, ...]
    metric: str = "cosine"
    """Of a vector index."""
    model: VectorModel | None = None
    """Of a part of a vector index, which is merged with others; None: a whole segment, which trains its own."""


def compact(
    table: LanceTable, group: tuple[int, ...], options: UpkeepOptions, announce: Announce = lambda _: None
) -> CompactedGroup:
    """Write the live rows of these fragments, in their order, into as few new fragments as the limits allow."""
    dataset = table.handles.open(table.path, table.version)
    metadata = {fragment.fragment_id: fragment.metadata for fragment in dataset.get_fragments()}
    store = table.handles.store
    # The new files get new checksums, so damage in the old ones must be found here or never.
    verify(table, VerifyLevel.WHOLE, only=group)
    task = CompactionTask.from_json(  # type: ignore[attr-defined]  # its stub lacks it
        encode_json(
            {
                "task": {"fragments": [build_fragment_json(metadata[number]) for number in sorted(group)]},
                "read_version": table.version,
                "options": _build_task_options(options),
            }
        )
    )
    errors = translate_rewrite_errors(f"compact {table.path}", table.path, table.version, table.handles.explain)
    with attribute_requests(store.runtime.telemetry, "table"), errors:
        done = task.execute(dataset)
    stamped = (stamp_fragment(store, table.path, build_fragment_json(new), announce) for new in done.new_fragments)
    return CompactedGroup(tuple(sorted(group)), tuple(map(encode_json, stamped)))


def _build_task_options(options: UpkeepOptions) -> Mapping[str, object]:
    """Return the options with which Lance compacts a group of our choice, bypassing its planner."""
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
    """Build a segment and return it as JSON.

    Raises:
        IndexUntrainableError: A vector index can't be trained with the values of the column.
    """
    settings: dict[str, object] = {}
    if segment.kind in VECTOR_KINDS:
        vectors = table.count_values(segment.column, segment.fragments)
        # A part without vectors still covers its rows.
        if not vectors and segment.model is None:
            raise IndexUntrainableError(table.path, segment.name)
        size = table.schema.field(segment.column).type.list_size
        settings = choose_build_settings(segment.kind, segment.metric, vectors, size)
        settings |= {} if segment.model is None else segment.model.settings
    return build_segment(table, segment.column, segment.kind, segment.name, segment.fragments, settings)


@contextmanager
def report_open_files(table: LanceTable, witness: WriteObserver) -> Iterator[None]:
    """Report the files that this process writes for a table to `witness`, while a block runs that reports none."""
    is_over = threading.Event()

    def poll() -> None:
        reported: set[str] = set()
        while not is_over.wait(_POLL_SECONDS):
            new = set(list_open_files(table)) - reported
            reported |= new
            try:
                witness.on_begin(sorted(new))
            except OmnigraphError:
                return  # the thread that does the work gets the same error when it is done

    poller = threading.Thread(target=poll, name=f"upkeep-{table.path}", daemon=True)
    poller.start()
    try:
        yield
    finally:
        is_over.set()
        poller.join()
