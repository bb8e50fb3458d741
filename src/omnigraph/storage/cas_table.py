"""A small table that changes by compare-and-swap. Only the manifest log may import this module.

Its newest fragment is the *head*, which every swap rewrites; the fragments before it are *sealed* and never rewritten.
A swap is a strict Lance overwrite: of any number of racers on version V exactly one creates V+1. Committing the same
prepared swap again returns the version that it created, so a caller whose response was lost can find out.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import lance
import pyarrow as pa
from lance import LanceDataset, LanceFragment, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.fragment import FragmentMetadata, write_fragments

from omnigraph.errors import OmnigraphError
from omnigraph.storage.cas_table_errors import DamagedError, NewestVersionDamagedError, SwapLostError, TableMissingError
from omnigraph.storage.checksum_stamping import stamp_fragment
from omnigraph.storage.checksums import checksum_file, format_checksum
from omnigraph.storage.dataset_creation import create_dataset
from omnigraph.storage.fragment_list import build_fragment_json
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.io_counters import (
    attribute_requests,
    convert_store_error,
    extract_reason,
    is_unreachable,
    translate_store_errors,
)
from omnigraph.storage.layout import (
    AUDIT,
    build_hint_key,
    build_note_key,
    format_version_name,
    is_detached,
    parse_version_number,
)
from omnigraph.storage.object_store import ForeignFileError, ObjectMissingError
from omnigraph.storage.table_cache import PANIC
from omnigraph.storage.verification import raise_mismatch
from omnigraph.storage.version_notes import read_note
from omnigraph.telemetry import log

# A hint further ahead of the newest version than this is ignored: the hint itself is damaged.
MAX_LOST_VERSIONS = 1_000
_NOTE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Versions that are tried when the newest can't be read.
MAX_TRIED_VERSIONS = 10


@dataclass(frozen=True, slots=True)
class PreparedSwap:
    """New content that is written but not visible: `transaction`, to be committed on `base`."""

    base: LanceDataset
    transaction: Transaction
    files: tuple[str, ...]


class CasTable:
    """One version of the table. Immutable: a swap returns a new object."""

    def __init__(self, store: GraphStorage, path: str, dataset: LanceDataset) -> None:
        self._store = store
        self.path = path
        self._dataset = dataset

    @property
    def store(self) -> GraphStorage:
        """The storage that the table is in."""
        return self._store

    @property
    def version(self) -> int:
        """The version that this object reads."""
        return int(self._dataset.version)

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """The table's schema metadata."""
        return dict(self._dataset.schema.metadata or {})

    @property
    def sealed_count(self) -> int:
        """The number of sealed fragments."""
        return max(len(self._dataset.get_fragments()) - 1, 0)

    def read_head(self) -> pa.Table:
        """Return the rows of the head: one read, however long the history."""
        fragments = self._dataset.get_fragments()
        if not fragments:
            return self._dataset.schema.empty_table()
        with _guard_read(self, fragments[-1]):
            return fragments[-1].to_table()

    def read_sealed(self, index: int, *, last: int | None = None) -> pa.Table:
        """Return the rows of a sealed fragment, or only the `last` of them; index 0 is the oldest."""
        fragment = self._dataset.get_fragments()[:-1][index]
        skipped = 0 if last is None else max(int(fragment.metadata.physical_rows) - last, 0)
        with _guard_read(self, fragment):
            return fragment.to_table(offset=skipped)

    def get_sealed_name(self, index: int) -> str:
        """Return the name of a sealed fragment, which never changes, without a request."""
        return str(self._dataset.get_fragments()[:-1][index].metadata.files[0].path)

    def count_sealed_rows(self) -> list[int]:
        """Return the number of rows of each sealed fragment, oldest first, without a request."""
        return [int(fragment.metadata.physical_rows) for fragment in self._dataset.get_fragments()[:-1]]

    def list_files(self) -> list[tuple[str, int | None]]:
        """Return the file of each fragment, relative to the root, with its size if known; the head is last."""
        files = [file for fragment in self._dataset.get_fragments() for file in fragment.metadata.files]
        return [(f"{self.path}/data/{file.path}", file.file_size_bytes) for file in files]

    def is_newest(self) -> bool:
        """Return whether no later version exists, by one stat of the next version's file.

        A version so old that its successors were trimmed looks newest too; `verify` detects a swap on such a version.
        """
        return self._store.objects.stat(f"{self.path}/{format_version_name(self.version + 1)}") is None

    def open_latest(self) -> "CasTable":
        """Return the newest version, which is this object if nothing has changed."""
        with (
            attribute_requests(self._store.runtime.telemetry, "manifest"),
            translate_store_errors(f"probe {self.path}"),
        ):
            latest = int(self._dataset.latest_version)
        return self if latest == self.version else open_cas_table(self._store, self.path)

    def prepare(
        self, head: pa.Table, *, seal: pa.Table | None = None, keep_sealed: int | None = None, dropped_sealed: int = 0
    ) -> PreparedSwap:
        """Write new content without making it visible: kept sealed fragments, then `seal`, then `head`.

        The oldest `dropped_sealed` of the sealed fragments are left out; of the rest the first `keep_sealed` are kept.
        """
        sealed = [fragment.metadata for fragment in self._dataset.get_fragments()[dropped_sealed:-1]]
        kept_fragments = list(sealed if keep_sealed is None else sealed[:keep_sealed])
        new_fragments = [*([] if seal is None else self._write(seal)), *self._write(head)]
        operation = LanceOperation.Overwrite(self._dataset.lance_schema, [*kept_fragments, *new_fragments])
        files = tuple(f"{self.path}/data/{file.path}" for fragment in new_fragments for file in fragment.files)
        return PreparedSwap(self._dataset, Transaction(self.version, operation), files)

    def commit(self, prepared: PreparedSwap) -> "CasTable":
        """Make prepared content the next version. Safe to call again after any error but SwapLostError.

        Raises:
            SwapLostError: Another writer has created the next version.
            StoreUnavailableError: The store failed; the swap may or may not have happened.
        """
        with attribute_requests(self._store.runtime.telemetry, "manifest"):
            try:
                dataset = LanceDataset.commit(
                    prepared.base,
                    prepared.transaction,
                    max_retries=0,  # a retry would rebase onto the winner's version instead of losing
                    storage_options=self._store.lance_options,
                )
            except CommitConflictError:
                raise SwapLostError(self.path, self.version) from None
            except (OSError, ValueError, RuntimeError) as error:
                raise convert_store_error(f"swap {self.path}", error) from error
        return CasTable(self._store, self.path, dataset)

    def flush(self) -> None:
        """Make the file of this version durable, and record its checksum in the note beside it."""
        self._store.flush([f"{self.path}/{format_version_name(self.version)}"])
        write_note(self._store, self.path, self.version)

    def read_created_at(self) -> datetime:
        """Return the creation time of this version by the store's clock."""
        info = self._store.objects.stat(f"{self.path}/{format_version_name(self.version)}")
        if info is None:
            raise TableMissingError(self.path)
        return info.modified

    def is_there(self) -> bool:
        """Return whether the file of this version still exists."""
        return self._store.objects.stat(f"{self.path}/{format_version_name(self.version)}") is not None

    def remove(self) -> None:
        """Delete this version, which turned out to be one that no reader may see."""
        self._store.objects.delete(f"{self.path}/{format_version_name(self.version)}")

    def trim(self, keep: int, age: timedelta) -> None:
        """Remove versions older than `age` but the newest `keep`, with the files that only they use."""
        with attribute_requests(self._store.runtime.telemetry, "manifest"):
            self._dataset.cleanup_old_versions(older_than=age, retain_versions=keep)

    def _write(self, rows: pa.Table) -> list[FragmentMetadata]:
        with (
            attribute_requests(self._store.runtime.telemetry, "manifest"),
            translate_store_errors(f"write {self.path}"),
        ):
            fragments: list[FragmentMetadata] = write_fragments(
                rows.cast(self._dataset.schema),
                self._dataset,
                mode="append",
                max_rows_per_file=10_000_000,
                storage_options=self._store.lance_options,
            )
        stamped = [stamp_fragment(self._store, self.path, build_fragment_json(fragment)) for fragment in fragments]
        return [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in stamped]


