from datetime import UTC, date, datetime

import pytest

from omnigraph.query.expr import (
    Compare,
    Const,
    Contains,
    Expr,
    Identity,
    In,
    IsNull,
    Not,
    Now,
    Op,
    Or,
    ParamRef,
    Prop,
    StartsWith,
)
from omnigraph.schema.catalog import Value
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType
from query.reading import checked, matching, problems_in

PARAMS = "$n: I64, $ns: [I32], $t: String?, $names: [String], $when: DateTime"


def predicate(text: str) -> Expr:
    (found,) = matching(f"$p: Person $q: Person {text}", PARAMS).pattern.filters
    return found


def compared(text: str) -> tuple[Op, Value, ValueType]:
    """The operator, constant and its type of a comparison of a column with a literal."""
    found = predicate(text)
    assert isinstance(found, Compare)
    assert isinstance(found.left, Prop)
    assert isinstance(found.right, Const)
    return found.op, found.right.value, found.right.type


@pytest.mark.parametrize(
    "text, expected",
    [
        ("$p.age = 3", (Op.EQ, 3, Scalar.I32)),
        ("$p.age = 3.0", (Op.EQ, 3, Scalar.I32)),
        ("3 < $p.age", (Op.GT, 3, Scalar.I32)),
        ("$p.age < 2.7", (Op.LE, 2, Scalar.I32)),
        ("$p.age >= 2.7", (Op.GT, 2, Scalar.I32)),
        ("$p.age = 2.7", (Op.LT, -(2**31), Scalar.I32)),
        ("$p.age != 2.7", (Op.GE, -(2**31), Scalar.I32)),
        ("$p.age < 3000000000", (Op.LE, 2**31 - 1, Scalar.I32)),
        ("$p.visits > -1", (Op.GE, 0, Scalar.U64)),
        ("$p.height = 3", (Op.EQ, 3.0, Scalar.F64)),
        ("$p.height < 9007199254740993", (Op.LE, 9007199254740992.0, Scalar.F64)),
        ("$p.score > 0.5", (Op.GT, 0.5, Scalar.F32)),
        ("$p.active >= false", (Op.GE, False, Scalar.BOOL)),
        ('$p.born < date("2000-02-29")', (Op.LT, date(2000, 2, 29), Scalar.DATE)),
        (
            '$p.seen < datetime("2026-01-02T03:04:05+01:00")',
            (Op.LT, datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC), Scalar.DATETIME),
        ),
        ('$p.status = "gone"', (Op.EQ, "gone", EnumOf(("new", "gone")))),
        ('"Ann" = $p.name', (Op.EQ, "Ann", Scalar.STRING)),
        ("$p.age = null", (Op.EQ, None, Scalar.I32)),
    ],
)
def test_a_literal_takes_the_type_of_the_column_beside_it(text: str, expected: tuple[Op, Value, ValueType]) -> None:
    assert compared(text) == expected


def test_a_comparison_of_a_nullable_column_can_be_unknown() -> None:
    assert predicate("$p.age = 3").nullable
    assert not predicate('$p.name = "Ann"').nullable


def test_numbers_of_different_types_compare_as_they_are() -> None:
    found = predicate("$p.age < $n")

    assert isinstance(found, Compare)
    assert isinstance(found.right, ParamRef)
    assert (found.left.type, found.right.type) == (Scalar.I32, Scalar.I64)


def test_two_nodes_are_compared_by_identity() -> None:
    found = predicate("$p != $q")

    assert isinstance(found, Compare)
    assert found.op is Op.NE
    assert [side.variable for side in (found.left, found.right) if isinstance(side, Identity)] == ["p", "q"]


@pytest.mark.parametrize(
    "text, values, element",
    [
        ("$p.age in [1, 2.5, 3.0, 4000000000]", (1, 3), Scalar.I32),
        ("$p.height in [1, 2.5]", (1.0, 2.5), Scalar.F64),
        ('$p.status in ["new"]', ("new",), Scalar.STRING),
        ("$p.age in []", (), Scalar.I32),
        ("null in [1, 2]", (1, 2), Scalar.I64),
        ('["a"] contains $p.name', ("a",), Scalar.STRING),
    ],
)
def test_a_list_of_literals_takes_the_type_of_its_element(
    text: str, values: tuple[Value, ...], element: Scalar
) -> None:
    found = predicate(text)

    assert isinstance(found, In)
    assert isinstance(found.collection, Const)
    assert (found.collection.value, found.collection.type) == (values, ListOf(element))


@pytest.mark.parametrize(
    "text, value, type_",
    [("3.0 in $ns", 3, Scalar.I32), ("2.5 in $ns", 2.5, Scalar.F64), ("null in $ns", None, Scalar.I32)],
)
def test_a_literal_takes_the_type_of_the_list_if_that_has_an_equal_value(
    text: str, value: Value, type_: ValueType
) -> None:
    found = predicate(text)

    assert isinstance(found, In)
    assert isinstance(found.element, Const)
    assert (found.element.value, found.element.type) == (value, type_)


@pytest.mark.parametrize("text", ["1 < 2.5", "null = 3", '"a" != null', "null = null", 'null starts_with "a"'])
def test_two_literals_compare_in_types_of_their_own(text: str) -> None:
    assert isinstance(predicate(text), Compare | StartsWith)


def test_a_literal_may_be_in_a_list_of_literals() -> None:
    found = predicate("1 in [1, 2]")

    assert isinstance(found, In)
    assert found.element.type == Scalar.I64


@pytest.mark.parametrize(
    "text", ["$p.name in $names", '"x" in $p.tags', "$p.name in $q.tags", "$p.tags contains $t", '$p.tags contains "x"']
)
def test_in_and_contains_of_a_list_are_one_thing(text: str) -> None:
    assert isinstance(predicate(text), In)


