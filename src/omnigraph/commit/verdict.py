"""Decide what became of an operation whose sidecar still exists. Pure: facts in, verdict out."""

from datetime import datetime, timedelta
from enum import Enum

from omnigraph.commit.sidecar import Sidecar


class Verdict(Enum):
    """The outcome of an operation."""

    ROLLED_FORWARD = "RolledForward"
    """Its commit is in the history; only the sidecar is left."""
    ROLLED_BACK = "RolledBack"
    """Its commit is not in the history and never will be: its owner is dead."""
    IN_FLIGHT = "InFlight"
    """Its owner is still running."""
    BROKEN = "Broken"
    """The sidecar can't be decoded; it is left alone."""


def judge(sidecar: Sidecar, *, is_committed: bool, renewed_at: datetime, now: datetime, lease: timedelta) -> Verdict:
    """Return the verdict. Both times are the store's; an abandoned operation is dead whatever its age."""
    if is_committed:
        return Verdict.ROLLED_FORWARD
    if sidecar.state == "abandoned" or now - renewed_at > lease:
        return Verdict.ROLLED_BACK
    return Verdict.IN_FLIGHT
