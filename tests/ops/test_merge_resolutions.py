"""Conflicts that are decided row by row: what each decision does, and what is refused."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from merging import change, contents, new_graph, row, run, try_merge
from worlds import runtime

Documents = list[dict[str, Any]]
SCHEMA = """
node P { name: String @key  n: I32?  m: I32?  email: String?  photo: Blob?  @unique(email)  @range(n, 0..100) }
node C { name: String @key  v: I32? }
edge Knows: P -> P { w: I32?  z: I32?  @key(src, dst) }
edge Likes: P -> C { w: I32? }
edge Owns: P -> C @card(0..1) { w: I32?  @key(src, dst) }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path, SCHEMA)


def list_conflicts(graph: og.Graph, source: str = "dev") -> Documents:
    return graph.merge(source, dry_run=True, all_conflicts=True).list_conflicts()


def decide(documents: Documents, take: object | Callable[[dict[str, Any]], object]) -> Documents:
    return [documents[0], *({**one, "take": take(one) if callable(take) else take} for one in documents[1:])]


def resolve(graph: og.Graph, take: object | Callable[[dict[str, Any]], object]) -> og.MergeResult:
    return graph.merge("dev", resolutions=decide(list_conflicts(graph), take))


@pytest.mark.parametrize(
    "take, expected", [("ours", 5), ("theirs", 6), ("base", 1), ({"value": 9}, 9), ({"value": None}, None)]
)
@pytest.mark.parametrize("keeps_theirs", [False, True])
def test_a_property_is_taken_from_a_state_or_given(
    graph: og.Graph, take: object, expected: object, keeps_theirs: bool
) -> None:
    run(graph, change("P", "n", 5, name="a") + change("P", "m", 50, name="a"))
    run(graph, change("P", "n", 6, name="a") + change("P", "email", '"x"', name="a"), "dev")
    if keeps_theirs:
        # Only this side has the columns of the merged schema, so that its table is the one to start from.
        graph.apply_schema(SCHEMA.replace("m: I32?  email", "m: I32?  extra: I32?  email"), branch="dev")

    done = resolve(graph, take)

    merged = row(graph, "a")
    assert done.commit_id is not None
    assert merged is not None
    assert (merged["n"], merged["m"], merged["email"]) == (expected, 50, "x")
    assert not graph.check().findings


def test_rows_that_both_inserted(graph: og.Graph) -> None:
    run(graph, 'insert P { name: "new", n: 1, m: 7 }')
    run(graph, 'insert P { name: "new", n: 2, m: 7 }', "dev")
    documents = list_conflicts(graph)

    with pytest.raises(og.BadArgumentError, match="line 2: the base has no value to take"):
        graph.merge("dev", resolutions=decide(documents, "base"))
    graph.merge("dev", resolutions=decide(documents, "theirs"))

    assert row(graph, "new") == {"name": "new", "n": 2, "m": 7, "email": None}


@pytest.mark.parametrize("is_ours_deleted", [True, False])
@pytest.mark.parametrize("take", ["ours", "theirs", "base", {"value": {"n": 33}}])
def test_a_row_that_one_side_deleted(graph: og.Graph, is_ours_deleted: bool, take: object) -> None:
    deleter, changer = ("main", "dev") if is_ours_deleted else ("dev", "main")
    run(graph, 'delete P where name = "a"', deleter)
    run(graph, change("P", "n", 5, name="a"), changer)

    resolve(graph, take)

    merged = contents(graph)
    if take == ("ours" if is_ours_deleted else "theirs"):
        assert "a" not in merged["P"]
        assert merged["Knows"] == {}
    else:
        expected = {"base": 1}.get(str(take), 33 if isinstance(take, dict) else 5)
        assert (merged["P"]["a"]["n"], merged["P"]["a"]["m"]) == (expected, 1)
        # A node that stays keeps its edges.
        assert list(merged["Knows"]) == ['["a","b"]']
    assert not graph.check().findings


@pytest.mark.parametrize("maker", ["main", "dev"])
@pytest.mark.parametrize("take", ["drop_edge", "keep_node"])
def test_an_edge_without_an_end(graph: og.Graph, maker: str, take: str) -> None:
    deleter = "dev" if maker == "main" else "main"
    run(graph, 'delete P where name = "b"', deleter)
    run(graph, 'insert Knows { from: "c", to: "b", w: 4 }', maker)
    documents = list_conflicts(graph)
    assert [(one["kind"], one["type"], one["id"]) for one in documents[1:]] == [("OrphanEdge", "Knows", '["c","b"]')]

    graph.merge("dev", resolutions=decide(documents, take))

    merged = contents(graph)
    if take == "drop_edge":
        assert ("b" in merged["P"], merged["Knows"]) == (False, {})
    else:
        assert merged["P"]["b"]["n"] == 1
        assert sorted(merged["Knows"]) == ['["a","b"]', '["c","b"]']
    assert not graph.check().findings


