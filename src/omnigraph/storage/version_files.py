"""List the files of a table version, which a copy must include and cleanup must not remove."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import lance

from omnigraph.errors import CorruptError, Kind
from omnigraph.storage.io_counters import attribute_requests
from omnigraph.storage.layout import build_version_key
from omnigraph.storage.table_cache import TableCache, translate_read_errors

# The name of the transaction file in the manifest of a version; Lance's API does not return it.
_TRANSACTION = re.compile(rb"\d+-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.txn")


class UnknownPartError(CorruptError):
    """A table version has a part whose files this release does not know, so it is neither copied nor cleaned up."""

    kind = Kind.CORRUPT
    code = "unknown_table_part"
    path: str
    version: int
    part: str
    message = (
        "version {version} of the table {path} has {part}, which omnigraph never writes:"
        " another tool has changed the table, or a newer release. It is neither copied nor cleaned up"
    )


@dataclass(frozen=True, slots=True)
class PinnedFiles:
    """The files of one or more versions, relative to the graph's root.

    All files below `directories` are included: those of an index, and the large blobs of a data file.
    """

    files: frozenset[str] = frozenset()
    directories: frozenset[str] = frozenset()

    def __contains__(self, key: str) -> bool:
        """Return whether a file is included, itself or by a directory above it."""
        if key in self.files:
            return True
        above = key.rpartition("/")[0]
        while above:
            if above in self.directories:
                return True
            above = above.rpartition("/")[0]
        return False

    def __or__(self, other: "PinnedFiles") -> "PinnedFiles":
        """Return the union of both."""
        return PinnedFiles(self.files | other.files, self.directories | other.directories)


def list_pinned_files(handles: TableCache, path: str, versions: Iterable[int]) -> PinnedFiles:
    """Return all files that these versions of a table need, by one read per version.

    Raises:
        PinUnreadableError: A version can't be read.
        UnknownPartError: A version has unknown parts, so that its files can't be listed completely.
    """
    pinned = PinnedFiles()
    for version in versions:
        # Not cached, because most are old versions that no query reads.
        dataset = handles.open_uncached(path, version)
        with attribute_requests(handles.store.runtime.telemetry, "table"), translate_read_errors(path, version):
            pinned |= list_version_files(dataset, path)
    return pinned


def list_version_files(dataset: lance.LanceDataset, path: str) -> PinnedFiles:
    """Return the files of an open version: manifest, data, deletion and transaction files; indexes and blobs whole."""
    version = int(dataset.version)
    files = {build_version_key(path, version)}
    directories: set[str] = set()
    for fragment in dataset.get_fragments():
        metadata = fragment.metadata
        _check_known_parts(metadata, path, version)
        for file in metadata.files:
            files.add(f"{path}/data/{file.path}")
            # Only data files with large blobs have this directory; one that does not exist includes no file.
            directories.add(f"{path}/data/{file.path.removesuffix('.lance')}")
        if metadata.deletion_file is not None:
            files.add(f"{path}/{metadata.deletion_file.path(metadata.id)}")
    for index in dataset.describe_indices():
        for segment in index.segments:
            if segment.base_id is not None:
                raise UnknownPartError(path, version, f"an index `{index.name}` outside of it")
            directories.add(f"{path}/_indices/{segment.uuid}")
    content = bytes(dataset._ds.serialized_manifest())  # noqa: SLF001 - there is no public way
    files.update(f"{path}/_transactions/{name.decode()}" for name in _TRANSACTION.findall(content))
    return PinnedFiles(frozenset(files), frozenset(directories))


def find_used_lists(handles: TableCache, path: str, version: int, lists: Iterable[str]) -> tuple[str, ...]:
    """Return the checksum lists that contain files of a version; lists that can't be read are returned too."""
    pinned = list_version_files(handles.open(path, version), path)
    used = []
    for name in lists:
        files = handles.store.verifier.lists.read(path, name)
        if not files or any(f"{path}/{file}" in pinned for file in files):
            used.append(name)
    return tuple(used)


def _check_known_parts(metadata: lance.FragmentMetadata, path: str, version: int) -> None:
    """Check that a fragment has no files that the listing would miss, as a newer Lance may write them.

    Raises:
        UnknownPartError: It has overlays, row ids in separate files, or files outside of the table.
    """
    if metadata.overlays:
        raise UnknownPartError(path, version, "overlays")
    if any(file.base_id is not None for file in metadata.files):
        raise UnknownPartError(path, version, "data files outside of it")
    if metadata.deletion_file is not None and metadata.deletion_file.base_id is not None:
        raise UnknownPartError(path, version, "deletion files outside of it")
    for numbers in (metadata.row_id_meta, metadata.created_at_version_meta, metadata.last_updated_at_version_meta):
        if numbers is not None and not numbers.json().lower().startswith('{"inline"'):
            raise UnknownPartError(path, version, "row ids in separate files")
