"""Where memory comes from: which allocator Arrow takes, and what the C library does with what is freed.

Arrow reads its choice from the environment once, when it is loaded; so nothing here loads it.
"""

import ctypes
import os
from contextlib import suppress
from functools import cache

POOL_VARIABLE, SYSTEM = "ARROW_DEFAULT_MEMORY_POOL", "system"
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""From glibc's malloc.h."""
_MALLOC_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
_MMAP_THRESHOLD_BYTES = 32 * 1024 * 1024
"""The most that glibc before 2.35 lets one set."""
_TRIM_THRESHOLD_BYTES = 128 * 1024 * 1024


def prefer_system_allocator() -> bool:
    """Have Arrow, if it is not loaded yet, take the system's allocator, unless the environment names another.

    Says whether the system's is the one that is wanted.
    """
    return os.environ.setdefault(POOL_VARIABLE, SYSTEM) == SYSTEM


def tune_malloc(*, mmap_threshold: int, trim_threshold: int, arenas: int | None = None) -> bool:
    """Have freed blocks of `mmap_threshold` bytes go back to the system at once, and what an arena has beyond `kept`.

    Says whether it was done: the system's allocator may be another than glibc's.
    """
    with suppress(OSError, AttributeError):  # there is no C library of that name, or it has no such function
        mallopt = ctypes.CDLL(None).mallopt
        if arenas is not None:
            mallopt(_M_ARENA_MAX, arenas)
        return bool(mallopt(_M_MMAP_THRESHOLD, mmap_threshold) and mallopt(_M_TRIM_THRESHOLD, trim_threshold))
    return False


@cache
def reuse_batch_memory() -> bool:
    """Have this process, which reads batch after batch, use the memory of one for the next; whether it does.

    By its default glibc hands much of it back to the system, and asks for it again, page by page. What the environment
    says about that stays.
    """
    if any(name in os.environ for name in _MALLOC_VARIABLES):
        return False
    return tune_malloc(mmap_threshold=_MMAP_THRESHOLD_BYTES, trim_threshold=_TRIM_THRESHOLD_BYTES)
