"""`check --record` lists checksums of files whose names carry none, for every state that can be read."""

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

import damaging as harm
import omnigraph as og
from earlier_release import without_checksums
from omnigraph.cli.main import main
from omnigraph.commit import group_commit, next_manifest, publisher
from omnigraph.commit.commit_plan import CommitPlan
from omnigraph.commit.manifest_log import ManifestLog
from omnigraph.ops import record_checksums as recording
from omnigraph.ops.check import CheckResult
from omnigraph.ops.check_findings import FindingSeverity
from omnigraph.options import Options, Verify
from omnigraph.storage.table_cache import TableCache
from upkeep_calls import opened, optimized
from worlds import FAST, runtime

ALL = "query q() { match { $p: P } return { $p.name, $p.age } }"


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    with without_checksums():
        return harm.made(tmp_path_factory.mktemp("older") / "g")


@pytest.fixture
def root(older: og.Graph, tmp_path: Path) -> Path:
    return Path(harm.copied(older, tmp_path / "g").uri)


def record(root: Path | str, **how: str) -> CheckResult:
    return og.check_graph(str(root), record=True, actor="ann", runtime=runtime(), branch=how.get("branch"))


def check(root: Path | str) -> CheckResult:
    return og.check_graph(str(root), deep=True, runtime=runtime())


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def lists(root: Path) -> list[Path]:
    return sorted(root.rglob("_checksums/*"))


def test_one_commit_for_each_branch_records_all_and_changes_nothing(root: Path) -> None:
    before = opened(str(root))
    rows = {name: before.query(ALL, branch=name).rows() for name in ("main", "side")}
    pins = {name: before.snapshot(branch=name).pins for name in ("main", "side")}

    done = record(root)
    after = opened(str(root))

    assert sorted(done.recorded) == ["main", "side"]
    for name, commit_id in done.recorded.items():
        commit = after.commit(commit_id, branch=name)
        assert (commit.operation, commit.actor, commit.is_silent) == ("record", "ann", True)
        assert after.snapshot(branch=name).commit.id == commit_id
        assert after.query(ALL, branch=name).rows() == rows[name]
        assert after.snapshot(branch=name).pins == pins[name]
    assert (check(root).findings, check(root).unrecorded) == ((), 0)


def test_what_is_recorded_is_not_recorded_again(root: Path) -> None:
    first = record(root)
    made = lists(root)

    again = record(root)

    assert first.recorded
    assert again.recorded == {}
    assert lists(root) == made


def test_a_graph_whose_names_carry_checksums_has_nothing_to_record(tmp_path: Path) -> None:
    graph = harm.made(tmp_path / "g")

    assert (record(graph.uri).recorded, lists(tmp_path / "g")) == ({}, [])


def test_damage_of_any_recorded_file_is_found_present_and_past(root: Path) -> None:
    record(root)
    missed = []
    for path in sorted([*root.glob("nodes/*/*/*"), *root.glob("edges/*/*/*"), *root.glob("nodes/*/_indices/*/*")]):
        is_first = path.parent.name == "_versions" and not path.name.startswith("d")
        if path.is_dir() or path.parent.name in ("_transactions", "_checksums") or is_first:
            continue
        whole = path.read_bytes()
        flip(path)
        place = path.relative_to(root).as_posix()
        if not any(one.place == place for one in check(root).findings):
            missed.append(place)
        path.write_bytes(whole)

    assert missed == []


def test_damage_is_not_recorded(root: Path) -> None:
    before = opened(str(root)).snapshot().commit.id
    harm.truncated(harm.data_file)(root)

    done = record(root)

    assert done.has_errors
    assert done.recorded == {}
    assert lists(root) == []
    assert opened(str(root)).snapshot().commit.id == before


def test_reads_compare_small_files_with_lists(root: Path) -> None:
    record(root)
    flip(harm.deletion_file(root))

    with pytest.raises(og.PinUnreadableError, match="does not match its checksum"):
        opened(str(root)).query(ALL)


def test_a_read_of_the_past_compares_its_version_with_what_a_later_commit_recorded(root: Path) -> None:
    graph = opened(str(root))
    commit = next(
        one for one in graph.commits() if one.operation == "optimize" and one.changes[0].table_key == "node:P"
    )
    version = commit.changes[0].after
    record(root)
    flip(root / commit.changes[0].path / f"_versions/d{version}.manifest")

    with pytest.raises(og.PinUnreadableError, match="does not match its checksum"):
        opened(str(root)).query(ALL, snapshot=commit.id)


