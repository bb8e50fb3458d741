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
    sent = "".join(f"Content-Length: {len(message)}\r\n\r\n{message}" for message in messages)
    command = [sys.executable, "-m", "omnigraph", "lsp"]

    done = subprocess.run(command, cwd=tmp_path, input=sent, capture_output=True, text=True, timeout=120, check=False)

    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.count('"id"') == len(methods) - 1
