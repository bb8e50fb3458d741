"""Items that are made while others are used: the same ones, in the same order, and nothing is left running."""

import threading
import time
from collections.abc import Generator

import pytest

from omnigraph.engine.decoding.prefetch import PREFETCH_ITEMS, prefetch


def numbers(count: int, made: list[int], closed: list[bool]) -> Generator[int]:
    try:
        for number in range(count):
            made.append(number)
            yield number
    finally:
        closed.append(True)


def threads() -> set[str]:
    return {one.name for one in threading.enumerate() if one.name.startswith("omnigraph-ahead")}


@pytest.mark.parametrize("count", [0, 1, PREFETCH_ITEMS, 50])
def test_every_item_comes_once_and_in_order(count: int) -> None:
    closed: list[bool] = []

    found = list(prefetch(numbers(count, [], closed)))

    assert found == list(range(count))
    assert closed == [True]
    assert not threads()


def test_no_more_items_are_made_than_may_be_ahead() -> None:
    made: list[int] = []
    items = prefetch(numbers(50, made, []))

    for wanted in range(10):
        assert next(items) == wanted
        time.sleep(0.01)  # long enough to make all of them, if nothing held it back
        assert len(made) <= wanted + 1 + PREFETCH_ITEMS
    items.close()


def test_what_goes_wrong_is_raised_where_it_would_have_come() -> None:
    def broken() -> Generator[int]:
        yield 1
        yield 2
        raise OSError("the disk is gone")

    items = prefetch(broken())

    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(OSError, match="the disk is gone"):
        next(items)
    assert not threads()


def test_who_stops_early_leaves_no_thread_and_no_open_source() -> None:
    closed: list[bool] = []
    items = prefetch(numbers(50, [], closed))
    next(items)

    items.close()

    assert closed == [True]
    assert not threads()
