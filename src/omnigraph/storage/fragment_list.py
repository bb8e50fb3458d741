"""List the fragments of a table version, reusing what is known of the version before it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import lance
import msgspec
from lance.fragment import DataFile

from omnigraph.storage.layout import format_deletion_name


@dataclass(frozen=True, slots=True)
class Fragment:
    """A fragment of a table version. Its rows keep their offsets permanently; deleted rows leave holes."""

    number: int
    """Lance's fragment id, as in row addresses; in another version it may belong to other rows."""
    rows: int
    """The number of rows written, including deleted ones."""
    deleted: int
    files: tuple[str, ...]
    """The names of its data files, which are never reused: equal names mean equal rows."""
    deletions: str | None
    """The name of its deletion file, which is never reused; None without deleted rows."""
    nbytes: int
    """The size of its data files, 0 if unknown."""


# A fragment in the JSON form of Lance.
FragmentJson = Mapping[str, Any]
_DELETIONS = "_deletions/"
# Without a type, so that it describes no struct.
_DECODER = msgspec.json.Decoder()


def encode_json(value: object) -> str:
    """Return a fragment, or a group of them, as JSON.

    The numbers of 400 compacted rows took the standard library 2 ms, in which no other thread ran, and this 0.03 ms.
    """
    return msgspec.json.encode(value).decode()


def decode_json(text: str) -> Any:  # noqa: ANN401 - as `json.loads`
    """Return what `encode_json`, or Lance, has encoded."""
    return _DECODER.decode(text)


def list_fragments(dataset: lance.LanceDataset) -> tuple[Fragment, ...]:
    """Return the fragments of a version, in order."""
    return tuple(_describe(fragment.metadata) for fragment in dataset.get_fragments())


def list_written_fragments(
    base: tuple[Fragment, ...],
    written: Sequence[FragmentJson],
    updated: Sequence[FragmentJson],
    removed: Collection[int],
    first_number: int,
) -> tuple[Fragment, ...]:
    """Return the fragments of a version that a write of rows makes of another one, without reading them.

    Reading a fragment takes 6 µs, so a commit that lists all of them again pays for all commits before it.
    """
    if updated or removed:
        files = {fragment["id"]: fragment["deletion_file"] for fragment in updated}
        base = tuple(
            _replace_deletions(fragment, files[fragment.number]) if fragment.number in files else fragment
            for fragment in base
            if fragment.number not in removed
        )
    new = (
        Fragment(
            number=number,
            rows=fragment["physical_rows"],
            deleted=0,
            files=tuple(file["path"] for file in fragment["files"]),
            deletions=None,
            nbytes=sum(file["file_size_bytes"] or 0 for file in fragment["files"]),
        )
        for number, fragment in enumerate(written, first_number)
    )
    return (*base, *new)


def _replace_deletions(fragment: Fragment, file: Mapping[str, Any]) -> Fragment:
    name = format_deletion_name({"id": fragment.number, "deletion_file": file}).removeprefix(_DELETIONS)
    return replace(fragment, deleted=file["num_deleted_rows"], deletions=name)


def build_fragment_json(metadata: lance.FragmentMetadata) -> dict[str, Any]:
    """Return a fragment in the JSON form of Lance; its own method takes ten times as long for the data files."""
    files = [_build_file_json(file) for file in metadata.files]
    is_plain = metadata.deletion_file is None and not metadata.overlays
    numbers = (metadata.row_id_meta, metadata.created_at_version_meta, metadata.last_updated_at_version_meta)
    if not is_plain or any(number is not None for number in numbers):
        return {**replace(metadata, files=[]).to_json(), "files": files}
    return {
        "id": metadata.id,
        "files": files,
        "overlays": [],
        "physical_rows": metadata.physical_rows,
        "deletion_file": None,
        "row_id_meta": None,
        "created_at_version_meta": None,
        "last_updated_at_version_meta": None,
    }


def _build_file_json(file: DataFile) -> dict[str, Any]:
    values = dict(vars(file))
    values["path"] = values.pop("_path")
    return values


def _describe(metadata: lance.FragmentMetadata) -> Fragment:
    deletion = metadata.deletion_file
    name = None
    if deletion is not None:
        suffix = "bin" if deletion.file_type == "bitmap" else "arrow"
        name = f"{metadata.id}-{deletion.read_version}-{deletion.id}.{suffix}"
    return Fragment(
        number=metadata.id,
        rows=metadata.physical_rows,
        deleted=metadata.num_deletions,
        # Not `file.path`: it creates a new class for each text, which costs more than everything else here.
        files=tuple(str(vars(file).get("_path") or file.path) for file in metadata.files),
        deletions=name,
        nbytes=sum(file.file_size_bytes or 0 for file in metadata.files),
    )
