"""Short ways to optimise in tests: at once, however little there is to do."""

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import omnigraph as og
from omnigraph.ops.optimize import OptimizeResult
from omnigraph.ops.optimize_table import TableUpkeep
from omnigraph.options import Maintenance, Options, UpkeepOptions
from omnigraph.runtime import Runtime
from worlds import FAST

EAGER = UpkeepOptions(merged_fragments=2, deleted_share=0.01, deleted_rows=1, index_rows=1)
"""Every two fragments are merged, every deleted row is dropped, every index is built."""


MAINTAINED = replace(
    FAST, maintenance=Maintenance.AUTO, upkeep=UpkeepOptions(merged_fragments=2, tail_fragments=1, index_rows=1)
)
"""Writers compact two small fragments as soon as there are two."""


def eager(options: Options = FAST) -> Options:
    """The same settings, but that maintenance always pays."""
    return replace(options, upkeep=EAGER)


def opened(uri: str, **runtime: object) -> og.Graph:
    """The graph, through a handle for which maintenance always pays."""
    settings = {"options": eager(), **runtime}
    return og.open_graph(uri, runtime=Runtime(**settings))  # type: ignore[arg-type]  # parts of a Runtime, by name


def optimized(graph: og.Graph, *, all_indexes: bool = True, branch: str = "main") -> OptimizeResult:
    """Optimise all of it, through a handle of its own; no table may fail."""
    done = opened(graph.uri).optimize(all_indexes=all_indexes, branch=branch)
    assert [one.error for one in done.tables if one.error is not None] == []
    return done


def by_table(result: OptimizeResult) -> dict[str, TableUpkeep]:
    """The reports by the names of the types."""
    return {one.table_key.partition(":")[2]: one for one in result.tables}


def settled(graph: og.Graph) -> None:
    """Wait for the maintenance that writes have started."""
    assert graph._session.tails.wait(60)


def exported(graph: og.Graph, snapshot: str | None = None, branch: str = "main") -> bytes:
    """Everything that a state of the graph says."""
    out = io.BytesIO()
    graph.export(out, snapshot=snapshot, branch=branch)
    return out.getvalue()


def fragments(graph: og.Graph, type_name: str) -> int:
    """How many fragments the table of a type has now."""
    return len(graph.table(type_name).get_fragments())


def indexed_rows(graph: og.Graph) -> dict[str, float]:
    """The coverage of every index that is there, by type, property and kind."""
    return {f"{one.type_name}.{one.column} {one.kind}": one.coverage for one in graph.indexes() if one.name is not None}


def files_of(graph: og.Graph) -> set[str]:
    """Every file of the tables, but those that Lance leaves of each version it makes."""
    root = Path(graph.uri)
    found = [file for room in ("nodes", "edges") for file in (root / room).rglob("*") if file.is_file()]
    return {str(file.relative_to(root)) for file in found if file.parent.name != "_transactions"}


@dataclass
class AtPoint:
    """Faults that do something whenever a point is reached, so many times."""

    point: str
    action: Callable[[], object]
    times: int = 1

    def reach(self, point: str) -> None:
        """Called by the engine."""
        if point == self.point and self.times:
            self.times -= 1
            self.action()
