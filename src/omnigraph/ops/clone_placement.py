"""Write the manifests of a copied graph, the last file of which makes the location a graph."""

from collections.abc import Mapping, Sequence

from omnigraph.commit.clone_lock import CloneLock
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.place_errors import PlaceTakenError
from omnigraph.ops.clone_cut import list_manifest_files
from omnigraph.ops.clone_tables import remove_unneeded
from omnigraph.storage.file_copy import Copier
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import BRANCHES, MANIFEST, SCHEMA_COPY
from omnigraph.storage.object_store import ObjectExistsError

CONCURRENT_GRAPH = "a graph that was created at the same time"


class ManifestPlacement:
    """The end of a copy to a location that is claimed: removes what is not needed, and writes the manifests."""

    def __init__(self, target: GraphStorage, lock: CloneLock) -> None:
        self._target = target
        self._lock = lock
        self.has_remains = lock.is_taken_over
        """Whether the target may have files that are not needed."""

    def remove_unneeded(self, roots: Sequence[str], needed: Mapping[str, int]) -> None:
        """Remove files that are not needed: copied by a process that died, or for an earlier cut.

        Raises:
            FencedError: The lease was lost.
            PlaceTakenError: The location has become a graph.
        """
        self._check_claimed()
        if self.has_remains:
            remove_unneeded(self._target, roots, needed)

    def place(self, spool: GraphStorage, heads: Mapping[str, Head]) -> None:
        """Write the manifests of a spool; the version file of main is last, and makes the location a graph.

        Raises:
            FencedError, PlaceTakenError: As `remove_unneeded`.
        """
        target = self._target
        faults = target.runtime.faults
        self.remove_unneeded((BRANCHES, f"{MANIFEST}/data", f"{MANIFEST}/keys"), {})
        copier = Copier(spool, target, self._lock.lease.operation_id)
        main = heads[MANIFEST]
        for path, head in sorted(heads.items()):
            if path != MANIFEST:
                self._put(copier, list_manifest_files(spool, head))
                faults.reach("clone.branch")
        *data, (last, _) = list_manifest_files(spool, main)
        self._put(copier, data)
        target.objects.put(SCHEMA_COPY, main.snapshot.manifest.schema.source.encode())
        faults.reach("clone.ready")
        self._check_claimed()
        # Put-if-absent decides a race with an init at the same location.
        try:
            target.objects.put_if_absent(last, spool.objects.get(last).data)
        except ObjectExistsError:
            raise PlaceTakenError(target.location.uri, CONCURRENT_GRAPH) from None
        target.flush_directories([last])
        faults.reach("clone.placed")

    def _check_claimed(self) -> None:
        """Check that the target is still claimed by this process, and not a graph.

        Raises:
            FencedError: The lease was lost.
            PlaceTakenError: There is a graph.
        """
        self._lock.lease.confirm(())
        check_no_graph(self._target)

    def _put(self, copier: Copier, files: Sequence[tuple[str, int]]) -> None:
        for key, size in files:
            copier.copy(key, size, lambda _: None)
        self._target.flush_directories([key for key, _ in files])


def check_no_graph(target: GraphStorage) -> None:
    """Check that a location holds no graph.

    Raises:
        PlaceTakenError: It does.
    """
    if target.objects.list_under(f"{MANIFEST}/_versions"):
        raise PlaceTakenError(target.location.uri, CONCURRENT_GRAPH)
