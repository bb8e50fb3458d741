"""A scrub verifies all files that kept states name, at the pace that was set, and changes nothing."""

import errno
import hashlib
import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import damaging as harm
import omnigraph as og
from omnigraph.clock import SystemClock
from omnigraph.commit.branches import BranchRegistry
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.retained_versions import RetainedVersions, find_retained_versions
from omnigraph.ops import scrub as scrubbing
from omnigraph.ops.scrub import FILE_OVERHEAD_BYTES, RECHECK_SECONDS, RETRY_SECONDS, Scrub, ScrubState, compute_rest
from omnigraph.runtime import Runtime
from omnigraph.storage import scrubbing as reading
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import MANIFEST, format_version_name
from omnigraph.storage.object_store import StoreUnavailableError
from upkeep_calls import AtPoint, files_of
from worlds import FAST

DAY = 86_400.0
MOST_STEPS = 20_000


@dataclass
class Standing(SystemClock):
    """A clock that moves when a test says so."""

    at: float = 0.0

    def monotonic(self) -> float:
        return self.at

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.at)


@dataclass
class Scrubbed:
    """A graph, its scrub, and the clock of the scrub."""

    graph: og.Graph
    scrub: Scrub
    clock: Standing

    @property
    def root(self) -> Path:
        return Path(self.graph.uri)

    @property
    def damaged(self) -> list[tuple[str, str]]:
        """The damaged files, below the graph, with what is wrong with them."""
        return [(one.file, one.reason) for one in self.scrub.report().damaged]

    def until(self, is_enough: Callable[[], bool]) -> None:
        """Take steps, with the rest that each asks for, until something is so."""
        for _ in range(MOST_STEPS):
            if is_enough():
                return
            self.clock.at += self.scrub.step()
        pytest.fail("it does not come to an end")

    def run_pass(self) -> None:
        """Run to the end of a pass."""
        self.until(lambda: self.scrub._is_in_pass)
        self.until(lambda: not self.scrub._is_in_pass)

    def rest(self, seconds: float) -> None:
        """Let time pass, with the steps that come due."""
        end = self.clock.at + seconds
        for _ in range(MOST_STEPS):
            pause = self.scrub.step()
            if self.clock.at + pause > end:
                self.clock.at = end
                self.scrub.step()
                return
            self.clock.at += pause


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return harm.made(tmp_path_factory.mktemp("made") / "g.omni")


@pytest.fixture
def scrubbed(made: og.Graph, tmp_path: Path) -> Scrubbed:
    return scrubbing_of(harm.copied(made, tmp_path / "g.omni"))


def scrubbing_of(graph: og.Graph, days: float = 30.0, **runtime: object) -> Scrubbed:
    clock = Standing()
    settings = Runtime(options=FAST, clock=clock, **runtime)  # type: ignore[arg-type]  # parts of a Runtime, by name
    return Scrubbed(graph, Scrub(graph.uri, settings, days), clock)


def content(root: Path) -> dict[str, str]:
    """Every file below a graph, by its digest."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are verified from now on, in their order."""
    seen: list[str] = []

    def scan_file(store: GraphStorage, file: reading.StoredFile) -> reading.Scan:
        seen.append(file.key)
        return reading.scan_file(store, file)

    monkeypatch.setattr(scrubbing, "scan_file", scan_file)
    return seen


def below(scrubbed: Scrubbed, path: Path) -> str:
    return str(path.relative_to(scrubbed.root))


# --- a pass ------------------------------------------------------------------------------------------------


def test_a_sound_graph_is_verified_whole_in_the_days_that_were_set(scrubbed: Scrubbed) -> None:
    before = content(scrubbed.root)
    scrubbed.run_pass()
    report = scrubbed.scrub.report()

    assert report.damaged == ()
    assert report.skipped == 0
    assert report.state is ScrubState.RESTING
    assert report.last_pass is not None
    assert 0.3 * 30 * DAY < scrubbed.clock.at <= 30 * DAY  # the rest is of files that no state needs
    assert content(scrubbed.root) == before

    scrubbed.until(lambda: scrubbed.scrub._is_in_pass)
    assert scrubbed.clock.at == 30 * DAY


