"""`omnigraph mcp` as it is called; what it does then is in tests/server."""

import json

import pytest

from omnigraph.cli.main import main


@pytest.mark.parametrize("words", [["people.omni", "--config", "omnigraph.toml"], ["--nonsense"], ["one", "two"]])
def test_a_wrong_call_is_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["mcp", *words, "--json"])

    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert json.loads(printed.err)["error"]["kind"] == "usage"


def test_without_a_graph_it_says_how_to_name_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.delenv("OMNIGRAPH_STORE", raising=False)
    monkeypatch.chdir(str(tmp_path))

    code = main(["mcp"])

    assert code == 2
    assert "name the graph: `omnigraph mcp URI`" in capsys.readouterr().err
