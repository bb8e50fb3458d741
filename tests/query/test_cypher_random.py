"""Random statements of Cypher have the rows that an interpreter of their own has, or are refused by name."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

import omnigraph as og
from corpus_reading import plain_records
from cypher_interpreter import Interpreter
from cypher_model import build_model, format_json
from cypher_random import SCHEMA, StatementBuilder, build_records
from cypher_values import CypherError, ModelGraph
from omnigraph.errors import OmnigraphError
from omnigraph.lang.cypher.parser import parse_cypher
from omnigraph.lang.source import Source
from read_seeding import append, new_graph
from schema_making import accepted
from worlds import FAST, runtime

GRAPHS = 14
STATEMENTS = 25
MAX_REFUSED = 0.45
# Whole nodes of several types leave this property out, with a warning: it has two types in the schema.
LEFT_OUT = "code"


@dataclass
class Compared:
    """What became of the statements of one profile."""

    equal: int = 0
    filled: int = 0
    refused: int = 0
    different: list[str] = field(default_factory=list)


def strip(value: object) -> object:
    """Return a JSON value in the form that is compared: without nulls in maps, and with 15 digits."""
    match value:
        case dict():
            return {key: strip(each) for key, each in value.items() if each is not None and key != LEFT_OUT}
        case list():
            return [strip(each) for each in value]
        case float():
            # A negative zero equals zero.
            return float(f"{value:.15g}") + 0.0
        case _:
            return value


def solve(model: ModelGraph, text: str) -> list[str] | None:
    """Return the rows of the interpreter; None if the statement fails."""
    source = Source(text)
    try:
        table = Interpreter(model).run(parse_cypher(source).require(source))
    except CypherError:
        return None
    rows = ([strip(format_json(model, value)) for value in row] for row in table.rows)
    return [json.dumps(row, sort_keys=True) for row in rows]


def ask(graph: og.Graph, text: str) -> list[str] | str:
    """Return the rows of the product, or its error."""
    try:
        result = graph.cypher(text)
    except OmnigraphError as error:
        return str(error)
    rows = json.loads(json.dumps(result.to_json()))["rows"]
    return [json.dumps([strip(row[name]) for name in result.columns], sort_keys=True) for row in rows]


def list_worlds(seeds: range, folder: Path) -> Iterator[tuple[int, og.Graph, ModelGraph]]:
    """Yield random graphs, each with its model."""
    catalog = accepted(SCHEMA)
    for seed in seeds:
        data = build_records(Random(seed))
        uri = folder / f"graph{seed}"
        append(new_graph(uri, SCHEMA), list(plain_records(catalog, data)))
        yield seed, og.Graph.open(str(uri), is_read_only=True, runtime=runtime(FAST)), build_model(SCHEMA, data)


def compare(seeds: range, folder: Path) -> Compared:
    """Ask both for the statements of each seed."""
    compared = Compared()
    for seed, graph, model in list_worlds(seeds, folder):
        for number in range(STATEMENTS):
            builder = StatementBuilder(Random(seed * STATEMENTS + number))
            text = builder.build()
            expected, found = solve(model, text), ask(graph, text)
            if isinstance(found, str) and "C002" in found:
                compared.refused += 1
                continue
            if not builder.has_order and isinstance(found, list) and expected is not None:
                expected, found = sorted(expected), sorted(found)
            # What fails does so in both, but for a statement that asks for no rows, and so reads none.
            has_failed = expected is None and (isinstance(found, str) or text.endswith(" LIMIT 0"))
            if found == expected or has_failed:
                compared.equal += 1
                compared.filled += bool(expected)
            else:
                compared.different.append(f"graph {seed}: {text}\n  found {found}\n  expected {expected}")
    return compared


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(0, marks=pytest.mark.timeout(600)),
        *(pytest.param(at * 40, marks=[pytest.mark.soak, pytest.mark.timeout(3_600)]) for at in range(1, 21)),
    ],
)
def test_random_statements_have_the_rows_of_the_interpreter(first: int, tmp_path: Path) -> None:
    graphs = GRAPHS if first == 0 else 40

    compared = compare(range(first, first + graphs), tmp_path)

    assert not compared.different, "\n".join(compared.different[:5])
    count = graphs * STATEMENTS
    assert compared.refused <= MAX_REFUSED * count
    # The comparison is of rows, not only of empty results.
    assert compared.filled >= count / 10
