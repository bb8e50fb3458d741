"""Differences between two states: exactly the rows that came, went or say something else, at the cost of those."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.cli.main import main
from omnigraph.engine import table_diff
from omnigraph.ops import diff as diff_module
from omnigraph.ops.diff import DiffPosition
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.storage.lance_table import read_io_counts
from worlds import FAST, rows, runtime

SCHEMA = """
node P { name: String @key  n: I32?  tags: [String]?  vec: Vector(2)?  photo: Blob?  f: F64? }
node C { title: String }
edge Knows: P -> P { w: I32? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime(FAST))
    put(graph, "a", "b", "c")
    run(graph, 'insert Knows { from: "a", to: "b", w: 1 }')
    graph.branches.create("dev")
    return graph


def run(graph: og.Graph, statements: str, branch: str = "main", **params: Any) -> None:
    declared = ", ".join(f"${name}: Blob" for name in params)
    graph.mutate(f"query q({declared}) {{ {statements} }}", branch=branch, params=params)


def put(graph: og.Graph, *names: str, branch: str = "main", n: int = 1) -> None:
    run(graph, " ".join(f'insert P {{ name: "{name}", n: {n} }}' for name in names), branch)


def lines(graph: og.Graph, before: str = "main", after: str = "dev", **options: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in graph.diff(before, after, **options).json_lines()]


def exported(graph: og.Graph, branch: str, type_name: str) -> list[dict[str, Any]]:
    found = b"".join(graph.export_stream(branch=branch, types=[type_name]))
    return [json.loads(line) for line in found.splitlines()]


def changes(graph: og.Graph, before: str = "main", after: str = "dev") -> list[tuple[str, str, str, tuple[str, ...]]]:
    return [
        (one.get("type") or one["edge"], one["id"], one["change"], tuple(one.get("changed", ())))
        for one in lines(graph, before, after)
    ]


def test_equal_states_do_not_differ(graph: og.Graph) -> None:
    assert changes(graph) == []
    assert graph.diff("main", "main").counts() == {}


def test_each_kind_of_change_is_told_with_both_rows(graph: og.Graph) -> None:
    put(graph, "d", branch="dev", n=4)
    run(graph, 'update P set { n: 9 } where name = "b"', "dev")
    run(graph, 'delete P where name = "c"', "dev")

    inserted, updated, deleted = lines(graph)

    assert (inserted["id"], inserted["change"], inserted["before"]) == ("d", "inserted", None)
    assert inserted["after"]["n"] == 4
    assert (updated["id"], updated["changed"]) == ("b", ["n"])
    assert (updated["before"]["n"], updated["after"]["n"]) == (1, 9)
    assert (deleted["id"], deleted["change"], deleted["after"]) == ("c", "deleted", None)


def test_the_way_back_is_the_reverse(graph: og.Graph) -> None:
    put(graph, "d", branch="dev")
    run(graph, 'delete P where name = "a"', "dev")

    there, back = changes(graph, "main", "dev"), changes(graph, "dev", "main")

    opposite = {"inserted": "deleted", "deleted": "inserted", "updated": "updated"}
    assert sorted(back) == sorted((name, id_, opposite[kind], names) for name, id_, kind, names in there)
    assert {name for name, *_ in there} == {"P", "Knows"}


def test_a_row_written_anew_with_what_it_said_is_no_difference(graph: og.Graph) -> None:
    run(graph, 'update P set { n: 2 } where name = "a"', "dev")
    run(graph, 'update P set { n: 1 } where name = "a"', "dev")

    assert changes(graph) == []


def test_rows_that_two_branches_inserted_at_the_same_place_are_compared(graph: og.Graph) -> None:
    """Siblings give new rows the same numbers: only ids and values tell them apart."""
    put(graph, "same", "other", n=5)
    put(graph, "same", "other", branch="dev", n=5)
    run(graph, 'update P set { n: 6 } where name = "other"', "dev")

    assert changes(graph) == [("P", "other", "updated", ("n",))]


