"""The difference that a merge would bring, and what lies around it."""

from collections.abc import Iterator
from typing import Any

import pytest

import omnigraph as og
from serving import Served, serving

MORE = (
    b'{"type":"Person","data":{"name":"Cy"}}\n{"type":"Person","data":{"name":"Dee"}}\n'
    b'{"type":"Person","data":{"name":"Eve"}}\n{"edge":"Knows","from":"Bob","to":"Cy"}\n'
    b'{"edge":"Knows","from":"Cy","to":"Dee"}\n'
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = serving(tmp_path_factory.mktemp("around"))
    path = made.home / "more.jsonl"
    path.write_bytes(MORE)
    made.graph.load(path, mode="append")
    made.graph.branches.create("review")
    made.graph.mutate('query q() { update Person set { age: 37 } where name = "Ada" }', branch="review")
    made.graph.mutate('query q() { insert Knows { from: "Cy", to: "Eve" } }', branch="review")
    made.graph.mutate('query q() { delete Knows where from = "Cy" and to = "Dee" }', branch="review")
    made.graph.mutate('query q() { update Person set { age: 1 } where name = "Dee" }')
    with made.client:
        yield made


def diffed(served: Served, **params: Any) -> Any:
    query = {"before": "main", "after": "review", **params}
    answer = served.client.get("/graphs/people/diff", params=query, headers=served.as_role("reader"))
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_base_of_a_merge_leaves_out_what_only_the_target_changed(served: Served) -> None:
    plain, merged = diffed(served), diffed(served, base="merge")

    assert [change["id"] for change in plain["changes"] if "type" in change] == ["Ada", "Dee"]
    assert [change["id"] for change in merged["changes"] if "type" in change] == ["Ada"]
    assert merged["before"] == served.graph.branches.list()[1].parent_commit


def test_pages_of_a_merge_are_of_one_base(served: Served) -> None:
    first = diffed(served, base="merge", limit=1)
    rest = diffed(served, base="merge", cursor=first["next_cursor"])

    assert [*first["changes"], *rest["changes"]] == diffed(served, base="merge")["changes"]


def test_a_graph_around_changes_has_unchanged_rows_only(served: Served) -> None:
    graph = diffed(served, base="merge", around=10)["graph"]

    assert {node["id"] for node in graph["nodes"]} == {"Bob", "Cy", "Dee", "Eve"}
    assert [(edge["src"], edge["dst"]) for edge in graph["edges"]] == [("Ada", "Bob")]
    assert {item["@type"] for item in (*graph["nodes"], *graph["edges"])} == {"Person", "Knows"}
    assert graph["is_cut"] is False


def test_the_edges_around_are_limited(served: Served) -> None:
    graph = diffed(served, base="merge", around=0, types=["Person"])["graph"]

    assert (graph["nodes"], graph["edges"]) == ([], [])


def test_a_base_is_named_in_python_too(served: Served) -> None:
    graph = served.graph

    counts = graph.diff("main", "review", base="merge").counts()

    assert counts["Person"].updated == 1
    with pytest.raises(og.BadArgumentError, match="`merge` is the merge base"):
        graph.diff("main", "review", base="merg")
