"""The history of one node or edge: its versions on a branch, newest first, by whom and what changed."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine.entity_trace import RowLocation, locate_row_before
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.storage.lance_table import LanceTable, read_io_counts
from omnigraph.storage.layout import format_detached_name
from worlds import runtime

SCHEMA = """
node P { name: String @key  n: I32?  tags: [String]?  photo: Blob? }
node C { name: String @key }
edge Knows: P -> P { w: I32?  @key(src, dst) }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    run(graph, 'insert P { name: "a", n: 1 } insert P { name: "b", n: 1 }', actor="ada")
    return graph


def run(graph: og.Graph, statements: str, branch: str = "main", actor: str = "bob", **params: Any) -> None:
    declared = ", ".join(f"${name}: Blob" for name in params)
    graph.mutate(f"query q({declared}) {{ {statements} }}", branch=branch, actor=actor, params=params)


def reshaped(graph: og.Graph, old: str, new: str, branch: str = "main") -> None:
    text = graph.snapshot(branch=branch).manifest.schema.source
    assert old in text
    graph.apply_schema(text.replace(old, new), branch=branch, allow_drops=True)


def told(graph: og.Graph, type_name: str = "P", key: str = "a", **options: Any) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.change, one.changed) for one in graph.history(type_name, key, **options).versions]


def test_versions_come_newest_first_with_who_made_them_and_what_changed(graph: og.Graph) -> None:
    run(graph, 'update P set { n: 2 } where name = "a"', actor="eve")

    newest, oldest = graph.history("P", "a").versions

    assert newest.commit == graph.commits()[0]
    assert (newest.commit.actor, newest.change, newest.changed) == ("eve", "updated", ("n",))
    assert newest.before == {"name": "a", "n": 1, "tags": None}
    assert newest.after == {"name": "a", "n": 2, "tags": None}
    assert (oldest.commit.actor, oldest.change, oldest.before, oldest.after) == ("ada", "inserted", None, newest.before)


def test_deletions_and_re_creations_are_versions(graph: og.Graph) -> None:
    run(graph, 'delete P where name = "a"')
    run(graph, 'insert P { name: "a", n: 5 }')
    run(graph, 'delete P where name = "a"')

    assert told(graph) == [("deleted", ()), ("inserted", ()), ("deleted", ()), ("inserted", ())]


def test_commits_that_left_the_row_as_it_was_are_none(graph: og.Graph) -> None:
    run(graph, 'update P set { n: 9 } where name = "b"')
    run(graph, 'update P set { n: 1 } where name = "a"')  # says the same again
    run(graph, 'insert C { name: "x" }')

    assert told(graph) == [("inserted", ())]


def test_an_edge_has_versions_too(graph: og.Graph) -> None:
    run(graph, 'insert Knows { from: "a", to: "b", w: 1 }')
    run(graph, 'update Knows set { w: 2 } where from = "a"')
    run(graph, 'delete P where name = "b"')

    found = graph.history("Knows", '["a","b"]').versions

    assert [one.change for one in found] == ["deleted", "updated", "inserted"]
    assert found[0].before == {"from": "a", "to": "b", "w": 2}


def test_another_blob_is_a_version_in_which_it_is_named(graph: og.Graph) -> None:
    update = 'update P set { photo: $p } where name = "a"'
    for content in (b"one", b"one", b"two"):
        run(graph, update, p=content)

    assert told(graph) == [("updated", ("photo",)), ("updated", ("photo",)), ("inserted", ())]


def test_maintenance_hides_nothing_and_is_no_version(graph: og.Graph) -> None:
    for number in range(10):
        run(graph, f'insert P {{ name: "k{number}" }}')
    run(graph, 'update P set { n: 2 } where name = "a"')
    graph.optimize()
    run(graph, 'update P set { n: 3 } where name = "a"')
    graph.optimize()

    assert told(graph) == [("updated", ("n",)), ("updated", ("n",)), ("inserted", ())]


def test_types_and_properties_are_followed_through_their_names(graph: og.Graph) -> None:
    reshaped(graph, "n: I32?", 'm: I32? @rename_from("n")  ok: Bool @default(true)')
    text = graph.schema.replace("P -> P", "Person -> Person")
    graph.apply_schema(text.replace("node P {", 'node Person @rename_from("P") {'))
    run(graph, 'update Person set { m: 7 } where name = "a"')
    reshaped(graph, "tags: [String]?", "")

    found = graph.history("Person", "a").versions

    assert [(one.change, one.changed, one.type.name) for one in found] == [
        ("reshaped", ("tags",), "Person"),
        ("updated", ("m",), "Person"),
        ("reshaped", (), "Person"),
        ("reshaped", ("m", "ok"), "P"),
        ("inserted", (), "P"),
    ]
    assert [one.after for one in found[1:]] == [one.before for one in found[:-1]]
    assert [one.commit.id for one in graph.history("P", "a").versions] == [one.commit.id for one in found]


