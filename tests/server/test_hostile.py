"""Requests that are meant to bring a server down: each has its status, the server stays up, and its memory returns."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

import omnigraph as og
from server_load import resident_bytes
from server_process import SETTINGS, Process, laid_out, running
from serving import ALL, SCHEMA, TOKENS

MIB = 1024 * 1024
PEOPLE = 1_000
NARROW = SETTINGS.replace("body_seconds = 15", 'body_seconds = 2\nseconds = 4\nmemory_bytes = "64MiB"')
TRIPLES = "query q() { match { $a: Person $b: Person $c: Person } return { $a.name, $b.name, $c.name } }"
"""Of a thousand people, a thousand million rows."""
EXPONENTIAL = (
    "query q() { match { $a: Person $a knows{1,64} $b $b knows{1,64} $c } return { $a.name, $b.name, $c.name } }"
)
BACKTRACKING = SCHEMA.replace("age: I64?", 'age: I64?  @check(name, "^(a+)+(a+)+b$")')


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    home = tmp_path_factory.mktemp("hostile")
    graph = laid_out(home)
    nodes = "".join(f'{{"type":"Person","data":{{"name":"{"a" * 30}{number}"}}}}\n' for number in range(PEOPLE))
    edges = "".join(
        f'{{"edge":"Knows","from":"{"a" * 30}{number}","to":"{"a" * 30}{(number * 7 + step) % PEOPLE}"}}\n'
        for number in range(PEOPLE)
        for step in range(4)
    )
    (home / "many.jsonl").write_text(nodes + edges, encoding="utf-8")
    graph.load(home / "many.jsonl", mode="append")
    (home / "omnigraph.toml").write_text(NARROW, encoding="utf-8")
    with running(graph, home) as found:
        yield found


@pytest.fixture(autouse=True)
def stays_up(process: Process) -> Iterator[None]:
    yield
    assert process.popen.poll() is None
    assert process.ask("POST", "/graphs/people/query", {"query": ALL + " "}, role="reader")[0] == 200
    idle(process)


def idle(process: Process) -> None:
    """Return when nothing is at work any more, which is waited for."""
    while working(process):
        time.sleep(0.05)


def working(process: Process) -> int:
    connection = process.connection()
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKENS['admin']}"})
    text = connection.getresponse().read().decode()
    connection.close()
    (line,) = (line for line in text.splitlines() if line.startswith("omnigraph_requests_working "))
    return int(line.split()[1])


@pytest.mark.parametrize("query", [TRIPLES, EXPONENTIAL], ids=["10^9 rows", "64 hops twice"])
def test_a_query_that_would_need_the_whole_machine_is_refused_or_answered(query: str, process: Process) -> None:
    before = resident_bytes(process)

    status, answer = process.ask("POST", "/graphs/people/query", {"query": query})

    assert (status, answer.get("code")) in {
        (200, None),
        (413, "answer_too_large"),
        (422, "query_memory"),
        (422, "query_timeout"),
    }
    assert resident_bytes(process) - before < 400 * MIB


def test_a_pattern_that_could_be_tried_in_many_ways_is_tried_in_one(process: Process) -> None:
    status, answer = process.ask("POST", "/graphs/people/schema/apply", {"schema": BACKTRACKING})

    assert (status, answer["code"]) == (422, "schema_unfit")


def test_a_stream_of_a_thousand_million_rows_is_refused_or_can_be_left(process: Process) -> None:
    before = resident_bytes(process)
    body = json.dumps({"query": TRIPLES}).encode()
    head = (
        "POST /graphs/people/query HTTP/1.1\r\nHost: localhost\r\nAccept: application/x-ndjson\r\n"
        f"Authorization: Bearer {TOKENS['reader']}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()

    with socket.create_connection((process.host, process.port), timeout=60) as plug:
        plug.sendall(head + body)
        first = plug.recv(65_536)

    assert first.startswith((b"HTTP/1.1 200", b"HTTP/1.1 422", b"HTTP/1.1 413"))
    idle(process)
    assert resident_bytes(process) - before < 400 * MIB


def test_a_request_that_is_left_stops_working(process: Process) -> None:
    body = json.dumps({"query": EXPONENTIAL}).encode()
    head = (
        "POST /graphs/people/query HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {TOKENS['reader']}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    for _ in range(8):
        with socket.create_connection((process.host, process.port), timeout=60) as plug:
            plug.sendall(head + body)

    idle(process)


@pytest.mark.parametrize("size", [100_000, 1_000_000])
@pytest.mark.parametrize(
    "path, field", [("query", "query"), ("mutate", "query"), ("explain", "query"), ("schema/plan", "schema")]
)
def test_a_text_of_a_megabyte_is_too_large(path: str, field: str, size: int, process: Process) -> None:
    status, answer = process.ask("POST", f"/graphs/people/{path}", {field: "query q() { //" + "x" * size})

    assert (status, answer["code"]) in {(413, "text_too_large"), (413, "body_too_large")}


@pytest.mark.parametrize("depth", [200, 20_000])
def test_deep_json_is_a_400(depth: int, process: Process) -> None:
    connection = process.connection()
    body = b'{"query": "x", "params": {"a": ' + b"[" * depth + b"]" * depth + b"}}"
    connection.request("POST", "/graphs/people/query", body, {"Authorization": f"Bearer {TOKENS['admin']}"})
    response = connection.getresponse()
    response.read()
    connection.close()

    assert response.status == 400


@pytest.mark.parametrize("path", ["query", "load?mode=append"])
def test_a_body_that_trickles_is_cut_off(path: str, process: Process) -> None:
    head = (
        f"POST /graphs/people/{path} HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {TOKENS['admin']}\r\nContent-Length: 1000\r\n\r\n"
    ).encode()
    with socket.create_connection((process.host, process.port), timeout=60) as plug:
        plug.sendall(head)
        plug.settimeout(0.2)
        answer = b""
        while not answer:
            plug.sendall(b" ")
            with suppress(TimeoutError):
                answer = plug.recv(65_536)

    assert answer.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "method, path",
    [
        ("DELETE", "/graphs/people/branches/..%2f..%2fpeople.omni"),
        ("DELETE", "/graphs/people/branches/%2e%2e/%2e%2e"),
        ("DELETE", "/graphs/people/tags/..%2f..%2fpeople.omni"),
        ("GET", "/graphs/people/commits/..%2f..%2fpasswd"),
        ("GET", "/graphs/people/commits/%00/changes"),
        ("GET", "/graphs/people/history?type=..%2fx&id=..%2fy"),
        ("GET", "/graphs/people/blob?type=..%2fx&id=%00&property=..%2fz"),
        ("GET", "/graphs/..%2f..%2fetc%2fpasswd/snapshot"),
        ("GET", "/graphs/people/snapshot?branch=..%2f..%2fetc"),
        ("GET", "/graphs/people/diff?before=..%2fx&after=%00"),
        ("POST", "/graphs/people/queries/..%2f..%2ftokens.toml"),
    ],
)
def test_a_name_leads_nowhere_else(method: str, path: str, process: Process) -> None:
    status, answer = process.ask(method, path, {} if method == "POST" else None)

    assert status in {400, 404}
    assert process.graph.uri not in json.dumps(answer)
    assert og.open_graph(process.graph.uri, read_only=True).query(ALL + " ").row_count == PEOPLE + 2
