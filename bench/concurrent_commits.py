"""Measure concurrent small writes: commits per second of one and of 64 writers, their latency, CPU time and conflicts.

Three kinds: inserts of different keys, updates of different rows, and increments of one counter row, which must be as
high in the end as the number of increments. Three ways: threads that share a handle on a local disk, clients of a
server on a local disk, and threads on an object store that takes 30 ms for each request. Absolute numbers depend on the
machine; compare the lines of one run. A lone writer is the yardstick: it commits without waiting.

The object store is the S3 server of the tests, in a process of its own, so run it with `PYTHONPATH=tests`; `make bench`
does. `--ways` and `--seconds` choose less, `--quick` four seconds for each; other arguments are numbers of writers. The
CPU time of HTTP clients is that of the server and of the clients.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

import omnigraph as og
from omnigraph.config.tokens import format_token_entry
from omnigraph.options import Options
from omnigraph.runtime import Runtime
from s3_server import fresh_uri, s3_server

WRITERS = (1, 64)
# In each round several groups of 64 are published, also on a slow disk. One number of writers follows the other, so
# that other load on the machine, and the length of the history, affect all of them alike.
ROUNDS = 4
SECONDS = 8.0
QUICK_SECONDS = 4.0
ROWS = 512
LATENCY_SECONDS = 0.03
SCHEMA = "node Item { name: String @key  n: I64 }\n"
ADD = "query add($name: String) { insert Item { name: $name, n: 0 } }"
SET = "query assign($name: String, $n: I64) { update Item set { n: $n } where name = $name }"
INCREMENT = "query increment($name: String) { update Item set { n: n + 1 } where name = $name }"
READ = "query read($name: String) { match { $i: Item { name: $name } } return { $i.n as n } }"
COUNTER = "row-0"
TOKEN = f"og_bench_{'x' * 40}"
# One actor may have 16 writes in progress unless the settings say otherwise.
SETTINGS = """[server]
bind = "127.0.0.1:0"
workers = %d
tokens = "tokens.toml"
policies = "policies"

[limits]
writes_per_actor = 64

[graphs.bench]
uri = "graph"
"""

# Runs a mutation by its text and parameters.
Mutate = Callable[[str, dict[str, object]], object]


@dataclass(frozen=True)
class Bench:
    """A graph that is measured: how it is written, its counter, and the CPU seconds that were spent for it so far."""

    mutate: Mutate
    read: Callable[[], int]
    read_cpu: Callable[[], float] = time.process_time


def read_process_seconds(pid: int) -> float:
    """Return the CPU seconds of another process and its children; 0 where the system does not tell."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    if not children.exists():
        return 0.0
    ticks = 0
    for process in (pid, *map(int, children.read_text(encoding="ascii").split())):
        # The program's name, in parentheses, may have spaces. User and system time are the 14th and 15th value.
        values = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(values[11]) + int(values[12])
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclass
class Writers:
    """What the writers of one measurement have seen."""

    seconds: list[float] = field(default_factory=list)
    conflicts: int = 0

    def run(self, write: Callable[[int], object], writers: int, seconds: float) -> float:
        """Run a write in several threads for some seconds; return the time until the last has ended."""
        start = time.monotonic()
        lock = threading.Lock()

        def work(number: int) -> None:
            while time.monotonic() - start < seconds:
                begun = time.monotonic()
                try:
                    write(number)
                except og.ConflictError:
                    with lock:
                        self.conflicts += 1
                else:
                    with lock:
                        self.seconds.append(time.monotonic() - begun)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.monotonic() - start


def create_graph(uri: str, options: Options) -> og.Graph:
    """Create a graph with some rows to update."""
    graph = og.create_graph(uri, SCHEMA, runtime=Runtime(options=options))
    graph.load([{"type": "Item", "data": {"name": f"row-{n}", "n": 0}} for n in range(ROWS)], mode="append")
    return graph


@contextmanager
def open_threads() -> Iterator[Bench]:
    """Open a graph on a local disk, which all threads share."""
    # Maintenance after the last write may still create files.
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-", ignore_cleanup_errors=True) as directory:
        graph = create_graph(str(Path(directory) / "graph"), Options())
        yield Bench(lambda text, params: graph.mutate(text, params=params), lambda: read_counter(graph))


def read_counter(graph: "og.Graph | og.RemoteGraph") -> int:
    """Return the value of the counter row."""
    return int(graph.query(READ, params={"name": COUNTER}).rows()[0]["n"])


def serve_store(connection: Connection) -> None:
    """Run the object store in this process until the other end is closed."""
    with s3_server(LATENCY_SECONDS) as options:
        connection.send(options)
        connection.recv()


@contextmanager
def open_slow_store() -> Iterator[Bench]:
    """Open a graph on an object store with a delay, which all threads share."""
    own, other = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve_store, args=(other,), daemon=True)
    process.start()
    try:
        graph = create_graph(fresh_uri(), Options(storage=own.recv()))
        yield Bench(lambda text, params: graph.mutate(text, params=params), lambda: read_counter(graph))
    finally:
        own.send(None)
        process.join()


