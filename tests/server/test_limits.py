"""What is too large, too slow, too much or not understood has its status, and the server goes on."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from omnigraph.commit.commit_queue import get_queue
from omnigraph.config.server import ServerLimits
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.server.admission import Admission
from omnigraph.server.http.app import build_app
from omnigraph.server.http_errors import RequestLimitError, ServerUnavailableError
from raised_codes import has_code
from serving import ADD, ALL, Served, serving
from worlds import rows, seeded_world

LIMITS = ServerLimits(
    body_bytes=4_096,
    load_bytes=8_192,
    body_seconds=0.2,
    send_seconds=0.2,
    query_characters=2_000,
    rows=3,
    answer_bytes=100_000,
    threads=4,
    writes_per_actor=2,
    requests_per_actor=3,
    seconds=5.0,
)
PAIRS = "query pairs() { match { $a: Person $b: Person } return { $a.name, $b.name } }"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found = serving(tmp_path_factory.mktemp("limits"), limits=LIMITS)
    yield found
    found.service.close()


def refusal(served: Served, path: str, **how: Any) -> tuple[int, str]:
    headers = {**served.as_role("admin"), **how.pop("headers", {})}
    response = served.client.post(f"/graphs/people{path}", headers=headers, **how)
    return response.status_code, response.json()["code"]


def is_alive(served: Served) -> bool:
    response = served.client.post("/graphs/people/query", json={"query": ALL}, headers=served.as_role("reader"))
    return response.status_code == 200


# --- bodies ------------------------------------------------------------------------------------------------


async def sent(served: Served, path: str, parts: list[bytes]) -> tuple[int, bytes]:
    """The status and body of the answer to a request whose body comes in these parts, each a message of its own.

    The test client puts all parts of a body into one message.
    """
    path, _, query = path.partition("?")
    headers = {**served.as_role("admin"), "Host": "localhost", "Transfer-Encoding": "chunked"}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": f"/graphs/people{path}",
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "server": ("localhost", 8080),
    }
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages[-1]["more_body"] = False
    answers: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0) if messages else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        answers.append(message)

    await served.client.app(scope, receive, send)
    return answers[0]["status"], b"".join(one.get("body", b"") for one in answers)


@pytest.mark.parametrize("path, size", [("/query", 4_097), ("/mutate", 10_000), ("/load?mode=append", 8_193)])
def test_a_body_that_is_declared_too_long_is_refused(path: str, size: int, served: Served) -> None:
    assert refusal(served, path, content=b" " * size) == (413, "body_too_large")


@pytest.mark.parametrize("path, limit", [("/query", 4_096), ("/load?mode=append", 8_192)])
def test_a_body_that_turns_out_too_long_is_refused(path: str, limit: int, served: Served) -> None:
    status, body = asyncio.run(sent(served, path, [b" " * (limit // 4)] * 4 + [b" "]))

    assert (status, json.loads(body)["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("path, limit, status", [("/query", 4_096, 400), ("/load?mode=append", 8_192, 200)])
def test_a_body_in_parts_may_be_as_long_as_one_in_one(path: str, limit: int, status: int, served: Served) -> None:
    assert asyncio.run(sent(served, path, [b"\n" * (limit // 4)] * 4))[0] == status


def test_a_compressed_body_is_refused(served: Served) -> None:
    assert refusal(served, "/query", content=b"x", headers={"Content-Encoding": "gzip"}) == (400, "bad_request")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe{}",
        b'{"query": "\xff"}',
        b'{"query": "\\ud800"}',
        b'{"query": "a", "query": "b"}',
        b'{"query": "a", "params": {"x": NaN}}',
        b'{"query": "a", "params": {"x": Infinity}}',
        b'{"query": "a", "params": {"x": ' + b"9" * 4_000 + b"}}",
        b'{"query": "a", "params": ' + b'{"a":' * 600,
        b"[" * 4_000,
        b'{"query": 7}',
        b'{"query": null}',
        b'{"query": "a", "params": []}',
        b'{"query": "a", "seconds": "1"}',
    ],
    ids=lambda body: body[:24].decode(errors="replace"),
)
def test_a_body_that_is_no_request_is_a_400(body: bytes, served: Served) -> None:
    assert refusal(served, "/query", content=body)[0] == 400
    assert is_alive(served)


@pytest.mark.parametrize(
    "query", ["", "\0", "query", "query q() { " + "not { " * 300, "(" * 1_900, "query q() { match { $a: Person", "�"]
)
def test_a_text_that_is_no_query_is_a_400(query: str, served: Served) -> None:
    status, _ = refusal(served, "/query", json={"query": query})

    assert status in {400, 404}
    assert is_alive(served)


@pytest.mark.parametrize("path, field", [("/query", "query"), ("/mutate", "query"), ("/schema/plan", "schema")])
def test_a_text_that_nobody_wrote_is_too_large(path: str, field: str, served: Served) -> None:
    assert refusal(served, path, json={field: "x" * 2_001}) == (413, "text_too_large")


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "..", "a//b", "/", "main/..", "a\0b", "__x", "a b", "%2e%2e", "é"]
)
def test_a_branch_has_no_name_that_leads_elsewhere(name: str, served: Served) -> None:
    before = sorted(path.name for path in served.home.iterdir())

    status, code = refusal(served, "/branches", json={"name": name})

    assert (status, code) == (400, "bad_branch_name")
    assert sorted(path.name for path in served.home.iterdir()) == before


@pytest.mark.parametrize("graph", ["..", "%2e%2e", "..%2fpeople", "people%00", "people.omni", "%2fetc%2fpasswd"])
def test_a_graph_is_found_by_its_name_only(graph: str, served: Served) -> None:
    response = served.client.get(f"/graphs/{graph}/snapshot", headers=served.as_role("admin"))

    assert response.status_code in {400, 404}


# --- answers -----------------------------------------------------------------------------------------------


def test_a_document_with_too_many_rows_is_refused_and_a_stream_is_not(served: Served) -> None:
    stream = served.client.post(
        "/graphs/people/query",
        json={"query": PAIRS},
        headers={**served.as_role("admin"), "Accept": "application/x-ndjson"},
    )

    assert refusal(served, "/query", json={"query": PAIRS}) == (413, "answer_too_large")
    assert len(stream.text.splitlines()) == 4


@pytest.mark.parametrize("ask, code", [({"seconds": 1e-9}, "query_timeout"), ({"memory_bytes": 1}, "query_memory")])
def test_a_query_that_needs_more_than_it_may_use_is_a_422(ask: dict[str, Any], code: str, served: Served) -> None:
    assert refusal(served, "/query", json={"query": ALL, **ask}) == (422, code)


def test_nobody_can_ask_for_more_than_the_server_gives(served: Served) -> None:
    budget = served.service.build_read_budget(seconds=1e9, memory_bytes=2**60)

    assert budget.seconds_left <= LIMITS.seconds
    assert budget._memory == LIMITS.memory_bytes


# --- too much at once ----------------------------------------------------------------------------------------


def test_an_actor_has_so_many_writes_at_once(served: Served) -> None:
    admission = served.service.admission
    with admission.admit_write("admin"), admission.admit_write("admin"):
        mine = served.client.post(
            "/graphs/people/mutate", json={"query": ADD, "params": {"n": "W"}}, headers=served.as_role("admin")
        )
        theirs = served.client.post(
            "/graphs/people/mutate", json={"query": ADD, "params": {"n": "V"}}, headers=served.as_role("writer")
        )

    assert (mine.status_code, mine.json()["code"], mine.headers["retry-after"]) == (429, "too_many_requests", "1")
    assert theirs.status_code == 200


def test_an_actor_has_so_many_requests_at_once(served: Served) -> None:
    admission = served.service.admission
    with admission.admit_request("admin"), admission.admit_request("admin"), admission.admit_request("admin"):
        mine = served.client.get("/graphs", headers=served.as_role("admin"))
        theirs = served.client.get("/graphs", headers=served.as_role("reader"))

    assert (mine.status_code, theirs.status_code) == (429, 200)
    assert served.client.get("/graphs", headers=served.as_role("admin")).status_code == 200


@pytest.mark.parametrize("what", ["request", "write"])
def test_an_actor_whose_request_has_ended_gets_one_more_and_not_all(what: str) -> None:
    admission = Admission(LIMITS)
    enter = getattr(admission, f"admit_{what}")
    limit = LIMITS.requests_per_actor if what == "request" else LIMITS.writes_per_actor
    under_way = [enter("admin") for _ in range(limit)]
    for one in under_way:
        one.__enter__()

    under_way.pop().__exit__(None, None, None)

    with enter("admin"), pytest.raises(RequestLimitError, check=has_code("too_many_requests")), enter("admin"):
        pass
    for one in under_way:
        one.__exit__(None, None, None)
    assert admission.in_flight == 0
    admission.close()


def test_an_actor_whose_request_has_ended_has_no_more_threads_than_before() -> None:
    admission = Admission(ServerLimits(threads=4))
    release = threading.Event()

    async def crowd() -> str:
        with admission.admit_request("greedy"):
            with admission.admit_request("greedy"):
                begun = [asyncio.ensure_future(admission.run("greedy", release.wait)) for _ in range(3)]
                await asyncio.sleep(0.05)
            begun += [asyncio.ensure_future(admission.run("greedy", release.wait)) for _ in range(3)]
            await asyncio.sleep(0.05)
            try:
                return await asyncio.wait_for(admission.run("other", lambda: "done"), 5)
            finally:
                release.set()
                await asyncio.gather(*begun)

    assert asyncio.run(crowd()) == "done"
    admission.close()


def test_one_actor_does_not_get_all_threads(served: Served) -> None:
    admission = served.service.admission
    release = threading.Event()

    async def crowd() -> tuple[int, str]:
        greedy = [asyncio.ensure_future(admission.run("greedy", release.wait)) for _ in range(8)]
        await asyncio.sleep(0.05)
        other = await asyncio.wait_for(admission.run("other", lambda: "done"), 60)
        release.set()
        await asyncio.gather(*greedy)
        return admission.working, other

    assert asyncio.run(crowd()) == (0, "done")


def test_those_who_read_do_not_wait_for_those_who_write() -> None:
    admission = Admission(ServerLimits(threads=4))
    release = threading.Event()

    async def crowd() -> str:
        writes = [asyncio.ensure_future(admission.run_write(f"w{number}", release.wait)) for number in range(8)]
        await asyncio.sleep(0.05)
        read = await asyncio.wait_for(admission.run("reader", lambda: "done"), 60)
        release.set()
        await asyncio.gather(*writes)
        return read

    assert asyncio.run(crowd()) == "done"
    admission.close()


def test_a_mutation_that_waits_for_its_commit_leaves_its_place_to_others(tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g")
    admission = Admission(ServerLimits(threads=2))
    queue = get_queue(session.log)

    def insert(number: int) -> str:
        write = TableWrite(table_key="node:A", append=rows({f"n{number}": number}))
        done = write_tables(session, [write], operation="w", actor="x")
        assert done is not None
        return f"{done.commit.manifest_version}"

    async def crowd() -> list[str]:
        with queue.hold():
            begun = [asyncio.ensure_future(admission.run_mutation(partial(insert, number))) for number in range(6)]
            for _ in range(600):
                if len(queue._waiting) == len(begun):
                    break
                await asyncio.sleep(0.05)
        return list(await asyncio.gather(*begun))

    # With one place, each of them would be a group of its own.
    assert len(set(asyncio.run(crowd()))) == 1
    admission.close()


def test_no_more_mutations_are_evaluated_than_there_are_places() -> None:
    admission = Admission(ServerLimits(threads=4))
    running, most = [0], [0]
    lock = threading.Lock()

    def work() -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.02)
        with lock:
            running[0] -= 1

    async def crowd() -> None:
        await asyncio.gather(*(admission.run_mutation(work) for _ in range(12)))

    asyncio.run(crowd())
    assert most[0] == 2
    admission.close()


def test_more_than_may_wait_is_refused() -> None:
    admission = Admission(ServerLimits(threads=1, waiting=1))
    release = threading.Event()

    async def crowd() -> list[bool]:
        begun = [asyncio.ensure_future(admission.run(f"a{number}", release.wait)) for number in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(ServerUnavailableError, check=has_code("server_busy")):
            await admission.run("late", release.wait)
        release.set()
        return list(await asyncio.gather(*begun))

    assert asyncio.run(crowd()) == [True, True]
    admission.close()


def test_a_server_is_saturated_while_its_queue_is_full() -> None:
    admission = Admission(ServerLimits(threads=1, waiting=1))
    release = threading.Event()

    async def crowd() -> None:
        assert not admission.is_saturated
        begun = [asyncio.ensure_future(admission.run(f"a{number}", release.wait)) for number in range(2)]
        await asyncio.sleep(0)
        assert admission.is_saturated
        release.set()
        await asyncio.gather(*begun)
        assert not admission.is_saturated

    asyncio.run(crowd())
    admission.close()


def test_a_server_is_saturated_when_all_threads_are_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.server.admission._STUCK_SECONDS", 0.05)
    admission = Admission(ServerLimits(threads=2, waiting=50))
    release = threading.Event()

    async def crowd() -> None:
        begun = [asyncio.ensure_future(admission.run("first", release.wait))]
        await asyncio.sleep(0.1)
        assert not admission.is_saturated  # the other thread is free
        begun.append(asyncio.ensure_future(admission.run("second", release.wait)))
        await asyncio.sleep(0)
        assert not admission.is_saturated  # only since now
        await asyncio.sleep(0.1)
        assert admission.is_saturated
        release.set()
        await asyncio.gather(*begun)
        assert not admission.is_saturated

    asyncio.run(crowd())
    admission.close()


def test_a_saturated_server_is_not_ready_but_alive(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Admission, "is_saturated", True)
    response = served.client.get("/readyz")
    assert (response.status_code, response.json()["code"]) == (503, "server_busy")
    assert "Retry-After" in response.headers
    assert served.client.get("/healthz").status_code == 200


# --- clients that dawdle ---------------------------------------------------------------------------------------


def exchange(
    served: Served, path: str, receive: Callable[[], Any], send: Callable[[Message], Any], accept: str = "*/*"
) -> None:
    """One request, spoken by hand."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [
            (b"host", b"localhost"),
            (b"accept", accept.encode()),
            (b"authorization", served.as_role("admin")["Authorization"].encode()),
        ],
    }
    asyncio.run(asyncio.wait_for(build_app(served.service)(scope, receive, send), 10))


