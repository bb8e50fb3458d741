"""Groups of many matches: rows with the same values are merged where many have the same, and only there."""

from functools import partial

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine.executor import execute
from omnigraph.engine.output import aggregate_sink
from omnigraph.engine.output.distinct import merge_equal_rows
from worlds import runtime

ROWS = 40_000


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Numbers that all differ, numbers that hardly do, and some in between."""
    graph = og.create_graph(
        str(tmp_path_factory.mktemp("groups") / "g"),
        "node P {\n    k: I64 @key\n    each: F64\n    few: I64\n    some: I64\n    runs: I64\n}",
        runtime=runtime(),
    )
    k = pa.array(range(ROWS))
    rows = {
        "k": k,
        "each": pa.array([number * 0.5 for number in range(ROWS)]),
        "few": pa.array([number % 7 for number in range(ROWS)]),
        "some": pa.array([number * 7919 % 4_000 for number in range(ROWS)]),
        "runs": pa.array([number // 4 for number in range(ROWS)]),
    }
    graph.load(nodes={"P": pa.table(rows)}, mode="append")
    return graph


def test_only_what_repeats_is_merged(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[tuple[int, int]] = []
    merged = merge_equal_rows

    def noted(*given: object, **named: object) -> object:
        found = merged(*given, **named)  # type: ignore[arg-type]
        sizes.append((given[0].size, found.size))  # type: ignore[attr-defined]
        return found

    monkeypatch.setattr(aggregate_sink, "merge_equal_rows", noted)
    monkeypatch.setattr(aggregate_sink, "SAMPLE_ROWS", 256)
    monkeypatch.setattr("omnigraph.ops.query.execute", partial(execute, chunk_rows=4_096))

    found = {}
    for column in ("each", "few", "some", "runs"):
        sizes.clear()
        rows = graph.query(f"query q() {{ match {{ $p: P }} return {{ sum($p.{column}) as n }} }}").rows()
        found[column] = rows[0]["n"], bool(sizes)

    assert found == {
        "each": (sum(number * 0.5 for number in range(ROWS)), False),
        "few": (sum(number % 7 for number in range(ROWS)), True),
        "some": (sum(number * 7919 % 4_000 for number in range(ROWS)), True),
        "runs": (sum(number // 4 for number in range(ROWS)), True),
    }
