"""The change feed in the data source `omnigraph`: as rows, or as a stream whose offsets are commits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from omnigraph.ops.revision import resolve_commit
from omnigraph.ops.session import Session
from omnigraph.spark.read.change_rows import ChangeScan, CommitRange, open_branch, plan_change_scan, read_changes
from omnigraph.spark.session.error_translation import name_errors
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.spark.session.handshake import Build, check_build

_COMMIT = "commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """The options of a read of changes."""

    location: GraphLocation
    branch: str | None = None
    since: str | None = None
    types: tuple[str, ...] | None = None

    def open_session(self) -> Session:
        """Open the branch for reading, in this process."""
        return open_branch(self.location, self.branch)


@dataclass(frozen=True, slots=True)
class ChangePartition(InputPartition):
    """The commits that one task reads."""

    scan: ChangeScan
    commits: CommitRange


class ChangeReader(DataSourceReader):
    """The reader of all changes from a commit to the newest."""

    def __init__(self, options: ChangeOptions, driver: Build) -> None:
        self._options = options
        self._driver = driver

    def partitions(self) -> list[InputPartition]:
        """Return one partition per task."""
        with name_errors():
            return _plan(self._options, self._options.since)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the changes of one task."""
        return _read(partition, self._driver)


class ChangeStreamReader(DataSourceStreamReader):
    """The reader of a stream of changes. An offset is the newest commit whose changes were read.

    Spark stores the offsets of a batch in its checkpoint before it reads them, so each change is in exactly one batch.
    """

    def __init__(self, options: ChangeOptions, driver: Build) -> None:
        self._options = options
        self._driver = driver

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        """Return the commit that a new stream begins after; empty for all changes."""
        with name_errors():
            since = self._options.since
            return {_COMMIT: "" if since is None else resolve_commit(self._options.open_session(), since)}

    def latestOffset(self, start: object = None, limit: object = None) -> dict[str, str]:  # noqa: ARG002, N802 - Spark's
        """Return the newest commit."""
        with name_errors():
            return {_COMMIT: self._options.open_session().head().snapshot.commit.id}

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        """Return one partition per task of a batch."""
        with name_errors():
            return _plan(self._options, start[_COMMIT] or None, end[_COMMIT])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the changes of one task."""
        return _read(partition, self._driver)


def _plan(options: ChangeOptions, since: str | None, until: str | None = None) -> list[InputPartition]:
    scan, ranges = plan_change_scan(options.open_session(), options.location, since, options.types, until)
    return [ChangePartition(scan, commits) for commits in ranges]


def _read(partition: InputPartition, driver: Build) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, ChangePartition):
        return  # Spark starts a task even without a partition of ours
    with name_errors():
        check_build(driver)
        yield from read_changes(partition.scan, partition.commits)
