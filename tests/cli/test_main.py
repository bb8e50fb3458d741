"""How a run of the command line ends: help, versions, errors, exit codes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

import omnigraph
from omnigraph.cli import main as main_module
from omnigraph.cli.exit_codes import EXIT_CODES
from omnigraph.cli.lazy_groups import LazyGroup
from omnigraph.cli.main import cli, main
from omnigraph.errors import Kind, OmnigraphError

OMNIGRAPH = [sys.executable, "-m", "omnigraph"]
# A job in the background ignores interrupts, and so do its children; this one listens wherever the tests run.
LISTENING = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"


def test_omnigraph_alone_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([])

    out = capsys.readouterr().out
    assert code == 0
    assert out.startswith("Usage: omnigraph [OPTIONS]")
    assert "lint" in out


def test_a_group_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["schema"])

    assert code == 0
    assert capsys.readouterr().out.startswith("Usage: omnigraph schema [OPTIONS]")


def test_the_release_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--version"])

    assert code == 0
    assert capsys.readouterr().out == f"omnigraph {omnigraph.__version__}\n"


@pytest.mark.parametrize(
    "command, code, message",
    [
        ("omnigraph version >&-", 5, "error: can't write the output: stdout is closed\n"),
        ("omnigraph lint --query - <&-", 5, "error: can't read or write `<stdin>`: stdin is closed\n"),
        ("omnigraph lint --query gone.gq 2>&-", 4, ""),
        ("omnigraph lint --query gone.gq >&- 2>&-", 5, ""),
    ],
)
def test_a_closed_stream_is_an_error_and_no_bug(command: str, code: int, message: str) -> None:
    line = command.replace("omnigraph", f"{sys.executable} -m omnigraph", 1)

    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (code, message)


@pytest.mark.parametrize(
    "arguments, suggestion",
    [(["lnt"], "did you mean `lint`?"), (["schema", "plam"], "did you mean `plan`?"), (["xyz"], "the commands are ")],
)
def test_an_unknown_command_is_a_usage_error_with_a_way_out(
    arguments: list[str], suggestion: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(arguments)

    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert suggestion in captured.err


@pytest.mark.parametrize(
    "arguments", [["lint"], ["lint", "--quary", "x.gq"], ["fmt"], ["schema", "plan"], ["lint", "--query"]]
)
def test_a_wrong_call_exits_2_and_names_the_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(arguments)

    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert "--help" in captured.err


def test_a_wrong_call_with_json_is_one_document_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["lint", "--json"])

    captured = capsys.readouterr()
    document = json.loads(captured.err)
    assert code == 2
    assert captured.out == ""
    assert document["error"]["code"] == "usage"
    assert document["error"]["kind"] == "usage"


def test_a_word_behind_a_double_dash_is_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    main(["lint", "--", "--json"])

    assert capsys.readouterr().err.startswith("error: `--json` ends neither in")


def test_every_summary_in_a_group_is_the_first_line_of_the_commands_help() -> None:
    groups = [cli]
    while groups:
        group = groups.pop()
        context = click.Context(group)
        for name, entry in group.lazy.items():
            command = group.get_command(context, name)
            assert command is not None
            assert (command.help or "").partition("\n")[0] == entry.summary
            if isinstance(command, LazyGroup):
                groups.append(command)


def test_every_command_has_json() -> None:
    context = click.Context(cli)
    commands = [cli.get_command(context, name) for name in cli.list_commands(context)]
    leaves = [command for command in commands if command is not None and not isinstance(command, click.Group)]

    assert [one.name for one in leaves if not any("--json" in option.opts for option in one.params)] == []


# --- exit codes --------------------------------------------------------------------------------------------


class RaisedError(OmnigraphError):
    code = "raised"

    def __init__(self, fact: int) -> None:
        super().__init__(fact)
        self.fact = fact

    def __str__(self) -> str:
        return f"the fact is {self.fact}"


def fails_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command fails with `error` from now on."""

    def run(*_: object, **__: object) -> int:
        raise error

    monkeypatch.setattr(main_module.cli, "main", run)


def test_every_kind_has_an_exit_code() -> None:
    assert set(EXIT_CODES) == set(Kind)


