"""The `Graph` class, the public handle of an open graph; each method is one call into `ops`.

Only the modules of queries are imported with it; those of other operations on their first call, see `lazy_ops`.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, BinaryIO, NoReturn

from omnigraph.engine.query_budget import Budget
from omnigraph.engine.result import Result
from omnigraph.errors import BadArgumentError
from omnigraph.graph import lazy_ops
from omnigraph.graph.arguments import build_query_source, check_parameters
from omnigraph.graph.blame import blames_damage
from omnigraph.graph.browse import BrowseMethods
from omnigraph.graph.history import HistoryMethods
from omnigraph.graph.maintenance import MaintenanceMethods
from omnigraph.graph.spark_bridge import build_distributed_algorithms, check_master, load_spark, select_reader
from omnigraph.lang.source import Source
from omnigraph.locations import resolve_local_path
from omnigraph.ops.argument_checks import check_if_exists, check_max_errors, check_text, parse_choice
from omnigraph.ops.limits import ResourceLimits, with_limits
from omnigraph.ops.open import open_session
from omnigraph.ops.query import QueryCall, query
from omnigraph.ops.session import Session
from omnigraph.options import Engine, QueryEngine
from omnigraph.policy import Action, Actor
from omnigraph.runtime import Runtime
from omnigraph.storage.table_cache import PinnedDataset

if TYPE_CHECKING:
    from omnigraph.engine.query_progress import QueryProgress
    from omnigraph.lang.proposals import Completion
    from omnigraph.ops.explain import Explained
    from omnigraph.ops.export import Exported, ExportFormat, ExportProgress
    from omnigraph.ops.export_stream import ExportStream
    from omnigraph.ops.graph_algorithms import Algorithms
    from omnigraph.ops.graph_views import NumberedEdges
    from omnigraph.ops.load import LoadMode, LoadResult, OnDuplicate, Progress
    from omnigraph.ops.load_arguments import GraphData, TypedData
    from omnigraph.ops.mutate import MutationResult
    from omnigraph.spark.spark_graph import SparkGraph


@blames_damage
class Graph(BrowseMethods, HistoryMethods, MaintenanceMethods):
    """An open graph, created by `omnigraph.create_graph` or `omnigraph.open_graph`.

    A handle is cheap and thread-safe. Each call sees the commits of other processes, at the cost of one request.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        # Writes call it when small fragments have become many; only then the modules of compaction are imported.
        session.tails.compact = _compact_tail

    @classmethod
    def create(cls, uri: str, schema: Source, *, actor: str, runtime: Runtime) -> "Graph":
        """Create an empty graph, with all settings passed in."""
        return cls(lazy_ops.create.create(uri, schema, actor=actor, runtime=runtime))

    @classmethod
    def open(cls, uri: str, *, is_read_only: bool, runtime: Runtime, keep_derived: bool | None = None) -> "Graph":
        """Open an existing graph, with all settings passed in."""
        return cls(open_session(uri, is_read_only=is_read_only, runtime=runtime, keep_derived=keep_derived))

    def acting_as(self, actor: Actor | str, *, through: str | None = None) -> "Graph":
        """Return a handle that acts as an actor: commits are signed by it, and policies decide what it may do.

        `through` names the stored query on whose behalf calls are made, which a policy may check. The call is cheap.
        """
        if not isinstance(actor, Actor):
            check_text("actor", actor)
        who = actor if isinstance(actor, Actor) else Actor(name=actor)
        return type(self)(self._session.acting_as(who, through=through))

    def __repr__(self) -> str:
        return f"Graph({self._session.uri!r})"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: pass the address to the other process, and open the graph there."""
        msg = f"a Graph can't be pickled: pass its `uri` ({self.uri!r}), and call `omnigraph.open_graph` there"
        raise TypeError(msg)

    @property
    def uri(self) -> str:
        """The graph's address: an absolute path, or `s3://bucket/prefix`."""
        return self._session.uri

    @property
    def schema(self) -> str:
        """The text of the current schema of main."""
        return self.snapshot().manifest.schema.source

    @property
    def algorithms(self) -> "Algorithms":
        """PageRank, components, communities, paths and triangles over the edges of one type."""
        return lazy_ops.graph_algorithms.Algorithms(self._session, build_distributed_algorithms)

    @property
    def spark(self) -> "SparkGraph":
        """The newest state as Spark DataFrames and SQL tables; loads of DataFrames, streams and exports.

        The returned object reads one state. Access the property again to see what was written since.

        Raises:
            LibraryMissingError: PySpark is not installed.
        """
        return load_spark().open_graph(self._session, self.snapshot())

    def table(
        self, type_name: str, *, branch: str = "main", snapshot: str | None = None, at: datetime | None = None
    ) -> PinnedDataset:
        """Open the Lance dataset of a type, at the version of a snapshot, for other tools to read.

        The handle is not shared. Writing through it does not change the graph. Never run Lance's own cleanup on it:
        Lance does not know which versions are pinned, and would destroy the graph.

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
        max_staleness: float = 0.0,
        min_commit: str | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        engine: QueryEngine | str = QueryEngine.AUTO,
        master: str | None = None,
        budget: Budget | None = None,
        progress: "Callable[[QueryProgress], None] | None" = None,
    ) -> Result:
        """Run the query named `name`, or the only one in the text, on one state of the graph.

        The state is the newest of the branch, with every commit acknowledged before this call, or that of a commit id
        (`snapshot`) or of an instant (`at`). With `max_staleness`, it may be a state that was the newest so many
        seconds ago, which spares a request to the store. It contains `min_commit`, if that is given. `seconds` and
        `memory_bytes` limit the query; the options have the defaults. A `budget` replaces both limits, and lets the
        caller cancel the query.

        The `engine` changes how it runs, not its answer: `memory` is fastest for what fits into memory, `local` spills
        to disk, and `auto` chooses between them. `spark` runs it on Spark, at a `master` such as `spark://host:7077`,
        without these limits and with the permission `export`; the whole result is fetched, and has no notes. While
        `local` runs, another thread calls `progress` repeatedly with the numbers of rows that were and will be read.

        Raises:
            SourceError: The text has mistakes.
            MissingError, BadArgumentError: The text has no such query, or several; or the call names two states.
            QueryError: It is a mutation, or a sum or count is too large for its type.
            ParameterError: The parameters don't match those of the query.
            BranchMissingError, CommitMissingError: There is no such state.
            QueryTimeoutError, QueryMemoryError: The query exceeds its limits.
            SparkUsageError, SparkFailedError: Only on Spark: it does not run a form of the query, or it failed.
        """
        call = QueryCall(
            source=build_query_source(source),
            name=name,
            params=check_parameters(params),
            branch=branch,
            snapshot=snapshot,
            at=at,
            max_staleness=max_staleness,
            min_commit=min_commit,
            seconds=seconds,
            memory_bytes=memory_bytes,
            engine=parse_choice("engine", QueryEngine, engine),
            progress=progress,
        )
        if call.engine is QueryEngine.SPARK:
            return load_spark().execute_query(self._session, call, master)
        if master is not None:
            raise BadArgumentError("master", f"`{master}`", f"the engine `{call.engine.value}` does not use Spark")
        return query(self._session, call, budget)

    def cypher(  # noqa: PLR0913 - all but the first two by name
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        strict: bool = False,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        max_staleness: float = 0.0,
        min_commit: str | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        engine: QueryEngine | str = QueryEngine.AUTO,
        master: str | None = None,
        budget: Budget | None = None,
        progress: "Callable[[QueryProgress], None] | None" = None,
    ) -> Result:
        """Run a statement of Cypher that reads, on one state of the graph.

        It has the meaning of openCypher, and runs as any other query: the state, the limits and the engine are as for
        `query`. Labels are types, without case and underscores. A parameter has the type of its value. Unknown labels
        and properties match nothing and are null, with a note in the result; if `strict`, they are errors.

        Raises:
            SourceError: The text has mistakes, writes, or uses a form that is not supported.
            What `query` raises.
        """
        check_text("text", text)
        call = QueryCall(
            source=Source(text, "statement.cypher"),
            params=check_parameters(params),
            branch=branch,
            snapshot=snapshot,
            at=at,
            max_staleness=max_staleness,
            min_commit=min_commit,
            seconds=seconds,
            memory_bytes=memory_bytes,
            engine=parse_choice("engine", QueryEngine, engine),
            progress=progress,
        )
        call = lazy_ops.cypher.build_cypher_call(call, is_strict=strict)
        if call.engine is QueryEngine.SPARK:
            return load_spark().execute_query(self._session, call, master)
        if master is not None:
            raise BadArgumentError("master", f"`{master}`", f"the engine `{call.engine.value}` does not use Spark")
        return query(self._session, call, budget)

    def sql(  # noqa: PLR0913 - all but the first two by name
        self,
        statement: str,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        engine: Engine | str = Engine.LOCAL,
        master: str | None = None,
        budget: Budget | None = None,
        progress: "Callable[[QueryProgress], None] | None" = None,
    ) -> Result:
        """Run a SQL query, where each node and edge type is a table of one state of the graph.

        A table has `id`, for an edge type also `src` and `dst`, and the properties except Blobs. `$name` in the
        statement is a parameter. The state, the limits and `progress` are as for `query`. All rows are fetched.

        The statement runs in this process, on all cores, by DuckDB, which reaches these tables and nothing else. With
        the engine `spark` it runs on Spark instead: `master` is as for `load`, without parameters and limits, and it
        needs the permission to export.

        Raises:
            SqlError: The statement is not one query, or uses something that is not available.
            ParameterError: The parameters don't match those of the statement.
            BranchMissingError, CommitMissingError: There is no such state.
            QueryTimeoutError, QueryMemoryError, SqlMemoryError: The statement exceeds its limits.
            SqlFailedError: DuckDB failed; there may be no space for temporary files.
            SparkInputError, LibraryMissingError, JavaMissingError, SparkFailedError: Only with the engine `spark`.
        """
        check_text("statement", statement)
        selected = parse_choice("engine", Engine, engine)
        if selected is Engine.SPARK:
            if params:
                raise BadArgumentError("params", "are given", "a statement on Spark has no parameters")
            # Checked here too, before Spark is started.
            self._session.allow(Action.EXPORT, branch)
            return load_spark().execute_sql(
                self._session, statement, branch=branch, snapshot=snapshot, at=at, master=master
            )
        check_master(Engine.LOCAL, master)
        call = QueryCall(
            source=Source(statement, "statement.sql"),
            params=check_parameters(params),
            branch=branch,
            snapshot=snapshot,
            at=at,
            seconds=seconds,
            memory_bytes=memory_bytes,
            progress=progress,
        )
        return lazy_ops.sql.run_sql(self._session, call, budget)

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
        engine: QueryEngine | str = QueryEngine.AUTO,
        analyze: bool = False,
        cypher: bool = False,
        budget: Budget | None = None,
    ) -> "Explained":
        """Explain how `query` would run: its engine, and the steps with access paths and expected numbers of rows.

        With `analyze` the query is run, and the steps also have their actual numbers. If `cypher`, the text is a
        statement of Cypher.

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
            engine=parse_choice("engine", QueryEngine, engine),
        )
        call = lazy_ops.cypher.build_cypher_call(call) if cypher else call
        return lazy_ops.explain.explain(self._session, call, analyze=analyze, budget=budget)

    def complete(
        self,
        text: str,
        position: int | None = None,
        *,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
    ) -> "Completion":
        """Return what may be written at a position of a query that is being typed; without one, at its end.

        The text may be broken. The proposals begin like the word at the position, and are words of the language, and
        types, properties, edges and values of the state's schema.

        Raises:
            LimitError: The text is longer than a query may be.
            BranchMissingError, CommitMissingError: There is no such state.
        """
        check_text("a text", text)
        return lazy_ops.complete.complete_query(self._session, text, position, branch=branch, snapshot=snapshot, at=at)

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
        dry_run: bool = False,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        budget: Budget | None = None,
    ) -> "MutationResult":
        """Run the mutation named `name`, or the only one in the text, in one commit: all of it or nothing.

        If a commit of this actor already has the `idempotency_key`, nothing is done and its result is returned again.
        With `if_commit`, nothing is done unless that commit is still the newest. With `dry_run`, nothing is done at
        all: the result's `preview` has what would change, edges of deleted nodes included, for an actor who may read;
        no file is written, and the idempotency key is ignored. `seconds` and `memory_bytes` limit the
        work until the commit is published; the options have the defaults. A `budget` replaces both limits, and lets the
        caller cancel the mutation.

        Raises:
            SourceError: The text has mistakes.
            MissingError, BadArgumentError, QueryError: The text has no such query, several, or a read; or a dry run
                would have to write files, because a match reads what an earlier statement of the query writes.
            ParameterError: The parameters don't match those of the mutation.
            KeyReusedError: The commit with this idempotency key is not a mutation's.
            ConstraintError: The result would break the schema; the error lists up to 20 violations.
            BlobSourceError: The URI of a Blob is not allowed by the settings, or can't be read.
            BranchMissingError: There is no such branch.
            ConflictError: `if_commit` is not the head, or other processes kept changing data that it relied on:
                read again and retry.
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
            is_dry_run=dry_run,
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
        on_duplicate: "OnDuplicate | str" = "error",
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
        """Load records in one commit: all of them or nothing.

        Args:
            data: Graph JSONL as a path, a binary file, or several of these; or records as mappings.
            mode: `append` adds rows and rejects ids that exist. `merge` adds and updates by id: properties that a
                record leaves out stay, an explicit null clears. `overwrite` replaces the tables that the input names.
            nodes: Rows by node type: files, directories or patterns, also on `s3://`; a table, a frame, or mappings.
            edges: The same for edge types.
            map: The column of a property, where their names differ: `{"Person.name": "full_name"}`.
            branch: The branch to load into.
            from_: The branch to create `branch` from first. It must not exist yet, and does not if the load fails.
            if_exists: With `from_`: if `branch` exists already, load into it.
            actor: The author of the commit.
            message: A message to store with the commit.
            idempotency_key: If a commit of this actor (within 7 days) has this key, its result is returned again.
            on_duplicate: Of records with equal ids, `first` or `last` loads one and counts the others; not on Spark.
            on_error: A directory for bad records; the others are loaded. Without it, a bad record fails the load.
            max_errors: With `on_error`, the number of bad records above which the load fails.
            dry_run: Check everything and write nothing, not even bad records; the idempotency key is ignored.
            engine: `local` is this process; `auto` uses `spark` for DataFrames and very large inputs, same result.
            master: Where Spark runs, such as `local[4]` or `spark://host:7077`; implies Spark.
            progress: Called repeatedly with the progress of the load.
            seconds: Time limit until the commit is published; the options have the default.
            memory_bytes: Memory limit in this process; the options have the default.
            budget: Replaces both limits, and lets the caller cancel the load.

        Raises:
            LoadError, RecordError, ColumnError, FileDamagedError: Records, or an input, can't be loaded; with problems.
            BadArgumentError, KeyReusedError: The arguments contradict each other, or the key belongs to another load.
            ConflictError, BranchMissingError, BranchExistsError: Another writer was first; no such branch, or one.
            QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out; nothing was changed.
            LibraryMissingError, JavaMissingError, SparkFailedError: Spark is not available.
        """
        check_max_errors(max_errors, has_directory=on_error is not None)
        check_if_exists(if_exists, has_source=from_ is not None)
        call = lazy_ops.load.LoadCall(
            input=lazy_ops.load_arguments.build_load_input(data, nodes, edges, map),
            mode=parse_choice("mode", lazy_ops.load.LoadMode, mode),
            actor=self._session.resolve_signer(actor),
            message=message,
            idempotency_key=idempotency_key,
            on_duplicate=parse_choice("on_duplicate", lazy_ops.load.OnDuplicate, on_duplicate),
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
        """Export the rows of the newest state, of a commit or of an instant, in a form that `load` accepts.

        Graph JSONL is written to a file or a binary writer: node types, then edge types, in declared order, rows by id.
        So are `graphml` and `node-link`, which other programs read; they need the nodes of all edges that they have.
        Parquet is written to a directory, one file per type. Both may be on `s3://bucket/…`, where objects appear
        complete or not at all. `types` restricts the types. `progress` is called repeatedly. `seconds` and
        `memory_bytes` limit the work in this process; the options have the defaults. A `budget` replaces both limits,
        and lets the caller cancel the export.

        With the engine `spark`, or a `master`, Spark's executors write the same rows in the same order to several
        files: graph JSONL becomes a directory, and so does each file of Parquet. Executors write to a directory that
        all of them share, not to S3.

        Raises:
            TypeMissingError: The schema of that snapshot has no such type.
            CommitMissingError: The history has no such commit, or none that early.
            BranchMissingError: There is no such branch.
            ExportTargetError: The target can't be written.
            QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out.
            LibraryMissingError, JavaMissingError, SparkFailedError: Spark is not available.
        """
        state = self._session.checkout(branch).resolve_snapshot(commit_id=snapshot, at=at)
        export_format = parse_choice("format", lazy_ops.export.ExportFormat, format)
        chosen_engine = parse_choice("engine", Engine, engine)
        check_master(chosen_engine, master)
        # Unlike in `load`, `auto` uses Spark only with a master: executors write directories instead of files.
        if chosen_engine is Engine.SPARK or (chosen_engine is Engine.AUTO and master is not None):
            if export_format in (lazy_ops.export.ExportFormat.GRAPHML, lazy_ops.export.ExportFormat.NODE_LINK):
                raise BadArgumentError("engine", "`spark`", f"{export_format.value} is one document; leave Spark out")
            spark_graph = load_spark().open_on_master(self._session, state, master)
            return spark_graph.export(target, format=export_format, types=types, progress=progress)
        limits = ResourceLimits(seconds=seconds, memory_bytes=memory_bytes, budget=budget)
        session = with_limits(self._session, limits, "export", "")
        return lazy_ops.export.export_graph(
            session, state, target, format=export_format, types=types, progress=progress
        )

    def to_networkx(
        self,
        *,
        types: Sequence[str] | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        budget: Budget | None = None,
    ) -> Any:  # noqa: ANN401 - networkx is imported when it is needed only, and has no types
        """Return a state as a `networkx.MultiDiGraph`, whose attributes are `type` and the properties.

        Nodes are ids or, of several node types, `Person/ada`; the keys of edges are their ids.

        Raises:
            LibraryMissingError: networkx is not installed.
            TypeMissingError, BadArgumentError: There is no such type; edges are named without the nodes at their ends.
            BranchMissingError, CommitMissingError: There is no such state.
            QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out.
        """
        state = self._session.checkout(branch).resolve_snapshot(commit_id=snapshot, at=at)
        limits = ResourceLimits(seconds=seconds, memory_bytes=memory_bytes, budget=budget)
        session = with_limits(self._session, limits, "export", "")
        return lazy_ops.graph_views.build_networkx(session, state, types)

    def edge_list(
        self,
        edge: str | Sequence[str],
        *,
        properties: Sequence[str] = (),
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        budget: Budget | None = None,
    ) -> "NumberedEdges":
        """Return edges as Arrow columns of dense numbers, from 0 on, for libraries that take arrays.

        `nodes` of the result has a row for each node, whose place is its number, and `edges` the numbers of both ends.
        `properties` of the edges become columns; those that have different types in several edge types become text.

        Raises:
            TypeMissingError, QueryError: There is no such edge type, or property.
            BranchMissingError, CommitMissingError: There is no such state.
            QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out.
        """
        state = self._session.checkout(branch).resolve_snapshot(commit_id=snapshot, at=at)
        limits = ResourceLimits(seconds=seconds, memory_bytes=memory_bytes, budget=budget)
        edges = (edge,) if isinstance(edge, str) else tuple(edge)
        return lazy_ops.graph_views.build_edge_list(self._session, state, edges, properties, limits)

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
        """Stream what `export` writes as graph JSONL, in chunks that are built as the caller reads.

        Raises:
            TypeMissingError: The schema of that snapshot has no such type.
            BranchMissingError, CommitMissingError: There is no such state.
            QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out, while chunks are read.
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
        """Open a Blob property of one node or edge as a stream, which reads on demand; return None for a null.

        The stream reads one state (the newest, a commit's or an instant's), whatever is written in the meantime.

        Raises:
            TypeMissingError, MissingError: There is no such type, property or row.
            BranchMissingError, CommitMissingError: There is no such state.
        """
        state = self._session.checkout(branch).resolve_snapshot(commit_id=snapshot, at=at)
        return lazy_ops.blob.read_blob(self._session, state, type_name, id, property)


def _compact_tail(session: Session, table_key: str, is_stopped: Callable[[], bool], max_fragments: int) -> None:
    """Compact the small fragments of a table after a write, see `TailKeeper`."""
    lazy_ops.auto_maintenance.compact_tail(session, table_key, is_stopped, max_fragments)
