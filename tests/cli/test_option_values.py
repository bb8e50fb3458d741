"""Every option of the commands that take files, with bad values: the message names it, and nothing is changed."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import omnigraph as og
from omnigraph.cli.main import cli, main
from worlds import runtime

SCHEMA = "node P { name: String @key  n: I64? }\n"
CALLS = {
    "load": ["load", "g.omni", "P.csv", "--mode", "append"],
    "schema infer": ["schema", "infer", "P.csv"],
    "init": ["init", "new.omni", "--from", "P.csv"],
}
FREE = {"--null", "--master"}
"""Options of which every value means something, and one whose values are Spark's: it has a test of its own."""
SIGN, ONE_SIGN, FORMAT = "no letter, digit or sign", "must be one character", "it must be a format of `strptime`"
SECONDS, SIZE = "is not a number of seconds above 0", "is not a size, such as 500MB"
ACTOR = "can't sign a commit: an actor must not be empty"
BAD: dict[str, list[tuple[str, str]]] = {
    "--store": [("none.omni", "the graph is named twice")],
    "--server": [("http://127.0.0.1:1", "the graph is named twice")],
    "--graph": [("g", "give --server URL, too")],
    "--mode": [("upsert", "'append', 'merge', 'overwrite'"), ("", "'append', 'merge', 'overwrite'")],
    "--data": [("none.jsonl", "there is no file `none.jsonl`"), ("empty", "the directory holds no files")],
    "--node": [
        ("P", "TYPE=PATH, not `P`"),
        ("=P.csv", "TYPE=PATH, not `=P.csv`"),
        ("P=none.csv", "no file `none.csv`"),
    ],
    "--edge": [("K", "TYPE=PATH, not `K`"), ("P=P.csv", "edge"), ("K=none.csv", "no file `none.csv`")],
    "--map": [("name=n", "--map takes TYPE.PROPERTY=COLUMN"), ("P.name=nope", "there is no column `nope`")],
    "--mapping": [("none.toml", "there is no file `none.toml`"), ("P.csv", "the mapping of `P.csv` does not fit")],
    "--ignore": [("nope", "no file has a column of this name"), ("nam", "did you mean `name`")],
    "--input-format": [("xml", "'csv', 'tsv'"), ("", "'csv', 'tsv'")],
    "--delimiter": [(value, ONE_SIGN) for value in ("", "ab", "\n", '"')],
    "--encoding": [("klingon", "it must be the name of one"), ("", "it must be the name of one")],
    "--true": [("false", "it is also a text of false")],
    "--false": [("true", "it is also a text of false")],
    "--decimal": [*((value, SIGN) for value in ("", "xx", "1", "-")), ("x", "`decimal` can't be `x`")],
    "--thousands": [
        *((value, SIGN) for value in ("xx", "1", "-")),
        ("x", "`thousands` can't be `x`"),
        (".", "decimal"),
    ],
    "--date-format": [(value, FORMAT) for value in ("", "%Q", "plain")],
    "--datetime-format": [(value, FORMAT) for value in ("", "%Q", "plain")],
    "--branch": [(value, f"no branch `{value}`") for value in ("", "nope", "a b", "-x")],
    "--from": [("nope", "nope"), ("", "can't be")],
    "--on-error": [("", "--on-error takes `fail` or a directory"), ("P.csv", "it is a file; name a directory")],
    "--max-errors": [(value, "'--max-errors'") for value in ("-1", "x", "1.5")] + [("3", "needs --on-error DIR")],
    "--on-duplicate": [("maybe", "'error', 'first', 'last'")],
    "--engine": [("flink", "'auto', 'local', 'spark'")],
    "--as": [(value, ACTOR) for value in ("", "omnigraph:x", "a\nb")],
    "--message": [("x" * 20_000, "a commit stores at most 16384")],
    "--idempotency-key": [("x" * 2_000, "a commit stores at most 1024")],
    "--timeout": [(value, SECONDS) for value in ("-1", "0", "x", "nan")],
    "--memory": [(value, SIZE) for value in ("-1", "0", "x", "1ZB")],
    "--key": [("P", "TYPE=COLUMN, not `P`"), ("P=nope", "no such column"), ("Q=name", "no file has this type")],
    "--output": [(".", "-o takes the name of a file"), ("none/s.pg", "to write `s.pg` in: make it first")],
    "--schema": [("none.pg", "give either --schema FILE, or --from and files")],
}


def list_options(command: str) -> list[str]:
    """The options of a command that take a value."""
    found: click.Command = cli
    for word in command.split():
        assert isinstance(found, click.Group)
        following = found.get_command(click.Context(found), word)
        assert following is not None
        found = following
    options = [each for each in found.params if isinstance(each, click.Option) and not each.is_flag]
    return [max(option.opts, key=len) for option in options]


CASES = [
    (command, option, value, message)
    for command in CALLS
    for option in list_options(command)
    for value, message in BAD.get(option, [])
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a graph and a file of two nodes."""
    made = tmp_path_factory.mktemp("options")
    (made / "P.csv").write_text("name,n\nada,1\nbo,2\n", encoding="utf-8")
    (made / "empty").mkdir()
    og.create_graph(str(made / "g.omni"), SCHEMA, runtime=runtime())
    return made


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The same as the working directory, which is afterwards as it was before."""
    monkeypatch.chdir(place)
    before = sorted(path for path in place.rglob("*"))
    yield place
    assert sorted(path for path in place.rglob("*")) == before


@pytest.mark.parametrize("command", CALLS)
def test_every_option_has_bad_values(command: str) -> None:
    assert set(list_options(command)) - FREE <= BAD.keys()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command, option, value, message", CASES)
def test_a_bad_value_is_refused_and_changes_nothing(
    command: str, option: str, value: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = CALLS[command]
    # A mode is given once.
    words = words[:-2] if option == "--mode" else words

    code = main([*words, option, value])

    said = capsys.readouterr()
    assert code in {1, 2, 4, 5}
    assert message in said.err
    assert "bug" not in said.err
    assert said.out == ""
    assert len(og.open_graph("g.omni", runtime=runtime()).commits()) == 1


@pytest.mark.usefixtures("here")
def test_a_bad_master_is_refused_and_changes_nothing() -> None:
    # In a process of its own: this one may have a session, and PySpark leaves a file open when Spark does not start.
    words = [*CALLS["load"], "--master", "nonsense"]

    done = subprocess.run([sys.executable, "-m", "omnigraph", *words], capture_output=True, text=True, check=False)

    assert done.returncode == 5
    assert "can't start Spark on `nonsense`" in done.stderr
    assert "bug" not in done.stderr
    assert len(og.open_graph("g.omni", runtime=runtime()).commits()) == 1
