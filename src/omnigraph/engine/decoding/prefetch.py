"""Work that goes on while its results are used: the next items of an iterator are made in a thread of their own."""

from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from typing import TypeVar

Item = TypeVar("Item")

PREFETCH_ITEMS = 2
"""How many items are made before they are asked for: enough that nobody waits, and little memory."""


class _EndOfItems(Enum):
    END = "end"


def prefetch(items: Generator[Item], count: int = PREFETCH_ITEMS) -> Generator[Item]:
    """The items, in their order; the next `count` are made meanwhile, one after the other.

    What making one raises is raised where it would have come. The generator is closed with this one.
    """
    waiting: deque[Future[Item | _EndOfItems]] = deque()
    pool = ThreadPoolExecutor(1, thread_name_prefix="omnigraph-ahead")
    try:
        waiting.extend(pool.submit(next, items, _EndOfItems.END) for _ in range(count))
        while not isinstance(item := waiting.popleft().result(), _EndOfItems):
            waiting.append(pool.submit(next, items, _EndOfItems.END))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)  # waits for the item that is being made
        items.close()
