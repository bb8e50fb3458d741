"""Migration plans: each change is the right step with the right verdict. The corpus has many more, as text."""

import pytest

from omnigraph.schema.migration_planner import plan_migration
from omnigraph.schema.migration_steps import MigrationPlan, Step, StepKind
from schema_making import accepted, catalog_from


def plan(old: str, new: str) -> MigrationPlan:
    return plan_migration(accepted(old), catalog_from(new))


def only(old: str, new: str) -> Step:
    steps = plan(old, new).steps
    assert len(steps) == 1, [str(step) for step in steps]
    return steps[0]


def kinds(plan: MigrationPlan) -> list[str]:
    return [step.kind.value for step in plan.steps]


# --- each change alone -------------------------------------------------------------------------------

CHANGES = [
    # old, new, kind, property, code, validates
    ("node A {}", "node A {} node B {}", "add_type", None, None, False),
    ("node A {} node B {}", "node A {}", "drop_type", None, "OG-DS-102", False),
    ("node A {} edge E: A -> A", "node A {}", "drop_type", None, "OG-DS-103", False),
    ("node A {}", 'node B @rename_from("A") {}', "rename_type", None, None, False),
    ("node A {}", "node A { x: I32? }", "add_property", "x", None, False),
    ("node A {}", "node A { x: I32 @default(1) }", "add_property", "x", None, False),
    ("node A {}", "node A { x: I32 }", "unsupported_change", "x", "OG-MF-103", False),
    ("node A { x: I32 }", "node A {}", "drop_property", "x", "OG-DS-104", False),
    ("node A { x: I32 }", 'node A { y: I32 @rename_from("x") }', "rename_property", "y", None, False),
    ("node A { x: I32 }", "node A { x: I32? }", "relax_nullability", "x", None, False),
    ("node A { x: I32? }", "node A { x: I32 }", "unsupported_change", "x", "OG-MF-104", False),
    ("node A { x: I32 }", "node A { x: I64 }", "unsupported_change", "x", "OG-MF-106", False),
    ("node A { x: enum(a) }", "node A { x: String }", "unsupported_change", "x", "OG-MF-106", False),
    ("node A { x: enum(a) }", "node A { x: enum(b, a) }", "extend_enum", "x", None, False),
    ("node A { x: enum(a, b) }", "node A { x: enum(a) }", "unsupported_change", "x", "OG-MF-106", False),
    ("node A { x: enum(a, b) }", "node A { x: enum(b, a) }", "update_metadata", "x", None, False),
    ("node A { x: I32 }", "node A { x: I32 @default(1) }", "update_metadata", "x", None, False),
    ("node A { x: I32 }", 'node A { x: I32 @description("d") }', "update_metadata", "x", None, False),
    ("node A { x: I32 }", "node A { x: I32 @pii }", "update_metadata", "x", None, False),
    ("node A { x: I32 }", 'node A { x: I32 @rename_from("z") }', "update_metadata", "x", None, False),
    ("node A {}", 'node A @instruction("i") {}', "update_metadata", None, None, False),
    ("node A { x: I32  y: I32 }", "node A { y: I32  x: I32 }", "update_metadata", None, None, False),
    ("node A { x: I32 }", "node A { x: I32 @unique }", "add_constraint", "x", "OG-MF-107", True),
    ("node A { x: I32 @unique }", "node A { x: I32 }", "drop_constraint", "x", None, False),
    ("node A { x: I32 }", "node A { x: I32 @index }", "add_constraint", "x", None, False),
    ("node A { x: I32 }", "node A { x: I32  @range(x, 0..) }", "add_constraint", "x", "OG-MF-107", True),
    ("node A { x: I32  @range(x, 0..) }", "node A { x: I32  @range(x, -1..) }", "add_constraint", "x", None, False),
    (
        "node A { x: I32  @range(x, 0..) }",
        "node A { x: I32  @range(x, ..0) }",
        "add_constraint",
        "x",
        "OG-MF-107",
        True,
    ),
    ("node A { x: String }", 'node A { x: String  @check(x, "a") }', "add_constraint", "x", "OG-MF-107", True),
    ("node A { x: I32 }", "node A { x: I32 @key }", "unsupported_change", None, "OG-MF-106", False),
    ("node A { x: I32 @key }", "node A { x: I32 }", "unsupported_change", None, "OG-MF-106", False),
    (
        "node A {} edge E: A -> A",
        "node A {} edge E: A -> A { @key(src, dst) }",
        "unsupported_change",
        None,
        "OG-MF-106",
        False,
    ),
    ("node A {} edge E: A -> A { @key(src) }", "node A {} edge E: A -> A", "drop_constraint", None, None, False),
    (
        "node A {} edge E: A -> A { @key(src) }",
        "node A {} edge E: A -> A { @key(dst) }",
        "unsupported_change",
        None,
        "OG-MF-106",
        False,
    ),
    (
        "node A {} edge E: A -> A @card(0..2)",
        "node A {} edge E: A -> A @card(0..3)",
        "widen_cardinality",
        None,
        None,
        False,
    ),
    (
        "node A {} edge E: A -> A",
        "node A {} edge E: A -> A @card(0..3)",
        "add_constraint",
        None,
        "OG-MF-107",
        True,
    ),
    (
        "node A {} node B {} edge E: A -> A",
        "node A {} node B {} edge E: A -> B",
        "unsupported_change",
        None,
        "OG-MF-106",
        False,
    ),
    ("node A {}", "node A {} interface I {}", "update_metadata", None, None, False),
]


