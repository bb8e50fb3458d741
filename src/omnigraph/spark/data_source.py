"""The Spark SQL data source `omnigraph`: reads a type's rows of one snapshot, and writes rows in one commit.

Read options: `graph` (its URI) and `type` are required. Optional are `branch`, `snapshot` (a commit id) or `at` (an
instant), which may be called `versionAsOf` and `timestampAsOf`, `columns` (comma-separated), `filter` (a predicate of
the query language) and `partitions` (the minimum number of tasks, if the table is large enough). The snapshot is chosen
when `load()` is called, or a view is created, and stays the same.

With `changes=true` the rows are those of the change feed: `since` (a commit, after which it begins), `types`
(comma-separated) and `branch` are optional then, and there are no other options. `readStream` reads nothing else.

Write options: `graph` and `type` are required. Optional are `branch`, `mode` (`append`, `merge` or `overwrite`, instead
of Spark's own mode), `actor`, `message` and, for a batch write, `idempotency_key`.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType
from ulid import ULID

from omnigraph.api import load_runtime
from omnigraph.clock import parse_instant
from omnigraph.engine.bulk.load_batch import LoadMode
from omnigraph.errors import BadArgumentError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.open import open_session
from omnigraph.spark.change_source import ChangeOptions, ChangeReader, ChangeStreamReader
from omnigraph.spark.data_source_writer import BatchSink, StreamSink, WriteTarget
from omnigraph.spark.read import change_rows
from omnigraph.spark.read.spark_types import to_spark_arrow_schema
from omnigraph.spark.read.table_scan import ScanTask, TableScan, find_type, plan_scan, plan_scan_tasks, read_task
from omnigraph.spark.session.connect import is_connect
from omnigraph.spark.session.error_translation import name_errors
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.spark.session.handshake import Build, check_build, compute_build
from omnigraph.spark.spark_errors import SparkUsageError

NAME = "omnigraph"
# The object store's settings as JSON. Spark redacts options whose names contain "secret".
STORAGE = "storage_secrets"
_WRITE_OPTIONS = frozenset({"graph", "type", "branch", "mode", "actor", "message", "idempotency_key", STORAGE})
# Options that Spark itself passes on to every source.
_SPARK_OPTIONS = frozenset({"checkpointlocation", "path"})
_CHANGE_OPTIONS = frozenset({"changes", "graph", "branch", "since", "types", STORAGE})
_READ_OPTIONS = frozenset(
    {"graph", "type", "branch", "snapshot", "at", "changes", "columns", "filter", "partitions", STORAGE}
)
# The names of Delta and Iceberg for options of ours.
_ALIASES = {"versionasof": "snapshot", "timestampasof": "at"}
# What Spark passes for a table of its catalog, instead of that table's own options.
_TABLE_OPTION = "provider"


def register(spark: SparkSession) -> SparkSession:
    """Register `format("omnigraph")` with a session, also with one of `newSession()`; again is not needed.

    Raises:
        AnalysisException: It is registered already.
    """
    build = compute_build()

    class Registered(OmnigraphSource):
        """The source with the build of this process: Spark pickles a local class by value, attributes included."""

        driver = build

    with _activate(spark):
        spark.dataSource.register(Registered)
    return spark


@contextmanager
def _activate(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread: Spark asks that one whether a source is registered."""
    if is_connect(spark):
        yield
        return
    sessions = SparkSession._get_j_spark_session_class(spark._jvm)  # noqa: SLF001 - there is no public way
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)  # noqa: SLF001 - as above
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


class OmnigraphSource(DataSource):
    """The source that Spark instantiates for `format("omnigraph")`, in a separate Python process."""

    driver: Build = ()
    """The build of the process that registered the source."""
    # Set by `schema`, so that every later step reads the same snapshot.
    _scan: TableScan | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Resolve the snapshot to read, and return the columns of the type in it."""
        with name_errors():
            if _reads_changes(self.options):
                _parse_change_options(self.options)
                return change_rows.SCHEMA
            self._scan = _plan_read(dict(self.options))
            return self._scan.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the snapshot that `schema` was called for."""
        with name_errors():
            if _reads_changes(self.options):
                return ChangeReader(_parse_change_options(self.options), self.driver)
            # Spark skips `schema` when the user passes one with `.schema(…)`.
            if self._scan is None:
                raise SparkUsageError.source_option(
                    "schema", f"it comes from the graph; select columns with `columns` ({', '.join(schema.names)})"
                )
            return ScanReader(self._scan, self.driver, _parse_partitions(dict(self.options)))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's name
        """Return the reader of a stream of changes."""
        with name_errors():
            if not _reads_changes(self.options):
                raise SparkUsageError.source_option("changes", "a stream reads the change feed; set it to `true`")
            return ChangeStreamReader(_parse_change_options(self.options), self.driver)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a DataFrame."""
        with name_errors():
            target = _parse_target(dict(self.options), is_overwrite=overwrite)
            target.check_columns(to_spark_arrow_schema(schema))
            return BatchSink(target, to_spark_arrow_schema(schema), str(ULID()), self.driver)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Return the writer of a streaming DataFrame."""
        with name_errors():
            target = _parse_target(dict(self.options), is_overwrite=overwrite)
            target.check_columns(to_spark_arrow_schema(schema))
            return StreamSink(target, to_spark_arrow_schema(schema), str(ULID()), self.driver)


