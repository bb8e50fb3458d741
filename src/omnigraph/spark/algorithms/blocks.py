"""Keep what a run of an algorithm has computed in the graph's storage, where every task and a later run can read it.

The objects are scratch of an operation without a sidecar: those of a run that no call resumes are swept after a day.
"""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import pyarrow as pa

from omnigraph.commit.checksummed_json import decode_with_checksum, encode_with_checksum
from omnigraph.commit.sidecar import FencedError, read_store_clock
from omnigraph.commit.task_journal import SAVED_PREFIX, clear
from omnigraph.concurrency import Thread, create_event, create_thread
from omnigraph.ids import draw_bytes, format_ulid
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import RECOVERY, build_job_key
from omnigraph.storage.object_store import (
    ObjectChangedError,
    ObjectExistsError,
    ObjectMissingError,
    ObjectStore,
    StoreUnavailableError,
)
from omnigraph.telemetry import log

S = TypeVar("S", bound=msgspec.Struct)
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
_LEASE, _RECORD_SUFFIX = "lease", ".json"
_RUN_BITS = 128


def build_run_id(*parts: str) -> str:
    """Return the id of the run that computes the same: a later one with this id can go on with its blocks."""
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=_RUN_BITS // 8).digest()
    return format_ulid(int.from_bytes(digest))


@dataclass(frozen=True, slots=True)
class BlockStore:
    """The blocks and records of one run."""

    location: GraphLocation
    run_id: str

    def put_block(self, name: str, block: pa.Table) -> str:
        """Store a block under a name of its own, because a task may run twice; return its key."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, block.schema, options=_COMPRESSED) as writer:
            writer.write_table(block)
        # The attempt that loses leaves its object; the end of the run, or a sweep, removes it.
        key = self._build_key(f"{name}-{draw_bytes(6).hex()}")
        self._objects.put(key, sink.getvalue().to_pybytes())
        return key

    def read_block(self, key: str) -> pa.Table:
        """Return a block."""
        with pa.ipc.open_stream(self._objects.get(key).data) as reader:
            return reader.read_all().combine_chunks()

    def put_record(self, name: str, record: msgspec.Struct) -> None:
        """Store a record, which replaces an earlier one of its name."""
        self._objects.put(self._build_key(f"{name}{_RECORD_SUFFIX}"), encode_with_checksum(record))

    def read_record(self, name: str, kind: type[S]) -> S | None:
        """Return a record; None if there is none that this release can read."""
        try:
            return decode_with_checksum(self._objects.get(self._build_key(f"{name}{_RECORD_SUFFIX}")).data, kind)
        except (ObjectMissingError, ValueError):
            return None

    def has_blocks(self, keys: Collection[str]) -> bool:
        """Return whether all blocks are there."""
        start = self._build_key("")
        return set(keys) <= {info.key for info in self._objects.list_under(RECOVERY) if info.key.startswith(start)}

    def delete_blocks(self, keys: Collection[str]) -> None:
        """Delete blocks that are not needed any more."""
        for key in keys:
            self._objects.delete(key)

    def clear(self) -> None:
        """Delete everything of the run, also what tasks have left that were run again."""
        clear(self.location.open_store(), self.run_id)

    def _build_key(self, name: str) -> str:
        return build_job_key(self.run_id, f"{SAVED_PREFIX}{name}")

    @property
    def _objects(self) -> ObjectStore:
        return self.location.open_store().objects


class RunLease:
    """The right to go on with a run, renewed by a thread: two processes must not advance the same run."""

    def __init__(self, store: GraphStorage, run_id: str) -> None:
        self._store = store
        self._run_id = run_id
        self._key = build_job_key(run_id, f"{SAVED_PREFIX}{_LEASE}")
        self._holder = draw_bytes(16)
        self._beat = 0
        self._etag = ""
        self._is_lost = False
        self._stop = create_event()
        self._thread: Thread | None = None

    def take(self) -> bool:
        """Take the lease, from a process that has died too; False if another one renews it."""
        objects = self._store.objects
        try:
            self._etag = objects.put_if_absent(self._key, self._next_content())
        except ObjectExistsError:
            if not self._take_over():
                return False
        self._thread = create_thread(self._renew, f"lease-{self._run_id}", daemon=True)
        self._thread.start()
        return True

    def check(self) -> None:
        """Check that the lease was not lost.

        Raises:
            FencedError: Another process has taken it over.
        """
        if self._is_lost:
            raise FencedError(self._run_id)

    def release(self) -> bool:
        """End the lease, and return whether it was still this one; the blocks of the run stay."""
        self._stop.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()
        try:
            # Never that of a process which has taken it over.
            self._store.objects.delete_if_match(self._key, self._etag)
        except (ObjectChangedError, ObjectMissingError):
            return False
        return True

    def _take_over(self) -> bool:
        """Wait until the holder has renewed its lease, or not for so long that it is dead."""
        options = self._store.runtime.options
        seen = None
        while True:
            try:
                stored = self._store.objects.get(self._key)
                # It was renewed while this process waited.
                if seen not in (None, stored.etag):
                    return False
                seen = stored.etag
                # By the clock of the store alone: that of another machine may differ.
                age = (read_store_clock(self._store) - stored.info.modified).total_seconds()
                if age > options.lease_seconds:
                    self._etag = self._store.objects.put_if_match(self._key, self._next_content(), stored.etag)
                    return True
            except ObjectChangedError:
                return False
            except ObjectMissingError:
                return self._take_free()
            self._stop.wait(min(options.heartbeat_seconds, options.lease_seconds - age + 1))

    def _take_free(self) -> bool:
        try:
            self._etag = self._store.objects.put_if_absent(self._key, self._next_content())
        except ObjectExistsError:
            return False
        return True

    def _renew(self) -> None:
        while not self._stop.wait(self._store.runtime.options.heartbeat_seconds):
            try:
                self._etag = self._store.objects.put_if_match(self._key, self._next_content(), self._etag)
            except ObjectChangedError:
                if not self._is_own():
                    self._is_lost = True
                    return
            # The next heartbeat tries again; a lease outlives several that fail.
            except StoreUnavailableError as error:
                log.warning("the lease %s was not renewed: %s", self._key, error)

    def _next_content(self) -> bytes:
        # A local store tells versions of an object by their content, so no two may be equal.
        self._beat += 1
        return self._holder + self._beat.to_bytes(8)

    def _is_own(self) -> bool:
        """Return whether the stored lease is this one: a renewal may arrive although its response was lost."""
        try:
            stored = self._store.objects.get(self._key)
        except ObjectMissingError:
            return False
        if not stored.data.startswith(self._holder):
            return False
        self._etag = stored.etag
        return True
