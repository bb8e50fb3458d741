"""A server with several workers, of which some are killed, stopped or kept busy while many clients write and read."""

import json
import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.config.server import ServerConfig
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.runtime import Runtime
from omnigraph.server.client.http_transport import ServerUnreachableError
from omnigraph.server.http_errors import ServerUnavailableError
from omnigraph.server.listener import join_address, reserve_address
from s3_server import fresh_uri, s3_server
from server_load import ADD, COUNTERS, READ, STEP, Event, Told, untrue_reads
from server_process import Process, laid_out, running
from serving import ALL, SCHEMA, TOKENS
from worlds import FAST

# Longer than a busy machine keeps a process from its turn, as far as that can be said; and short for a test.
STUCK_SECONDS = 8
SLOW = """query q() { match { $a: Person $b: Person $c: Person $d: Person $e: Person
  $a.name + $b.name + $c.name + $d.name + $e.name contains "nobody" } return { $a.name } }"""


@contextmanager
def several(home: Path, counters: int = 0, graph: og.Graph | None = None) -> Iterator[Process]:
    """A server with two workers and one for long requests."""
    graph = graph or laid_out(home)
    settings = home / "omnigraph.toml"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text.replace("workers = 1", f"workers = 2\nstuck_seconds = {STUCK_SECONDS}"), encoding="utf-8")
    for name in COUNTERS[:counters]:
        graph.mutate(ADD, params={"n": name})
    with running(graph, home) as process:
        yield process


def find_workers(process: Process) -> list[int]:
    """The processes that the parent started, oldest first."""
    pid = process.popen.pid
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in text.split()]


def read_log(home: Path) -> list[dict[str, Any]]:
    lines = (home / "server.log").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def wait_until(is_so: Callable[[], object], seconds: float = 400) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


