"""What processes do that make a clone at one place at the same time. Every function runs in its own process."""

import time
from dataclasses import replace

import omnigraph as og
from worlds import FAST, runtime

PATIENT = replace(FAST, heartbeat_seconds=5, lease_seconds=60)
"""A busy machine must not make one process take another for dead."""


def clone(source: str, target: str, at: float) -> str:
    """Clone at an instant; `done`, or the code of the error that it ended with."""
    time.sleep(max(0.0, at - time.time()))
    try:
        og.clone_graph(source, target, runtime=runtime(PATIENT))
    except og.OmnigraphError as error:
        return error.code
    return "done"
