"""What the processes of a year do: writers, readers, and maintenance all the time. Each function is a process.

Some writers share a type, and may lose all rounds to each other; then they try again, as clients do. The others have a
type each, so whenever a write of theirs fails, it is because of maintenance.
"""

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import omnigraph as og
from omnigraph.commit.gc_horizon import TooSlowError
from omnigraph.options import UpkeepOptions
from omnigraph.runtime import Runtime
from race.jobs import RACING

KEEP = 20
OPTIONS = replace(RACING, head_commits=8)
"""The journal is sealed often, so that what it costs does not depend on the moment that is looked at."""
MODERATE = UpkeepOptions(fragment_rows=65_536, merged_fragments=4, deleted_rows=256, index_rows=1_024)


def type_of(writer: int, sharing: int) -> int:
    """The number of the type that a writer writes to: the first `sharing` writers have one together."""
    return max(writer - sharing + 1, 0)


def schema(types: int) -> str:
    """So many node types, with an edge type each."""
    return "\n".join(
        f"node P{n} {{ k: String @key  n: I64 @index  t: String }}\nedge Knows{n}: P{n} -> P{n}" for n in range(types)
    )


def lonely(type_: int) -> str:
    """How many of a type know nobody: those that were there from the start, at every moment."""
    pattern = f"$p: P{type_}  not {{ $p knows{type_} $other }}"
    return f"query q() {{ match {{ {pattern} }} return {{ count(*) as n }} }}"


def opened(uri: str) -> og.Graph:
    """The graph, as a process of its own has it."""
    return og.open_graph(uri, runtime=Runtime(options=replace(OPTIONS, upkeep=MODERATE)))


def step(writer: int, type_: int, number: int) -> str:
    """One of the small commits: somebody comes and knows somebody, changes, or goes."""
    match number % 4:
        case 0 | 1:
            row = f'k: "w{writer}-{number}", n: {number}, t: "text {number}"'
            return f'insert P{type_} {{ {row} }} insert Knows{type_} {{ from: "w{writer}-{number}", to: "p0" }}'
        case 2:
            change = f"{{ n: {number * 1_000} }}"
            return " ".join((f"update P{type_} set", change, "where", f'k = "w{writer}-{number - 1}"'))
        case _:
            return f'delete P{type_} where k = "w{writer}-{number - 3}"'


def expected(writer: int, commits: int) -> dict[str, int]:
    """What is left of a writer's rows."""
    left: dict[str, int] = {}
    for number in range(commits):
        match number % 4:
            case 0 | 1:
                left[f"w{writer}-{number}"] = number
            case 2:
                left[f"w{writer}-{number - 1}"] = number * 1_000
            case _:
                del left[f"w{writer}-{number - 3}"]
    return left


def write(uri: str, writer: int, sharing: int, first: int, commits: int) -> dict[str, object]:
    """Commit again and again; what went wrong, and how often a commit was made again.

    `slow` ones came too late for a cleanup's grace, `lost` ones lost all rounds to others of the same type.
    """
    graph, type_ = opened(uri), type_of(writer, sharing)
    errors, slow, lost = [], 0, 0
    for number in range(first, commits):
        while True:
            try:
                graph.mutate(f"query q() {{ {step(writer, type_, number)} }}", actor=f"writer-{writer}")
            except TooSlowError:
                slow += 1
                continue
            except Exception as error:  # noqa: BLE001 - whatever it is, the test wants none
                if isinstance(error, og.ConflictError) and writer < sharing:
                    lost += 1
                    continue
                errors.append(f"{number}: {error!r}")
            break
    return {"errors": errors, "slow": slow, "lost": lost}


def read(uri: str, until: str, types: int, people: int) -> dict[str, object]:
    """Ask again and again, half of the time through a handle of its own; what went wrong."""
    graph, errors, times = opened(uri), [], 0
    for _ in _until(until):
        times += 1
        try:
            asked = graph if times % 2 else og.open_graph(uri, read_only=True, runtime=Runtime(options=OPTIONS))
            found = asked.query(lonely(times % types)).rows()[0]["n"]
        except Exception as error:  # noqa: BLE001 - as above
            errors.append(repr(error))
            continue
        if found != people:
            errors.append(f"{found} know nobody instead of {people}")
    return {"errors": errors, "times": times}


def optimize(uri: str, until: str) -> dict[str, object]:
    """Optimise again and again; how many commits that made."""
    graph, errors, commits = opened(uri), [], 0
    for _ in _until(until):
        done = graph.optimize(actor="upkeep")
        errors += [one.error for one in done.tables if one.error is not None]
        commits += sum(one.commit_id is not None for one in done.tables)
    return {"errors": errors, "times": commits}


def clean_up(uri: str, until: str, grace: float) -> dict[str, object]:
    """Clean up again and again; how many bytes went."""
    graph, errors, removed = opened(uri), [], 0
    for _ in _until(until):
        try:
            done = graph.cleanup(keep=KEEP, grace=timedelta(seconds=grace), confirm=True)
        except Exception as error:  # noqa: BLE001 - as above
            errors.append(repr(error))
            continue
        errors += [one.error for one in done.tables if one.error is not None]
        removed += done.bytes_removed
    return {"errors": errors, "times": removed}


def clone(uri: str, until: str, types: int, people: int, place: str) -> dict[str, object]:
    """Clone again and again; what is wrong with the clones."""
    errors, times = [], 0
    for _ in _until(until):
        target = Path(place) / f"clone-{times}"
        try:
            og.clone_graph(uri, str(target), runtime=Runtime(options=OPTIONS))
            made = og.open_graph(str(target), runtime=Runtime(options=OPTIONS))
            found = [made.query(lonely(number)).rows()[0]["n"] for number in range(types)]
            errors += [str(finding) for finding in made.check().findings]
        except Exception as error:  # noqa: BLE001 - as above
            errors.append(repr(error))
            break
        if found != [people] * types:
            errors.append(f"in the clone {found} know nobody instead of {people}")
        shutil.rmtree(target)
        times += 1
    return {"errors": errors, "times": times}


def _until(file: str, seconds: float = 3_600) -> Iterator[None]:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not Path(file).exists():
        yield
        time.sleep(0.05)
