"""Loads and other writers at once: each load has checked and written its rows when somebody else is faster."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from load_calls import Record, edge, files_below, loaded, node, person, source, text_of
from mutating import column, new_graph, rows, run
from omnigraph.commit.sidecar import list_sidecars
from omnigraph.engine.bulk.load_checks import reject_broken_rows
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.ops.load import GraphSource, LoadError, LoadInput, LoadResult, TypeCounts
from omnigraph.ops.load_local import LocalRecords
from omnigraph.storage import key_lookup
from omnigraph.storage.lance_table import LanceTable
from worlds import runtime

Outcome = LoadResult | og.OmnigraphError


class Meanwhile:
    """Faults that do something else, once, when the load has staged its rows."""

    def __init__(self, first: Callable[[], object]) -> None:
        self._waiting = [first]
        self.staged = 0

    def reach(self, point: str) -> None:
        """Called by the publisher."""
        if point == "publish.staged":
            self.staged += 1
            if self._waiting:
                self._waiting.pop()()


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = new_graph(tmp_path)
    run(
        graph,
        'insert Person { name: "a", age: 1 } insert Person { name: "b", age: 2 } insert Team { name: "t" }'
        ' insert Leads { from: "t", to: "a" }',
    )
    return graph


def beside(graph: og.Graph, first: Callable[[], object]) -> tuple[og.Graph, Meanwhile]:
    """Another handle, whose next write comes behind `first`."""
    other = og.open_graph(graph.uri, runtime=runtime())
    faults = Meanwhile(first)
    other._session.store.runtime = replace(runtime(), faults=faults)
    return other, faults


def race(graph: og.Graph, first: str, mode: str, *records: Record) -> Outcome:
    """How a load ends when a mutation comes between its checks and its commit."""
    other, _ = beside(graph, lambda: run(graph, first))
    try:
        return loaded(other, mode, *records)
    except og.OmnigraphError as error:
        return error


# --- append ------------------------------------------------------------------------------------------


def test_an_append_of_other_keys_is_moved_behind_without_being_written_again(graph: og.Graph) -> None:
    other, faults = beside(graph, lambda: run(graph, 'insert Person { name: "c" }'))

    loaded(other, "append", person("d"))

    assert column(graph, "Person", "id") == ["a", "b", "c", "d"]
    assert faults.staged == 1


def test_an_append_of_the_same_key_is_a_conflict(graph: og.Graph) -> None:
    result = race(graph, 'insert Person { name: "c", age: 7 }', "append", person("c", age=8))

    assert isinstance(result, og.ConflictError)
    assert result.table_key == "node:Person"
    assert column(graph, "Person", "age") == [1, 2, 7]


class Busy:
    """Faults that let somebody else insert before each of the first swaps."""

    def __init__(self, graph: og.Graph, swaps: int) -> None:
        self._graph, self._left = graph, swaps
        self.staged = self.swaps = 0

    def reach(self, point: str) -> None:
        """Called by the publisher."""
        self.staged += point == "publish.staged"
        if point == "publish.flushed":
            self.swaps += 1
            if self._left:
                self._left -= 1
                run(self._graph, f'insert Person {{ name: "other{self._left:02}" }}')


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_load_that_loses_many_swaps_completes_and_checks_only_what_came(
    mode: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does in a worker beside that of the branch, whose clients never rest."""
    seen: list[list[int] | None] = []
    iter_batches = LanceTable.iter_batches

    def note(table: LanceTable, *args: Any, **options: Any) -> Any:
        seen.append(options.get("fragments"))
        return iter_batches(table, *args, **options)

    session = graph._session
    table = session.open_tables(session.head().snapshot).open_table("node:Person")
    before = {fragment.number for fragment in table.list_fragments()}
    other = og.open_graph(graph.uri, runtime=runtime())
    busy = Busy(graph, swaps=10)
    other._session.store.runtime = replace(runtime(), faults=busy)
    monkeypatch.setattr(LanceTable, "iter_batches", note)

    loaded(other, mode, *(person(f"p{number:04}") for number in range(5_000)))

    assert graph.query("match { $p: Person } return { count(*) as n }").rows() == [{"n": 5_012}]
    # No attempt is begun again, and each round reads what the commits since the first one added.
    assert (busy.staged, busy.swaps) == (1, 11)
    rounds = [fragments for fragments in seen if fragments is not None]
    assert [len(fragments) for fragments in rounds] == list(range(1, 11))
    assert all(before.isdisjoint(fragments) for fragments in rounds)