@pytest.mark.parametrize(
    "old, new, kind, name, code, validates", CHANGES, ids=[f"{row[0]} => {row[1]}" for row in CHANGES]
)
def test_one_change_is_one_step(
    old: str, new: str, kind: str, name: str | None, code: str | None, validates: bool
) -> None:
    step = only(old, new)

    assert (step.kind.value, step.property_name, step.code, step.validates) == (kind, name, code, validates)


def test_the_changes_name_every_kind_of_step() -> None:
    assert {row[2] for row in CHANGES} == {kind.value for kind in StepKind}


# --- verdicts --------------------------------------------------------------------------------------------


def test_a_drop_is_not_safe_but_supported_and_soft() -> None:
    found = plan("node A { x: I32 }", "node A {}")

    assert (found.is_safe, found.is_supported, found.drops_data) == (False, True, True)
    assert found.steps[0].to_json()["soft"] is True
    assert "unless data loss is allowed" in found.steps[0].message


def test_a_validated_constraint_is_not_safe_but_supported() -> None:
    found = plan("node A { x: I32 }", "node A { x: I32 @unique }")

    assert (found.is_safe, found.is_supported, found.validates) == (False, True, True)


def test_a_new_type_needs_no_validation() -> None:
    found = plan("node A {}", 'node A {} node B { x: String @key @unique  @check(x, "a") } edge E: B -> A @card(1..1)')

    assert kinds(found) == ["add_type", "add_type"]
    assert found.is_safe


def test_a_new_edge_type_that_every_node_needs_is_validated() -> None:
    step = only("node A {}", "node A {} edge E: A -> A @card(1..)")

    assert (step.kind, step.validates, step.code) == (StepKind.ADD_TYPE, True, "OG-MF-107")


def test_a_constraint_on_a_new_property_that_stays_null_needs_no_validation() -> None:
    found = plan("node A { y: I32 }", "node A { y: I32  x: I32? @unique  @unique(x, y) @range(x, 0..) }")

    assert kinds(found) == ["add_property", "add_constraint", "add_constraint", "add_constraint"]
    assert found.is_safe


def test_a_unique_on_a_new_property_that_a_default_fills_needs_validation() -> None:
    found = plan("node A {}", "node A { x: I32 @default(1) @unique }")

    assert [step.validates for step in found.steps] == [False, True]


# --- renames ---------------------------------------------------------------------------------------------


def test_what_only_mentions_a_renamed_property_is_no_change() -> None:
    old = 'node A { x: String  v: Vector(2) @embed("x")  @key(x) @unique(x) @index(x) @check(x, "a") }'
    new = (
        'node A { y: String @rename_from("x")  v: Vector(2) @embed("y")  @key(y) @unique(y) @index(y) @check(y, "a") }'
    )

    assert kinds(plan(old, new)) == ["rename_property"]


def test_a_renamed_end_is_no_change_of_the_edge() -> None:
    old = "node A {} edge E: A -> A { @key(src, dst) }"
    new = 'node B @rename_from("A") {} edge E: B -> B { @key(src, dst) }'

    assert kinds(plan(old, new)) == ["rename_type"]


def test_an_end_that_only_has_the_old_name_is_another_type() -> None:
    old = "node A {} node B {} edge E: A -> A"
    new = 'node A @rename_from("B") {} edge E: A -> A'

    assert kinds(plan(old, new)) == ["drop_type", "rename_type", "unsupported_change"]


def test_a_rename_and_a_change_of_type_are_two_steps() -> None:
    found = plan("node A { x: I32 }", 'node A { y: I64 @rename_from("x") }')

    assert kinds(found) == ["rename_property", "unsupported_change"]
    assert not found.is_supported


def test_a_rename_that_was_applied_is_no_change() -> None:
    renamed = 'node B @rename_from("A") { y: I32 @rename_from("x") }'

    assert plan(renamed, renamed).is_empty


def test_a_swap_that_was_applied_is_no_change() -> None:
    first, swapped = "node A {} node B {}", 'node A @rename_from("B") {} node B @rename_from("A") {}'

    assert kinds(plan(first, swapped)) == ["rename_type", "rename_type"]
    assert plan(swapped, swapped).is_empty


