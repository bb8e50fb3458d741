"""Measure a served point read: requests per second, CPU time of the server, latency at 1, 8 and 64 connections.

The peers are FastAPI alone, FastAPI with DuckDB, and FastAPI with LadybugDB, in the same run and with the same rows.
They have no tokens, policies or log, which omnigraph has. All are asked for one row by its key, over kept connections,
by a load generator of our own that takes some 0.03 ms for a request: a client library would be what is measured. Where
the cores are shared with other work, compare CPU times and the lines of one run.

omnigraph is measured with one worker and with one for each core (`--workers`); CPU times are those of all of its
processes. `--slow` repeats the measurement while another client asks a query that takes long, again and again.

`--seconds` is the time of each measurement, `--quick` makes it one second, `--no-peers` leaves the peers out.
"""

import argparse
import importlib.util
import json
import os
import random
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

import omnigraph as og
from omnigraph.config.tokens import format_token_entry

CONNECTIONS = (1, 8, 64)
SECONDS = 4.0
QUICK_SECONDS = 1.0
WARM_SECONDS = 0.5
ROWS = 10_000
KEYS = 256
TOKEN = f"og_bench_{'x' * 40}"
SETTINGS = """[server]
bind = "127.0.0.1:0"
workers = %d
tokens = "tokens.toml"
policies = "policies"

[graphs.bench]
uri = "graph"
queries = "queries"
"""
QUERY = "query person($name: String) { match { $p: Person { name: $name } } return { $p.name, $p.age } }\n"
SLOW_QUERY = """query slow() {
  match { $a: Person $b: Person $a.age < 300 $a.name + $b.name contains "nobody" } return { $a.name } }"""
# The peers read one row by its key and answer with the same columns.
PEERS = {
    "FastAPI": "",
    "FastAPI + DuckDB": """
import duckdb, threading
connection, local = duckdb.connect(home + "/rows.duckdb", read_only=True), threading.local()
def read(name):
    if not hasattr(local, "cursor"):
        local.cursor = connection.cursor()
    return local.cursor.execute("select name, age from Person where name = ?", [name]).fetchone()
""",
    "FastAPI + LadybugDB": """
import ladybug, threading
database, local = ladybug.Database(home + "/rows.ladybug", read_only=True), threading.local()
def read(name):
    if not hasattr(local, "connection"):
        local.connection = ladybug.Connection(database)
        local.statement = local.connection.prepare("match (p:Person {name: $name}) return p.name, p.age")
    return local.connection.execute(local.statement, {"name": name}).get_next()
""",
}
PEER = """
import sys
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
home, port = sys.argv[1], int(sys.argv[2])
read = lambda name: (name, 1)
%s
app = FastAPI()
class Body(BaseModel):
    params: dict[str, str]
@app.post("/person")
%sdef person(body: Body):
    name, age = read(body.params["name"])
    return {"rows": [{"p.name": name, "p.age": age}]}
uvicorn.run(app, host="127.0.0.1", port=port, access_log=False, log_level="error")
"""


@dataclass(frozen=True)
class Target:
    """A running server, and the requests that it is sent."""

    name: str
    port: int
    process: int
    requests: tuple[bytes, ...]

    def read_cpu(self) -> float:
        """Return the CPU seconds of the server so far."""
        children = Path(f"/proc/{self.process}/task/{self.process}/children").read_text(encoding="ascii")
        ticks = 0
        for process in (self.process, *map(int, children.split())):
            # The program's name, in parentheses, may have spaces. User and system time are 12th and 13th after it.
            fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Load:
    """What a number of connections achieved."""

    requests: int
    seconds: float
    server_cpu: float
    client_cpu: float
    latencies: list[float]

    def describe(self) -> str:
        """Return the figures as a line."""
        if len(self.latencies) < 2:
            return "no answers"
        cuts = statistics.quantiles(self.latencies, n=100)
        return (
            f"{self.requests / self.seconds:7.0f}/s  server {self.server_cpu / self.requests * 1e3:5.2f} ms  "
            f"client {self.client_cpu / self.requests * 1e3:5.3f} ms  "
            f"p50 {cuts[49] * 1e3:6.2f} ms  p99 {cuts[98] * 1e3:6.2f} ms"
        )


def measure(target: Target, connections: int, seconds: float) -> Load:
    """Keep a number of connections busy, each with one request at a time."""
    selector = selectors.DefaultSelector()
    plugs = [socket.create_connection(("127.0.0.1", target.port), timeout=30) for _ in range(connections)]
    for plug in plugs:
        plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(plug, selectors.EVENT_READ, plug)
    began_at: dict[socket.socket, float] = {}
    choose = random.Random(7).choice  # noqa: S311 - the same keys in each run
    for plug in plugs:
        began_at[plug] = time.perf_counter()
        plug.sendall(choose(target.requests))
    latencies: list[float] = []
    server_cpu, client_cpu, started = target.read_cpu(), time.process_time(), time.perf_counter()
    end = started + seconds
    now = started
    while now < end:
        for key, _ in selector.select():
            answered: socket.socket = key.data
            receive_answer(answered)
            now = time.perf_counter()
            latencies.append(now - began_at[answered])
            began_at[answered] = now
            answered.sendall(choose(target.requests))
    load = Load(
        len(latencies),
        now - started,
        target.read_cpu() - server_cpu,
        time.process_time() - client_cpu,
        latencies,
    )
    for plug in plugs:
        receive_answer(plug)
        plug.close()
    return load


