import pytest

from omnigraph.lang import query_ast as ast
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.query.functions import FUNCTIONS, CallContext, FunctionFamily, list_functions, resolve_function
from omnigraph.schema.findings import DiagnosticCollector


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
        ("now()", CallContext.OPERAND),
        ("now()", CallContext.STORED),
        ("count(*)", CallContext.OUTPUT),
        ("sum($p.a)", CallContext.ORDER),
        ("search($p.a, $q)", CallContext.PREDICATE),
        ("fuzzy($p.a, $q, 1)", CallContext.PREDICATE),
        ("rrf($a, $b, k=3)", CallContext.ORDER),
    ],
)
def test_a_function_is_found_where_it_may_stand(text: str, place: CallContext) -> None:
    findings = DiagnosticCollector()

    function = resolve_function(call(text), place, findings)

    assert function is not None
    assert not findings


@pytest.mark.parametrize(
    "text, place, code",
    [
        ("now()", CallContext.PREDICATE, "Q000"),
        ("count(*)", CallContext.OPERAND, "T8"),
        ("count(*)", CallContext.AGGREGATE, "T8"),
        ("min($p.a)", CallContext.STORED, "T8"),
        ("nearest($p.a, $q)", CallContext.STORED, "T18"),
        ("bm25($p.a, $q)", CallContext.PREDICATE, "T18"),
        ("rrf($p.a, $q)", CallContext.OPERAND, "T18"),
        ("snippet($p.a, $q)", CallContext.OPERAND, "T18"),
        ("search($p.a, $q)", CallContext.OUTPUT, "T18"),
        ("now(1)", CallContext.OUTPUT, "Q000"),
        ("count($a, $b)", CallContext.OUTPUT, "T8"),
        ("nearest($a)", CallContext.OUTPUT, "T15"),
        ("bm25($a)", CallContext.OUTPUT, "T21"),
        ("rrf($a)", CallContext.OUTPUT, "T21"),
        ("rrf($a, $b, w=3)", CallContext.OUTPUT, "T21"),
        ("rrf($a, k=3)", CallContext.OUTPUT, "T21"),
        ("search($a)", CallContext.PREDICATE, "T19"),
        ("match_text($a)", CallContext.PREDICATE, "T19"),
        ("fuzzy($a)", CallContext.PREDICATE, "T20"),
        ("lowr($a)", CallContext.OUTPUT, "Q000"),
        ("lower($a, $b)", CallContext.OUTPUT, "T27"),
    ],
)
def test_a_wrong_call_has_the_code_of_its_function(text: str, place: CallContext, code: str) -> None:
    findings = DiagnosticCollector()

    function = resolve_function(call(text), place, findings)

    assert function is None
    assert [found.code for found in findings.finalize()] == [code]


def test_an_unknown_function_gets_the_nearest_name() -> None:
    findings = DiagnosticCollector()

    resolve_function(call("serach($p.a, $q)"), CallContext.PREDICATE, findings)

    assert findings.finalize()[0].help == "did you mean `search`?"


def test_a_function_like_no_other_gets_the_list_of_the_place() -> None:
    findings = DiagnosticCollector()

    resolve_function(call("uppercase($p.a)"), CallContext.PREDICATE, findings)

    assert (
        findings.finalize()[0].help
        == "beside the scalar functions, those as a predicate are `search`, `match_text` and `fuzzy`"
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_help_of_a_function_shows_a_call_of_it(name: str) -> None:
    usage = FUNCTIONS[name].usage

    assert usage.startswith(f"`{name}(")


def test_every_family_has_functions() -> None:
    assert all(list_functions([family]) for family in FunctionFamily)
