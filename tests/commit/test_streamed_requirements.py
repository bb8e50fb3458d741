"""Requirements of rows that stream: what others have changed since the base breaks them, and nothing else does."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from mutating import new_graph, run
from omnigraph.commit.requirements import Requirement, Violation
from omnigraph.commit.streamed_requirements import (
    StreamedCountsWithin,
    StreamedIdsAbsent,
    StreamedIdsPresent,
    StreamedReferencesAbsent,
    StreamedValuesAbsent,
)

SEED = (
    'insert Person { name: "a", email: "a@" } insert Person { name: "b" } insert Person { name: "c" }'
    ' insert Team { name: "t" } insert Leads { from: "t", to: "a" }'
)


def rows(**columns: list[str]) -> Callable[[], Iterator[pa.RecordBatch]]:
    """Rows of a write, in two batches."""
    table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    return lambda: iter(table.to_batches(max_chunksize=1))


def checked(graph: og.Graph, requirement: Requirement, *statements: str) -> Violation | None:
    """What is broken when others have run these statements."""
    session = graph._session
    base = session.open_tables(session.resolve_snapshot())
    for one in statements:
        run(graph, one)
    return requirement.check(base, session.open_tables(session.resolve_snapshot()))


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = new_graph(tmp_path)
    run(graph, SEED)
    return graph


CASES: dict[str, tuple[Requirement, str, str | None]] = {
    "an id that was created": (
        StreamedIdsAbsent(table_key="node:Person", rows=rows(id=["x", "y"])),
        'insert Person { name: "y" }',
        "`y` exist now",
    ),
    "another id that was created": (
        StreamedIdsAbsent(table_key="node:Person", rows=rows(id=["x"])),
        'insert Person { name: "y" }',
        None,
    ),
    "an end that went": (
        StreamedIdsPresent(table_key="node:Person", rows=rows(src=["a", "b"])),
        'delete Person where name = "b"',
        "`b` were deleted",
    ),
    "an end that was only changed": (
        StreamedIdsPresent(table_key="node:Person", rows=rows(src=["a", "b"])),
        'update Person set { age: 3 } where name = "b"',
        None,
    ),
    "a unique value that was taken": (
        StreamedValuesAbsent(table_key="node:Person", columns=("email",), rows=rows(email=["x@"])),
        'update Person set { email: "x@" } where name = "b"',
        "the values of `b` clash",
    ),
    "a unique value that nobody took": (
        StreamedValuesAbsent(table_key="node:Person", columns=("email",), rows=rows(email=["x@"])),
        'update Person set { email: "y@" } where name = "b"',
        None,
    ),
    "a source whose last place was taken": (
        StreamedCountsWithin(table_key="edge:Leads", column="src", rows=rows(id=["e"], src=["t"]), low=1, high=2),
        'insert Leads { from: "t", to: "b" }',
        "`t` would have 3 rows",
    ),
    "another source's last place": (
        StreamedCountsWithin(table_key="edge:Leads", column="src", rows=rows(id=["e"], src=["u"]), low=1, high=2),
        'insert Leads { from: "t", to: "b" }',
        None,
    ),
    "an edge to a node that stays": (
        StreamedReferencesAbsent(table_key="edge:Leads", column="dst", rows=rows(id=["a", "b"])),
        'insert Leads { from: "t", to: "b" }',
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_streamed_requirement_breaks_by_what_changed(graph: og.Graph, name: str) -> None:
    requirement, statement, reason = CASES[name]

    found = checked(graph, requirement, statement)

    assert (None if found is None else found.reason) == reason


def test_an_edge_to_a_node_that_goes_breaks(graph: og.Graph) -> None:
    requirement = StreamedReferencesAbsent(table_key="edge:Leads", column="dst", rows=rows(id=["a"]))

    found = checked(graph, requirement, 'insert Leads { from: "t", to: "b" }')

    assert found is not None
    assert found.reason.endswith("clash")
