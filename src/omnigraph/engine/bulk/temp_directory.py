"""A private directory for temporary files, removed when its process ends, or else by a later process.

A killed process can't remove its directory, but the system releases its lock. From that, the next process that creates
such a directory knows that the old one is no longer in use.
"""

import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path

from omnigraph.ids import draw_bytes
from omnigraph.telemetry import log

_LOCK = "lock"


class TempDirectory:
    """A new directory below `TMPDIR`, whose name starts with `prefix`; directories of dead processes are removed.

    Raises:
        OSError: The directory can't be created.
    """

    def __init__(self, prefix: str) -> None:
        self.directory = Path(tempfile.gettempdir()) / f"{prefix}{draw_bytes(16).hex()}"
        # The finalizer also runs when the interpreter exits, if an interrupt has prevented `close`. It is registered
        # before the directory exists, because an interrupt may come right after `mkdir`.
        locks: list[int] = []
        self._remove = weakref.finalize(self, _remove, self.directory, locks)
        self.directory.mkdir(mode=0o700)
        # The file is locked before it gets its name: a process that sees the name never sees it unlocked.
        unnamed = self.directory / f"{_LOCK}.new"
        locks.append(os.open(unnamed, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        fcntl.flock(locks[0], fcntl.LOCK_EX)
        unnamed.rename(self.directory / _LOCK)
        _sweep(self.directory.parent, prefix)

    def close(self) -> None:
        """Remove the directory with all its files; a second call does nothing."""
        self._remove()


def _remove(directory: Path, locks: list[int]) -> None:
    try:
        shutil.rmtree(directory)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("the temporary directory %s was not removed: %s", directory, error)
    for lock in locks:
        os.close(lock)


def _sweep(parent: Path, prefix: str) -> None:
    """Remove the directories of processes that died."""
    for lock in parent.glob(f"{prefix}*/{_LOCK}"):
        try:
            file = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:  # owned by another user, or just removed
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent)
            log.info("removed %s, left by a process that died", lock.parent)
        except OSError:  # in use, or being removed by another process
            continue
        finally:
            os.close(file)
