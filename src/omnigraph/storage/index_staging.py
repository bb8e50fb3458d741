"""Plan, build and stage index segments, which cover some fragments and are invisible until a version names them."""

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

# A new segment absorbs an existing one that has at most this many times its rows.
MAX_SEGMENT_RATIO = 2
# A segment is rebuilt if it covers at most this many rows per lost row: lost rows stay in its files.
MIN_KEPT_PER_LOST = 4


@dataclass(frozen=True, slots=True)
class SegmentCoverage:
    """A segment and the fragments that it covers; `lost` of its rows were rewritten elsewhere."""

    uuid: str
    fragments: frozenset[int]
    lost: int = 0


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """The fragments to build a segment from (none: no segment), and the segments to replace."""

    build: tuple[int, ...] = ()
    replaced: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.build and not self.replaced


def plan_segments(rows: Mapping[int, int], segments: Sequence[SegmentCoverage], max_segments: int) -> SegmentPlan:
    """Plan what makes an index complete with at most `max_segments` segments.

    `rows` has the number of rows of each existing fragment.
    """
    covered = {segment.uuid: segment.fragments & rows.keys() for segment in segments}
    # Segments without existing fragments, and segments that overlap: a lookup would return every hit twice.
    replaced = {uuid for uuid, fragments in covered.items() if not fragments}
    replaced |= {a for a in covered for b in covered if a != b and covered[a] & covered[b]}
    usable = [segment for segment in segments if segment.uuid not in replaced]
    build = set(rows).difference(*(covered[segment.uuid] for segment in usable))

    def count_rows(fragments: set[int] | frozenset[int]) -> int:
        return sum(rows[number] for number in fragments)

    # Smallest first: each absorbed segment makes the new one larger, which may then absorb the next.
    for segment in sorted(usable, key=lambda segment: count_rows(covered[segment.uuid])):
        covered_rows = count_rows(covered[segment.uuid])
        is_outgrown = bool(build) and covered_rows <= MAX_SEGMENT_RATIO * count_rows(build)
        is_worn = covered_rows <= MIN_KEPT_PER_LOST * segment.lost
        # The segments that would remain, plus the one to build.
        are_too_many = len(segments) - len(replaced) + bool(build) > max(max_segments, 1)
        if is_outgrown or is_worn or are_too_many:
            build |= covered[segment.uuid]
            replaced.add(segment.uuid)
    uuids = (segment.uuid for segment in segments)
    return SegmentPlan(tuple(sorted(build)), tuple(uuid for uuid in uuids if uuid in replaced))


# Build parameters of a kind of index, by the names of Lance.
IndexSettings = Mapping[str, Any]


# The index types that Lance reports, and the kinds with which they are built.
_KINDS = {"BTree": "BTREE", "Bitmap": "BITMAP", "Inverted": "INVERTED", "LabelList": "LABEL_LIST"}
# Parts of error messages of Lance; the errors have no type of their own. Product quantization trains its 256 codes with
# as many vectors at least, also for a segment of a few new rows.
_UNTRAINABLE = ("KMeans cannot train", "Not enough rows to train PQ")


class IndexUntrainableError(OmnigraphError):
    """A vector index can't be trained: the rows to add have no vector with a direction, or too few for the kind."""

    kind = Kind.INVALID
    code = "index_untrainable"
    path: str
    index: str
    message = (
        "the index {index} of {path} can't be built yet: its rows have no or too few vectors to train it with;"
        " run `omnigraph optimize` again when there are more"
    )


@dataclass(frozen=True, slots=True)
class IndexSegment:
    """A segment of a stored index: its coverage, and the JSON with which a replacement names it."""

    uuid: str
    fragments: frozenset[int]
    """Numbers of fragments, of which some may no longer exist."""
    nbytes: int
    text: str


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """An index of one version of a table."""

    name: str
    columns: tuple[str, ...]
    kind: str
    """BTREE, BITMAP, INVERTED, LABEL_LIST, or a kind of vector index."""
    segments: tuple[IndexSegment, ...]
    metric: str | None = None
    """The metric of a vector index, in lower case."""

    @property
    def follows_rows(self) -> bool:
        """Whether it refers to rows by stable row ids, and so stays complete when rows are rewritten.

        A BTREE refers to rows by address, and loses rows that are rewritten.
        """
        return self.kind != "BTREE"

    @property
    def nbytes(self) -> int:
        """The size of its files."""
        return sum(segment.nbytes for segment in self.segments)


