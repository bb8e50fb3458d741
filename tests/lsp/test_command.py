"""`omnigraph lsp`: what it refuses before it serves."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "words, code, told",
    [
        (["--schema", "none.pg"], 4, "none.pg"),
        (["none.omni"], 4, "none.omni"),
        (["people.omni", "--schema", "people.pg"], 2, "give either the graph or --schema"),
    ],
)
def test_a_schema_that_is_not_there_is_reported_at_the_start(
    words: list[str], code: int, told: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "omnigraph", "lsp", *words]

    done = subprocess.run(command, cwd=tmp_path, input="", capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("sent", ["", "Content-Length: 99\r\n\r\n{"])
def test_a_client_that_is_gone_ends_the_server(sent: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "omnigraph", "lsp"]

    # It would run into the time limit if it went on waiting.
    done = subprocess.run(command, cwd=tmp_path, input=sent, capture_output=True, text=True, timeout=120, check=False)

    # Of half a message it says what is wrong with it; nothing is an answer.
    assert '"id"' not in done.stdout


@pytest.mark.parametrize("methods, code", [(["initialize", "shutdown", "exit"], 0), (["initialize", "exit"], 1)])
def test_an_editor_that_says_goodbye_ends_the_server(methods: list[str], code: int, tmp_path: Path) -> None:
    messages = [
        json.dumps(
            {"jsonrpc": "2.0", "method": method}
            | ({} if method == "exit" else {"id": number})
            | ({"params": {"processId": None, "rootUri": None, "capabilities": {}}} if method == "initialize" else {})
        )
        for number, method in enumerate(methods)
    ]
    done = _serve(messages, tmp_path)

    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.count('"id"') == len(methods) - 1


_FIRST: dict[str, object] = {"processId": None, "rootUri": None, "capabilities": {}}
_HOVER = {"textDocument": {"uri": "file:///q.gq"}, "position": {"line": -5, "character": 0}}


def test_messages_that_are_none_are_told_and_the_next_ones_are_answered(tmp_path: Path) -> None:
    nonsense = ["{not json", "[]", "5", "{}", '{"jsonrpc": "2.0"}', '"\\ud800"', "{}{}"]
    messages = [
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _FIRST}),
        *nonsense,
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "shutdown"}),
        json.dumps({"jsonrpc": "2.0", "method": "exit"}),
    ]

    done = _serve(messages, tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("window/showMessage") == len(nonsense)
    assert '"id": 2' in done.stdout


def test_a_request_with_wrong_parameters_is_answered_with_an_error(tmp_path: Path) -> None:
    messages = [
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _FIRST}),
        json.dumps({"jsonrpc": "2.0", "id": "wrong", "method": "textDocument/hover", "params": _HOVER}),
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "shutdown"}),
        json.dumps({"jsonrpc": "2.0", "method": "exit"}),
    ]

    done = _serve(messages, tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert '"id": "wrong"' in done.stdout
    assert '"code": -32602' in done.stdout


def _serve(messages: list[str], home: Path) -> "subprocess.CompletedProcess[str]":
    sent = "".join(f"Content-Length: {len(message)}\r\n\r\n{message}" for message in messages)
    command = [sys.executable, "-m", "omnigraph", "lsp"]
    return subprocess.run(command, cwd=home, input=sent, capture_output=True, text=True, timeout=120, check=False)
