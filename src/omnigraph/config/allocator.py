"""Which allocator Arrow takes. It reads that from the environment once, when it is loaded; so nothing here loads it."""

import os

VARIABLE, SYSTEM = "ARROW_DEFAULT_MEMORY_POOL", "system"


def prefer_system_allocator() -> bool:
    """Have Arrow, if it is not loaded yet, take the system's allocator, unless the environment names another.

    Says whether the system's is the one that is wanted.
    """
    return os.environ.setdefault(VARIABLE, SYSTEM) == SYSTEM
