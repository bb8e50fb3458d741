"""Requests that another worker answers: two workers of one server, in one process and event loop."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import ASGIApp, Message

from omnigraph.config.server import HostedGraph, ServerConfig, ServerLimits
from omnigraph.engine.query_budget import QueryCancelledError
from omnigraph.graph import Graph
from omnigraph.lang.source import Source
from omnigraph.ops.auto_maintenance import ReconcilePolicy
from omnigraph.runtime import Runtime
from omnigraph.server.fleet import Fleet
from omnigraph.server.http.app import build_app
from omnigraph.server.http.relay_server import RelayServer
from omnigraph.server.http.relaying import AgentWrite, find_agent_write
from omnigraph.server.service import Service
from omnigraph.server.shared_state import SharedState, WorkerState
from serving import ADD, ALL, TOKENS, Served, serving
from worlds import FAST

LIMITS = ServerLimits(threads=4, requests_per_actor=2)
MUTATE, QUERY = "/graphs/people/mutate", "/graphs/people/query"
FRIENDS = "/graphs/people/queries/friends"


@dataclass
class Answer:
    """A response."""

    status_code: int
    headers: dict[str, str]
    text: str

    def json(self) -> Any:
        """Its JSON."""
        return json.loads(self.text)


@dataclass
class Worker:
    """One of the workers."""

    service: Service
    fleet: Fleet
    server: RelayServer
    app: ASGIApp

    async def ask(
        self,
        path: str,
        accept: str = "application/json",
        method: str | None = None,
        query_string: bytes = b"",
        document: dict[str, Any] | None = None,
        role: str = "admin",
        **body: Any,
    ) -> Answer:
        """Send a request, of the admin unless another role is named: by default POST with a body, else GET."""
        headers = {
            "host": "localhost:8080",
            "authorization": f"Bearer {TOKENS[role]}",
            "accept": accept,
            "content-type": "application/json",
        }
        body = document or body
        scope = {
            "type": "http",
            "method": method or ("POST" if body else "GET"),
            "path": path,
            "query_string": query_string,
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1),
        }
        bodies = [json.dumps(body).encode()]
        sent: list[Message] = []

        async def receive() -> Message:
            if bodies:
                return {"type": "http.request", "body": bodies.pop(), "more_body": False}
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Message) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        text = b"".join(message.get("body", b"") for message in sent[1:]).decode()
        given = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], given, text)

    async def die(self) -> None:
        """End like a process that is killed and reaped."""
        await self.server.close()
        self.fleet.slot.reap()


@asynccontextmanager
async def workers(
    home: Path, *, serving_count: int = 2, has_root: bool = False, requests: int = 2
) -> AsyncIterator[list[Worker]]:
    """Two workers; with one that has clients, the other runs long requests."""
    served = serving(home)
    config = build_config(served)
    config = replace(config, limits=replace(config.limits, requests_per_actor=requests))
    if has_root:
        (home / "root").mkdir()
        actions = '[Action::"graph_create", Action::"graph_delete"]'
        policy = f'permit(principal in Group::"admins", action in {actions}, resource);'
        (home / "policies" / "graphs.cedar").write_text(policy, encoding="utf-8")
        config = replace(config, graph_root=str(home / "root"))
    shared = SharedState.create(2)
    made: list[Worker] = []
    for slot in shared.slots:
        fleet = Fleet(shared, slot, home, serving_count)
        service = Service.start(config, Runtime(options=FAST), fleet=fleet)
        app = build_app(service)
        server = RelayServer(app, fleet.find_socket(slot))
        await server.start()
        slot.state = WorkerState.READY
        made.append(Worker(service, fleet, server, app))
    try:
        yield made
    finally:
        for worker in made:
            worker.app._app._app.state.relay.close()  # type: ignore[attr-defined]  # the application inside
        for worker in made:
            await worker.server.close()
            worker.service.close()
        served.service.close()
        # Transports are closed in the next turn of the loop.
        await asyncio.sleep(0.01)


def build_config(served: Served) -> ServerConfig:
    home = served.home
    graphs = (HostedGraph(id="people", uri=served.graph.uri, queries=home / "queries"),)
    config = ServerConfig(graphs=graphs, tokens_file=home / "tokens.toml", policies=home / "policies", scrub_days=0)
    return replace(config, limits=LIMITS)


def run(home: Path, scenario: Callable[[list[Worker]], Any], **settings: Any) -> None:
    async def play() -> None:
        async with workers(home, **settings) as made:
            await scenario(made)

    asyncio.run(play())


def build_call(name: str, **arguments: Any) -> dict[str, Any]:
    """The arguments of a request by which an agent calls a tool."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    return {"accept": "application/json, text/event-stream", "document": call}


