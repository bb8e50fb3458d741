"""Where memory comes from: which allocator Arrow takes, and what the C library does with what is freed.

Arrow reads its choice from the environment once, when it is loaded; so nothing here loads it.
"""

import ctypes
import os
from contextlib import suppress
from functools import cache

VARIABLE, SYSTEM = "ARROW_DEFAULT_MEMORY_POOL", "system"
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""From glibc's malloc.h."""
_OWN_CHOICE = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
_LARGE_BATCH = 32 * 1024 * 1024
"""The most that glibc before 2.35 lets one set."""
_SOME_BATCHES = 128 * 1024 * 1024


def prefer_system_allocator() -> bool:
    """Have Arrow, if it is not loaded yet, take the system's allocator, unless the environment names another.

    Says whether the system's is the one that is wanted.
    """
    return os.environ.setdefault(VARIABLE, SYSTEM) == SYSTEM


def tune_malloc(*, given_back: int, kept: int, arenas: int | None = None) -> bool:
    """Have freed blocks of `given_back` bytes go back to the system at once, and what an arena has beyond `kept`.

    Says whether it was done: the system's allocator may be another than glibc's.
    """
    with suppress(OSError, AttributeError):  # there is no C library of that name, or it has no such function
        mallopt = ctypes.CDLL(None).mallopt
        if arenas is not None:
            mallopt(_M_ARENA_MAX, arenas)
        return bool(mallopt(_M_MMAP_THRESHOLD, given_back) and mallopt(_M_TRIM_THRESHOLD, kept))
    return False


@cache
def keep_batches() -> bool:
    """Have this process, which reads batch after batch, use the memory of one for the next; whether it does.

    By its default glibc hands much of it back to the system, and asks for it again, page by page. What the environment
    says about that stays.
    """
    if any(name in os.environ for name in _OWN_CHOICE):
        return False
    return tune_malloc(given_back=_LARGE_BATCH, kept=_SOME_BATCHES)
