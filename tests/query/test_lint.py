"""Advice: each warning, its place, and the neighbour that gets none."""

import pytest

from omnigraph.lang.diagnostic_codes import DiagnosticSeverity
from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.source import Source
from omnigraph.query.bind import bind_file
from omnigraph.query.lint import lint_file
from query.planning import CATALOG, parsed

ADD = "query add($n: String) { insert Person { name: $n } }"
SET_AGE_AND_MAIL = "query up($n: String) { update Person set { age: 3, mail: null } where name = $n }"


def linted(text: str) -> tuple[Diagnostic, ...]:
    tree = parsed(text)
    return lint_file(tree, bind_file(tree, CATALOG).require(Source(text)), CATALOG, Source(text))


def found(text: str) -> list[tuple[str, str]]:
    """Code and marked text of each warning, in order."""
    return [(warning.code, Source(text).slice(warning.span)) for warning in linted(text)]


def in_match(clauses: str) -> list[tuple[str, str]]:
    return found(f"query q($n: String, $a: I32) {{ match {{ {clauses} }} return {{ count(*) as n }} }}")


def test_advice_is_a_warning_not_an_error() -> None:
    assert {warning.severity for warning in linted(ADD)} == {DiagnosticSeverity.WARNING}


# --- L201 ----------------------------------------------------------------------------------------


def test_all_nullable_properties_of_an_inserted_type_that_no_update_sets_are_one_warning() -> None:
    text = ADD + SET_AGE_AND_MAIL

    (warning,) = linted(text)

    assert (warning.code, Source(text).slice(warning.span)) == ("L201", "Person")
    assert "`status`, `seen`, `bio` and `photo` of `Person`" in warning.message


def test_a_type_is_warned_about_at_its_first_insert() -> None:
    text = f"{ADD} query again($n: String) {{ insert Person {{ name: $n }} }}"

    (warning,) = linted(text)

    assert warning.span.start == text.index("Person")


def test_a_type_that_the_file_only_updates_is_not_its_business() -> None:
    assert found("query up($n: String) { update Person set { age: 3 } where name = $n }") == []


def test_an_edge_type_counts_too() -> None:
    assert found("query k($a: String) { insert Knows { from: $a, to: $a } }") == [("L201", "Knows")]


def test_a_type_without_nullable_properties_is_fine() -> None:
    assert found("query c($a: String) { insert Company { name: $a, city: $a } }") == []


# --- L202 ----------------------------------------------------------------------------------------


def test_a_mutation_without_parameters() -> None:
    assert found('query c() { insert Company { name: "x", city: "y" } }') == [("L202", "c")]


def test_a_read_without_parameters_is_fine() -> None:
    assert found("query c() { match { $c: Company } return { $c.city } }") == []


# --- L203 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "clauses,marked",
    [
        ("$p: Person $c: Company", ["$c"]),
        ("$c: Company $p: Person $q: Person", ["$p", "$q"]),
        ("$p knows $q $r knows $s", ["$r"]),
        ("$p: Person $c: Company $p.age > 3 and $p.name != $c.name", ["$c"]),
        ("$p: Person $c: Company $p.name = $c.name or $p.age > 3", ["$c"]),
        ("$p: Person $_ worksAt $c", ["$_"]),
        ("$p: Person not { $p knows $q $c: Company }", ["$c"]),
    ],
)
def test_what_nothing_connects_is_a_product(clauses: str, marked: list[str]) -> None:
    assert in_match(clauses) == [("L203", variable) for variable in marked]


@pytest.mark.parametrize(
    "clauses",
    [
        "$p: Person",
        "$p: Person $c: Company $p worksAt $c",
        "$p: Person $c: Company $p $e:worksAt $c $e.role starts_with $n",
        "$p: Person $c: Company $p.age > 3 and $p.name = $c.name",
        "$p: Person $q: Person $p = $q",
        "$p: Person $q: Person $r: Person $p knows $r $q knows $r",
        "$p knows $q not { $p worksAt $c $q worksAt $d }",
        "$p knows $q not { $p worksAt $c $q worksAt $c }",
        "$p: Person not { $c: Company $c.name = $p.name }",
    ],
)
def test_what_hops_or_equalities_connect_is_no_product(clauses: str) -> None:
    assert in_match(clauses) == []


# --- L204 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "clauses,marked",
    [
        ("$p: Person { age: $a }", "age"),
        ("$p: Person $p.age = 3", "$p.age"),
        ("$p: Person $a = $p.age", "$p.age"),
        ("$p: Person $p.name = $n and ($p.age = 3 or $p.age > 5)", "$p.age"),
        ("$p $e:worksAt $c $e.role = $n", "$e.role"),
        ("$p: Person not { $p worksAt $c $c.city = $n }", "$c.city"),
        ("$p: Person not { $p worksAt $c $p.age = $a }", "$p.age"),
    ],
)
def test_an_equality_that_no_index_answers(clauses: str, marked: str) -> None:
    assert in_match(clauses) == [("L204", marked)]


@pytest.mark.parametrize(
    "clauses",
    [
        "$p: Person { name: $n }",
        "$p: Person { mail: $n, bio: $n }",
        "$p: Person $p.@id = $n",
        "$p: Person $p.age > 3",
        "$p: Person $p.age in [1, 2]",
        "$p: Person not $p.age = 3",
        "$p: Person $p.seen is null",
        "$p: Person $q: Person $p.age = $q.age",
        '$p: Person ($p.age = 3 or $p.name contains "x")',
    ],
)
def test_what_an_index_answers_or_could_not_answer_is_fine(clauses: str) -> None:
    assert in_match(clauses) == []


def test_an_unindexed_equality_in_a_mutation_is_marked_at_its_property() -> None:
    assert found("query d($a: I32) { delete Person where age = $a }") == [("L204", "age")]


def test_the_help_of_a_missing_index_is_the_index() -> None:
    (warning,) = linted("query d($a: I32) { delete Person where age = $a }")

    assert warning.help == "add `@index(age)` to `Person`"


# --- L205 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "clauses,marked",
    [
        ("$p: Person $p.age = null", "$p.age = null"),
        ("$p: Person null < $p.age", "null < $p.age"),
        ("$p: Person { age: null }", "null"),
        ("$p: Person not ($p.age > 3 and $p.mail != null)", "$p.mail != null"),
        ("$p: Person not { $p knows $q $q.bio contains null }", "$q.bio contains null"),
    ],
)
def test_a_comparison_with_null(clauses: str, marked: str) -> None:
    assert in_match(clauses) == [("L205", marked)]


def test_the_help_for_unequal_null_is_is_not_null() -> None:
    (warning,) = linted("query d($n: String) { delete Person where name = $n and age != null }")

    assert (warning.code, warning.help) == ("L205", "test with `is not null`")


def test_a_null_that_is_stored_is_fine() -> None:
    assert found("query d($n: String) { update Person set { age: null } where name = $n }") == []


def test_warnings_stand_in_source_order() -> None:
    read = "query a() { match { $p: Person { age: 3 } $q: Person } return { $p.age } }"
    mutation = "query b() { delete Person where mail = null }"

    assert [code for code, _ in found(read + mutation)] == ["L204", "L203", "L202", "L205"]


def test_what_the_text_shows_is_said_of_a_query_that_does_not_bind() -> None:
    text = "query b() { delete Persn where mail = null }"

    warnings = lint_file(parsed(text), (), CATALOG, Source(text))

    assert [warning.code for warning in warnings] == ["L202", "L205"]
