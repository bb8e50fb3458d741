"""Records that a load leaves out: kept with their reasons, so that they can be mended and loaded again."""

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from load_calls import Record, edge, loaded, node, person, source
from mutating import column, new_graph, rows
from omnigraph.ops.load import GraphSource, LoadError, LoadInput, TypedSource


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path)


BAD: tuple[Record | str, ...] = (
    person("a", email="x@"),
    '{"type": "Person", "data": {"name": "bad", "age": "old"}}',
    "no record at all",
    person("b", age=999),
    person("c", email="x@"),
    edge("Knows", "a", "c"),
    edge("Knows", "a", "zed"),
    edge("Knows", "a", "a", since=5),
    person("a", age=3),
)
REASONS = [2, 3, 4, 5, 6, 7, 9]
"""In the order of the input, whichever rule each of them breaks."""


@pytest.fixture
def kept(graph: og.Graph, tmp_path: Path) -> Path:
    """The directory of what was left out of `BAD`."""
    directory = tmp_path / "bad"
    result = loaded(graph, "append", *BAD, on_error=directory)
    assert result.rejected == 7
    assert result.quarantine == str(directory)
    return directory


def test_bad_records_are_left_out_and_the_rest_is_loaded(graph: og.Graph, kept: Path) -> None:
    assert sorted(path.name for path in kept.iterdir()) == ["reasons.jsonl", "rejected.jsonl"]
    assert column(graph, "Person", "id") == ["a"]
    assert column(graph, "Knows", "since") == [5]


def test_reasons_tell_of_each_rejected_record_in_turn(kept: Path) -> None:
    rejected = (kept / "rejected.jsonl").read_text().splitlines()
    reasons = [json.loads(line) for line in (kept / "reasons.jsonl").read_text().splitlines()]

    assert [one["line"] for one in reasons] == REASONS
    by_line: dict[int, tuple[Any, dict[str, object]]] = {
        one["line"]: (json.loads(text) if text[0] == "{" else text, one)
        for text, one in zip(rejected, reasons, strict=True)
    }
    assert by_line[3][0] == BAD[2]
    assert by_line[2][0]["data"] == {"name": "bad", "age": "old"}
    assert by_line[5][0]["data"]["email"] == "x@"
    assert by_line[5][1] == {
        "file": "in.jsonl",
        "line": 5,
        "type": "Person",
        "property": "email",
        "value": '"x@"',
        "rule": "unique",
        "message": "@unique violation on Person.email: 'x@' is held by 'a' and 'c'",
    }
    assert by_line[6][1]["message"] == "Knows.to: no Person 'c'"


def test_mended_records_can_be_loaded_again(graph: og.Graph, kept: Path) -> None:
    path = kept / "rejected.jsonl"
    text = path.read_text().replace('"old"', "1").replace("no record at all", "").replace("999", "99")
    text = text.replace('"c","email":"x@"', '"c","email":"y@"').replace("zed", "bad")
    path.write_text("".join(f"{line}\n" for line in text.splitlines() if '"name":"a"' not in line))

    result = loaded(graph, "append", inputs=LoadInput(graph=(GraphSource(data=path),)), on_error=kept)

    assert result.rejected == 0
    assert column(graph, "Person", "id") == ["a", "b", "bad", "c"]
    assert sorted(column(graph, "Knows", "dst")) == ["a", "bad", "c"]


def test_records_of_an_earlier_load_are_not_lost(graph: og.Graph, kept: Path) -> None:
    before = (kept / "rejected.jsonl").read_bytes()

    with pytest.raises(og.OmnigraphError, match=r"rejected\.jsonl of an earlier load"):
        loaded(graph, "append", person("x", age=-1), on_error=kept)

    assert (kept / "rejected.jsonl").read_bytes() == before


def test_what_was_left_out_again_takes_the_place_of_what_was_there(graph: og.Graph, kept: Path) -> None:
    path = kept / "rejected.jsonl"

    result = loaded(graph, "append", inputs=LoadInput(graph=(GraphSource(data=path),)), on_error=kept)

    assert result.rejected == 7  # they are as bad as they were
    assert len(path.read_text().splitlines()) == 7


def test_nothing_is_kept_when_nothing_is_wrong(graph: og.Graph, tmp_path: Path) -> None:
    result = loaded(graph, "append", person("a"), on_error=tmp_path / "bad")

    assert result.quarantine is None
    assert not (tmp_path / "bad").exists()


