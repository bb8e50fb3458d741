"""The details of every kind of step: what its message says, for programs."""

import json

import pytest

from omnigraph.schema.migration_planner import plan_migration
from omnigraph.schema.migration_steps import MigrationPlan, StepKind
from schema_making import accepted, catalog_from


def plan(old: str, new: str) -> MigrationPlan:
    return plan_migration(accepted(old), catalog_from(new))


def rule(kind: str, columns: list[str], text: str, **parts: object) -> dict[str, object]:
    return {"kind": kind, "columns": columns, **parts, "text": text}


def card(low: int, high: int | None) -> dict[str, object]:
    return rule("card", [], f"@card({low}..{'*' if high is None else high})", low=low, high=high)


def updated(aspect: str, **values: object) -> dict[str, object]:
    return {"changes": [{"aspect": aspect, **{name.rstrip("_"): value for name, value in values.items()}}]}


UNIQUE = rule("unique", ["x"], "@unique(x)")
LOW = rule("range", ["x"], "@range(x, 0..)", low=0, high=None)
WIDER = rule("range", ["x"], "@range(x, -1..9)", low=-1, high=9)
FROM_2024 = rule("range", ["x"], '@range(x, datetime("2024-01-01T00:00:00Z")..)', low="2024-01-01T00:00:00Z", high=None)
PII = {"name": "pii", "argument": 3, "options": [["until", {"date": "2026-01-02"}]]}
X = {
    "name": "x",
    "type": "I32",
    "nullable": False,
    "has_default": False,
    "default": None,
    "embedding": None,
    "description": None,
    "renamed_from": None,
    "annotations": [],
}
EDGE = "node A {} node B {} edge E: A -> A"

