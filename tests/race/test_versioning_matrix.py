"""The conflict matrix for what is done to schemas and branches: beside each other, and beside writes of rows.

`=` both stay and the second is not run again; `R` the second is run again; `C` the second is a ConflictError. However
often it was run, the graph is then what it would be if the two had come one after the other; after `C`, as if the
second had never been.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from conflict_cells import Between, Verb, contents, copied, load, mutation, opened_behind, seeded_graph
from load_calls import Record, person
from mutating import SCHEMA, run
from omnigraph.ops import load_local as load_module
from omnigraph.ops import merge as merge_module
from omnigraph.ops import mutate as mutate_module
from omnigraph.ops import schema_apply as schema_module
from omnigraph.ops.schema_apply import SchemaResult

NEXT = SCHEMA + "\nnode Extra { name: String @key }\n"
OTHER = SCHEMA + "\nnode Other { name: String @key }\n"
WIDER = SCHEMA.replace("  age: I32?", "  age: I32?\n  nick: String?")
RULED = SCHEMA.replace("@unique(score)", "@unique(score)\n  @range(score, 0..)")
LINKED = SCHEMA + "\nedge Rules: Person -> City @card(0..1)\n"
LIMITED = SCHEMA.replace("edge WorksAt: Person -> City @card(0..1)", "edge WorksAt: Person -> City @card(0..0)")
NARROW = SCHEMA.replace("  zip: I64?  @unique(name, zip)", "")
MOVED = SCHEMA.replace("City", "Town").replace("node Town {", 'node Town @rename_from("City") {')


def applied(schema: str) -> Verb:
    """A change of main's schema."""
    return lambda graph: graph.apply_schema(schema)


def file_load(mode: str, *records: Record) -> Verb:
    """A load of these records from a file."""

    def loaded(graph: og.Graph) -> object:
        file = Path(graph.uri).with_suffix(".jsonl")
        file.write_text("".join(json.dumps(record) + "\n" for record in records))
        return graph.load(file, mode=mode)

    return loaded


def merged(source: str) -> Verb:
    """A merge of a branch into main."""
    return lambda graph: graph.merge(source)


