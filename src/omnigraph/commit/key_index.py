"""A hash index of the idempotency keys of sealed commits, so that a lookup need not read the journal.

The head fragment holds the latest commits, and their keys with them. When commits are sealed, the hashes of their keys
go into a *run*: a small immutable object next to the manifest, `keys/{ulid}`, sorted by hash, which the head names. The
newest run is rewritten with each seal until it is full. So a lookup reads one object for every `MAX_RUN_KEYS` keys,
once per process, and a commit without a key costs nothing. A run is written before the swap that names it: a crash
leaves an object that no head names, and the publisher removes such objects from time to time.

The journal stays the source of truth: if a run is missing or damaged, its commits are read instead.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.clock import parse_instant
from omnigraph.commit.manifest_codec import decode_commit, decode_journal
from omnigraph.commit.manifest_types import Commit, KeyIndex, KeyRun, Manifest
from omnigraph.lru_cache import LruCache
from omnigraph.storage.checksums import format_checksum
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.object_store import ObjectMissingError
from omnigraph.telemetry import log

# A full run has 1 MiB; it is not rewritten any more.
MAX_RUN_KEYS = 65_536
# The runs of a million keys are 16, which take 16 MiB.
MAX_CACHED_RUNS = 32
# Commits that were sealed by a release without runs are searched this far back, as that release promised.
MAX_LEGACY_COMMITS = 1_024
MAX_CACHED_FRAGMENTS = 64
# A younger run that no head names may belong to a writer that is about to publish it.
MIN_ORPHAN_AGE = timedelta(hours=1)
_ENTRY = np.dtype([("hash", "<u8"), ("seq", "<u8")])
# The size of a key in a run.
KEY_BYTES = _ENTRY.itemsize


class SealedFragments(Protocol):
    """The sealed fragments of one version of a manifest, oldest first."""

    def read_sealed(self, index: int, *, last: int | None = None) -> pa.Table:
        """Read the rows of a fragment, or only its last ones."""
        ...

    def get_sealed_name(self, index: int) -> str:
        """Return the name of a fragment, which stays the same as long as it exists."""
        ...

    def count_sealed_rows(self) -> list[int]:
        """Return the number of rows of each fragment."""
        ...


class KeyFinder:
    """Find the commit of an idempotency key in one journal. Caches runs and fragments, which never change."""

    def __init__(self, store: GraphStorage, path: str) -> None:
        self._store = store
        self._path = path
        self._runs: LruCache[str, np.ndarray] = LruCache(MAX_CACHED_RUNS)
        # By the name of a sealed fragment, the number of its last rows that were read, and their commits by key.
        self._parts: LruCache[str, tuple[int, dict[tuple[str, str], Commit]]] = LruCache(MAX_CACHED_FRAGMENTS)

    def find(self, manifest: Manifest, parts: SealedFragments, actor: str, key: str) -> Commit | None:
        """Return the actor's newest commit with the key, or None.

        The result may be a commit whose key has expired: check it with `is_remembered`.
        """
        for commit in reversed(manifest.commits):
            if (commit.actor, commit.idempotency_key) == (actor, key):
                return commit
        end = manifest.commits[0].seq
        for run in reversed(manifest.key_runs):
            for first, last in self._find_candidates(run, _hash_key(actor, key)):
                candidate = _search(parts, first, min(last, end - 1), actor, key)
                if candidate is not None:
                    return candidate
        return self._find_legacy(manifest, parts, actor, key, end)

    def extend(self, manifest: Manifest, sealed: Sequence[Commit], *, has_earlier: bool) -> KeyIndex:
        """Write the keys of commits that are about to be sealed, in at most one object, and return the new index.

        `has_earlier` states whether other commits were sealed before: if there is no index yet, it lacks their keys.
        """
        old = manifest.keys or KeyIndex(legacy_before=sealed[0].seq if has_earlier else 0)
        runs = list(old.runs)
        keyed = [commit for commit in sealed if commit.idempotency_key is not None]
        if keyed:
            first = keyed[0].seq
            entries = _build_entries(keyed)
            # The newest run is extended until it is full. A damaged one stays: its commits are read instead.
            open_run = self._load(runs[-1]) if runs and runs[-1].keys < MAX_RUN_KEYS else None
            if open_run is not None:
                first, entries = runs.pop().first_seq, np.concatenate([open_run, entries])
            entries = np.sort(entries, order=("hash", "seq"))
            name = f"keys/{self._store.runtime.ids.ulid()}"
            data = entries.tobytes()
            self._store.objects.put(f"{self._path}/{name}", data)
            self._runs.put(name, entries)
            newest = keyed[-1]
            runs.append(
                KeyRun(
                    name=name,
                    keys=len(entries),
                    first_seq=first,
                    last_seq=newest.seq,
                    until=newest.at,
                    sum=format_checksum(data),
                )
            )
        return msgspec.structs.replace(old, runs=tuple(self._select_remembered(runs, sealed[-1].at)))

    def remove_orphans(self, manifest: Manifest, now: datetime) -> None:
        """Remove runs that the newest state does not name, unless they are young; `now` is the store's time."""
        if not manifest.key_runs:
            return
        named = {f"{self._path}/{run.name}" for run in manifest.key_runs}
        for info in self._store.objects.list_under(f"{self._path}/keys"):
            if info.key not in named and now - info.modified > MIN_ORPHAN_AGE:
                self._store.objects.delete(info.key)

    def _select_remembered(self, runs: Sequence[KeyRun], at: str) -> Iterator[KeyRun]:
        """Yield the runs that have a key which the settings still promise to remember, by its age and by later keys."""
        options = self._store.runtime.options
        # The time of a commit, not of this machine: a fast clock must not expire keys for all clients.
        now = parse_instant(at)
        for number, run in enumerate(runs):
            later_keys = sum(later.keys for later in runs[number + 1 :])
            if later_keys < options.idempotency_keys and not _is_past(run.until, now, options.idempotency_days):
                yield run

    def _find_candidates(self, run: KeyRun, key_hash: int) -> list[tuple[int, int]]:
        """Return the ranges of commits, newest first, that may have a key with this hash; usually none."""
        entries = self._load(run)
        # Without a readable run, every commit that it covered may have the key.
        if entries is None:
            return [(run.first_seq, run.last_seq)]
        hashes = entries["hash"]
        low, high = (int(np.searchsorted(hashes, np.uint64(key_hash), side)) for side in ("left", "right"))
        return [(int(seq), int(seq)) for seq in entries["seq"][low:high][::-1]]

    def _load(self, run: KeyRun) -> np.ndarray | None:
        """Return the entries of a run, from the cache if possible; None if it is missing or damaged."""
        cached = self._runs.get(run.name)
        if cached is not None:
            return cached
        try:
            data = self._store.objects.get(f"{self._path}/{run.name}").data
        except ObjectMissingError:
            data = b""
        if find_run_fault(run, data) is not None:
            log.warning("the key index %s/%s is missing or damaged; reading the journal", self._path, run.name)
            return None
        entries = np.frombuffer(data, _ENTRY)
        self._runs.put(run.name, entries)
        return entries

    def _find_legacy(self, manifest: Manifest, parts: SealedFragments, actor: str, key: str, end: int) -> Commit | None:
        """Search commits that were sealed without an index, at most `MAX_LEGACY_COMMITS` back from the head."""
        legacy_before = end if manifest.keys is None else min(manifest.keys.legacy_before, end)
        left = MAX_LEGACY_COMMITS - (manifest.head_commit.seq + 1 - legacy_before)
        sizes = parts.count_sealed_rows() if legacy_before and left > 0 else []
        for index in reversed(range(len(sizes))):
            if left <= 0:
                break
            commit = self._read_legacy(parts, index, min(left, sizes[index])).get((actor, key))
            if commit is not None and commit.seq < legacy_before:
                return commit
            left -= sizes[index]
        return None

    def _read_legacy(self, parts: SealedFragments, index: int, rows: int) -> dict[tuple[str, str], Commit]:
        """Return the commits with a key among the last `rows` of a sealed fragment, by actor and key. Cached."""
        name = parts.get_sealed_name(index)
        cached = self._parts.get(name)
        if cached is None or cached[0] < rows:
            commits, _ = decode_journal(parts.read_sealed(index, last=rows))
            cached = (rows, {(c.actor, c.idempotency_key): c for c in commits if c.idempotency_key is not None})
            self._parts.put(name, cached)
        return cached[1]


