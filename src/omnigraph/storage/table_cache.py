"""Open tables, cached: one handle per location and version, one Lance session per graph."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import lance

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.cas_table_errors import REPAIR_HINT
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.io_counters import attribute_requests, convert_store_error, extract_reason, is_io, is_unreachable
from omnigraph.storage.verification import Mismatch

MAX_CACHED_HANDLES = 512
MAX_CACHED_VERSIONS = 8
"""How many handles are kept in all, and of one table; each holds a list of all fragments of its version."""
_DAMAGE_MARKS = (
    "not appear to be a Lance file",
    "Encountered corrupt file",
    "rust/lance-encoding/src/",
    "rust/lance-file/src/",
    "rust/lance-table/src/io/deletion.rs",
)
"""What the text of Lance's errors says of a data file or a deletion file that is not one any more, or not all of it.

Whatever a decoder refuses is the file's fault: it is handed what the file holds, and nothing that was asked.
"""
_TORN_MARKS = ("Not found:", "failed to fill whole buffer", "file size is too small")
"""What the text says of a file that is not there, or ends too early. Whoever writes one does not read it."""
PANIC = "PanicException"
"""What a fault inside of Lance itself arrives as, such as that of a data file without a byte."""

PinnedDataset: TypeAlias = lance.LanceDataset
"""What other rooms call Lance's own dataset, which they may hand on but not import."""


