"""Changing the schema of a graph that has rows: data, ids and history stay, and a refused change changes nothing."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

import omnigraph as og
from load_calls import edge, node
from mutating import new_graph, rows, run
from omnigraph.commit.conflict import ConflictError
from omnigraph.engine.migrating import constraint_check
from omnigraph.ops.retry import MAX_ATTEMPTS
from omnigraph.ops.schema_apply import SchemaDropsDataError, SchemaUnfitError, SchemaUnsupportedError
from omnigraph.runtime import Runtime
from worlds import FAST

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  bio: String?
  vec: Vector(2)?
  pic: Blob?
  tags: [String]?
  mood: enum(calm, glad)?
  email: String?
}
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge Lives: Person -> City
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = new_graph(tmp_path, SCHEMA)
    people = [
        node(
            "Person",
            name=f"p{n}",
            age=n,
            bio=f"bio {n}",
            vec=[float(n), 1.0],
            tags=["x", str(n)],
            mood="calm",
            pic="base64:" + "aGk=",
            email=f"{n % 4}@x",
        )
        for n in range(6)
    ]
    made.load(people, mode="append")
    made.load(
        [node("City", name="oslo"), edge("Knows", "p0", "p1", since=3), edge("Lives", "p0", "oslo")], mode="append"
    )
    run(made, 'delete Person where name = "p5"')
    return made


def changed(old: str, new: str, schema: str = SCHEMA) -> str:
    assert old in schema
    return schema.replace(old, new)


def row_numbers(graph: og.Graph, type_name: str) -> dict[str, int]:
    table = graph.table(type_name).to_table(columns=["id"], with_row_id=True)
    return dict(zip(table.column("id").to_pylist(), table.column("_rowid").to_pylist(), strict=True))


def answer(graph: og.Graph, body: str, **target: str) -> list[dict[str, object]]:
    return graph.query(f"query q() {{ {body} }}", **target).rows()  # type: ignore[arg-type]  # snapshot alone


def test_a_renamed_property_keeps_its_values_and_rows_their_numbers(graph: og.Graph) -> None:
    before, numbers = rows(graph, "Person", "id", "age"), row_numbers(graph, "Person")

    graph.apply_schema(changed("age: I32?", 'years: I32? @rename_from("age")'))

    assert [one["years"] for one in rows(graph, "Person", "id", "years")] == [one["age"] for one in before]
    assert row_numbers(graph, "Person") == numbers


def test_a_renamed_property_writes_no_data_file(graph: og.Graph, tmp_path: Path) -> None:
    before = sorted(tmp_path.glob("g/nodes/*/data/*"))

    graph.apply_schema(changed("age: I32?", 'years: I32? @rename_from("age")\n  nick: String?'))

    assert sorted(tmp_path.glob("g/nodes/*/data/*")) == before


def test_a_renamed_type_is_the_same_table(graph: og.Graph) -> None:
    before = graph.snapshot().pin("node:Person")
    renamed = SCHEMA.replace("Person", "Human").replace("node Human {", 'node Human @rename_from("Person") {')

    graph.apply_schema(renamed)

    pin = graph.snapshot().pin("node:Human")
    assert (pin.path, pin.version) == (before.path, before.version)
    assert "node:Person" not in graph.snapshot().pins
    assert answer(graph, 'match { $p: Human { name: "p0" } $p knows $q } return { $q.name }') == [{"q.name": "p1"}]


def test_a_name_that_a_rename_freed_can_be_given_to_another_table(graph: og.Graph) -> None:
    then = graph.commits()[0].id
    town = SCHEMA.replace("City", "Town").replace("node Town {", 'node Town @rename_from("City") {')
    graph.apply_schema(town)

    graph.apply_schema(town.replace(' @rename_from("City")', "") + "node City { size: I64? }")

    assert answer(graph, "match { $c: City } return { $c.size }") == []
    assert answer(graph, "match { $t: Town } return { $t.name }") == [{"t.name": "oslo"}]
    assert answer(graph, "match { $c: City } return { $c.name }", snapshot=then) == [{"c.name": "oslo"}]
    assert graph.snapshot().pin("node:City").path != graph.snapshot().pin("node:Town").path
    assert graph.snapshot(snapshot=then).pin("node:City").path == graph.snapshot().pin("node:Town").path


def test_names_that_moved_on_before_change_places_with_their_data(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, "node B { k: String @key  b: I32?  d: I32? } node D { k: String @key }")
    graph.load([node("B", k="one", b=1, d=2), node("D", k="two")], mode="append")
    wide, narrow = '{ k: String @key  e: I32? @rename_from("b")  b: I32? @rename_from("d") }', "{ k: String @key }"
    graph.apply_schema(f'node E @rename_from("B") {wide} node B @rename_from("D") {narrow}')

    swapped = wide.replace('"d"', '"e"')
    graph.apply_schema(f'node E @rename_from("B") {narrow} node B @rename_from("E") {swapped}')

    assert [one["k"] for one in rows(graph, "E")] == ["two"]
    assert [(one["k"], one["b"], one["e"]) for one in rows(graph, "B")] == [("one", 1, 2)]


def test_a_new_property_is_null_or_filled(graph: og.Graph) -> None:
    graph.apply_schema(changed("age: I32?", "age: I32?\n  rank: F64?\n  level: I32 @default(7)\n  when: Date?"))

    found = rows(graph, "Person", "rank", "level", "when")
    assert found == [{"rank": None, "level": 7, "when": None}] * 5
    run(graph, 'insert Person { name: "new", level: 9, rank: 0.5 }')
    assert answer(graph, 'match { $p: Person { name: "new" } } return { $p.level, $p.rank }') == [
        {"p.level": 9, "p.rank": 0.5}
    ]


def test_a_dropped_property_is_gone_now_and_there_before(graph: og.Graph) -> None:
    then = graph.commits()[0].id

    graph.apply_schema(changed("  bio: String?\n", ""), allow_drops=True)

    assert "bio" not in graph.table("Person").schema.names
    found = answer(graph, "match { $p: Person } return { $p.bio } order { $p.bio }", snapshot=then)
    assert [one["p.bio"] for one in found] == [f"bio {n}" for n in range(5)]


def test_a_name_that_comes_back_is_somebody_new(graph: og.Graph) -> None:
    assert answer(graph, "match { $p: Person } return { sum($p.age) as s }") == [{"s": 10}]
    graph.apply_schema(changed("  age: I32?\n", ""), allow_drops=True)

    graph.apply_schema(SCHEMA)

    assert answer(graph, "match { $p: Person } return { sum($p.age) as s, count($p.age) as n }") == [
        {"s": None, "n": 0}
    ]


def test_all_other_columns_survive_with_blobs_vectors_and_lists(graph: og.Graph) -> None:
    wanted = rows(graph, "Person", "id", "vec", "tags", "mood")

    graph.apply_schema(changed("  bio: String?\n", "  extra: Vector(3)?\n  labels: [String]?\n"), allow_drops=True)

    assert rows(graph, "Person", "id", "vec", "tags", "mood") == wanted
    stream = graph.blob("Person", "p4", "pic")
    assert stream is not None
    assert stream.read() == b"hi"


def test_a_dropped_type_can_be_made_again_and_is_empty(graph: og.Graph) -> None:
    then = graph.commits()[0].id
    without_city = changed("node City { name: String @key }\n", "", changed("edge Lives: Person -> City\n", ""))
    graph.apply_schema(without_city, allow_drops=True)

    graph.apply_schema(SCHEMA)

    assert answer(graph, "match { $c: City } return { $c.name }") == []
    assert answer(graph, "match { $c: City } return { $c.name }", snapshot=then) == [{"c.name": "oslo"}]


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("  email: String?\n", "  email: String?\n  @unique(email)\n", "@unique violation on Person.email: '0@x'"),
        ("  age: I32?\n", "  age: I32?\n  @range(age, 0..3)\n", "@range violation on Person.age: 4 > max 3"),
        ("  email: String?\n", '  email: String?\n  @check(email, "^[0-2]@x$")\n', "Person.email"),
        ("edge Lives: Person -> City", "edge Lives: Person -> City @card(1..1)", "'p1' has 0 edges"),
        ("edge Lives: Person -> City", "edge Lives: Person -> City @card(0..0)", "Lives: 'p0' has 1 edge (max 0)"),
        ("edge Lives:", "edge Owns: Person -> City @card(1..)\nedge Lives:", "Owns: 'p0' has 0 edges"),
        ("age: I32?", "age: I32?\n  flag: Bool @default(true)\n  @unique(flag)", "Person.flag: true is held by"),
    ],
)
def test_rows_that_break_a_new_rule_are_named_and_nothing_changes(
    graph: og.Graph, old: str, new: str, said: str
) -> None:
    before = graph.snapshot()

    with pytest.raises(SchemaUnfitError, match="OG-MF-107") as caught:
        graph.apply_schema(changed(old, new))

    assert said in str(caught.value)
    assert graph.snapshot().to_json() == before.to_json()


@pytest.mark.parametrize(
    "declared, value",
    [
        ("level: I32 @default(0)", 0),
        ("level: F64 @default(0.0)", 0.0),
        ("level: Bool @default(false)", False),
        ('level: String @default("")', ""),
        ("level: [I32] @default([])", []),
        ("level: I32? @default(0)", 0),
        ("level: Bool? @default(false)", False),
        ('level: String? @default("")', ""),
    ],
)
def test_a_default_that_is_nothing_much_is_filled_in(graph: og.Graph, declared: str, value: object) -> None:
    done = graph.apply_schema(changed("age: I32?", f"age: I32?\n  {declared}"))

    found = rows(graph, "Person", "id", "level")
    assert [one["level"] for one in found] == [value] * 5
    assert all(type(one["level"]) is type(value) for one in found)
    assert any(", filled with" in step.message for step in done.plan.steps)


def test_a_new_maximum_that_rows_exceed_is_refused(graph: og.Graph) -> None:
    run(graph, 'insert Knows { from: "p0", to: "p2" } insert Knows { from: "p1", to: "p2" }')

    with pytest.raises(SchemaUnfitError) as caught:
        graph.apply_schema(changed("edge Knows: Person -> Person", "edge Knows: Person -> Person @card(0..1)"))

    assert str(caught.value).splitlines()[0] == "@card violation on Knows: 'p0' has 2 edges (max 1)"
    assert caught.value.total == 1
    graph.apply_schema(changed("edge Knows: Person -> Person", "edge Knows: Person -> Person @card(0..2)"))


def test_a_rule_that_holds_is_law_from_then_on(graph: og.Graph) -> None:
    graph.apply_schema(changed("  age: I32?\n", "  age: I32?\n  @range(age, 0..9)\n"))

    with pytest.raises(og.ConstraintError, match="10 > max 9"):
        run(graph, 'insert Person { name: "q", age: 10 }')


def test_what_has_no_migration_says_the_way_round(graph: og.Graph) -> None:
    with pytest.raises(SchemaUnsupportedError, match=r"(?s)add a property, copy the values.*OG-MF-106.*nothing"):
        graph.apply_schema(changed("age: I32?", "age: String?"))


def test_the_same_schema_makes_no_commit(graph: og.Graph) -> None:
    before = graph.commits()[0].id

    done = graph.apply_schema("// a comment\n" + SCHEMA)

    assert done.commit_id is None
    assert graph.commits()[0].id == before


def test_an_index_on_a_column_that_lives_on_is_still_used(graph: og.Graph) -> None:
    graph.apply_schema(changed("age: I32?", "age: I32? @index"))
    eager = replace(FAST, upkeep=replace(FAST.upkeep, index_rows=1))
    og.open_graph(graph.uri, runtime=Runtime(options=eager)).optimize()
    indexed = changed("age: I32?", "age: I32? @index")

    graph.apply_schema(indexed.replace("age: I32? @index", 'years: I32? @index @rename_from("age")'))

    found = [one for one in graph.indexes() if one.column == "years"]
    assert [one.coverage for one in found] == [1.0]


def test_a_write_of_the_old_schema_that_comes_second_runs_again(graph: og.Graph) -> None:
    other = og.open_graph(graph.uri)
    other.snapshot()
    graph.apply_schema(changed("age: I32?", 'years: I32? @rename_from("age")'))

    run(other, 'insert Person { name: "late", years: 4 }')

    assert answer(graph, 'match { $p: Person { name: "late" } } return { $p.years }') == [{"p.years": 4}]


def test_a_branch_has_a_schema_of_its_own(graph: og.Graph) -> None:
    graph.branches.create("wide")

    graph.apply_schema(changed("age: I32?", "age: I32?\n  rank: F64 @default(1.5)"), branch="wide")

    assert "rank" in graph.table("Person", branch="wide").schema.names
    assert "rank" not in graph.table("Person").schema.names
    run(graph, 'insert Person { name: "m" }')
    assert graph.snapshot(branch="wide").pin("node:Person").rows == 5


def write_after_each_check(monkeypatch: pytest.MonkeyPatch, writes: Iterator[Callable[[], object]]) -> None:
    """Let the next of some writes happen whenever the rows were checked, before the change is published."""
    check_rows = constraint_check.check_rows

    def check_then_write(*args: object) -> object:
        findings = check_rows(*args)  # type: ignore[arg-type]  # handed through
        next(writes, lambda: None)()
        return findings

    monkeypatch.setattr("omnigraph.ops.schema_apply.check_rows", check_then_write)


def test_rows_written_meanwhile_are_checked_too(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    other = og.open_graph(graph.uri)
    write_after_each_check(monkeypatch, iter([lambda: run(other, 'insert Person { name: "between", age: 10 }')]))

    with pytest.raises(SchemaUnfitError, match="10 > max 9"):
        graph.apply_schema(changed("  age: I32?\n", "  age: I32?\n  @range(age, 0..9)\n"))


def test_nodes_written_meanwhile_count_for_a_new_edge_type(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    run(graph, "delete Person where age < 100")
    other = og.open_graph(graph.uri)
    write_after_each_check(monkeypatch, iter([lambda: run(other, 'insert Person { name: "between" }')]))

    with pytest.raises(SchemaUnfitError, match="'between' has 0 edges"):
        graph.apply_schema(SCHEMA + "edge Born: Person -> City @card(1..1)")


def test_a_change_gives_up_when_its_table_never_rests(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    other = og.open_graph(graph.uri)
    names = (f"between{number}" for number in range(100))
    writes = (partial(run, other, f'insert Person {{ name: "{name}" }}') for name in names)
    write_after_each_check(monkeypatch, writes)

    with pytest.raises(ConflictError, match="node:Person"):
        graph.apply_schema(changed("age: I32?", "age: I32?\n  nick: String?"))

    assert graph.snapshot().pin("node:Person").rows == 5 + MAX_ATTEMPTS


def test_writers_of_other_tables_never_stop_a_change(graph: og.Graph) -> None:
    other = og.open_graph(graph.uri)
    asked = Runtime(options=replace(FAST, publish_rounds=2))
    busy = _Busy([partial(run, other, f'insert City {{ name: "c{number}" }}') for number in range(7)])
    racing = og.open_graph(graph.uri, runtime=replace(asked, faults=busy))

    racing.apply_schema(changed("age: I32?", "age: I32?\n  nick: String?"))

    assert not busy.writes
    assert "nick" in graph.table("Person").schema.names
    assert graph.snapshot().pin("node:City").rows == 8


@dataclass
class _Busy:
    """Faults that let somebody else write before every swap, for as long as there are writes."""

    writes: list[Callable[[], object]]

    def reach(self, point: str) -> None:
        """Called by the publisher."""
        if point == "publish.flushed" and self.writes:
            self.writes.pop()()


def test_another_change_of_the_schema_is_a_conflict(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it comes between two tries: the second would drop what it added."""
    other = og.open_graph(graph.uri)

    def write_and_change() -> None:
        run(other, 'insert Person { name: "between" }')
        other.apply_schema(changed("age: I32?", "age: I32?\n  theirs: String?"))

    write_after_each_check(monkeypatch, iter([write_and_change]))

    with pytest.raises(ConflictError, match="schema"):
        graph.apply_schema(changed("age: I32?", "age: I32?\n  ours: String?"))

    assert "theirs" in graph.table("Person").schema.names


