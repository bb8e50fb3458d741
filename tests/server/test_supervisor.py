"""What the parent of workers makes of processes that end."""

import os
import subprocess
import sys

import pytest

from omnigraph.config.server import ServerConfig
from omnigraph.server.shared_state import ServerStage, WorkerState
from omnigraph.server.workers.supervisor import Supervisor


@pytest.mark.parametrize(
    "state, code, is_abandoned",
    [
        (WorkerState.READY, 0, False),
        (WorkerState.READY, 1, True),
        (WorkerState.READY, -9, True),
        # One that could not start, or was killed while it did, had nothing to complete.
        (WorkerState.STARTING, 3, False),
        (WorkerState.STARTING, -9, False),
        # Nor has one that completed everything, and took too long to end its process.
        (WorkerState.ENDED, -9, False),
    ],
)
def test_a_stopped_server_has_abandoned_work_only_of_workers_that_answered(
    state: WorkerState, code: int, is_abandoned: bool
) -> None:
    supervisor = Supervisor(ServerConfig(graphs=(), workers=2), False, 0)
    worker = supervisor._workers[0]
    worker.status, writing = os.pipe()
    os.close(writing)
    worker.slot.begin()
    worker.slot.state = state
    supervisor._shared.stage = ServerStage.DRAIN

    supervisor._reap(worker, code)
    supervisor._home.rmdir()

    assert supervisor._is_abandoned is is_abandoned
    assert not worker.slot.is_ready


def test_a_worker_that_has_ended_collects_no_garbage() -> None:
    """Where processes wait for the processor, that took longer than their server gave them to end."""
    program = """
import atexit, gc, os, sys
from types import SimpleNamespace
from omnigraph.server.workers import worker_process
from omnigraph.server.workers.worker_settings import WorkerSettings

server = SimpleNamespace(run=lambda sockets: None)
settings = SimpleNamespace(parent=os.getppid(), is_long=False, status_fd=os.dup(2))
worker_process.build_worker = lambda *_: (server, [])
WorkerSettings.read = lambda _: settings
sys.argv = ["worker", "0"]
worker_process.main()
left = len(gc.get_objects())
atexit.register(lambda: print(gc.get_freeze_count() > 10_000, left < 1_000))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "True True\n"
