"""What the children of the S3 tests do beside the jobs of the crash and race tests."""

import os
from dataclasses import replace

from crash.jobs import leftovers, look, write_at_once
from omnigraph.commit.recovery import recover
from omnigraph.faults import read_faults
from omnigraph.ops.open import open_session
from omnigraph.runtime import Runtime
from worlds import FAST, state

EXPIRED = replace(FAST, lease_seconds=-5)
"""Every lease has run out: S3 tells times in whole seconds, and a test should not wait for them."""


def settle(uri: str) -> dict[str, object]:
    """Open when all leases have run out: what is left, and the state."""
    session = open_session(uri, is_read_only=False, runtime=Runtime(options=EXPIRED))
    return {**leftovers(session), "state": state(session)}


def aftermath(uri: str) -> dict[str, dict[str, object]]:
    """What somebody sees who looks at once, what the next write makes of it, and what is left in the end."""
    return {"seen": look(uri), "next": write_at_once(uri), "settled": settle(uri)}


def heal(uri: str) -> None:
    """A recovery pass when all leases have run out, with the fault that the environment arms."""
    session = open_session(uri, is_read_only=True, runtime=Runtime(options=EXPIRED, faults=read_faults(os.environ)))
    recover(session.store, session.log)
