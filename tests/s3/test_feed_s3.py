"""Following a branch on S3 while the store fails: what has ended is complete, comes once, and nothing is missing."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

import omnigraph as og
from faulty_proxy import ALWAYS, Act, Fault, FaultyProxy
from feeding import Replica, commits_of, held
from omnigraph.clock import SystemClock
from omnigraph.runtime import Runtime
from s3_server import fresh_uri, s3_server
from worlds import FAST

IMPATIENT = {"client_max_retries": "1", "client_retry_timeout": "2", "timeout": "1s"}
"""Storage options of a client that gives up soon, so that a test needs not wait."""
COMMITS = 4


class Mending(SystemClock):
    """A clock on which the store is well again once somebody has to wait for it."""

    def __init__(self, proxy: FaultyProxy) -> None:
        self.proxy, self.waits = proxy, 0

    def sleep(self, seconds: float) -> None:
        self.waits += 1
        self.proxy.clear()
        super().sleep(min(seconds, 0.02))


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(Act.TRUNCATE, "GET", "/data/", times=ALWAYS), id="rows"),
        pytest.param(Fault(Act.RESET, "GET", "list-type", times=ALWAYS), id="probes"),
        pytest.param(
            Fault(Act.REFUSE, "GET", "/nodes/.*/_versions", times=ALWAYS), id="versions", marks=pytest.mark.soak
        ),
    ],
)
def test_a_store_that_fails_is_outlasted(fault: Fault, server: dict[str, str]) -> None:
    uri = fresh_uri()
    graph = og.create_graph(
        uri, "node P { name: String @key  n: I32? }", runtime=Runtime(options=replace(FAST, storage=server))
    )
    with FaultyProxy(server["aws_endpoint"]) as proxy:
        clock = Mending(proxy)
        storage = {**server, "aws_endpoint": proxy.endpoint, **IMPATIENT}
        followed = og.open_graph(
            uri, read_only=True, runtime=Runtime(options=replace(FAST, storage=storage), clock=clock)
        )
        feed = followed.changes(follow=True, limit=1 + COMMITS)
        for number in range(COMMITS):
            graph.mutate(f'query q() {{ insert P {{ name: "k{number}", n: 1 }} }}')
        proxy.plan(fault)

        replica = Replica()
        for lines in commits_of(_last_tries(feed.blocks())):
            replica.apply(lines)

    assert clock.waits >= 1
    assert replica.contents() == held(graph)
    assert replica.cursor == graph.snapshot().commit.id


def _last_tries(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """As a follower reads: a commit that begins again takes the place of what came of it before."""
    lines: list[bytes] = []
    for block in blocks:
        for line in block.splitlines(keepends=True):
            if b'"begin":' in line:
                lines = []
            lines.append(line)
            if b'"end":' in line:
                yield b"".join(lines)
