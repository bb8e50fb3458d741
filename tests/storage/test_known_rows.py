"""Rows that were looked up once are known from then on."""

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.ops.session import Session
from omnigraph.storage.key_lookup import RowAddressCache, RowLocations
from omnigraph.storage.lance_table import MAX_PUSHED_KEYS, LanceTable
from omnigraph.storage.staging import stage_delete, stage_upsert
from omnigraph.storage.versions import apply
from omnigraph.telemetry import RequestCounts
from worlds import rows, seeded_world


@pytest.fixture
def world(tmp_path: Path) -> Session:
    return seeded_world(tmp_path / "g")


@pytest.fixture
def table(world: Session) -> LanceTable:
    """With the rows a, b, c and d."""
    return world.open_tables(world.resolve_snapshot()).open_table("node:A")


def ids(*texts: str) -> pa.Array:
    return pa.array(texts, pa.string())


def addresses(located: RowLocations | None) -> list[int]:
    assert located is not None
    return sorted(located.addresses.tolist())


def address_of(table: LanceTable, *texts: str) -> list[int]:
    return sorted(table.find_rows("id", ids(*texts), ["id"], with_address=True).column("_rowaddr").to_pylist())


def test_what_was_looked_up_beside_needs_no_second_look(world: Session, table: LanceTable) -> None:
    known = RowAddressCache(table)
    assert known.find_existing(ids("a", "nobody"), prefetch=ids("b", "new")).to_pylist() == ["a"]

    with world.runtime.telemetry.count_requests() as requests:
        again = known.find_existing(ids("b", "new", "a"))
        located = known.locate(ids("b", "new"))

    assert again.to_pylist() == ["b", "a"]
    assert addresses(located) == address_of(table, "b")
    assert requests.counts == RequestCounts().counts


def test_rows_that_nobody_has_looked_for_are_not_located(table: LanceTable) -> None:
    known = RowAddressCache(table)

    known.fetch_rows(ids("a"), ["v"])

    assert known.locate(ids("a", "b")) is None
    assert addresses(known.locate(ids("a"))) == address_of(table, "a")


def test_rows_that_were_read_for_something_else_are_located(table: LanceTable) -> None:
    known = RowAddressCache(table)

    known.note(table.scan(["v", "id"], with_address=True))
    known.note(table.scan(["id"], with_address=True))

    assert addresses(known.locate(ids("d", "b"))) == address_of(table, "b", "d")


def test_more_ids_than_a_filter_takes_are_found_all_the_same(table: LanceTable) -> None:
    known = RowAddressCache(table)
    known.fetch_rows(ids("c"), ["id"])
    many = pa.array([*"abc", *map(str, range(MAX_PUSHED_KEYS))], pa.string())

    found = known.find_existing(many)

    assert sorted(found.to_pylist()) == ["a", "b", "c"]
    assert known.locate(many) is None


def test_a_place_in_another_version_is_not_used(table: LanceTable) -> None:
    known = RowAddressCache(table)
    known.fetch_rows(ids("a", "e"), ["id"])
    located = known.locate(ids("a", "e"))
    moved = LanceTable(table.handles, table.path, apply(table.handles, stage_delete(table, ["a"]), table.version))

    here = stage_upsert(table, rows({"a": 10, "e": 5}), located=located)
    elsewhere = stage_upsert(moved, rows({"a": 10, "e": 5}), located=located)

    assert (here.taken_rows, here.rows_after) == (1, 5)
    assert (elsewhere.taken_rows, elsewhere.rows_after) == (0, 5)
