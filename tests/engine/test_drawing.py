"""Pictures of results and schemas: static, the same for the same rows, and whatever a value is, it is text."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import omnigraph as og
from omnigraph.engine.drawing import Drawing, DrawnEdge, DrawnNode
from omnigraph.engine.result_picture import MAX_NODES, draw_rows
from omnigraph.engine.schema_picture import draw_schema
from omnigraph.lang.source import Source
from omnigraph.schema.bind import load_schema
from omnigraph.schema.mermaid import print_mermaid
from worlds import runtime

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</text><script>alert(1)</script>",
    "javascript:alert(1)",
    "]]><!--",
    "a\u202eb\u0000c\ud800",
    "&lt;&#0;",
    "x" * 1_000_000,
]
SCHEMA = """node Person { name: String @key  mail: String? @unique  mood: enum(glad, sad)?  tags: [String] }
node Constructor { name: String @key }
edge Knows: Person -> Person
edge LivesIn: Person -> Constructor @card(0..1)
"""


def parse(drawing: Drawing) -> ET.Element:
    return ET.fromstring(drawing.svg)  # noqa: S314 - our own text


def test_a_result_is_drawn_with_its_nodes_and_edges(tmp_path: Path) -> None:
    schema = "node Person { name: String @key }\nedge Knows: Person -> Person\n"
    graph = og.create_graph(str(tmp_path / "g"), schema, runtime=runtime())
    people: list[dict[str, object]] = [{"type": "Person", "data": {"name": name}} for name in "ab"]
    people.append({"edge": "Knows", "from": "a", "to": "b"})
    graph.load(people, mode="append")

    drawing = graph.query("match { $a: Person path $w = $a knows{1,1} $b } return { $w }").draw()

    assert [node.label for node in drawing.nodes] == ["a", "b"]
    assert [(edge.source, edge.target, edge.label) for edge in drawing.edges] == [(0, 1, "Knows")]
    assert drawing._repr_svg_() == drawing.svg
    assert len(parse(drawing).findall(f".//{SVG}circle")) == 2


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_value_is_text_and_never_markup(text: str) -> None:
    node = {"id": text, "@type": "__proto__", "name": text}

    drawing = draw_rows([{"n": node, "e": {"id": "1", "src": text, "dst": "gone", "@type": text}}])

    root = parse(drawing)
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags <= {"svg", "title", "defs", "marker", "path", "g", "circle", "text"}
    attributes = {name for element in root.iter() for name in element.attrib}
    assert not {name for name in attributes if name.startswith("on") or "href" in name or name == "style"}
    assert len(drawing.svg) < 10_000
    assert "\u202e" not in drawing.svg


def test_a_picture_has_a_bounded_number_of_nodes() -> None:
    drawing = draw_rows({"n": {"id": str(number), "@type": "N"}} for number in range(1_000))

    assert len(drawing.nodes) == MAX_NODES
    assert drawing.caption.startswith("the first 200 nodes")


def test_a_result_without_nodes_is_a_picture_too() -> None:
    assert parse(draw_rows([{"n": 1}])).find(f"{SVG}title").text == "0 nodes, 0 edges"  # type: ignore[union-attr]  # it is there


def test_the_same_graph_is_drawn_alike_and_a_node_of_its_own_has_a_loop(tmp_path: Path) -> None:
    nodes, edges = [DrawnNode("a", "T"), DrawnNode("b", "T")], [DrawnEdge(0, 0, "self"), DrawnEdge(0, 1, "to")]

    first, second = Drawing(nodes, edges), Drawing(nodes, edges)
    first.write(tmp_path / "a.svg")

    assert first.svg == second.svg == (tmp_path / "a.svg").read_text(encoding="utf-8") == str(first)


def test_a_schema_is_drawn_as_boxes_and_as_a_diagram() -> None:
    catalog = load_schema(Source(SCHEMA, "s.pg"))

    root, diagram = parse(draw_schema(catalog)), print_mermaid(catalog)

    assert len(root.findall(f".//{SVG}rect")) == 2
    assert diagram.splitlines()[:6] == [
        "erDiagram",
        '    "Person" {',
        "        String name PK",
        '        String mail UK "may be null"',
        '        enum mood "may be null"',
        "        String[] tags",
    ]
    assert '    "Person" }o--o{ "Person" : "Knows"' in diagram
    assert '    "Person" }o--o| "Constructor" : "LivesIn"' in diagram
