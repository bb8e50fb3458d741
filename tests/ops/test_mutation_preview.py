"""A dry run of a mutation tells what it would change, and leaves no trace."""

from io import BytesIO
from pathlib import Path

import pytest

import omnigraph as og
from mutating import SCHEMA, column, new_graph, people, run
from omnigraph.ops.mutation_preview import MutationPreview
from worlds import runtime


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = new_graph(tmp_path)
    people(graph, "ada", "bob", "cleo")
    run(graph, 'insert Knows { from: "ada", to: "bob", since: 3 } insert Knows { from: "bob", to: "cleo" }')
    return graph


def try_out(graph: og.Graph, body: str, **options: object) -> MutationPreview:
    result = graph.mutate(f"query q() {{ {body} }}", dry_run=True, **options)  # type: ignore[arg-type]
    assert result.commit_id is None
    assert result.preview is not None
    return result.preview


def list_files(graph: og.Graph) -> list[tuple[str, int]]:
    root = Path(graph.uri)
    return sorted((str(path), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file())


def test_edges_that_go_with_their_node_are_shown(graph: og.Graph) -> None:
    preview = try_out(graph, 'delete Person where name = "bob"')

    assert {name: counts.deleted for name, counts in preview.types.items()} == {"Person": 1, "Knows": 2}
    assert preview.deleted == 3
    assert [(change.get("type", change.get("edge")), change["id"]) for change in preview.changes] == [
        ("Person", "bob"),
        ("Knows", '["ada","bob"]'),
        ("Knows", '["bob","cleo"]'),
    ]
    assert preview.changes[1]["before"] == {"from": "ada", "to": "bob", "since": 3}


def test_it_tells_new_rows_from_changed_ones(graph: og.Graph) -> None:
    preview = try_out(graph, 'insert Person { name: "dan" } update Person set { age: 40 } where name = "ada"')

    inserted, updated = preview.changes
    assert preview.base_commit == graph.snapshot().commit.id
    assert preview.types["Person"].to_json() == {"inserted": 1, "updated": 1, "deleted": 0}
    assert (inserted["change"], inserted["id"], inserted["before"]) == ("inserted", "dan", None)
    assert (updated["changed"], updated["before"]["age"], updated["after"]["age"]) == (["age"], None, 40)


def test_it_says_what_the_mutation_then_does(graph: og.Graph) -> None:
    text = "query q() { match { $p: Person  $p knows $q } update $p set { age: 7 } }"
    head = graph.snapshot().commit.id

    tried = graph.mutate(text, dry_run=True)
    done = graph.mutate(text)

    assert (tried.affected_nodes, tried.affected_edges) == (done.affected_nodes, done.affected_edges) == (2, 0)
    assert tried.preview is not None
    assert list(graph.diff(head, "main").json_lines())
    diffed = [change for changes in graph.diff(head, "main") for change in changes.records()]
    assert sorted(tried.preview.changes, key=lambda change: change["id"]) == sorted(
        diffed, key=lambda change: str(change["id"])
    )


@pytest.mark.parametrize("body", ["", ' update Person set { age: 8 } where name = "bob"'])
def test_a_value_that_stays_is_no_change_of_the_row(graph: og.Graph, body: str) -> None:
    run(graph, 'update Person set { age: 7 } where name = "ada"')
    update = 'update Person set { age: 7 } where name != "cleo"'
    text = f"query q() {{ {update} {body} }}"
    head = graph.snapshot().commit.id

    tried = graph.mutate(text, dry_run=True)
    again = graph.mutate('query q() { update Person set { age: 7 } where name = "ada" }', dry_run=True)
    done = graph.mutate(text)

    assert tried.preview is not None
    assert tried.preview.types["Person"].to_json() == {"inserted": 0, "updated": 1, "deleted": 0}
    assert [change["id"] for change in tried.preview.changes] == ["bob"]
    assert list(tried.preview.changes) == [
        change for changes in graph.diff(head, "main") for change in changes.records()
    ]
    assert again.preview is not None
    assert (again.preview.types, again.preview.changes) == ({}, ())
    assert (tried.affected_nodes, again.affected_nodes, done.affected_nodes) == (2, 1, 2)


def test_no_file_is_written_and_no_key_used(graph: og.Graph) -> None:
    before = list_files(graph)

    try_out(graph, 'delete Person where name != "ada"', idempotency_key="k")
    try_out(graph, 'insert Person { name: "dan" }', idempotency_key="k")

    assert list_files(graph) == before
    assert column(graph, "Person", "name") == ["ada", "bob", "cleo"]
    first = graph.mutate('query q() { insert Person { name: "eve" } }', idempotency_key="k")
    assert first.commit_id == graph.snapshot().commit.id


def test_a_match_of_what_was_just_written_is_refused_before_any_file(graph: og.Graph) -> None:
    before = list_files(graph)
    text = 'query q() { insert Person { name: "dan" } match { $p: Person } update $p set { age: 9 } }'

    with pytest.raises(og.QueryError, match="a match reads Person, which an earlier statement") as error:
        graph.mutate(text, dry_run=True)

    assert "on a branch of its own" in str(error.value)
    assert list_files(graph) == before
    assert graph.mutate(text).affected_nodes == 4


def test_a_broken_rule_is_an_error_of_the_dry_run(graph: og.Graph) -> None:
    with pytest.raises(og.ConstraintError, match="@range"):
        try_out(graph, 'update Person set { age: 900 } where name = "ada"')


def test_if_commit_holds_for_a_dry_run(graph: og.Graph) -> None:
    first = graph.commits()[-1].id

    with pytest.raises(og.ConflictError):
        try_out(graph, 'delete Person where name = "ada"', if_commit=first)


def test_a_graph_that_is_open_for_reading_can_be_tried(graph: og.Graph) -> None:
    reader = og.open_graph(graph.uri, read_only=True)

    assert try_out(reader, 'delete Person where name = "cleo"').deleted == 2


def test_an_update_of_very_many_rows_shows_the_first(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "many"), SCHEMA, runtime=runtime())
    lines = "".join(f'{{"type":"Person","data":{{"name":"p{n:06}"}}}}\n' for n in range(140_000))
    graph.load(BytesIO(lines.encode()), mode="append")

    preview = try_out(graph, 'update Person set { age: 3 } where mood = "glad"')

    assert preview.types["Person"].to_json() == {"inserted": 0, "updated": 140_000, "deleted": 0}
    assert len(preview.changes) == 20
    assert {change["after"]["age"] for change in preview.changes} == {3}


def test_without_an_effect_it_is_empty(graph: og.Graph) -> None:
    assert try_out(graph, 'delete Person where name = "nobody"').to_json() == {
        "base_commit": graph.snapshot().commit.id,
        "types": {},
        "changes": [],
    }
