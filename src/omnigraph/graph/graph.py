"""The graph as its users have it, each method one call into `ops`.

What a query needs is imported with it; every other verb when it is first called, see `graph/lazy_ops.py`.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import IO, TYPE_CHECKING, BinaryIO, NoReturn

from omnigraph.engine.query_budget import Budget
from omnigraph.engine.result import Result
from omnigraph.graph import lazy_ops
from omnigraph.graph.arguments import build_query_source, check_parameters
from omnigraph.graph.blame import blames_damage
from omnigraph.graph.history import HistoryMethods
from omnigraph.graph.maintenance import MaintenanceMethods
from omnigraph.graph.spark_bridge import build_distributed_algorithms, import_spark_module, select_reader
from omnigraph.lang.source import Source
from omnigraph.locations import resolve_local_path
from omnigraph.ops.argument_checks import BadArgumentError, check_if_exists, check_max_errors, check_text, parse_choice
from omnigraph.ops.limits import ResourceLimits, with_limits
from omnigraph.ops.open import open_session
from omnigraph.ops.query import QueryCall, query
from omnigraph.ops.session import Session
from omnigraph.options import Engine
from omnigraph.policy import Action, Actor
from omnigraph.runtime import Runtime
from omnigraph.storage.table_cache import PinnedDataset

if TYPE_CHECKING:
    from omnigraph.ops.explain import Explained
    from omnigraph.ops.export import Exported, ExportFormat, ExportProgress
    from omnigraph.ops.export_stream import ExportStream
    from omnigraph.ops.graph_algorithms import Algorithms
    from omnigraph.ops.load import LoadMode, LoadResult, Progress
    from omnigraph.ops.load_arguments import GraphData, TypedData
    from omnigraph.ops.mutate import MutationResult
    from omnigraph.spark.spark_graph import SparkGraph


@blames_damage
class Graph(HistoryMethods, MaintenanceMethods):
    """An open graph. Cheap to keep, safe from several threads; it sees other processes' commits by one probe.

    Made by `omnigraph.create_graph` and `omnigraph.open_graph`.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @classmethod
    def create(cls, uri: str, schema: Source, *, actor: str, runtime: Runtime) -> "Graph":
        """A new, empty graph, with every setting handed in."""
        return cls(lazy_ops.create.create(uri, schema, actor=actor, runtime=runtime))

    @classmethod
    def open(cls, uri: str, *, is_read_only: bool, runtime: Runtime, keep_derived: bool | None = None) -> "Graph":
        """A graph that exists, with every setting handed in."""
        return cls(open_session(uri, is_read_only=is_read_only, runtime=runtime, keep_derived=keep_derived))

    def acting_as(self, actor: Actor | str, *, through: str | None = None) -> "Graph":
        """The same graph in the hands of an actor: commits are theirs, and a policy is asked about them. Cheap.

        `through` names the stored query on whose behalf it happens, which a policy may ask for.
        """
        if not isinstance(actor, Actor):
            check_text("actor", actor)
        who = actor if isinstance(actor, Actor) else Actor(name=actor)
        return type(self)(self._session.acting_as(who, through=through))

    def __repr__(self) -> str:
        return f"Graph({self._session.uri!r})"

    def __reduce__(self) -> NoReturn:
        """A handle stays in its process: hand over the address, and open it there."""
        msg = f"a Graph can't be pickled: send its `uri` ({self.uri!r}), and call `omnigraph.open_graph` over there"
        raise TypeError(msg)

    @property
    def uri(self) -> str:
        """The graph's address: an absolute path, or `s3://bucket/prefix`."""
        return self._session.uri

    @property
    def schema(self) -> str:
        """The text of the schema that is accepted now."""
        return self.snapshot().manifest.schema.source

    @property
    def algorithms(self) -> "Algorithms":
        """PageRank, components, communities, paths and triangles over the edges of one type."""
        return lazy_ops.graph_algorithms.Algorithms(self._session, build_distributed_algorithms)

    @property
    def spark(self) -> "SparkGraph":
        """The newest state as DataFrames and SQL tables; loads of DataFrames, streams and exports.

        All that is read through what this gives is of one state: keep it, or ask again for what was written since.

        Raises:
            SparkMissingError: PySpark is not installed.
        """
        door: SparkGraph = import_spark_module("spark_graph").SparkGraph(self._session, self.snapshot())
        return door

    def table(
        self, type_name: str, *, branch: str = "main", snapshot: str | None = None, at: datetime | None = None
    ) -> PinnedDataset:
        """The Lance dataset of a type, at the version that a snapshot shows: for other tools, to read.

        The handle is the caller's own. Writing through it does not change the graph; Lance's own cleanup of a graph's
        tables destroys it, because Lance does not know which versions are pinned.

        Raises:
            TypeMissingError: The schema of that snapshot has no such type.
            BranchMissingError, CommitMissingError: There is no such state.
        """
        return lazy_ops.open_table.open_pinned_table(
            self._session, self._session.checkout(branch).resolve_snapshot(commit_id=snapshot, at=at), type_name
        )

    def query(  # noqa: PLR0913 - all but the text by name
        self,
        source: str | Source,
        *,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        budget: Budget | None = None,
    ) -> Result:
        """Run the query of that name, or the only one of the text, on one state of the graph.

        That is the branch's newest, which has every commit acknowledged before this call, or that of a commit's id
        (`snapshot`) or of an instant (`at`). `seconds` and `memory_bytes` are what it may use, if not what the options
        say; whoever may want to cancel it hands in a `budget`, which then counts instead.

        Raises:
            SourceError: The text has mistakes.
            QueryMissingError, QueryAmbiguousError, NotAReadError: It is not clear, or not right, what to run.
            ParameterError: The parameters don't fit.
            BranchMissingError, CommitMissingError, TargetAmbiguousError: There is no such state.
            AggregateOverflowError: A sum or count is too large for its type.
            QueryTimeoutError, QueryMemoryError: It needs more than it may use.
        """
        call = QueryCall(
            source=build_query_source(source),
            name=name,
            params=check_parameters(params),
            branch=branch,
            snapshot=snapshot,
            at=at,
            seconds=seconds,
            memory_bytes=memory_bytes,
        )
        return query(self._session, call, budget)

    def sql(
        self,
        statement: str,
        *,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        master: str | None = None,
    ) -> Result:
        """Run a SQL statement on Spark, in which every node and edge type is a table of one state of the graph.

        The answer is fetched whole; `spark.sql` gives a DataFrame instead. `master` as for `load`.

        Raises:
            SqlError: Spark does not understand it, or its answer can't be shown.
            BranchMissingError, CommitMissingError: There is no such state.
            SparkMissingError, JavaMissingError, SparkNotStartedError: There is no Spark to ask.
        """
        self._session.allow(Action.EXPORT, branch)  # before a Spark is started for it
        answer: Result = import_spark_module("sql_result").execute(
            self._session, statement, branch=branch, snapshot=snapshot, at=at, master=master
        )
        return answer

    def explain(  # noqa: PLR0913 - all but the text by name
        self,
        source: str | Source,
        *,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        analyze: bool = False,
        budget: Budget | None = None,
    ) -> "Explained":
        """How `query` would run: the steps, with how many rows each is expected to have and how they are found.

        With `analyze` the query is run, and the steps say what they really did.

        Raises:
            What `query` raises.
        """
        call = QueryCall(
            source=build_query_source(source),
            name=name,
            params=check_parameters(params),
            branch=branch,
            snapshot=snapshot,
            at=at,
            seconds=seconds,
            memory_bytes=memory_bytes,
        )
        return lazy_ops.explain.explain(self._session, call, analyze=analyze, budget=budget)

    def mutate(  # noqa: PLR0913 - all but the text by name
        self,
        source: str | Source,
        *,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = "main",
        actor: str = "anonymous",
        message: str | None = None,
        idempotency_key: str | None = None,
        if_commit: str | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        budget: Budget | None = None,
    ) -> "MutationResult":
        """Run the mutation of that name, or the only one of the text: all of it in one commit, or nothing.

        With an `idempotency_key` that a commit of this actor already has, nothing is done and the answer is what it
        was then; KeyReusedError if that commit is no mutation's.
        With `if_commit`, nothing is done unless that commit is still the newest. `seconds` and `memory_bytes` are what
        it may use until it is published, if not what the options say; a `budget` can also be cancelled, and counts
        instead.

        Raises:
            SourceError: The text has mistakes.
            QueryMissingError, QueryAmbiguousError, NotAMutationError: It is not clear, or not right, what to run.
            ParameterError: The parameters don't fit.
            ConstraintError: The result would break the schema; it says how, up to 20 times.
            BlobSourceError: A Blob is given by a URI that the settings don't allow, or that can't be read.
            BranchMissingError: There is no such branch.
            ConflictError: Somebody else changed what this relied on: read again and retry.
            QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out; nothing was changed.
        """
        call = lazy_ops.mutate.MutationCall(
            source=build_query_source(source),
            name=name,
            params=check_parameters(params),
            actor=self._session.resolve_signer(actor),
            message=message,
            idempotency_key=idempotency_key,
            if_commit=if_commit,
        )
        limits = ResourceLimits(seconds=seconds, memory_bytes=memory_bytes, budget=budget)
        return lazy_ops.mutate.mutate(with_limits(self._session, limits, "mutation").checkout(branch), call)

    def load(  # noqa: PLR0913 - all but the data by name
        self,
        data: "GraphData | None" = None,
        *,
        mode: "LoadMode | str",
        nodes: "Mapping[str, TypedData] | None" = None,
        edges: "Mapping[str, TypedData] | None" = None,
        map: Mapping[str, str] | None = None,
        branch: str = "main",
        from_: str | None = None,
        if_exists: bool = False,
        actor: str = "anonymous",
        message: str | None = None,
        idempotency_key: str | None = None,
        on_error: str | os.PathLike[str] | None = None,
        max_errors: int | None = None,
        dry_run: bool = False,
        engine: Engine | str = Engine.AUTO,
        master: str | None = None,
        progress: "Callable[[Progress], None] | None" = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        budget: Budget | None = None,
    ) -> "LoadResult":
        """Load records: all of them in one commit, or nothing.

        Args:
            data: Graph JSONL, by its path or as a binary file, or several of these; or its records as mappings.
            mode: `append` adds rows, and one whose id exists is an error. `merge` adds and updates by id: what a
                record leaves out stays, an explicit null clears. `overwrite` replaces the tables that the input names.
            nodes: Rows of one node type by its name: Parquet, CSV, ORC or JSONL files, or a table of Arrow, pandas or
                polars. Here and in `data` a path may be a file, a directory or a pattern, also on `s3://`.
            edges: The same for edge types.
            map: Which column holds a property, where their names differ: `{"Person.name": "full_name"}`.
            branch: Where to load.
            from_: The branch to make it from first; then it must not be there yet, and is not if the load fails.
            if_exists: With `from_`: load into `branch` as it is if it is there already.
            actor: Who the commit is by.
            message: A message to keep with the commit.
            idempotency_key: A commit of this actor that has this key (within 7 days) gives its result again.
            on_error: A directory for records that can't be loaded; the others are. Without it one fails the load.
            max_errors: With a directory, how many records may go there before the load fails.
            dry_run: Check everything and write nothing, bad records neither; whether the key was used does not matter.
            engine: `local` is this process, `auto` is `spark` for DataFrames and very large input; the result is one.
            master: Where Spark runs, such as `local[4]` or `spark://host:7077`; naming one chooses Spark.
            progress: Is told how far the load is, again and again.
            seconds: How long it may run until it is published, if not as long as the options say.
            memory_bytes: How much memory it may use in this process, if not as much as the options say.
            budget: Counts instead of these two, and can be cancelled.

        Raises:
            LoadError: Records can't be loaded; it says why, up to 20 times.
            BadArgumentError, KeyReusedError: The arguments don't fit together, or the key belongs to another load.
            RecordError, ColumnError, FileDamagedError: The input can't be read at all.
            ConflictError: Somebody else changed what this relied on: read again and retry.
            BranchMissingError, BadBranchNameError, BranchExistsError: No such branch is there, or can be made.
            QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out; nothing was changed.
            SparkMissingError, JavaMissingError, SparkNotStartedError: There is no Spark to do it.
        """
        check_max_errors(max_errors, has_directory=on_error is not None)
        check_if_exists(if_exists, has_source=from_ is not None)
        call = lazy_ops.load.LoadCall(
            input=lazy_ops.load_arguments.build_load_input(data, nodes, edges, map),
            mode=parse_choice("mode", lazy_ops.load.LoadMode, mode),
            actor=self._session.resolve_signer(actor),
            message=message,
            idempotency_key=idempotency_key,
            on_error=None if on_error is None else resolve_local_path(on_error),
            max_errors=max_errors,
            is_dry_run=dry_run,
            progress=progress,
        )
        reader = select_reader(parse_choice("engine", Engine, engine), master)
        limits = ResourceLimits(seconds=seconds, memory_bytes=memory_bytes, budget=budget)
        session = with_limits(self._session, limits, "load")
        if from_ is not None:
            return lazy_ops.load_branch.load_on_new_branch(
                session, call, branch=branch, source=from_, uses_existing=if_exists, reader=reader
            )
        return lazy_ops.load.load(session.checkout(branch), call, reader)

    def export(  # noqa: PLR0913 - all but the target by name
        self,
        target: str | os.PathLike[str] | BinaryIO,
        *,
        format: "ExportFormat | str" = "jsonl",
        types: Sequence[str] | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        engine: Engine | str = Engine.AUTO,
        master: str | None = None,
        progress: "Callable[[ExportProgress], None] | None" = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        budget: Budget | None = None,
    ) -> "Exported":
        """Write the graph's rows, of the newest state, a commit's id or an instant; `load` takes what this writes.

        Graph JSONL goes to a file or a binary writer: node types then edge types in declared order, rows by id.
        Parquet goes to a directory, one file for each type. Both may be on `s3://bucket/…`, where an object is there
        whole or not at all. `types` are the only ones to write. `progress` is told how far it is, again and again.
        `seconds` and `memory_bytes` are what it may use in this process, if not what the options say; a `budget` can
        also be cancelled, and counts instead.

        With the engine `spark`, or a `master` that it runs on, executors write the same rows in the same order to
        several files: graph JSONL is a directory then, and so is what is one file of Parquet otherwise. Executors write
        to a directory that all of them see, not to S3.

        Raises:
            TypeMissingError: The schema of that snapshot has no such type.
            CommitMissingError: The history has no such commit, or nothing that early.
            BranchMissingError: There is no such branch.
            ExportTargetError: The target can't be written.
            QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out.
            SparkMissingError, JavaMissingError, SparkNotStartedError: There is no Spark to do it.
        """
        state = self._session.checkout(branch).resolve_snapshot(commit_id=snapshot, at=at)
        form = parse_choice("format", lazy_ops.export.ExportFormat, format)
        by = parse_choice("engine", Engine, engine)
        if by is Engine.LOCAL and master is not None:
            raise BadArgumentError("master", f"`{master}`", "the engine `local` does without Spark")
        if by is Engine.SPARK or (by is Engine.AUTO and master is not None):
            door: SparkGraph = import_spark_module("spark_graph").open_on_master(self._session, state, master)
            return door.export(target, format=form, types=types, progress=progress)
        limits = ResourceLimits(seconds=seconds, memory_bytes=memory_bytes, budget=budget)
        session = with_limits(self._session, limits, "export", "")
        return lazy_ops.export.export_graph(session, state, target, format=form, types=types, progress=progress)

    def export_stream(
        self,
        *,
        types: Sequence[str] | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        budget: Budget | None = None,
    ) -> "ExportStream":
        """What `export` writes as graph JSONL, in pieces that are made as they are asked for.

        Raises:
            TypeMissingError: The schema of that snapshot has no such type.
            BranchMissingError, CommitMissingError: There is no such state.
            QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out, as pieces are asked for.
        """
        state = self._session.checkout(branch).resolve_snapshot(commit_id=snapshot, at=at)
        limits = ResourceLimits(seconds=seconds, memory_bytes=memory_bytes, budget=budget)
        return lazy_ops.export_stream.export_stream(with_limits(self._session, limits, "export", ""), state, types)

    def blob(
        self,
        type_name: str,
        id: str,
        property: str,
        *,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
    ) -> IO[bytes] | None:
        """The bytes of a Blob property of one node or edge, as a stream that reads as it is asked; None for a null.

        It is of one state (the newest, a commit's id or an instant), whatever is written meanwhile.

        Raises:
            TypeMissingError, BlobPropertyMissingError, RowMissingError: There is no such thing.
            BranchMissingError, CommitMissingError: There is no such state.
        """
        state = self.snapshot(branch=branch, snapshot=snapshot, at=at)
        return lazy_ops.blob.read_blob(self._session, state, type_name, id, property)
