"""The model of the storage package does what Lance does: the same random scripts, step by step, on both."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.options import Durability, Options
from omnigraph.runtime import Runtime
from omnigraph.storage.cas_table import create_cas_table, open_cas_table
from omnigraph.storage.cas_table_errors import SwapLostError, TableMissingError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.object_store import ObjectChangedError, ObjectExistsError, ObjectMissingError
from omnigraph.storage.uri import parse_uri
from schedules.model_room import ModelStorage, Room, create_table, open_table
from schedules.scheduler import Scheduler
from schedules.simulation import build_runtime
from schedules.strategies import FaultPlan, RandomStrategy

PATH = "__manifest"
OPTIONS = Options(durability=Durability.OS, reserve_bytes=0)
SCRIPTS, STEPS = 12, 25


@dataclass
class Side:
    """One implementation, and the tables and swaps that a script has at hand there."""

    store: Any
    create: Callable[..., Any]
    open: Callable[..., Any]
    tables: list[Any]
    swaps: list[tuple[Any, Any]]
    etags: dict[str, list[str]]


def make_sides(directory: Path) -> tuple[Side, Side]:
    (directory / "graph").mkdir()
    real = GraphStorage(parse_uri(str(directory / "graph")), Runtime(options=OPTIONS))
    scheduler = Scheduler(RandomStrategy(0, FaultPlan(())))
    model = ModelStorage(Room(), scheduler, build_runtime(scheduler, OPTIONS, 1))
    return (
        Side(real, create_cas_table, open_cas_table, [], [], {}),
        Side(model, create_table, open_table, [], [], {}),
    )


def rows(number: int) -> pa.Table:
    return pa.table({"n": pa.array([number], pa.int64())})


def describe(table: Any) -> tuple[object, ...]:
    """Return everything that a user of a table can see, but for the names of files."""
    sealed = [table.read_sealed(index)["n"].to_pylist() for index in range(table.sealed_count)]
    return table.version, table.read_head()["n"].to_pylist(), sealed, table.count_sealed_rows(), len(table.list_files())


def attempt(call: Callable[[], object]) -> object:
    """Return a result, or the kind of error."""
    try:
        return call()
    except (
        SwapLostError, TableMissingError, ObjectExistsError, ObjectChangedError, ObjectMissingError,
    ) as error:  # fmt: skip
        return type(error).__name__


def keep_table(side: Side, make: Callable[[], Any]) -> object:
    table = make()
    side.tables.append(table)
    return describe(table)


def prepare(side: Side, index: int, number: int, *, seals: bool) -> object:
    table = side.tables[index % len(side.tables)]
    seal = table.read_head() if seals else None
    side.swaps.append((table, table.prepare(rows(number), seal=seal)))
    return len(side.swaps[-1][1].files)


def swap(side: Side, index: int) -> object:
    table, prepared = side.swaps[index % len(side.swaps)]
    return keep_table(side, lambda: table.commit(prepared))


def put(side: Side, key: str, kind: str, data: bytes) -> object:
    objects, etags = side.store.objects, side.etags.setdefault(key, [])
    if kind == "match":
        etags.append(objects.put_if_match(key, data, etags[-1] if etags else "none"))
    elif kind == "stale":
        etags.append(objects.put_if_match(key, data, etags[0] if etags else "none"))
    else:
        etags.append(objects.put_if_absent(key, data) if kind == "absent" else objects.put(key, data))
    return objects.get(key).data


STEPS_OF_SCRIPTS: tuple[Callable[[random.Random], Callable[[Side], object]], ...] = (
    lambda _: lambda side: keep_table(side, lambda: side.open(side.store, PATH)),
    lambda choice: _bind(
        lambda side, n: keep_table(side, lambda: side.open(side.store, PATH, n)), choice.randint(1, 9)
    ),
    lambda choice: _bind(
        lambda side, n: prepare(side, n, n, seals=n % 3 == 0) if side.tables else None, choice.randrange(100)
    ),
    lambda choice: _bind(lambda side, n: swap(side, n) if side.swaps else None, choice.randrange(100)),
    lambda _: lambda side: swap(side, len(side.swaps) - 1) if side.swaps else None,
    lambda _: lambda side: [table.is_newest() for table in side.tables],
    lambda _: lambda side: [table.open_latest().version for table in side.tables],
    lambda _: lambda side: [table.is_there() for table in side.tables],
    lambda choice: _bind(
        lambda side, n: put(side, f"__recovery/{n % 2}.json", ("match", "stale", "absent", "any")[n % 4], bytes([n])),
        choice.randrange(100),
    ),
    lambda _: lambda side: side.store.objects.delete("__recovery/1.json"),
    lambda _: lambda side: [info.key for info in side.store.objects.list_under("__recovery")],
)


def _bind(act: Callable[[Side, int], object], number: int) -> Callable[[Side], object]:
    return lambda side: act(side, number)


@pytest.mark.parametrize("seed", range(SCRIPTS))
def test_a_script_has_the_same_results_on_both(tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)
    sides = make_sides(tmp_path)
    for side in sides:
        keep_table(side, partial(side.create, side.store, PATH, rows(0)))

    for number in range(STEPS):
        step = choice.choice(STEPS_OF_SCRIPTS)(choice)
        results = [attempt(partial(step, side)) for side in sides]

        assert results[1] == results[0], f"step {number}"


def test_a_table_is_created_once_on_both(tmp_path: Path) -> None:
    for side in make_sides(tmp_path):
        side.create(side.store, PATH, rows(0))

        with pytest.raises(SwapLostError):
            side.create(side.store, PATH, rows(1))
        assert describe(side.open(side.store, PATH))[:2] == (1, [0])


def test_a_trim_keeps_the_newest_on_both(tmp_path: Path) -> None:
    for side in make_sides(tmp_path):
        table = side.create(side.store, PATH, rows(0))
        first = table
        for number in range(1, 6):
            table = table.commit(table.prepare(rows(number), seal=table.read_head() if number == 2 else None))

        if isinstance(side.store, ModelStorage):
            side.store.scheduler.now += timedelta(seconds=1)

        table.trim(2, timedelta(0))

        left = [attempt(partial(side.open, side.store, PATH, number)) for number in range(1, 7)]
        assert left[:4] == ["TableMissingError"] * 4
        assert [opened.version for opened in left[4:]] == [5, 6]  # type: ignore[attr-defined]  # tables, not errors
        # A swap on a base whose successor was trimmed succeeds behind the newest: what the protocol guards against.
        assert first.commit(first.prepare(rows(9))).version == 2
        assert describe(side.open(side.store, PATH))[:2] == (6, [5])
        assert describe(table)[2] == [[1]]
