"""The local engine: the same answers as in memory, within a budget, with nothing left behind; and how it is chosen."""

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.clock import SystemClock
from omnigraph.engine.query_budget import Budget, QueryCancelledError, QueryMemoryError, QueryTimeoutError
from omnigraph.engine.query_progress import QueryProgress
from omnigraph.errors import BadArgumentError, LimitError
from page_blocks import check_programs
from worlds import runtime

SCHEMA = """
node Person { name: String @key  age: I64?  big: U64  score: F64?  note: String? }
node City { name: String @key }
node Item { name: String @key  unit: I64  uNit: I64 }
edge Knows: Person -> Person { since: I64 }
edge Lives: Person -> City
"""
PEOPLE = 60
# 59^6 rows, of which the condition reads every variable, so that nothing can be counted instead of listed.
PARTS = "abcdef"
ENDLESS = f"match {{ {'; '.join(f'${v}: Person' for v in PARTS)}; {' + '.join(f'${v}.age' for v in PARTS)} > 200 }}"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = og.create_graph(str(tmp_path_factory.mktemp("local") / "g.omni"), SCHEMA, runtime=runtime())
    people: list[dict[str, object]] = [
        {
            "name": f"p{number:02}",
            "age": None if number % 7 == 0 else number % 20,
            "big": 2**63 + number,
            "score": (-0.0, 0.0, 1.5, 0.1, None)[number % 5],
            "note": ("Straße", "STRASSE", None)[number % 3],
        }
        for number in range(PEOPLE)
    ]
    edges = [(number, (number * step + step) % PEOPLE) for number in range(PEOPLE) for step in (1, 3, 3, 7)]
    records: list[dict[str, object]] = [{"type": "Person", "data": person} for person in people]
    records += [{"type": "City", "data": {"name": name}} for name in ("bern", "oslo")]
    records += [{"type": "Item", "data": {"name": f"i{n}", "unit": n, "uNit": -n // 2}} for n in range(6)]
    records += [{"edge": "Knows", "from": f"p{a:02}", "to": f"p{b:02}", "data": {"since": a}} for a, b in edges]
    records += [{"edge": "Lives", "from": f"p{n:02}", "to": ("bern", "oslo")[n % 2]} for n in range(0, PEOPLE, 2)]
    made.load(records, mode="append")
    # Deleted rows leave holes in the positions that DuckDB hands back.
    made.mutate('query q() { delete Person where name = "p05" }')
    return made


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


WHOLE = [
    "match { $a knows $b; $b knows $c; $a.age > $c.age } return { $b.age, count(*) as n, avg($c.age) as v }",
    "match { $a $e: Knows $b } return { $a.name, $e.since, $b.score } order { $b.score desc, $e.since } limit 7",
    "match { $a: Person; $a knows{1,3} $b; $b lives $c } return { $c.name, count(distinct $a) as n } order { n }",
    "match { $a: Person; $a knows{0,2} $b } return { $a.score, max($b.big) as m, sum($b.age) as s }",
    "match { $a: Person; optional { $a knows $b; $b.age = 3 } not { $a lives $c } } return { $a, $b } order { $a.age }",
    "match { $a knows $b; $b knows $a } return { count(*) as n, min($a.score) as low }",
    "match { $a knows $b; lower($a.note) = lower($b.note) } return { $a.name as x } order { $b.name, $a.name } limit 9",
    "match { $a: Person; either { $a knows $b } or { $b knows $a } } return { $a.age, count($b.age) as n }",
    "match { $a: Person; $b: Person; $a.age = $b.age; $a.big < $b.big } return { count(*) as n }",
    "match { $a: Person } return { $a.age, $a.name } order { $a.age desc } limit 2 per { $a.score }",
    "match { $a knows $b } return { $a, count(*) as n } having { n > 3 } order { n desc } limit 4",
    'match { $a: Person { name: "p01" }; $a knows $b } return distinct { $b.note } order { $b.note }',
    "match { $a knows $b; each $x in [1, 2] } return { $a.name, $x } order { $b.age } limit 5",
    "match { $a: Person; $a lives $c } return { $a.name, count { $a knows $x } as n } order { n }",
    "match { $a: Person } return { count { $a knows $x; $x knows $y } as n, count(*) as people } order { n }",
    (
        "match { $a: Person }"
        " return { $a.name, exists { $a lives $c } as is_here, sum { $a knows $x return $x.age } as n }"
    ),
    (
        "match { $a: Person }"
        " return { $a.name, avg { $a knows $x return $x.age } as m, max { $a knows $x return $x.name } as n }"
    ),
    (
        "match { $a: Person }"
        " return { $a.name, avg { $a knows $x return $x.score } as m, min { $a knows $x return $x.big } as n }"
    ),
    (
        "match { $a: Person }"
        " return { $a.name, collect { $a knows $x return $x.name order { $x.age desc } limit 2 } as names }"
    ),
    "match { $a: Person } return { $a.name, collect { $a knows $x return distinct $x.note } as notes }",
    (
        "match { $a: Person } return { $a.name, min { $a knows $x return distinct $x.score } as low,"
        " max { $a knows $x return distinct $x.note } as high }"
    ),
    (
        "match { $a: Person } return { $a.name, sum { $a knows $x return distinct $x.age } as s,"
        " avg { $a knows $x; $x knows $y return distinct $y.age } as m }"
    ),
    (
        "match { $a knows $b; $b knows $c }"
        " return { $a.age, sum($c.score) as s, avg($b.score) as m, count(*) as n, max($c.big) }"
    ),
    (
        "match { $a knows $b }"
        " return { sum($b.score) as s, avg($b.score) as m, sum($a.age) as n, avg($a.age) as o, min($b.name) }"
    ),
    "match { $a: Person; each $x in [3, 1, 3] } return { $x, count(*) as n, avg($a.score) as m } order { $x }",
    "match { $a: Person; $a lives $c; sum { $a knows $x return $x.age } > 3 } return { $a.name }",
    "match { $a: Person; sum { $a knows $x return 9223372036854775807 } > 0 } return { $a.name }",
    (
        "match { $a: Person }"
        " return { $a.name, sum { $a knows $x return $x.age order { $x.name desc } limit 2 } as n,"
        " count { $a knows $x return distinct $x.age order { $x.age } limit 2 } as m,"
        " avg { $b: Person return $b.age order { $b.name } limit 3 } as first }"
    ),
    "match { $a: Person } return { $a.name, collect { $a knows $x return $x.score order { $x.name } } as scores }",
    (
        "match { $a: Person } return { $a.name, count { $a knows $x; $x.age in [] } as n,"
        " max { $a knows $x; $x.age in [] return $x.age } as m }"
    ),
    (
        "match { $a: Person; $a lives $c; $a <knows>{1,2} $b } return { $a.age, $b.name }"
        " order { $b.age, $a.name, $b.name } limit 5"
    ),
    "match { $a: Person; $a <knows>{3,4} $a through { age > 2 } } return { $a.name }",
    (
        "match { $x: (Person|City); $a (knows|lives) $x } return { $a.name, $x.@type, $x.@id, $x }"
        " order { $a.name, $x.@type, $x.@id } limit 50"
    ),
    'match { $a $e: (Knows|Lives) $x; $e.@type != "Lives" or $a.age > 2 } return { $e.@type, $a.age, count(*) as n }',
    'match { $a: Person { name: "p05" }; $a (knows|lives){1,3} $x } return { $x.@type, $x.name }',
    (
        "match { $x: (Person|City); optional { $a (knows|lives) $x; $a.age = 3 } }"
        " return { $x.name, $a.name } order { $x.name, $a.name }"
    ),
    (
        "match { $a: Person; either { $a knows $x } or { $a lives $x } }"
        " return { $x.@type, count(*) as n, sum($a.score) as s } order { $x.@type }"
    ),
    (
        'match { $a: Person; either { each $x in ["a", "b"]; $a.age > 3 } or { each $x in ["b", "c"] } }'
        " return { $a.name, $x } order { $a.name, $x }"
    ),
]
PARTLY = [
    ("match { $a: Person; shortest $p = $a knows{1,3} $b } return { $a.name, length($p) as n }", "a path variable"),
    (
        "match { $a: Person; each $x in [0.5, -0.0]; exists { $a knows $b; $b.score > $x } } return { $a.name, $x }",
        "a comparison of values of the type F64",
    ),
]


def ask(graph: og.Graph, text: str, engine: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = graph.query(f"query q() {{ {text} }}", engine=engine).to_arrow().to_pylist()
    return rows if "order" in text else sorted(rows, key=repr)


@pytest.mark.parametrize("text", WHOLE)
def test_all_steps_run_in_duckdb_with_the_answer_of_memory(graph: og.Graph, text: str) -> None:
    explained = graph.explain(f"query q() {{ {text} }}", engine="local", analyze=True)

    assert "in memory" not in explained.text
    assert "[by DuckDB]" in explained.text
    assert ask(graph, text, "local") == ask(graph, text, "memory")


@pytest.mark.parametrize("text, form", PARTLY)
def test_a_step_without_a_relational_form_runs_over_the_rows_of_duckdb(graph: og.Graph, text: str, form: str) -> None:
    explained = graph.explain(f"query q() {{ {text} }}", engine="local", analyze=True)

    assert f"({form}" in explained.text
    assert "from there on" in explained.text
    assert ask(graph, text, "local") == ask(graph, text, "memory")


@pytest.mark.parametrize("other", ["collect($b.age)", "variance($b.age)", "median($b.age)", "count(distinct $b.age)"])
def test_a_sum_of_floats_beside_an_aggregate_that_is_not_made_of_parts(graph: og.Graph, other: str) -> None:
    text = f"match {{ $a knows $b }} return {{ $a.note, sum($b.score) as s, {other} as x }}"

    assert ask(graph, text, "local") == ask(graph, text, "memory")


@pytest.mark.parametrize(
    "text",
    [
        "match { $aB knows $ab; $ab.age > 3 } return { $aB.name as n, $ab.name as m } order { $ab.name, $aB.name }",
        "match { $aB $eE: Knows $ab; $ab $ee: Knows $c; $eE.since < $ee.since } return { $ee.since, count(*) as n }",
        "match { $a: Item } return { $a.unit as u, $a.uNit as v, count(*) as n } order { u, v }",
        "match { $a: Item } return { $a.name as n } order { $a.unit, $a.uNit } limit 2",
        "match { $a: Item; $b: Item; $a.unit = $b.uNit } return { $a.name as n, $b.name as m } order { n, m }",
    ],
)
def test_names_that_differ_in_case_alone_are_different(graph: og.Graph, text: str) -> None:
    assert ask(graph, text, "local") == ask(graph, text, "memory")


def test_operators_and_their_time_are_shown_after_a_run(graph: og.Graph) -> None:
    explained = graph.explain(
        "query q() { match { $a knows $b } return { count(*) as n } }", engine="local", analyze=True
    )

    engine = explained.to_json()["engine"]
    assert isinstance(engine, dict)
    assert engine["name"] == "local"
    assert engine["reason"] == "as requested"
    assert any("table scan" in line and " ms" in line for line in engine["operators"])


@pytest.mark.usefixtures("temporary")
def test_a_deadline_ends_a_query(graph: og.Graph) -> None:
    with pytest.raises(QueryTimeoutError):
        graph.query(f"query q() {{ {ENDLESS} return {{ count(*) as n }} }}", engine="local", seconds=0.5)


def test_a_cancelled_query_ends_and_leaves_nothing(graph: og.Graph, temporary: Path) -> None:
    budget = Budget(SystemClock())
    threading.Timer(0.5, budget.cancel).start()

    with pytest.raises(QueryCancelledError):
        graph.query(f"query q() {{ {ENDLESS} return {{ count(*) as n }} }}", engine="local", budget=budget)

    assert list(temporary.iterdir()) == []


def test_progress_is_reported_while_duckdb_runs(graph: og.Graph) -> None:
    seen: list[QueryProgress] = []
    budget = Budget(SystemClock())

    def report(progress: QueryProgress) -> None:
        seen.append(progress)
        if progress.rows == progress.total_rows > 0:
            budget.cancel()

    with pytest.raises(QueryCancelledError):
        graph.query(
            f"query q() {{ {ENDLESS} return {{ count(*) as n }} }}", engine="local", budget=budget, progress=report
        )

    assert (seen[-1].rows, seen[-1].share) == (len(PARTS) * (PEOPLE - 1), 1.0)
    assert [each.rows for each in seen] == sorted(each.rows for each in seen)
    assert all(each.rows <= each.total_rows for each in seen)


def ask_endless(graph: og.Graph, report: Callable[[QueryProgress], None]) -> None:
    graph.query(f"query q() {{ {ENDLESS} return {{ count(*) as n }} }}", engine="local", progress=report)


def ask_endless_sql(graph: og.Graph, report: Callable[[QueryProgress], None]) -> None:
    graph.sql("select sum(a.age + b.age + c.age) from Knows k, Knows l, Person a, Person b, Person c", progress=report)


@pytest.mark.parametrize("ask_for_long", [ask_endless, ask_endless_sql])
def test_an_error_of_the_function_that_is_told_ends_the_query(
    ask_for_long: Callable[..., None], graph: og.Graph, temporary: Path
) -> None:
    def fail(progress: QueryProgress) -> None:
        raise BrokenPipeError(str(progress.rows))

    with pytest.raises(BrokenPipeError):
        ask_for_long(graph, fail)

    assert list(temporary.iterdir()) == []


def test_an_interrupt_ends_a_query_and_leaves_nothing(graph: og.Graph, temporary: Path) -> None:
    def interrupt() -> None:
        while not list(temporary.iterdir()):
            time.sleep(0.01)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    budget = Budget(SystemClock(), seconds=20)
    text = f"query q() {{ {ENDLESS} return {{ $a, $b, $c, $d, $e, $f, count(*) as n }} }}"
    # A process that runs tests for another one ignores interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            graph.query(text, engine="local", budget=budget)
    finally:
        signal.signal(signal.SIGINT, before)

    budget.check()  # not the deadline has ended it
    assert list(temporary.iterdir()) == []


@pytest.mark.usefixtures("temporary")
def test_groups_that_do_not_fit_are_an_error(graph: og.Graph) -> None:
    text = "match { $a: Person; $b: Person; $c: Person } return { $a, $b, $c, count(*) as n }"

    with pytest.raises(QueryMemoryError):
        graph.query(f"query q() {{ {text} }}", engine="local", memory_bytes=5_000_000)


def test_more_matches_than_are_counted_are_an_error(graph: og.Graph) -> None:
    # Twelve times 59 people: more than 2^63.
    names = "; ".join(f"$v{number}: Person" for number in range(12))
    text = f"query q() {{ match {{ {names} }} return {{ count(*) as n }} }}"

    for engine in ("memory", "local"):
        with pytest.raises(LimitError, match="more matches than a 64-bit number"):
            graph.query(text, engine=engine)


@pytest.mark.parametrize(
    "memory_bytes, engine", [(None, "memory"), (2**20, "memory"), (1_000, "local"), (4_000, "local")]
)
def test_auto_is_local_where_the_adjacency_does_not_fit(graph: og.Graph, memory_bytes: int | None, engine: str) -> None:
    text = "query q() { match { $a: Person; $a knows $b } return { count(*) as n } }"

    explained = graph.explain(text, memory_bytes=memory_bytes)

    assert explained.choice.engine.value == engine
    assert "of adjacency" in explained.choice.reason
    assert f"engine {engine}: " in explained.text


def test_an_engine_that_there_is_not_is_refused(graph: og.Graph) -> None:
    with pytest.raises(BadArgumentError, match="auto, memory, local"):
        graph.query("query q() { match { $a: Person } return { $a.age } }", engine="disk")


def test_the_programs_of_the_page_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_programs("ask-a-graph-larger-than-memory.md", tmp_path, monkeypatch, capsys, programs=1)