def find_run_fault(run: KeyRun, data: bytes) -> str | None:
    """Return what is wrong with the object of a run; None if it is intact."""
    expected = run.keys * _ENTRY.itemsize
    if len(data) != expected:
        return f"it has {len(data):,} bytes, and should have {expected:,}"
    return "it does not match its checksum" if run.sum not in (None, format_checksum(data)) else None


def is_remembered(store: GraphStorage, commit: Commit) -> bool:
    """Return whether a commit is young enough for its idempotency key to be valid."""
    return not _is_past(commit.at, store.runtime.clock.now(), store.runtime.options.idempotency_days)


def _is_past(at: str, now: datetime, days: float) -> bool:
    return now - parse_instant(at) > timedelta(days=days)


def _hash_key(actor: str, key: str) -> int:
    """Hash an actor's key to 64 bits. A hit is compared with the commit itself, so a collision does no harm."""
    joined = msgspec.json.encode([actor, key])
    return int.from_bytes(blake2b(joined, digest_size=8).digest(), "little")


def _build_entries(commits: Iterable[Commit]) -> np.ndarray:
    entries = [(_hash_key(commit.actor, commit.idempotency_key or ""), commit.seq) for commit in commits]
    return np.array(entries, _ENTRY)


def _search(parts: SealedFragments, first: int, last: int, actor: str, key: str) -> Commit | None:
    """Return the newest commit with an actor's key among the sealed commits from number `first` to `last`."""
    if first > last:
        return None
    count = len(parts.count_sealed_rows())
    index = bisect_left(range(count), first, key=lambda part: _read_newest_seq(parts, part))
    newest: Commit | None = None
    while index < count:
        rows = parts.read_sealed(index)
        # Only rows whose JSON has the key are decoded; the exact comparison follows.
        text = msgspec.json.encode(key).decode()
        metadata = rows["metadata"].filter(pc.equal(rows["object_type"], "graph_commit"))
        matching = metadata.filter(pc.match_substring(metadata, f'"idempotency_key":{text}'))
        for commit in map(decode_commit, matching.to_pylist()):
            is_match = (commit.actor, commit.idempotency_key) == (actor, key) and first <= commit.seq <= last
            if is_match and (newest is None or commit.seq > newest.seq):
                newest = commit
        if _read_newest_seq(parts, index) >= last:
            break
        index += 1
    return newest


def _read_newest_seq(parts: SealedFragments, index: int) -> int:
    """Return the number of the newest commit of a sealed fragment, which is its last row."""
    commits, _ = decode_journal(parts.read_sealed(index, last=1))
    return commits[-1].seq