@pytest.mark.parametrize(
    "kind, code",
    [
        (Kind.INVALID, 1),
        (Kind.USAGE, 2),
        (Kind.CONFLICT, 3),
        (Kind.NOT_FOUND, 4),
        (Kind.UNAVAILABLE, 5),
        (Kind.CORRUPT, 6),
        (Kind.INTERNAL, 1),
    ],
)
def test_the_kind_of_an_error_is_the_exit_code(
    kind: Kind, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(RaisedError, "kind", kind)
    fails_with(RaisedError(7), monkeypatch)

    assert main(["version", "--json"]) == code
    error = json.loads(capsys.readouterr().err)["error"]
    assert error == {"code": "raised", "kind": kind.value, "message": "the fact is 7", "fact": 7}


def test_a_bug_is_told_shortly_and_says_how_to_report_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fails_with(KeyError("x"), monkeypatch)

    code = main(["version"])

    err = capsys.readouterr().err
    assert code == 1
    assert "this is a bug in omnigraph: KeyError: 'x'" in err
    assert "OMNIGRAPH_DEBUG=1" in err
    assert "Traceback" not in err


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OMNIGRAPH_DEBUG", "1")
    fails_with(KeyError("x"), monkeypatch)

    code = main(["version"])

    assert code == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_exits_130_quietly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fails_with(KeyboardInterrupt(), monkeypatch)

    assert main(["version"]) == 130
    assert capsys.readouterr() == ("", "")


def test_ctrl_c_stops_a_command_that_reads_from_a_terminal() -> None:
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"{LISTENING} from omnigraph.cli.main import main; sys.exit(main(sys.argv[1:]))",
            "fmt",
            "--language",
            "query",
            "-",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMNIGRAPH_DEBUG": ""},
    ) as process:
        assert process.stdin is not None
        # More than a pipe holds: when this returns, the command is reading.
        process.stdin.write(b"// a comment\n" * 20_000)
        process.stdin.flush()
        for _ in range(10):  # one that comes at a bad moment is lost; the next must not come while the command ends
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
                break
        code = process.returncode
        assert process.stderr is not None
        told = process.stderr.read()

    assert code == 130
    assert b"Traceback" not in told


def test_a_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    many = tmp_path / "many.gq"
    many.write_text("query q() { match { $p: } }\n" * 3000, encoding="utf-8")
    read, write = os.pipe()
    os.close(read)

    result = subprocess.run([*OMNIGRAPH, "lint", str(many)], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)

    assert result.returncode == 141
    assert result.stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_an_error_and_not_a_silent_loss() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        result = subprocess.run([*OMNIGRAPH, "version"], stdout=full, stderr=subprocess.PIPE, check=False, text=True)

    assert result.returncode == 5
    assert result.stderr == "error: can't write the output: No space left on device\n"


def test_a_file_name_can_not_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    main(["lint", "--query", "\x1b[31mred.gq"])

    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert "<U+001B>[31mred.gq" in err


# --- version ---------------------------------------------------------------------------------------------


def test_version_tells_what_it_works_with(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["version"])

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert lines[0] == f"omnigraph {omnigraph.__version__}"
    assert lines[1] == "internal-schema 4"
    assert [line.split()[0] for line in lines[2:]] == ["lance", "spark", "python"]


def test_version_as_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["version", "--json"])

    document = json.loads(capsys.readouterr().out)
    assert code == 0
    assert document["omnigraph"] == omnigraph.__version__
    assert document["internal_schema_version"] == 4
    assert set(document) == {"omnigraph", "internal_schema_version", "lance", "spark", "python"}


def test_every_word_of_other_tools_leads_to_a_command_that_exists() -> None:
    for command in cli.synonyms.values():
        group, _, name = command.partition(" ")
        found = cli.get_command(click.Context(cli), group)

        assert found is not None, command
        if name:
            assert isinstance(found, click.Group), command
            assert name in found.list_commands(click.Context(found)), command
    assert not set(cli.synonyms) & set(cli.lazy)


def test_a_word_of_another_tool_is_answered_with_our_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge", "review"]) == 2

    assert "there is no command `omnigraph merge`; did you mean `branch merge`?" in capsys.readouterr().err


def test_the_choices_of_a_missing_option_are_told_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["load", "people.omni"]) == 2

    assert "Missing option '--mode'. Choose from: append, merge, overwrite\n" in capsys.readouterr().err


def test_a_process_ends_without_a_look_for_garbage() -> None:
    code = (
        "import atexit, gc, sys\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 0))\n"
        "from omnigraph.cli.main import main\n"
        "sys.argv[1:] = ['--version']\n"
        "main()\n"
    )

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.splitlines()[-1] == "True"