@pytest.mark.parametrize("take", ["drop", {"value": "other@x"}])
def test_values_that_must_be_unique(graph: og.Graph, take: object) -> None:
    run(graph, change("P", "email", '"same@x"', name="a"))
    run(graph, change("P", "email", '"same@x"', name="c") + 'insert Knows { from: "c", to: "d" }', "dev")
    documents = list_conflicts(graph)
    (conflict,) = documents[1:]

    graph.merge("dev", resolutions=decide(documents, take))

    merged = contents(graph)
    if take == "drop":
        assert conflict["id"] not in merged["P"]
        assert not [edge for edge in merged["Knows"] if f'"{conflict["id"]}"' in edge]
    else:
        assert merged["P"][conflict["id"]]["email"] == "other@x"
    assert not graph.check().findings


@pytest.mark.parametrize("take", ["drop", {"value": ['["a","y"]']}])
def test_too_many_edges(graph: og.Graph, take: object) -> None:
    run(graph, 'insert Owns { from: "a", to: "x" }')
    run(graph, 'insert Owns { from: "a", to: "y" }', "dev")

    resolve(graph, take)

    assert list(contents(graph)["Owns"]) == ([] if take == "drop" else ['["a","y"]'])
    assert not graph.check().findings


def test_a_value_that_breaks_a_rule_is_a_conflict_and_writes_nothing(graph: og.Graph) -> None:
    run(graph, change("P", "n", 5, name="a"))
    run(graph, change("P", "n", 6, name="a"), "dev")
    head = graph.snapshot().commit.id

    with pytest.raises(og.MergeConflictsError, match="@range") as error:
        resolve(graph, {"value": 1_000})

    assert [one.kind.value for one in error.value.result.conflicts] == ["ValueConstraintViolation"]
    assert graph.snapshot().commit.id == head


def test_what_does_not_fit_is_refused_all_at_once(graph: og.Graph) -> None:
    for name in "abcd":
        run(graph, change("P", "n", 5, name=name))
        run(graph, change("P", "n", 6, name=name), "dev")
    first, *lines = decide(list_conflicts(graph), "ours")
    head = graph.snapshot().commit.id
    wrong = [
        first,
        {**lines[0], "id": "nobody"},
        {**lines[1], "take": None},
        {**lines[2], "take": {"value": "text"}},
        {**lines[2]},
        {"kind": "DivergentUpdate"},
        {**lines[3], "theirs": 77},
    ]

    with pytest.raises(og.BadArgumentError) as error:
        graph.merge("dev", resolutions=wrong)

    message = str(error.value)
    for part in (
        "line 2: there is no such conflict: DivergentUpdate of P.n `nobody`",
        "line 3: nothing is taken yet",
        "line 4: `n` of P can't have this value",
        "line 5: line 4 is about the same conflict",
        "line 6: a resolution has kind, type, id, property and take",
        "line 7: `theirs` is not the value of that state",
        "no line resolves DivergentUpdate of P.n `a`",
    ):
        assert part in message
    assert graph.snapshot().commit.id == head


@pytest.mark.parametrize("value", ["\ud800", 10**40, object(), [1], True])
def test_a_state_that_no_conflict_has_is_refused(graph: og.Graph, value: object) -> None:
    run(graph, change("P", "email", '"o"', name="a"))
    run(graph, change("P", "email", '"t"', name="a"), "dev")
    decisions = [{**one, "ours": value} if "take" in one else one for one in decide(list_conflicts(graph), "ours")]

    with pytest.raises(og.BadArgumentError, match="`ours` is not the value of that state"):
        graph.merge("dev", resolutions=decisions)


def test_a_tool_may_write_numbers_in_another_way(graph: og.Graph) -> None:
    run(graph, change("P", "n", 5, name="a"))
    run(graph, change("P", "n", 6, name="a"), "dev")
    decisions = decide(list_conflicts(graph), "theirs")

    graph.merge("dev", resolutions=[decisions[0], *({**one, "ours": 5.0} for one in decisions[1:])])

    assert (row(graph, "a") or {})["n"] == 6


def test_decisions_that_contradict_each_other(graph: og.Graph) -> None:
    run(graph, 'delete P where name = "b"')
    run(graph, 'insert Knows { from: "c", to: "b" }' + change("P", "n", 5, name="b"), "dev")
    documents = list_conflicts(graph)

    def take(one: dict[str, Any]) -> str:
        return "keep_node" if one["kind"] == "OrphanEdge" else "ours"

    with pytest.raises(og.BadArgumentError, match="it deletes P `b`, which line 3 keeps"):
        graph.merge("dev", resolutions=decide(documents, take))


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_they_hold_for_the_heads_they_were_made_for(graph: og.Graph, branch: str) -> None:
    run(graph, change("P", "n", 5, name="a"))
    run(graph, change("P", "n", 6, name="a"), "dev")
    decided = decide(list_conflicts(graph), "theirs")
    run(graph, change("C", "v", 3, name="x"), branch)

    with pytest.raises(og.ConflictError, match="the resolutions are for other states"):
        graph.merge("dev", resolutions=decided)

    run_again = graph.merge("dev", resolutions=decide(list_conflicts(graph), "theirs"))
    assert run_again.commit_id is not None


