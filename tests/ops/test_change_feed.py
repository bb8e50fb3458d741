"""The change feed: each commit once and in order, told against its first parent; schemas, cursors, types, cost."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from feeding import commits_of, head, held, replayed, run
from omnigraph.engine import table_diff
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.storage.lance_table import MIN_DELETION_FILE_ROWS, read_io_counts
from omnigraph.storage.layout import format_detached_name
from worlds import FAST, runtime

SCHEMA = """
node P { name: String @key  n: I32? }
node C { name: String @key }
edge Knows: P -> P { w: I32?  @key(src, dst) }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    run(graph, 'insert P { name: "a", n: 1 } insert P { name: "b", n: 1 }')
    return graph


def told(feed: og.ChangeFeed) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """By commit, what kind of change each row had."""
    return [
        (one.commit.operation, [(row.get("type") or row["edge"], row["id"], row["change"]) for row in rows_of(one)])
        for one in feed
    ]


def rows_of(one: og.ChangeSet) -> list[Any]:
    return list(one.records())


# --- what is told ------------------------------------------------------------------------------------------------


def test_every_commit_comes_once_and_oldest_first(graph: og.Graph) -> None:
    for number in range(4):
        run(graph, f'insert C {{ name: "{number}" }}')

    found = [one.commit for one in graph.changes()]

    assert found == graph.commits()[::-1]


def test_a_commit_tells_what_it_did_to_nodes_and_edges(graph: og.Graph) -> None:
    since = head(graph)
    run(
        graph, 'insert P { name: "c" } insert Knows { from: "a", to: "c", w: 1 } update P set { n: 5 } where name = "b"'
    )

    (found,) = graph.changes(since=since)

    assert list(found.records()) == [
        {"type": "P", "id": "c", "change": "inserted", "before": None, "after": {"name": "c", "n": None}},
        {
            "type": "P",
            "id": "b",
            "change": "updated",
            "changed": ["n"],
            "before": {"name": "b", "n": 1},
            "after": {"name": "b", "n": 5},
        },
        {
            "edge": "Knows",
            "id": '["a","c"]',
            "change": "inserted",
            "before": None,
            "after": {"from": "a", "to": "c", "w": 1},
        },
    ]
    assert {name: one.to_json() for name, one in found.counts().items()} == {
        "P": {"inserted": 1, "updated": 1, "deleted": 0, "properties": {"n": 1}},
        "Knows": {"inserted": 1, "updated": 0, "deleted": 0, "properties": {}},
    }


def test_what_goes_with_a_node_is_told(graph: og.Graph) -> None:
    run(graph, 'insert Knows { from: "a", to: "b" }')
    since = head(graph)
    run(graph, 'delete P where name = "b"')

    assert told(graph.changes(since=since)) == [
        ("mutate", [("P", "b", "deleted"), ("Knows", '["a","b"]', "deleted")]),
    ]


def test_another_blob_is_a_change_that_is_named_and_not_shown(graph: og.Graph) -> None:
    reshaped(graph, "n: I32?", "n: I32?  photo: Blob?")
    since = head(graph)
    run(graph, 'update P set { photo: $p } where name = "a"', p=b"bytes")

    (record,) = next(graph.changes(since=since)).records()

    assert record["changed"] == ["photo"]
    assert record["after"] == {"name": "a", "n": 1}


def test_maintenance_is_a_commit_without_rows(graph: og.Graph) -> None:
    for number in range(10):
        run(graph, f'insert P {{ name: "k{number}" }}')
    since = head(graph)
    graph.optimize()

    (found,) = graph.changes(since=since)

    assert found.commit.operation == "optimize"
    assert found.commit.changes
    assert not list(found)


def test_a_merge_is_told_against_its_first_parent(graph: og.Graph) -> None:
    graph.branches.create("dev")
    run(graph, 'update P set { n: 7 } where name = "a"', "dev")
    run(graph, 'insert P { name: "d" }', "dev")
    since = run(graph, 'insert C { name: "x" }')
    merge = graph.merge("dev")

    (found,) = graph.changes(since=since)

    assert merge.outcome is og.MergeOutcome.MERGED
    assert [(row["id"], row["change"]) for row in found.records()] == [("d", "inserted"), ("a", "updated")]
    assert replayed(graph).contents()["P"].keys() == {"a", "b", "d"}


