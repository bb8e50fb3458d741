"""Random expressions over columns, and what our own evaluator says of them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

import pyarrow as pa

from expression_texts import SCHEMA, ExpressionWriter, random_records
from omnigraph.engine.predicate_eval import evaluate, get_column_name
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.relational.expressions import ExpressionPrinter, FindColumn
from omnigraph.engine.relational.sql_syntax import SqlSyntax
from omnigraph.engine.scalar_eval import OverflowLog
from omnigraph.errors import QueryError
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.query.bind import bind_query
from omnigraph.query.expr import Expr, Identity, Prop
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.schema.bind import bind_schema
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.values import parse_date, parse_datetime

INPUTS = QueryInputs({}, datetime(2026, 11, 18, 12, 30, tzinfo=UTC))
ORDER = "@order"
"""The column by which rows are put back into their order."""
# What random expressions seldom write: lists of literals, mixed numbers, and texts that SQL could misread.
EDGES = (
    "$p.i in [1, -1, 9223372036854775807]",
    "$p.j in [0, 5, 99999999999]",
    "$p.u in [0, 18446744073709551615]",
    "$p.f in [0.0, 1.5]",
    "$p.g in [0.5]",
    '$p.s in ["abc", ""]',
    "$p.t in $p.l",
    "$p.i in $p.n",
    "$p.j in $p.n",
    "$p.i = $p.u",
    "$p.i < $p.u",
    "$p.u > $p.f",
    "$p.i >= $p.f",
    "$p.j < $p.f",
    "$p.g = 0.5",
    "$p.g < $p.f",
    "$p.f = 0.0",
    "not ($p.i > 0 and $p.b)",
    "($p.i > 0 or $p.b) is null",
    "$p.s contains $p.t",
    "$p.s starts_with $p.t",
    "$p.i + $p.u > 0",
    "-$p.i > 0",
    "$p.i % $p.j = 1",
    "div($p.i, $p.j) > 0",
    "$p.i * $p.j < 0",
    "$p.d < $p.e",
    "$p.m < $p.w",
    '$p.m = datetime("1969-12-31T23:59:59Z")',
    '$p.d = date("0001-01-01")',
    '$p.s + "it\'s ${env:HOME} \\\\ \\n \\u0000 🙂 \\"quoted\\" %"',
    "size($p.l) + size($p.n)",
    "coalesce($p.i, $p.j, 0)",
    "greatest($p.s, $p.t)",
    "least($p.d, $p.e)",
    "nullif($p.s, $p.t)",
    "case { $p.b => $p.i else => 7 }",
    "year($p.d) * 100 + month($p.d)",
    "year($p.m)",
    "today()",
    "now()",
)


def new_catalog() -> Catalog:
    catalog = bind_schema(parse_schema(Source(SCHEMA)).tree).value
    assert catalog is not None
    return catalog


def new_rows(random: Random, catalog: Catalog, count: int) -> pa.Table:
    """Rows of the type `T`, as its table has them."""
    schema = build_arrow_schema(catalog.nodes["T"])
    rows = [{"id": record["data"]["k"], **record["data"]} for record in random_records(random, count)]
    for row in rows:
        for name, value in row.items():
            if name in ("d", "e"):
                row[name] = parse_date(value)
            if name in ("m", "w"):
                row[name] = parse_datetime(value)
    return pa.Table.from_pylist(rows, schema)


@dataclass(frozen=True)
class Sample:
    """An expression, and whether it is a condition, in which an overflow is unknown."""

    text: str
    expr: Expr
    is_condition: bool


def new_sample(writer: ExpressionWriter, catalog: Catalog) -> Sample:
    """A random expression of any type."""
    depth = writer.random.choice((1, 2, 2, 3))
    kinds = (writer.number, writer.text, writer.day, writer.moment, writer.texts, writer.condition)
    kind = writer.random.choice(kinds)
    text = kind(depth)
    return bind_sample(text, catalog, is_condition=writer.random.randrange(3) == 0)


def bind_sample(text: str, catalog: Catalog, *, is_condition: bool) -> Sample:
    parsed = parse_queries(Source(f"query q() {{ match {{ $p: T }} return {{ {text} as x }} }}"))
    assert not parsed.diagnostics, (text, parsed.diagnostics)
    query = bind_query(parsed.tree.queries[0], catalog).value
    assert isinstance(query, ReadQuery)
    return Sample(text, query.output[0].value, is_condition)


def evaluate_here(sample: Sample, rows: pa.Table) -> Any:
    """What our evaluator says: the values, or the text of its error."""
    log = None if sample.is_condition else OverflowLog()
    try:
        values = evaluate(sample.expr, rows, INPUTS, log)
        if log is not None:
            log.check()
    except QueryError as error:
        return error.code
    return values.to_pylist()


def find_columns_of(syntax: SqlSyntax) -> FindColumn:
    def find(expr: Expr) -> str | None:
        return syntax.quote_name(get_column_name(expr)) if isinstance(expr, Prop | Identity) else None

    return find


def print_sample(printer: ExpressionPrinter, sample: Sample) -> str:
    write = printer.print_condition if sample.is_condition else printer.print_value
    return write(sample.expr, find_columns_of(printer.syntax))


def exact(value: Any) -> Any:
    """A value with the sign of a zero, which counts here."""
    if isinstance(value, float):
        return repr(value)
    return tuple(map(exact, value)) if isinstance(value, list | tuple) else value
