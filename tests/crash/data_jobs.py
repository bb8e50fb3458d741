"""What the children of the crash tests of data verbs do. Every function runs in its own process."""

import io
import os
from typing import Any

import omnigraph as og
from crash.jobs import OVER, leftovers
from mutating import run
from omnigraph.commit.recovery import recover
from omnigraph.faults import read_faults
from omnigraph.runtime import Runtime
from worlds import FAST

SEED = (
    'insert Person { name: "a", age: 1 } insert Person { name: "b", age: 2 } insert Person { name: "c" }'
    ' insert Knows { from: "a", to: "b", since: 1 } insert Knows { from: "b", to: "c", since: 2 }'
)
MUTATIONS = {
    "insert": 'insert Person { name: "z", age: 26 } insert Knows { from: "z", to: "a" }',
    "upsert": 'insert Person { name: "a", age: 100 } insert Knows { from: "a", to: "b", since: 100 }',
    "update": 'update Person set { age: 50 } where age > 0 update Knows set { since: 50 } where from = "a"',
    "delete": 'delete Person where name = "b"',
}
LOADS = {
    "load append": (
        '{"edge": "Knows", "from": "z", "to": "a"}',
        '{"type": "Person", "data": {"name": "z", "age": 26}}',
    ),
    "load merge": (
        '{"type": "Person", "data": {"name": "a", "age": 100}}',
        '{"type": "Person", "data": {"name": "z"}}',
        '{"edge": "Knows", "from": "a", "to": "b", "data": {"since": null}}',
    ),
    "load overwrite": (
        '{"type": "Person", "data": {"name": "a"}}',
        '{"edge": "Knows", "from": "a", "to": "a"}',
    ),
}


def opened(uri: str, *, is_victim: bool = False) -> og.Graph:
    """The graph; a victim dies where the environment says, once it is open."""
    graph = og.open_graph(uri, runtime=Runtime(options=FAST))
    if is_victim:
        graph._session.store.runtime = Runtime(options=FAST, faults=read_faults(os.environ))
    return graph


def write(uri: str, kind: str) -> None:
    """Change two tables by one call."""
    graph = opened(uri, is_victim=True)
    if kind in MUTATIONS:
        run(graph, MUTATIONS[kind])
    else:
        lines = "".join(f"{line}\n" for line in LOADS[kind])
        graph.load(io.BytesIO(lines.encode()), mode=kind.removeprefix("load "))


def look(uri: str) -> list[Any]:
    """Everything there is, read-only."""
    return contents(og.open_graph(uri, read_only=True, runtime=Runtime(options=FAST)))


def write_at_once(uri: str) -> list[Any]:
    """The next write, without waiting for anything."""
    graph = opened(uri)
    run(graph, 'insert Person { name: "next" } insert Knows { from: "next", to: "a" }')
    return contents(graph)


def settle(uri: str) -> dict[str, object]:
    """Recover when all leases have run out, and tell what is left."""
    session = og.open_graph(uri, runtime=Runtime(options=OVER))._session
    recover(session.store, session.log)
    return leftovers(session, ("nodes", "edges"))


def aftermath(uri: str) -> dict[str, Any]:
    """What somebody sees who looks at once, what the next write makes of it, and what is left in the end."""
    return {"seen": look(uri), "next": write_at_once(uri), "settled": settle(uri)}


def contents(graph: og.Graph) -> list[Any]:
    """Every record, sorted; keyed types only, so that ids are the same each time."""
    stream = io.BytesIO()
    graph.export(stream, types=["Person", "Knows"])
    return sorted(stream.getvalue().decode().splitlines())
