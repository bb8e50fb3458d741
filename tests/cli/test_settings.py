"""Personal settings of commands: `[client]`, `config`, `login`, and what a hostile file can't do."""

import json
import socket
import stat
import threading
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.main import main
from omnigraph.config.client import VARIABLES
from server_process import Process, laid_out, running
from serving import TOKENS

SCHEMA = "node P { name: String @key }"
INSERT = 'query q() { insert P { name: "x" } }'
ALL = "query q() { match { $p: P } return { $p.name as name } }"
SECRET = "og_" + "s3cr3t" * 8


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    home = tmp_path_factory.mktemp("served")
    with running(laid_out(home), home) as found:
        yield found


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory with a project, in which commands are run."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "OMNIGRAPH_STORE", "OMNIGRAPH_TOKEN", *VARIABLES.values()):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


@pytest.fixture
def graph(home: Path) -> og.Graph:
    graph = og.create_graph(str(home / "people.omni"), SCHEMA)
    graph.branches.create("dev")
    return graph


def choose(home: Path, text: str) -> Path:
    path = home / "omnigraph.toml"
    path.write_text(f"[client]\n{text}\n", encoding="utf-8")
    return path


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    return main(arguments), capsys.readouterr().err


# --- what counts --------------------------------------------------------------------------------------------------


def test_the_file_chooses_graph_branch_and_actor(
    home: Path, graph: og.Graph, capsys: pytest.CaptureFixture[str]
) -> None:
    choose(home, "graph = 'people.omni'\nbranch = 'dev'\nactor = 'ada'")

    printed(capsys, "mutate", "-e", INSERT)

    assert next((one.actor, one.operation) for one in graph.commits(branch="dev")) == ("ada", "mutate")
    assert "x" in printed(capsys, "query", "-e", ALL)
    assert "x" not in printed(capsys, "query", "-e", ALL, "--branch", "main")


