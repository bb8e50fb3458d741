"""Write a schema as a diagram in the language of Mermaid, which pages of documentation and code hosts draw."""

import re
from collections.abc import Iterator

from omnigraph.schema.catalog import AnyType, Cardinality, Catalog, Property
from omnigraph.schema.types import EnumOf

# What an attribute's type may consist of there.
_FOREIGN = re.compile(r"[^A-Za-z0-9_()\[\]-]")


def print_mermaid(catalog: Catalog) -> str:
    """Return an entity-relationship diagram: node types with their properties, and edge types between them."""
    lines = ["erDiagram"]
    for node in catalog.nodes.values():
        lines.append(f'    "{node.name}" {{')
        lines += [f"        {line}" for line in _iter_attributes(node)]
        lines.append("    }")
    for edge in catalog.edges.values():
        ends = "}o--o{" if edge.cardinality == Cardinality() else _print_cardinality(edge.cardinality)
        lines.append(f'    "{edge.source}" {ends} "{edge.target}" : "{edge.name}"')
    return "\n".join(lines) + "\n"


def _iter_attributes(type_: AnyType) -> Iterator[str]:
    for p in type_.properties:
        mark = " PK" if p.name in type_.key else " UK" if (p.name,) in type_.unique else ""
        comment = ' "may be null"' if p.nullable else ""
        yield f"{_print_type(p)} {p.name}{mark}{comment}"


def _print_type(p: Property) -> str:
    return "enum" if isinstance(p.type, EnumOf) else _FOREIGN.sub("_", str(p.type))


def _print_cardinality(cardinality: Cardinality) -> str:
    """Return the mark of a relation: how many edges leave a node is what stands at its far end."""
    is_single = cardinality.high == 1
    if cardinality.low:
        return "}o--||" if is_single else "}o--|{"
    return "}o--o|" if is_single else "}o--o{"
