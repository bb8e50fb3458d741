"""A branch's manifest over time: read the present, publish the next, walk the past.

The only module that swaps the manifest.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import takewhile
from typing import TypeAlias

import pyarrow as pa

from omnigraph.commit.branch_errors import BranchGoneError
from omnigraph.commit.freshness import Freshness
from omnigraph.commit.key_index import KeyFinder, is_remembered
from omnigraph.commit.manifest_codec import (
    ManifestCorruptError,
    check_rows,
    check_stamp,
    decode_head,
    decode_journal,
    digest_rows,
    encode_head,
    encode_journal,
)
from omnigraph.commit.manifest_types import MAIN, Commit, Fork, Manifest, Pin, SchemaRecord, Snapshot
from omnigraph.commit.sidecar import CloneOrigin, list_sidecars
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.options import Options
from omnigraph.storage.cas_table import (
    MAX_TRIED_VERSIONS,
    CasTable,
    PreparedSwap,
    create_cas_table,
    open_cas_table,
    read_hint,
)
from omnigraph.storage.cas_table_errors import DamagedError, NewestVersionDamagedError, SwapLostError, TableMissingError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import MANIFEST, format_version_name
from omnigraph.storage.object_store import StoreDeniedError, StoreFullError, StoreUnavailableError
from omnigraph.telemetry import log

TRIM_EVERY = 100
TRIM_SKEW = timedelta(days=1)
"""Lance's cleanup takes unreferenced files of seven days for garbage, by this machine's clock; a head that somebody is
about to swap in is such a file. So a machine whose clock is further off than this does not trim."""
MAX_SEALED_ROWS = 65_536
"""A sealed fragment of so many rows is not rewritten any more."""
MAX_SWAP_TRIES = 2
"""Lance and its HTTP client retry by themselves; this is once more, after all of that."""

_REFUSALS = (StoreDeniedError, StoreFullError)
"""What the store says when it has decided against a request: the same one won't fare better."""


class NotAGraphError(OmnigraphError):
    """The place holds no graph."""

    kind = Kind.NOT_FOUND
    code = "not_a_graph"

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.uri = uri

    def __str__(self) -> str:
        return f"there is no graph at {self.uri}; make one with `omnigraph init {self.uri} --schema F`"


class UnfinishedCloneError(OmnigraphError):
    """The place holds the beginning of a clone, and no graph yet."""

    kind = Kind.NOT_FOUND
    code = "unfinished_clone"

    def __init__(self, uri: str, source: str) -> None:
        super().__init__(uri, source)
        self.uri, self.source = uri, source

    def __str__(self) -> str:
        return (
            f"{self.uri} is an unfinished clone of {self.source}, and no graph yet: `omnigraph clone {self.source}"
            f" {self.uri}` goes on with it; or remove it"
        )


class OutcomeUnknownError(OmnigraphError):
    """The swap may or may not have happened: the store stopped answering. Ask for the commit id later."""

    kind = Kind.UNAVAILABLE
    code = "outcome_unknown"

    def __init__(self, commit_id: str, reason: str, branch: str = MAIN) -> None:
        super().__init__(commit_id, reason, branch)
        self.commit_id, self.reason, self.branch = commit_id, reason, branch

    def __str__(self) -> str:
        place = "" if self.branch == MAIN else f" --branch {self.branch}"
        return (
            f"commit {self.commit_id} may or may not have been published: the store stopped answering"
            f" ({self.reason}). `omnigraph commit show {self.commit_id}{place}` tells once it answers again"
        )


class GraphReplacedError(OmnigraphError):
    """The graph went back to an earlier state, or is another one, while a handle on it was open."""

    kind = Kind.CORRUPT
    code = "graph_replaced"

    def __init__(self, uri: str, seen: int, found: int) -> None:
        super().__init__(uri, seen, found)
        self.uri, self.seen, self.found = uri, seen, found

    def __str__(self) -> str:
        return (
            f"the manifest of {self.uri} was seen at version {self.seen} and is at {self.found} now: the graph was"
            " made anew or restored from a copy while it was open. Open it again to go on with what is there"
        )


@dataclass(frozen=True, slots=True)
class Head:
    """A snapshot with the table version it was read from."""

    snapshot: Snapshot
    table: CasTable


