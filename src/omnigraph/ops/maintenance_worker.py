"""Compact tables and build index segments in this process, or define how other workers do it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from omnigraph.commit.sidecar import Lease
from omnigraph.concurrency import Event, create_event
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

# By index name its new segments, as text; None if there is nothing to train it with yet.
Built: TypeAlias = Mapping[str, Sequence[str] | None]


class UpkeepStoppedError(OmnigraphError):
    """Maintenance of a table was interrupted. None of its work on the table is visible."""

    kind = Kind.UNAVAILABLE
    code = "upkeep_stopped"
    message = "maintenance was interrupted; finished tables keep their changes: run it again for the others"


@dataclass
class UpkeepFiles:
    """A WriteObserver of the files written for one table, which adds them to the sidecar for recovery."""

    lease: Lease
    written: list[str] = field(default_factory=list)

    def on_begin(self, files: Sequence[str]) -> None:
        """See WriteObserver."""
        # Files of other writes in this process may be among them. Recovery removes them only if the process is dead,
        # and with it those writes.
        self.lease.add_files(files)

    def on_complete(self, files: Sequence[str]) -> None:
        """See WriteObserver."""
        self.written += files
        self.lease.add_files(files)


class OptimizeWorker(Protocol):
    """A worker that writes files for a table version without publishing them, and reports every file it writes."""

    def compact(self, table: LanceTable, groups: Sequence[tuple[int, ...]], files: UpkeepFiles) -> list[CompactedGroup]:
        """Rewrite each group of fragments as one."""
        ...

    def build(self, table: LanceTable, builds: Iterable[SegmentBuild], files: UpkeepFiles) -> Built:
        """Build one or more index segments for each requested build."""
        ...

    def stop(self) -> None:
        """Stop the work in all threads soon; it raises UpkeepStoppedError."""
        ...

    def check_stopped(self) -> None:
        """Raise UpkeepStoppedError if the work was stopped."""
        ...


@dataclass(frozen=True, slots=True)
class LocalOptimizeWorker:
    """A worker in this process."""

    options: UpkeepOptions
    # Groups and segments are processed one after the other, since Lance uses all cores for each.
    _is_stopped: Event = field(default_factory=create_event)

    def compact(self, table: LanceTable, groups: Sequence[tuple[int, ...]], files: UpkeepFiles) -> list[CompactedGroup]:
        """See OptimizeWorker."""
        done = []
        # Lance reports no files during a compaction: open files are polled, so that recovery knows them.
        with report_open_files(table, files):
            for group in groups:
                self.check_stopped()
                done.append(compact(table, group, self.options, files.on_complete))
                files.on_complete(list_group_files(table, done[-1]))
        return done

    def build(self, table: LanceTable, builds: Iterable[SegmentBuild], files: UpkeepFiles) -> Built:
        """See OptimizeWorker."""
        segments: dict[str, Sequence[str] | None] = {}
        for index in builds:
            self.check_stopped()
            try:
                text = build_index_segment(table, index)
            except IndexUntrainableError:
                segments[index.name] = None
                continue
            files.on_complete(list_segment_files(table.path, text))
            segments[index.name] = (text,)
        return segments

    def stop(self) -> None:
        """See OptimizeWorker."""
        self._is_stopped.set()

    def check_stopped(self) -> None:
        """See OptimizeWorker."""
        if self._is_stopped.is_set():
            raise UpkeepStoppedError
