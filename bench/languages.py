"""Measure how long parsing and binding take: fifty queries, and a schema of 500 types with 5,000 properties.

Absolute times depend on the machine, so each is shown beside two baselines measured in the same run on texts of the
same size: `ast.parse`, which is Python's own parser in C, and `json.loads`.
"""

import ast
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from omnigraph.lang.lexer import Language, tokenize
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.query.bind import bind_query
from omnigraph.schema.bind import bind_schema
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_codec import decode_catalog, encode_catalog
from omnigraph.schema.identity import assign_identities

QUERIES = Path(__file__).parent / "queries"
NODES, EDGES, PROPERTIES = 400, 100, 10


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: what was measured, and its times in seconds."""

    name: str
    times: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median time in seconds."""
        return statistics.median(self.times)


def measure(work: Callable[[], object], rounds: int) -> tuple[float, ...]:
    """Return the time of each round after a first one, with the garbage collector off."""
    work()
    times = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
    finally:
        gc.enable()
    return tuple(times)


def build_python(size: int) -> str:
    """Return a Python text of about `size` characters: classes with annotated fields, like the schemas."""
    lines = ["class C0:"]
    length = len(lines[0])
    while length < size:
        lines.append(
            f"class C{len(lines)}:" if len(lines) % 11 == 0 else f"    property_{len(lines)}: str | None = None"
        )
        length += len(lines[-1]) + 1
    return "\n".join(lines) + ("\n    pass\n" if lines[-1].startswith("class") else "\n")


def build_json(size: int) -> str:
    """Return a JSON text of about `size` characters."""
    fields: list[dict[str, object]] = []
    length = 2
    while length < size:
        fields.append({"name": f"property_{len(fields)}", "type": "String", "nullable": len(fields) % 2 == 0})
        length += len(json.dumps(fields[-1])) + 2
    return json.dumps(fields)


def build_schema() -> str:
    """Return the text of a schema with 500 types of 10 properties each."""
    kinds = ["String @index", "I64", "F64?", "Bool @default(true)", "DateTime?", "enum(a, b, c)", "[String]", "Date?"]
    parts = []
    for number in range(NODES):
        body = "".join(f"  property_{p}: {kinds[(number + p) % len(kinds)]}\n" for p in range(PROPERTIES - 1))
        parts.append(f"node Type{number} {{\n  code: String\n{body}  @key(code)\n}}\n")
    for number in range(EDGES):
        body = "".join(f"  property_{p}: {kinds[(number + p) % len(kinds)]}\n" for p in range(PROPERTIES))
        parts.append(f"edge Edge{number}: Type{number} -> Type{number + EDGES} @card(0..5) {{\n{body}}}\n")
    return "\n".join(parts)


def print_table(title: str, size: int, rows: list[Row], baselines: list[Row]) -> None:
    """Print medians, the slowest round, and the ratio to each baseline."""
    print(f"\n{title}")
    print(f"{'':28}{'median':>12}{'slowest':>12}{'MB/s':>9}" + "".join(f"{'× ' + y.name:>16}" for y in baselines))
    for row in [*rows, *baselines]:
        ratios = "".join(f"{row.median / y.median:16.2f}" for y in baselines)
        speed = size / row.median / 1e6
        print(f"{row.name:28}{row.median * 1e3:9.3f} ms{max(row.times) * 1e3:9.3f} ms{speed:9.2f}{ratios}")


def print_queries(rounds: int) -> None:
    """Measure parsing and binding of the fifty queries; each time is the median of one query."""
    catalog = bind_source(QUERIES / "market.pg")
    texts: list[str] = []
    for path in sorted(QUERIES.glob("*.gq")):
        source = Source(path.read_text(encoding="utf-8"), path.name)
        texts += [source.slice(query.span) for query in parse_queries(source).require(source).queries]
    parsing, binding = [], []
    for text in texts:
        source = Source(text, "query")
        (query,) = parse_queries(source).require(source).queries
        bind_query(query, catalog).require(source)
        parsing.append(statistics.median(measure(partial(parse_queries, source), rounds)))
        binding.append(statistics.median(measure(partial(bind_query, query, catalog), rounds)))
    size = round(statistics.mean(map(len, texts)))
    both = [parse + bind for parse, bind in zip(parsing, binding, strict=True)]
    print_table(
        f"{len(texts)} queries, {size} characters on average; times are per query",
        size,
        [Row("parse", tuple(parsing)), Row("bind", tuple(binding)), Row("parse + bind", tuple(both))],
        measure_baselines(size, rounds),
    )


def print_schema_steps(rounds: int) -> None:
    """Measure each step of a large schema, from text to stored bytes and back."""
    source = Source(build_schema(), "big.pg")
    tree = parse_schema(source).require(source)
    catalog = bind_schema(tree).require(source)
    numbered = assign_identities(catalog, None)
    encoded = encode_catalog(numbered)
    types = len(catalog.nodes) + len(catalog.edges)
    properties = sum(len(t.properties) for t in [*catalog.nodes.values(), *catalog.edges.values()])
    print_table(
        f"a schema of {types} types and {properties} properties, {len(source.text)} characters",
        len(source.text),
        [
            Row("lex", measure(lambda: tokenize(source, Language.SCHEMA), rounds)),
            Row("parse (with lexing)", measure(lambda: parse_schema(source), rounds)),
            Row("bind", measure(lambda: bind_schema(tree), rounds)),
            Row("assign identities", measure(lambda: assign_identities(catalog, None), rounds)),
            Row("encode", measure(lambda: encode_catalog(numbered), rounds)),
            Row("decode", measure(lambda: decode_catalog(encoded), rounds)),
        ],
        measure_baselines(len(source.text), rounds),
    )


def measure_baselines(size: int, rounds: int) -> list[Row]:
    """Measure Python's own parsers on texts of the same size."""
    python, data = build_python(size), build_json(size)
    return [
        Row("ast.parse", measure(lambda: ast.parse(python), rounds)),
        Row("json.loads", measure(lambda: json.loads(data), rounds)),
    ]


def bind_source(path: Path) -> Catalog:
    """Return the catalog of a schema file."""
    source = Source(path.read_text(encoding="utf-8"), path.name)
    return bind_schema(parse_schema(source).require(source)).require(source)


if __name__ == "__main__":
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    print(f"Python {sys.version.split()[0]}, {repetitions} rounds of each")
    print_queries(repetitions)
    print_schema_steps(repetitions)
