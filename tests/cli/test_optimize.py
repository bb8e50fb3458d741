"""`omnigraph optimize` and `omnigraph indexes`: what they print, and how they end."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.main import main
from omnigraph.ops import maintenance_worker
from omnigraph.storage.object_store import StoreUnavailableError
from worlds import runtime

SCHEMA = "node P { k: String @key  n: I64 @index  s: String? @index }\nedge E: P -> P\n"


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A graph of six commits to one table."""
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    for number in range(6):
        graph.load([{"type": "P", "data": {"k": f"p{number}", "n": number}}], mode="append")
    return graph.uri


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(arguments)
    return code, capsys.readouterr().out


def test_each_table_is_reported(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = printed(capsys, "optimize", uri)

    head = og.open_graph(uri, read_only=True).snapshot().commit
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert lines == [
        "table fragments indexes built pending outcome",
        f"node:P 6 → 1 commit {head.id}",
        "edge:E nothing to do",
    ]
    assert (head.operation, head.actor) == ("optimize", "anonymous")


def test_json_has_what_a_program_needs(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = printed(capsys, "optimize", uri, "--json", "--type", "P", "--as", "ada", "--message", "m")

    commit = og.open_graph(uri, read_only=True).snapshot().commit
    assert code == 0
    assert json.loads(out) == {
        "branch": "main",
        "tables": [
            {
                "table_key": "node:P",
                "fragments_removed": 6,
                "fragments_added": 1,
                "indexes_built": [],
                "indexes_pending": [],
                "committed": True,
                "commit_id": commit.id,
                "manifest_version": commit.manifest_version,
                "skipped": None,
                "error": None,
            }
        ],
    }
    assert (commit.actor, commit.message) == ("ada", "m")


def test_a_table_that_fails_gives_exit_code_1(
    uri: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreUnavailableError("write it", "the disk is full")

    monkeypatch.setattr(maintenance_worker, "compact", full)

    code, out = printed(capsys, "optimize", uri)

    assert code == 1
    assert "failed: the store failed to write it: the disk is full" in out


def test_a_type_that_is_not_there_is_exit_code_4(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["optimize", uri, "--type", "Q"])

    assert code == 4
    assert "no type `Q`" in capsys.readouterr().err


def test_a_master_does_not_go_with_the_local_engine(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["optimize", uri, "--engine", "local", "--master", "local[2]"])

    assert code == 2
    assert "--master is for Spark" in capsys.readouterr().err


def test_indexes_are_listed_with_what_they_cover(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["optimize", uri, "--all-indexes", "--quiet"])
    og.open_graph(uri, runtime=runtime()).load([{"type": "P", "data": {"k": "x", "n": 1}}] * 1, mode="append")
    capsys.readouterr()

    code, out = printed(capsys, "indexes", uri)

    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert lines[0] == "type property kind coverage rows size state"
    assert lines[1:3] == ["P id BTREE 7 small", "P n BTREE 7 small"]
    assert lines[4].startswith("P s INVERTED 85.7% 7 ")
    assert lines[4].endswith(" lagging")
    assert lines[-1] == "1 index to complete: run `omnigraph optimize`"


def test_indexes_as_json(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = printed(capsys, "indexes", uri, "--json")

    found = json.loads(out)
    assert code == 0
    assert [(one["type"], one["property"], one["kind"], one["state"]) for one in found["indexes"]] == [
        ("P", "id", "BTREE", "small"),
        ("P", "n", "BTREE", "small"),
        ("P", "s", "BTREE", "small"),
        ("P", "s", "INVERTED", "unused"),
        ("E", "id", "BTREE", "small"),
        ("E", "src", "BTREE", "small"),
        ("E", "dst", "BTREE", "small"),
    ]
    assert found["indexes"][0] == {
        "type": "P",
        "property": "id",
        "kind": "BTREE",
        "name": None,
        "state": "small",
        "rows": 6,
        "rows_covered": 0,
        "rows_uncovered": 6,
        "coverage": 0.0,
        "segments": 0,
        "bytes": 0,
        "recall": None,
    }


def test_a_dry_run_shows_what_pays_and_writes_nothing(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = og.open_graph(uri, read_only=True).snapshot().commit

    code, out = printed(capsys, "optimize", uri, "--dry-run")

    assert code == 0
    assert "node:P  6 → 1" in out
    assert "this was a dry run" in out
    assert og.open_graph(uri, read_only=True).snapshot().commit == before


def test_a_snapshot_says_that_optimize_pays(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, before = printed(capsys, "snapshot", uri)
    _, document = printed(capsys, "snapshot", uri, "--json")
    printed(capsys, "optimize", uri)
    _, after = printed(capsys, "snapshot", uri)

    assert "note: `omnigraph optimize` pays off for node:P\n" in before
    assert json.loads(document)["due"] == ["node:P"]
    assert "note:" not in after


def test_auto_goes_on_until_it_is_ended(uri: str) -> None:
    command = [
        sys.executable,
        "-m",
        "omnigraph",
        "optimize",
        uri,
        "--auto",
        "--every",
        "0.2",
        "--budget",
        "50",
        "--json",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        line = json.loads(running.stdout.readline())
        running.send_signal(signal.SIGTERM)
        rest, _ = running.communicate(timeout=60)

    assert (line["branch"], line["table_key"], line["fragments_removed"]) == ("main", "node:P", 6)
    assert (running.returncode, rest) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--auto", "--type", "P"),
        ("--auto", "--dry-run"),
        ("--every", "5"),
        ("--budget", "5"),
        ("--auto", "--budget", "0"),
    ],
    ids=" ".join,
)
def test_auto_is_told_what_goes_with_it(uri: str, arguments: tuple[str, ...]) -> None:
    assert main(("optimize", uri, *arguments)) == 2