@pytest.mark.parametrize(
    "column, value",
    [("tags", '["x", "y"]'), ("vec", "[1.0, 2.0]"), ("f", "0.5"), ("n", "null")],
)
def test_values_of_every_shape_are_compared(column: str, value: str, graph: og.Graph) -> None:
    run(graph, f'update P set {{ {column}: {value} }} where name = "a"', "dev")  # noqa: S608 - no SQL

    assert changes(graph) == [("P", "a", "updated", (column,))]


@pytest.mark.parametrize("dev, is_same", [(b"same", True), (b"else", False), (b"longer", False), (None, False)])
def test_blobs_are_compared_by_their_bytes(dev: bytes | None, is_same: bool, graph: og.Graph) -> None:
    update = 'update P set { photo: $p } where name = "a"'
    run(graph, update, p=b"same")
    graph.mutate(f"query q($p: Blob?) {{ {update} }}", branch="dev", params={"p": dev})

    assert changes(graph) == ([] if is_same else [("P", "a", "updated", ("photo",))])


@pytest.mark.parametrize("has_moved", [False, True], ids=["where they lay", "rows moved"])
@pytest.mark.parametrize("column", ["n", "tags", "vec", "photo"])
def test_a_dropped_property_is_a_difference_of_the_rows_that_had_it_wherever_they_lie(
    column: str, has_moved: bool, graph: og.Graph
) -> None:
    """Whether rows were written anew since must not show."""
    run(graph, 'insert P { name: "full", n: 1, tags: ["t"], vec: [1.0, 2.0], photo: $photo }', "dev", photo=b"jpg")
    run(graph, 'insert P { name: "bare", f: 1.0 }', "dev")
    graph.branches.create("next", from_="dev")
    declared = {"n": "n: I32?", "tags": "tags: [String]?", "vec": "vec: Vector(2)?", "photo": "photo: Blob?"}
    graph.apply_schema(SCHEMA.replace(declared[column], ""), branch="next", allow_drops=True)
    if has_moved:
        graph.load([*exported(graph, "next", "P")], mode="overwrite", branch="next")

    there, back = changes(graph, "dev", "next"), changes(graph, "next", "dev")

    names = ("a", "b", "c", "full") if column == "n" else ("full",)
    assert there == back == [("P", name, "updated", (column,)) for name in names]
    assert graph.diff("dev", "next").counts()["P"].properties == {column: len(names)}


def test_a_property_that_took_the_name_of_a_dropped_one_is_compared_with_it(graph: og.Graph) -> None:
    graph.apply_schema(SCHEMA.replace("n: I32?", ""), branch="dev", allow_drops=True)
    graph.apply_schema(SCHEMA, branch="dev")
    run(graph, 'update P set { n: 1 } where name = "b"', "dev")

    assert changes(graph) == [("P", "a", "updated", ("n",)), ("P", "c", "updated", ("n",))]


def test_types_can_be_chosen(graph: og.Graph) -> None:
    put(graph, "d", branch="dev")
    run(graph, 'insert C { title: "t" }', "dev")

    assert list(graph.diff("main", "dev", types=["C"]).counts()) == ["C"]
    with pytest.raises(og.TypeMissingError, match="did you mean `Knows`"):
        graph.diff("main", "dev", types=["Know"])


def test_states_are_named_by_branch_commit_and_time(graph: og.Graph) -> None:
    first = graph.commits()[1]
    put(graph, "d", branch="dev")
    own = graph.commits(branch="dev")[0]

    assert changes(graph, first.id, own.id) == changes(graph, f"main@{first.at}", f"dev@{own.id}")
    assert [change[:3] for change in changes(graph, "dev@" + first.id, "dev")][1:] != []
    with pytest.raises(og.BranchMissingError):
        graph.diff("main", "nope")
    with pytest.raises(og.CommitMissingError):
        graph.diff("main", "0" * 26)