def list_stored_indexes(table: LanceTable) -> tuple[StoredIndex, ...]:
    """Return the indexes of a version, sorted by name."""
    dataset = table.handles.open(table.path, table.version)
    errors = translate_read_errors(table.path, table.version, table.handles.explain)
    with attribute_requests(table.handles.store.runtime.telemetry, "table"), errors:
        descriptions = dataset.describe_indices()
    indexes: list[StoredIndex] = []
    for description in sorted(descriptions, key=lambda index: index.name):
        segments = tuple(
            IndexSegment(
                uuid=str(segment.uuid),
                fragments=frozenset(segment.fragment_ids),
                nbytes=segment.size_bytes or 0,
                text=index_to_json(_describe_segment(description.name, description.fields, segment)),
            )
            for segment in description.segments
        )
        kind = _KINDS.get(description.index_type, description.index_type.upper())
        metric = (description.details or {}).get("metric_type")
        columns = tuple(description.field_names)
        indexes.append(
            StoredIndex(description.name, columns, kind, segments, None if metric is None else str(metric).lower())
        )
    return tuple(indexes)


def build_segment(
    table: LanceTable,
    column: str,
    kind: str,
    name: str,
    fragments: Sequence[int],
    settings: IndexSettings | None = None,
) -> str:
    """Build one segment over these fragments, and return it as JSON.

    Raises:
        IndexUntrainableError: A vector index can't be trained with the values of the column.
    """
    # A private handle: while Lance builds an index, a read through the same handle fails.
    dataset = table.handles.open_uncached(table.path, table.version)
    store = table.handles.store
    action = f"build the index {name} of {table.path}"
    errors = translate_rewrite_errors(action, table.path, table.version, table.handles.explain)
    with attribute_requests(store.runtime.telemetry, "table"), errors:
        try:
            segment = dataset.create_index_uncommitted(
                column, kind, name=name, replace=True, fragment_ids=list(fragments), **dict(settings or {})
            )
        except RuntimeError as error:
            if is_untrainable(error):
                raise IndexUntrainableError(table.path, name) from error
            raise
        if kind == "INVERTED":
            segment = dataset.merge_existing_index_segments([segment])
        # Before the JSON is built, which names the directory of the segment.
        segment.uuid = stamp_segment(store, table.path, segment.uuid)
    return index_to_json(segment)


def is_untrainable(error: RuntimeError) -> bool:
    """Return whether Lance could not train a vector index, for lack of vectors that have a direction."""
    return any(message in str(error) for message in _UNTRAINABLE)


def merge_segments(table: LanceTable, parts: Sequence[str]) -> str:
    """Write one segment with the rows of several, which stay, and return it as JSON.

    Vector segments must have been built by the same model.
    """
    dataset = table.handles.open_uncached(table.path, table.version)
    store = table.handles.store
    errors = translate_rewrite_errors(f"index {table.path}", table.path, table.version, table.handles.explain)
    with attribute_requests(store.runtime.telemetry, "table"), errors:
        segment = dataset.merge_existing_index_segments(list(map(index_from_json, parts)))
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
    """Build and stage a segment of the index `name` over these fragments, by default all.

    Segments of the same name that cover one of the fragments are replaced: with both, every hit would be returned
    twice.
    """
    covered = {fragment.number for fragment in table.list_fragments()} if fragments is None else set(fragments)
    built = build_segment(table, column, kind, name, sorted(covered), settings)
    replaced = [
        segment.text
        for index in list_stored_indexes(table)
        for segment in index.segments
        if index.name == name and segment.fragments & covered
    ]
    return stage_segments(table, [built], replaced)


def stage_segments(table: LanceTable, built: Sequence[str], replaced: Sequence[str]) -> StagedWrite:
    """Stage segments that are built already; those that they replace are removed in the same version."""
    return StagedWrite(
        change=WriteKind.INDEX,
        path=table.path,
        base=table.version,
        base_rows=table.count(),
        indexes=tuple(built),
        replaced_indexes=tuple(replaced),
    )


def list_segment_files(path: str, text: str) -> tuple[str, ...]:
    """Return the files of a segment of a table, relative to the root."""
    segment = json.loads(text)
    return tuple(f"{path}/_indices/{segment['uuid']}/{file}" for file, _ in segment["files"])


def index_to_json(index: Index) -> str:
    """Encode a segment as JSON, so that another process can apply it."""
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
    """Decode a segment from the JSON of `index_to_json`."""
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
    """Build the description of a committed segment that a replacement needs."""
    return Index(
        uuid=segment.uuid,
        name=name,
        fields=list(fields),
        dataset_version=segment.dataset_version_at_last_update,
        fragment_ids=segment.fragment_ids,
        index_version=segment.index_version,
    )
