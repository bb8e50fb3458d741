"""What following a branch costs, counted in requests: one to find that nothing is new, and few for each commit."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

import omnigraph as og
from omnigraph.clock import SystemClock
from omnigraph.options import Options
from omnigraph.runtime import Runtime
from s3_server import fresh_uri, s3_server
from worlds import CALM

MOST_FOR_A_COMMIT = 7
"""One-row commits: two versions to open, what the new fragment holds, and the next probe."""


class Ending(SystemClock):
    """A clock on which one can wait a number of times, at once."""

    def __init__(self, waits: int) -> None:
        self.left = waits

    def sleep(self, seconds: float) -> None:
        if seconds >= 1:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt


@pytest.fixture(scope="module")
def s3() -> Iterator[Options]:
    with s3_server() as options:
        yield replace(CALM, storage=options)


@pytest.fixture(scope="module")
def graph(s3: Options) -> og.Graph:
    graph = og.create_graph(fresh_uri(), "node P { name: String @key  n: I32? }", runtime=Runtime(options=s3))
    graph.mutate("query q() { " + " ".join(f'insert P {{ name: "k{number}" }}' for number in range(50)) + " }")
    return graph


def test_looking_for_news_is_one_request(graph: og.Graph, s3: Options) -> None:
    runtime = Runtime(options=s3, clock=Ending(5))
    feed = og.open_graph(graph.uri, runtime=runtime).changes(since=graph.snapshot().commit.id, follow=True)

    with runtime.telemetry.count_requests() as requests, pytest.raises(KeyboardInterrupt):
        next(feed)

    assert requests.count() == 6, requests.format_table()


def test_a_commit_of_one_row_costs_few_requests(graph: og.Graph, s3: Options) -> None:
    since = graph.snapshot().commit.id
    for number in range(4):
        graph.mutate(f'query q() {{ insert P {{ name: "x{number}" }} }}')
        graph.mutate(f'query q() {{ update P set {{ n: 5 }} where name = "k{number}" }}')  # noqa: S608 - no SQL
    runtime = Runtime(options=s3)
    feed = og.open_graph(graph.uri, runtime=runtime).changes(since=since)

    with runtime.telemetry.count_requests() as requests:
        rows = [row["id"] for one in feed for row in one.records()]

    assert len(rows) == 8
    assert requests.count() <= 8 * MOST_FOR_A_COMMIT, requests.format_table()
