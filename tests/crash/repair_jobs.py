"""What the children of the crash tests of repair do. Every function runs in its own process."""

import os

import omnigraph as og
from omnigraph.faults import read_faults
from omnigraph.runtime import Runtime
from upkeep_calls import exported
from worlds import FAST


def repair(uri: str) -> list[str]:
    """Repair by force; die where the environment says."""
    runtime = Runtime(options=FAST, faults=read_faults(os.environ))
    done = og.repair_graph(uri, confirm=True, force=True, runtime=runtime)
    return [*(one.outcome.value for one in done.manifests), *(one.outcome.value for one in done.tables)]


def look(uri: str) -> dict[str, object]:
    """What the graph says, and what a check does."""
    runtime = Runtime(options=FAST)
    found = og.check_graph(uri, runtime=runtime)
    graph = og.open_graph(uri, runtime=runtime)
    return {
        "content": exported(graph).decode().splitlines(),
        "repairs": sum(commit.operation == "repair" for commit in graph.commits()),
        "errors": [one.code for one in found.findings if one.severity.value == "error"],
        "unfinished": "repair_unfinished" in [one.code for one in found.findings],
    }
