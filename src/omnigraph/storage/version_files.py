"""Which files a version of a table is made of: what a copy must take along, and what cleanup must leave alone."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import lance

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.io_counters import attribute_requests
from omnigraph.storage.layout import format_detached_name, format_version_name, is_detached
from omnigraph.storage.table_cache import TableCache, translate_read_errors

_TRANSACTION = re.compile(rb"\d+-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.txn")
"""How a version names the file of its own transaction; Lance shows that name to nobody."""


class UnknownPartError(OmnigraphError):
    """A version of a table has a part whose files this software does not know; nothing may be decided about it."""

    kind = Kind.CORRUPT
    code = "unknown_table_part"

    def __init__(self, path: str, version: int, part: str) -> None:
        super().__init__(path, version, part)
        self.path, self.version, self.part = path, version, part

    def __str__(self) -> str:
        return (
            f"version {self.version} of the table {self.path} has {self.part}, which omnigraph never writes:"
            " another tool has changed the table, or a newer release. It is neither copied nor cleaned up"
        )


@dataclass(frozen=True, slots=True)
class PinnedFiles:
    """The files of one version, or of several, relative to the graph's root.

    Everything below `directories` belongs to them too: an index, the large blobs of a data file.
    """

    files: frozenset[str] = frozenset()
    directories: frozenset[str] = frozenset()

    def __contains__(self, key: str) -> bool:
        """Whether a file is one of them; no directory of a table is deeper than two levels below it."""
        if key in self.files:
            return True
        above = key.rpartition("/")[0]
        while above:
            if above in self.directories:
                return True
            above = above.rpartition("/")[0]
        return False

    def __or__(self, other: "PinnedFiles") -> "PinnedFiles":
        """Those of both."""
        return PinnedFiles(self.files | other.files, self.directories | other.directories)


def list_pinned_files(handles: TableCache, path: str, versions: Iterable[int]) -> PinnedFiles:
    """Everything that these versions of a table need, by one read each.

    Raises:
        PinUnreadableError: A version can't be read.
        UnknownPartError: A version has parts that nothing is known about: then nothing may be concluded.
    """
    found = PinnedFiles()
    for version in versions:
        dataset = handles.open_uncached(path, version)  # not among the cached ones: most are of the past
        with attribute_requests(handles.store.runtime.telemetry, "table"), translate_read_errors(path, version):
            found |= list_version_files(dataset, path)
    return found


def list_version_files(dataset: lance.LanceDataset, path: str) -> PinnedFiles:
    """The files of one version that is open: its own, data, deletions, the transaction; indexes and blobs whole."""
    version = int(dataset.version)
    files = {f"{path}/{format_detached_name(version) if is_detached(version) else format_version_name(version)}"}
    directories: set[str] = set()
    for fragment in dataset.get_fragments():
        metadata = fragment.metadata
        _check_known_parts(metadata, path, version)
        for file in metadata.files:
            files.add(f"{path}/data/{file.path}")
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
    """Return those lists of checksums that still say something of a version's files; ones that can't be read stay."""
    parts = list_version_files(handles.open(path, version), path)
    used = []
    for name in lists:
        files = handles.store.verifier.lists.read(path, name)
        if not files or any(f"{path}/{file}" in parts for file in files):
            used.append(name)
    return tuple(used)


def _check_known_parts(metadata: lance.FragmentMetadata, path: str, version: int) -> None:
    """Refuse what Lance may one day write, and we would not see: overlays, row numbers in files, other places."""
    if metadata.overlays:
        raise UnknownPartError(path, version, "overlays")
    if any(file.base_id is not None for file in metadata.files):
        raise UnknownPartError(path, version, "data files outside of it")
    if metadata.deletion_file is not None and metadata.deletion_file.base_id is not None:
        raise UnknownPartError(path, version, "deletion files outside of it")
    for numbers in (metadata.row_id_meta, metadata.created_at_version_meta, metadata.last_updated_at_version_meta):
        if numbers is not None and not numbers.json().lower().startswith('{"inline"'):
            raise UnknownPartError(path, version, "row numbers in files of their own")
