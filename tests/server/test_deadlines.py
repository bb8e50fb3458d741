"""Whatever takes longer than a request may is ended, by the same error everywhere, and leaves nothing behind."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from omnigraph.clock import SystemClock
from omnigraph.config.server import ServerLimits
from omnigraph.engine.query_budget import Budget, QueryCancelledError
from omnigraph.options import EmbedOptions, EmbedProvider
from omnigraph.server.http.middleware import _LimitedReceive, build_error_response
from omnigraph.server.http_errors import RequestLimitError
from omnigraph.server.service import Exchange, _cancel_on_disconnect, _check_time
from serving import SCHEMA, Served, serving
from worlds import FAST

WITH_VECTORS = SCHEMA.replace("age: I64?", 'age: I64?  bio: String?  v: Vector(4)? @embed("bio")')


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server at which nothing has any time."""
    options = replace(FAST, embedding=EmbedOptions(provider=EmbedProvider.HASH))
    limits = ServerLimits(threads=2, seconds=1e-9, write_seconds=1e-9)
    found = serving(tmp_path_factory.mktemp("hurried"), limits=limits, options=options)
    found.graph.apply_schema(WITH_VECTORS)
    for number in range(4):
        found.graph.mutate(f'query q() {{ insert Person {{ name: "p{number}", bio: "text {number}" }} }}')
    found.graph.branches.create("side")
    found.graph.mutate('query q() { insert Person { name: "s" } }', branch="side")
    yield found
    found.service.close()


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that gives everything as much time as it needs."""
    options = replace(FAST, embedding=EmbedOptions(provider=EmbedProvider.HASH))
    found = serving(tmp_path_factory.mktemp("patient"), limits=ServerLimits(threads=2), options=options)
    found.graph.apply_schema(WITH_VECTORS)
    found.graph.mutate('query q() { insert Person { name: "p", bio: "text" } }')
    found.graph.branches.create("side")
    found.graph.mutate('query q() { insert Person { name: "s" } }', branch="side")
    yield found
    found.service.close()


def files_of(served: Served) -> set[Path]:
    return {path for path in Path(served.graph.uri).rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "method, path, body",
    [
        ("GET", "/history?type=Person&id=p1", None),
        ("GET", "/commits", None),
        ("GET", "/commits?filter=actor=nobody", None),
        ("GET", "/changes", None),
        ("GET", "/changes?counts=true", None),
        ("GET", "/commits/HEAD/changes", None),
        ("POST", "/check", {}),
        ("POST", "/check", {"quick": True}),
        ("POST", "/repair", {}),
        ("POST", "/repair", {"deep": True}),
        ("POST", "/repair", {"branch": "main"}),
        ("POST", "/optimize", {}),
        ("POST", "/optimize", {"dry_run": True}),
        ("POST", "/cleanup", {"keep": 1, "grace_seconds": 0}),
        ("POST", "/cleanup", {"keep": 1, "grace_seconds": 0, "confirm": True}),
    ],
)
def test_what_takes_too_long_is_ended_and_leaves_nothing(method: str, path: str, body: Any, hurried: Served) -> None:
    head, before = hurried.graph.snapshot().commit.id, files_of(hurried)

    response = hurried.client.request(
        method, f"/graphs/people{path.replace('HEAD', head)}", json=body, headers=hurried.as_role("admin")
    )

    assert (response.status_code, response.json()["code"]) == (422, "request_too_long")
    assert hurried.graph.snapshot().commit.id == head
    assert files_of(hurried) == before


@pytest.mark.parametrize(
    "path, body",
    [
        ("/mutate", {"query": 'query q() { insert Person { name: "Late" } }'}),
        ("/merge", {"source": "side"}),
        ("/schema/apply", {"schema": "node Person { name: String @key }", "allow_drops": True}),
        ("/embed", {"type": "Person"}),
        ("/load?mode=append", {"type": "Person", "data": {"name": "Late"}}),
    ],
)
@pytest.mark.parametrize("where", ["settings", "request"])
def test_a_write_that_takes_too_long_is_ended_as_a_query_is(
    path: str, body: Any, where: str, hurried: Served, patient: Served
) -> None:
    served = hurried if where == "settings" else patient
    limits = {} if where == "settings" else {"seconds": 1e-9}
    head, before = served.graph.snapshot().commit.id, files_of(served)

    if path.startswith("/load"):
        more = "".join(f"&{name}={value}" for name, value in limits.items())
        response = served.client.post(f"/graphs/people{path}{more}", json=body, headers=served.as_role("admin"))
    else:
        response = served.client.post(f"/graphs/people{path}", json=body | limits, headers=served.as_role("admin"))

    assert (response.status_code, response.json()["code"]) == (422, "query_timeout")
    assert served.graph.snapshot().commit.id == head
    assert files_of(served) == before


def test_a_verb_ends_when_nobody_waits_for_it(hurried: Served) -> None:
    budget = Budget(hurried.service.runtime.clock, seconds=60.0)

    _check_time(budget)
    budget.cancel()

    with pytest.raises(QueryCancelledError):
        _check_time(budget)


def test_a_verb_ends_behind_its_time(hurried: Served) -> None:
    budget = Budget(hurried.service.runtime.clock, seconds=0.0)

    with pytest.raises(RequestLimitError, match="0 seconds"):
        _check_time(budget)


def test_somebody_who_goes_away_is_no_failure_of_the_server(hurried: Served, caplog: pytest.LogCaptureFixture) -> None:
    exchange = Exchange(id="1", method="GET", began=0.0)

    build_error_response(QueryCancelledError(), exchange, hurried.service)

    assert exchange.code == "query_cancelled"
    assert "failure" not in [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("turns", range(5))
def test_who_watches_for_a_client_can_always_be_stopped(turns: int) -> None:
    """Also in the very moment in which the rest of a request comes."""

    async def watched() -> bool:
        comes: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

        async def receive() -> Message:
            if comes.done():
                await asyncio.Event().wait()
            message: Message = await comes
            return message

        budget = Budget(SystemClock(), seconds=60.0)
        watcher = asyncio.ensure_future(
            _cancel_on_disconnect(
                _LimitedReceive(receive, 100, 60.0, Exchange(id="1", method="POST", began=0.0)), budget
            )
        )
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        comes.set_result({"type": "http.request", "body": b"", "more_body": False})
        for _ in range(turns):
            await asyncio.sleep(0)
        watcher.cancel()
        done, _ = await asyncio.wait([watcher], timeout=10)
        return bool(done) and watcher.cancelled()

    assert asyncio.run(watched())
