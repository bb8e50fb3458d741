"""Index segments, staged: built from some fragments of one version, invisible until a version names them."""

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lance import Index
from lance.dataset import IndexFile
from lance.lance import Bitmap

from omnigraph.storage.dataset import Table
from omnigraph.storage.requests import counted, store_errors
from omnigraph.storage.staging import Change, Staged

if TYPE_CHECKING:
    from lance.lance.indices import IndexSegmentDescription

Settings = Mapping[str, Any]
"""What a kind of index is built with, by Lance's names."""


def stage_index(
    table: Table,
    column: str,
    kind: str,
    name: str,
    *,
    fragments: Sequence[int] | None = None,
    settings: Settings | None = None,
) -> Staged:
    """Build a segment of the index `name` over these fragments (all, if none are named).

    Segments of the same name that cover one of the fragments are replaced: left beside the new one they would
    give every hit twice.
    """
    dataset = table.handles.open(table.path, table.version)
    covered = [f.fragment_id for f in dataset.get_fragments()] if fragments is None else list(fragments)
    store = table.handles.store
    with counted(store.runtime.telemetry, "table"), store_errors(f"build the index {name} of {table.path}"):
        segment = dataset.create_index_uncommitted(
            column, kind, name=name, replace=True, fragment_ids=covered, **dict(settings or {})
        )
        if kind == "INVERTED":
            segment = dataset.merge_existing_index_segments([segment])
        replaced = [
            _described(index.name, index.fields, segment)
            for index in dataset.describe_indices()
            for segment in index.segments
            if index.name == name and set(segment.fragment_ids) & set(covered)
        ]
    return Staged(
        change=Change.INDEX,
        path=table.path,
        base=table.version,
        base_rows=table.count(),
        indexes=(index_to_json(segment),),
        replaced_indexes=tuple(index_to_json(index) for index in replaced),
    )


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


def _described(name: str, fields: Sequence[int], segment: "IndexSegmentDescription") -> Index:
    """A committed segment, as far as a replacement has to name it."""
    return Index(
        uuid=segment.uuid,
        name=name,
        fields=list(fields),
        dataset_version=segment.dataset_version_at_last_update,
        fragment_ids=segment.fragment_ids,
        index_version=segment.index_version,
    )