DETAILS = [
    # old, new, kind, details
    ("node A {}", "node A {} node B {}", "add_type", {"kind": "node"}),
    ("node A {}", f"{EDGE.replace('node B {}', '')}", "add_type", {"kind": "edge", "source": "A", "target": "A"}),
    (
        "node A {}",
        "node A {} edge E: A -> A @card(1..2)",
        "add_type",
        {"kind": "edge", "source": "A", "target": "A", "constraint": card(1, 2)},
    ),
    ("node A {} node B {}", "node A {}", "drop_type", {"kind": "node"}),
    ("node A {}", 'node B @rename_from("A") {}', "rename_type", {"kind": "node", "from": "A"}),
    ("node A {}", "node A { x: [I32]? }", "add_property", {"type": "[I32]", "nullable": True}),
    (
        "node A {}",
        'node A { x: Date @default(date("2026-01-02")) }',
        "add_property",
        {"type": "Date", "nullable": False, "default": "2026-01-02"},
    ),
    ("node A { x: I32? }", "node A {}", "drop_property", {"type": "I32", "nullable": True}),
    ("node A { x: I32 }", 'node A { y: I32 @rename_from("x") }', "rename_property", {"from": "x"}),
    ("node A { x: I32 }", "node A { x: I32? }", "relax_nullability", {"from": "I32", "to": "I32?"}),
    ("node A { x: enum(a) }", "node A { x: enum(c, a, b) }", "extend_enum", {"added": ["c", "b"]}),
    ("node A { x: I32 }", "node A { x: I32 @unique }", "add_constraint", {"constraint": UNIQUE}),
    ("node A { x: I32 @unique }", "node A { x: I32 }", "drop_constraint", {"constraint": UNIQUE}),
    (
        "node A { x: I32 }",
        "node A { x: I32 @index }",
        "add_constraint",
        {"constraint": rule("index", ["x"], "@index(x)")},
    ),
    (
        "node A { x: I32  @range(x, 0..) }",
        "node A { x: I32  @range(x, -1..9) }",
        "add_constraint",
        {"constraint": WIDER, "replaces": LOW},
    ),
    ("node A { x: I32  @range(x, 0..) }", "node A { x: I32 }", "drop_constraint", {"constraint": LOW}),
    (
        "node A { x: DateTime }",
        'node A { x: DateTime  @range(x, datetime("2024-01-01T00:00:00Z")..) }',
        "add_constraint",
        {"constraint": FROM_2024},
    ),
    (
        "node A { x: String }",
        'node A { x: String  @check(x, "a|b") }',
        "add_constraint",
        {"constraint": rule("check", ["x"], '@check(x, "a|b")', pattern="a|b")},
    ),
    (
        f"{EDGE} {{ @key(src, dst) }}",
        EDGE,
        "drop_constraint",
        {"constraint": rule("key", ["src", "dst"], "@key(src, dst)")},
    ),
    (EDGE, f"{EDGE} @card(1..2)", "add_constraint", {"constraint": card(1, 2), "replaces": card(0, None)}),
    (f"{EDGE} @card(1..2)", f"{EDGE} @card(0..)", "widen_cardinality", {"from": card(1, 2), "to": card(0, None)}),
    ("node A {}", "node A { x: I32 }", "unsupported_change", {"type": "I32", "nullable": False}),
    ("node A { x: I32? }", "node A { x: I32 }", "unsupported_change", {"from": "I32?", "to": "I32"}),
    ("node A { x: I32 }", "node A { x: I64 }", "unsupported_change", {"from": "I32", "to": "I64"}),
    (
        "node A { x: enum(a, b) }",
        "node A { x: enum(a) }",
        "unsupported_change",
        {"from": "enum(a, b)", "to": "enum(a)", "removed": ["b"]},
    ),
    (
        EDGE,
        EDGE.replace("-> A", "-> B"),
        "unsupported_change",
        {"from": {"source": "A", "target": "A"}, "to": {"source": "A", "target": "B"}},
    ),
    (
        "node A { x: I32  y: I32 @key }",
        "node A { x: I32 @key  y: I32 }",
        "unsupported_change",
        {"from": rule("key", ["y"], "@key(y)"), "to": rule("key", ["x"], "@key(x)")},
    ),
    (
        "node A { x: I32 }",
        "node A { x: I32 @key }",
        "unsupported_change",
        {"to": rule("key", ["x"], "@key(x)")},
    ),
    (
        "node A { x: enum(a, b) }",
        "node A { x: enum(b, a) }",
        "update_metadata",
        updated("order of enum values", from_=["a", "b"], to=["b", "a"]),
    ),
    ("node A { x: I32 }", "node A { x: I32 @default(1) }", "update_metadata", updated("default", to=1)),
    (
        "node A { x: I32? @default(1) }",
        "node A { x: I32? @default(null) }",
        "update_metadata",
        updated("default", from_=1, to=None),
    ),
    (
        "node A { t: String  v: Vector(2)? }",
        'node A { t: String  v: Vector(2)? @embed("t", model="m") }',
        "update_metadata",
        updated("embed", to={"source": "t", "model": "m"}),
    ),
    (
        'node A { x: I32 @description("d") }',
        'node A { x: I32 @description("e") }',
        "update_metadata",
        updated("description", from_="d", to="e"),
    ),
    (
        "node A { x: I32 }",
        'node A { x: I32 @pii(3, until=date("2026-01-02")) }',
        "update_metadata",
        updated("annotations", from_=[], to=[PII]),
    ),
    (
        'node A { x: I32 @rename_from("w") }',
        "node A { x: I32 }",
        "update_metadata",
        updated("rename_from", from_="w"),
    ),
    ("node A {}", 'node A @description("d") {}', "update_metadata", updated("description", to="d")),
    ('node A @instruction("i") {}', "node A {}", "update_metadata", updated("instruction", from_="i")),
    ("node A {}", 'node A @rename_from("Z") {}', "update_metadata", updated("rename_from", to="Z")),
    (
        'node A @pii(3, until=date("2026-01-02")) {}',
        "node A {}",
        "update_metadata",
        updated("annotations", from_=[PII], to=[]),
    ),
    (
        "node A { x: I32  y: I32 }",
        "node A { y: I32  x: I32 }",
        "update_metadata",
        updated("order of properties", from_=["x", "y"], to=["y", "x"]),
    ),
    (
        "interface I {} node A {}",
        "interface I {} node A implements I {}",
        "update_metadata",
        updated("implements", from_=[], to=["I"]),
    ),
    (
        "node A {}",
        "node A {} interface I { x: I32 }",
        "update_metadata",
        updated("interface", to={"name": "I", "properties": [X], "unique": [], "indexed": []}),
    ),
]


@pytest.mark.parametrize("old, new, kind, details", DETAILS, ids=[f"{row[0]} => {row[1]}" for row in DETAILS])
def test_a_step_tells_its_facts(old: str, new: str, kind: str, details: dict[str, object]) -> None:
    (step,) = plan(old, new).steps

    told = json.loads(json.dumps(step.to_json(), allow_nan=False))

    assert told["step"] == kind
    assert told["details"] == details


