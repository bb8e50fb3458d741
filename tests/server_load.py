"""Many clients of one server: they read, count, insert and stream at once, and remember what they were told.

What they remember is checked afterwards. A counter only grows, one step at a time, by a write that names the value it
read; so a lost update, a write that was done twice, and a read of the past all show.
"""

import json
import random
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import omnigraph as og
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.server.client.http_transport import ServerUnreachableError
from server_process import Process
from serving import TOKENS

COUNTERS = tuple(f"counter-{number}" for number in range(8))
ACTORS = ("reader", "writer", "admin")
READ = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age } }"
STEP = "query q($n: String, $old: I64, $new: I64) { update Person set { age: $new } where name = $n and age = $old }"
ADD = "query q($n: String) { insert Person { name: $n, age: 0 } }"
WIDE = "query q() { match { $a: Person $b: Person } return { $a.name, $b.name } limit 20000 }"
ENDLESS = "query q() { match { $a: Person $b: Person $c: Person } return { $a, $b, $c } }"


@dataclass(frozen=True)
class Event:
    """Something that a client was told about a counter: by a read, or by a step that was done."""

    begun: float
    ended: float
    counter: str
    value: int
    is_step: bool


@dataclass
class Told:
    """Everything that clients were told. They append to it from their threads."""

    events: list[Event] = field(default_factory=list)
    inserted: list[str] = field(default_factory=list)
    """Names that were acknowledged."""
    unknown: list[str] = field(default_factory=list)
    """Names, or counters, of writes that nobody answered."""
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    refused: Counter[str] = field(default_factory=Counter)
    """Conflicts and refusals for too much at once, by their codes."""
    failures: list[str] = field(default_factory=list)
    """Whatever else went wrong."""

    @property
    def answered(self) -> int:
        """How many requests were answered well."""
        return sum(len(times) for times in list(self.seconds.values()))

    def steps(self, counter: str) -> list[int]:
        """The values that acknowledged steps made."""
        return [one.value for one in self.events if one.is_step and one.counter == counter]

    def percentile(self, share: float) -> dict[str, float]:
        """By kind of request, the time in milliseconds within which that share of them was answered."""
        return {
            kind: round(sorted(times)[int((len(times) - 1) * share)] * 1e3, 1)
            for kind, times in sorted(self.seconds.items())
        }


class Crowd:
    """Clients in threads of their own, until they are told to stop or the server is gone."""

    def __init__(self, url: str, told: Told, clients: int, seed: int) -> None:
        self._url, self._told, self._stopped = url, told, threading.Event()
        self._threads = [
            threading.Thread(target=self._client, args=(number, random.Random(seed + number)), daemon=True)
            for number in range(clients)
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let every client finish what it does, and wait for that."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(120)

    def _client(self, number: int, chance: random.Random) -> None:
        actor = ACTORS[number % len(ACTORS)]
        with og.connect(self._url, TOKENS[actor], graph="people", seconds=120) as graph:
            while not self._stopped.is_set():
                try:
                    self._request(graph, number, chance, may_write=actor != "reader")
                except ServerUnreachableError:
                    return
                except OmnigraphError as error:
                    if error.kind is Kind.CONFLICT or error.code == "too_many_requests":
                        self._told.refused[error.code] += 1
                    else:
                        self._told.failures.append(f"{error.code}: {error}")
                except Exception as error:  # noqa: BLE001 - a thread's errors are told by the test
                    self._told.failures.append(repr(error))

    def _request(self, graph: og.RemoteGraph, number: int, chance: random.Random, *, may_write: bool) -> None:
        kind = chance.random()
        counter = chance.choice(COUNTERS)
        if may_write and kind < 0.25:
            self._step(graph, counter)
        elif may_write and kind < 0.45:
            self._insert(graph, f"c{number}-{chance.getrandbits(48):012x}", twice=chance.random() < 0.3)
        elif kind < 0.5:
            with self._timed("stream"):
                graph.query(WIDE)
        elif kind < 0.55:
            with self._timed("commits"):
                graph.commits(limit=20)
        else:
            self._read(graph, counter)

    def _read(self, graph: og.RemoteGraph, counter: str) -> int:
        begun = time.monotonic()
        with self._timed("read"):
            (row,) = graph.query(READ, params={"n": counter}).rows()
        value = int(row["p.age"])
        self._told.events.append(Event(begun, time.monotonic(), counter, value, is_step=False))
        return value

    def _step(self, graph: og.RemoteGraph, counter: str) -> None:
        old = self._read(graph, counter)
        begun = time.monotonic()
        try:
            with self._timed("write"):
                done = graph.mutate(STEP, params={"n": counter, "old": old, "new": old + 1})
        except ServerUnreachableError:
            self._told.unknown.append(counter)
            raise
        if done.affected_nodes:
            self._told.events.append(Event(begun, time.monotonic(), counter, old + 1, is_step=True))

    def _insert(self, graph: og.RemoteGraph, name: str, *, twice: bool) -> None:
        commits = set()
        try:
            for _ in range(1 + twice):
                with self._timed("write"):
                    commits.add(graph.mutate(ADD, params={"n": name}, idempotency_key=name).commit_id)
        except ServerUnreachableError:
            self._told.unknown.append(name)
            raise
        finally:
            if commits:
                self._told.inserted.append(name)
        if len(commits) > 1:
            self._told.failures.append(f"{name} was inserted twice")

    @contextmanager
    def _timed(self, kind: str) -> Iterator[None]:
        begun = time.monotonic()
        yield
        self._told.seconds[kind].append(time.monotonic() - begun)


@contextmanager
def dawdlers(process: Process, number: int) -> Iterator[None]:
    """Clients that ask for far more than there is room for and take none of it, and some that never finish asking."""
    body = json.dumps({"query": ENDLESS}).encode()
    head = (
        "POST /graphs/people/query HTTP/1.1\r\nHost: localhost\r\nAccept: application/x-ndjson\r\n"
        f"Authorization: Bearer {TOKENS['admin']}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    plugs = [socket.create_connection((process.host, process.port), timeout=60) for _ in range(number)]
    for place, plug in enumerate(plugs):
        plug.sendall(head + (body if place % 2 else body[:-1]))
    try:
        yield
    finally:
        for plug in plugs:
            with suppress(OSError):
                plug.close()


def resident_bytes(process: Process) -> int:
    """How much memory the server has."""
    status = Path(f"/proc/{process.popen.pid}/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def untrue_reads(events: Sequence[Event]) -> list[str]:
    """What was told and can't have been: a value before it was made, or after a later one was known."""
    found = []
    by_counter: dict[str, list[Event]] = defaultdict(list)
    for one in events:
        by_counter[one.counter].append(one)
    for counter, told in by_counter.items():
        made = {one.value: one for one in told if one.is_step}
        known = 0
        ends = sorted(told, key=lambda one: one.ended)
        place = 0
        for one in sorted(told, key=lambda one: one.begun):
            while place < len(ends) and ends[place].ended < one.begun:
                known = max(known, ends[place].value)
                place += 1
            if one.value < known + one.is_step:
                found.append(f"{counter}: {one.value} was told after {known} was known")
            maker = made.get(one.value)
            if maker is not None and maker is not one and one.ended < maker.begun:
                found.append(f"{counter}: {one.value} was told before it was made")
    return found
