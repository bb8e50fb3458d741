"""A slip of whoever calls the command is answered with what was probably meant."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.main import main
from worlds import runtime

Told = Callable[..., tuple[int, str]]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Told:
    """Runs a command beside the graph `people.omni`: its exit code, and what it says on stderr."""
    og.create_graph(str(tmp_path / "people.omni"), "node P { name: String @key }", runtime=runtime())
    (tmp_path / "people.jsonl").write_text('{"type": "P", "data": {"name": "ada"}}\n')
    (tmp_path / "people.pg").write_text("node P { name: String @key }\n")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        return main(arguments), capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    "arguments, option",
    [
        (["load", "people.omni", "people.jsonl"], "`--data people.jsonl`, or rows of one type as `--node TYPE="),
        (["init", "new.omni", "people.pg"], "`--schema people.pg`"),
        (["schema", "apply", "people.pg", "people.omni"], "`--schema people.pg`"),
        (["query", "people.omni", "people.gq"], "`--query people.gq`"),
        (["mutate", "people.gq"], "`--query people.gq`"),
        (["query", "people.omni", "query q() { match { $p: P } return { $p } }"], "`-e TEXT`"),
    ],
)
def test_a_file_without_its_option_is_told_the_option(arguments: list[str], option: str, told: Told) -> None:
    code, message = told(*arguments)

    assert code == 2
    assert f"given as {option}" in message.splitlines()[-1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["load", "people.omni", "--mode", "append", "--data"],
        ["load", "people.omni", "--mod", "append", "people.jsonl"],
        ["branch", "list", "people.omni", "people.jsonl"],
        ["lint", "--query", "people.gq", "--quary", "people.gq"],
    ],
)
def test_a_word_of_which_nothing_is_known_has_no_such_help(arguments: list[str], told: Told) -> None:
    code, message = told(*arguments)

    assert code == 2
    assert "given as" not in message
    assert "Traceback" not in message


@pytest.mark.parametrize(
    "arguments, place",
    [
        (["branch", "create", "people.omni"], "NAME"),
        (["branch", "merge", "people.omni"], "SOURCE"),
        (["tag", "create", "people.omni"], "NAME"),
        (["commit", "show", "people.omni"], "REF"),
    ],
)
def test_a_graph_in_the_place_of_a_name_is_told_its_place(arguments: list[str], place: str, told: Told) -> None:
    code, message = told(*arguments)

    assert code == 2
    assert message.startswith(
        f"error: `people.omni` is a graph, but {place} is expected there: the graph is the last argument\n"
    )


def test_words_in_the_wrong_order_are_told_as_a_command_that_runs(told: Told) -> None:
    text = "query add($n: String) { insert P { name: $n } }"

    code, message = told("mutate", "-e", text, "people.omni", "add", "--param", "n=a b")

    command = message.splitlines()[-1].split("last argument: `")[1].rstrip("`")
    assert code == 4
    words = shlex.split(command)
    assert words == ["omnigraph", "mutate", "-e", text, "add", "--param", "n=a b", "people.omni"]
    assert told(*words[1:])[0] == 0


def test_graph_jsonl_among_the_files_of_a_load_is_told_its_option(told: Told) -> None:
    code, message = told("load", "people.omni", "people.jsonl", "--mode", "append")

    assert code == 2
    assert message.splitlines()[-1].endswith("is given as `--data people.jsonl`")


@pytest.mark.parametrize("option", [("--input-format", "parquet"), ("--input-format=parquet",)])
def test_a_format_that_was_chosen_is_not_blamed_on_the_name(option: tuple[str, ...], told: Told) -> None:
    Path("P.csv").write_text("name\nada\n")

    code, message = told("load", "people.omni", "P.csv", "--mode", "append", *option)

    assert code == 1
    assert message.startswith("error: `P.csv` can't be read in its format: Parquet")
    assert message.splitlines()[-1] == (
        "help: --input-format says parquet; without it the name of a file says its format"
    )


def test_a_text_whose_variables_the_shell_has_taken_is_told_of_quotes(told: Told) -> None:
    code, message = told("query", "people.omni", "-e", "query q() { match { : P } return { .name } }")

    assert code == 1
    assert message.startswith("error[Q000]: ")
    assert message.splitlines()[-1].startswith("help: in double quotes the shell replaces `$p` as one of its variables")


def test_a_graph_of_quite_another_name_is_not_meant(told: Told) -> None:
    code, message = told("snapshot", "nope.omni")

    assert code == 4
    assert "help:" not in message


@pytest.mark.parametrize("word, command", [("ls", "snapshot"), ("insert", "mutate")])
def test_words_of_other_tools_are_known(word: str, command: str, told: Told) -> None:
    code, message = told(word, "people.omni")

    assert code == 2
    assert f"did you mean `{command}`?" in message


@pytest.mark.parametrize("missed", ["peple.omni", "people"])
def test_a_graph_that_is_missed_by_a_letter_is_named(missed: str, told: Told) -> None:
    code, message = told("snapshot", missed)

    assert code == 4
    assert message.endswith(f"help: did you mean {Path.cwd() / 'people.omni'}?\n")


def test_of_two_graphs_the_one_that_is_there_is_not_meant_by_the_other(told: Told) -> None:
    code, message = told("clone", "elsewhere", "people.omni")

    assert code == 4
    assert "help:" not in message


def test_a_file_is_no_graph(told: Told) -> None:
    code, message = told("load", "people.jsonl", "--data", "people.omni", "--mode", "append")

    assert code == 4
    assert message.endswith("help: people.jsonl is a file, and a graph is a directory\n")


def test_a_querys_name_alone_is_told_to_stand_before_the_graph(told: Told) -> None:
    code, message = told("query", "friends", "-e", "query friends() { match { $p: P } return { $p.name } }")

    assert code == 4
    assert "put a query's name before it: `omnigraph query friends URI`" in message


@pytest.mark.parametrize("name, what", [("people.pg", "a schema"), ("people.gq", "a file of queries")])
def test_a_text_of_a_language_is_no_data(name: str, what: str, told: Told) -> None:
    code, message = told("load", "people.omni", "--mode", "append", "--data", name)

    assert code == 2
    assert f"`{name}` is {what} by its name, not data" in message


def test_short_help_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    codes = [main(["load", "-h"]), main(["load", "--help"])]

    short, _, long = capsys.readouterr().out.partition("Usage: ")[2].partition("Usage: ")
    assert codes == [0, 0]
    assert short == long


@pytest.mark.parametrize("verb", ["check", "explain"])
def test_policies_are_looked_for_in_a_directory_that_is_there(verb: str, told: Told) -> None:
    rest = ["--actor", "ada", "--action", "read", "--graph", "g"] if verb == "explain" else []

    missing, of_missing = told("policy", verb, "nowhere", *rest)
    file, of_file = told("policy", verb, "people.pg", *rest)

    assert (missing, file) == (4, 2)
    assert "`nowhere`" in of_missing
    assert "`people.pg` is a file; name the directory that it is in" in of_file


@pytest.mark.parametrize(
    "arguments, meant",
    [
        (["query", "poeple.omni", "-e", "query q() { match { $p: P } return { $p } }"], "/people.omni?"),
        (["init", "new.omni", "people.pg"], "a schema is given as `--schema people.pg`"),
        (["query", "people.omni", "--query", "missing.gq"], None),
    ],
)
def test_programs_are_told_too(arguments: list[str], meant: str | None, told: Told) -> None:
    _, message = told(*arguments, "--json")

    assert str(json.loads(message).get("help")).endswith(str(meant))