def count_commits(worker: Worker) -> int:
    return sum(value for _, value in worker.service.metrics._counters["omnigraph_commits_total"].items())  # type: ignore[misc]


def test_a_mutation_is_run_by_the_worker_that_the_parent_names(tmp_path: Path) -> None:
    async def scenario(made: list[Worker]) -> None:
        first, second = made
        second.fleet.slot.is_named = 1

        relayed = await first.ask(MUTATE, query=ADD, params={"n": "Eve"})
        refused = await first.ask(MUTATE, query=ADD.replace("Person", "Persn"), params={"n": "Eve"})
        stored = await first.ask("/graphs/people/queries/rename_age", params={"n": "Eve", "a": 3})
        read = await first.ask(QUERY, query=ALL, min_commit=stored.json()["commit_id"])

        assert relayed.status_code == 200, relayed.text
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_source")
        assert refused.json()["request_id"] == refused.headers["x-request-id"]
        assert [row["p.age"] for row in read.json()["rows"] if row["p.name"] == "Eve"] == [3]
        assert (count_commits(first), count_commits(second)) == (0, 2)

    run(tmp_path, scenario)


def test_a_worker_that_is_gone_before_it_is_asked_costs_nothing(tmp_path: Path) -> None:
    async def scenario(made: list[Worker]) -> None:
        first, second = made
        second.fleet.slot.is_named = 1
        await second.server.close()

        done = await first.ask(MUTATE, query=ADD, params={"n": "Eve"})

        assert done.status_code == 200
        assert count_commits(first) == 1

    run(tmp_path, scenario)


async def die_during(
    asking: Coroutine[Any, Any, Answer], owner: Worker, monkeypatch: pytest.MonkeyPatch, *, is_published: bool
) -> Answer:
    """The answer to a mutation whose worker dies in the middle of it, before or after its commit."""
    mutate = Graph.mutate
    reached, go_on = threading.Event(), threading.Event()
    runs: list[None] = []

    def stuck(graph: Graph, *arguments: Any, **named: Any) -> object:
        runs.append(None)
        if len(runs) > 1:
            return mutate(graph, *arguments, **named)
        done = mutate(graph, *arguments, **named) if is_published else None
        reached.set()
        go_on.wait(60)
        return done or mutate(graph, *arguments, **{**named, "dry_run": True})

    monkeypatch.setattr(Graph, "mutate", stuck)
    task = asyncio.ensure_future(asking)
    await asyncio.to_thread(reached.wait, 60)
    await owner.die()
    answer = await task
    go_on.set()
    return answer


