"""The manifest of a branch over time: read the newest state, publish the next one, walk the history.

This is the only module that swaps a manifest.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeAlias

import pyarrow as pa

from omnigraph.backoff import wait_for_retry
from omnigraph.commit.branch_errors import BranchGoneError, OutcomeUnknownError
from omnigraph.commit.freshness import Freshness, Instant
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
from omnigraph.concurrency import create_lock
from omnigraph.errors import CorruptError, Kind, OmnigraphError, variant
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

# Lance's cleanup treats unreferenced files older than seven days, by this machine's clock, as garbage. A head that
# another writer is about to swap in is such a file. So a machine whose clock is further off than this does not trim.
TRIM_SKEW = timedelta(days=1)
# Younger versions are not trimmed, however many there are: a writer trusts the state that it saw less than
# `freshness.RECENT_SECONDS` ago, and takes the name of the next version for free if it does not exist.
TRIM_AGE = timedelta(seconds=60)
# A sealed fragment with more rows is not merged into a larger one, so that its rows are not rewritten again.
MAX_SEALED_ROWS = 65_536
# Lance and its HTTP client retry on their own; this is one more try after all of theirs.
MAX_SWAP_TRIES = 2

# Errors by which the store has rejected a request: the same request would be rejected again.
_REFUSALS = (StoreDeniedError, StoreFullError)


class NotAGraphError(OmnigraphError):
    """The location holds no graph."""

    kind = Kind.NOT_FOUND
    code = "not_a_graph"
    uri: str
    message = "there is no graph at {uri}; create one with `omnigraph init {uri} --schema F`"

    @variant
    def backup_not_found(self, uri: str, id: str) -> str:
        """Report that a repository has no backup with this id."""
        return f"there is no backup `{id}` at {uri}; `omnigraph backup list {uri}` lists those that there are"

    @variant
    def no_backups(self, uri: str) -> str:
        """Report that a location has no backups at all."""
        return f"there are no backups at {uri}; `omnigraph backup create GRAPH {uri}` adds one"


class UnfinishedCloneError(OmnigraphError):
    """The location holds an unfinished clone, which is not a graph yet."""

    kind = Kind.NOT_FOUND
    code = "unfinished_clone"
    uri: str
    source: str
    message = (
        "{uri} is an unfinished clone of {source}, not a graph yet: `omnigraph clone {source}"
        " {uri}` resumes it, or `omnigraph backup restore` if these are backups; or remove it"
    )


@dataclass(frozen=True, slots=True)
class Head:
    """A snapshot with the table version it was read from."""

    snapshot: Snapshot
    table: CasTable


class ManifestLog:
    """The manifest of one branch. Caches the newest head it has seen; thread-safe.

    `open_log` returns the log of another branch by its name and path; without it, a new one is opened each time.
    """

    def __init__(
        self,
        store: GraphStorage,
        branch: str = MAIN,
        path: str = MANIFEST,
        *,
        open_log: "LogOpener | None" = None,
    ) -> None:
        self.store = store
        self.branch = branch
        self.path = path
        self._open_log = open_log or (lambda branch, path: ManifestLog(store, branch, path))
        self._lock = create_lock()
        self._head: Head | None = None
        self._freshness = Freshness(store)
        self._keys = KeyFinder(store, path)
        # The version on which the last swap was lost.
        self._lost_on = 0

    def head(self, max_age: float = 0.0) -> Head:
        """Return the newest state, or one that was the newest within the last `max_age` seconds.

        Costs one probe if nothing has changed, and none if the cached state is recent enough.

        Raises:
            BranchGoneError: The branch was deleted.
        """
        cached = self._head
        if cached is not None and max_age > 0 and self._freshness.is_within(max_age):
            return _check_live(cached)
        return _check_live(self.final_head())

    def final_head(self) -> Head:
        """Return the newest state, like `head`; for a deleted branch, its last state."""
        cached = self._head
        # Taken before the store is asked: a state that is this old was the newest then, whatever the answer took.
        asked_at = self._freshness.read_clocks()
        if cached is None:
            try:
                table = open_cas_table(self.store, self.path)
            except TableMissingError:
                if self.path == MANIFEST:
                    _refuse_unfinished(self.store)
                raise NotAGraphError(self.store.location.uri) from None
        else:
            table = cached.table.open_latest()
            # Versions only grow, so an older one means that the graph was replaced.
            if table.version < cached.table.version:
                raise CorruptError.graph_replaced(self.store.location.uri, cached.table.version, table.version)
            if table is cached.table:
                self._freshness.renew(asked_at)
                return cached
        return self._read(table, asked_at)

    def peek_head(self) -> Head | None:
        """Return the newest state seen so far, without a request.

        Raises:
            BranchGoneError: The branch was deleted.
        """
        return None if self._head is None else _check_live(self._head)

    def readable_head(self) -> Head:
        """Return the newest state, or if its version is damaged, an older readable one: for reading history."""
        return _check_live(self._final_readable_head())

    def cached_head(self) -> Head:
        """Return a state to base a write on: the cached one, if it was recently the newest and no next version exists.

        If the state is outdated nevertheless, the swap is lost.
        """
        cached = self._head
        if cached is not None and self._freshness.is_recent and cached.table.is_newest():
            return _check_live(cached)
        return self.head()

    def publish(
        self, base: Head, manifest: Manifest, has_landed: Callable[[Head], bool] | None = None, *, lost: int = 0
    ) -> Head:
        """Publish `manifest` as the state after `base`, atomically, and return it.

        It is acknowledged only if the new version is part of the newest state's history: if that state has the new
        commit, or satisfies `has_landed`. The oldest `lost` parts of the journal, which can't be read, are left out.

        Raises:
            SwapLostError: Another writer has published the next version. Nothing was published.
            BranchGoneError: The branch was deleted.
            OutcomeUnknownError: The store stopped responding.
        """
        try:
            return self._publish(base, manifest, has_landed, lost)
        except SwapLostError:
            version = base.table.version
            # The first loss is ordinary contention, and costs no request. A second one on the same version is not.
            if self._lost_on == version:
                _check_moved(self.store, self.path, version)
            self._lost_on = version
            raise

    def _publish(self, base: Head, manifest: Manifest, has_landed: Callable[[Head], bool] | None, lost: int) -> Head:
        commit = manifest.head_commit
        has_landed = has_landed or (lambda head: self.contains(head, commit.id, commit.seq - 1))
        faults = self.store.runtime.faults
        # A copy, taken before the head: a read in another thread that renews it proves nothing about this base.
        freshness = copy(self._freshness)
        cached = self._head
        # Another thread has published already: the swap would be lost.
        if cached is not None and cached.table.version > base.table.version:
            raise SwapLostError(self.path, base.table.version)
        if not freshness.is_recent:
            _check_newest(base)
            freshness.renew()
        # A hint names a later version whose file is missing. Opening raises, unless that version was trimmed: then the
        # swap is lost.
        if find_lost_version(self.store, self.path, base.table.version) is not None:
            open_cas_table(self.store, self.path)
        # Keys are indexed before the swap that seals their commits: a crash leaves an unused object, and no lost key.
        if not lost and len(manifest.commits) > self.store.runtime.options.head_commits:
            index = self._keys.extend(manifest, manifest.commits[:-1], has_earlier=base.table.sealed_count > 0)
            manifest = replace(manifest, keys=index)
        prepared, stored = _prepare_or_lose(base, manifest, self.store.runtime.options, lost)
        self.store.flush(prepared.files)
        faults.reach("publish.head_written")
        table = self._swap(base, prepared, has_landed, commit.id)
        try:
            faults.reach("publish.swapped")
            table.flush()
            # Within that time no version after the base is trimmed, so one look at the next name is enough.
            if not (freshness.is_recent and table.is_newest()):
                _verify(table, has_landed, self._read)
            if not freshness.is_recent:
                _check_base_exists(base, table)
            faults.reach("publish.verified")
        except (SwapLostError, OutcomeUnknownError, BranchGoneError):
            raise
        # The swap has happened. A failure after it must not look as if nothing was published.
        except Exception as error:
            raise OutcomeUnknownError(commit.id, str(error), self.branch) from error
        head = self._cache_head(table, stored)
        _trim(self.store, head, self._keys)
        return head

    def iter_history(self, head: Head, before: int | None = None) -> Iterator[Commit]:
        """Yield the commits of a state's history, newest first, or only those with a smaller `seq` than `before`.

        Sealed fragments are read only when reached. A branch's own commits are followed by its parent's.
        """
        for state, limit in self._iter_states(head, before):
            commits = state.snapshot.manifest.commits
            yield from reversed([commit for commit in commits if limit is None or commit.seq < limit])
            for index in reversed(range(_count_sealed_before(state, limit))):
                sealed, _ = decode_sealed(state, index)
                yield from reversed([commit for commit in sealed if limit is None or commit.seq < limit])

    def read_since(self, head: Head, seq: int) -> list[Commit]:
        """Return the commits after `seq`, newest first."""
        since: list[Commit] = []
        if head.snapshot.commit.seq > seq:
            for commit in self.iter_history(head):
                if commit.seq > seq:
                    since.append(commit)
                # The commit before that may be in a sealed part of the journal, which would be read for it.
                if commit.seq <= seq + 1:
                    break
        return since

    def open_parent(self, fork: Fork) -> "ManifestLog":
        """Return the log of the parent branch, in which the history of this branch continues."""
        return self._open_log(fork.parent_branch, fork.parent_path)

    def open_other(self, branch: str, path: str) -> "ManifestLog":
        """Return the log of another branch of this graph, which may have been deleted."""
        return self._open_log(branch, path)

    def iter_schemas(self, head: Head) -> Iterator[SchemaRecord]:
        """Yield every accepted schema, present and past, of this branch and its ancestors."""
        for state, _ in self._iter_states(head, None):
            manifest = state.snapshot.manifest
            yield from (manifest.schema, *manifest.old_schemas)
            for index in reversed(range(state.table.sealed_count)):
                yield from decode_sealed(state, index)[1]

    def contains(self, head: Head, commit_id: str, after_seq: int) -> bool:
        """Return whether a state's history has a commit that follows `after_seq`; reads back no further than that."""
        return any(commit.id == commit_id for commit in self.read_since(head, after_seq))

    def find_by_idempotency_key(self, head: Head, actor: str, key: str) -> Commit | None:
        """Return the actor's commit with this idempotency key, or None if there is none or the key has expired."""
        manifest = head.snapshot.manifest
        # A key belongs to a branch: the same key on its parent was another request.
        inherited = -1 if manifest.fork is None else manifest.fork.seq
        commit = self._keys.find(manifest, head.table, actor, key)
        if commit is None or commit.seq <= inherited or not is_remembered(self.store, commit):
            return None
        return commit

    def _iter_states(self, head: Head, before: int | None) -> Iterator[tuple[Head, int | None]]:
        """Yield a state and then one of each ancestor branch, each with the `seq` before which its commits count."""
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
            # Not cached, because it is not the newest state.
            return _build_head(self.branch, table, read_head(table))

    def _read(self, table: CasTable, asked_at: Instant | None = None) -> Head:
        check_stamp(table.metadata)
        try:
            manifest = read_head(table)
        except (DamagedError, ManifestCorruptError) as error:
            raise _blame_version(table, error) from error
        if manifest.branch != self.branch:
            raise ManifestCorruptError(f"it belongs to `{manifest.branch}`, not to `{self.branch}`", self.path)
        return self._cache_head(table, manifest, asked_at)

    def _cache_head(self, table: CasTable, manifest: Manifest, asked_at: Instant | None = None) -> Head:
        """Return the state of a version, and cache it if it is the newest one that any thread has seen."""
        head = _build_head(self.branch, table, manifest)
        # Most pins are the objects of the state before, and were registered with it.
        old_pins = {} if self._head is None else self._head.snapshot.pins
        expect_pins(self.store, (pin for key, pin in manifest.pins.items() if old_pins.get(key) is not pin))
        with self._lock:
            if self._head is None or self._head.snapshot.manifest_version < head.snapshot.manifest_version:
                self._head = head
            self._freshness.renew(asked_at)
        return head

    def _swap(self, base: Head, prepared: PreparedSwap, has_landed: Callable[[Head], bool], commit_id: str) -> CasTable:
        """Swap in the prepared version. It is safe to repeat after a lost response: the transaction stays the same.

        Raises:
            SwapLostError: Another writer has published the next version.
            StoreFullError, StoreDeniedError: A local disk has refused to write it.
            OutcomeUnknownError: Anything else went wrong, and the next version does not exist yet.
        """
        for attempt in range(MAX_SWAP_TRIES):
            try:
                return base.table.commit(prepared)
            except StoreUnavailableError as error:
                if attempt < MAX_SWAP_TRIES - 1 and not isinstance(error, _REFUSALS):
                    wait_for_retry(self.store.runtime, attempt + 1)
                    continue
                # The store failed every try: check who wrote the next version. While there is none, ours may still
                # arrive.
                try:
                    next_ = self._read(open_cas_table(self.store, self.path, base.table.version + 1))
                    is_ours = has_landed(next_)
                except OmnigraphError:
                    if _is_refused(self.store, self.path, base.table.version + 1, error):
                        # The disk may be full, so unused files are removed immediately.
                        for file in prepared.files:
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
    """Register the recorded checksums of pins, so that their files are verified when they are read."""
    for pin in pins:
        store.verifier.expect(pin.path, pin.version, pin.sum, pin.rows)
        store.verifier.lists.expect(pin.path, pin.lists)


