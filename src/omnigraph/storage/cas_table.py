"""A small table that changes by compare-and-swap. Only the manifest log may import this module.

Its newest fragment is the *head*, rewritten by every swap; the fragments before it are *sealed*, never rewritten.
The swap is a strict Lance overwrite: of any number of racers on version V exactly one creates V+1, and committing
the same prepared swap again returns the version that it made, so a lost response can be asked about.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

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
from omnigraph.storage.verification import Mismatch
from omnigraph.storage.version_notes import read_note
from omnigraph.telemetry import log

MAX_LOST_VERSIONS = 1_000
"""A hint that is further ahead of the newest version says nothing: it is damaged itself."""
_NOTE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_TRIED_VERSIONS = 10
"""How many versions are tried when the newest can't be read."""


@dataclass(frozen=True, slots=True)
class PreparedSwap:
    """New content, written and waiting: `transaction` on `base`."""

    base: LanceDataset
    transaction: Transaction
    files: tuple[str, ...]


class CasTable:
    """One version of the table. Swapping gives a new object; this one stays as it is."""

    def __init__(self, store: GraphStorage, path: str, dataset: LanceDataset) -> None:
        self._store, self.path, self._dataset = store, path, dataset

    @property
    def store(self) -> GraphStorage:
        """Where the table is."""
        return self._store

    @property
    def version(self) -> int:
        """The version this object reads."""
        return int(self._dataset.version)

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """The table's schema metadata."""
        return dict(self._dataset.schema.metadata or {})

    @property
    def sealed_count(self) -> int:
        """How many sealed fragments there are."""
        return max(len(self._dataset.get_fragments()) - 1, 0)

    def read_head(self) -> pa.Table:
        """The rows of the newest fragment: one read, whatever the history."""
        fragments = self._dataset.get_fragments()
        if not fragments:
            return self._dataset.schema.empty_table()
        with _guard_read(self, fragments[-1]):
            return fragments[-1].to_table()

    def read_sealed(self, index: int, *, last: int | None = None) -> pa.Table:
        """The rows of a sealed fragment, or only the `last` of them; 0 is the oldest."""
        fragment = self._dataset.get_fragments()[:-1][index]
        skipped = 0 if last is None else max(int(fragment.metadata.physical_rows) - last, 0)
        with _guard_read(self, fragment):
            return fragment.to_table(offset=skipped)

    def get_sealed_name(self, index: int) -> str:
        """What a sealed fragment is called for as long as it exists; no request."""
        return str(self._dataset.get_fragments()[:-1][index].metadata.files[0].path)

    def count_sealed_rows(self) -> list[int]:
        """The number of rows of each sealed fragment, oldest first; no request."""
        return [int(fragment.metadata.physical_rows) for fragment in self._dataset.get_fragments()[:-1]]

    def list_files(self) -> list[tuple[str, int | None]]:
        """The file of each fragment, the head's last, relative to the root, with its size where it is known."""
        files = [file for fragment in self._dataset.get_fragments() for file in fragment.metadata.files]
        return [(f"{self.path}/data/{file.path}", file.file_size_bytes) for file in files]

    def is_newest(self) -> bool:
        """Whether no later version exists, by one look at the next version's name.

        A version so old that its successors are trimmed looks newest too; a swap on it is found out by `verify`.
        """
        return self._store.objects.stat(f"{self.path}/{format_version_name(self.version + 1)}") is None

    def open_latest(self) -> "CasTable":
        """The newest version there is now; this object when nothing moved."""
        with (
            attribute_requests(self._store.runtime.telemetry, "manifest"),
            translate_store_errors(f"probe {self.path}"),
        ):
            latest = int(self._dataset.latest_version)
        return self if latest == self.version else open_cas_table(self._store, self.path)

    def prepare(
        self, head: pa.Table, *, seal: pa.Table | None = None, keep_sealed: int | None = None, dropped_sealed: int = 0
    ) -> PreparedSwap:
        """Write new content: the first `keep_sealed` sealed fragments, then `seal`, then `head`. Nothing is visible.

        The oldest `lost` of the sealed ones are left out.
        """
        old = [fragment.metadata for fragment in self._dataset.get_fragments()[dropped_sealed:-1]]
        kept = list(old if keep_sealed is None else old[:keep_sealed])
        fresh = [*([] if seal is None else self._write(seal)), *self._write(head)]
        operation = LanceOperation.Overwrite(self._dataset.lance_schema, [*kept, *fresh])
        files = tuple(f"{self.path}/data/{file.path}" for fragment in fresh for file in fragment.files)
        return PreparedSwap(self._dataset, Transaction(self.version, operation), files)

    def commit(self, prepared: PreparedSwap) -> "CasTable":
        """Make the prepared content the next version, or SwapLostError. Safe to call again after any other error."""
        with attribute_requests(self._store.runtime.telemetry, "manifest"):
            try:
                made = LanceDataset.commit(
                    prepared.base,
                    prepared.transaction,
                    max_retries=0,
                    storage_options=self._store.lance_options,
                )
            except CommitConflictError:
                raise SwapLostError(self.path, self.version) from None
            except (OSError, ValueError, RuntimeError) as error:
                raise convert_store_error(f"swap {self.path}", error) from error
        return CasTable(self._store, self.path, made)

    def flush(self) -> None:
        """Make this version's own file durable, and note its checksum beside it."""
        self._store.flush([f"{self.path}/{format_version_name(self.version)}"])
        write_note(self._store, self.path, self.version)

    def read_created_at(self) -> datetime:
        """When this version was made, by the store's clock."""
        info = self._store.objects.stat(f"{self.path}/{format_version_name(self.version)}")
        if info is None:
            raise TableMissingError(self.path)
        return info.modified

    def is_there(self) -> bool:
        """Whether this version's own file has not been removed."""
        return self._store.objects.stat(f"{self.path}/{format_version_name(self.version)}") is not None

    def remove(self) -> None:
        """Take this version back, which turned out to be one that nobody must see."""
        self._store.objects.delete(f"{self.path}/{format_version_name(self.version)}")

    def trim(self, keep: int) -> None:
        """Remove old versions but the newest `keep`, with the files that only they use."""
        with attribute_requests(self._store.runtime.telemetry, "manifest"):
            self._dataset.cleanup_old_versions(retain_versions=keep)

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
        stamped = [stamp_fragment(self._store, self.path, fragment.to_json()) for fragment in fragments]
        return [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in stamped]


