"""What is kept in memory: within its limit, made once, and shared by whoever reads the same rows."""

import linecache
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.clock import SystemClock
from omnigraph.engine.query_budget import Budget, QueryCancelledError
from omnigraph.engine.tables import lru_cache as kept_module
from omnigraph.engine.tables.graph_cache import ReadCache
from omnigraph.engine.tables.lru_cache import Held, Kept
from omnigraph.engine.tables.version_cache import MOST_BRANCHES, PAST_VERSIONS
from omnigraph.options import Options
from row_worlds import IDS, NODES, live_rows, new_session, rows_of, table_of, view_of, write
from worlds import runtime


def size(value: bytes) -> int:
    return len(value)


def test_a_value_is_made_once() -> None:
    kept, values = Kept(100), iter([b"value"])

    found = [kept.keep(("a",), lambda: next(values), size) for _ in range(3)]

    assert found == [b"value"] * 3
    assert (kept.stats().hits, kept.stats().misses, kept.stats().nbytes) == (2, 1, 5)


def test_what_was_used_least_recently_goes_first() -> None:
    kept = Kept(10)
    for name in "abc":
        kept.keep((name,), lambda: b"xxx", size)
    kept.keep(("a",), lambda: b"", size)

    kept.keep(("d",), lambda: b"xxx", size)

    assert [(name,) in kept for name in "abcd"] == [True, False, True, True]
    assert kept.stats().nbytes == 9


def test_what_is_larger_than_the_limit_is_not_kept_and_drives_nothing_out() -> None:
    kept = Kept(10)
    kept.keep(("a",), lambda: b"xxx", size)

    found = kept.keep(("b",), lambda: b"x" * 11, size)

    assert len(found) == 11
    assert (("a",) in kept, ("b",) in kept) == (True, False)


def test_a_value_that_grows_is_counted_anew() -> None:
    kept, value = Kept(10), bytearray(b"xx")
    kept.keep(("a",), lambda: value, len)
    kept.keep(("b",), lambda: b"xxxx", size)
    value.extend(b"xxxx")

    kept.grown(("a",), value, len(value))

    assert kept.stats().nbytes == 10
    kept.grown(("a",), value, 7)
    assert (kept.stats().nbytes, ("b",) in kept) == (7, False)


def test_a_value_that_was_dropped_does_not_come_back_by_growing() -> None:
    kept, value = Kept(3), b"xx"
    kept.keep(("a",), lambda: value, size)
    kept.keep(("b",), lambda: b"yy", size)

    kept.grown(("a",), value, 3)

    assert (("a",) in kept, ("b",) in kept) == (False, True)


def test_threads_wait_for_the_one_that_makes() -> None:
    kept, made, found = Kept(100), [], []
    is_making, may_end = threading.Event(), threading.Event()

    def make() -> bytes:
        is_making.set()
        may_end.wait(60)
        made.append(1)
        return b"value"

    threads = [threading.Thread(target=lambda: found.append(kept.keep(("a",), make, size))) for _ in range(6)]
    for thread in threads:
        thread.start()
    is_making.wait(60)
    may_end.set()
    for thread in threads:
        thread.join()

    assert (len(made), found) == (1, [b"value"] * 6)


def test_when_a_making_fails_the_next_one_tries() -> None:
    kept = Kept(100)

    def fail() -> bytes:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        kept.keep(("a",), fail, size)

    assert kept.keep(("a",), lambda: b"value", size) == b"value"


def interrupted_at(line: int, work: Callable[[], object]) -> bool:
    """Run something, and interrupt it before the n-th line of `Kept`'s own that it comes to; whether there is one."""
    left = line

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename != kept_module.__file__:
            return None
        text = linecache.getline(kept_module.__file__, frame.f_lineno).strip()
        is_safe = text.startswith(("with ", "try:", "finally:", "made.set()"))  # right before, no signal is handled
        if event == "line" and not is_safe:
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interrupt_anywhere_leaves_the_count_right_and_nobody_waiting() -> None:
    for line in range(1_000):
        kept = Kept(10)
        kept.put(("old",), b"xxxx", 4)
        kept.put(("a",), b"xxxx", 4)

        was_interrupted = interrupted_at(line, lambda kept=kept: kept.keep(("b",), lambda: b"xxxxx", size))  # type: ignore[misc]  # of this round

        held = [kept.get((name,)) for name in ("old", "a", "b")]
        assert kept.stats().nbytes == sum(len(value) for value in held if isinstance(value, bytes))
        assert kept.keep(("b",), lambda: b"xxxxx", size, Budget(SystemClock(), seconds=5)) == b"xxxxx"
        kept.put(("next",), b"", 0)
        assert kept.stats().nbytes <= 10
        if not was_interrupted:
            break

    assert 10 < line < 999


def test_a_query_that_is_cancelled_does_not_wait_any_longer() -> None:
    kept, may_end, is_making = Kept(100), threading.Event(), threading.Event()

    def make() -> bytes:
        is_making.set()
        may_end.wait(60)
        return b"value"

    maker = threading.Thread(target=lambda: kept.keep(("a",), make, size))
    maker.start()
    is_making.wait(60)
    budget = Budget(SystemClock())
    budget.cancel()

    with pytest.raises(QueryCancelledError):
        kept.keep(("a",), lambda: b"other", size, budget)

    may_end.set()
    maker.join()


