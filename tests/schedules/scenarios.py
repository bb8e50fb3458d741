"""Combinations of simulated processes on the model: chosen ones, and drawn ones."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from schedules.model_actors import (
    LISTS,
    Actor,
    Append,
    ApplySchema,
    Chain,
    Cleanup,
    CreateBranch,
    DeleteBranch,
    Merge,
    Optimize,
    Read,
    Recover,
    Run,
    Serve,
    Tag,
    Wait,
)
from schedules.model_clone import Clone
from schedules.model_load import Load

L, M = (f"{table}/p" for table in LISTS)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Processes by their names; the threads of one share a handle."""

    name: str
    processes: Mapping[str, tuple[Actor, ...]]

    def start(self, run: Run) -> None:
        """Add the processes to a run."""
        for name, actors in self.processes.items():
            run.add_process(name, *actors)


SMALL = Append((L,))
BOTH = Append((L, M), 2)
LARGE = Append((L, M), 2, is_large=True)
ARMED = Append((L, M), 2, is_armed=True)
SKEWED = Append((L, M), 1)
OTHER = Append((M, L), 1)
REPEATED = Append((L,), key="key")
COMPACTED = Append((L,), times=2, is_compacted=True)
READ = Read((L, M))


def scenario(name: str, **processes: Actor | tuple[Actor, ...]) -> Scenario:
    """Return a scenario; a single actor is a process of one thread."""
    return Scenario(name, {key: value if isinstance(value, tuple) else (value,) for key, value in processes.items()})


def on_branch(name: str, *then: Actor) -> Actor:
    """Create a branch and go on with it."""
    return CreateBranch(name, Chain(then))


def branch_writer(name: str, times: int = 1) -> Append:
    """A writer on a branch, to lists of its own."""
    return Append((f"{LISTS[1]}/{name}",), branch=name, times=times)


CASES: Mapping[str, Scenario] = {
    case.name: case
    for case in (
        scenario("two-writers-and-a-recovery", a=LARGE, b=SKEWED, recovery=Recover()),
        scenario("a-writer-a-cleanup-and-a-reader", a=LARGE, cleanup=Cleanup(), reader=READ),
        scenario(
            "two-merges",
            setup=on_branch("x", branch_writer("x")),
            a=Wait(5, Merge("x")),
            b=Wait(5, Merge("x")),
        ),
        scenario("a-schema-apply-and-a-writer", schema=ApplySchema(), a=OTHER),
        scenario("a-group-and-a-crash", group=(SMALL, SKEWED, OTHER), a=SMALL, recovery=Recover(1)),
        scenario("an-armed-load-and-a-recovery", a=ARMED, b=SMALL, recovery=Recover(3)),
        scenario("a-repeated-request", a=REPEATED, b=REPEATED, c=SMALL),
        scenario(
            "a-branch-that-is-deleted",
            setup=on_branch("x", branch_writer("x", 2)),
            a=Wait(3, branch_writer("x", 2)),
            b=Wait(3, DeleteBranch("x")),
            c=Wait(3, Chain((Cleanup(), SMALL))),
        ),
        scenario("a-compaction", a=Append((L,), times=2), optimize=Optimize(LISTS[0]), cleanup=Wait(1, Cleanup())),
        scenario("many-commits", a=Append((L,), times=5), b=Append((M,), times=5), reader=READ),
        scenario("a-disjoint-race", a=Append((f"{LISTS[0]}/x",), times=2), b=Append((f"{LISTS[0]}/y",), times=2)),
        scenario(
            "a-slow-writer-and-a-cleanup",
            a=Chain((SMALL, LARGE)),
            b=Chain((SMALL, SMALL)),
            cleanup=Wait(1, Chain((Cleanup(), Wait(70, Cleanup())))),
        ),
        scenario("a-slow-writer-and-many-commits", a=SMALL, b=Append((M,), times=8, pause=21.0)),
        scenario("an-armed-race", a=ARMED, b=SMALL),
        scenario("a-server", server=(Serve(), SMALL, OTHER), a=Chain((ARMED, SMALL)), b=Wait(1, ARMED)),
        scenario("a-group-and-a-recovery", group=(SMALL, OTHER), recovery=Recover(1)),
        scenario("a-small-write-and-a-cleanup", a=SMALL, cleanup=Cleanup(), reader=Read((L,), 1)),
        scenario("a-skew", a=SKEWED, b=OTHER),
        scenario("a-large-write", a=LARGE, recovery=Recover(1)),
        scenario("an-armed-write-and-a-cleanup", a=ARMED, cleanup=Cleanup()),
        scenario("an-armed-load-alone", a=ARMED, recovery=Recover(3)),
        scenario("a-late-branch", a=Append((L,), times=3), b=on_branch("x", branch_writer("x")), cleanup=Cleanup()),
        scenario("a-slow-group", group=(SMALL, LARGE, OTHER), other=(SMALL, SKEWED)),
        scenario("a-distributed-load", a=Load((L, M)), cleanup=Cleanup(), b=SMALL),
        scenario("a-distributed-load-and-a-cleanup", a=Load((L,), pause=5.0), cleanup=Wait(1, Cleanup())),
        scenario("a-distributed-load-and-a-recovery", a=Load((L, M)), b=SMALL, recovery=Recover(2)),
        scenario("a-clone", a=BOTH, clone=Clone((L, M)), cleanup=Cleanup()),
        scenario("two-clones", a=on_branch("x", branch_writer("x"), Merge("x")), b=Clone((L,)), c=Clone((L,))),
        scenario("a-kept-tail", a=(COMPACTED, OTHER), b=COMPACTED, cleanup=Wait(1, Cleanup())),
        scenario("a-tag", a=Append((L,), times=2), tag=Tag("t"), cleanup=Wait(1, Cleanup())),
    )
}

