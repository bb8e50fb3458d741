"""A private directory for temporary files, which goes with its process: at its end, or when the next one comes by.

A process that is killed can't remove its directory. But the system lets go of its lock, by which the next process that
makes such a directory knows that nobody uses the old one any more.
"""

import fcntl
import os
import shutil
import tempfile
import uuid
import weakref
from pathlib import Path

from omnigraph.telemetry import log

_LOCK = "lock"


class TempDirectory:
    """A new directory below the one for temporary files (`TMPDIR`), whose name starts with `prefix`.

    Raises:
        OSError: It can't be made.
    """

    def __init__(self, prefix: str) -> None:
        self.directory = Path(tempfile.gettempdir()) / f"{prefix}{uuid.uuid4().hex}"
        # Also at the end of the interpreter, if an interrupt kept somebody from closing it; and known before it is
        # there, because an interrupt may come at once.
        locks: list[int] = []
        self._remove = weakref.finalize(self, _remove, self.directory, locks)
        self.directory.mkdir(mode=0o700)
        # The file is locked before it has its name: whoever finds it under that name finds it locked.
        unnamed = self.directory / f"{_LOCK}.new"
        locks.append(os.open(unnamed, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        fcntl.flock(locks[0], fcntl.LOCK_EX)
        unnamed.rename(self.directory / _LOCK)
        _sweep(self.directory.parent, prefix)

    def close(self) -> None:
        """Remove it with all its files; once is enough, and twice does no harm."""
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


def _sweep(place: Path, prefix: str) -> None:
    """Remove the directories of processes that died."""
    for lock in place.glob(f"{prefix}*/{_LOCK}"):
        try:
            file = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:  # another user's, or just removed
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent)
            log.info("removed %s, which a process that died has left", lock.parent)
        except OSError:  # somebody uses it, or removes it too
            continue
        finally:
            os.close(file)
