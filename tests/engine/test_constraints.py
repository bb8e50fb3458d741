"""The rules of constraints by themselves: what clashes, which counts are wrong, how values are shown."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.commit.requirements import IdsPresent, resolve_keys, select_complete
from omnigraph.engine.constraints.edge_constraints import EdgeCounts, NodeLookup, find_missing_ends, list_ends
from omnigraph.engine.constraints.unique import find_row_clashes
from omnigraph.engine.constraints.violations import quote_value
from omnigraph.schema.catalog import Cardinality, EdgeType, NodeType
from omnigraph.schema.values import format_value

PERSON = NodeType(name="Person", identity=1, properties=())
KNOWS = EdgeType(
    name="Knows", identity=2, properties=(), source="Person", target="Person", cardinality=Cardinality(low=1, high=2)
)


def test_a_row_clashes_with_the_first_of_its_values() -> None:
    rows = pa.table({"id": ["a", "b", "c", "d", "e"], "x": [0.0, 1.0, -0.0, None, -0.0]})

    clashes = find_row_clashes(PERSON, ("x",), select_complete(rows, ("x",)))

    assert list(zip(clashes.ids.to_pylist(), clashes.holders.to_pylist(), strict=True)) == [("c", "a"), ("e", "a")]
    assert clashes.format_violation(1) == "@unique violation on Person.x: 0.0 is held by 'a' and 'e'"


def test_counts_outside_of_the_bounds_are_wrong() -> None:
    sources = pa.array(["none", "one", "two", "three"])
    counts = EdgeCounts(edge=KNOWS, sources=sources, stored=np.array([0, 1, 2, 1]), added=np.array([0, 0, 0, 2]))

    messages = [counts.format_violation(position) for position in counts.find_wrong().tolist()]

    assert messages == [
        "@card violation on Knows: 'none' has 0 edges (min 1)",
        "@card violation on Knows: 'three' has 3 edges (max 2)",
    ]


@pytest.mark.parametrize("parts", [1, 2])
def test_an_end_is_a_node_that_comes_or_one_that_stays(parts: int) -> None:
    ends = {"src": ["new", "stored", "gone"], "dst": ["new", "new", "away"]}
    asked: list[list[str]] = []

    def find_remaining(ids: pa.Array) -> pa.Array:
        asked.append(sorted(ids.to_pylist()))
        return pa.array([row_id for row_id in ids.to_pylist() if row_id == "stored"], pa.string())

    def read(names: Sequence[str]) -> list[pa.Array]:
        bounds = np.linspace(0, 3, parts + 1).astype(int).tolist()
        slices = [ends[name][start:end] for name in names for start, end in pairwise(bounds)]
        return [pa.array(ids, pa.string()) for ids in slices]

    nodes = NodeLookup(
        table_key="node:Person",
        iter_outside=lambda columns: (column.filter(pc.not_equal(column, "new")) for column in columns),
        find_remaining=find_remaining,
    )

    missing, requirements = find_missing_ends(KNOWS, read, lambda _: nodes)

    assert [end for end, _ in missing] == list(list_ends(KNOWS))
    assert all(sorted(ids.to_pylist()) == ["away", "gone"] for _, ids in missing)
    assert [
        (one.table_key, resolve_keys(one.ids).to_pylist()) for one in requirements if isinstance(one, IdsPresent)
    ] == [("node:Person", ["stored"])]
    assert asked == [["away", "gone", "stored"]]


@pytest.mark.parametrize(
    "value, text, quoted, literal",
    [
        (date(2026, 1, 2), '"2026-01-02"', "'2026-01-02'", 'date("2026-01-02")'),
        (
            datetime(2026, 1, 2, tzinfo=UTC),
            '"2026-01-02T00:00:00Z"',
            "'2026-01-02T00:00:00Z'",
            'datetime("2026-01-02T00:00:00Z")',
        ),
        ([1, 2], "a list of 2 items", "a list of 2 items", "[1, 2]"),
        (1e30, "1e+30", "1e+30", "1.0e30"),
        ("it's", '"it\'s"', "'it's'", '"it\'s"'),
        ('say "a"', '"say \\"a\\""', "'say \"a\"'", '"say \\"a\\""'),
    ],
)
def test_a_value_is_shown_as_its_reader_writes_it(value: object, text: str, quoted: str, literal: str) -> None:
    texts = format_value(value, is_typed=True), quote_value(value), format_value(value, in_query=True)

    assert texts == (text, quoted, literal)


def test_a_time_that_a_caller_gave_is_shown_by_its_kind() -> None:
    assert format_value(datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))) == "a datetime"
