"""Draw a schema: node types as boxes with their properties, edge types as arrows between them."""

from omnigraph.engine.drawing import Drawing, DrawnEdge, DrawnNode
from omnigraph.schema.catalog import AnyType, Catalog

_MAX_LINES = 12


def draw_schema(catalog: Catalog) -> Drawing:
    """Return the picture of a schema."""
    numbers = {name: number for number, name in enumerate(catalog.nodes)}
    nodes = [
        DrawnNode(node.name, node.name, node.description or "", _list_lines(node)) for node in catalog.nodes.values()
    ]
    edges = [
        DrawnEdge(numbers[edge.source], numbers[edge.target], edge.name, "\n".join((edge.name, *_list_lines(edge))))
        for edge in catalog.edges.values()
    ]
    caption = f"{len(nodes):,} node types, {len(edges):,} edge types"
    return Drawing(tuple(nodes), tuple(edges), caption)


def _list_lines(type_: AnyType) -> tuple[str, ...]:
    lines = [
        f"{p.name}: {p.type}{'?' if p.nullable else ''}{' @key' if p.name in type_.key else ''}"
        for p in type_.properties
    ]
    if len(lines) <= _MAX_LINES:
        # A box without lines would be a circle.
        return tuple(lines) or (" ",)
    return (*lines[: _MAX_LINES - 1], f"… and {len(lines) - _MAX_LINES + 1} more")
