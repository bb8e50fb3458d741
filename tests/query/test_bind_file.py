from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.query.bind import bind_file
from omnigraph.query.expr import Parameter
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.query.mutation_plan import MutationQuery
from omnigraph.schema.types import ListOf, Scalar, VectorOf
from query.reading import CATALOG, bound, problems


def test_a_file_holds_reads_and_mutations() -> None:
    source = Source('query a() { match { $p: Person } return { $p } } query b() { delete City where name = "x" }')

    result = bind_file(parse_queries(source).require(source), CATALOG)

    assert [type(query) for query in result.value] == [ReadQuery, MutationQuery]


def test_a_wrong_query_does_not_hide_the_others() -> None:
    text = """
        query a() { match { $p: Persn } return { $p } }
        query b() { match { $p: Person } return { $p } }
        query b() { match { $p: Person } return { $p.agee } }
    """
    source = Source(text)

    result = bind_file(parse_queries(source).require(source), CATALOG)

    assert [query.name for query in result.value] == ["b"]
    assert [(found.code, source.slice(found.span)) for found in result.diagnostics] == [
        ("T1", "Persn"),
        ("Q002", "b"),
        ("T2", "agee"),
    ]


def test_parameters_and_notes_are_part_of_the_plan() -> None:
    query = bound(
        'query q($a: String?, $b: [I32], $c: Vector(3)) @description("what") @instruction("how")'
        " { match { $p: Person } return { $p } }"
    )

    assert query.params == (
        Parameter(name="a", type=Scalar.STRING, nullable=True, origin=query.origin),
        Parameter(name="b", type=ListOf(Scalar.I32), origin=query.origin),
        Parameter(name="c", type=VectorOf(3), origin=query.origin),
    )
    assert (query.description, query.instruction) == ("what", "how")


def test_nothing_is_said_about_a_parameter_of_an_impossible_type() -> None:
    text = "query q($v: Vector(0), $n: I32) { match { $p: Person $p.age > $v } return { $p } limit $v offset $n }"

    assert [code for code, _ in problems(text)] == ["Q000"]


def test_a_parameter_is_declared_once_and_has_a_name() -> None:
    text = "query q($a: String, $a: I32, $_: I32) { match { $p: Person { name: $a } } return { $p } }"

    assert problems(text) == [("Q003", "$a"), ("Q003", "$_")]


def test_a_read_that_a_parse_error_left_without_output_has_no_plan() -> None:
    parsed = parse_queries(Source("query q() { match { $p: Person } return { $p.name as , } }"))

    result = bind_file(parsed.tree, CATALOG)

    assert not parsed.ok
    assert result.value == ()
