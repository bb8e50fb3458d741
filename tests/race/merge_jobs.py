"""What processes do that merge into one branch at the same time. Every function runs in its own process."""

from dataclasses import replace

from merging import change, run
from omnigraph.commit.conflict import ConflictError
from omnigraph.graph import Graph
from worlds import FAST, runtime

ROUNDS_TO_WIN = 40
PATIENT = replace(FAST, heartbeat_seconds=5, lease_seconds=60)
"""A busy machine must not make one process take another for dead."""


def opened(uri: str) -> Graph:
    """The graph, for one process."""
    return Graph.open(uri, is_read_only=False, runtime=runtime(PATIENT))


def write_and_merge(uri: str, name: str, times: int) -> dict[str, list[str]]:
    """Change a row of one's own on a branch of one's own, and merge that; what was acknowledged, and what refused."""
    graph = opened(uri)
    merged: list[str] = []
    conflicts: list[str] = []
    for number in range(times):
        run(graph, change("P", "n", number + 1, name=name), name)
        run(graph, f'insert P {{ name: "{name}{number}", m: {number} }}', name)
        if _merged(graph, name, conflicts):
            merged.append(f"{name}{number}")
    return {"merged": merged, "conflicts": conflicts}


def write_and_take(uri: str, own: str, other: str, times: int) -> list[str]:
    """Write to one's own branch, and merge the other one into it, at the same time as the other does; what was written.

    A row that the one before has written is deleted again: it must not come back from the other branch.
    """
    graph = opened(uri)
    written: list[str] = []
    for number in range(times):
        run(graph, f'insert P {{ name: "{own}-{number}", m: {number} }}', own)
        written.append(f"{own}-{number}")
        if number:
            run(graph, f'delete P where name = "{own}-{number - 1}"', own)
        assert _merged(graph, other, [], into=own)
    return written


def _merged(graph: Graph, name: str, conflicts: list[str], into: str = "main") -> bool:
    """Merge until it lands; whoever loses to another merge looks again."""
    for _ in range(ROUNDS_TO_WIN):
        try:
            graph.merge(name, into=into, actor=name)
        except ConflictError as error:
            conflicts.append(str(error))
            continue
        return True
    return False


def write_rows(uri: str, name: str, times: int) -> list[str]:
    """Insert rows on main; those that were acknowledged."""
    graph = opened(uri)
    done: list[str] = []
    for number in range(times):
        run(graph, f'insert P {{ name: "{name}{number}", m: {number} }}')
        done.append(f"{name}{number}")
    return done


def change_schema(uri: str, schemas: list[str]) -> list[int]:
    """Apply schemas to main one after the other; which of them landed."""
    graph = opened(uri)
    landed: list[int] = []
    for number, schema in enumerate(schemas):
        for _ in range(ROUNDS_TO_WIN):
            try:
                graph.apply_schema(schema, allow_drops=True)
            except ConflictError:
                continue
            landed.append(number)
            break
    return landed
