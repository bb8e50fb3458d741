"""The process of a worker, which the server's parent starts with a descriptor of its settings."""

import ctypes
import gc
import os
import pickle
import signal
import sys

from omnigraph.api import load_runtime
from omnigraph.errors import OmnigraphError
from omnigraph.server.allocators import share_freed_memory
from omnigraph.server.workers.worker_server import build_worker
from omnigraph.server.workers.worker_settings import WorkerSettings

# From Linux's prctl.h.
_PR_SET_PDEATHSIG = 1
# How much less of the processor a worker for long requests gets where all are busy.
_LONG_NICENESS = 5
# The exit code after an error that the parent reports.
START_FAILED = 3


def main() -> None:
    """Serve until the parent orders the end, or ends itself."""
    share_freed_memory()
    settings = WorkerSettings.read(int(sys.argv[1]))
    _follow_parent(settings.parent)
    if settings.is_long:
        os.nice(_LONG_NICENESS)
    try:
        server, listeners = build_worker(settings, load_runtime())
    except OmnigraphError as error:
        with os.fdopen(settings.status_fd, "wb") as status:
            status.write(pickle.dumps(error))
        sys.exit(START_FAILED)
    os.close(settings.status_fd)
    server.run(sockets=listeners)
    # The end of the interpreter collects garbage several times: 0.7 s of CPU for millions of objects that end with the
    # process anyway, which a busy machine makes half a minute. What is registered for the end still runs.
    gc.freeze()


def _follow_parent(parent: int) -> None:
    """End with the parent, however it ends, and leave signals to it: it passes them on as orders.

    A signal for every process of a service would count twice otherwise.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have ended before that.
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    main()
