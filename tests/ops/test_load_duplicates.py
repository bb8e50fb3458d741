"""Records of one load with equal ids: rejected, or the first or the last of them is loaded, and the others counted."""

import json
import random
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.cli.main import main

SCHEMA = """
node Person { name: String @key  age: I64?  mail: String? @unique  city: String }
edge Knows: Person -> Person { since: I64?  @key(src, dst) }
edge Likes: Person -> Person { since: I64? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.create_graph(str(tmp_path / "people.omni"), SCHEMA)


def exported(graph: og.Graph) -> list[dict[str, Any]]:
    out = BytesIO()
    graph.export(out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def people(graph: og.Graph) -> dict[str, dict[str, Any]]:
    return {record["data"]["name"]: record["data"] for record in exported(graph) if record.get("type") == "Person"}


def person(name: str, **data: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, "city": "x", **data}}


@pytest.mark.parametrize("seed", range(40))
def test_any_load_with_repeats_is_the_load_of_those_that_are_chosen(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    policy, mode = dice.choice(["first", "last"]), dice.choice(["append", "merge", "overwrite"])
    names = [f"p{number}" for number in range(8)]
    records = [person(dice.choice(names), age=number) for number in range(dice.randint(0, 30))]
    pairs = [(dice.choice(names), dice.choice(names)) for _ in range(dice.randint(0, 20))]
    edges = [{"edge": "Knows", "from": src, "to": dst, "data": {"since": n}} for n, (src, dst) in enumerate(pairs)]
    mixed = [*records, *edges, *(person(name) for name in names)]
    dice.shuffle(mixed)
    chosen: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record in mixed:
        key = (record["data"]["name"],) if "type" in record else (record["from"], record["to"])
        if policy == "last" or key not in chosen:
            chosen[key] = record
    graphs = [og.create_graph(str(tmp_path / name), SCHEMA) for name in ("a", "b")]
    for graph in graphs:
        if mode != "append":
            graph.load([person("p0", age=-1, mail="p0@x"), person("old")], mode="append")
    # In two files, in order.
    half = len(mixed) // 2
    for number, part in enumerate([mixed[:half], mixed[half:]]):
        text = "".join(json.dumps(record) + "\n" for record in part)
        (tmp_path / f"{number}.jsonl").write_text(text, encoding="utf-8")

    paths = [tmp_path / "0.jsonl", tmp_path / "1.jsonl"]
    result = graphs[0].load(paths, mode=mode, on_duplicate=policy)
    expected = graphs[1].load(list(chosen.values()), mode=mode)

    assert exported(graphs[0]) == exported(graphs[1])
    assert result.affected == expected.affected
    found = (*result.nodes.values(), *result.edges.values())
    assert sum(counts.duplicates for counts in found) == len(mixed) - len(chosen)
    assert sum(counts.read for counts in found) == len(chosen)


def test_the_last_record_is_loaded_as_it_is(graph: og.Graph) -> None:
    graph.load([person("ada", age=36)], mode="append")

    result = graph.load([person("ada", age=1, mail="a@x"), person("ada", city="y")], mode="merge", on_duplicate="last")

    # The age is that of the row, and the mail of the record before is gone with it.
    assert people(graph)["ada"] == {"name": "ada", "age": 36, "mail": None, "city": "y"}
    assert (result.nodes["Person"].updated, result.nodes["Person"].duplicates) == (1, 1)


def test_a_record_that_is_left_out_breaks_no_rule(graph: og.Graph) -> None:
    records = [person("ada", mail="a@x"), person("bob", mail="a@x"), person("bob", mail="b@x")]

    graph.load(records, mode="append", on_duplicate="last")

    assert {name: data["mail"] for name, data in people(graph).items()} == {"ada": "a@x", "bob": "b@x"}
    with pytest.raises(og.LoadError, match="mail"):
        graph.load(records, mode="overwrite", on_duplicate="first")


def test_an_id_that_is_stored_is_no_repeat(graph: og.Graph) -> None:
    graph.load([person("ada")], mode="append")

    with pytest.raises(og.LoadError, match="exists already"):
        graph.load([person("ada"), person("ada")], mode="append", on_duplicate="first")


def test_a_bad_record_is_rejected_before_repeats_are_looked_for(graph: og.Graph, tmp_path: Path) -> None:
    records = [person("ada", age=1), person("ada", age="x")]

    result = graph.load(records, mode="append", on_duplicate="last", on_error=tmp_path / "bad")

    assert people(graph)["ada"]["age"] == 1
    assert (result.rejected, result.nodes["Person"].duplicates) == (1, 0)


def test_repeats_are_an_error_unless_said_otherwise(graph: og.Graph) -> None:
    with pytest.raises(og.LoadError, match="appears twice"):
        graph.load([person("ada"), person("ada")], mode="append")


def test_a_key_belongs_to_the_choice_too(graph: og.Graph) -> None:
    records = [person("ada", age=1), person("ada", age=2)]
    first = graph.load(records, mode="append", on_duplicate="last", idempotency_key="k")

    assert graph.load(records, mode="append", on_duplicate="last", idempotency_key="k") == first
    with pytest.raises(og.KeyReusedError):
        graph.load(records, mode="append", on_duplicate="first", idempotency_key="k")


def test_a_choice_that_does_not_exist_is_refused(graph: og.Graph) -> None:
    with pytest.raises(og.OmnigraphError, match="on_duplicate"):
        graph.load([], mode="append", on_duplicate="newest")


def test_the_command_takes_the_choice_and_shows_the_count(
    graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "Person.csv"
    path.write_text("name,age,city\nada,1,x\nada,2,x\n", encoding="utf-8")

    arguments = ["load", graph.uri, str(path), "--mode", "append", "--on-duplicate", "last", "--json", "--quiet"]
    assert main(arguments) == 0

    counts = json.loads(capsys.readouterr().out)["nodes"]["Person"]
    assert (counts["read"], counts["duplicates"]) == (1, 1)
    assert people(graph)["ada"]["age"] == 2


def test_spark_refuses_before_anything_runs(graph: og.Graph) -> None:
    pytest.importorskip("pyspark")

    with pytest.raises(og.OmnigraphError, match="Spark loads with `error` only") as error:
        graph.load([person("ada")], mode="append", on_duplicate="last", engine="spark")

    assert error.value.kind is og.Kind.USAGE
    assert people(graph) == {}


# --- edges without a key -----------------------------------------------------------------------------------


def edge(type_: str, **fields: Any) -> dict[str, Any]:
    return {"edge": type_, "from": "ada", "to": "ada", **fields}


def test_a_merge_of_edges_without_a_key_warns(
    graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "likes.jsonl"
    path.write_text(json.dumps(person("ada")) + "\n" + json.dumps(edge("Likes")) + "\n", encoding="utf-8")

    assert main(["load", graph.uri, "--data", str(path), "--mode", "merge", "--quiet"]) == 0

    assert "warning: Likes has no @key: this merge added 1 of its edges" in capsys.readouterr().err


@pytest.mark.parametrize(
    "record, mode",
    [(edge("Knows"), "merge"), (edge("Likes", id="l1"), "merge"), (edge("Likes"), "append")],
)
def test_other_edges_do_not_warn(record: dict[str, Any], mode: str, graph: og.Graph) -> None:
    assert graph.load([person("ada"), record], mode=mode).warnings == ()
