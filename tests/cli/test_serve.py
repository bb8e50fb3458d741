"""`omnigraph serve --check`, `omnigraph token` and `omnigraph policy`."""

import json
import socket
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.main import main
from omnigraph.config.tokens import hash_token
from server_process import laid_out
from serving import POLICIES


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    laid_out(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMNIGRAPH_TOKENS", raising=False)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


# --- serve ---------------------------------------------------------------------------------------------------


def test_settings_that_are_right_are_said_to_be(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = og.open_graph(str(home / "people.omni"), read_only=True).snapshot()

    code, out, _ = run(capsys, "serve", "--check")
    found = run(capsys, "serve", "--check", "--json")

    assert (code, out) == (0, "ready to serve 1 graph on 127.0.0.1:0: people\n")
    assert json.loads(found[1]) == {"ok": True, "bind": "127.0.0.1:0", "graphs": ["people"]}
    assert og.open_graph(str(home / "people.omni"), read_only=True).snapshot() == before


@pytest.mark.parametrize(
    "file, text, code, said",
    [
        ("omnigraph.toml", "[server]\ntokns = 'x'\n", 2, "did you mean `tokens`?"),
        ("tokens.toml", "[[token]]\n", 2, "every token needs both"),
        ("policies/all.cedar", "permit(principal, action, resource", 2, "all.cedar"),
        ("queries/reads.gq", "query q() { match { $p: Persn } return { $p.name } }", 1, "reads.gq:1:25"),
        ("queries/twice.gq", "query friends() { match { $p: Person } return { $p.name } }", 1, "has a query `friends`"),
    ],
)
def test_a_mistake_anywhere_is_found_before_anybody_is_served(
    file: str, text: str, code: int, said: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / file).write_text(text, encoding="utf-8")

    found, _, err = run(capsys, "serve", "--check")

    assert found == code
    assert said in err


def test_a_graph_that_is_not_there_is_not_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "serve", "--check", "--unauthenticated", f"nope={tmp_path}/nowhere.omni")

    assert code == 4
    assert "nowhere.omni" in err


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("people=people.omni",), "there are no tokens"),
        (("people=people.omni", "--bind", "0.0.0.0:0", "--unauthenticated"), "--unauthenticated twice"),
        (("--unauthenticated",), "there are tokens"),
    ],
)
def test_a_server_is_not_open_by_mistake(
    arguments: tuple[str, ...], said: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "serve", *arguments)

    assert home.exists()
    assert code == 2
    assert said in err


@pytest.mark.parametrize(
    "arguments", [("--unauthenticated",), ("--bind", "0.0.0.0:0", "--unauthenticated", "--unauthenticated")]
)
def test_a_server_is_open_when_that_is_said(
    arguments: tuple[str, ...], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert home.exists()
    assert run(capsys, "serve", "--check", "people=people.omni", *arguments)[0] == 0


def test_an_address_that_is_taken_is_told(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.server.serve.start_logging", lambda *_: None)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        code, _, err = run(capsys, "serve", "--bind", f"127.0.0.1:{port}", "--config", str(home / "omnigraph.toml"))

    assert code == 5
    assert f"can't listen on http://127.0.0.1:{port}" in err


# --- tokens ---------------------------------------------------------------------------------------------------


def test_a_token_is_shown_once_with_the_entry_of_its_hash(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "token", "new", "ada", "--group", "writers", "--json")[1])

    assert found["token"].startswith("og_")
    assert found["sha256"] == hash_token(found["token"]).hex()
    assert found["token"] not in found["entry"]
    assert 'groups = ["writers"]' in found["entry"]


def test_two_tokens_are_never_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    texts = {run(capsys, "token", "new", "ada")[1] for _ in range(3)}

    assert len(texts) == 3


@pytest.mark.parametrize("name", ["", "omnigraph:x", 'a"b', "a\nb"])
def test_nobody_gets_a_token_under_such_a_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "token", "new", name)[0] == 2


# --- policies --------------------------------------------------------------------------------------------------


def test_policies_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.cedar").write_text(POLICIES, encoding="utf-8")

    code, out, _ = run(capsys, "policy", "check", str(tmp_path))

    assert code == 0
    assert out.startswith("5 policies, all valid\n  readers\n")


def test_a_decision_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.cedar").write_text(POLICIES, encoding="utf-8")
    ask = ("policy", "explain", str(tmp_path), "--actor", "ada", "--graph", "people", "--branch", "main", "--action")

    allowed = run(capsys, *ask, "change", "--group", "writers")
    denied = run(capsys, *ask, "change", "--group", "readers")
    as_json = run(capsys, *ask, "read", "--group", "readers", "--json")

    assert allowed[:2] == (0, "allowed: writers\n")
    assert denied[:2] == (1, "denied: no policy permits it\n")
    assert json.loads(as_json[1]) == {"allowed": True, "reasons": ["readers"]}
