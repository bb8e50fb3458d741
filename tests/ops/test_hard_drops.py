"""Drops for good: the data is not in the files of the new state, and the past of the table is not to be read."""

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import omnigraph as og
from load_calls import edge, node
from mutating import new_graph, rows, run
from omnigraph.cli.main import main
from omnigraph.commit.purges import DataDroppedError
from omnigraph.engine.tables.key_pages import build_page_key
from omnigraph.ops.branch import create_branch
from omnigraph.options import Maintenance, UpkeepOptions
from omnigraph.runtime import Runtime
from upkeep_calls import AtPoint, exported, indexed_rows, settled
from worlds import FAST

TOLD = "q9Zk-what-was-told"
SCHEMA = """
node Person {
  name: String @key
  age: I32? @index
  note: String? @index
  vec: Vector(2)?
  pic: Blob?
  tags: [String]?
}
node City { name: String @key }
edge Lives: Person -> City
"""
WITHOUT_NOTE = SCHEMA.replace("  note: String? @index\n", "")
WITHOUT_PERSON = "node City { name: String @key }\n"
WITHOUT_CITY = SCHEMA.replace("node City { name: String @key }\n", "").replace("edge Lives: Person -> City\n", "")


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> og.Graph:
    return og.open_graph(str(shutil.copytree(template, tmp_path / "g")), runtime=Runtime(options=FAST))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of persons with a hole, all indexes, and a row behind them that none covers."""
    made = new_graph(tmp_path_factory.mktemp("hard"), SCHEMA)
    for first in (0, 4):
        people = [
            node(
                "Person",
                name=f"p{n}",
                age=n,
                note=f"{TOLD} {n}",
                vec=[float(n), 1.0],
                pic="base64:aGk=",
                tags=["x", str(n)],
            )
            for n in range(first, first + 4)
        ]
        made.load(people, mode="append")
    made.load([node("City", name="oslo"), edge("Lives", "p0", "oslo")], mode="append")
    run(made, 'delete Person where name = "p5"')
    eager = replace(FAST, upkeep=replace(FAST.upkeep, index_rows=1))
    og.open_graph(made.uri, runtime=Runtime(options=eager)).optimize(all_indexes=True)
    run(made, f'insert Person {{ name: "late", age: 50, note: "{TOLD} late" }}')
    return Path(made.uri)


def answer(graph: og.Graph, body: str, **target: str) -> list[dict[str, object]]:
    return graph.query(f"query q() {{ {body} }}", **target).rows()  # type: ignore[arg-type]  # snapshot alone


def files(graph: og.Graph, type_name: str, branch: str = "main") -> list[Path]:
    """The data files of a type's table now."""
    table = graph.table(type_name, branch=branch)
    home = Path(table.uri) / "data"
    return [home / file.path for fragment in table.get_fragments() for file in fragment.data_files()]


def numbers(graph: og.Graph) -> dict[str, tuple[int, int]]:
    """By id, a row's number and address."""
    found = graph.table("Person").to_table(columns=["id"], with_row_id=True, with_row_address=True)
    columns = (found.column(name).to_pylist() for name in ("id", "_rowid", "_rowaddr"))
    return {row_id: (number, address) for row_id, number, address in zip(*columns, strict=True)}


def test_a_soft_drop_leaves_the_bytes_where_they_are(graph: og.Graph) -> None:
    graph.apply_schema(WITHOUT_NOTE, allow_drops=True)

    assert any(TOLD.encode() in file.read_bytes() for file in files(graph, "Person"))


def test_a_hard_drop_leaves_nothing_in_the_files(graph: og.Graph) -> None:
    graph.apply_schema(WITHOUT_NOTE, allow_data_loss=True)

    assert files(graph, "Person")
    assert not any(TOLD.encode() in file.read_bytes() for file in files(graph, "Person"))


def test_what_was_dropped_before_goes_with_a_hard_drop_of_something_else(graph: og.Graph) -> None:
    graph.apply_schema(WITHOUT_NOTE, allow_drops=True)

    graph.apply_schema(WITHOUT_NOTE.replace("  tags: [String]?\n", ""), allow_data_loss=True)

    assert not any(TOLD.encode() in file.read_bytes() for file in files(graph, "Person"))


def holding(graph: og.Graph) -> list[str]:
    """The files of the whole graph that say what was told, in any case."""
    found = (path for path in Path(graph.uri).rglob("*") if path.is_file())
    return [path.name for path in found if TOLD.lower().encode() in path.read_bytes().lower()]


@pytest.mark.parametrize("schema", [WITHOUT_NOTE, WITHOUT_PERSON], ids=["property", "type"])
def test_cleanup_takes_the_last_of_it_from_the_disk(graph: og.Graph, schema: str) -> None:
    graph.apply_schema(schema, allow_data_loss=True)
    assert holding(graph)

    graph.cleanup(keep=1_000, grace=timedelta(0), confirm=True)

    assert holding(graph) == []
    assert og.check_graph(graph.uri).findings == ()
    assert answer(graph, "match { $c: City } return { $c.name }") == [{"c.name": "oslo"}]