class ManifestLog:
    """The manifest of one branch. Holds the newest head it has seen; safe to share between threads.

    `others` gives the log of another branch by its name and path; without it each is opened anew.
    """

    def __init__(
        self,
        store: GraphStorage,
        branch: str = MAIN,
        path: str = MANIFEST,
        *,
        others: "LogOpener | None" = None,
    ) -> None:
        self.store, self.branch, self.path = store, branch, path
        self._others = others or (lambda branch, path: ManifestLog(store, branch, path))
        self._lock = threading.Lock()
        self._head: Head | None = None
        self._freshness = Freshness(store)
        self._keys = KeyFinder(store, path)
        self._lost_on = 0
        """The version on which the last swap was lost."""

    def head(self) -> Head:
        """The newest state there is: one probe when nothing moved. BranchGoneError when the branch was deleted."""
        return _check_live(self.final_head())

    def final_head(self) -> Head:
        """As `latest`, and of a deleted branch the state in which it ended."""
        held = self._head
        if held is None:
            try:
                table = open_cas_table(self.store, self.path)
            except TableMissingError:
                if self.path == MANIFEST:
                    _refuse_unfinished(self.store)
                raise NotAGraphError(self.store.location.uri) from None
        else:
            table = held.table.open_latest()
            if table.version < held.table.version:
                raise GraphReplacedError(self.store.location.uri, held.table.version, table.version)
            if table is held.table:
                self._freshness.renew()
                return held
        return self._read(table)

    def peek_head(self) -> Head | None:
        """Return the newest state seen so far, without a request."""
        return self._head

    def readable_head(self) -> Head:
        """The newest state, or when its version is damaged the one before: for reading the past."""
        return _check_live(self._final_readable_head())

    def cached_head(self) -> Head:
        """A state to base a write on: the held one, if it was the newest just now and the next version is not there.

        A swap finds out if that errs.
        """
        held = self._head
        is_sure = held is not None and self._freshness.is_recent and held.table.is_newest()
        return _check_live(held) if held is not None and is_sure else self.head()

    def publish(
        self, base: Head, manifest: Manifest, is_made: Callable[[Head], bool] | None = None, *, lost: int = 0
    ) -> Head:
        """Make `manifest` the state after `base`: visible whole, or SwapLostError, or OutcomeUnknownError.

        Acknowledged only when the new version is reachable from the latest one: a state then has the new commit, or
        what else `is_made` looks for. The oldest `lost` parts of the journal, which can't be read, are left out.
        """
        try:
            return self._publish(base, manifest, is_made, lost)
        except SwapLostError:
            version = base.table.version
            if self._lost_on == version:  # the first loss is ordinary contention, and costs no look
                _check_moved(self.store, self.path, version)
            self._lost_on = version
            raise

    def _publish(self, base: Head, manifest: Manifest, is_made: Callable[[Head], bool] | None, lost: int) -> Head:
        commit = manifest.head_commit
        is_made = is_made or (lambda head: self.contains(head, commit.id, commit.seq - 1))
        faults = self.store.runtime.faults
        held = self._head
        if held is not None and held.table.version > base.table.version:
            raise SwapLostError(self.path, base.table.version)  # another thread was first: nothing to try
        if not self._freshness.is_recent:
            _check_newest(base)
            self._freshness.renew()
        if find_lost_version(self.store, self.path, base.table.version) is not None:
            open_cas_table(self.store, self.path)  # raises, unless that version was trimmed: then the swap is lost
        if not lost and len(manifest.commits) > self.store.runtime.options.head_commits:
            index = self._keys.extend(manifest, manifest.commits[:-1], has_earlier=base.table.sealed_count > 0)
            manifest = replace(manifest, keys=index)
        prepared, stored = _prepare_or_lose(base, manifest, self.store.runtime.options, lost)
        self.store.flush(prepared.files)
        faults.reach("publish.head_written")
        table = self._swap(base, prepared, is_made, commit.id)
        try:
            faults.reach("publish.swapped")
            table.flush()
            _verify(table, is_made, self._read)
            if not self._freshness.is_recent:
                _check_base_exists(base, table)
            faults.reach("publish.verified")
        except (SwapLostError, OutcomeUnknownError, BranchGoneError):
            raise
        except Exception as error:
            raise OutcomeUnknownError(commit.id, str(error), self.branch) from error
        head = self._hold(table, stored)
        _trim(self.store, head, self._keys)
        return head

    def iter_history(self, head: Head, before: int | None = None) -> Iterator[Commit]:
        """The commits that led to a state, newest first, or only those with a smaller `seq` than `before`.

        Sealed fragments are read only when reached. Behind a branch's own commits come its parent's.
        """
        for state, limit in self._iter_states(head, before):
            commits = state.snapshot.manifest.commits
            yield from reversed([commit for commit in commits if limit is None or commit.seq < limit])
            for index in reversed(range(_count_sealed_before(state, limit))):
                sealed, _ = decode_sealed(state, index)
                yield from reversed([commit for commit in sealed if limit is None or commit.seq < limit])

    def read_since(self, head: Head, seq: int) -> list[Commit]:
        """The commits after `seq`, newest first."""
        return list(takewhile(lambda commit: commit.seq > seq, self.iter_history(head)))

    def open_parent(self, fork: Fork) -> "ManifestLog":
        """The log in which the history of this branch goes on."""
        return self._others(fork.parent_branch, fork.parent_path)

    def open_other(self, branch: str, path: str) -> "ManifestLog":
        """The log of another branch of this graph, which may have been deleted."""
        return self._others(branch, path)

    def iter_schemas(self, head: Head) -> Iterator[SchemaRecord]:
        """Read every accepted schema, present and past, of this branch and of those it comes from."""
        for state, _ in self._iter_states(head, None):
            manifest = state.snapshot.manifest
            yield from (manifest.schema, *manifest.old_schemas)
            for index in reversed(range(state.table.sealed_count)):
                yield from decode_sealed(state, index)[1]

    def contains(self, head: Head, commit_id: str, after_seq: int) -> bool:
        """Whether a commit is part of this state; reads back no further than `after_seq`, which it must follow."""
        return any(commit.id == commit_id for commit in self.read_since(head, after_seq))

    def find_by_idempotency_key(self, head: Head, actor: str, key: str) -> Commit | None:
        """Return the actor's commit with this idempotency key, if the settings say that it is remembered still.

        A key belongs to a branch: what its parent has done is another request.
        """
        manifest = head.snapshot.manifest
        inherited = -1 if manifest.fork is None else manifest.fork.seq
        found = self._keys.find(manifest, head.table, actor, key)
        if found is None or found.seq <= inherited or not is_remembered(self.store, found):
            return None
        return found

    def _iter_states(self, head: Head, before: int | None) -> Iterator[tuple[Head, int | None]]:
        """A state, then one of each branch that its history goes on in, with the `seq` that this part ends before."""
        log = self
        while True:
            yield head, before
            fork = head.snapshot.manifest.fork
            if fork is None:
                return
            before = fork.seq if before is None else min(before, fork.seq)
            log = log.open_parent(fork)
            head = log._final_readable_head()  # noqa: SLF001 - the same class

    def _final_readable_head(self) -> Head:
        try:
            return self.final_head()
        except NewestVersionDamagedError as error:
            table = open_cas_table(self.store, self.path, error.readable)
            check_stamp(table.metadata)
            return _build_head(self.branch, table, read_head(table))  # not held: it is not the newest, whatever follows

    def _read(self, table: CasTable) -> Head:
        check_stamp(table.metadata)
        try:
            manifest = read_head(table)
        except (DamagedError, ManifestCorruptError) as error:
            raise _blame_version(table, error) from error
        if manifest.branch != self.branch:
            raise ManifestCorruptError(f"it is that of `{manifest.branch}`, and not of `{self.branch}`", self.path)
        return self._hold(table, manifest)

    def _hold(self, table: CasTable, manifest: Manifest) -> Head:
        """A version as a state. The newest one seen is remembered, whichever thread saw it."""
        head = _build_head(self.branch, table, manifest)
        known = {} if self._head is None else self._head.snapshot.pins
        # Most pins are those of the state before.
        expect_pins(self.store, (pin for key, pin in manifest.pins.items() if known.get(key) is not pin))
        with self._lock:
            if self._head is None or self._head.snapshot.manifest_version < head.snapshot.manifest_version:
                self._head = head
            self._freshness.renew()
        return head

    def _swap(self, base: Head, prepared: PreparedSwap, is_made: Callable[[Head], bool], commit_id: str) -> CasTable:
        """Swap, and ask again after a lost response: the same transaction returns what it already made.

        Raises:
            SwapLostError: Another writer has made the next version.
            StoreFullError, StoreDeniedError: A local disk has refused to make it.
            OutcomeUnknownError: Anything else went wrong, and the next version is nobody's yet.
        """
        clock, ids = self.store.runtime.clock, self.store.runtime.ids
        for attempt in range(MAX_SWAP_TRIES):
            try:
                return base.table.commit(prepared)
            except StoreUnavailableError as error:
                if attempt < MAX_SWAP_TRIES - 1 and not isinstance(error, _REFUSALS):
                    clock.sleep(0.05 * 2**attempt + ids.jitter(0.05))
                    continue
                # The store failed every try: look whose the next version is. While it is nobody's, ours may yet arrive.
                try:
                    next_ = self._read(open_cas_table(self.store, self.path, base.table.version + 1))
                    is_ours = is_made(next_)
                except OmnigraphError:
                    if _is_refused(self.store, self.path, base.table.version + 1, error):
                        for file in prepared.files:  # where there is no room, nothing is left lying about
                            self.store.objects.delete(file)
                        raise error from None
                    raise OutcomeUnknownError(commit_id, error.reason, self.branch) from error
                if not is_ours:
                    raise SwapLostError(self.path, base.table.version) from None
                return next_.table
            except SwapLostError:
                raise
            except Exception as error:
                raise OutcomeUnknownError(commit_id, str(error), self.branch) from error
        raise AssertionError  # pragma: no cover - the loop returns or raises


