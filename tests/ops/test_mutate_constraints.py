"""Every rule of a schema: what is accepted, and what is said of what is not."""

from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from mutating import column, new_graph, people, run
from omnigraph.engine.constraints import unique
from omnigraph.storage.columnar_sets import Positions
from omnigraph.storage.lance_table import LanceTable


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = new_graph(tmp_path)
    run(graph, 'insert Person { name: "ada", email: "a@x", score: 0.0 } insert City { name: "Rome", zip: 1 }')
    return graph


def refused(graph: og.Graph, body: str, **params: object) -> list[str]:
    """The messages of a mutation that must be refused; nothing has changed then."""
    before = graph.snapshot()
    with pytest.raises(og.ConstraintError) as error:
        run(graph, body, **params)
    assert graph.snapshot() == before
    return [violation.message for violation in error.value.violations]


# --- single values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values, message",
    [
        ("age: 201", "@range violation on Person.age: 201 > max 200"),
        ("age: -1", "@range violation on Person.age: -1 < min 0"),
        ('born: date("1899-12-31")', "@range violation on Person.born: '1899-12-31' < min '1900-01-01'"),
        ('email: "nobody"', "@check violation on Person.email: 'nobody' does not match \"@\""),
    ],
)
def test_a_value_out_of_its_rule_is_refused(graph: og.Graph, values: str, message: str) -> None:
    assert refused(graph, f'insert Person {{ name: "b", {values} }}') == [message]
    assert refused(graph, f'update Person set {{ {values} }} where name = "ada"') == [message]  # noqa: S608 - no SQL


@pytest.mark.parametrize("values", ["age: 0", "age: 200", 'born: date("1900-01-01")', 'email: "b@"', "age: null"])
def test_a_value_at_the_edge_of_its_rule_is_taken(graph: og.Graph, values: str) -> None:
    assert run(graph, f'insert Person {{ name: "b", {values} }}').affected_nodes == 1


def test_a_text_that_is_no_value_of_the_enum_is_refused(graph: og.Graph) -> None:
    text = 'query q($m: String) { insert Person { name: "b", mood: $m } }'

    assert refused(graph, text, m="cross") == ["invalid enum value 'cross' for Person.mood (expected: glad, sad)"]
    assert graph.mutate(text, params={"m": "sad"}).affected_nodes == 1


# --- unique ----------------------------------------------------------------------------------------------


def test_a_value_that_a_committed_row_holds_is_refused(graph: og.Graph) -> None:
    assert refused(graph, 'insert Person { name: "b", email: "a@x" }') == [
        "@unique violation on Person.email: 'a@x' is held by 'ada' and 'b'"
    ]


def test_a_value_that_an_earlier_statement_gave_is_refused(graph: og.Graph) -> None:
    assert refused(graph, 'insert Person { name: "b", email: "n@x" } insert Person { name: "c", email: "n@x" }') == [
        "@unique violation on Person.email: 'n@x' is held by 'b' and 'c'"
    ]


def test_an_update_of_many_rows_to_one_value_is_refused(graph: og.Graph) -> None:
    people(graph, "b")

    assert refused(graph, 'update Person set { email: "z@" } where mood = "glad"') == [
        "@unique violation on Person.email: 'z@' is held by 'ada' and 'b'"
    ]


def test_minus_zero_is_zero(graph: og.Graph) -> None:
    assert refused(graph, 'insert Person { name: "b", score: -0.0 }') == [
        "@unique violation on Person.score: 0.0 is held by 'ada' and 'b'"
    ]


def test_zero_is_minus_zero_that_is_stored(graph: og.Graph) -> None:
    run(graph, 'update Person set { score: -0.0 } where name = "ada"')

    assert refused(graph, 'insert Person { name: "b", score: 0.0 }') == [
        "@unique violation on Person.score: 0.0 is held by 'ada' and 'b'"
    ]


def test_a_group_is_taken_as_a_whole(graph: og.Graph) -> None:
    rome = column(graph, "City", "id")[0]

    (message,) = refused(graph, 'insert City { name: "Rome", zip: 1 }')
    other = run(graph, 'insert City { name: "Rome", zip: 2 } insert City { name: "Oslo", zip: 1 }')

    assert message.startswith(f"@unique violation on City(name, zip): ('Rome', 1) is held by '{rome}' and '")
    assert other.affected_nodes == 2


def test_a_null_in_a_member_is_exempt(graph: og.Graph) -> None:
    result = run(graph, 'insert City { name: "Bern" } insert City { name: "Bern" } insert Person { name: "b" }')

    assert result.affected_nodes == 3


def test_a_row_may_keep_its_value_and_hand_it_on(graph: og.Graph) -> None:
    run(graph, 'insert Person { name: "ada", email: "a@x" }')

    run(graph, 'update Person set { email: null } where name = "ada" insert Person { name: "b", email: "a@x" }')

    assert column(graph, "Person", "email") == [None, "a@x"]


