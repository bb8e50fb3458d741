"""A year in an hour: thousands of small commits by several processes, with maintenance beside them all the time.

At the end the graph says what it should, is sound, and is as quick and about as small as on the first day.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from collecting import pass_time
from omnigraph.runtime import Runtime
from race.year_jobs import MODERATE, OPTIONS, expected, lonely, opened, schema, type_of, write
from upkeep_calls import exported
from zygote import Zygote


@dataclass(frozen=True)
class Year:
    """How much happens."""

    people: int
    """Of each type, at the start."""
    writers: int
    sharing: int
    """So many of them write to the same type; each of the others has one of its own."""
    commits: int
    """Of each writer."""
    grace: float
    """Seconds that what is not needed any more stays; longer than any write takes."""
    may_be_late: bool
    """Whether a write may have to be made again because it took longer than that: a busy machine, a short grace."""

    @property
    def types(self) -> int:
        """How many types there are."""
        return type_of(self.writers - 1, self.sharing) + 1


TIDY = replace(MODERATE, merged_fragments=2, deleted_rows=1, deleted_share=1e-6, index_segments=1)
"""Everything that is left to do is done, so that both ends of the year compare."""
FIRST = 8
"""How many commits of each writer are made before anything is measured."""
SHORT = Year(people=10_000, writers=3, sharing=2, commits=22, grace=3.0, may_be_late=True)
LONG = Year(people=50_000, writers=4, sharing=2, commits=2_500, grace=60.0, may_be_late=False)
CROWD = replace(LONG, sharing=4, commits=1_000)


def new_graph(place: Path, year: Year) -> og.Graph:
    return og.create_graph(str(place), schema(year.types), runtime=Runtime(options=OPTIONS))


def seeded(place: Path, year: Year) -> og.Graph:
    """A graph of many people who know nobody, and the first few commits.

    Maintenance leaves fragments of very different sizes side by side, so there are such from the start.
    """
    graph = new_graph(place, year)
    ends = [year.people * share // 100 for share in (0, 85, 96, 99, 100)]
    for first, end in pairwise(ends):
        numbers = range(first, end)
        rows = pa.table(
            {
                "k": [f"p{number}" for number in numbers],
                "n": pa.array(numbers, pa.int64()),
                "t": [f"{number * 2654435761 % 2**61:x}" * 4 for number in numbers],
            }
        )
        graph.load(nodes={f"P{number}": rows for number in range(year.types)}, mode="append")
    for number in range(year.writers):
        write(graph.uri, number, year.sharing, 0, FIRST)
    return opened(graph.uri)


@dataclass(frozen=True)
class Cost:
    """What an action costs, in the middle of some runs."""

    requests: float
    milliseconds: float

    @classmethod
    def of(cls, graph: og.Graph, action: Callable[[], object]) -> "Cost":
        """Count what it asks of the store, and the time it takes."""
        counts, times = [], []
        for _ in range(15):
            began = time.perf_counter()
            with graph._session.runtime.telemetry.count_requests() as counted:
                action()
            times.append((time.perf_counter() - began) * 1_000)
            counts.append(counted.count())
        return cls(statistics.median(counts), statistics.median(times))


def costs(graph: og.Graph) -> dict[str, Cost]:
    """A write by a handle that is kept, and an answer to a process that has just opened the graph, when it is tidy."""
    settings = replace(graph._session.runtime.options, upkeep=TIDY)
    og.open_graph(graph.uri, runtime=Runtime(options=settings)).optimize()
    numbers = iter(range(100))

    def write() -> None:
        row = f'k: "x{next(numbers)}", n: 1, t: "x"'
        graph.mutate(f"query q() {{ insert P0 {{ {row} }} }}")

    def read() -> None:
        cold = og.open_graph(graph.uri, read_only=True, runtime=graph._session.runtime)
        cold.query('query q() { match { $p: P0 { k: "p77" } } return { $p.n } }')

    found = {"write": Cost.of(graph, write), "read": Cost.of(graph, read)}
    graph.mutate('query q() { delete P0 where t = "x" }')
    return found


def size_of(graph: og.Graph) -> int:
    """All bytes of a graph."""
    return sum(path.stat().st_size for path in Path(graph.uri).rglob("*") if path.is_file())


def live(zygote: Zygote, graph: og.Graph, year: Year, until: Path) -> dict[str, list[dict[str, Any]]]:
    """Let the year pass; what each process tells."""
    uri = {"uri": graph.uri}
    beside = {**uri, "until": str(until)}
    counts = {"types": year.types, "people": year.people}
    work = {**uri, "sharing": year.sharing, "first": FIRST, "commits": year.commits}
    writers = [zygote.start("race.year_jobs:write", {**work, "writer": number}) for number in range(year.writers)]
    others = {
        "read": zygote.start("race.year_jobs:read", {**beside, **counts}),
        "optimize": zygote.start("race.year_jobs:optimize", beside),
        "clone": zygote.start("race.year_jobs:clone", {**beside, **counts, "place": str(until.parent)}),
        "clean up": zygote.start("race.year_jobs:clean_up", {**beside, "grace": year.grace}),
    }
    ended = {"write": [zygote.wait(pid) for pid in writers]}
    until.touch()
    ended |= {name: [zygote.wait(pid)] for name, pid in others.items()}
    assert [one.error for some in ended.values() for one in some if one.error is not None] == []
    return {name: [one.result for one in some] for name, some in ended.items()}


def check_contents(graph: og.Graph, year: Year) -> None:
    """Every row that should be there is, once, and no other."""
    models = [{f"p{number}": number for number in range(year.people)} for _ in range(year.types)]
    for writer in range(year.writers):
        models[type_of(writer, year.sharing)] |= expected(writer, year.commits)
    for type_, model in enumerate(models):
        rows = graph.table(f"P{type_}").to_table(columns=["id", "n"]).to_pydict()
        assert dict(zip(rows["id"], rows["n"], strict=True)) == model
        assert len(rows["id"]) == len(model)
        assert graph.query(lonely(type_)).rows()[0]["n"] == year.people


def loaded_today(graph: og.Graph, year: Year, place: Path) -> og.Graph:
    """The same rows in a new graph."""
    graph.export(place / "rows.jsonl")
    fresh = new_graph(place / "fresh", year)
    fresh.load(str(place / "rows.jsonl"), mode="append")
    opened(fresh.uri).optimize()
    return fresh


@pytest.mark.parametrize(
    "year",
    [
        pytest.param(SHORT, id="some", marks=pytest.mark.timeout(240)),
        pytest.param(LONG, id="many", marks=[pytest.mark.soak, pytest.mark.timeout(3_600)]),
        pytest.param(CROWD, id="crowd", marks=[pytest.mark.soak, pytest.mark.timeout(3_600)]),
    ],
)
def test_a_graph_that_is_written_all_year_stays_as_it_was_on_the_first_day(
    year: Year, tmp_path: Path, zygote: Zygote
) -> None:
    graph = seeded(tmp_path / "g", year)
    first_day = costs(graph)
    graph.tags.create("start")
    at_start = exported(graph, snapshot="start")

    told = live(zygote, graph, year, tmp_path / "enough")
    graph = opened(graph.uri)
    last_day = costs(graph)

    assert [error for some in told.values() for one in some for error in one["errors"]] == []
    assert all(one["times"] for name in ("read", "optimize", "clone") for one in told[name])
    assert year.may_be_late or sum(one["slow"] for one in told["write"]) == 0
    check_contents(graph, year)
    assert exported(graph, snapshot="start") == at_start
    for action, first in first_day.items():
        print(f"{action}: {first} on the first day, {last_day[action]} on the last")  # noqa: T201 - the figures are what a year is run for
        assert last_day[action].requests <= first.requests * 1.2
    graph.tags.delete("start")
    pass_time(graph.uri, timedelta(hours=1))
    swept = graph.cleanup(keep=1, grace=timedelta(0), confirm=True)
    assert [one.error for one in swept.tables if one.error is not None] == []
    assert opened(graph.uri).check().findings == ()
    size, fresh = size_of(graph), size_of(loaded_today(graph, year, tmp_path))
    print(f"disk: {size} bytes, {fresh} in a new graph; {told}")  # noqa: T201 - as above
    assert size <= 3 * fresh