@dataclass(frozen=True, slots=True)
class ScanPartition(InputPartition):
    """The partition that one task reads."""

    task: ScanTask


class ScanReader(DataSourceReader):
    """The reader of a type's table at one version.

    It does not implement `pushFilters`, because Spark 4.3 keeps the filters of one use of a DataFrame for all others:
    after `df.where(…)`, `df` itself is filtered. A test fails as soon as Spark has fixed that.
    """

    def __init__(self, scan: TableScan, driver: Build, partitions: int = 1) -> None:
        self._scan = scan
        self._driver = driver
        self._partitions = partitions

    def partitions(self) -> list[InputPartition]:
        """Return one partition per task."""
        with name_errors():
            tasks = plan_scan_tasks(self._scan, self._scan.open_table().list_fragments(), min_tasks=self._partitions)
            return [ScanPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task."""
        if not isinstance(partition, ScanPartition):
            return iter(())  # Spark starts a task even for an empty table, without a partition of ours
        return self._read_rows(partition.task)

    def _read_rows(self, task: ScanTask) -> Iterator[pa.RecordBatch]:
        with name_errors():
            check_build(self._driver)
            yield from read_task(self._scan, task)


# --- options -----------------------------------------------------------------------------------------


def _plan_read(options: Mapping[str, str]) -> TableScan:
    checked = _check_options(options, _READ_OPTIONS)
    if checked.get("snapshot") and checked.get("at"):
        raise BadArgumentError.target_ambiguous()
    storage = checked.get(STORAGE)
    runtime = load_runtime(None if storage is None else json.loads(storage))
    session = open_session(_require_option(checked, "graph"), is_read_only=True, runtime=runtime)
    if checked.get("branch"):
        session = session.checkout(checked["branch"])
    snapshot = session.resolve_snapshot(commit_id=checked.get("snapshot"), at=_parse_at(checked.get("at")))
    type_ = find_type(session.load_catalog(snapshot), _require_option(checked, "type"))
    columns = checked.get("columns")
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    return plan_scan(session, snapshot, type_, names, checked.get("filter"))


def _reads_changes(options: Mapping[str, str]) -> bool:
    text = {name.lower(): value for name, value in options.items()}.get("changes", "false").lower()
    if text not in ("true", "false"):
        raise SparkUsageError.source_option("changes", f"`{text}` is neither `true` nor `false`")
    return text == "true"


def _parse_change_options(options: Mapping[str, str]) -> ChangeOptions:
    checked = _check_options(options, _CHANGE_OPTIONS)
    types = checked.get("types")
    return ChangeOptions(
        location=GraphLocation.from_options(_require_option(checked, "graph"), checked.get(STORAGE)),
        branch=checked.get("branch"),
        since=checked.get("since"),
        types=None if types is None else tuple(name.strip() for name in types.split(",")),
    )


def _parse_target(options: Mapping[str, str], *, is_overwrite: bool) -> WriteTarget:
    checked = _check_options(options, _WRITE_OPTIONS)
    mode = checked.get("mode") or (LoadMode.OVERWRITE.value if is_overwrite else LoadMode.APPEND.value)
    modes = [load_mode.value for load_mode in LoadMode]
    if mode not in modes:
        raise SparkUsageError.source_option("mode", f"`{mode}` is not one of {', '.join(modes)}")
    return WriteTarget(
        location=GraphLocation.from_options(_require_option(checked, "graph"), checked.get(STORAGE)),
        type=_require_option(checked, "type"),
        mode=LoadMode(mode),
        branch=checked.get("branch"),
        actor=checked.get("actor", "anonymous"),
        message=checked.get("message"),
        idempotency_key=checked.get("idempotency_key"),
    )


def _check_options(options: Mapping[str, str], allowed: frozenset[str]) -> dict[str, str]:
    # Spark's option names are case-insensitive.
    lowered: dict[str, str] = {}
    for given, value in options.items():
        name = _ALIASES.get(given.lower(), given.lower())
        if name in lowered:
            raise SparkUsageError.source_option(name, "it is given twice, by both of its names")
        lowered[name] = value
    if _TABLE_OPTION in lowered:
        raise SparkUsageError.no_spark_table()
    for name in lowered:
        if name not in allowed | _SPARK_OPTIONS:
            near = find_closest(name, allowed)
            hint = f"did you mean `{near}`?" if near else f"the options are {', '.join(sorted(allowed))}"
            raise SparkUsageError.source_option(name, f"there is no such option; {hint}")
    return lowered


def _require_option(options: Mapping[str, str], name: str) -> str:
    if not options.get(name):
        raise SparkUsageError.source_option(name, "it is required")
    return options[name]


def _parse_at(text: str | None) -> datetime | None:
    try:
        return None if text is None else parse_instant(text)
    except ValueError as error:
        raise SparkUsageError.source_option(
            "at", f"`{text}` is not a time with a zone, such as 2026-01-31T12:00:00Z"
        ) from error


def _parse_partitions(options: Mapping[str, str]) -> int:
    text = options.get("partitions", "1")
    if not (text.isascii() and text.isdigit()):
        raise SparkUsageError.source_option("partitions", f"`{text}` is not a number of tasks")
    return int(text)
