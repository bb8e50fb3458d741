"""Build and parse the names of the objects below a graph's root."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec

MANIFEST = "__manifest"
BRANCHES = "__branches"
NODES = "nodes"
EDGES = "edges"
RECOVERY = "__recovery"
AUDIT = "_graph_commit_recoveries.lance"
# On a local disk, a file that reserves space for a cleanup of a full disk. No listing shows it.
RESERVE = f"{RECOVERY}/.reserve"
SCHEMA_COPY = "_schema.pg"
DERIVED = "_derived"
# Below the root of a repository of backups, which has the table files of all of them beside it.
BACKUPS = "backups"

VERSION_NOTE = "newest_version"
# Below a table: objects that list the checksums of files whose names carry none.
CHECKSUM_LISTS = "_checksums"

# Lance's storage version of every table.
LANCE_STORAGE_VERSION: Final = "2.2"

# All names directly below a root; `init` rejects a location that contains anything else.
TOP_LEVEL = frozenset({MANIFEST, BRANCHES, NODES, EDGES, RECOVERY, AUDIT, SCHEMA_COPY, DERIVED})

# Every Lance table except the audit is at or below one of these.
TABLE_ROOTS = (MANIFEST, BRANCHES, NODES, EDGES)
# Stored paths are checked when they are decoded, so that none can lead out of the graph: the path of a table, the path
# of a manifest, and a file below a table, which an operation may create and recovery may remove.
_NAME = r"[0-9A-Za-z_-][0-9A-Za-z_.-]*"
TablePath = Annotated[str, msgspec.Meta(pattern=rf"\A(?:{NODES}|{EDGES})/{_NAME}\Z")]
ManifestPath = Annotated[str, msgspec.Meta(pattern=rf"\A(?:{MANIFEST}|{BRANCHES}/{_NAME})\Z")]
TableFile = Annotated[str, msgspec.Meta(pattern=rf"\A(?:{NODES}|{EDGES})(?:/(?!\.{{1,2}}(?:/|\Z))[^/\x00]+)+\Z")]

_FNV_OFFSET, _FNV_PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, 0xFFFFFFFFFFFFFFFF


def hash_fnv1a64(text: str) -> str:
    """Return the 64-bit FNV-1a hash of the UTF-8 bytes, as 16 hex digits."""
    value = _FNV_OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * _FNV_PRIME) & _MASK
    return f"{value:016x}"


def build_table_path(kind: str, type_name: str, incarnation: int = 1) -> str:
    """Return the path of a type's table; a type name that is used again gets `-2`, `-3` and so on."""
    suffix = "" if incarnation == 1 else f"-{incarnation}"
    return f"{NODES if kind == 'node' else EDGES}/{hash_fnv1a64(type_name)}{suffix}"


def build_branch_path(branch_id: str) -> str:
    """Return the path of the manifest of a branch other than main."""
    return f"{BRANCHES}/{branch_id}"


def build_sidecar_key(operation_id: str) -> str:
    """Return the key of the sidecar of an operation in progress."""
    return f"{RECOVERY}/{operation_id}.json"


def build_job_key(operation_id: str, name: str) -> str:
    """Return the key of an object that the tasks of an operation in progress share, such as lists of their files."""
    return f"{RECOVERY}/{operation_id}-{name}"


def build_derived_key(kind: str, tables: Sequence[str]) -> str:
    """Return the key of the one object of a kind that is derived from these tables; a newer object overwrites it."""
    return f"{DERIVED}/{kind}-{hash_fnv1a64(' '.join(tables))}"


def format_version_name(version: int) -> str:
    """Return the file of an ordinary table version, relative to the table (Lance's V2 naming)."""
    # Counted down from the largest number, so that a listing has the newest version first.
    return f"_versions/{2**64 - 1 - version:020d}.manifest"


def parse_version_number(key: str) -> int:
    """Return the version that `format_version_name` has named so, or 0 for any other file."""
    name = key.rsplit("/", 1)[-1].removesuffix(".manifest")
    return 2**64 - 1 - int(name) if name.isdigit() else 0


def build_hint_key(path: str) -> str:
    """Return the key of the file in which Lance records the newest version of a table; it exists on local disk only."""
    return f"{path}/_versions/latest_version_hint.json"


def format_detached_name(version: int) -> str:
    """Return the file of a detached table version, relative to the table."""
    return f"_versions/d{version}.manifest"


def build_note_key(path: str) -> str:
    """Return the key of the note with the checksum of a manifest's newest version, which can't contain its own."""
    return f"{path}/{VERSION_NOTE}"


def build_version_key(path: str, version: int) -> str:
    """Return the key of the file of a table version, ordinary or detached."""
    return f"{path}/{format_detached_name(version) if is_detached(version) else format_version_name(version)}"


def format_deletion_name(fragment: Mapping[str, object]) -> str:
    """Return the deletion file of a fragment in Lance's JSON, relative to its table, by Lance's naming."""
    file = fragment["deletion_file"]
    assert isinstance(file, dict)  # noqa: S101 - called only for fragments that have one
    suffix = "arrow" if file["file_type"] == "array" else "bin"
    return f"_deletions/{fragment['id']}-{file['read_version']}-{file['id']}.{suffix}"


def is_detached(version: int) -> bool:
    """Return whether a version is detached; Lance sets the highest of 64 bits in their numbers."""
    return version >> 63 == 1
