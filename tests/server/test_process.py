"""A real server on loopback: what only sockets, signals and processes can show."""

import json
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from server_process import Process, laid_out, running
from serving import ADD, ALL, TOKENS

LINE = b'{"type":"Person","data":{"name":"%s"}}\n'


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    home = tmp_path_factory.mktemp("process")
    graph = laid_out(home)
    with running(graph, home) as found:
        yield found


def test_a_query_over_a_socket_answers_what_the_graph_answers(process: Process) -> None:
    status, answer = process.ask("POST", "/graphs/people/query", {"query": ALL})

    assert (status, answer) == (200, process.graph.query(ALL).to_json())


def test_a_connection_is_used_again_after_an_error(process: Process) -> None:
    connection = process.connection()
    headers = {"Authorization": f"Bearer {TOKENS['reader']}"}
    found = []
    for body in (b"{", json.dumps({"query": ALL}).encode(), b"nonsense", json.dumps({"query": ALL}).encode()):
        connection.request("POST", "/graphs/people/query", body, headers)
        response = connection.getresponse()
        response.read()
        found.append(response.status)
    connection.close()

    assert found == [400, 200, 400, 200]


def raw(process: Process, request: bytes) -> bytes:
    """What comes back on a socket until it is closed."""
    with socket.create_connection((process.host, process.port), timeout=60) as plug:
        found = b""
        with suppress(OSError):  # it may be cut before all of it was sent
            plug.sendall(request)
            plug.shutdown(socket.SHUT_WR)
            while piece := plug.recv(65_536):
                found += piece
    return found


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
        b"POST /graphs/people/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"POST /graphs/people/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /graphs/people/query HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    ],
    ids=["no HTTP", "a long header", "two lengths", "no length", "no chunk"],
)
def test_what_is_no_request_is_a_4xx_and_the_server_goes_on(request_: bytes, process: Process) -> None:
    answer = raw(process, request_)

    assert not answer or answer.startswith(b"HTTP/1.1 4")
    assert process.ask("GET", "/graphs")[0] == 200


def test_a_stream_that_nobody_reads_keeps_nobody_from_being_answered(process: Process) -> None:
    body = json.dumps({"query": "query q() { match { $a: Person $b: Person $c: Person } return { $a, $b, $c } }"})
    head = (
        "POST /graphs/people/query HTTP/1.1\r\nHost: localhost\r\nAccept: application/x-ndjson\r\n"
        f"Authorization: Bearer {TOKENS['reader']}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    plugs = [socket.create_connection((process.host, process.port), timeout=60) for _ in range(12)]
    for plug in plugs:
        plug.sendall((head + body).encode())

    status, _ = process.ask("POST", "/graphs/people/query", {"query": ALL}, role="reader")

    for plug in plugs:
        plug.close()
    assert status == 200


def test_a_write_that_began_before_the_signal_is_finished_and_nothing_else_is_begun(tmp_path: Path) -> None:
    graph = laid_out(tmp_path)
    with running(graph, tmp_path) as process:
        slow = process.connection()
        slow.putrequest("POST", "/graphs/people/load?mode=append")
        slow.putheader("Authorization", f"Bearer {TOKENS['writer']}")
        slow.putheader("Content-Length", str(len(LINE % b"Slow")))
        slow.endheaders()
        slow.send((LINE % b"Slow")[:10])
        while process.ask("GET", "/graphs")[0] != 200:
            pass
        waiting = process.connection()
        waiting.connect()

        process.popen.send_signal(signal.SIGTERM)
        late = 200
        while late == 200:
            late = process.ask("GET", "/graphs")[0]
        ready = process.ask("GET", "/readyz")
        slow.send((LINE % b"Slow")[10:])
        answer = slow.getresponse()
        commit = json.loads(answer.read())["commit_id"]
        code = process.popen.wait(60)
        waiting.close()
        slow.close()

    assert (late, ready[0], ready[1]["code"]) == (503, 503, "server_stopping")
    assert (answer.status, code) == (200, 0)
    assert graph.snapshot().commit.id == commit


def test_what_was_acknowledged_before_a_kill_is_there(tmp_path: Path) -> None:
    graph = laid_out(tmp_path)
    acknowledged: list[str] = []

    def write(process: Process, worker: int) -> None:
        for number in range(1_000):
            name = f"w{worker}-{number}"
            try:
                status, _ = process.ask("POST", "/graphs/people/mutate", {"query": ADD, "params": {"n": name}})
            except (OSError, ValueError):
                return
            if status == 200:
                acknowledged.append(name)

    with running(graph, tmp_path) as process:
        threads = [threading.Thread(target=write, args=(process, worker)) for worker in range(3)]
        for thread in threads:
            thread.start()
        while len(acknowledged) < 12 and threads[0].is_alive():
            threads[0].join(0.01)
        process.popen.kill()
        for thread in threads:
            thread.join()

    names = [row["p.name"] for row in graph.query(ALL).rows()]
    assert len(acknowledged) >= 12
    assert set(acknowledged) <= set(names)
    assert len(names) == len(set(names)) <= 2 + len(acknowledged) + 3


def test_all_threads_of_a_server_share_one_allocator(process: Process) -> None:
    connection = process.connection()
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKENS['admin']}"})
    text = connection.getresponse().read().decode()
    connection.close()

    found = {line.split()[0]: float(line.split()[1]) for line in text.splitlines() if not line.startswith("#")}
    assert found['omnigraph_arrow_bytes{allocator="system"}'] >= 0
    assert found["omnigraph_resident_bytes"] > 1024 * 1024
    assert found['omnigraph_table_cache_bytes{graph="people"}'] >= 0
