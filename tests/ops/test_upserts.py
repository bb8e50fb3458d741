"""What a keyed insert leaves out of a row that exists stays; null clears. A load in merge mode does the same."""

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from load_calls import edge, node
from mutating import new_graph, rows, run
from omnigraph.engine.constraints.check import check_constraints
from omnigraph.ops import mutate as mutate_module

SCHEMA = """
node Doc {
  name: String @key
  n: I32?
  level: I32 @default(1)
  mood: enum(calm, glad) @default("calm")
  tags: [String]?
  body: String?
  vec: Vector(2)? @embed("body")
  free: Vector(2)?
  pic: Blob?
  code: String? @unique
  @range(n, 0..9)
}
edge Cites: Doc -> Doc { page: I32?  why: String @default("")  @key(src, dst) }
"""
FULL = {
    "n": 3,
    "level": 7,
    "mood": "glad",
    "tags": ["x"],
    "body": "text",
    "vec": [1.0, 2.0],
    "free": [3.0, 4.0],
    "pic": "base64:aGk=",
    "code": "c",
}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = new_graph(tmp_path, SCHEMA)
    made.load(
        [node("Doc", name="a", **FULL), node("Doc", name="b"), edge("Cites", "a", "b", page=4, why="so")],
        mode="append",
    )
    return made


def doc(graph: og.Graph, name: str = "a") -> dict[str, Any]:
    (row,) = [one for one in rows(graph, "Doc") if one["id"] == name]
    blob = graph.blob("Doc", name, "pic")
    return {**row, "pic": None if blob is None else blob.read()}


BEFORE = {**FULL, "id": "a", "name": "a", "pic": b"hi"}


@pytest.mark.parametrize(
    "given, changed",
    [
        ("n: 4", {"n": 4}),
        ("n: null", {"n": None}),
        ("level: 8", {"level": 8}),
        ("tags: null, code: null", {"tags": None, "code": None}),
        ('pic: "base64:aG8="', {"pic": b"ho"}),
        ("pic: null, free: null", {"pic": None, "free": None}),
        ('body: "text"', {}),
        ('body: "other"', {"body": "other", "vec": None}),
        ('body: "other", vec: [5.0, 6.0]', {"body": "other", "vec": [5.0, 6.0]}),
        ("body: null", {"body": None, "vec": None}),
    ],
)
def test_what_an_insert_leaves_out_stays(graph: og.Graph, given: str, changed: dict[str, object]) -> None:
    run(graph, f'insert Doc {{ name: "a", {given} }}')

    assert doc(graph) == {**BEFORE, **changed}


def test_an_insert_of_nothing_but_the_key_changes_nothing(graph: og.Graph) -> None:
    run(graph, 'insert Doc { name: "a" }')

    assert doc(graph) == BEFORE


def test_a_new_row_has_defaults(graph: og.Graph) -> None:
    run(graph, 'insert Doc { name: "new", n: 1 }')

    found = doc(graph, "new")
    assert (found["n"], found["level"], found["mood"], found["tags"], found["pic"]) == (1, 1, "calm", None, None)


def test_inserts_of_one_mutation_add_up(graph: og.Graph) -> None:
    run(
        graph,
        'insert Doc { name: "a", n: 5 } insert Doc { name: "new", level: 4 } insert Doc { name: "a", body: "more" }'
        ' insert Doc { name: "new", mood: "glad" } insert Doc { name: "b", n: 2 }',
    )

    assert doc(graph) == {**BEFORE, "n": 5, "body": "more", "vec": None}
    assert (doc(graph, "new")["level"], doc(graph, "new")["mood"]) == (4, "glad")
    assert (doc(graph, "b")["n"], doc(graph, "b")["level"]) == (2, 1)


def test_an_insert_sees_what_an_update_before_it_did(graph: og.Graph) -> None:
    run(graph, 'update Doc set { n: 6, body: "new" } where name = "a" insert Doc { name: "a", level: 2 }')

    assert doc(graph) == {**BEFORE, "n": 6, "body": "new", "vec": None, "level": 2}


def test_an_update_sees_what_an_insert_before_it_kept(graph: og.Graph) -> None:
    run(graph, 'insert Doc { name: "a", n: 6 } update Doc set { n: 9 } where level = 7')

    assert doc(graph) == {**BEFORE, "n": 9}


def test_an_edge_with_a_key_keeps_too(graph: og.Graph) -> None:
    run(graph, 'insert Cites { from: "a", to: "b" }')
    run(graph, 'insert Cites { from: "a", to: "b", page: null }')

    (cites,) = rows(graph, "Cites")
    assert (cites["page"], cites["why"]) == (None, "so")


def test_a_kept_value_is_no_clash_with_itself(graph: og.Graph) -> None:
    run(graph, 'insert Doc { name: "a", n: 1 }')

    assert doc(graph)["code"] == "c"
    with pytest.raises(og.ConstraintError, match="'c' is held by 'a' and 'b'"):
        run(graph, 'insert Doc { name: "b", code: "c" }')


@pytest.mark.parametrize(
    "text, record",
    [
        ("", {}),
        (", n: null", {"n": None}),
        (", n: 2, level: 3", {"n": 2, "level": 3}),
        (', body: "b", code: null', {"body": "b", "code": None}),
        (', tags: ["q"]', {"tags": ["q"]}),
    ],
)
@pytest.mark.parametrize("name", ["a", "new"])
def test_a_mutation_and_a_merge_do_the_same(graph: og.Graph, name: str, text: str, record: dict[str, object]) -> None:
    graph.branches.create("merged")

    run(graph, f'insert Doc {{ name: "{name}"{text} }}')
    graph.load([node("Doc", name=name, **record)], mode="merge", branch="merged")

    assert list(graph.diff("main", "merged")) == []


def test_a_row_that_another_writer_changed_meanwhile_is_read_again(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = og.open_graph(graph.uri)
    check, waiting = check_constraints, ['update Doc set { level: 2 } where name = "a"']

    def check_then_write(*arguments: Any) -> Any:
        found = check(*arguments)
        if waiting:
            run(other, waiting.pop())
        return found

    monkeypatch.setattr(mutate_module, "check_constraints", check_then_write)
    run(graph, 'insert Doc { name: "a", n: 1 }')

    assert doc(graph) == {**BEFORE, "n": 1, "level": 2}


def test_an_insert_without_what_is_required_says_that_an_update_would_do(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, "node Q { name: String @key  r: I32 }")

    with pytest.raises(og.SourceError, match=r"because the key may be new; to change an existing row, use `update`"):
        run(graph, 'insert Q { name: "a" }')