@pytest.mark.parametrize(
    "old, new, found",
    [
        ("  bio: String?\n", "", ("drop_property", "bio", "values", 5)),
        ("  vec: Vector(2)?\n", "", ("drop_property", "vec", "values", 5)),
        ("  pic: Blob?\n", "", ("drop_property", "pic", "values", 5)),
        ("  tags: [String]?\n", "", ("drop_property", "tags", "values", 5)),
        ("{ since: I32? }", "", ("drop_property", "since", "values", 1)),
        ("edge Lives: Person -> City\n", "", ("drop_type", None, "rows", 1)),
    ],
)
def test_what_has_data_is_dropped_only_when_that_is_allowed(
    graph: og.Graph, old: str, new: str, found: tuple[object, ...]
) -> None:
    before = graph.snapshot().commit.id

    plan = graph.plan_schema(changed(old, new))
    with pytest.raises(SchemaDropsDataError) as caught:
        graph.apply_schema(changed(old, new))

    assert plan.drops_values
    (step,) = caught.value.steps
    assert step in plan.steps
    kind, name, noun, count = found
    assert (step.kind.value, step.property_name, step.details[str(noun)]) == (kind, name, count)
    assert f"{count} {noun if count != 1 else str(noun)[:-1]}" in str(caught.value)
    assert graph.snapshot().commit.id == before
    assert graph.apply_schema(changed(old, new), allow_drops=True).commit_id