def expect_pins(store: GraphStorage, pins: Iterable[Pin]) -> None:
    """Let the files that pins name be compared with what the pins record of them."""
    for pin in pins:
        store.verifier.expect(pin.path, pin.version, pin.sum, pin.rows)
        store.verifier.lists.expect(pin.path, pin.lists)


def _is_refused(store: GraphStorage, path: str, version: int, error: StoreUnavailableError) -> bool:
    """Return whether the store has refused to make a version, so that it is not there and never will be.

    A local disk that is full, or may not be written to, has answered. What it failed to do otherwise may still be under
    way, as on a disk of another machine; and of an object store's requests an earlier one may be.
    """
    if store.local is None or not isinstance(error, _REFUSALS):
        return False
    try:
        return store.objects.stat(f"{path}/{format_version_name(version)}") is None
    except StoreUnavailableError:
        return False


def _build_head(branch: str, table: CasTable, manifest: Manifest) -> Head:
    return Head(Snapshot(branch=branch, manifest_version=table.version, manifest=manifest), table)


LogOpener: TypeAlias = Callable[[str, str], ManifestLog]
"""Gives the log of another branch of the same graph, by its name and path."""


def _refuse_unfinished(store: GraphStorage) -> None:
    """UnfinishedCloneError when what is there instead of a graph is the beginning of a clone."""
    try:
        found, _ = list_sidecars(store)
    except OmnigraphError as error:
        log.debug("could not look for an unfinished clone at %s: %s", store.location.uri, error)
        return
    for one in found:
        if isinstance(one.sidecar.origin, CloneOrigin):
            raise UnfinishedCloneError(store.location.uri, one.sidecar.origin.uri)


