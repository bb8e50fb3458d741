"""The shell: from a pipe, and at a pseudo-terminal."""

import json
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import omnigraph as og
from mutating import new_graph, people, run
from omnigraph.cli.main import main
from omnigraph.cli.shell_statements import is_complete, split_statements
from terminals import Terminal

NAMES = "match { $p: Person } return { $p.name } order { $p.name }"
# 2 * 10^11 triples, whose condition no index and no order decides: far more than ten seconds of work.
SLOW = (
    "match { $a: Person  $b: Person  $c: Person  $a.score * $b.score + $c.score * $a.score > $b.score }"
    " return { count($a) as n }"
)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = new_graph(tmp_path_factory.mktemp("shell"))
    people(graph, "ada", "bob")
    graph.branches.create("review/x")
    run(graph, 'insert Knows { from: "ada", to: "bob" }')
    return graph


def pipe(graph: og.Graph, text: str, *options: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "omnigraph", "shell", graph.uri, *options],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "state"


def open_shell(graph: og.Graph, home: Path, *options: str) -> Terminal:
    return Terminal(["shell", graph.uri, *options], env={"XDG_STATE_HOME": str(home)})


# --- statements ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, statements, rest",
    [
        ("a; b;", ("a", "b"), ""),
        ('a ";" ; b', ('a ";"',), " b"),
        ("a // not; here\n;", ("a // not; here",), ""),
        ("a /* ; */ ; ;;", ("a /* ; */",), ""),
        ("", (), ""),
        ('"never closed ; ;', (), '"never closed ; ;'),
    ],
)
def test_a_statement_ends_with_its_sign(text: str, statements: tuple[str, ...], rest: str) -> None:
    parts = split_statements(text)

    assert (parts.statements, parts.rest) == (statements, rest)


@pytest.mark.parametrize(
    "text, expected",
    [
        (".schema", True),
        (NAMES, True),
        ('insert Person { name: "x" }', True),
        ("match { $p: Person", False),
        ("match { $p: Person }", False),
        ("match {\n;", True),
        ("mach { $p: Person } return { $p.name }", True),
        ("", True),
    ],
)
def test_enter_runs_a_text_in_which_nothing_is_missing(text: str, expected: bool) -> None:
    assert is_complete(text) is expected


# --- from a pipe -----------------------------------------------------------------------------------------


def test_a_pipe_is_read_statement_by_statement(graph: og.Graph) -> None:
    code, out, err = pipe(graph, f".format csv\n{NAMES};\nmatch {{ $p: Person }}\nreturn {{ count($p) as n }}; .")

    assert (code, out) == (2, '"p.name"\n"ada"\n"bob"\n"n"\n2\n')
    assert "does not end with `;`" in err


def test_the_first_error_ends_it_with_its_exit_code(graph: og.Graph) -> None:
    code, out, err = pipe(graph, f".format csv\n.use nowhere\n{NAMES};")
    assert (code, out) == (4, "")
    assert "nowhere" in err

    code, out, _ = pipe(graph, f"{NAMES};match {{ $p: Persn }} return {{ $p.name }};{NAMES};")
    assert (code, out.count("ada")) == (1, 1)


