"""A graph to mutate in tests, and what it holds."""

from pathlib import Path
from typing import Any

import omnigraph as og
from worlds import runtime

SCHEMA = """
node Person {
  name: String
  age: I32?
  email: String?
  score: F64?
  mood: enum(glad, sad) @default("glad")
  born: Date?
  @key(name)
  @unique(email)
  @unique(score)
  @range(age, 0..200)
  @range(born, date("1900-01-01")..)
  @check(email, "@")
}
node City { name: String  zip: I64?  @unique(name, zip) }
node Team { name: String @key }
edge Knows: Person -> Person { since: I32?  @key(src, dst) }
edge WorksAt: Person -> City @card(0..1)
edge Leads: Team -> Person @card(1..2)
"""


def new_graph(root: Path, schema: str = SCHEMA) -> og.Graph:
    """An empty graph."""
    return og.create_graph(str(root / "g"), schema, runtime=runtime())


def run(graph: og.Graph, body: str, **params: object) -> og.MutationResult:
    """Run the statements as a query without declared parameters, or a whole query."""
    text = body if body.lstrip().startswith("query") else f"query q() {{ {body} }}"
    return graph.mutate(text, params=params)


def people(graph: og.Graph, *names: str) -> None:
    """Insert persons of these names."""
    run(graph, " ".join(f'insert Person {{ name: "{name}" }}' for name in names))


def rows(graph: og.Graph, type_name: str, *columns: str) -> list[dict[str, Any]]:
    """The rows of a type, by id."""
    table = graph.table(type_name).to_table(columns=list(columns) or None)
    return sorted(table.to_pylist(), key=str)


def column(graph: og.Graph, type_name: str, name: str) -> list[Any]:
    """One column of a type, in the order of ids."""
    table = graph.table(type_name).to_table(columns=list({"id", name})).sort_by("id")
    values: list[Any] = table.column(name).to_pylist()
    return values
