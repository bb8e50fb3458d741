"""What only `--server` does: which graph, whose token, what is refused. What it answers is in `door_calls`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.cli.main import main
from server_process import Process, laid_out, running
from serving import ALL, TOKENS


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    home = tmp_path_factory.mktemp("served")
    with running(laid_out(home), home) as found:
        yield found


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("here")
    laid_out(home)
    (home / "more.jsonl").write_text('{"type":"Person","data":{"name":"Hal"}}\n', encoding="utf-8")
    (home / "bad.jsonl").write_text('{"type":"Person","data":{"name":1}}\n', encoding="utf-8")
    return home


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    monkeypatch.setenv("OMNIGRAPH_TOKEN", TOKENS["admin"])
    monkeypatch.delenv("OMNIGRAPH_STORE", raising=False)
    monkeypatch.chdir(here)


@pytest.mark.usefixtures("token")
@pytest.mark.parametrize(
    "arguments, said",
    [
        (["query", "people.omni", "x", "-e", ALL, "--server", "http://localhost:1"], "named twice"),
        (["branch", "list", "people.omni", "--server", "http://localhost:1"], "named twice"),
        (["branch", "list", "--graph", "people"], "--server URL"),
        (["branch", "list", "--server", "http://far.example", "--graph", "g"], "use https"),
        (["branch", "create", "x", "--as", "bob", "--server", "http://localhost:1", "--graph", "g"], "token"),
        (["load", "--mode", "append", "--node", "A=b.csv", "--server", "http://localhost:1", "--graph", "g"], "JSONL"),
        (["load", "--mode", "overwrite", "--data", "more.jsonl", "--server", "http://localhost:1"], "--yes"),
        (["cleanup", "--keep", "1", "--confirm", "--server", "http://localhost:1"], "--yes"),
        (["tag", "delete", "v1", "--server", "http://localhost:1"], "--yes"),
        (["repair", "--confirm", "--server", "http://localhost:1"], "cannot be confirmed over a server"),
        (["optimize", "--auto", "--server", "http://localhost:1"], "on its own"),
        (["optimize", "--engine", "spark", "--server", "http://localhost:1"], "on its own"),
        (["export", "--format", "parquet", "--output", "x", "--server", "http://localhost:1", "--graph", "g"], "JSONL"),
        *(
            ([*command, "--server", "http://localhost:1"], "No such option")
            for command in (
                ["init", "x", "--schema", "s.pg"],
                ["clone", "a", "b"],
                ["fmt", "a.gq"],
                ["serve", "x"],
                ["spark", "sql", "select 1"],
                ["token", "new", "ada"],
                ["version"],
            )
        ),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(arguments)

    assert code == 2
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("token")
def test_a_server_that_is_not_there_is_unavailable(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["branch", "list", "--server", "http://127.0.0.1:1", "--graph", "people"])

    assert code == 5
    assert "nothing was sent: check the address" in capsys.readouterr().err


def test_who_may_only_read_sees_a_snapshot_without_what_maintenance_would_do(
    process: Process, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_TOKEN", TOKENS["reader"])

    code = main(["snapshot", "--server", f"http://127.0.0.1:{process.port}", "--graph", "people", "--json"])

    found = json.loads(capsys.readouterr().out)
    assert (code, found["due"]) == (0, [])
    assert found["commit_id"] == process.graph.snapshot().commit.id


def test_a_token_that_is_not_valid_is_denied(
    process: Process, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_TOKEN", TOKENS["revoked"])

    code = main(["branch", "list", "--server", f"http://127.0.0.1:{process.port}", "--graph", "people", "--json"])

    found = json.loads(capsys.readouterr().err)["error"]
    assert (code, found["code"]) == (1, "unauthenticated")