def test_a_branch_begins_with_what_it_was_taken_from(graph: og.Graph) -> None:
    graph.branches.create("dev")
    run(graph, 'insert P { name: "main only" }')
    run(graph, 'insert P { name: "dev only" }', "dev")

    found = list(graph.changes(branch="dev"))

    assert [one.commit.branch for one in found] == ["main", "main", "dev"]
    assert [row["id"] for row in found[-1].records()] == ["dev only"]


def test_a_long_history_is_read_forward_through_its_sealed_parts(tmp_path: Path) -> None:
    """Over several journals and many small sealed parts, some of which are merged on the way."""
    graph = og.create_graph(
        str(tmp_path / "g"), SCHEMA, runtime=runtime(replace(FAST, head_commits=3, sealed_fragments=4))
    )
    for branch in ("main", "dev", "deep"):
        for number in range(11):
            run(graph, f'insert C {{ name: "{branch}{number}" }}', branch)
        graph.branches.create({"main": "dev", "dev": "deep", "deep": "end"}[branch], from_=branch)
    expected = [commit.id for commit in graph.commits(branch="end")][::-1]

    found = [one.cursor for one in graph.changes(branch="end")]
    rests = [[one.cursor for one in graph.changes(branch="end", since=one)] for one in expected[::5]]

    assert len(expected) == 34
    assert found == expected
    assert rests == [expected[at + 1 :] for at in range(0, 34, 5)]


# --- schemas -----------------------------------------------------------------------------------------------------


def reshaped(graph: og.Graph, old: str, new: str, branch: str = "main") -> None:
    text = graph.snapshot(branch=branch).manifest.schema.source
    assert old in text
    graph.apply_schema(text.replace(old, new), branch=branch, allow_drops=True)


def test_the_first_commit_brings_the_schema(graph: og.Graph) -> None:
    first = next(graph.changes())

    assert first.commit.operation == "init"
    assert first.to_json()["schema"] == {
        "before": None,
        "after": graph.snapshot().manifest.schema.id,
        "types": [
            {"type": "P", "change": "added"},
            {"type": "C", "change": "added"},
            {"edge": "Knows", "change": "added"},
        ],
    }


def test_a_new_schema_is_told_as_what_it_does_to_every_row(graph: og.Graph) -> None:
    since = head(graph)
    reshaped(graph, "n: I32?", 'm: I32? @rename_from("n")  ok: Bool @default(true)  more: String?')
    reshaped(graph, "more: String?", "")
    reshaped(graph, "node C {", 'node City @rename_from("C") {')
    reshaped(graph, "edge Knows: P -> P { w: I32?  @key(src, dst) }", "")

    found = list(graph.changes(since=since))

    assert [one.schema.to_json()["types"] for one in found if one.schema] == [
        [
            {
                "type": "P",
                "change": "reshaped",
                "previous": "P",
                "renamed": {"n": "m"},
                "added": {"ok": True, "more": None},
                "dropped": [],
            }
        ],
        [{"type": "P", "change": "reshaped", "previous": "P", "renamed": {}, "added": {}, "dropped": ["more"]}],
        [{"type": "City", "change": "reshaped", "previous": "C", "renamed": {}, "added": {}, "dropped": []}],
        [{"edge": "Knows", "change": "dropped"}],
    ]
    assert not [row for one in found for row in one.records()]


def test_rows_that_a_merge_brings_with_a_schema_are_told_apart_from_it(graph: og.Graph) -> None:
    """What the branch only filled is not listed; what it wrote is, and what it filled with something else too."""
    graph.branches.create("dev")
    reshaped(graph, "n: I32?", "n: I32?  x: I32? @default(1)", "dev")
    run(graph, 'update P set { x: 2 } where name = "a"', "dev")
    since = head(graph)
    graph.merge("dev")

    (found,) = graph.changes(since=since)

    assert [(row["id"], row["changed"]) for row in found.records()] == [("a", ["x"])]
    assert replayed(graph).contents()["P"] == {
        "a": {"name": "a", "n": 1, "x": 2},
        "b": {"name": "b", "n": 1, "x": 1},
    }


def test_rows_that_were_filled_by_an_earlier_default_are_told(graph: og.Graph) -> None:
    graph.branches.create("dev")
    reshaped(graph, "n: I32?", "n: I32?  x: I32? @default(1)", "dev")
    reshaped(graph, "@default(1)", "@default(2)", "dev")
    since = head(graph)
    graph.merge("dev")

    (found,) = graph.changes(since=since)

    assert [(row["id"], row["changed"]) for row in found.records()] == [("a", ["x"]), ("b", ["x"])]
    assert [row["x"] for row in replayed(graph).contents()["P"].values()] == [1, 1]


