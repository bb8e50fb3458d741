"""Cleanup in tests: time that passes at will, and what a state needs, told without the code that is tested."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import lance

import omnigraph as og
from omnigraph.clock import SystemClock
from omnigraph.commit.manifest_types import Snapshot
from omnigraph.lang.source import Source
from omnigraph.ops.cleanup import CleanupCall, CleanupResult, cleanup
from omnigraph.ops.create import create
from omnigraph.ops.history import list_commits
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.options import Options
from omnigraph.runtime import Runtime
from worlds import FAST

TABLES = ("node:A", "node:B")
SCHEMA = "node A { v: I64 @index }\nnode B { v: I64 }"
DAY = timedelta(days=1)

Content = dict[str, dict[str, int]]
"""By table, its rows."""


@dataclass(frozen=True)
class SkewedClock(SystemClock):
    """A clock that was set wrongly."""

    by: timedelta

    def now(self) -> datetime:
        """The wrong time."""
        return super().now() + self.by


def small_world(root: Path | str, options: Options = FAST, **runtime: object) -> Session:
    """A graph of two empty tables."""
    settings = {"options": options, **runtime}
    return create(str(root), Source(SCHEMA, "small.pg"), actor="test", runtime=Runtime(**settings))  # type: ignore[arg-type]  # by name


def looked_at(uri: str) -> Session:
    """A handle that nothing was read through yet: what is removed is missing for it."""
    return open_session(uri, is_read_only=True, runtime=Runtime(options=FAST))


def again(session: Session, **runtime: object) -> Session:
    """Another handle on the same graph."""
    settings = {"options": FAST, **runtime}
    return open_session(session.uri, is_read_only=False, runtime=Runtime(**settings))  # type: ignore[arg-type]  # by name


def readable(session: Session, name: str = "main") -> list[int]:
    """The numbers of the commits of a branch that can be read, and say something, to a newcomer."""
    there = looked_at(session.uri).checkout(name)
    found = []
    for commit in list_commits(there):
        try:
            snapshot = there.resolve_snapshot(commit_id=commit.id)
        except og.CommitCollectedError:
            continue
        content(there, snapshot)
        found.append(commit.seq)
    return found


def content(session: Session, snapshot: Snapshot) -> Content:
    """What the tables of a state say."""
    tables = session.open_tables(snapshot)
    found: Content = {}
    for key in TABLES:
        rows = tables.open_table(key).scan(["id", "v"])
        found[key] = dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))
        assert rows.num_rows == snapshot.pin(key).rows == len(found[key])
    return found


def collect(
    session: Session,
    *,
    keep: int | None = 1,
    older_than: timedelta | None = None,
    grace: timedelta = DAY,
    confirm: bool = True,
) -> CleanupResult:
    """Clean up, with a day's grace unless told otherwise; no table may fail."""
    done = cleanup(session, CleanupCall(keep=keep, older_than=older_than, grace=grace, is_confirmed=confirm))
    assert [one.error for one in done.tables if one.error is not None] == []
    return done


def files(uri: str) -> Iterator[Path]:
    """Every file below a graph's root."""
    return (path for path in Path(uri).rglob("*") if path.is_file())


def names(uri: str) -> set[str]:
    """Every file, relative to the root."""
    return {path.relative_to(uri).as_posix() for path in files(uri)}


def pass_time(uri: str, time: timedelta) -> None:
    """Let time pass: as the store sees it, everything was written that much earlier."""
    for path in files(uri):
        with suppress(FileNotFoundError):
            was = path.stat().st_mtime - time.total_seconds()
            os.utime(path, (was, was))


def needed(uri: str, snapshot: Snapshot) -> set[str]:
    """The files of the tables that a state needs, as Lance tells it."""
    found: set[str] = set()
    for pin in snapshot.pins.values():
        dataset = lance.dataset(f"{uri}/{pin.path}", version=pin.version)
        found.add(f"{pin.path}/_versions/{_version_name(pin.version)}")
        found |= {f"{pin.path}/data/{file.path}" for one in dataset.get_fragments() for file in one.data_files()}
        deletions = (one.metadata.deletion_file for one in dataset.get_fragments())
        stems = [f"-{one.read_version}-{one.id}." for one in deletions if one is not None]
        there = [path.name for path in Path(uri, pin.path).glob("_deletions/*")]
        found |= {f"{pin.path}/_deletions/{name}" for name in there if any(stem in name for stem in stems)}
        for index in dataset.describe_indices():
            for segment in index.segments:
                place = Path(uri, pin.path, "_indices", str(segment.uuid))
                inside = {path.relative_to(uri).as_posix() for path in place.rglob("*") if path.is_file()}
                assert inside, f"the index {index.name} is gone"
                found |= inside
    return found


def _version_name(version: int) -> str:
    return f"d{version}.manifest" if version >= 2**63 else f"{2**64 - 1 - version:020d}.manifest"


def content_files(uri: str) -> set[str]:
    """The files of tables that hold rows, deletions, indexes or detached versions; Lance's own line and logs aside."""
    own = re.compile(r"(nodes|edges)/[^/]+/(data|_deletions|_indices|_versions/d)")
    return {name for name in names(uri) if own.match(name)}
