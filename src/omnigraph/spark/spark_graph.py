"""The Spark interface of a graph: DataFrames and SQL over one snapshot, loads, streams and exports."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.query_budget import Budget
from omnigraph.errors import BadArgumentError
from omnigraph.lang.source import Source
from omnigraph.locations import resolve_local_path
from omnigraph.ops.algorithm_call import build_algorithm
from omnigraph.ops.algorithms import resolve_distributed
from omnigraph.ops.argument_checks import check_max_errors, parse_choice
from omnigraph.ops.export import Exported, ExportFormat, ExportProgress, ExportTargetError
from omnigraph.ops.load import LoadCall, LoadMode, LoadResult, Progress, load
from omnigraph.ops.load_arguments import TypedData, build_load_input
from omnigraph.ops.open_table import find_edge_type
from omnigraph.ops.query import QueryCall, begin
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType
from omnigraph.spark.algorithms.run_algorithm import compute_frame
from omnigraph.spark.data_source import register
from omnigraph.spark.load.frame_digest import digest_frames
from omnigraph.spark.load.load_engine import build_reader
from omnigraph.spark.query.run_query import QueryJob, SparkRows, run_query
from omnigraph.spark.query.write_rows import RowsFormat, WrittenRows, write_rows
from omnigraph.spark.read.change_rows import plan_change_scan
from omnigraph.spark.read.dataframe_reader import read_change_frame, read_frame
from omnigraph.spark.read.export import export_on_spark
from omnigraph.spark.read.sql_views import run_sql
from omnigraph.spark.read.table_scan import find_type, plan_scan
from omnigraph.spark.session.error_translation import surface_errors
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.spark.session.spark_session import session as spark_session
from omnigraph.spark.spark_errors import SparkUsageError
from omnigraph.spark.stream.structured_streaming import GraphStream, RowMapping, StreamCall, start_stream


class SparkGraph:
    """A snapshot of a graph, for Spark. All reads see that snapshot, whatever is written concurrently."""

    def __init__(
        self, session: Session, snapshot: Snapshot, spark: SparkSession | None = None, *, master: str | None = None
    ) -> None:
        # Executors read whole tables, so this needs the same permission as an export.
        session.allow(Action.EXPORT, snapshot.branch)
        self._session = session
        self._snapshot = snapshot
        self._spark = spark
        self._master = master

    @property
    def spark(self) -> SparkSession:
        """The Spark session: the active one, or a new one that is started when it is first needed."""
        if self._spark is None:
            self._spark = spark_session(self._master)
        # Once for each session; no method here needs the source.
        with suppress(AnalysisException):
            register(self._spark)
        return self._spark

    @property
    def commit_id(self) -> str:
        """The id of the snapshot's commit."""
        return self._snapshot.commit.id

    def at(self, *, branch: str | None = None, snapshot: str | None = None, at: datetime | None = None) -> "SparkGraph":
        """Return another snapshot: a branch's newest (default: this branch's), that of a commit id, or of an instant.

        Raises:
            BranchMissingError, CommitMissingError: There is no such snapshot.
        """
        session = self._session if branch is None else self._session.checkout(branch)
        return SparkGraph(session, session.resolve_snapshot(commit_id=snapshot, at=at), self._spark)

    @property
    def _catalog(self) -> Catalog:
        return self._session.load_catalog(self._snapshot)

    # --- reading ---------------------------------------------------------------------------------

    def table(self, type_name: str, *, columns: Sequence[str] | None = None, where: str | None = None) -> DataFrame:
        """Return the rows of a node or edge type.

        Only `columns` are read, and only rows for which `where` is true, a predicate of the query language such as
        `age > 30 or name starts_with "A"`. Pass both here, or use `sql`, which derives them from the statement: Spark
        does not push the later steps of a DataFrame down to this read.

        Raises:
            TypeMissingError, MissingError: There is no such type or column.
            SourceError: The predicate is invalid.
        """
        return self._read_frame(find_type(self._catalog, type_name), columns, where)

    def edges(self, type_name: str, *, columns: Sequence[str] | None = None, where: str | None = None) -> DataFrame:
        """Return the edges of a type: `id`, `src`, `dst` and its properties. Otherwise the same as `table`."""
        return self._read_frame(find_edge_type(self._catalog, type_name), columns, where)

    def sql(self, text: str) -> DataFrame:
        """Return the result of a SQL statement, in which every type is a table of this snapshot.

        Only columns that the statement uses are read and, if its conditions can be pushed down, only rows that they
        pass. Other tables and views of the session can be used, too, unless a type has the same name.
        """
        with surface_errors():
            return run_sql(
                self.spark,
                text,
                self._catalog,
                lambda type_, usage: self._read_frame(type_, usage.columns, usage.where),
            )

    def register(self, prefix: str) -> list[str]:
        """Make every type a temporary view of the Spark session, `<prefix>_<type>`, and return their names.

        All views show this snapshot until the session ends, or `register` is called again. They read all columns of a
        type: Spark does not push a statement down to them, as `sql` does.

        Raises:
            BadArgumentError: The prefix can't begin the name of a view.
            SparkUsageError: The names of two types differ only in case, which SQL ignores.
        """
        if re.fullmatch(r"[A-Za-z_]\w*", prefix, re.ASCII) is None:
            raise BadArgumentError("prefix", repr(prefix), "it begins names of SQL: letters, digits and `_`")
        names: dict[str, str] = {}
        for type_ in self._catalog.types:
            other = names.setdefault(type_.name.lower(), type_.name)
            if other != type_.name:
                raise SparkUsageError.view_name(other, type_.name)
        with surface_errors():
            for type_ in self._catalog.types:
                self._read_frame(type_).createOrReplaceTempView(f"{prefix}_{type_.name}")
        return [f"{prefix}_{name}" for name in names.values()]

    def changes(self, *, since: str | None = None, types: Sequence[str] | None = None) -> DataFrame:
        """Return the changes of this snapshot's branch after the commit `since`, up to the snapshot.

        A row is a node or edge that a commit inserted, updated or deleted, or (`change = 'schema'`) a change of the
        schema; `before` and `after` are JSON texts. Commits are those of `Graph.changes`. Tasks read the commits, so
        rows come in any order: sort by `seq`. As a stream, the data source reads the same with `changes=true`.

        Raises:
            CommitMissingError: `since` is not a commit of the branch.
            CommitCollectedError, DataDroppedError: The next changes can no longer be read.
            TypeMissingError: There is no type of that name.
        """
        session = self._session.checkout(self._snapshot.branch)
        location = GraphLocation.from_session(session)
        scan, commits = plan_change_scan(session, location, since, types, self.commit_id)
        return read_change_frame(self.spark, scan, commits)

    def query(
        self, source: str | Source, *, name: str | None = None, params: Mapping[str, object] | None = None
    ) -> DataFrame:
        """Return the rows of a query of the query language, in its order, as `Graph.query` gives them.

        Hops over several edges are searched by this call, distance by distance; all else runs when rows are asked for.
        Large results need not pass this process: `write_query` writes them, as the DataFrame itself can.

        Raises:
            SourceError, MissingError, ParameterError: The query or its parameters are wrong.
            QueryError: It is a mutation.
            SparkUsageError: Spark does not run a form of the query, which is named; nothing was read.
        """
        return self.query_rows(source, name=name, params=params).frame

    def query_rows(
        self, source: str | Source | QueryCall, *, name: str | None = None, params: Mapping[str, object] | None = None
    ) -> SparkRows:
        """Return the same as `query`, with the schema that a result of `Graph.query` has."""
        session, snapshot = self._session, self._snapshot
        # A call says itself how its text becomes a read, as one of Cypher does.
        call = source if isinstance(source, QueryCall) else None
        if call is None:
            text = source if isinstance(source, Source) else Source(str(source))
            call = QueryCall(source=text, name=name, params=params or {}, branch=snapshot.branch)
        bound, context = begin(session, call, snapshot, Budget(session.runtime.clock))
        job = QueryJob(
            query=bound,
            plan=session.plans.get_or_plan(bound, snapshot, context),
            # A budget belongs to this process: executors have limits of their own.
            inputs=replace(context.inputs, budget=None),
            context=context,
            plan_scan=lambda type_name: plan_scan(session, snapshot, find_type(context.catalog, type_name)),
        )
        return run_query(lambda: self.spark, job)

    def algorithm(self, name: str, edge: str, **parameters: object) -> DataFrame:
        """Return what a graph algorithm computes for each node, as `id` and a column such as `rank`, ordered by ids.

        The names and parameters are those of `Graph.algorithms`, as in `algorithm("pagerank", "Knows", damping=0.9)`.
        This call computes the values; the DataFrame reads them from the graph's storage, where they stay for a day: a
        DataFrame that is used later has to be written. No value passes this process.

        Raises:
            TypeMissingError, QueryError: There is no such type, algorithm or parameter, or Spark does not run it.
            ReadOnlyError: The graph was opened read-only, so that nothing can be kept in its storage.
        """
        algorithm = build_algorithm(name, parameters)
        subject = resolve_distributed(self._session, self._snapshot, edge, algorithm)
        return compute_frame(self._session, self, subject, algorithm)

    def write_query(
        self,
        source: str | Source,
        target: str | os.PathLike[str],
        *,
        format: RowsFormat | str,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
    ) -> WrittenRows:
        """Run a query, and write its rows from the executors to a new target: they don't pass this process.

        The format `parquet` is a directory of Parquet files, `lance` a Lance table with the types of `Graph.query`,
        and `table` the name of a table of Spark's catalog. Rows are in the order of the query.

        Raises:
            SourceError, MissingError, ParameterError: The query or its parameters are wrong.
            QueryError: It is a mutation, or a calculation exceeds its type.
            SparkUsageError: Spark does not run a form of the query, which is named; nothing was read.
            ExportTargetError: The target exists, or executors don't see it, or a name has a dot that Lance refuses.
        """
        chosen = parse_choice("format", RowsFormat, format)
        place = os.fspath(target) if chosen is RowsFormat.TABLE else _resolve_path(target)
        return write_rows(self.query_rows(source, name=name, params=params), place, chosen, self.commit_id)

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

        The arguments, the result and the errors are those of `Graph.load`. This object still reads its old snapshot
        afterwards; `at()` returns one with the loaded rows.
        """
        check_max_errors(max_errors, has_directory=on_error is not None)
        load_input = build_load_input(None, nodes, edges, map)
        call = LoadCall(
            input=load_input,
            # A digest of a DataFrame computes all of its rows; only a key needs one, to detect other input.
            digests={} if idempotency_key is None or dry_run else digest_frames(load_input),
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

    def merge(
        self,
        frame: DataFrame,
        *,
        type: str,
        actor: str = "anonymous",
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> LoadResult:
        """Upsert the rows of a DataFrame into a type, in one commit: update those whose id exists, insert others.

        It is `load` in the mode `merge` for one type: columns that the DataFrame leaves out keep their values.
        """
        is_edge = isinstance(find_type(self._catalog, type), EdgeType)
        return self.load(
            mode=LoadMode.MERGE,
            nodes=None if is_edge else {type: frame},
            edges={type: frame} if is_edge else None,
            actor=actor,
            message=message,
            idempotency_key=idempotency_key,
        )

    def stream(  # noqa: PLR0913 - all but frame and mapping by name
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
        """Load a streaming DataFrame continuously: each batch is one commit, exactly once.

        Args:
            frame: The result of `spark.readStream`.
            mapping: How its rows become nodes and edges: the name of a type whose columns it has; or for each type the
                columns (or SQL over them) of its properties, `id`, `from` and `to`, for one row or a list of rows; or a
                function from a batch to DataFrames by type. `"@where"` among the columns filters the rows.
            checkpoint: A directory for this stream only, on storage that outlives the driver. A stream that is started
                with it again resumes where it ended.
            mode: `merge` or `append`, as for a load.
            every: The interval between batches, such as `10 seconds`; by default, a batch begins when the previous one
                is done.
            until_empty: Stop when all rows are loaded that are available now.
            name: The name of the query in Spark.
            actor: The author of the commits.
            message: The message of every commit.
            on_error: A directory for records that can't be loaded, with a subdirectory for each batch; without it, such
                a record stops the stream.
            max_errors: With a directory, the limit of such records in a batch; more stop the stream.

        Raises:
            SparkUsageError: The mapping from rows to nodes and edges is invalid.
            TypeMissingError: There is no such type.
        """
        check_max_errors(max_errors, has_directory=on_error is not None)
        if not frame.isStreaming:
            raise BadArgumentError(
                "frame", "a DataFrame that is not streaming", "use `load`, or read it with `spark.readStream`"
            )
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
        """Write this snapshot's rows on executors, to a directory that they all see; `load` accepts the result.

        Graph JSONL becomes a directory of files that, concatenated by name, equal the output of `Graph.export`. Parquet
        becomes a directory of files for each type. An earlier export in the same directory is replaced.

        Raises:
            TypeMissingError: The schema of this snapshot has no such type.
            ExportTargetError: The target can't be written, holds other files, or executors don't see it.
        """
        # `Graph.export` accepts a stream, too; executors can't write to one of this process.
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

    def _read_parts(self, type_: AnyType, cuts: tuple[str, ...]) -> DataFrame:
        return read_frame(self.spark, replace(plan_scan(self._session, self._snapshot, type_), cuts=cuts))

    def _read_frame(self, type_: AnyType, columns: Sequence[str] | None = None, where: str | None = None) -> DataFrame:
        return read_frame(self.spark, plan_scan(self._session, self._snapshot, type_, columns, where))


def _resolve_path(path: str | os.PathLike[str]) -> str:
    """Return a path as an absolute one, since the JVM may have another directory; a URI stays unchanged."""
    text = os.fspath(path)
    return text if "://" in text else str(Path(text).absolute())
