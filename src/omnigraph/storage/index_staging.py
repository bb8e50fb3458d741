"""Index segments, staged: built from some fragments of one version, invisible until a version names them."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lance import Index
from lance.dataset import IndexFile
from lance.lance import Bitmap

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.checksum_stamping import stamp_segment
from omnigraph.storage.io_counters import attribute_requests
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.staging import StagedWrite, WriteKind
from omnigraph.storage.table_cache import translate_read_errors, translate_rewrite_errors

if TYPE_CHECKING:
    from lance.lance.indices import IndexSegmentDescription

MAX_SEGMENT_RATIO = 2
"""A segment is taken in by a new one that has at least one row for so many of its own."""
MIN_KEPT_PER_LOST = 4
"""A segment that lost one row for so many that it still covers is built anew: what is lost stays in its files."""


@dataclass(frozen=True, slots=True)
class SegmentCoverage:
    """A segment, by its name, and the fragments it covers; `lost` rows of it were written anew elsewhere."""

    uuid: str
    fragments: frozenset[int]
    lost: int = 0


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """Fragments to build a segment of (none: no segment), and the segments that go."""

    build: tuple[int, ...] = ()
    replaced: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.build and not self.replaced


def plan_segments(rows: Mapping[int, int], segments: Sequence[SegmentCoverage], max_segments: int) -> SegmentPlan:
    """What makes the index complete, with at most `most` segments; `rows` are those of each fragment that there is."""
    there = {one.uuid: one.fragments & rows.keys() for one in segments}
    replaced = {uuid for uuid, fragments in there.items() if not fragments}
    replaced |= {a for a in there for b in there if a != b and there[a] & there[b]}  # else hits would come twice
    kept = [one for one in segments if one.uuid not in replaced]
    build = set(rows).difference(*(there[one.uuid] for one in kept))

    def size(fragments: set[int] | frozenset[int]) -> int:
        return sum(rows[number] for number in fragments)

    for one in sorted(kept, key=lambda segment: size(there[segment.uuid])):
        covered = size(there[one.uuid])
        is_outgrown = bool(build) and covered <= MAX_SEGMENT_RATIO * size(build)
        is_worn = covered <= MIN_KEPT_PER_LOST * one.lost
        are_too_many = len(segments) - len(replaced) + bool(build) > max(max_segments, 1)
        if is_outgrown or is_worn or are_too_many:
            build |= there[one.uuid]
            replaced.add(one.uuid)
    return SegmentPlan(tuple(sorted(build)), tuple(one.uuid for one in segments if one.uuid in replaced))


IndexSettings = Mapping[str, Any]
"""What a kind of index is built with, by Lance's names."""


_KINDS = {"BTree": "BTREE", "Bitmap": "BITMAP", "Inverted": "INVERTED", "LabelList": "LABEL_LIST"}
"""What Lance calls the kinds of stored indexes, and how they are asked for."""
_UNTRAINABLE = "KMeans cannot train"


class OutdatedSegmentError(OmnigraphError):
    """An index segment was built from fragments that the table does not have any more, or that others have indexed."""

    kind = Kind.CONFLICT
    code = "index_segment_outdated"

    def __init__(self, path: str, index: str) -> None:
        super().__init__(path, index)
        self.path, self.index = path, index

    def __str__(self) -> str:
        return (
            f"the index {self.index} was built from rows of {self.path} that were rewritten or indexed meanwhile:"
            " build it again"
        )


class IndexUntrainableError(OmnigraphError):
    """A vector index can't be built of what the column holds: it has no vector, or none with a direction."""

    kind = Kind.INVALID
    code = "index_untrainable"

    def __init__(self, path: str, index: str) -> None:
        super().__init__(path, index)
        self.path, self.index = path, index

    def __str__(self) -> str:
        return (
            f"the index {self.index} of {self.path} can't be built yet: its rows have no vectors to learn from;"
            " run `omnigraph optimize` again when they have"
        )


@dataclass(frozen=True, slots=True)
class IndexSegment:
    """A part of a stored index: what it covers, and how a replacement names it."""

    uuid: str
    fragments: frozenset[int]
    """Fragments of the version, by number; some may be gone."""
    nbytes: int
    text: str


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """An index of one version of a table."""

    name: str
    columns: tuple[str, ...]
    kind: str
    """As it is asked for: BTREE, BITMAP, INVERTED, LABEL_LIST, or a kind of vector index."""
    segments: tuple[IndexSegment, ...]

    @property
    def follows_rows(self) -> bool:
        """Whether it knows rows by the numbers that they keep when they are rewritten, and so stays complete.

        A BTREE knows them by their places, and loses what is rewritten.
        """
        return self.kind != "BTREE"

    @property
    def nbytes(self) -> int:
        """The size of its files."""
        return sum(one.nbytes for one in self.segments)