@pytest.mark.parametrize(
    "first, is_conflict",
    [
        ('insert Person { name: "c", age: 7 }', True),
        ('insert Person { name: "d" }', False),
        ('update Person set { age: 9 } where name = "a"', False),
        ('delete Person where name = "b"', False),
    ],
)
def test_an_append_of_many_keys_conflicts_with_one_that_came(
    first: str, is_conflict: bool, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One key is many.
    monkeypatch.setattr(key_lookup, "MAX_PUSHED_KEYS", 0)

    result = race(graph, first, "append", person("c", age=8))

    assert type(result) is (og.ConflictError if is_conflict else LoadResult)


def test_an_append_of_many_keys_conflicts_with_a_reset_that_brings_one_back(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_lookup, "MAX_PUSHED_KEYS", 0)
    before = graph.snapshot().commit.id
    run(graph, 'delete Person where name = "b"')
    other, _ = beside(graph, lambda: graph.reset("main", to=before))

    with pytest.raises(og.ConflictError):
        loaded(other, "append", person("b", age=8))

    assert column(graph, "Person", "age") == [1, 2]


def test_an_append_of_a_unique_value_that_was_just_taken_is_a_conflict(graph: og.Graph) -> None:
    result = race(graph, 'insert Person { name: "c", email: "x@" }', "append", person("d", email="x@"))

    assert isinstance(result, og.ConflictError)
    assert column(graph, "Person", "id") == ["a", "b", "c"]


def test_what_was_just_taken_can_be_left_out(graph: og.Graph, tmp_path: Path) -> None:
    other, _ = beside(graph, lambda: run(graph, 'insert Person { name: "c" }'))

    result = loaded(other, "append", person("c"), person("d"), on_error=tmp_path / "bad")

    assert result.rejected == 1
    assert column(graph, "Person", "id") == ["a", "b", "c", "d"]
    assert len((tmp_path / "bad" / "rejected.jsonl").read_text().splitlines()) == 1


def test_an_edge_whose_end_went_meanwhile_is_refused(graph: og.Graph) -> None:
    result = race(graph, 'delete Person where name = "b"', "append", edge("Knows", "a", "b"))

    assert isinstance(result, LoadError)
    assert result.problems[0].message == "Knows.to: no Person 'b'"
    assert rows(graph, "Knows") == []


def test_edges_are_counted_with_those_that_came_meanwhile(graph: og.Graph) -> None:
    loaded(graph, "append", node("City", "r", name="Rome"))

    result = race(graph, 'insert WorksAt { from: "a", to: "r" }', "append", edge("WorksAt", "a", "r"))

    assert isinstance(result, LoadError)
    assert result.problems[0].message == "@card violation on WorksAt: 'a' has 2 edges (max 1)"


def test_an_append_behind_an_overwrite_is_checked_anew(graph: og.Graph) -> None:
    other, faults = beside(graph, lambda: loaded(graph, "overwrite", person("a"), person("z"), edge("Leads", "t", "z")))

    loaded(other, "append", edge("Knows", "a", "a"))

    assert column(graph, "Person", "id") == ["a", "z"]
    assert column(graph, "Knows", "src") == ["a"]
    assert faults.staged == 1


def test_an_append_of_edges_to_nodes_that_an_overwrite_took_is_refused(graph: og.Graph) -> None:
    other, _ = beside(graph, lambda: loaded(graph, "overwrite", person("a")))

    with pytest.raises(LoadError, match=r"Knows\.to: no Person 'b'"):
        loaded(other, "append", edge("Knows", "a", "b"))


# --- merge -------------------------------------------------------------------------------------------


def test_a_merge_fills_in_what_was_changed_meanwhile(graph: og.Graph) -> None:
    result = race(graph, 'update Person set { score: 9.5 } where name = "a"', "merge", person("a", age=7))

    assert isinstance(result, LoadResult)
    assert rows(graph, "Person", "id", "age", "score")[0] == {"id": "a", "age": 7, "score": 9.5}


def test_a_merge_of_a_row_that_went_meanwhile_makes_it_new(graph: og.Graph) -> None:
    result = race(graph, 'delete Person where name = "b"', "merge", person("b", email="x@"))

    assert isinstance(result, LoadResult)
    assert result.nodes == {"Person": TypeCounts(read=1, inserted=1)}
    assert rows(graph, "Person", "id", "age", "email")[1] == {"id": "b", "age": None, "email": "x@"}


def test_a_merge_of_a_row_that_came_meanwhile_changes_it(graph: og.Graph) -> None:
    result = race(graph, 'insert Person { name: "c", age: 5 }', "merge", person("c", score=1.0))

    assert isinstance(result, LoadResult)
    assert result.nodes == {"Person": TypeCounts(read=1, updated=1)}
    assert rows(graph, "Person", "id", "age", "score")[2] == {"id": "c", "age": 5, "score": 1.0}


def test_a_merge_that_relied_on_an_unchanged_row_looks_again(graph: og.Graph) -> None:
    result = race(graph, 'update Person set { age: 50 } where name = "a"', "merge", person("a", age=1), person("c"))

    assert isinstance(result, LoadResult)
    assert result.nodes == {"Person": TypeCounts(read=2, inserted=1, updated=1)}
    assert column(graph, "Person", "age") == [1, 2, None]


def test_a_merge_of_other_rows_is_moved_behind(graph: og.Graph) -> None:
    other, faults = beside(graph, lambda: run(graph, 'update Person set { age: 50 } where name = "a"'))

    loaded(other, "merge", person("b", age=7))

    assert column(graph, "Person", "age") == [50, 7]
    assert faults.staged == 1


# --- overwrite ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        'insert Person { name: "c" }',
        'update Person set { age: 50 } where name = "a"',
        'delete Person where name = "b"',
        'insert Knows { from: "a", to: "b" }',
    ],
)
def test_an_overwrite_of_a_table_that_was_changed_is_a_conflict(graph: og.Graph, first: str) -> None:
    result = race(graph, first, "overwrite", person("a"), person("z"), edge("Knows", "a", "z"))

    assert isinstance(result, og.ConflictError)
    assert "z" not in column(graph, "Person", "id")