def test_commands_of_a_pipe(graph: og.Graph, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    code, out, err = pipe(
        graph,
        f".schema Knows\n.branches\n.use review/x\n.branches\n.explain {NAMES}\n{NAMES};\n"
        f".export {path}\n.timer on\n{NAMES};\n.quit\nx",
    )

    assert (code, err) == (0, err)
    assert "edge Knows: Person -> Person" in out
    assert "*  main" in out
    assert "*  review/x" in out
    assert "scan $p: Person" in out
    assert path.read_text(encoding="utf-8") == '"p.name"\n"ada"\n"bob"\n'
    assert " s\n" in err


def test_the_past_is_read_only(graph: og.Graph) -> None:
    later = graph.commits()[0].at

    code, out, err = pipe(graph, f'.at {later}\n.format csv\n{NAMES};insert Person {{ name: "zoe" }};')

    assert (code, out) == (2, '"p.name"\n"ada"\n"bob"\n')
    assert "`.at now` leaves it" in err


def test_a_tab_ends_the_name_of_a_command(graph: og.Graph) -> None:
    assert pipe(graph, ".timer\ton\n") == (0, "", "timer on\n")


def test_a_mutation_needs_no_ceremony(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)

    code, out, _ = pipe(graph, 'insert Person { name: "zoe" };', "--as", "eve")

    assert (code, out.splitlines()[0]) == (0, "1 node, 0 edges")
    assert graph.commits()[0].actor == "eve"


@pytest.mark.parametrize(
    "command", [".nonsense", ".use", ".at tomorrow", ".format xml", ".timer maybe", ".export x.zip", ".schema Nothing"]
)
def test_a_bad_command_says_what_it_takes(graph: og.Graph, command: str) -> None:
    code, out, err = pipe(graph, f"{command}\n")

    assert (code, out) == (2, "")
    assert command.split(maxsplit=1)[0] in err or "Nothing" in err or "x.zip" in err


def test_a_branch_that_does_not_exist(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shell", graph.uri, "--branch", "nowhere"]) == 4
    assert "nowhere" in capsys.readouterr().err


# --- at a terminal ---------------------------------------------------------------------------------------


def test_enter_runs_and_the_prompt_shows_the_place(graph: og.Graph, home: Path) -> None:
    with open_shell(graph, home) as terminal:
        terminal.wait_for("g main>")
        terminal.press(f"{NAMES}\r")
        assert "ada" in terminal.wait_for("2 rows")
        terminal.press("match { $p: Person }\r")
        terminal.press("return { count($p) as number }\r")
        terminal.wait_for("1 row")
        terminal.press(".use review/x\r")
        terminal.wait_for("g review/x>")
        terminal.press(".quit\r")

        assert terminal.wait_for_end() == 0

    history = home / "omnigraph" / "shell_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert NAMES in history.read_text(encoding="utf-8")


def test_tab_completes_what_the_core_proposes(graph: og.Graph, home: Path) -> None:
    with open_shell(graph, home) as terminal:
        terminal.wait_for("main>")
        terminal.press("match { $p: Pers\t")
        terminal.wait_for("on")
        terminal.press(" } return { $p.na\t")
        terminal.wait_for("me")
        terminal.press(" } order { $p.name }\r")
        terminal.wait_for("2 rows")
        terminal.wait_for("main>")
        terminal.press(".use rev\t")
        terminal.wait_for("iew/x")
        terminal.press("\r")
        terminal.wait_for("g review/x>")
        terminal.press("\x04")

        assert terminal.wait_for_end() == 0


def test_a_paste_of_many_lines_is_one_text(graph: og.Graph, home: Path) -> None:
    lines = [f"// line {number}" for number in range(198)]
    pasted = "\n".join(["match { $p: Person }", *lines, "return { count($p) as pasted }"])
    with open_shell(graph, home) as terminal:
        terminal.wait_for("main>")
        terminal.press(f"\x1b[200~{pasted}\x1b[201~")
        terminal.press("\r")
        terminal.wait_for("1 row")
        terminal.wait_for(">")
        terminal.press("\x04")

        assert terminal.wait_for_end() == 0


def test_errors_leave_the_session(graph: og.Graph, home: Path) -> None:
    with open_shell(graph, home) as terminal:
        terminal.wait_for("main>")
        terminal.press("match { $p: Persn } return { $p.name }\r")
        terminal.wait_for("did you mean `Person`?")
        terminal.press(".at nonsense\r")
        terminal.wait_for(".at takes a time")
        terminal.press("match {;\r")
        terminal.wait_for("error")
        terminal.press(f"{NAMES}\r")
        terminal.wait_for("2 rows")
        terminal.press("half a quer\x03")
        terminal.press(f"{NAMES};\r")
        terminal.wait_for("2 rows")
        terminal.wait_for(">")
        terminal.press("\x04")

        assert terminal.wait_for_end() == 0


def test_a_history_that_cannot_be_written_is_left_out(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with open_shell(graph, tmp_path / "file") as terminal:
        terminal.wait_for("no history is kept")
        terminal.wait_for("main>")
        terminal.press(NAMES + "\r")
        terminal.wait_for("2 rows")
        terminal.wait_for("main>")
        terminal.press("\x04")

        assert terminal.wait_for_end() == 0


@pytest.mark.parametrize("format_, shown", [("csv", "<U+001B>[5m<U+009B>5m"), ("jsonl", r"\u001b[5m\u009b5m")])
def test_a_terminal_obeys_no_value(tmp_path: Path, format_: str, shown: str) -> None:
    graph = new_graph(tmp_path)
    people(graph, r"\u001b[5m\u009b5m")
    with open_shell(graph, tmp_path / "state") as terminal:
        for at_format in (format_, "json"):
            terminal.wait_for("main>")
            terminal.press(f".format {at_format}\r")
            terminal.wait_for("main>")
            terminal.press(NAMES + "\r")
            terminal.wait_for(shown if at_format == format_ else r"\u001b[5m\u009b5m")
        assert "\x1b[5m" not in terminal.raw
        assert "\x9b" not in terminal.raw


def test_a_resize_while_typing(graph: og.Graph, home: Path) -> None:
    with open_shell(graph, home) as terminal:
        terminal.wait_for("main>")
        terminal.press("match { $p: Person } ")
        terminal.resize(10, 30)
        terminal.press("return { count($p) as n }")
        terminal.resize(50, 160)
        terminal.press("\r")
        terminal.wait_for("1 row")
        terminal.wait_for(">")
        terminal.press("\x04")

        assert terminal.wait_for_end() == 0


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = new_graph(tmp_path_factory.mktemp("crowd"))
    rows = ({"name": f"p{number:05}", "score": float(number)} for number in range(6_000))
    graph.load([{"type": "Person", "data": row} for row in rows], mode="append")
    return graph


def check_cancel(terminal: Terminal, keys: str = f"{SLOW}\r") -> None:
    """The query would take hours."""
    terminal.wait_for("main>")
    terminal.press(keys)
    time.sleep(1.5)
    terminal.press("\x03")
    terminal.wait_for("cancelled")
    terminal.wait_for("main>")
    terminal.press("match { $p: Person } return { count($p) as n }\r")
    terminal.wait_for("6000")
    terminal.wait_for("main>")
    terminal.press("\x04")
    assert terminal.wait_for_end() == 0


def test_ctrl_c_cancels_a_query_and_the_session_goes_on(crowd: og.Graph, home: Path) -> None:
    with open_shell(crowd, home) as terminal:
        check_cancel(terminal)


def test_a_query_of_several_lines_is_cancelled_too(crowd: og.Graph, home: Path) -> None:
    # Alt+Enter, which a terminal sends as Escape and Enter, adds a line where Enter alone would run the text; the last
    # line would then be a statement of its own, and an error.
    keys = f"{SLOW}\x1b\rlimit 2\r"
    with open_shell(crowd, home) as terminal:
        check_cancel(terminal, keys)
        assert "error" not in terminal.raw


def test_an_edited_query_is_cancelled_too(crowd: og.Graph, home: Path, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    edited = tmp_path / "edited"
    editor.write_text(f'#!/bin/sh\ncat > "$1" <<"END"\n{SLOW}\nEND\ntouch {edited}\n', encoding="utf-8")
    editor.chmod(0o700)
    env = {"XDG_STATE_HOME": str(home), "EDITOR": str(editor), "VISUAL": str(editor)}
    with Terminal(["shell", crowd.uri], env=env) as terminal:
        terminal.wait_for("main>")
        terminal.press(".edit\r")
        terminal.wait_for("count($a) as n")
        assert edited.exists()
        terminal.press("\r")
        time.sleep(1.5)
        terminal.press("\x03")
        terminal.wait_for("cancelled")
        terminal.wait_for("main>")
        terminal.press(f"{NAMES} limit 1\r")
        terminal.wait_for("p00000")
        terminal.wait_for("main>")
        terminal.press("\x04")
        assert terminal.wait_for_end() == 0


def test_a_served_graph_has_the_same_shell(crowd: og.Graph, home: Path, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    command = [sys.executable, "-m", "omnigraph", "serve", f"g={crowd.uri}", "--unauthenticated", "--workers", "1"]
    with log.open("w", encoding="utf-8") as errors:
        server = subprocess.Popen([*command, "--bind", "127.0.0.1:0"], stdout=errors, stderr=errors)
    try:
        while '"serving"' not in log.read_text(encoding="utf-8"):
            assert server.poll() is None, log.read_text(encoding="utf-8")
            time.sleep(0.05)
        lines = [line for line in log.read_text(encoding="utf-8").splitlines() if '"serving"' in line]
        address = json.loads(lines[0])["address"]
        with Terminal(["shell", "--server", address, "--graph", "g"], env={"XDG_STATE_HOME": str(home)}) as terminal:
            check_cancel(terminal)
    finally:
        server.terminate()
        server.wait()


def test_its_start_imports_little_more_than_a_query() -> None:
    def list_packages(modules: str) -> set[str]:
        program = f"import sys, {modules}; print(*{{name.partition('.')[0] for name in sys.modules}})"
        done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        return set(done.stdout.split()) - sys.stdlib_module_names

    of_query = list_packages("omnigraph.cli.query, omnigraph.graph.graph")
    of_shell = list_packages("omnigraph.cli.shell, omnigraph.cli.shell_prompt, omnigraph.graph.graph")

    assert of_shell - of_query <= {"prompt_toolkit", "wcwidth"}