def test_the_details_name_every_kind_of_step() -> None:
    assert {row[2] for row in DETAILS} == {kind.value for kind in StepKind}


def test_a_long_enum_is_told_in_full() -> None:
    values = [f"v{number}" for number in range(100)]

    (step,) = plan("node A { x: String }", f"node A {{ x: enum({', '.join(values)}) }}").steps

    assert step.details["to"] == f"enum({', '.join(values)})"


# --- notes -----------------------------------------------------------------------------------------------

PERSON = "node Person { name: String  age: I32? }"


@pytest.mark.parametrize(
    "new, about, message",
    [
        (
            'node Human @rename_from("Persn") { name: String  age: I32? }',
            ("Human", None),
            (
                '`Human` has `@rename_from("Persn")`, but the old schema has no node type `Persn`;'
                " did you mean `Person`?: correct the name, or remove the `@rename_from`"
            ),
        ),
        (
            'node Person { name: String  years: I32? @rename_from("aeg") }',
            ("Person", "years"),
            (
                '`Person.years` has `@rename_from("aeg")`, but `Person` of the old schema has no property `aeg`;'
                " did you mean `age`?: correct the name, or remove the `@rename_from`"
            ),
        ),
        (
            'node Human @rename_from("Person") { title: String? @rename_from("tilte")  name: String  age: I32? }',
            ("Human", "title"),
            (
                '`Human.title` has `@rename_from("tilte")`, but `Person` of the old schema has no property `tilte`:'
                " correct the name, or remove the `@rename_from`"
            ),
        ),
        (
            f'{PERSON} edge Likes: Person -> Person @rename_from("Loves")',
            ("Likes", None),
            (
                '`Likes` has `@rename_from("Loves")`, but the old schema has no edge type `Loves`:'
                " correct the name, or remove the `@rename_from`"
            ),
        ),
    ],
)
def test_a_rename_from_nothing_is_refused(new: str, about: tuple[str, str | None], message: str) -> None:
    found = plan(PERSON, new)

    (refused,) = (step for step in found.steps if not step.is_supported)
    assert (refused.code, (refused.type, refused.property_name), refused.message) == ("OG-MF-109", about, message)
    assert list(refused.details) == ["from"]
    assert found.notes == ()


def test_a_rename_from_nothing_in_a_new_type_is_noted() -> None:
    note = '`City.name` has `@rename_from("nmae")`, but the old schema has no type `City`, so it counts as new'

    found = plan(PERSON, f'{PERSON} node City {{ name: String @rename_from("nmae") }}')

    assert found.is_supported
    assert found.notes == (note,)
    assert found.to_json()["notes"] == [note]
    assert f"note: {note}" in found.render().splitlines()[:-1]


RENAMED = 'node Human @rename_from("Person") { name: String  years: I32? @rename_from("age") }'


@pytest.mark.parametrize(
    "old",
    [
        'node Human { name: String  ages: I32? @rename_from("years") }',
        'node Being @rename_from("Human") { name: String  years: I32? @rename_from("age") }',
    ],
)
def test_a_rename_that_an_earlier_schema_had_is_noted(old: str) -> None:
    """The same file is applied again after later changes: what it renamed then is new now."""
    found = plan_migration(accepted(old), catalog_from(RENAMED), (catalog_from(RENAMED),))

    assert found.is_supported
    assert len(found.notes) == 1
    assert not plan(old, RENAMED).is_supported


def test_a_rename_that_another_type_had_earlier_is_none_of_this_one() -> None:
    earlier = catalog_from(RENAMED.replace("Human", "Other"))

    found = plan_migration(accepted("node Human { name: String }"), catalog_from(RENAMED), (earlier,))

    assert [step.code for step in found.steps if not step.is_supported] == ["OG-MF-109"]


@pytest.mark.parametrize(
    "new",
    [
        PERSON,
        'node Human @rename_from("Person") { full_name: String @rename_from("name")  age: I32? }',
        'node Person @rename_from("Human") { name: String @rename_from("full_name")  age: I32? }',
    ],
)
def test_a_rename_that_is_made_or_was_made_before_is_not_noted(new: str) -> None:
    assert plan(PERSON, new).notes == ()


def test_a_type_that_is_probably_misnamed_says_nothing_about_its_properties() -> None:
    found = plan(PERSON, 'node Human @rename_from("Persn") { full_name: String @rename_from("name") }')

    assert [step.property_name for step in found.steps if not step.is_supported] == [None]
    assert found.notes == ()
