"""Backups of a graph in a repository: incremental, complete or absent, and restored as they were."""

from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph as og
from cloning import branched, on, opened, present, readable, tree
from mutating import run
from omnigraph.errors import BadArgumentError
from omnigraph.options import Options
from raised_codes import has_code
from worlds import FAST, runtime


def backed_up(graph: og.Graph, target: Path | str, *, keep: int | None = None) -> og.BackupResult:
    """Back up with test settings."""
    return og.back_up_graph(graph.uri, str(target), keep=keep, runtime=runtime())


def restored(source: Path | str, target: Path | str, *, backup: str | None = None, options: Options = FAST) -> og.Graph:
    """Restore with test settings, and open what came of it."""
    og.restore_graph(str(source), str(target), backup=backup, runtime=runtime(options))
    return opened(target, options)


def ids(repository: Path) -> list[str]:
    return [backup.id for backup in og.list_backups(repository, runtime=runtime())]


def test_every_state_of_every_branch_is_restored(tmp_path: Path) -> None:
    graph = branched(tmp_path / "source")
    graph.tags.create("first", "review")
    before = tree(graph.uri)

    done = backed_up(graph, tmp_path / "backups")
    made = restored(tmp_path / "backups", tmp_path / "copy")

    assert readable(made) == readable(graph)
    assert [tag.name for tag in made.tags.list()] == ["first"]
    assert made.check(deep=True).findings == ()
    assert done.is_new
    assert done.backup.branches == {name: graph.snapshot(branch=name).commit.id for name in ("main", "idea", "review")}
    assert tree(graph.uri) == before


def test_a_backup_copies_what_is_new_since_the_last_one(tmp_path: Path) -> None:
    graph = branched(tmp_path / "source")
    first = backed_up(graph, tmp_path / "backups")
    tables = {path for path in tree(tmp_path / "backups") if path.startswith(("nodes/", "edges/"))}
    run(graph, 'insert Person { name: "later" }')

    second = backed_up(graph, tmp_path / "backups")

    added = {path for path in tree(tmp_path / "backups") if path.startswith(("nodes/", "edges/"))} - tables
    assert 0 < len(added) < 5 < len(tables)
    assert second.files < first.files
    assert ids(tmp_path / "backups") == [second.backup.id, first.backup.id]
    assert b'"later"' in present(restored(tmp_path / "backups", tmp_path / "new"))["main"]
    assert b'"later"' not in present(restored(tmp_path / "backups", tmp_path / "old", backup=first.backup.id))["main"]


def test_nothing_is_added_while_nothing_changes(tmp_path: Path) -> None:
    graph = branched(tmp_path / "source")
    first = backed_up(graph, tmp_path / "backups")
    before = tree(tmp_path / "backups")

    again = backed_up(graph, tmp_path / "backups")

    assert (again.is_new, again.files, again.backup.id) == (False, 0, first.backup.id)
    assert tree(tmp_path / "backups") == before


@pytest.mark.parametrize("change", ["branch", "tag", "other branch"])
def test_a_branch_and_a_tag_are_changes(change: str, tmp_path: Path) -> None:
    graph = branched(tmp_path / "source")
    backed_up(graph, tmp_path / "backups")
    match change:
        case "branch":
            graph.branches.create("more")
        case "tag":
            graph.tags.create("more")
        case _:
            on(graph, "review", 'insert Person { name: "there" }')

    assert backed_up(graph, tmp_path / "backups").is_new


def test_old_backups_are_removed_with_what_no_other_needs(tmp_path: Path) -> None:
    graph = branched(tmp_path / "source")
    made = []
    for name in ("x", "y", "z"):
        run(graph, f'insert Person {{ name: "{name}" }}')
        made.append(backed_up(graph, tmp_path / "backups").backup.id)
    # What was collected in the graph is needed by the old backups alone.
    graph.cleanup(keep=1, grace=None, confirm=True)
    run(graph, 'insert Person { name: "last" }')

    done = backed_up(graph, tmp_path / "backups", keep=2)

    assert done.removed == tuple(made[:2])
    assert ids(tmp_path / "backups") == [done.backup.id, made[2]]
    for backup, expected in ((made[2], b'"z"'), (done.backup.id, b'"last"')):
        assert expected in present(restored(tmp_path / "backups", tmp_path / backup, backup=backup))["main"]


