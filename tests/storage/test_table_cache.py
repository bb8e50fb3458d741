"""Handles are kept for who asks again, and not for every version that ever was."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.storage import table_cache
from omnigraph.storage.fragment_list import list_fragments
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.staging import StagedWrite, stage_append, stage_delete, stage_upsert
from omnigraph.storage.table_cache import MAX_CACHED_VERSIONS, TableCache
from omnigraph.storage.versions import apply
from worlds import rows, seeded_world, state

if TYPE_CHECKING:
    from collections.abc import Callable


def write(session: Session, number: int) -> None:
    write_tables(session, [TableWrite(table_key="node:A", upsert=rows({"a": number}))], operation="w", actor="x")


def test_only_the_newest_versions_of_a_table_are_kept_open(tmp_path: Path) -> None:
    world = seeded_world(tmp_path / "g")
    state(world)
    path = world.head().snapshot.pins["node:A"].path
    others = {key for key in world.handles.list_open() if key[0] != path}

    for number in range(MAX_CACHED_VERSIONS + 5):
        write(world, number)
        state(world)

    kept = [version for where, version in world.handles.list_open() if where == path]
    assert len(kept) == MAX_CACHED_VERSIONS
    assert kept[-1] == world.head().snapshot.pins["node:A"].version
    assert others <= set(world.handles.list_open())


def test_the_fragments_of_a_version_of_this_process_are_those_that_lance_reads(tmp_path: Path) -> None:
    world = seeded_world(tmp_path / "g")
    table = world.open_tables(world.head().snapshot).open_table("node:A")
    assert table.list_fragments()
    fresh = TableCache(world.store)
    writes: list[Callable[[LanceTable], StagedWrite]] = [
        lambda table: stage_append(table, rows({"e": 5, "f": 6})),
        lambda table: stage_upsert(table, rows({"a": 10, "e": 50, "new": 1})),
        lambda table: stage_delete(table, ["b", "f", "nobody"]),
        lambda table: stage_delete(table, ["a", "e", "new"]),
        lambda table: stage_upsert(table, rows({"c": 30})),
    ]

    for write in writes:
        version = apply(table.handles, write(table), table.version)
        table = LanceTable(table.handles, table.path, version)
        read = LanceTable(fresh, table.path, version)
        assert table.list_fragments() == list_fragments(fresh.open(table.path, version))
        assert table.count() == fresh.open(table.path, version).count_rows() == read.count()
        assert sorted(table.scan(["id", "v"]).to_pylist(), key=repr) == sorted(
            read.scan(["id", "v"]).to_pylist(), key=repr
        )


def test_a_version_that_is_not_read_gets_no_handle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = seeded_world(tmp_path / "g")
    table = world.open_tables(world.head().snapshot).open_table("node:A")
    table.list_fragments()
    version = apply(table.handles, stage_append(table, rows({"e": 5})), table.version)
    created = LanceTable(table.handles, table.path, version)

    assert created.count() == 5
    assert (table.path, version) not in table.handles.list_open()
    assert created.scan(["id"]).num_rows == 5
    assert (table.path, version) in table.handles.list_open()

    # Its manifest is no longer kept: it is read from its file.
    small = TableCache(world.store)
    monkeypatch.setattr(table_cache, "MAX_MANIFEST_BYTES", 1)
    other = TableCache(world.store)
    for cache in (small, other):
        base = LanceTable(cache, table.path, version)
        base.list_fragments()
        newer = apply(cache, stage_append(base, rows({f"g{id(cache)}": 6})), version)
        assert (cache.get_fragments(table.path, newer) is None) is (cache is other)
        assert LanceTable(cache, table.path, newer).count() == 6
