"""Every kind of clause reads an earlier commit, a time and a branch as it read the newest state then."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og

GRAPHS = Path(__file__).parents[1] / "corpus/graphs"
FORMS = [
    "match { $p: Person let $x = $p.age + 1  $x > 26 } return { $p.name, $x } order { $x desc, $p.name }",
    "match { $p: Person optional { $p worksAt $c } } return { $p.name, $c.name as company } order { $p.name, company }",
    "match { $p: Person exists { $p knows $_ } or $p.age > 40 } return { $p.name } order { $p.name }",
    (
        "match { $p: Person } return { $p.name, count { $p knows $q } as n, collect { $p knows $q return $q.name } as q"
        " } order { $p.name }"
    ),
    (
        "match { $p: Person either { $p knows $x } or { $p worksAt $x } } return { $p.name, $x.@type, $x.name }"
        " order { $p.name, $x.@type, $x.name }"
    ),
    "match { $p: Person each $t in $p.lucky } return { $t, count(*) as n } order { $t }",
    (
        "match { $p: Person $p $e:(knows|follows) $q } return { $e.@type, $p.name, $q.name }"
        " order { $e.@type, $p.name, $q.name, $e.@id }"
    ),
    "match { $p: Person $p <*>{1,2} $x } return { $p.name, $x.@type, count(*) as n } order { $p.name, $x.@type }",
    "match { $p: Person $p knows{1,*} $q } return { $p.name, count($q) as n } order { $p.name }",
    (
        "match { $p: Person path $w = $p knows{1,3} $q along { since > 2000 } } return { $p.name, length($w) as n }"
        " order { $p.name, n }"
    ),
    (
        "match { $p: Person shortest $w = $p knows{1,*} $q } return { $p.name, $q.name, length($w) as n }"
        " order { $p.name, $q.name }"
    ),
    (
        "match { $p: Person cheapest $w = $p knows{1,*} $q by { coalesce(since, 0) } } return { $p.name, cost($w) as n"
        " } order { $p.name, n }"
    ),
    "match { $p: Person } return { $p.city, count(*) as n, median($p.age) as age } having { n > 0 } order { $p.city }",
    (
        "match { $p knows $q } with { $p, count($q) as n } order { n desc } limit 2 match { $p worksAt $c }"
        " return { $p.name, $n, $c.name } order { $p.name, $c.name }"
    ),
    (
        "match { $p: Person } return { $p.name as name } union match { $c: Company } return { $c.name as name }"
        " order { name }"
    ),
    "match { $p: Person } return { $p.name, $p.age } order { $p.age desc } limit 1 per { $p.city }",
    "match { $p: Person } return { $p.name, rank() over { order { $p.age } } as r } order { $p.name }",
    'match { $n: Note search($n.text, "hello") } return { snippet($n.text, "hello") as s } order { s }',
    "match { $p: Person } return { $p.name, $p.active } having { $p.active } order { $p.name }",
]
WRITES = [
    "update Person set { age: coalesce(age, 0) + 1, active: not active } where true",
    'delete Person where name = "bob"',
    "match { $a: Person $b: Person $a.name < $b.name } insert Knows { from: $a, to: $b, since: 2026 }",
    'insert Note { text: "hello again" } as $n insert Wrote { from: "ann", to: $n }',
    "update Company set { founded: 1900 } where true",
]


def ask(graph: og.Graph, form: str, **state: Any) -> list[Any]:
    return [tuple(row.values()) for row in graph.query(form, **state).rows()]


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> tuple[og.Graph, list[dict[str, Any]], list[list[Any]]]:
    """A graph that was changed, the names of its state before, and what the forms found then."""
    graph = og.create_graph(
        str(tmp_path_factory.mktemp("states") / "graph"), (GRAPHS / "friends.pg").read_text("utf-8")
    )
    graph.load(GRAPHS / "friends.jsonl", mode="append")
    before = next(iter(graph.commits()))
    found = [ask(graph, form) for form in FORMS]
    graph.branches.create("kept")
    named: list[dict[str, Any]] = [
        {"snapshot": before.id},
        {"at": datetime.now(UTC)},
        {"branch": "kept"},
        {"snapshot": before.id, "engine": "local"},
    ]
    for write in WRITES:
        graph.mutate(write)
    return graph, named, found


@pytest.mark.parametrize("number", range(len(FORMS)), ids=lambda number: FORMS[number].split(" ", 5)[5][:40])
def test_a_form_reads_an_earlier_state(states: Any, number: int) -> None:
    graph, named, found = states
    assert found[number]

    assert ask(graph, FORMS[number]) != found[number]
    for state in named:
        assert ask(graph, FORMS[number], **state) == found[number], state
