"""A deep check compares every file that a kept commit names with its checksum, and nothing decodes one that differs."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import damaging as harm
import omnigraph as og
from earlier_release import without_checksums
from omnigraph.cli.exit_codes import EXIT_CODES
from omnigraph.cli.main import main
from omnigraph.clock import SystemClock
from omnigraph.engine.checking.index_integrity import check_lookups
from omnigraph.engine.checking.row_integrity import check_rows as read_rows
from omnigraph.errors import Kind
from omnigraph.ops import check_rows
from omnigraph.ops.check import CheckProgress, CheckResult
from omnigraph.ops.check_findings import Finding
from omnigraph.runtime import Runtime
from omnigraph.storage import verification
from omnigraph.storage.checksums import checksum_file
from omnigraph.storage.index_staging import StoredIndex
from omnigraph.storage.lance_table import LanceTable
from upkeep_calls import optimized
from worlds import FAST, runtime

BLOBS = "node N { v: String @key  b: Blob? }"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return harm.made(tmp_path_factory.mktemp("sound") / "g")


@pytest.fixture
def root(sound: og.Graph, tmp_path: Path) -> Path:
    return Path(harm.copied(sound, tmp_path / "g").uri)


def flip(path: Path, at: int = -1) -> None:
    """Change one bit."""
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 1
    path.write_bytes(data)


def check(root: Path | str, *, deep: bool = True, branch: str | None = None) -> CheckResult:
    return og.check_graph(str(root), deep=deep, branch=branch, runtime=runtime())


def findings(root: Path | str, *, deep: bool = True, branch: str | None = None) -> tuple[Finding, ...]:
    return check(root, deep=deep, branch=branch).findings


def table_files(root: Path) -> Iterator[Path]:
    """Yield every file of tables that a version names, but for transactions, which nobody reads."""
    for path in sorted([*(root / "nodes").rglob("*"), *(root / "edges").rglob("*")]):
        is_first = path.parent.name == "_versions" and not path.name.startswith("d")
        if path.is_file() and path.parent.name != "_transactions" and not is_first:
            yield path


def test_a_bit_of_any_file_of_any_kept_commit_is_found_by_its_name(root: Path) -> None:
    missed = []
    for path in table_files(root):
        whole = path.read_bytes()
        flip(path, len(whole) // 2)
        place = path.relative_to(root).as_posix()
        units = (place, place.rpartition("/")[0]) if "_indices" in place else (place,)
        if not any(one.place in units for one in findings(root)):
            missed.append(place)
        path.write_bytes(whole)

    assert missed == []


def test_all_files_are_compared_and_counted(root: Path) -> None:
    found = check(root)

    assert (found.findings, found.unrecorded) == ((), 0)
    assert found.verified == len({_unit(path) for path in table_files(root) if path.parent.name != "_versions"})


def _unit(path: Path) -> Path:
    return path.parent if path.parent.parent.name == "_indices" else path


def test_each_file_is_read_once_and_progress_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def watch(path: str, **how: bool) -> tuple[int, int]:
        read.append(path)
        return checksum_file(path, **how)

    monkeypatch.setattr(verification, "checksum_file", watch)
    told: list[CheckProgress] = []

    og.check_graph(str(root), deep=True, progress=told.append, runtime=runtime())

    assert len(read) == len(set(read))
    shares = [(one.done, one.total) for one in told if one.phase == "checksums"]
    assert shares == sorted(shares)
    assert shares[-1][0] == shares[-1][1] > 0


def test_damage_of_the_present_is_an_error_with_its_branches(root: Path) -> None:
    path = harm.data_file(root)
    flip(path)

    (found,) = findings(root)

    assert (found.code, found.thing, found.branches) == ("file_damaged", "node:P", ("main", "side"))
    assert found.place == path.relative_to(root).as_posix()
    assert "does not match its checksum" in found.message
    assert "a bug" not in found.message


def test_damage_of_the_past_says_which_commits_need_it(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), harm.SCHEMA, runtime=runtime())
    first = graph.load(harm.people("a"), mode="append").commit_id
    file = harm.data_file(tmp_path / "g")
    last = graph.load(harm.people("b"), mode="append").commit_id
    optimized(graph)
    flip(file)

    (found,) = findings(tmp_path / "g")

    assert (found.code, found.thing, found.count) == ("past_damaged", "node:P", 2)
    assert found.place == file.relative_to(tmp_path / "g").as_posix()
    assert f"2 commits need it, from {first} of" in found.message
    assert f"to {last} of" in found.message
    assert not check(tmp_path / "g").has_errors


def test_a_file_that_only_a_tag_of_a_deleted_branch_needs_is_compared(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), harm.SCHEMA, runtime=runtime())
    graph.branches.create("side")
    graph.load(harm.people("a"), mode="append", branch="side")
    file = harm.table_path(tmp_path / "g", "node:P") / "data"
    graph.tags.create("kept", "side")
    graph.branches.delete("side")
    (only,) = file.iterdir()
    flip(only)

    assert [one.code for one in findings(tmp_path / "g")] == ["past_damaged"]


def test_a_check_of_one_branch_compares_the_past_of_that_branch(root: Path) -> None:
    version = harm.version_of(root)
    flip(version)

    assert [one.code for one in findings(root, branch="main")] == ["version_damaged"]
    assert [one.place for one in findings(root, branch="side")] == [version.relative_to(root).as_posix()]


ROW_FILES = {"data": harm.data_file, "deletions": harm.deletion_file, "version": harm.version_of}


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("name", ROW_FILES)
def test_rows_of_a_file_that_does_not_match_are_not_decoded(
    name: str, deep: bool, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flip(ROW_FILES[name](root))
    pin = og.open_graph(str(root), read_only=True, runtime=runtime()).snapshot().pin("node:P")
    decoded: list[tuple[str, int]] = []

    def watch(table: LanceTable, *how: Any, **more: Any) -> Any:
        decoded.append((table.path, table.version))
        return read_rows(table, *how, **more)

    monkeypatch.setattr(check_rows, "check_rows", watch)

    found = findings(root, deep=deep)

    assert {one.thing for one in found} == {"node:P"}
    assert (pin.path, pin.version) not in decoded
    assert decoded


@pytest.mark.parametrize("deep", [False, True])
def test_an_index_that_does_not_match_is_not_asked(deep: bool, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flip(harm.index_files(root)[0])
    asked: list[tuple[str, str]] = []

    def watch(table: LanceTable, index: StoredIndex) -> Any:
        asked.append((table.path, index.name))
        return check_lookups(table, index)

    monkeypatch.setattr(check_rows, "check_lookups", watch)

    found = findings(root, deep=deep)

    assert [one.code for one in found] == ["index_damaged"]
    assert asked
    assert (harm.table_path(root, "node:P").relative_to(root).as_posix(), "id_btree") not in asked


def test_an_error_of_any_kind_over_what_is_stored_is_a_finding(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: object, **__: object) -> None:
        raise OverflowError("a length of 2^60")

    monkeypatch.setattr(check_rows, "check_rows", stumble)

    found = findings(root)

    assert {one.code for one in found} == {"rows_unreadable"}
    assert {one.thing for one in found} == {"node:P", "node:C", "edge:Knows", "edge:Works"}


def test_a_file_that_the_disk_does_not_give_back_is_a_finding(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = str(harm.data_file(root))

    def fail(path: str, **how: bool) -> tuple[int, int]:
        if path == bad:
            raise OSError(5, "Input/output error")
        return checksum_file(path, **how)

    monkeypatch.setattr(verification, "checksum_file", fail)

    (found,) = findings(root)

    assert (found.code, str(root / found.place)) == ("file_damaged", bad)


def test_a_whole_directory_of_blobs_of_the_past_is_missed(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), BLOBS, runtime=runtime())
    graph.load([{"type": "N", "data": {"v": "a", "b": bytes(200_000)}}], mode="append")
    graph.load([{"type": "N", "data": {"v": "a"}}], mode="overwrite")
    (blob,) = (tmp_path / "g" / "nodes").rglob("*.blob")
    flip(blob)
    flipped = findings(tmp_path / "g")
    shutil.rmtree(blob.parent)

    gone = findings(tmp_path / "g")

    assert [one.code for one in (*flipped, *gone)] == ["past_damaged", "past_damaged"]
    assert {one.place for one in (*flipped, *gone)} == {blob.parent.relative_to(tmp_path / "g").as_posix()}


def test_a_damaged_run_of_idempotency_keys_is_found_and_made_up_for(tmp_path: Path) -> None:
    options = replace(FAST, head_commits=2)
    graph = og.create_graph(str(tmp_path / "g"), harm.SCHEMA, runtime=runtime(options))
    for name in "abcde":
        graph.load(harm.people(name), mode="append", idempotency_key=name)
    before = graph.snapshot().commit.id
    runs = sorted((tmp_path / "g" / "__manifest" / "keys").iterdir())
    for run in runs:
        flip(run)

    found = findings(tmp_path / "g")
    again = og.open_graph(str(tmp_path / "g"), runtime=runtime(options))
    again.load(harm.people("a"), mode="append", idempotency_key="a")

    assert {one.code for one in found} == {"key_run_damaged"}
    assert again.snapshot().commit.id == before


def test_a_damaged_note_of_the_newest_version_is_told(root: Path) -> None:
    flip(root / "__manifest" / "newest_version", 0)

    (found,) = findings(root)

    assert (found.code, found.place) == ("note_damaged", "__manifest/newest_version")
    assert not check(root).has_errors


def test_a_damaged_journal_of_a_deleted_branch_is_a_finding(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), harm.SCHEMA, runtime=runtime())
    graph.branches.create("side")
    graph.load(harm.people("a"), mode="append", branch="side")
    graph.tags.create("kept", "side")
    graph.branches.delete("side")
    (branch,) = (tmp_path / "g" / "__branches").iterdir()
    head = harm.manifest_head(tmp_path / "g", f"__branches/{branch.name}")
    for path in head.parent.iterdir():
        flip(path)

    found = findings(tmp_path / "g")

    assert "journal_damaged" in {one.code for one in found}


def test_the_command_compares_and_ends_with_the_code_of_damage(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound = main(["check", str(root), "--deep", "--quiet"])
    said = capsys.readouterr().out
    flip(harm.data_file(root))

    damaged = main(["check", str(root), "--deep", "--quiet"])

    assert (sound, damaged) == (0, EXIT_CODES[Kind.CORRUPT])
    assert "checksums compared" in said
    assert "error[file_damaged]" in capsys.readouterr().out


def test_files_without_checksums_are_counted(tmp_path: Path) -> None:
    with without_checksums():
        graph = harm.made(tmp_path / "g")

    found = check(graph.uri)

    assert (found.findings, found.verified) == ((), 0)
    assert found.unrecorded > 10


def test_a_note_that_is_being_written_is_no_damage(root: Path) -> None:
    note = root / "__manifest" / "newest_version"
    whole = note.read_bytes()
    note.write_bytes(whole[:0])

    class Writing(SystemClock):
        """While somebody waits, the writer goes on."""

        def sleep(self, seconds: float) -> None:
            """Finish the note."""
            del seconds
            note.write_bytes(whole)

    found = og.check_graph(str(root), deep=True, runtime=Runtime(options=FAST, clock=Writing()))

    assert found.findings == ()