def test_contains_of_a_text_is_a_substring() -> None:
    assert isinstance(predicate('$p.name contains "n"'), Contains)
    assert isinstance(predicate('$p.status contains "n"'), Contains)


def test_logic_keeps_its_shape() -> None:
    found = predicate('not ($p.age > 3 or $p.name starts_with "A") and $p.bio is not null and $p.seen < now()')

    negated, test, before = found.terms if hasattr(found, "terms") else ()
    assert isinstance(negated, Not)
    assert isinstance(negated.term, Or)
    assert isinstance(negated.term.terms[1], StartsWith)
    assert isinstance(test, IsNull)
    assert isinstance(before, Compare)
    assert isinstance(before.right, Now)


@pytest.mark.parametrize(
    "text",
    [
        '$p.age < "3"',
        "$p.name = 3",
        "$p.active = 1",
        '$p.born = "2000-01-01"',
        "$p.born < $p.seen",
        "$p.born < now()",
        "$p.tags = $q.tags",
        '$p.tags = ["x"]',
        "$p.face = $q.face",
        "$p.photo = $q.photo",
        "$p.photo = null",
        '$p = "Ann"',
        "$p < $q",
        "$p = null",
        '1 = "1"',
        '$p.age in ["3"]',
        "$p.age in [1, null]",
        "$p.name in $p.name",
        '$p.name in "x"',
        "$p in [1]",
        "$p in $names",
        "null = [1]",
        "[1] = [1]",
        '$p.seen > "2026-01-01"',
        '$p.seen > date("2026-01-01")',
        "$p.age in $names",
        "$p.tags contains 3",
        '$p.tags contains ["x"]',
        "$p.age contains 3",
        '$p.age starts_with "3"',
        "$p.name starts_with 3",
        "$p contains $q",
    ],
)
def test_what_does_not_compare_is_marked_as_a_whole(text: str) -> None:
    assert problems_in(f"$p: Person $q: Person {text}", PARAMS) == [("T7", text)]


@pytest.mark.parametrize(
    "text, marked",
    [
        ('$p.status = "gnoe"', '"gnoe"'),
        ('"gnoe" != $p.status', '"gnoe"'),
        ('$p.status in ["new", "gnoe"]', '"gnoe"'),
        ('$p.born = date("2026-02-30")', 'date("2026-02-30")'),
        ('$p.born in [date("2026-02-30")]', 'date("2026-02-30")'),
        ('$p.seen > datetime("2026-01-01T00:00:00")', 'datetime("2026-01-01T00:00:00")'),
        ("99999999999999999999 = 1", "99999999999999999999"),
        ("99999999999999999999 in [1]", "99999999999999999999"),
        ("99999999999999999999 in $ns", "99999999999999999999"),
    ],
)
def test_a_literal_of_the_right_kind_that_is_no_value_is_marked_alone(text: str, marked: str) -> None:
    assert problems_in(f"$p: Person {text}", PARAMS) == [("T3", marked)]


@pytest.mark.parametrize(
    "filter_, marked",
    [
        ('age: "3"', '"3"'),
        ("name: 3", "3"),
        ('status: "gnoe"', '"gnoe"'),
        ("tags: 3", "3"),
        ('tags: ["x"]', '["x"]'),
        ("face: [1, 2]", "[1, 2]"),
        ("born: now()", "now()"),
        ("age: $t", "$t"),
        ("name: $q", "$q"),
        ("name: $q.age", "$q.age"),
    ],
)
def test_a_value_that_does_not_fit_its_braces_is_marked_alone(filter_: str, marked: str) -> None:
    assert problems_in(f"$q: Person $p: Person {{ {filter_} }}", PARAMS) == [("T3", marked)]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("count($p) > 3", [("T8", "count($p)")]),
        (
            'rrf(nearest($p.face, "x"), bm25($p.name, "x")) < 0.5',
            [("T18", 'rrf(nearest($p.face, "x"), bm25($p.name, "x"))')],
        ),
        ("lowr($p.name) = 3", [("Q000", "lowr")]),
        ("$_.age > 3", [("T6", "$_")]),
        ("$t.name = 3", [("T6", "$t")]),
        ("$p.@src = $t", [("T2", "@src")]),
        ("$p is null", [("T7", "$p")]),
        ("$p.agee = 3 or $p.nme = 4", [("T2", "agee"), ("T2", "nme")]),
    ],
)
def test_each_rule_of_predicates_has_its_code_and_place(text: str, expected: list[tuple[str, str]]) -> None:
    assert problems_in(f"$p: Person {text}", PARAMS) == expected


@pytest.mark.parametrize(
    "text, message, help_",
    [
        (
            '$p.age < "3"',
            '`$p.age` (I32) can\'t be compared with `"3"` (String)',
            "write `3`, without quotes",
        ),
        ("$p.name = 3", "`$p.name` (String) can't be compared with `3` (a number)", 'write `"3"`, with quotes'),
        (
            '$p.status = "gnoe"',
            '"gnoe" is not a value of enum(new, gone)',
            "did you mean `gone`?",
        ),
        (
            '$p = "Ann"',
            '`$p` (Person) can\'t be compared with `"Ann"` (String)',
            "compare its id: `$p.@id`",
        ),
        (
            "$p.face = $p.face",
            "`$p.face` (Vector(2)) can't be compared with `$p.face` (Vector(2))",
            "vectors are compared by distance: order by `nearest(vector, query)`",
        ),
    ],
)
def test_a_message_names_both_sides_and_the_way_out(text: str, message: str, help_: str) -> None:
    (found,) = checked(f"query q() {{ match {{ $p: Person {text} }} return {{ 1 as one }} }}").diagnostics

    assert (found.message, found.help) == (message, help_)