def _check_moved(store: GraphStorage, path: str, version: int) -> None:
    """Check that a manifest has moved on from a version on which swaps are lost again and again.

    Raises:
        NewestVersionDamagedError: It has not: the name of the next version is taken, and nothing newer opens.
    """
    newest = open_cas_table(store, path)
    if newest.version <= version:
        raise NewestVersionDamagedError(path, version + 1, newest.version, f"its file is that of {newest.version}")


def _verify(table: CasTable, is_made: Callable[[Head], bool], read: Callable[[CasTable], Head]) -> None:
    """A swap by a writer that slept across a trim can land behind the head: it is lost, not acknowledged."""
    newest = table.open_latest()
    if newest is not table and not is_made(read(newest)):
        raise SwapLostError(table.path, table.version - 1)


def _check_newest(base: Head) -> None:
    """A writer that slept looks before it swaps: the names of versions behind its base may have been freed."""
    store, path = base.table.store, base.table.path
    try:
        newest = base.table.open_latest()
    except (StoreUnavailableError, TableMissingError):
        if path != MANIFEST and not store.objects.list_under(f"{path}/_versions"):
            raise BranchGoneError(base.snapshot.branch) from None
        raise
    if newest is not base.table:
        raise SwapLostError(path, base.table.version)


def _check_base_exists(base: Head, table: CasTable) -> None:
    """A writer that slept during its swap may have made the one version of a manifest that was collected whole.

    Its branch was deleted. Of a manifest that is anybody's, several of the newest versions are always there.
    """
    if table.path != MANIFEST and not base.table.is_there():
        table.remove()
        raise BranchGoneError(base.snapshot.branch)


