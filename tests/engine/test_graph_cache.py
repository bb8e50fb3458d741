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
from omnigraph import lru_cache
from omnigraph.clock import SystemClock
from omnigraph.engine.query_budget import Budget, QueryCancelledError
from omnigraph.engine.tables import content_cache
from omnigraph.engine.tables.content_cache import ContentCache, ContentKey
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.tables.version_cache import MAX_BRANCHES, MAX_PAST_VERSIONS
from omnigraph.options import Options
from row_worlds import IDS, NODES, live_rows, new_session, rows_of, table_of, view_of, write
from worlds import runtime


def size(value: bytes) -> int:
    return len(value)


def test_a_value_is_made_once() -> None:
    kept, values = ContentCache(100), iter([b"value"])

    found = [kept.get_or_build(("a",), lambda: next(values), size) for _ in range(3)]

    assert found == [b"value"] * 3
    assert (kept.get_stats().hits, kept.get_stats().misses, kept.get_stats().nbytes) == (2, 1, 5)


def test_what_was_used_least_recently_goes_first() -> None:
    kept = ContentCache(10)
    for name in "abc":
        kept.get_or_build((name,), lambda: b"xxx", size)
    kept.get_or_build(("a",), lambda: b"", size)

    kept.get_or_build(("d",), lambda: b"xxx", size)

    assert [(name,) in kept for name in "abcd"] == [True, False, True, True]
    assert kept.get_stats().nbytes == 9


def test_what_is_larger_than_the_limit_is_not_kept_and_drives_nothing_out() -> None:
    kept = ContentCache(10)
    kept.get_or_build(("a",), lambda: b"xxx", size)

    found = kept.get_or_build(("b",), lambda: b"x" * 11, size)

    assert len(found) == 11
    assert (("a",) in kept, ("b",) in kept) == (True, False)


def test_a_value_that_grows_is_counted_anew() -> None:
    kept, value = ContentCache(10), bytearray(b"xx")
    kept.get_or_build(("a",), lambda: value, len)
    kept.get_or_build(("b",), lambda: b"xxxx", size)
    value.extend(b"xxxx")

    kept.update_size(("a",), value, len(value))

    assert kept.get_stats().nbytes == 10
    kept.update_size(("a",), value, 7)
    assert (kept.get_stats().nbytes, ("b",) in kept) == (7, False)


def test_a_value_that_was_dropped_does_not_come_back_by_growing() -> None:
    kept, value = ContentCache(3), b"xx"
    kept.get_or_build(("a",), lambda: value, size)
    kept.get_or_build(("b",), lambda: b"yy", size)

    kept.update_size(("a",), value, 3)

    assert (("a",) in kept, ("b",) in kept) == (False, True)


def test_threads_wait_for_the_one_that_makes() -> None:
    kept, made, found = ContentCache(100), [], []
    is_making, may_end = threading.Event(), threading.Event()

    def make() -> bytes:
        is_making.set()
        may_end.wait(60)
        made.append(1)
        return b"value"

    threads = [threading.Thread(target=lambda: found.append(kept.get_or_build(("a",), make, size))) for _ in range(6)]
    for thread in threads:
        thread.start()
    is_making.wait(60)
    may_end.set()
    for thread in threads:
        thread.join()

    assert (len(made), found) == (1, [b"value"] * 6)


def test_when_a_making_fails_the_next_one_tries() -> None:
    kept = ContentCache(100)

    def fail() -> bytes:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        kept.get_or_build(("a",), fail, size)

    assert kept.get_or_build(("a",), lambda: b"value", size) == b"value"


def interrupted_at(line: int, work: Callable[[], object]) -> bool:
    """Run `work` and interrupt it before the n-th line of the caches that it reaches; return whether there is one."""
    left = line

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        file = frame.f_code.co_filename
        if file not in (content_cache.__file__, lru_cache.__file__):
            return None
        text = linecache.getline(file, frame.f_lineno).strip()
        is_safe = text.startswith(("with ", "try:", "finally:", "done.set()"))  # right before, no signal is handled
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
        kept = ContentCache(10)
        kept.put(("old",), b"xxxx", 4)
        kept.put(("a",), b"xxxx", 4)

        was_interrupted = interrupted_at(line, lambda kept=kept: kept.get_or_build(("b",), lambda: b"xxxxx", size))  # type: ignore[misc]  # of this round

        held = [kept.get((name,)) for name in ("old", "a", "b")]
        assert kept.get_stats().nbytes == sum(len(value) for value in held if isinstance(value, bytes))
        assert kept.get_or_build(("b",), lambda: b"xxxxx", size, Budget(SystemClock(), seconds=5)) == b"xxxxx"
        kept.put(("next",), b"", 0)
        assert kept.get_stats().nbytes <= 10
        if not was_interrupted:
            break

    assert 10 < line < 999