@contextmanager
def _guard_read(table: CasTable, fragment: LanceFragment) -> Iterator[None]:
    """Verify the file of a fragment, then translate errors of reading it.

    Raises:
        DamagedError: The file does not match its checksum, is missing, or can't be decoded.
        StoreUnavailableError: The store did not answer.
    """
    name = str(fragment.metadata.files[0].path)
    key = f"{table.path}/data/{name}"
    try:
        # Without file checksums, the digest of the rows is the only check.
        if table.store.verifier.is_verifying_reads:
            raise_mismatch(table.store.verifier.find_data_mismatch(table.path, name), DamagedError)
        with attribute_requests(table.store.runtime.telemetry, "manifest"):
            yield
    except OmnigraphError:
        raise
    except (OSError, ValueError, RuntimeError, LookupError) as error:
        is_missing = isinstance(error, FileNotFoundError) or "Not found:" in str(error)
        # Trimming removes the file of a version first: a missing file of a trimmed version is no damage.
        if is_unreachable(error) or (is_missing and not table.is_there()):
            raise convert_store_error(f"read {table.path}", error) from error
        raise DamagedError(key, "it is missing" if is_missing else extract_reason(error)) from error
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        raise DamagedError(key, f"Lance failed over it: {error}") from error


def create_cas_table(store: GraphStorage, path: str, head: pa.Table) -> CasTable:
    """Create a table whose first version contains `head`.

    Raises:
        SwapLostError: The table exists, or another racer created it first.
    """
    with attribute_requests(store.runtime.telemetry, "manifest"), translate_store_errors(f"create {path}"):
        dataset = create_dataset(store, path, head)
    write_note(store, path, 1)
    return CasTable(store, path, dataset)


