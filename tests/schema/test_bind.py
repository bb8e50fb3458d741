"""Binding: what a correct schema means. What is refused, and where, is in test_bind_errors.py and the corpus."""

from datetime import UTC, date, datetime

from omnigraph.schema.catalog import AnnotationValue, Cardinality, CheckRule, Embedding, RangeRule
from omnigraph.schema.types import EnumOf, ListOf, Scalar, VectorOf
from schema_making import catalog_from


def test_types_stand_in_declared_order() -> None:
    catalog = catalog_from("node B {} node A {} edge Y: A -> B edge X: B -> A")

    assert list(catalog.nodes) == ["B", "A"]
    assert list(catalog.edges) == ["Y", "X"]


def test_a_property_has_its_type_and_nullability() -> None:
    text = "node A { s: String  n: I64?  e: enum(a, b-c)  l: [Date]?  v: Vector(3) }"

    properties = catalog_from(text).nodes["A"].properties

    assert [(p.name, p.type, p.nullable) for p in properties] == [
        ("s", Scalar.STRING, False),
        ("n", Scalar.I64, True),
        ("e", EnumOf(("a", "b-c")), False),
        ("l", ListOf(Scalar.DATE), True),
        ("v", VectorOf(3), False),
    ]


def test_a_default_is_a_typed_value() -> None:
    text = """node A {
        at: DateTime @default(datetime("2026-01-02T03:04:05+01:00"))
        on: Date @default(date("2024-02-29"))
        n: F32 @default(1)
        l: [I32] @default([1, 2])
    }"""

    defaults = {p.name: p.default for p in catalog_from(text).nodes["A"].properties}

    assert defaults == {
        "at": datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC),
        "on": date(2024, 2, 29),
        "n": 1.0,
        "l": (1, 2),
    }


def test_a_default_of_null_is_a_default() -> None:
    nullable = catalog_from("node A { n: I32? @default(null) }").nodes["A"].by_name["n"]

    assert (nullable.has_default, nullable.default) == (True, None)


def test_constraints_in_either_form_are_the_same() -> None:
    bare = catalog_from("node A { k: I32 @key  u: I32 @unique  i: I32 @index }")
    spelled = catalog_from("node A { k: I32  u: I32  i: I32  @key(k) @unique(u) @index(i) }")

    assert bare == spelled


def test_constraints_hold_typed_bounds_and_patterns() -> None:
    text = 'node A { n: F64  on: Date  s: String  @range(n, ..2) @range(on, date("2024-01-01")..) @check(s, "^x") }'

    node = catalog_from(text).nodes["A"]

    assert node.ranges == (
        RangeRule(property="n", low=None, high=2.0),
        RangeRule(property="on", low=date(2024, 1, 1), high=None),
    )
    assert node.checks == (CheckRule(property="s", pattern="^x"),)


def test_two_checks_of_one_property_both_hold() -> None:
    node = catalog_from('node A { s: String  @check(s, "^a") @check(s, "z$") }').nodes["A"]

    assert [check.pattern for check in node.checks] == ["^a", "z$"]


def test_an_edge_may_list_its_ends() -> None:
    edge = catalog_from("node A {} edge E: A -> A { n: I32  @key(src, dst, n) @unique(dst, n) }").edges["E"]

    assert edge.key == ("src", "dst", "n")
    assert edge.unique == (("dst", "n"),)


def test_cardinality_is_open_unless_given() -> None:
    catalog = catalog_from("node A {} edge E: A -> A edge F: A -> A @card(1..3) edge G: A -> A @card(2..)")

    cards = [edge.cardinality for edge in catalog.edges.values()]

    assert cards == [Cardinality(), Cardinality(low=1, high=3), Cardinality(low=2)]


def test_an_embedding_has_a_source_and_perhaps_a_model() -> None:
    text = 'node A { s: String  v: Vector(2) @embed("s")  w: Vector(2) @embed("s", model="m") }'

    node = catalog_from(text).nodes["A"]

    assert node.by_name["v"].embedding == Embedding(source="s")
    assert node.by_name["w"].embedding == Embedding(source="s", model="m")


def test_unknown_annotations_are_kept_with_their_values() -> None:
    text = 'node A @owner(me, since=date("2024-01-01"), n=[1, true, null]) @draft { s: String @pii("x") @pii("y") }'

    node = catalog_from(text).nodes["A"]

    assert node.annotations == (
        AnnotationValue(name="owner", argument="me", options=(("since", date(2024, 1, 1)), ("n", (1, True, None)))),
        AnnotationValue(name="draft"),
    )
    assert [note.argument for note in node.by_name["s"].annotations] == ["x", "y"]


def test_a_bad_date_in_an_unknown_annotation_never_fails() -> None:
    node = catalog_from('node A @since(date("soon")) {}').nodes["A"]

    assert node.annotations == (AnnotationValue(name="since", argument="soon"),)


def test_texts_of_known_annotations_have_their_own_place() -> None:
    text = (
        'node A @description("d") @instruction("i") @rename_from("B") { s: String @description("e") @rename_from("t") }'
    )

    node = catalog_from(text).nodes["A"]

    assert (node.description, node.instruction, node.renamed_from, node.annotations) == ("d", "i", "B", ())
    assert (node.by_name["s"].description, node.by_name["s"].renamed_from) == ("e", "t")


# --- interfaces --------------------------------------------------------------------------------------


def test_an_interface_gives_its_properties_first_and_in_order() -> None:
    text = """
        node A implements J, I { own: I32 }
        interface I { i: I32 }
        interface J { j: I32 }
    """

    node = catalog_from(text).nodes["A"]

    assert [p.name for p in node.properties] == ["j", "i", "own"]
    assert node.implements == ("J", "I")


def test_an_interface_gives_its_annotations_and_bare_constraints() -> None:
    text = 'interface I { s: String @unique @index @default("x") @description("d") @pii } node A implements I {}'

    node = catalog_from(text).nodes["A"]
    inherited = node.by_name["s"]

    assert (node.unique, node.indexed) == ((("s",),), ("s",))
    assert (inherited.default, inherited.description) == ("x", "d")
    assert inherited.annotations == (AnnotationValue(name="pii"),)


def test_a_redeclaration_wins_and_keeps_what_it_does_not_say() -> None:
    text = """
        interface I { s: String @default("x") @description("theirs") @index @pii(1) @team("a") }
        node A implements I { s: String @description("ours") @pii(2) }
    """

    node = catalog_from(text).nodes["A"]
    merged = node.by_name["s"]

    assert (merged.description, merged.default, node.indexed) == ("ours", "x", ("s",))
    assert merged.annotations == (
        AnnotationValue(name="team", argument="a"),
        AnnotationValue(name="pii", argument=2),
    )


def test_a_constraint_of_the_node_may_name_an_interface_property() -> None:
    node = catalog_from("interface I { s: String } node A implements I { @key(s) }").nodes["A"]

    assert node.key == ("s",)


def test_two_interfaces_may_agree_on_a_property() -> None:
    text = 'interface I { s: String @description("i") } interface J { s: String @index } node A implements I, J {}'

    node = catalog_from(text).nodes["A"]

    assert [p.name for p in node.properties] == ["s"]
    assert (node.by_name["s"].description, node.indexed) == ("i", ("s",))


def test_an_embedding_comes_with_its_interface() -> None:
    text = 'interface I { s: String  v: Vector(2) @embed("s") } node A implements I {}'

    assert catalog_from(text).nodes["A"].by_name["v"].embedding == Embedding(source="s")
