"""Random mutations that matches drive, against plain dictionaries: the same verdicts, rows and graphs."""

import json
from pathlib import Path
from random import Random

import pytest

import omnigraph as og
from mutating import new_graph, rows
from plain_driven import FRESH, SCHEMA, DrivenMaker, DrivenMutation, PlainRun, RefusedError, Tables, nothing

MUTATIONS = 30


def contents(tables: Tables) -> dict[str, list[str]]:
    """All rows of all types without ids that the engine makes up, in a fixed order."""
    return {
        name: sorted(
            json.dumps({**row, "id": None if name in ("L", "R") else row_id}, sort_keys=True)
            for row_id, row in table.items()
        )
        for name, table in tables.items()
    }


def stored(graph: og.Graph) -> Tables:
    """All rows of a graph."""
    tables: Tables = {}
    for name in nothing():
        tables[name] = {row.pop("id"): row for row in rows(graph, name)}
    return tables


def adopt_ids(before: Tables, after: Tables, wanted: Tables) -> Tables:
    """The wanted tables with the ids that the engine has made up, which are those of equal rows."""
    adopted = {name: dict(table) for name, table in wanted.items()}
    for name in ("L", "R"):
        free = {row_id: row for row_id, row in after[name].items() if row_id not in before[name]}
        for row_id in [row_id for row_id in adopted[name] if row_id.startswith(FRESH)]:
            row = adopted[name].pop(row_id)
            match = next(other for other, candidate in free.items() if candidate == row)
            adopted[name][match] = free.pop(match)
    return adopted


@pytest.mark.parametrize("seed", range(8))
def test_driven_mutations_do_what_plain_dictionaries_do(tmp_path: Path, seed: int) -> None:
    graph = new_graph(tmp_path, SCHEMA)
    maker = DrivenMaker(Random(seed))
    tables = nothing()
    seen: set[str] = set()
    for _ in range(MUTATIONS):
        mutation = maker.mutation()
        tables = step(graph, tables, mutation, seen)
    # A world in which nothing is ever refused, or nothing ever written, would prove little.
    assert "done" in seen


def run_plainly(tables: Tables, mutation: DrivenMutation) -> PlainRun | str:
    """The run over dictionaries, or the code of the error."""
    try:
        return PlainRun.of(tables, mutation)
    except RefusedError as refusal:
        return str(refusal)


def step(graph: og.Graph, tables: Tables, mutation: DrivenMutation, seen: set[str]) -> Tables:
    """One mutation on both sides; the tables after it."""
    wanted = run_plainly(tables, mutation)
    if isinstance(wanted, str):
        with pytest.raises(og.OmnigraphError) as caught:
            graph.mutate(mutation.text)
        assert caught.value.code == wanted, mutation.text
        seen.add(wanted)
        return tables
    result = graph.mutate(mutation.text)
    after = stored(graph)
    assert contents(after) == contents(wanted.tables), mutation.text
    assert (result.affected_nodes, result.affected_edges) == wanted.affected, mutation.text
    assert (result.existing_nodes or 0) + (result.existing_edges or 0) == wanted.existing, mutation.text
    returned = [] if result.rows is None else sorted(map(json.dumps, result.rows))
    assert returned == sorted(map(json.dumps, wanted.rows)), mutation.text
    seen.add("done")
    return adopt_ids(tables, after, wanted.tables)
