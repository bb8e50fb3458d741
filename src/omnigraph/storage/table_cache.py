"""Cache open tables: one handle per path and version, one Lance session per graph."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

import lance
import pyarrow as pa

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lru_cache import LruCache
from omnigraph.storage.carried_rows import CarriedCache
from omnigraph.storage.cas_table_errors import REPAIR_HINT
from omnigraph.storage.fragment_list import Fragment, list_fragments
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.io_counters import attribute_requests, convert_store_error, extract_reason, is_io, is_unreachable
from omnigraph.storage.key_cache import KeyCache
from omnigraph.storage.layout import build_version_key
from omnigraph.storage.local_encoding import create_twin
from omnigraph.storage.object_store import ObjectMissingError, StoreUnavailableError
from omnigraph.storage.row_file_codec import RowFileLayout
from omnigraph.storage.verification import raise_mismatch
from omnigraph.storage.version_codec import (
    VersionContent,
    decode_indexes,
    decode_version,
    read_number,
    split_file,
)
from omnigraph.telemetry import log as telemetry_log

# Limits of open handles in all, and per table. A handle holds the list of all fragments of its version.
MAX_CACHED_HANDLES = 512
MAX_CACHED_VERSIONS = 8
# The limit of the manifests of versions that this process created and that nothing has read: of those that a group of
# writes creates, only the last one is usually read. Opening a handle takes 0.3 ms, a quarter of placing a write.
MAX_MANIFEST_BYTES = 16 * 1024 * 1024
# The tables of which the content of one version is kept: about 150 bytes for each fragment.
MAX_CACHED_CONTENTS = 64
# Parts of the messages with which Lance reports a damaged or truncated data or deletion file. Whatever a decoder
# rejects is the file's fault: it gets the content of the file, and no part of a request.
_DAMAGE_MARKS = (
    "not appear to be a Lance file",
    "Encountered corrupt file",
    "rust/lance-encoding/src/",
    "rust/lance-file/src/",
    "rust/lance-table/src/io/deletion.rs",
)
# Parts of the messages about a missing or truncated file. Lance does not read a file that it writes, so such a file is
# one of the pinned version.
_TORN_MARKS = ("Not found:", "failed to fill whole buffer", "file size is too small")
# The class of errors for a fault inside Lance, such as reading an empty data file.
PANIC = "PanicException"

# Lance's dataset under a name for other packages, which may pass it on but must not import lance.
PinnedDataset: TypeAlias = lance.LanceDataset


class PinUnreadableError(OmnigraphError):
    """A pinned table version can't be read: its files were removed or damaged outside of omnigraph."""

    kind = Kind.CORRUPT
    code = "pin_unreadable"

    # Most facts are known only after the graph's manifests were read, so they have defaults.
    def __init__(  # noqa: PLR0913, PLR0917 - facts of the error
        self,
        path: str,
        version: int,
        reason: str,
        table_key: str | None = None,
        file: str | None = None,
        branches: tuple[str, ...] = (),
        commits: int = 0,
        is_counted: bool = True,
        readable: str | None = None,
    ) -> None:
        super().__init__(path, version, reason, table_key, file, branches, commits, is_counted, readable)
        self.path = path
        self.version = version
        self.reason = reason
        self.table_key = table_key
        self.file = file
        # The branches whose newest state needs the version.
        self.branches = list(branches)
        # The number of commits that need it on the first of these branches; a lower bound unless `is_counted`.
        self.commits = commits
        self.is_counted = is_counted
        # The newest commit whose state does not need it.
        self.readable = readable

    @property
    def is_needed(self) -> bool:
        """Whether a commit needs the version, or nothing is known about that."""
        return self.table_key is None or bool(self.branches or self.commits) or not self.is_counted

    def __str__(self) -> str:
        table = "" if self.table_key is None else f"{self.table_key}: "
        is_named = self.file is None or self.file in self.reason
        reason = self.reason if is_named else f"{self.file}: {self.reason}"
        return (
            f"{table}version {self.version} of the table {self.path} can't be read ({reason});"
            f" its files were removed or damaged outside of omnigraph. {self._describe_need()}{REPAIR_HINT}"
        )

    def _describe_need(self) -> str:
        """Describe the branches and commits that need the version, and what can still be read."""
        if self.table_key is None:
            return ""
        at_least = "" if self.is_counted else "at least "
        commits = "1 commit" if self.commits == 1 else f"{self.commits:,} commits"
        if self.branches:
            names = ", ".join(f"`{name}`" for name in self.branches)
            noun = "branch" if len(self.branches) == 1 else "branches"
            needed = f"The {noun} {names} and {at_least}{commits} need it"
        elif self.commits:
            needed = f"Only earlier states need it, {at_least}{commits}"
        else:
            needed = "Only earlier states need it"
        readable = "" if self.readable is None else f", and so can all tables at commit {self.readable}"
        return f"{needed}; other tables can be read{readable}. "