def _is_refused(store: GraphStorage, path: str, version: int, error: StoreUnavailableError) -> bool:
    """Return whether the store has refused to write a version, so that it does not exist and never will."""
    # A local disk that is full or read-only has answered. After other failures the write may still be in progress, as
    # on a network disk; and on an object store an earlier request may be.
    if store.local is None or not isinstance(error, _REFUSALS):
        return False
    try:
        return store.objects.stat(f"{path}/{format_version_name(version)}") is None
    except StoreUnavailableError:
        return False


def _build_head(branch: str, table: CasTable, manifest: Manifest) -> Head:
    return Head(Snapshot(branch=branch, manifest_version=table.version, manifest=manifest), table)


LogOpener: TypeAlias = Callable[[str, str], ManifestLog]
"""Returns the log of another branch of the same graph, by its name and path."""


def _refuse_unfinished(store: GraphStorage) -> None:
    """Check that a location without a graph is not an unfinished clone.

    Raises:
        UnfinishedCloneError: It is one.
    """
    try:
        sidecars, _ = list_sidecars(store)
    except OmnigraphError as error:
        log.debug("could not look for an unfinished clone at %s: %s", store.location.uri, error)
        return
    for stored in sidecars:
        if isinstance(stored.sidecar.origin, CloneOrigin):
            raise UnfinishedCloneError(store.location.uri, stored.sidecar.origin.uri)