def test_a_row_goes_with_its_type(graph: og.Graph) -> None:
    run(graph, 'insert C { name: "x" }')
    reshaped(graph, "node C { name: String @key }", "")

    assert told(graph, "C", "x") == [("deleted", ()), ("inserted", ())]


def test_a_branch_has_the_past_of_what_it_was_taken_from(graph: og.Graph) -> None:
    graph.branches.create("dev")
    run(graph, 'update P set { n: 2 } where name = "a"')
    run(graph, 'update P set { n: 3 } where name = "a"', "dev")

    mine, theirs = graph.history("P", "a").versions, graph.history("P", "a", branch="dev").versions

    assert [one.after["n"] for one in mine if one.after] == [2, 1]
    assert [one.after["n"] for one in theirs if one.after] == [3, 1]
    assert mine[-1] == theirs[-1]


def test_a_merge_is_the_version_that_it_made(graph: og.Graph) -> None:
    graph.branches.create("dev")
    run(graph, 'update P set { n: 2 } where name = "a"', "dev")
    run(graph, 'update P set { tags: ["x"] } where name = "a"')
    graph.merge("dev", actor="eve")

    newest, *_ = graph.history("P", "a").versions

    assert (newest.commit.actor, newest.changed) == ("eve", ("n",))
    assert newest.commit.merged_parent == graph.commits(branch="dev")[0].id
    assert newest.after == {"name": "a", "n": 2, "tags": ["x"]}