# Adds to an error why a version can't be read, if more is known.
Explain: TypeAlias = Callable[[PinUnreadableError], PinUnreadableError]


@contextmanager
def translate_read_errors(path: str, version: int, explain: Explain = lambda error: error) -> Iterator[None]:
    """Translate Lance's errors of a read.

    Raises:
        PinUnreadableError: A file of the version is missing or damaged.
        StoreUnavailableError: The store failed.
    """
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        if is_unreachable(error):
            raise convert_store_error(f"read {path}", error) from error
        if is_io(error) or any(mark in str(error) for mark in _DAMAGE_MARKS):
            raise explain(PinUnreadableError(path, version, extract_reason(error))) from error
        raise
    except BaseException as error:
        # A panic of Rust is not an Exception, so that no handler catches it by accident.
        if type(error).__name__ != PANIC:
            raise
        if is_unreachable(error):
            raise convert_store_error(f"read {path}", error) from error
        raise explain(PinUnreadableError(path, version, f"Lance failed on it: {error}")) from error


@contextmanager
def translate_rewrite_errors(
    action: str, path: str, version: int, explain: Explain = lambda error: error
) -> Iterator[None]:
    """Translate Lance's errors of an operation that reads and writes; unattributed failures are the store's.

    Raises:
        PinUnreadableError: A file of the version is missing or damaged.
        StoreUnavailableError: The store failed.
    """
    with translate_read_errors(path, version, explain):
        try:
            yield
        except (OSError, ValueError, RuntimeError) as error:
            is_file_error = isinstance(error, OSError) or is_io(error)
            if is_file_error and not any(mark in str(error) for mark in (*_DAMAGE_MARKS, *_TORN_MARKS)):
                raise convert_store_error(action, error) from error
            raise


class VerifyLevel:
    """Bits for the files of a version that were compared with their checksums."""

    # Plain integers: with an enum, every read took 10 µs longer.
    NOTHING = 0
    # Deletion files, and small data files.
    ROWS = 1
    # Small index segments.
    INDEXES = 2
    # All files, of any size.
    WHOLE = 4


@dataclass(slots=True)
class VersionFacts:
    """Facts of a version that a write of rows leaves as they are: columns and indexes. Lance builds them each time."""

    schema: pa.Schema
    numbers: dict[str, int]
    """Lance's number of each column."""
    indexes: "tuple[IndexFacts, ...] | None" = None
    """None until they are needed."""
    twin: lance.LanceDataset | None = None
    """See `local_encoding`; None until it is needed."""
    row_layout: RowFileLayout | None = None
    """The form of data files of one row; None until Lance has written one."""
    has_other_row_files: bool = False
    """Whether Lance has to write all of them."""


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """One index of a version."""

    name: str
    columns: tuple[str, ...]
    kind: str
    segments: tuple[str, ...]
    """The UUIDs of its segments."""
    fragments: frozenset[int]
    """The numbers of the fragments that it covers; the version may no longer have some of them."""