class PinUnreadableError(OmnigraphError):
    """A pinned table version can't be opened: its files were removed or damaged by something else."""

    kind = Kind.CORRUPT
    code = "pin_unreadable"

    def __init__(  # noqa: PLR0913, PLR0917 - facts, of which most are known only where the graph's manifests can be read
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
        self.path, self.version, self.reason = path, version, reason
        self.table_key, self.file = table_key, file
        self.branches, self.commits, self.is_counted = list(branches), commits, is_counted
        """The branches whose newest state needs it, and how many commits of the first of them do, or at least do."""
        self.readable = readable
        """The newest commit whose state does not need it."""

    def __str__(self) -> str:
        table = "" if self.table_key is None else f"{self.table_key}: "
        is_named = self.file is None or self.file in self.reason
        reason = self.reason if is_named else f"{self.file}: {self.reason}"
        return (
            f"{table}version {self.version} of the table {self.path} can't be read ({reason});"
            f" its files were removed or damaged outside of omnigraph. {self._describe_need()}{REPAIR_HINT}"
        )

    def _describe_need(self) -> str:
        """Say who needs it, and what can still be read."""
        if self.table_key is None:
            return ""
        least = "" if self.is_counted else "at least "
        commits = "1 commit" if self.commits == 1 else f"{self.commits:,} commits"
        if self.branches:
            names = ", ".join(f"`{name}`" for name in self.branches)
            is_are = "branch" if len(self.branches) == 1 else "branches"
            needed = f"The {is_are} {names} and {least}{commits} need it"
        else:
            needed = f"Only the past needs it, {least}{commits}" if self.commits else "Only the past needs it"
        readable = "" if self.readable is None else f", and so can all of commit {self.readable}"
        return f"{needed}; other tables can be read{readable}. "


Explain: TypeAlias = Callable[[PinUnreadableError], PinUnreadableError]
"""Says more about why a version can't be read, if more is known."""


@contextmanager
def translate_read_errors(path: str, version: int, explain: Explain = lambda error: error) -> Iterator[None]:
    """Turn what Lance raises on a read into a store that failed, or a pin whose files are gone or damaged."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        if is_unreachable(error):
            raise convert_store_error(f"read {path}", error) from error
        if is_io(error) or any(mark in str(error) for mark in _DAMAGE_MARKS):
            raise explain(PinUnreadableError(path, version, extract_reason(error))) from error
        raise
    except BaseException as error:
        if type(error).__name__ != PANIC:  # it is no Exception, so that nobody catches it by accident
            raise
        if is_unreachable(error):
            raise convert_store_error(f"read {path}", error) from error
        raise explain(PinUnreadableError(path, version, f"Lance failed over it: {error}")) from error


@contextmanager
def translate_rewrite_errors(
    action: str, path: str, version: int, explain: Explain = lambda error: error
) -> Iterator[None]:
    """As `translate_read_errors`, for work that also writes files: a failure that does not say whose it is, is the store's."""
    with translate_read_errors(path, version, explain):
        try:
            yield
        except (OSError, ValueError, RuntimeError) as error:
            is_of_files = isinstance(error, OSError) or is_io(error)
            if is_of_files and not any(mark in str(error) for mark in (*_DAMAGE_MARKS, *_TORN_MARKS)):
                raise convert_store_error(action, error) from error
            raise


def _raise_mismatch(path: str, version: int, mismatch: Mismatch | None) -> None:
    if mismatch is not None:
        raise PinUnreadableError(path, version, f"{mismatch.key}: {mismatch.reason}")


class VerifyLevel:
    """Which files of a version were compared with their checksums, as bits: an enum's took 10 µs of every read."""

    NOTHING = 0
    ROWS = 1
    """Deletion files, and small files of rows."""
    INDEXES = 2
    """Small indexes."""
    WHOLE = 4
    """Everything, however large."""


class TableCache:
    """Pinned Lance datasets by (path, version). Versions are immutable, so a cached handle is never stale."""

    def __init__(self, store: GraphStorage, *, is_verifying: bool = True) -> None:
        self.store, self.is_verifying = store, is_verifying
        """Those who look for damage open what does not match its checksum too."""
        self.explain: Explain = lambda error: error
        """Asked when a version can't be read, before that is told."""
        self._lock = threading.Lock()
        self._verified: dict[tuple[str, int], int] = {}
        self._open: OrderedDict[tuple[str, int], lance.LanceDataset] = OrderedDict()

    def open(self, path: str, version: int) -> lance.LanceDataset:
        """The dataset at exactly this version, or PinUnreadableError."""
        key = (path, version)
        with self._lock:
            if key in self._open:
                self._open.move_to_end(key)
                return self._open[key]
        dataset = self.open_uncached(path, version)
        self.put(path, dataset)
        return dataset

    def open_uncached(self, path: str, version: int) -> lance.LanceDataset:
        """As `open`, but a handle that nobody shares: some methods of a handle move it to another version."""
        uri = self.store.resolve_table_uri(path)
        if self.is_verifying and self.store.verifier.is_verifying_reads:
            with self.translate_verify_errors(path):
                _raise_mismatch(path, version, self.store.verifier.find_version_mismatch(path, version))
        with attribute_requests(self.store.runtime.telemetry, "table"):
            try:
                dataset = lance.dataset(
                    uri, version=version, session=self.store.session, storage_options=self.store.lance_options
                )
                _ = dataset.schema  # Lance panics over a type that it does not know, and not before it is asked
            except (ValueError, OSError, RuntimeError) as error:
                if is_unreachable(error):
                    raise convert_store_error(f"open {path}", error) from error
                raise self.explain(PinUnreadableError(path, version, extract_reason(error))) from error
            except BaseException as error:
                if type(error).__name__ != PANIC:
                    raise
                raise self.explain(PinUnreadableError(path, version, f"Lance failed over it: {error}")) from error
        if self.is_verifying:
            self._check_rows(path, version, dataset)
        return dataset

    def get_verified_level(self, path: str, version: int) -> int:
        """Return how many of the files of a version were found to match."""
        return self._verified.get((path, version), VerifyLevel.NOTHING)

    def mark_verified(self, path: str, version: int, level: int) -> None:
        """Remember that files of a version match; no file ever changes."""
        self._verified[path, version] = self.get_verified_level(path, version) | level
        while len(self._verified) > MAX_CACHED_HANDLES:
            self._verified.pop(next(iter(self._verified)), None)

    @contextmanager
    def translate_verify_errors(self, path: str) -> Iterator[None]:
        """Turn a mismatch, and what the system says of a file that is to be verified, into our own errors."""
        try:
            yield
        except PinUnreadableError as error:
            raise self.explain(error) from error.__cause__
        except OSError as error:
            raise convert_store_error(f"read {path}", error) from error

    def _check_rows(self, path: str, version: int, dataset: lance.LanceDataset) -> None:
        """Compare the rows of a version with what its pin says; no request."""
        expected = self.store.verifier.get_expected(path, version)
        rows = int(dataset.count_rows()) if expected is not None else 0
        if expected is not None and rows != expected.rows:
            reason = f"it has {rows:,} rows, and its pin says {expected.rows:,}"
            raise self.explain(PinUnreadableError(path, version, reason))

    def list_open(self) -> list[tuple[str, int]]:
        """Return the versions that are held open, those that were used last at the end."""
        with self._lock:
            return list(self._open)

    def put(self, path: str, dataset: lance.LanceDataset) -> None:
        """Remember a handle that a write has just made, so that reading it needs no request."""
        with self._lock:
            self._open[path, dataset.version] = dataset
            self._open.move_to_end((path, dataset.version))
            versions = [key for key in self._open if key[0] == path]
            for key in versions[:-MAX_CACHED_VERSIONS]:
                del self._open[key]
            while len(self._open) > MAX_CACHED_HANDLES:
                self._open.popitem(last=False)