def _check_moved(store: GraphStorage, path: str, version: int) -> None:
    """Check that a manifest has a newer version than the one on which swaps are repeatedly lost.

    Raises:
        NewestVersionDamagedError: It has none: the name of the next version is taken, but no newer version opens.
    """
    newest = open_cas_table(store, path)
    if newest.version <= version:
        raise NewestVersionDamagedError(
            path, version + 1, newest.version, f"it is the file of version {newest.version}"
        )


def _verify(table: CasTable, has_landed: Callable[[Head], bool], read: Callable[[CasTable], Head]) -> None:
    """Check that a swapped-in version is part of the newest state's history.

    A swap by a writer that was suspended during a trim can land on a version number that the trim has freed, below the
    newest version.

    Raises:
        SwapLostError: It is not; the swap counts as lost.
    """
    newest = table.open_latest()
    if newest is not table and not has_landed(read(newest)):
        raise SwapLostError(table.path, table.version - 1)


def _check_newest(base: Head) -> None:
    """Check before a swap that `base` is the newest state; for a writer that may have been suspended since it read it.

    Raises:
        SwapLostError: There is a newer version.
        BranchGoneError: The branch was deleted, and its manifest collected.
    """
    # Without this check the swap could succeed: a trim frees the numbers of old versions after the base.
    store = base.table.store
    path = base.table.path
    try:
        newest = base.table.open_latest()
    except (StoreUnavailableError, TableMissingError):
        if path != MANIFEST and not store.objects.list_under(f"{path}/_versions"):
            raise BranchGoneError(base.snapshot.branch) from None
        raise
    if newest is not base.table:
        raise SwapLostError(path, base.table.version)