def _check_live(head: Head) -> Head:
    """The state, or BranchGoneError when its branch was deleted."""
    if head.snapshot.manifest.is_closed:
        raise BranchGoneError(head.snapshot.branch)
    return head


def _count_sealed_before(head: Head, seq: int | None) -> int:
    """How many sealed fragments, from the oldest on, hold what is before `seq`; few of them are looked at for that."""
    count = head.table.sealed_count
    if seq is None or head.snapshot.manifest.commits[0].seq < seq:
        return count
    newest = bisect_left(range(count), seq - 1, key=lambda index: _read_newest_seq(head.table, index))
    return min(newest + 1, count)


def read_head(table: CasTable) -> Manifest:
    """Read and decode the newest fragment of one version of a manifest."""
    return decode_head(table.read_head(), table.version, table.sealed_count)


def _blame_version(table: CasTable, error: DamagedError | ManifestCorruptError) -> OmnigraphError:
    """Return the error of a head that can't be read: with an older version to go back to, if one can be read."""
    for number in range(table.version - 1, max(table.version - MAX_TRIED_VERSIONS, 0), -1):
        try:
            read_head(open_cas_table(table.store, table.path, number))
        except OmnigraphError:
            continue
        return NewestVersionDamagedError(table.path, table.version, number, error.reason)
    return error if isinstance(error, DamagedError) else ManifestCorruptError(error.reason, table.list_files()[-1][0])


def decode_sealed(head: Head, index: int) -> tuple[tuple[Commit, ...], tuple[SchemaRecord, ...]]:
    """Read one sealed part of the journal, which must have the digest that the head knows."""
    rows = head.table.read_sealed(index)
    try:
        return decode_journal(rows, head.snapshot.manifest.sealed[index])
    except ManifestCorruptError as error:
        raise ManifestCorruptError(error.reason, head.table.list_files()[index][0]) from error


def _read_newest_seq(table: CasTable, index: int) -> int:
    """The `seq` of a sealed fragment's last row, which is its newest commit."""
    commits, _ = decode_journal(table.read_sealed(index, last=1))
    return commits[-1].seq


def _prepare_or_lose(base: Head, manifest: Manifest, options: Options, lost: int = 0) -> tuple[PreparedSwap, Manifest]:
    """As `_prepare`; files of a base that slept past a trim may be gone, and then the swap is lost anyway."""
    try:
        if lost:  # nothing is sealed then: what may be merged with it may be what can't be read
            manifest = replace(manifest, sealed=manifest.sealed[lost:])
            return base.table.prepare(encode_head(manifest, base.table.version + 1), dropped_sealed=lost), manifest
        return _prepare(base.table, manifest, options)
    except (StoreUnavailableError, DamagedError):
        if base.table.open_latest() is base.table:
            raise
        raise SwapLostError(base.table.path, base.table.version) from None


def _prepare(table: CasTable, manifest: Manifest, options: Options) -> tuple[PreparedSwap, Manifest]:
    """The swap's content, and the manifest as it holds it.

    When the head is full its past is sealed, and many small seals become one.
    """
    version = table.version + 1
    if len(manifest.commits) <= options.head_commits:
        return table.prepare(encode_head(manifest, version)), manifest
    sealed = encode_journal(manifest.commits[:-1], manifest.old_schemas)
    sizes = table.count_sealed_rows()
    first = len(sizes)
    if len(sizes) >= options.sealed_fragments:
        first = _find_first_merged(sizes, sealed.num_rows)
        # What is written anew must be what was sealed: else damage would get a digest of its own.
        earlier = [check_rows(table.read_sealed(index), manifest.sealed[index]) for index in range(first, len(sizes))]
        sealed = pa.concat_tables([*earlier, sealed])
    digests = (*manifest.sealed[:first], digest_rows(sealed.to_pylist()))
    kept = replace(_drop_sealed(manifest, options), sealed=digests)
    return table.prepare(encode_head(kept, version), seal=sealed, keep_sealed=first), kept