def test_every_file_that_a_kept_commit_or_a_tag_names_is_verified_once(
    scrubbed: Scrubbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    scrubbed.graph.tags.create("old", scrubbed.graph.commits()[-2].id)
    seen = watched(monkeypatch)

    scrubbed.run_pass()
    named = files_of(scrubbed.graph)
    covered = {one for one in named if any(one == key or one.startswith(f"{key}/") for key in seen)}

    assert len(seen) == len(set(seen))
    # In no commit are only Lance's own heads: the first, empty version of each table, and the hint that leads to it.
    assert {Path(one).name for one in named - covered} <= {
        "latest_version_hint.json",
        Path(format_version_name(1)).name,
    }


def test_the_order_is_another_one_after_a_restart_and_the_same_in_each_pass(
    scrubbed: Scrubbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = watched(monkeypatch)

    def order(one: Scrubbed) -> list[str]:
        seen.clear()
        one.run_pass()
        return list(seen)

    first, second = order(scrubbed), order(scrubbed)
    others = [order(scrubbing_of(scrubbed.graph)) for _ in range(3)]

    assert first == second
    assert any(other != first for other in others)
    assert all(sorted(other) == sorted(first) for other in others)


@pytest.mark.parametrize(
    "weight, total, days, spent, rest",
    [
        (1, 100, 1.0, 0.0, 864.0),
        (50, 100, 30.0, 0.0, 15 * DAY),
        (1, 100, 1.0, 64.0, 800.0),
        (1, 100, 1.0, 1_000.0, 0.0),
        (0, 100, 30.0, 0.0, 0.0),
        (7, 0, 1.0, 0.0, DAY),
        (300, 100, 1.0, 0.0, DAY),
    ],
)
def test_the_rest_is_the_share_of_the_time_less_what_was_spent(
    weight: int, total: int, days: float, spent: float, rest: float
) -> None:
    assert compute_rest(weight, total, days, spent) == pytest.approx(rest)


def test_an_empty_graph_is_looked_at_again_soon(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g.omni"), "node P { name: String @key }", runtime=Runtime(options=FAST))
    one = scrubbing_of(graph)

    one.run_pass()

    assert one.scrub.report().damaged == ()


# --- damage ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "find, damage, reason",
    [
        (harm.data_file, harm.scarred, "it does not match its checksum"),
        (harm.data_file, harm.truncated, "it does not match its checksum"),
        (harm.data_file, harm.removed, "it is missing"),
        (harm.deletion_file, harm.zeroed, "it does not match its checksum"),
        (harm.deletion_file, harm.removed, "it is missing"),
        (harm.version_of, harm.scarred, "it does not match its checksum"),
        (harm.version_of, harm.removed, "it is missing"),
    ],
)
def test_damage_is_found_told_once_and_cleared_when_it_is_repaired(
    find: Callable[[Path], Path],
    damage: Callable[[Callable[[Path], Path]], harm.Damage],
    reason: str,
    scrubbed: Scrubbed,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    file = find(scrubbed.root)
    whole, status = file.read_bytes(), file.stat()
    damage(lambda _: file)(scrubbed.root)

    scrubbed.run_pass()
    (found,) = scrubbed.scrub.report().damaged
    assert (found.table, found.file, found.reason) == ("node:P", below(scrubbed, file), reason)
    assert "main" in found.branches
    scrubbed.run_pass()
    assert caplog.text.count("found damage") == 1
    assert f"{found.file} of node:P, needed by branches main" in caplog.text

    file.write_bytes(whole)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))
    scrubbed.rest(RECHECK_SECONDS + 1)
    assert scrubbed.damaged == []
    assert caplog.text.count("is no longer damaged") == 1


def test_the_branches_are_those_that_show_the_file(scrubbed: Scrubbed) -> None:
    names = {
        branch: {
            file.path
            for one in harm.pinned(scrubbed.root, "node:P", branch).get_fragments()
            for file in one.metadata.files
        }
        for branch in ("main", "side")
    }
    data = harm.table_path(scrubbed.root, "node:P") / "data"
    on_both, of_side = data / min(names["main"]), data / min(names["side"] - names["main"])
    for file in (on_both, of_side):
        file.write_bytes(b"\x00" * file.stat().st_size)

    scrubbed.run_pass()

    found = {one.file: one.branches for one in scrubbed.scrub.report().damaged}
    assert found == {below(scrubbed, on_both): ("main", "side"), below(scrubbed, of_side): ("side",)}


def test_a_file_that_only_the_past_needs_is_told_of_without_a_branch(scrubbed: Scrubbed) -> None:
    first = next(one for one in reversed(scrubbed.graph.commits()) if one.operation == "load")
    old = scrubbed.graph.table("P", snapshot=first.id)
    file = harm.table_path(scrubbed.root, "node:P") / "data" / old.get_fragments()[0].metadata.files[0].path
    harm.scarred(lambda _: file)(scrubbed.root)

    scrubbed.run_pass()

    (found,) = scrubbed.scrub.report().damaged
    assert (found.file, found.branches) == (below(scrubbed, file), ())


@pytest.mark.parametrize("damage", [harm.lose_index, harm.lose_part_of_index, harm.zero_index])
def test_a_damaged_index_is_found(damage: harm.Damage, scrubbed: Scrubbed) -> None:
    place = below(scrubbed, harm.index_files(scrubbed.root)[0].parent)
    damage(scrubbed.root)

    scrubbed.run_pass()

    assert [file for file, _ in scrubbed.damaged] == [place]


def test_a_link_in_place_of_a_file_is_not_followed(scrubbed: Scrubbed, tmp_path: Path) -> None:
    file = harm.data_file(scrubbed.root)
    shutil.move(file, tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")

    scrubbed.run_pass()

    assert scrubbed.damaged != []


def test_a_medium_that_fails_is_damage_until_it_recovers(scrubbed: Scrubbed, monkeypatch: pytest.MonkeyPatch) -> None:
    file = harm.data_file(scrubbed.root)
    real = os.open

    def failing(path: str, *how: int, **where: int) -> int:
        if str(path) == str(file):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path, *how, **where)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", failing)
        scrubbed.run_pass()
        assert scrubbed.damaged == [(below(scrubbed, file), "it can't be read: Input/output error")]

    scrubbed.rest(RECHECK_SECONDS + 1)
    assert scrubbed.damaged == []


def test_a_file_of_an_earlier_release_is_compared_with_its_size(
    scrubbed: Scrubbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("parse_data_checksum", "parse_blob_checksum", "parse_deletion_checksum", "parse_uuid_checksum"):
        monkeypatch.setattr(reading, name, lambda _: None)
    file = harm.data_file(scrubbed.root)
    size = file.stat().st_size
    scrubbed.run_pass()
    assert scrubbed.damaged == []

    harm.truncated(lambda _: file)(scrubbed.root)
    scrubbed.run_pass()

    assert scrubbed.damaged == [(below(scrubbed, file), f"it has {size // 2:,} bytes, and should have {size:,}")]


def test_a_manifest_that_cannot_be_read_is_damage_and_is_tried_again(scrubbed: Scrubbed) -> None:
    file = harm.manifest_head(scrubbed.root)
    whole = file.read_bytes()
    harm.zeroed(lambda _: file)(scrubbed.root)

    scrubbed.until(lambda: scrubbed.damaged != [])
    (found,) = scrubbed.scrub.report().damaged
    assert (found.table, found.file, found.branches) == ("branch:main", MANIFEST, ("main",))
    assert scrubbed.scrub.report().state is ScrubState.FAILING

    file.write_bytes(whole)
    scrubbed.run_pass()
    assert scrubbed.damaged == []


def test_a_branch_whose_manifest_is_lost_does_not_keep_the_others_from_being_verified(scrubbed: Scrubbed) -> None:
    file = harm.data_file(scrubbed.root)
    harm.scarred(lambda _: file)(scrubbed.root)
    harm.lose_branch_manifest(scrubbed.root)

    scrubbed.run_pass()

    found = {one.table: one.branches for one in scrubbed.scrub.report().damaged}
    assert found == {"branch:side": ("side",), "node:P": ("main",)}


# --- others at work ----------------------------------------------------------------------------------------


def cleaned(graph: og.Graph) -> None:
    """Collect all but the newest commit of each branch, as if it were old."""
    graph.cleanup(keep=1, grace=timedelta(0), confirm=True)


def test_what_a_cleanup_has_collected_meanwhile_is_no_damage(scrubbed: Scrubbed) -> None:
    before = files_of(scrubbed.graph)
    scrubbed.until(lambda: scrubbed.scrub.report().files >= 2)
    cleaned(scrubbed.graph)
    assert before - files_of(scrubbed.graph)  # or this would show nothing

    scrubbed.until(lambda: not scrubbed.scrub._is_in_pass)

    assert scrubbed.damaged == []
    assert scrubbed.scrub.report().last_pass is not None


def test_a_damaged_file_that_is_collected_is_told_of_no_longer(scrubbed: Scrubbed) -> None:
    first = next(one for one in reversed(scrubbed.graph.commits()) if one.operation == "load")
    old = scrubbed.graph.table("P", snapshot=first.id)
    file = harm.table_path(scrubbed.root, "node:P") / "data" / old.get_fragments()[0].metadata.files[0].path
    harm.scarred(lambda _: file)(scrubbed.root)
    scrubbed.run_pass()
    assert len(scrubbed.damaged) == 1

    cleaned(scrubbed.graph)
    scrubbed.rest(RECHECK_SECONDS + 1)

    assert scrubbed.damaged == []


def test_branches_come_and_go_while_it_runs(scrubbed: Scrubbed) -> None:
    scrubbed.until(lambda: scrubbed.scrub.report().files >= 2)
    scrubbed.graph.branches.delete("side")
    scrubbed.graph.branches.create("other")
    cleaned(scrubbed.graph)
    scrubbed.graph.load(harm.people("z"), mode="append", branch="other")

    scrubbed.until(lambda: not scrubbed.scrub._is_in_pass)
    scrubbed.run_pass()

    assert scrubbed.damaged == []


def test_a_branch_that_goes_while_manifests_are_read_is_no_damage(
    scrubbed: Scrubbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Head] = []

    def losing(branches: BranchRegistry, main: Head) -> RetainedVersions:
        if not looks:
            scrubbed.graph.branches.delete("side")
            shutil.rmtree(scrubbed.root / "__branches")
        looks.append(main)
        return find_retained_versions(branches, main)

    monkeypatch.setattr(scrubbing, "find_retained_versions", losing)
    scrubbed.run_pass()

    assert len(looks) == 2
    assert scrubbed.damaged == []


# --- a store that fails ------------------------------------------------------------------------------------


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys whose scan fails, as often as they stand in the list."""
    keys: list[str] = []

    def scanned(store: GraphStorage, file: reading.StoredFile) -> reading.Scan:
        if file.key in keys:
            keys.remove(file.key)
            raise StoreUnavailableError("read", "no answer")
        return reading.scan_file(store, file)

    monkeypatch.setattr(scrubbing, "scan_file", scanned)
    return keys


def test_a_store_that_fails_is_tried_again_at_the_same_place(scrubbed: Scrubbed, failing: list[str]) -> None:
    key = below(scrubbed, harm.data_file(scrubbed.root))
    failing += [key] * 2

    scrubbed.until(lambda: scrubbed.scrub.report().state is ScrubState.FAILING)
    files = scrubbed.scrub.report().files
    assert scrubbed.scrub.step() == pytest.approx(RETRY_SECONDS)
    scrubbed.until(lambda: scrubbed.scrub.report().files > files)
    scrubbed.until(lambda: not scrubbed.scrub._is_in_pass)

    report = scrubbed.scrub.report()
    assert failing == []
    assert (report.skipped, report.damaged) == (0, ())
    assert report.last_pass is not None


def test_a_file_that_the_store_keeps_failing_over_is_left_out_and_the_pass_is_not_complete(
    scrubbed: Scrubbed, failing: list[str]
) -> None:
    failing += [below(scrubbed, harm.data_file(scrubbed.root))] * scrubbing.MAX_TRIES

    scrubbed.run_pass()
    report = scrubbed.scrub.report()
    assert (report.skipped, report.last_pass, report.damaged) == (1, None, ())

    scrubbed.run_pass()
    assert scrubbed.scrub.report().last_pass is not None


def test_a_fault_that_nobody_foresaw_does_not_end_it(
    scrubbed: Scrubbed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(scrubbing, "find_retained_versions", AtPoint("", lambda: None))
        scrubbed.scrub.step()
    assert "will be retried later" in caplog.text

    scrubbed.run_pass()
    assert scrubbed.scrub.report().last_pass is not None


# --- reading -----------------------------------------------------------------------------------------------


def test_a_large_file_is_read_a_chunk_at_a_time_with_a_rest_behind_each(
    scrubbed: Scrubbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = harm.data_file(scrubbed.root)
    chunk = file.stat().st_size // 3
    monkeypatch.setattr(reading, "CHUNK_BYTES", chunk)
    rests: list[float] = []
    for _ in range(MOST_STEPS):
        is_it = scrubbed.scrub._job is not None and scrubbed.scrub._job.file.key == below(scrubbed, file)
        rest = scrubbed.scrub.step()
        if is_it:
            rests.append(rest)
        scrubbed.clock.at += rest
        if scrubbed.scrub.report().last_pass is not None:
            break

    per_byte = 30 * DAY / scrubbed.scrub._total
    assert rests[-1] == pytest.approx(FILE_OVERHEAD_BYTES * per_byte)
    assert rests[:2] == pytest.approx([chunk * per_byte] * 2)


def test_pages_are_dropped_before_and_behind_each_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "large"
    file.write_bytes(b"x" * 250)
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(reading, "CHUNK_BYTES", 100)
    monkeypatch.setattr(os, "posix_fadvise", lambda _, start, size, __: calls.append((start, size)))

    sizes = list(reading._read_file(str(file), follow_links=False))

    assert sizes == [100, 100, 50]
    assert calls == [(0, 100), (0, 100), (100, 100), (100, 100), (200, 100), (200, 100), (250, 100)]


def test_a_graph_that_is_moved_away_and_back_is_scrubbed_again(scrubbed: Scrubbed, tmp_path: Path) -> None:
    scrubbed.run_pass()
    shutil.move(scrubbed.root, tmp_path / "away")
    scrubbed.clock.at += 31 * DAY
    scrubbed.scrub.step()
    assert scrubbed.scrub.report().state is ScrubState.FAILING
    assert scrubbed.damaged == []

    shutil.move(tmp_path / "away", scrubbed.root)
    before = scrubbed.scrub.report().last_pass
    scrubbed.run_pass()
    assert scrubbed.scrub.report().last_pass != before


def test_settings_of_the_graph_hold(made: og.Graph) -> None:
    session = scrubbing.open_for_scrub(made.uri, Runtime(options=replace(FAST, cache_bytes=1 << 30)))

    assert session.is_read_only
    assert session.runtime.options.cache_bytes == 0
