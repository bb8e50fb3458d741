"""What a write relied on, for every kind of value: found when it changed, and only then."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.commit.requirements import CountsWithin, RowsUnchanged, ValuesAbsent
from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.lang.source import Source
from omnigraph.ops.create import create
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.storage.lance_table import MAX_PUSHED_KEYS
from worlds import rows, runtime, seeded_world

NAN = float("nan")


@pytest.fixture
def world(tmp_path: Path) -> Session:
    return seeded_world(tmp_path / "g")


@pytest.fixture
def rich(tmp_path: Path) -> Session:
    """A table of the values that are hard to compare."""
    schema = "node A { f: F64\n v: Vector(2)\n l: [F64]\n b: Blob? }"
    session = create(str(tmp_path / "r"), Source(schema, "r.pg"), actor="t", runtime=runtime())
    upsert(session, hard(["a", "b"], [b"one", b"two"]))
    return session


def hard(ids: list[str], blobs: list[bytes]) -> pa.Table:
    return pa.table(
        {
            "id": ids,
            "f": [NAN] * len(ids),
            "v": pa.array([[NAN, 1.0]] * len(ids), pa.list_(pa.float32(), 2)),
            "l": [[NAN]] * len(ids),
            "b": lance.blob_array(blobs),
        }
    )


def upsert(session: Session, values: pa.Table) -> None:
    write_tables(session, [TableWrite(table_key="node:A", upsert=values)], operation="w", actor="x")


def now(session: Session) -> SnapshotTables:
    return session.open_tables(session.resolve_snapshot())


def test_a_row_of_not_a_number_that_nobody_touched_is_unchanged(rich: Session) -> None:
    base = now(rich)
    upsert(rich, hard(["a"], [b"one"]))

    assert RowsUnchanged(table_key="node:A", ids=("b",)).check(base, now(rich)) is None


def test_a_blob_that_was_replaced_by_one_of_the_same_size_is_a_change(rich: Session) -> None:
    base = now(rich)
    upsert(rich, hard(["a"], [b"two"]))

    assert RowsUnchanged(table_key="node:A", ids=("a",)).check(base, now(rich)) is not None


def test_a_row_that_came_or_went_is_changed(world: Session) -> None:
    base = now(world)
    write_tables(world, [TableWrite(table_key="node:A", delete=["a"])], operation="w", actor="x")
    upsert(world, rows({"new": 1}))

    assert RowsUnchanged(table_key="node:A", ids=("a",)).check(base, now(world)) is not None
    assert RowsUnchanged(table_key="node:A", ids=("new",)).check(base, now(world)) is not None
    assert RowsUnchanged(table_key="node:A", ids=("nobody", "b")).check(base, now(world)) is None


VALUES = {
    "the same number": (pa.table({"v": [3]}), True),
    "another one": (pa.table({"v": [33]}), False),
    "a narrower type": (pa.table({"v": pa.array([3], pa.int32())}), True),
    "null": (pa.table({"v": pa.array([None], pa.int64())}), False),
    "null and a number": (pa.table({"v": pa.array([None, 3], pa.int64())}), True),
    "none": (pa.table({"v": pa.array([], pa.int64())}), False),
    "more than are handed to Lance": (pa.table({"v": list(range(3, 2 * MAX_PUSHED_KEYS))}), True),
    "more, and none of them there": (pa.table({"v": list(range(5, 2 * MAX_PUSHED_KEYS))}), False),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_clashes_with_an_equal_one(name: str, world: Session) -> None:
    values, clashes = VALUES[name]

    violation = ValuesAbsent(table_key="node:A", columns=("v",), values=values).check(now(world), now(world))

    assert (violation is not None) is clashes


def test_a_group_of_values_clashes_only_whole(world: Session) -> None:
    def check(row_id: str, value: int, own: tuple[str, ...] = ()) -> bool:
        values = pa.table({"v": [value], "id": [row_id]})
        group = ValuesAbsent(table_key="node:A", columns=("v", "id"), values=values, own_ids=own)
        return group.check(now(world), now(world)) is not None

    assert check("c", 3)
    assert not check("c", 4)
    assert not check("c", 3, own=("c",))


def test_a_row_that_somebody_moved_away_still_counts_where_this_write_puts_it(tmp_path: Path) -> None:
    """An owner has one row; this write keeps `e` with `p`, while others give `e` away and `f` to `p`."""
    session = create(str(tmp_path / "o"), Source("node A { owner: String }", "o.pg"), actor="t", runtime=runtime())
    keeps = CountsWithin(table_key="node:A", column="owner", keys=("p",), added=(1,), high=1, own_ids=("e",))
    upsert(session, pa.table({"id": ["e", "f"], "owner": ["p", "q"]}))
    assert keeps.check(now(session), now(session)) is None

    upsert(session, pa.table({"id": ["e", "f"], "owner": ["q", "p"]}))

    assert keeps.check(now(session), now(session)) is not None


@pytest.mark.parametrize("added, low, holds", [(0, 1, True), (-1, 1, False), (-1, 0, True), (1, 0, True)])
def test_a_count_has_a_lower_bound(added: int, low: int, holds: bool, world: Session) -> None:
    count = CountsWithin(table_key="node:A", column="id", keys=("a",), added=(added,), low=low)

    assert (count.check(now(world), now(world)) is None) is holds


def test_a_key_that_is_given_twice_counts_twice(world: Session) -> None:
    count = CountsWithin(table_key="node:A", column="id", keys=("new", "new"), added=(1, 1), high=1)

    assert count.check(now(world), now(world)) is not None
