"""Every kind of migration step on tables with rows, holes, indexes, vectors and blobs: nothing else changes."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from load_calls import Record, edge, node
from merging import change
from mutating import new_graph, run
from omnigraph.schema.migration_steps import StepKind
from upkeep_calls import eager, indexed_rows
from worlds import runtime

PEOPLE = 60
SCHEMA = """
node Person {
  name: String @key
  age: I32? @index
  bio: String? @index
  vec: Vector(4)? @index
  pic: Blob?
  tags: [String]? @index
  mood: enum(calm, glad) @index
  email: String
  old: I64?
  @unique(email)
}
node City { name: String @key }
node Spare { name: String @key }
edge Knows: Person -> Person @card(0..9) { since: I32? @index  @key(src, dst) }
"""
KEPT = ("id", "age", "bio", "vec", "tags", "mood")
CHANGES: dict[StepKind, tuple[str, str]] = {
    StepKind.ADD_TYPE: ("node Spare", "node Extra { name: String @key }\nnode Spare"),
    StepKind.RENAME_TYPE: ("node City {", 'node Town @rename_from("City") {'),
    StepKind.ADD_PROPERTY: ("old: I64?", "old: I64?  level: I32 @default(3)  note: String?"),
    StepKind.RENAME_PROPERTY: ("old: I64?", 'former: I64? @rename_from("old")'),
    StepKind.DROP_TYPE: ("node Spare { name: String @key }\n", ""),
    StepKind.DROP_PROPERTY: ("  old: I64?\n", ""),
    StepKind.ADD_CONSTRAINT: ("@unique(email)", "@unique(email)  @range(age, 0..200)"),
    StepKind.DROP_CONSTRAINT: ("  @unique(email)\n", ""),
    StepKind.EXTEND_ENUM: ("enum(calm, glad)", "enum(calm, glad, sad)"),
    StepKind.RELAX_NULLABILITY: ("email: String\n", "email: String?\n"),
    StepKind.WIDEN_CARDINALITY: ("@card(0..9)", "@card(0..12)"),
    StepKind.UPDATE_METADATA: ("old: I64?", 'old: I64? @description("was")'),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files with holes, every index built, and a row behind them that none covers."""
    root = tmp_path_factory.mktemp("steps")
    graph = new_graph(root, SCHEMA)
    for first in (0, PEOPLE // 2):
        graph.load([_person(number) for number in range(first, first + PEOPLE // 2)], mode="append")
    cities = [node("City", name="oslo"), node("Spare", name="s")]
    graph.load([*cities, *(edge("Knows", f"p{n}", f"p{n + 1}", since=n) for n in range(9))], mode="append")
    og.open_graph(graph.uri, runtime=runtime(eager())).optimize(all_indexes=True)
    run(graph, 'delete Person where name = "p7"')
    graph.load([_person(PEOPLE)], mode="append")
    return root / "g"


def _person(number: int) -> Record:
    return node(
        "Person",
        name=f"p{number}",
        age=number,
        bio=f"graphs and word{number}",
        vec=[float(number), 1.0, 0.5, -1.0],
        pic="base64:aGVsbG8=",
        tags=["x", f"t{number}"],
        mood="calm" if number % 2 else "glad",
        email=f"{number}@x",
        old=number,
    )


def seen(graph: og.Graph, **target: Any) -> dict[str, object]:
    """What is asked of the graph: by index, by words, by vector, along edges, and a blob."""
    questions = {
        "index": "match { $p: Person  $p.age = 12 } return { $p.name }",
        "list": 'match { $p: Person  $p.tags contains "t9" } return { $p.name }',
        "words": 'match { $p: Person  search($p.bio, "word30") } return { $p.name }',
        "near": "match { $p: Person } return { $p.name } order { nearest($p.vec, [60.0, 1.0, 0.5, -1.0]) } limit 3",
        "edges": 'match { $p: Person { name: "p3" }  $p knows $q } return { $q.name }',
        "enum": 'match { $p: Person { mood: "calm" } } return { count(*) as n }',
    }
    found: dict[str, object] = {
        name: graph.query(f"query q() {{ {text} }}", **target).rows() for name, text in questions.items()
    }
    stream = graph.blob("Person", "p9", "pic", **target)
    assert stream is not None
    return {**found, "blob": stream.read()}


def history(graph: og.Graph) -> pa.Table:
    """By row: its id, number, place, and the versions that made and changed it."""
    versions = ["_row_created_at_version", "_row_last_updated_at_version"]
    return graph.table("Person").to_table(columns=["id", *versions], with_row_id=True, with_row_address=True)


def test_every_kind_of_step_is_here() -> None:
    assert {*CHANGES, StepKind.UNSUPPORTED_CHANGE} == {*StepKind}


@pytest.mark.parametrize(
    "kind, is_hard",
    [(kind, is_hard) for kind in CHANGES for is_hard in (False, True) if kind.drops_data or not is_hard],
    ids=lambda one: one.value if isinstance(one, StepKind) else "hard" if one else "soft",
)
def test_a_step_changes_nothing_else(kind: StepKind, is_hard: bool, template: Path, tmp_path: Path) -> None:
    graph = og.open_graph(str(shutil.copytree(template, tmp_path / "g")), runtime=runtime())
    before, answers = graph.snapshot(), seen(graph)
    rows, past = graph.table("Person").to_table(columns=list(KEPT)), history(graph)
    indexes = {name: part for name, part in indexed_rows(graph).items() if not name.startswith(("City", "Spare"))}
    old, new = CHANGES[kind]
    assert old in SCHEMA

    done = graph.apply_schema(SCHEMA.replace(old, new), allow_drops=not is_hard, allow_data_loss=is_hard)

    assert kind in {step.kind for step in done.plan.steps}
    assert seen(graph) == answers
    assert graph.table("Person").to_table(columns=list(KEPT)).equals(rows)
    unmoved = [name for name in past.schema.names if kind is not StepKind.ADD_PROPERTY or "updated" not in name]
    assert history(graph).select(unmoved).equals(past.select(unmoved))  # what is filled counts as updated
    assert {key: part for key, part in indexed_rows(graph).items() if key in indexes} == indexes
    assert "ScalarIndexQuery" in graph.table("Person").scanner(filter="age = 12", columns=["id"]).explain_plan()
    if not (is_hard and kind is StepKind.DROP_PROPERTY):
        assert seen(graph, snapshot=before.commit.id) == answers


def test_an_edge_type_can_lose_its_key(template: Path, tmp_path: Path) -> None:
    graph = og.open_graph(str(shutil.copytree(template, tmp_path / "g")), runtime=runtime())
    before = graph.table("Knows").to_table()

    graph.apply_schema(SCHEMA.replace("  @key(src, dst)", ""))
    run(graph, 'insert Knows { from: "p1", to: "p2" }')

    after = graph.table("Knows").to_table()
    assert after.num_rows == before.num_rows + 1
    assert set(before.column("id").to_pylist()) < set(after.column("id").to_pylist())


@pytest.mark.parametrize("is_filled", [False, True])
def test_several_steps_on_one_table_are_one(is_filled: bool, template: Path, tmp_path: Path) -> None:
    graph = og.open_graph(str(shutil.copytree(template, tmp_path / "g")), runtime=runtime())
    emails = graph.table("Person").to_table(columns=["email"]).column(0).to_pylist()
    fill = "@default(3)" if is_filled else ""

    graph.apply_schema(
        SCHEMA.replace("email: String\n", f'mail: String? @rename_from("email")\n  rank: I32? {fill}\n')
        .replace("@unique(email)", "@unique(mail)")
        .replace("  old: I64?\n", ""),
        allow_data_loss=True,
    )
    run(graph, 'insert Person { name: "new", mood: "calm" }')

    found = graph.table("Person").to_table(columns=["mail", "rank"])
    assert found.column("mail").to_pylist() == [*emails, None]
    assert found.column("rank").to_pylist() == [3 if is_filled else None] * (len(emails) + 1)


def _asked(graph: og.Graph, first: str, second: str, **target: Any) -> list[object]:
    """Rows by two properties with indexes, found by each."""
    texts = [
        f"match {{ $p: Person  $p.{first} = 12 }} return {{ $p.name, $p.{second} as other }}",
        f'match {{ $p: Person  $p.{second} = "graphs and word12" }} return {{ $p.name, $p.{first} as other }}',
    ]
    return [graph.query(f"query q() {{ {text} }}", **target).rows() for text in texts]


@pytest.mark.parametrize(
    "schema, names",
    [
        (SCHEMA.replace("age:", "bio:", 1).replace("  bio: String?", "  age: String?", 1), ("bio", "age")),
        (SCHEMA.replace("age: I32?", "old: I32?").replace("  old: I64?\n", ""), ("old", "bio")),
        (SCHEMA.replace("age: I32?", "old: I32?").replace("  old: I64?\n", "  older: I64?\n"), ("old", "bio")),
    ],
    ids=["two change names", "the name of one that goes", "one after the other"],
)
@pytest.mark.parametrize("allow_data_loss", [False, True])
def test_properties_that_get_the_names_of_others_keep_their_values_and_indexes(
    schema: str, names: tuple[str, str], allow_data_loss: bool, template: Path, tmp_path: Path
) -> None:
    graph = og.open_graph(str(shutil.copytree(template, tmp_path / "g")), runtime=runtime())
    schema = schema.replace(f"{names[0]}: I32?", f'{names[0]}: I32? @rename_from("age")')
    schema = schema.replace("age: String?", 'age: String? @rename_from("bio")')
    schema = schema.replace("older: I64?", 'older: I64? @rename_from("old")')
    before, then = _asked(graph, "age", "bio"), graph.snapshot().commit.id

    graph.apply_schema(schema, allow_drops=not allow_data_loss, allow_data_loss=allow_data_loss)

    assert _asked(graph, *names) == before == [[{"p.name": "p12", "other": "graphs and word12"}], before[1]]
    assert before[1] == [{"p.name": "p12", "other": 12}]
    if not allow_data_loss:
        assert _asked(graph, "age", "bio", snapshot=then) == before
    og.open_graph(graph.uri, runtime=runtime(eager())).optimize(all_indexes=True)
    assert _asked(graph, *names) == before
    run(graph, change("Person", names[0], 77, name="p12"))
    assert _asked(graph, *names)[1] == [{"p.name": "p12", "other": 77}]
