import pytest

from omnigraph.lang import query_ast as ast
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.query.functions import FUNCTIONS, Family, Place, look_up, names
from omnigraph.schema.findings import Findings


def call(text: str) -> ast.Call:
    source = Source(f"query q() {{ match {{ $p: P }} return {{ {text} as x }} }}")
    (query,) = parse_queries(source).require(source).queries
    assert isinstance(query.body, ast.Read)
    value = query.body.projections[0].value
    assert isinstance(value, ast.Call)
    return value


@pytest.mark.parametrize(
    "text, place",
    [
        ("now()", Place.OPERAND),
        ("now()", Place.STORED),
        ("count(*)", Place.OUTPUT),
        ("sum($p.a)", Place.ORDER),
        ("search($p.a, $q)", Place.PREDICATE),
        ("fuzzy($p.a, $q, 1)", Place.PREDICATE),
        ("rrf($a, $b, k=3)", Place.ORDER),
    ],
)
def test_a_function_is_found_where_it_may_stand(text: str, place: Place) -> None:
    findings = Findings()

    function = look_up(call(text), place, findings)

    assert function is not None
    assert not findings


@pytest.mark.parametrize(
    "text, place, code",
    [
        ("now()", Place.PREDICATE, "Q000"),
        ("count(*)", Place.OPERAND, "T8"),
        ("count(*)", Place.AGGREGATE, "T8"),
        ("min($p.a)", Place.STORED, "T8"),
        ("nearest($p.a, $q)", Place.OPERAND, "T18"),
        ("bm25($p.a, $q)", Place.AGGREGATE, "T18"),
        ("search($p.a, $q)", Place.OUTPUT, "T18"),
        ("now(1)", Place.OUTPUT, "Q000"),
        ("count($a, $b)", Place.OUTPUT, "T8"),
        ("nearest($a)", Place.OUTPUT, "T15"),
        ("bm25($a)", Place.OUTPUT, "T21"),
        ("rrf($a, $b, $c, $d)", Place.OUTPUT, "T21"),
        ("rrf($a, $b, w=3)", Place.OUTPUT, "T21"),
        ("rrf($a, $b, 3, k=3)", Place.OUTPUT, "T21"),
        ("search($a)", Place.PREDICATE, "T19"),
        ("match_text($a)", Place.PREDICATE, "T19"),
        ("fuzzy($a)", Place.PREDICATE, "T20"),
        ("lower($a)", Place.OUTPUT, "Q000"),
    ],
)
def test_a_wrong_call_has_the_code_of_its_function(text: str, place: Place, code: str) -> None:
    findings = Findings()

    function = look_up(call(text), place, findings)

    assert function is None
    assert [found.code for found in findings.ordered()] == [code]


def test_an_unknown_function_gets_the_nearest_name() -> None:
    findings = Findings()

    look_up(call("serach($p.a, $q)"), Place.PREDICATE, findings)

    assert findings.ordered()[0].help == "did you mean `search`?"


def test_a_function_like_no_other_gets_the_list_of_the_place() -> None:
    findings = Findings()

    look_up(call("uppercase($p.a)"), Place.PREDICATE, findings)

    assert findings.ordered()[0].help == "the functions as a predicate are `search`, `match_text` and `fuzzy`"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_help_of_a_function_shows_a_call_of_it(name: str) -> None:
    usage = FUNCTIONS[name].usage

    assert usage.startswith(f"`{name}(")


def test_every_family_has_functions() -> None:
    assert all(names([family]) for family in Family)
