"""Handles are kept for who asks again, and not for every version that ever was."""

from pathlib import Path

from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.storage.table_cache import MAX_CACHED_VERSIONS
from worlds import rows, seeded_world, state


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
