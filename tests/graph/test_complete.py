"""Completion against the schema of a state, here and on a server."""

from pathlib import Path

import pytest

import omnigraph as og
from doors import served
from page_blocks import check_programs
from serving import TOKENS

SCHEMA = "node Person { name: String @key  mood: enum(glad, sad)? }\nedge Knows: Person -> Person\n"
WIDER = SCHEMA + "node Pet { name: String @key }\n"


def test_proposals_are_of_the_state_that_is_named(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g.omni"), SCHEMA)
    first = graph.snapshot().commit.id
    graph.apply_schema(WIDER)

    def types(snapshot: str | None = None, branch: str = "main") -> list[str]:
        found = graph.complete("match { $p: P", branch=branch, snapshot=snapshot)
        return [proposal.text for proposal in found.proposals]

    assert (types(), types(first)) == (["Person", "Pet"], ["Person"])
    with pytest.raises(og.BranchMissingError):
        types(branch="nowhere")


def test_a_server_proposes_the_same(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g.omni"), SCHEMA)
    texts = ["", "match { $p: P", "match { $p: Person $p.mood = ", "match { $p: Person ??? $p.", '"', "}}}"]

    with served(tmp_path, {"g": graph}) as url, og.connect(url, TOKENS["reader"], graph="g") as remote:
        assert [remote.complete(text) for text in texts] == [graph.complete(text) for text in texts]
        assert remote.complete("match { $p } return", 9) == graph.complete("match { $p } return", 9)


def test_a_text_that_is_longer_than_a_query_may_be_is_refused(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g.omni"), SCHEMA)

    with pytest.raises(og.OmnigraphError, match="the limit for a schema or query"):
        graph.complete("x" * (1024 * 1024 + 1))


def test_the_page_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_programs("complete-queries.md", tmp_path, monkeypatch, capsys, programs=1)
