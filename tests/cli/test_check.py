"""`omnigraph check` and `omnigraph repair`: what they print, and how they end."""

import json
from pathlib import Path

import pytest

import damaging as harm
import omnigraph as og
from omnigraph.cli.main import main
from omnigraph.ops.check_findings import CODES


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return harm.made(tmp_path_factory.mktemp("sound") / "g")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_a_sound_graph_is_one_line(sound: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = printed(capsys, "check", sound.uri)

    assert (code, err) == (0, "")
    assert out.startswith("no finding: 2 branches, 10 commits, 5 table versions, ")
    assert out.endswith(" rows read\n")


def test_a_finding_has_its_code_place_and_way_out(
    sound: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harm.copied(sound, tmp_path / "g")
    lost = harm.data_file(tmp_path / "g")
    lost.unlink()

    code, out, _ = printed(capsys, "check", str(tmp_path / "g"))

    assert code == 6
    assert out.splitlines()[:3] == [
        "error[file_missing] node:P (branch main, side): a file of node:P: it is missing",
        f"    at {lost.relative_to(tmp_path / 'g')}",
        f"    help: {CODES['file_missing'].way_out}",
    ]


def test_json_has_every_finding(sound: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    harm.copied(sound, tmp_path / "g")
    harm.garbage_sidecar(tmp_path / "g")

    code, out, _ = printed(capsys, "check", str(tmp_path / "g"), "--json", "--quick")

    found = json.loads(out)
    assert code == 0
    assert (found["errors"], found["warnings"], found["notes"], found["rows_read"]) == (0, 1, 0, 0)
    assert found["branches"] == ["main", "side"]
    assert {name: found["findings"][0][name] for name in ("severity", "code", "place", "branches")} == {
        "severity": "warning",
        "code": "sidecar_broken",
        "place": "__recovery/01JUNK.json",
        "branches": [],
    }


BROKEN: dict[str, harm.Damage] = {
    "manifest removed": harm.lose_manifest,
    "another stamp": harm.restamp,
    "manifest torn": harm.truncated(harm.newest_manifest),
    "manifest's head empty": harm.emptied(harm.manifest_head),
    "manifest contradicts itself": harm.lose_pin,
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_graph_that_can_not_be_opened_gives_a_finding_and_no_traceback(
    name: str, sound: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harm.copied(sound, tmp_path / "g")
    BROKEN[name](tmp_path / "g")

    code, out, err = printed(capsys, "check", str(tmp_path / "g"))

    assert (code, err) == (6, "")
    assert out.startswith("error[")
    assert "    help: " in out


@pytest.mark.parametrize("command", ["check", "repair"])
def test_an_empty_place_is_not_found(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = printed(capsys, command, str(tmp_path))

    assert (code, out) == (4, "")
    assert "there is no graph" in err


def test_quick_and_deep_exclude_each_other(sound: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = printed(capsys, "check", sound.uri, "--quick", "--deep")

    assert code == 2
    assert "either --quick or --deep" in err


def test_a_repair_tells_what_it_would_lose(sound: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    harm.copied(sound, tmp_path / "g")
    harm.removed(harm.version_of)(tmp_path / "g")
    lost = og.open_graph(str(tmp_path / "g"), read_only=True).commits(limit=1)[0]

    code, out, _ = printed(capsys, "repair", str(tmp_path / "g"))

    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "node:P of main: suspicious, planned"
    assert lines[2:] == [
        "    earlier version: 4 → 5 rows",
        f"    loses mutate {lost.id} of anonymous at {lost.at} (5 → 4 rows)",
        "nothing was changed; --confirm publishes verified repairs, --force --confirm all repairs",
    ]


def test_a_repair_has_json_and_exit_code_1_when_it_refuses(
    sound: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harm.copied(sound, tmp_path / "g")
    harm.removed(harm.version_of)(tmp_path / "g")

    code, out, _ = printed(capsys, "repair", str(tmp_path / "g"), "--confirm", "--json", "--as", "doc")

    found = json.loads(out)
    (table,) = found["tables"]
    assert (code, found["confirmed"], table["outcome"], table["commit_id"]) == (1, True, "refused", None)
    assert [(step["operation"], step["changed_rows"]) for step in table["lost"]] == [("mutate", True)]
    assert isinstance(table["from_version"], str)


def test_nothing_to_repair_is_said(sound: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "repair", sound.uri, "--confirm") == (0, "nothing to repair\n", "")
