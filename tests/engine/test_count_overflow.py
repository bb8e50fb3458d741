"""A count that is beyond 64 bits is an error where it is part of the answer, and nobody's matter elsewhere."""

import pytest

import omnigraph as og
from omnigraph.errors import LimitError
from raised_codes import has_code
from worlds import runtime

SCHEMA = """
node Person { name: String @key  age: I32? }
node Tag { name: String @key }
edge Knows: Person -> Person { @key(src, dst) }
edge Likes: Person -> Tag { @key(src, dst) }
"""
CLIQUE, HOPS = 40, 12
"""40 ** 12 paths start at each member of the clique: more than 64 bits count."""
PATH = "$p: Person  $p knows $h1  " + "  ".join(f"$h{n} knows $h{n + 1}" for n in range(1, HOPS))


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """A clique that nobody likes anything in, and one person outside of it who knows herself."""
    made = og.create_graph(str(tmp_path_factory.mktemp("graphs") / "g"), SCHEMA, runtime=runtime())
    names = [f"c{number}" for number in range(CLIQUE)]
    made.load(
        [
            *({"type": "Person", "data": {"name": name, "age": 1}} for name in names),
            {"type": "Person", "data": {"name": "lone", "age": 2}},
            {"type": "Tag", "data": {"name": "tea"}},
            *({"edge": "Knows", "from": a, "to": b, "data": {}} for a in names for b in names),
            {"edge": "Knows", "from": "lone", "to": "lone", "data": {}},
            {"edge": "Likes", "from": "lone", "to": "tea", "data": {}},
        ],
        mode="append",
    )
    return made


@pytest.mark.parametrize(
    "restriction",
    [
        "$p likes $t  $t: Tag",
        f"$h{HOPS} likes $t  $t: Tag",
        "$h3 likes $t  $t: Tag",
        "$p.age > 1",
        f"$h{HOPS}.age > 1",
        "not { $p knows $o  $o: Person  $o.age < 2 }",
    ],
)
def test_paths_that_are_no_part_of_the_answer_may_be_beyond_counting(graph: og.Graph, restriction: str) -> None:
    found = list(graph.query(f"query q() {{ match {{ {PATH}  {restriction} }} return {{ count($p) as n }} }}").rows())

    assert found == [{"n": 1}]


@pytest.mark.parametrize(
    "output", ["count($p) as n", "$p.name, count($p) as n", "sum($p.age) as n", f"$h{HOPS}.name, count($p) as n"]
)
def test_paths_of_the_answer_that_are_beyond_counting_are_an_error(graph: og.Graph, output: str) -> None:
    with pytest.raises(LimitError, check=has_code("count_overflow")):
        graph.query(f"query q() {{ match {{ {PATH} }} return {{ {output} }} }}")


def test_a_part_of_the_pattern_without_a_match_makes_the_others_nobodys_matter(graph: og.Graph) -> None:
    nobody = '$x: Person { name: "nobody" }'

    found = list(graph.query(f"query q() {{ match {{ {PATH}  {nobody} }} return {{ count($p) as n }} }}").rows())

    assert found == [{"n": 0}]