def test_a_name_that_is_used_anew_is_another_type(graph: og.Graph) -> None:
    run(graph, 'insert C { name: "x" }')
    since = head(graph)
    reshaped(graph, "node C { name: String @key }", "")
    graph.apply_schema(SCHEMA.replace("node C { name: String @key }", "node C { name: String @key  v: I32? }"))
    run(graph, 'insert C { name: "x", v: 1 }')

    assert told(graph.changes(since=since)) == [
        ("schema_apply", []),
        ("schema_apply", []),
        ("mutate", [("C", "x", "inserted")]),
    ]
    assert replayed(graph).contents()["C"] == {"x": {"name": "x", "v": 1}}


def test_what_was_dropped_for_good_is_not_told_any_more(graph: og.Graph) -> None:
    old = run(graph, 'insert C { name: "x" }')
    text = graph.schema.replace("node C { name: String @key }", "")
    dropped = graph.apply_schema(text, allow_data_loss=True).commit_id
    run(graph, 'insert P { name: "later" }')

    with pytest.raises(og.OmnigraphError) as error:
        list(graph.changes())

    assert error.value.code == "data_dropped"
    assert len(list(graph.changes(types=["P"]))) == 5
    assert len(list(graph.changes(since=old))) == 2
    assert [one.cursor for one in graph.changes(since=dropped)] == [head(graph)]


# --- cursors, limits, types --------------------------------------------------------------------------------------


def test_a_cursor_goes_on_behind_its_commit(graph: og.Graph) -> None:
    run(graph, 'insert C { name: "x" }')
    feed = graph.changes(limit=2)

    first = [one.cursor for one in feed]
    rest = [one.cursor for one in graph.changes(since=feed.cursor)]

    assert feed.cursor == first[-1]
    assert first + rest == [commit.id for commit in graph.commits()][::-1]
    assert not list(graph.changes(since=head(graph)))
    assert graph.changes(since=head(graph)).cursor == head(graph)


def test_a_cursor_of_another_branch_is_refused_by_name(graph: og.Graph) -> None:
    graph.branches.create("dev")
    own = run(graph, 'insert C { name: "x" }', "dev")
    run(graph, 'insert C { name: "y" }')
    graph.merge("dev")

    for since in (own, "01JC0000000000000000000000"):
        with pytest.raises(og.CommitMissingError, match=f"`main` has no commit {since}"):
            graph.changes(since=since)


def test_a_feed_ends_with_what_was_the_newest_when_it_began(graph: og.Graph) -> None:
    feed = graph.changes()
    last = head(graph)
    run(graph, 'insert C { name: "later" }')

    assert [one.cursor for one in feed][-1] == last


def test_types_can_be_chosen_and_every_commit_still_comes(graph: og.Graph) -> None:
    run(graph, 'insert C { name: "x" } insert P { name: "c" }')

    found = told(graph.changes(types=["C"]))

    assert found == [("init", []), ("mutate", []), ("mutate", [("C", "x", "inserted")])]


@pytest.mark.parametrize("name", ["C", "City"])
def test_a_chosen_type_is_followed_through_its_names(name: str, graph: og.Graph) -> None:
    since = run(graph, 'insert C { name: "x" }')
    reshaped(graph, "node C {", 'node City @rename_from("C") {')
    run(graph, 'insert City { name: "y" } insert P { name: "c" }')
    start = graph.commits()[-1].id if name == "City" else since

    rows = [row for _, rows in told(graph.changes(since=start, types=[name])) for row in rows]

    assert [row for row in rows if row[0] == "City"] == [("City", "y", "inserted")]
    assert ("C", "x", "inserted") in rows or name == "C"
    assert {row[0] for row in rows} <= {"C", "City"}


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda graph: graph.changes(types=["Know"]), og.TypeMissingError),
        (lambda graph: graph.changes(branch="nope"), og.BranchMissingError),
        (lambda graph: graph.changes(limit=0), og.BadArgumentError),
        (lambda graph: graph.changes(poll_seconds=0), og.BadArgumentError),
    ],
)
def test_a_call_that_makes_no_sense_is_refused_at_once(
    call: Callable[[og.Graph], object], error: type[Exception], graph: og.Graph
) -> None:
    with pytest.raises(error):
        call(graph)


