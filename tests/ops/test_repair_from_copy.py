"""`repair --from` puts damaged files back from a copy of the graph: verified, bit for bit, and nothing else."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import damaging as harm
import omnigraph as og
from earlier_release import without_checksums
from omnigraph.cli.main import main
from omnigraph.errors import BadArgumentError, Kind
from omnigraph.ops.repair_result import FileRepair, RepairOutcome
from omnigraph.storage.layout import MANIFEST, VERSION_NOTE
from raised_codes import has_code
from upkeep_calls import exported, opened
from worlds import runtime


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """A graph with two branches, a tag, deletions, indexes and a past."""
    graph = harm.made(tmp_path_factory.mktemp("whole") / "g")
    graph.tags.create("kept")
    return graph


def contents(root: Path) -> dict[str, bytes]:
    """Every file of a graph."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def put_back(root: Path, source: Path, *, confirm: bool = True, deep: bool = False) -> tuple[FileRepair, ...]:
    """What a repair from a copy says, by a process of its own."""
    return og.repair_graph(str(root), source=source, confirm=confirm, deep=deep, runtime=runtime()).files


def flip(path: Path, at: float = 0.5) -> None:
    """Change one bit."""
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 4
    path.write_bytes(data)


def flipped(find: Callable[[Path], Path]) -> harm.Damage:
    return lambda root: flip(find(root))


def old_data(root: Path) -> Path:
    """A data file that only the past needs: that of people before they were compacted."""
    table = harm.table_path(root, "node:P")
    present = {file.path for one in harm.pinned(root, "node:P").get_fragments() for file in one.metadata.files}
    shown = [one for branch in ("main", "side") for one in harm.pinned(root, "node:P", branch).get_fragments()]
    present |= {file.path for one in shown for file in one.metadata.files}
    return next(path for path in sorted((table / "data").glob("*.lance")) if path.name not in present)


def lose_newest_of_main(root: Path) -> None:
    """The newest version of the manifest and the rows that it names are gone."""
    head = harm.manifest_head(root)
    harm.newest_manifest(root).unlink()
    head.unlink()


DAMAGES: dict[str, harm.Damage] = {
    "data flipped": flipped(harm.data_file),
    "data gone": harm.removed(harm.data_file),
    "data cut": harm.truncated(harm.data_file),
    "data empty": harm.emptied(harm.data_file),
    "old data flipped": flipped(old_data),
    "deletions flipped": flipped(harm.deletion_file),
    "deletions gone": harm.removed(harm.deletion_file),
    "version flipped": flipped(harm.version_of),
    "version gone": harm.removed(harm.version_of),
    "version cut": harm.truncated(harm.version_of),
    "index gone": harm.lose_index,
    "part of index gone": harm.lose_part_of_index,
    "index zeroed": harm.zero_index,
    "table gone": harm.lose_table,
    "manifest version flipped": flipped(harm.newest_manifest),
    "manifest version gone": harm.removed(harm.newest_manifest),
    "manifest version empty": harm.emptied(harm.newest_manifest),
    "manifest head flipped": flipped(harm.manifest_head),
    "manifest head gone": harm.removed(harm.manifest_head),
    "manifest head and version gone": lose_newest_of_main,
    "branch manifest flipped": flipped(harm.side_manifest),
    "branch manifest gone": harm.removed(harm.side_manifest),
}


def needed(files: dict[str, bytes]) -> dict[str, bytes]:
    """Without what nobody reads, or is derived: transactions, hints, the notes of manifests."""
    spared = ("_transactions/", "latest_version_hint", VERSION_NOTE, "_derived/")
    return {name: data for name, data in files.items() if not any(one in name for one in spared)}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_comes_back_bit_for_bit(name: str, whole: og.Graph, tmp_path: Path) -> None:
    root, copy = (Path(harm.copied(whole, tmp_path / one).uri) for one in ("g", "copy"))
    before, rows = needed(contents(root)), exported(opened(str(root)))
    DAMAGES[name](root)

    planned = put_back(root, copy, confirm=False)
    untouched = contents(root)
    done = put_back(root, copy)

    assert planned
    assert {one.outcome for one in planned} == {RepairOutcome.PLANNED}
    assert contents(root).keys() >= untouched.keys()
    assert {one.outcome for one in done} == {RepairOutcome.PUBLISHED}
    assert {name: data for name, data in needed(contents(root)).items() if name in before} == before
    assert exported(opened(str(root))) == rows
    assert put_back(root, copy) == ()
    assert opened(str(root)).commits(limit=1)[0].operation != "repair"


def test_a_clone_is_as_good_as_a_backup(whole: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(whole, tmp_path / "g").uri)
    before = needed(contents(root))
    og.clone_graph(str(root), str(tmp_path / "clone"), runtime=runtime())
    flip(harm.data_file(root))
    harm.manifest_head(root).unlink()

    code = main(["repair", str(root), "--from", str(tmp_path / "clone"), "--confirm"])

    assert code == 0
    assert needed(contents(root)) == before


