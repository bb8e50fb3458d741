"""Mutations are evaluated a few at a time, in the order of arrival, and none keeps the others waiting for long."""

import threading
import time

import pytest

from omnigraph.ops.evaluation_slots import EvaluationSlots

PATIENCE = 30.0


def wait_until(slots: EvaluationSlots, waiting: int) -> None:
    end = time.monotonic() + PATIENCE
    while len(slots._waiting) < waiting:
        assert time.monotonic() < end
        time.sleep(0.001)


def test_at_most_as_many_run_as_there_are_slots_in_the_order_of_arrival() -> None:
    slots = EvaluationSlots(2, PATIENCE)
    order: list[int] = []
    running: list[int] = []
    most: list[int] = []
    go = threading.Event()

    def work(number: int) -> None:
        with slots.hold():
            order.append(number)
            running.append(number)
            most.append(len(running))
            assert go.wait(PATIENCE)
            time.sleep(0.002)
            running.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for number, thread in enumerate(threads):
        thread.start()
        wait_until(slots, max(0, number - 1)) if number > 1 else time.sleep(0.05)
    go.set()
    for thread in threads:
        thread.join(PATIENCE)

    assert max(most) == 2
    # Two that start together may be noted in any order.
    assert all(abs(number - place) <= 1 for place, number in enumerate(order))
    assert sorted(order) == list(range(12))
    assert not slots._waiting
    assert not slots._ends


def test_one_that_takes_long_gives_its_slot_up() -> None:
    slots = EvaluationSlots(1, 0.02)
    entered = threading.Event()

    def work() -> None:
        with slots.hold():
            entered.set()

    with slots.hold():
        thread = threading.Thread(target=work)
        thread.start()
        assert entered.wait(PATIENCE), "the first one is still inside"
    thread.join(PATIENCE)

    # One that is entered inside another waits no longer than that either.
    with slots.hold(), slots.hold():
        pass
    assert not slots._ends


def test_an_interrupted_one_leaves_its_slot_and_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = EvaluationSlots(1, PATIENCE)
    with pytest.raises(KeyboardInterrupt), slots.hold():
        raise KeyboardInterrupt
    holder = slots.hold()
    holder.__enter__()

    def interrupt(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Event, "wait", interrupt)
        with pytest.raises(KeyboardInterrupt), slots.hold():
            raise AssertionError("there is no free slot")
    assert not slots._waiting
    holder.__exit__(None, None, None)

    with slots.hold():
        assert len(slots._ends) == 1
