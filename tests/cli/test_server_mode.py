"""Commands on a graph of a server print and exit as they do on one here."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph.cli.main import main
from server_process import Process, laid_out, running
from serving import ADD, ALL, TOKENS

UPDATE = "query u($n: String, $a: I64) { update Person set { age: $a } where name = $n }"
COMMANDS: dict[str, list[str]] = {
    "query": ["query", "-e", ALL],
    "query by name": ["query", "people", "-e", ALL + "\nquery other() { match { $p: Person } return { $p.age } }"],
    "parameters": [
        "query",
        "-e",
        "query q($n: String, $a: I64) { match { $p: Person { name: $n } $p.age < $a } return { $p.age } }",
        "--param",
        "n=Ada",
        "--param",
        "a=99",
    ],
    "create": ["branch", "create", "work/x"],
    "mutate": ["mutate", "-e", ADD, "--params", '{"n": "Gus"}', "--branch", "work/x"],
    "list": ["branch", "list"],
    "merge": ["branch", "merge", "work/x"],
    "load": ["load", "--mode", "merge", "--data", "more.jsonl", "--quiet"],
    "dry load": ["load", "--mode", "append", "--data", "more.jsonl", "--dry-run", "--quiet"],
    "explain": ["explain", "-e", ALL],
    "delete": ["branch", "delete", "work/x", "--yes"],
    "a mistake": ["query", "-e", "query q() { match { $p: Persn } return { $p.name } }"],
    "no branch": ["query", "-e", ALL, "--branch", "nowhere"],
    "no mutation": ["mutate", "-e", ALL],
    "no query": ["query", "nope", "-e", ALL],
    "a head that moved": ["mutate", "-e", ADD, "--param", "n=Z", "--if-commit", "01JC0000000000000000000000"],
    "a bad record": ["load", "--mode", "append", "--data", "bad.jsonl", "--quiet"],
    "a name that won't do": ["branch", "create", "../x"],
    "no file": ["load", "--mode", "append", "--data", "nope.jsonl", "--quiet"],
    "too slow": ["query", "-e", ALL, "--timeout", "0.000000001"],
}
VOLATILE = {
    "uri", "commit_id", "id", "parent_commit", "created_at", "created_by", "source_commit", "base_commit", "request_id",
    "file", "actual", "message", "text", "problems", "manifest_conflict", "known", "steps",
}  # fmt: skip
"""What differs between two graphs, or is told in more words by one of the doors."""


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


def comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: comparable(one) for name, one in value.items() if name not in VOLATILE}
    if isinstance(value, list):
        return [comparable(one) for one in value]
    return value


def run(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> tuple[int, Any, Any]:
    code = main([*arguments, "--json"])
    out, err = capsys.readouterr()
    return code, comparable(json.loads(out)) if out else None, comparable(json.loads(err)) if err else None


@pytest.mark.usefixtures("token")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_does_the_same_in_both_modes(name: str, process: Process, capsys: pytest.CaptureFixture[str]) -> None:
    expected = run(capsys, [*COMMANDS[name], "--store", "people.omni"])

    found = run(capsys, [*COMMANDS[name], "--server", f"http://127.0.0.1:{process.port}", "--graph", "people"])

    assert found == expected


@pytest.mark.usefixtures("token")
def test_an_export_is_the_same(process: Process, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    def nodes() -> list[bytes]:
        return [line for line in capfdbinary.readouterr().out.splitlines() if line.startswith(b'{"type"')]

    main(["export", "people.omni"])
    expected = nodes()
    main(["export", "--server", f"http://127.0.0.1:{process.port}"])

    assert len(expected) > 1
    assert nodes() == expected


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
    assert "does not answer" in capsys.readouterr().err


def test_a_token_that_is_not_valid_is_denied(
    process: Process, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_TOKEN", TOKENS["revoked"])

    code = main(["branch", "list", "--server", f"http://127.0.0.1:{process.port}", "--graph", "people", "--json"])

    found = json.loads(capsys.readouterr().err)["error"]
    assert (code, found["code"]) == (1, "unauthenticated")
