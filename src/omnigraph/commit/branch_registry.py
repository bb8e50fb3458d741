"""Change the registry of branches and tags in main's manifest, by swaps that add no commit."""

from collections.abc import Callable

from omnigraph.backoff import wait_for_retry
from omnigraph.commit.branch_lock import get_branch_lock
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.manifest_log import Head, ManifestLog
from omnigraph.commit.manifest_types import Manifest
from omnigraph.storage.cas_table_errors import SwapLostError

# Number of swaps of main's manifest that may be lost to other writers.
MAX_ROUNDS = 100


def change_registry(
    main: ManifestLog,
    head: Head,
    change: Callable[[Manifest], Manifest],
    is_done: Callable[[Manifest], bool],
    *,
    may_be_undone: bool = False,
) -> Head:
    """Publish a change of main's manifest on `head`, and recompute it on the newest state if another writer was first.

    `is_done` recognises the change in a later state; with `may_be_undone`, a later state may have reverted it. A change
    that returns an equal manifest publishes nothing.

    Raises:
        ConflictError: Other writers won every swap.
        OutcomeUnknownError: The store stopped responding.
    """
    for lost in range(1, MAX_ROUNDS + 1):
        manifest = head.snapshot.manifest
        changed = change(manifest)
        if changed == manifest:
            return head
        try:
            with get_branch_lock(main.store.location.uri, main.path):
                return main.publish(head, changed, _build_landed_predicate(main, head, is_done, may_be_undone))
        except SwapLostError:
            wait_for_retry(main.store.runtime, lost)
            head = main.head()
    version = main.head().snapshot.manifest_version
    reason = f"other writers were first {MAX_ROUNDS} times"
    raise ConflictError("register", "to publish the next version", f"version {version}", reason)


def _build_landed_predicate(
    main: ManifestLog, base: Head, is_done: Callable[[Manifest], bool], may_be_undone: bool
) -> Callable[[Head], bool]:
    """Return a function that says of a state of main whether the change published on `base` is part of its history."""
    retained_versions = main.store.runtime.options.manifest_versions

    def has_landed(head: Head) -> bool:
        # A change that was reverted since is not visible in a later state. A swap that was not really published landed
        # on a version number that a trim had freed, and a trim keeps this many versions: it is at least as far from
        # the newest version. So with fewer versions after it, the swap counts.
        later_versions = head.table.version - base.table.version - 1
        return is_done(head.snapshot.manifest) or (may_be_undone and 0 < later_versions < retained_versions)

    return has_landed
