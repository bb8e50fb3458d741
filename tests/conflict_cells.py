"""Two writes at once: one that is published between the reading and the publishing of another."""

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import omnigraph as og
from load_calls import Record, edge, loaded, node, person
from mutating import new_graph, run
from worlds import runtime

Verb = Callable[[og.Graph], object]


def mutation(text: str) -> Verb:
    """A mutation of these statements."""
    return lambda graph: run(graph, text)


def load(mode: str, *records: Record) -> Verb:
    """A load of these records."""
    return lambda graph: loaded(graph, mode, *records)


@dataclass
class Between:
    """Faults that run another write, once, when the one at work has staged its rows and is about to publish."""

    first: Callable[[], object]
    attempts: int = 0
    is_first_done: bool = False
    is_counting: bool = True

    def reach(self, point: str) -> None:
        """Called by the publisher."""
        if point == "publish.staged" and not self.is_first_done:
            self.is_first_done, self.is_counting = True, False
            self.first()
            self.is_counting = True


def seeded_graph(root: Path) -> og.Graph:
    """Persons a (age 1, email a@) and b (age 2), who knows nobody; city r; team t, led by a."""
    graph = new_graph(root)
    loaded(
        graph,
        "append",
        person("a", age=1, email="a@"),
        person("b", age=2),
        node("City", "r", name="Rome"),
        node("Team", name="t"),
        edge("Leads", "t", "a"),
    )
    return graph


def contents(graph: og.Graph) -> list[str]:
    """Every record; made-up ids count for nothing."""
    out = io.BytesIO()
    graph.export(out)
    records: list[dict[str, Any]] = [json.loads(line) for line in out.getvalue().splitlines()]
    return sorted(
        json.dumps({**record, "id": len(record.get("id", "")) < 26 and record.get("id")}) for record in records
    )


def copied(seeded: Path, place: Path) -> og.Graph:
    shutil.copytree(seeded, place)
    return og.open_graph(str(place), runtime=runtime())


def opened_behind(graph: og.Graph, between: Between) -> og.Graph:
    """Another handle on the graph, whose next write comes behind the first."""
    other = og.open_graph(graph.uri, runtime=runtime())
    other._session.store.runtime = replace(runtime(), faults=between)
    return other
