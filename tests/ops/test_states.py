"""What names a state: branches, tags, commit ids and parts of them, `X~n`, times, and merge bases."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.main import main
from omnigraph.clock import SystemClock, parse_duration, parse_moment
from omnigraph.commit.time_travel import CommitMissingError, find_short_id, split_steps
from omnigraph.ids import SystemIds
from omnigraph.lang.source import Source
from omnigraph.ops.revision import resolve_commit, resolve_state
from page_blocks import check_programs
from raised_codes import has_code
from worlds import runtime

SCHEMA = "node Person { name: String @key  age: I64? }\n"


def add(graph: og.Graph, name: str, branch: str = "main") -> str:
    done = graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}', branch=branch)
    assert done.commit_id
    return done.commit_id


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.create_graph(str(tmp_path / "g.omni"), SCHEMA)


def state(graph: og.Graph, text: str) -> str:
    return resolve_state(graph._session, text).commit.id


def commit(graph: og.Graph, text: str, branch: str = "main") -> str:
    return resolve_commit(graph._session.checkout(branch), text)


# --- short ids -------------------------------------------------------------------------------------------


def test_a_part_of_an_id_names_its_commit_on_any_branch(graph: og.Graph) -> None:
    graph.branches.create("side")
    first = add(graph, "Ada")
    there = add(graph, "Bob", "side")

    for full in (first, there):
        for text in (full, full[:20], full[-6:], full[-6:].lower(), full[-10:]):
            assert state(graph, text) == full
            assert commit(graph, text) == full
            assert graph.commit(text).id == full
    assert graph.snapshot(snapshot=first[-6:]).commit.id == first


class Stopped(SystemClock):
    """A clock that stands still, so that all ids begin alike."""

    def now(self) -> datetime:
        return datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_a_part_of_several_ids_is_refused_with_all_of_them(tmp_path: Path) -> None:
    stopped = replace(runtime(), clock=Stopped(), ids=SystemIds(Stopped()))
    graph = og.Graph.create(str(tmp_path / "g.omni"), Source(SCHEMA), actor="test", runtime=stopped)
    ids = [add(graph, name) for name in ("a", "b", "c")]
    shared = ids[0][:10]

    for find in (state, commit):
        with pytest.raises(og.BadArgumentError, check=has_code("commit_ambiguous")) as refused:
            find(graph, shared)
        assert all(i in str(refused.value) for i in ids)


def test_many_ambiguous_ids_are_counted() -> None:
    class Named:
        def __init__(self, number: int) -> None:
            self.id = f"01J8ABCDEF{number:016d}"

    histories = [[Named(number) for number in range(1_000)]]

    with pytest.raises(og.BadArgumentError, match=r"1,000 commits.* and 992 more"):
        find_short_id("01j8abcd", histories)  # type: ignore[arg-type]  # only their ids are read
    assert find_short_id("01J8ABC", histories) is None  # type: ignore[arg-type]  # too short for a beginning


@pytest.mark.parametrize("text", ["abcde", "01J8ABC", "zzzzzzzzzz", "0" * 25])
def test_a_part_that_is_too_short_or_unknown_names_nothing(graph: og.Graph, text: str) -> None:
    with pytest.raises((og.BranchMissingError, CommitMissingError)):
        state(graph, text)
    with pytest.raises(CommitMissingError):
        commit(graph, text)


# --- first parents ---------------------------------------------------------------------------------------


def test_first_parents_are_counted_from_any_state(graph: og.Graph) -> None:
    root = graph.snapshot().commit.id
    ids = [root, *(add(graph, name) for name in ("a", "b", "c"))]
    graph.tags.create("v1", ref=ids[2])

    assert [state(graph, f"main~{n}") for n in range(4)] == ids[::-1]
    assert state(graph, "main~") == ids[2]
    assert state(graph, f"{ids[3]}~2") == ids[1]
    assert state(graph, f"{ids[3][-8:]}~2") == ids[1]
    assert state(graph, "v1~2") == root
    assert state(graph, "main~1~1") == ids[1]
    assert [commit(graph, text) for text in ("main~3", "v1~1", f"{ids[2][-7:]}~1")] == [root, ids[1], ids[1]]
    assert graph.snapshot(snapshot="v1~1").commit.id == ids[1]
    for text in ("main~4", "v1~9", "main~999999999"):
        with pytest.raises(CommitMissingError, match="before it"):
            state(graph, text)
        with pytest.raises(CommitMissingError):
            commit(graph, text)


def test_folded_commits_are_not_counted(graph: og.Graph) -> None:
    for number in range(12):
        add(graph, f"p{number}")
    first = add(graph, "a")
    add(graph, "b")
    graph.optimize()
    assert graph.commits(limit=1)[0].operation == "optimize"

    assert state(graph, "main~1") == commit(graph, "main~1") != first
    assert state(graph, "main~2") == commit(graph, "main~2") == first


def test_the_history_of_a_branch_goes_on_in_that_of_its_parent(graph: og.Graph) -> None:
    base = add(graph, "a")
    graph.branches.create("side")
    add(graph, "b")
    add(graph, "c", "side")

    assert state(graph, "side~1") == commit(graph, "side~1") == base
    assert commit(graph, "side~2") == state(graph, "main~2")


@pytest.mark.parametrize("text, parts", [("a~", ("a", 1)), ("a~2", ("a", 2)), ("a", None), ("~2", None), ("a~x", None)])
def test_steps_are_split_from_a_name(text: str, parts: tuple[str, int] | None) -> None:
    assert split_steps(text) == parts


# --- times -----------------------------------------------------------------------------------------------


def test_a_time_ago_follows_a_branch_only(graph: og.Graph) -> None:
    newest = add(graph, "a")

    assert state(graph, "main@0s") == commit(graph, "main@0s") == newest
    with pytest.raises(CommitMissingError, match="as early as"):
        state(graph, "main@2h")
    with pytest.raises(og.BranchMissingError):
        state(graph, "2h")


def test_durations_are_before_now() -> None:
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)

    assert parse_moment("2h", now) == now - timedelta(hours=2)
    assert parse_moment("2026-01-31T12:00:00Z", now + timedelta(days=1)) == now
    for text in ("2 h", "h", "2x", "٢h", "999999999w", ""):
        with pytest.raises(ValueError, match=r"."):
            parse_moment(text, now)
    assert parse_duration("90s") == timedelta(seconds=90)


# --- names that look like something else -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["2h", "HEAD", "a...b", "20260131T120000Z"])
def test_a_branch_may_be_called_like_something_else(graph: og.Graph, name: str) -> None:
    graph.branches.create(name)
    there = add(graph, "a", name)
    root = graph.snapshot().commit.id

    assert state(graph, name) == commit(graph, name) == there
    assert state(graph, f"{name}~1") == commit(graph, f"{name}~1") == root
    assert state(graph, f"{name}@0s") == there


def test_a_branch_called_like_a_part_of_an_id_comes_first(graph: og.Graph) -> None:
    first = add(graph, "a")
    graph.branches.create(first[:12])
    there = add(graph, "b", first[:12])

    assert state(graph, first[:12]) == commit(graph, first[:12]) == there
    assert state(graph, first[-12:]) == first


# --- merge bases -----------------------------------------------------------------------------------------


def test_three_dots_are_the_merge_base(graph: og.Graph) -> None:
    base = add(graph, "a")
    graph.branches.create("side")
    add(graph, "b")
    there = add(graph, "c", "side")

    assert state(graph, "main...side") == state(graph, "side...main") == base
    assert state(graph, f"main...{there[-8:]}") == base
    assert state(graph, "main...main") == state(graph, "main")
    assert graph.diff("main...side", "side").to_json()["types"]["Person"]["inserted"] == 1  # type: ignore[index]
    graph.merge("side")
    assert state(graph, "main...side") == there
    for text in ("main...", "...main", "..."):
        with pytest.raises((og.BadArgumentError, og.BranchMissingError)):
            state(graph, text)


def test_the_command_takes_three_dots_as_one_word(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    graph.branches.create("side")
    add(graph, "b")
    add(graph, "c", "side")
    uri = graph.uri

    assert main(["diff", "main...side", uri, "--format", "jsonl"]) == 0
    out = capsys.readouterr().out
    assert '"c"' in out
    assert '"b"' not in out
    assert main(["diff", "main...side", "--store", uri]) == 0
    assert main(["diff", "main", uri]) == 2
    assert main(["diff", "main", "main~1", uri]) == 0
    assert main(["query", uri, "-e", "match { $p: Person } return { $p.name }", "--at", "0s"]) == 0
    assert main(["query", uri, "-e", "match { $p: Person } return { $p.name }", "--at", "2y"]) == 2


def test_the_page_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_programs("name-a-state.md", tmp_path, monkeypatch, capsys, programs=1)
