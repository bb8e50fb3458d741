"""`omnigraph lint`: everything that is wrong, in all files, at its place."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.main import main
from worlds import runtime

SCHEMA = """\
node Person {
  name: String @index
  age: I32?
  @key(name)
}
node City { name: String  @key(name) }
edge Knows: Person -> Person
edge LivesIn: Person -> City
"""
CLEAN = "query person($n: String) {\n  match { $p: Person { name: $n } }\n  return { $p.name, $p.age }\n}\n"

FIVE_MISTAKES = """\
query one($n: String) {
  match { $p: Persn { name: $n } }
  return { $p.name }
}
query two() {
  match { $p: Person; $p knos $q }
  return { $p.agee }
}
query three() {
  match { $p: Person }
  return { $x.name }
}
query four( {
  match { $p: Person }
  return { $p.name }
}
"""
PLACES = [("T1", 2, 15), ("T4", 6, 26), ("T2", 7, 15), ("T6", 11, 12), ("Q000", 13, 12)]

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to(name: str, text: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    return to


def test_five_mistakes_are_all_reported_at_their_places(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    schema, queries = write("s.pg", SCHEMA), write("q.gq", FIVE_MISTAKES)

    code = main(["lint", "--schema", schema, "--query", queries])

    captured = capsys.readouterr()
    assert code == 1
    assert captured.err == ""
    for diagnostic, line, column in PLACES:
        assert f"error[{diagnostic}]" in captured.out
        assert f"--> {queries}:{line}:{column}\n" in captured.out
    assert captured.out.count("error[") == 5
    assert captured.out.endswith("5 errors, 0 warnings in 2 files\n")


def test_five_mistakes_are_one_json_document(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    schema, queries = write("s.pg", SCHEMA), write("q.gq", FIVE_MISTAKES)

    code = main(["lint", "--json", "--schema", schema, "--query", queries])

    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert code == 1
    assert captured.err == ""
    found = [(one["code"], one["start"]["line"], one["start"]["column"]) for one in document["diagnostics"]]
    assert found == PLACES
    assert {one["file"] for one in document["diagnostics"]} == {queries}
    assert (document["errors"], document["warnings"]) == (5, 0)
    assert document["files"] == [
        {"file": schema, "language": "schema", "errors": 0, "warnings": 0},
        {"file": queries, "language": "query", "errors": 5, "warnings": 0},
    ]


def test_a_misspelt_name_gets_its_near_miss(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    main(["lint", "--schema", write("s.pg", SCHEMA), "--query", write("q.gq", FIVE_MISTAKES)])

    out = capsys.readouterr().out
    assert "did you mean `Person`?" in out
    assert "did you mean `age`?" in out


def test_clean_files_exit_0_with_one_line(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["lint", "--schema", write("s.pg", SCHEMA), "--query", write("q.gq", CLEAN)])

    assert code == 0
    assert capsys.readouterr() == ("ok: 2 files\n", "")


def test_warnings_alone_exit_0(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    product = "query q() { match { $a: Person  $b: City } return { $a.name, $b.name as city } }\n"

    code = main(["lint", "--schema", write("s.pg", SCHEMA), "--query", write("q.gq", product)])

    out = capsys.readouterr().out
    assert code == 0
    assert "warning[L203]" in out
    assert out.endswith("ok: 1 warning in 2 files\n")


def test_a_schema_can_be_checked_alone(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    schema = write("s.pg", "node A { x: Strin }\nedge E: A -> B\n")

    code = main(["lint", "--schema", schema])

    out = capsys.readouterr().out
    assert code == 1
    assert f"--> {schema}:1:13\n" in out
    assert f"--> {schema}:2:14\n" in out


def test_a_type_that_could_not_be_read_is_not_reported_as_unknown_too(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = write("s.pg", "node A { x: String }\nnode B x: String }\nedge E: A -> B\nedge F: A -> C\n")

    code = main(["lint", "--json", "--schema", schema])

    found = [(one["code"], one["start"]["line"]) for one in json.loads(capsys.readouterr().out)["diagnostics"]]
    assert code == 1
    assert ("S006", 4) in found
    assert ("S006", 3) not in found


def test_queries_are_parsed_although_the_schema_has_errors(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    schema, queries = write("s.pg", "node Person { name: Strin }\n"), write("q.gq", FIVE_MISTAKES)

    code = main(["lint", "--schema", schema, "--query", queries])

    out = capsys.readouterr().out
    assert code == 1
    assert f"--> {queries}:13:12\n" in out
    assert "error[T1]" not in out
    assert "note: the schema has errors" in out


def test_without_a_schema_only_what_needs_none_is_checked(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    text = CLEAN + CLEAN + "query q($a: String, $a: I64) { match { $p: Nothing } return { $p.x, $y.z } }\n"

    code = main(["lint", "--json", "--query", write("q.gq", text)])

    document = json.loads(capsys.readouterr().out)
    assert code == 1
    assert [one["code"] for one in document["diagnostics"]] == ["Q002", "Q003", "T6"]
    assert document["note"].startswith("no --schema was given")


def test_without_a_schema_it_says_so(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["lint", "--query", write("q.gq", CLEAN)])

    out = capsys.readouterr().out
    assert code == 0
    assert out.startswith("note: no --schema was given")
    assert out.endswith("ok: 1 file\n")


def test_more_files_may_stand_behind_the_options(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["lint", "--query", write("a.gq", CLEAN), write("b.gq", CLEAN), write("s.pg", SCHEMA)])

    assert code == 0
    assert capsys.readouterr().out == "ok: 3 files\n"


def test_a_directory_stands_for_the_files_below_it(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("s.pg", SCHEMA)
    write("q.gq", CLEAN.replace("$p.age", "$p.agee"))

    code = main(["lint", str(tmp_path)])

    assert code == 1
    assert "did you mean `age`?" in capsys.readouterr().out


def test_an_empty_file_is_fine(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["lint", "--schema", write("s.pg", ""), "--query", write("q.gq", "")])

    assert code == 0
    assert capsys.readouterr().out == "ok: 2 files\n"


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (["--schema", "a.pg", "--schema", "b.pg", "--query", "q.gq"], "give --schema once"),
        (["--schema", "-", "--query", "-"], "stdin can be"),
        (["notes.txt"], "ends neither in .pg nor in .gq"),
    ],
)
def test_what_leaves_open_what_to_check_is_a_usage_error(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["lint", *arguments])

    assert code == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("color, colored", [("always", True), ("never", False), ("auto", False)])
def test_colours_are_for_terminals(color: str, colored: bool, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    main(["lint", "--color", color, "--query", write("q.gq", "query")])

    assert ("\x1b[" in capsys.readouterr().out) is colored


@pytest.mark.parametrize("no_color, colored", [("", True), ("1", False)])
def test_a_terminal_gets_colours_unless_no_color_is_set(no_color: str, colored: bool, write: Write) -> None:
    queries = write("q.gq", "query")
    master, slave = pty.openpty()

    with os.fdopen(master, "rb", buffering=0) as terminal:
        subprocess.run(
            [sys.executable, "-m", "omnigraph", "lint", "--query", queries],
            stdout=slave,
            env={**os.environ, "NO_COLOR": no_color, "TERM": "xterm"},
            check=False,
        )
        os.close(slave)
        shown = terminal.read(100_000)

    assert (b"\x1b[" in shown) is colored


def test_the_examples_are_clean(capsys: pytest.CaptureFixture[str]) -> None:
    people = Path(__file__).parents[2] / "examples" / "people"

    code = main(["lint", "--schema", str(people / "schema.pg"), "--query", str(people / "queries.gq")])

    assert code == 0, capsys.readouterr().out


def test_of_thousands_of_errors_people_see_fifty_and_programs_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = tmp_path / "many.pg"
    schema.write_text("".join(f"edge E{number}: Gone -> Gone\n" for number in range(1_000)), encoding="utf-8")

    main(["lint", "--schema", str(schema)])
    text = capsys.readouterr().out
    main(["lint", "--schema", str(schema), "--json"])
    document = json.loads(capsys.readouterr().out)

    assert text.count("error[") == 50
    assert text.endswith(f"\n\n… and 1,950 more errors in {schema}\n\n2000 errors, 0 warnings in 1 file\n")
    assert (len(document["diagnostics"]), document["errors"]) == (2_000, 2_000)


# --- a graph's own schema ----------------------------------------------------------------------------------


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.create_graph(str(tmp_path / "g.omni"), SCHEMA, runtime=runtime())
    graph.branches.create("review")
    graph.apply_schema(SCHEMA.replace("age: I32?", "age: I32?\n  born: Date?"), branch="review")
    return graph


def test_queries_are_checked_against_the_schema_of_a_graph(
    graph: og.Graph, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    clean = write("clean.gq", CLEAN)
    newer = write("newer.gq", CLEAN.replace("$p.age", "$p.born"))

    assert main(["lint", "--query", clean, graph.uri]) == 0
    assert capsys.readouterr().out == "ok: 1 file\n"
    assert main(["lint", graph.uri, newer]) == 1
    assert "born" in capsys.readouterr().out
    assert main(["lint", newer, graph.uri, "--branch", "review"]) == 0
    assert main(["lint", newer, graph.uri, "--branch", "nowhere"]) == 4


def test_a_graph_alone_has_its_schema_checked(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", graph.uri, "--json"]) == 0

    files = json.loads(capsys.readouterr().out)["files"]
    assert [(file["file"], file["language"]) for file in files] == [(f"schema of {graph.uri}", "schema")]


def test_one_schema_is_enough(graph: og.Graph, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    schema, clean = write("s.pg", SCHEMA), write("clean.gq", CLEAN)

    assert main(["lint", schema, clean, graph.uri]) == 2
    assert "either the graph or" in capsys.readouterr().err
    other = og.create_graph(str(Path(graph.uri).with_name("other.omni")), SCHEMA, runtime=runtime())
    assert main(["lint", clean, graph.uri, other.uri]) == 2
    assert "against one graph" in capsys.readouterr().err
    for option in ("--graph", "--branch"):
        assert main(["lint", clean, option, "people"]) == 2
        assert f"{option} is for the schema of a graph" in capsys.readouterr().err
