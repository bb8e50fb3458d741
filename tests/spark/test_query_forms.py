"""Forms of queries on Spark beside patterns: stages, unions, lists, blocks, windows, searches; and those it names."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import answers
import omnigraph as og
from omnigraph.spark.query.run_query import SparkRows
from raised_codes import has_code
from spark_answers import UNSUPPORTED, Question, ask_spark, compare_engines

pytestmark = pytest.mark.usefixtures("spark")
SCHEMA = """
node Person {
    name: String @key
    age: I64?
    score: F64?
    tags: [String]?
    bio: String?
    vec: Vector(2)?
}
node Company { name: String @key }
edge Knows: Person -> Person { since: I64? }
edge WorksAt: Person -> Company
"""
QUERIES = {
    "a stage": """query q() {
        match { $p: Person $p knows $q } with { $p, count(*) as n }
        match { $p knows $r $n > 1 } return { $p.name, $n, $r.name as other } order { $p.name, $r.name }
    }""",
    "a page of a stage": """query q() {
        match { $p: Person } with { $p, $p.score as s } order { $p.age desc } limit 5
        match { $p worksAt $c } return { $c.name, $s, upper($p.name) as name } order { $s }
    }""",
    "an optional block after a stage": """query q() {
        match { $p: Person } with { $p, $p.age as age } order { $p.name } limit 7
        match { optional { $p knows $q $q.age > $age } } return { $p.name, $age, $q.name as q }
        order { $p.name, $q.name }
    }""",
    "a union": """query q() {
        match { $p: Person $p.age = 1 } return { $p.name as name, $p.age as n }
        union match { $c: Company } return { $c.name as name, null as n }
    }""",
    "a union that keeps equal rows, in a stage": """query q() {
        match { $p: Person } return { $p.age as n, $p.score as s }
        union all match { $p: Person $p.age > 2 } return { $p.age as n, $p.score as s }
    }""",
    "elements of lists": """query q() {
        match { $p: Person each $t in $p.tags $p knows $q $q.name > $t }
        return { $t, count(*) as n, count(distinct $q) as d } order { $t }
    }""",
    "elements of a list that is written": """query q() {
        match { each $x in [1, 2, 2] $p: Person $p.age = $x } return { $x, $p.name } order { $x, $p.name }
    }""",
    "a test of a list": """query q() {
        match { $p: Person exists { each $t in $p.tags $t starts_with "t1" } } return { $p.name }
        order { $p.name }
    }""",
    "values of blocks": """query q() {
        match { $p: Person }
        return {
            $p.name, count { $p knows $q } as n, sum { $p knows $q return $q.age } as s,
            avg { $p knows $q return $q.score } as a, max { $p knows $q return $q.name } as m,
            exists { $p worksAt $c } as works,
            collect { $p knows $q return $q.name order { $q.age desc } limit 2 } as l,
            collect { $p knows $q return distinct $q.age } as ages
        }
        order { $p.name }
    }""",
    "a block in a condition": """query q() {
        match { $p: Person count { $p knows $q $q.age > 1 } > 1 or not exists { $p worksAt $c } }
        return { $p.name } order { $p.name }
    }""",
    "the first matches of blocks": """query q() {
        match { $p: Person }
        return {
            $p.name, sum { $p knows $q return $q.age order { $q.name desc } limit 2 } as s,
            count { $p knows $q return distinct $q.age order { $q.age } limit 1 } as n,
            avg { $q: Person return $q.age order { $q.name } limit 3 } as a,
            collect { $p knows $q return $q.score * -0.0 } as zeros
        }
        order { $p.name }
    }""",
    "blocks without matches": """query q() {
        match { $p: Person not exists { $p knows $q $q.age in [] } }
        return {
            $p.name, count { $p knows $q $q.age in [] } as n, exists { $p knows $q $q.age in [] } as e,
            max { $p knows $q $q.age in [] return $q.age } as m,
            collect { $p knows $q $q.age in [] return $q.name } as l
        }
        order { $p.name }
    }""",
    "elements of lists in alternatives": """query q() {
        match { $p: Person either { each $t in $p.tags } or { each $t in ["all", "none"] $p.age > 1 } }
        return { $p.name, $t } order { $p.name, $t }
    }""",
    "a float of a stage in a block": """query q() {
        match { $p: Person } with { $p.score as s, count(*) as n }
        match { exists { $q: Person $q.score > $s } } return { $s, $n } order { $s }
    }""",
    "a condition on a sum that is shown": """query q() {
        match { $p: Person } return { $p.name, sum { $p knows $q return 9223372036854775807 } as s } having { s > 0 }
    }""",
    "a sum that is unknown in a condition": """query q() {
        match { $p: Person sum { $p knows $q return 9223372036854775807 } > 0 } return { $p.name }
    }""",
    "windows": """query q() {
        match { $p: Person }
        return {
            $p.name, row_number() over { per { $p.age } order { $p.score desc } } as place,
            rank() over { order { $p.age } } as r, lag($p.name) over { order { $p.name } } as before,
            sum($p.age) over { per { $p.age } order { $p.name } } as running,
            avg($p.score) over { per { $p.age } } as a,
            count(*) over {} as n, max($p.score) over { order { $p.name } } as top
        }
        order { $p.name }
    }""",
    "a condition on a window": """query q() {
        match { $p: Person } return { $p.name, row_number() over { order { $p.age desc } } as n } having { n < 4 }
    }""",
    "a text search": """query q($w: String) {
        match { $p: Person search($p.bio, $w) $p knows $q not match_text($q.bio, "graphs") }
        return { $p.name, $q.name } order { $p.name, $q.name }
    }""",
    "a rank by words": """query q($w: String) {
        match { $p: Person $p knows $q } return { $p.name, $q.name, bm25($p.bio, $w) as s }
        order { bm25($p.bio, $w), $q.name } limit 6
    }""",
    "a rank by a vector": """query q() {
        match { $p: Person $p.age > 0 } return { $p.name } order { nearest($p.vec, [1, 0.5]) } limit 4 offset 1
    }""",
    "a fused rank": """query q($w: String) {
        match { $p: Person $p knows $q $q.age < 3 }
        return { $p.name, $q.name } order { rrf(nearest($p.vec, [1, 0]), bm25($p.bio, $w)), $q.name } limit 5
    }""",
    "a rank of rows that differ": """query q() {
        match { $p: Person $p knows $q $q.age < 3 }
        return { $p.name, $q.name } order { mmr(nearest($p.vec, [1, 0]), $p.vec, lambda=0.5), $q.name } limit 5
    }""",
    "several types": """query q() {
        match { $x: (Person|Company) $p: Person $p (knows|worksAt) $x $x.name > "p03" or $x.@type = "Company" }
        return { $p.name, $x.@type, $x.@id, $x } order { $p.name, $x.@id }
    }""",
    "edges of several types": """query q() {
        match { $p: Person $p $e: (Knows|WorksAt) $x }
        return { $p.name, $e.@type, $e.@src, count(distinct $x) as n } order { $p.name, $e.@type }
    }""",
    "several edges of several types": """query q() {
        match { $p: Person { name: "p05" } $p (knows|worksAt){1,3} $x } return { $x.@type, $x.name } order { $x.@id }
    }""",
    "alternatives of several types": """query q() {
        match { $p: Person either { $p knows $x } or { $p worksAt $x } exists { $p knows $q } }
        return { $p.name, $x.@type, $x.name } order { $p.name, $x.@id } limit 9
    }""",
    "a stage with several types": """query q() {
        match { $x: (Person|Company) } with { $x, $x.@type as t } order { $x.@id } limit 17
        match { optional { $p: Person $p (knows|worksAt) $x } } return { $t, $x.name, $p.name as p } order { $x.@id, p }
    }""",
    "several edges without direction": """query q() {
        match { $p: Person $p <knows>{2,3} $q } return { $p.name, $q.name } order { $p.name, $q.name }
    }""",
    "cycles without direction": """query q() {
        match { $p: Person $p <knows>{3,5} $p through { age > 0 } } return { $p.name } order { $p.name }
    }""",
    "no match": "query q() { match { $p: Person $p.age in [] } return { $p, $p.age, $p.name } order { $p.name } }",
    "an aggregate of no match": """query q() {
        match { $p: Person $p.age in [] } return { count(*) as n, sum($p.age) as s }
    }""",
}
REFUSED = [
    ("a path variable", "query q() { match { $p: Person path $w = $p knows{1,2} $q } return { length($w) as n } }"),
    (
        "a search over several types",
        """query q() {
        match { $x: (Person|Company) } return { $x.name } order { bm25($x.name, "p01") }
    }""",
    ),
    (
        "a search over several types",
        """query q() {
        match { $x: (Person|Company) } return { $x.name }
        order { rrf(bm25($x.name, "p01"), bm25($x.name, "a")) } limit 2
    }""",
    ),
    (
        "a running `sum` of floats",
        """query q() {
        match { $p: Person } return { sum($p.score) over { order { $p.name } } as s }
    }""",
    ),
    (
        "a distance of two vectors",
        """query q() {
        match { $p: Person $p knows $q } return { $p.name } order { nearest($p.vec, $q.vec) }
    }""",
    ),
]


def write_people(path: Path) -> og.Graph:
    graph = og.create_graph(str(path / "graph"), SCHEMA)
    names = [f"p{number:02d}" for number in range(16)]
    words = ("graphs and tables", "tables of numbers", "graphs, graphs", "a tale")
    nodes: list[dict[str, object]] = [
        {
            "type": "Person",
            "data": {
                "name": name,
                "age": None if at == 9 else at % 4,
                "score": at / 3,
                "tags": [f"t{at % 3}", "all"][: at % 3],
                "bio": None if at == 3 else words[at % 4],
                "vec": None if at == 5 else [at % 5, 1.0],
            },
        }
        for at, name in enumerate(names)
    ]
    companies: list[dict[str, object]] = [{"type": "Company", "data": {"name": name}} for name in ("acme", "zeta")]
    edges: list[dict[str, object]] = [
        {"edge": "Knows", "from": name, "to": names[(3 * at + step) % 16]}
        for at, name in enumerate(names)
        for step in (1, 2, 2)[: at % 4]
    ]
    works: list[dict[str, object]] = [
        {"edge": "WorksAt", "from": name, "to": "acme" if at % 4 else "zeta"} for at, name in enumerate(names) if at % 3
    ]
    graph.load([*nodes, *companies, *edges, *works], mode="append")
    return graph


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return write_people(tmp_path_factory.mktemp("forms"))


@pytest.mark.parametrize("form", QUERIES)
def test_a_form_is_answered_as_in_memory(form: str, graph: og.Graph) -> None:
    text = QUERIES[form]

    assert compare_engines(graph, Question(text, {"w": "graphs"} if "$w: String" in text else {}))


@pytest.mark.parametrize("form, text", REFUSED)
def test_a_form_that_spark_does_not_run_is_named_before_anything_is_read(
    form: str, text: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> SparkRows:
        raise AssertionError

    monkeypatch.setattr("omnigraph.spark.query.run_query._execute", fail)

    with pytest.raises(og.OmnigraphError, check=has_code(UNSUPPORTED)) as caught:
        ask_spark(graph, Question(text, {}))

    assert f"Spark does not run {form}; nothing was read" in str(caught.value)


def test_a_sum_of_a_block_that_does_not_fit_is_an_error_where_it_is_shown(graph: og.Graph) -> None:
    text = "query q() { match { $p: Person } return { sum { $p knows $q return 9223372036854775807 } as s } }"

    assert compare_engines(graph, Question(text, {}))


def compare_pages(step: int) -> int:
    """Compare the answers of the pages, one in `step` of them, and return how many of them Spark ran."""
    runs = 0
    for page in answers.pages():
        text = page.read_text(encoding="utf-8")
        with answers.graph_of(text) as graph:
            for asked in answers.answers(text)[::step]:
                if "returning" not in asked.query and asked.name is None:
                    runs += compare_engines(graph, Question(asked.query, asked.params))
    return runs


def test_answers_of_the_documentation_are_those_of_spark() -> None:
    assert compare_pages(12) >= 5


@pytest.mark.soak
def test_all_answers_of_the_documentation_are_those_of_spark() -> None:
    assert compare_pages(1) >= 30


@pytest.mark.parametrize("edges", [20_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_a_hub_is_answered_as_in_memory(edges: int, tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "graph"), "node N { k: String @key age: I64 }\nedge E: N -> N")
    count = edges // 10
    random = np.random.default_rng(3)
    keys = np.char.add("n", np.arange(count).astype(str))
    src, dst = random.integers(0, count, edges), random.integers(0, count, edges)
    # Half of all edges end at one node, and it has as many others.
    dst[: edges // 2] = 0
    src[edges // 2 : edges // 2 + count // 2] = 0
    nodes = pa.table({"k": keys, "age": pa.array(random.integers(0, 9, count))})
    graph.load(nodes={"N": nodes}, edges={"E": pa.table({"from": keys[src], "to": keys[dst]})}, mode="append")

    assert compare_engines(
        graph, Question("query q() { match { $a $e:e $b $b $f:e $c } return { count(*) as n } }", {})
    )
    listed = """query q() {
        match { $a: N $a.age = 0 $a $e:e $b $b $f:e $c } return { $c.age, count(*) as n, count(distinct $c) as d }
        order { $c.age }
    }"""
    assert compare_engines(graph, Question(listed, {}))


def test_checkpoints_of_a_query_are_gone_with_its_result(graph: og.Graph, spark: SparkSession, tmp_path: Path) -> None:
    text = "query q() { match { $p: Person $p knows{1,3} $q } return { count(*) as n } }"
    spark.sparkContext.setCheckpointDir(str(tmp_path))
    before = spark.sparkContext.getCheckpointDir()

    ask_spark(graph, Question(text, {}))

    assert spark.sparkContext.getCheckpointDir() == before
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith("omnigraph-")]
