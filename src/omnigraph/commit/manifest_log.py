"""A branch's manifest over time: read the present, publish the next, walk the past.

The only module that swaps the manifest.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile

import pyarrow as pa

from omnigraph.commit.manifest import (
    check_stamp,
    decode_head,
    decode_journal,
    head_rows,
    journal_rows,
)
from omnigraph.commit.records import MAIN, Commit, Manifest, SchemaRecord, Snapshot
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.objects import StoreDeniedError, StoreUnavailableError
from omnigraph.storage.store import Store
from omnigraph.storage.swap import PreparedSwap, SwapTable, create_swap_table, open_table
from omnigraph.storage.swap_errors import NewestVersionDamagedError, SwapLostError, TableMissingError
from omnigraph.telemetry import log

TRIM_EVERY = 100
SWAP_TRIES = 2
"""Lance and its HTTP client retry by themselves; this is once more, after all of that."""


class NotAGraphError(OmnigraphError):
    """The place holds no graph."""

    kind = Kind.NOT_FOUND
    code = "not_a_graph"

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.uri = uri

    def __str__(self) -> str:
        return f"there is no graph at {self.uri}; make one with `omnigraph init {self.uri} --schema F`"


class OutcomeUnknownError(OmnigraphError):
    """The swap may or may not have happened: the store stopped answering. Ask for the commit id later."""

    kind = Kind.UNAVAILABLE
    code = "outcome_unknown"

    def __init__(self, commit_id: str, reason: str) -> None:
        super().__init__(commit_id, reason)
        self.commit_id, self.reason = commit_id, reason

    def __str__(self) -> str:
        return (
            f"commit {self.commit_id} may or may not have been published: the store stopped answering"
            f" ({self.reason}). `omnigraph commit show {self.commit_id}` tells once it answers again"
        )


@dataclass(frozen=True, slots=True)
class Head:
    """A snapshot with the table version it was read from."""

    snapshot: Snapshot
    table: SwapTable


class ManifestLog:
    """The manifest of one branch. Holds the newest head it has seen; safe to share between threads."""

    def __init__(self, store: Store, branch: str = MAIN, path: str = MANIFEST) -> None:
        self.store, self.branch, self.path = store, branch, path
        self._lock = threading.Lock()
        self._head: Head | None = None

    def latest(self) -> Head:
        """The newest state there is: one probe when nothing moved."""
        held = self._head
        if held is None:
            try:
                table = open_table(self.store, self.path)
            except TableMissingError:
                raise NotAGraphError(self.store.location.uri) from None
        else:
            table = held.table.latest()
            if table is held.table:
                return held
        return self._read(table)

    def newest_readable(self) -> Head:
        """The newest state, or when its version is damaged the one before: for reading the past."""
        try:
            return self.latest()
        except NewestVersionDamagedError as error:
            return self._read(open_table(self.store, self.path, error.readable))

    def recent(self) -> Head:
        """A state to base a write on: the held one unless the next version exists. A swap finds out if that errs."""
        held = self._head
        return held if held is not None and held.table.is_newest() else self.latest()

    def publish(self, base: Head, manifest: Manifest) -> Head:
        """Make `manifest` the state after `base`: visible whole, or SwapLostError, or OutcomeUnknownError.

        Acknowledged only when the new version is reachable from the latest one.
        """
        faults = self.store.runtime.faults
        prepared = self._prepare(base, manifest)
        self.store.flush(prepared.files)
        faults.reach("publish.head_written")
        try:
            table = self._swap(base, prepared, manifest.head)
            faults.reach("publish.swapped")
            table.flush()
            self._verify(table, manifest.head, manifest.head_commit.seq)
            faults.reach("publish.verified")
        except (SwapLostError, OutcomeUnknownError):
            raise
        except Exception as error:
            raise OutcomeUnknownError(manifest.head, str(error)) from error
        head = Head(
            Snapshot(branch=self.branch, manifest_version=table.version, manifest=self._trimmed(manifest)), table
        )
        self._hold(head)
        self._trim(table)
        return head

    def history(self, head: Head) -> Iterator[Commit]:
        """All commits of this manifest, newest first; sealed fragments are read only when reached."""
        yield from reversed(head.snapshot.manifest.commits)
        for index in reversed(range(head.table.sealed_count)):
            commits, _ = decode_journal(head.table.sealed(index))
            yield from reversed(commits)

    def since(self, head: Head, seq: int) -> list[Commit]:
        """The commits after `seq`, newest first."""
        return list(takewhile(lambda commit: commit.seq > seq, self.history(head)))

    def schema(self, head: Head, schema_id: str) -> SchemaRecord | None:
        """An accepted schema, present or past."""
        manifest = head.snapshot.manifest
        for record in (manifest.schema, *manifest.old_schemas):
            if record.id == schema_id:
                return record
        for index in reversed(range(head.table.sealed_count)):
            for record in decode_journal(head.table.sealed(index))[1]:
                if record.id == schema_id:
                    return record
        return None

    def contains(self, head: Head, commit_id: str, after_seq: int) -> bool:
        """Whether a commit is part of this state; reads back no further than `after_seq`, which it must follow."""
        return any(commit.id == commit_id for commit in self.since(head, after_seq))

    def _read(self, table: SwapTable) -> Head:
        check_stamp(table.metadata)
        manifest = decode_head(table.head())
        head = Head(Snapshot(branch=self.branch, manifest_version=table.version, manifest=manifest), table)
        self._hold(head)
        return head

    def _hold(self, head: Head) -> None:
        """Remember the newest head seen, whichever thread saw it."""
        with self._lock:
            if self._head is None or self._head.snapshot.manifest_version < head.snapshot.manifest_version:
                self._head = head

    def _prepare(self, base: Head, manifest: Manifest) -> PreparedSwap:
        """The swap's content; when the head is full its past is sealed, and many small seals become one."""
        options = self.store.runtime.options
        if len(manifest.commits) <= options.head_commits:
            return base.table.prepare(head_rows(manifest))
        sealed = journal_rows(manifest.commits[:-1], manifest.old_schemas)
        kept = self._trimmed(manifest)
        sizes = base.table.sealed_rows()
        if len(sizes) < options.sealed_fragments:
            return base.table.prepare(head_rows(kept), seal=sealed)
        large = sum(1 for size in sizes if size > 2 * options.head_commits)
        merged = pa.concat_tables([*(base.table.sealed(i) for i in range(large, len(sizes))), sealed])
        return base.table.prepare(head_rows(kept), seal=merged, keep_sealed=large)

    def _trimmed(self, manifest: Manifest) -> Manifest:
        """The manifest as its head fragment holds it: without what a full head has sealed."""
        if len(manifest.commits) <= self.store.runtime.options.head_commits:
            return manifest
        return replace(manifest, commits=manifest.commits[-1:], old_schemas=())

    def _swap(self, base: Head, prepared: PreparedSwap, commit_id: str) -> SwapTable:
        """The swap, asked again after a lost response: the same transaction returns what it already made."""
        clock, ids = self.store.runtime.clock, self.store.runtime.ids
        for attempt in range(SWAP_TRIES):
            try:
                return base.table.commit(prepared)
            except StoreUnavailableError as error:
                if attempt == SWAP_TRIES - 1 or isinstance(error, StoreDeniedError):
                    return self._ask(base, commit_id, error)
                clock.sleep(0.05 * 2**attempt + ids.jitter(0.05))
        raise AssertionError  # pragma: no cover - the loop returns or raises

    def _ask(self, base: Head, commit_id: str, error: StoreUnavailableError) -> SwapTable:
        """The store failed every try: look whose the next version is. While it is nobody's, ours may yet arrive."""
        try:
            table = open_table(self.store, self.path, base.table.version + 1)
            made = decode_head(table.head()).head
        except OmnigraphError:
            raise OutcomeUnknownError(commit_id, error.reason) from error
        if made != commit_id:
            raise SwapLostError(self.path, base.table.version)
        return table

    def _verify(self, table: SwapTable, commit_id: str, seq: int) -> None:
        """A swap by a writer that slept across a trim can land behind the head: it is lost, not acknowledged."""
        newest = table.latest()
        if newest is table:
            return
        if not self.contains(self._read(newest), commit_id, seq - 1):
            raise SwapLostError(self.path, table.version - 1)

    def _trim(self, table: SwapTable) -> None:
        """Now and then drop old manifest versions: they are only a fence, the past is in the journal."""
        if table.version % TRIM_EVERY:
            return
        try:
            table.trim(self.store.runtime.options.manifest_versions)
        except Exception as error:  # noqa: BLE001 - the commit has happened: nothing here may turn it into a failure
            log.warning("old versions of %s were not trimmed: %s", self.path, error)


def create_log(store: Store, manifest: Manifest, branch: str = MAIN, path: str = MANIFEST) -> ManifestLog:
    """The first version of a manifest; SwapLostError when somebody made one first.

    OutcomeUnknownError when the store failed and can't be asked whether it was made.
    """
    try:
        table = create_swap_table(store, path, head_rows(manifest))
    except (SwapLostError, StoreUnavailableError) as error:
        table = _created(store, path, manifest.head, error)
    log_ = ManifestLog(store, branch, path)
    log_._read(table)  # noqa: SLF001 - the constructor's other half
    return log_


def _created(store: Store, path: str, commit_id: str, error: SwapLostError | StoreUnavailableError) -> SwapTable:
    """The first version, when it is our own after all: its response was lost."""
    try:
        table = open_table(store, path, 1)
        made = decode_head(table.head()).head
    except OmnigraphError:
        if isinstance(error, SwapLostError):
            raise error from None
        raise OutcomeUnknownError(commit_id, error.reason) from error
    if made != commit_id:
        raise SwapLostError(path, 0) from error
    return table