# --- lines -------------------------------------------------------------------------------------------------------


def test_every_line_names_its_commit_and_a_commit_has_a_beginning_and_an_end(graph: og.Graph) -> None:
    commits = list(commits_of(graph.changes().blocks()))

    assert [list(line)[1] for line in commits[-1]] == ["begin", "type", "type", "end"]
    for lines, commit in zip(commits, graph.commits()[::-1], strict=True):
        assert {line["commit"] for line in lines} == {commit.id}


def test_a_whole_change_is_one_document_too(graph: og.Graph) -> None:
    *_, last = graph.changes()

    document = json.loads(json.dumps(last.to_json()))

    assert document["commit"] == head(graph)
    assert [row["id"] for row in document["rows"]] == ["a", "b"]
    assert document["types"]["P"]["inserted"] == 2


def test_what_a_line_says_loads_as_the_same_row_whatever_its_types(tmp_path: Path) -> None:
    """A second graph that is given every `after` as a record exports what the first one does."""
    schema = """
    node P { name: String @key  s: String?  b: Bool?  i: I32?  big: I64?  u: U64?  f: F32?  d: F64?
             day: Date?  at: DateTime?  e: enum(x, y)?  tags: [String]?  days: [Date]?  v: Vector(2)? }
    edge Knows: P -> P { w: F64? }
    """
    graphs = [og.create_graph(str(tmp_path / name), schema, runtime=runtime()) for name in ("first", "second")]
    run(
        graphs[0],
        """insert P { name: "a", s: "\\"é\\"", b: true, i: -5, big: 9007199254740993, u: 18446744073709551615,
                      f: 0.1, d: 0.1, day: date("2026-01-31"), at: datetime("2026-01-31T12:00:00.123456Z"), e: "y",
                      tags: ["x", ""], days: [date("1970-01-01")], v: [0.1, 2.0] }
           insert P { name: "b" }
           insert Knows { from: "a", to: "b", w: 1.0e300 }""",
    )
    run(graphs[0], 'update P set { big: -9007199254740993, tags: [] } where name = "a"')

    for lines in commits_of(graphs[0].changes().blocks()):
        records = [_record(line) for line in lines if "change" in line]
        graphs[1].load(io.BytesIO("\n".join(map(json.dumps, records)).encode()), mode="merge")

    exports = [io.BytesIO(), io.BytesIO()]
    for graph, export in zip(graphs, exports, strict=True):
        graph.export(export)
    assert exports[0].getvalue() == exports[1].getvalue()
    assert exports[0].getvalue().count(b"\n") == 3


def _record(line: dict[str, Any]) -> dict[str, Any]:
    """A change as a record of graph JSONL."""
    data = dict(line["after"])
    if "edge" not in line:
        return {"type": line["type"], "id": line["id"], "data": data}
    ends = {name: data.pop(name) for name in ("from", "to")}
    return {"edge": line["edge"], "id": line["id"], **ends, "data": data}


def big(graph: og.Graph, rows: int, *, start: int = 0, value: int = 0, **how: Any) -> None:
    names = pa.array([f"k{number:07}" for number in range(start, start + rows)])
    table = pa.table({"id": names, "name": names, "n": pa.array(np.full(rows, value, np.int32))})
    write_tables(
        graph._session, [TableWrite(table_key="node:P", **{how.get("mode", "append"): table})], operation="w", actor="x"
    )