@pytest.mark.parametrize("seed", range(6))
def test_random_edits_of_two_branches_differ_as_their_exports_do(seed: int, graph: og.Graph) -> None:
    choice = random.Random(seed)
    for _ in range(12):
        branch, name, number = choice.choice(("main", "dev")), choice.choice("abcdefgh"), choice.randint(0, 3)
        match choice.choice(("put", "update", "delete", "many")):
            case "put":
                put(graph, name, branch=branch, n=number)
            case "update":
                run(graph, f'update P set {{ n: {number} }} where name = "{name}"', branch)  # noqa: S608 - no SQL
            case "delete":
                run(graph, f'delete P where name = "{name}"', branch)
            case "many":
                put(graph, *choice.sample("abcdefgh", 4), branch=branch, n=number)
    before, after = rows_of(graph, "main"), rows_of(graph, "dev")

    found = {one["id"]: (one["before"], one["after"]) for one in lines(graph, types=["P"])}

    assert found == {
        name: (before.get(name), after.get(name)) for name in before | after if before.get(name) != after.get(name)
    }


def rows_of(graph: og.Graph, branch: str) -> dict[str, dict[str, Any]]:
    rows = graph.table("P", branch=branch).to_table(columns=["name", "n", "tags", "vec", "f"]).to_pylist()
    return {row["name"]: row for row in rows}


def test_many_changed_rows_beside_deleted_ones_are_found(tmp_path: Path) -> None:
    """More rows than are looked up one by one, in fragments with holes on both sides."""
    graph = og.create_graph(str(tmp_path / "g"), "node P { v: I64 }", runtime=runtime(FAST))
    first, second = ({f"{half}{number:03}": number for number in range(500)} for half in "ab")
    write(graph, append=rows(first))
    write(graph, append=rows(second))
    graph.branches.create("dev")
    write(graph, delete=[*list(first)[100:200], *list(second)[::7]])
    write(graph, "dev", upsert=rows(dict.fromkeys([*list(first)[50:350], *list(second)[:300]], -1)))
    write(graph, "dev", delete=[*list(first)[:20], *list(second)[5::9]])
    sides = [plain_rows(graph, branch) for branch in ("main", "dev")]

    found = {one["id"]: (one["before"], one["after"]) for one in lines(graph)}

    before, after = ({name: {"v": value} for name, value in side.items()} for side in sides)
    assert len(found) > 500
    assert found == {
        name: (before.get(name), after.get(name)) for name in before | after if before.get(name) != after.get(name)
    }


def write(graph: og.Graph, branch: str = "main", **how: Any) -> None:
    write_tables(graph._session.checkout(branch), [TableWrite(table_key="node:P", **how)], operation="w", actor="x")


def plain_rows(graph: og.Graph, branch: str) -> dict[str, int]:
    table = graph.table("P", branch=branch).to_table(columns=["id", "v"])
    return dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


def test_the_cost_is_that_of_what_changed(tmp_path: Path) -> None:
    """Ten rows changed among a hundred times as many are found by reading as many bytes."""
    costs = []
    for size in (2_000, 200_000):
        graph = og.create_graph(str(tmp_path / f"{size}"), "node P { v: I64 }", runtime=runtime(FAST))
        session = graph._session
        names = pa.array([f"p{number:07}" for number in range(size)])
        big = pa.table({"id": names, "v": pa.array(range(size), pa.int64())})
        write_tables(session, [TableWrite(table_key="node:P", append=big)], operation="w", actor="x")
        graph.branches.create("dev")
        few = pa.table({"id": names[:10], "v": pa.array([-1] * 10, pa.int64())})
        write_tables(session.checkout("dev"), [TableWrite(table_key="node:P", upsert=few)], operation="w", actor="x")
        io_before = read_io_counts().nbytes
        counts = graph.diff("main", "dev").counts()
        costs.append(read_io_counts().nbytes - io_before)
        assert (counts["P"].updated, counts["P"].inserted, counts["P"].deleted) == (10, 0, 0)

    assert 0 < costs[1] <= costs[0] * 2


