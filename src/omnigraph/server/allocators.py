"""Memory allocator settings of a server process: freed memory is reused by other requests or returned to the system.

A request runs in one of many threads, and its memory is often freed by another one, such as a thread of Lance. Two
allocators handle that badly. Arrow's default, mimalloc, keeps pages for every thread that ever allocated: after some
minutes of reads and writes it holds a hundred times the memory in use, and keeps growing. The system's has eight arenas
per core, each fragmented on its own, and each retains up to twice the size of the largest block it ever released.

So the process uses few arenas, and Arrow allocates from them too. Blocks of more than a megabyte, which only large
results need, go back to the system immediately; that costs such a query up to a third of its time, and others nothing.
"""

import ctypes
import os
from contextlib import suppress

# Arrow reads its setting from the environment once, when it is loaded; so this module does not load it.
ARROW_POOL_VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"
# From glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_MIN_ARENAS = 2
# Blocks of at least this size go back to the system when they are freed.
_MMAP_THRESHOLD_BYTES = 1024 * 1024
# The free memory that an arena retains at its end.
_TRIM_THRESHOLD_BYTES = 16 * 1024 * 1024


def share_freed_memory() -> None:
    """Have all threads of this process allocate from a few shared arenas, Arrow's arrays too.

    Call it in a process that belongs to the server alone, before it has threads and before Arrow is loaded. An
    allocator for Arrow that is named in the environment takes precedence. Where the system's allocator is not glibc's,
    only Arrow's pool changes.
    """
    os.environ.setdefault(ARROW_POOL_VARIABLE, "system")
    # The C library may not be loadable by this name, or lack the function.
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, max(_MIN_ARENAS, os.cpu_count() or 1))
        mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD_BYTES)