def open_cas_table(store: GraphStorage, path: str, version: int | None = None) -> CasTable:
    """Open the newest version of a table, or the requested one.

    Raises:
        TableMissingError: There is no such table or version.
        NewestVersionDamagedError: The newest version can't be read, is missing, or an earlier one is in its place.
    """
    table = _open(store, path, version)
    hint = None if version is not None else read_hint(store, path, table.version)
    if hint is None:
        return table
    if store.objects.stat(f"{path}/{format_version_name(hint)}") is None:
        raise NewestVersionDamagedError(path, hint, table.version, "its file is missing")
    # Either the version was created after the first open, or its file has the content of an earlier one.
    newer = _open(store, path, None)
    if newer.version < hint:
        raise NewestVersionDamagedError(path, hint, newer.version, f"its file is that of version {newer.version}")
    return newer


def write_note(store: GraphStorage, path: str, version: int) -> None:
    """Record the checksum of a version's file in a note beside it.

    No version can contain its own checksum, and the next version may never be written. Local disk only. The note is
    not flushed, and losing it, or having that of a slower writer instead, is harmless: a note of another version is
    ignored.
    """
    if store.local is None:
        return
    try:
        _, checksum = checksum_file(store.resolve_uri(f"{path}/{format_version_name(version)}"))
        text = f"{version:020d} {checksum:016x}"
        note = f"{text} {format_checksum(text.encode())}".encode()
        # A new file replaces the old one, which a backup by hard links may share. Not by a rename, which took 300 µs:
        # half a note does not match its own checksum, and a missing note is ignored.
        note_path = store.resolve_uri(build_note_key(path))
        with suppress(FileNotFoundError):
            os.unlink(note_path)  # noqa: PTH108 - plain strings on this path
        with suppress(FileExistsError):  # a concurrent writer has just written its note
            descriptor = os.open(note_path, _NOTE_FLAGS, 0o666)
            try:
                os.write(descriptor, note)
            finally:
                os.close(descriptor)
    except OSError as error:  # the version is committed: a missing note must not fail it
        log.warning("could not record the checksum of version %s of %s: %s", version, path, error)