def _check_base_exists(base: Head, table: CasTable) -> None:
    """Check after a swap that its base still exists, and take the new version back if it does not.

    Raises:
        BranchGoneError: The branch was deleted, and its manifest collected, while the writer was suspended.
    """
    # A manifest in use always keeps several of its newest versions.
    if table.path != MANIFEST and not base.table.is_there():
        table.remove()
        raise BranchGoneError(base.snapshot.branch)


def _check_live(head: Head) -> Head:
    """Return the state unchanged.

    Raises:
        BranchGoneError: Its branch was deleted.
    """
    if head.snapshot.manifest.is_closed:
        raise BranchGoneError(head.snapshot.branch)
    return head


def _count_sealed_before(head: Head, seq: int | None) -> int:
    """Return the number of sealed fragments, from the oldest on, that have commits before `seq`."""
    count = head.table.sealed_count
    if seq is None or head.snapshot.manifest.commits[0].seq < seq:
        return count
    # By bisection: the commits of a parent after the fork are not read.
    newest = bisect_left(range(count), seq - 1, key=lambda index: _read_newest_seq(head.table, index))
    return min(newest + 1, count)


def read_head(table: CasTable) -> Manifest:
    """Read and decode the newest fragment of one version of a manifest."""
    return decode_head(table.read_head(), table.version, table.sealed_count)