def test_the_command_counts_and_lists(graph: og.Graph, capfd: pytest.CaptureFixture[str]) -> None:
    put(graph, "d", branch="dev")
    run(graph, 'update P set { n: 9 } where name = "b"', "dev")

    codes = [main(["diff", "main", "dev", graph.uri, *more]) for more in ([], ["--json"], ["--format", "jsonl"])]

    out = capfd.readouterr().out.splitlines()
    assert codes == [0, 0, 0]
    assert out[0].split() == ["type", "inserted", "updated", "deleted", "changed", "properties"]
    assert out[1].split() == ["P", "1", "1", "0", "n", "(1)"]
    assert [json.loads(line)["id"] for line in out[-2:]] == ["d", "b"]
    start = out.index("{")
    assert [line.split()[:3] for line in out[2:start]] == [
        [],
        ["type", "id", "values"],
        ["+", "P", "d"],
        ["~", "P", "b"],
    ]
    document = json.loads("\n".join(out[start:-2]))
    assert document["types"] == {"P": {"inserted": 1, "updated": 1, "deleted": 0, "properties": {"n": 1}}}


def test_schemas_that_differ_are_told_before_the_rows(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    reshaped = SCHEMA.replace("n: I32?", 'size: I32? @rename_from("n")  rank: I32?').replace(
        "node C { title: String }", ""
    )
    graph.apply_schema(reshaped + "node Team { name: String @key }", branch="dev")

    code = main(["diff", "main", "dev", graph.uri])

    assert code == 0
    assert capsys.readouterr().out.splitlines() == [
        "schema: C was dropped",
        "schema: Team is new",
        "schema: P.n was renamed to size",
        "schema: P.rank is new",
        "no row differs",
    ]
    told = graph.diff("main", "dev").to_json()["schema"]
    assert told == graph.commit_changes(graph.snapshot(branch="dev").commit.id).summary()["schema"]


def test_a_new_rule_is_a_difference_of_its_type_only(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    graph.apply_schema(SCHEMA.replace("title: String", "title: String @index"), branch="dev")

    main(["diff", "main", "dev", graph.uri])

    assert capsys.readouterr().out == "schema: only rules, indexes or descriptions\nno row differs\n"
    assert graph.diff("main", "dev", types=["P"]).schema is None
    assert graph.diff("main", "dev", types=["C"]).schema is not None


def test_the_command_says_when_nothing_differs(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "main", "dev", graph.uri]) == 0
    assert capsys.readouterr().out == "no differences\n"


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
def test_pages_are_the_whole_diff_in_its_order(graph: og.Graph, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Chunks of a few rows, so that pages end in the middle of some and at the end of others.
    monkeypatch.setattr(diff_module, "PAGE_BATCH_ROWS", 3)
    monkeypatch.setattr(table_diff, "COMPARED_ROWS", 4)
    monkeypatch.setattr(table_diff, "MATCHED_ROWS", 8)
    put(graph, *(f"old{number}" for number in range(12)))
    graph.branches.create("work")
    put(graph, *(f"new{number}" for number in range(9)), branch="work")
    run(graph, "update P set { n: 7 } where name starts_with 'old1'".replace("'", '"'), branch="work")
    run(graph, 'delete P where name starts_with "old2"', branch="work")
    run(graph, 'insert Knows { from: "new1", to: "b", w: 2 } insert C { title: "t" }', branch="work")

    difference = graph.diff("main", "work")
    pages: list[bytes] = []
    start: DiffPosition | None = DiffPosition()
    while start is not None:
        page = graph.diff("main", "work").read_page(start, limit)
        assert 0 < len(page.lines) <= limit
        pages += page.lines
        start = page.next

    assert len(pages) > 10
    assert pages == [line.rstrip(b"\n") for line in difference.json_lines()]


def test_a_late_page_reads_no_more_than_the_first(graph: og.Graph) -> None:
    put(graph, *(f"p{number:05}" for number in range(300)), branch="dev")
    position, costs = DiffPosition(), []
    while True:
        difference = graph.diff("main", "dev")
        before = read_io_counts()
        page = difference.read_page(position, 20)
        costs.append(read_io_counts().nbytes - before.nbytes)
        if page.next is None:
            break
        position = page.next

    assert len(costs) == 15
    # The first page matches the ids, which the others find in the cache.
    assert max(costs[1:]) <= costs[0]
