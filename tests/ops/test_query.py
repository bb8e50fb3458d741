"""Queries through the graph: one snapshot, checked before anything is read, within time and memory."""

import io
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import omnigraph as og
from mutating import new_graph, people, run
from omnigraph.clock import SystemClock
from omnigraph.engine import executor as running
from omnigraph.engine.executor import execute
from omnigraph.engine.output import result_pipeline as finishing
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.result_files import ResultFormatError
from omnigraph.errors import LimitError
from omnigraph.lang.source import Source
from omnigraph.ops import plan_cache, query_cache
from omnigraph.ops import query as verb
from omnigraph.ops.plan_cache import PlanCache
from omnigraph.ops.query import QueryCall
from omnigraph.ops.query_cache import CatalogCache, QueryCache
from raised_codes import has_code

NAMES = "query names() { match { $p: Person } return { $p.name } order { $p.name } }"
ONE = "query one($n: String) { match { $p: Person { name: $n } } return { $p.name, $p.age } }"
FRIENDS = "query friends($n: String) { match { $p: Person { name: $n } $p knows $q } return { $q.name } limit 9 }"


def searching(predicate: str = "", order: str = "$p.name") -> str:
    """A query that is given a number, and a text that may be null."""
    head = "query q($t: String?, $k: I64)"
    return f"{head} {{ match {{ $p: Person {predicate} }} return {{ $p.name }} order {{ {order} }} limit 3 }}"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = new_graph(tmp_path)
    run(made, 'insert Person { name: "ada", age: 36 } insert Person { name: "bob" }')
    return made


def names(result: og.Result) -> list[Any]:
    return [row["p.name"] for row in result.rows()]


def files(root: Path) -> set[str]:
    return {str(path) for path in root.rglob("*") if path.is_file()}


# --- what is asked ------------------------------------------------------------------------------------------


def test_a_query_reads_the_newest_state(graph: og.Graph) -> None:
    people(og.open_graph(graph.uri), "cyd")

    result = graph.query(NAMES)

    assert names(result) == ["ada", "bob", "cyd"]
    assert (result.query_name, result.row_count, result.columns) == ("names", 3, ("p.name",))
    assert result.commit_id == graph.snapshot().commit.id
    assert result.to_json()["target"] == {"branch": "main"}


def test_a_query_reads_the_state_of_a_commit(graph: og.Graph) -> None:
    past = graph.snapshot().commit.id
    people(graph, "cyd")

    result = graph.query(NAMES, snapshot=past)

    assert names(result) == ["ada", "bob"]
    assert (result.commit_id, result.to_json()["target"]) == (past, {"snapshot": past})


def test_a_query_reads_the_state_at_a_time(graph: og.Graph) -> None:
    first, second = graph.commits()[1], graph.commits()[0]
    at = datetime.fromisoformat(second.at) - timedelta(microseconds=1)

    result = graph.query(NAMES, at=at)

    assert names(result) == []
    assert (result.commit_id, result.to_json()["target"]) == (first.id, {"snapshot": first.id})


def test_one_state_is_asked_for(graph: og.Graph) -> None:
    with pytest.raises(og.BadArgumentError, match="either a snapshot or a time"):
        graph.query(NAMES, snapshot="x", at=datetime.now(UTC))


def test_a_state_that_is_not_there_is_refused(graph: og.Graph) -> None:
    with pytest.raises(og.BranchMissingError, match="no branch `review`"):
        graph.query(NAMES, branch="review")
    with pytest.raises(og.CommitMissingError):
        graph.query(NAMES, snapshot="nothing")
    with pytest.raises(og.CommitMissingError):
        graph.query(NAMES, at=datetime(2000, 1, 1, tzinfo=UTC))


def test_a_query_is_named_or_alone(graph: og.Graph) -> None:
    both = f"{NAMES}\n{ONE}"

    assert names(graph.query(both, name="one", params={"n": "bob"})) == ["bob"]
    with pytest.raises(og.BadArgumentError, match="names, one"):
        graph.query(both)
    with pytest.raises(og.MissingError, match="did you mean `one`"):
        graph.query(both, name="onee")