@pytest.mark.parametrize("verify", [Verify.ALWAYS, Options().verify])
def test_a_damaged_list_is_told_and_keeps_nobody_from_reading(verify: Verify, root: Path) -> None:
    record(root)
    rows = opened(str(root)).query(ALL).rows()
    for path in lists(root):
        flip(path)

    graph = og.open_graph(str(root), runtime=runtime(replace(FAST, verify=verify)))
    found = check(root).findings

    assert graph.query(ALL).rows() == rows
    assert {(one.code, one.severity) for one in found} == {("list_damaged", FindingSeverity.WARNING)}
    assert {one.place for one in found} == {path.relative_to(root).as_posix() for path in lists(root)}


def test_a_damaged_list_is_made_anew(root: Path) -> None:
    record(root)
    for path in lists(root):
        flip(path)

    done = record(root)
    found = check(root)

    assert sorted(done.recorded) == ["main", "side"]
    assert ({one.code for one in found.findings}, found.unrecorded) == ({"unused_files"}, 0)  # the damaged ones


def test_a_rewrite_drops_lists_that_say_nothing_of_it_and_the_past_keeps_them(root: Path) -> None:
    record(root)
    graph = opened(str(root))
    graph.load(harm.people("x", "y"), mode="append")
    assert graph.snapshot().pin("node:P").lists

    optimized(graph)

    pin = graph.snapshot().pin("node:P")
    earlier = graph.commits()[1]
    assert pin.lists == ()
    assert graph.snapshot(snapshot=earlier.id).pin("node:P").lists
    assert (check(root).findings, check(root).unrecorded) == ((), 0)
    assert record(root).recorded == {}


def test_cleanup_keeps_lists_that_kept_commits_name_and_takes_others(root: Path) -> None:
    record(root)
    graph = opened(str(root))
    graph.load(harm.people("x", "y"), mode="append")
    optimized(graph)
    graph.branches.delete("side")

    graph.cleanup(keep=3, grace=timedelta(0), confirm=True)
    kept = lists(root)
    orphan = kept[0].parent / ("0" * 32)
    orphan.write_bytes(b"left by a record that died")
    os.utime(orphan, (0, 0))
    graph.cleanup(keep=3, grace=timedelta(0), confirm=True)

    assert kept == lists(root)
    assert check(root).findings == ()
    assert record(root).recorded == {}


def test_a_writer_meanwhile_keeps_its_commit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_first(log: ManifestLog, handles: TableCache, plan: CommitPlan) -> group_commit.PublishResult:
        opened(str(root)).load(harm.people("z"), mode="append")
        return publisher.publish(log, handles, plan)

    monkeypatch.setattr(recording, "publish", write_first)

    record(root, branch="main")
    monkeypatch.undo()

    assert any("z" in row.values() for row in opened(str(root)).query(ALL).rows())
    assert check(root).findings == ()
    assert record(root, branch="main").recorded == {}


def test_a_table_that_is_hidden_or_renamed_is_recorded_too(root: Path) -> None:
    graph = opened(str(root))
    first = graph.snapshot().commit.id
    renamed = harm.SCHEMA.replace("node C {", 'node Firm @rename_from("C") {').replace("P -> C", "P -> Firm")
    graph.apply_schema(renamed)
    record(root)

    again = opened(str(root))

    assert again.snapshot(snapshot=first).pin("node:C").lists
    assert (check(root).findings, record(root).recorded) == ((), {})


def test_the_command_records_and_says_so(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = main(["check", str(root), "--record", "--as", "ann", "--quiet"])
    said = capsys.readouterr().out

    assert done == 0
    assert "files without one" in said
    assert "recorded on main: commit" in said
    assert main(["check", str(root), "--record", "--quick"]) == 2


def test_a_record_is_refused_on_a_graph_that_is_open_for_reading(root: Path) -> None:
    graph = og.open_graph(str(root), read_only=True, runtime=runtime())

    with pytest.raises(og.ReadOnlyError):
        graph.check(record=True)


def test_a_clone_of_a_recorded_graph_has_its_lists(root: Path, tmp_path: Path) -> None:
    record(root)

    opened(str(root)).clone(str(tmp_path / "copy"))
    found = check(tmp_path / "copy")

    assert (found.findings, found.unrecorded) == ((), 0)


def test_a_history_of_an_earlier_release_is_proved_from_the_record_on(tmp_path: Path) -> None:
    undigested = [
        patch.object(module, "add_digest", lambda commit, *_: commit) for module in (publisher, next_manifest)
    ]
    with without_checksums(), undigested[0], undigested[1]:
        graph = harm.made(tmp_path / "g")
    first = record(graph.uri).recorded["main"]
    opened(graph.uri).load(harm.people("z"), mode="append")

    proved = og.verify_graph(graph.uri, runtime=runtime())

    assert (proved.first_commit_id, proved.commits) == (first, 2)
