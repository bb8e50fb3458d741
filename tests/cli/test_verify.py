"""`omnigraph verify`: what it prints, and how it ends."""

import json
from pathlib import Path

import pytest

import damaging as harm
import omnigraph as og
from altering import alter_commit, strip_digests
from omnigraph.cli.main import main


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return harm.made(tmp_path_factory.mktemp("sound") / "g")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_what_is_proved_is_printed_with_the_digest_to_write_down(
    sound: og.Graph, capsys: pytest.CaptureFixture[str]
) -> None:
    commits = sound.commits()

    code, out, err = printed(capsys, "verify", sound.uri)

    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "branch  main",
        f"commit  {commits[0].id}",
        f"digest  {commits[0].digest}",
        f"proved  {len(commits)} commits since {commits[-1].id}, 4 table versions",
    ]


@pytest.mark.parametrize(
    "place, told",
    [
        (0, "the digest, of the newest commit: nothing was altered"),
        (2, "the digest, of commit {}; 2 commits since then"),
    ],
)
def test_a_digest_that_was_written_down_is_found(
    sound: og.Graph, capsys: pytest.CaptureFixture[str], place: int, told: str
) -> None:
    commit = sound.commits()[place]

    code, out, _ = printed(capsys, "verify", sound.uri, f"--digest={commit.digest}")

    assert code == 0
    assert out.splitlines()[-1] == f"contains  {told.format(commit.id)}"


def test_an_unknown_digest_is_damage(sound: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = printed(capsys, "verify", sound.uri, "--digest", "-" * 43)

    assert (code, out) == (6, "")
    assert "the history of `main` does not contain the digest" in err


def test_an_altered_commit_is_named(sound: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    harm.copied(sound, tmp_path / "g")
    commit = sound.commits()[1]
    alter_commit(tmp_path / "g", commit.id, message="another")

    code, _, err = printed(capsys, "verify", str(tmp_path / "g"), "--json")

    error = json.loads(err)["error"]
    assert code == 6
    assert (error["code"], error["commit_id"], error["branch"]) == ("commit_altered", commit.id, "main")


def test_a_manifest_that_can_not_be_read_is_damage(
    sound: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harm.copied(sound, tmp_path / "g")
    harm.manifest_head(tmp_path / "g").write_bytes(b"")

    assert printed(capsys, "verify", str(tmp_path / "g"))[0] == 6


def test_a_history_without_digests_says_how_to_begin(
    sound: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harm.copied(sound, tmp_path / "g")
    strip_digests(tmp_path / "g")

    code, _, err = printed(capsys, "verify", str(tmp_path / "g"))

    assert code == 4
    assert "omnigraph check --record" in err


def test_no_graph_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = printed(capsys, "verify", str(tmp_path / "nothing"))

    assert code == 4
    assert "there is no graph" in err


def test_commit_show_and_snapshot_have_the_digest(sound: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    commit = sound.commits()[0]

    shown = printed(capsys, "commit", "show", commit.id, sound.uri)[1]
    told = json.loads(printed(capsys, "snapshot", sound.uri, "--json")[1])

    assert f"digest     {commit.digest}" in shown.splitlines()
    assert told["digest"] == commit.digest
