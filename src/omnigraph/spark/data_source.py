"""The data source `omnigraph` of Spark SQL: a type's rows of one snapshot, and writes that end in one commit.

Options of a read: `graph` (its address), `type`, and where wanted `branch`, `snapshot` (a commit's id) or `at` (an
instant), `columns` (names with commas between them), `filter` (a predicate of the query language) and `partitions` (at
least so many tasks, where that pays). The snapshot is taken when `load()` is called, and stays.

Options of a write: `graph`, `type`, and where wanted `branch`, `mode` (`append`, `merge` or `overwrite`, if not what
Spark's own mode says), `actor`, `message` and, for a batch, `idempotency_key`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType
from ulid import ULID

from omnigraph.api import load_runtime
from omnigraph.clock import parse_instant
from omnigraph.engine.bulk.load_batch import LoadMode
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.open import open_session
from omnigraph.ops.query import TargetAmbiguousError
from omnigraph.runtime_memory import reuse_batch_memory
from omnigraph.spark.data_source_writer import BatchSink, StreamSink, WriteTarget
from omnigraph.spark.read.spark_types import to_spark_arrow_schema
from omnigraph.spark.read.table_scan import ScanTask, TableScan, find_type, plan_scan, plan_scan_tasks, read_task
from omnigraph.spark.session.error_translation import carry_errors
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.spark.session.handshake import Build, check_build, compute_build

NAME = "omnigraph"
STORAGE = "storage_secrets"
"""Settings of the object store as JSON; Spark shows no option whose name says that it is secret."""
_WRITE_OPTIONS = frozenset({"graph", "type", "branch", "mode", "actor", "message", "idempotency_key", STORAGE})
_SPARK_OPTIONS = frozenset({"checkpointlocation", "path"})
_READ_OPTIONS = frozenset({"graph", "type", "branch", "snapshot", "at", "columns", "filter", "partitions", STORAGE})


class SourceOptionError(OmnigraphError):
    """An option of the data source is missing, unknown or not of its form."""

    kind = Kind.USAGE
    code = "source_option"

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(option, reason)
        self.option, self.reason = option, reason

    def __str__(self) -> str:
        return f"the option `{self.option}` of the data source `{NAME}`: {self.reason}"


def register(spark: SparkSession) -> SparkSession:
    """Make `format("omnigraph")` known to a session."""
    build = compute_build()

    class Registered(OmnigraphSource):
        """The source with the build of this process: Spark sends a local class along as it is."""

        driver = build

    spark.dataSource.register(Registered)
    return spark


class OmnigraphSource(DataSource):
    """What Spark makes of `format("omnigraph")`, in a Python process of its own."""

    driver: Build = ()
    """The build of the process that registered it."""
    _scan: TableScan | None = None
    """Set with the schema, so that every later step is of the same snapshot."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the type, in the snapshot that is taken now."""
        with carry_errors():
            self._scan = _plan_read(dict(self.options))
            return self._scan.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of the snapshot that the schema is of."""
        with carry_errors():
            if self._scan is None:
                raise SourceOptionError(
                    "schema", f"it is the graph's own; choose with `columns` ({', '.join(schema.names)})"
                )
            return ScanReader(self._scan, self.driver, _parse_partitions(dict(self.options)))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of a DataFrame."""
        with carry_errors():
            target = _parse_target(dict(self.options), is_overwrite=overwrite)
            target.check_columns(to_spark_arrow_schema(schema))
            return BatchSink(target, to_spark_arrow_schema(schema), str(ULID()), self.driver)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """The writer of a streaming DataFrame."""
        with carry_errors():
            target = _parse_target(dict(self.options), is_overwrite=overwrite)
            target.check_columns(to_spark_arrow_schema(schema))
            return StreamSink(target, to_spark_arrow_schema(schema), str(ULID()), self.driver)