@contextmanager
def _guard_read(table: CasTable, fragment: LanceFragment) -> Iterator[None]:
    """Verify the file of a fragment, then turn what reading it raises into our own errors.

    Raises:
        DamagedError: It does not match its checksum, is gone, or can't be decoded.
        StoreUnavailableError: The store did not answer.
    """
    name = str(fragment.metadata.files[0].path)
    key = f"{table.path}/data/{name}"
    try:
        if table.store.verifier.is_verifying_reads:  # elsewhere the digest of the rows has to do
            _raise_mismatch(table.store.verifier.find_data_mismatch(table.path, name))
        with attribute_requests(table.store.runtime.telemetry, "manifest"):
            yield
    except OmnigraphError:
        raise
    except (OSError, ValueError, RuntimeError, LookupError) as error:
        is_missing = isinstance(error, FileNotFoundError) or "Not found:" in str(error)
        # A version that was trimmed lost its own file first.
        if is_unreachable(error) or (is_missing and not table.is_there()):
            raise convert_store_error(f"read {table.path}", error) from error
        raise DamagedError(key, "it is missing" if is_missing else extract_reason(error)) from error
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        raise DamagedError(key, f"Lance failed over it: {error}") from error


def _raise_mismatch(mismatch: Mismatch | None) -> None:
    if mismatch is not None:
        raise DamagedError(mismatch.key, mismatch.reason)


def create_cas_table(store: GraphStorage, path: str, head: pa.Table) -> CasTable:
    """A new table whose first version holds `head`; of several racers one wins, the others get SwapLostError."""
    with attribute_requests(store.runtime.telemetry, "manifest"), translate_store_errors(f"create {path}"):
        dataset = create_dataset(store, path, head)
    write_note(store, path, 1)
    return CasTable(store, path, dataset)


