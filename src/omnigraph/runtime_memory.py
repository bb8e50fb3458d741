"""Choose the allocator that Arrow uses, and tune how the C library reuses freed memory.

Arrow reads its setting from the environment once, when it is loaded; so this module does not load it.
"""

import ctypes
import os
from contextlib import suppress
from functools import cache

POOL_VARIABLE, SYSTEM = "ARROW_DEFAULT_MEMORY_POOL", "system"
# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_MALLOC_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
# The maximum that glibc before 2.35 accepts.
_MMAP_THRESHOLD_BYTES = 32 * 1024 * 1024
_TRIM_THRESHOLD_BYTES = 128 * 1024 * 1024


def prefer_system_allocator() -> bool:
    """Make Arrow use the system's allocator, if it is not loaded yet and the environment names no other.

    Returns whether the environment now selects the system's allocator.
    """
    return os.environ.setdefault(POOL_VARIABLE, SYSTEM) == SYSTEM


def tune_malloc(*, mmap_threshold: int, trim_threshold: int, arenas: int | None = None) -> bool:
    """Set when malloc returns freed memory to the system; return whether it was done.

    Blocks of at least `mmap_threshold` bytes are returned immediately, and so is the free memory of an arena beyond
    `trim_threshold`. It is not done if the C library is not glibc.
    """
    # The C library may not be loadable by this name, or lack the function.
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        if arenas is not None:
            mallopt(_M_ARENA_MAX, arenas)
        return bool(mallopt(_M_MMAP_THRESHOLD, mmap_threshold) and mallopt(_M_TRIM_THRESHOLD, trim_threshold))
    return False


@cache
def reuse_batch_memory() -> bool:
    """Let this process, which reads batch after batch, reuse the memory of one for the next; return whether it does.

    By default glibc returns much of it to the system and requests it again, page by page. Settings of the environment
    take precedence.
    """
    if any(name in os.environ for name in _MALLOC_VARIABLES):
        return False
    return tune_malloc(mmap_threshold=_MMAP_THRESHOLD_BYTES, trim_threshold=_TRIM_THRESHOLD_BYTES)