def list_stored_indexes(table: LanceTable) -> tuple[StoredIndex, ...]:
    """The indexes of a version, by name."""
    dataset = table.handles.open(table.path, table.version)
    errors = translate_read_errors(table.path, table.version, table.handles.explain)
    with attribute_requests(table.handles.store.runtime.telemetry, "table"), errors:
        found = dataset.describe_indices()
    made = [
        StoredIndex(
            name=index.name,
            columns=tuple(index.field_names),
            kind=_KINDS.get(index.index_type, index.index_type.upper()),
            segments=tuple(
                IndexSegment(
                    uuid=str(segment.uuid),
                    fragments=frozenset(segment.fragment_ids),
                    nbytes=segment.size_bytes or 0,
                    text=index_to_json(_describe_segment(index.name, index.fields, segment)),
                )
                for segment in index.segments
            ),
        )
        for index in found
    ]
    return tuple(sorted(made, key=lambda index: index.name))


def build_segment(
    table: LanceTable,
    column: str,
    kind: str,
    name: str,
    fragments: Sequence[int],
    settings: IndexSettings | None = None,
) -> str:
    """Build one segment over these fragments, as text; IndexUntrainableError where vectors can't be learnt from."""
    dataset = table.handles.open(table.path, table.version)
    store = table.handles.store
    action = f"build the index {name} of {table.path}"
    errors = translate_rewrite_errors(action, table.path, table.version, table.handles.explain)
    with attribute_requests(store.runtime.telemetry, "table"), errors:
        try:
            segment = dataset.create_index_uncommitted(
                column, kind, name=name, replace=True, fragment_ids=list(fragments), **dict(settings or {})
            )
        except RuntimeError as error:
            if _UNTRAINABLE in str(error):
                raise IndexUntrainableError(table.path, name) from error
            raise
        if kind == "INVERTED":
            segment = dataset.merge_existing_index_segments([segment])
        segment.uuid = stamp_segment(store, table.path, segment.uuid)
    return index_to_json(segment)


def stage_index(
    table: LanceTable,
    column: str,
    kind: str,
    name: str,
    *,
    fragments: Sequence[int] | None = None,
    settings: IndexSettings | None = None,
) -> StagedWrite:
    """Build a segment of the index `name` over these fragments (all, if none are named).

    Segments of the same name that cover one of the fragments are replaced: left beside the new one they would
    give every hit twice.
    """
    covered = {one.number for one in table.list_fragments()} if fragments is None else set(fragments)
    built = build_segment(table, column, kind, name, sorted(covered), settings)
    replaced = [
        segment.text
        for index in list_stored_indexes(table)
        for segment in index.segments
        if index.name == name and segment.fragments & covered
    ]
    return stage_segments(table, [built], replaced)


def stage_segments(table: LanceTable, built: Sequence[str], replaced: Sequence[str]) -> StagedWrite:
    """A staged write of segments that were built already; those that they replace go in the same version."""
    return StagedWrite(
        change=WriteKind.INDEX,
        path=table.path,
        base=table.version,
        base_rows=table.count(),
        indexes=tuple(built),
        replaced_indexes=tuple(replaced),
    )


def list_segment_files(path: str, text: str) -> tuple[str, ...]:
    """The files of a segment of a table, relative to the root."""
    segment = json.loads(text)
    return tuple(f"{path}/_indices/{segment['uuid']}/{file}" for file, _ in segment["files"])


def index_to_json(index: Index) -> str:
    """A segment as text: another process can apply it."""
    return json.dumps(
        {
            "uuid": index.uuid,
            "name": index.name,
            "fields": list(index.fields),
            "dataset_version": str(index.dataset_version),
            "fragment_ids": sorted(index.fragment_ids),
            "index_version": index.index_version,
            "created_at": index.created_at.isoformat() if index.created_at else None,
            "base_id": index.base_id,
            "files": [[file.path, file.size_bytes] for file in index.files or []],
            "details": _details_to_json(index),
            "covering_fields": list(index.covering_fields),
        }
    )


def index_from_json(text: str) -> Index:
    """The inverse of `index_to_json`."""
    data = json.loads(text)
    details = data["details"]
    return Index(
        uuid=data["uuid"],
        name=data["name"],
        fields=data["fields"],
        dataset_version=int(data["dataset_version"]),
        fragment_ids=Bitmap(data["fragment_ids"]),
        index_version=data["index_version"],
        created_at=datetime.fromisoformat(data["created_at"]) if data["created_at"] else None,
        base_id=data["base_id"],
        files=[IndexFile(path, size) for path, size in data["files"]],
        index_details=(details[0], base64.b64decode(details[1])) if details else None,
        covering_fields=data["covering_fields"],
    )


def _details_to_json(index: Index) -> list[str] | None:
    if index.index_details is None:
        return None
    kind, content = index.index_details
    return [kind, base64.b64encode(content).decode()]


def _describe_segment(name: str, fields: Sequence[int], segment: "IndexSegmentDescription") -> Index:
    """A committed segment, as far as a replacement has to name it."""
    return Index(
        uuid=segment.uuid,
        name=name,
        fields=list(fields),
        dataset_version=segment.dataset_version_at_last_update,
        fragment_ids=segment.fragment_ids,
        index_version=segment.index_version,
    )
