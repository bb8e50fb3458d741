"""The timestamp of a commit: the writer's clock, unless that is obviously wrong."""

from datetime import timedelta

from omnigraph.clock import format_instant, parse_instant
from omnigraph.commit.manifest_types import Commit
from omnigraph.commit.sidecar import read_store_clock
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.telemetry import log

# Clocks of two machines differ by this much now and then, so the store is not asked for its time.
MAX_CLOCK_SKEW = timedelta(seconds=10)


def compute_commit_time(store: GraphStorage, parent: Commit) -> str:
    """Return the time of a commit that follows `parent`, never earlier than the parent's.

    Time travel and cleanup rely on times that never decrease along a branch.
    """
    now = store.runtime.clock.now()
    parent_time = parse_instant(parent.at)
    if now >= parent_time:
        return format_instant(now)
    if parent_time - now <= MAX_CLOCK_SKEW or store.future_time == parent.at:
        return parent.at
    # Far apart: the store decides which clock is wrong. If this one is slow, the store's time is right.
    store_now = read_store_clock(store)
    clocks = (format_instant(now), parent.at, format_instant(store_now))
    log.warning("clocks differ: this machine says %s, the parent commit %s, and the store %s", *clocks)
    if store_now >= parent_time:
        return format_instant(store_now)
    # The parent's writer had a fast clock. Its time is used until it has passed, without asking the store again.
    store.future_time = parent.at
    return parent.at