def _drop_sealed(manifest: Manifest, options: Options) -> Manifest:
    """The manifest as its head fragment holds it: without what a full head has sealed."""
    if len(manifest.commits) <= options.head_commits:
        return manifest
    return replace(manifest, commits=manifest.commits[-1:], old_schemas=())


def _trim(store: GraphStorage, head: Head, keys: KeyFinder) -> None:
    """Now and then drop old manifest versions: they are only a fence, the past is in the journal."""
    table = head.table
    if table.version % TRIM_EVERY:
        return
    try:
        made_at = table.read_created_at()
        keys.remove_orphans(head.snapshot.manifest, made_at)
        skew = abs(made_at - store.runtime.clock.now())
        if skew > TRIM_SKEW:
            log.warning("old versions of %s were not trimmed: this machine's clock is off by %s", table.path, skew)
            return
        table.trim(store.runtime.options.manifest_versions)
    except Exception as error:  # noqa: BLE001 - the commit has happened: nothing here may turn it into a failure
        log.warning("old versions of %s were not trimmed: %s", table.path, error)


def _find_first_merged(sizes: Sequence[int], fresh: int) -> int:
    """The first sealed fragment to merge with `fresh` new rows: none that is more than twice what would follow it.

    Those that stay are then each larger than twice all behind them, so they are few, and a row is rewritten rarely.
    """
    first, rows = len(sizes), fresh
    while first and sizes[first - 1] <= min(2 * rows, MAX_SEALED_ROWS):
        first -= 1
        rows += sizes[first]
    return first


def open_version(store: GraphStorage, path: str, number: int) -> CasTable:
    """A manifest at one of its versions, whatever is newer, not decoded; TableMissingError when there is none."""
    return open_cas_table(store, path, number)


def find_lost_version(store: GraphStorage, path: str, newest: int) -> int | None:
    """Return the number of a version after `newest` that was made and whose file is gone, if any."""
    hint = read_hint(store, path, newest)
    return None if hint is None or store.objects.stat(f"{path}/{format_version_name(hint)}") is not None else hint


def create_log(
    store: GraphStorage,
    manifest: Manifest,
    branch: str = MAIN,
    path: str = MANIFEST,
    *,
    others: LogOpener | None = None,
) -> ManifestLog:
    """The first version of a manifest; SwapLostError when somebody made one first.

    StoreFullError or StoreDeniedError when a local disk has refused to make it; OutcomeUnknownError when the store
    failed otherwise, and can't be asked whether it was made.
    """
    try:
        manifest = replace(manifest, sealed=())
        table = create_cas_table(store, path, encode_head(manifest, 1))
    except (SwapLostError, StoreUnavailableError) as error:
        table = _open_created(store, path, manifest.head, error)
    log_ = ManifestLog(store, branch, path, others=others)
    log_._hold(table, manifest)  # noqa: SLF001 - the constructor's other half
    return log_


def _open_created(
    store: GraphStorage, path: str, commit_id: str, error: SwapLostError | StoreUnavailableError
) -> CasTable:
    """The first version, when it is our own after all: its response was lost."""
    try:
        table = open_cas_table(store, path, 1)
        made = read_head(table).head
    except OmnigraphError:
        if isinstance(error, SwapLostError) or _is_refused(store, path, 1, error):
            raise error from None
        raise OutcomeUnknownError(commit_id, error.reason) from error
    if made != commit_id:
        raise SwapLostError(path, 0) from error
    return table


def find_schema(log: ManifestLog, head: Head, schema_id: str) -> SchemaRecord | None:
    """Find an accepted schema, present or past, of a branch or of those it comes from."""
    return next((record for record in log.iter_schemas(head) if record.id == schema_id), None)
