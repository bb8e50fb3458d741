"""Mutations: what statements do, what they see of each other, and what a call may ask for."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

import omnigraph as og
from mutating import column, new_graph, people, rows, run
from worlds import runtime


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path)


# --- statements --------------------------------------------------------------------------------------------


def test_an_insert_is_one_commit_by_its_actor(graph: og.Graph) -> None:
    text = 'query add() { insert Person { name: "ada" } }'

    result = graph.mutate(text, actor="eve", message="hello")

    commit = graph.commits()[0]
    assert result.to_json() == {
        "query_name": "add",
        "target": {"branch": "main"},
        "commit_id": commit.id,
        "affected_nodes": 1,
        "affected_edges": 0,
    }
    assert (commit.actor, commit.operation, commit.message) == ("eve", "mutate", "hello")


def test_what_an_insert_leaves_out_is_the_default_or_null(graph: og.Graph) -> None:
    run(graph, 'insert Person { name: "ada" }')

    assert rows(graph, "Person", "id", "age", "mood") == [{"id": "ada", "age": None, "mood": "glad"}]


def test_an_insert_of_a_key_that_exists_changes_what_it_gives(graph: og.Graph) -> None:
    run(graph, 'insert Person { name: "ada", age: 3, mood: "sad" }')

    result = run(graph, 'insert Person { name: "ada", score: 1.5 }')

    assert result.affected_nodes == 1
    assert rows(graph, "Person", "id", "age", "mood", "score") == [{"id": "ada", "age": 3, "mood": "sad", "score": 1.5}]


def test_a_node_without_a_key_gets_an_id_of_its_own(graph: og.Graph) -> None:
    run(graph, 'insert City { name: "Rome" } insert City { name: "Oslo" }')

    ids = column(graph, "City", "id")
    assert len(set(ids)) == 2
    assert all(len(row_id) == 26 for row_id in ids)


def test_an_edge_with_a_key_is_put_in_the_place_of_the_same_edge(graph: og.Graph) -> None:
    people(graph, "a", "b")
    run(graph, 'insert Knows { from: "a", to: "b", since: 1 }')

    run(graph, 'insert Knows { from: "a", to: "b", since: 2 } insert Knows { from: "b", to: "a" }')

    assert rows(graph, "Knows") == [
        {"id": '["a","b"]', "src": "a", "dst": "b", "since": 2},
        {"id": '["b","a"]', "src": "b", "dst": "a", "since": None},
    ]


def test_edges_without_a_key_may_be_parallel(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, "node P { name: String @key }\nedge Likes: P -> P")
    run(graph, 'insert P { name: "a" }')

    result = run(graph, 'insert Likes { from: "a", to: "a" } insert Likes { from: "a", to: "a" }')

    assert result.affected_edges == 2
    assert len(set(column(graph, "Likes", "id"))) == 2


def test_an_update_sets_where_its_predicate_is_true(graph: og.Graph) -> None:
    run(graph, 'insert Person { name: "a", age: 1 } insert Person { name: "b", age: 5 } insert Person { name: "c" }')

    result = run(graph, "update Person set { score: 2.5 } where not (age < 3)")

    assert result.affected_nodes == 1
    assert column(graph, "Person", "score") == [None, 2.5, None]


def test_an_update_may_set_null_and_change_edges(graph: og.Graph) -> None:
    people(graph, "a", "b")
    run(graph, 'insert Knows { from: "a", to: "b", since: 1 }')

    result = run(graph, 'update Knows set { since: null } where from = "a" and to = "b"')

    assert (result.affected_nodes, result.affected_edges) == (0, 1)
    assert column(graph, "Knows", "since") == [None]


def test_a_delete_of_a_node_takes_its_edges_of_every_type(graph: og.Graph) -> None:
    people(graph, "a", "b", "c")
    run(graph, 'insert City { name: "Rome" }')
    rome = column(graph, "City", "id")[0]
    run(
        graph,
        """query q($rome: String) {
             insert Knows { from: "a", to: "b" } insert Knows { from: "b", to: "a" } insert Knows { from: "b", to: "c" }
             insert WorksAt { from: "a", to: $rome } }""",
        rome=rome,
    )

    result = run(graph, 'delete Person where name = "a"')

    assert (result.affected_nodes, result.affected_edges) == (1, 3)
    assert column(graph, "Knows", "id") == ['["b","c"]']
    assert rows(graph, "WorksAt") == []


def test_an_edge_at_two_deleted_nodes_is_counted_once(graph: og.Graph) -> None:
    people(graph, "a", "b")
    run(graph, 'insert Knows { from: "a", to: "b" } insert Knows { from: "a", to: "a" }')

    result = run(graph, 'delete Person where name = "a" delete Person where name = "b" delete Knows where from = "a"')

    assert (result.affected_nodes, result.affected_edges) == (2, 2)


# --- what statements see -------------------------------------------------------------------------------------


def test_a_later_statement_sees_an_earlier_one(graph: og.Graph) -> None:
    result = run(
        graph,
        """insert Person { name: "a", age: 1 }
           insert Person { name: "b", age: 2 }
           update Person set { age: 9 } where age = 1
           update Person set { score: 1.0 } where age = 9
           insert Knows { from: "a", to: "b" }""",
    )

    assert (result.affected_nodes, result.affected_edges) == (2, 1)
    assert rows(graph, "Person", "id", "age", "score") == [
        {"id": "a", "age": 9, "score": 1.0},
        {"id": "b", "age": 2, "score": None},
    ]


def test_a_committed_row_that_was_changed_is_seen_as_changed_only(graph: og.Graph) -> None:
    run(graph, 'insert Person { name: "a", age: 1 }')

    run(graph, "update Person set { age: 2 } where age = 1 update Person set { age: 3 } where age = 1")

    assert column(graph, "Person", "age") == [2]


def test_now_is_one_instant_per_query(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, "node E { name: String @key  at: DateTime }")

    run(graph, 'insert E { name: "a", at: now() } insert E { name: "b", at: now() }')
    result = run(graph, "delete E where at > now()")

    first, second = column(graph, "E", "at")
    assert first == second
    assert result.affected_nodes == 0


@pytest.mark.parametrize(
    "body", ['update Person set { age: 1 } where name = "nobody"', 'delete Knows where from = "nobody"']
)
def test_without_an_effect_nothing_is_published(graph: og.Graph, body: str) -> None:
    before = graph.snapshot()

    result = run(graph, body)

    assert (result.commit_id, result.affected_nodes, result.affected_edges) == (None, 0, 0)
    assert graph.snapshot() == before


def test_a_rejected_statement_takes_the_others_along(graph: og.Graph) -> None:
    before = graph.snapshot()

    with pytest.raises(og.ConstraintError):
        run(graph, 'insert Person { name: "a" } insert Person { name: "b", age: 201 }')

    assert graph.snapshot() == before


# --- types -----------------------------------------------------------------------------------------------------

ALL_TYPES = """node T {
  k: U64 @key
  s: String?  b: Bool?  i32: I32?  i64: I64?  u32: U32?  u64: U64?  f32: F32?  f64: F64?
  d: Date?  t: DateTime?  e: enum(x, y)?  v: Vector(2)?  ls: [String]?  lf: [F32]?  ld: [Date]?
}"""


def test_a_value_of_every_type_is_stored_as_it_is(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, ALL_TYPES)
    values = {
        "k": 2**64 - 1,
        "s": "ä\u0000'\"",
        "b": False,
        "i32": -(2**31),
        "i64": -(2**63),
        "u32": 2**32 - 1,
        "u64": 2**64 - 1,
        "f32": 0.5,
        "f64": 1e308,
        "d": date(1, 1, 1),
        "t": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "e": "y",
        "v": [1.5, -2.0],
        "ls": ["a", ""],
        "lf": [],
        "ld": [date(2020, 2, 29)],
    }
    types = ["U64", "String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime", "String"]
    types += ["Vector(2)", "[String]", "[F32]", "[Date]"]
    declared = ", ".join(f"${name}: {type_}" for name, type_ in zip(values, types, strict=True))
    stored = ", ".join(f"{name}: ${name}" for name in values)

    graph.mutate(f"query q({declared}) {{ insert T {{ {stored} }} }}", params=values)
    graph.mutate("query q($k: U64) { update T set { s: null } where k = $k }", params={"k": 2**64 - 1})

    (row,) = rows(graph, "T")
    assert row == {"id": str(2**64 - 1), **values, "s": None}


# --- calls -----------------------------------------------------------------------------------------------------

TWO = 'query one() { insert Person { name: "a" } }\nquery two() { insert Person { name: "b" } }'


def test_a_query_is_chosen_by_name(graph: og.Graph) -> None:
    graph.mutate(TWO, name="two")

    assert column(graph, "Person", "id") == ["b"]


def test_several_queries_need_a_name(graph: og.Graph) -> None:
    with pytest.raises(og.BadArgumentError, match=r"`query.gq` has 2 queries; name one: one, two"):
        graph.mutate(TWO)


def test_an_unknown_name_is_not_found(graph: og.Graph) -> None:
    with pytest.raises(og.MissingError, match="did you mean `two`"):
        graph.mutate(TWO, name="tow")


def test_an_unknown_name_that_is_like_none_is_told_the_names(graph: og.Graph) -> None:
    many = "".join(f"query q{number}() {{ delete Person where age > 1 }}\n" for number in range(12))

    with pytest.raises(og.MissingError, match=r"holds no query `elsewhere`; it has `one`, `two`$"):
        graph.mutate(TWO, name="elsewhere")
    with pytest.raises(og.MissingError, match=r"`q9` and 2 more$"):
        graph.mutate(many, name="elsewhere")


def test_two_queries_of_one_name_are_a_mistake_of_the_text(graph: og.Graph) -> None:
    with pytest.raises(og.SourceError, match="Q002"):
        graph.mutate(TWO.replace("two", "one"), name="one")


def test_a_read_is_no_mutation(graph: og.Graph) -> None:
    with pytest.raises(og.QueryError, match="the query `q` only reads"):
        graph.mutate("query q() { match { $p: Person } return { $p.name } }")


def test_a_parameter_that_is_missing_is_told(graph: og.Graph) -> None:
    with pytest.raises(og.ParameterError, match=r"parameter `\$n: String` is missing"):
        graph.mutate("query q($n: String) { insert Person { name: $n } }")


def test_a_graph_that_is_read_only_is_not_mutated(graph: og.Graph) -> None:
    with pytest.raises(og.ReadOnlyError):
        people(og.open_graph(graph.uri, read_only=True, runtime=runtime()), "a")


def test_if_commit_holds_while_the_head_stands(graph: og.Graph) -> None:
    head = graph.snapshot().commit.id

    graph.mutate('query q() { insert Person { name: "a" } }', if_commit=head)
    with pytest.raises(og.ConflictError, match="the branch has moved on"):
        graph.mutate('query q() { insert Person { name: "b" } }', if_commit=head)
    with pytest.raises(og.ConflictError):
        graph.mutate('query q() { delete Person where name = "nobody" }', if_commit=head)

    assert column(graph, "Person", "id") == ["a"]


@pytest.mark.parametrize("statement", ['insert City { name: "x" }', 'delete Person where name = "a"'])
def test_a_key_that_was_used_gives_the_first_answer(graph: og.Graph, statement: str) -> None:
    people(graph, "a")
    text = f"query q() {{ {statement} }}"
    head = graph.snapshot().commit.id

    first = graph.mutate(text, idempotency_key="k", if_commit=head)
    again = og.open_graph(graph.uri, runtime=runtime()).mutate(text, idempotency_key="k", if_commit=head)

    assert first.affected_nodes == 1
    assert again == first
    assert graph.snapshot().commit.id == first.commit_id


def test_an_update_finds_a_fraction_by_a_parameter_of_another_precision(tmp_path: Path) -> None:
    graph = og.create_graph(tmp_path / "floats", "node N { k: I32 @key\n x: F32\n y: F64 }", runtime=runtime())
    graph.mutate("query add() { insert N { k: 1, x: 0.1, y: 0.1 } }")

    by_single = graph.mutate("query q($v: F64) { update N set { y: 0.1 } where x = $v }", params={"v": 0.1})
    by_double = graph.mutate("query q($v: F32) { update N set { y: 0.2 } where y = $v }", params={"v": 0.1})

    assert (by_single.affected_nodes, by_double.affected_nodes) == (1, 1)
