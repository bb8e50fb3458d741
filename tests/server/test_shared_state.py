"""The memory that workers share: counts of actors, orders, and what is left of a process that ended."""

import os

import pytest

from omnigraph.server.shared_state import ServerStage, SharedState, WorkerState, _hash_actor


def test_actors_are_counted_over_all_workers() -> None:
    state = SharedState.create(3)
    first, second, third = state.slots

    first.count_actor("ada", 3, 1)
    second.count_actor("ada", 4, 0)
    second.count_actor("bob", 9, 9)
    third.count_actor("ada", 1, 1)
    third.count_actor("ada", 0, 0)

    assert state.count_actor("ada", besides=first) == (4, 0)
    assert state.count_actor("ada", besides=third) == (7, 1)
    assert state.count_actor("bob", besides=second) == (0, 0)


def test_a_table_that_is_full_counts_nobody_twice() -> None:
    state = SharedState.create(2)
    actors = [f"actor {number}" for number in range(5_000)]

    for actor in actors:
        state.slots[0].count_actor(actor, 1, 0)
    counted = sum(state.count_actor(actor, besides=state.slots[1])[0] for actor in actors)
    for actor in actors:
        state.slots[0].count_actor(actor, 0, 0)

    assert 900 < counted <= 1_024
    assert not any(state.count_actor(actor, besides=state.slots[1])[0] for actor in actors)


def test_what_a_process_counted_ends_with_it() -> None:
    state = SharedState.create(1)
    slot = state.slots[0]
    slot.begin()
    slot.state, slot.in_flight, slot.is_named = WorkerState.READY, 7, 1
    slot.count_actor("ada", 3, 1)

    slot.reap()

    assert (slot.is_ready, slot.in_flight, slot.is_named, slot.generation) == (False, 0, 0, 1)
    assert slot.find_actor(*_hash_actor("ada")) == (0, 0)


def test_orders_reach_every_process_that_maps_the_memory() -> None:
    state = SharedState.create(1)
    other = SharedState(os.dup(state.fd))

    state.stage = ServerStage.STOP
    state.reloads += 1

    assert (other.stage, other.reloads) == (ServerStage.STOP, 1)


def test_no_process_can_shrink_the_memory_under_another() -> None:
    state = SharedState.create(1)

    with pytest.raises(PermissionError):
        os.ftruncate(state.fd, 0)