class Writers:
    """Clients that insert and count, and go on after every error, until they are told to stop."""

    def __init__(self, process: Process, clients: int) -> None:
        self.told = Told()
        self.denied: list[str] = []
        """Names of which the server said that they were not inserted."""
        self._url = f"http://localhost:{process.port}"
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number, random.Random(number)), daemon=True)
            for number in range(clients)
        ]
        for thread in self._threads:
            thread.start()

    def await_more(self) -> None:
        """Wait until more is acknowledged than before."""
        before = len(self.told.inserted)
        wait_until(lambda: len(self.told.inserted) > before + 10)

    def stop(self) -> None:
        """Wait until every client has done what it does."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in self._threads)

    def _run(self, number: int, chance: random.Random) -> None:
        with og.connect(self._url, TOKENS["admin"], graph="people", seconds=120, retries=0) as graph:
            while not self._stopped.is_set():
                try:
                    if chance.random() < 0.4:
                        self._insert(graph, f"w{number}-{chance.getrandbits(48):012x}", has_key=chance.random() < 0.5)
                    else:
                        self._step(graph, chance.choice(COUNTERS[:2]))
                except Exception as error:  # noqa: BLE001 - a thread's errors are told by the test
                    self.told.failures.append(repr(error))

    def _insert(self, graph: og.RemoteGraph, name: str, *, has_key: bool) -> None:
        try:
            graph.mutate(ADD, params={"n": name}, idempotency_key=name if has_key else None)
        except ServerUnreachableError:
            self.told.unknown.append(name)
        except OmnigraphError as error:
            (self.denied if error.code != "outcome_unknown" else self.told.unknown).append(name)
        else:
            self.told.inserted.append(name)

    def _step(self, graph: og.RemoteGraph, counter: str) -> None:
        try:
            old = self._read(graph, counter)
            begun = time.monotonic()
            done = graph.mutate(STEP, params={"n": counter, "old": old, "new": old + 1})
        except ServerUnreachableError:
            return
        except OmnigraphError as error:
            if error.kind not in {Kind.CONFLICT, Kind.UNAVAILABLE} and error.code != "too_many_requests":
                raise
            return
        if done.affected_nodes:
            self.told.events.append(Event(begun, time.monotonic(), counter, old + 1, is_step=True))

    def _read(self, graph: og.RemoteGraph, counter: str) -> int:
        begun = time.monotonic()
        (row,) = graph.query(READ, params={"n": counter}).rows()
        value = int(row["p.age"])
        self.told.events.append(Event(begun, time.monotonic(), counter, value, is_step=False))
        return value


def check_history(writers: Writers, graph: og.Graph) -> None:
    """Nothing that was acknowledged is lost, nothing that was denied is there, and nothing is there twice."""
    told, rows = writers.told, graph.query(ALL).rows()
    names = [row["p.name"] for row in rows]
    assert told.failures == []
    assert len(names) == len(set(names))
    assert set(told.inserted) <= set(names)
    assert set(writers.denied).isdisjoint(names)
    assert untrue_reads(told.events) == []
    for counter in COUNTERS[:2]:
        steps = told.steps(counter)
        assert len(steps) == len(set(steps))
    assert not graph.check().has_errors


def test_killed_and_stopped_workers_lose_nothing_and_are_replaced(tmp_path: Path) -> None:
    with several(tmp_path, counters=2) as process:
        first = find_workers(process)
        writers = Writers(process, 8)
        wait_until(lambda: len(writers.told.inserted) > 20)
        for victim in first[:2]:
            os.kill(victim, signal.SIGKILL)
            writers.await_more()
        wait_until(lambda: len(find_workers(process)) == 3)
        stuck = find_workers(process)[0]
        os.kill(stuck, signal.SIGSTOP)
        wait_until(lambda: stuck not in find_workers(process))
        writers.await_more()
        # While all of them write: those that were asked complete what they do.
        process.popen.send_signal(signal.SIGTERM)
        code = process.popen.wait(120)
        writers.stop()
        events = [line["event"] for line in read_log(tmp_path)]

    assert code == 0
    check_history(writers, process.graph)
    assert events.count("a worker ended and is replaced") >= 3
    assert "a worker does not respond and is replaced" in events
    assert events[-1] == "stopped"


def test_killed_workers_lose_nothing_on_an_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server() as options:
        for name in ("aws_access_key_id", "aws_secret_access_key", "aws_region"):
            monkeypatch.setenv(name.upper(), options[name])
        monkeypatch.setenv("AWS_ENDPOINT_URL", options["aws_endpoint"])
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        laid_out(tmp_path)
        graph = og.create_graph(fresh_uri(), SCHEMA, runtime=Runtime(options=replace(FAST, storage=options)))
        settings = tmp_path / "omnigraph.toml"
        text = settings.read_text(encoding="utf-8")
        settings.write_text(text.replace('uri = "people.omni"', f'uri = "{graph.uri}"'), encoding="utf-8")
        with several(tmp_path, counters=2, graph=graph) as process:
            first = find_workers(process)
            writers = Writers(process, 4)
            writers.await_more()
            for victim in first[:2]:
                os.kill(victim, signal.SIGKILL)
                writers.await_more()
            process.popen.send_signal(signal.SIGTERM)
            code = process.popen.wait(120)
            writers.stop()
        check_history(writers, graph)
        assert code == 0, [line for line in read_log(tmp_path) if line["event"] != "request"]
        assert sum(line["event"] == "a worker ended and is replaced" for line in read_log(tmp_path)) == 2


def find_owner(process: Process) -> int:
    """The worker that publishes the writes of the branch: that of most commits."""
    connection = process.connection()
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKENS['admin']}"})
    text = connection.getresponse().read().decode()
    connection.close()
    pattern = r'^omnigraph_commits_total\{worker="(\d)",graph="people",operation="mutate"\} (\d+)$'
    return int(max(re.findall(pattern, text, re.MULTILINE), key=lambda found: int(found[1]))[0])


@contextmanager
def connect_beside(process: Process, home: Path, owner: int) -> Iterator[HTTPConnection]:
    """A connection to a worker that is not the owner."""
    headers = {"Authorization": f"Bearer {TOKENS['writer']}"}

    def find_worker(request_id: str) -> list[int]:
        return [line["worker"] for line in read_log(home) if line.get("request_id") == request_id]

    with ExitStack() as stack:
        while True:
            connection = stack.enter_context(closing(process.connection()))
            connection.request("GET", "/graphs/people/snapshot", headers=headers)
            response = connection.getresponse()
            response.read()
            request_id = response.headers["x-request-id"]
            wait_until(partial(find_worker, request_id))
            if find_worker(request_id) != [owner]:
                yield connection
                return


def test_loads_beside_the_owner_of_a_branch_complete_while_clients_write(tmp_path: Path) -> None:
    with several(tmp_path, counters=2) as process:
        writers = Writers(process, 8)
        writers.await_more()
        answers = []
        with connect_beside(process, tmp_path, find_owner(process)) as connection:
            for number in range(2):
                lines = (json.dumps({"type": "Person", "data": {"name": f"l{number}-{n}"}}) for n in range(5_000))
                connection.request(
                    "POST",
                    "/graphs/people/load?mode=append",
                    "\n".join(lines).encode(),
                    {"Authorization": f"Bearer {TOKENS['writer']}"},
                )
                response = connection.getresponse()
                answers.append((response.status, json.loads(response.read()).get("code")))
        writers.stop()
        process.popen.send_signal(signal.SIGTERM)
        code = process.popen.wait(120)

    assert answers == [(200, None)] * 2
    assert code == 0
    check_history(writers, process.graph)


def test_slow_queries_orders_and_a_parent_that_is_killed(tmp_path: Path) -> None:
    with several(tmp_path) as process:
        for number in range(25):
            process.graph.mutate(ADD, params={"n": f"p{number}"})
        workers = find_workers(process)
        long_worker = find_niced(workers)
        idle = read_cpu(long_worker)

        def ask_slowly() -> None:
            # Until the server is killed.
            with suppress(OSError, HTTPException):
                while True:
                    process.ask("POST", "/graphs/people/query", {"query": SLOW})

        for _ in range(2):
            threading.Thread(target=ask_slowly, daemon=True).start()
        wait_until(lambda: read_cpu(long_worker) > idle + 30)
        answered = [process.ask("POST", "/graphs/people/query", {"query": ALL})[0] for _ in range(10)]
        # A token that is taken away, and the order to look at once.
        text = (tmp_path / "tokens.toml").read_text(encoding="utf-8")
        kept = text.split("[[token]]")
        (tmp_path / "tokens.toml").write_text("[[token]]".join(kept[:1] + kept[2:]), encoding="utf-8")
        process.popen.send_signal(signal.SIGHUP)
        wait_until(lambda: sum(line["event"] == "reloaded" for line in read_log(tmp_path)) == 3)
        revoked = process.ask("POST", "/graphs/people/query", {"query": ALL}, role="reader")[0]
        process.popen.kill()
        process.popen.wait()
        wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))

    assert answered == [200] * 10
    assert revoked == 401


def find_niced(workers: list[int]) -> int:
    """The worker for long requests, which has less of the processor."""
    (found,) = (worker for worker in workers if os.getpriority(os.PRIO_PROCESS, worker) > os.nice(0))
    return found


def read_cpu(worker: int) -> int:
    """The time of the processor that a worker used, in hundredths of a second."""
    fields = Path(f"/proc/{worker}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_an_address_is_not_shared_with_another_server() -> None:
    with reserve_address(ServerConfig(graphs=(), port=0)) as reserved:
        config = ServerConfig(graphs=(), port=reserved.getsockname()[1])
        with (
            join_address(config, config.port),
            join_address(config, config.port),
            pytest.raises(ServerUnavailableError),
        ):
            reserve_address(config)
