"""Who does the heavy work of maintenance: this process, or others that are told by a door."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from omnigraph.commit.sidecar import Lease
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.options import UpkeepOptions
from omnigraph.storage.compaction import (
    CompactedGroup,
    SegmentBuild,
    build_index_segment,
    compact,
    list_group_files,
    report_open_files,
)
from omnigraph.storage.index_staging import IndexUntrainableError, list_segment_files
from omnigraph.storage.lance_table import LanceTable

Built: TypeAlias = Mapping[str, Sequence[str] | None]
"""By the name of each index its new segments, as text; None where there is nothing yet to learn from."""


class UpkeepStoppedError(OmnigraphError):
    """Maintenance was interrupted before it was done with a table. Nothing of it is visible."""

    kind = Kind.UNAVAILABLE
    code = "upkeep_stopped"

    def __str__(self) -> str:
        return "it was interrupted; tables that were done stay so: run it again for the others"


@dataclass
class UpkeepFiles:
    """The files made for one table so far, named to recovery as they come: a Witness."""

    lease: Lease
    written: list[str] = field(default_factory=list)

    def on_begin(self, files: Sequence[str]) -> None:
        """See Witness. Some may be another write's of this process: when recovery takes them, that is dead too."""
        self.lease.add_files(files)

    def on_complete(self, files: Sequence[str]) -> None:
        """See Witness."""
        self.written += files
        self.lease.add_files(files)


class OptimizeWorker(Protocol):
    """Does work on a table at a version, all of it invisible, and tells of every file that it makes."""

    def compact(self, table: LanceTable, groups: Sequence[tuple[int, ...]], files: UpkeepFiles) -> list[CompactedGroup]:
        """Write each group of fragments anew."""
        ...

    def build(self, table: LanceTable, builds: Iterable[SegmentBuild], files: UpkeepFiles) -> Built:
        """Build segments, one or more for each that is asked for."""
        ...

    def stop(self) -> None:
        """Somebody interrupted: whatever is at work, in any thread, ends soon by UpkeepStoppedError."""
        ...


@dataclass(frozen=True, slots=True)
class LocalOptimizeWorker:
    """This process, one piece after the other: Lance uses all cores for each."""

    options: UpkeepOptions
    _is_over: threading.Event = field(default_factory=threading.Event)

    def compact(self, table: LanceTable, groups: Sequence[tuple[int, ...]], files: UpkeepFiles) -> list[CompactedGroup]:
        """See Hands."""
        done = []
        with report_open_files(table, files):
            for group in groups:
                self._check_stopped()
                done.append(compact(table, group, self.options, files.on_complete))
                files.on_complete(list_group_files(table, done[-1]))
        return done

    def build(self, table: LanceTable, builds: Iterable[SegmentBuild], files: UpkeepFiles) -> Built:
        """See Hands."""
        found: dict[str, Sequence[str] | None] = {}
        for one in builds:
            self._check_stopped()
            try:
                text = build_index_segment(table, one)
            except IndexUntrainableError:
                found[one.name] = None
                continue
            files.on_complete(list_segment_files(table.path, text))
            found[one.name] = (text,)
        return found

    def stop(self) -> None:
        """See Hands."""
        self._is_over.set()

    def _check_stopped(self) -> None:
        if self._is_over.is_set():
            raise UpkeepStoppedError