def _blame_version(table: CasTable, error: DamagedError | ManifestCorruptError) -> OmnigraphError:
    """Return the error to raise for an unreadable head; it names an older readable version, if there is one."""
    for number in range(table.version - 1, max(table.version - MAX_TRIED_VERSIONS, 0), -1):
        try:
            read_head(open_cas_table(table.store, table.path, number))
        except OmnigraphError:
            continue
        return NewestVersionDamagedError(table.path, table.version, number, error.reason)
    return error if isinstance(error, DamagedError) else ManifestCorruptError(error.reason, table.list_files()[-1][0])


def decode_sealed(head: Head, index: int) -> tuple[tuple[Commit, ...], tuple[SchemaRecord, ...]]:
    """Read one sealed part of the journal: its commits and its replaced schemas.

    Raises:
        ManifestCorruptError: It does not match the digest in the head.
    """
    rows = head.table.read_sealed(index)
    try:
        return decode_journal(rows, head.snapshot.manifest.sealed[index])
    except ManifestCorruptError as error:
        raise ManifestCorruptError(error.reason, head.table.list_files()[index][0]) from error


def _read_newest_seq(table: CasTable, index: int) -> int:
    """Return the `seq` of the newest commit of a sealed fragment, which is its last row."""
    commits, _ = decode_journal(table.read_sealed(index, last=1))
    return commits[-1].seq


def _prepare_or_lose(base: Head, manifest: Manifest, options: Options, lost: int = 0) -> tuple[PreparedSwap, Manifest]:
    """Write the content of a swap like `_prepare`, leaving out the oldest `lost` sealed parts.

    Raises:
        SwapLostError: A file of the base is missing because a newer version exists and the base was trimmed.
    """
    try:
        # Nothing is sealed in this case, since sealing may have to read the damaged parts.
        if lost:
            manifest = replace(manifest, sealed=manifest.sealed[lost:])
            return base.table.prepare(encode_head(manifest, base.table.version + 1), dropped_sealed=lost), manifest
        return _prepare(base.table, manifest, options)
    except (StoreUnavailableError, DamagedError):
        if base.table.open_latest() is base.table:
            raise
        raise SwapLostError(base.table.path, base.table.version) from None


def _prepare(table: CasTable, manifest: Manifest, options: Options) -> tuple[PreparedSwap, Manifest]:
    """Write the content of a swap; return it with the manifest as its head stores it.

    A full head is sealed, and small sealed fragments are merged.
    """
    version = table.version + 1
    if len(manifest.commits) <= options.head_commits:
        return table.prepare(encode_head(manifest, version)), manifest
    sealed = encode_journal(manifest.commits[:-1], manifest.old_schemas)
    sizes = table.count_sealed_rows()
    first = len(sizes)
    if len(sizes) >= options.sealed_fragments:
        first = _find_first_merged(sizes, sealed.num_rows)
        # Rows are checked before they are rewritten: otherwise damage would get a valid digest.
        earlier = [check_rows(table.read_sealed(index), manifest.sealed[index]) for index in range(first, len(sizes))]
        sealed = pa.concat_tables([*earlier, sealed])
    digests = (*manifest.sealed[:first], digest_rows(sealed.to_pylist()))
    stored = replace(manifest, commits=manifest.commits[-1:], old_schemas=(), sealed=digests)
    return table.prepare(encode_head(stored, version), seal=sealed, keep_sealed=first), stored