@pytest.mark.parametrize("key", [None, "k1"])
@pytest.mark.parametrize("is_published", [False, True], ids=["before the commit", "after it"])
def test_a_worker_that_dies_leaves_no_doubt(
    key: str | None, is_published: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(made: list[Worker]) -> None:
        first, second = made
        second.fleet.slot.is_named = 1
        asking = first.ask(MUTATE, query=ADD, params={"n": "Eve"}, idempotency_key=key)
        answer = await die_during(asking, second, monkeypatch, is_published=is_published)

        rows = (await first.ask(QUERY, query=ALL)).json()["rows"]
        if key is None and not is_published:
            assert (answer.status_code, answer.json()["code"]) == (503, "write_lost")
        else:
            assert answer.status_code == 200, answer.text
            assert answer.json()["affected_nodes"] == 1
        assert sum(row["p.name"] == "Eve" for row in rows) == int(is_published or key is not None)

    run(tmp_path, scenario)


@pytest.mark.parametrize("key", [None, "k1"])
@pytest.mark.parametrize("is_published", [False, True], ids=["before the commit", "after it"])
def test_an_agent_is_told_what_became_of_a_write_whose_worker_died(
    key: str | None, is_published: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mcp")

    async def scenario(made: list[Worker]) -> None:
        first, second = made
        second.fleet.slot.is_named = 1
        call = build_call("graph_mutate", query=ADD, params={"n": "Eve"}, branch="main", idempotency_key=key)
        answer = await die_during(first.ask("/mcp/people", **call), second, monkeypatch, is_published=is_published)

        commits = (await first.ask("/graphs/people/commits")).json()["commits"]
        rows = (await first.ask(QUERY, query=ALL)).json()["rows"]
        assert sum(row["p.name"] == "Eve" for row in rows) == int(is_published or key is not None)
        if is_published:
            result = answer.json()["result"]
            assert not result.get("isError")
            assert result["structuredContent"]["commit_id"] == commits[0]["id"]
            assert result["structuredContent"]["affected_nodes"] == 1
        elif key is not None:
            assert answer.json()["result"]["structuredContent"]["affected_nodes"] == 1
        else:
            assert (answer.status_code, answer.json()["code"]) == (503, "write_lost")

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "name, arguments, expected",
    [
        ("graph_mutate", {"branch": "b", "idempotency_key": "k"}, AgentWrite("b", has_key=True)),
        ("graph_mutate", {"branch": "b", "idempotency_key": None}, AgentWrite("b", has_key=False)),
        ("plain", {"branch": "b", "idempotency_key": "k"}, AgentWrite("b", has_key=True)),
        # Its own parameters: such a query writes to main, and has no key.
        ("hiding", {"branch": "b", "idempotency_key": "k"}, AgentWrite("main", has_key=False)),
        ("graph_query", {"branch": "b"}, None),
        ("graph_mutate", {"branch": 3}, None),
    ],
)
def test_the_branch_of_an_agents_write_is_an_argument_that_no_parameter_hides(
    name: str, arguments: dict[str, object], expected: AgentWrite | None
) -> None:
    hidden = [SimpleNamespace(name="branch"), SimpleNamespace(name="idempotency_key")]
    stored = {
        "plain": SimpleNamespace(is_mutation=True, params=[]),
        "hiding": SimpleNamespace(is_mutation=True, params=hidden),
    }
    hosted: Any = SimpleNamespace(stored_queries=stored)

    assert find_agent_write(hosted, json.dumps(build_call(name, **arguments)["document"]).encode()) == expected


def test_a_process_that_nobody_saw_end_leaves_the_outcome_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.server.fleet._REAP_SECONDS", 0.05)
    reached, go_on = threading.Event(), threading.Event()

    def wait(*_: object, **__: object) -> None:
        reached.set()
        go_on.wait(60)

    monkeypatch.setattr(Graph, "mutate", wait)

    async def scenario(made: list[Worker]) -> None:
        first, second = made
        second.fleet.slot.is_named = 1
        asking = asyncio.ensure_future(first.ask(MUTATE, query=ADD, params={"n": "Eve"}))
        await asyncio.to_thread(reached.wait, 60)
        await second.server.close()
        answer = await asking
        go_on.set()

        assert (answer.status_code, answer.json()["code"]) == (503, "outcome_unknown")
        assert len(answer.json()["commit_id"]) == 26

    run(tmp_path, scenario)


def test_one_worker_maintains_recovers_and_verifies_the_graphs(tmp_path: Path) -> None:
    served = serving(tmp_path)
    config = replace(build_config(served), scrub_days=30, maintenance=ReconcilePolicy())
    shared = SharedState.create(2)
    services = [
        Service.start(config, Runtime(options=FAST), fleet=Fleet(shared, slot, tmp_path, 2)) for slot in shared.slots
    ]

    found = [(service.maintenance_worker, service.healer, service.scrubber) for service in services]
    for service in (*services, served.service):
        service.close()

    assert [[each is not None for each in threads] for threads in found] == [[True] * 3, [False] * 3]


def test_followers_of_all_workers_share_one_poll(tmp_path: Path) -> None:
    async def scenario(made: list[Worker]) -> None:
        first, second = made
        second.fleet.slot.is_named = 1
        head = (await first.ask("/graphs/people/commits")).json()["commits"][0]["id"]
        query = f"since={head}&wait=60&counts=true".encode()
        waits = [
            asyncio.ensure_future(worker.ask("/graphs/people/changes", query_string=query))
            for worker in (first, second, first)
        ]
        while sum(watch.waiting for watch in second.service.watchers._watches.values()) < len(waits):  # noqa: ASYNC110 - nothing tells when a request waits
            await asyncio.sleep(0.01)
        polled = [worker.service.watchers.count for worker in made]
        await first.ask(MUTATE, query=ADD, params={"n": "Eve"})
        answers = await asyncio.gather(*waits)

        assert polled == [0, 1]
        assert [len(answer.json()["changes"]) for answer in answers] == [1, 1, 1]

    run(tmp_path, scenario, requests=10)


def test_a_follower_goes_on_where_the_worker_that_polls_ends(tmp_path: Path) -> None:
    async def scenario(made: list[Worker]) -> None:
        first, second = made
        second.fleet.slot.is_named = 1
        head = (await first.ask("/graphs/people/commits")).json()["commits"][0]["id"]
        query = f"since={head}&wait=60&counts=true".encode()
        waiting = asyncio.ensure_future(first.ask("/graphs/people/changes", query_string=query))
        while not second.service.watchers.count:  # noqa: ASYNC110 - nothing tells when a request waits
            await asyncio.sleep(0.01)
        await second.die()
        await first.ask(MUTATE, query=ADD, params={"n": "Eve"})

        assert len((await waiting).json()["changes"]) == 1

    run(tmp_path, scenario, requests=10)


def test_limits_of_an_actor_are_those_of_the_whole_server(tmp_path: Path) -> None:
    async def scenario(made: list[Worker]) -> None:
        first, second = made
        admin = "admin"
        with first.service.admission.admit_request(admin), second.service.admission.admit_request(admin):
            refused = await first.ask(QUERY, query=ALL)
        accepted = await first.ask(QUERY, query=ALL)

        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
        assert accepted.status_code == 200

    run(tmp_path, scenario)


def test_a_long_query_is_run_elsewhere_and_known_from_then_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.server.service.LONG_SECONDS", 0.01)
    query = Graph.query
    began: list[str] = []

    def slow(graph: Graph, *arguments: Any, budget: Any, **named: Any) -> object:
        began.append(threading.current_thread().name)
        if len(began) == 1:
            while True:
                budget.check()
                time.sleep(0.005)
        return query(graph, *arguments, budget=budget, **named)

    async def scenario(made: list[Worker]) -> None:
        first, second = made
        monkeypatch.setattr(Graph, "query", slow)

        answers = [await first.ask(QUERY, query=ALL) for _ in range(2)]
        stream = await first.ask(QUERY, "application/x-ndjson", query=ALL)

        assert [answer.status_code for answer in answers] == [200, 200]
        # Once here, and cancelled; then three times in the worker for long requests.
        assert len(began) == 4
        assert [len(answer.json()["rows"]) for answer in answers] == [2, 2]
        assert len(stream.text.splitlines()) == 2
        assert stream.headers["omnigraph-rows"] == "2"
        await second.die()
        assert (await first.ask(QUERY, query=ALL)).status_code == 200

    run(tmp_path, scenario, serving_count=1)


def test_long_queries_of_one_actor_take_no_place_of_the_reads_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries that do not end have their places elsewhere, and no read waits for one of them."""
    monkeypatch.setattr("omnigraph.server.service.LONG_SECONDS", 0.01)
    monkeypatch.setattr("omnigraph.server.fleet._FIRST_KNOWN_SECONDS", 1_000.0)
    query = Graph.query
    release = threading.Event()
    held: list[threading.Thread] = []

    def hold(graph: Graph, source: Source, *arguments: Any, budget: Any, **named: Any) -> object:
        if source.text.endswith("// slow"):
            held.append(threading.current_thread())
            try:
                while not release.is_set():
                    budget.check()
                    time.sleep(0.005)
            finally:
                held.remove(threading.current_thread())
        return query(graph, source, *arguments, budget=budget, **named)

    async def scenario(made: list[Worker]) -> None:
        asked, long = made
        monkeypatch.setattr(Graph, "query", hold)

        async def hold_until(elsewhere: int, running: int) -> None:
            """Wait until the other worker has that many, of which some run, and this one none."""
            expected = (0, elsewhere, running)
            for _ in range(20_000):
                if (asked.service.admission.working, long.service.admission.working, len(held)) == expected:
                    return
                await asyncio.sleep(0.01)
            raise AssertionError(expected)

        slow = [asyncio.ensure_future(asked.ask(QUERY, query=f"{ALL} // slow"))]
        await hold_until(1, 1)
        # Known from then on; and a busy machine must not make a read of the others long.
        monkeypatch.setattr("omnigraph.server.service.LONG_SECONDS", 1_000.0)
        slow += [asyncio.ensure_future(asked.ask(QUERY, query=f"{ALL} // slow")) for _ in range(3)]
        # Three quarters of the threads are for one actor; the fourth query waits for its own actor's.
        await hold_until(4, 3)
        reads = [await asked.ask(FRIENDS, role="reader", params={"n": "Ada"}) for _ in range(20)]
        refused = await asked.ask(QUERY, query=f"{ALL} // slow")
        await hold_until(4, 3)
        other = asyncio.ensure_future(asked.ask(QUERY, role="reader", query=f"{ALL} // slow"))
        await hold_until(5, 4)
        more = await asked.ask(FRIENDS, role="writer", params={"n": "Ada"})
        are_held = not any(task.done() for task in (*slow, other))
        release.set()
        answers = [await task for task in (*slow, other)]

        assert [answer.status_code for answer in (*reads, more)] == [200] * 21
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
        assert are_held
        assert [answer.status_code for answer in answers] == [200] * 5

    run(tmp_path, scenario, serving_count=1, requests=4)


def test_metrics_are_those_of_every_worker_that_answers(tmp_path: Path) -> None:
    async def scenario(made: list[Worker]) -> None:
        first, second = made
        second.fleet.slot.is_named = 1
        await first.ask(MUTATE, query=ADD, params={"n": "Eve"})

        text = (await first.ask("/metrics")).text
        await second.die()
        alone = (await first.ask("/metrics")).text

        lines = text.splitlines()
        assert 'omnigraph_commits_total{worker="1",graph="people",operation="mutate"} 1' in lines
        assert 'omnigraph_draining{worker="0"} 0' in lines
        assert "omnigraph_workers 2" in lines
        described = [line.split()[2] for line in lines if line.startswith("# TYPE")]
        assert len(described) == len(set(described))
        assert "omnigraph_workers 1" in alone.splitlines()
        assert 'worker="1"' not in alone

    run(tmp_path, scenario)


def test_readiness_is_that_of_the_whole_server(tmp_path: Path) -> None:
    async def scenario(made: list[Worker]) -> None:
        first, second = made
        first.service.admission._pending = 10_000
        first.fleet.slot.is_saturated = 1
        one = (await first.ask("/readyz")).status_code
        second.fleet.slot.is_saturated = 1
        both = (await first.ask("/readyz")).status_code
        first.service.admission._pending = 0

        assert (one, both) == (200, 503)

    run(tmp_path, scenario)


def test_a_request_is_listed_and_cancelled_through_any_worker(tmp_path: Path) -> None:
    async def scenario(made: list[Worker]) -> None:
        first, second = made
        budget = second.service.build_read_budget()
        with second.service.running.track("people", "admin", "q1", "query", budget):
            listed = await first.ask("/graphs/people/running")
            other = await first.ask("/graphs/people/running/q2", method="DELETE")
            cancelled = await first.ask("/graphs/people/running/q1", method="DELETE")

        assert [each["query_id"] for each in listed.json()["running"]] == ["q1"]
        assert not other.json()["cancelled"]
        assert cancelled.json() == {"query_id": "q1", "cancelled": True}
        with pytest.raises(QueryCancelledError):
            budget.check()

    run(tmp_path, scenario)


def test_a_write_of_an_agent_is_run_by_the_worker_that_the_parent_names(tmp_path: Path) -> None:
    pytest.importorskip("mcp")

    async def scenario(made: list[Worker]) -> None:
        first, second = made
        second.fleet.slot.is_named = 1

        added = await first.ask(
            "/mcp/people", **build_call("graph_mutate", query=ADD, params={"n": "Eve"}, branch="main")
        )
        stored = await first.ask("/mcp/people", **build_call("rename_age", n="Eve", a=3, branch="main"))
        read = await first.ask("/mcp/people", **build_call("graph_query", query=ALL, branch="main", limit=5))

        assert [answer.status_code for answer in (added, stored, read)] == [200, 200, 200], added.text
        assert "Eve" in read.text
        assert (count_commits(first), count_commits(second)) == (0, 2)

        # Gone before it is asked: the worker that was asked does it.
        await second.die()
        second.fleet.slot.is_named = 1
        answer = await first.ask(
            "/mcp/people", **build_call("graph_mutate", query=ADD, params={"n": "Fay"}, branch="main")
        )
        assert answer.status_code == 200, answer.text
        assert count_commits(first) == 1

    run(tmp_path, scenario)


def test_a_graph_that_is_created_or_deleted_is_known_to_all_workers_at_once(tmp_path: Path) -> None:
    async def scenario(made: list[Worker]) -> None:
        first, second = made

        created = await first.ask("/graphs", graph="own", schema="node Thing { name: String @key }\n")
        seen = "own" in second.service.registry.graphs
        deleted = await second.ask("/graphs/own", method="DELETE", query_string=b"confirm=true")

        assert created.status_code == 201, created.text
        assert seen
        assert deleted.status_code == 200, deleted.text
        assert "own" not in first.service.registry.graphs

    run(tmp_path, scenario, has_root=True)
