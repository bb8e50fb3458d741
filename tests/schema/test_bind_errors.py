"""Broken rules: the code, the place, the words, and that nothing is said twice."""

import pytest

from omnigraph.lang.diagnostics import SourceError
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.schema.bind import bind_schema, load_schema
from schema_making import found_in, marked

ONE_MISTAKE = [
    # schema, code, marked text, message, help
    ("node A {} edge A: A -> A", "S002", "A", "two types named `A`", "one name space"),
    ("node A {} edge Knows: A -> A edge KNOWS: A -> A", "S003", "KNOWS", "`Knows` and `KNOWS`", "rename"),
    ("node A { x: I32  x: String }", "S004", "x", "`A` has two properties named `x`", "rename"),
    ("node Person { id: I32 }", "S005", "id", "can't be named `id`", "`person_id`"),
    ("node Person { _x: I32 }", "S005", "_x", "start with `_`", "`x`"),
    ("node Person { _id: I32 }", "S005", "_id", "start with `_`", "`person_id`"),
    ("node Person {} edge E: Person -> Persn", "S006", "Persn", "unknown node type `Persn`", "did you mean `Person`?"),
    ("node A {} edge E: A -> Zebra", "S006", "Zebra", "`Zebra` as an end of `E`", "declare `node Zebra"),
    ("interface I {} node A implements I {} edge E: A -> I", "S006", "I", "which is an interface", "such as `A`"),
    ("interface Named {} node A implements Nmaed {}", "S007", "Nmaed", "unknown interface", "did you mean `Named`?"),
    ("node B {} node A implements B {}", "S007", "B", "`B` is a node type, not an interface", "declare"),
    (
        "interface I { x: I32 } node A implements I { x: I32? }",
        "S008",
        "x",
        "`x` is I32 in `I`, but I32? here",
        "write `x: I32`",
    ),
    (
        "interface I { x: I32 } interface J { x: I64 } node A implements I, J {}",
        "S008",
        "J",
        "`x` is I32 in `I` and I64 in `J`",
        "equal",
    ),
    ("node A { x: I32?  @key(x) }", "S009", "x", "it is nullable", "`x: I32`"),
    ("node A { x: F64 @key }", "S009", "@key", "`x` can't be part of a key: F64", "whole number"),
    ("node A { x: [I32]  @key(x) }", "S009", "x", "[I32] has no text", "strings"),
    ("node A { x: I32 @key  y: I32 @key }", "S009", "@key", "`A` has two keys", "`@key(a, b)`"),
    ("node A { name: I32  @key(nmae) }", "S010", "nmae", "unknown property `nmae` of `A`", "did you mean `name`?"),
    ("node A { x: I32  @unique(src, x) }", "S010", "src", "`src`", "only edge types have ends"),
    ("node A {} edge E: A -> A { @key(from, dst) }", "S010", "from", "`from`", "write `src`"),
    ("node A {} edge E: A -> A { @range(src, 1..2) }", "S010", "src", "`src`", "only `@key` and `@unique`"),
    ("node A { x: Vector(2) @unique }", "S011", "@unique", "Vector(2) can't be compared", "scalar"),
    ("node A { x: Blob @index }", "S012", "@index", "a Blob can't be indexed", "describes"),
    ("node A {} edge E: A -> A { @index(src) }", "S012", "src", "`src` always has an index", "leave it out"),
    ("node A { x: String  @range(x, 0..1) }", "S013", "x", "String has no range", "numbers"),
    ("node A { x: I32  @range(x, 2..1) }", "S013", "2..1", "2 is above 1", "lower bound first"),
    ('node A { x: I32  @check(x, "a") }', "S014", "x", "which is I32, not a String", "Strings only"),
    ('node A { x: String  @check(x, "(") }', "S014", '"("', "missing )", "RE2"),
    ("node A {} edge E: A -> A @card(3..1)", "S015", "@card(3..1)", "3..1", "min ≤ max"),
    ('node A { s: String  t: String @embed("s") }', "S016", '@embed("s")', "not a Vector", "`t: Vector(N)`"),
    (
        'node A { body: String  v: Vector(2) @embed("bdoy") }',
        "S016",
        '"bdoy"',
        "unknown property `bdoy`",
        "did you mean `body`?",
    ),
    ("node A { x: I32 @default(3000000000) }", "S017", "3000000000", "from -2147483648 to 2147483647", None),
    ("node A { x: I32 @default(null) }", "S017", "null", "got null", "make it nullable: `x: I32?`"),
    (
        'node A { x: Date @default("2024-01-01") }',
        "S017",
        '"2024-01-01"',
        "`date(",
        'write `@default(date("2024-01-01"))`',
    ),
    ('node A { x: enum(open, shut) @default("opne") }', "S017", '"opne"', "one of open, shut", "did you mean `open`?"),
    ("node A { x: I32 @default(7)  @range(x, 0..5) }", "S017", "7", "above the maximum 5", "change the default"),
    ('node A { x: String @default("b")  @check(x, "a") }', "S017", '"b"', "does not match", "change the default"),
    ("node A { x: Vector(65537) }", "S018", "Vector(65537)", "1 to 65536 elements", "size"),
    ("node A { x: enum(a, b, a) }", "S019", "a", "`a` is in this enum twice", "remove"),
    ("node A { x: [Blob] }", "S020", "Blob", "a list of Blob", "[String]"),
    ("node A { x: I32 @description(3) }", "S021", "3", "not 3", '@description("…")'),
    ("node A { x: I32 @range }", "S021", "@range", "`@range` needs arguments", "@range(property, low..high)"),
    ("node A { x: I32 @default(1, if=2) }", "S021", "if", "no option `if`", "@default(literal)"),
    ('node A { x: I32 @instruction("x") }', "S022", '@instruction("x")', "means nothing on a property", "type"),
    ("interface I { x: I32 @key } node A implements I {}", "S022", "@key", "an interface can't", "each node type"),
    ("node A { x: I32 @index  @index(x) }", "S023", "@index(x)", "`@index(x)` is given twice", "keep one"),
    ("node A { x: I32  y: I32  @unique(x, y) @unique(y, x) }", "S023", "@unique(y, x)", "given twice", "keep one"),
    ("node A { x: I32  @unique(x, x) }", "S023", "x", "names `x` twice", "remove"),
    ("node A { x: I32  @range(x, 0..) @range(x, ..5) }", "S023", "@range(x, ..5)", "two `@range`s", "keep one"),
    ("node A {} edge E: A -> A @card(0..1) @card(0..2)", "S023", "@card(0..2)", "given twice", "keep one"),
    ("interface I {} node A implements I, I {}", "S023", "I", "implements `I` twice", "once"),
    ('node A @rename_from("B") {} node B {}', "S024", '"B"', "that type still exists", "remove `B`"),
    (
        'node A { x: I32 @rename_from("z")  y: I32 @rename_from("z") }',
        "S024",
        '"z"',
        "both `x` and `y`",
        "keep one",
    ),
]


