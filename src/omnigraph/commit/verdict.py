"""What became of an operation whose sidecar is still there. Pure: facts in, verdict out."""

from datetime import datetime, timedelta
from enum import Enum

from omnigraph.commit.sidecar import Sidecar


class Verdict(Enum):
    """The four ways it can be."""

    ROLLED_FORWARD = "RolledForward"
    """It is part of the history; only the sidecar is left over."""
    ROLLED_BACK = "RolledBack"
    """It is not, and nobody keeps it alive: it never will be."""
    IN_FLIGHT = "InFlight"
    """Its owner is at work."""
    BROKEN = "Broken"
    """The sidecar can't be understood; it is left alone."""


def judge(sidecar: Sidecar, *, is_committed: bool, renewed_at: datetime, now: datetime, lease: timedelta) -> Verdict:
    """The verdict; both times are the store's. An abandoned operation is dead whatever its age."""
    if is_committed:
        return Verdict.ROLLED_FORWARD
    if sidecar.state == "abandoned" or now - renewed_at > lease:
        return Verdict.ROLLED_BACK
    return Verdict.IN_FLIGHT
