"""Take a consistent cut of a graph, and copy all files that it needs before others collect them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory

from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.consistent_cut import ConsistentCut, take_cut
from omnigraph.commit.key_index import find_run_fault
from omnigraph.commit.manifest_log import Head, ManifestLog
from omnigraph.commit.manifest_types import KeyRun, Manifest
from omnigraph.commit.sidecar import CLONE
from omnigraph.faults import NoFaults
from omnigraph.locations import Location
from omnigraph.ops.clone_tables import CopyPlan, expect_recorded, plan_tables
from omnigraph.ops.session import Session
from omnigraph.options import Durability
from omnigraph.runtime import Runtime
from omnigraph.storage.file_copy import Copier
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import MANIFEST, format_version_name
from omnigraph.storage.object_store import ObjectMissingError
from omnigraph.storage.table_cache import PinUnreadableError, TableCache
from omnigraph.telemetry import Telemetry, log

# A cut is taken again, up to this number of times, if files of it were collected before they were copied.
MAX_ATTEMPTS = 10

CopyTables = Callable[[Mapping[str, int], dict[str, str]], tuple[int, int]]
"""Copies table files by key and size, adds damaged ones with the reasons to a dictionary, and returns the number of
files and bytes copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedCut:
    """A cut whose tables are copied; its manifests are in the spool."""

    cut: ConsistentCut
    spool: GraphStorage
    heads: Mapping[str, Head]
    """By path, the head of each manifest in the spool. That of main has the register of the copy, and that of a
    deleted branch has a horizon that leaves out what is not copied."""
    plan: CopyPlan
    files: int
    nbytes: int


class CutReader:
    """Reads one graph for a copy of it. The graph is not written to."""

    def __init__(self, session: Session, branches: Sequence[str] | None) -> None:
        self._session = session
        self._branches = branches
        self._workers = session.runtime.options.upkeep.concurrency
        # A separate storage, so that every file is verified, also one that this process has read or written before.
        self.source = GraphStorage(session.store.location, session.runtime)
        self._handles = TableCache(self.source)
        self._handles.explain = session.handles.explain
        # By file of the source that does not match its checksum, the reason.
        self._damaged: dict[str, str] = {}
        self.has_retried = False
        """Whether files were copied that the cut which was returned does not need."""

    def read(self, stack: ExitStack, copy_tables: CopyTables) -> CopiedCut:
        """Take a cut and copy all files of its tables; take a newer cut if some were collected in the meantime.

        A cleanup publishes its horizon on every branch before it removes anything. So if files of earlier versions are
        missing and a newer cut shows no later cleanup, they are damaged, and those versions are left out.

        Raises:
            PinUnreadableError: Files of a current version are missing or do not match their checksums.
            ConflictError: Cleanups collect files faster than they can be copied.
        """
        epoch = -1
        for attempt in range(1, MAX_ATTEMPTS + 1):
            spool = open_spool(stack, self._session.runtime)
            try:
                cut = take_cut(self._session.branches, self._branches)
                heads = self._spool_manifests(cut, spool)
                expect_recorded(self.source, cut)
                plan = plan_tables(self._handles, cut, self._workers, self._damaged)
                # A cleanup may have collected them: take another cut, which then shows its epoch.
                if plan.missing and cut.epoch != epoch:
                    epoch = cut.epoch
                    continue
                damaged_before = len(self._damaged)
                files, nbytes = copy_tables(plan.sizes, self._damaged)
                # Plan again without the versions that need the damaged files.
                if len(self._damaged) > damaged_before:
                    self.has_retried = True
                    continue
            except (ObjectMissingError, PinUnreadableError) as error:
                if attempt == MAX_ATTEMPTS or self._damaged:
                    raise
                self.has_retried = True
                log.info("a newer cut of %s is taken: %s", self._session.uri, error)
                continue
            return CopiedCut(cut=cut, spool=spool, heads=heads, plan=plan, files=files, nbytes=nbytes)
        reason = f"files were collected before they were copied, {MAX_ATTEMPTS} times: repeat it, or clean up later"
        raise ConflictError("tables", "to stay while they are copied", f"cleanup {epoch}", reason)

    def _spool_manifests(self, cut: ConsistentCut, spool: GraphStorage) -> dict[str, Head]:
        """Copy the manifests of a cut to the spool, adapt them to the copy, and return their heads by path."""
        copier = Copier(self.source, spool, CLONE)
        for head in cut.heads.values():
            for key, size in list_manifest_files(self._session.store, head):
                copier.copy(key, size, lambda _: None)
        heads = dict(cut.heads)
        for path, head in cut.heads.items():
            manifest = _build_copied_manifest(head.snapshot.manifest, path, cut)
            if manifest != head.snapshot.manifest:
                spooled = ManifestLog(spool, head.snapshot.branch, path)
                heads[path] = spooled.publish(spooled.final_head(), manifest)
        return heads


def open_spool(stack: ExitStack, runtime: Runtime) -> GraphStorage:
    """Open a temporary directory for the manifests of a cut, since the source may trim them in the meantime."""
    directory = stack.enter_context(TemporaryDirectory(prefix="omnigraph-clone-"))
    # The spool is temporary: it needs no flushes, and its requests must reach no fault point or counter.
    options = replace(runtime.options, durability=Durability.OS)
    return GraphStorage(
        Location(directory), replace(runtime, options=options, faults=NoFaults(), telemetry=Telemetry())
    )


def list_manifest_files(store: GraphStorage, head: Head) -> list[tuple[str, int]]:
    """Return the files of a manifest version with their sizes; the version file is last.

    Damaged objects with idempotency keys are left out, since the journal is read instead.
    """
    path = head.table.path
    runs = [key for run in head.snapshot.manifest.key_runs if _is_whole(store, run, key := f"{path}/{run.name}")]
    keys = [
        *runs,
        *(key for key, _ in head.table.list_files()),
        f"{head.table.path}/{format_version_name(head.table.version)}",
    ]
    sizes = []
    for key in keys:
        info = store.objects.stat(key)
        if info is None:
            raise ObjectMissingError(key)
        sizes.append((key, info.size))
    return sizes


def _is_whole(store: GraphStorage, run: KeyRun, key: str) -> bool:
    try:
        return find_run_fault(run, store.objects.get(key).data) is None
    except ObjectMissingError:
        return False


def _build_copied_manifest(manifest: Manifest, path: str, cut: ConsistentCut) -> Manifest:
    """Return a manifest as the copy has it: with the copied branches and tags, or with the horizon of the cut."""
    if path == MANIFEST:
        return replace(manifest, branches=dict(cut.branches), tags=dict(cut.tags))
    return replace(manifest, gc_horizon=cut.horizons.get(path, manifest.gc_horizon))
