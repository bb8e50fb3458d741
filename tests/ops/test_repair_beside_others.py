"""A repair while others write, optimise, clean up and repair, and repairs that die."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

import damaging as harm
import omnigraph as og
from collecting import DAY, pass_time
from omnigraph.commit.manifest_check import inspect_manifest
from omnigraph.commit.manifest_repair import put_aside
from omnigraph.faults import POINTS, InjectedFaultError
from omnigraph.ops.check_findings import FindingSeverity
from omnigraph.ops.repair_plan import Certainty
from omnigraph.ops.repair_result import RepairOutcome, RepairResult
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.uri import parse_uri
from repairing import codes_of, compacted_graph, mended, person
from upkeep_calls import AtPoint, exported, opened
from worlds import runtime


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return compacted_graph(tmp_path_factory.mktemp("sound") / "g")


def test_a_writer_to_another_table_is_not_in_the_way(sound: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(sound, tmp_path / "g").uri)
    harm.removed(harm.version_of)(root)

    def write() -> None:
        opened(str(root)).mutate('query q() { delete Knows where from = "a" }')

    (table,) = mended(root, confirm=True, faults=AtPoint("repair.planned", write)).tables

    history = [commit.operation for commit in opened(str(root)).commits(limit=2)]
    assert table.outcome is RepairOutcome.PUBLISHED
    assert history == ["repair", "mutate"]
    assert codes_of(root) == ["past_damaged"]


def test_a_repair_is_planned_again_when_its_table_was_repaired_meanwhile(sound: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(sound, tmp_path / "g").uri)
    harm.removed(harm.version_of)(root)

    late = mended(root, confirm=True, faults=AtPoint("repair.planned", lambda: mended(root, confirm=True)))

    assert late.tables == ()
    assert [commit.operation for commit in opened(str(root)).commits(limit=2)] == ["repair", "optimize"]


def test_rows_that_are_written_while_a_repair_is_planned_are_not_lost(sound: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(sound, tmp_path / "g").uri)
    shutil.rmtree(harm.index_files(root, "age_btree")[0].parent)  # which no load asks

    def write() -> None:
        opened(str(root)).load([person("late")], mode="append")

    (table,) = mended(root, confirm=True, faults=AtPoint("repair.planned", write)).tables

    assert table.outcome is RepairOutcome.PUBLISHED
    assert '"late"' in exported(opened(str(root))).decode()
    assert codes_of(root) == []


def test_a_repair_of_a_manifest_that_died_is_told(sound: og.Graph, tmp_path: Path) -> None:
    harm.copied(sound, tmp_path / "g")
    harm.truncated(harm.newest_manifest)(tmp_path / "g")

    def fail() -> None:
        raise InjectedFaultError("repair.aside")

    with pytest.raises(InjectedFaultError):
        mended(tmp_path / "g", confirm=True, force=True, faults=AtPoint("repair.aside", fail))
    told = codes_of(tmp_path / "g")
    mended(tmp_path / "g", confirm=True)

    assert "repair_unfinished" in told
    assert "repair_unfinished" not in codes_of(tmp_path / "g")


@pytest.mark.parametrize("point", ["repair.aside", "repair.beyond"])
def test_a_late_repair_takes_nothing_that_was_published_under_a_freed_number(
    point: str, sound: og.Graph, tmp_path: Path
) -> None:
    root = Path(harm.copied(sound, tmp_path / "g").uri)
    opened(str(root)).mutate('query q() { insert P { name: "lost" } }')
    harm.truncated(harm.newest_manifest)(root)
    store = GraphStorage(parse_uri(str(root)), runtime())
    seen_before = inspect_manifest(store, "main", MANIFEST)
    late: list[object] = []

    def meanwhile() -> None:
        opened(str(root)).load([person("kept")], mode="append")
        with pytest.raises(og.ConflictError) as refused:
            put_aside(store, seen_before)
        late.append(refused.value)

    done = mended(root, confirm=True, force=True, faults=AtPoint(point, meanwhile))

    assert [one.outcome for one in done.manifests] == [RepairOutcome.PUBLISHED]
    assert len(late) == 1
    assert '"kept"' in exported(opened(str(root))).decode()
    assert harm.codes(str(root), FindingSeverity.ERROR) == []


def test_two_repairs_of_one_manifest_make_one_sound_graph(sound: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(sound, tmp_path / "g").uri)
    before = exported(sound)
    opened(str(root)).branches.create("late")
    harm.truncated(harm.newest_manifest)(root)

    def other() -> None:
        mended(root, confirm=True, force=True)

    done = mended(root, confirm=True, force=True, faults=AtPoint("repair.looked", other))

    assert (done.manifests, done.tables) == ((), ())
    assert exported(opened(str(root))) == before
    assert [one.operation for one in opened(str(root)).commits(limit=2)] == ["repair", "optimize"]
    assert harm.codes(str(root), FindingSeverity.ERROR) == []


def test_a_repair_never_pins_what_a_cleanup_has_taken_meanwhile(sound: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(sound, tmp_path / "g").uri)
    harm.removed(harm.data_file)(root)  # which no cleanup reads
    pass_time(str(root), DAY)

    def clean_up() -> None:
        opened(str(root)).cleanup(keep=1, grace=timedelta(0), confirm=True)

    (table,) = mended(root, confirm=True, faults=AtPoint("repair.planned", clean_up)).tables

    assert (table.outcome, table.plan.certainty) == (RepairOutcome.REFUSED, Certainty.SUSPICIOUS)
    assert table.plan.target is not None
    assert table.plan.target.rows == 0  # as it was made: all that cleanups leave for ever
    assert [one.operation for one in opened(str(root)).commits(limit=1)] == ["optimize"]


@pytest.mark.parametrize("point", ["cleanup.listed", "cleanup.floor", "cleanup.marked", "cleanup.swept"])
def test_a_repair_never_pins_what_a_cleanup_is_about_to_take(point: str, sound: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(sound, tmp_path / "g").uri)
    before = exported(sound)
    harm.removed(harm.data_file)(root)
    pass_time(str(root), DAY)
    found: list[RepairResult] = []

    def repair() -> None:
        if not found:
            found.append(mended(root, confirm=True))

    opened(str(root), faults=AtPoint(point, repair)).cleanup(keep=1, grace=timedelta(0), confirm=True)

    ((table,),) = (one.tables for one in found)
    if table.outcome is RepairOutcome.PUBLISHED:  # before the cleanup had said what it gives up: it keeps this then
        assert exported(opened(str(root))) == before
    else:
        assert table.outcome is RepairOutcome.REFUSED
        assert [one.operation for one in opened(str(root)).commits(limit=1)] == ["optimize"]
    assert (table.outcome is RepairOutcome.PUBLISHED) == (point == "cleanup.listed")


def test_what_only_a_cleanup_has_given_up_is_gone_back_to_when_that_is_forced(sound: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(sound, tmp_path / "g").uri)
    before = exported(sound)
    harm.removed(harm.data_file)(root)
    pass_time(str(root), DAY)

    def end() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        opened(str(root), faults=AtPoint("cleanup.marked", end)).cleanup(keep=1, grace=timedelta(0), confirm=True)

    (refused,) = mended(root, confirm=True).tables
    (forced,) = mended(root, confirm=True, force=True).tables

    assert (refused.outcome, forced.outcome) == (RepairOutcome.REFUSED, RepairOutcome.PUBLISHED)
    assert refused.plan.certainty is Certainty.UNVERIFIABLE
    assert "a cleanup has collected" in refused.plan.reasons[-1]
    assert exported(opened(str(root))) == before


def test_what_a_repair_went_back_to_survives_every_later_cleanup(sound: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(sound, tmp_path / "g").uri)
    before = exported(sound)
    harm.removed(harm.data_file)(root)
    pass_time(str(root), DAY)

    (table,) = mended(root, confirm=True).tables
    opened(str(root)).cleanup(keep=1, grace=timedelta(0), confirm=True)

    assert table.outcome is RepairOutcome.PUBLISHED
    assert exported(opened(str(root))) == before
    assert codes_of(root) == []


def test_a_compaction_beside_a_repair_brings_nothing_back_that_is_lost(sound: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(sound, tmp_path / "g").uri)
    before = exported(sound)
    opened(str(root)).load([person("d")], mode="append")
    found: list[RepairResult] = []

    def damage_and_repair() -> None:
        harm.removed(harm.version_of)(root)
        found.append(mended(root, confirm=True, force=True))

    faults = AtPoint("upkeep.compacted", damage_and_repair)
    opened(str(root), faults=faults).optimize(types=["P"])

    assert [one.outcome for one in found[0].tables] == [RepairOutcome.PUBLISHED]
    assert exported(opened(str(root))) == before
    assert harm.codes(str(root), FindingSeverity.ERROR) == []


class CrashError(BaseException):
    """The process died here: nothing that would run behind it does."""


def dies() -> None:
    raise CrashError


@pytest.mark.parametrize("point", [one for one in POINTS if one.startswith("publish.")])
def test_a_repair_that_died_anywhere_is_finished_by_the_next(point: str, sound: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(sound, tmp_path / "g").uri)
    before = exported(sound)
    for key in ("node:P", "edge:Knows"):
        shutil.rmtree(harm.table_path(root, key) / "_indices")

    with pytest.raises(CrashError):
        mended(root, confirm=True, faults=AtPoint(point, dies))
    mended(root, confirm=True)

    repaired = [one for one in opened(str(root)).commits() if one.operation == "repair"]
    assert len(repaired) == 1
    assert exported(opened(str(root))) == before
    assert harm.codes(str(root), FindingSeverity.ERROR) == []
