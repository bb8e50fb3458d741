"""Large intermediate results: what is asked for decides what is made of them, and the size of parts decides nothing."""

import math
import random

import pytest

from omnigraph.clock import SystemClock
from omnigraph.engine import pipeline
from omnigraph.engine.executor import execute
from omnigraph.engine.output import top_k_sink
from omnigraph.engine.physical_plan import Merge, PhysicalPlan, Step, iter_steps
from omnigraph.engine.planning import plan_builder
from omnigraph.engine.planning.explain import format_plan
from omnigraph.engine.planning.planner import plan_read
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_profile import QueryProfile
from omnigraph.telemetry import Telemetry
from read_seeding import append, new_graph
from reference_reader import PlainGraph
from solving import LARGE, SCHEMA, Solver, random_records, seeded

PEOPLE = 1_500
SMALL_BUDGET = 6_000_000
"""A product of all people with themselves would take ten times as much."""


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Solver:
    return seeded(tmp_path_factory.mktemp("few") / "g.omni", random_records(3, 7, 20))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Solver:
    return seeded(tmp_path_factory.mktemp("many") / "g.omni", random_records(4, PEOPLE, 22_000))


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Solver:
    """Many documents: every third without a vector, every second about nothing."""
    session = new_graph(
        tmp_path_factory.mktemp("docs") / "g.omni", "node Doc { k: String @key v: Vector(2)? x: String? }"
    )
    records = [
        {
            "@id": f"d{n:04}",
            "k": f"d{n:04}",
            "v": None if n % 3 == 0 else [math.cos(n * 0.001), math.sin(n * 0.001)],
            "x": "graphs " * (n % 7) if n % 2 else None,
        }
        for n in range(PEOPLE)
    ]
    append(session, [("Doc", record) for record in records])
    return Solver(session, PlainGraph({"Doc": records}))


def answered(
    solver: Solver,
    text: str,
    *,
    chunk_rows: int = LARGE,
    memory_bytes: int | None = None,
    trace: QueryProfile | None = None,
) -> list[dict[str, object]]:
    """The rows of a query's answer."""
    query = solver.query(f"query q() {{ {text} }}")
    reading = solver.reading(budget=Budget(SystemClock(), memory_bytes=memory_bytes), trace=trace)
    found = execute(query, plan_read(query, reading), reading, chunk_rows=chunk_rows)
    rows: list[dict[str, object]] = found.fetch(0, found.size).to_pylist()
    return rows


def most_made(solver: Solver, text: str) -> int:
    """The rows of the step that made most of them."""
    trace = QueryProfile(SystemClock(), Telemetry())
    answered(solver, text, trace=trace)
    return max(actual.rows for actual in trace.steps.values())


def planned(solver: Solver, text: str) -> PhysicalPlan:
    return plan_read(solver.query(f"query q() {{ {text} }}"), solver.reading())


def of_kind(plan: PhysicalPlan, kind: type[Step]) -> list[Step]:
    return [step for step in iter_steps(plan.steps) if isinstance(step, kind)]


# --- the size of parts ---------------------------------------------------------------------------------

