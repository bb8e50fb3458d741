"""What the processes do that race with repair. Every function runs in its own process."""

from datetime import timedelta

import omnigraph as og
from omnigraph.runtime import Runtime
from race.jobs import RACING, rounds_until
from upkeep_calls import opened


def mend(uri: str, until: str) -> list[str]:
    """Repair by force again and again, until there is a file of this name; what was published, and what failed."""
    found: list[str] = []
    for _ in rounds_until(until):
        try:
            done = og.repair_graph(uri, confirm=True, force=True, actor="doc", runtime=Runtime(options=RACING))
        except Exception as error:  # noqa: BLE001 - whatever it is, the test wants none
            found.append(repr(error))
        else:
            found += [f"{one.plan.pin.table_key} {one.outcome.value} {one.plan.remedy.value}" for one in done.tables]
            found += [f"{one.branch} {one.outcome.value}" for one in done.manifests]
    return found


def write(uri: str, name: str, until: str) -> list[str]:
    """Insert rows, until there is a file of this name; the names of those that are there, or what failed."""
    graph = og.open_graph(uri, runtime=Runtime(options=RACING))
    made: list[str] = []
    for _ in rounds_until(until):
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
    for _ in rounds_until(until):
        try:
            done = graph.optimize()
            failed += [
                f"{one.table_key}: {one.error}" for one in done.tables if one.error and one.table_key != "node:P"
            ]
            graph.cleanup(keep=1, grace=timedelta(hours=1), confirm=True)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test wants none
            failed.append(repr(error))
    return failed