def test_rows_that_are_deleted_or_have_no_value_are_not_lost(graph: og.Graph) -> None:
    run(graph, "update Person set { bio: null } where age < 3")
    run(graph, 'delete Person where name = "p4"')

    (step,) = (one for one in graph.plan_schema(changed("  bio: String?\n", "")).steps if one.lost is not None)

    assert step.lost == 1


def test_what_has_no_data_is_dropped_without_being_asked_for(graph: og.Graph) -> None:
    wider = changed("  age: I32?\n", "  age: I32?\n  nick: String?\n") + "node Spare { name: String @key }\n"
    graph.apply_schema(wider)
    run(graph, 'insert Spare { name: "s" }')
    run(graph, 'delete Spare where name = "s"')

    done = graph.apply_schema(SCHEMA)

    assert not done.plan.drops_values
    assert [step.message for step in done.plan.steps if step.kind.drops_data] == [
        "drop node type `Spare`, which has no row",
        "drop property `Person.nick`, which has no value",
    ]


def test_values_that_come_meanwhile_are_not_dropped(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.apply_schema(changed("  age: I32?\n", "  age: I32?\n  nick: String?\n"))
    other = og.open_graph(graph.uri)
    write_after_each_check(monkeypatch, iter([lambda: run(other, 'insert Person { name: "between", nick: "b" }')]))

    with pytest.raises(SchemaDropsDataError, match="its 1 value stays"):
        graph.apply_schema(SCHEMA)


def test_a_slip_in_a_rename_changes_nothing(graph: og.Graph) -> None:
    with pytest.raises(SchemaUnsupportedError, match=r"has no property `agee`; did you mean `age`\?"):
        graph.apply_schema(changed("age: I32?", 'years: I32? @rename_from("agee")'), allow_drops=True)

    assert "age" in graph.table("Person").schema.names


def test_a_rename_that_was_made_before_stays_harmless(graph: og.Graph) -> None:
    renamed = changed("age: I32?", 'years: I32? @rename_from("age")')
    graph.apply_schema(renamed)
    graph.apply_schema(changed("age: I32?", 'old: I32? @rename_from("years")'))

    assert graph.apply_schema(changed("age: I32?", 'old: I32? @rename_from("years")')).commit_id is None
    with pytest.raises(SchemaDropsDataError):
        graph.apply_schema(renamed)
    done = graph.apply_schema(renamed, allow_drops=True)

    assert "so it counts as new" in done.plan.notes[0]
