"""Graphs to clone in tests, and all that can be read of one."""

from collections.abc import Callable
from pathlib import Path

import omnigraph as og
from mutating import new_graph, run
from omnigraph.faults import Faults, NoFaults
from omnigraph.ops.clone import CloneResult
from omnigraph.options import Options
from omnigraph.runtime import Runtime
from upkeep_calls import exported
from worlds import FAST, runtime

Readable = dict[str, dict[str, bytes]]


def on(graph: og.Graph, branch: str, body: str) -> str | None:
    """Run statements on a branch; the commit's id, if they changed anything."""
    return graph.mutate(f"query q() {{ {body} }}", branch=branch).commit_id


def branched(root: Path) -> og.Graph:
    """A graph with a past, the branch `review` that has merged main once, and `idea` that was taken from it."""
    graph = new_graph(root)
    run(graph, 'insert Person { name: "a", age: 1 } insert Person { name: "b" } insert Knows { from: "a", to: "b" }')
    graph.branches.create("review")
    on(graph, "review", 'update Person set { age: 2 } where name = "b"')
    run(graph, 'insert Person { name: "c" }')
    graph.merge("main", into="review")
    graph.branches.create("idea", from_="review")
    on(graph, "idea", 'delete Person where name = "a"')
    run(graph, 'update Person set { age: 7 } where name = "c"')
    return graph


def cloned(
    source: og.Graph | str,
    target: Path | str,
    *,
    branches: list[str] | None = None,
    faults: Faults | None = None,
    options: Options = FAST,
) -> CloneResult:
    """Clone with test settings."""
    uri = source if isinstance(source, str) else source.uri
    settings = Runtime(options=options, faults=faults or NoFaults())
    return og.clone_graph(uri, str(target), branches=branches, runtime=settings)


def opened(place: Path | str, options: Options = FAST) -> og.Graph:
    """A graph, read-only, through a handle of its own."""
    return og.open_graph(str(place), read_only=True, runtime=runtime(options))


def readable(graph: og.Graph) -> Readable:
    """By branch and commit, everything that the commit's state says."""
    names = [branch.name for branch in graph.branches.list()]
    return {
        name: {commit.id: exported(graph, snapshot=commit.id, branch=name) for commit in graph.commits(branch=name)}
        for name in names
    }


def present(graph: og.Graph) -> dict[str, bytes]:
    """By branch, everything that it says now."""
    return {branch.name: exported(graph, branch=branch.name) for branch in graph.branches.list()}


def differences(one: og.Graph, other: og.Graph) -> dict[str, object]:
    """By branch, what the newest states of two copies of a graph don't have in common, row by row and pin by pin."""
    found: dict[str, object] = {}
    for branch in one.branches.list():
        mine, theirs = (graph.snapshot(branch=branch.name) for graph in (one, other))
        if mine.manifest != theirs.manifest and mine.pins != theirs.pins:
            found[branch.name] = [mine.to_json(), theirs.to_json()]
        # The later copy has the commits of the earlier one, so its own diff tells what came since.
        changed = list(other.diff(f"{branch.name}@{mine.commit.id}", branch.name).json_lines())
        if changed:
            found[branch.name] = changed
    return found


def tree(place: Path | str) -> dict[str, tuple[int, int]]:
    """Every file below a directory, with its size and time."""
    root = Path(place)
    found = [path for path in root.rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


class Every:
    """Faults that do something each time a point is reached."""

    def __init__(self, point: str, action: Callable[[], object]) -> None:
        self._point, self._action = point, action

    def reach(self, point: str) -> None:
        """Called by the engine."""
        if point == self._point:
            self._action()
