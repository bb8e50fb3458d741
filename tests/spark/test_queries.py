"""Queries of the language on Spark: the answers of the memory engine, or a refusal that names the form."""

from datetime import datetime
from pathlib import Path
from random import Random, SystemRandom

import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from corpus_format import Case, read_cases
from omnigraph.clock import SystemClock
from omnigraph.runtime import Runtime
from omnigraph.spark.spark_graph import SparkGraph
from raised_codes import has_code
from read_queries import random_triple
from read_seeding import seed
from reference_reader import NOW
from spark_answers import Question, ask_spark, compare_case, compare_engines
from worlds import FAST

pytestmark = pytest.mark.usefixtures("spark")
CORPUS = Path(__file__).parent.parent / "corpus"
SCHEMA = """
node Person {
    name: String @key
    age: I64?
    score: F64?
}
edge Knows: Person -> Person { since: Date? }
"""
# One case in this many: each takes about a second.
EVERY = 90


class FixedClock(SystemClock):
    """Time passes, but the date is always the same."""

    def now(self) -> datetime:
        return NOW


def corpus() -> list[Case]:
    cases = [case for path in sorted(CORPUS.rglob("*.case")) for case in read_cases(path)]
    return [case for case in cases if case.reads and "query" in case.blocks]


def people(path: Path) -> og.Graph:
    graph = og.create_graph(str(path / "graph"), SCHEMA)
    names = [f"p{number:02d}" for number in range(20)]
    nodes: list[dict[str, object]] = [
        {"type": "Person", "data": {"name": name, "age": at % 5, "score": at / 3}} for at, name in enumerate(names)
    ]
    edges: list[dict[str, object]] = [
        {"edge": "Knows", "from": name, "to": names[(3 * at + step) % 20]}
        for at, name in enumerate(names)
        for step in (1, 2)
    ]
    graph.load([*nodes, *edges], mode="append")
    return graph


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return people(tmp_path_factory.mktemp("people"))


def test_cases_of_the_corpus_are_answered_as_in_memory() -> None:
    cases = corpus()[7::EVERY]

    runs = [did_run for case in cases for did_run in compare_case(case)]

    assert sum(runs) >= len(cases) / 3


@pytest.mark.soak
@pytest.mark.parametrize("shard", range(8))
def test_all_cases_of_the_corpus_are_answered_as_in_memory(shard: int) -> None:
    runs = [did_run for case in corpus()[shard::8] for did_run in compare_case(case)]

    assert sum(runs) >= len(runs) / 2


def test_random_worlds_are_read_as_in_memory(tmp_path: Path) -> None:
    assert compare_worlds(tmp_path, Random(7), worlds=2) >= 3


@pytest.mark.soak
def test_many_random_worlds_are_read_as_in_memory(tmp_path: Path) -> None:
    assert compare_worlds(tmp_path, SystemRandom(), worlds=60) >= 60


def compare_worlds(path: Path, random: Random, worlds: int) -> int:
    """Compare random queries over random graphs, and return how many of them Spark ran."""
    runs = 0
    for number in range(worlds):
        triple = random_triple(random)
        session = seed(path / str(number), triple.world)
        graph = og.Graph.open(session.uri, is_read_only=True, runtime=Runtime(options=FAST, clock=FixedClock()))
        runs += sum(compare_engines(graph, Question(asked.text, asked.params)) for asked in triple.queries)
    return runs


@pytest.mark.parametrize("bounds", ["{1,3}", "{2,4}", "{0,2}", "{1,*}"])
def test_several_hops_are_searched_by_distance(graph: og.Graph, bounds: str) -> None:
    pairs = "return { $p.name, $q.name } order { $p.name, $q.name }"
    text = f"query q() {{ match {{ $p: Person $p knows{bounds} $q }} {pairs} }}"

    assert compare_engines(graph, Question(text, {}))