ORDERED = {
    "first pairs": "match { $a: User $b: User } return { $a.name, $b.name } limit 5",
    "a page of pairs": "match { $a: User $b: User } return { $a.name, $b.name } limit 5 offset 9",
    "the other side leads": "match { $a: User $b: User } return { $a.name } order { $b.age desc, $a.city } limit 6",
    "three sides": (
        "match { $a: User $b: User $c: Place } return { $a.name, $c.name } order { $c.size, $b.age } limit 9"
    ),
    "ties of the lead, then a later side": (
        "match { $a: User $b: User $c: User $a.age != $b.age $c.age is null or $a.city = $c.city }"
        " return { $a.name, $b.name, $c.name } order { $a.city, $c.age desc, $b.age desc } limit 1"
    ),
    "filtered pairs": (
        "match { $a: User $b: User $a.age < $b.age } return { $a.name, $b.name } order { $b.city } limit 4"
    ),
    "led by the far side, filtered": (
        "match { $a: User $p: Place $a.age < $p.size } return { $a.name, $p.name } order { $p.size desc } limit 4"
    ),
    "joined": "match { $a: User $b: User $a.city = $b.city } return { $a.name, $b.name } order { $a.age } limit 7",
    "joined, by the other side": (
        "match { $a: User $b: User $a.city = $b.city $a.age != $b.age }"
        " return { $a.name, $b.name } order { $b.age desc } limit 7"
    ),
    "hops": "match { $a knows $b $b likes $c } return { $a.name, $b.name, $c.name } limit 6 offset 2",
    "hops, by the far end": "match { $a knows $b $b knows $c } return { $a, $c.age } order { $c.age desc } limit 6",
    "hops with edges": "match { $a $e:knows $b $b $f:likes $c } return { $e.since, $f.since } order { $a.age } limit 8",
    "a cycle": (
        "match { $a knows $b $b knows $c $c likes $a } return { $a.name, $b.name } order { $a.city desc } limit 3"
    ),
    "reach": "match { $a knows{1,3} $b $b lives $p } return { $a.name, $p.name } limit 5",
    "without": "match { $a knows $b $c: Place not { $b lives $c } } return { $a.name, $c.name } limit 5",
    "distinct": "match { $a: User $b: User } return distinct { $a.age as x, $b.city as y } order { y, x } limit 4",
    "distinct of hops": "match { $a knows $b $b knows $c } return distinct { $a.city as x, $c.age as y } limit 5",
    "no row at all": "match { $a: User $b: User $a.age > 9 } return { $a.name } limit 3",
    "limit 0": "match { $a: User $b: User } return { $a.name } limit 0",
    "beyond the end": "match { $a: User $b: User } return { $a.name } limit 5 offset 1000",
    "groups": "match { $a: User $b: User $a.age < $b.age } return { $a.city as x, count(*) as n } order { n, x }",
    "groups over hops": (
        "match { $a knows $b $b knows $c } return { $a.city as x, $c.age as y, count(*) as n, sum($b.age) as s }"
        " order { x, y }"
    ),
    "distinct counts": (
        "match { $a: User $b: User $a.city != $b.city }"
        " return { $a.age as x, count(distinct $b.age) as n, max($b.city) as m } order { x }"
    ),
    "a group of all": "match { $a: User $b: User $a.age <= $b.age } return { count(*) as n, avg($b.age) as m }",
    "groups by whole nodes": (
        "match { $a knows $b $c: Place } return { $a, $c.size as z, count($b) as n } order { $a.@id, z }"
    ),
    "friends of friends of each": (
        "match { $a knows $b $b knows $c }"
        " return { $a.name as k, count(distinct $c) as n, max($c.city) as m, sum($b.age) as s }"
        " order { n desc, k } limit 4 offset 1"
    ),
    "groups by both ends": (
        "match { $a knows $b $b likes $c not { $a knows $c } } return { $a.age as x, $c.name as y, count(*) as n }"
        " order { n desc } limit 5"
    ),
    "groups by a side of a product": (
        "match { $a: User $b: User $a.city < $b.city }"
        " return { $b.name as k, count(*) as n, avg($a.age) as m } order { k }"
    ),
    "lists on the way": (
        "match { $a: User $b: User $b.city in $a.tags } return { $b.age as x, count(*) as n } order { x }"
    ),
}


