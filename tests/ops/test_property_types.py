"""A type with a property of any kind can be written, changed and read again and again."""

from pathlib import Path

import pytest

from mutating import column, new_graph, run

TYPES = {
    "String": '"x"',
    "Bool": "true",
    "I32": "1",
    "I64": "1",
    "U32": "1",
    "U64": "1",
    "F32": "0.5",
    "F64": "0.5",
    "Date": 'date("2026-01-02")',
    "DateTime": 'datetime("2026-01-02T03:04:05Z")',
    "enum(x, y)": '"x"',
    "Vector(2)": "[0.5, 1.0]",
    "Blob": '"base64:AAEC"',
}
NO_ITEM = ("enum", "Vector", "Blob")
LISTS = {f"[{name}]": f"[{value}, {value}]" for name, value in TYPES.items() if not name.startswith(NO_ITEM)}


@pytest.mark.parametrize("type_, value", [*TYPES.items(), *LISTS.items()])
def test_every_write_works_beside_a_property_of_this_type(type_: str, value: str, tmp_path: Path) -> None:
    graph = new_graph(tmp_path, f"node P {{ n: String @key  p: {type_}? }}\nedge E: P -> P {{ p: {type_}? }}")

    run(graph, f'insert P {{ n: "a", p: {value} }} insert E {{ from: "a", to: "a", p: {value} }}')
    run(graph, f'insert P {{ n: "b", p: {value} }} insert E {{ from: "b", to: "a", p: {value} }}')
    run(graph, f'update P set {{ p: {value} }} where n = "a"')  # noqa: S608 - no SQL
    graph.load([{"type": "P", "data": {"n": "a", "p": None}}], mode="merge")
    edge_after: list[dict[str, object]] = [{"type": "P", "data": {"n": "c"}}, {"edge": "E", "from": "c", "to": "b"}]
    graph.load(edge_after, mode="append")
    run(graph, 'delete P where n = "b"')

    assert column(graph, "P", "id") == ["a", "c"]
    assert column(graph, "E", "src") == ["a"]
    found = graph.query("query q() { match { $a: P  $a e $b  $b: P } return { $a.n, $b.p } }")
    assert found.rows() == [{"a.n": "a", "b.p": None}]