def test_aggregates_are_exact(graph: og.Graph) -> None:
    text = """query q() {
        match { $p: Person $p knows $q $q knows $r }
        return {
            $p.age, count(*) as n, count(distinct $r.name) as d, sum($r.score) as s, avg($r.score) as a,
            sum($r.age) as t, avg($r.age) as b, min($r.name) as low, max($r.score) as high, stddev($r.score) as sd,
            median($r.age) as m, product($r.score) as p, collect($r.name where $r.age > 2) as l
        }
        order { $p.age desc }
    }"""

    assert compare_engines(graph, Question(text, {}))


def test_an_overflow_is_the_error_of_the_language(graph: og.Graph) -> None:
    text = "query q() { match { $p: Person } return { $p.age * 9223372036854775807 as x } order { $p.name } }"

    assert compare_engines(graph, Question(text, {}))
    with pytest.raises(og.QueryError, check=has_code("calculation_overflow")):
        ask_spark(graph, Question(text, {}))


def test_an_overflow_below_a_limit_is_none(graph: og.Graph) -> None:
    text = "query q() { match { $p: Person } return { $p.age * 9223372036854775807 as x } order { $p.age } limit 2 }"

    assert ask_spark(graph, Question(text, {})).rows() == [{"x": 0}, {"x": 0}]


def test_a_query_is_a_frame_of_one_snapshot(tmp_path: Path, spark: SparkSession) -> None:
    graph = people(tmp_path)
    before = graph.spark
    text = "query old($n: I64) { match { $p: Person $p.age >= $n } return { $p.name, $p.age } }"
    frame = before.query(text, params={"n": 4})
    graph.load([{"type": "Person", "data": {"name": "zed", "age": 9}}], mode="append")

    assert frame.columns == ["p.name", "p.age"]
    assert frame.count() == 4
    assert before.query(text, params={"n": 4}).count() == 4
    assert graph.spark.query(text, params={"n": 4}).count() == 5
    assert graph.spark.at(snapshot=before.commit_id).query(text, params={"n": 4}).count() == 4
    frame.write.parquet(str(tmp_path / "rows"))
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 4


def test_nothing_of_a_query_stays_in_the_session(graph: og.Graph, spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.caseSensitive")

    graph.spark.query("query q() { match { $p: Person } return { upper($p.name) as x, sum($p.score) as s } }")

    assert spark.conf.get("spark.sql.caseSensitive") == before
    assert not [view for view in spark.catalog.listTables() if view.name.startswith("omnigraph_")]
    assert not spark.catalog.listFunctions(pattern="omnigraph_*")


def test_mistakes_are_told_without_spark(graph: og.Graph) -> None:
    spark_graph = SparkGraph(graph._session, graph.snapshot())

    with pytest.raises(og.SourceError):
        spark_graph.query("query q() { match { $p: Nobody } return { $p } }")
    with pytest.raises(og.ParameterError):
        spark_graph.query("query q($n: I64) { match { $p: Person $p.age = $n } return { $p } }")


def test_the_engine_spark_gives_a_result_of_a_branch_and_a_commit(tmp_path: Path) -> None:
    graph = people(tmp_path)
    first = graph.snapshot().commit.id
    graph.branches.create("work")
    graph.load([{"type": "Person", "data": {"name": "zed", "age": 9}}], mode="append", branch="work")
    text = "query q() { match { $p: Person } return { count(*) as n } }"

    assert graph.query(text, engine="spark").rows() == [{"n": 20}]
    assert graph.query(text, engine="spark", branch="work").rows() == [{"n": 21}]
    assert graph.query(text, engine="spark", branch="work", snapshot=first).rows() == [{"n": 20}]


def test_a_master_belongs_to_spark(graph: og.Graph) -> None:
    with pytest.raises(og.BadArgumentError, match="does not use Spark"):
        graph.query("query q() { match { $p: Person } return { $p } }", engine="memory", master="local[2]")
