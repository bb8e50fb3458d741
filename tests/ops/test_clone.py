"""A clone says what its source says, now and in the past, whatever others do meanwhile."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from cloning import Every, branched, cloned, differences, on, opened, present, readable, tree
from mutating import run
from omnigraph.commit.branches import BranchRegistry
from omnigraph.commit.consistent_cut import take_cut
from omnigraph.commit.gc_horizon import CommitCollectedError
from omnigraph.commit.manifest_log import ManifestLog, UnfinishedCloneError
from omnigraph.ops import clone_cut
from omnigraph.ops.clone_tables import CopyPlan, plan_tables
from omnigraph.storage.table_cache import PinUnreadableError
from upkeep_calls import AtPoint, exported, optimized
from worlds import FAST, runtime


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    return branched(tmp_path_factory.mktemp("template")).uri


@pytest.fixture
def graph(template: str, tmp_path: Path) -> og.Graph:
    return og.open_graph(str(shutil.copytree(template, tmp_path / "g")), runtime=runtime())


ONE_BY_ONE = replace(FAST, upkeep=replace(FAST.upkeep, concurrency=1))
"""One file is copied after the other."""


# --- what is in a clone -----------------------------------------------------------------------------


def test_every_state_of_every_branch_can_be_read_in_the_clone(graph: og.Graph, tmp_path: Path) -> None:
    cloned(graph, tmp_path / "c")

    made = opened(tmp_path / "c")
    assert readable(made) == readable(graph)
    assert differences(graph, made) == {}


def test_a_clone_tells_what_it_is_made_of(graph: og.Graph, tmp_path: Path) -> None:
    done = cloned(graph, tmp_path / "c")

    heads = {name: graph.snapshot(branch=name) for name in ("main", "idea", "review")}
    files = [path for path in tree(tmp_path / "c") if path.startswith(("nodes/", "edges/"))]
    assert done.to_json() == {
        "source": graph.uri,
        "target": str(tmp_path / "c"),
        "branches": {name: head.commit.id for name, head in heads.items()},
        "rows": {name: sum(pin.rows for pin in head.pins.values()) for name, head in heads.items()},
        "tables": 6,
        "versions": done.versions,
        "collected": 0,
        "files": len(files),
        "bytes": sum((tmp_path / "c" / path).stat().st_size for path in files),
    }
    assert done.versions > 6


def test_a_clone_lives_on_without_its_source_and_elsewhere(graph: og.Graph, tmp_path: Path) -> None:
    expected = readable(graph)
    cloned(graph, tmp_path / "c")

    shutil.rmtree(graph.uri)
    shutil.move(tmp_path / "c", tmp_path / "elsewhere")

    assert readable(opened(tmp_path / "elsewhere")) == expected


def test_a_clone_is_written_merged_and_maintained_like_any_graph(graph: og.Graph, tmp_path: Path) -> None:
    cloned(graph, tmp_path / "c")
    made = og.open_graph(str(tmp_path / "c"), runtime=runtime())

    run(made, 'insert Person { name: "new" } insert Knows { from: "new", to: "c" }')
    merged = made.merge("idea", into="main")
    optimized(made)

    assert merged.conflicts == ()
    assert b'"new"' in present(made)["main"]
    assert b'"from":"a"' not in present(made)["main"]
    assert b'"new"' not in present(graph)["main"]


def test_merges_find_the_same_base_in_the_clone(graph: og.Graph, tmp_path: Path) -> None:
    graph.merge("review", into="main")
    graph.branches.delete("idea")
    cloned(graph, tmp_path / "c")
    made = og.open_graph(str(tmp_path / "c"), runtime=runtime())

    done = [one.merge("review", into="main") for one in (graph, made)]

    assert [one.outcome.value for one in done] == ["already_up_to_date"] * 2


def test_the_journal_of_a_deleted_branch_that_was_merged_comes_along(graph: og.Graph, tmp_path: Path) -> None:
    graph.merge("idea", into="main")
    graph.branches.delete("idea")
    cloned(graph, tmp_path / "c")
    made = og.open_graph(str(tmp_path / "c"), runtime=runtime())

    done = [one.merge("review", into="main") for one in (graph, made)]

    assert [one.name for one in made.branches.list()] == ["main", "review"]
    assert done[0].outcome == done[1].outcome
    assert present(made)["main"] == present(graph)["main"]


def test_compacted_and_indexed_tables_are_copied_with_their_indexes(graph: og.Graph, tmp_path: Path) -> None:
    for number in range(5):
        run(graph, f'insert Person {{ name: "p{number}", email: "{number}@x" }}')
    optimized(graph)
    cloned(graph, tmp_path / "c")

    coverage = [{one.name: one.coverage for one in each.indexes()} for each in (graph, opened(tmp_path / "c"))]
    assert coverage[0] == coverage[1]
    assert 1.0 in coverage[0].values()
    assert readable(opened(tmp_path / "c")) == readable(graph)


def test_large_blobs_are_copied(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), "node F { name: String @key  data: Blob? }", runtime=runtime())
    contents = {f"f{size}": os.urandom(size) for size in (10, 200_000, 3_000_000)}
    graph.load([{"type": "F", "data": {"name": name, "data": data}} for name, data in contents.items()], mode="append")

    cloned(graph, tmp_path / "c")

    made = opened(tmp_path / "c")
    found = {name: made.blob("F", name, "data") for name in contents}
    assert {name: file.read() if file else None for name, file in found.items()} == contents


def test_a_schema_of_the_past_comes_along(graph: og.Graph, tmp_path: Path) -> None:
    before = graph.snapshot()
    graph.apply_schema(before.manifest.schema.source + "\nnode Later { name: String @key }")
    cloned(graph, tmp_path / "c")

    made = opened(tmp_path / "c")
    assert "Later" in made.schema
    assert made.snapshot(snapshot=before.commit.id).manifest.schema == before.manifest.schema
    assert (tmp_path / "c" / "_schema.pg").read_text() == graph.schema


def test_chosen_branches_come_with_those_they_were_taken_from(graph: og.Graph, tmp_path: Path) -> None:
    graph.branches.create("other")
    on(graph, "other", 'insert Person { name: "only here" }')
    cloned(graph, tmp_path / "c", branches=["idea"])

    made = opened(tmp_path / "c")
    expected = readable(graph)
    assert readable(made) == {name: expected[name] for name in ("main", "idea", "review")}
    assert len([path for path in tree(tmp_path / "c") if path.startswith("__branches/") and "_versions" in path]) == 2


def test_only_main_can_be_cloned(graph: og.Graph, tmp_path: Path) -> None:
    cloned(graph, tmp_path / "c", branches=["main"])

    made = opened(tmp_path / "c")
    assert readable(made) == {"main": readable(graph)["main"]}


def test_a_clone_of_a_clone_is_the_same_again(graph: og.Graph, tmp_path: Path) -> None:
    cloned(graph, tmp_path / "c")
    cloned(str(tmp_path / "c"), tmp_path / "d")

    assert readable(opened(tmp_path / "d")) == readable(graph)


def test_what_a_dead_write_left_is_not_copied(graph: og.Graph, tmp_path: Path) -> None:
    orphan = Path(graph.uri) / "nodes" / "left" / "data"
    orphan.mkdir(parents=True)
    (orphan / "orphan.lance").write_bytes(b"x")
    table = next((Path(graph.uri) / "nodes").glob("*/data"))
    (table / "orphan.lance").write_bytes(b"x")
    (Path(graph.uri) / "_derived").mkdir(exist_ok=True)
    (Path(graph.uri) / "_derived" / "cache").write_bytes(b"x")

    cloned(graph, tmp_path / "c")

    assert [path for path in tree(tmp_path / "c") if "orphan" in path or "_derived" in path] == []


def test_the_source_is_not_written_to(graph: og.Graph, tmp_path: Path) -> None:
    before = tree(graph.uri)

    cloned(graph, tmp_path / "c")

    assert tree(graph.uri) == before


def test_nothing_but_a_graph_is_left_at_the_target(graph: og.Graph, tmp_path: Path) -> None:
    cloned(graph, tmp_path / "c")

    assert {path.split("/")[0] for path in tree(tmp_path / "c")} == {
        "__branches",
        "__manifest",
        "_schema.pg",
        "edges",
        "nodes",
    }


def test_thousands_of_commits_come_along_from_their_sealed_journals(tmp_path: Path) -> None:
    options = replace(FAST, head_commits=4, sealed_fragments=3)
    graph = og.create_graph(str(tmp_path / "g"), "node A { v: I64 }", runtime=runtime(options))
    for number in range(30):
        run(graph, f"insert A {{ v: {number} }}")

    done = cloned(graph, tmp_path / "c")

    assert readable(opened(tmp_path / "c")) == readable(graph)
    assert done.versions == 31


def collected(graph: og.Graph) -> None:
    done = graph.cleanup(keep=1, grace=timedelta(0), confirm=True)
    assert [one.error for one in done.tables if one.error is not None] == []


def test_tags_come_along_also_those_of_deleted_branches(graph: og.Graph, tmp_path: Path) -> None:
    graph.tags.create("before", "idea")
    tagged = exported(graph, branch="idea")
    graph.branches.delete("idea")
    graph.tags.create("release", "main")
    collected(graph)
    cloned(graph, tmp_path / "c")

    made = opened(tmp_path / "c")
    assert made.tags.list() == graph.tags.list()
    assert exported(made, snapshot="before") == tagged


def outlived(graph: og.Graph) -> None:
    """Tag a branch that goes on for a while, and is deleted then."""
    graph.tags.create("before", "idea")
    on(graph, "idea", 'insert Person { name: "later" }')
    graph.branches.delete("idea")


def test_a_clone_is_sound_without_what_a_deleted_branch_did_behind_its_tag(graph: og.Graph, tmp_path: Path) -> None:
    outlived(graph)
    cloned(graph, tmp_path / "c")

    assert opened(tmp_path / "c").check(deep=True).findings == ()


def test_a_clone_with_a_tag_of_a_deleted_branch_can_be_cleaned_up(graph: og.Graph, tmp_path: Path) -> None:
    outlived(graph)
    tagged = exported(graph, snapshot="before")
    cloned(graph, tmp_path / "c")
    made = og.open_graph(str(tmp_path / "c"), runtime=runtime())

    collected(made)

    assert exported(opened(tmp_path / "c"), snapshot="before") == tagged
    assert opened(tmp_path / "c").check(deep=True).findings == ()


def test_tags_of_branches_that_stay_behind_stay_behind_too(graph: og.Graph, tmp_path: Path) -> None:
    graph.tags.create("before", "idea")
    graph.tags.create("release", "main")
    cloned(graph, tmp_path / "c", branches=["review"])

    assert [tag.name for tag in opened(tmp_path / "c").tags.list()] == ["release"]


def test_what_cleanup_has_collected_is_collected_in_the_clone(graph: og.Graph, tmp_path: Path) -> None:
    for age in (8, 9):
        run(graph, "query q($age: I32) { update Person set { age: $age } where age = 7 or age = 8 }", age=age)
    old = graph.commits()[1].id
    collected(graph)
    done = cloned(graph, tmp_path / "c")

    made = opened(tmp_path / "c")
    assert done.collected > 0
    assert present(made) == present(graph)
    for each in (graph, made):
        with pytest.raises(CommitCollectedError):
            exported(each, snapshot=old)


def test_what_cleanup_may_collect_is_not_copied_though_it_is_still_there(graph: og.Graph, tmp_path: Path) -> None:
    expected = cloned(graph, tmp_path / "all")
    graph.cleanup(keep=1, grace=timedelta(0), confirm=True)
    shutil.copytree(tmp_path / "all" / "nodes", Path(graph.uri) / "nodes", dirs_exist_ok=True)

    done = cloned(graph, tmp_path / "c")

    assert done.versions < expected.versions
    assert done.files < expected.files


def test_a_clone_is_sound(graph: og.Graph, tmp_path: Path) -> None:
    optimized(graph)
    cloned(graph, tmp_path / "c")

    assert og.open_graph(str(tmp_path / "c"), runtime=runtime()).check(deep=True).findings == ()


def test_data_that_was_dropped_for_good_stays_behind(graph: og.Graph, tmp_path: Path) -> None:
    for name in ("idea", "review"):
        graph.branches.delete(name)
    run(graph, 'update Person set { email: "secret-address@x" } where name = "a"')
    schema = graph.schema.replace("  email: String?\n", "").replace("  @unique(email)\n", "")
    graph.apply_schema(schema.replace('  @check(email, "@")\n', ""), allow_data_loss=True)
    optimized(graph)

    cloned(graph, tmp_path / "c")

    holding = [
        path for path in (tmp_path / "c").rglob("*") if path.is_file() and b"secret-address" in path.read_bytes()
    ]
    assert holding == []
    assert present(opened(tmp_path / "c")) == present(graph)


def drop_on_both(graph: og.Graph, schema: str) -> None:
    graph.branches.create("b")
    for name in ("main", "b"):
        graph.apply_schema(schema, allow_data_loss=True, branch=name)


def drop_behind_a_merge(graph: og.Graph, schema: str) -> None:
    graph.branches.create("b")
    run(graph, 'insert D { name: "of main" }')
    on(graph, "b", 'insert D { name: "of b" }')
    graph.merge("b")
    graph.branches.delete("b")
    graph.apply_schema(schema, allow_data_loss=True)


def drop_what_was_merged(graph: og.Graph, schema: str) -> None:
    graph.branches.create("b")
    run(graph, 'insert D { name: "of main" }')
    on(graph, "b", 'insert P { name: "b", note: "secret-note of b" }')
    graph.merge("b")
    graph.branches.delete("b")
    graph.apply_schema(schema, allow_data_loss=True)


@pytest.mark.parametrize("drop", [drop_on_both, drop_behind_a_merge, drop_what_was_merged])
def test_what_every_branch_has_dropped_for_good_stays_behind(
    drop: Callable[[og.Graph, str], None], tmp_path: Path
) -> None:
    schema = "node P { name: String @key  note: String? } node D { name: String @key }"
    graph = og.create_graph(tmp_path / "g", schema, runtime=runtime())
    run(graph, 'insert P { name: "a", note: "secret-note" }')
    drop(graph, schema.replace("  note: String?", ""))

    cloned(graph, tmp_path / "c")

    files = [path for path in (tmp_path / "c").rglob("*") if path.is_file()]
    assert [path for path in files if b"secret-note" in path.read_bytes()] == []
    assert present(opened(tmp_path / "c")) == present(graph)
    assert not og.open_graph(tmp_path / "c", runtime=runtime()).check(deep=True).has_errors


def test_what_one_branch_dropped_for_good_is_in_the_past_of_those_that_were_taken_before(
    graph: og.Graph, tmp_path: Path
) -> None:
    graph.branches.create("early")
    on(graph, "early", 'update Person set { age: 9 } where name = "b"')
    schema = graph.schema.replace("  email: String?\n", "").replace("  @unique(email)\n", "")
    graph.apply_schema(schema.replace('  @check(email, "@")\n', ""), allow_data_loss=True)

    cloned(graph, tmp_path / "c")

    made = og.open_graph(str(tmp_path / "c"), runtime=runtime())
    past = [(name, commit.id) for name in ("early", "idea") for commit in graph.commits(branch=name)]
    for name, commit_id in past:
        assert exported(made, snapshot=commit_id, branch=name) == exported(graph, snapshot=commit_id, branch=name)
    assert made.check(deep=True).findings == ()
    for one in (made, graph):
        one.merge("early")
    assert present(made)["main"] == present(graph)["main"]


# --- others at work ---------------------------------------------------------------------------------


def test_writers_beside_a_clone_are_in_it_whole_or_not_at_all(graph: og.Graph, tmp_path: Path) -> None:
    before = readable(graph)
    numbers = iter(range(100))

    def write() -> None:
        number = next(numbers)
        run(graph, f'insert Person {{ name: "w{number}" }} insert Knows {{ from: "w{number}", to: "c" }}')
        on(graph, "review", f'insert Team {{ name: "t{number}" }} insert Leads {{ from: "t{number}", to: "b" }}')

    cloned(graph, tmp_path / "c", faults=AtPoint("clone.copied", write, times=6))

    made, source = readable(opened(tmp_path / "c")), readable(graph)
    assert next(numbers) == 6
    for name, states in made.items():
        assert set(before[name]) <= set(states)
        assert {commit: source[name][commit] for commit in states} == states


def test_a_branch_that_was_deleted_meanwhile_is_in_the_clone(graph: og.Graph, tmp_path: Path) -> None:
    expected = readable(graph)
    deleted = AtPoint("clone.copied", lambda: graph.branches.delete("idea"))

    cloned(graph, tmp_path / "c", faults=deleted)

    assert [one.name for one in graph.branches.list()] == ["main", "review"]
    assert readable(opened(tmp_path / "c")) == expected


def test_a_branch_never_refers_to_a_commit_that_is_not_in_the_cut(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = graph._session
    other = ManifestLog.open_other
    merged: list[str | None] = []

    def moved(log: ManifestLog, branch: str, path: str) -> ManifestLog:
        if not merged:  # main was read just now, and a branch is about to be
            merged.append(on(graph, "main", 'insert Person { name: "late" }'))
            graph.merge("main", into="review")
        return other(log, branch, path)

    monkeypatch.setattr(ManifestLog, "open_other", moved)
    cut = take_cut(BranchRegistry(ManifestLog(session.store)))

    line = [commit.id for commit in session.log.iter_history(cut.main)]
    assert cut.get_head("review").snapshot.commit.merged_parent == merged[0]
    assert merged[0] in line


def test_a_branch_that_goes_while_it_is_read_is_left_out(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    other = ManifestLog.open_other
    done: list[og.Branch] = []

    def deleted(log: ManifestLog, branch: str, path: str) -> ManifestLog:
        if not done:
            done.append(graph.branches.delete("idea"))
        return other(log, branch, path)

    monkeypatch.setattr(ManifestLog, "open_other", deleted)
    cut = take_cut(BranchRegistry(ManifestLog(graph._session.store)))

    assert sorted(cut.branches) == ["review"]


def test_files_that_are_collected_meanwhile_are_not_needed_by_the_next_cut(graph: og.Graph, tmp_path: Path) -> None:
    old = graph.snapshot()
    path = next(pin.path for key, pin in old.pins.items() if key == "node:Team")

    def collect() -> None:
        on(graph, "main", 'insert Team { name: "x" } insert Leads { from: "x", to: "c" }')
        for branch in ("idea", "review"):
            graph.merge("main", into=branch)
        for version in (Path(graph.uri) / path / "_versions").glob("*.manifest"):
            if not version.name.startswith(f"d{graph.snapshot().pin('node:Team').version}"):
                version.unlink()

    done = cloned(graph, tmp_path / "c", faults=AtPoint("clone.claimed", collect))

    assert done.collected > 0
    assert present(opened(tmp_path / "c")) == present(graph)


def test_a_cleanup_beside_a_clone_only_makes_it_look_again(graph: og.Graph, tmp_path: Path) -> None:
    numbers = iter(range(100))

    def clean() -> None:
        run(graph, f'insert Person {{ name: "w{next(numbers)}" }} insert City {{ name: "t{next(numbers)}" }}')
        optimized(graph)
        collected(graph)

    graph.load([{"type": "Person", "data": {"name": f"p{number}"}} for number in range(9)], mode="append")
    cloned(graph, tmp_path / "c", faults=AtPoint("clone.copied", clean, times=3), options=ONE_BY_ONE)

    made = opened(tmp_path / "c")
    said, expected = present(made), present(graph)
    assert next(numbers) == 6
    assert made.check().findings == ()
    assert (said["idea"], said["review"]) == (expected["idea"], expected["review"])
    assert set(said["main"].splitlines()) <= set(expected["main"].splitlines())
    assert all(f'"p{number}"'.encode() in said["main"] for number in range(9))


def test_what_was_copied_for_an_earlier_cut_and_is_not_needed_goes(graph: og.Graph, tmp_path: Path) -> None:
    for name in ("idea", "review"):
        graph.branches.delete(name)
    for number in range(9):
        run(graph, f'insert Person {{ name: "n{number}" }} insert City {{ name: "n{number}" }}')
    left = iter(range(100))

    def clean() -> None:
        if next(left) == 25:
            optimized(graph)
            collected(graph)

    cloned(graph, tmp_path / "c", faults=Every("clone.copied", clean), options=ONE_BY_ONE)
    cloned(graph, tmp_path / "fresh")

    there, expected = (
        {path for path in tree(tmp_path / name) if path.startswith(("nodes", "edges"))} for name in ("c", "fresh")
    )
    assert next(left) > len(expected)
    assert there == expected


def test_what_a_cleanup_takes_between_the_cut_and_the_copy_is_told_as_collected(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for age in (8, 9):
        run(graph, "query q($age: I32) { update Person set { age: $age } where age = 7 or age = 8 }", age=age)
    old = graph.commits()[1].id
    left = [1]

    def plan(*arguments: Any) -> CopyPlan:
        if left:
            left.clear()
            collected(graph)
        return plan_tables(*arguments)

    monkeypatch.setattr(clone_cut, "plan_tables", plan)
    cloned(graph, tmp_path / "c")

    made = opened(tmp_path / "c")
    assert made.check().findings == ()
    with pytest.raises(CommitCollectedError):
        exported(made, snapshot=old)


def test_a_source_with_missing_files_is_not_cloned(graph: og.Graph, tmp_path: Path) -> None:
    pin = graph.snapshot().pin("node:Person")
    next((Path(graph.uri) / pin.path / "data").glob("*.lance")).unlink()
    newest = Path(graph.uri) / pin.path / "_versions" / f"d{pin.version}.manifest"
    newest.unlink()

    with pytest.raises(PinUnreadableError) as raised:
        cloned(graph, tmp_path / "c")

    assert raised.value.path == pin.path
    with pytest.raises(UnfinishedCloneError):
        opened(tmp_path / "c")


def test_states_of_the_past_that_are_gone_are_counted(graph: og.Graph, tmp_path: Path) -> None:
    first = graph.commits()[-2]
    change = next(change for change in first.changes if change.table_key == "node:Person")
    (Path(graph.uri) / change.path / "_versions" / f"d{change.after}.manifest").unlink()

    done = cloned(graph, tmp_path / "c")

    assert done.collected == 1
    assert present(opened(tmp_path / "c")) == present(graph)
