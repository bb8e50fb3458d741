"""Acknowledged means durable: what is flushed, in which order, and the way to opt out."""

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lance import LanceDataset

from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.options import Durability
from omnigraph.storage.object_store import StoreUnavailableError
from worlds import FAST, TABLES, new_world, rows, seeded_world, state

FSYNC = replace(FAST, durability=Durability.FSYNC)


class Disk:
    """Watches flushes and swaps, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[str] = []
        fsync, commit = os.fsync, LanceDataset.commit

        def watched_fsync(descriptor: int) -> None:
            self.events.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
            fsync(descriptor)

        def watched_commit(base: LanceDataset, transaction: Any, **options: Any) -> LanceDataset:
            made = commit(base, transaction, **options)
            if not options.get("detached") and isinstance(base, LanceDataset):  # not the first version of a table
                self.events.append("SWAP")
            return made

        monkeypatch.setattr(os, "fsync", watched_fsync)
        monkeypatch.setattr(LanceDataset, "commit", staticmethod(watched_commit))

    @property
    def before_swap(self) -> list[str]:
        return self.events[: self.events.index("SWAP")]

    @property
    def after_swap(self) -> list[str]:
        return self.events[self.events.index("SWAP") + 1 :]


def write(session: Session, tables: tuple[str, ...]) -> None:
    upsert = rows({"a": 9, "new": 1})
    write_tables(session, [TableWrite(table_key=key, upsert=upsert) for key in tables], operation="w", actor="x")


@pytest.mark.parametrize("tables", [TABLES[:1], TABLES[:3]])
def test_every_file_of_a_commit_is_flushed_before_the_swap(
    tables: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = seeded_world(tmp_path / "g", FSYNC)
    there = {path for path in (tmp_path / "g").rglob("*") if path.is_file()}
    disk = Disk(monkeypatch)

    write(session, tables)

    made = {path for path in (tmp_path / "g").rglob("*") if path.is_file()} - there
    needed = {str(path) for path in made if path.suffix in (".lance", ".arrow") or path.name.startswith("d")}
    assert needed <= set(disk.before_swap)
    assert {os.path.dirname(path) for path in needed} <= set(disk.before_swap)  # noqa: PTH120 - compared as text


def test_the_manifest_is_flushed_after_the_swap_and_before_the_acknowledgement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = seeded_world(tmp_path / "g", FSYNC)
    disk = Disk(monkeypatch)

    write(session, TABLES[:1])

    newest = f"{18446744073709551615 - session.head().snapshot.manifest_version}.manifest"
    assert [Path(path).name for path in disk.after_swap] == [newest, "_versions"]


def test_the_directories_that_a_commit_makes_are_flushed_where_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory's own entry is in the one above it: without that flush, all in it can be gone."""
    disk = Disk(monkeypatch)

    session = new_world(tmp_path / "deep" / "down" / "g", FSYNC)
    write_tables(session, [TableWrite(table_key="node:A", append=rows({"a": 1, "b": 2}))], operation="w", actor="x")
    first = set(disk.before_swap)
    disk.events.clear()
    write_tables(session, [TableWrite(table_key="node:A", upsert=rows({"a": 2}))], operation="w", actor="x")

    table = tmp_path / "deep" / "down" / "g" / session.resolve_snapshot().pin("node:A").path
    above = {tmp_path, tmp_path / "deep", tmp_path / "deep" / "down", table.parent.parent, table.parent, table}
    assert {str(path) for path in above} <= first
    assert str(table.parent.parent / "__manifest") in first
    assert str(table / "_deletions") in disk.before_swap
    assert str(table) in disk.before_swap, "_deletions is new"


def test_a_flush_that_fails_ends_the_write_with_nothing_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = seeded_world(tmp_path / "g", FSYNC)
    before = state(session)

    def broken_disk(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", broken_disk)
        with pytest.raises(StoreUnavailableError, match="flush"):
            write(session, TABLES[:1])

    assert state(session) == before


def test_the_number_of_flushes_follows_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = seeded_world(tmp_path / "g", FSYNC)
    for number in range(20):
        write_tables(
            session, [TableWrite(table_key="node:B", append=rows({f"n{number}": 1}))], operation="w", actor="x"
        )
    disk = Disk(monkeypatch)

    write_tables(session, [TableWrite(table_key="node:A", append=rows({"n": 1}))], operation="w", actor="x")

    assert len(disk.events) == 9, disk.events


def test_opting_out_flushes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = seeded_world(tmp_path / "g", replace(FAST, durability=Durability.OS))
    disk = Disk(monkeypatch)

    write(session, TABLES[:3])

    assert disk.events == ["SWAP"]


def test_a_new_graph_is_durable_when_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)

    seeded_world(tmp_path / "g", FSYNC)

    versions = [str(path) for path in (tmp_path / "g").rglob("*.manifest") if not path.name.startswith("d")]
    assert set(versions) <= set(disk.events)