def test_too_many_bad_records_fail_the_load_and_are_kept(graph: og.Graph, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    before = graph.snapshot().commit.id

    with pytest.raises(LoadError) as caught:
        loaded(graph, "append", *BAD, on_error=bad, max_errors=6)

    assert caught.value.total == 7
    assert caught.value.quarantine == str(bad)
    assert graph.snapshot().commit.id == before
    assert len((bad / "rejected.jsonl").read_text().splitlines()) == 7


def test_as_many_bad_records_as_may_be_are_fine(graph: og.Graph, tmp_path: Path) -> None:
    assert loaded(graph, "append", *BAD, on_error=tmp_path / "bad", max_errors=7).commit_id is not None


def test_a_repeated_load_tells_what_was_left_out(graph: og.Graph, tmp_path: Path) -> None:
    records = [person("a"), person("b", age=-1)]
    first = loaded(graph, "append", *records, on_error=tmp_path / "bad", idempotency_key="k")

    again = loaded(graph, "append", *records, on_error=tmp_path / "bad", idempotency_key="k")

    assert again == first
    assert again.rejected == 1


def test_a_load_repeated_after_its_process_died_finds_what_it_left_out(graph: og.Graph, tmp_path: Path) -> None:
    directory = tmp_path / "bad"
    first = loaded(graph, "append", *BAD, on_error=directory, idempotency_key="k")
    kept = {path.name: path.read_text() for path in directory.iterdir()}
    for name in kept:
        (directory / name).rename(directory / f".{name}.new")  # as if it had died right behind the commit

    again = loaded(graph, "append", *BAD, on_error=directory, idempotency_key="k")

    assert again == first
    assert {path.name: path.read_text() for path in directory.iterdir()} == kept


def test_a_merge_keeps_partial_records_as_they_came(graph: og.Graph, tmp_path: Path) -> None:
    loaded(graph, "append", person("a", email="x@"), person("b", age=4))

    loaded(graph, "merge", person("b", email="x@"), on_error=tmp_path / "bad")

    (text,) = (tmp_path / "bad" / "rejected.jsonl").read_text().splitlines()
    assert json.loads(text) == {"type": "Person", "data": {"name": "b", "email": "x@"}}


def test_what_a_record_left_out_is_left_out_of_what_is_kept(graph: og.Graph, tmp_path: Path) -> None:
    loaded(graph, "append", person("a", age=4, mood="sad"))

    loaded(graph, "append", person("a", email="x@"), edge("Knows", "a", "zed"), on_error=tmp_path / "bad")

    texts = (tmp_path / "bad" / "rejected.jsonl").read_text().splitlines()
    assert list(map(json.loads, texts)) == [person("a", email="x@"), edge("Knows", "a", "zed")]


def test_what_was_kept_clears_nothing_when_it_is_merged(graph: og.Graph, tmp_path: Path) -> None:
    loaded(graph, "append", person("a", age=4, mood="sad"))
    loaded(graph, "append", person("a", email="x@"), on_error=tmp_path / "bad")

    again = LoadInput(graph=(GraphSource(data=tmp_path / "bad" / "rejected.jsonl"),))
    loaded(graph, "merge", inputs=again)

    (row,) = rows(graph, "Person", "age", "email", "mood")
    assert row == {"age": 4, "email": "x@", "mood": "sad"}


def test_an_id_that_was_made_for_a_record_is_not_kept(graph: og.Graph, tmp_path: Path) -> None:
    records = (node("City", name="x", zip=1), node("City", name="x", zip=1), node("City", "own", name="x", zip=1))

    loaded(graph, "append", *records, on_error=tmp_path / "bad")

    texts = (tmp_path / "bad" / "rejected.jsonl").read_text().splitlines()
    assert list(map(json.loads, texts)) == [*records[1:]]


@pytest.mark.parametrize("most", [None, 0])
def test_a_dry_run_keeps_no_bad_records(graph: og.Graph, tmp_path: Path, most: int | None) -> None:
    bad = tmp_path / "bad"

    if most is None:
        result = loaded(graph, "append", *BAD, on_error=bad, is_dry_run=True)
        assert (result.rejected, result.quarantine) == (7, None)
    else:
        with pytest.raises(LoadError) as caught:
            loaded(graph, "append", *BAD, on_error=bad, max_errors=most, is_dry_run=True)
        assert caught.value.quarantine is None

    assert not bad.exists()
    assert loaded(graph, "append", *BAD, on_error=bad).quarantine == str(bad)


def test_a_table_whose_new_rows_are_all_bad_is_not_overwritten(graph: og.Graph, tmp_path: Path) -> None:
    loaded(graph, "append", person("a"), edge("Knows", "a", "a", since=3))

    result = loaded(graph, "overwrite", person("a", age=1), edge("Knows", "a", "zed"), on_error=tmp_path / "bad")

    assert result.edges["Knows"].deleted == 0
    assert column(graph, "Knows", "since") == [3]
    assert column(graph, "Person", "age") == [1]


def test_a_refused_node_that_an_edge_needs_fails_an_overwrite(graph: og.Graph, tmp_path: Path) -> None:
    loaded(graph, "append", person("a"), person("b"), edge("Knows", "a", "b", since=3))

    with pytest.raises(LoadError) as caught:
        loaded(
            graph,
            "overwrite",
            person("a", email="x@"),
            person("b", email="x@"),  # refused, and the edge that stays leads to it
            on_error=tmp_path / "bad",
        )

    assert [(one.rule, one.line) for one in caught.value.problems] == [("unique", 2), ("dangling", None)]
    assert column(graph, "Person", "email") == [None, None]
    assert column(graph, "Knows", "since") == [3]


@pytest.mark.parametrize("text", ["no record\n", '{"name": "b", "age": 999}\n'])
def test_a_file_of_nothing_but_bad_records_empties_no_table(graph: og.Graph, tmp_path: Path, text: str) -> None:
    loaded(graph, "append", person("a"))
    path = tmp_path / "people.jsonl"
    path.write_text(text)
    inputs = LoadInput(typed=(TypedSource(type="Person", is_edge=False, data=path),))

    loaded(graph, "overwrite", inputs=inputs, on_error=tmp_path / "bad")

    assert column(graph, "Person", "id") == ["a"]


def test_a_value_that_a_refused_record_would_have_freed_is_still_held(graph: og.Graph, tmp_path: Path) -> None:
    loaded(graph, "append", person("a", email="x@"), person("b", email="y@"), person("c", email="z@"))

    result = loaded(
        graph,
        "merge",
        person("a", email="z@"),  # held by c, which stays as it is
        person("b", email="x@"),  # would be free if a changed
        person("d", email="y@"),  # would be free if b changed
        on_error=tmp_path / "bad",
    )

    assert result.rejected == 3
    assert result.commit_id is None
    assert column(graph, "Person", "email") == ["x@", "y@", "z@"]


def test_a_node_that_loses_its_edges_is_left_out_too(graph: og.Graph, tmp_path: Path) -> None:
    records = (node("Team", name="t"), edge("Leads", "t", "zed"), node("Team", name="u"), edge("Leads", "u", "a"))

    result = loaded(graph, "append", person("a"), *records, on_error=tmp_path / "bad")

    assert result.rejected == 2
    assert column(graph, "Team", "id") == ["u"]


def test_thousands_of_refusals_of_one_rule_each_tell_of_their_own_record(tmp_path: Path) -> None:
    """Over two files, and more than are told at a time."""
    graph = new_graph(tmp_path, "node N { k: String @key  v: I64? }")
    most = 4_200
    loaded(graph, "append", *(node("N", k=f"n{number}") for number in range(most)))
    lines = [node("N", k=f"n{number}", v=number) for number in range(most)]
    inputs = LoadInput(graph=(source(*lines[:100], name="one"), source(*lines[100:], name="two")))

    result = loaded(graph, "append", inputs=inputs, on_error=tmp_path / "bad")

    assert result.rejected == most
    rejected = [json.loads(line) for line in (tmp_path / "bad" / "rejected.jsonl").read_text().splitlines()]
    reasons = [json.loads(line) for line in (tmp_path / "bad" / "reasons.jsonl").read_text().splitlines()]
    assert rejected == lines
    places = [("one", line) for line in range(1, 101)] + [("two", line) for line in range(1, most - 99)]
    assert [(one["file"], one["line"]) for one in reasons] == places
    assert [one["value"] for one in reasons] == [f'"n{number}"' for number in range(most)]
    assert all(f"'n{number}'" in one["message"] for number, one in enumerate(reasons))


@pytest.mark.parametrize("broken", [5, 30])
def test_the_first_problems_are_told_of_however_many_records_can_not_be_read(
    graph: og.Graph, tmp_path: Path, broken: int
) -> None:
    """Of two files, by file and line, whichever was found first: a broken rule is found behind bad values."""
    unreadable = ["no record"] * broken
    first: list[Record | str] = [person("r", age=999), *unreadable]
    second: list[Record | str] = [*unreadable, person("s", age=999)]
    inputs = LoadInput(graph=(source(*first, name="one"), source(*second, name="two")))

    with pytest.raises(LoadError) as caught:
        loaded(graph, "append", inputs=inputs, on_error=tmp_path / "bad", max_errors=0)

    places = [("one", line) for line in range(1, broken + 2)] + [("two", line) for line in range(1, broken + 2)]
    assert caught.value.total == len(places)
    # Two records break a rule, which is another group: both are among the examples.
    examples = [*places[:19], places[-1]] if len(places) > 20 else places
    assert [(one.file, one.line) for one in caught.value.problems] == examples
    reasons = [json.loads(line) for line in (tmp_path / "bad" / "reasons.jsonl").read_text().splitlines()]
    assert [(one["file"], one["line"]) for one in reasons] == places


def test_blobs_of_rejected_records_are_kept(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, "node F { k: String @key  n: I64?  b: Blob?  @unique(n) }")

    loaded(graph, "append", node("F", k="a", n=1), node("F", k="b", n=1, b="base64:AAEC"), on_error=tmp_path / "bad")

    (text,) = (tmp_path / "bad" / "rejected.jsonl").read_text().splitlines()
    assert json.loads(text)["data"] == {"k": "b", "n": 1, "b": "base64:AAEC"}
