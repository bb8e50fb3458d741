"""Prefetching: the next items of an iterator are computed in a separate thread."""

from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from typing import TypeVar

Item = TypeVar("Item")

PREFETCH_ITEMS = 2
"""The number of items computed ahead: enough that the consumer does not wait, in little memory."""


class _EndOfItems(Enum):
    END = "end"


def prefetch(items: Generator[Item], count: int = PREFETCH_ITEMS) -> Generator[Item]:
    """Yield the items in order; the next `count` are computed in the meantime, one after the other.

    An exception of the iterator is raised at its position. Closing this generator closes the iterator.
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
