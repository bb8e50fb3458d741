"""How the allocators of a server's process are set: what requests have freed is used by the next ones, or given back.

A request is worked on by one of many threads, and what it allocates is often freed by another: one of Lance's. Two
allocators take that badly. Arrow's own, mimalloc, keeps pages for every thread that ever asked: after some minutes of
reads and writes it holds a hundred times of what is in use, and ever more. The system's has eight arenas for each core,
each with holes of its own, and each keeps up to twice the size of the largest block that it ever gave back.

So there are few arenas, and Arrow is in them too. What is larger than a megabyte, which only large answers need, goes
back to the system at once; that costs such a query up to a third of its time, and others nothing.
"""

import os
from contextlib import suppress

import pyarrow as pa

from omnigraph.runtime_memory import prefer_system_allocator, tune_malloc

_MIN_ARENAS = 2
_MMAP_THRESHOLD_BYTES = 1024 * 1024
"""Blocks of so many bytes go back to the system when they are freed."""
_TRIM_THRESHOLD_BYTES = 16 * 1024 * 1024
"""How much an arena keeps at its end."""


def share_freed_memory() -> None:
    """Have all threads of this process allocate from a few shared arenas, Arrow's arrays too.

    For a process of one's own, before it has threads. Whoever names another allocator for Arrow in the environment gets
    that one. Where the system's allocator is another than glibc's, only Arrow is told.
    """
    if prefer_system_allocator():
        pa.set_memory_pool(pa.system_memory_pool())  # for whoever has loaded Arrow before; parts of it don't change
    tune_malloc(
        mmap_threshold=_MMAP_THRESHOLD_BYTES,
        trim_threshold=_TRIM_THRESHOLD_BYTES,
        arenas=max(_MIN_ARENAS, os.cpu_count() or 1),
    )


def read_resident_bytes() -> int | None:
    """The memory that this process has now; None where the system does not tell."""
    with suppress(OSError, ValueError, IndexError), open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no path is built
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None
