"""The conflict matrix: what becomes of a write when another is published between its reading and its own publishing.

`=` both stay and the second is not run again; `R` the second is run again; `C` the second is a ConflictError. However
often it was run, the graph is then what it would be if the two had come one after the other; after `C`, as if the
second had never been.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from conflict_cells import Between, Verb, contents, copied, load, mutation, opened_behind, seeded_graph
from load_calls import edge, node, person
from omnigraph.ops import load_local as load_module
from omnigraph.ops import mutate as mutate_module

# The graph: persons a (age 1, email a@) and b (age 2), who knows nobody; city r; team t, led by a.
FIRST: dict[str, Verb] = {
    "insert c": mutation('insert Person { name: "c", age: 3, email: "c@" }'),
    "append c": load("append", person("c", age=3, email="c@")),
    "insert c with the score -0.0": mutation('insert Person { name: "c", score: -0.0 }'),
    "insert an edge of a": mutation('insert WorksAt { from: "a", to: "r" }'),
    "append an edge of a": load("append", edge("WorksAt", "a", "r")),
    "insert an edge of b": mutation('insert Knows { from: "b", to: "a" }'),
    "upsert a": mutation('insert Person { name: "a", age: 50 }'),
    "merge a": load("merge", person("a", age=50)),
    "update a": mutation('update Person set { age: 50 } where name = "a"'),
    "delete b": mutation('delete Person where name = "b"'),
    "delete r": mutation('delete City where name = "Rome"'),
    "overwrite persons": load("overwrite", person("a", age=50), person("z", email="z@")),
    "overwrite cities": load("overwrite", node("City", "s", name="Siena")),
}
SECOND: dict[str, Verb] = {
    "insert d": mutation('insert Person { name: "d", age: 70 }'),
    "insert a city": mutation('insert City { name: "Oslo" }'),
    "insert d with the email of c": mutation('insert Person { name: "d", email: "c@" }'),
    "insert an edge of a": mutation('insert WorksAt { from: "a", to: "r" }'),
    "insert an edge to b": mutation('insert Knows { from: "a", to: "b" }'),
    "insert an edge of a to itself": mutation('insert Knows { from: "a", to: "a" }'),
    "append d": load("append", person("d", age=70)),
    "append c": load("append", person("c", age=4)),
    "append z": load("append", person("z")),
    "append d with the email of c": load("append", person("d", email="c@")),
    "append an edge of a": load("append", edge("WorksAt", "a", "r")),
    "append an edge to b": load("append", edge("Knows", "a", "b")),
    "append an edge of a to itself": load("append", edge("Knows", "a", "a")),
    "upsert a": mutation('insert Person { name: "a", age: 9 }'),
    "upsert b": mutation('insert Person { name: "b", age: 9 }'),
    "upsert the whole of a": mutation(
        'insert Person { name: "a", age: 9, email: null, score: 2.5, mood: "sad", born: null }'
    ),
    "upsert an edge": mutation('insert Knows { from: "b", to: "a" }'),
    "insert d with the score 0.0": mutation('insert Person { name: "d", score: 0.0 }'),
    "append d with the score 0.0": load("append", person("d", score=0.0)),
    "upsert c": mutation('insert Person { name: "c", age: 9 }'),
    "merge a": load("merge", person("a", mood="sad")),
    "merge b": load("merge", person("b", mood="sad")),
    "merge c": load("merge", person("c", mood="sad")),
    "update a": mutation('update Person set { mood: "sad" } where name = "a"'),
    "update b": mutation('update Person set { mood: "sad" } where name = "b"'),
    "update the young": mutation('update Person set { mood: "sad" } where age < 40'),
    "update all": mutation('update Person set { mood: "sad" } where age is null or age is not null'),
    "delete b": mutation('delete Person where name = "b"'),
    "delete the young but a": mutation('delete Person where age < 40 and name != "a"'),
    "overwrite persons": load("overwrite", person("a"), person("b"), person("y")),
    "overwrite cities": load("overwrite", node("City", "q", name="Quito"), node("City", "r", name="Rome")),
}
CELLS: list[tuple[str, str, str]] = [
    # insert new keys, by a mutation
    ("insert d", "insert c", "="),
    ("insert d", "append c", "="),
    ("insert a city", "insert c", "="),
    ("insert d with the email of c", "insert c", "R"),
    ("insert d with the email of c", "append c", "R"),
    ("insert an edge of a", "insert an edge of a", "R"),
    ("insert an edge of a", "append an edge of a", "R"),
    ("insert an edge to b", "insert an edge of b", "="),
    ("insert d", "upsert a", "="),
    ("insert d", "update a", "="),
    ("insert d", "merge a", "="),
    ("insert d", "delete b", "="),
    ("insert an edge to b", "delete b", "R"),
    ("insert an edge of a to itself", "delete b", "="),
    ("insert an edge of a", "delete r", "R"),
    ("insert d", "overwrite persons", "="),
    ("insert d", "overwrite cities", "="),
    ("insert an edge to b", "overwrite persons", "R"),
    ("insert an edge of a to itself", "overwrite persons", "="),
    ("insert an edge of a", "overwrite cities", "R"),
    # insert new keys, by a load
    ("append d", "insert c", "="),
    ("append d", "append c", "="),
    ("append c", "insert c", "C"),
    ("append c", "append c", "C"),
    ("append d with the email of c", "insert c", "C"),
    ("append d with the email of c", "append c", "C"),
    ("append an edge of a", "insert an edge of a", "R"),
    ("append an edge of a", "append an edge of a", "R"),
    ("append an edge to b", "insert an edge of b", "="),
    ("append d", "update a", "="),
    ("append d", "merge a", "="),
    ("append d", "delete b", "="),
    ("append an edge to b", "delete b", "R"),
    ("append an edge of a to itself", "delete b", "="),
    ("append d", "overwrite persons", "="),
    ("append z", "overwrite persons", "C"),
    ("append an edge to b", "overwrite persons", "R"),
    ("append an edge of a to itself", "overwrite persons", "="),
    # upsert, by a mutation: it reads what it leaves out
    ("upsert a", "insert c", "="),
    ("upsert c", "insert c", "R"),
    ("upsert a", "upsert a", "R"),
    ("upsert a", "update a", "R"),
    ("upsert a", "merge a", "R"),
    ("upsert b", "update a", "="),
    ("upsert b", "delete b", "R"),
    ("upsert a", "delete b", "="),
    ("upsert a", "overwrite persons", "R"),
    ("upsert b", "overwrite persons", "R"),
    ("upsert an edge", "insert an edge of b", "R"),
    # the same of a whole row, whatever was there
    ("upsert the whole of a", "update a", "="),
    ("upsert the whole of a", "overwrite persons", "="),
    # unique values, of which one is equal to another that is written otherwise
    ("insert d with the score 0.0", "insert c with the score -0.0", "R"),
    ("append d with the score 0.0", "insert c with the score -0.0", "C"),
    # upsert, by a load: it reads what its records leave out
    ("merge a", "insert c", "="),
    ("merge c", "insert c", "R"),
    ("merge c", "append c", "R"),
    ("merge a", "upsert a", "R"),
    ("merge a", "update a", "R"),
    ("merge a", "merge a", "R"),
    ("merge b", "merge a", "="),
    ("merge b", "update a", "="),
    ("merge b", "delete b", "R"),
    ("merge a", "delete b", "="),
    ("merge a", "overwrite persons", "R"),
    ("merge b", "overwrite persons", "R"),
    # update and delete: they are run again on the rows as they are now
    ("update a", "insert c", "="),
    ("update the young", "insert c", "R"),
    ("update all", "insert c", "R"),
    ("update all", "append c", "R"),
    ("delete b", "insert c", "="),
    ("delete the young but a", "insert c", "R"),
    ("delete b", "insert an edge of b", "R"),
    ("update a", "upsert a", "R"),
    ("update a", "update a", "R"),
    ("update a", "merge a", "R"),
    ("update b", "upsert a", "="),
    ("update b", "update a", "="),
    ("update b", "merge a", "="),
    ("delete b", "update a", "="),
    ("update b", "delete b", "R"),
    ("delete b", "delete b", "R"),
    ("update a", "delete b", "="),
    ("update all", "delete b", "R"),
    ("update a", "overwrite persons", "R"),
    ("update b", "overwrite persons", "R"),
    ("delete b", "overwrite persons", "R"),
    ("update a", "overwrite cities", "="),
    # load overwrite of a table
    ("overwrite persons", "insert c", "C"),
    ("overwrite persons", "append c", "C"),
    ("overwrite persons", "upsert a", "C"),
    ("overwrite persons", "update a", "C"),
    ("overwrite persons", "merge a", "C"),
    ("overwrite persons", "delete b", "C"),
    ("overwrite persons", "overwrite persons", "C"),
    ("overwrite persons", "overwrite cities", "="),
    ("overwrite persons", "insert an edge of a", "="),
    ("overwrite cities", "insert c", "="),
    ("overwrite cities", "delete b", "="),
    ("overwrite cities", "delete r", "C"),
    ("overwrite cities", "overwrite cities", "C"),
]


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph before the two writes."""
    return Path(seeded_graph(tmp_path_factory.mktemp("matrix")).uri)


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Between:
    """Counts how often the second write checks everything: once for each time that it is run."""
    found = Between(lambda: None)
    for module, name in ((mutate_module, "check_constraints"), (load_module, "check_batch")):
        original: Callable[..., object] = getattr(module, name)

        def counted(*arguments: object, original: Callable[..., object] = original) -> object:
            found.attempts += found.is_counting
            return original(*arguments)

        monkeypatch.setattr(module, name, counted)
    return found


