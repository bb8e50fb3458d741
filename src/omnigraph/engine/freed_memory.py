"""What the allocator does with the memory of arrays that are let go.

A query makes some arrays of a megabyte or so, and lets them go when it ends. The allocator of most Linux systems gives
such memory back to the system at once, and the next query pays for it again, page by page: a third of its time. It
stops doing so for blocks up to the size of the largest one that was ever given back, of at most 32 MiB, and keeps twice
as much. So one is given back early. Nobody has touched it, so it costs nothing; other allocators don't mind.
"""

import numpy as np

_BLOCK = 30 * 1024 * 1024


def keep_freed_memory() -> None:
    """Have this process keep up to 60 MiB that it has freed, for the next arrays."""
    block = np.empty(_BLOCK, np.uint8)
    del block
