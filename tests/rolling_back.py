"""Graphs whose manifest has lost its newest versions, where only something else knows that they were there."""

from collections.abc import Callable

import omnigraph as og
from omnigraph.commit.publisher import arm
from omnigraph.runtime import Runtime
from omnigraph.storage.layout import MANIFEST, build_hint_key, build_note_key, format_version_name

SCHEMA = "node P { k: String @key }"
Witness = Callable[[og.Graph], None]


def add(graph: og.Graph, name: str, branch: str = "main") -> None:
    """Commit one row."""
    graph.load([{"type": "P", "data": {"k": name}}], mode="append", branch=branch)


def make_graph(uri: str, runtime: Runtime) -> og.Graph:
    """Return a graph with three commits, and a branch with one."""
    graph = og.create_graph(uri, SCHEMA, runtime=runtime)
    add(graph, "a")
    graph.branches.create("side")
    add(graph, "s", "side")
    add(graph, "b")
    return graph


def tag_side(graph: og.Graph) -> None:
    graph.tags.create("release", "side")


def fork_main(graph: og.Graph) -> None:
    graph.branches.create("child")


def fork_side(graph: og.Graph) -> None:
    graph.branches.create("child", from_="side")


def merge_main(graph: og.Graph) -> None:
    graph.merge("main", into="side")


def merge_side(graph: og.Graph) -> None:
    graph.merge("side")


def work_on_main(graph: og.Graph) -> None:
    session = graph._session
    arm(session.log, session.head(), operation="load", actor="ada").lease.stop()


WITNESSES: dict[str, tuple[Witness, str]] = {
    "tag": (tag_side, "side"),
    "fork of main": (fork_main, "main"),
    "fork of a branch": (fork_side, "side"),
    "merge of main": (merge_main, "main"),
    "merge of a branch": (merge_side, "side"),
    "operation": (work_on_main, "main"),
}
"""By what knows of the newest commit of a branch: how it came to know, and which branch that is."""


def manifest_path(graph: og.Graph, branch: str) -> str:
    """Return where the manifest of a branch is."""
    if branch == "main":
        return MANIFEST
    return graph._session.branches.main.head().snapshot.manifest.branches[branch].path


def lose_versions(graph: og.Graph, branch: str, back_to: int) -> None:
    """Remove all versions of a manifest after one, and the hint that a local disk has."""
    path = manifest_path(graph, branch)
    log = graph._session.branches.get_journal(branch, path)
    objects = graph._session.store.objects
    for number in range(back_to + 1, log.final_head().snapshot.manifest_version + 1):
        objects.delete(f"{path}/{format_version_name(number)}")
    objects.delete(build_hint_key(path))
    objects.delete(build_note_key(path))


def roll_back(uri: str, witness: str, runtime: Runtime, *, is_written_over: bool = False) -> og.Graph:
    """Make a graph, have the newest commit of a branch known by something else, and lose that commit.

    With `is_written_over`, others have committed since, more than were lost.
    """
    know, branch = WITNESSES[witness]
    graph = make_graph(uri, runtime)
    before = graph.snapshot(branch=branch).manifest_version
    add(graph, "late", branch)
    know(graph)
    lose_versions(graph, branch, before)
    found = og.open_graph(uri, read_only=not is_written_over, runtime=runtime)
    for number in range(3 * is_written_over):
        add(found, f"over{number}", branch)
    return found
