"""Merging branches whose schemas both changed: columns of both, with the values that each side gave them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from crash.jobs import orphans
from merging import SCHEMA, change, contents, kinds, new_graph, run, try_merge
from omnigraph.ops.merge_result import MergeOutcome
from worlds import runtime

RANK = SCHEMA.replace("m: I32?", "m: I32?  rank: I32 @default(7)")
NICK = SCHEMA.replace("m: I32?", "m: I32?  nick: String?")
SCORE = SCHEMA.replace("m: I32?", "m: I32?  score: I32?")
TEAM = SCHEMA + "node Team { title: String @key  size: I32? }\n"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path)


def persons(graph: og.Graph, *names: str, branch: str = "main") -> dict[str, tuple[Any, ...]]:
    """By id, some properties of every person."""
    return {key: tuple(one[name] for name in names) for key, one in contents(graph, branch)["P"].items()}


def files(graph: og.Graph) -> set[Path]:
    return {path for path in Path(graph.uri).rglob("*") if path.is_file()}


def test_properties_of_both_sides_come_with_their_values(graph: og.Graph) -> None:
    graph.apply_schema(RANK)
    graph.apply_schema(NICK, branch="dev")
    run(graph, 'update P set { rank: 9 } where name = "a"')
    run(graph, 'update P set { nick: "bee", n: 5 } where name = "b"', "dev")
    run(graph, 'insert P { name: "e", nick: "ee" }', "dev")

    done = graph.merge("dev")

    assert done.outcome is MergeOutcome.MERGED
    assert persons(graph, "n", "rank", "nick") == {
        "a": (1, 9, None),
        "b": (5, 7, "bee"),
        "c": (1, 7, None),
        "d": (1, 7, None),
        "e": (None, 7, "ee"),
    }


def test_a_row_that_both_sides_gave_something_new_has_both(graph: og.Graph) -> None:
    graph.apply_schema(RANK)
    graph.apply_schema(NICK, branch="dev")
    run(graph, 'update P set { rank: 9 } where name = "a"')
    run(graph, 'update P set { nick: "ay" } where name = "a"', "dev")

    graph.merge("dev")

    assert persons(graph, "rank", "nick")["a"] == (9, "ay")


def test_columns_of_one_number_and_different_types_are_not_mixed_up(graph: og.Graph) -> None:
    """Each side gave its new column the next number of the table: the same one."""
    graph.apply_schema(SCHEMA.replace("m: I32?", "m: I32?  long: I64?"))
    graph.apply_schema(NICK, branch="dev")
    run(graph, 'update P set { long: 5000000000 } where name = "a"')
    run(graph, 'update P set { nick: "bee" } where name = "b"', "dev")

    graph.merge("dev")
    run(graph, 'update P set { nick: "cee", long: 3 } where name = "c"')

    assert persons(graph, "long", "nick") == {
        "a": (5_000_000_000, None),
        "b": (None, "bee"),
        "c": (3, "cee"),
        "d": (None, None),
    }


@pytest.mark.parametrize(
    "type_, asked",
    [
        ("String?", 'match { $p: P  $p.extra starts_with "a" } return { count(*) as n }'),
        ("[String]?", 'match { $p: P  $p.extra contains "a" } return { count(*) as n }'),
        ("Vector(2)?", "match { $p: P } return { $p.name } order { nearest($p.extra, [1.0, 2.0]) } limit 2"),
    ],
)
def test_queries_of_sibling_branches_see_their_own_column(type_: str, asked: str, graph: og.Graph) -> None:
    """Both columns have one number and no file of their own, so only their types tell them apart in memory."""
    graph.branches.create("other")
    graph.apply_schema(SCHEMA.replace("m: I32?", "m: I32?  extra: I64?"), branch="dev")
    graph.apply_schema(SCHEMA.replace("m: I32?", f"m: I32?  extra: {type_}"), branch="other")
    graph.query("query q() { match { $p: P  $p.extra = 1 } return { count(*) as n } }", branch="dev").rows()

    found = graph.query(f"query q() {{ {asked} }}", branch="other").rows()

    assert found in ([], [{"n": 0}])


def test_the_same_addition_on_both_sides_is_one_property(graph: og.Graph) -> None:
    graph.apply_schema(NICK)
    graph.apply_schema(NICK, branch="dev")
    run(graph, 'update P set { nick: "ay" } where name = "a"')
    run(graph, 'update P set { nick: "bee" } where name = "b"', "dev")

    graph.merge("dev")

    assert persons(graph, "nick") == {"a": ("ay",), "b": ("bee",), "c": (None,), "d": (None,)}
    assert len(graph.snapshot().manifest.schema.same) == 1


def test_different_values_of_the_same_addition_are_a_conflict(graph: og.Graph) -> None:
    graph.apply_schema(NICK)
    graph.apply_schema(NICK, branch="dev")
    run(graph, 'update P set { nick: "ay" } where name = "a"')
    run(graph, 'update P set { nick: "eh" } where name = "a"', "dev")

    done = try_merge(graph, "dev")

    assert kinds(done) == [("DivergentUpdate", "node:P", "a")]
    assert (done.conflicts[0].ours, done.conflicts[0].theirs) == ("ay", "eh")


@pytest.mark.parametrize("schema, prop, rest", [(SCORE, "score", None), (RANK, "rank", 7)])
def test_a_branch_that_goes_on_is_merged_again(schema: str, prop: str, rest: int | None, graph: og.Graph) -> None:
    graph.apply_schema(schema)
    graph.apply_schema(schema, branch="dev")
    run(graph, change("P", prop, 1, name="a"), "dev")
    graph.merge("dev")
    run(graph, change("P", prop, 2, name="a"), "dev")
    run(graph, 'update P set { n: 50 } where name = "b"')

    done = graph.merge("dev")

    assert done.outcome is MergeOutcome.MERGED
    assert persons(graph, prop, "n") == {"a": (2, 1), "b": (rest, 50), "c": (rest, 1), "d": (rest, 1)}


def test_a_type_that_both_sides_added_has_the_rows_of_both(graph: og.Graph) -> None:
    graph.apply_schema(TEAM)
    graph.apply_schema(TEAM, branch="dev")
    run(graph, 'insert Team { title: "x", size: 1 } insert Team { title: "y", size: 2 }')
    run(graph, 'insert Team { title: "y", size: 2 } insert Team { title: "z", size: 3 }', "dev")

    graph.merge("dev")
    run(graph, 'update Team set { size: 30 } where title = "z"', "dev")
    run(graph, 'delete Team where title = "x"', "dev")
    again = graph.merge("dev")

    assert again.outcome is MergeOutcome.MERGED
    found = {key: one["size"] for key, one in contents(graph)["Team"].items()}
    assert found == {"x": 1, "y": 2, "z": 30}


def test_a_rename_of_one_side_and_an_edit_of_the_other(graph: og.Graph) -> None:
    graph.apply_schema(SCHEMA.replace("n: I32?", 'num: I32? @rename_from("n")').replace("@range(n,", "@range(num,"))
    graph.apply_schema(NICK, branch="dev")
    run(graph, 'update P set { n: 40, nick: "ay" } where name = "a"', "dev")

    graph.merge("dev")

    assert persons(graph, "num", "nick")["a"] == (40, "ay")


def test_what_one_side_dropped_and_the_other_left_alone_is_gone(graph: og.Graph) -> None:
    graph.apply_schema(SCHEMA.replace("  m: I32?", ""), allow_drops=True)
    graph.apply_schema(NICK, branch="dev")
    run(graph, 'update P set { nick: "ay" } where name = "a"', "dev")

    done = try_merge(graph, "dev")

    assert done.conflict_total == 0
    assert "m" not in contents(graph)["P"]["a"]
    assert persons(graph, "nick")["a"] == ("ay",)


@pytest.mark.parametrize("dropper", ["main", "dev"])
def test_a_dropped_type_whose_rows_were_changed_and_changed_back_is_gone(dropper: str, graph: og.Graph) -> None:
    changer = "dev" if dropper == "main" else "main"
    without = "\n".join(line for line in SCHEMA.splitlines() if not line.startswith(("node C", "edge Owns")))
    graph.apply_schema(without, branch=dropper, allow_drops=True)
    run(graph, 'insert C { name: "z" }', changer)
    run(graph, 'delete C where name = "z"', changer)
    run(graph, change("C", "v", 3, name="x"), changer)
    run(graph, change("C", "v", "null", name="x"), changer)

    done = graph.merge("dev")

    assert done.outcome is MergeOutcome.MERGED
    assert {*contents(graph)} == {"P", "Knows"}


@pytest.mark.parametrize("dropper", ["main", "dev"])
def test_what_one_side_dropped_and_the_other_gave_values_is_a_conflict(dropper: str, graph: og.Graph) -> None:
    giver = "dev" if dropper == "main" else "main"
    graph.apply_schema(SCHEMA.replace("  m: I32?", ""), branch=dropper, allow_drops=True)
    graph.apply_schema(NICK, branch=giver)
    run(graph, 'update P set { m: 60 } where name = "a"', giver)

    done = try_merge(graph, "dev")

    assert [(one.kind.value, one.property) for one in done.conflicts] == [("SchemaDivergence", "m")]
    assert f"`{dropper}` dropped P.m, and `{giver}` gave it values" in done.conflicts[0].message


@pytest.mark.parametrize("ruler", ["main", "dev"])
def test_rows_of_each_side_are_held_to_the_rules_of_the_other(ruler: str, graph: og.Graph) -> None:
    other = "dev" if ruler == "main" else "main"
    graph.apply_schema(SCHEMA.replace("@range(n, 0..100)", "@range(n, 0..100)  @range(m, 0..9)"), branch=ruler)
    graph.apply_schema(NICK, branch=other)
    run(graph, 'update P set { m: 60 } where name = "a"', other)
    run(graph, 'update P set { n: 3 } where name = "b"', ruler)

    done = try_merge(graph, "dev")

    assert kinds(done) == [("ValueConstraintViolation", "node:P", "a")]


@pytest.mark.parametrize("ruler", ["main", "dev"])
def test_two_rows_of_one_side_break_a_rule_of_the_other(ruler: str, graph: og.Graph) -> None:
    other = "dev" if ruler == "main" else "main"
    for place, name in enumerate("abcd"):
        run(graph, change("P", "m", place, name=name))
    graph.branches.delete("dev")
    graph.branches.create("dev")
    graph.apply_schema(SCHEMA.replace("@unique(email)", "@unique(email)  @unique(m)"), branch=ruler)
    graph.apply_schema(RANK, branch=other)
    run(graph, 'insert P { name: "e", m: 70 } insert P { name: "f", m: 70 }', other)

    done = try_merge(graph, "dev")

    assert {kind for kind, *_ in kinds(done)} == {"UniqueViolation"}


def test_a_unique_rule_over_a_column_that_the_other_side_has_not(graph: og.Graph) -> None:
    graph.apply_schema(SCHEMA.replace("m: I32?", "m: I32?  code: I32?  @unique(code)"))
    graph.apply_schema(RANK, branch="dev")
    run(graph, 'update P set { code: 4 } where name = "a"')
    run(graph, 'update P set { n: 9 } where name = "a"', "dev")
    run(graph, 'insert P { name: "e", rank: 1 }', "dev")

    done = try_merge(graph, "dev", dry_run=True)

    assert done.conflict_total == 0


def test_rows_that_were_filled_before_the_default_changed_stay_as_they_are(graph: og.Graph) -> None:
    graph.apply_schema(RANK, branch="dev")
    graph.apply_schema(RANK.replace("@default(7)", "@default(8)"), branch="dev")
    graph.apply_schema(NICK)
    run(graph, 'update P set { nick: "ay" } where name = "a"')
    run(graph, 'insert P { name: "e" }')

    graph.merge("dev")

    assert persons(graph, "rank") == {"a": (7,), "b": (7,), "c": (7,), "d": (7,), "e": (8,)}


@pytest.mark.parametrize("source", ["dev", "main"])
@pytest.mark.parametrize("declared", ["parts: [I32] @default([1, 2])", "place: Vector(2)? @default([0.0, 1.0])"])
def test_a_list_or_vector_with_a_default_comes_where_no_row_was_inserted(
    declared: str, source: str, graph: og.Graph
) -> None:
    into = "main" if source == "dev" else "dev"
    graph.apply_schema(SCHEMA.replace("m: I32?", f"m: I32?  {declared}"))
    run(graph, 'update P set { n: 5 } where name = "a"')
    run(graph, 'update P set { m: 5 } where name = "b"', "dev")

    graph.merge(source, into=into)

    name = declared.partition(":")[0]
    filled = [1, 2] if name == "parts" else [0.0, 1.0]
    assert persons(graph, "n", "m", name, branch=into) == {
        "a": (5, 1, filled),
        "b": (1, 5, filled),
        "c": (1, 1, filled),
        "d": (1, 1, filled),
    }


@pytest.mark.parametrize("source, into", [("dev", "main"), ("main", "dev")])
def test_a_vector_of_one_side_does_not_outlive_the_text_that_the_other_changed(
    source: str, into: str, tmp_path: Path
) -> None:
    schema = "node P { name: String @key  bio: String?  n: I32? }\n"
    graph = og.create_graph(str(tmp_path / "v"), schema, runtime=runtime())
    run(graph, 'insert P { name: "a", bio: "old" } insert P { name: "b", bio: "same" }')
    graph.branches.create("dev")
    graph.apply_schema(schema.replace("n: I32?", 'n: I32?  vec: Vector(2)? @embed("bio")'))
    run(graph, 'update P set { vec: [1.0, 2.0] } where name = "a" or name = "b"')
    run(graph, 'update P set { bio: "new" } where name = "a"', "dev")
    run(graph, 'update P set { n: 3 } where name = "b"', "dev")

    graph.merge(source, into=into)

    assert persons(graph, "bio", "vec", branch=into) == {"a": ("new", None), "b": ("same", [1.0, 2.0])}


def test_there_and_back_again_gives_equal_contents(graph: og.Graph) -> None:
    graph.apply_schema(RANK)
    graph.apply_schema(NICK, branch="dev")
    run(graph, 'update P set { rank: 9 } where name = "a"')
    run(graph, 'update P set { nick: "ay" } where name = "a"', "dev")
    graph.merge("main", into="dev")

    done = graph.merge("dev")

    assert done.outcome is MergeOutcome.FAST_FORWARD
    assert contents(graph) == contents(graph, "dev")
    assert graph.snapshot().manifest.schema == graph.snapshot(branch="dev").manifest.schema


def test_either_direction_gives_equal_contents(graph: og.Graph) -> None:
    graph.apply_schema(RANK)
    graph.apply_schema(NICK, branch="dev")
    run(graph, 'update P set { rank: 9 } where name = "a"')
    run(graph, 'update P set { nick: "bee" } where name = "b"', "dev")
    graph.branches.create("copy")

    graph.merge("dev", into="copy")
    graph.merge("main", into="dev")

    assert contents(graph, "copy") == contents(graph, "dev")
    catalogs = {graph.snapshot(branch=one).manifest.schema.catalog for one in ("copy", "dev")}
    assert len(catalogs) == 1


def test_branches_that_merged_each_other_crosswise_merge_again(graph: og.Graph) -> None:
    graph.apply_schema(RANK)
    graph.apply_schema(NICK, branch="dev")
    graph.branches.create("old")
    graph.merge("main", into="dev")
    graph.apply_schema(RANK.replace("m: I32?", "m: I32?  nick: String?"), branch="old")
    graph.merge("dev", into="main")
    run(graph, 'update P set { rank: 3 } where name = "c"', "old")

    done = graph.merge("old", into="dev")

    assert done.outcome is MergeOutcome.MERGED
    assert persons(graph, "rank", "nick", branch="dev")["c"] == (3, None)


def test_a_dry_run_of_it_writes_nothing(graph: og.Graph) -> None:
    graph.apply_schema(RANK)
    graph.apply_schema(NICK, branch="dev")
    run(graph, 'update P set { nick: "ay" } where name = "a"', "dev")
    before = files(graph)

    done = graph.merge("dev", dry_run=True)

    assert done.outcome is MergeOutcome.MERGED
    assert {one.table: one.how for one in done.tables} == {"node:P": "merged"}
    assert files(graph) == before


def test_a_table_that_only_gets_columns_is_said_to(graph: og.Graph) -> None:
    graph.apply_schema(RANK)
    graph.apply_schema(NICK, branch="dev")

    done = graph.merge("dev")

    assert [(one.table, one.how, one.rows_after) for one in done.tables] == [("node:P", "reshaped", 4)]


def test_the_merged_schema_is_a_text_that_can_be_applied(graph: og.Graph) -> None:
    graph.apply_schema(RANK)
    graph.apply_schema(TEAM, branch="dev")
    graph.merge("dev")

    done = graph.apply_schema(graph.snapshot().manifest.schema.source)

    assert done.commit_id is None


def test_a_conflict_of_schemas_leaves_no_file(graph: og.Graph) -> None:
    graph.apply_schema(RANK)
    graph.apply_schema(SCHEMA.replace("m: I32?", "m: I32?  rank: String?"), branch="dev")
    before = files(graph)

    done = try_merge(graph, "dev")

    assert kinds(done) == [("SchemaDivergence", "node:P", None)]
    assert files(graph) == before


@pytest.mark.parametrize("source, into", [("dev", "main"), ("main", "dev")])
def test_rows_are_merged_with_a_table_that_was_purged(source: str, into: str, graph: og.Graph) -> None:
    """The base of the two can be read by the branch that dropped nothing."""
    graph.apply_schema(SCHEMA.replace("  m: I32?", ""), allow_data_loss=True)
    run(graph, 'update P set { n: 40 } where name = "a"', "dev")
    run(graph, 'update P set { n: 50 } where name = "b"')

    graph.merge(source, into=into)

    found = contents(graph, into)["P"]
    assert found["a"] == {"name": "a", "n": 40, "email": None}
    assert found["b"] == {"name": "b", "n": 50, "email": None}


def test_what_turned_out_to_be_one_is_remembered_by_the_next_process(graph: og.Graph) -> None:
    graph.apply_schema(SCORE)
    graph.apply_schema(SCORE, branch="dev")
    run(graph, 'update P set { score: 1 } where name = "a"', "dev")
    graph.merge("dev")
    run(graph, 'update P set { score: 2 } where name = "a"', "dev")
    run(graph, 'update P set { n: 50 } where name = "b"')

    done = og.open_graph(graph.uri).merge("dev")

    assert done.conflict_total == 0
    assert persons(graph, "score", "n")["a"] == (2, 1)


class Meanwhile:
    """Faults that do something else, once, when the merge is about to be published."""

    def __init__(self, first: Callable[[], object]) -> None:
        self._waiting = [first]

    def reach(self, point: str) -> None:
        """Called by the publisher."""
        if point == "publish.staged" and self._waiting:
            self._waiting.pop()()


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_merge_that_is_overtaken_leaves_no_file_of_its_own(is_refused: bool, graph: og.Graph) -> None:
    """The files of the new column are of the merge, and so is the version that has it."""
    graph.apply_schema(NICK)
    graph.apply_schema(RANK, branch="dev")
    run(graph, 'update P set { rank: 5 } where name = "a"', "dev")
    first = {
        True: lambda: graph.apply_schema(NICK.replace("v: I32?", "v: I32?  u: I32?")),
        False: lambda: run(graph, 'update P set { n: 3 } where name = "b"'),
    }
    racing = og.open_graph(graph.uri, runtime=replace(runtime(), faults=Meanwhile(first[is_refused])))

    if is_refused:
        with pytest.raises(og.ConflictError):
            racing.merge("dev")
    else:
        racing.merge("dev")

    ranks = {name: row.get("rank") for name, row in contents(graph)["P"].items()}
    assert ranks == (dict.fromkeys("abcd") if is_refused else {"a": 5, "b": 7, "c": 7, "d": 7})
    sessions = (graph._session, graph._session.checkout("dev"))
    unused = [set(orphans(session, ("nodes", "edges"))) for session in sessions]
    assert unused[0] & unused[1] == set()


def test_a_base_that_both_sides_dropped_for_good_says_what_to_do(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    for branch in ("main", "dev"):
        graph.apply_schema(SCHEMA.replace("m: I32?", ""), branch=branch, allow_data_loss=True)
        run(graph, f'insert P {{ name: "{branch}" }}', branch)

    with pytest.raises(og.DataDroppedError, match="`P` can't be read at the merge base") as caught:
        graph.merge("dev")

    assert "Export the rows you need from `dev`, and load them into `main`" in str(caught.value)
    assert caught.value.facts()["what"] == "P.m"


@pytest.mark.parametrize("dropper", ["main", "dev"])
@pytest.mark.parametrize("source, into", [("dev", "main"), ("main", "dev")])
def test_a_base_that_one_side_dropped_for_good_is_read_through_the_other(
    dropper: str, source: str, into: str, tmp_path: Path
) -> None:
    graph = new_graph(tmp_path)
    graph.apply_schema(SCHEMA.replace("m: I32?", ""), branch=dropper, allow_data_loss=True)
    for branch in ("main", "dev"):
        run(graph, f'insert P {{ name: "{branch}" }}', branch)

    done = graph.merge(source, into=into)

    assert done.conflicts == ()
    assert contents(graph, into)["P"].keys() == {*"abcd", "main", "dev"}
    assert "m" not in contents(graph, into)["P"]["a"]


@pytest.mark.parametrize("source, into", [("dev", "main"), ("main", "dev")])
def test_a_property_that_took_the_name_of_a_dropped_one_comes_to_a_table_that_has_both(
    source: str, into: str, graph: og.Graph
) -> None:
    graph.apply_schema(
        SCHEMA.replace("m: I32?", "").replace("n: I32?", 'm: I32? @rename_from("n")').replace("(n,", "(m,"),
        allow_drops=True,
    )
    graph.apply_schema(SCHEMA.replace("m: I32?", "m: I32?  nick: String?"), branch="dev")
    run(graph, change("P", "m", 5, name="a"))
    run(graph, change("P", "n", 6, name="b"), "dev")

    done = graph.merge(source, into=into)

    assert done.conflicts == ()
    found = persons(graph, "m", "nick", branch=into)
    assert found == {"a": (5, None), "b": (6, None), "c": (1, None), "d": (1, None)}


@pytest.mark.parametrize("fill", ["", " @default(3)"])
@pytest.mark.parametrize("source, into", [("dev", "main"), ("main", "dev")])
def test_a_new_property_with_the_name_of_a_dropped_one_comes_to_a_table_that_has_the_old_one(
    source: str, into: str, fill: str, graph: og.Graph
) -> None:
    graph.apply_schema(SCHEMA.replace("m: I32?", ""), allow_drops=True)
    graph.apply_schema(SCHEMA.replace("m: I32?", f"m: I32?{fill}"))
    graph.apply_schema(SCHEMA.replace("m: I32?", "m: I32?  nick: String?"), branch="dev")
    run(graph, change("P", "m", 5, name="a"))
    run(graph, change("P", "n", 6, name="b"), "dev")

    done = graph.merge(source, into=into)

    assert done.conflicts == ()
    other = 3 if fill else None
    found = persons(graph, "n", "m", "nick", branch=into)
    assert found == {"a": (1, 5, None), "b": (6, other, None), "c": (1, other, None), "d": (1, other, None)}


@pytest.mark.parametrize("source, into", [("dev", "main"), ("main", "dev")])
def test_a_row_that_both_inserted_has_what_the_one_that_knows_a_property_gave_it(
    source: str, into: str, graph: og.Graph
) -> None:
    graph.apply_schema(RANK)
    run(graph, 'insert P { name: "e", n: 1, rank: 4 }')
    run(graph, 'insert P { name: "e", n: 1 }', "dev")

    done = graph.merge(source, into=into)

    assert done.conflicts == ()
    assert persons(graph, "n", "rank", branch=into)["e"] == (1, 4)


def test_a_row_that_both_inserted_under_properties_of_their_own_has_all(graph: og.Graph) -> None:
    graph.apply_schema(RANK)
    graph.apply_schema(NICK, branch="dev")
    run(graph, 'insert P { name: "e", n: 1, rank: 4 }')
    run(graph, 'insert P { name: "e", n: 1, nick: "E" }', "dev")

    done = graph.merge("dev")

    assert done.conflicts == ()
    assert persons(graph, "n", "rank", "nick")["e"] == (1, 4, "E")