def test_a_body_that_does_not_come_is_not_waited_for(served: Served) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    exchange(served, "/graphs/people/query", receive, send)

    assert sent[0]["status"] == 408
    assert json.loads(sent[1]["body"])["code"] == "body_too_slow"


def once(body: bytes, *, then_gone: bool) -> Callable[[], Any]:
    given = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Message:
        found = next(given, None)
        if found is None and not then_gone:
            await asyncio.sleep(60)
        return found or {"type": "http.disconnect"}

    return receive


def test_a_client_that_takes_nothing_is_cut_off(served: Served) -> None:
    sent: list[str] = []

    async def send(message: Message) -> None:
        sent.append(message["type"])
        if message["type"] == "http.response.body":
            await asyncio.sleep(60)

    body = json.dumps({"query": ALL}).encode()
    exchange(served, "/graphs/people/query", once(body, then_gone=False), send, "application/x-ndjson")

    assert sent == ["http.response.start", "http.response.body"]
    assert served.service.admission.in_flight == 0
    assert is_alive(served)


def test_a_stream_that_fails_has_no_end(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Message] = []

    def failing(*_: object) -> Iterator[bytes]:
        yield b"one row\n"
        raise ZeroDivisionError

    async def send(message: Message) -> None:
        sent.append(message)

    monkeypatch.setattr("omnigraph.server.http.routes_read.stream_result", failing)
    body = json.dumps({"query": ALL}).encode()
    exchange(served, "/graphs/people/query", once(body, then_gone=False), send, "application/x-ndjson")

    assert [one.get("body") for one in sent] == [None, b"one row\n"]
    assert sent[-1]["more_body"] is True


