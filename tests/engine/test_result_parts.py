"""A part of a result is those of its rows, whether they are there already or fetched for it."""

import pickle
from pathlib import Path

import pytest

import omnigraph as og
from worlds import runtime

ROWS = 5_000
"""More than are fetched with the query itself."""
QUERY = "query q() { match { $n: N } return { $n.v } order { $n.v asc } }"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    home = tmp_path_factory.mktemp("parts")
    found = og.create_graph(str(home / "g.omni"), "node N { v: I64 }", runtime=runtime())
    lines = "".join(f'{{"type":"N","id":"n{number}","data":{{"v":{number}}}}}\n' for number in range(ROWS))
    (home / "rows.jsonl").write_text(lines, encoding="utf-8")
    found.load(Path(home / "rows.jsonl"), mode="append")
    return found


PARTS = [(0, 0), (0, 3), (4_090, 4_200), (ROWS - 2, ROWS + 5), (ROWS, ROWS + 1), (ROWS + 7, ROWS + 9), (0, ROWS)]


@pytest.mark.parametrize("start, stop", PARTS)
@pytest.mark.parametrize("form", ["not fetched", "fetched", "a copy"])
def test_a_part_is_the_rows_between_its_ends(form: str, start: int, stop: int, graph: og.Graph) -> None:
    result = graph.query(QUERY)
    if form == "fetched":
        result.to_arrow()
    if form == "a copy":
        result = pickle.loads(pickle.dumps(result))  # noqa: S301 - its own

    part = result.part(start, stop)

    assert part.schema == result.schema
    assert part.column(0).to_pylist() == list(range(ROWS))[start:stop]
