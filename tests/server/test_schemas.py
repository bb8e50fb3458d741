"""The JSON Schemas of tools accept what the engine accepts, and describe what it answers."""

from pathlib import Path
from typing import Any

import jsonschema_rs
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.lang.source import Span
from omnigraph.query.expr import Parameter
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.schema.values import InvalidValue, from_json
from omnigraph.server.mcp import arguments
from omnigraph.server.mcp.schemas import (
    build_parameter_schema,
    build_row_schema,
    build_struct_schema,
    build_value_schema,
    is_as_declared,
)
from worlds import runtime

ROOT = Path(__file__).parents[2]
TYPES: list[ValueType] = [*Scalar, EnumOf(("a", "b")), ListOf(Scalar.I64), ListOf(Scalar.DATE), VectorOf(2)]
VALUES: list[Any] = [
    "a", "c", "", "12", "-1", "2026-01-31", "2026-01-31T12:00:00Z", "base64:aGk=", "https://example.org/x",
    0, 1, -1, 2**31 - 1, 2**31, 2**32, -(2**31) - 1, 2**53 - 1, 1.5, True, False,
    [], [1], [1, 2], [1.5, 2.5], ["a"], ["2026-01-31"], [True], {}, {"a": 1}, None,
]  # fmt: skip
FORMATS = frozenset({Scalar.DATE, Scalar.DATETIME, Scalar.BLOB, ListOf(Scalar.DATE), Scalar.F32})
"""Types whose values have a form that a schema can only name: it may accept more than the engine."""


def fits(schema: dict[str, Any], value: object) -> bool:
    return jsonschema_rs.is_valid(schema, value)


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_what_the_engine_takes_the_schema_accepts(type_: ValueType) -> None:
    schema = build_value_schema(type_, is_nullable=False)

    taken = [value for value in VALUES if not isinstance(from_json(type_, value), InvalidValue)]

    assert taken
    assert [value for value in taken if not fits(schema, value)] == []


@pytest.mark.parametrize("type_", [one for one in TYPES if one not in FORMATS], ids=str)
def test_what_the_engine_refuses_the_schema_refuses(type_: ValueType) -> None:
    schema = build_value_schema(type_, is_nullable=False)

    refused = [value for value in VALUES if isinstance(from_json(type_, value), InvalidValue)]

    assert [value for value in refused if fits(schema, value)] == []


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_null_fits_what_is_nullable_and_nothing_else(type_: ValueType) -> None:
    found = [fits(build_value_schema(type_, is_nullable=is_nullable), None) for is_nullable in (True, False)]

    assert found == [True, False]


def test_a_parameter_says_in_words_what_it_takes() -> None:
    schema = build_parameter_schema(Parameter(name="n", type=EnumOf(("a", "b")), origin=Span(0, 0)))

    assert schema == {"type": "string", "enum": ["a", "b"], "description": "enum(a, b): one of a, b"}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    people = ROOT / "examples" / "people"
    uri = str(tmp_path_factory.mktemp("rows") / "people.omni")
    found = og.create_graph(uri, (people / "schema.pg").read_text("utf-8"), runtime=runtime())
    found.load(people / "people.jsonl", mode="append")
    return found


@pytest.mark.parametrize(
    "output",
    [
        "$p",
        "$p.name, $p.age, $p.born, $p.role, $p.tags, $p.joined, $p.bio_vector",
        "count($p) as n, avg($p.age) as a, sum($p.age) as s, max($p.born) as b",
        "$p.role, min($p.age) as m",
    ],
)
def test_rows_are_as_their_schema_says(output: str, graph: og.Graph) -> None:
    result = graph.query(f"query q() {{ match {{ $p: Person }} return {{ {output} }} }}")

    rows = list(result.json_rows())
    assert rows
    for row in rows:
        jsonschema_rs.validate(build_row_schema(result.schema), row)


@pytest.mark.parametrize(
    "type_", [one for name, one in vars(arguments).items() if name.endswith(("Arguments", "Controls"))]
)
def test_arguments_are_described_in_full(type_: Any) -> None:
    schema = build_struct_schema(type_)

    jsonschema_rs.meta.validate(schema)
    assert schema["additionalProperties"] is False
    assert [name for name, one in schema["properties"].items() if not one.get("description")] == []


NODE = pa.struct([pa.field("id", pa.utf8(), nullable=False), pa.field("age", pa.int64())])
DECLARED = pa.schema([pa.field("p", NODE, nullable=False), pa.field("n", pa.int64(), nullable=True)])


@pytest.mark.parametrize(
    "found, expected",
    [
        (DECLARED, True),
        (pa.schema([DECLARED.field("p"), pa.field("n", pa.int64(), nullable=False)]), True),
        (pa.schema([pa.field("p", pa.struct([*NODE, pa.field("x", pa.utf8())]), False), DECLARED.field("n")]), True),
        (pa.schema([pa.field("p", pa.struct([NODE.field(0)]), False), DECLARED.field("n")]), False),
        (pa.schema([DECLARED.field("p"), pa.field("n", pa.int32())]), False),
        (pa.schema([pa.field("p", NODE, nullable=True), DECLARED.field("n")]), False),
        (pa.schema([DECLARED.field("p")]), False),
        (pa.schema([*DECLARED, pa.field("m", pa.int64())]), False),
    ],
    ids=["the same", "never null", "more of a node", "less of a node", "another type", "may be null", "fewer", "more"],
)
def test_columns_are_compared_with_those_that_were_declared(found: pa.Schema, expected: bool) -> None:
    assert is_as_declared(found, DECLARED) is expected