def test_what_a_query_holds_outlives_its_eviction(tmp_path: Path) -> None:
    session = new_session(tmp_path / "g")
    write(session, NODES, append=table_of(session, live_rows(Random(1), IDS)))
    cache = ReadCache(Options(cache_bytes=1_400))
    rows = rows_of(session, cache=cache)
    held = rows.whole("code")
    before = held.to_pylist()

    for name in ("age", "rank", "name", "ok", "color", "id", "tags"):
        rows.codes(name) if name != "tags" else rows.whole(name)

    assert not rows.is_resident("code")
    assert held.to_pylist() == before
    assert cache.stats().nbytes <= 1_400


class Holder:
    """Somebody who has a version of a table."""


def test_values_of_a_version_go_with_the_last_of_its_holders() -> None:
    kept, part = Kept(100), Held("nodes/p", 7)
    holders = [Holder(), Holder()]
    for number in range(2):
        kept.hold(holders[number], [part])
    kept.put((part, "a"), b"xxx", 3)
    kept.put(("other",), b"x", 1)

    sizes = [kept.stats().nbytes]
    while holders:
        holders.pop()
        sizes.append(kept.stats().nbytes)

    assert sizes == [4, 4, 1]
    kept.put((part, "a"), b"xxx", 3)
    assert (part, "a") not in kept


def test_a_key_may_name_a_version_twice() -> None:
    kept, part, holder = Kept(4), Held("nodes/p", 7), Holder()
    kept.hold(holder, [part])

    kept.put(("topology", part, part), b"xxx", 3)
    kept.put((part, "a"), b"xxx", 3)

    assert kept.stats().entries == 1
    del holder
    assert kept.stats().nbytes == 0


LONELY = "query q() { match { $p: P  $p.n >= 0  not { $p knows $other } } return { count(*) as n } order { n } }"


def people(place: Path) -> og.Graph:
    graph = og.create_graph(str(place), "node P { name: String @key  n: I32? }\nedge Knows: P -> P", runtime=runtime())
    rows = pa.table({"name": [f"p{number}" for number in range(2_000)], "n": pa.array(range(2_000), pa.int32())})
    graph.load(nodes={"P": rows}, mode="append")
    return graph


def test_what_is_kept_does_not_grow_with_the_number_of_commits(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    cache, entries, sizes, held = graph._session.reads, [], [], []

    for number in range(24):
        name = f"new{number}"
        graph.mutate(f'query q() {{ insert P {{ name: "{name}", n: 1 }} insert Knows {{ from: "{name}", to: "p0" }} }}')
        graph.mutate(f'query q() {{ delete P where name = "p{number + 1}" }}')
        assert graph.query(LONELY).rows() == [{"n": 2_000 - number - 1}]
        entries.append(cache.stats().entries)
        sizes.append(cache.stats().nbytes)
        held.append(len(cache.kept._holders))

    assert entries[8] == entries[-1]
    assert sizes[-1] < sizes[8] * 1.5
    assert held[8] == held[-1]


def test_what_is_kept_of_every_branch_stays(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    names = [f"b{number}" for number in range(PAST_VERSIONS + 4)]
    for name in names:
        graph.branches.create(name)
        graph.mutate(f'query q() {{ insert P {{ name: "{name}", n: 1 }} }}', branch=name)

    misses = []
    for _ in range(2):
        for name in names:
            assert graph.query(LONELY, branch=name).rows() == [{"n": 2_001}]
        misses.append(graph._session.reads.stats().misses)

    assert misses[0] == misses[1]


def test_of_branches_that_come_and_go_little_is_kept(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    cache, held = graph._session.reads, []

    for number in range(MOST_BRANCHES + 12):
        name = f"job{number % (MOST_BRANCHES + 6)}"  # some are made again
        graph.branches.create(name)
        graph.mutate(f'query q() {{ insert P {{ name: "new{number}", n: 1 }} }}', branch=name)
        assert graph.query(LONELY, branch=name).rows() == [{"n": 2_001}]
        graph.branches.delete(name)
        cache.stats()
        held.append(len(cache.kept._holders))

    assert held[MOST_BRANCHES + 5] == held[-1]


def test_equal_pins_give_equal_rows(tmp_path: Path) -> None:
    session = new_session(tmp_path / "g")
    view = view_of(session)

    assert session.reads.rows(view, view.type("P")) is session.reads.rows(view, view.type("P"))


def test_another_catalog_gives_rows_of_its_own_types_with_the_same_columns(tmp_path: Path) -> None:
    session = new_session(tmp_path / "g")
    write(session, NODES, append=table_of(session, live_rows(Random(1), IDS)))
    one, other = view_of(session), view_of(session)
    session.reads.rows(one, one.type("P")).whole("code")

    found = session.reads.rows(other, other.type("P"))

    assert found.type is other.type("P")
    assert found.is_resident("code")


def test_a_quarter_of_the_machine_is_the_usual_limit() -> None:
    assert ReadCache(Options()).kept.limit_bytes > 2**20
    assert ReadCache(Options(cache_bytes=7)).kept.limit_bytes == 7


def test_a_search_structure_is_kept_beside_columns(tmp_path: Path) -> None:
    session = new_session(tmp_path / "g")

    made = session.reads.keep(("postings", "P", "name"), lambda: {"word": [1, 2]}, lambda _: 100)

    assert session.reads.keep(("postings", "P", "name"), dict, lambda _: 0) is made
    assert session.reads.stats().nbytes >= 100