@pytest.mark.parametrize(
    "text, code, place, message, help", ONE_MISTAKE, ids=[f"{row[1]}: {row[0]}" for row in ONE_MISTAKE]
)
def test_one_mistake_is_one_error(text: str, code: str, place: str, message: str, help: str | None) -> None:
    found = found_in(text)

    assert [d.code for d in found] == [code]
    assert marked(text, found[0]) == place
    assert message in found[0].message
    assert (found[0].help is None) if help is None else help in (found[0].help or "")


def test_a_long_enum_is_not_spelled_out() -> None:
    values = ", ".join(f"value{n}" for n in range(500))

    found = found_in(f'node A {{ x: enum({values}) @default("none")  @range(x, 0..1) @check(x, "a") }}')

    assert [d.code for d in found] == ["S017", "S013", "S014"]
    assert max(len(d.message) for d in found) < 250


def test_of_two_equal_names_the_second_is_marked() -> None:
    text = "node A { x: I32 }\nnode A { x: I32 }"

    (found,) = found_in(text)

    assert found.span.start == text.rindex("A")


def test_independent_mistakes_are_all_reported_in_order() -> None:
    text = """
        node A { id: I32  x: I32 @default("a")  @key(nope) }
        edge E: A -> B @card(2..1)
        node C implements D {}
    """

    assert [d.code for d in found_in(text)] == ["S005", "S017", "S010", "S006", "S015", "S007"]