def test_a_preview_writes_nothing(whole: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, copy = (Path(harm.copied(whole, tmp_path / one).uri) for one in ("g", "copy"))
    file = harm.data_file(root)
    flip(file)
    before = contents(root)

    code = main(["repair", str(root), "--from", str(copy)])

    told = capsys.readouterr().out
    assert code == 0
    assert contents(root) == before
    assert f"node:P: {file.relative_to(root)}" in told
    assert "it does not match its checksum" in told
    assert "nothing was changed" in told


def test_a_sound_graph_is_left_as_it_is(whole: og.Graph, tmp_path: Path) -> None:
    root, copy = (Path(harm.copied(whole, tmp_path / one).uri) for one in ("g", "copy"))
    before = contents(root)

    found = put_back(root, copy, deep=True)

    assert found == ()
    assert contents(root) == before


def test_a_copy_with_the_same_damage_is_not_taken(whole: og.Graph, tmp_path: Path) -> None:
    root, copy = (Path(harm.copied(whole, tmp_path / one).uri) for one in ("g", "copy"))
    flip(harm.data_file(root))
    flip(harm.data_file(copy), 0.3)
    before = contents(root)

    (found,) = put_back(root, copy)

    assert found.outcome is RepairOutcome.REFUSED
    assert found.trouble == "the copy does not match its checksum either"
    assert contents(root) == before


def test_what_the_copy_does_not_have_stays_as_it_is(whole: og.Graph, tmp_path: Path) -> None:
    root, copy = (Path(harm.copied(whole, tmp_path / one).uri) for one in ("g", "copy"))
    opened(str(root)).load(harm.people("z"), mode="append")
    harm.removed(harm.version_of)(root)

    code = main(["repair", str(root), "--from", str(copy), "--confirm"])

    (found,) = put_back(root, copy)
    assert code == 1
    assert (found.outcome, found.trouble) == (RepairOutcome.REFUSED, "the copy does not have it either")


def test_another_graph_is_no_copy(whole: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(whole, tmp_path / "g").uri)
    other = harm.made(tmp_path / "other")
    flip(harm.data_file(root))
    before = contents(root)

    with pytest.raises(BadArgumentError, check=has_code("another_graph")) as caught:
        put_back(root, Path(other.uri))

    assert caught.value.kind is Kind.USAGE
    assert contents(root) == before


def test_another_graph_is_no_copy_of_one_that_does_not_open(whole: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(whole, tmp_path / "g").uri)
    other = harm.made(tmp_path / "other")
    harm.lose_manifest(root)

    with pytest.raises(BadArgumentError, check=has_code("another_graph")):
        put_back(root, Path(other.uri))


def test_a_graph_is_no_copy_of_itself(whole: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(whole, tmp_path / "g").uri)

    with pytest.raises(BadArgumentError, check=has_code("nested_places")):
        put_back(root, root)


def test_a_version_that_a_copy_has_written_itself_is_not_taken(whole: og.Graph, tmp_path: Path) -> None:
    root, copy = (Path(harm.copied(whole, tmp_path / one).uri) for one in ("g", "copy"))
    for one, name in ((root, "ours"), (copy, "theirs")):
        opened(str(one)).load(harm.people(name), mode="append")
    assert harm.newest_number(root) == harm.newest_number(copy)
    lose_newest_of_main(root)
    (root / MANIFEST / VERSION_NOTE).unlink()

    found = put_back(root, copy)

    assert [one.outcome for one in found] == [RepairOutcome.REFUSED]
    assert found[0].trouble is not None
    assert "belongs to this graph" in found[0].trouble


def test_a_manifest_that_is_gone_comes_back(whole: og.Graph, tmp_path: Path) -> None:
    root, copy = (Path(harm.copied(whole, tmp_path / one).uri) for one in ("g", "copy"))
    rows = exported(opened(str(root)))
    harm.lose_manifest(root)

    found = put_back(root, copy)

    assert {one.outcome for one in found} == {RepairOutcome.PUBLISHED}
    assert exported(opened(str(root))) == rows
    assert not og.check_graph(str(root), runtime=runtime()).has_errors


def test_a_link_in_the_copy_is_refused(whole: og.Graph, tmp_path: Path) -> None:
    root, copy = (Path(harm.copied(whole, tmp_path / one).uri) for one in ("g", "copy"))
    file = harm.data_file(copy)
    shutil.move(file, tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    harm.data_file(root).unlink()

    with pytest.raises(og.OmnigraphError) as caught:
        put_back(root, copy)

    assert caught.value.code == "foreign_file"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of an earlier release, whose checksums were recorded in lists since."""
    root = tmp_path_factory.mktemp("recorded") / "g"
    with without_checksums():
        harm.made(root).close()
    assert og.check_graph(str(root), record=True, runtime=runtime()).recorded
    return root


def any_index_file(root: Path) -> Path:
    """A file of an index that main shows."""
    return next(path for path in sorted(root.glob("nodes/*/_indices/*/*")) if path.stat().st_size > 100)


@pytest.mark.parametrize("find", [harm.data_file, any_index_file])
def test_a_file_of_a_list_is_fetched_only_if_the_copy_has_the_recorded_one(
    recorded: Path, tmp_path: Path, find: Callable[[Path], Path]
) -> None:
    shutil.copytree(recorded, tmp_path / "g")
    shutil.copytree(recorded, tmp_path / "copy")
    damaged = find(tmp_path / "g")
    flip(damaged)
    before = contents(tmp_path / "g")
    flip(tmp_path / "copy" / damaged.relative_to(tmp_path / "g"), at=0.3)

    refused = put_back(tmp_path / "g", tmp_path / "copy")
    after = contents(tmp_path / "g")
    fetched = put_back(tmp_path / "g", recorded)

    assert [one.outcome for one in refused] == [RepairOutcome.REFUSED]
    assert after == before
    assert [one.outcome for one in fetched] == [RepairOutcome.PUBLISHED]
    assert contents(tmp_path / "g") == contents(recorded)
