"""The plans of random statements of Cypher mean to the reference reader what the engine answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

import omnigraph as og
from corpus_reading import plain_records
from cypher_random import SCHEMA, StatementBuilder, build_records
from omnigraph.errors import OmnigraphError
from omnigraph.lang.cypher.parser import parse_cypher
from omnigraph.lang.source import Source
from omnigraph.query.cypher.bind import bind_cypher
from read_seeding import append, new_graph
from reference_reader import PlainGraph, Record, SumOverflowError, TooManyError, answer
from reference_scalars import CalculationError
from schema_making import accepted
from worlds import FAST, runtime

STATEMENTS = 25
MOST_TRIED = 200_000
FAILS = "fails"
CATALOG = accepted(SCHEMA)


@dataclass
class Compared:
    """What became of the statements."""

    equal: int = 0
    left_out: int = 0
    different: list[str] = field(default_factory=list)


def comparable(value: Any) -> Any:
    """A value as it is compared: nodes and edges by their ids, maps without nulls, floats by 12 digits."""
    match value:
        case float():
            return float(f"{value:.12g}") + 0.0
        case list() | tuple():
            return tuple(map(comparable, value))
        case Mapping() if "id" in value:
            return "#", value["id"]
        case Mapping():
            return tuple(sorted((key, comparable(each)) for key, each in value.items() if each is not None))
        case _:
            return value


def read_plain(seed: int) -> PlainGraph:
    nodes: dict[str, list[Record]] = {name: [] for name in CATALOG.nodes}
    edges: dict[str, list[Record]] = {name: [] for name in CATALOG.edges}
    for name, record in plain_records(CATALOG, build_records(Random(seed))):
        (nodes if name in nodes else edges)[name].append(record)
    return PlainGraph(nodes, edges)


def ask(graph: og.Graph, text: str) -> list[Any] | str:
    try:
        return [comparable(list(row.values())) for row in graph.cypher(text).to_arrow().to_pylist()]
    except OmnigraphError:
        return FAILS


def compare(seeds: range, folder: Path) -> Compared:
    compared = Compared()
    for seed in seeds:
        uri = folder / f"graph{seed}"
        append(new_graph(uri, SCHEMA), list(plain_records(CATALOG, build_records(Random(seed)))))
        graph = og.Graph.open(str(uri), is_read_only=True, runtime=runtime(FAST))
        plain = read_plain(seed)
        for number in range(STATEMENTS):
            builder = StatementBuilder(Random(seed * STATEMENTS + number))
            text = builder.build()
            source = Source(text)
            read = bind_cypher(parse_cypher(source).require(source), source, CATALOG, {}).value
            if read is None:
                compared.left_out += 1
                continue
            try:
                expected: list[Any] | str = [comparable(row) for row in answer(read, plain, most_tried=MOST_TRIED).rows]
            except (CalculationError, SumOverflowError):
                expected = FAILS
            except TooManyError:
                compared.left_out += 1
                continue
            found = ask(graph, text)
            if not builder.has_order and FAILS not in (found, expected):
                found, expected = sorted(map(repr, found)), sorted(map(repr, expected))
            if found == expected:
                compared.equal += 1
            else:
                compared.different.append(f"graph {seed}: {text}\n  found {found}\n  expected {expected}")
    return compared


@pytest.mark.parametrize(
    "first",
    [0, *(pytest.param(at * 40, marks=[pytest.mark.soak, pytest.mark.timeout(3_600)]) for at in range(1, 6))],
)
def test_random_statements_have_the_rows_of_the_reference_reader(first: int, tmp_path: Path) -> None:
    graphs = 8 if first == 0 else 40

    compared = compare(range(first, first + graphs), tmp_path)

    assert not compared.different, "\n".join(compared.different[:5])
    assert compared.equal >= 0.9 * graphs * STATEMENTS
