"""`omnigraph cleanup` and `omnigraph tag`: what they print, and how they end."""

import json
from pathlib import Path

import pytest

import omnigraph as og
from collecting import DAY, names, pass_time
from omnigraph.cli.main import main
from worlds import runtime


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Four commits, two days old."""
    graph = og.create_graph(str(tmp_path / "g"), "node P { k: String @key }", runtime=runtime())
    for number in range(3):
        graph.load([{"type": "P", "data": {"k": f"p{number}"}}], mode="append")
    pass_time(graph.uri, 2 * DAY)
    return graph


def run(*arguments: str, capsys: pytest.CaptureFixture[str], expected: int = 0) -> tuple[str, str]:
    code = main(arguments)
    captured = capsys.readouterr()
    assert code == expected, captured.err
    return captured.out, captured.err


def test_a_preview_shows_what_would_go(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    before = names(graph.uri)

    out, _ = run("cleanup", graph.uri, "--keep", "2", capsys=capsys)

    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0].endswith(" would be removed; data current or written within the last 1d is kept")
    assert lines[1:3] == ["branch kept collected", "main 2 2"]
    assert lines[3] == "table files bytes versions error"
    assert lines[4].startswith("node:P 2 ")
    assert lines[-1] == "nothing was removed; run again with --confirm to remove it"
    assert names(graph.uri) == before


def test_confirm_does_it_and_json_says_what(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    preview = json.loads(run("cleanup", graph.uri, "--keep", "1", "--json", capsys=capsys)[0])
    done = json.loads(run("cleanup", graph.uri, "--keep", "1", "--confirm", "--json", capsys=capsys)[0])

    assert (preview["preview"], preview["epoch"], done["preview"], done["epoch"]) == (True, None, False, 1)
    assert preview["tables"] == done["tables"]
    assert set(done["tables"][0]) == {
        "table_key",
        "location",
        "files_removed",
        "bytes_removed",
        "old_versions_removed",
        "error",
    }
    assert done["branches"] == [{"branch": "main", "commits_kept": 1, "commits_collected": 3}]
    assert done["unknown_files"] == []


def test_a_commit_that_is_gone_is_listed_as_collected_and_says_so(
    graph: og.Graph, capsys: pytest.CaptureFixture[str]
) -> None:
    oldest = graph.commits()[-1].id
    run("cleanup", graph.uri, "--older-than", "1d", "--confirm", capsys=capsys)

    listed, _ = run("commit", "list", graph.uri, capsys=capsys)
    _, error = run("snapshot", graph.uri, "--snapshot", oldest, capsys=capsys, expected=4)

    assert listed.count("(collected)") == 3
    assert "was collected: it is number 0 on branch `main`, and cleanup 1 kept only tagged commits" in error
    assert "those from number 3 on" in error


@pytest.mark.parametrize(
    "arguments, story",
    [
        ((), "specify what to keep"),
        (("--keep", "0"), "0 is not in the range"),
        (("--older-than", "soon"), "`soon` is not a duration, such as 90s, 15m, 24h, 7d or 2w"),
        (("--older-than", "-1d"), "`-1d` is not a duration"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(
    graph: og.Graph, arguments: tuple[str, ...], story: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, error = run("cleanup", graph.uri, *arguments, capsys=capsys, expected=2)

    assert story in error


def test_a_table_that_fails_ends_with_exit_code_1(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    pin = graph.snapshot().pin("node:P")
    Path(graph.uri, f"{pin.path}/_versions/d{pin.version}.manifest").write_bytes(b"damaged")

    out, _ = run("cleanup", graph.uri, "--keep", "1", "--confirm", capsys=capsys, expected=1)

    assert f"version {pin.version} of the table" in out


def test_strangers_are_named(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    Path(graph.uri, "diary.txt").write_text("mine")

    out, _ = run("cleanup", graph.uri, "--keep", "1", "--confirm", capsys=capsys)

    assert "1 unknown file, not part of the graph, left alone:\n  diary.txt\n" in out


def test_a_tag_without_a_ref_is_of_main(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = run("tag", "create", "v1", graph.uri, capsys=capsys)

    assert made == f"tag v1 is commit {graph.snapshot().commit.id} of main\n"


def test_a_tag_is_made_listed_read_and_deleted(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    commit = graph.commits()[1]

    made, _ = run("tag", "create", "v1", commit.id, graph.uri, "--as", "ada", capsys=capsys)
    listed, _ = run("tag", "list", graph.uri, capsys=capsys)
    query = "query q() { match { $p: P } return { count($p) as n } }"
    read, _ = run("query", graph.uri, "-e", query, "--snapshot", "v1", "--json", capsys=capsys)
    deleted, _ = run("tag", "delete", "v1", graph.uri, "--json", capsys=capsys)

    assert made == f"tag v1 is commit {commit.id} of main\n"
    assert listed.splitlines()[1].split()[:3] == ["v1", commit.id, "main"]
    assert json.loads(read)["rows"] == [{"n": 2}]
    assert json.loads(deleted)["deleted"]["name"] == "v1"
    assert run("tag", "list", graph.uri, capsys=capsys)[0] == "no tags\n"


@pytest.mark.parametrize(
    "arguments, exit_code, code",
    [
        (("create", "main"), 2, "bad_tag_name"),
        (("create", "v1", "nowhere"), 4, "branch_not_found"),
        (("delete", "v1"), 4, "tag_not_found"),
    ],
)
def test_what_can_go_wrong_with_a_tag(
    graph: og.Graph, arguments: tuple[str, ...], exit_code: int, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["tag", *arguments, "--store", graph.uri, "--json"])

    captured = capsys.readouterr()
    assert json.loads(captured.err or captured.out)["error"]["code"] == code
    assert main(["tag", *arguments, "--store", graph.uri]) == exit_code
