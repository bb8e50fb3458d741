"""The client sends a request again where that is safe, when the server asks for it, and only so often."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from omnigraph.errors import OmnigraphError
from omnigraph.server.client.http_transport import ServerUnreachableError, Transport
from omnigraph.server.client.remote_graph import RemoteGraph
from raised_codes import has_code

BROKEN = b""
OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"


def refuse(status: int, code: str, retry_after: int = 0) -> bytes:
    """A refusal of a server."""
    body = json.dumps({"error": "no", "code": code, "kind": "unavailable"}).encode()
    # Otherwise the client may send its next request before it sees that this connection is closed.
    head = ["Connection: close", f"Retry-After: {retry_after}", f"Content-Length: {len(body)}", "", ""]
    return f"HTTP/1.1 {status} No\r\n".encode() + "\r\n".join(head).encode() + body


@contextmanager
def scripted(*answers: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server with one answer for each connection, which are closed after it, and the requests that it got."""
    requests: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def work() -> None:
        for answer in answers:
            plug, _ = listener.accept()
            with plug:
                data = plug.recv(65_536)
                head, _, body = data.partition(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or b"0")
                while len(body) < length:
                    body += plug.recv(65_536)
                requests.append(head + b"\r\n\r\n" + body)
                plug.sendall(answer)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
        thread.join(30)
        assert not thread.is_alive()
    finally:
        listener.close()


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between attempts, which take no time."""
    taken: list[float] = []

    class Clock:
        """A clock that does not sleep."""

        def sleep(self, seconds: float) -> None:
            taken.append(seconds)

    monkeypatch.setattr("omnigraph.server.client.retries._CLOCK", Clock())
    return taken


_transports: list[Transport] = []


def connect(url: str, retries: int = 4) -> Transport:
    """A client without a token, which is closed at the end of the test."""
    transport = Transport(url, None, seconds=30, allow_plain_http=False, retries=retries)
    _transports.append(transport)
    return transport


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close all clients of a test."""
    yield
    while _transports:
        _transports.pop().close()


@pytest.mark.parametrize("code, status", [("server_busy", 503), ("server_stopping", 503), ("too_many_requests", 429)])
def test_a_refused_write_is_sent_again_when_the_server_says(code: str, status: int, waits: list[float]) -> None:
    with scripted(refuse(status, code, 3), refuse(status, code, 1), OK) as (url, requests):
        assert connect(url).request_json("POST", "/graphs/g/mutate", {"query": "q"}) == {}
    assert len(requests) == 3
    assert requests[0] == requests[1] == requests[2]
    assert 3 <= waits[0] < 3.2
    assert 1 <= waits[1] < 1.4


def test_it_is_sent_again_only_so_often() -> None:
    with (
        scripted(*[refuse(503, "server_busy")] * 3) as (url, requests),
        pytest.raises(OmnigraphError, check=has_code("server_busy")),
    ):
        connect(url, retries=2).request_json("GET", "/graphs")
    assert len(requests) == 3


@pytest.mark.parametrize(
    "method, is_repeatable, answer",
    [
        ("POST", False, BROKEN),
        ("POST", False, refuse(503, "store_unavailable")),
        ("GET", True, refuse(404, "branch_missing")),
        ("GET", True, refuse(503, "server_busy", 3_600)),
        ("POST", True, refuse(409, "conflict")),
    ],
)
def test_what_may_have_had_an_effect_or_would_fail_again_is_sent_once(
    method: str, is_repeatable: bool, answer: bytes
) -> None:
    with scripted(answer) as (url, requests), pytest.raises(OmnigraphError):
        connect(url).request_json(method, "/x", is_repeatable=is_repeatable)
    assert len(requests) == 1


@pytest.mark.parametrize("answer", [BROKEN, refuse(503, "store_unavailable")])
@pytest.mark.parametrize("method, is_repeatable", [("GET", False), ("POST", True)])
def test_what_has_the_same_effect_twice_is_sent_again(method: str, is_repeatable: bool, answer: bytes) -> None:
    with scripted(answer, OK) as (url, requests):
        assert connect(url).request_json(method, "/x", is_repeatable=is_repeatable) == {}
    assert len(requests) == 2


def test_a_body_that_is_used_up_is_sent_once() -> None:
    with (
        scripted(refuse(503, "server_busy")) as (url, requests),
        pytest.raises(OmnigraphError, check=has_code("server_busy")),
    ):
        connect(url).request_json("POST", "/graphs/g/load", iter([b"{}"]))
    assert len(requests) == 1


def test_a_server_that_is_not_there_is_asked_once(waits: list[float]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ServerUnreachableError):
        connect(f"http://127.0.0.1:{port}").request_json("GET", "/graphs")
    assert waits == []


@pytest.mark.parametrize("key, attempts", [(None, 1), ("k", 2)])
def test_a_mutation_is_sent_again_only_with_its_key(key: Any, attempts: int) -> None:
    with scripted(*[BROKEN] * attempts) as (url, requests), pytest.raises(ServerUnreachableError):
        RemoteGraph(connect(url, retries=1), "g").mutate("query q() { }", idempotency_key=key)
    assert len(requests) == attempts


def test_a_query_is_sent_again() -> None:
    with scripted(*[BROKEN] * 2) as (url, requests), pytest.raises(ServerUnreachableError):
        RemoteGraph(connect(url, retries=1), "g").query("query q { }")
    assert len(requests) == 2


def test_an_aborted_request_ends_at_once_and_is_not_sent_again() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    transport = connect(f"http://127.0.0.1:{listener.getsockname()[1]}")
    errors: list[Exception] = []

    def ask() -> None:
        try:
            transport.request_json("GET", "/x")
        except ServerUnreachableError as error:
            errors.append(error)

    with listener:
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        plug, _ = listener.accept()
        with plug:
            # The server has the request, and is silent.
            assert plug.recv(65_536).startswith(b"GET /x")
            transport.abort()
            thread.join(10)
            assert not thread.is_alive()
        assert len(errors) == 1
        listener.settimeout(0.2)
        with pytest.raises(TimeoutError):
            listener.accept()