@pytest.mark.parametrize(
    "old, new, about",
    [
        (
            'node A { e: I32? @rename_from("b")  b: I32? @rename_from("d") }',
            'node A { e: I32? @rename_from("b")  b: I32? @rename_from("d")  f: I32? @rename_from("e") }',
            ("A", "e"),
        ),
        (
            'node E @rename_from("B") {} node B @rename_from("D") {}',
            'node E @rename_from("B") {} node B @rename_from("D") {} node F @rename_from("E") {}',
            ("E", None),
        ),
    ],
)
def test_a_rename_made_before_is_not_made_again_where_its_old_name_may_have_stayed(
    old: str, new: str, about: tuple[str, str | None]
) -> None:
    found = plan(old, new)

    refused = [step for step in found.steps if not step.is_supported]
    assert [(step.code, step.type, step.property_name) for step in refused] == [("OG-MF-108", *about)]
    assert "leave it out, and add it with a later schema" in refused[0].message


def test_a_chain_of_renames_frees_each_name_before_it_is_taken() -> None:
    found = plan("node A {} node B {}", 'node B @rename_from("A") {} node C @rename_from("B") {}')

    assert [(step.previous, step.type) for step in found.steps] == [("B", "C"), ("A", "B")]


def test_a_name_is_dropped_before_a_rename_takes_it() -> None:
    found = plan("node A { x: I32  y: I32 }", 'node A { x: I32 @rename_from("y") }')

    assert kinds(found) == ["drop_property", "rename_property"]


def test_a_node_type_that_becomes_an_edge_type_is_dropped_and_added() -> None:
    found = plan("node A {} node B {}", "node B {} edge A: B -> B")

    assert [(step.kind.value, step.table) for step in found.steps] == [("drop_type", "node:A"), ("add_type", "edge:A")]


# --- order -----------------------------------------------------------------------------------------------


def test_edges_go_before_their_nodes_and_come_after_them() -> None:
    found = plan("node A {} node B {} edge E: A -> B", "node A {} node C {} edge F: C -> A")

    assert [(step.kind.value, step.type) for step in found.steps] == [
        ("drop_type", "E"),
        ("drop_type", "B"),
        ("add_type", "C"),
        ("add_type", "F"),
    ]


def test_a_constraint_over_a_dropped_property_goes_first() -> None:
    found = plan("node A { x: I32  y: I32  @unique(x, y) }", "node A { y: I32 }")

    assert kinds(found) == ["drop_constraint", "drop_property"]


def test_a_constraint_on_a_dropped_property_alone_goes_with_it() -> None:
    found = plan('node A { x: String @unique @index  @check(x, "a") }', "node A {}")

    assert kinds(found) == ["drop_property"]


# --- what programs and people see ------------------------------------------------------------------------


def test_the_json_of_a_plan() -> None:
    found = plan("node A { x: I32 }", 'node B @rename_from("A") { x: I32 @unique }')

    assert found.to_json() == {
        "steps": [
            {
                "step": "rename_type",
                "type": "B",
                "property": None,
                "code": None,
                "safe": True,
                "validates": False,
                "message": "rename node type `A` to `B`",
                "details": {"kind": "node", "from": "A"},
                "table": "node:B",
            },
            {
                "step": "add_constraint",
                "type": "B",
                "property": "x",
                "code": "OG-MF-107",
                "safe": False,
                "validates": True,
                "message": "add `@unique(x)` to `B`; committed rows are checked first",
                "details": {"constraint": {"kind": "unique", "columns": ["x"], "text": "@unique(x)"}},
                "table": "node:B",
            },
        ],
        "safe": False,
        "supported": True,
        "drops_values": False,
        "notes": [],
    }


def test_the_text_of_a_plan() -> None:
    found = plan("node A { x: I32  y: I32 }", "node A { x: I64 }")

    dropped, refused, verdict = found.render().splitlines()
    assert dropped.startswith("drops       drop_property      drop property `A.y`: its values stay in earlier versions")
    assert dropped.endswith(" [OG-DS-104]")
    assert refused.startswith("unsupported unsupported_change `A.x` is I32 and can't become I64: ")
    assert verdict == "2 steps: can't be applied; see the unsupported changes"


def test_the_text_of_nothing() -> None:
    assert str(plan("node A {}", "node A {}")) == "nothing to change"


def test_a_bound_is_shown_as_it_is_written() -> None:
    new = 'node A { x: Date  f: F64  @range(x, date("2024-01-01")..) @range(f, ..1.5) }'

    found = plan("node A { x: Date  f: F64 }", new)

    assert [step.details["constraint"] for step in found.steps] == [
        {
            "kind": "range",
            "columns": ["x"],
            "low": "2024-01-01",
            "high": None,
            "text": '@range(x, date("2024-01-01")..)',
        },
        {"kind": "range", "columns": ["f"], "low": None, "high": 1.5, "text": "@range(f, ..1.5)"},
    ]


def test_a_step_only_has_codes_of_the_registry() -> None:
    with pytest.raises(ValueError, match="OG-XX-1"):
        Step(kind=StepKind.ADD_TYPE, type="A", table="node:A", message="", code="OG-XX-1")
