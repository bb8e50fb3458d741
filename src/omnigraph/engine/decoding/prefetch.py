"""Work that goes on while its results are used: the next items of an iterator are made in a thread of their own."""

from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from typing import TypeVar

Item = TypeVar("Item")

AHEAD = 2
"""How many items are made before they are asked for: enough that nobody waits, and little memory."""


class _End(Enum):
    END = "end"


def read_ahead(items: Generator[Item], count: int = AHEAD) -> Generator[Item]:
    """The items, in their order; the next `count` are made meanwhile, one after the other.

    What making one raises is raised where it would have come. The generator is closed with this one.
    """
    waiting: deque[Future[Item | _End]] = deque()
    pool = ThreadPoolExecutor(1, thread_name_prefix="omnigraph-ahead")
    try:
        waiting.extend(pool.submit(next, items, _End.END) for _ in range(count))
        while not isinstance(item := waiting.popleft().result(), _End):
            waiting.append(pool.submit(next, items, _End.END))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)  # waits for the item that is being made
        items.close()
