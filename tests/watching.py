"""Watch a directory for any access by this machine's processes, native code included, through the kernel's inotify."""

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ACCESS, _MODIFY, _ATTRIBUTES, _OPEN = 0x1, 0x2, 0x4, 0x20
_MOVED, _CREATE, _DELETE = 0xC0, 0x100, 0x200
_WATCHED = _ACCESS | _MODIFY | _ATTRIBUTES | _OPEN | _MOVED | _CREATE | _DELETE
_EVENT = struct.Struct("iIII")


@contextmanager
def watch(directory: Path) -> Iterator[list[str]]:
    """Collect the names of files below a directory that are opened, read, changed, made or removed meanwhile.

    The list is filled when the block ends. Directories that are made meanwhile are seen, what is in them is not.
    """
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert descriptor >= 0, os.strerror(ctypes.get_errno())
    events: list[str] = []
    try:
        for place in (directory, *(path for path in directory.rglob("*") if path.is_dir() and not path.is_symlink())):
            assert library.inotify_add_watch(descriptor, os.fsencode(place), _WATCHED) >= 0
        yield events
        events += _read_events(descriptor)
    finally:
        os.close(descriptor)


def _read_events(descriptor: int) -> list[str]:
    names: list[str] = []
    while True:
        try:
            data = os.read(descriptor, 65_536)
        except BlockingIOError:
            return names
        while data:
            _, mask, _, length = _EVENT.unpack_from(data)
            name = data[_EVENT.size : _EVENT.size + length].rstrip(b"\0").decode()
            names.append(f"{name or '.'} {mask & 0xFFFF:#x}")
            data = data[_EVENT.size + length :]
