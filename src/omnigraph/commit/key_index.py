"""Idempotency keys of sealed commits, found without reading the journal.

The head fragment holds the latest commits, and their keys with them. When commits are sealed, the hashes of their keys
go into a *run*: a small immutable object beside the manifest, `keys/{ulid}`, sorted by hash, which the head names. The
newest run is written anew with what is sealed until it is full; so a look-up reads one object for every RUN_KEYS keys,
once in a process, and a commit without a key costs nothing. A run is written before the swap that names it: a crash
leaves an object that no head names, and the publisher removes those now and then.

The journal stays the truth: a run that is gone or damaged is made up for by reading the commits that it was about.
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
from omnigraph.storage.checksums import format_checksum
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.object_store import ObjectMissingError
from omnigraph.telemetry import log

MAX_RUN_KEYS = 65_536
"""A run of so many keys, which has 1 MiB, is not extended any more."""
MAX_CACHED_RUNS = 32
"""How many runs a process keeps in memory: those of a million keys are 16, and 16 MiB."""
MAX_LEGACY_COMMITS = 1_024
"""How far back keys are looked for in a journal that was sealed by a release without runs."""
MAX_CACHED_FRAGMENTS = 64
MIN_ORPHAN_AGE = timedelta(hours=1)
"""How old a run is at least that no head names, before it is removed: somebody may be about to name it."""
_ENTRY = np.dtype([("hash", "<u8"), ("seq", "<u8")])
KEY_BYTES = _ENTRY.itemsize
"""What a run has for each key."""


class SealedFragments(Protocol):
    """The sealed fragments of one version of a manifest, oldest first."""

    def read_sealed(self, index: int, *, last: int | None = None) -> pa.Table:
        """Read the rows of a fragment, or only its last ones."""
        ...

    def get_sealed_name(self, index: int) -> str:
        """Return the fragment's own name."""
        ...

    def count_sealed_rows(self) -> list[int]:
        """Return the number of rows of each."""
        ...


class KeyFinder:
    """Finds the commit of an idempotency key in one journal. Keeps what it has read: runs never change."""

    def __init__(self, store: GraphStorage, path: str) -> None:
        self._store, self._path = store, path
        self._runs: dict[str, np.ndarray] = {}
        self._parts: dict[str, tuple[int, dict[tuple[str, str], Commit]]] = {}

    def find(self, manifest: Manifest, parts: SealedFragments, actor: str, key: str) -> Commit | None:
        """Return the actor's newest commit with the key.

        Commits that are older than the settings promise may be found or not: ask `is_remembered`.
        """
        for commit in reversed(manifest.commits):
            if (commit.actor, commit.idempotency_key) == (actor, key):
                return commit
        end = manifest.commits[0].seq
        for run in reversed(manifest.key_runs):
            for first, last in self._find_candidates(run, _hash_key(actor, key)):
                found = _search(parts, first, min(last, end - 1), actor, key)
                if found is not None:
                    return found
        return self._find_legacy(manifest, parts, actor, key, end)

    def extend(self, manifest: Manifest, sealed: Sequence[Commit], *, has_earlier: bool) -> KeyIndex:
        """Return the index with the keys of commits that are about to be sealed; writes at most one object.

        `has_earlier` says whether others were sealed before: without an index yet, their keys are not in it.
        """
        old = manifest.keys or KeyIndex(legacy_before=sealed[0].seq if has_earlier else 0)
        runs = list(old.runs)
        keyed = [commit for commit in sealed if commit.idempotency_key is not None]
        if keyed:
            first, entries = keyed[0].seq, _build_entries(keyed)
            known = self._load(runs[-1]) if runs and runs[-1].keys < MAX_RUN_KEYS else None
            if known is not None:
                first, entries = runs.pop().first_seq, np.concatenate([known, entries])
            entries = np.sort(entries, order=("hash", "seq"))
            name = f"keys/{self._store.runtime.ids.ulid()}"
            data = entries.tobytes()
            self._store.objects.put(f"{self._path}/{name}", data)
            self._cache_run(name, entries)
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
        """Remove runs that this state, the newest, does not name, unless they are young by the store's clock."""
        if not manifest.key_runs:
            return
        named = {f"{self._path}/{run.name}" for run in manifest.key_runs}
        for info in self._store.objects.list_under(f"{self._path}/keys"):
            if info.key not in named and now - info.modified > MIN_ORPHAN_AGE:
                self._store.objects.delete(info.key)

    def _select_remembered(self, runs: Sequence[KeyRun], at: str) -> Iterator[KeyRun]:
        """Leave out runs all of whose keys are older, or have more keys after them, than the settings promise.

        The time is that of a commit, and not this machine's: a clock that is ahead must not forget keys for all.
        """
        options, now = self._store.runtime.options, parse_instant(at)
        for number, run in enumerate(runs):
            later = sum(one.keys for one in runs[number + 1 :])
            if later < options.idempotency_keys and not _is_past(run.until, now, options.idempotency_days):
                yield run

    def _find_candidates(self, run: KeyRun, wanted: int) -> list[tuple[int, int]]:
        """Return the ranges of commits, newest first, that may have the key of this hash: most often none."""
        entries = self._load(run)
        if entries is None:
            return [(run.first_seq, run.last_seq)]
        hashes = entries["hash"]
        low, high = (int(np.searchsorted(hashes, np.uint64(wanted), side)) for side in ("left", "right"))
        return [(int(seq), int(seq)) for seq in entries["seq"][low:high][::-1]]

    def _load(self, run: KeyRun) -> np.ndarray | None:
        """Read the entries of a run; None when it is gone or damaged."""
        known = self._runs.get(run.name)
        if known is not None:
            return known
        try:
            data = self._store.objects.get(f"{self._path}/{run.name}").data
        except ObjectMissingError:
            data = b""
        if find_run_fault(run, data) is not None:
            log.warning("the keys %s/%s are not as they were written; the journal is read", self._path, run.name)
            return None
        entries = np.frombuffer(data, _ENTRY)
        self._cache_run(run.name, entries)
        return entries

    def _cache_run(self, name: str, entries: np.ndarray) -> None:
        self._runs[name] = entries
        while len(self._runs) > MAX_CACHED_RUNS:
            self._runs.pop(next(iter(self._runs)), None)

    def _find_legacy(self, manifest: Manifest, parts: SealedFragments, actor: str, key: str, end: int) -> Commit | None:
        """Look through commits that were sealed without an index, as far back as was promised then."""
        legacy_before = end if manifest.keys is None else min(manifest.keys.legacy_before, end)
        left = MAX_LEGACY_COMMITS - (manifest.head_commit.seq + 1 - legacy_before)
        sizes = parts.count_sealed_rows() if legacy_before and left > 0 else []
        for index in reversed(range(len(sizes))):
            if left <= 0:
                break
            found = self._read_legacy(parts, index, min(left, sizes[index])).get((actor, key))
            if found is not None and found.seq < legacy_before:
                return found
            left -= sizes[index]
        return None

    def _read_legacy(self, parts: SealedFragments, index: int, rows: int) -> dict[tuple[str, str], Commit]:
        """Return the commits with a key among the last `rows` of a sealed fragment; kept, since it never changes."""
        name = parts.get_sealed_name(index)
        known = self._parts.get(name)
        if known is None or known[0] < rows:
            commits, _ = decode_journal(parts.read_sealed(index, last=rows))
            known = (rows, {(c.actor, c.idempotency_key): c for c in commits if c.idempotency_key is not None})
            self._parts[name] = known
            while len(self._parts) > MAX_CACHED_FRAGMENTS:
                self._parts.pop(next(iter(self._parts)), None)
        return known[1]