def test_a_limit_bounds_the_list_and_the_walk(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        run(graph, f'update P set {{ n: {number + 10} }} where name = "a"')  # noqa: S608 - no SQL
    looked = []

    def looking(*arguments: Any, **named: Any) -> Any:
        looked.append(arguments)
        return locate_row_before(*arguments, **named)

    monkeypatch.setattr("omnigraph.ops.entity_history.locate_row_before", looking)

    found = graph.history("P", "a", limit=2).versions

    assert [one.after["n"] for one in found if one.after] == [15, 14]
    assert len(looked) == 2


@pytest.mark.parametrize(
    "type_name, key, error, near",
    [
        ("P", "A", og.MissingError, None),
        ("P", "adam", og.MissingError, "adama"),
        ("Knows", '["a","zz"]', og.MissingError, None),
        ("Know", "a", og.TypeMissingError, "Knows"),
        ("P", "", og.MissingError, None),
    ],
)
def test_what_never_was_is_an_error_with_what_was_likely_meant(
    type_name: str, key: str, error: type[Any], near: str | None, graph: og.Graph
) -> None:
    run(graph, 'insert P { name: "adama" }')

    with pytest.raises(error) as found:
        graph.history(type_name, key)

    assert found.value.near == near


def test_what_was_dropped_for_good_ends_the_history_without_an_error(graph: og.Graph) -> None:
    run(graph, 'update P set { n: 2 } where name = "a"')
    reshaped_text = graph.schema.replace("tags: [String]?", "")
    dropped = graph.apply_schema(reshaped_text, allow_data_loss=True).commit_id
    run(graph, 'update P set { n: 3 } where name = "a"')

    found = graph.history("P", "a")

    assert [(one.change, (one.after or {})["n"]) for one in found.versions] == [("updated", 3), ("as_of", 2)]
    assert found.versions[-1].commit.id == found.ends_before == dropped


def test_what_was_collected_ends_the_history_without_an_error(graph: og.Graph) -> None:
    for number in range(5):
        run(graph, f'update P set {{ n: {number + 5} }} where name = "a"')  # noqa: S608 - no SQL
    commits = graph.commits()
    graph.cleanup(keep=3, grace=timedelta(0), confirm=True)

    found = graph.history("P", "a")

    assert [one.commit.id for one in found.versions] == [commit.id for commit in commits[:3]]
    assert [one.change for one in found.versions] == ["updated", "updated", "as_of"]
    assert found.ends_before == commits[2].id


def test_a_row_from_before_a_cleanup_is_shown_as_of_the_oldest_kept_state(graph: og.Graph) -> None:
    run(graph, 'insert P { name: "z" }')
    graph.cleanup(keep=1, grace=timedelta(0), confirm=True)

    found = graph.history("P", "a")

    (only,) = found.versions
    assert (only.change, only.changed, only.before, (only.after or {})["name"]) == ("as_of", (), None, "a")
    assert only.commit.id == found.ends_before == graph.commits()[0].id


def test_a_row_is_shown_as_of_the_oldest_kept_state_by_the_names_of_then(graph: og.Graph) -> None:
    run(graph, 'update P set { n: 2 } where name = "a"')
    text = graph.schema.replace("n: I32?", 'm: I32? @rename_from("n")').replace("P -> P", "Person -> Person")
    graph.apply_schema(text.replace("node P {", 'node Person @rename_from("P") {'))
    graph.cleanup(keep=2, grace=timedelta(0), confirm=True)

    found = graph.history("Person", "a").versions

    assert [(one.change, one.type.name) for one in found] == [("reshaped", "Person"), ("as_of", "P")]
    assert found[0].before == found[1].after


def test_a_row_that_came_after_the_oldest_kept_state_is_not_shown_as_of_it(graph: og.Graph) -> None:
    run(graph, 'insert P { name: "z" }')
    graph.cleanup(keep=2, grace=timedelta(0), confirm=True)

    found = graph.history("P", "z")

    assert [one.change for one in found.versions] == ["inserted"]


@pytest.mark.parametrize("look", [lambda g: g.history("P", "k0000100"), lambda g: g.history("P", "x1")])
def test_the_cost_is_that_of_what_the_commits_changed(
    look: Callable[[og.Graph], og.EntityHistory], tmp_path: Path
) -> None:
    """Twelve commits to a table of ten times as many rows, whose ids are indexed, cost as much."""
    costs = []
    for size in (50_000, 500_000):
        graph = og.create_graph(str(tmp_path / f"{size}"), "node P { name: String @key  n: I32? }", runtime=runtime())
        names = pa.array([f"k{number:07}" for number in range(size)])
        rows = pa.table({"id": names, "name": names, "n": pa.array(np.zeros(size, np.int32))})
        write_tables(graph._session, [TableWrite(table_key="node:P", append=rows)], operation="w", actor="x")
        graph.optimize()
        for number in range(4):
            run(graph, f'insert P {{ name: "x{number}" }}')
            run(graph, f'update P set {{ n: 5 }} where name = "k{number + 98:07}"')  # noqa: S608 - no SQL
            run(graph, f'delete P where name = "k{number:07}"')
        cold = og.open_graph(graph.uri, runtime=runtime())
        before = read_io_counts()
        assert look(cold).versions
        after = read_io_counts()
        costs.append((after.requests - before.requests, after.nbytes - before.nbytes))

    assert costs[1][0] <= costs[0][0] * 1.5, costs
    assert costs[1][1] <= costs[0][1] * 3, costs


def test_commits_that_left_the_row_alone_are_not_all_looked_at(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        run(graph, f'insert P {{ name: "k{number}" }}')
        if number == 20:
            run(graph, 'update P set { n: 2 } where name = "a"')
    looked: set[int] = set()
    original = RowLocation.is_live_in

    def lives_in(spot: RowLocation, table: LanceTable) -> bool:
        looked.add(table.version)
        return original(spot, table)

    monkeypatch.setattr(RowLocation, "is_live_in", lives_in)

    assert told(graph) == [("updated", ("n",)), ("inserted", ())]
    assert len(looked) <= 20


def test_a_compaction_of_many_fragments_is_passed_without_looking_into_them(graph: og.Graph) -> None:
    for number in range(60):
        run(graph, f'insert P {{ name: "p{number}", n: 1 }}')
    run(graph, 'update P set { n: 2 } where name = "b"')  # it lies in the last fragment of all
    graph.optimize()
    cold = og.open_graph(graph.uri, runtime=runtime())

    with cold._session.runtime.telemetry.count_requests() as requests:
        versions = told(cold, key="b")

    assert versions == [("updated", ("n",)), ("inserted", ())]
    assert requests.count(target="table", operation="get") < 60, requests.format_table()


def test_what_a_merge_settled_is_told_as_it_was_settled(graph: og.Graph) -> None:
    graph.branches.create("dev")
    run(graph, 'update P set { n: 2 } where name = "a"')
    run(graph, 'update P set { n: 3 } where name = "a"', "dev")
    graph.merge("main", into="dev", strategy="ours")
    graph.merge("dev")

    mine, theirs = graph.history("P", "a").versions, graph.history("P", "a", branch="dev").versions

    assert [(one.after or {})["n"] for one in mine] == [3, 2, 1]
    assert [(one.after or {})["n"] for one in theirs] == [3, 1]


def test_a_damaged_version_ends_the_history_without_an_error(graph: og.Graph) -> None:
    run(graph, 'update P set { n: 2 } where name = "a"')
    pin = graph.snapshot().pins["node:P"]
    run(graph, 'update P set { n: 3 } where name = "a"')
    run(graph, 'update P set { n: 4 } where name = "a"')
    (Path(graph.uri) / pin.path / format_detached_name(pin.version)).unlink()

    found = og.open_graph(graph.uri, runtime=runtime()).history("P", "a")

    assert [(one.change, (one.after or {})["n"]) for one in found.versions] == [("updated", 4), ("as_of", 3)]
    assert found.ends_before == graph.commits()[1].id
