"""Advice about correct schemas."""

import pytest

from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.schema.bind import bind_schema
from omnigraph.schema.lint import lint_schema
from schema_making import marked


def advice(text: str) -> tuple[Diagnostic, ...]:
    source = Source(text)
    tree = parse_schema(source).require(source)
    return lint_schema(tree, bind_schema(tree).require(source))


@pytest.mark.parametrize(
    "text, code, place, message",
    [
        ("interface I { x: I32 }", "L101", "I", "nothing implements the interface `I`"),
        ("node A { x: I32 @key @index }", "L102", "@index", "`x` already has an index through its `@key`"),
        ("node A { x: I32 @index  y: I32  @index(y, x) }", "L102", "x", "through another `@index`"),
        (
            "interface I { x: I32 @index } node A implements I { @index(x) }",
            "L102",
            "x",
            "through the interface `I`",
        ),
        ("node A { limit: I32 }", "L103", "limit", "`limit` is a reserved word"),
        ('node A { s: String  v: Vector(2) @embed("s") }', "L104", "v", "`A.v` has no index"),
        ("node A { x: I32 @kye }", "L105", "@kye", "`@kye` is not a known annotation"),
        ("interface I { x: I32 @indx } node A implements I {}", "L105", "@indx", "`@indx` is not a known annotation"),
        ('node A @descripton("…") { x: I32 }', "L105", '@descripton("…")', "`@descripton` is not a known annotation"),
        ("node A {} edge E: A -> A @cart(1) { y: I32 }", "L105", "@cart(1)", "`@cart` is not a known annotation"),
    ],
)
def test_advice_has_a_place_and_a_way_out(text: str, code: str, place: str, message: str) -> None:
    (found,) = advice(text)

    assert (found.code, marked(text, found)) == (code, place)
    assert message in found.message
    assert found.help


@pytest.mark.parametrize(
    "text",
    [
        "interface I { x: I32 } node A implements I {}",
        "node A { x: String @key @index }",
        "node A { x: I32  y: I32  @key(x, y) @index(x) }",
        'node A { s: String  v: Vector(2) @embed("s") @index }',
        'interface I { s: String  v: Vector(2) @embed("s") } node A implements I { @index(v) }',
        "node A { limits: I32 }",
        'node A @team("search") { x: I32 @pii }',
    ],
)
def test_nothing_is_said_without_a_reason(text: str) -> None:
    assert advice(text) == ()


def test_advice_about_an_interface_is_given_once() -> None:
    text = 'interface I { in: String  v: Vector(2) @embed("in") } node A implements I {} node B implements I {}'

    found = advice(text)

    assert [d.code for d in found] == ["L103", "L104"]
    assert "`I.v`" in found[1].message
