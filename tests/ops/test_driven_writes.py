"""Statements that a match drives: what they write, what they see, and what they return."""

import threading
from pathlib import Path

import pytest

import omnigraph as og
from load_calls import files_below
from mutating import column, new_graph, rows, run
from worlds import runtime

SCHEMA = """
node Person { name: String  age: I32?  n: I64 @default(0)  bio: String?  @key(name) }
node City { name: String @key  size: I64? }
node Note { text: String  stars: I64? }
edge Knows: Person -> Person { since: I32? }
edge Follows: Person -> Person { weight: I64?  @key(src, dst) }
edge LivesIn: Person -> City @card(0..1)
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = new_graph(tmp_path, SCHEMA)
    run(
        graph,
        """
        insert Person { name: "ada", age: 36 } insert Person { name: "bob", age: 20 }
        insert Person { name: "cy", age: 50 } insert City { name: "Rome" } insert City { name: "Oslo" }
        insert Knows { from: "ada", to: "bob", since: 1 } insert Knows { from: "ada", to: "cy", since: 2 }
        insert LivesIn { from: "ada", to: "Rome" }
        """,
    )
    return graph


def names(graph: og.Graph, edge: str) -> list[tuple[str, str]]:
    return sorted((row["src"], row["dst"]) for row in rows(graph, edge, "src", "dst"))


# --- inserts -------------------------------------------------------------------------------------


def test_an_insert_runs_for_every_row_of_its_match(graph: og.Graph) -> None:
    result = run(
        graph,
        "match { $a: Person $b: Person $a.age < $b.age } insert Follows { from: $a, to: $b, weight: $b.age - $a.age }",
    )

    assert (result.affected_nodes, result.affected_edges) == (0, 3)
    assert [row["weight"] for row in rows(graph, "Follows", "src", "weight")] == [14, 16, 30]
    assert names(graph, "Follows") == [("ada", "cy"), ("bob", "ada"), ("bob", "cy")]


def test_an_insert_without_a_key_is_one_for_each_row(graph: og.Graph) -> None:
    run(graph, 'match { $a: Person $a knows $b } insert Note { text: "met " + $b.name }')
    run(graph, 'match { $a: Person $a knows $b } insert Note { text: "again" }')

    assert sorted(column(graph, "Note", "text")) == ["again", "again", "met bob", "met cy"]


def test_the_same_write_twice_is_one(graph: og.Graph) -> None:
    result = run(graph, "match { $a: Person $a knows $b } insert City { name: $a.name, size: 3 }")

    assert result.affected_nodes == 1
    assert {"name": "ada", "size": 3} in rows(graph, "City", "name", "size")


def test_two_values_for_one_property_of_one_row_are_refused(graph: og.Graph) -> None:
    with pytest.raises(og.QueryError, match=r"City.size of 'ada' would get two values, 20 and 50"):
        run(graph, "match { $a: Person $a knows $b } insert City { name: $a.name, size: $b.age }")
    with pytest.raises(og.QueryError, match=r"Person.n of 'ada' would get two values, 1 and 2: aggregate"):
        run(graph, "match { $a: Person $a $e:knows $b } update $a set { n: $e.since }")

    assert column(graph, "Person", "n") == [0, 0, 0]


def test_an_insert_of_an_existing_key_keeps_what_it_omits(graph: og.Graph) -> None:
    run(graph, 'match { $p: Person } insert Person { name: $p.name, bio: "a " + $p.name }')

    assert column(graph, "Person", "age") == [36, 20, 50]
    assert column(graph, "Person", "bio") == ["a ada", "a bob", "a cy"]


def test_a_named_node_is_an_end_of_later_edges(graph: og.Graph) -> None:
    run(graph, 'insert Person { name: "eve" } as $e insert Knows { from: $e, to: "ada" }')
    run(
        graph,
        'insert City { name: "Bern" } as $c match { $p: Person { name: "bob" } } insert LivesIn { from: $p, to: $c }',
    )
    run(
        graph,
        'match { $p: Person { age: 50 } } insert Person { name: $p.name + "2" } as $new'
        " insert Follows { from: $new, to: $p }",
    )

    assert ("eve", "ada") in names(graph, "Knows")
    assert ("bob", "Bern") in names(graph, "LivesIn")
    assert names(graph, "Follows") == [("cy2", "cy")]


def test_if_absent_leaves_an_existing_row_alone_and_counts_it(graph: og.Graph) -> None:
    plain = run(
        graph, 'insert City { name: "Rome", size: 7 } if absent insert City { name: "Bern", size: 7 } if absent'
    )
    driven = run(graph, "match { $p: Person } insert City { name: $p.name, size: 1 } if absent")
    again = run(graph, "match { $p: Person } insert City { name: $p.name, size: 2 } if absent")

    assert (plain.affected_nodes, plain.existing_nodes, plain.existing_edges) == (1, 1, 0)
    assert (driven.affected_nodes, driven.existing_nodes) == (3, 0)
    assert (again.affected_nodes, again.existing_nodes, again.commit_id) == (0, 3, None)
    assert again.to_json()["existing_nodes"] == 3
    assert column(graph, "City", "size") == [7, None, None, 1, 1, 1]


def test_if_absent_twice_in_one_query_inserts_once(graph: og.Graph) -> None:
    result = run(graph, 'insert City { name: "x", size: 1 } if absent insert City { name: "x", size: 2 } if absent')

    assert (result.affected_nodes, result.existing_nodes) == (1, 1)
    assert {"name": "x", "size": 1} in rows(graph, "City", "name", "size")


# --- updates and deletes -------------------------------------------------------------------------


def test_an_update_reads_the_row_as_the_match_found_it(graph: og.Graph) -> None:
    result = run(graph, "match { $a: Person $a knows $p } update $p set { n: n + age, bio: $a.name }")

    assert result.affected_nodes == 2
    assert column(graph, "Person", "n") == [0, 20, 50]
    assert column(graph, "Person", "bio") == [None, "ada", "ada"]


def test_statements_behind_one_match_all_read_its_answer(graph: og.Graph) -> None:
    run(graph, "match { $p: Person } update $p set { n: n + 1 } insert City { name: $p.name, size: $p.n }")

    assert column(graph, "Person", "n") == [1, 1, 1]
    assert column(graph, "City", "size") == [None, None, 0, 0, 0]


def test_a_delete_removes_edges_or_nodes_with_their_edges(graph: og.Graph) -> None:
    assert run(graph, "match { $a: Person $a $e:knows $b $e.since = 1 } delete $e").affected_edges == 1
    assert names(graph, "Knows") == [("ada", "cy")]

    result = run(graph, 'match { $p: Person $p livesIn $c $c.name = "Rome" } delete $p')

    assert (result.affected_nodes, result.affected_edges) == (1, 2)
    assert column(graph, "Person", "id") == ["bob", "cy"]
    assert names(graph, "Knows") == []


def test_deletes_come_first_behind_one_match(graph: og.Graph) -> None:
    result = run(
        graph, "match { $a: Person $a $e:knows $b } insert Knows { from: $b, to: $a, since: $e.since + 10 } delete $e"
    )

    assert result.affected_edges == 4
    assert names(graph, "Knows") == [("bob", "ada"), ("cy", "ada")]
    assert sorted(column(graph, "Knows", "since")) == [11, 12]


def test_writing_what_was_deleted_is_refused(graph: og.Graph) -> None:
    with pytest.raises(og.QueryError, match=r"Person 'ada': a statement writes what another one"):
        run(graph, 'match { $p: Person { name: "ada" } } update $p set { n: 1 } delete $p')
    with pytest.raises(og.QueryError, match="a statement writes what another one"):
        run(graph, "match { $a: Person $a $e:knows $b } delete $a update $e set { since: 3 }")
    with pytest.raises(og.ConstraintError, match="no Person 'ada'"):
        run(graph, "match { $a: Person $a $e:knows $b } delete $a insert Knows { from: $b, to: $a }")

    assert len(rows(graph, "Person")) == 3


def test_a_match_without_rows_changes_nothing(graph: og.Graph) -> None:
    head = graph.commits()[0].id

    result = run(graph, "match { $p: Person $p.age > 99 } update $p set { n: 1 } delete $p returning { $p.name }")

    assert (result.commit_id, result.rows, result.columns) == (None, (), ("p.name",))
    assert graph.commits()[0].id == head


# --- what a match sees ---------------------------------------------------------------------------


def test_a_match_sees_what_earlier_statements_wrote(graph: og.Graph) -> None:
    result = run(
        graph,
        """
        insert Person { name: "eve", age: 1 } as $e
        insert Knows { from: $e, to: "ada", since: 9 }
        update Person set { age: 99 } where name = "bob"
        match { $a: Person $a knows $b $b knows $c } insert Follows { from: $a, to: $c, weight: $c.age }
        match { $x: Person $x follows $y } update $y set { bio: $x.name }
        returning { $y.name, $y.bio, $y.age, $e.name as first }
        """,
    )

    assert names(graph, "Follows") == [("eve", "bob"), ("eve", "cy")]
    assert sorted(column(graph, "Follows", "weight")) == [50, 99]
    assert result.rows is not None
    assert sorted(result.rows, key=str) == [
        {"y.name": "bob", "y.bio": "eve", "y.age": 99, "first": "eve"},
        {"y.name": "cy", "y.bio": "eve", "y.age": 50, "first": "eve"},
    ]


def test_a_match_does_not_see_what_earlier_deletes_removed(graph: og.Graph) -> None:
    run(
        graph,
        """
        delete Knows where since = 1
        match { $a: Person $a knows $b } delete $b
        """,
    )

    assert column(graph, "Person", "id") == ["ada", "bob"]


def test_the_pending_rows_of_a_match_leave_no_files(graph: og.Graph) -> None:
    text = 'insert Person { name: "zed" } match { $p: Person $p.age > 1000 } update $p set { n: 1 } returning { $p }'
    run(graph, text)
    before = files_below(graph)

    assert run(graph, text).rows == ()

    # The second run replaces the row by itself: one commit, and nothing of what its match has read.
    added = files_below(graph) - before
    assert len([name for name in added if name.startswith("nodes/") and "/data/" in name]) == 1
    assert len([name for name in added if name.startswith("nodes/") and "/_versions/" in name]) == 1


# --- returning -----------------------------------------------------------------------------------


def test_returning_has_the_ids_of_inserts_without_a_key(graph: og.Graph) -> None:
    result = run(graph, 'insert Note { text: "hi" } as $n returning { $n.@id as id, $n.text, $n.stars, $n }')

    (row,) = result.rows or ()
    assert [row["id"]] == column(graph, "Note", "id")
    assert row == {
        "id": row["id"],
        "n.text": "hi",
        "n.stars": None,
        "n": {"id": row["id"], "@type": "Note", "text": "hi", "stars": None},
    }
    assert result.to_json()["columns"] == ["id", "n.text", "n.stars", "n"]


def test_returning_has_one_row_for_each_row_of_the_match_after_the_write(graph: og.Graph) -> None:
    result = run(
        graph,
        "match { $a: Person $a $e:knows $b } update $b set { n: n + 5 } insert Note { text: $b.name } as $note"
        " returning { $b.name, $b.n + 1 as more, $e.since, $note.text, $note.@id as id }",
    )

    got = sorted(result.rows or (), key=str)
    ids = {row["text"]: row["id"] for row in rows(graph, "Note", "id", "text")}
    assert got == [
        {"b.name": name, "more": 6, "e.since": since, "note.text": name, "id": ids[name]}
        for name, since in (("bob", 1), ("cy", 2))
    ]


def test_returning_shows_a_deleted_row_as_it_was(graph: og.Graph) -> None:
    result = run(
        graph, 'match { $p: Person { name: "ada" } $p $e:knows $b } delete $p returning { $p.age, $e.since, $b.name }'
    )

    assert sorted(result.rows or (), key=str) == [
        {"p.age": 36, "e.since": 1, "b.name": "bob"},
        {"p.age": 36, "e.since": 2, "b.name": "cy"},
    ]


def test_returning_names_the_existing_row_of_if_absent(graph: og.Graph) -> None:
    result = run(graph, 'insert Person { name: "ada", age: 1 } if absent as $p returning { $p.age, $p.@id }')

    assert result.rows == ({"p.age": 36, "p.@id": "ada"},)
    assert result.commit_id is None


def test_a_repeated_request_returns_no_rows(graph: og.Graph) -> None:
    text = 'query q() { insert Note { text: "x" } as $n returning { $n.@id } }'
    first = graph.mutate(text, idempotency_key="k")
    again = graph.mutate(text, idempotency_key="k")

    assert first.rows is not None
    assert again.commit_id == first.commit_id
    assert again.rows is None
    with pytest.raises(og.KeyReusedError):
        graph.mutate(text.replace("returning { $n.@id }", ""), idempotency_key="k")


# --- limits --------------------------------------------------------------------------------------


def test_a_match_obeys_the_memory_budget(graph: og.Graph) -> None:
    many = " ".join(f'insert Note {{ text: "{"x" * 1000}{number}" }}' for number in range(300))
    run(graph, many)
    text = "query q() { match { $a: Note $b: Note } insert Note { text: $a.text + $b.text } }"

    with pytest.raises(og.QueryMemoryError):
        graph.mutate(text, memory_bytes=32 * 1024 * 1024)

    assert len(rows(graph, "Note", "id")) == 300


# --- concurrency ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "match",
    ['match { $p: Person { name: "ada" } }', 'match { $p: Person $p livesIn $c $c.name = "Rome" }'],
    ids=["by its key", "by a hop"],
)
def test_concurrent_increments_are_all_there(graph: og.Graph, match: str) -> None:
    text = f"query q() {{ {match} update $p set {{ n: n + 1 }} returning {{ $p.n }} }}"  # noqa: S608 - no SQL
    got: list[int] = []
    errors: list[BaseException] = []

    def increment(handle: og.Graph) -> None:
        try:
            for _ in range(3):
                result = handle.mutate(text)
                got.extend(row["p.n"] for row in result.rows or ())
        except BaseException as error:  # noqa: BLE001 - shown below
            errors.append(error)

    # Four threads share a handle, so that they commit in groups; the others race them from handles of their own.
    handles = [graph] * 4 + [og.open_graph(graph.uri, runtime=runtime()) for _ in range(4)]
    threads = [threading.Thread(target=increment, args=(handle,)) for handle in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert column(graph, "Person", "n")[0] == 24
    # Every writer was told the value that its own commit has.
    assert sorted(got) == list(range(1, 25))


def test_two_writers_that_read_what_the_other_one_writes_run_one_after_the_other(graph: og.Graph) -> None:
    # Each adds an edge only if there is none: with stale reads both would.
    text = """query q($me: String, $you: String) {
        match { $a: Person { name: $me } $b: Person { name: $you } not { $x: Person $x follows $b } }
        insert Follows { from: $a, to: $b }
    }"""
    threads = [
        threading.Thread(target=graph.mutate, args=(text,), kwargs={"params": {"me": me, "you": "cy"}})
        for me in ("ada", "bob") * 3
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(names(graph, "Follows")) == 1


# --- batches -------------------------------------------------------------------------------------


UPSERT = """query upsert($rows: [{name: String, age: I32?}]) {
    match { each $r in $rows } insert Person { name: $r.name, age: $r.age }
}"""


def test_a_batch_upserts_a_row_for_each_record(graph: og.Graph) -> None:
    result = graph.mutate(UPSERT, params={"rows": [{"name": "ada", "age": 1}, {"name": "dan"}, {"name": "dan"}]})

    assert result.affected_nodes == 2
    assert column(graph, "Person", "age") == [1, 20, 50, None]


def test_a_batch_is_all_or_nothing(graph: og.Graph) -> None:
    edges = """query link($rows: [{a: String, b: String}]) {
        match { each $r in $rows } insert Knows { from: $r.a, to: $r.b }
    }"""
    with pytest.raises(og.ConstraintError, match="no Person 'nobody'"):
        graph.mutate(edges, params={"rows": [{"a": "ada", "b": "bob"}, {"a": "ada", "b": "nobody"}]})

    assert len(rows(graph, "Knows")) == 2
    assert graph.mutate(edges, params={"rows": [{"a": "bob", "b": "cy"}] * 2}).affected_edges == 2


def test_a_batch_joins_its_records_with_the_graph(graph: og.Graph) -> None:
    text = """query grow($rows: [{city: String, by: I64}]) {
        match { each $r in $rows $c: City $c.name = $r.city }
        update $c set { size: coalesce(size, 0) + $r.by }
        returning { $c.name, $c.size, $r.by }
    }"""

    result = graph.mutate(text, params={"rows": [{"city": "Rome", "by": 5}, {"city": "Paris", "by": 6}]})

    assert result.rows == ({"c.name": "Rome", "c.size": 5, "r.by": 5},)


def test_a_batch_without_a_key_returns_an_id_for_each_record(graph: og.Graph) -> None:
    text = """query note($rows: [{text: String}]) {
        match { each $r in $rows } insert Note { text: $r.text } as $n returning { $r.text, $n.@id as id }
    }"""

    result = graph.mutate(text, params={"rows": [{"text": "a"}, {"text": "a"}, {"text": "b"}]})

    stored = {row["id"]: row["text"] for row in rows(graph, "Note", "id", "text")}
    assert {row["id"]: row["r.text"] for row in result.rows or ()} == stored
    assert len(stored) == 3


def test_a_bad_record_is_named_before_anything_is_read(graph: og.Graph) -> None:
    with pytest.raises(og.ParameterError, match="age"):
        graph.mutate(UPSERT, params={"rows": [{"name": "dan", "age": 1}, {"name": "eve", "age": "old"}]})

    assert len(rows(graph, "Person")) == 3


def test_a_large_batch_stays_within_its_budget(graph: og.Graph) -> None:
    many = [{"name": f"p{number:06}", "age": number % 90} for number in range(100_000)]

    with pytest.raises(og.QueryMemoryError):
        graph.mutate(UPSERT, params={"rows": many}, memory_bytes=16 * 1024 * 1024)
    result = graph.mutate(UPSERT, params={"rows": many}, memory_bytes=128 * 1024 * 1024)

    assert result.affected_nodes == 100_000
    assert graph.table("Person").count_rows() == 100_003


# --- other patterns ------------------------------------------------------------------------------


def test_a_row_without_an_optional_match_names_nothing(graph: og.Graph) -> None:
    result = run(
        graph, "match { $p: Person optional { $p knows $q } } update $q set { n: 7 } returning { $p.name, $q.n }"
    )

    assert result.affected_nodes == 2
    assert sorted(result.rows or (), key=str) == [
        {"p.name": "ada", "q.n": 7},
        {"p.name": "ada", "q.n": 7},
        {"p.name": "bob", "q.n": None},
        {"p.name": "cy", "q.n": None},
    ]
    with pytest.raises(og.QueryError, match="is null in a row, but `to` is required"):
        run(graph, "match { $p: Person optional { $p knows $q } } insert Follows { from: $p, to: $q }")


def test_blocks_and_several_edge_types_drive_writes(graph: og.Graph) -> None:
    run(graph, 'insert Follows { from: "bob", to: "cy" }')

    run(graph, "match { $p: Person } update $p set { n: count { $p (knows|follows) $q } }")
    run(
        graph, "match { path $w = $a knows{1,3} $b $a: Person } insert Follows { from: $a, to: $b, weight: length($w) }"
    )

    assert column(graph, "Person", "n") == [2, 1, 0]
    assert names(graph, "Follows") == [("ada", "bob"), ("ada", "cy"), ("bob", "cy")]
