"""Loading records: the modes, what each refuses, and what is left when it does."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from load_calls import edge, files_below, loaded, node, person, refused, source, text_of
from mutating import column, new_graph, people, rows, run
from omnigraph.engine.bulk.row_spool import Spool, SpoolError
from omnigraph.ops.load import GraphSource, LoadError, LoadInput, LoadMode, Progress, TypeCounts, TypedSource
from omnigraph.ops.load_local import LocalRecords


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for temporary files of its own."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


# --- append ------------------------------------------------------------------------------------------


def test_records_are_loaded_in_one_commit(graph: og.Graph) -> None:
    before = graph.snapshot().commit.seq

    result = loaded(graph, "append", person("a", age=1), person("b"), edge("Knows", "a", "b", since=3), message="first")

    assert graph.snapshot().commit.seq == before + 1
    assert graph.snapshot().commit.id == result.commit_id
    assert graph.snapshot().commit.message == "first"
    assert graph.snapshot().commit.operation == "load"
    assert column(graph, "Person", "age") == [1, None]
    assert rows(graph, "Knows", "src", "dst", "since") == [{"src": "a", "dst": "b", "since": 3}]


def test_the_result_counts_by_type(graph: og.Graph) -> None:
    result = loaded(graph, "append", person("a"), person("b"), edge("Knows", "a", "b"))

    rest = {"updated": 0, "unchanged": 0, "deleted": 0, "duplicates": 0}
    assert result.to_json() == {
        "mode": "append",
        "target": {"branch": "main"},
        "commit_id": graph.snapshot().commit.id,
        "nodes": {"Person": {"read": 2, "inserted": 2, **rest}},
        "edges": {"Knows": {"read": 1, "inserted": 1, **rest}},
        "rejected": 0,
        "quarantine": None,
        "dry_run": False,
        "warnings": [],
    }


def test_edges_may_come_before_their_nodes(graph: og.Graph) -> None:
    loaded(graph, "append", edge("Knows", "a", "b"), person("b"), person("a"))

    assert column(graph, "Knows", "id") == ['["a","b"]']


def test_an_edge_may_lead_to_a_committed_node(graph: og.Graph) -> None:
    people(graph, "a")

    loaded(graph, "append", person("b"), edge("Knows", "a", "b"), edge("Knows", "b", "a"))

    assert len(rows(graph, "Knows")) == 2


def test_an_id_that_exists_is_refused(graph: og.Graph) -> None:
    people(graph, "a")

    assert refused(graph, "append", person("b"), person("a")) == [
        "in.jsonl, line 2: Person 'a' exists already; the mode merge would change it"
    ]


@pytest.mark.parametrize("mode", LoadMode)
def test_an_id_that_is_there_twice_names_both_lines(graph: og.Graph, mode: LoadMode) -> None:
    assert refused(graph, mode, person("a"), person("b"), person("a", age=3), person("a")) == [
        "in.jsonl, line 3: Person 'a' appears twice: first in in.jsonl, line 1",
        "in.jsonl, line 4: Person 'a' appears twice: first in in.jsonl, line 1",
    ]


def test_two_files_may_not_have_the_same_id(graph: og.Graph) -> None:
    both = LoadInput(graph=(source(person("a"), name="x.jsonl"), source("// again", person("a"), name="y.jsonl")))

    assert refused(graph, "append", inputs=both) == [
        "y.jsonl, line 2: Person 'a' appears twice: first in x.jsonl, line 1"
    ]


def test_missing_ends_are_refused(graph: og.Graph) -> None:
    people(graph, "a")

    assert refused(graph, "append", edge("Knows", "zed", "a"), edge("Knows", "a", "yan")) == [
        "in.jsonl, line 1: Knows.from: no Person 'zed'",
        "in.jsonl, line 2: Knows.to: no Person 'yan'",
    ]


def test_a_record_is_told_once(graph: og.Graph) -> None:
    assert len(refused(graph, "append", edge("Knows", "zed", "yan"))) == 1


def test_a_unique_value_that_a_committed_row_holds_is_refused(graph: og.Graph) -> None:
    run(graph, 'insert Person { name: "a", email: "x@" }')

    assert refused(graph, "append", person("b", email="x@")) == [
        "in.jsonl, line 1: @unique violation on Person.email: 'x@' is held by 'a' and 'b'"
    ]


def test_the_later_holder_of_a_unique_value_is_refused(graph: og.Graph) -> None:
    records = (person("a", email="x@"), person("b", email="y@"), person("c", email="x@"), person("d"), person("e"))

    assert refused(graph, "append", *records) == [
        "in.jsonl, line 3: @unique violation on Person.email: 'x@' is held by 'a' and 'c'"
    ]


def test_a_group_of_unique_values_is_compared_whole(graph: og.Graph) -> None:
    rome = [node("City", number, name="Rome", zip=zip_) for number, zip_ in (("1", 1), ("2", 2), ("3", 1))]

    assert refused(graph, "append", *rome, node("City", "4", name="Rome")) == [
        "in.jsonl, line 3: @unique violation on City(name, zip): ('Rome', 1) is held by '1' and '3'"
    ]


def test_zero_has_one_sign_where_it_is_unique(graph: og.Graph) -> None:
    found = refused(graph, "append", person("a", score=0.0), person("b", score=-0.0))

    assert found == ["in.jsonl, line 2: @unique violation on Person.score: 0.0 is held by 'a' and 'b'"]


def test_the_last_of_too_many_edges_are_refused(graph: og.Graph) -> None:
    run(graph, 'insert Person { name: "a" } insert City { name: "Rome" }')
    city = column(graph, "City", "id")[0]

    found = refused(graph, "append", edge("WorksAt", "a", city, "1"), edge("WorksAt", "a", city, "2"))

    assert found == ["in.jsonl, line 2: @card violation on WorksAt: 'a' has 2 edges (max 1)"]


def test_committed_edges_count(graph: og.Graph) -> None:
    loaded(graph, "append", person("a"), node("City", "r", name="Rome"), edge("WorksAt", "a", "r"))

    found = refused(graph, "append", edge("WorksAt", "a", "r"))

    assert found == ["in.jsonl, line 1: @card violation on WorksAt: 'a' has 2 edges (max 1)"]


def test_a_new_node_needs_its_least_edges(graph: og.Graph) -> None:
    people(graph, "a")

    assert refused(graph, "append", node("Team", name="t")) == [
        "in.jsonl, line 1: @card violation on Leads: 't' has 0 edges (min 1)"
    ]
    assert loaded(graph, "append", node("Team", name="t"), edge("Leads", "t", "a")).rejected == 0


VALUES = {
    "range": (person("a", age=201), "@range violation on Person.age: 201 > max 200", "201"),
    "range of dates": (person("a", born="1899-12-31"), None, '"1899-12-31"'),
    "check": (person("a", email="none"), "@check violation on Person.email: 'none' does not match \"@\"", '"none"'),
    "enum": (person("a", mood="angry"), None, '"angry"'),
    "type": (person("a", age="old"), None, '"old"'),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_that_breaks_a_rule_is_told_with_its_place(graph: og.Graph, name: str) -> None:
    record, message, value = VALUES[name]

    with pytest.raises(LoadError) as caught:
        loaded(graph, "append", "// first", person("b"), record)

    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.type, problem.value) == ("in.jsonl", 3, "Person", value)
    assert problem.property is not None
    assert message is None or problem.message == message


def test_problems_come_in_the_order_of_files_and_lines(graph: og.Graph) -> None:
    people(graph, "old")
    first = source(edge("Knows", "a", "zed"), person("old"), "nonsense", person("a", age=999), name="1.jsonl")
    second = source(person("b", age=-1), person("b"), person("old"), name="2.jsonl")

    with pytest.raises(LoadError) as caught:
        loaded(graph, "append", inputs=LoadInput(graph=(first, second)))

    assert [(one.file, one.line) for one in caught.value.problems] == [
        ("1.jsonl", 1),
        ("1.jsonl", 2),
        ("1.jsonl", 3),
        ("1.jsonl", 4),
        ("2.jsonl", 1),
        ("2.jsonl", 3),
    ]


def test_all_problems_are_counted_and_twenty_are_told(graph: og.Graph) -> None:
    records = [
        *(edge("Knows", "a", f"n{number}") for number in range(60)),
        *(person(f"p{n}", age=-1) for n in range(40)),
    ]

    with pytest.raises(LoadError) as caught:
        loaded(graph, "append", person("a"), *records)

    assert caught.value.total == 100
    # Examples of both groups, in equal shares.
    assert [problem.line for problem in caught.value.problems] == [*range(2, 12), *range(62, 72)]
    assert str(caught.value).splitlines()[:2] == ["60 × endpoint Knows.to", "40 × range Person.age"]
    assert str(caught.value).splitlines()[22:] == ["and 80 more", "100 problems: nothing was loaded"]


def test_facts_hold_every_problem(graph: og.Graph) -> None:
    with pytest.raises(LoadError) as caught:
        loaded(graph, "append", edge("Knows", "zed", "zed"))

    assert caught.value.kind is og.Kind.INVALID
    assert json.loads(json.dumps(caught.value.facts())) == {
        "groups": [{"rule": "endpoint", "type": "Knows", "property": "from", "count": 1}],
        "problems": [
            {
                "file": "in.jsonl",
                "line": 1,
                "type": "Knows",
                "property": "from",
                "value": '"zed"',
                "rule": "endpoint",
                "message": "Knows.from: no Person 'zed'",
            }
        ],
        "total": 1,
        "quarantine": None,
    }


# --- nothing, or nothing left -------------------------------------------------------------------------


@pytest.mark.parametrize("mode", LoadMode)
def test_a_load_that_is_refused_leaves_nothing(graph: og.Graph, temporary: Path, mode: LoadMode) -> None:
    people(graph, "a")
    before, files = graph.snapshot().commit.id, files_below(graph)

    refused(graph, mode, person("a"), person("b", age=-3), edge("Knows", "a", "zed"))

    assert graph.snapshot().commit.id == before
    assert files_below(graph) == files
    assert list(temporary.iterdir()) == []


def test_a_load_leaves_no_temporary_files(graph: og.Graph, temporary: Path) -> None:
    loaded(graph, "append", person("a"))

    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("mode", LoadMode)
def test_a_load_of_nothing_changes_nothing(graph: og.Graph, mode: LoadMode) -> None:
    people(graph, "a")
    before = graph.snapshot().commit.id

    result = loaded(graph, mode, "// no records", "")

    assert result.commit_id is None
    assert graph.snapshot().commit.id == before


def test_an_error_of_the_source_leaves_nothing(graph: og.Graph, temporary: Path) -> None:
    def chunks() -> Any:
        yield text_of([person("a")])
        raise RuntimeError("the source broke")

    files = files_below(graph)
    with pytest.raises(RuntimeError, match="the source broke"):
        loaded(graph, "append", inputs=LoadInput(graph=(GraphSource(data=chunks(), name="x"),)))

    assert files_below(graph) == files
    assert list(temporary.iterdir()) == []


def test_an_error_while_writing_leaves_nothing(graph: og.Graph, temporary: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.phase == "write":
            raise RuntimeError("enough")

    files = files_below(graph)
    with pytest.raises(RuntimeError, match="enough"):
        loaded(graph, "append", person("a"), progress=stop)

    assert files_below(graph) == files
    assert list(temporary.iterdir()) == []


def test_a_full_disk_is_told(graph: og.Graph, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Spool, "_build_table", full)
    with pytest.raises(SpoolError, match="No space left on device; free some space, or set TMPDIR"):
        loaded(graph, "append", person("a"))

    assert list(temporary.iterdir()) == []


def test_a_dry_run_checks_and_writes_nothing(graph: og.Graph) -> None:
    people(graph, "a")
    files = files_below(graph)

    result = loaded(graph, "append", person("b"), is_dry_run=True)

    assert result.is_dry_run
    assert result.nodes == {"Person": TypeCounts(read=1, inserted=1)}
    assert result.commit_id is None
    assert files_below(graph) == files
    assert refused(graph, "append", person("a"), is_dry_run=True)


def test_a_repeated_load_answers_as_the_first_and_decodes_nothing(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [person("a"), edge("Knows", "a", "a")]
    first = loaded(graph, "append", *records, idempotency_key="k")
    monkeypatch.delattr(LocalRecords, "read")

    again = loaded(graph, "append", *records, idempotency_key="k")

    assert again == first


def test_a_key_of_somebody_else_is_another_one(graph: og.Graph) -> None:
    loaded(graph, "append", person("a"), idempotency_key="k")

    assert loaded(graph, "append", person("b"), idempotency_key="k", actor="other").nodes["Person"].inserted == 1


def test_progress_goes_through_every_phase(graph: og.Graph) -> None:
    seen: list[Progress] = []

    loaded(graph, "append", person("a"), edge("Knows", "a", "a"), progress=seen.append)

    assert list(dict.fromkeys(one.phase for one in seen)) == ["read", "check", "write", "publish"]
    assert [one.rows for one in seen if one.phase == "write"] == [1, 2]
    assert [one.rows for one in seen if one.phase == "publish"] == [2]


def test_files_tell_how_many_bytes_there_are(graph: og.Graph, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(text_of([person("a")]))
    seen: list[Progress] = []

    loaded(graph, "append", inputs=LoadInput(graph=(GraphSource(data=path),)), progress=seen.append)

    last = [one for one in seen if one.phase == "read"][-1]
    assert (last.bytes, last.total_bytes) == (path.stat().st_size, path.stat().st_size)


def test_a_read_only_graph_is_not_loaded(graph: og.Graph) -> None:
    with pytest.raises(og.ReadOnlyError):
        loaded(og.open_graph(graph.uri, read_only=True), "append", person("a"))


# --- overwrite ---------------------------------------------------------------------------------------


def test_an_overwrite_replaces_the_tables_that_it_names(graph: og.Graph) -> None:
    loaded(graph, "append", person("a", age=1), person("b"), node("City", "r", name="Rome"))

    result = loaded(graph, "overwrite", person("a"), person("c"))

    assert result.nodes == {"Person": TypeCounts(read=2, inserted=1, updated=1, deleted=1)}
    assert rows(graph, "Person", "id", "age") == [{"id": "a", "age": None}, {"id": "c", "age": None}]
    assert len(rows(graph, "City")) == 1


def test_an_overwrite_leaves_no_edge_dangling(graph: og.Graph) -> None:
    loaded(graph, "append", person("a"), person("b"), edge("Knows", "a", "b"))

    with pytest.raises(LoadError) as caught:
        loaded(graph, "overwrite", person("b"))

    (problem,) = caught.value.problems
    assert (problem.file, problem.type, problem.property, problem.rule) == (None, "Knows", "from", "dangling")
    assert problem.message.startswith("Knows.from: Person 'a' would be removed")


def test_an_overwrite_of_nodes_and_edges_is_checked_as_it_will_be(graph: og.Graph) -> None:
    loaded(graph, "append", person("a"), person("b"), edge("Knows", "a", "b"))

    loaded(graph, "overwrite", person("b"), edge("Knows", "b", "b"))

    assert column(graph, "Knows", "src") == ["b"]
    assert refused(graph, "overwrite", person("c"), edge("Knows", "c", "b")) == [
        "in.jsonl, line 2: Knows.to: no Person 'b'"
    ]


def test_an_overwrite_may_use_the_values_of_rows_that_go(graph: og.Graph) -> None:
    loaded(graph, "append", person("a", email="x@"))

    loaded(graph, "overwrite", person("b", email="x@"))

    assert column(graph, "Person", "id") == ["b"]


def test_an_overwrite_of_edges_leaves_every_node_its_least(graph: og.Graph) -> None:
    teams = [one for name in "tu" for one in (node("Team", name=name), edge("Leads", name, "a"))]
    loaded(graph, "append", person("a"), *teams)

    assert refused(graph, "overwrite", edge("Leads", "t", "a")) == ["@card violation on Leads: 'u' has 0 edges (min 1)"]


def test_an_overwrite_by_an_empty_file_of_a_type_empties_it(graph: og.Graph) -> None:
    people(graph, "a", "b")
    nobody = TypedSource(type="Person", is_edge=False, data=pa.table({"name": pa.array([], pa.string())}))

    result = loaded(graph, "overwrite", inputs=LoadInput(typed=(nobody,)))

    assert result.nodes == {"Person": TypeCounts(deleted=2)}
    assert rows(graph, "Person") == []


# --- rows of one type ------------------------------------------------------------------------------------


def test_tables_are_loaded_by_columns(graph: og.Graph) -> None:
    persons = TypedSource(
        type="Person", is_edge=False, data=pa.table({"full": ["a", "b"], "age": [1, 2]}), columns={"name": "full"}
    )
    knows = TypedSource(type="Knows", is_edge=True, data=pa.table({"from": ["a"], "to": ["b"]}))

    loaded(graph, "append", inputs=LoadInput(typed=(persons, knows)))

    assert column(graph, "Person", "age") == [1, 2]
    assert column(graph, "Knows", "dst") == ["b"]


def test_a_row_of_a_table_is_named_by_its_number(graph: og.Graph) -> None:
    knows = TypedSource(type="Knows", is_edge=True, data=pa.table({"from": ["a", "zed"], "to": ["a", "a"]}))
    inputs = LoadInput(graph=(source(person("a")),), typed=(knows,))

    assert refused(graph, "append", inputs=inputs) == ["<edges Knows>, row 2: Knows.from: no Person 'zed'"]


def test_many_rows_lie_in_few_fragments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = new_graph(tmp_path, "node N { v: I64 }")
    monkeypatch.setattr("omnigraph.engine.decoding.graph_jsonl.WINDOW_ROWS", 100)
    table = pa.table({"v": range(200_000)})

    loaded(graph, "append", inputs=LoadInput(typed=(TypedSource(type="N", is_edge=False, data=table),)))

    dataset = graph.table("N")
    assert len(dataset.get_fragments()) == 1
    assert dataset.count_rows() == 200_000
