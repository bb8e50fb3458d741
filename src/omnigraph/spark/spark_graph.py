"""A graph's door to Spark: its types as DataFrames and views of one snapshot, loads, streams and exports."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.locations import resolve_local_path
from omnigraph.ops.argument_checks import BadArgumentError, check_max_errors, parse_choice
from omnigraph.ops.export import Exported, ExportFormat, ExportProgress, ExportTargetError
from omnigraph.ops.load import LoadCall, LoadMode, LoadResult, Progress, load
from omnigraph.ops.load_arguments import TypedData, build_load_input
from omnigraph.ops.open_table import find_edge_type
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.spark.data_source import register
from omnigraph.spark.load.frame_digest import digest_frames
from omnigraph.spark.load.load_engine import build_reader
from omnigraph.spark.read.dataframe_reader import read_frame
from omnigraph.spark.read.export import export_on_spark
from omnigraph.spark.read.sql_views import TypeUsage, run_sql
from omnigraph.spark.read.table_scan import find_type, plan_scan
from omnigraph.spark.session.error_translation import surface_errors
from omnigraph.spark.session.spark_session import session as spark_session
from omnigraph.spark.stream.structured_streaming import GraphStream, RowMapping, StreamCall, start_stream


class SparkGraph:
    """One state of a graph, for Spark. All that is read through it is of that state, whatever is written meanwhile."""

    def __init__(self, session: Session, snapshot: Snapshot, spark: SparkSession | None = None) -> None:
        session.allow(Action.EXPORT, snapshot.branch)  # executors read whole tables
        self._session, self._snapshot, self._spark = session, snapshot, spark

    @property
    def spark(self) -> SparkSession:
        """The session that everything runs in: the active one, or one that is made when it is first needed."""
        if self._spark is None:
            self._spark = spark_session()
        with suppress(AnalysisException):  # Spark has it for one session of a process; what is here does without
            register(self._spark)
        return self._spark

    @property
    def commit_id(self) -> str:
        """The commit whose state this is."""
        return self._snapshot.commit.id

    def at(self, *, branch: str | None = None, snapshot: str | None = None, at: datetime | None = None) -> "SparkGraph":
        """The same for another state: the newest of a branch (else of this one), a commit's id, or an instant.

        Raises:
            BranchMissingError, CommitMissingError: There is no such state.
        """
        session = self._session if branch is None else self._session.checkout(branch)
        return SparkGraph(session, session.resolve_snapshot(commit_id=snapshot, at=at), self._spark)

    @property
    def _catalog(self) -> Catalog:
        return self._session.load_catalog(self._snapshot)

    # --- reading ---------------------------------------------------------------------------------

    def table(self, type_name: str, *, columns: Sequence[str] | None = None, where: str | None = None) -> DataFrame:
        """The rows of a node or edge type.

        Only `columns` are read, and only rows for which `where` is true, a predicate of the query language such as
        `age > 30 or name starts_with "A"`. Say both here, or use `sql`, which finds out by itself: Spark does not
        tell a source what the later steps of a DataFrame need.

        Raises:
            TypeMissingError, ColumnMissingError: There is no such thing.
            SourceError: The predicate has mistakes.
        """
        return self._read_frame(find_type(self._catalog, type_name), columns, where)

    def edges(self, type_name: str, *, columns: Sequence[str] | None = None, where: str | None = None) -> DataFrame:
        """The edges of a type: `id`, `src`, `dst` and its properties. Otherwise as `table`."""
        return self._read_frame(find_edge_type(self._catalog, type_name), columns, where)

    def sql(self, text: str) -> DataFrame:
        """The answer of a SQL statement, in which every type is a table of this state.

        Only the columns that the statement uses are read, and where its conditions allow it only rows that they let
        pass. Other tables and views of the session can be used too, unless a type has their name.
        """
        with surface_errors():
            return run_sql(self.spark, text, self._catalog, self._read_used)

    # --- writing ---------------------------------------------------------------------------------

    def load(  # noqa: PLR0913 - all by name
        self,
        *,
        mode: LoadMode | str,
        nodes: Mapping[str, DataFrame | TypedData] | None = None,
        edges: Mapping[str, DataFrame | TypedData] | None = None,
        map: Mapping[str, str] | None = None,
        actor: str = "anonymous",
        message: str | None = None,
        idempotency_key: str | None = None,
        on_error: str | os.PathLike[str] | None = None,
        max_errors: int | None = None,
        dry_run: bool = False,
        progress: Callable[[Progress], None] | None = None,
    ) -> LoadResult:
        """Load DataFrames (or files), checked on executors, in one commit or not at all.

        The arguments, the result and what is raised are those of `Graph.load`. This object goes on reading the state
        that it was made for: `at()` gives one of what was loaded.
        """
        check_max_errors(max_errors, has_directory=on_error is not None)
        given = build_load_input(None, nodes, edges, map)
        call = LoadCall(
            input=given,
            digests={} if idempotency_key is None or dry_run else digest_frames(given),
            mode=parse_choice("mode", LoadMode, mode),
            actor=actor,
            message=message,
            idempotency_key=idempotency_key,
            on_error=None if on_error is None else resolve_local_path(on_error),
            max_errors=max_errors,
            is_dry_run=dry_run,
            progress=progress,
        )
        return load(self._session, call, build_reader(spark=self.spark))

    def stream(  # noqa: PLR0913 - all but what is streamed by name
        self,
        frame: DataFrame,
        mapping: RowMapping,
        *,
        checkpoint: str | os.PathLike[str],
        mode: LoadMode | str = LoadMode.MERGE,
        every: str | None = None,
        until_empty: bool = False,
        name: str | None = None,
        actor: str = "anonymous",
        message: str | None = None,
        on_error: str | os.PathLike[str] | None = None,
        max_errors: int | None = None,
    ) -> GraphStream:
        """Load a streaming DataFrame for as long as it goes on: each batch one commit, exactly once.

        Args:
            frame: What `spark.readStream` gives.
            mapping: How its rows become nodes and edges. The name of a type whose columns it has; or by type, which
                columns (or SQL over them) give its properties, `id`, `from` and `to`, for one row or several; or a
                function that makes DataFrames by type of a batch. Rows with `"@where"` are only those that it says.
            checkpoint: A directory of this stream's own, on storage that outlives the driver. A stream that is
                started with it again goes on where it ended.
            mode: `merge` or `append`, as for a load.
            every: How often a batch begins, such as `10 seconds`; without it, when the one before is done.
            until_empty: End when everything is loaded that is there now.
            name: What Spark calls the query.
            actor: Who the commits are by.
            message: A message to keep with every commit.
            on_error: A directory for records that can't be loaded, each batch's in one of its own; without it, one
                stops the stream.
            max_errors: With a directory, how many records of a batch may go there before the stream stops.

        Raises:
            BadMappingError: The mapping does not say how rows become nodes and edges.
            TypeMissingError: There is no such type.
        """
        check_max_errors(max_errors, has_directory=on_error is not None)
        if not frame.isStreaming:
            raise BadArgumentError("frame", "a DataFrame that ends", "use `load`, or read it with `spark.readStream`")
        call = StreamCall(
            mapping=mapping,
            checkpoint=_resolve_path(checkpoint),
            every=every,
            until_empty=until_empty,
            name=name,
            mode=parse_choice("mode", LoadMode, mode),
            actor=actor,
            message=message,
            on_error=None if on_error is None else resolve_local_path(on_error),
            max_errors=max_errors,
        )
        return start_stream(self._session, frame, call)

    def export(
        self,
        target: str | os.PathLike[str] | BinaryIO,
        *,
        format: ExportFormat | str = ExportFormat.JSONL,
        types: Sequence[str] | None = None,
        progress: Callable[[ExportProgress], None] | None = None,
    ) -> Exported:
        """Write this state's rows on executors, below a directory that they all see; `load` takes what this writes.

        Graph JSONL is a directory of files that, one behind the other by name, are what `Graph.export` writes. Parquet
        is a directory of files for each type. What an earlier export wrote there is replaced.

        Raises:
            TypeMissingError: The schema of this state has no such type.
            ExportTargetError: The target can't be written, holds other files, or executors don't see it.
        """
        if not isinstance(target, str | os.PathLike):
            raise ExportTargetError("a stream", "executors write files; name a directory that they all see")
        return export_on_spark(
            self._session,
            self._snapshot,
            self.spark,
            self._read_parts,
            target,
            format=parse_choice("format", ExportFormat, format),
            types=types,
            progress=progress,
        )

    # --- frames ----------------------------------------------------------------------------------

    def _read_used(self, type_: AnyType, use: TypeUsage) -> DataFrame:
        return self._read_frame(type_, use.columns, use.where)

    def _read_parts(self, type_: AnyType, cuts: tuple[str, ...]) -> DataFrame:
        return read_frame(self.spark, replace(plan_scan(self._session, self._snapshot, type_), cuts=cuts))

    def _read_frame(self, type_: AnyType, columns: Sequence[str] | None = None, where: str | None = None) -> DataFrame:
        return read_frame(self.spark, plan_scan(self._session, self._snapshot, type_, columns, where))


def _resolve_path(path: str | os.PathLike[str]) -> str:
    """A path as this process means it, whatever directory the JVM is in; an address with a scheme as it is."""
    text = os.fspath(path)
    return text if "://" in text else str(Path(text).absolute())


def open_on_master(session: Session, snapshot: Snapshot, master: str | None) -> SparkGraph:
    """A state of a graph on the Spark of a master; None: the active session, or the default.

    Raises:
        JavaMissingError, SparkNotStartedError, OtherMasterError: There is no such Spark.
    """
    return SparkGraph(session, snapshot, spark_session(master))
