"""Files that have their name when all of them is written, and not before."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from omnigraph.errors import DirectoryMissingError


@contextmanager
def open_atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write bytes to. What it replaces is there until then, and is left alone if something fails.

    A link still leads to the file, and the file has the rights that it had. A device or pipe is written to as it is.

    Raises:
        DirectoryMissingError: There is no directory for it.
        OSError: Something else stands in the way.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    target = path.resolve()
    if not target.parent.is_dir():
        raise DirectoryMissingError(str(target.parent), target.name)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_read_umask()
        Path(temporary).chmod(mode)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _read_umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
