"""Index segments: staged, published, extended, replaced; and what they cover."""

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.bug_error import BugError
from omnigraph.commit.commit_plan import CommitPlan, Move
from omnigraph.commit.publisher import publish
from omnigraph.lang.source import Source
from omnigraph.ops.create import create
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.storage.cas_table_errors import OutdatedError
from omnigraph.storage.compaction import rebase_staged
from omnigraph.storage.index_staging import stage_index
from omnigraph.storage.lance_table import IndexCoverage, LanceTable
from omnigraph.storage.staging import StagedWrite
from omnigraph.storage.versions import apply
from raised_codes import has_code
from worlds import rows, runtime, seeded_world, state


@pytest.fixture
def world(tmp_path: Path) -> Session:
    return seeded_world(tmp_path / "g")


def newest(session: Session) -> LanceTable:
    return session.open_tables(session.resolve_snapshot()).open_table("node:A")


def build(session: Session, base: LanceTable | None = None, fragments: list[int] | None = None) -> StagedWrite:
    return stage_index(base or newest(session), "id", "BTREE", "id_btree", fragments=fragments)


def put(session: Session, staged: StagedWrite) -> None:
    move = Move(table_key="node:A", staged=staged)
    publish(
        session.log,
        session.handles,
        CommitPlan(base=session.head(), operation="reindex", actor="x", moves=(move,)),
    )


def append(session: Session, values: dict[str, int]) -> None:
    write_tables(session, [TableWrite(table_key="node:A", append=rows(values))], operation="w", actor="x")


def uses_index(table: LanceTable, key: str) -> bool:
    dataset = table.handles.open(table.path, table.version)
    return "ScalarIndexQuery" in dataset.scanner(filter=f"id = '{key}'").explain_plan()


def test_a_staged_index_is_invisible_until_it_is_published(world: Session) -> None:
    staged = build(world)
    assert newest(world).measure_index_coverage() == ()

    put(world, staged)

    assert newest(world).measure_index_coverage() == (IndexCoverage("id_btree", ("id",), "BTree", 1, 1),)
    assert uses_index(newest(world), "b")
    assert state(world)["node:A"] == {"a": 1, "b": 2, "c": 3, "d": 4}


def test_rows_written_later_are_outside_and_still_found(world: Session) -> None:
    put(world, build(world))

    append(world, {"e": 5})

    coverage = newest(world).measure_index_coverage()[0]
    assert (coverage.covered_fragments, coverage.fragments, coverage.is_complete) == (1, 2, False)
    assert newest(world).find_rows("id", ["e", "a"], ["v"])["v"].to_pylist() in ([5, 1], [1, 5])


def test_a_second_segment_extends_the_index(world: Session) -> None:
    put(world, build(world))
    append(world, {"e": 5})

    put(world, build(world, fragments=[1]))

    assert newest(world).measure_index_coverage()[0].is_complete
    assert newest(world).find_rows("id", ["e"], ["v"])["v"].to_pylist() == [5]


def test_a_rebuilt_index_takes_the_place_of_the_old_segments(world: Session) -> None:
    put(world, build(world))
    append(world, {"e": 5})

    put(world, build(world))

    dataset = world.handles.open(newest(world).path, newest(world).version)
    assert [len(index.segments) for index in dataset.describe_indices()] == [1]
    assert newest(world).measure_index_coverage()[0].is_complete


def test_a_staged_index_survives_json(world: Session) -> None:
    staged = build(world)

    restored = StagedWrite.from_json(staged.to_json())
    put(world, restored)

    assert restored == staged
    assert uses_index(newest(world), "b")


def test_the_files_of_a_segment_are_named(world: Session) -> None:
    before = {info.key for info in world.store.objects.list_under("nodes")}

    staged = build(world)

    assert set(staged.files) == {info.key for info in world.store.objects.list_under("nodes")} - before


def test_a_segment_moves_over_an_append_and_a_delete(world: Session) -> None:
    staged = build(world)
    append(world, {"e": 5})
    write_tables(world, [TableWrite(table_key="node:A", delete=["a"])], operation="w", actor="x")

    put(world, rebase_staged(staged, newest(world)))

    assert state(world)["node:A"] == {"b": 2, "c": 3, "d": 4, "e": 5}
    assert newest(world).find_rows("id", ["a", "b", "e"], ["id"]).num_rows == 2


def test_a_segment_of_rows_that_were_rewritten_is_refused(world: Session) -> None:
    staged = build(world)
    write_tables(world, [TableWrite(table_key="node:A", overwrite=rows({"z": 26}))], operation="w", actor="x")

    with pytest.raises(OutdatedError, match="id_btree"):
        rebase_staged(staged, newest(world))


def test_full_text_hits_are_not_doubled_by_a_rebuild(tmp_path: Path) -> None:
    session = create(str(tmp_path / "t"), Source("node A { body: String }"), actor="x", runtime=runtime())
    texts = pa.table({"id": ["1", "2"], "body": ["graphs run", "tables stand"]})
    write_tables(session, [TableWrite(table_key="node:A", append=texts)], operation="w", actor="x")

    for _ in range(2):
        table = newest(session)
        put(session, stage_index(table, "body", "INVERTED", "body_text"))

    dataset = session.handles.open(newest(session).path, newest(session).version)
    assert dataset.to_table(["id", "_score"], full_text_query="graphs").num_rows == 1


def test_a_segment_is_never_applied_to_another_version_as_it_is(world: Session) -> None:
    staged = build(world)
    append(world, {"e": 5})

    with pytest.raises(BugError, check=has_code("stale_base")):
        apply(world.handles, staged, newest(world).version)