def test_a_query_that_is_cancelled_does_not_wait_any_longer() -> None:
    kept, may_end, is_making = ContentCache(100), threading.Event(), threading.Event()

    def make() -> bytes:
        is_making.set()
        may_end.wait(60)
        return b"value"

    maker = threading.Thread(target=lambda: kept.get_or_build(("a",), make, size))
    maker.start()
    is_making.wait(60)
    budget = Budget(SystemClock())
    budget.cancel()

    with pytest.raises(QueryCancelledError):
        kept.get_or_build(("a",), lambda: b"other", size, budget)

    may_end.set()
    maker.join()


def test_what_a_query_holds_outlives_its_eviction(tmp_path: Path) -> None:
    session = new_session(tmp_path / "g")
    write(session, NODES, append=table_of(session, live_rows(Random(1), IDS)))
    cache = GraphCache(Options(cache_bytes=1_400))
    rows = rows_of(session, cache=cache)
    held = rows.load_column("code")
    before = held.to_pylist()

    for name in ("age", "rank", "name", "ok", "color", "id", "tags"):
        rows.load_codes(name) if name != "tags" else rows.load_column(name)

    assert not rows.is_resident("code")
    assert held.to_pylist() == before
    assert cache.get_stats().nbytes <= 1_400


class Holder:
    """Somebody who has a version of a table."""


def test_values_of_a_version_go_with_the_last_of_its_holders() -> None:
    kept, part = ContentCache(100), ContentKey("nodes/p", 7)
    holders = [Holder(), Holder()]
    for number in range(2):
        kept.add_holder(holders[number], [part])
    kept.put((part, "a"), b"xxx", 3)
    kept.put(("other",), b"x", 1)

    sizes = [kept.get_stats().nbytes]
    while holders:
        holders.pop()
        sizes.append(kept.get_stats().nbytes)

    assert sizes == [4, 4, 1]
    kept.put((part, "a"), b"xxx", 3)
    assert (part, "a") not in kept


def test_a_key_may_name_a_version_twice() -> None:
    kept, part, holder = ContentCache(4), ContentKey("nodes/p", 7), Holder()
    kept.add_holder(holder, [part])

    kept.put(("topology", part, part), b"xxx", 3)
    kept.put((part, "a"), b"xxx", 3)

    assert kept.get_stats().entries == 1
    del holder
    assert kept.get_stats().nbytes == 0


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
        entries.append(cache.get_stats().entries)
        sizes.append(cache.get_stats().nbytes)
        held.append(len(cache.lru._holders))

    assert entries[8] == entries[-1]
    assert sizes[-1] < sizes[8] * 1.5
    assert held[8] == held[-1]


def test_what_is_kept_of_every_branch_stays(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    names = [f"b{number}" for number in range(MAX_PAST_VERSIONS + 4)]
    for name in names:
        graph.branches.create(name)
        graph.mutate(f'query q() {{ insert P {{ name: "{name}", n: 1 }} }}', branch=name)

    misses = []
    for _ in range(2):
        for name in names:
            assert graph.query(LONELY, branch=name).rows() == [{"n": 2_001}]
        misses.append(graph._session.reads.get_stats().misses)

    assert misses[0] == misses[1]


def test_of_branches_that_come_and_go_little_is_kept(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    cache, held = graph._session.reads, []

    for number in range(MAX_BRANCHES + 12):
        name = f"job{number % (MAX_BRANCHES + 6)}"  # some are made again
        graph.branches.create(name)
        graph.mutate(f'query q() {{ insert P {{ name: "new{number}", n: 1 }} }}', branch=name)
        assert graph.query(LONELY, branch=name).rows() == [{"n": 2_001}]
        graph.branches.delete(name)
        cache.get_stats()
        held.append(len(cache.lru._holders))

    assert held[MAX_BRANCHES + 5] == held[-1]


def test_equal_pins_give_equal_rows(tmp_path: Path) -> None:
    session = new_session(tmp_path / "g")
    view = view_of(session)

    assert session.reads.get_reader(view, view.get_type("P")) is session.reads.get_reader(view, view.get_type("P"))


def test_another_catalog_gives_rows_of_its_own_types_with_the_same_columns(tmp_path: Path) -> None:
    session = new_session(tmp_path / "g")
    write(session, NODES, append=table_of(session, live_rows(Random(1), IDS)))
    one, other = view_of(session), view_of(session)
    session.reads.get_reader(one, one.get_type("P")).load_column("code")

    found = session.reads.get_reader(other, other.get_type("P"))

    assert found.type is other.get_type("P")
    assert found.is_resident("code")


def test_a_quarter_of_the_machine_is_the_usual_limit() -> None:
    assert GraphCache(Options()).lru.limit_bytes > 2**20
    assert GraphCache(Options(cache_bytes=7)).lru.limit_bytes == 7


def test_a_search_structure_is_kept_beside_columns(tmp_path: Path) -> None:
    session = new_session(tmp_path / "g")

    made = session.reads.get_or_build(("postings", "P", "name"), lambda: {"word": [1, 2]}, lambda _: 100)

    assert session.reads.get_or_build(("postings", "P", "name"), dict, lambda _: 0) is made
    assert session.reads.get_stats().nbytes >= 100
