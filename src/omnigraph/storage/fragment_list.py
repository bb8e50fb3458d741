"""List the fragments of a table version, reusing what is known of the version before it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import lance
from lance.fragment import DataFile


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


_GET_NUMBER = attrgetter("number")


def list_fragments(
    dataset: lance.LanceDataset, base: Sequence[Fragment] = (), changed: Collection[int] = ()
) -> tuple[Fragment, ...]:
    """Return the fragments of a version, in order, of which those of `base` are not read again unless `changed`.

    Reading a fragment takes 6 µs, so a commit that lists all of them again pays for all commits before it.
    """
    numbers = list(dataset.fragment_ids())
    # An append leaves all fragments where they were: no loop over them.
    if not changed and numbers[: len(base)] == list(map(_GET_NUMBER, base)):
        return (*base, *(_read_fragment(dataset, number) for number in numbers[len(base) :]))
    known = {fragment.number: fragment for fragment in base if fragment.number not in changed}
    return tuple(known[number] if number in known else _read_fragment(dataset, number) for number in numbers)


def _read_fragment(dataset: lance.LanceDataset, number: int) -> Fragment:
    handle = dataset.get_fragment(number)
    assert handle is not None  # noqa: S101 - the same version has just listed it
    return _describe(handle.metadata)


def build_fragment_json(metadata: lance.FragmentMetadata) -> dict[str, Any]:
    """Return a fragment in the JSON form of Lance; its own method takes ten times as long for a plain fragment."""
    is_plain = metadata.deletion_file is None and not metadata.overlays
    numbers = (metadata.row_id_meta, metadata.created_at_version_meta, metadata.last_updated_at_version_meta)
    if not is_plain or any(number is not None for number in numbers):
        return dict(metadata.to_json())
    return {
        "id": metadata.id,
        "files": [_build_file_json(file) for file in metadata.files],
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
