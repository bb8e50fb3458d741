"""Calls from Python as people make them: paths, slips, notebooks, `with`."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.graph.arguments import check_uri
from worlds import runtime

SCHEMA = "node P { name: String @key  text: String? }"
ADD = 'query q() { insert P { name: "ada" } }'
ALL = "query q() { match { $p: P } return { $p.name, $p.text } order { $p.name } }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.create_graph(tmp_path / "g.omni", SCHEMA, runtime=runtime())


def test_a_graph_is_made_opened_and_copied_by_paths(graph: og.Graph, tmp_path: Path) -> None:
    opened = og.open_graph(tmp_path / "g.omni", runtime=runtime())

    copied = og.clone_graph(tmp_path / "g.omni", tmp_path / "copy.omni", runtime=runtime())

    assert opened.uri == graph.uri == str(tmp_path / "g.omni")
    assert copied.files > 0
    assert og.check_graph(tmp_path / "copy.omni", runtime=runtime()).findings == ()


@pytest.mark.parametrize("given", [None, 3, b"g.omni", ["g.omni"]])
def test_what_is_no_place_is_refused(given: object) -> None:
    with pytest.raises(
        og.BadArgumentError, match=r"`uri` can't be .*: it is a path, `file://…` or `s3://bucket/prefix`"
    ):
        check_uri(given)


CALLS: dict[str, tuple[Callable[[og.Graph], object], str]] = {
    "a query's file": (
        lambda graph: graph.query("people.gq"),
        "`source` can't be .people.gq.: that is the name",
    ),
    "a mutation's file": (lambda graph: graph.mutate("a/b.gq"), "pass its contents, Path"),
    "a path": (lambda graph: graph.explain(Path("q.gq")), "`source` can't be of type PosixPath"),  # type: ignore[arg-type] # the slip
    "nothing": (lambda graph: graph.query(None), "`source` can't be None: it is the text of queries"),  # type: ignore[arg-type] # the slip
    "a schema's file": (lambda graph: graph.plan_schema("people.pg"), "`schema` can't be"),
    "a time without a zone": (
        lambda graph: graph.query(ALL, at=datetime(2026, 1, 5)),  # noqa: DTZ001 - the slip
        "`at` can't be `2026-01-05 00:00:00` without a time zone: it must be a time with a time zone",
    ),
    "a time as text": (lambda graph: graph.snapshot(at="2026-01-05"), "`at` can't be of type str"),  # type: ignore[arg-type] # the slip
    "a parameter's number": (lambda graph: graph.query(ALL, params={1: 2}), "`params` can't be {1: …}: names are text"),  # type: ignore[dict-item] # the slip
    "a mutation's number": (lambda graph: graph.mutate(ADD, params={1: 2}), "names are text"),  # type: ignore[dict-item] # the slip
    "parameters without names": (lambda graph: graph.query(ALL, params=["Ada"]), "`params` can't be of type list"),  # type: ignore[arg-type] # the slip
}


SLIPS: dict[str, tuple[Callable[[Any], object], str]] = {
    "nobody": (lambda graph: graph.mutate(ADD, actor=None), "`actor` can't be None: it must be a string"),
    "an actor's number": (lambda graph: graph.load([], mode="append", actor=3), "`actor` can't be of type int"),
    "to act as nobody": (lambda graph: graph.acting_as(None), "`actor` can't be None: it must be a string"),
    "a message's number": (lambda graph: graph.mutate(ADD, message=3), "`message` can't be of type int"),
    "a key's number": (lambda graph: graph.mutate(ADD, idempotency_key=3), "`idempotency_key` can't be of type int"),
    "a branch's number": (
        lambda graph: graph.query(ALL, branch=3),
        "`branch` can't be of type int: it must be a string",
    ),
    "no branch": (lambda graph: graph.mutate(ADD, branch=None), "`branch` can't be None: it must be a string"),
    "a query's number": (lambda graph: graph.query(ALL, name=3), "`name` can't be of type int: it must be a string"),
    "a commit's number": (
        lambda graph: graph.query(ALL, snapshot=3),
        "`snapshot` can't be of type int: it must be a string",
    ),
    "a state's number": (lambda graph: graph.diff("main", 4), "a state can't be of type int: it must be a string"),
    "a commit that is none": (
        lambda graph: graph.commits(before=3),
        "a commit can't be of type int: it must be a string",
    ),
    "a type's number": (lambda graph: graph.table(3), "`type_name` can't be of type int: it must be a string"),
    "an id's number": (lambda graph: graph.history("P", 3), "`id` can't be of type int: it must be a string"),
    "a new branch's number": (
        lambda graph: graph.branches.create(3),
        "`name` can't be of type int: it must be a string",
    ),
    "a new tag's number": (lambda graph: graph.tags.create(3), "`name` can't be of type int: it must be a string"),
    "a text of seconds": (lambda graph: graph.query(ALL, seconds="3"), "`seconds` can't be .3.: it must be a number"),
    "a text of bytes": (
        lambda graph: graph.explain(ALL, memory_bytes="3"),
        "`memory_bytes` can't be .3.: it must be a whole",
    ),
    "a limit's text": (
        lambda graph: graph.commits(limit="5"),
        "`limit` can't be .5.: it must be a whole number, 0 or more",
    ),
    "a limit below nothing": (
        lambda graph: graph.commit_page(limit=-1),
        "`limit` can't be -1: it must be a whole number",
    ),
    "a part of a version": (
        lambda graph: graph.history("P", "a", limit=1.5),
        "`limit` can't be 1.5: it must be a whole",
    ),
    "a feed's limit": (
        lambda graph: graph.changes(limit="5"),
        "`limit` can't be .5.: it must be a whole number, 1 or more",
    ),
    "a feed's patience": (
        lambda graph: graph.changes(poll_seconds="1"),
        "`poll_seconds` can't be .1.: it must be a number",
    ),
    "vectors' limit": (lambda graph: graph.embed("P", limit="5"), "`limit` can't be .5.: it must be a whole number"),
    "no vectors at once": (lambda graph: graph.embed("P", batch=0), "`batch` can't be 0: it must be a whole number, 1"),
    "commits to keep": (
        lambda graph: graph.cleanup(keep="3"),
        "`keep` can't be .3.: it must be a whole number, 1 or more",
    ),
    "days": (lambda graph: graph.cleanup(older_than=7), "`older_than` can't be 7: it must be a timedelta, such as"),
    "grace": (lambda graph: graph.cleanup(keep=1, grace="1d"), "`grace` can't be .1d.: it must be a timedelta"),
    "who optimises": (
        lambda graph: graph.optimize(engine="sparc"),
        "it must be one of auto, local, spark; did you mean",
    ),
    "how often": (
        lambda graph: graph.reconciler(every_seconds="3"),
        "`every_seconds` can't be .3.: it must be a number",
    ),
}
"""What type checkers find, if one is asked."""


@pytest.mark.parametrize("slip", [*CALLS, *SLIPS])
def test_a_slip_is_told_what_was_meant(slip: str, graph: og.Graph) -> None:
    call, message = {**CALLS, **SLIPS}[slip]

    with pytest.raises(og.BadArgumentError, match=message):
        call(graph)


LOADS: dict[str, tuple[dict[str, object], str]] = {
    "a table without its type": (
        {"data": pa.table({"name": ["ada"]})},
        "a Table has rows of one type: pass it under the type's name",
    ),
    "a text": ({"data": '{"type": "P"}'}, "not its text .*; io.BytesIO makes a file of it"),
    "a number": ({"data": 3}, "graph JSONL is a path, a binary file or records, not a int"),
    "pairs": ({"nodes": [("P", "p.csv")]}, "`nodes` must map type names to rows"),
    "a file without its type": ({"edges": "p.csv"}, "`edges` must map type names to rows"),
}


@pytest.mark.parametrize("slip", LOADS)
def test_a_load_of_what_is_no_input_is_told_what_is(slip: str, graph: og.Graph) -> None:
    arguments, message = LOADS[slip]

    with pytest.raises(TypeError, match=message):
        graph.load(mode="append", **arguments)  # type: ignore[arg-type] # the slip


def test_numbers_of_numpy_are_numbers(graph: og.Graph) -> None:
    graph.mutate(ADD)

    assert len(graph.commits(limit=np.int64(1))) == 1  # type: ignore[arg-type] # it is as good
    assert graph.query(ALL, seconds=np.float32(60)).row_count == 1  # type: ignore[arg-type] # it is as good


def test_differences_and_plans_say_what_they_are(graph: og.Graph) -> None:
    graph.mutate(ADD)
    old, new = graph.commits()[1].id, graph.commits()[0].id

    assert repr(graph.diff(old, "main")) == f"<Diff of main@{old} and main@{new}>"
    assert repr(graph.explain(ALL)) == f"<Explained q at main@{new}: print it for the plan>"


def test_a_query_may_end_with_a_comment_that_names_a_file(graph: og.Graph) -> None:
    assert graph.query(f"{ALL} // of people.gq").row_count == 0


def test_a_graph_may_stand_in_with(graph: og.Graph) -> None:
    with graph as opened:
        assert opened is graph

    assert graph.query(ALL).row_count == 0


def test_a_notebook_shows_the_first_rows_and_says_how_many_there_are(graph: og.Graph) -> None:
    graph.load(({"type": "P", "data": {"name": f"p{number:03}"}} for number in range(321)), mode="append")

    shown = graph.query(ALL)._repr_html_()

    assert shown.startswith("<table><thead><tr><th>p.name</th><th>p.text</th></tr></thead><tbody>")
    assert "<tr><td>p019</td><td>null</td></tr></tbody>" in shown
    assert shown.endswith("<p>the first 20 of 321 rows</p>")


def test_a_notebook_shows_a_text_as_what_it_is(graph: og.Graph) -> None:
    graph.load([{"type": "P", "data": {"name": "<script>", "text": "x" * 1000}}], mode="append")

    shown = graph.query(ALL)._repr_html_()

    assert f"<td>&lt;script&gt;</td><td>{'x' * 200}…</td>" in shown
    assert shown.endswith("<p>1 row</p>")


def test_what_a_prompt_shows_is_short(graph: og.Graph) -> None:
    shown = [repr(one) for one in (graph, graph.branches, graph.tags, graph.snapshot(), graph.query(ALL))]

    assert shown[0] == f"Graph({graph.uri!r})"
    assert shown[3] == f"Snapshot('main', commit {graph.snapshot().commit.id}, tables node:P)"
    assert max(len(one.replace(graph.uri, "")) for one in shown) < 100


def test_a_result_is_written_to_a_path(graph: og.Graph, tmp_path: Path) -> None:
    graph.load([{"type": "P", "data": {"name": "ada"}}], mode="append")

    graph.query(ALL).write(tmp_path / "out.jsonl", "jsonl")

    assert (tmp_path / "out.jsonl").read_text() == '{"p.name":"ada","p.text":null}\n'


def test_a_result_is_written_to_what_is_there(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text("before")
    (tmp_path / "own.jsonl").chmod(0o600)
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "own.jsonl")
    graph.load([{"type": "P", "data": {"name": "ada"}}], mode="append")

    graph.query(ALL).write(tmp_path / "link.jsonl", "jsonl")
    graph.query(ALL).write("/dev/null", "jsonl")

    assert (tmp_path / "link.jsonl").is_symlink()
    assert (tmp_path / "own.jsonl").read_text() == '{"p.name":"ada","p.text":null}\n'
    assert (tmp_path / "own.jsonl").stat().st_mode & 0o777 == 0o600
    assert Path("/dev/null").is_char_device()


def test_a_result_that_breaks_off_leaves_the_file_that_was_there(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "out"
    place.mkdir()
    (place / "out.jsonl").write_text("before")
    found = graph.query(ALL)
    monkeypatch.setattr(type(found), "batches", broken_off)

    with pytest.raises(OSError, match="no more"):
        found.write(str(place / "out.jsonl"), "jsonl")

    assert (place / "out.jsonl").read_text() == "before"
    assert [path.name for path in place.iterdir()] == ["out.jsonl"]


def broken_off(found: object) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"p.name": ["ada"], "p.text": ["x"]})
    raise OSError(5, "no more", str(found))
