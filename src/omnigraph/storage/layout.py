"""The names of things below a graph's root."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec

MANIFEST = "__manifest"
BRANCHES = "__branches"
NODES = "nodes"
EDGES = "edges"
RECOVERY = "__recovery"
AUDIT = "_graph_commit_recoveries.lance"
RESERVE = f"{RECOVERY}/.reserve"
"""On a local disk, a file that takes up room for cleanup. No listing shows it."""
SCHEMA_COPY = "_schema.pg"
DERIVED = "_derived"

VERSION_NOTE = "newest_version"
CHECKSUM_LISTS = "_checksums"
"""Below a table: objects that list checksums of files whose names carry none."""

LANCE_STORAGE_VERSION: Final = "2.2"
"""Lance's storage version of every table."""

TOP_LEVEL = frozenset({MANIFEST, BRANCHES, NODES, EDGES, RECOVERY, AUDIT, SCHEMA_COPY, DERIVED})
"""Everything that may lie directly below a root; an init refuses a place that holds anything else."""

TABLE_ROOTS = (MANIFEST, BRANCHES, NODES, EDGES)
"""Everything that is read by Lance lies at or below one of these, but the audit."""
_NAME = r"[0-9A-Za-z_-][0-9A-Za-z_.-]*"
TablePath = Annotated[str, msgspec.Meta(pattern=rf"\A(?:{NODES}|{EDGES})/{_NAME}\Z")]
"""The path of a table, checked when it is decoded, so that no stored path can lead out of the graph."""
ManifestPath = Annotated[str, msgspec.Meta(pattern=rf"\A(?:{MANIFEST}|{BRANCHES}/{_NAME})\Z")]
"""The path of a manifest, checked likewise."""
TableFile = Annotated[str, msgspec.Meta(pattern=rf"\A(?:{NODES}|{EDGES})(?:/(?!\.{{1,2}}(?:/|\Z))[^/\x00]+)+\Z")]
"""A file below a table, checked likewise: what an operation may make and recovery may remove."""

_FNV_OFFSET, _FNV_PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, 0xFFFFFFFFFFFFFFFF


def hash_fnv1a64(text: str) -> str:
    """The 64-bit FNV-1a hash of the UTF-8 bytes, as 16 hex digits."""
    value = _FNV_OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * _FNV_PRIME) & _MASK
    return f"{value:016x}"


def build_table_path(kind: str, type_name: str, incarnation: int = 1) -> str:
    """The path of a type's table; a name used again gets `-2`, `-3` and so on."""
    suffix = "" if incarnation == 1 else f"-{incarnation}"
    return f"{NODES if kind == 'node' else EDGES}/{hash_fnv1a64(type_name)}{suffix}"


def build_branch_path(branch_id: str) -> str:
    """The manifest of a branch other than main."""
    return f"{BRANCHES}/{branch_id}"


def build_sidecar_key(operation_id: str) -> str:
    """The control object of an operation in flight."""
    return f"{RECOVERY}/{operation_id}.json"


def build_job_key(operation_id: str, name: str) -> str:
    """An object that the tasks of an operation in flight keep for each other: notes of files, scratch."""
    return f"{RECOVERY}/{operation_id}-{name}"


def build_derived_key(kind: str, tables: Sequence[str]) -> str:
    """The one object of a kind that is derived from these tables; a newer one takes its place."""
    return f"{DERIVED}/{kind}-{hash_fnv1a64(' '.join(tables))}"


def format_version_name(version: int) -> str:
    """The file of an ordinary table version, relative to the table (Lance's V2 naming: newest first)."""
    return f"_versions/{2**64 - 1 - version:020d}.manifest"


def parse_version_number(key: str) -> int:
    """The inverse of `format_version_name`; 0 for a file that is not an ordinary version."""
    name = key.rsplit("/", 1)[-1].removesuffix(".manifest")
    return 2**64 - 1 - int(name) if name.isdigit() else 0


def build_hint_key(path: str) -> str:
    """Return the key of the file in which Lance notes the newest version of a table, after making it; on disk only."""
    return f"{path}/_versions/latest_version_hint.json"


def format_detached_name(version: int) -> str:
    """The file of a detached table version, relative to the table."""
    return f"_versions/d{version}.manifest"


def build_note_key(path: str) -> str:
    """Return the key of the note with the checksum of a manifest's newest version, which no version can hold itself."""
    return f"{path}/{VERSION_NOTE}"


def build_version_key(path: str, version: int) -> str:
    """Return the key of the file of a table version, ordinary or detached."""
    return f"{path}/{format_detached_name(version) if is_detached(version) else format_version_name(version)}"


def format_deletion_name(fragment: Mapping[str, object]) -> str:
    """Return the deletion file of a fragment in Lance's JSON, relative to its table, by Lance's naming."""
    file = fragment["deletion_file"]
    assert isinstance(file, dict)  # noqa: S101 - asked only of fragments that have one
    suffix = "arrow" if file["file_type"] == "array" else "bin"
    return f"_deletions/{fragment['id']}-{file['read_version']}-{file['id']}.{suffix}"


def is_detached(version: int) -> bool:
    """Whether a number is that of a detached version: they have the highest of 64 bits."""
    return version >> 63 == 1
