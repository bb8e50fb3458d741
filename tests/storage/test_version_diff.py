"""What differs between two versions of a table, found by files."""

import random
from pathlib import Path

import pytest

from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.storage.version_diff import VersionDiff, diff_versions
from worlds import TABLES, new_world, rows

KEY = TABLES[0]


def values(changes: VersionDiff) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    come, gone = (
        sorted(zip(part.column("id").to_pylist(), part.column("v").to_pylist(), strict=True))
        for part in (changes.added, changes.removed)
    )
    return come, gone


@pytest.mark.parametrize("seed", range(5))
def test_the_changes_lead_from_one_version_to_the_other(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    session = new_world(tmp_path / "g")
    versions = [session.open_tables(session.resolve_snapshot()).open_table(KEY)]
    for _ in range(6):
        some = {f"k{draw.randrange(20)}": draw.randrange(100) for _ in range(5)}
        write = (
            TableWrite(table_key=KEY, delete=sorted(some))
            if draw.random() < 0.3
            else TableWrite(table_key=KEY, upsert=rows(some))
        )
        write_tables(session, [write], operation="test", actor="test")
        versions.append(session.open_tables(session.resolve_snapshot()).open_table(KEY))

    for _ in range(8):
        before, after = (versions[draw.randrange(len(versions))] for _ in range(2))
        come, gone = values(diff_versions(before, after, ["v"]))
        old, new = ({tuple(row.values()) for row in table.scan(["id", "v"]).to_pylist()} for table in (before, after))

        assert (old - set(gone)) | set(come) == new
        assert set(gone) <= old
        assert set(come) <= new


def test_ids_are_lost_only_when_no_row_has_them_any_more(tmp_path: Path) -> None:
    session = new_world(tmp_path / "g")
    write_tables(session, [TableWrite(table_key=KEY, append=rows({"a": 1, "b": 2}))], operation="test", actor="test")
    before = session.open_tables(session.resolve_snapshot()).open_table(KEY)
    write_tables(session, [TableWrite(table_key=KEY, upsert=rows({"a": 9}))], operation="test", actor="test")
    write_tables(session, [TableWrite(table_key=KEY, delete=["b"])], operation="test", actor="test")
    after = session.open_tables(session.resolve_snapshot()).open_table(KEY)

    changes = diff_versions(before, after, [])

    assert changes.find_lost_ids().to_pylist() == ["b"]
