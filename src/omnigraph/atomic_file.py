"""Write files atomically: a file gets its name once it is complete."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from omnigraph.errors import MissingError


@contextmanager
def open_atomic_file(path: Path, *, mode: int | None = None) -> Iterator[BinaryIO]:
    """Open a file for writing bytes. It replaces an existing one at the end of the block, and only on success.

    A symbolic link stays and its target is replaced; the file keeps its permissions. Devices and pipes are written
    directly. `mode` is the permissions of the file instead, also while it is written.

    Raises:
        MissingError: Its directory does not exist.
        OSError: It can't be written for another reason.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    target = path.resolve()
    if not target.parent.is_dir():
        raise MissingError.directory_not_found(str(target.parent), target.name)
    # In the same directory: a rename is atomic only within one file system.
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        # mkstemp creates files that only their owner can read; a new file gets the usual permissions.
        if mode is None:
            mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_read_umask()
        Path(temporary).chmod(mode)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _read_umask() -> int:
    # The umask can only be read by setting it.
    current = os.umask(0)
    os.umask(current)
    return current
