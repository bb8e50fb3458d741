"""Exports of the older system are loaded as they are: ids in `data`, days as numbers, a first line of metadata."""

import io
import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

import omnigraph as og
from load_calls import loaded, refused
from omnigraph.engine.decoding import record_explainer
from omnigraph.engine.decoding.graph_jsonl import read_graph_records
from record_reading import refusals
from schema_making import accepted
from worlds import runtime

EXAMPLE = Path(__file__).parents[2] / "examples" / "older-export"
SCHEMA = (EXAMPLE / "schema.pg").read_text()
EXPORT = (EXAMPLE / "export.jsonl").read_bytes()
RECORDS = EXPORT.split(b"\n", 1)[1]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.create_graph(str(tmp_path / "g.omni"), schema=SCHEMA)


def exported(graph: og.Graph) -> list[dict[str, object]]:
    out = io.BytesIO()
    graph.export(out)
    return sorted(map(json.loads, out.getvalue().splitlines()), key=str)


KNOWS, WROTE, NOTE, EMPTY = (f"01JZ3VQ5E9X4N7T2B8W6K0M1R{sign}" for sign in "DFGH")
OURS = sorted(
    [
        {"edge": "Knows", "id": KNOWS, "from": "Ada", "to": "Grace", "data": {"since": "2020-03-01"}},
        {"edge": "Knows", "id": f"{KNOWS[:-1]}E", "from": "Grace", "to": "Ada", "data": {"since": None}},
        {"edge": "Wrote", "id": WROTE, "from": "Ada", "to": NOTE, "data": {}},
        {
            "type": "Note",
            "id": NOTE,
            "data": {
                "text": "A plan",
                "days": ["2024-02-29", "1969-12-31"],
                "scan": "base64:AHNjYW4=",
                "feel": [0.1, -2.5],
            },
        },
        {"type": "Note", "id": EMPTY, "data": {"text": "Empty", "days": None, "scan": None, "feel": None}},
        {
            "type": "Person",
            "data": {
                "name": "Ada",
                "age": 36,
                "height": 1.7,
                "born": "1990-12-10",
                "seen": "2026-01-02T03:04:05.250000Z",
            },
        },
        {
            "type": "Person",
            "data": {"name": "Grace", "age": None, "height": None, "born": None, "seen": "2026-01-02T03:04:05Z"},
        },
    ],
    key=str,
)
"""What `export` writes of the example, once it is loaded: every value, in our spelling."""


def test_an_export_is_loaded_as_it_is(graph: og.Graph) -> None:
    graph.load(io.BytesIO(EXPORT), mode="overwrite")

    assert exported(graph) == OURS


def test_the_commit_says_of_which_export_it_is(graph: og.Graph) -> None:
    graph.load(io.BytesIO(EXPORT), mode="append")

    assert graph.commits()[0].message == "an export of branch main at commit 01JZ3VQ5E9X4N7T2B8W6K0M1RC"


def test_a_message_of_the_caller_goes_before_that_of_the_export(graph: og.Graph) -> None:
    graph.load(io.BytesIO(EXPORT), mode="append", message="moved house")

    assert graph.commits()[0].message == "moved house"


def test_an_export_without_metadata_is_loaded_without_a_message(graph: og.Graph) -> None:
    graph.load(io.BytesIO(RECORDS), mode="append")

    assert graph.commits()[0].message is None
    assert len(exported(graph)) == 7


def test_what_is_merged_again_changes_nothing(graph: og.Graph) -> None:
    loaded(graph, "append", *EXPORT.decode().splitlines())

    assert loaded(graph, "merge", *EXPORT.decode().splitlines()).commit_id is None


def test_our_own_export_of_it_is_loaded_alike(graph: og.Graph, tmp_path: Path) -> None:
    graph.load(io.BytesIO(EXPORT), mode="append")
    out = io.BytesIO()
    graph.export(out)
    other = og.create_graph(str(tmp_path / "other.omni"), schema=SCHEMA)

    other.load(io.BytesIO(out.getvalue()), mode="append")

    assert exported(other) == OURS


