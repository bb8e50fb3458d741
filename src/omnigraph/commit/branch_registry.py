"""Changing what main's manifest says of the whole graph, its branches and tags, by swaps that are no commits."""

from collections.abc import Callable

from omnigraph.commit.branch_lock import get_branch_lock
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.manifest_log import Head, ManifestLog
from omnigraph.commit.manifest_types import Manifest
from omnigraph.storage.cas_table_errors import SwapLostError

MAX_ROUNDS = 100
"""How many swaps of main's manifest may be lost to others."""
MAX_DOUBLINGS = 5


def change_registry(
    main: ManifestLog,
    head: Head,
    change: Callable[[Manifest], Manifest],
    is_done: Callable[[Manifest], bool],
    *,
    may_be_undone: bool = False,
) -> Head:
    """Swap main's manifest in `head` by a change of it, made anew on the newest one when somebody else was first.

    `is_done` tells the change in a later state; one that `may_be_undone` may have been undone in it. A change that changes
    nothing is not made.

    Raises:
        ConflictError: Others were first again and again.
        OutcomeUnknownError: The store stopped answering.
    """
    runtime = main.store.runtime
    for lost in range(1, MAX_ROUNDS + 1):
        manifest = head.snapshot.manifest
        changed = change(manifest)
        if changed == manifest:
            return head
        try:
            with get_branch_lock(main.store.location.uri, main.path):
                return main.publish(head, changed, _build_landed_predicate(main, head, is_done, may_be_undone))
        except SwapLostError:
            runtime.clock.sleep(runtime.ids.jitter(runtime.options.backoff_seconds * 2 ** min(lost, MAX_DOUBLINGS)))
            head = main.head()
    found = main.head().snapshot.manifest_version
    raise ConflictError("register", "to be the next to write", f"version {found}", f"{MAX_ROUNDS} rounds were lost")


def _build_landed_predicate(
    main: ManifestLog, base: Head, is_done: Callable[[Manifest], bool], may_pass: bool
) -> Callable[[Head], bool]:
    """Tells from a state of main whether the change after `base` is part of its past.

    What may have been undone since can't be seen in a later state. But a swap that landed behind the head, because
    its name had been freed, is at least as many versions behind it as are kept.
    """
    kept = main.store.runtime.options.manifest_versions

    def is_made(now: Head) -> bool:
        later = now.table.version - base.table.version - 1
        return is_done(now.snapshot.manifest) or (may_pass and 0 < later < kept)

    return is_made