def test_cleanup_leaves_what_a_merge_of_other_branches_will_start_from(graph: og.Graph) -> None:
    """Main keeps the state for them, and can't read it itself any more; a branch that was taken before can."""
    graph.branches.create("other")
    run(graph, 'insert Person { name: "m1" }')
    base = graph.snapshot().commit.id
    graph.mutate('query q() { insert Person { name: "o1" } }', branch="other")
    graph.merge("main", into="other")
    run(graph, 'insert Person { name: "m2" }')
    graph.branches.create("mid")
    for branch, name in (("mid", "d1"), ("other", "o2"), ("mid", "d2"), ("other", "o3")):
        graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}', branch=branch)
    expected = exported(graph, snapshot=base, branch="mid")
    graph.apply_schema(WITHOUT_NOTE, allow_data_loss=True)
    run(graph, 'insert City { name: "Oslo" }')

    graph.cleanup(keep=1, grace=timedelta(0), confirm=True)

    assert exported(graph, snapshot=base, branch="mid") == expected
    assert [one for one in graph.check(deep=True).findings if one.code != "unused_files"] == []
    assert graph.merge("mid", into="other").conflict_total == 0


def test_cleanup_leaves_what_another_branch_has(graph: og.Graph) -> None:
    graph.branches.create("dev")
    graph.apply_schema(WITHOUT_NOTE, allow_data_loss=True)

    graph.cleanup(keep=1_000, grace=timedelta(0), confirm=True)

    found = graph.query("query q() { match { $p: Person } return { count($p.note) as n } }", branch="dev").rows()
    assert found == [{"n": 8}]


def test_all_else_is_as_it_was(graph: og.Graph) -> None:
    columns = ("id", "age", "vec", "tags")
    before, places = rows(graph, "Person", *columns), numbers(graph)

    graph.apply_schema(WITHOUT_NOTE, allow_data_loss=True)

    assert rows(graph, "Person", *columns) == before
    assert numbers(graph) == places
    stream = graph.blob("Person", "p4", "pic")
    assert stream is not None
    assert stream.read() == b"hi"


def test_indexes_cover_what_they_covered_and_answer(graph: og.Graph) -> None:
    before = indexed_rows(graph)
    assert {"Person.age BTREE", "Person.note INVERTED"} <= before.keys()

    graph.apply_schema(WITHOUT_NOTE, allow_data_loss=True)

    assert indexed_rows(graph) == {name: part for name, part in before.items() if "note" not in name}
    found = graph.table("Person").to_table(columns=["id"], filter="age = 4")
    assert found.column("id").to_pylist() == ["p4"]


def test_a_column_that_lies_alone_takes_only_its_files_along(graph: og.Graph) -> None:
    wide = SCHEMA.replace("note: String? @index", f'note: String? @index\n  mark: String @default("{TOLD}-mark")')
    before = files(graph, "Person")
    graph.apply_schema(wide)

    graph.apply_schema(SCHEMA, allow_data_loss=True)

    assert files(graph, "Person") == before


@pytest.mark.parametrize("schema, lost", [(WITHOUT_NOTE, "Person"), (WITHOUT_CITY, "City")])
def test_the_past_of_the_table_is_an_error_that_names_the_drop(graph: og.Graph, schema: str, lost: str) -> None:
    then = graph.commits()[0].id
    done = graph.apply_schema(schema, allow_data_loss=True, actor="ada")

    with pytest.raises(DataDroppedError) as caught:
        answer(graph, f"match {{ $x: {lost} }} return {{ $x.name }}", snapshot=then)

    assert (caught.value.commit_id, caught.value.actor) == (done.commit_id, "ada")
    assert caught.value.what == ("Person.note" if lost == "Person" else "City")


def test_other_tables_of_the_past_are_read_as_before(graph: og.Graph) -> None:
    then = graph.commits()[0].id

    graph.apply_schema(WITHOUT_NOTE, allow_data_loss=True)

    assert answer(graph, "match { $c: City } return { $c.name }", snapshot=then) == [{"c.name": "oslo"}]


def test_the_state_of_the_drop_itself_can_be_read_later(graph: og.Graph) -> None:
    done = graph.apply_schema(WITHOUT_NOTE, allow_data_loss=True)
    assert done.commit_id is not None
    run(graph, 'insert Person { name: "later" }')

    found = answer(graph, "match { $p: Person } return { count(*) as n }", snapshot=done.commit_id)

    assert found == [{"n": 8}]


def test_a_dropped_type_can_be_made_again(graph: og.Graph) -> None:
    graph.apply_schema(WITHOUT_CITY, allow_data_loss=True)

    graph.apply_schema(SCHEMA)
    run(graph, 'insert City { name: "bergen" }')

    assert answer(graph, "match { $c: City } return { $c.name }") == [{"c.name": "bergen"}]