def test_a_mutation_is_no_query(graph: og.Graph) -> None:
    with pytest.raises(og.QueryError, match="the query `drop` changes the graph"):
        graph.query("query drop() { delete Person where age = 36 }")

    assert names(graph.query(NAMES)) == ["ada", "bob"]


def test_mistakes_of_the_text_are_shown_at_their_place(graph: og.Graph) -> None:
    with pytest.raises(og.SourceError, match=r"people.gq:1:25: T1"):
        graph.query(Source("query q() { match { $p: Persn } return { $p.name } }", "people.gq"))


def test_a_text_that_no_one_writes_is_refused_unread(graph: og.Graph) -> None:
    with pytest.raises(LimitError, check=has_code("text_too_large")):
        graph.query(NAMES + " " * 1024 * 1024)


def test_the_settings_say_how_long_a_text_may_be(graph: og.Graph) -> None:
    strict = og.open_graph(graph.uri, runtime=og.Runtime(options=og.Options(query_text_characters=len(NAMES))))

    assert names(strict.query(NAMES)) == ["ada", "bob"]
    with pytest.raises(LimitError, check=has_code("text_too_large")):
        strict.query(NAMES + " ")


def test_a_read_only_graph_can_be_asked(graph: og.Graph) -> None:
    assert names(og.open_graph(graph.uri, read_only=True).query(NAMES)) == ["ada", "bob"]


@pytest.mark.parametrize(
    "text, params, problem",
    [
        (ONE, {}, "`$n: String` is missing"),
        (ONE, {"n": 1}, "expected a string"),
        (ONE, {"n": "ada", "m": 1}, "unknown parameter `$m`"),
        (ONE, {f"p{number}": 1 for number in range(1001)}, "at most 1,000"),
        ("query q($k: I64) { match { $p: Person } return { $p.name } limit $k }", {"k": -1}, "at least 0"),
        (searching("not search($p.name, $t)"), {"k": 1}, "the parameter `$t`: `search` has nothing to look for"),
        (searching("not { $p knows $q  match_text($q.name, $t) }"), {"k": 1}, "`match_text` has nothing to look for"),
        (searching("fuzzy($p.name, $t, $k)"), {"t": "a", "k": -1}, "the parameter `$k`: `fuzzy` needs"),
        (searching("fuzzy($p.name, $t, $k)"), {"k": -1}, "the parameter `$t`: `fuzzy` has nothing to look for"),
        (searching(order="bm25($p.name, $t)"), {"k": 1}, "`bm25` has nothing to look for"),
        (searching(order="rrf(bm25($p.name, $t), bm25($p.email, $t), $k)"), {"t": "a", "k": 0}, "`rrf` needs"),
    ],
)
def test_parameters_are_checked_before_a_row_is_read(
    graph: og.Graph, text: str, params: dict[str, object], problem: str
) -> None:
    with graph._session.runtime.telemetry.count_requests() as requests, pytest.raises(og.ParameterError) as refused:
        graph.query(text, params=params)

    assert problem in str(refused.value)
    assert requests.count(target="table") == 0


# --- within time and memory, in parts ---------------------------------------------------------------------------


def test_equal_values_are_counted_in_parts(graph: og.Graph) -> None:
    table = pa.table({"name": [f"p{n}" for n in range(3_000)], "age": pa.array([7] * 3_000, pa.int32())})
    graph.load(nodes={"Person": table}, mode="append")

    result = graph.query(
        "query q() { match { $a: Person $b: Person $a.age = $b.age } return { count(*) as n } }", memory_bytes=150 << 20
    )

    assert result.rows() == [{"n": 9_000_001}]


# --- rows -------------------------------------------------------------------------------------------------------


def test_a_result_is_gone_through_row_by_row(graph: og.Graph) -> None:
    result = graph.query(NAMES)

    assert list(result) == result.rows() == [{"p.name": "ada"}, {"p.name": "bob"}]
    assert len(result) == 2
    assert graph.query(ONE, params={"n": "nobody"})


