"""Graphs to repair, and calls that repair them."""

from pathlib import Path

import damaging as harm
import omnigraph as og
from omnigraph.ops.repair_result import RepairResult
from omnigraph.runtime import Runtime
from upkeep_calls import optimized
from worlds import FAST, runtime

SCHEMA = "node P { name: String @key  age: I64? @index }\nedge Knows: P -> P\n"


def person(name: str) -> harm.Record:
    """A node of the graph."""
    return {"type": "P", "data": {"name": name}}


def compacted_graph(place: Path) -> og.Graph:
    """Three commits to each table; the people were compacted last, so that they can go back without a loss."""
    graph = og.create_graph(str(place), SCHEMA, runtime=runtime())
    for one in ("a", "b", "c"):
        graph.load([person(one), harm.knows(one, "a")], mode="append")
    optimized(graph)
    return graph


def mended(
    root: Path, *, confirm: bool = False, force: bool = False, deep: bool = False, **faults: object
) -> RepairResult:
    """What a repair of its own process says."""
    settings = Runtime(options=FAST, **faults)  # type: ignore[arg-type]  # parts of a Runtime, by name
    return og.repair_graph(str(root), confirm=confirm, force=force, deep=deep, actor="doc", runtime=settings)


def codes_of(root: Path) -> list[str]:
    """What a check finds."""
    return harm.codes(str(root))