@contextmanager
def open_server(workers: int) -> Iterator[Bench]:
    """Serve a graph on a local disk with some worker processes, and a connection for each thread."""
    with (
        tempfile.TemporaryDirectory(prefix="omnigraph-bench-", ignore_cleanup_errors=True) as directory,
        ExitStack() as opened,
    ):
        home = Path(directory)
        create_graph(str(home / "graph"), Options()).close()
        (home / "tokens.toml").write_text(format_token_entry(TOKEN, "bench", ("admins",)), encoding="utf-8")
        (home / "tokens.toml").chmod(0o600)
        (home / "policies").mkdir()
        (home / "policies" / "all.cedar").write_text("permit(principal, action, resource);", encoding="utf-8")
        (home / "omnigraph.toml").write_text(SETTINGS % workers, encoding="utf-8")
        log = home / "server.log"
        command = [sys.executable, "-m", "omnigraph", "serve", "--config", str(home / "omnigraph.toml")]
        with log.open("w", encoding="utf-8") as errors:
            server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        opened.callback(server.wait)
        opened.callback(server.terminate)
        address = wait_for_address(server, log)
        local = threading.local()

        def connect() -> og.RemoteGraph:
            if not hasattr(local, "graph"):
                local.graph = og.connect(address, TOKEN, graph="bench")
            graph: og.RemoteGraph = local.graph
            return graph

        yield Bench(
            lambda text, params: connect().mutate(text, params=params),
            lambda: read_counter(connect()),
            lambda: time.process_time() + read_process_seconds(server.pid),
        )


def wait_for_address(server: "subprocess.Popen[bytes]", log: Path) -> str:
    """Return the address that a server reports in its log."""
    while server.poll() is None:
        for line in log.read_text(encoding="utf-8").splitlines():
            if '"serving"' in line:
                return str(json.loads(line)["address"])
        time.sleep(0.05)
    raise SystemExit(log.read_text(encoding="utf-8"))


def build_writes(mutate: Mutate) -> dict[str, Callable[[int], object]]:
    """Return the kinds of writes by name; each takes the number of its writer."""
    numbers = count()
    return {
        "inserts": lambda _: mutate(ADD, {"name": f"new-{next(numbers)}"}),
        "updates of different rows": lambda writer: mutate(SET, {"name": f"row-{writer + 1}", "n": next(numbers)}),
        "increments of one row": lambda _: mutate(INCREMENT, {"name": COUNTER}),
    }


@dataclass
class Measured:
    """What some numbers of writers did in all their rounds."""

    writers: int
    seen: Writers = field(default_factory=Writers)
    elapsed: float = 0.0
    cpu: float = 0.0

    @property
    def rate(self) -> float:
        """Commits per second."""
        return len(self.seen.seconds) / self.elapsed

    def add_round(self, bench: Bench, write: Callable[[int], object], seconds: float) -> None:
        """Let the writers work for some seconds."""
        before = bench.read_cpu()
        self.elapsed += self.seen.run(write, self.writers, seconds)
        self.cpu += bench.read_cpu() - before

    def format_row(self, alone: float) -> str:
        """Return the columns behind the name; `alone` is the rate to compare with."""
        commits = len(self.seen.seconds)
        p99 = statistics.quantiles(self.seen.seconds, n=100)[-1] if commits > 1 else self.elapsed
        conflicts = 100 * self.seen.conflicts / max(commits + self.seen.conflicts, 1)
        return (
            f"{self.writers:>8}{self.rate:>11.1f}{self.rate / alone:>9.2f}"
            f"{1000 * self.cpu / max(commits, 1):>10.1f}{1000 * p99:>10.0f}{conflicts:>11.1f}"
        )


def measure(way: str, numbers: Sequence[int], seconds: float) -> None:
    """Print a line for each kind of write and number of writers, on a new graph."""
    with WAYS[way]() as bench:
        for name, write in build_writes(bench.mutate).items():
            for writer in range(max(numbers)):
                write(writer)
            before = bench.read()
            all_measured = [Measured(writers) for writers in numbers]
            for _ in range(ROUNDS):
                for measured in all_measured:
                    measured.add_round(bench, write, seconds / ROUNDS)
            for measured in all_measured:
                print(f"{way:<14}{name:<27}{measured.format_row(all_measured[0].rate)}", flush=True)
            commits = sum(len(measured.seen.seconds) for measured in all_measured)
            if name == "increments of one row" and bench.read() - before != commits:
                raise SystemExit(f"the counter grew by {bench.read() - before}, after {commits} increments")


WAYS: dict[str, Callable[[], AbstractContextManager[Bench]]] = {
    "threads": open_threads,
    "HTTP clients": partial(open_server, 1),
    "HTTP clients of two workers": partial(open_server, 2),
    "S3, 30 ms": open_slow_store,
}


def main() -> None:
    """Print a line for each way, kind of write and number of writers."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("writers", nargs="*", type=int, default=WRITERS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--quick", dest="seconds", action="store_const", const=QUICK_SECONDS)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores")
    print(f"{'':<41}{'writers':>8}{'commits/s':>11}{'x first':>9}{'CPU ms':>10}{'p99 ms':>10}{'conflict %':>11}")
    for way in arguments.ways:
        measure(way, arguments.writers, arguments.seconds)


if __name__ == "__main__":
    main()