def matches_note(store: GraphStorage, path: str, version: int) -> bool:
    """Return whether a version's file matches its noted checksum; True if there is no note of this version."""
    number, recorded = read_note(store, path)
    if number != version:
        return True
    try:
        _, checksum = checksum_file(store.resolve_uri(f"{path}/{format_version_name(version)}"))
    except FileNotFoundError:
        return True  # the version was trimmed in the meantime
    except OSError as error:
        raise convert_store_error(f"read {path}", error) from error
    return f"{checksum:016x}" == recorded


def read_hint(store: GraphStorage, path: str, newest: int) -> int | None:
    """Return the number of a version after `newest` that was created, or None without evidence of one.

    On local disk, Lance writes the number of a version to a hint file once it is created, and we write a note. On an
    object store the version itself is the only evidence.
    """
    if store.local is None:
        return None
    noted, _ = read_note(store, path)
    try:
        hint = json.loads(store.local.get(build_hint_key(path)).data)["version"]
    except (ObjectMissingError, ValueError, LookupError, TypeError):
        hint = 0
    candidates = [number for number in (noted, hint) if isinstance(number, int)]
    return max((number for number in candidates if 0 < number - newest <= MAX_LOST_VERSIONS), default=None)


def _open(store: GraphStorage, path: str, version: int | None) -> CasTable:
    with attribute_requests(store.runtime.telemetry, "manifest"):
        try:
            dataset = lance.dataset(
                store.resolve_table_uri(path),
                version=version,
                session=store.session,
                storage_options=store.lance_options,
            )
            _ = dataset.schema  # Lance panics over an unknown type, but only when the schema is read
        except (ValueError, OSError, RuntimeError) as error:
            reason = extract_reason(error)
            if is_unreachable(error):
                raise convert_store_error(f"open {path}", error) from error
            is_missing = "not found" in reason.lower() or "not a directory" in reason.lower()
            # The audit table is created when it is first needed: its absence is normal.
            if not (is_missing and path == AUDIT):
                _raise_if_damaged(store, path, version, reason)
            if is_missing:
                raise TableMissingError(path) from None
            raise convert_store_error(f"open {path}", error) from error
        except BaseException as error:
            if type(error).__name__ != PANIC:
                raise
            _raise_if_damaged(store, path, version, f"Lance failed over it: {error}")
            raise DamagedError(path, f"Lance failed over it: {error}") from error
    if not matches_note(store, path, int(dataset.version)):
        reason = "it does not match its checksum"
        _raise_if_damaged(store, path, version, reason)
        raise DamagedError(f"{path}/{format_version_name(int(dataset.version))}", reason)
    if not dataset.schema.names:  # a version file of zeros decodes as a table without columns
        _raise_if_damaged(store, path, version, "it is blank")
        raise TableMissingError(path)
    return CasTable(store, path, dataset)


def _raise_if_damaged(store: GraphStorage, path: str, version: int | None, reason: str) -> None:
    """Raise an error that names the cause: a file that is not one of our versions, or the newest version.

    Returns normally if a version was requested, or if no other version can be opened.

    Raises:
        ForeignFileError: A file has a name that Lance takes for a version, or can't parse, and that we never use.
        NewestVersionDamagedError: An older version can be opened.
    """
    if version is not None:
        return
    keys = [info.key for info in store.objects.list_under(f"{path}/_versions") if info.key.endswith(".manifest")]
    for key in keys:
        if not key.isascii() or is_detached(parse_version_number(key)):
            raise ForeignFileError(key.encode(errors="replace").decode(), "named like a version that no graph reaches")
    numbers = sorted(map(parse_version_number, keys), reverse=True)
    for older in numbers[1:MAX_TRIED_VERSIONS]:
        try:
            open_cas_table(store, path, older)
        except OmnigraphError:
            continue
        raise NewestVersionDamagedError(path, numbers[0], older, reason)
