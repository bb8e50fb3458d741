"""A write is refused before anything that it says could depend on the values, ids or edges of hidden rows."""

import pytest

import omnigraph as og
from hidden_rows import POLICIES, ask, load_policies, open_as
from worlds import runtime

SCHEMA = """
node Person { name: String @key  region: String?  secret: Bool?  level: I32?  mail: String? @unique }
node Team { name: String @key }
edge Knows: Person -> Person @card(0..2) { since: I64? }
edge In: Person -> Team @card(1..3)
"""
ROWS = """
query rows() {
  insert Team { name: "t" }
  insert Person { name: "p0", region: "eu", level: 1, mail: "p0@example.org" }
  insert Person { name: "h1", region: "us", level: 77, mail: "h1@example.org" }
  insert Knows { from: "h1", to: "p0" }
  insert Knows { from: "h1", to: "h1" }
  insert In { from: "p0", to: "t" }
  insert In { from: "h1", to: "t" }
}
"""


@pytest.fixture(scope="module")
def eve(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    home = tmp_path_factory.mktemp("writes")
    graph = og.create_graph(str(home / "g"), SCHEMA, runtime=runtime())
    graph.mutate(ROWS)
    policies = POLICIES.replace('["City", "Knows", "LivesIn"]', '["Team", "Knows", "In"]')
    return open_as(graph, load_policies(home / "policies", policies).of_graph("g"))


def refuse(graph: og.Graph, text: str, *, is_dry_run: bool = False) -> dict[str, object]:
    answer = ask(graph, lambda each: each.mutate(f"query q() {{ {text} }}", dry_run=is_dry_run))
    assert isinstance(answer, dict)
    return answer


@pytest.mark.parametrize("is_dry_run", [True, False])
@pytest.mark.parametrize("bound", [76, 77])
def test_no_statement_reads_the_values_that_an_insert_leaves_to_a_hidden_row(
    bound: int, is_dry_run: bool, eve: og.Graph
) -> None:
    insert = 'insert Person { name: "h1", region: "eu" }'
    update = 'update Person set { level: level * 2000000000 } where name = "h1" and level > '

    answer = refuse(eve, f"{insert} {update}{bound}", is_dry_run=is_dry_run)

    assert answer["code"] == "row_hidden"


@pytest.mark.parametrize("before", ["", "match { $t: Team } "])
def test_a_match_does_not_read_them_either(before: str, eve: og.Graph) -> None:
    match = 'match { $p: Person { name: "h1" } $p.level = 77 } update $p set { level: $p.level * 2000000000 }'

    answer = refuse(eve, f'{before}insert Person {{ name: "h1", region: "eu" }} {match}')

    assert answer["code"] == "row_hidden"


def test_a_taken_value_does_not_name_the_hidden_row_that_has_it(eve: og.Graph) -> None:
    taken = refuse(eve, 'update Person set { mail: "h1@example.org" } where name = "p0"')
    person = 'insert Person { name: "p9", region: "eu", mail: "p0@example.org" }'
    seen = refuse(eve, f'{person} insert In {{ from: "p9", to: "t" }}')

    assert taken["message"] == (
        "@unique violation on Person.mail: 'h1@example.org' is held by 'p0' and a row that you may not see"
    )
    assert "h1'" not in str(taken)
    assert seen["message"] == "@unique violation on Person.mail: 'p0@example.org' is held by 'p0' and 'p9'"


def test_edges_of_a_hidden_node_are_not_counted(eve: og.Graph) -> None:
    hidden, missing = (refuse(eve, f'insert Knows {{ from: "{name}", to: "p0" }}') for name in ("h1", "h2"))

    assert str(hidden).replace("h1", "h2") == str(missing)


@pytest.mark.parametrize("text", ['delete Team where name = "t"', "match { $t: Team } delete $t"])
def test_a_node_with_hidden_edges_is_kept_before_their_other_ends_are_counted(text: str, eve: og.Graph) -> None:
    answer = refuse(eve, text)

    assert (answer["code"], "h1" in str(answer)) == ("edge_hidden", False)


def test_an_insert_of_a_hidden_key_is_refused_before_its_edges_are_counted(eve: og.Graph) -> None:
    text = 'insert Person { name: "h1", region: "eu", mail: "p0@example.org" } insert Knows { from: "h1", to: "p0" }'

    assert refuse(eve, text)["code"] == "row_hidden"