def _trim(store: GraphStorage, head: Head, keys: KeyFinder) -> None:
    """Remove old manifest versions and unused key runs, once per `trim_every` versions."""
    # Old versions are only a fence against suspended writers: history is in the journal.
    table = head.table
    if table.version % store.runtime.options.trim_every:
        return
    try:
        created_at = table.read_created_at()
        keys.remove_orphans(head.snapshot.manifest, created_at)
        skew = abs(created_at - store.runtime.clock.now())
        if skew > TRIM_SKEW:
            log.warning("old versions of %s were not trimmed: this machine's clock is off by %s", table.path, skew)
            return
        table.trim(store.runtime.options.manifest_versions, TRIM_AGE + skew)
    except Exception as error:  # noqa: BLE001 - the commit has happened: nothing here may turn it into a failure
        log.warning("old versions of %s were not trimmed: %s", table.path, error)


def _find_first_merged(sizes: Sequence[int], fresh: int) -> int:
    """Return the first sealed fragment to merge with `fresh` new rows, and with all fragments after it.

    A fragment is merged unless it is more than twice as large as everything that would follow it. So the fragments that
    stay are few, and a row is rewritten rarely.
    """
    first = len(sizes)
    rows = fresh
    while first and sizes[first - 1] <= min(2 * rows, MAX_SEALED_ROWS):
        first -= 1
        rows += sizes[first]
    return first


def open_version(store: GraphStorage, path: str, number: int) -> CasTable:
    """Open one version of a manifest, which need not be the newest, without decoding it.

    Raises:
        TableMissingError: There is no such version.
    """
    return open_cas_table(store, path, number)


def find_lost_version(store: GraphStorage, path: str, newest: int) -> int | None:
    """Return the number of a version after `newest` that was published and whose file is missing, or None."""
    hint = read_hint(store, path, newest)
    if hint is None or store.objects.stat(f"{path}/{format_version_name(hint)}") is not None:
        return None
    return hint


def create_log(
    store: GraphStorage,
    manifest: Manifest,
    branch: str = MAIN,
    path: str = MANIFEST,
    *,
    open_log: LogOpener | None = None,
) -> ManifestLog:
    """Create a manifest with its first version, and return its log.

    Raises:
        SwapLostError: Another writer has created it first.
        StoreFullError, StoreDeniedError: A local disk has refused to write it.
        OutcomeUnknownError: The store failed otherwise, and does not answer whether it was written.
    """
    try:
        manifest = replace(manifest, sealed=())
        table = create_cas_table(store, path, encode_head(manifest, 1))
    except (SwapLostError, StoreUnavailableError) as error:
        table = _open_created(store, path, manifest.head, error)
    log_ = ManifestLog(store, branch, path, open_log=open_log)
    log_._cache_head(table, manifest)  # noqa: SLF001 - this function is an alternative constructor
    return log_


def _open_created(
    store: GraphStorage, path: str, commit_id: str, error: SwapLostError | StoreUnavailableError
) -> CasTable:
    """Open the first version of a manifest after an error, if it is ours and only the response was lost."""
    try:
        table = open_cas_table(store, path, 1)
        head = read_head(table).head
    except OmnigraphError:
        if isinstance(error, SwapLostError) or _is_refused(store, path, 1, error):
            raise error from None
        raise OutcomeUnknownError(commit_id, error.reason) from error
    if head != commit_id:
        raise SwapLostError(path, 0) from error
    return table


def find_schema(log: ManifestLog, head: Head, schema_id: str) -> SchemaRecord | None:
    """Find an accepted schema, present or past, of a branch or its ancestors; None if there is none with the id."""
    return next((record for record in log.iter_schemas(head) if record.id == schema_id), None)