def open_cas_table(store: GraphStorage, path: str, version: int | None = None) -> CasTable:
    """The newest version, or the one asked for.

    Raises:
        TableMissingError: There is none.
        NewestVersionDamagedError: The newest version can't be read, is gone, or is an earlier one in its place.
    """
    table = _open(store, path, version)
    hint = None if version is not None else read_hint(store, path, table.version)
    if hint is None:
        return table
    if store.objects.stat(f"{path}/{format_version_name(hint)}") is None:
        raise NewestVersionDamagedError(path, hint, table.version, "its file is gone")
    newer = _open(store, path, None)  # it was made after the first look, or its file is that of an earlier one
    if newer.version < hint:
        raise NewestVersionDamagedError(path, hint, newer.version, f"its file is that of version {newer.version}")
    return newer


def write_note(store: GraphStorage, path: str, version: int) -> None:
    """Note the checksum of a version's file beside it: no version can hold its own, and the next may never come.

    On local disk only. It is not flushed, and it does not matter if it is lost, or that of a writer who was slower
    stands there instead: a note of another version says nothing.
    """
    if store.local is None:
        return
    try:
        _, found = checksum_file(store.resolve_uri(f"{path}/{format_version_name(version)}"))
        text = f"{version:020d} {found:016x}"
        note = f"{text} {format_checksum(text.encode())}".encode()
        # A new file in place of the old one, which a backup by hard links may share. Not by a rename, which took
        # 300 µs: half a note does not match its own checksum, and none says nothing.
        place = store.resolve_uri(build_note_key(path))
        with suppress(FileNotFoundError):
            os.unlink(place)  # noqa: PTH108 - plain strings on this path
        with suppress(FileExistsError):  # that of a writer who was as fast
            descriptor = os.open(place, _NOTE_FLAGS, 0o666)
            try:
                os.write(descriptor, note)
            finally:
                os.close(descriptor)
    except OSError as error:  # the version is there: this must not fail it
        log.warning("the checksum of version %s of %s was not noted: %s", version, path, error)


def matches_note(store: GraphStorage, path: str, version: int) -> bool:
    """Return whether a version's file matches the note of its checksum; so it does when there is no note of it."""
    number, recorded = read_note(store, path)
    if number != version:
        return True
    try:
        _, found = checksum_file(store.resolve_uri(f"{path}/{format_version_name(version)}"))
    except FileNotFoundError:
        return True  # it was trimmed meanwhile
    except OSError as error:
        raise convert_store_error(f"read {path}", error) from error
    return f"{found:016x}" == recorded


def read_hint(store: GraphStorage, path: str, newest: int) -> int | None:
    """Return the number of a version after `newest` that was made; None when there is no sign of one.

    On disk, Lance notes the number of a version once it is made, and so do we. On an object store nothing but the
    version itself tells that it was there.
    """
    if store.local is None:
        return None
    noted, _ = read_note(store, path)
    try:
        hint = json.loads(store.local.get(build_hint_key(path)).data)["version"]
    except (ObjectMissingError, ValueError, LookupError, TypeError):
        hint = 0
    made = [number for number in (noted, hint) if isinstance(number, int)]
    return max((number for number in made if 0 < number - newest <= MAX_LOST_VERSIONS), default=None)


def _open(store: GraphStorage, path: str, version: int | None) -> CasTable:
    with attribute_requests(store.runtime.telemetry, "manifest"):
        try:
            dataset = lance.dataset(
                store.resolve_table_uri(path),
                version=version,
                session=store.session,
                storage_options=store.lance_options,
            )
            _ = dataset.schema  # Lance panics over a type that it does not know, and not before it is asked
        except (ValueError, OSError, RuntimeError) as error:
            reason = extract_reason(error)
            if is_unreachable(error):
                raise convert_store_error(f"open {path}", error) from error
            is_missing = "not found" in reason.lower() or "not a directory" in reason.lower()
            if not (is_missing and path == AUDIT):  # which is made when it is needed first
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
    if not dataset.schema.names:  # a version file of zeroes decodes as a table without columns
        _raise_if_damaged(store, path, version, "it is blank")
        raise TableMissingError(path)
    return CasTable(store, path, dataset)


def _raise_if_damaged(store: GraphStorage, path: str, version: int | None, reason: str) -> None:
    """Raise what is to blame, where the store answers: a file that is no version of ours, or the newest version.

    Raises:
        ForeignFileError: A file has a name that Lance takes for a version, or can't read, and that we give to none.
        NewestVersionDamagedError: An older version opens.
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