def test_a_client_that_went_away_cancels_its_query(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = served.service.build_read_budget()
    cancelled = threading.Event()
    monkeypatch.setattr(budget, "cancel", cancelled.set)
    monkeypatch.setattr(served.service, "build_read_budget", lambda *_: budget)
    monkeypatch.setattr("omnigraph.graph.graph.query", lambda *_: cancelled.wait(60) or pytest.fail("it went on"))

    async def send(message: Message) -> None:
        pass

    exchange(served, "/graphs/people/query", once(json.dumps({"query": ALL}).encode(), then_gone=True), send)

    assert cancelled.is_set()


# --- where it is asked -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8080", "", "[::2]"])
def test_on_loopback_only_loopbacks_names_are_answered(host: str, served: Served) -> None:
    response = served.client.get("/healthz", headers={"Host": host})

    assert (response.status_code, response.json()["code"]) == (400, "host_refused")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080", "[::1]"])
def test_loopbacks_names_are_answered(host: str, served: Served) -> None:
    assert served.client.get("/healthz", headers={"Host": host}).status_code == 200


# --- stopping ------------------------------------------------------------------------------------------------------


def test_a_server_that_stops_takes_nothing_new(served: Served) -> None:
    served.service.is_draining = True
    try:
        answers = {path: served.client.get(path, headers=served.as_role("admin")) for path in ("/readyz", "/graphs")}
        health = served.client.get("/healthz")
    finally:
        served.service.is_draining = False

    assert [(one.status_code, one.json()["code"]) for one in answers.values()] == [(503, "server_stopping")] * 2
    assert answers["/graphs"].headers["connection"] == "close"
    assert "retry-after" in answers["/graphs"].headers
    assert health.status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://evil.example:8080", "null", "http://[", "localhost"]
)
def test_a_page_of_another_site_gets_no_answer_through_a_browser(origin: str, served: Served) -> None:
    body = {"query": ALL}

    answer = served.client.post(
        "/graphs/people/query", json=body, headers={**served.as_role("reader"), "Origin": origin}
    )

    assert (answer.status_code, answer.json()["code"]) == (403, "origin_refused")


@pytest.mark.parametrize(
    "origin", ["http://localhost:8081", "http://127.0.0.1:3000", "http://[::1]:8080", "http://localhost"]
)
def test_a_page_of_another_program_of_this_machine_gets_no_answer(origin: str, served: Served) -> None:
    headers = {**served.as_role("reader"), "Origin": origin}

    answer = served.client.post("/graphs/people/query", json={"query": ALL}, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (403, "origin_refused")


@pytest.mark.parametrize("origin", ["http://localhost:8080"])
def test_a_page_of_the_server_itself_gets_an_answer(origin: str, served: Served) -> None:
    headers = {**served.as_role("reader"), "Origin": origin}

    assert served.client.get("/graphs", headers=headers).status_code == 200
