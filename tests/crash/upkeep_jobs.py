"""What the children of the crash tests of maintenance do. Every function runs in its own process."""

import os
import time
from dataclasses import replace

import omnigraph as og
from crash.jobs import leftovers
from mutating import run
from omnigraph.commit.recovery import recover
from omnigraph.faults import read_faults
from omnigraph.ops.session import Session
from omnigraph.runtime import Runtime
from upkeep_calls import EAGER, MAINTAINED, exported, settled
from worlds import FAST

ONE_BY_ONE = replace(FAST, upkeep=replace(EAGER, concurrency=1))


def optimize(uri: str) -> None:
    """Optimise one table after the other; die where the environment says."""
    graph = og.open_graph(uri, runtime=Runtime(options=ONE_BY_ONE))
    graph._session.store.runtime = Runtime(options=ONE_BY_ONE, faults=read_faults(os.environ))
    graph.optimize(all_indexes=True)


def maintain(uri: str) -> None:
    """Write once, and let the writer's own maintenance die where the environment says."""
    graph = og.open_graph(uri, runtime=Runtime(options=MAINTAINED))
    graph._session.store.runtime = Runtime(options=MAINTAINED, faults=read_faults(os.environ))
    run(graph, 'insert Person { name: "e" }')
    settled(graph)


def look(uri: str) -> list[str]:
    """Everything there is, read-only."""
    graph = og.open_graph(uri, read_only=True, runtime=Runtime(options=FAST))
    return exported(graph).decode().splitlines()


def write_at_once(uri: str) -> list[str]:
    """The next write, without waiting for anything."""
    graph = og.open_graph(uri, runtime=Runtime(options=FAST))
    run(graph, 'insert Person { name: "next" } insert Knows { from: "next", to: "a" }')
    return exported(graph).decode().splitlines()


def settle(uri: str) -> dict[str, object]:
    """Wait for the lease to run out, recover, tell what is left, and optimise again."""
    time.sleep(FAST.lease_seconds * 1.5)
    graph = og.open_graph(uri, runtime=Runtime(options=ONE_BY_ONE))
    session = graph._session
    recover(session.store, session.log)
    left = {**leftovers(session, ("nodes", "edges")), "segments": unused_segments(session)}
    done = graph.optimize(all_indexes=True)
    lagging = [one.name for one in graph.indexes() if one.name is not None and one.coverage < 1]
    return {
        **left,
        "errors": [one.error for one in done.tables if one.error is not None],
        "lagging": lagging,
        "content": exported(graph).decode().splitlines(),
    }


def unused_segments(session: Session) -> list[str]:
    """Files of index segments that no commit of the history uses."""
    used: set[str] = set()
    for commit in session.log.iter_history(session.head()):
        for change in commit.changes:
            if change.after is not None:
                dataset = session.handles.open(change.path, int(change.after))
                found = [segment for index in dataset.describe_indices() for segment in index.segments]
                used |= {f"{change.path}/_indices/{segment.uuid}" for segment in found}
    there = [info.key for room in ("nodes", "edges") for info in session.store.objects.list_under(room)]
    return sorted(key for key in there if "/_indices/" in key and key.rsplit("/", 1)[0] not in used)
