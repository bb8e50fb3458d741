"""`check` finds every damage, says where it is and what to do, and finds nothing in a graph that has none."""

import os
import shutil
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import lance
import pytest

import damaging as harm
import omnigraph as og
from collecting import SkewedClock, names, pass_time
from omnigraph.commit.publisher import arm
from omnigraph.ops.check import CheckCall, check
from omnigraph.ops.check_findings import CODES, FindingSeverity
from omnigraph.ops.open import open_session
from omnigraph.runtime import Runtime
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.integrity_check import TableListing
from worlds import FAST, runtime


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return harm.made(tmp_path_factory.mktemp("sound") / "g")


def test_a_sound_graph_gives_no_finding(sound: og.Graph) -> None:
    assert harm.codes(sound) == harm.codes(sound, deep=True) == harm.codes(sound, quick=True) == []


def test_everything_that_is_there_is_counted(sound: og.Graph) -> None:
    found = og.check_graph(sound.uri, runtime=runtime())

    assert found.branches == ("main", "side")
    assert found.commits == 10
    assert found.versions == 5  # the people differ from branch to branch, three tables don't
    assert found.rows_read > 10
    assert found.files > 20
    assert not found.has_errors


DAMAGES: dict[str, tuple[harm.Damage, list[str]]] = {
    "data file removed": (harm.removed(harm.data_file), ["file_missing"]),
    "data file truncated": (harm.truncated(harm.data_file), ["file_damaged"]),
    "data file emptied": (harm.emptied(harm.data_file), ["file_damaged"]),
    "data file zeroed": (harm.zeroed(harm.data_file), ["file_damaged"]),
    "deletion file removed": (harm.removed(harm.deletion_file), ["file_missing"]),
    "deletion file emptied": (harm.emptied(harm.deletion_file), ["file_damaged"]),
    "deletion file zeroed": (harm.zeroed(harm.deletion_file), ["file_damaged"]),
    "version file removed": (harm.removed(harm.version_of), ["version_missing"]),
    "version file truncated": (harm.truncated(harm.version_of), ["version_damaged"]),
    "version file emptied": (harm.emptied(harm.version_of), ["version_damaged"]),
    "version file zeroed": (harm.zeroed(harm.version_of), ["version_damaged"]),
    "table removed": (harm.lose_table, ["version_missing"]),
    "index removed": (harm.lose_index, ["index_damaged"]),
    "part of an index removed": (harm.lose_part_of_index, ["index_damaged"]),
    "index zeroed": (harm.zero_index, ["index_damaged"]),
    "Lance's own cleanup": (harm.foreign_cleanup, ["file_missing", "index_damaged"]),
    "rows miscounted": (harm.miscount, ["row_count_differs"]),
    "manifest removed": (harm.lose_manifest, ["manifest_missing"]),
    "branch's manifest removed": (harm.lose_branch_manifest, ["branch_manifest_missing"]),
    "manifest's version truncated": (harm.truncated(harm.newest_manifest), ["manifest_damaged"]),
    "manifest's version emptied": (harm.emptied(harm.newest_manifest), ["manifest_damaged"]),
    "manifest's version zeroed": (harm.zeroed(harm.newest_manifest), ["manifest_damaged"]),
    "manifest's head removed": (harm.removed(harm.manifest_head), ["manifest_damaged"]),
    "manifest's head emptied": (harm.emptied(harm.manifest_head), ["manifest_damaged"]),
    "manifest's head zeroed": (harm.zeroed(harm.manifest_head), ["manifest_damaged"]),
    "branch's version truncated": (harm.truncated(harm.side_manifest), ["manifest_damaged"]),
    "manifest contradicts itself": (harm.lose_pin, ["manifest_damaged"]),
    "another stamp": (harm.restamp, ["format_refused"]),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_every_damage_is_found(name: str, sound: og.Graph, tmp_path: Path) -> None:
    damage, expected = DAMAGES[name]
    harm.copied(sound, tmp_path / "g")
    damage(tmp_path / "g")

    found = og.check_graph(str(tmp_path / "g"), runtime=runtime())

    errors = [one for one in found.findings if one.severity is FindingSeverity.ERROR]
    assert sorted({one.code for one in errors}) == expected
    assert found.has_errors
    assert all(one.thing and one.place and one.message and one.way_out for one in errors)


def test_a_quick_check_finds_what_files_tell_and_reads_no_row(sound: og.Graph, tmp_path: Path) -> None:
    harm.copied(sound, tmp_path / "g")
    harm.removed(harm.data_file)(tmp_path / "g")

    found = og.check_graph(str(tmp_path / "g"), quick=True, runtime=runtime())

    assert {one.code for one in found.findings} == {"file_missing"}
    assert found.rows_read == 0


def test_a_finding_says_which_branches_show_it(sound: og.Graph, tmp_path: Path) -> None:
    harm.copied(sound, tmp_path / "g")
    harm.removed(harm.data_file)(tmp_path / "g")
    harm.removed(harm.version_of)(tmp_path / "g")

    found = og.check_graph(str(tmp_path / "g"), runtime=runtime()).findings
    only = og.check_graph(str(tmp_path / "g"), branch="side", runtime=runtime()).findings

    assert {one.code: one.branches for one in found if one.severity is FindingSeverity.ERROR} == {
        "version_missing": ("main",),
        "file_missing": ("side",),
    }
    assert {one.code for one in only} == {"file_missing"}


HARMLESS: dict[str, tuple[harm.Damage, str]] = {
    "a moved head": (harm.foreign_append, "head_moved"),
    "a broken sidecar": (harm.garbage_sidecar, "sidecar_broken"),
    "another schema copy": (harm.change_schema_copy, "schema_copy_differs"),
    "a stranger at the root": (lambda root: (root / "notes.txt").write_text("mine"), "foreign_object"),
    "a leftover of a job": (lambda root: _left_over(root, "__recovery/01X-1.note"), "recovery_leftover"),
    "a branch that never was": (
        lambda root: shutil.copytree(root / "__manifest", root / "__branches" / "01NOBODY"),
        "manifest_unregistered",
    ),
    "a data file of a dead write": (lambda root: _left_over(root, "nodes/{P}/data/abc.lance"), "unused_files"),
}


def _left_over(root: Path, key: str) -> None:
    path = root / key.format(P=harm.table_path(root, "node:P").name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"left over")


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_harmless_is_told_and_is_no_error(name: str, sound: og.Graph, tmp_path: Path) -> None:
    damage, expected = HARMLESS[name]
    harm.copied(sound, tmp_path / "g")
    damage(tmp_path / "g")

    found = og.check_graph(str(tmp_path / "g"), runtime=runtime())

    assert expected in {one.code for one in found.findings}
    assert not found.has_errors


def test_orphans_are_told_with_their_sizes(sound: og.Graph, tmp_path: Path) -> None:
    harm.copied(sound, tmp_path / "g")
    _left_over(tmp_path / "g", "nodes/{P}/data/abc.lance")

    (found,) = og.check_graph(str(tmp_path / "g"), runtime=runtime()).findings

    assert (found.count, found.nbytes) == (1, len(b"left over"))


def test_findings_come_in_one_order_the_worst_first(sound: og.Graph, tmp_path: Path) -> None:
    harm.copied(sound, tmp_path / "g")
    for damage, _ in (HARMLESS["a moved head"], HARMLESS["a broken sidecar"], DAMAGES["data file removed"]):
        damage(tmp_path / "g")

    found = og.check_graph(str(tmp_path / "g"), runtime=runtime()).findings
    again = og.check_graph(str(tmp_path / "g"), runtime=runtime()).findings

    assert found == again
    ranks = [("error", "warning", "note").index(one.severity.value) for one in found]
    assert ranks == sorted(ranks)
    assert set(ranks) == {0, 1, 2}


def test_a_check_changes_nothing(sound: og.Graph, tmp_path: Path) -> None:
    harm.copied(sound, tmp_path / "g")
    harm.truncated(harm.newest_manifest)(tmp_path / "g")
    before = _tree(tmp_path / "g")

    og.check_graph(str(tmp_path / "g"), runtime=runtime())
    og.repair_graph(str(tmp_path / "g"), runtime=runtime())

    assert _tree(tmp_path / "g") == before


def _tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_what_an_open_graph_has_in_memory_hides_nothing(sound: og.Graph, tmp_path: Path) -> None:
    graph = harm.copied(sound, tmp_path / "g")
    graph.query("query q() { match { $p: P } return { $p.name } }")
    harm.removed(harm.data_file)(tmp_path / "g")

    assert "file_missing" in [one.code for one in graph.check().findings]


def test_an_empty_place_is_no_graph(tmp_path: Path) -> None:
    with pytest.raises(og.NotAGraphError):
        og.check_graph(str(tmp_path / "nothing"), runtime=runtime())
    with pytest.raises(og.NotAGraphError):
        og.repair_graph(str(tmp_path / "nothing"), runtime=runtime())


def test_a_branch_that_is_not_there_is_named_with_the_one_that_was_meant(sound: og.Graph) -> None:
    with pytest.raises(og.BranchMissingError, match="side"):
        sound.check(branch="sude")


def test_progress_is_told(sound: og.Graph) -> None:
    told: list[str] = []

    sound.check(progress=lambda one: told.append(one.phase))

    assert "files of node:P" in told
    assert "the ends of edge:Knows" in told


def test_a_part_of_the_history_that_is_gone_is_told(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), "node N { v: I64 }", runtime=runtime(replace(FAST, head_commits=3)))
    for number in range(6):
        graph.load([{"type": "N", "data": {"v": number}}], mode="append")
    manifest = lance.dataset(f"{graph.uri}/__manifest")
    (tmp_path / "g" / "__manifest" / "data" / manifest.get_fragments()[0].metadata.files[0].path).unlink()

    found = og.check_graph(graph.uri, runtime=runtime()).findings

    assert [(one.code, one.thing) for one in found] == [("journal_damaged", "main")]