@pytest.mark.parametrize("matched", [1_000_000, 700])
def test_a_large_commit_comes_in_parts_of_a_bounded_size(
    matched: int, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the parts are, each row comes once: inserts alone, and updates beside inserts and deletions."""
    monkeypatch.setattr(table_diff, "MATCHED_ROWS", matched)
    monkeypatch.setattr("omnigraph.ops.row_diff.COMPARED_ROWS", 256)
    monkeypatch.setattr(table_diff, "COMPARED_ROWS", 256)
    graph.branches.create("dev")
    big(graph, 3_000)
    write_tables(
        graph._session,
        [TableWrite(table_key="node:P", delete=[f"k{number:07}" for number in range(0, 900, 7)])],
        operation="w",
        actor="x",
    )
    big(graph, 2_000, start=500, value=1, mode="upsert")

    sizes = [changes.count for one in graph.changes() for changes in one]

    assert max(sizes) <= 256
    assert replayed(graph).contents()["P"] == {
        key: {name: row[name] for name in ("name", "n")} for key, row in held(graph)["P"].items()
    }


def test_the_order_is_the_same_whoever_asks(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_diff, "MATCHED_ROWS", 500)
    big(graph, 1_000)
    big(graph, 1_000, value=1, mode="upsert")
    again = og.open_graph(graph.uri, runtime=runtime())

    assert b"".join(graph.changes().blocks()) == b"".join(again.changes().blocks())


# --- cost --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sizes", [(2_000, 90_000), (MIN_DELETION_FILE_ROWS, 4 * MIN_DELETION_FILE_ROWS)], ids=["small", "large"]
)
def test_a_feed_costs_what_was_changed(sizes: tuple[int, int], tmp_path: Path) -> None:
    """Ten commits of one row each, inserted, updated or deleted: the same requests and bytes for any table.

    On a disk, what was deleted of a large fragment is read from its own file, a request more for each.
    """
    costs = []
    for size in sizes:
        graph = og.create_graph(str(tmp_path / f"{size}"), SCHEMA, runtime=runtime())
        big(graph, size)
        graph.optimize()
        since = head(graph)
        for number in range(4):
            run(graph, f'insert P {{ name: "x{number}" }}')
            run(graph, f'update P set {{ n: 5 }} where name = "k{number + 100:07}"')  # noqa: S608 - no SQL
        run(graph, 'delete P where name = "k0000007"')
        run(graph, 'delete P where name = "k0000107"')
        cold = og.open_graph(graph.uri, runtime=runtime())
        feed = cold.changes(since=since)
        before = read_io_counts()
        with cold._session.runtime.telemetry.count_requests() as requests:
            rows = [row["change"] for one in feed for row in one.records()]
        costs.append((requests.count(), read_io_counts().nbytes - before.nbytes))
        assert len(rows) == 10

    (few, small), (many, large) = costs
    assert many <= few + 2, costs
    # Lance joins neighbouring reads by their timing: 51 to 85 kB were seen of one table. All of it would be megabytes.
    assert large <= small * 2, costs


# --- what was collected ------------------------------------------------------------------------------------------


def test_a_feed_begins_no_earlier_than_what_cleanup_kept(graph: og.Graph) -> None:
    for number in range(5):
        run(graph, f'update P set {{ n: {number + 5} }} where name = "a"')  # noqa: S608 - no SQL
    commits = [commit.id for commit in graph.commits()][::-1]
    graph.cleanup(keep=3, grace=timedelta(0), confirm=True)

    for since in (None, commits[0], commits[-4]):
        with pytest.raises(og.CommitCollectedError) as error:
            list(graph.changes(since=since))
        assert error.value.kept_from == 4
    assert [one.cursor for one in graph.changes(since=commits[-3])] == commits[-2:]
    assert [row["after"]["n"] for one in graph.changes(since=commits[-3]) for row in rows_of(one)] == [8, 9]


# --- what was damaged and repaired -------------------------------------------------------------------------------


def damage(graph: og.Graph, key: str) -> og.Graph:
    """Remove the newest version of a table, as another tool may do; a handle that has not seen it."""
    pin = graph.snapshot().pins[key]
    (Path(graph.uri) / pin.path / format_detached_name(pin.version)).unlink()
    return og.open_graph(graph.uri, runtime=runtime())


def test_a_repair_that_lost_nothing_is_a_commit_without_rows(graph: og.Graph) -> None:
    for number in range(10):
        run(graph, f'insert P {{ name: "k{number}" }}')
    graph.optimize()
    since = head(graph)
    damaged = damage(graph, "node:P")
    damaged.repair(confirm=True)

    assert told(damaged.changes(since=since)) == [("repair", [])]
    assert replayed(damaged).contents() == held(damaged)


def test_a_repair_that_lost_rows_can_not_be_told(graph: og.Graph) -> None:
    first = head(graph)
    run(graph, 'insert P { name: "lost" }')
    damaged = damage(graph, "node:P")
    damaged.repair(confirm=True, force=True)
    behind = head(damaged)
    run(damaged, 'insert P { name: "new" }')

    for since in (first, damaged.commits()[2].id):
        with pytest.raises(og.CorruptError, match="resume the feed") as error:
            [row for one in damaged.changes(since=since) for row in one.records()]
        assert error.value.facts()["table_key"] == "node:P"
    assert told(damaged.changes(since=behind)) == [("mutate", [("P", "new", "inserted")])]