def test_an_overwrite_is_a_conflict_when_a_node_that_it_takes_gets_an_edge(graph: og.Graph) -> None:
    result = race(graph, 'insert Knows { from: "a", to: "b" }', "overwrite", person("a"))

    assert isinstance(result, og.ConflictError)
    assert result.table_key == "edge:Knows"


def test_an_overwrite_and_a_write_of_another_table_both_stay(graph: og.Graph) -> None:
    result = race(graph, 'insert City { name: "Rome" }', "overwrite", person("a"))

    assert isinstance(result, LoadResult)
    assert column(graph, "Person", "id") == ["a"]
    assert column(graph, "City", "name") == ["Rome"]


# --- every mode --------------------------------------------------------------------------------------


def test_the_input_is_decoded_once(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    windows: list[int] = []
    keeping = reject_broken_rows

    def counted(window: TypedRows, *rest: Any) -> TypedRows:
        windows.append(window.rows.num_rows)
        return keeping(window, *rest)

    monkeypatch.setattr("omnigraph.ops.load_local.reject_broken_rows", counted)
    other, faults = beside(graph, lambda: run(graph, 'update Person set { score: 1.0 } where name = "a"'))

    loaded(other, "merge", person("a", age=7))

    assert faults.staged == 2
    assert windows == [1]


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_load_that_lost_leaves_no_files(graph: og.Graph, mode: str) -> None:
    def first() -> None:
        run(graph, 'insert Person { name: "c", email: "x@" }')
        files.update(files_below(graph))

    files: set[str] = set()
    other, _ = beside(graph, first)
    known = (person("a"), person("b")) if mode == "overwrite" else ()
    with pytest.raises(og.OmnigraphError):
        loaded(other, mode, *known, person("d", email="x@"), edge("Knows", "a", "d"))

    new = {file for file in files_below(graph) - files if not file.startswith("__manifest")}
    left = {file for file in new if "/data/" in file or "/_deletions/" in file}
    assert left == set()
    assert list_sidecars(graph._session.store) == ([], [])


def test_the_same_load_twice_at_once_is_one_commit(graph: og.Graph) -> None:
    first: list[LoadResult] = []
    other, _ = beside(graph, lambda: first.append(loaded(graph, "append", person("c"), idempotency_key="k")))

    second = loaded(other, "append", person("c"), idempotency_key="k")

    assert [second] == first


def test_a_load_is_announced_before_its_first_file(graph: og.Graph) -> None:
    seen: list[tuple[int, bool]] = []
    before = files_below(graph)

    def look(_: object) -> None:
        sidecars, _broken = list_sidecars(graph._session.store)
        new = [file for file in files_below(graph) - before if "/data/" in file]
        seen.append((len(sidecars), bool(new)))

    loaded(graph, "append", person("c"), progress=lambda one: look(one) if one.phase == "write" else None)

    assert seen == [(1, False)]


def test_files_are_named_to_recovery_as_they_are_made(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.storage.staging.MAX_FRAGMENT_ROWS", 10)
    named: list[set[str]] = []
    made: list[set[str]] = []

    def look() -> None:
        (sidecar,), _ = list_sidecars(graph._session.store)
        named.append(set(sidecar.sidecar.files))
        made.append({file for file in files_below(graph) if "/data/" in file} - before)

    before = files_below(graph)
    other, _ = beside(graph, look)
    loaded(other, "append", *(person(f"p{number}") for number in range(35)))

    assert [len(files) for files in made] == [4]
    assert made[0] <= named[0]


# --- a schema that changes -----------------------------------------------------------------------------


def changed_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records of the next load are read by a schema that is not the newest."""
    begin = LocalRecords.__init__
    stale = ["an older one"]

    def older(records: LocalRecords, *given: object) -> None:
        *parts, schema_id = given
        begin(records, *parts, stale.pop() if stale else schema_id)  # type: ignore[arg-type, call-arg] # handed on

    monkeypatch.setattr(LocalRecords, "__init__", older)


def test_files_are_read_again_by_a_new_schema(graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(text_of([person("c")]))
    changed_schema(monkeypatch)

    loaded(graph, "append", inputs=LoadInput(graph=(GraphSource(data=path),)))

    assert column(graph, "Person", "id") == ["a", "b", "c"]


def test_a_stream_can_not_be_read_again_by_a_new_schema(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    changed_schema(monkeypatch)

    with pytest.raises(og.ConflictError, match="the schema was changed, and a stream can't be read again"):
        loaded(graph, "append", inputs=LoadInput(graph=(source(person("c")),)))