class TableCache:
    """An LRU cache of pinned Lance datasets by (path, version), which are immutable and never stale. Thread-safe."""

    keys: KeyCache | None = None
    """The cache of keys for lookups, if the owner has memory for one."""

    def __init__(self, store: GraphStorage, *, is_verifying: bool = True) -> None:
        self.store = store
        # Off for a search for damage, which also opens versions that do not match their checksums.
        self.is_verifying = is_verifying
        # Completes the error about a version that can't be read before it is raised.
        self.explain: Explain = lambda error: error
        self._verified: LruCache[tuple[str, int], int] = LruCache(MAX_CACHED_HANDLES)
        self._open: LruCache[tuple[str, int], lance.LanceDataset] = LruCache(MAX_CACHED_HANDLES)
        self._manifests: LruCache[tuple[str, int], bytes] = LruCache(MAX_MANIFEST_BYTES)
        # The fragments of versions with a cached handle or manifest, as far as they were listed.
        self._fragments: LruCache[tuple[str, int], tuple[Fragment, ...]] = LruCache(MAX_CACHED_HANDLES)
        # The numbers of rows of versions that were created here: adding up 400 fragments took 50 µs for each write.
        self.created_rows: LruCache[tuple[str, int], int] = LruCache(MAX_CACHED_HANDLES)
        self._facts: LruCache[tuple[str, int], VersionFacts] = LruCache(MAX_CACHED_HANDLES)
        # By table, the content of the version that this process created last: the next one is made of it.
        self._contents: LruCache[str, VersionContent] = LruCache(MAX_CACHED_CONTENTS)
        self.carried = CarriedCache()

    def open(self, path: str, version: int) -> lance.LanceDataset:
        """Return the dataset at exactly this version.

        Raises:
            PinUnreadableError: It is missing or damaged.
        """
        dataset = self._open.get((path, version))
        if dataset is None:
            manifest = self._manifests.get((path, version))
            # Two threads may open the same version, so that other tables need not wait for the store.
            if manifest is None:
                dataset = _open_file(self, path, version) or self.open_uncached(path, version)
            else:
                dataset = self.build_handle(path, version, manifest)
            self.put(path, dataset)
        return dataset

    def open_uncached(self, path: str, version: int) -> lance.LanceDataset:
        """Open a private handle: some methods of a handle move it to another version. Raises as `open`."""
        uri = self.store.resolve_table_uri(path)
        self.store.wait_for_uploads(path)
        _verify_version(self, path, version)
        with attribute_requests(self.store.runtime.telemetry, "table"):
            try:
                dataset = lance.dataset(
                    uri, version=version, session=self.store.session, storage_options=self.store.lance_options
                )
                # Lance panics on an unknown type only when the schema is read.
                _ = dataset.schema
            except (ValueError, OSError, RuntimeError) as error:
                if is_unreachable(error):
                    raise convert_store_error(f"open {path}", error) from error
                raise self.explain(PinUnreadableError(path, version, extract_reason(error))) from error
            except BaseException as error:
                if type(error).__name__ != PANIC:
                    raise
                raise self.explain(PinUnreadableError(path, version, f"Lance failed on it: {error}")) from error
        if self.is_verifying:
            self.check_rows(path, version, dataset)
        return dataset

    def build_handle(self, path: str, version: int, manifest: bytes) -> lance.LanceDataset:
        """Return a handle of a version whose manifest is in memory; no file is read."""
        return lance.LanceDataset(
            self.store.resolve_table_uri(path),
            version,
            storage_options=self.store.lance_options,
            serialized_manifest=manifest,
            session=self.store.session,
        )

    def read_facts(self, path: str, version: int) -> VersionFacts:
        """Return the columns of a version, with their numbers."""
        facts = self._facts.get((path, version))
        if facts is None:
            dataset = self.open(path, version)
            numbers = {field.name(): int(field.id()) for field in dataset.lance_schema.fields()}
            facts = VersionFacts(dataset.schema, numbers)
            self._facts.put((path, version), facts)
        return facts

    def list_indexes(self, path: str, version: int) -> tuple[IndexFacts, ...]:
        """Return the indexes of a version by name."""
        facts = self.read_facts(path, version)
        if facts.indexes is None:
            facts.indexes = tuple(
                IndexFacts(
                    name=index.name,
                    columns=tuple(index.field_names),
                    kind=index.index_type,
                    segments=tuple(sorted(str(segment.uuid) for segment in index.segments)),
                    fragments=frozenset(number for segment in index.segments for number in segment.fragment_ids),
                )
                for index in sorted(self.open(path, version).describe_indices(), key=lambda index: index.name)
            )
        return facts.indexes

    def get_twin(self, path: str, version: int) -> lance.LanceDataset:
        """Return the empty table on the local disk in which small files of this table are encoded."""
        facts = self.read_facts(path, version)
        if facts.twin is None:
            facts.twin = create_twin(self.open(path, version))
        return facts.twin

    def keep_facts(self, path: str, base: int, version: int) -> None:
        """Record that a version has the columns and indexes of `base`."""
        facts = self._facts.get((path, base))
        if facts is not None:
            self._facts.put((path, version), facts)

    def read_content(self, path: str, version: int) -> VersionContent:
        """Return what the file of a version contains. It is read only if the version has indexes, and once.

        Raises:
            UnknownFormatError: Its format is not known.
            PinUnreadableError: The file is missing.
        """
        content = self._contents.get(path)
        if content is None or content.number != version:
            manifest = bytes(self.open(path, version)._ds.serialized_manifest())  # noqa: SLF001 - no public API has it
            content = decode_version(manifest)
            if content.has_indexes:
                try:
                    file = self.store.objects.get(build_version_key(path, version)).data
                except ObjectMissingError as error:
                    raise self.explain(PinUnreadableError(path, version, str(error))) from error
                content = replace(content, indexes=decode_indexes(file))
            content = replace(content, carried=self.carried.get_read(path, version))
            self.put_content(path, content)
        return content

    def put_content(self, path: str, content: VersionContent) -> None:
        """Keep the content of a version, for the next write of its table."""
        self._contents.put(path, content)
        # A write of another branch takes its place, and then the rest of it is taken from the handle.
        self.carried.put_read(path, content.number, content.carried)

    def list_fragments(self, path: str, version: int) -> tuple[Fragment, ...]:
        """Return the fragments of a version, in order; needs no request once it is open. Raises as `open`."""
        fragments = self.get_fragments(path, version)
        if fragments is None:
            fragments = list_fragments(self.open(path, version))
            if (path, version) in self._open:
                self._fragments.put((path, version), fragments)
        return fragments

    def get_fragments(self, path: str, version: int) -> tuple[Fragment, ...] | None:
        """Return the fragments of a version as `list_fragments` does, or None if they were not listed."""
        return self._fragments.get((path, version))

    def put_created(
        self, path: str, version: int, manifest: bytes, fragments: tuple[Fragment, ...] | None, rows: int | None
    ) -> None:
        """Keep the manifest of a version that this process has created, of which a handle is made when it is read."""
        if rows is not None:
            self.created_rows.put((path, version), rows)
        for key in self._manifests.put((path, version), manifest, len(manifest)):
            if key not in self._open:
                self._fragments.pop(key)
        if fragments is not None and (path, version) in self._manifests:
            self._fragments.put((path, version), fragments)

    def get_verified_level(self, path: str, version: int) -> int:
        """Return the bits of `VerifyLevel` for the files of a version that matched."""
        return self._verified.get((path, version)) or VerifyLevel.NOTHING

    def mark_verified(self, path: str, version: int, level: int) -> None:
        """Record that files of a version match. This stays true, because files never change."""
        self._verified.put((path, version), self.get_verified_level(path, version) | level)

    @contextmanager
    def translate_verify_errors(self, path: str) -> Iterator[None]:
        """Explain a mismatch, and translate errors of the operating system while files are verified."""
        try:
            yield
        except PinUnreadableError as error:
            raise self.explain(error) from error.__cause__
        except OSError as error:
            raise convert_store_error(f"read {path}", error) from error

    def check_rows(self, path: str, version: int, dataset: lance.LanceDataset) -> None:
        """Compare the number of rows of a version with its pin; needs no request."""
        expected = self.store.verifier.get_expected(path, version)
        rows = int(dataset.count_rows()) if expected is not None else 0
        if expected is not None and rows != expected.rows:
            reason = f"it has {rows:,} rows, and its pin says {expected.rows:,}"
            raise self.explain(PinUnreadableError(path, version, reason))

    def forget(self, path: str, version: int) -> None:
        """Drop the handle of a version whose files are about to be removed, because no commit will have it."""
        for cached in (
            self._open,
            self._manifests,
            self._fragments,
            self._verified,
            self._facts,
            self.created_rows,
        ):
            cached.pop((path, version))

    def list_open(self) -> list[tuple[str, int]]:
        """Return the versions with a cached handle, the most recently used ones last."""
        return self._open.list_keys()

    def put(self, path: str, dataset: lance.LanceDataset) -> None:
        """Cache a handle, such as one that a write has just created, so that reading it needs no request."""
        dropped = self._open.put((path, dataset.version), dataset)
        versions = [key for key in self._open.list_keys() if key[0] == path]
        for key in versions[:-MAX_CACHED_VERSIONS]:
            self._open.pop(key)
            dropped.append(key)
        for key in dropped:
            if key not in self._manifests:
                self._fragments.pop(key)