def test_a_format_that_there_is_not_is_refused_with_those_there_are(graph: og.Graph) -> None:
    with pytest.raises(ResultFormatError, match=r"as `cvs`, only as jsonl, csv, arrow, .*did you mean `csv`"):
        graph.query(NAMES).write(io.BytesIO(), "cvs")


# --- one snapshot ---------------------------------------------------------------------------------------------


def test_a_commit_in_the_middle_of_a_query_is_not_seen(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    before = graph.snapshot().commit.id

    def slowly(*arguments: Any, **options: Any) -> Any:
        run(og.open_graph(graph.uri), 'update Person set { age: 99 } where name = "ada"')
        run(og.open_graph(graph.uri), 'delete Person where name = "bob"')
        return execute(*arguments, **options)

    monkeypatch.setattr(verb, "execute", slowly)
    result = graph.query("query q() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }")

    assert result.rows() == [{"p.name": "ada", "p.age": 36}, {"p.name": "bob", "p.age": None}]
    assert result.commit_id == before
    monkeypatch.undo()
    assert names(graph.query(NAMES)) == ["ada"]


def test_rows_that_are_fetched_later_are_of_the_same_state(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "MAX_EAGER_ROWS", 0)
    result = graph.query(NAMES)
    run(graph, 'delete Person where name = "ada"')

    assert [batch.to_pylist() for batch in result.batches(1)] == [[{"p.name": "ada"}], [{"p.name": "bob"}]]


def test_a_query_beside_a_writer_sees_whole_commits_only(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    stop = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            for number in range(12):
                people(graph, f"a{number}", f"b{number}")
        except BaseException as error:  # noqa: BLE001 - told by the test
            failures.append(error)
        finally:
            stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    counts = []
    while not stop.is_set():
        (row,) = graph.query("query q() { match { $p: Person } return { count(*) as n } }").rows()
        counts.append(row["n"])
    writer.join()

    assert failures == []
    assert [count for count in counts if count % 2] == []
    assert counts == sorted(counts)


# --- time, memory, cancelling -----------------------------------------------------------------------------------


def test_a_query_that_takes_too_long_is_stopped(graph: og.Graph) -> None:
    with pytest.raises(og.QueryTimeoutError, match="ran longer than 1e-09 seconds"):
        graph.query(FRIENDS, params={"n": "ada"}, seconds=1e-9)

    assert graph.query(FRIENDS, params={"n": "ada"}).rows() == []


def test_a_query_that_needs_too_much_memory_is_stopped(graph: og.Graph) -> None:
    with pytest.raises(og.QueryMemoryError):
        graph.query(NAMES, memory_bytes=1)


def test_the_settings_limit_queries_that_say_nothing(tmp_path: Path) -> None:
    made = new_graph(tmp_path)
    people(made, "ada")
    strict = og.open_graph(made.uri, runtime=og.Runtime(options=og.Options(query_memory_bytes=1)))

    with pytest.raises(og.QueryMemoryError):
        strict.query(NAMES)
    assert names(strict.query(NAMES, memory_bytes=2**20)) == ["ada"]


class Stepping(SystemClock):
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time = 0.0

    def monotonic(self) -> float:
        return self.time


@pytest.fixture
def many(tmp_path: Path) -> og.Graph:
    """More people than a result fetches at once."""
    made = new_graph(tmp_path)
    made.load(nodes={"Person": pa.table({"name": [f"p{number:05}" for number in range(5_000)]})}, mode="append")
    return made


def test_the_reading_of_a_large_result_has_what_is_left_of_the_time(
    many: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Stepping()
    batches = many.query(NAMES, budget=Budget(clock, seconds=10.0)).batches(1_000)
    project = vars(finishing)["project"]

    def slowly(*arguments: Any) -> pa.RecordBatch:
        clock.time += 4.0
        return project(*arguments)

    monkeypatch.setattr(finishing, "project", slowly)

    assert [next(batches).num_rows for _ in range(3)] == [1_000] * 3
    with pytest.raises(og.QueryTimeoutError, match="ran longer than 10 seconds"):
        next(batches)


def test_what_a_reader_does_between_batches_takes_nothing_of_the_time(many: og.Graph) -> None:
    clock = Stepping()
    result = many.query(NAMES, budget=Budget(clock, seconds=10.0))

    read = 0
    for batch in result.batches(1_000):
        read += batch.num_rows
        clock.time += 100.0

    assert read == 5_000


def test_a_result_whose_time_is_over_gives_no_more_rows(many: og.Graph) -> None:
    clock = Stepping()
    budget = Budget(clock, seconds=10.0)
    result = many.query(NAMES, budget=budget)
    clock.time += 100.0
    assert result.part(0, 10).num_rows == 10

    budget.cancel()

    with pytest.raises(og.QueryCancelledError):
        result.part(0, 10)


def test_an_answer_that_took_too_long_is_none(many: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Stepping()
    finish = vars(running)["build_result"]

    def late(*arguments: Any) -> Any:
        found = finish(*arguments)
        clock.time += 11.0
        return found

    monkeypatch.setattr(running, "build_result", late)

    with pytest.raises(og.QueryTimeoutError):
        many.query(NAMES, budget=Budget(clock, seconds=10.0))


def test_a_query_that_was_cancelled_stops(graph: og.Graph) -> None:
    budget = Budget(SystemClock())
    budget.cancel()

    with pytest.raises(og.QueryCancelledError):
        verb.query(graph._session, QueryCall(source=Source(NAMES)), budget)


def test_a_query_that_is_cancelled_while_it_runs_stops_soon(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget(SystemClock())

    def meanwhile(*arguments: Any, **options: Any) -> Any:
        canceller = threading.Thread(target=budget.cancel)
        canceller.start()
        canceller.join()
        return execute(*arguments, **options)

    monkeypatch.setattr(verb, "execute", meanwhile)
    with pytest.raises(og.QueryCancelledError):
        verb.query(graph._session, QueryCall(source=Source(NAMES)), budget)
    monkeypatch.undo()

    assert names(graph.query(NAMES)) == ["ada", "bob"]


@pytest.mark.parametrize("module, part", [(plan_cache, "plan_read"), (verb, "execute"), (running, "build_result")])
def test_an_interrupted_query_leaves_nothing_behind(
    graph: og.Graph, module: ModuleType, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = names(graph.query(NAMES))
    before = files(tmp_path)

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    graph._session.plans = PlanCache()  # so that it is planned again
    monkeypatch.setattr(module, part, interrupted)
    with pytest.raises(KeyboardInterrupt):
        graph.query(NAMES)
    monkeypatch.undo()

    assert files(tmp_path) == before
    assert names(graph.query(NAMES)) == expected


EVERY_STEP = """
query q() {
    match {
        $a: Person
        $b: Person
        $c: Person
        $a.age = $b.age
        $b.name <= $c.name
        not { $c.age > 36 }
    }
    return { $a.name as a, $b.name as b, $c.name as c, count(*) as n }
    order { a, b, c }
}
"""


def test_a_query_that_is_interrupted_in_any_step_leaves_the_handle_as_it_was(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, step, left, interrupted = graph.query(EVERY_STEP).rows(), running._Executor.run_step, -1, 0

    def until(self: running._Executor, *arguments: Any, **options: Any) -> Any:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        return step(self, *arguments, **options)

    monkeypatch.setattr(running._Executor, "run_step", until)
    for steps in range(50):
        left = steps
        with suppress(KeyboardInterrupt):
            assert graph.query(EVERY_STEP).rows() == expected
            break
        interrupted, left = interrupted + 1, -1
        assert graph.query(EVERY_STEP).rows() == expected

    assert 5 < interrupted < 50


# --- asking again -------------------------------------------------------------------------------------------------


def counting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries that are parsed and bound from now on."""
    seen: list[str] = []
    prepare = query_cache.prepare

    def counted(source: Source, name: str | None, catalog: Any, check: Any) -> Any:
        seen.append(source.text)
        return prepare(source, name, catalog, check)

    monkeypatch.setattr(query_cache, "prepare", counted)
    return seen


def test_a_query_is_parsed_and_bound_once(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = counting(monkeypatch)

    for name in ("ada", "bob"):
        assert names(graph.query(ONE, params={"n": name})) == [name]
        people(graph, f"new-{name}")

    assert seen == [ONE]


def test_a_query_by_another_name_is_another_query(graph: og.Graph) -> None:
    both = f"{NAMES}\n{ONE}"

    first = graph.query(both, name="names")
    second = graph.query(both, name="one", params={"n": "bob"})

    assert (first.columns, second.columns) == (("p.name",), ("p.name", "p.age"))


def test_another_schema_binds_a_query_anew(graph: og.Graph) -> None:
    kept = QueryCache(10_000)
    session = graph._session
    catalog = session.load_catalog(session.resolve_snapshot())

    first = kept.get_or_prepare(Source(NAMES), None, "s1", catalog)

    assert kept.get_or_prepare(Source(NAMES), None, "s1", catalog) is first
    assert kept.get_or_prepare(Source(NAMES), None, "s2", catalog) is not first


def test_only_so_many_queries_are_kept(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    session = graph._session
    catalog = session.load_catalog(session.resolve_snapshot())
    monkeypatch.setattr(query_cache, "MAX_QUERIES", 2)
    seen = counting(monkeypatch)
    kept = QueryCache(10_000)

    for text in (NAMES, NAMES + " ", NAMES, NAMES + "  ", NAMES, NAMES + " "):
        kept.get_or_prepare(Source(text), None, "s", catalog)

    assert seen == [NAMES, NAMES + " ", NAMES + "  ", NAMES + " "]


def test_only_so_much_text_is_kept(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    session = graph._session
    catalog = session.load_catalog(session.resolve_snapshot())
    monkeypatch.setattr(query_cache, "MAX_TEXT_BYTES", len(NAMES) + 5)
    seen = counting(monkeypatch)
    kept = QueryCache(10_000)

    for text in (NAMES, NAMES + " ", NAMES):
        kept.get_or_prepare(Source(text), None, "s", catalog)

    assert len(seen) == 3


def test_a_query_asked_again_reads_no_table(graph: og.Graph) -> None:
    graph.query(FRIENDS, params={"n": "ada"}).rows()

    with graph._session.runtime.telemetry.count_requests() as requests:
        graph.query(FRIENDS, params={"n": "bob"}).rows()

    assert requests.count(target="table") == 0
    assert requests.count(target="manifest") <= 1


def test_queries_of_several_threads_don_t_mix(graph: og.Graph) -> None:
    found: list[tuple[str, Any]] = []

    def ask(name: str) -> None:
        for _ in range(20):
            found.append((name, names(graph.query(ONE, params={"n": name}))))  # noqa: PERF401 - as they come

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("ada", "bob", "nobody")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 60
    assert all(result == ([] if name == "nobody" else [name]) for name, result in found)


def test_now_is_one_instant_for_the_whole_query(graph: og.Graph) -> None:
    before = datetime.now(UTC)

    rows = graph.query("query q() { match { $p: Person } return { now() as at, $p.name } }").rows()

    assert len({row["at"] for row in rows}) == 1
    assert before <= rows[0]["at"] <= datetime.now(UTC)


def test_the_catalog_of_a_schema_is_one_object(graph: og.Graph) -> None:
    first = graph._session.load_catalog(graph.snapshot())
    people(graph, "cyd")

    assert graph._session.load_catalog(graph.snapshot()) is first


def test_only_so_many_catalogs_are_kept(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_cache, "MAX_CATALOGS", 2)
    kept = CatalogCache()
    one, two, three = (msgspec.structs.replace(graph.snapshot().manifest.schema, id=name) for name in "123")

    first, second = kept.get_or_decode(one), kept.get_or_decode(two)
    kept.get_or_decode(three)

    assert kept.get_or_decode(two) is second
    assert kept.get_or_decode(one) is not first
