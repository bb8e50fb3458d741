"""Find the nodes and edges in the rows of a result, and draw them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.engine.drawing import Drawing, DrawnEdge, DrawnNode, describe
from omnigraph.query.union_types import TYPE_COLUMN

MAX_NODES = 200
MAX_EDGES = 400
_Object = Mapping[str, Any]
_Key = tuple[str, str]


@dataclass(slots=True)
class _Picture:
    """What is drawn: nodes by type and id, and edges between their numbers."""

    nodes: dict[_Key, DrawnNode] = field(default_factory=dict)
    by_id: dict[str, list[_Key]] = field(default_factory=dict)
    edges: dict[_Key, _Object] = field(default_factory=dict)
    is_cut: bool = False

    def add_node(self, type_: str, id_: str, title: str) -> None:
        """Add a node, unless it is there or there are too many."""
        key = (type_, id_)
        if key in self.nodes:
            return
        if len(self.nodes) >= MAX_NODES:
            self.is_cut = True
            return
        self.nodes[key] = DrawnNode(id_, type_, title)
        self.by_id.setdefault(id_, []).append(key)

    def find_end(self, id_: str) -> _Key | None:
        """Return the node at the end of an edge; the result may not have it, and then only its id is known."""
        if id_ not in self.by_id:
            self.add_node("", id_, id_)
        keys = self.by_id.get(id_)
        return keys[0] if keys else None


def draw_rows(rows: Iterable[Mapping[str, Any]]) -> Drawing:
    """Draw the whole nodes and edges in rows, also those in lists, records and paths: the first 200 nodes.

    An edge is drawn between the nodes of the result that have the ids of its ends. Where there are none, small nodes
    with these ids stand for them. Of several nodes with that id but of different types, it is the first.
    """
    picture = _Picture()
    for row in rows:
        for item in _iter_objects(row.values()):
            key = (item[TYPE_COLUMN], item["id"])
            if "src" not in item:
                picture.add_node(*key, describe(item))
            elif len(picture.edges) < MAX_EDGES:
                picture.edges.setdefault(key, item)
            else:
                picture.is_cut = picture.is_cut or key not in picture.edges
    ends = {key: (picture.find_end(edge["src"]), picture.find_end(edge["dst"])) for key, edge in picture.edges.items()}
    numbers = {key: number for number, key in enumerate(picture.nodes)}
    edges = [
        DrawnEdge(numbers[source], numbers[target], key[0], describe(picture.edges[key]))
        for key, (source, target) in ends.items()
        if source is not None and target is not None
    ]
    counts = f"{len(picture.nodes):,} nodes, {len(edges):,} edges"
    caption = f"the first {counts}" if picture.is_cut else counts
    return Drawing(tuple(picture.nodes.values()), tuple(edges), caption)


def _iter_objects(values: Iterable[Any]) -> Iterator[_Object]:
    """Yield the whole nodes and edges in values, at any depth."""
    for value in values:
        if isinstance(value, Mapping):
            if TYPE_COLUMN in value and "id" in value:
                yield value
            else:
                yield from _iter_objects(value.values())
        elif isinstance(value, list | tuple):
            yield from _iter_objects(value)
