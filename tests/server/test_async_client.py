"""The client for event loops: the calls of `RemoteGraph` as coroutines, many at once, and each can be cancelled."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

import omnigraph as og
from server_process import Process, laid_out, running
from serving import ADD, ALL, TOKENS

T = TypeVar("T")
# Pairs of 3,000 values: seconds of work.
SLOW = (
    "query q($n: [I64]) { match { each $x in $n  each $y in $n  each $z in $n  ($x + $y * $z) % 7 = 8 }"
    " return { count(*) as n } }"
)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    home = tmp_path_factory.mktemp("client")
    with running(laid_out(home), home) as found:
        yield found


@pytest.fixture
def url(process: Process) -> str:
    return f"http://localhost:{process.port}"


def connected(url: str, work: Callable[[og.AsyncRemoteGraph], Awaitable[T]], *, max_calls: int = 32) -> T:
    """What a program does with a connected graph."""

    async def main() -> T:
        async with await og.connect_async(url, TOKENS["admin"], max_calls=max_calls) as graph:
            return await work(graph)

    return asyncio.run(main())


def test_calls_return_what_the_synchronous_client_returns(url: str) -> None:
    async def work(graph: og.AsyncRemoteGraph) -> tuple[object, ...]:
        return (
            (await graph.query(ALL)).to_json(),
            (await graph.snapshot()).to_json(),
            [commit.id for commit in await graph.commits()],
            [branch.name for branch in await graph.branches.list()],
            await graph.schema(),
            graph.uri,
        )

    with og.connect(url, TOKENS["admin"]) as graph:
        expected = (
            graph.query(ALL).to_json(),
            graph.snapshot().to_json(),
            [commit.id for commit in graph.commits()],
            [branch.name for branch in graph.branches.list()],
            graph.schema,
            graph.uri,
        )
    assert connected(url, work) == expected


def test_it_has_all_that_the_synchronous_client_has() -> None:
    def public(owner: type) -> set[str]:
        return {name for name in dir(owner) if not name.startswith("_")}

    assert public(og.AsyncRemoteGraph) == public(og.RemoteGraph)
    for name in public(og.RemoteGraph) - {"abort", "close", "schema", "uri", "branches", "tags", "algorithms"}:
        member = inspect.getattr_static(og.AsyncRemoteGraph, name)
        assert member.__doc__ == getattr(og.RemoteGraph, name).__doc__, name
        assert member.__wrapped__ is getattr(og.RemoteGraph, name), name


def test_a_write_and_its_changes(url: str) -> None:
    async def work(graph: og.AsyncRemoteGraph) -> tuple[bool, int, int, int, bool]:
        before = (await graph.snapshot()).commit.id
        done = await graph.mutate(ADD, params={"n": "Async"}, idempotency_key="async-1")
        again = await graph.mutate(ADD, params={"n": "Async"}, idempotency_key="async-1")
        assert done.commit_id is not None
        diff = await graph.diff(before, done.commit_id)
        rows = [row async for row in diff]
        (change,) = [change async for change in await graph.changes(since=before)]
        records = [record async for record in change.records()]
        single = await graph.commit_changes(done.commit_id)
        same = again.commit_id == done.commit_id
        return same, len(rows), (await diff.counts())["Person"].inserted, len(records), change.cursor == single.cursor

    same, rows, counts, records, is_equal = connected(url, work)

    assert (same, rows, counts, records, is_equal) == (True, 1, 1, 1, True)


def test_rows_are_streamed(url: str) -> None:
    async def work(graph: og.AsyncRemoteGraph) -> tuple[int, int, int]:
        query = "query q($n: [I64]) { match { each $x in $n  each $y in $n } return { $x as a, $y as b } }"
        async with await graph.query_stream(query, params={"n": list(range(300))}) as rows:
            sizes = [batch.num_rows async for batch in rows]
            return sum(sizes), len(sizes), rows.row_count

    total, batches, row_count = connected(url, work)

    assert total == row_count == 90_000
    assert batches > 1


def test_errors_are_those_of_the_graph(url: str) -> None:
    async def work(graph: og.AsyncRemoteGraph) -> None:
        await graph.query("match { $p: Persn } return { $p.name }")

    with pytest.raises(og.SourceError, match="Persn"):
        connected(url, work)


def test_many_calls_run_at_once_and_the_loop_stays_free(url: str) -> None:
    async def work(graph: og.AsyncRemoteGraph) -> tuple[int, int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticking = asyncio.create_task(tick())
        answers = await asyncio.gather(*(graph.query(ALL) for _ in range(100)))
        ticking.cancel()
        return len({answer.row_count for answer in answers}), ticks

    kinds, ticks = connected(url, work)

    assert kinds == 1
    assert ticks > 0


def test_a_cancelled_call_ends_on_the_server(process: Process, url: str) -> None:
    async def work(graph: og.AsyncRemoteGraph) -> float:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await graph.query(SLOW, params={"n": list(range(3_000))})
        return time.monotonic() - began

    took = connected(url, work)
    deadline = time.monotonic() + 20
    while "omnigraph_requests_working 0" not in _read_metrics(process) and time.monotonic() < deadline:
        time.sleep(0.1)

    assert took < 20
    assert "omnigraph_requests_working 0" in _read_metrics(process)


def test_a_cancelled_call_does_not_disturb_others(url: str) -> None:
    async def work(graph: og.AsyncRemoteGraph) -> int:
        slow = asyncio.create_task(graph.query(SLOW, params={"n": list(range(3_000))}))
        quick = [asyncio.create_task(graph.query(ALL)) for _ in range(10)]
        await asyncio.sleep(0.2)
        slow.cancel()
        return len(await asyncio.gather(*quick))

    assert connected(url, work) == 10


def test_a_graph_is_found_or_refused_as_by_connect(url: str, tmp_path: Path) -> None:
    async def work() -> None:
        await og.connect_async(url, "og_wrong_token_that_nobody_has_given_to_anyone")

    with pytest.raises(og.OmnigraphError):
        asyncio.run(work())
    assert tmp_path.exists()


def _read_metrics(process: Process) -> str:
    connection = process.connection()
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKENS['admin']}"})
    text = connection.getresponse().read().decode()
    connection.close()
    return text
