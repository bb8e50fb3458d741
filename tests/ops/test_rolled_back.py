"""A manifest that has lost its newest versions is not silently rolled back where something else knows of them."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

import omnigraph as og
from collecting import DAY, names, pass_time
from omnigraph.commit.manifest_check import ManifestInspection, inspect_manifest
from omnigraph.commit.recovery import recover
from omnigraph.commit.sidecar import list_sidecars
from omnigraph.errors import CorruptError
from omnigraph.ops import check_manifests
from omnigraph.ops.check import open_fresh_session
from omnigraph.ops.check_findings import FindingSeverity
from omnigraph.ops.repair_result import RepairOutcome
from omnigraph.runtime import Runtime
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import MANIFEST
from raised_codes import has_code
from rolling_back import WITNESSES, add, lose_versions, make_graph, roll_back
from worlds import FAST, runtime

CALM = runtime(replace(FAST, heartbeat_seconds=600, lease_seconds=3600))


def errors(uri: str) -> list[tuple[str, str]]:
    found = og.check_graph(uri, runtime=CALM).findings
    return [(one.code, one.thing) for one in found if one.severity is FindingSeverity.ERROR]


def details(uri: str) -> str:
    return "\n".join(one.message for one in og.check_graph(uri, runtime=CALM).findings)


@pytest.mark.parametrize(
    "witness, is_written_over",
    # An operation knows the number of its base, and nothing else of it.
    [*product(WITNESSES, [False]), *((one, True) for one in WITNESSES if one != "operation")],
)
def test_check_reports_it(tmp_path: Path, witness: str, is_written_over: bool) -> None:
    roll_back(str(tmp_path / "g"), witness, CALM, is_written_over=is_written_over)

    assert errors(str(tmp_path / "g")) == [("manifest_rolled_back", WITNESSES[witness][1])]


@pytest.mark.parametrize("witness", WITNESSES)
def test_cleanup_removes_nothing(tmp_path: Path, witness: str) -> None:
    roll_back(str(tmp_path / "g"), witness, CALM)
    pass_time(str(tmp_path / "g"), 9 * DAY)
    before = names(str(tmp_path / "g"))

    refused = []
    for is_confirmed in (False, True):
        with (
            og.open_graph(str(tmp_path / "g"), runtime=CALM) as graph,
            pytest.raises(CorruptError, check=has_code("manifest_rolled_back")) as error,
        ):
            graph.cleanup(keep=1, confirm=is_confirmed)
        refused.append(error.value.facts()["branch"])

    assert refused == [WITNESSES[witness][1]] * 2
    assert names(str(tmp_path / "g")) >= before


@pytest.mark.parametrize("witness", ["tag", "fork of a branch", "merge of main"])
def test_what_the_witness_knows_is_told(tmp_path: Path, witness: str) -> None:
    roll_back(str(tmp_path / "g"), witness, CALM)

    said = {"tag": "the tag `release`", "fork of a branch": "the branch `child`", "merge of main": "of `side`"}
    assert said[witness] in details(str(tmp_path / "g"))


@pytest.mark.parametrize("witness", WITNESSES)
def test_a_repair_accepts_the_loss_by_force_only(tmp_path: Path, witness: str) -> None:
    uri, branch = str(tmp_path / "g"), WITNESSES[witness][1]
    roll_back(uri, witness, CALM)

    preview = og.repair_graph(uri, runtime=CALM)
    refused = og.repair_graph(uri, confirm=True, runtime=CALM)
    still = errors(uri)
    done = og.repair_graph(uri, confirm=True, force=True, runtime=CALM)

    assert [one.outcome for one in preview.manifests] == [RepairOutcome.PLANNED]
    assert [one.outcome for one in refused.manifests] == [RepairOutcome.REFUSED]
    assert still == [("manifest_rolled_back", branch)]
    assert [(one.branch, one.outcome) for one in done.manifests] == [(branch, RepairOutcome.PUBLISHED)]
    assert errors(uri) == []
    assert og.repair_graph(uri, runtime=CALM).manifests == ()
    with og.open_graph(uri, runtime=CALM) as graph:
        assert graph.commits(branch=branch)[0].operation == "repair"
        graph.cleanup(keep=1, confirm=True)


def test_a_loss_after_an_accepted_one_is_noticed(tmp_path: Path) -> None:
    uri = str(tmp_path / "g")
    roll_back(uri, "tag", CALM)
    og.repair_graph(uri, confirm=True, force=True, runtime=CALM)
    with og.open_graph(uri, runtime=CALM) as graph:
        before = graph.snapshot(branch="side").manifest_version
        add(graph, "later", "side")
        graph.tags.create("second", "side")
        lose_versions(graph, "side", before)

    assert errors(uri) == [("manifest_rolled_back", "side")]


def test_a_version_that_comes_back_is_all_it_takes(tmp_path: Path) -> None:
    uri = str(tmp_path / "g")
    graph = make_graph(uri, CALM)
    before = graph.snapshot(branch="side").manifest_version
    add(graph, "late", "side")
    graph.tags.create("release", "side")
    files = {path: path.read_bytes() for path in (tmp_path / "g" / "__branches").rglob("*.manifest")}
    lose_versions(graph, "side", before)
    lost = errors(uri)

    for path, data in files.items():
        path.write_bytes(data)

    assert lost == [("manifest_rolled_back", "side")]
    assert errors(uri) == []


def test_recovery_does_not_write_over_what_an_operation_stood_on(tmp_path: Path) -> None:
    graph = roll_back(str(tmp_path / "g"), "operation", CALM)
    before = graph.snapshot().manifest_version

    session = graph._session
    session.store.runtime = Runtime(options=replace(FAST, lease_seconds=-5))
    report = recover(session.store, session.log)

    assert [reason for _, reason in report.failed if "number 3" in reason] != []
    assert session.log.head().snapshot.manifest_version == before
    assert len(list_sidecars(session.store)[0]) == 1


MEANWHILE: dict[str, Callable[[og.Graph], object]] = {
    "a branch is made": lambda graph: graph.branches.create("new"),
    "main is merged": lambda graph: graph.merge("main", into="side"),
}


@pytest.mark.parametrize("what", MEANWHILE)
def test_a_graph_that_moves_on_is_not_accused(tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Main is read before the others: what came in between is known to them and not in what was read of main."""
    uri = str(tmp_path / "g")
    graph = make_graph(uri, CALM)
    looks = []

    def look(store: GraphStorage, branch: str, path: str) -> ManifestInspection:
        found = inspect_manifest(store, branch, path)
        looks.append(path)
        if path == MANIFEST and len(looks) == 1:
            add(graph, "late")
            MEANWHILE[what](graph)
        return found

    monkeypatch.setattr(check_manifests, "inspect_manifest", look)

    found = check_manifests.check_manifests(open_fresh_session(graph._session), None)

    assert [one.code for one in found.findings if one.severity is FindingSeverity.ERROR] == []


def test_nothing_is_asked_for_on_the_way_of_a_commit(tmp_path: Path) -> None:
    graph = make_graph(str(tmp_path / "g"), CALM)
    add(graph, "c")
    with CALM.telemetry.count_requests() as usual:
        add(graph, "d")
    for number in range(5):
        graph.tags.create(f"t{number}")
        graph.branches.create(f"b{number}")
    add(graph, "e")

    with CALM.telemetry.count_requests() as counted:
        add(graph, "f")

    assert counted.count() == usual.count()