@pytest.mark.parametrize("seconds, code", [(3600.0, "operation_in_flight"), (0.1, "operation_dead")])
def test_operations_are_judged_as_recovery_would(sound: og.Graph, tmp_path: Path, seconds: float, code: str) -> None:
    graph = harm.copied(sound, tmp_path / "g")
    options = replace(FAST, lease_seconds=seconds, heartbeat_seconds=seconds / 10)
    session = open_session(graph.uri, is_read_only=True, runtime=runtime(options))
    arm(session.log, session.head(), operation="load", actor="ada").lease.stop()
    time.sleep(0.2)

    found = og.check_graph(graph.uri, runtime=runtime(options))

    assert [finding.code for finding in found.findings] == [code]


@pytest.mark.parametrize("hours", [-48, 48])
@pytest.mark.parametrize("age, code", [(0, "operation_in_flight"), (1, "operation_dead")])
def test_leases_are_judged_by_the_store_s_clock(
    sound: og.Graph, tmp_path: Path, age: int, code: str, hours: int
) -> None:
    graph = harm.copied(sound, tmp_path / "g")
    options = replace(FAST, lease_seconds=600, heartbeat_seconds=600)
    session = open_session(graph.uri, is_read_only=True, runtime=runtime(options))
    arm(session.log, session.head(), operation="load", actor="ada").lease.stop()
    pass_time(graph.uri, timedelta(hours=age))
    before = names(graph.uri)

    wrong = Runtime(options=options, clock=SkewedClock(timedelta(hours=hours)))
    found = og.check_graph(graph.uri, runtime=wrong)

    assert [finding.code for finding in found.findings] == [code]
    assert names(graph.uri) == before