def test_records_of_the_older_shape_are_not_explained_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_explainer, "decode_object", None)

    rows = list(read_graph_records(io.BytesIO(EXPORT), accepted(SCHEMA), runtime().ids, name="in"))

    people = next(one.rows for one in rows if one.type.name == "Person").to_pylist()
    assert [one["born"] for one in people] == [date(1990, 12, 10), None]
    assert people[0]["seen"] == datetime(2026, 1, 2, 3, 4, 5, 250_000, UTC)


def test_of_several_exports_the_first_with_metadata_names_the_commit(graph: og.Graph) -> None:
    person, *others = RECORDS.splitlines(keepends=True)[::-1]
    second, third = (b'{"metadata":{"branch":"%s"}}\n' % name for name in (b"second", b"third"))

    graph.load([io.BytesIO(person), io.BytesIO(second + b"".join(others)), io.BytesIO(third)], mode="append")

    assert graph.commits()[0].message == "an export of branch second"
    assert len(exported(graph)) == 7


# --- what stays strict -------------------------------------------------------------------------------


def test_two_ids_of_one_record_must_agree(graph: og.Graph) -> None:
    same = {"type": "Note", "id": "n", "data": {"id": "n", "text": "x"}}
    other = {"type": "Note", "id": "m", "data": {"id": "n", "text": "x"}}

    assert loaded(graph, "append", same).nodes["Note"].inserted == 1
    assert refused(graph, "append", other) == [
        'in.jsonl, line 1: `Note.id`: the id is "m", and in `data` it is "n"; give it once'
    ]


def test_an_id_in_data_must_agree_with_the_key(graph: og.Graph) -> None:
    (problem,) = refused(graph, "append", {"type": "Person", "data": {"id": "Bob", "name": "Ada"}})

    assert 'the id "Bob" does not agree with the key (name), which makes it "Ada"' in problem


def test_days_and_times_stay_strict_in_our_own_shape() -> None:
    days, times = refusals(
        '{"type":"Thing","id":"x","data":{"day":19723}}',
        '{"type":"Thing","id":"y","data":{"seen":"2026-01-02T03:04:05"}}',
    )

    assert days.property == "day"
    assert "it has no zone" in times.reason


@pytest.mark.parametrize("day", [-719163, 2932897, 2**31 - 1, 1.5, True])
def test_a_day_that_the_calendar_lacks_is_refused_as_it_was_written(day: object) -> None:
    line = json.dumps({"data": {"day": day, "id": "x"}, "type": "Thing"})

    (error,) = refusals(line)

    assert (error.property, error.value) == ("day", json.dumps(day))


@pytest.mark.parametrize("day, shown", [(-719162, "0001-01-01"), (2932896, "9999-12-31"), (0, "1970-01-01")])
def test_the_first_and_last_day_of_the_calendar_are_days(graph: og.Graph, day: int, shown: str) -> None:
    loaded(graph, "append", json.dumps({"data": {"born": day, "id": "x", "name": "x"}, "type": "Person"}))

    assert exported(graph)[0]["data"]["born"] == shown  # type: ignore[index]


# --- metadata ----------------------------------------------------------------------------------------


def test_metadata_comes_first_or_not_at_all() -> None:
    metadata, record = '{"metadata":{}}', '{"type":"Thing","id":"x"}'

    found = [*refusals(metadata, record), *refusals("// a comment", metadata), *refusals(metadata, record, metadata)]

    assert [error.line for error in found] == [2, 3]
    assert {error.reason for error in found} == {"metadata may only be the first line of an input"}


@pytest.mark.parametrize("line", ['{"typ":{}}', '{"metadata":1}', '{"_a":{},"_b":{}}', '{"_a":{},"_a":{}}', '{"_a":{}'])
def test_a_first_line_that_is_no_metadata_is_refused(line: str) -> None:
    assert [error.line for error in refusals(line)] == [1]


@pytest.mark.parametrize(
    "metadata, message",
    [
        ({"metadata": {}}, "an export of another graph"),
        ({"metadata": {"branch": "review"}}, "an export of branch review"),
        ({"_x": {"branch": 7, "commit_id": "01J"}}, "an export at commit 01J"),
        ({"_x": {"branch": "a\nb"}}, "an export of another graph"),
    ],
)
def test_the_message_says_what_metadata_says(graph: og.Graph, metadata: dict[str, object], message: str) -> None:
    graph.load(io.BytesIO(json.dumps(metadata).encode() + b"\n" + RECORDS), mode="append")

    assert graph.commits()[0].message == message
