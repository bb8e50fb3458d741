"""The actions of fault points themselves."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

from crash.test_live_neighbour import wait_until_stopped

VICTIM = """
import fcntl, os, sys, threading
from omnigraph.faults import ArmedFaults

held = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(held, fcntl.LOCK_EX)
threading.Timer(0.2, os.close, [held]).start()
ArmedFaults("publish.flushed", "stop").reach("publish.flushed")
"""


def test_a_process_is_stopped_when_none_of_its_threads_locks_a_file(tmp_path: Path) -> None:
    victim = subprocess.Popen([sys.executable, "-c", VICTIM, str(tmp_path)])
    wait_until_stopped(victim.pid)
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(directory)
        os.kill(victim.pid, signal.SIGCONT)
        assert victim.wait() == 0