def test_a_damaged_file_is_not_restored(tmp_path: Path) -> None:
    graph = branched(tmp_path / "source")
    backed_up(graph, tmp_path / "backups")
    file = max((tmp_path / "backups" / "nodes").rglob("*.lance"), key=lambda path: path.stat().st_size)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)

    with pytest.raises(og.CorruptError, check=has_code("backup_damaged")) as raised:
        restored(tmp_path / "backups", tmp_path / "copy")

    assert str(raised.value.facts()["key"]) in str(file)
    with pytest.raises(og.UnfinishedCloneError):
        opened(tmp_path / "copy")


@pytest.mark.parametrize("name", ["backup.json", "__manifest", "repository.json"])
def test_damage_of_a_record_or_manifest_is_told(name: str, tmp_path: Path) -> None:
    graph = branched(tmp_path / "source")
    backed_up(graph, tmp_path / "backups")
    candidates = [path for path in tree(tmp_path / "backups") if name in path]
    file = tmp_path / "backups" / candidates[0]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    run(graph, 'insert Person { name: "later" }')

    def read() -> object:
        match name:
            case "repository.json":
                return backed_up(graph, tmp_path / "backups")
            case "backup.json":
                return og.list_backups(tmp_path / "backups", runtime=runtime())
            case _:
                return restored(tmp_path / "backups", tmp_path / "copy")

    with pytest.raises(og.CorruptError, check=has_code("backup_damaged")):
        read()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    graph = branched(tmp_path / "source")
    backed_up(graph, tmp_path / "backups")
    file = next((tmp_path / "backups" / "nodes").rglob("*.lance"))
    file.unlink()

    with pytest.raises(og.CorruptError, match=file.name):
        restored(tmp_path / "backups", tmp_path / "copy")


def test_backups_of_another_graph_and_other_files_stay_apart(tmp_path: Path) -> None:
    graph, other = branched(tmp_path / "source"), branched(tmp_path / "other")
    backed_up(graph, tmp_path / "backups")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "mine").write_text("x", encoding="utf-8")
    before = tree(tmp_path)

    for target in (tmp_path / "backups", tmp_path / "files", Path(graph.uri)):
        with pytest.raises(og.PlaceTakenError):
            backed_up(other, target)
    with pytest.raises(og.PlaceTakenError):
        og.clone_graph(graph.uri, tmp_path / "backups", runtime=runtime())
    with pytest.raises(og.PlaceTakenError):
        restored(tmp_path / "backups", other.uri)
    with pytest.raises(BadArgumentError, check=has_code("nested_places")):
        backed_up(graph, Path(graph.uri) / "backups")

    assert tree(tmp_path) == before


def test_a_backup_that_is_none_is_named(tmp_path: Path) -> None:
    graph = branched(tmp_path / "source")
    backed_up(graph, tmp_path / "backups")

    for source, backup in ((tmp_path / "nothing", None), (tmp_path / "backups", "01ARZ3NDEKTSV4RRFFQ69G5FAV")):
        with pytest.raises(og.NotAGraphError):
            restored(source, tmp_path / "copy", backup=backup)
    with pytest.raises(BadArgumentError):
        backed_up(graph, tmp_path / "backups", keep=0)
    assert og.list_backups(tmp_path / "nothing", runtime=runtime()) == []


def test_a_restored_graph_can_be_backed_up_to_the_same_place(tmp_path: Path) -> None:
    """After a loss, life goes on with the restored graph: it is the same one."""
    graph = branched(tmp_path / "source")
    backed_up(graph, tmp_path / "backups")
    restored(tmp_path / "backups", tmp_path / "copy")
    again = og.open_graph(str(tmp_path / "copy"), runtime=runtime(replace(FAST)))
    run(again, 'insert Person { name: "after" }')

    backed_up(again, tmp_path / "backups")

    assert readable(restored(tmp_path / "backups", tmp_path / "third")) == readable(again)