def test_schemas_are_not_settled_here(graph: og.Graph) -> None:
    graph.apply_schema(SCHEMA.replace("v: I32?", "v: I32?  w: I32?"))
    graph.apply_schema(SCHEMA.replace("v: I32?", "v: I32?  w: F64?"), branch="dev")

    documents = list_conflicts(graph)
    with pytest.raises(og.MergeConflictsError):
        graph.merge("dev", resolutions=decide(documents, "ours"))


def test_thousands_of_conflicts_of_which_one_value_breaks_a_rule(tmp_path: Path) -> None:
    schema = "node P { name: String @key  n: I32?  m: I32?  @range(n, 0..10000) }"
    graph = og.create_graph(str(tmp_path / "many"), schema, runtime=runtime())

    def load(add: int, branch: str) -> None:
        lines = "".join(f'{{"type":"P","data":{{"name":"p{n}","n":{(n + add) % 9_000}}}}}\n' for n in range(5_000))
        graph.load(BytesIO(lines.encode()), mode="merge", branch=branch)

    load(0, "main")
    graph.branches.create("dev")
    load(1, "main")
    load(2, "dev")
    documents = list_conflicts(graph)
    assert len(documents) == 5_001
    takes: list[object] = ["ours", "theirs", "base", {"value": 7}]
    decided = [documents[0], *({**one, "take": takes[at % 4]} for at, one in enumerate(documents[1:]))]

    broken = [*decided[:-1], {**decided[-1], "take": {"value": 99_999}}]
    with pytest.raises(og.MergeConflictsError, match="@range"):
        graph.merge("dev", resolutions=broken)
    stale = [*decided[:-1], {**decided[-1], "theirs": -1}]
    with pytest.raises(og.BadArgumentError, match="line 5001: `theirs` is not the value"):
        graph.merge("dev", resolutions=stale)
    graph.merge("dev", resolutions=decided)

    merged = contents(graph)["P"]
    for at, one in enumerate(documents[1:]):
        assert merged[one["id"]]["n"] == [one["ours"], one["theirs"], one["base"], 7][at % 4]


@pytest.mark.parametrize("take, expected", [("ours", 7), ("theirs", 1), ("base", 5), ({"value": 8}, 8)])
def test_a_revert_takes_decisions_too(graph: og.Graph, take: object, expected: int) -> None:
    run(graph, change("P", "n", 5, name="a"))
    commit = graph.snapshot().commit.id
    run(graph, change("P", "n", 7, name="a"))
    documents = graph.revert(commit, dry_run=True, all_conflicts=True).list_conflicts()

    graph.revert(commit, resolutions=decide(documents, take))

    merged = row(graph, "a")
    assert merged is not None
    assert merged["n"] == expected


def test_a_revert_of_a_node_that_got_edges_can_keep_the_node(graph: og.Graph) -> None:
    run(graph, 'insert P { name: "new" }')
    commit = graph.snapshot().commit.id
    run(graph, 'insert Knows { from: "a", to: "new" }')
    documents = graph.revert(commit, dry_run=True, all_conflicts=True).list_conflicts()
    assert [one["kind"] for one in documents[1:]] == ["OrphanEdge"]

    graph.revert(commit, resolutions=decide(documents, "drop_edge"))

    assert "new" not in contents(graph)["P"]
    assert not graph.check().findings


def test_a_cherry_pick_takes_decisions_too(graph: og.Graph) -> None:
    run(graph, change("P", "n", 6, name="a"), "dev")
    run(graph, change("P", "n", 5, name="a"))
    documents = graph.cherry_pick("dev", dry_run=True, all_conflicts=True).list_conflicts()

    graph.cherry_pick("dev", resolutions=decide(documents, "theirs"))

    merged = row(graph, "a")
    assert merged is not None
    assert merged["n"] == 6


def test_blobs_are_taken_from_a_side(graph: og.Graph) -> None:
    for branch, data in (("main", "QUJD"), ("dev", "REVG")):
        run(graph, 'update P set { photo: $b } where name = "a"', branch, b=f"base64:{data}")
    documents = list_conflicts(graph)

    with pytest.raises(og.BadArgumentError, match="`photo` is a Blob"):
        graph.merge("dev", resolutions=decide(documents, {"value": "base64:QQ=="}))
    graph.merge("dev", resolutions=decide(documents, "theirs"))

    photo = graph.blob("P", "a", "photo")
    assert photo is not None
    assert photo.read() == b"DEF"


def test_without_decisions_the_result_is_as_before(graph: og.Graph) -> None:
    for name in "abcd":
        run(graph, change("P", "n", 5, name=name))
        run(graph, change("P", "n", 6, name=name), "dev")

    result = try_merge(graph, "dev")

    assert result.conflict_total == 4
    assert result.into_commit == graph.snapshot().commit.id
