"""A server stops in bounded time, whatever runs in it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from server_process import laid_out
from serving import ALL, TOKENS

# A query that ends for no cancellation, and not within any time that a test has.
SERVER = """
import sys, time
from omnigraph.graph import Graph
from omnigraph.server.serve import serve

Graph.query = lambda *args, **kwargs: time.sleep(3_600)
serve(config=sys.argv[1])
"""


def start(home: Path, drain_seconds: int) -> tuple[subprocess.Popen[bytes], socket.socket, Path]:
    """Start a server, and send it a query that does not end."""
    laid_out(home)
    config, log = home / "omnigraph.toml", home / "server.log"
    text = config.read_text(encoding="utf-8").replace("drain_seconds = 20", f"drain_seconds = {drain_seconds}")
    config.write_text(text, encoding="utf-8")
    with log.open("w", encoding="utf-8") as errors:
        popen = subprocess.Popen([sys.executable, "-c", SERVER, str(config)], stderr=errors, env=dict(os.environ))
    while '"serving"' not in (written := log.read_text(encoding="utf-8")):
        assert popen.poll() is None, written
        time.sleep(0.02)
    address = urlsplit(json.loads(written.splitlines()[-1])["address"])
    plug = socket.create_connection((address.hostname, address.port), timeout=60)
    body = json.dumps({"query": ALL})
    head = f"Host: localhost\r\nAuthorization: Bearer {TOKENS['admin']}\r\nContent-Length: {len(body)}\r\n\r\n"
    plug.sendall(f"POST /graphs/people/query HTTP/1.1\r\n{head}{body}".encode())
    with socket.create_connection((address.hostname, address.port), timeout=60) as other:
        # Until the query is in its thread: the second request is answered after the first was admitted.
        while b"omnigraph_requests_working 1" not in read_metrics(other):
            time.sleep(0.02)
    return popen, plug, log


def read_metrics(plug: socket.socket) -> bytes:
    """Ask for the metrics on a connection that stays open."""
    head = f"Host: localhost\r\nAuthorization: Bearer {TOKENS['admin']}\r\n\r\n"
    plug.sendall(f"GET /metrics HTTP/1.1\r\n{head}".encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += plug.recv(65_536)
    headers, _, body = answer.partition(b"\r\n\r\n")
    length = int(headers.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += plug.recv(65_536)
    return body


@pytest.mark.parametrize("signals, drain_seconds", [(1, 1), (2, 3_600), (3, 3_600)], ids=["time out", "two", "three"])
def test_a_query_that_never_ends_does_not_keep_the_server(signals: int, drain_seconds: int, tmp_path: Path) -> None:
    popen, plug, log = start(tmp_path, drain_seconds)
    try:
        for _ in range(signals):
            popen.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        code = popen.wait(120)
    finally:
        popen.kill()
        plug.close()

    last = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
    assert code == 1
    assert (last["event"], last["abandoned"]) == ("stopped", True)