def _open_file(handles: TableCache, path: str, version: int) -> lance.LanceDataset | None:
    """Open a version by one read of its file; None if that fails: then Lance opens it, or says what is wrong."""
    # A search for damage is about what Lance reads.
    if not handles.is_verifying:
        return None
    handles.store.resolve_table_uri(path)
    handles.store.wait_for_uploads(path)
    _verify_version(handles, path, version)
    try:
        data = handles.store.read_file(build_version_key(path, version))
        manifest, carried = split_file(data)
        if read_number(manifest) != version:
            return None
        with attribute_requests(handles.store.runtime.telemetry, "table"):
            dataset = handles.build_handle(path, version, manifest)
            _ = dataset.schema
    except StoreUnavailableError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, Lance's own way of opening it reports it
        telemetry_log.debug("Lance opens version %s of %s: %r", version, path, error)
        return None
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        return None
    handles.check_rows(path, version, dataset)
    handles.carried.put_read(path, version, carried)
    return dataset


def _verify_version(handles: TableCache, path: str, version: int) -> None:
    if handles.is_verifying and handles.store.verifier.is_verifying_reads:
        with handles.translate_verify_errors(path):
            raise_mismatch(
                handles.store.verifier.find_version_mismatch(path, version),
                lambda key, reason: PinUnreadableError(path, version, f"{key}: {reason}"),
            )