@pytest.mark.parametrize("values, asked", [("age: 3", []), ('email: "b@x"', [("email",)])])
def test_only_the_unique_groups_that_an_update_changes_are_looked_at(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, values: str, asked: list[tuple[str, ...]]
) -> None:
    seen: list[tuple[str, ...]] = []
    look_up = unique.find_taken_values

    def noting(
        table: LanceTable, columns: tuple[str, ...], values: pa.Table, own_ids: pa.Array
    ) -> tuple[Positions, pa.Array]:
        seen.append(columns)
        return look_up(table, columns, values, own_ids)

    monkeypatch.setattr(unique, "find_taken_values", noting)

    run(graph, f'update Person set {{ {values} }} where name = "ada"')  # noqa: S608 - no SQL

    assert seen == asked


@pytest.mark.parametrize("type_", ["U32", "U64", "F32", "Bool", "Date", "DateTime", "I64"])
def test_values_of_every_type_can_be_unique(tmp_path: Path, type_: str) -> None:
    graph = new_graph(tmp_path, f"node T {{ k: I64 @key  v: {type_}? @unique }}")
    value = {"Bool": True, "Date": "2020-01-02", "DateTime": "2020-01-02T03:04:05.000006Z"}.get(type_, 1)
    text = f"query q($k: I64, $v: {type_}) {{ insert T {{ k: $k, v: $v }} }}"
    graph.mutate(text, params={"k": 1, "v": value})

    with pytest.raises(og.ConstraintError, match="is held by '1' and '2'"):
        graph.mutate(text, params={"k": 2, "v": value})


# --- ends ------------------------------------------------------------------------------------------------


def test_an_edge_needs_both_its_nodes(graph: og.Graph) -> None:
    messages = refused(graph, 'insert Knows { from: "zed", to: "ada" } insert Knows { from: "ada", to: "yed" }')

    assert messages == ["Knows.from: no Person 'zed'", "Knows.to: no Person 'yed'"]


def test_an_end_may_come_later_in_the_same_query(graph: og.Graph) -> None:
    assert run(graph, 'insert Knows { from: "ada", to: "new" } insert Person { name: "new" }').affected_edges == 1


# --- cardinality -----------------------------------------------------------------------------------------

WORKS = 'query q($c: String) { insert WorksAt { from: "ada", to: $c } }'


def test_one_edge_too_many_is_refused(graph: og.Graph) -> None:
    rome = column(graph, "City", "id")[0]
    graph.mutate(WORKS, params={"c": rome})

    assert refused(graph, WORKS, c=rome) == ["@card violation on WorksAt: 'ada' has 2 edges (max 1)"]


def test_a_new_node_needs_the_edges_that_its_type_asks_for(graph: og.Graph) -> None:
    assert refused(graph, 'insert Team { name: "t" }') == ["@card violation on Leads: 't' has 0 edges (min 1)"]
    assert run(graph, 'insert Team { name: "t" } insert Leads { from: "t", to: "ada" }').affected_edges == 1


def test_the_last_edge_that_is_asked_for_stays(graph: og.Graph) -> None:
    run(graph, 'insert Team { name: "t" } insert Leads { from: "t", to: "ada" }')

    missing = ["@card violation on Leads: 't' has 0 edges (min 1)"]
    assert refused(graph, 'delete Leads where from = "t"') == missing
    assert refused(graph, 'delete Person where name = "ada"') == missing
    assert run(graph, 'delete Team where name = "t"').affected_edges == 1


def test_an_edge_that_is_put_again_is_counted_once(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, "node P { n: String @key }\nedge E: P -> P @card(0..1) { w: I32?  @key(src, dst) }")
    run(graph, 'insert P { n: "a" } insert P { n: "b" } insert E { from: "a", to: "b" }')

    assert run(graph, 'insert E { from: "a", to: "b", w: 1 }').affected_edges == 1
    assert refused(graph, 'insert E { from: "a", to: "a" }') == ["@card violation on E: 'a' has 2 edges (max 1)"]


# --- all of them -----------------------------------------------------------------------------------------


def test_the_first_twenty_violations_are_told_and_the_rest_counted(graph: og.Graph) -> None:
    body = " ".join(f'insert Person {{ name: "p{number}", age: 999 }}' for number in range(25))

    with pytest.raises(og.ConstraintError) as error:
        run(graph, body)

    assert (len(error.value.violations), error.value.total) == (20, 25)
    assert str(error.value).endswith("\nand 5 more")
    assert error.value.facts()["total"] == 25
    assert (error.value.kind, error.value.code) == (og.Kind.INVALID, "constraint_violation")
