"""What the processes do that race with repair. Every function runs in its own process."""

import time
from datetime import timedelta
from pathlib import Path

import omnigraph as og
from omnigraph.runtime import Runtime
from race.jobs import RACING
from upkeep_calls import opened


def mend(uri: str, until: str) -> list[str]:
    """Repair by force again and again, until there is a file of this name; what was published, and what failed."""
    found: list[str] = []
    end = time.monotonic() + 60
    while time.monotonic() < end:
        is_last = Path(until).exists()
        try:
            done = og.repair_graph(uri, confirm=True, force=True, actor="doc", runtime=Runtime(options=RACING))
        except Exception as error:  # noqa: BLE001 - whatever it is, the test wants none
            found.append(repr(error))
        else:
            found += [f"{one.plan.pin.table_key} {one.outcome.value} {one.plan.remedy.value}" for one in done.tables]
            found += [f"{one.branch} {one.outcome.value}" for one in done.manifests]
        if is_last:
            break
    return found


def write(uri: str, name: str, until: str) -> list[str]:
    """Insert rows, until there is a file of this name; the names of those that are there, or what failed."""
    graph = og.open_graph(uri, runtime=Runtime(options=RACING))
    made: list[str] = []
    end = time.monotonic() + 60
    while time.monotonic() < end and not Path(until).exists():
        key = f"{name}{len(made)}"
        try:
            graph.load([{"type": "Q", "data": {"name": key}}], mode="append")
        except Exception as error:  # noqa: BLE001 - whatever it is, the test wants none
            key = repr(error)
        made.append(key)
    return made


def keep(uri: str, until: str) -> list[str]:
    """Optimise and clean up, until there is a file of this name; what failed, but for tables that are damaged."""
    graph = opened(uri)
    failed: list[str] = []
    end = time.monotonic() + 60
    while time.monotonic() < end and not Path(until).exists():
        try:
            done = graph.optimize()
            failed += [
                f"{one.table_key}: {one.error}" for one in done.tables if one.error and one.table_key != "node:P"
            ]
            graph.cleanup(keep=1, grace=timedelta(seconds=20), confirm=True)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test wants none
            failed.append(repr(error))
    return failed