def outcome(verb: Verb, graph: og.Graph) -> object:
    """What comes of a write, in words that two runs share: the counts, or the error."""
    try:
        result = verb(graph)
    except og.ConflictError:
        return "conflict"
    except og.OmnigraphError as error:
        return type(error), str(error)
    assert isinstance(result, og.MutationResult | og.LoadResult)
    told = result.to_json()
    assert told.pop("commit_id") in (None, graph.snapshot().commit.id)
    return told


@pytest.mark.parametrize("second, first, verdict", CELLS, ids=[f"{cell[0]} after {cell[1]}" for cell in CELLS])
def test_two_writes_at_once(
    seeded: Path, tmp_path: Path, between: Between, second: str, first: str, verdict: str
) -> None:
    found = raced(seeded, tmp_path, between, second, first)

    assert between.is_first_done
    assert found == verdict


@pytest.mark.soak
@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("second", SECOND)
def test_any_two_writes_are_as_if_one_came_after_the_other(
    seeded: Path, tmp_path: Path, between: Between, second: str, first: str
) -> None:
    raced(seeded, tmp_path, between, second, first)


def raced(seeded: Path, place: Path, between: Between, second: str, first: str) -> str:
    """The letter of a cell, after making sure that the graph is what it should be."""
    serial = copied(seeded, place / "serial")
    FIRST[first](serial)
    alone = contents(serial)
    wanted = outcome(SECOND[second], serial)
    graph = copied(seeded, place / "g")
    racing = opened_behind(graph, between)
    between.first, between.attempts = (lambda: FIRST[first](graph)), 0

    found = outcome(SECOND[second], racing)

    if not between.is_first_done:  # it was refused before anybody else came
        return "–"
    assert contents(graph) == (alone if found == "conflict" else contents(serial))
    assert found in ("conflict", wanted)
    return "C" if found == "conflict" else "=" if between.attempts == 1 else "R"
