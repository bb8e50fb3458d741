"""Merging records: what they leave out stays, what they say twice is not written, and every rule still holds."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from load_calls import edge, loaded, node, person, refused
from mutating import column, new_graph, rows
from omnigraph.ops.load import LoadError, TypeCounts


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path)


def test_a_merge_keeps_what_a_record_leaves_out(graph: og.Graph) -> None:
    loaded(graph, "append", person("a", age=1, email="a@", score=1.5), person("b", age=2))

    result = loaded(graph, "merge", person("a", age=7), person("c", score=3.0))

    assert result.nodes == {"Person": TypeCounts(read=2, inserted=1, updated=1)}
    assert rows(graph, "Person", "id", "age", "email", "score") == [
        {"id": "a", "age": 7, "email": "a@", "score": 1.5},
        {"id": "b", "age": 2, "email": None, "score": None},
        {"id": "c", "age": None, "email": None, "score": 3.0},
    ]


def test_records_that_leave_out_different_properties_each_keep_their_own(graph: og.Graph) -> None:
    full = {name: {"age": age, "score": age / 2, "born": f"200{age}-01-02"} for age, name in enumerate("abcdef")}
    loaded(graph, "append", *(person(name, **values) for name, values in full.items()))
    given: dict[str, dict[str, object]] = {
        "f": {"age": 50},  # each leaves out others of the three, and they come in another order than they are stored
        "b": {"score": 51.0, "born": "2051-01-01"},
        "e": {"age": 52, "born": None},
        "a": {"score": 53.0},
        "d": {"age": 54, "score": 54.0, "born": "2054-01-01"},
    }

    loaded(graph, "merge", *(person(name, **values) for name, values in given.items()))
    again = loaded(graph, "merge", *(person(name, **values) for name, values in given.items()))

    assert again.commit_id is None
    found = {row.pop("id"): row for row in rows(graph, "Person", "id", "age", "score", "born")}
    expected = {name: {**full[name], **given.get(name, {})} for name in full}
    assert {name: {**row, "born": row["born"] and str(row["born"])} for name, row in found.items()} == expected


def test_an_explicit_null_clears(graph: og.Graph) -> None:
    loaded(graph, "append", person("a", age=1, email="a@"))

    loaded(graph, "merge", person("a", email=None))

    assert rows(graph, "Person", "age", "email") == [{"age": 1, "email": None}]


def test_a_default_is_for_new_rows_only(graph: og.Graph) -> None:
    loaded(graph, "append", person("a", mood="sad"))

    loaded(graph, "merge", person("a", age=1), person("b"))

    assert column(graph, "Person", "mood") == ["sad", "glad"]


def test_a_new_row_needs_its_required_values(graph: og.Graph) -> None:
    loaded(graph, "append", node("City", "r", name="Rome", zip=1))

    assert loaded(graph, "merge", node("City", "r", zip=2)).nodes["City"].updated == 1
    assert refused(graph, "merge", node("City", "r", zip=3), node("City", "o", zip=4)) == [
        "in.jsonl, line 2: City.name: a value is required: a string, because 'o' is new"
    ]


def test_rows_that_a_merge_does_not_change_are_not_written(graph: og.Graph) -> None:
    records = (person("a", age=1, score=0.5), person("b", born="2000-01-02"), edge("Knows", "a", "b", since=1))
    loaded(graph, "append", *records)
    before = graph.snapshot().commit.id

    same = loaded(graph, "merge", *records)
    other = loaded(graph, "merge", *records[:2], edge("Knows", "a", "b", since=2))

    assert same.commit_id is None
    assert same.nodes == {"Person": TypeCounts(read=2, unchanged=2)}
    assert other.edges == {"Knows": TypeCounts(read=1, updated=1)}
    assert [change.table_key for change in graph.snapshot().commit.changes] == ["edge:Knows"]
    assert graph.snapshot().commit.parent == before


EVERY_TYPE = """
node T {
  k: String @key
  s: String?  b: Bool?  i: I32?  l: I64?  u: U64?  f: F32?  d: F64?  day: Date?  at: DateTime?
  v: Vector(2)?  tags: [String]?  nums: [F64]?  blob: Blob?
}
"""
FULL = {
    "s": "é\0x",
    "b": True,
    "i": -1,
    "l": "9007199254740993",
    "u": "18446744073709551615",
    "f": 0.1,
    "d": -0.0,
    "day": "2020-02-29",
    "at": "2026-01-02T03:04:05.123456Z",
    "v": [0.5, -0.0],
    "tags": ["a", "", "ü"],
    "nums": [],
    "blob": "base64:AAEC",
}


@pytest.mark.parametrize("changed", [None, *FULL])
def test_a_merge_of_every_type_changes_what_it_says(tmp_path: Path, changed: str | None) -> None:
    graph = new_graph(tmp_path, EVERY_TYPE)
    loaded(graph, "append", *(node("T", k=key, **FULL) for key in "xyz"))
    before = exported(graph)

    same = loaded(graph, "merge", node("T", k="y", **FULL))
    result = loaded(graph, "merge", node("T", k="y", **({} if changed is None else {changed: None})))

    assert same.nodes["T"].unchanged == 1
    assert result.nodes["T"].updated == (changed is not None)
    expected = [dict(one) for one in before]
    if changed is not None:
        expected[1] = {**before[1], "data": {**before[1]["data"], changed: None}}
    assert exported(graph) == expected


def exported(graph: og.Graph) -> list[dict[str, Any]]:
    """Every record, by id."""
    stream = io.BytesIO()
    graph.export(stream)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_merge_of_other_values_is_a_change_for_every_type(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, EVERY_TYPE)
    loaded(graph, "append", node("T", k="x", **FULL))
    others = {"s": "é", "b": False, "i": 0, "l": 1, "u": 2, "f": 0.2, "d": 0.0, "day": "2020-02-28", "v": [0.5, 0.0]}
    others |= {"at": "2026-01-02T03:04:05Z", "tags": ["a", "ü", ""], "nums": [1.0], "blob": "base64:AAED"}

    for name, value in others.items():
        assert loaded(graph, "merge", node("T", k="x", **{name: value})).nodes["T"].updated == 1, name

    assert loaded(graph, "merge", node("T", k="x", **others)).nodes["T"].unchanged == 1


def test_a_value_that_a_merge_frees_may_be_taken(graph: og.Graph) -> None:
    loaded(graph, "append", person("a", email="x@"), person("b", email="y@"))

    loaded(graph, "merge", person("a", email="y@"), person("b", email="x@"))

    assert column(graph, "Person", "email") == ["y@", "x@"]


def test_a_unique_value_that_a_record_leaves_out_is_still_held(graph: og.Graph) -> None:
    loaded(graph, "append", person("a", email="x@"))

    assert refused(graph, "merge", person("a", age=3), person("b", email="x@")) == [
        "in.jsonl, line 2: @unique violation on Person.email: 'x@' is held by 'a' and 'b'"
    ]


def test_a_keyed_edge_is_merged(graph: og.Graph) -> None:
    loaded(graph, "append", person("a"), person("b"), edge("Knows", "a", "b", since=1))

    result = loaded(graph, "merge", edge("Knows", "a", "b", since=2), edge("Knows", "b", "a", since=3))

    assert result.edges == {"Knows": TypeCounts(read=2, inserted=1, updated=1)}
    assert column(graph, "Knows", "since") == [2, 3]


def test_an_edge_that_a_merge_moves_is_counted_where_it_is(graph: og.Graph) -> None:
    loaded(graph, "append", person("a"), person("b"), node("City", "r", name="Rome"), edge("WorksAt", "a", "r", "w"))

    loaded(graph, "merge", edge("WorksAt", "b", "r", "w"), edge("WorksAt", "a", "r", "x"))

    assert sorted(column(graph, "WorksAt", "src")) == ["a", "b"]
    assert refused(graph, "merge", edge("WorksAt", "a", "r", "w")) == [
        "in.jsonl, line 1: @card violation on WorksAt: 'a' has 2 edges (max 1)"
    ]


@pytest.mark.parametrize("moved", [False, True])
def test_of_too_many_edges_the_one_that_was_there_before_stays(graph: og.Graph, tmp_path: Path, moved: bool) -> None:
    cities = [node("City", name, name=name) for name in "rs"]
    loaded(graph, "append", person("a"), person("b"), *cities, edge("WorksAt", "a", "r", "old"))
    loaded(graph, "append", edge("WorksAt", "b", "r", "other"))
    surplus = edge("WorksAt", "a", "s", "other" if moved else "new")

    result = loaded(graph, "merge", surplus, edge("WorksAt", "a", "s", "old"), on_error=tmp_path / "bad")

    assert result.rejected == 1
    (reason,) = map(json.loads, (tmp_path / "bad" / "reasons.jsonl").read_text().splitlines())
    assert (reason["line"], reason["rule"]) == (1, "card")
    found = {row["id"]: (row["src"], row["dst"]) for row in rows(graph, "WorksAt", "id", "src", "dst")}
    assert found == {"old": ("a", "s"), "other": ("b", "r")}


def test_an_edge_that_its_source_needs_is_not_moved_away(graph: og.Graph) -> None:
    teams = [one for name in "tu" for one in (node("Team", name=name), edge("Leads", name, "a", f"l{name}"))]
    loaded(graph, "append", person("a"), *teams)

    assert refused(graph, "merge", edge("Leads", "u", "a", "lt")) == [
        "in.jsonl, line 1: @card violation on Leads: 't' has 0 edges (min 1)"
    ]


@pytest.mark.parametrize("count", [10, 5_000])
def test_a_merge_of_many_rows_is_one_of_few(tmp_path: Path, count: int) -> None:
    graph = new_graph(tmp_path, "node N { k: String @key  v: I64  w: I64? }")
    names = [f"n{number}" for number in range(count)]
    loaded(graph, "append", *(node("N", k=name, v=1, w=number) for number, name in enumerate(names)))

    result = loaded(graph, "merge", *(node("N", k=name, v=1 + number % 2) for number, name in enumerate(names)))

    assert result.nodes["N"] == TypeCounts(read=count, updated=count // 2, unchanged=count // 2)
    found = {row["id"]: (row["v"], row["w"]) for row in rows(graph, "N")}
    assert found == {name: (1 + number % 2, number) for number, name in enumerate(names)}


def test_an_edge_that_can_neither_go_nor_come_is_refused_once(graph: og.Graph) -> None:
    teams = [one for name in "tu" for one in (node("Team", name=name), edge("Leads", name, "a", f"{name}1"))]
    loaded(graph, "append", person("a"), person("b"), *teams, edge("Leads", "u", "b", "u2"))

    with pytest.raises(LoadError) as caught:
        loaded(graph, "merge", edge("Leads", "u", "a", "t1"))

    assert caught.value.total == 1


def test_a_merge_onto_rows_with_holes_between_them(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, "node N { k: String @key  v: I64  w: I64? }")
    names = [f"n{number:05}" for number in range(6_000)]
    loaded(graph, "append", *(node("N", k=name, v=0, w=number) for number, name in enumerate(names)))
    loaded(graph, "merge", *(node("N", k=name, v=1) for name in names[::7]))

    result = loaded(graph, "merge", *(node("N", k=name, v=number) for number, name in enumerate(names)))

    assert result.nodes["N"].updated + result.nodes["N"].unchanged == 6_000
    found = {row["id"]: (row["v"], row["w"]) for row in rows(graph, "N")}
    assert found == {name: (number, number) for number, name in enumerate(names)}


def test_a_merge_whose_ids_are_looked_up_in_several_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.storage.key_lookup.MAX_KEYS_PER_PASS", 700)
    graph = new_graph(tmp_path, "node N { k: String @key  v: I64  w: I64? }")
    names = [f"n{number}" for number in range(6_000)]
    loaded(graph, "append", *(node("N", k=name, v=0, w=number) for number, name in enumerate(names[:5_000])))

    result = loaded(graph, "merge", *(node("N", k=name, v=number % 2) for number, name in enumerate(names[::-1])))

    assert result.nodes["N"] == TypeCounts(read=6_000, inserted=1_000, updated=2_500, unchanged=2_500)
    found = {row["id"]: (row["v"], row["w"]) for row in rows(graph, "N")}
    numbers = [*range(5_000), *[None] * 1_000]
    assert found == {name: ((5_999 - at) % 2, numbers[at]) for at, name in enumerate(names)}


@pytest.mark.parametrize("count", [5_000, 40_000])
def test_a_merge_of_few_rows_among_many_changes_these(tmp_path: Path, count: int) -> None:
    graph = new_graph(tmp_path, "node N { k: String @key  v: I64  text: String? }")
    names = [f"n{number}" for number in range(count)]
    loaded(graph, "append", *(node("N", k=name, v=0, text=name) for name in names))
    few = names[:: count // 5_000]
    said = {name: (at % 2, name if at % 3 else "new") for at, name in enumerate(few)}

    result = loaded(graph, "merge", *(node("N", k=name, v=v, text=text) for name, (v, text) in said.items()))

    changed = sum(value != (0, name) for name, value in said.items())
    assert result.nodes["N"] == TypeCounts(read=len(few), updated=changed, unchanged=len(few) - changed)
    found = {row["id"]: (row["v"], row["text"]) for row in rows(graph, "N")}
    assert found == {name: (0, name) for name in names} | said


def test_many_edges_to_committed_nodes(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, "node N { k: String @key }\nedge E: N -> N")
    names = [f"n{number}" for number in range(5_000)]
    loaded(graph, "append", *(node("N", k=name) for name in names))

    edges = [edge("E", source, target) for source, target in zip(names, [*names[1:], "nobody"], strict=True)]

    assert refused(graph, "append", *edges) == ["in.jsonl, line 5000: E.to: no N 'nobody'"]
    assert loaded(graph, "append", *edges[:-1]).edges["E"].inserted == 4_999
