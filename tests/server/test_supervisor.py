"""What the parent of workers makes of processes that end."""

import os

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