def test_a_branch_has_what_it_had_and_is_named(graph: og.Graph) -> None:
    graph.branches.create("dev")

    done = graph.apply_schema(WITHOUT_NOTE, allow_data_loss=True)

    assert done.held_by == ("dev",)
    found = graph.query("query q() { match { $p: Person } return { count($p.note) as n } }", branch="dev").rows()
    assert found == [{"n": 8}]


def test_no_branch_can_be_taken_from_before_the_drop(graph: og.Graph) -> None:
    then = graph.commits()[0].id
    graph.apply_schema(WITHOUT_NOTE, allow_data_loss=True)

    with pytest.raises(DataDroppedError):
        create_branch(graph._session, "back", source="main", commit_id=then, actor="ada")


def test_allowing_it_changes_nothing_where_nothing_is_dropped(graph: og.Graph) -> None:
    then = graph.commits()[0].id

    done = graph.apply_schema(SCHEMA.replace("age: I32?", "age: I32?\n  rank: F64?"), allow_data_loss=True)

    assert not done.plan.loses_data
    assert answer(graph, "match { $p: Person } return { count(*) as n }", snapshot=then) == [{"n": 8}]


def test_a_plan_says_what_would_be_lost(graph: og.Graph) -> None:
    soft, hard = (graph.plan_schema(WITHOUT_NOTE, allow_data_loss=one) for one in (False, True))

    assert (soft.loses_data, hard.loses_data) == (False, True)
    assert "loses       drop_property" in hard.render()
    assert [step["soft"] for step in hard.to_json()["steps"] if "soft" in step] == [False]


def test_tags_that_lose_a_type_are_named_before_and_after(graph: og.Graph) -> None:
    graph.tags.create("v1", "main")
    graph.branches.create("dev")
    graph.load([node("City", name="rome")], mode="append", branch="dev")
    graph.tags.create("aside", "dev")

    asked = graph.plan_schema(WITHOUT_NOTE, allow_data_loss=True)
    done = graph.apply_schema(WITHOUT_NOTE, allow_data_loss=True)
    again = graph.apply_schema(WITHOUT_NOTE.replace("  age: I32? @index\n", ""), allow_data_loss=True)

    assert asked.notes == done.plan.notes == ("the tag `v1` loses `Person`: its rows can no longer be read there",)
    assert again.plan.notes == ()
    with pytest.raises(DataDroppedError):
        answer(graph, "match { $p: Person } return { $p.name }", snapshot="v1")
    assert answer(graph, "match { $p: Person } return { count(*) as n }", snapshot="aside") == [{"n": 8}]


def test_a_tag_loses_nothing_by_a_soft_drop(graph: og.Graph) -> None:
    graph.tags.create("v1", "main")

    done = graph.apply_schema(WITHOUT_NOTE, allow_drops=True)

    assert done.plan.notes == ()
    assert answer(graph, "match { $p: Person } return { count($p.note) as n }", snapshot="v1") == [{"n": 8}]


def test_the_command_that_shows_a_plan_names_the_tags_too(
    graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph.tags.create("v1", "main")
    (tmp_path / "next.pg").write_text(WITHOUT_PERSON)

    main(["schema", "plan", graph.uri, "--schema", str(tmp_path / "next.pg"), "--allow-data-loss"])

    assert "note: the tag `v1` loses `Person` and `Lives`:" in capsys.readouterr().out


def test_the_rewritten_table_is_written_to_as_before(graph: og.Graph) -> None:
    graph.apply_schema(WITHOUT_NOTE, allow_data_loss=True)

    run(graph, 'insert Person { name: "n1", age: 77 }')
    run(graph, 'update Person set { age: 78 } where name = "p4"')
    run(graph, 'delete Person where name = "p0"')

    ages = {one["id"]: one["age"] for one in rows(graph, "Person", "id", "age")}
    assert (ages["n1"], ages["p4"], "p0" in ages) == (77, 78, False)


def test_keys_that_a_compaction_stores_during_a_drop_are_gone_after_a_cleanup(tmp_path: Path) -> None:
    schema = "node P { name: String @key  note: String? @unique }"
    options = replace(FAST, maintenance=Maintenance.AUTO, upkeep=UpkeepOptions(tail_fragments=4, merged_fragments=2))
    uri = og.create_graph(str(tmp_path / "g"), schema, runtime=Runtime(options=FAST)).uri

    def drop() -> None:
        og.open_graph(uri, runtime=Runtime(options=FAST)).apply_schema(
            "node P { name: String @key }", allow_data_loss=True
        )

    faults = AtPoint("derived.begun", drop)
    graph = og.open_graph(uri, runtime=Runtime(options=options, faults=faults))
    for number in range(5):
        run(graph, f'insert P {{ name: "p{number}", note: "{TOLD} {number}" }}')
    settled(graph)
    assert faults.times == 0
    page = Path(uri, build_page_key(graph.snapshot().pin("node:P").path))
    assert page.exists(), "the keys were stored after the drop"

    graph.cleanup(keep=1_000, grace=timedelta(0), confirm=True)

    assert not page.exists()
    assert holding(graph) == []
    assert run(graph, 'delete P where name = "p3"').affected_nodes == 1
    assert og.check_graph(uri).findings == ()
