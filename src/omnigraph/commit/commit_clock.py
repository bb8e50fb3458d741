"""The time that a commit bears: the writer's, unless that can't be right."""

from datetime import timedelta

from omnigraph.clock import format_instant, parse_instant
from omnigraph.commit.manifest_types import Commit
from omnigraph.commit.sidecar import read_store_clock
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.telemetry import log

MAX_CLOCK_SKEW = timedelta(seconds=10)
"""Clocks of two machines differ by so much now and then, and nobody needs to be asked."""


def compute_commit_time(store: GraphStorage, parent: Commit) -> str:
    """Return when a commit that follows another one is made: never before that one.

    Time goes forward along a branch: reads of a past time and cleanups rely on it. So a writer whose clock is behind
    its parent's commit by little takes that one's time, and one whose clock is far behind asks the store: either its
    own clock is slow, and the store's time is right, or the parent's writer had a fast one, and its time is kept until
    it is past.
    """
    now, before = store.runtime.clock.now(), parse_instant(parent.at)
    if now >= before:
        return format_instant(now)
    if before - now <= MAX_CLOCK_SKEW or store.future_time == parent.at:
        return parent.at
    theirs = read_store_clock(store)
    clocks = (format_instant(now), parent.at, format_instant(theirs))
    log.warning("clocks differ: it is %s here, the commit before is of %s, and the store says %s", *clocks)
    if theirs >= before:
        return format_instant(theirs)
    store.future_time = parent.at
    return parent.at
