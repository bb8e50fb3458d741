"""Where going back would lose more, `repair --force` leaves out the rows that are gone."""

from pathlib import Path

import pytest

import damaging as harm
import omnigraph as og
from earlier_release import without_checksums
from omnigraph.cli.main import main
from omnigraph.ops.check_findings import FindingSeverity
from omnigraph.ops.repair_plan import Certainty, Remedy
from omnigraph.ops.repair_result import RepairOutcome
from repairing import SCHEMA, mended, person
from upkeep_calls import opened, optimized
from worlds import runtime

FIRST = [person(f"a{n}") for n in range(3)]
SECOND = [person(f"b{n}") for n in range(5)]
THIRD = [person(f"c{n}") for n in range(4)]


def parted_graph(place: Path) -> og.Graph:
    """Three files of people, and edges from and to all of them."""
    graph = og.create_graph(str(place), SCHEMA, runtime=runtime())
    for part in (FIRST, SECOND, THIRD):
        graph.load(part, mode="append")
    graph.load([harm.knows("a0", "b0"), harm.knows("b1", "c0"), harm.knows("c0", "c1")], mode="append")
    return graph


@pytest.fixture(scope="module")
def parted(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return parted_graph(tmp_path_factory.mktemp("parted") / "g")


@pytest.fixture(scope="module")
def unrecorded(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    with without_checksums():
        return parted_graph(tmp_path_factory.mktemp("unrecorded") / "g")


def file_of(root: Path, number: int) -> Path:
    """The file of one of the parts."""
    name = harm.pinned(root, "node:P").get_fragments()[number].metadata.files[0].path
    return harm.table_path(root, "node:P") / "data" / name


def names(root: Path) -> list[str]:
    found = opened(str(root)).query("query q() { match { $p: P } return { $p.name as name } }")
    return sorted(row["name"] for row in found.rows())


HARM = {"removed": harm.removed, "cut": harm.truncated, "emptied": harm.emptied, "zeroed": harm.zeroed}


@pytest.mark.parametrize("way", HARM)
@pytest.mark.parametrize("kind", ["parted", "unrecorded"])
def test_only_the_rows_of_the_damaged_file_are_lost(
    way: str, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    root = Path(harm.copied(request.getfixturevalue(kind), tmp_path / "g").uri)
    HARM[way](lambda root: file_of(root, 0))(root)

    refused = mended(root, confirm=True)
    forced = mended(root, confirm=True, force=True)

    (table,) = refused.tables
    assert (table.plan.remedy, table.plan.certainty) == (Remedy.WITHOUT_ROWS, Certainty.SUSPICIOUS)
    assert (table.outcome, table.plan.lost_rows, table.plan.pin.rows) == (RepairOutcome.REFUSED, 3, 12)
    assert "3 of 12 rows can't be read" in table.plan.reasons[-1]
    assert table.to_json()["rows_after"] == 9
    assert [one.outcome for one in forced.tables] == [RepairOutcome.PUBLISHED]
    assert names(root) == sorted(row["data"]["name"] for row in (*SECOND, *THIRD))  # type: ignore[index]  # a record
    assert mended(root, deep=True).tables == ()


def test_the_preview_tells_of_edges_that_lose_an_end(
    parted: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(harm.copied(parted, tmp_path / "g").uri)
    file_of(root, 1).unlink()
    before = names_of_files(root)

    code = main(["repair", str(root)])

    told = capsys.readouterr().out
    assert code == 0
    assert "without rows: 12 → 7 rows" in told
    assert "5 of 12 rows can't be read; the newest whole version before would lose 9" in told
    assert "ends of Knows without a node" in told
    assert names_of_files(root) == before


def names_of_files(root: Path) -> set[Path]:
    return {path for path in root.rglob("*") if path.is_file()}


def test_going_back_is_chosen_when_it_loses_no_more(parted: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(parted, tmp_path / "g").uri)
    file_of(root, 2).unlink()

    (table,) = mended(root).tables

    assert table.plan.remedy is Remedy.EARLIER_VERSION
    assert "would lose 4 of 12, which is no less" in table.plan.reasons[-1]


def test_indexes_know_nothing_of_rows_that_are_left_out(tmp_path: Path) -> None:
    graph = parted_graph(tmp_path / "g")
    optimized(graph)
    for letter in "de":
        graph.load([person(f"{letter}{n}") for n in range(8)], mode="append")
    root = Path(graph.uri)
    assert any(index.covered for index in opened(str(root)).indexes())
    file_of(root, 0).unlink()

    (table,) = mended(root, confirm=True, force=True).tables

    found = og.check_graph(str(root), runtime=runtime(), deep=True)
    assert table.plan.remedy is Remedy.WITHOUT_ROWS
    assert {name[0] for name in names(root)} == {"d", "e"}
    assert {one.code for one in found.findings if one.severity is FindingSeverity.ERROR} == {"end_missing"}