def find_run_fault(run: KeyRun, data: bytes) -> str | None:
    """Return what is wrong with the object of a run; None when it is as it was written."""
    expected = run.keys * _ENTRY.itemsize
    if len(data) != expected:
        return f"it has {len(data):,} bytes, and should have {expected:,}"
    return "it does not match its checksum" if run.sum not in (None, format_checksum(data)) else None


def is_remembered(store: GraphStorage, commit: Commit) -> bool:
    """Return whether a commit is young enough for its idempotency key to count still."""
    return not _is_past(commit.at, store.runtime.clock.now(), store.runtime.options.idempotency_days)


def _is_past(at: str, now: datetime, days: float) -> bool:
    return now - parse_instant(at) > timedelta(days=days)


def _hash_key(actor: str, key: str) -> int:
    """Hash an actor's key to 64 bits. A hit is compared with the commit itself, so that a collision does no harm."""
    joined = msgspec.json.encode([actor, key])
    return int.from_bytes(blake2b(joined, digest_size=8).digest(), "little")


def _build_entries(commits: Iterable[Commit]) -> np.ndarray:
    return np.array([(_hash_key(one.actor, one.idempotency_key or ""), one.seq) for one in commits], _ENTRY)


def _search(parts: SealedFragments, first: int, last: int, actor: str, key: str) -> Commit | None:
    """Return the newest commit of an actor's key among sealed ones with these numbers."""
    if first > last:
        return None
    count = len(parts.count_sealed_rows())
    index = bisect_left(range(count), first, key=lambda at: _read_newest_seq(parts, at))
    found: Commit | None = None
    while index < count:
        rows = parts.read_sealed(index)
        text = msgspec.json.encode(key).decode()
        metadata = rows["metadata"].filter(pc.equal(rows["object_type"], "graph_commit"))
        matching = metadata.filter(pc.match_substring(metadata, f'"idempotency_key":{text}'))
        for commit in map(decode_commit, matching.to_pylist()):
            is_it = (commit.actor, commit.idempotency_key) == (actor, key) and first <= commit.seq <= last
            if is_it and (found is None or commit.seq > found.seq):
                found = commit
        if _read_newest_seq(parts, index) >= last:
            break
        index += 1
    return found


def _read_newest_seq(parts: SealedFragments, index: int) -> int:
    """Return the number of a sealed fragment's last commit, which is its last row."""
    commits, _ = decode_journal(parts.read_sealed(index, last=1))
    return commits[-1].seq