def test_an_option_counts_before_a_variable_and_this_before_the_file(
    home: Path, graph: og.Graph, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(home, "graph = 'people.omni'\nbranch = 'nope'\nactor = 'ada'")
    monkeypatch.setenv("OMNIGRAPH_BRANCH", "dev")
    monkeypatch.setenv("OMNIGRAPH_ACTOR", "bob")

    printed(capsys, "mutate", "-e", INSERT)
    printed(capsys, "mutate", "-e", INSERT.replace('"x"', '"y"'), "--branch", "main", "--as", "cyd")

    assert graph.commits(branch="dev")[0].actor == "bob"
    assert graph.commits()[0].actor == "cyd"


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize("words", [["branch", "create", "new"], ["tag", "create", "v1"]])
def test_every_command_that_signs_takes_the_actor(
    words: list[str], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choose(home, "graph = 'people.omni'\nactor = 'ada'")

    document = json.loads(printed(capsys, *words, "--json"))

    assert document.get("created_by", document.get("actor")) == "ada"


def test_a_new_graph_is_signed_too(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choose(home, "actor = 'ada'")
    Path("s.pg").write_text(SCHEMA)

    printed(capsys, "init", "new.omni", "--schema", "s.pg")

    assert og.open_graph("new.omni").commits()[0].actor == "ada"


def test_a_graph_of_the_command_line_counts_before_the_settings(
    home: Path, graph: og.Graph, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(home, "server = 'http://127.0.0.1:1'\ngraph = 'g'")

    for given in (["people.omni"], ["--store", "people.omni"]):
        monkeypatch.chdir(home)
        printed(capsys, "query", *given, "-e", ALL)
        printed(capsys, "show", *given)
        printed(capsys, "mutate", *given, "-e", INSERT, "--dry-run")
    monkeypatch.setenv("OMNIGRAPH_STORE", graph.uri)
    printed(capsys, "query", "-e", ALL)
    printed(capsys, "diff", "main...dev")


@pytest.mark.usefixtures("graph")
def test_a_missing_branch_of_the_settings_names_them(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = choose(home, "graph = 'people.omni'\nbranch = 'nope'")

    code, message = refused(capsys, "query", "-e", ALL)

    assert code == 4
    assert str(path) in message
    assert "--branch" in message


def test_commands_that_need_no_setting_pass_over_a_wrong_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choose(home, "nonsense = 1")

    printed(capsys, "version")
    printed(capsys, "query", "--help")
    code, message = refused(capsys, "show")

    assert code == 2
    assert "client.nonsense" in message


# --- config -------------------------------------------------------------------------------------------------------


def test_config_shows_each_value_and_its_source(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = choose(home, "graph = 'people.omni'\nactor = 'a\u202eda'")
    monkeypatch.setenv("OMNIGRAPH_BRANCH", "dev")
    monkeypatch.setenv("OMNIGRAPH_TOKEN", SECRET)

    text = printed(capsys, "config")
    document = json.loads(printed(capsys, "config", "--json"))

    assert document == {
        "settings": {
            "graph": {"value": str(home / "people.omni"), "source": str(path)},
            "branch": {"value": "dev", "source": "OMNIGRAPH_BRANCH"},
            "actor": {"value": "a\u202eda", "source": str(path)},
            "server": {"value": None, "source": "default"},
        },
        "token_source": "OMNIGRAPH_TOKEN",
        "file": str(path),
        "logins": [],
    }
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()}
    assert rows["branch"] == ["dev", "OMNIGRAPH_BRANCH"]
    assert rows["server"] == ["-", "-"]
    assert "\u202e" not in text
    assert SECRET not in text


# --- login --------------------------------------------------------------------------------------------------------


def log_in(monkeypatch: pytest.MonkeyPatch, url: str, token: str = TOKENS["admin"]) -> int:
    monkeypatch.setattr("sys.stdin", StringIO(f"{token}\n"))
    return main(["login", url])


def test_a_server_of_a_file_is_used_after_a_login_only(
    home: Path, process: Process, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://127.0.0.1:{process.port}"
    choose(home, f"server = '{url}/'\ngraph = 'people'\nactor = 'ada'")
    monkeypatch.setenv("OMNIGRAPH_TOKEN", TOKENS["admin"])

    code, message = refused(capsys, "branch", "list")
    assert (code, f"omnigraph login {url}" in message) == (2, True)

    assert log_in(monkeypatch, url) == 0
    assert capsys.readouterr().out == f"logged in to {url}; its graphs: people\n"
    assert "main" in printed(capsys, "branch", "list")
    # The owner of the token signs, not the actor of the file.
    document = json.loads(printed(capsys, "branch", "create", "new", "--json"))
    assert document["created_by"] == "admin"
    assert f"logged in to {url}" in printed(capsys, "config")

    printed(capsys, "logout", url)
    assert refused(capsys, "branch", "list")[0] == 2


def test_a_login_serves_a_server_that_the_command_line_names(
    home: Path, process: Process, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://127.0.0.1:{process.port}"
    assert log_in(monkeypatch, url) == 0
    capsys.readouterr()

    assert "main" in printed(capsys, "branch", "list", "--server", url, "--graph", "people")
    monkeypatch.setenv("OMNIGRAPH_SERVER", url)
    monkeypatch.setenv("OMNIGRAPH_GRAPH", "people")
    assert "main" in printed(capsys, "branch", "list")
    assert stat.S_IMODE((home / ".config/omnigraph/logins.json").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "token, said",
    [("", "empty"), ("two words", "this is no token"), ("x" * 5_000, "this is no token"), (SECRET, "token")],
)
def test_a_token_that_the_server_does_not_take_is_not_stored(
    token: str,
    said: str,
    home: Path,
    process: Process,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert log_in(monkeypatch, f"http://127.0.0.1:{process.port}", token) in {1, 2}

    message = capsys.readouterr().err
    assert said in message
    assert SECRET not in message
    assert not (home / ".config").exists()


def test_nothing_is_sent_unencrypted_to_another_machine(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert log_in(monkeypatch, "http://far.example") == 2
    assert "use https" in capsys.readouterr().err
    assert not (home / ".config").exists()


# --- a hostile file -----------------------------------------------------------------------------------------------


@pytest.fixture
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """A server that keeps every byte that it is sent, and its port."""
    kept: list[bytes] = []
    server = socket.create_server(("127.0.0.1", 0))

    def work() -> None:
        while True:
            try:
                plug, _ = server.accept()
            except OSError:
                return
            with plug:
                kept.append(plug.recv(65_536))
                plug.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")

    thread = threading.Thread(target=work)
    thread.start()
    yield server.getsockname()[1], kept
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


COMMANDS = (
    ["branch", "list"],
    ["query", "-e", ALL],
    ["mutate", "-e", INSERT],
    ["load", "--mode", "append", "--data", "more.jsonl"],
    ["shell"],
    ["show"],
    ["config"],
)


@pytest.mark.parametrize(
    "server",
    [
        "http://127.0.0.1:{port}",
        "HTTP://LOCALHOST:{port}/",
        "http://127.0.0.1:{port}/graphs.example",
        "http://graphs.example@127.0.0.1:{port}",
        "http://graphs.example:x@127.0.0.1:{port}/",
        "http://127.0.0.1:{port}?https://graphs.example",
        "http://127.0.0.1:{port}#graphs.example",
        "http://127.0.0.1:{port}\\\\@graphs.example",
        "http://graphs.example\\\\@127.0.0.1:{port}",
        "http://127.0.0.1:{port}\\t",
        "\\nhttp://127.0.0.1:{port}",
        "http://0x7f000001:{port}",
        "http://127.0.0.1:{port}/https://graphs.example",
        "http://127.0.0.1:{port}/../..",
    ],
)
def test_no_byte_of_a_token_goes_to_a_server_that_only_a_file_names(
    server: str,
    home: Path,
    listener: tuple[int, list[bytes]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port, kept = listener
    Path("more.jsonl").write_text('{"type":"P","data":{"name":"private"}}\n')
    config = home / ".config" / "omnigraph"
    config.mkdir(parents=True)
    (config / "logins.json").touch(mode=0o600)
    (config / "logins.json").write_text(json.dumps({"https://graphs.example": SECRET, "http://localhost": SECRET}))
    monkeypatch.setenv("OMNIGRAPH_TOKEN", SECRET)
    monkeypatch.setattr("sys.stdin", StringIO(".schema\n"))
    path = Path("omnigraph.toml")
    path.write_text(f'[client]\ngraph = "g"\nserver = "{server.format(port=port)}"\n')

    codes = [main(command) for command in COMMANDS]

    assert codes[:-1] == [2] * (len(COMMANDS) - 1)
    assert kept == []
    told = capsys.readouterr()
    assert SECRET not in told.out + told.err


def test_a_variable_is_the_users_word_and_sends_the_token(
    listener: tuple[int, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener would hear it: what the tests above say is not because it is deaf."""
    port, kept = listener
    monkeypatch.setenv("OMNIGRAPH_TOKEN", SECRET)
    monkeypatch.setenv("OMNIGRAPH_SERVER", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OMNIGRAPH_GRAPH", "g")

    main(["branch", "list"])

    assert SECRET.encode() in b"".join(kept)
