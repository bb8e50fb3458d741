"""A client that sends a body whole before it reads gets to know that the body is too large."""

import json
import socket
from collections.abc import Iterator

import pytest

from server_process import Process, laid_out, running
from serving import TOKENS

CHUNK = b" " * 1_000_000
CHUNKS = 40


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    home = tmp_path_factory.mktemp("large")
    with running(laid_out(home), home) as found:
        yield found


def send_all(process: Process, length: str, chunks: Iterator[bytes]) -> tuple[int, str]:
    """Send a whole body, and only then read the status and the code of the answer, and the end of the connection."""
    head = f"Host: localhost\r\nAuthorization: Bearer {TOKENS['admin']}\r\n{length}\r\n\r\n"
    with socket.create_connection((process.host, process.port), timeout=120) as plug:
        plug.sendall(f"POST /graphs/people/query HTTP/1.1\r\n{head}".encode())
        for chunk in chunks:
            plug.sendall(chunk)
        answer = b""
        while part := plug.recv(65_536):
            answer += part
    headers, _, body = answer.partition(b"\r\n\r\n")
    return int(headers.split()[1]), json.loads(body)["code"]


def test_a_body_of_a_declared_length_is_refused_by_an_answer(process: Process) -> None:
    length = f"Content-Length: {len(CHUNK) * CHUNKS}"

    assert send_all(process, length, (CHUNK for _ in range(CHUNKS))) == (413, "body_too_large")


def test_a_body_without_a_length_is_refused_by_an_answer(process: Process) -> None:
    framed = b"%x\r\n%s\r\n" % (len(CHUNK), CHUNK)
    chunks = iter([*[framed] * CHUNKS, b"0\r\n\r\n"])

    assert send_all(process, "Transfer-Encoding: chunked", chunks) == (413, "body_too_large")


def test_a_client_that_asks_before_it_sends_is_answered_at_once(process: Process) -> None:
    length = f"Content-Length: {len(CHUNK) * CHUNKS}\r\nExpect: 100-continue"

    assert send_all(process, length, iter(())) == (413, "body_too_large")