def receive_answer(plug: socket.socket) -> None:
    """Receive one answer, and check that it succeeded."""
    data = plug.recv(65_536)
    while (end := data.find(b"\r\n\r\n")) < 0:
        data += plug.recv(65_536)
    assert data.startswith(b"HTTP/1.1 200"), data  # noqa: S101 - anything else is no measurement
    at = data.lower().find(b"content-length: ") + 16
    missing = end + 4 + int(data[at : data.find(b"\r", at)]) - len(data)
    while missing > 0:
        missing -= len(plug.recv(65_536))


def build_requests(path: str) -> tuple[bytes, ...]:
    """Return requests for some keys."""
    requests = []
    for number in random.Random(3).sample(range(ROWS), KEYS):  # noqa: S311 - the same keys in each run
        body = json.dumps({"params": {"name": f"person-{number}"}})
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        requests.append(f"{head}Authorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    return tuple(requests)


def write_data(home: Path) -> None:
    """Write the same rows as a graph and for the peers."""
    graph = og.create_graph(str(home / "graph"), "node Person { name: String @key  age: I64 }\n")
    lines = (json.dumps({"type": "Person", "data": {"name": f"person-{n}", "age": n}}) for n in range(ROWS))
    (home / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    graph.load(home / "rows.jsonl", mode="append")
    graph.optimize()
    (home / "queries").mkdir()
    (home / "queries" / "reads.gq").write_text(QUERY, encoding="utf-8")
    (home / "policies").mkdir()
    policy = 'permit(principal in Group::"readers", action, resource);'
    (home / "policies" / "all.cedar").write_text(policy, encoding="utf-8")
    tokens = home / "tokens.toml"
    tokens.write_text(format_token_entry(TOKEN, "bench", ("readers",)), encoding="utf-8")
    tokens.chmod(0o600)
    rows = f"select 'person-' || n as name, n as age from range({ROWS}) t(n)"
    with duckdb.connect(str(home / "rows.duckdb")) as peer:
        peer.execute("create table Person(name varchar primary key, age bigint)")
        peer.execute(f"insert into Person {rows}")
    if importlib.util.find_spec("ladybug") is not None:
        import ladybug

        connection = ladybug.Connection(ladybug.Database(str(home / "rows.ladybug")))
        connection.execute("create node table Person(name string, age int64, primary key (name))")
        with duckdb.connect() as peer:
            peer.execute(f"copy ({rows}) to '{home}/rows.csv' (header false)")
        connection.execute(f'copy Person from "{home}/rows.csv" (header=false)')
        connection.close()


@contextmanager
def serve(home: Path, workers: int) -> Iterator[Target]:
    """Run omnigraph."""
    config = home / "omnigraph.toml"
    config.write_text(SETTINGS % workers, encoding="utf-8")
    log = home / "server.log"
    with log.open("w", encoding="utf-8") as errors:
        popen = subprocess.Popen(
            [sys.executable, "-m", "omnigraph", "serve", "--config", str(config)], stderr=errors, cwd=home
        )
    try:
        while '"serving"' not in (text := log.read_text(encoding="utf-8")):
            assert popen.poll() is None, text  # noqa: S101 - there is nothing to measure
            time.sleep(0.05)
        line = next(line for line in text.splitlines() if '"serving"' in line)
        port = int(json.loads(line)["address"].rpartition(":")[2])
        name = "omnigraph" if workers == 1 else f"omnigraph, {workers} workers"
        yield Target(name, port, popen.pid, build_requests("/graphs/bench/queries/person"))
    finally:
        popen.terminate()
        popen.wait()


@contextmanager
def ask_slowly(target: Target) -> Iterator[None]:
    """Keep one connection asking a query that takes long; the first answer is waited for."""
    body = json.dumps({"query": SLOW_QUERY})
    head = f"POST /graphs/bench/query HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()
    is_over, is_answered = threading.Event(), threading.Event()

    def ask() -> None:
        with socket.create_connection(("127.0.0.1", target.port), timeout=60) as plug:
            while not is_over.is_set():
                plug.sendall(request)
                receive_answer(plug)
                is_answered.set()

    thread = threading.Thread(target=ask)
    thread.start()
    is_answered.wait()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@contextmanager
def serve_peer(name: str, home: Path) -> Iterator[Target]:
    """Run a peer."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # FastAPI runs plain functions in threads, as a database needs; a constant answer needs none.
    code = PEER % (PEERS[name], "" if PEERS[name] else "async ")
    popen = subprocess.Popen([sys.executable, "-c", code, str(home), str(port)])
    try:
        while True:
            assert popen.poll() is None, name  # noqa: S101 - there is nothing to measure
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield Target(name, port, popen.pid, build_requests("/person"))
    finally:
        popen.terminate()
        popen.wait()


def main() -> None:
    """Measure all servers and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--workers", type=int, nargs="+", default=sorted({1, len(os.sched_getaffinity(0))}))
    options = parser.parse_args()
    seconds = QUICK_SECONDS if options.quick else options.seconds
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as directory:
        home = Path(directory)
        write_data(home)
        servers = [serve(home, workers) for workers in options.workers]
        if not options.no_peers:
            has_ladybug = importlib.util.find_spec("ladybug") is not None
            servers += [serve_peer(name, home) for name in PEERS if has_ladybug or "Ladybug" not in name]
        for server in servers:
            with server as target:
                measure(target, 8, WARM_SECONDS)
                for connections in CONNECTIONS:
                    load = measure(target, connections, seconds)
                    print(f"{target.name:22} {connections:3} connections  {load.describe()}", flush=True)
                if options.slow and target.name.startswith("omnigraph"):
                    with ask_slowly(target):
                        load = measure(target, 8, seconds)
                    print(f"{target.name:22}   8 beside a slow query  {load.describe()}", flush=True)


if __name__ == "__main__":
    main()