def test_a_check_of_what_may_not_be_written_to_judges_by_its_own_clock(sound: og.Graph, tmp_path: Path) -> None:
    graph = harm.copied(sound, tmp_path / "g")
    options = replace(FAST, lease_seconds=600, heartbeat_seconds=600)
    session = open_session(graph.uri, is_read_only=True, runtime=runtime(options))
    arm(session.log, session.head(), operation="load", actor="ada").lease.stop()

    with session.store.runtime.telemetry.count_requests() as counted:
        found = check(session, CheckCall(is_quick=True))

    assert [finding.code for finding in found.findings] == ["operation_in_flight"]
    assert {key.operation for key in counted.counts} <= {"get", "head", "list"}


@pytest.mark.parametrize("size", [200_000, 5_000_000])  # several values share a file; a very large one has its own
def test_a_file_of_large_values_that_is_gone_or_cut_is_found(size: int, tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), "node N { v: String @key  b: Blob? }", runtime=runtime())
    graph.load([{"type": "N", "data": {"v": f"{n}", "b": bytes(size)}} for n in range(2)], mode="append")
    graph.load(
        [{"type": "N", "data": {"v": "small", "b": b"small"}}, {"type": "N", "data": {"v": "none"}}], mode="append"
    )
    file, *_ = sorted((tmp_path / "g" / "nodes").rglob("*.blob"))
    sound = harm.codes(graph)

    os.truncate(file, size // 2)
    cut = harm.codes(graph)
    file.unlink()
    gone = harm.codes(graph)

    assert (sound, cut) == ([], ["file_damaged"])
    assert gone[0] == "file_missing"


READ = "query q() { match { $p: P } return { $p.name, $p.age } }"
UNREADABLE = {
    "data file emptied": harm.emptied(harm.data_file),
    "data file zeroed": harm.zeroed(harm.data_file),
    "data file removed": harm.removed(harm.data_file),
    "deletion file emptied": harm.emptied(harm.deletion_file),
    "deletion file zeroed": harm.zeroed(harm.deletion_file),
    "version file zeroed": harm.zeroed(harm.version_of),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_read_of_what_is_damaged_names_it_and_the_way_out(name: str, sound: og.Graph, tmp_path: Path) -> None:
    harm.copied(sound, tmp_path / "g")
    UNREADABLE[name](tmp_path / "g")

    with pytest.raises(og.PinUnreadableError, match="omnigraph repair"):
        og.open_graph(str(tmp_path / "g"), read_only=True, runtime=runtime()).query(READ)


def test_a_list_that_was_outrun_by_a_writer_is_no_damage(
    sound: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = harm.copied(sound, tmp_path / "g")
    fresh = harm.manifest_head(tmp_path / "g").name
    looks: list[str] = []

    def outrun(store: GraphStorage, path: str) -> TableListing:
        looks.append(path)
        listed = store.objects.list_under(path)
        return TableListing(path, [info for info in listed if len(looks) > 1 or not info.key.endswith(fresh)])

    monkeypatch.setattr("omnigraph.commit.manifest_check.list_table", outrun)

    assert harm.codes(graph) == []
    assert looks[:2] == ["__manifest", "__manifest"]


def test_every_code_is_explained_on_the_page_about_recovering() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "recover.md").read_text(encoding="utf-8")

    rows = [f"| `{name}` | {one.severity.value} | {one.meaning} | {one.way_out} |" for name, one in CODES.items()]
    assert [row for row in rows if row not in page] == []
