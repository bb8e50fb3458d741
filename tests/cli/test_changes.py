"""`omnigraph changes`: the feed as text, lines and one document; following, and how that ends."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from feeding import Replica, commits_of, held
from omnigraph.cli.main import main
from omnigraph.clock import SystemClock
from worlds import runtime

SCHEMA = "node P { name: String @key  n: I32? }\nnode C { name: String @key }\n"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    run(graph, 'insert P { name: "a", n: 1 }', message="the first\nof many")
    run(graph, 'update P set { n: 2 } where name = "a" insert C { name: "x" }')
    return graph


def run(graph: og.Graph, statements: str, **options: Any) -> None:
    graph.mutate(f"query q() {{ {statements} }}", actor="ada", **options)


def printed(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(["changes", *arguments])

    captured = capfd.readouterr()
    assert code == 0, captured.err
    return captured.out


def test_people_see_what_each_commit_changed(graph: og.Graph, capfd: pytest.CaptureFixture[str]) -> None:
    graph.apply_schema(SCHEMA.replace("n: I32?", 'm: I32? @rename_from("n")  ok: Bool?'))
    first, second, third, fourth = graph.commits()[::-1]

    blocks = printed(capfd, graph.uri).split("\n\n")

    assert (
        blocks[0]
        == f"commit {first.id}  {first.at}  anonymous  init\nschema: P is new\nschema: C is new\nno row was changed"
    )
    assert blocks[1].splitlines()[:2] == [f"commit {second.id}  {second.at}  ada  mutate", "    the first"]
    assert [line.split() for line in blocks[2].splitlines()[1:]] == [
        ["type", "inserted", "updated", "deleted", "changed", "properties"],
        ["P", "0", "1", "0", "n", "(1)"],
        ["C", "1", "0", "0"],
    ]
    assert third.id in blocks[2]
    assert blocks[3].splitlines()[1:] == ["schema: P.n was renamed to m", "schema: P.ok is new", "no row was changed"]
    assert fourth.id in blocks[3]


def test_programs_get_a_line_for_each_change(graph: og.Graph, capfd: pytest.CaptureFixture[str]) -> None:
    out = printed(capfd, graph.uri, "--format", "jsonl")

    replica = Replica()
    for lines in commits_of([out.encode()]):
        replica.apply(lines)
    assert replica.contents() == held(graph)
    assert replica.cursor == graph.commits()[0].id


def test_one_document_has_whole_commits_and_the_cursor(graph: og.Graph, capfd: pytest.CaptureFixture[str]) -> None:
    newest, middle, first = graph.commits()

    page = json.loads(printed(capfd, "--store", graph.uri, "--since", first.id, "--limit", "1", "--json"))
    rest = json.loads(printed(capfd, graph.uri, "--since", page["cursor"], "--type", "C", "--json"))
    end = json.loads(printed(capfd, graph.uri, "--since", rest["cursor"], "--json"))

    assert [one["commit"] for one in page["changes"]] == [middle.id] == [page["cursor"]]
    assert [(row["type"], row["id"]) for row in rest["changes"][0]["rows"]] == [("C", "x")]
    assert (end["changes"], end["cursor"]) == ([], newest.id)


def test_nothing_new_is_said_in_words(graph: og.Graph, capfd: pytest.CaptureFixture[str]) -> None:
    assert printed(capfd, graph.uri, "--since", graph.commits()[0].id) == "no commits\n"


@pytest.mark.parametrize(
    "arguments, code, error",
    [
        (["--since", "01JC0000000000000000000000"], 4, "commit_not_found"),
        (["--branch", "nope"], 4, "branch_not_found"),
        (["--type", "Q"], 4, "type_not_found"),
        (["--follow"], 2, "usage"),
        (["--format", "jsonl"], 2, "usage"),
        (["--limit", "0"], 2, "usage"),
        (["--poll", "0"], 2, "usage"),
    ],
)
def test_what_can_not_be_given_is_refused(
    arguments: list[str], code: int, error: str, graph: og.Graph, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["changes", graph.uri, *arguments, "--json"]) == code
    assert json.loads(capfd.readouterr().err)["error"]["code"] == error


def test_a_limit_ends_following(graph: og.Graph, capfd: pytest.CaptureFixture[str]) -> None:
    lines = printed(capfd, graph.uri, "--follow", "--limit", "2").splitlines()

    assert [json.loads(line)["commit"] for line in lines if '"end"' in line] == [
        one.id for one in graph.commits()[:0:-1]
    ]


class Follower:
    """A child process that follows the graph."""

    def __init__(self, graph: og.Graph) -> None:
        self.graph = graph
        self.child = subprocess.Popen(
            [sys.executable, "-m", "omnigraph", "changes", graph.uri, "--follow", "--poll", "0.05"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LANCE_LOG": "error"},
        )

    def read_to(self, commit_id: str) -> list[dict[str, Any]]:
        """The lines up to the end of a commit, as they come."""
        assert self.child.stdout is not None
        found = []
        for line in self.child.stdout:
            found.append(json.loads(line))
            if "end" in found[-1] and found[-1]["commit"] == commit_id:
                break
        return found

    def ended(self) -> tuple[int, bytes, bytes]:
        out, err = self.child.communicate(timeout=60)
        return self.child.returncode, out, err


@pytest.fixture
def follower(graph: og.Graph) -> Follower:
    return Follower(graph)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_waits_ends_following(
    number: signal.Signals, graph: og.Graph, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)

    def signalled(_clock: SystemClock, seconds: float) -> None:
        """Other threads of this process sleep too: the signal comes while the command waits, and at no other time."""
        if threading.current_thread() is threading.main_thread() and signal.getsignal(number) is not before:
            signal.raise_signal(number)
        time.sleep(seconds)

    monkeypatch.setattr(SystemClock, "sleep", signalled)

    code = main(["changes", graph.uri, "--follow"])

    captured = capfd.readouterr()
    assert (code, captured.err) == (128 + number, "")
    assert len(list(commits_of([captured.out.encode()]))) == 3
    assert signal.getsignal(number) is before


def test_a_process_that_follows_prints_what_comes_and_ends_with_whole_lines(
    follower: Follower, graph: og.Graph
) -> None:
    follower.read_to(graph.commits()[0].id)
    run(graph, 'insert P { name: "while it follows" }')
    lines = follower.read_to(graph.commits()[0].id)

    follower.child.send_signal(signal.SIGTERM)
    code, out, err = follower.ended()

    assert [line["id"] for line in lines if "change" in line] == ["while it follows"]
    assert (code, out, err) == (143, b"", b"")


def test_a_reader_that_goes_away_ends_following(follower: Follower, graph: og.Graph) -> None:
    follower.read_to(graph.commits()[0].id)
    assert follower.child.stdout is not None
    follower.child.stdout.close()
    run(graph, 'insert P { name: "unread" }')

    assert follower.child.wait(timeout=60) == 141
    assert follower.child.stderr is not None
    assert follower.child.stderr.read() == b""
    follower.child.stderr.close()
