"""Memory allocator settings of a server process: freed memory is reused by other requests or returned to the system.

A request runs in one of many threads, and its memory is often freed by another one, such as a thread of Lance. Two
allocators handle that badly. Arrow's default, mimalloc, keeps pages for every thread that ever allocated: after some
minutes of reads and writes it holds a hundred times the memory in use, and keeps growing. The system's has eight arenas
per core, each fragmented on its own, and each retains up to twice the size of the largest block it ever released.

So the process uses few arenas, and Arrow allocates from them too. Blocks of more than a megabyte, which only large
results need, go back to the system immediately; that costs such a query up to a third of its time, and others nothing.
"""

import os
from contextlib import suppress

import pyarrow as pa

from omnigraph.runtime_memory import prefer_system_allocator, tune_malloc

_MIN_ARENAS = 2
# Blocks of at least this size go back to the system when they are freed.
_MMAP_THRESHOLD_BYTES = 1024 * 1024
# The free memory that an arena retains at its end.
_TRIM_THRESHOLD_BYTES = 16 * 1024 * 1024


def share_freed_memory() -> None:
    """Have all threads of this process allocate from a few shared arenas, Arrow's arrays too.

    Call it in a process that belongs to the server alone, before it has threads. An allocator for Arrow that is named
    in the environment takes precedence. Where the system's allocator is not glibc's, only Arrow's pool changes.
    """
    if prefer_system_allocator():
        # Arrow may be loaded already, and then reads the preference no longer. Parts of it keep their pool even so.
        pa.set_memory_pool(pa.system_memory_pool())
    tune_malloc(
        mmap_threshold=_MMAP_THRESHOLD_BYTES,
        trim_threshold=_TRIM_THRESHOLD_BYTES,
        arenas=max(_MIN_ARENAS, os.cpu_count() or 1),
    )


def read_resident_bytes() -> int | None:
    """Return the resident memory of this process, or None where the system does not report it."""
    with suppress(OSError, ValueError, IndexError), open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no path is built
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None