FIRST: dict[str, Verb] = {
    "insert c": mutation('insert Person { name: "c", age: 3 }'),
    "upsert a": mutation('insert Person { name: "a", age: 50 }'),
    "delete b": mutation('delete Person where name = "b"'),
    "insert a city": mutation('insert City { name: "Oslo" }'),
    "insert an edge": mutation('insert Knows { from: "a", to: "b" }'),
    "overwrite persons": load("overwrite", person("a", age=50), person("b")),
    "schema apply": applied(NEXT),
    "merge": merged("one"),
    "branch create": lambda graph: graph.branches.create("fresh"),
    "branch delete": lambda graph: graph.branches.delete("spare"),
}
SECOND: dict[str, Verb] = {
    "insert d": mutation('insert Person { name: "d" }'),
    "append d": load("append", person("d")),
    "append d from a file": file_load("append", person("d")),
    "upsert a": mutation('insert Person { name: "a", age: 9 }'),
    "merge a": load("merge", person("a", age=9)),
    "merge a from a file": file_load("merge", person("a", age=9)),
    "update a": mutation('update Person set { age: 9 } where name = "a"'),
    "delete b": mutation('delete Person where name = "b"'),
    "overwrite persons": load("overwrite", person("a"), person("y")),
    "schema apply": applied(OTHER),
    "add a property to persons": applied(WIDER),
    "add a rule for persons": applied(RULED),
    "add an edge type of persons": applied(LINKED),
    "limit the edges of persons": applied(LIMITED),
    "drop a property of cities": applied(NARROW),
    "rename cities": applied(MOVED),
    "merge": merged("two"),
}
CELLS = [
    # rows beside schemas, merges and branches
    ("insert d", "schema apply", "R"),
    ("append d", "schema apply", "C"),  # a stream can't be read again
    ("append d from a file", "schema apply", "R"),
    ("upsert a", "schema apply", "R"),
    ("merge a", "schema apply", "C"),
    ("merge a from a file", "schema apply", "R"),
    ("update a", "schema apply", "R"),
    ("delete b", "schema apply", "C"),
    ("overwrite persons", "schema apply", "C"),
    ("insert d", "merge", "="),
    ("append d", "merge", "="),
    ("upsert a", "merge", "R"),
    ("merge a", "merge", "R"),
    ("update a", "merge", "R"),
    ("delete b", "merge", "="),
    ("overwrite persons", "merge", "C"),
    ("insert d", "branch create", "="),
    ("update a", "branch create", "="),
    ("update a", "branch delete", "="),
    # a change of the schema
    ("schema apply", "insert c", "="),
    ("schema apply", "upsert a", "="),
    ("schema apply", "delete b", "="),
    ("schema apply", "overwrite persons", "="),
    ("schema apply", "schema apply", "C"),
    ("schema apply", "merge", "="),
    ("add a property to persons", "insert c", "R"),
    ("add a property to persons", "upsert a", "R"),
    ("add a property to persons", "overwrite persons", "R"),
    ("add a property to persons", "merge", "R"),
    ("add a property to persons", "insert a city", "="),
    ("add a property to persons", "schema apply", "C"),
    ("add a rule for persons", "insert c", "R"),
    ("add a rule for persons", "insert a city", "="),
    ("add an edge type of persons", "insert c", "="),
    ("limit the edges of persons", "insert c", "R"),
    ("limit the edges of persons", "insert an edge", "="),
    ("drop a property of cities", "insert a city", "R"),
    ("drop a property of cities", "insert c", "="),
    ("rename cities", "insert a city", "R"),
    ("rename cities", "delete b", "="),
    ("schema apply", "branch create", "="),
    ("schema apply", "branch delete", "="),
    # a merge
    ("merge", "insert c", "R"),
    ("merge", "upsert a", "R"),
    ("merge", "delete b", "R"),
    ("merge", "insert a city", "R"),
    ("merge", "overwrite persons", "C"),
    ("merge", "schema apply", "C"),
    ("merge", "merge", "C"),
    ("merge", "branch create", "="),
    ("merge", "branch delete", "="),
]


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph before the two, with branches that have something to merge."""
    graph = seeded_graph(tmp_path_factory.mktemp("versions"))
    for name in ("one", "two", "spare"):
        graph.branches.create(name)
    graph.mutate('query q() { update Person set { age: 71 } where name = "a" }', branch="one")
    graph.mutate('query q() { update Person set { mood: "sad" } where name = "b" }', branch="two")
    run(graph, 'insert City { name: "Rimini" }')  # so that no merge is a fast forward
    return Path(graph.uri)


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Between:
    """Counts how often the second is worked out: once for each time that it is run."""
    found = Between(lambda: None)
    for module, name in (
        (mutate_module, "check_constraints"),
        (load_module, "check_batch"),
        (schema_module, "check_rows"),
        (merge_module, "merge_tables"),
    ):
        original: Callable[..., object] = getattr(module, name)

        def counted(*arguments: object, original: Callable[..., object] = original) -> object:
            found.attempts += found.is_counting
            return original(*arguments)

        monkeypatch.setattr(module, name, counted)
    return found


def outcome(verb: Verb, graph: og.Graph) -> object:
    """What comes of a verb, in words that two runs share."""
    try:
        result = verb(graph)
    except og.ConflictError:
        return "conflict"
    except og.MergeConflictsError as error:
        result = error.result
    if isinstance(result, og.MergeResult):
        return result.outcome, result.conflict_counts
    assert isinstance(result, og.MutationResult | og.LoadResult | SchemaResult)
    told = result.to_json()
    assert told.pop("commit_id") == graph.snapshot().commit.id
    return told


OFTEN = {
    ("insert d", "schema apply"),
    ("append d", "schema apply"),
    ("append d from a file", "schema apply"),
    ("update a", "schema apply"),
    ("merge a", "merge"),
    ("update a", "merge"),
    ("overwrite persons", "merge"),
    ("update a", "branch create"),
    ("schema apply", "insert c"),
    ("schema apply", "schema apply"),
    ("schema apply", "merge"),
    ("schema apply", "branch delete"),
    ("add a property to persons", "insert c"),
    ("add a property to persons", "insert a city"),
    ("add a property to persons", "schema apply"),
    ("limit the edges of persons", "insert c"),
    ("drop a property of cities", "insert a city"),
    ("rename cities", "insert a city"),
    ("merge", "upsert a"),
    ("merge", "delete b"),
    ("merge", "overwrite persons"),
    ("merge", "schema apply"),
    ("merge", "merge"),
    ("merge", "branch create"),
}
"""One cell for each row and column; the others are run by `make soak`."""


@pytest.mark.parametrize(
    "second, first, verdict",
    [
        pytest.param(*cell, id=f"{cell[0]} after {cell[1]}", marks=() if cell[:2] in OFTEN else pytest.mark.soak)
        for cell in CELLS
    ],
)
def test_two_at_once(seeded: Path, tmp_path: Path, between: Between, second: str, first: str, verdict: str) -> None:
    serial = copied(seeded, tmp_path / "serial")
    FIRST[first](serial)
    alone = state(serial)
    wanted = outcome(SECOND[second], serial)
    graph = copied(seeded, tmp_path / "g")
    racing = opened_behind(graph, between)
    between.first, between.attempts = (lambda: FIRST[first](graph)), 0

    found = outcome(SECOND[second], racing)

    assert between.is_first_done
    assert state(graph) == (alone if found == "conflict" else state(serial))
    assert found in ("conflict", wanted)
    assert ("C" if found == "conflict" else "=" if between.attempts == 1 else "R") == verdict


def state(graph: og.Graph) -> tuple[object, ...]:
    """Rows, schema and branches."""
    branches = sorted(one.name for one in graph.branches.list())
    return contents(graph), graph.snapshot().manifest.schema.fingerprint, branches


@pytest.mark.parametrize("verb", ["insert d", "append d", "update a", "overwrite persons", "schema apply", "merge"])
def test_a_write_on_a_branch_that_is_deleted_meanwhile_is_refused(
    verb: str, seeded: Path, tmp_path: Path, between: Between
) -> None:
    graph = copied(seeded, tmp_path / "g")
    racing = opened_behind(graph, between)
    between.first = lambda: graph.branches.delete("spare")
    verbs: dict[str, Verb] = {
        "insert d": lambda it: it.mutate('query q() { insert Person { name: "d" } }', branch="spare"),
        "append d": lambda it: it.load([person("d")], mode="append", branch="spare"),
        "update a": lambda it: it.mutate('query q() { update Person set { age: 9 } where name = "a" }', branch="spare"),
        "overwrite persons": lambda it: it.load([person("a")], mode="overwrite", branch="spare"),
        "schema apply": lambda it: it.apply_schema(OTHER, branch="spare"),
        "merge": lambda it: it.merge("one", into="spare"),
    }

    with pytest.raises(og.BranchGoneError):
        verbs[verb](racing)

    assert between.is_first_done
    assert "spare" not in {one.name for one in graph.branches.list()}