# --- no cascades -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, code",
    [
        ("node A { x: Vector(0)  @key(x) @unique(x) @index(x) @range(x, 0..1) }", "S018"),
        ('node A { s: String  x: Vector(0) @embed("s") }', "S018"),
        ('node A { x: [Blob] @default("a")  @check(x, "a") }', "S020"),
        ('node A { x: enum(a, a) @default("b")  @key(x) }', "S019"),
        ("node A implements Gone { @key(name) @unique(name) }", "S007"),
        ('node A implements Gone { v: Vector(2) @embed("body") }', "S007"),
        ("node A { id: I32  @key(id) }", "S005"),
        ("interface I { x: [Blob] } node A implements I { x: [I32] }", "S020"),
    ],
)
def test_a_mistake_is_not_echoed(text: str, code: str) -> None:
    assert [d.code for d in found_in(text)] == [code]


def test_a_mistake_of_an_interface_is_told_once() -> None:
    text = """
        interface I {
            x: Blob @unique @index
            n: I32 @default("a")
            v: Vector(2) @embed("gone")
            y: I32 @rename_from("n")
        }
        node A implements I {}
        node B implements I {}
    """

    found = found_in(text)

    assert [d.code for d in found] == ["S011", "S012", "S017", "S016", "S024"]


def test_mistakes_inside_a_repeated_type_are_told_too() -> None:
    assert [d.code for d in found_in("node A {} node A { id: I32 }")] == ["S002", "S005"]


def test_a_swap_of_names_is_no_mistake() -> None:
    text = 'node A @rename_from("B") { x: I32 @rename_from("y")  y: I32 @rename_from("x") } node B @rename_from("A") {}'

    assert found_in(text) == ()


def test_a_bad_pattern_makes_no_noise(capfd: pytest.CaptureFixture[str]) -> None:
    found_in('node A { x: String  @check(x, "(") @check(x, "a{9999}") }')

    assert capfd.readouterr() == ("", "")


def test_a_flood_of_unknown_names_is_told_without_looking_for_near_ones() -> None:
    known = " ".join(f"column{n}: String" for n in range(200))
    unknown = " ".join(f"@index(colunm{n})" for n in range(200))

    found = found_in(f"node A {{ {known} {unknown} }}")

    assert len(found) == 200
    assert sum((d.help or "").startswith("did you mean") for d in found) == 50


# --- what is left ----------------------------------------------------------------------------------------


def test_a_partial_catalog_knows_every_name() -> None:
    text = 'node A { x: Vector(0)  y: I32 @default("a") } edge E: A -> B'
    source = Source(text)

    catalog = bind_schema(parse_schema(source).require(source)).value

    assert list(catalog.nodes["A"].by_name) == ["x", "y"]
    assert catalog.find_edge("e") is not None


def test_load_schema_raises_with_everything_found() -> None:
    with pytest.raises(SourceError) as raised:
        load_schema(Source("node A { id: I32  to: I32 }", "people.pg"))

    assert [d.code for d in raised.value.diagnostics] == ["S005", "S005"]
    assert str(raised.value).startswith("people.pg:1:10: S005: ")


def test_a_text_that_does_not_parse_is_not_bound() -> None:
    with pytest.raises(SourceError) as raised:
        load_schema(Source("node A { name String }\nedge E: A -> Gone"))

    assert {d.code for d in raised.value.diagnostics} == {"S000"}
