"""Stages become a chain of reads, a union the source of one; what they name is bound and nothing else."""

import pytest

from omnigraph.query.explain import explain
from omnigraph.query.expr import Entity, Identity, NodeRef, ValueRef
from omnigraph.query.logical_plan import ReadQuery, UnionSource, iter_stages
from omnigraph.query.rules import rewrite_read
from omnigraph.schema.types import Scalar
from query.reading import bound, problems

CHAIN = """query q() {
    match { $p: Person $p knows $f }
    with { $p, count($f) as n } having { n > 3 } order { n desc } limit 10
    match { $p knows $g }
    return { $p.name, $n, $g.name }
}"""
UNION = """query q() {
    match { $p: Person } return { $p.name as name, $p.age as number }
    union all
    match { $p: Person } return { $p.name as name, 0.5 as number }
    order { number desc }
}"""


def test_a_stage_is_the_source_of_the_next_read() -> None:
    query = bound(CHAIN)

    assert isinstance(query.source, ReadQuery)
    assert [(each.variable, each.type) for each in query.inputs] == [("p", NodeRef("Person")), ("n", Scalar.I64)]
    assert list(query.pattern.types) == ["g"]
    assert query.source.source is None


def test_a_whole_node_goes_on_without_its_properties() -> None:
    query = bound(CHAIN)

    assert isinstance(query.source, ReadQuery)
    node = query.source.output[0].value
    assert isinstance(node, Entity)
    assert node.fields == ()


def test_the_columns_of_a_stage_break_ties_first() -> None:
    ties = bound(CHAIN).ties

    assert [type(tie) for tie in ties] == [Identity, ValueRef, Identity]
    assert [tie.variable for tie in ties if isinstance(tie, Identity | ValueRef)] == ["p", "n", "g"]


def test_stages_are_listed_in_the_order_in_which_they_run() -> None:
    assert [len(stage.output) for stage in iter_stages(bound(CHAIN))] == [2, 3]


def test_rewriting_reaches_the_stages() -> None:
    query = bound(
        "query q() { match { $p: Person $p.age > 3 and $p.age > 3 } with { $p }"
        " match { $p knows $f } return { $f.name } }"
    )

    rewritten = rewrite_read(query)

    assert isinstance(rewritten.source, ReadQuery)
    assert len(rewritten.source.pattern.find_node("p").filters) == 1
    assert rewritten == rewrite_read(rewritten)


def test_a_union_has_the_types_that_its_reads_have_in_common() -> None:
    query = bound(UNION)

    assert isinstance(query.source, UnionSource)
    assert [(each.variable, each.type) for each in query.inputs] == [("name", Scalar.STRING), ("number", Scalar.F64)]
    assert query.source.keeps_equal == (True,)


def test_a_plan_is_explained_stage_by_stage() -> None:
    assert explain(bound(CHAIN)) == (
        "query q()\n"
        "  for each row of\n"
        "    match\n"
        "      $p: Person\n"
        "      $f: Person\n"
        "      $p -[Knows]-> $f  (each pair once)\n"
        "    group by $p\n"
        "    with\n"
        "      $p\n"
        "      count(*) as n\n"
        "    having count(*) > 3\n"
        "    order by count(*) desc\n"
        "    ties by $p.@id\n"
        "    limit 10\n"
        "  match\n"
        "    $g: Person  (reads name)\n"
        "    $p -[Knows]-> $g  (each pair once)\n"
        "  return\n"
        "    $p.name\n"
        "    $n\n"
        "    $g.name\n"
        "  order unspecified\n"
    )


def test_a_union_is_explained_read_by_read() -> None:
    lines = explain(bound(UNION)).splitlines()

    assert [line.strip() for line in lines if line.strip() in ("rows of", "union", "union all")] == [
        "rows of",
        "union all",
    ]


@pytest.mark.parametrize(
    "tail",
    [
        "collect($p.name where $p.age > 3 order { $p.age desc } limit 2) as x",
        "percentile($p.age, 0.9) as x",
        "sum($p.age) over { per { $p.age } order { $p.name desc } } as x",
        "row_number() over { } as x",
    ],
)
def test_an_aggregate_is_formatted_as_it_is_written(tail: str) -> None:
    text = explain(bound(f"query q() {{ match {{ $p: Person }} return {{ {tail} }} }}"))

    assert f"    {tail}\n" in text


def test_every_error_of_every_stage_is_reported() -> None:
    found = problems("query q() { match { $p: Person } with { $p.nme as n } match { $q: Preson } return { $m } }")

    assert [code for code, _ in found] == ["T2", "T1", "T6"]


def test_a_stage_of_errors_causes_no_others() -> None:
    found = problems(
        "query q() { match { $p: Preson } with { $p, $p.name as n } match { $p knows $f } return { $n, $f.name } }"
    )

    assert [code for code, _ in found] == ["T1"]