@dataclass(frozen=True, slots=True)
class ScanPartition(InputPartition):
    """What one task reads."""

    task: ScanTask


class ScanReader(DataSourceReader):
    """Reads a type at one pin.

    It takes no filters from Spark (`pushFilters`), because Spark 4.3 keeps those of one use of a DataFrame for every
    other: after `df.where(…)`, `df` itself is filtered. A test of the substrate turns red when that is mended.
    """

    def __init__(self, scan: TableScan, driver: Build, partitions: int = 1) -> None:
        self._scan, self._driver, self._partitions = scan, driver, partitions

    def partitions(self) -> list[InputPartition]:
        """What each task reads."""
        with carry_errors():
            found = plan_scan_tasks(self._scan, self._scan.open_table().list_fragments(), min_tasks=self._partitions)
            return [ScanPartition(piece) for piece in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        if not isinstance(partition, ScanPartition):
            return iter(())  # an empty table: Spark starts a task all the same
        return self._read_rows(partition.task)

    def _read_rows(self, piece: ScanTask) -> Iterator[pa.RecordBatch]:
        reuse_batch_memory()
        with carry_errors():
            check_build(self._driver)
            yield from read_task(self._scan, piece)


# --- options -----------------------------------------------------------------------------------------


def _plan_read(options: Mapping[str, str]) -> TableScan:
    given = _check_options(options, _READ_OPTIONS)
    if given.get("snapshot") and given.get("at"):
        raise TargetAmbiguousError
    storage = given.get(STORAGE)
    runtime = load_runtime(None if storage is None else json.loads(storage))
    session = open_session(_require_option(given, "graph"), is_read_only=True, runtime=runtime)
    if given.get("branch"):
        session = session.checkout(given["branch"])
    snapshot = session.resolve_snapshot(commit_id=given.get("snapshot"), at=_parse_at(given.get("at")))
    type_ = find_type(session.load_catalog(snapshot), _require_option(given, "type"))
    columns = given.get("columns")
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    return plan_scan(session, snapshot, type_, names, given.get("filter"))


def _parse_target(options: Mapping[str, str], *, is_overwrite: bool) -> WriteTarget:
    given = _check_options(options, _WRITE_OPTIONS)
    mode = given.get("mode") or (LoadMode.OVERWRITE.value if is_overwrite else LoadMode.APPEND.value)
    if mode not in [one.value for one in LoadMode]:
        raise SourceOptionError("mode", f"`{mode}` is none of {', '.join(one.value for one in LoadMode)}")
    return WriteTarget(
        location=GraphLocation.from_options(_require_option(given, "graph"), given.get(STORAGE)),
        type=_require_option(given, "type"),
        mode=LoadMode(mode),
        branch=given.get("branch"),
        actor=given.get("actor", "anonymous"),
        message=given.get("message"),
        idempotency_key=given.get("idempotency_key"),
    )


def _check_options(options: Mapping[str, str], known: frozenset[str]) -> dict[str, str]:
    given = {name.lower(): value for name, value in options.items()}
    for name in given:
        if name not in known | _SPARK_OPTIONS:
            near = find_closest(name, known)
            raise SourceOptionError(
                name, f"did you mean `{near}`?" if near else f"there are {', '.join(sorted(known))}"
            )
    return given


def _require_option(given: Mapping[str, str], name: str) -> str:
    if not given.get(name):
        raise SourceOptionError(name, "it is needed")
    return given[name]


def _parse_at(text: str | None) -> datetime | None:
    try:
        return None if text is None else parse_instant(text)
    except ValueError as error:
        raise SourceOptionError("at", f"`{text}` is not a time with a zone, such as 2026-01-31T12:00:00Z") from error


def _parse_partitions(options: Mapping[str, str]) -> int:
    text = options.get("partitions", "1")
    if not (text.isascii() and text.isdigit()):
        raise SourceOptionError("partitions", f"`{text}` is no number of tasks")
    return int(text)
