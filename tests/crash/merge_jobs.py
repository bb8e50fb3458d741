"""What the children of the crash tests of merges do. Every function runs in its own process."""

from crash.jobs import armed
from merging import contents
from omnigraph.graph import Graph
from omnigraph.runtime import Runtime
from worlds import FAST


def opened(uri: str, *, is_read_only: bool = False) -> Graph:
    """The graph, without faults."""
    return Graph.open(uri, is_read_only=is_read_only, runtime=Runtime(options=FAST))


def merge(uri: str) -> str:
    """Merge the branch, with faults."""
    graph = opened(uri)
    graph._session.store.runtime = armed()
    return graph.merge("dev").outcome.value


def look(uri: str) -> dict[str, object]:
    """Read-only: what main holds."""
    return {"main": contents(opened(uri, is_read_only=True))}


def revert(uri: str, commit: str) -> str:
    """Revert a commit, with faults."""
    graph = opened(uri)
    graph._session.store.runtime = armed()
    return graph.revert(commit).outcome.value


def reset(uri: str, commit: str) -> bool:
    """Reset main, with faults; whether that needed a commit."""
    graph = opened(uri)
    graph._session.store.runtime = armed()
    return graph.reset("main", to=commit).commit_id is not None
