"""Staged writes: what they hold, and how they move to another version."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.bug_error import BugError
from omnigraph.commit.publisher import lay_out
from omnigraph.errors import CorruptError
from omnigraph.lang.source import Source
from omnigraph.ops.create import create
from omnigraph.ops.session import Session
from omnigraph.options import UpkeepOptions
from omnigraph.storage import fragment_list
from omnigraph.storage.compaction import compact, rebase_staged, stage_rewrite
from omnigraph.storage.fragment_list import Fragment
from omnigraph.storage.index_staging import stage_index
from omnigraph.storage.key_lookup import find_existing
from omnigraph.storage.lance_table import MAX_PUSHED_KEYS, LanceTable
from omnigraph.storage.staging import (
    DuplicateRowError,
    RowStream,
    StagedWrite,
    WriteKind,
    stage_append,
    stage_delete,
    stage_fragments,
    stage_overwrite,
    stage_upsert,
)
from omnigraph.storage.versions import apply
from omnigraph.storage.written_rows import iter_staged_batches
from raised_codes import has_code
from worlds import rows, runtime, seeded_world


@pytest.fixture
def world(tmp_path: Path) -> Session:
    return seeded_world(tmp_path / "g")


@pytest.fixture
def table(world: Session) -> LanceTable:
    return world.open_tables(world.resolve_snapshot()).open_table("node:A")


def applied(table: LanceTable, staged: StagedWrite) -> dict[str, int]:
    version = apply(table.handles, staged, table.version)
    found = LanceTable(table.handles, table.path, version).scan(["id", "v"])
    assert found.num_rows == staged.rows_after
    return dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))


def stage(table: LanceTable, change: WriteKind) -> StagedWrite:
    match change:
        case WriteKind.APPEND:
            return stage_append(table, rows({"e": 5}))
        case WriteKind.UPSERT:
            return stage_upsert(table, rows({"a": 10, "e": 5}))
        case WriteKind.DELETE:
            return stage_delete(table, ["a", "nobody"])
        case WriteKind.OVERWRITE:
            return stage_overwrite(table, rows({"e": 5}))
        case WriteKind.INDEX:
            return stage_index(table, "id", "BTREE", "id_btree")
        case WriteKind.REWRITE:
            return stage_rewrite(table, [compact(table, (0,), UpkeepOptions())])
        case _:
            raise AssertionError(change)  # a change of the schema has tests of its own


AFTER = {
    WriteKind.APPEND: {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5},
    WriteKind.UPSERT: {"a": 10, "b": 2, "c": 3, "d": 4, "e": 5},
    WriteKind.DELETE: {"b": 2, "c": 3, "d": 4},
    WriteKind.OVERWRITE: {"e": 5},
    WriteKind.INDEX: {"a": 1, "b": 2, "c": 3, "d": 4},
    WriteKind.REWRITE: {"a": 1, "b": 2, "c": 3, "d": 4},
}


@pytest.mark.parametrize("change", AFTER)
def test_a_staged_write_does_what_it_says_and_nothing_before(
    change: WriteKind, world: Session, table: LanceTable
) -> None:
    staged = stage(table, change)

    assert world.open_tables(world.resolve_snapshot()).open_table("node:A").count() == 4
    assert applied(table, staged) == AFTER[change]


@pytest.mark.parametrize("change", AFTER)
def test_a_staged_write_survives_json(change: WriteKind, table: LanceTable) -> None:
    staged = stage(table, change)

    assert StagedWrite.from_json(staged.to_json()) == staged


@pytest.mark.parametrize(
    "damage",
    [
        {"change": "explode"},
        {"base": 7},
        {"written": "x"},
        {"keys": [1]},
        {"taken_rows": -1},
        {"removed": [True]},
        {"x": 1},
    ],
)
def test_json_that_is_no_staged_write_is_refused(damage: dict[str, object], table: LanceTable) -> None:
    data = {**stage(table, WriteKind.UPSERT).to_json(), **damage}

    with pytest.raises(CorruptError, check=has_code("staged_write_unreadable")):
        StagedWrite.from_json(data)


@pytest.mark.parametrize("change", AFTER)
def test_every_file_of_a_staged_write_is_named(change: WriteKind, world: Session, table: LanceTable) -> None:
    def files() -> set[str]:
        return {info.key for info in world.store.objects.list_under(table.path)}

    before = files()

    staged = stage(table, change)

    assert set(staged.files) == files() - before


@pytest.mark.parametrize("change", AFTER)
def test_a_staged_write_moves_to_another_version_without_writing_its_rows_again(
    change: WriteKind, table: LanceTable
) -> None:
    staged = stage(table, change)
    staged = lay_out(table.handles, staged) if change is WriteKind.REWRITE else staged
    newer = LanceTable(
        table.handles, table.path, apply(table.handles, stage_upsert(table, rows({"b": 20, "n": 9})), table.version)
    )

    moved = rebase_staged(staged, newer)

    expected = {**AFTER[change], "b": 20, "n": 9} if change is not WriteKind.OVERWRITE else {"e": 5}
    assert moved.written == staged.written
    assert applied(newer, moved) == expected


def merging(table: LanceTable, values: dict[str, int], *known: str) -> RowStream:
    """Rows of which the caller has looked up those that are known."""
    given = rows(values)
    keys = pa.array(known, pa.string())
    found = find_existing(table, lambda: keys, len(keys))
    return RowStream(batches=lambda: iter(given.to_batches()), keys=keys, located=found.locate(found.mask))


def test_rows_that_the_caller_has_found_are_not_looked_up_again(
    table: LanceTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = merging(table, {"c": 30, "e": 5, "a": 10}, "c", "a")
    monkeypatch.delattr("omnigraph.storage.staging.find_existing")

    staged = stage_upsert(table, looked)

    assert applied(table, staged) == {"a": 10, "b": 2, "c": 30, "d": 4, "e": 5}


def test_rows_that_lie_elsewhere_by_now_are_looked_up_again(table: LanceTable) -> None:
    looked = merging(table, {"c": 30, "a": 10}, "c", "a")
    version = apply(table.handles, stage_overwrite(table, rows({"n": 9, "a": 1, "c": 3, "m": 8})), table.version)
    newer = LanceTable(table.handles, table.path, version)

    staged = stage_upsert(newer, looked)

    assert applied(newer, staged) == {"a": 10, "c": 30, "m": 8, "n": 9}


def test_what_the_caller_has_found_does_not_move_with_the_write(table: LanceTable) -> None:
    staged = stage_upsert(table, merging(table, {"c": 30, "a": 10}, "c", "a"))
    version = apply(table.handles, stage_overwrite(table, rows({"n": 9, "a": 1, "c": 3, "m": 8})), table.version)
    newer = LanceTable(table.handles, table.path, version)

    moved = rebase_staged(staged, newer)

    assert applied(newer, moved) == {"a": 10, "c": 30, "m": 8, "n": 9}


def test_a_write_that_deletes_is_refused_on_another_version(table: LanceTable) -> None:
    staged = stage(table, WriteKind.UPSERT)
    other = apply(table.handles, stage(table, WriteKind.APPEND), table.version)

    with pytest.raises(BugError, check=has_code("stale_base")):
        apply(table.handles, staged, other)


def test_an_upsert_that_found_nothing_to_replace_is_refused_on_another_version(table: LanceTable) -> None:
    """The other version may have such a row by now: then there would be two of them."""
    staged = stage_upsert(table, rows({"new": 1}))
    other = apply(table.handles, stage_append(table, rows({"new": 2})), table.version)

    with pytest.raises(BugError, check=has_code("stale_base")):
        apply(table.handles, staged, other)


def test_the_files_of_large_values_are_named(tmp_path: Path) -> None:
    schema = Source("node A { b: Blob? }", "b.pg")
    session = create(str(tmp_path / "b"), schema, actor="t", runtime=runtime())
    table = session.open_tables(session.resolve_snapshot()).open_table("node:A")
    before = {info.key for info in session.store.objects.list_under(table.path)}
    values = lance.blob_array([b"x", b"y" * 300_000, b"z" * 6_000_000, None])

    staged = stage_append(table, pa.table({"id": ["a", "b", "c", "d"], "b": values}))

    after = {info.key for info in session.store.objects.list_under(table.path)}
    assert len(staged.blobs) == 2
    assert set(staged.files) == after - before
    assert StagedWrite.from_json(staged.to_json()) == staged


@pytest.mark.parametrize("is_stream", [False, True])
def test_columns_behind_a_blob_are_read_from_a_staged_file(tmp_path: Path, is_stream: bool) -> None:
    others = "  ".join(f"c{number}: String?" for number in range(8))
    schema = Source(f"node A {{ b: Blob?  {others} }}", "b.pg")
    session = create(str(tmp_path / "b"), schema, actor="t", runtime=runtime())
    table = session.open_tables(session.resolve_snapshot()).open_table("node:A")
    values = pa.array([b"x", b"y" * 300_000], pa.large_binary())
    given = pa.table({"id": ["a", "b"], "b": values, **{f"c{n}": [f"{n}a", f"{n}b"] for n in range(8)}})

    staged = stage_append(table, RowStream(batches=lambda: iter(given.to_batches())) if is_stream else given)
    found = [
        pa.Table.from_batches(iter_staged_batches(session.store, table.path, one, ["c0"])) for one in staged.written
    ]
    after = LanceTable(table.handles, table.path, apply(table.handles, staged, table.version))

    assert pa.concat_tables(found).to_pydict() == {"c0": ["0a", "0b"]}
    assert after.scan(["id", "c0", "c7"]).to_pydict() == given.select(["id", "c0", "c7"]).to_pydict()
    assert after.schema.names == table.schema.names


def test_an_id_given_twice_is_refused(table: LanceTable) -> None:
    twice = pa.concat_tables([rows({"x": 1}), rows({"x": 2})])

    with pytest.raises(DuplicateRowError, match="`x`"):
        stage_upsert(table, twice)


def test_a_write_without_effect_says_so(table: LanceTable) -> None:
    assert not stage_append(table, rows({})).has_effect
    assert not stage_delete(table, ["nobody"]).has_effect


def test_an_empty_overwrite_has_an_effect(table: LanceTable) -> None:
    staged = stage_overwrite(table, rows({}))

    assert staged.has_effect
    assert applied(table, staged) == {}


def test_deleting_every_row_leaves_an_empty_table(table: LanceTable) -> None:
    assert applied(table, stage_delete(table, ["a", "b", "c", "d"])) == {}


def test_fragments_that_somebody_else_wrote_can_be_staged(table: LanceTable) -> None:
    written = stage_append(table, rows({"a": 10, "z": 26}))

    staged = stage_fragments(table, WriteKind.UPSERT, written.written, 2, keys=["a", "z"])

    assert applied(table, staged) == {"a": 10, "b": 2, "c": 3, "d": 4, "z": 26}


@pytest.mark.parametrize("count", [MAX_PUSHED_KEYS, MAX_PUSHED_KEYS + 1])
def test_few_and_many_keys_are_found_alike(count: int, table: LanceTable) -> None:
    keys = [f"nobody{n}" for n in range(count - 2)] + ["a", "c"]

    found = table.find_rows("id", keys, ["v"], with_address=True)

    assert found["v"].to_pylist() == [1, 3]
    assert found.column_names == ["v", "_rowaddr"]


@pytest.mark.parametrize("key", ["it's", 'say "hi"', "back\\slash", "a; drop table", "é", "\U0001f600", "%", "_", ""])
def test_any_text_is_found_as_a_key(key: str, table: LanceTable) -> None:
    version = apply(table.handles, stage_append(table, rows({key: 7, "other": 8})), table.version)

    found = LanceTable(table.handles, table.path, version).find_rows("id", [key], ["id", "v"])

    assert found.to_pylist() == [{"id": key, "v": 7}]


def test_an_upsert_that_replaces_nothing_costs_nothing_by_fragments(
    world: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    described: list[int] = []
    describe = fragment_list._describe

    def watch(metadata: lance.FragmentMetadata) -> Fragment:
        described.append(metadata.id)
        return describe(metadata)

    monkeypatch.setattr(fragment_list, "_describe", watch)

    table = world.open_tables(world.resolve_snapshot()).open_table("node:A")
    table.scan(["id"], "id = 'a'")  # small files are verified by the first read of a version
    described.clear()
    staged = stage_upsert(LanceTable(table.handles, table.path, table.version), rows({"new": 1}))

    assert staged.taken_rows == 0
    assert described == []