_WRITERS: tuple[Callable[[random.Random], Actor], ...] = (
    lambda choice: Append((choice.choice((L, M)),), times=choice.randint(1, 2)),
    lambda choice: Append((L, M), choice.randint(1, 2), is_large=choice.random() < 0.5),
    lambda choice: Append((M, L), 1, times=choice.randint(1, 2)),
    lambda _: ARMED,
    lambda _: Load((L, M)),
    lambda _: REPEATED,
    lambda _: COMPACTED,
)
_OTHERS: tuple[Callable[[random.Random], Actor], ...] = (
    lambda choice: Recover(choice.randint(1, 2), spares_live=choice.random() < 0.3),
    lambda _: Serve(),
    lambda choice: Cleanup(keep=choice.randint(1, 3), pause=choice.choice((0.0, 1.0, 61.0))),
    lambda choice: Cleanup(grace_seconds=30.0, pause=choice.choice((1.0, 31.0))),
    lambda choice: Read((L, M), times=choice.randint(1, 3)),
    lambda choice: Optimize(choice.choice(LISTS)),
    lambda _: ApplySchema(),
    lambda _: Clone((L, M)),
    lambda choice: Tag("t", is_deleted=choice.random() < 0.5),
    lambda choice: on_branch("x", branch_writer("x"), *((Merge("x"),) if choice.random() < 0.5 else ())),
    lambda _: on_branch("x", branch_writer("x"), Merge("x"), DeleteBranch("x")),
    lambda _: DeleteBranch("x"),
    lambda _: Wait(1, branch_writer("x")),
    lambda _: Wait(1, Merge("x")),
)


def draw_scenario(seed: int) -> Scenario:
    """Return a scenario of two to four processes."""
    choice = random.Random(f"scenario {seed}")
    processes: dict[str, tuple[Actor, ...]] = {}
    for name in "ab"[: choice.randint(1, 2)]:
        threads = choice.choice((1, 1, 1, 2, 3))
        processes[name] = tuple(choice.choice(_WRITERS)(choice) for _ in range(threads))
    for name in "cd"[: choice.randint(1, 2)]:
        processes[name] = (choice.choice(_OTHERS)(choice),)
    return Scenario(f"drawn-{seed}", processes)


def choose_scenario(seed: int) -> Scenario:
    """Return the scenario of a seed: one of the cases, or a drawn one."""
    cases = list(CASES.values())
    return draw_scenario(seed) if seed % 2 else cases[seed // 2 % len(cases)]
