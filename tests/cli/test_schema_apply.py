"""`omnigraph schema apply`, `show` and `plan` on a graph: exit codes, and what is printed where."""

import json
from pathlib import Path

import pytest

import omnigraph as og
from mutating import new_graph, run
from omnigraph.cli.main import main

OLD = "node Person { name: String @key\n  age: I32? }\n"
NEW = OLD.replace("age: I32?", "age: I32?\n  @range(age, 0..9)")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    graph = new_graph(tmp_path, OLD)
    run(graph, 'insert Person { name: "ada", age: 20 }')
    return graph.uri


def written(directory: Path, text: str) -> str:
    path = directory / "new.pg"
    path.write_text(text)
    return str(path)


def test_what_rows_break_is_told_with_their_id(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["schema", "apply", uri, "--schema", written(tmp_path, NEW), "--json"])

    error = json.loads(capsys.readouterr().err)["error"]
    assert code == 1
    assert (error["code"], error["diagnostic"], error["violations"][0]["id"]) == ("schema_unfit", "OG-MF-107", "ada")
    assert "20 > max 9, in 'ada'" in error["message"]


def test_an_applied_schema_is_shown_and_the_one_before_too(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", "show", uri, "--json"]) == 0
    before = json.loads(capsys.readouterr().out)

    assert main(["schema", "apply", uri, "--schema", written(tmp_path, OLD.replace("}", "  nick: String? }"))]) == 0

    assert "safe        add_property" in capsys.readouterr().out
    assert main(["schema", "show", uri]) == 0
    assert "nick" in capsys.readouterr().out
    assert main(["schema", "show", uri, "--snapshot", before["commit_id"]]) == 0
    assert capsys.readouterr().out == OLD


def test_a_change_without_a_migration_is_refused_by_plan_and_apply(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, OLD.replace("I32?", "String?"))

    assert main(["schema", "plan", uri, "--schema", path]) == 1
    assert main(["schema", "apply", uri, "--schema", path]) == 1

    assert capsys.readouterr().err.count("OG-MF-106") == 1


def test_a_plan_is_of_a_graph_or_of_a_file(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, NEW)

    assert main(["schema", "plan", uri, "--from", path, "--schema", path]) == 2
    assert main(["schema", "plan", "--schema", path]) == 2
    assert "name the graph" in capsys.readouterr().err


def test_data_loss_is_shown_by_the_plan_and_done_when_allowed(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, OLD.replace("I32?", "I32?  extra: String?"))
    assert main(["schema", "apply", uri, "--schema", path]) == 0
    assert main(["branch", "create", "dev", uri]) == 0
    capsys.readouterr()
    back = written(tmp_path, OLD)

    assert main(["schema", "plan", uri, "--schema", back]) == 0
    assert "drops       drop_property" in capsys.readouterr().out
    assert main(["schema", "plan", uri, "--schema", back, "--allow-data-loss"]) == 0
    assert "loses       drop_property" in capsys.readouterr().out
    assert main(["schema", "apply", uri, "--schema", back, "--allow-data-loss", "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert told["held_by"] == ["dev"]
    assert [step["soft"] for step in told["steps"]] == [False]


def test_what_was_dropped_for_good_is_not_found_in_the_past(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", "show", uri, "--json"]) == 0
    then = json.loads(capsys.readouterr().out)["commit_id"]
    bare = written(tmp_path, "node Person { name: String @key }\n")
    assert main(["schema", "apply", uri, "--schema", bare, "--allow-data-loss", "--as", "ada"]) == 0
    capsys.readouterr()

    code = main(
        ["query", uri, "--snapshot", then, "--json", "-e", "query q() { match { $p: Person } return { $p.name } }"]
    )

    error = json.loads(capsys.readouterr().err)["error"]
    assert (code, error["code"], error["what"], error["actor"]) == (4, "data_dropped", "Person.age", "ada")


def test_a_schema_without_any_type_needs_a_yes(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = written(tmp_path, "// an empty file by mistake\n")
    before = og.open_graph(uri).snapshot().commit.id

    refused = main(["schema", "apply", uri, "--schema", nothing])

    assert refused == 2
    assert f"dropping every type of {uri} needs --yes when there is no terminal to ask at" in capsys.readouterr().err
    assert og.open_graph(uri).snapshot().commit.id == before
    assert main(["schema", "apply", uri, "--schema", nothing, "--yes"]) == 0
    assert og.open_graph(uri).snapshot().pins == {}


def test_drops_on_a_remote_store_need_a_yes(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.cli.schema.find_location_kind", lambda _: "s3")
    narrower, wider = OLD.replace("\n  age: I32?", ""), OLD.replace("age", "nick: String?\n  age")

    assert main(["schema", "apply", uri, "--schema", written(tmp_path, wider)]) == 0
    refused = main(["schema", "apply", uri, "--schema", written(tmp_path, narrower)])

    assert refused == 2
    assert "dropping `Person.nick`, `Person.age` of" in capsys.readouterr().err.replace(
        "`Person.age`, `Person.nick`", "`Person.nick`, `Person.age`"
    )
    assert main(["schema", "apply", uri, "--schema", written(tmp_path, narrower), "--yes"]) == 0


def test_an_empty_schema_of_an_empty_graph_is_nothing_to_ask_about(tmp_path: Path) -> None:
    nothing = written(tmp_path, "")
    graph = new_graph(tmp_path / "empty", "")

    assert main(["schema", "apply", graph.uri, "--schema", nothing]) == 0


def test_an_annotation_that_is_likely_a_slip_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after, graph = tmp_path / "a.pg", tmp_path / "b.pg", str(tmp_path / "g")
    before.write_text("node Person { name: String @key }\n", encoding="utf-8")
    after.write_text("node Person { name: String @key }\nnode City { name: String @kye }\n", encoding="utf-8")
    main(["init", graph, "--schema", str(before)])

    code = main(["schema", "apply", graph, "--schema", str(after)])

    assert code == 0
    assert capsys.readouterr().err.startswith("warning[L105]: `@kye` is not a known annotation")


def test_a_drop_of_values_needs_a_yes(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    narrower = written(tmp_path, OLD.replace("\n  age: I32?", ""))

    assert main(["schema", "plan", uri, "--schema", narrower]) == 0
    planned = capsys.readouterr().out
    refused = main(["schema", "apply", uri, "--schema", narrower, "--json"])
    error = json.loads(capsys.readouterr().err)

    assert "drop property `Person.age`: its 1 value stays in earlier versions" in planned
    assert "warning: this drops types or properties with data; `omnigraph schema apply` needs --yes for that" in planned
    assert (refused, error["error"]["code"]) == (1, "schema_drops_data")
    assert "--yes" in error["help"]
    assert error["error"]["steps"][0]["details"]["values"] == 1
    assert main(["schema", "apply", uri, "--schema", narrower, "--yes"]) == 0


def test_a_drop_of_what_has_no_value_needs_no_yes(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    og.open_graph(uri).apply_schema(OLD.replace("age: I32?", "age: I32?\n  nick: String?"))

    assert main(["schema", "plan", uri, "--schema", written(tmp_path, OLD)]) == 0
    assert "warning" not in capsys.readouterr().out
    assert main(["schema", "apply", uri, "--schema", written(tmp_path, OLD)]) == 0


@pytest.mark.parametrize("answer, code", [("y\n", 0), ("n\n", 1)])
def test_a_drop_of_values_is_asked_about_at_a_terminal(
    answer: str, code: int, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrower = written(tmp_path, OLD.replace("\n  age: I32?", ""))
    monkeypatch.setattr("omnigraph.cli.schema.can_ask", lambda **_: True)
    monkeypatch.setattr("omnigraph.cli.confirm.can_ask", lambda **_: True)
    monkeypatch.setattr("click.confirm", lambda *_, **__: answer == "y\n")

    assert main(["schema", "apply", uri, "--schema", narrower]) == code
    assert ("age" in og.open_graph(uri).schema) == (code == 1)
