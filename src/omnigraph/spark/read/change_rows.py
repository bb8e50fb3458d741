"""Read the change feed of a branch in many tasks: each reads the changes of consecutive commits.

A row is one changed node or edge, or one change of the schema. All types share the columns, so the properties before
and after a change are JSON texts, as in the lines of `omnigraph changes`; `from_json` makes columns of them.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType, TimestampType

from omnigraph.api import load_runtime
from omnigraph.clock import parse_instant
from omnigraph.commit.manifest_types import Commit
from omnigraph.ops.change_feed import ChangeFeed, ChangesCall
from omnigraph.ops.commit_changes import ChangeSet, TypeFilter
from omnigraph.ops.open import open_session
from omnigraph.ops.row_diff import Document, encode
from omnigraph.ops.session import Session
from omnigraph.spark.read.spark_types import to_spark_arrow_schema
from omnigraph.spark.session.graph_location import GraphLocation

SCHEMA = StructType(
    [
        StructField("commit", StringType(), nullable=False),
        StructField("seq", LongType(), nullable=False),
        StructField("at", TimestampType(), nullable=False),
        StructField("actor", StringType(), nullable=False),
        StructField("operation", StringType(), nullable=False),
        StructField("change", StringType(), nullable=False),
        StructField("type", StringType()),
        StructField("id", StringType()),
        StructField("changed", ArrayType(StringType())),
        StructField("before", StringType()),
        StructField("after", StringType()),
    ]
)
_ARROW_SCHEMA = to_spark_arrow_schema(SCHEMA)
# The value of `change` for a change of the schema, which is `after` it.
SCHEMA_CHANGE = "schema"
# A task reads at least this number of commits: most commits change few rows, and a task takes longer than these.
_MIN_COMMITS = 16
# More tasks than this only take longer to schedule.
_MAX_TASKS = 1_000
_BATCH_ROWS = 8_192


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeScan:
    """A scan of a branch's change feed; small, and valid in every process."""

    location: GraphLocation
    branch: str
    names: tuple[str, ...] | None = None
    """The types whose rows are read; None for all."""
    paths: tuple[str, ...] = ()
    """The tables of these types, which survive a rename."""

    def open_session(self) -> Session:
        """Open the branch for reading, in this process."""
        return open_branch(self.location, self.branch)


@dataclass(frozen=True, slots=True)
class CommitRange:
    """A number of consecutive commits, after the commit `since` or from the first one."""

    since: str | None
    count: int


def open_branch(location: GraphLocation, branch: str | None) -> Session:
    """Open a branch of a graph for reading; None is `main`."""
    storage = dict(location.storage)
    session = open_session(location.uri, is_read_only=True, runtime=load_runtime(storage or None))
    return session if branch is None else session.checkout(branch)


def plan_change_scan(
    session: Session, location: GraphLocation, since: str | None, types: Sequence[str] | None, until: str | None = None
) -> tuple[ChangeScan, list[CommitRange]]:
    """Plan the scan of the commits after `since`, up to the newest, or to `until`.

    Raises:
        CommitMissingError: The branch has no such commit.
        CommitCollectedError: Cleanup has removed what the next changes are read from.
        TypeMissingError: There is no type of that name, now or after `since`.
    """
    feed = ChangeFeed(session, ChangesCall(since=since, types=types))
    paths: set[str] = set()
    if types is not None:
        start = None if feed.cursor is None else session.resolve_snapshot(commit_id=feed.cursor)
        for snapshot in (start, session.head().snapshot):
            for type_ in () if snapshot is None else session.load_catalog(snapshot).types:
                if type_.name in types and snapshot is not None:
                    paths.add(snapshot.pins[type_.table_key].path)
    scan = ChangeScan(
        location=location,
        branch=session.log.branch,
        names=None if types is None else tuple(types),
        paths=tuple(sorted(paths)),
    )
    return scan, _split_commits(feed.list_commits(until=until))


def _split_commits(commits: Sequence[Commit]) -> list[CommitRange]:
    step = max(_MIN_COMMITS, -(-len(commits) // _MAX_TASKS))
    return [
        CommitRange(commits[start].parent, len(commits[start : start + step])) for start in range(0, len(commits), step)
    ]


def read_changes(scan: ChangeScan, commits: CommitRange) -> Iterator[pa.RecordBatch]:
    """Yield the changes of some commits, in their order."""
    types = None if scan.names is None else TypeFilter(frozenset(scan.names), scan.paths)
    call = ChangesCall(since=commits.since, limit=commits.count)
    rows: list[Document] = []
    for changes in ChangeFeed(scan.open_session(), call, types):
        for row in _iter_rows(changes):
            rows.append(row)
            if len(rows) == _BATCH_ROWS:
                yield pa.RecordBatch.from_pylist(rows, schema=_ARROW_SCHEMA)
                rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=_ARROW_SCHEMA)


def _iter_rows(changes: ChangeSet) -> Iterator[Document]:
    commit = changes.commit
    head: Document = {
        "commit": commit.id,
        "seq": commit.seq,
        "at": parse_instant(commit.at),
        "actor": commit.actor,
        "operation": commit.operation,
    }
    if changes.schema is not None:
        yield {**head, "change": SCHEMA_CHANGE, "after": json.dumps(changes.schema.to_json())}
    for record in changes.records():
        yield {
            **head,
            "change": record["change"],
            "type": record.get("type") or record.get("edge"),
            "id": record["id"],
            "changed": record.get("changed"),
            "before": _encode_document(record["before"]),
            "after": _encode_document(record["after"]),
        }


def _encode_document(document: object) -> str | None:
    return None if document is None else encode(document).decode()
