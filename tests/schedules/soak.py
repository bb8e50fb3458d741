"""Run the long profiles of schedules: many seeds on each store, by several processes, and go on where they ended.

What is done stands in a ledger, with a line for each range of seeds that a process has begun or ended. A ledger belongs
to one state of the code, which is part of its name; what failed stands beside it.

`PYTHONPATH=tests python -m schedules.soak` runs all, and `... model --seed 123` one schedule: it is shown if it fails.
"""

import argparse
import fcntl
import hashlib
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from schedules.explore import model
from schedules.lance_explore import lance_model
from schedules.s3_explore import s3_model

ROOT = Path(__file__).parents[2]
FIRST = 1_000_000
"""The seeds before it are those of `make test`."""
MEMORY = Path("/dev/shm")  # noqa: S108 - a directory of its own is made in it


class World(Protocol):
    """A store on which schedules are run."""

    def try_seed(self, seed: int) -> str | None:
        """Return what is wrong after the run of a seed; None if nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Profile:
    """How many schedules a store gets, and how many of them a process takes at once."""

    count: int
    size: int


PROFILES = {"model": Profile(1_000_000, 500), "tmpfs": Profile(50_000, 50), "s3": Profile(5_000, 25)}


class Ledger:
    """The ranges of seeds that were begun and ended, in a file that processes share."""

    def __init__(self, path: Path, profile: Profile) -> None:
        self.path = path
        self._profile = profile

    def take(self) -> range | None:
        """Begin a range that nobody has ended, and nobody is at; None if there is none."""
        with self._locked() as lines:
            taken = {int(line[1]) for line in lines if line[0] == "done" or _is_alive(int(line[-1]))}
            firsts = range(FIRST, FIRST + self._profile.count, self._profile.size)
            first = next((first for first in firsts if first not in taken), None)
            if first is None:
                return None
            self._append(f"begun {first} {os.getpid()}")
            return range(first, min(first + self._profile.size, FIRST + self._profile.count))

    def end(self, seeds: range, failed: list[str]) -> None:
        """Note that a range was run, and what failed in it."""
        with self._locked():
            if failed:
                with self.path.with_suffix(".failed").open("a") as report:
                    report.write("".join(f"{text}\n\n" for text in failed))
            self._append(f"done {seeds.start} {len(seeds)} {len(failed)}")

    def count(self) -> tuple[int, int]:
        """Return how many schedules were run, and how many of them failed."""
        with self._locked() as lines:
            done = [line for line in lines if line[0] == "done"]
            return sum(int(line[2]) for line in done), sum(int(line[3]) for line in done)

    @contextmanager
    def _locked(self) -> Iterator[list[list[str]]]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            # A process that was killed may have left half a line, which then counts for nothing.
            yield [line.split() for line in file if line.endswith("\n")]

    def _append(self, line: str) -> None:
        with self.path.open("ab+") as file:
            file.seek(0)
            text = file.read()
            file.write((b"" if text.endswith(b"\n") or not text else b"\n") + line.encode() + b"\n")


def _is_alive(process: int) -> bool:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process, 0)
        return True
    return False


def digest_code() -> str:
    """Return a name of the code that runs: a schedule that held on other code says nothing of this."""
    digest = hashlib.sha256()
    for directory in ("src/omnigraph", "tests/schedules", "tests/race"):
        for path in sorted((ROOT / directory).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@contextmanager
def open_world(store: str) -> Iterator[World]:
    """Open a store for runs."""
    if store == "model":
        with model() as world:
            yield world
    elif store == "tmpfs":
        place = MEMORY if os.access(MEMORY, os.W_OK) else None
        with (
            tempfile.TemporaryDirectory(prefix="omnigraph-schedules-", dir=place) as name,
            lance_model(Path(name)) as world,
        ):
            yield world
    else:
        with s3_model() as world:
            yield world


def work(store: str, ledger: Ledger, until: float) -> None:
    """Run ranges of seeds until all are done, or the time is over."""
    with open_world(store) as world:
        while time.monotonic() < until and (seeds := ledger.take()) is not None:
            ledger.end(seeds, [text for seed in seeds if (text := world.try_seed(seed)) is not None])


def run_one(store: str, seed: int) -> int:
    """Run one schedule."""
    with open_world(store) as world:
        text = world.try_seed(seed)
    sys.stdout.write(f"{text or f'seed {seed} holds'}\n")
    return 1 if text else 0


def main() -> int:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(prog="schedules.soak", description=__doc__)
    parser.add_argument("stores", nargs="*", metavar="STORE", help=f"{', '.join(PROFILES)}; all if none is given")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many run at once")
    parser.add_argument("--ledgers", type=Path, default=ROOT / ".schedules", help="the directory of the ledgers")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="when to end, for each store")
    parser.add_argument("--seed", type=int, help="run this one schedule of the store")
    arguments = parser.parse_args()
    unknown = set(arguments.stores) - PROFILES.keys()
    if unknown:
        parser.error(f"no such store: {', '.join(sorted(unknown))}; there are {', '.join(PROFILES)}")
    if arguments.seed is not None:
        if len(arguments.stores) != 1:
            parser.error("--seed runs one schedule of one store: name it")
        return run_one(arguments.stores[0], arguments.seed)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    all_failed = 0
    for store in arguments.stores or PROFILES:
        profile = PROFILES[store]
        ledger = Ledger(arguments.ledgers / f"{store}-{digest_code()}.txt", profile)
        until = time.monotonic() + arguments.minutes * 60
        context = multiprocessing.get_context("spawn")
        workers = [context.Process(target=work, args=(store, ledger, until)) for _ in range(arguments.processes)]
        for worker in workers:
            worker.start()
        try:
            for worker in workers:
                worker.join()
        finally:
            # Who ends this ends them too: the interpreter would wait for them first.
            for worker in workers:
                worker.terminate()
        done, failed = ledger.count()
        sys.stdout.write(f"{store}: {done:,} of {profile.count:,} schedules, {failed} failed; {ledger.path}\n")
        sys.stdout.flush()
        all_failed += failed + sum(worker.exitcode != 0 for worker in workers)
    return 1 if all_failed else 0


if __name__ == "__main__":
    sys.exit(main())
