"""A number where a commit's id may be is a version of the branch's manifest."""

from pathlib import Path

import pytest

import omnigraph as og
from worlds import runtime


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """A graph of three commits, a branch with one more, and versions of main that are no commit's."""
    made = og.create_graph(str(tmp_path / "g"), "node P { k: String @key }", runtime=runtime())
    for name in "ab":
        made.load([{"type": "P", "data": {"k": name}}], mode="append")
    made.branches.create("side")
    made.load([{"type": "P", "data": {"k": "s"}}], mode="append", branch="side")
    made.tags.create("first", made.commits()[1].id)
    made.load([{"type": "P", "data": {"k": "c"}}], mode="append")
    return made


def names(graph: og.Graph, version: int, branch: str = "main") -> str:
    """The keys of the rows, as of a version."""
    found = graph.query(
        "query q() { match { $p: P } return { $p.k as k } order { k } }", snapshot=str(version), branch=branch
    )
    return "".join(str(row["k"]) for row in found.rows())


def test_each_version_shows_the_commit_that_was_newest(graph: og.Graph) -> None:
    newest = graph.snapshot().manifest_version

    shown = [names(graph, version) for version in range(1, newest + 1)]

    made = [commit.manifest_version for commit in reversed(graph.commits())]
    assert [shown[version - 1] for version in made] == ["", "a", "ab", "abc"]
    assert shown == sorted(shown)
    assert len(shown) > len(made)


def test_a_branch_has_versions_of_its_own(graph: og.Graph) -> None:
    newest = graph.snapshot(branch="side").manifest_version

    shown = [names(graph, version, "side") for version in range(1, newest + 1)]

    assert (shown[0], shown[-1]) == ("ab", "abs")


@pytest.mark.parametrize("version", ["999", "0"])
def test_a_version_that_never_was_is_told(graph: og.Graph, version: str) -> None:
    with pytest.raises(og.CommitMissingError, match=f"manifest version {version}"):
        graph.snapshot(snapshot=version)