@pytest.mark.parametrize("chunk_rows", [1, 3, 7])
@pytest.mark.parametrize("first_rows", [1, 4])
@pytest.mark.parametrize("text", ORDERED.values(), ids=ORDERED)
def test_the_size_of_parts_changes_no_answer(
    few: Solver, text: str, chunk_rows: int, first_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answered(few, text)
    monkeypatch.setattr(top_k_sink, "FIRST_CHUNK_ROWS", first_rows)

    found = answered(few, text, chunk_rows=chunk_rows)

    assert found == expected


def test_the_order_of_parts_is_the_order_of_the_answer(few: Solver) -> None:
    names = sorted(record["name"] for record in few.graph.nodes["User"])

    found = answered(few, "match { $a: User $b: User } return { $a.name as a, $b.name as b } limit 9", chunk_rows=2)

    assert [(row["a"], row["b"]) for row in found] == [(a, b) for a in names for b in names][:9]


# --- what is made --------------------------------------------------------------------------------------


def test_the_first_pairs_of_a_product_are_made_of_the_first_rows(many: Solver) -> None:
    made = most_made(many, "match { $a: User $b: User } return { $a.name, $b.name } order { $b.age desc } limit 10")

    assert made == PEOPLE


def test_what_comes_behind_a_full_page_is_never_made(many: Solver, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "match { $a knows $b $b knows $c $c likes $d } return { $a.name, $d.name }"
    monkeypatch.setattr(top_k_sink, "FIRST_CHUNK_ROWS", 256)

    made, all_made = most_made(many, f"{text} limit 10"), most_made(many, text)

    assert made * 50 < all_made


def test_a_filtered_product_is_counted_by_values(many: Solver) -> None:
    ages = [record["age"] for record in many.graph.nodes["User"]]
    text = "match { $a: User $b: User $a.age < $b.age } return { count(*) as n }"

    found, made = answered(many, text), most_made(many, text)

    assert found == [{"n": sum(a < b for a in ages if a for b in ages if b)}]
    assert made == PEOPLE
    assert format_plan(planned(many, text)).count("count rows by the values of") == 2


def test_values_are_merged_before_a_hop_that_does_not_need_their_rows(many: Solver) -> None:
    text = "match { $a knows $b $b knows $c } return { $a.city as x, $c.age as y, count(*) as n } order { x, y }"

    plan = planned(many, text)

    assert of_kind(plan, Merge)
    assert answered(many, text) == answered(many, text, chunk_rows=100)


AROUND = 300
"""How many nodes lead to the hub, and how many it leads to."""
HUB_QUERIES = {
    "a value of the near end": "return { $a.city as x, sum($c.age) as s, count(*) as n, max($c.age) as m } order { x }",
    "the near end": "return { $a.name as x, sum($c.age) as s, avg($c.age) as m } order { x }",
    "a value of the far end": "return { $c.age as x, count(distinct $a.city) as n, min($a.name) as m } order { x }",
    "values of both ends": "return { $a.city as x, $c.age as y, count(*) as n } order { x, y }",
    "the hub": "return { $b.name as x, sum($a.age) as s, sum($c.age) as t, count($c.age) as n } order { x }",
    "each edge": "return { $a.name as x, count($f) as n, sum($f.since) as s, sum($c.age) as t } order { x }",
    "distinct rows": "return distinct { $a.city as x, $c.age as y } order { x, y }",
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Solver:
    """All paths of two edges lead through `u0`, and some edges are there twice."""
    chance = random.Random(8)
    ages, cities = [None, 1, 2, 7], [None, "Ulm", "Rom"]
    names = [f"u{number}" for number in range(2 * AROUND + 1)]
    users = [
        {"@id": name, "name": name, "age": chance.choice(ages), "city": chance.choice(cities), "tags": None}
        for name in names
    ]
    pairs = [*((name, "u0") for name in names[1 : AROUND + 1]), *(("u0", name) for name in names[AROUND + 1 :])]
    knows = [
        {"@id": f"k{number}", "@src": src, "@dst": dst, "since": chance.choice(ages)}
        for number, (src, dst) in enumerate([*pairs, *pairs[::3]])
    ]
    session = new_graph(tmp_path_factory.mktemp("hub") / "g.omni", SCHEMA)
    append(session, [*(("User", user) for user in users), *(("Knows", each) for each in knows)])
    return Solver(session, PlainGraph({"User": users, "Place": []}, {"Knows": knows}))


@pytest.mark.parametrize("chunk_rows", [LARGE, 50])
@pytest.mark.parametrize("returned", HUB_QUERIES.values(), ids=HUB_QUERIES)
def test_paths_through_a_hub_are_not_listed(
    hub: Solver, returned: str, chunk_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    edge = "$f:knows" if "$f" in returned else "knows"
    text = f"match {{ $a knows $b $b {edge} $c }} {returned}"
    listed = answered(hub, text)
    listed_rows = most_made(hub, text)
    monkeypatch.setattr(plan_builder, "MIN_HUB_EDGES", 0.0)
    monkeypatch.setattr(pipeline, "MIN_HUB_ROWS", 2_000)
    monkeypatch.setattr(pipeline, "MIN_HUB_FACTOR", 4)

    found = answered(hub, text, chunk_rows=chunk_rows)

    assert found == listed
    assert listed_rows >= AROUND**2
    assert most_made(hub, text) < AROUND**2 / 10


def test_merging_for_a_hub_waits_for_one(many: Solver, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "match { $a knows $b $b knows $c } return { $a.name, sum($c.age) as s }"
    monkeypatch.setattr(plan_builder, "MIN_HUB_EDGES", 0.0)
    trace = QueryProfile(SystemClock(), Telemetry())

    answered(many, text, trace=trace)

    merges = [step for step in of_kind(planned(many, text), Merge) if isinstance(step, Merge) and step.is_for_hubs]
    assert merges
    assert not {step.number for step in merges} & trace.steps.keys()


@pytest.mark.parametrize(
    "text",
    [
        "match { $a: User $b: User } return { $a.name, $b.name } limit 3",
        "match { $a: User $b: User $a.age < $b.age } return { $a.name, $b.name } order { $a.city, $b.age } limit 3",
        "match { $a: User $b: User $a.age < $b.age } return { $a.city as x, $b.name as y, count(*) as n } limit 3",
        "match { $a: User $b: User $a.name != $b.name } return { count(*) as n }",
        "match { $a: User $b: User } return distinct { $a.city as x, $b.age as y }",
        "match { $a: User $b: User $a.name < $b.name } return distinct { $a.city as x, $b.city as y }",
        "match { $a: User $b: User $a.name < $b.name } return { min($a.age) as x, count(distinct $b.city) as n }",
        "match { $a: User $b: User $a.city = $b.city } return { $a.name, $b.name } order { $b.name desc } limit 3",
        "match { $a knows $b $b knows $c } return { $a.name as k, count(distinct $c) as n } order { n, k } limit 3",
        "match { $a knows $b $b knows $c } return { $a.name as k, count(distinct $c.name) as n } order { k }",
    ],
)
def test_what_is_not_asked_for_takes_no_memory(many: Solver, text: str) -> None:
    assert answered(many, text, memory_bytes=SMALL_BUDGET) == answered(many, text)


RANKED = {
    "nearest": "order { nearest($a.v, [1.0, 0.0]), $b.k desc } limit 3 offset 1",
    "nearest of the other side": "order { nearest($b.v, [0.0, 1.0]), $a.x desc } limit 4",
    "bm25": 'order { bm25($a.x, "graph"), $b.k } limit 3',
}


@pytest.mark.parametrize("order", RANKED.values(), ids=RANKED)
@pytest.mark.parametrize("pattern", ["$a: Doc $b: Doc", "$a: Doc $b: Doc $a.k != $b.k"])
def test_a_rank_of_very_many_rows_holds_the_best(docs: Solver, pattern: str, order: str) -> None:
    text = f"match {{ {pattern} }} return {{ $a.k, $b.k }} {order}"

    found = answered(docs, text, memory_bytes=SMALL_BUDGET)

    assert found == answered(docs, text)


def test_the_nearest_of_a_product_come_with_every_row_of_its_other_side(docs: Solver) -> None:
    text = "match { $a: Doc $b: Doc } return { $a.k as a, $b.k as b } order { nearest($a.v, [1.0, 0.0]) } limit 3"

    found = answered(docs, text, chunk_rows=1_000)

    assert [(row["a"], row["b"]) for row in found] == [("d0001", "d0000"), ("d0001", "d0001"), ("d0001", "d0002")]


def test_all_that_was_claimed_for_parts_is_given_back(many: Solver) -> None:
    budget = Budget(SystemClock(), memory_bytes=100_000_000)
    query = many.query("query q() { match { $a knows $b $b knows $c } return { $a.name, $c.name } limit 10 }")
    reading = many.reading(budget=budget)

    found = execute(query, plan_read(query, reading), reading, chunk_rows=1_000)

    assert found.size == 10
    assert budget._claimed <= 2_000 * 8 * 3
