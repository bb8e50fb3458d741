"""A server as its own process on loopback, for tests."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import omnigraph as og
from secrets_sought import everything_sent, leaks_of_files
from serving import PEOPLE, SCHEMA, TOKENS, write_settings
from worlds import runtime

SETTINGS = """[server]
bind = "127.0.0.1:0"
tokens = "tokens.toml"
policies = "policies"
drain_seconds = 20
workers = 1

[limits]
body_seconds = 15

[graphs.people]
uri = "people.omni"
queries = "queries"
"""


@dataclass
class Process:
    """A server that runs, and where."""

    popen: subprocess.Popen[bytes]
    host: str
    port: int
    graph: og.Graph

    def connection(self) -> HTTPConnection:
        """A new connection to it."""
        return HTTPConnection(self.host, self.port, timeout=30)

    def ask(self, method: str, path: str, body: object = None, *, role: str = "admin") -> tuple[int, Any]:
        """The status and JSON of an answer."""
        connection = self.connection()
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, {"Authorization": f"Bearer {TOKENS[role]}"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()


def laid_out(home: Path) -> og.Graph:
    """A graph of two people, and all that a server of it needs."""
    home.mkdir(parents=True, exist_ok=True)
    graph = og.create_graph(str(home / "people.omni"), SCHEMA, runtime=runtime())
    (home / "people.jsonl").write_bytes(PEOPLE)
    graph.load(home / "people.jsonl", mode="append")
    write_settings(home)
    (home / "omnigraph.toml").write_text(SETTINGS, encoding="utf-8")
    return graph


@contextmanager
def running(graph: og.Graph, home: Path) -> Iterator[Process]:
    """A server of it, which is gone behind the block, and has written nothing that it should not."""
    command = [sys.executable, "-m", "omnigraph", "serve", "--config", str(home / "omnigraph.toml")]
    environment = {**os.environ, "LANCE_LOG": "error", "PYTHONWARNINGS": "error::ResourceWarning"}
    log, printed = home / "server.log", home / "server.out"
    with log.open("w", encoding="utf-8") as errors, printed.open("w", encoding="utf-8") as out:
        popen = subprocess.Popen(command, stdout=out, stderr=errors, env=environment)
    with everything_sent() as sent:
        try:
            address = urlsplit(_serving(popen, log)["address"])
            yield Process(popen=popen, host=address.hostname or "", port=address.port or 0, graph=graph)
        finally:
            popen.kill()
            popen.wait()
    assert leaks_of_files([log, printed], sent) == []
    assert printed.read_text(encoding="utf-8") == ""


def _serving(popen: subprocess.Popen[bytes], log: Path) -> dict[str, str]:
    """The line of the log that says that it serves; it is waited for."""
    while True:
        is_over = popen.poll() is not None
        text = log.read_text(encoding="utf-8")
        for line in text.splitlines():
            if '"serving"' in line:
                found: dict[str, str] = json.loads(line)
                return found
        assert not is_over, text
        time.sleep(0.02)
