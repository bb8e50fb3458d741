"""The public face: a graph, each method one call into `ops`."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING, BinaryIO, NoReturn

from omnigraph.commit.manifest_log import Head
from omnigraph.commit.records import Commit, Snapshot
from omnigraph.engine.result import Result
from omnigraph.errors import SparkMissingError
from omnigraph.lang.source import Source
from omnigraph.ops.algorithm_verbs import Algorithms
from omnigraph.ops.arguments import BadArgumentError, check_max_errors, chosen
from omnigraph.ops.blob import read_blob
from omnigraph.ops.branch import Branch, create_branch, delete_branch, list_branches
from omnigraph.ops.create import create
from omnigraph.ops.diff import Diff
from omnigraph.ops.embed import DEFAULT_BATCH, EmbedCall, EmbedProgress, EmbedResult, embed
from omnigraph.ops.explain import Explained, explain
from omnigraph.ops.export import Exported, ExportFormat, ExportProgress, export_graph
from omnigraph.ops.history import list_commits, show_commit
from omnigraph.ops.indexes import IndexReport, list_indexes
from omnigraph.ops.load import LoadCall, LoadMode, LoadResult, Progress, load
from omnigraph.ops.load_arguments import GraphData, TypedData, load_input
from omnigraph.ops.load_branch import load_on_new_branch
from omnigraph.ops.load_reading import read_here
from omnigraph.ops.load_records import Reader, Records
from omnigraph.ops.merge import MergeCall, merge
from omnigraph.ops.merge_result import MergeResult, Strategy
from omnigraph.ops.mutate import MutationCall, MutationResult, mutate
from omnigraph.ops.open import open_session
from omnigraph.ops.operations import Operations, list_operations
from omnigraph.ops.optimize import OptimizeCall, OptimizeProgress, OptimizeResult, optimize
from omnigraph.ops.query import QueryCall, query
from omnigraph.ops.schema_apply import SchemaCall, SchemaResult, apply_schema, plan_schema
from omnigraph.ops.session import Session
from omnigraph.ops.states import state_of
from omnigraph.ops.table import pinned_table
from omnigraph.ops.table_upkeep import UpkeepCall
from omnigraph.ops.upkeep_hands import Hands
from omnigraph.options import Engine
from omnigraph.runtime import Runtime
from omnigraph.schema.steps import MigrationPlan
from omnigraph.storage.handles import PinnedDataset

if TYPE_CHECKING:
    from omnigraph.ops.algorithms import DistributedAlgorithms
    from omnigraph.spark.graph import SparkGraph

_SPARKS_OWN = frozenset({"pandas", "py4j", "pyspark"})
"""What `omnigraph[spark]` brings along."""


class Graph:
    """An open graph. Cheap to keep, safe from several threads; it sees other processes' commits by one probe.

    Made by `omnigraph.create_graph` and `omnigraph.open_graph`.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @classmethod
    def create(cls, uri: str, schema: Source, *, actor: str, runtime: Runtime) -> "Graph":
        """A new, empty graph, with every setting handed in."""
        return cls(create(uri, schema, actor=actor, runtime=runtime))

    @classmethod
    def open(cls, uri: str, *, is_read_only: bool, runtime: Runtime, keep_derived: bool | None = None) -> "Graph":
        """A graph that exists, with every setting handed in."""
        return cls(open_session(uri, is_read_only=is_read_only, runtime=runtime, keep_derived=keep_derived))

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
    def branches(self) -> "GraphBranches":
        """The graph's branches: list, create, delete."""
        return GraphBranches(self._session)

    @property
    def algorithms(self) -> Algorithms:
        """PageRank, components, communities, paths and triangles over the edges of one type."""
        return Algorithms(self._session, _distributed)

    @property
    def spark(self) -> "SparkGraph":
        """The newest state as DataFrames and SQL tables; loads of DataFrames, streams and exports.

        All that is read through what this gives is of one state: keep it, or ask again for what was written since.

        Raises:
            SparkMissingError: PySpark is not installed.
        """
        door: SparkGraph = _door("graph").SparkGraph(self._session, self.snapshot())
        return door

    def snapshot(self, *, branch: str = "main", snapshot: str | None = None, at: datetime | None = None) -> Snapshot:
        """The newest state of a branch, or that of a commit's id, or that of an instant (which needs a time zone).

        Raises:
            BranchMissingError: There is no such branch.
            CommitMissingError: The branch's history has no such commit, or nothing that early.
        """
        return self._session.on(branch).snapshot(commit_id=snapshot, at=at)

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
        return pinned_table(self._session, self.snapshot(branch=branch, snapshot=snapshot, at=at), type_name)

    def commits(
        self, *, branch: str = "main", filters: Mapping[str, str] | None = None, limit: int | None = None
    ) -> list[Commit]:
        """The history of a branch, newest first; filters are `actor`, `operation`, `since` and `until`.

        Behind its own commits come those of the branch it was taken from.

        Raises:
            BadFilterError: There is no such filter, or its value can't be read.
            BranchMissingError: There is no such branch.
        """
        return list_commits(self._session.on(branch), filters=filters, limit=limit)

    def commit(self, commit_id: str, *, branch: str = "main") -> Commit:
        """One commit of a branch's history.

        Raises:
            BranchMissingError, CommitMissingError: There is no such branch, or its history has no such commit.
        """
        return show_commit(self._session.on(branch), commit_id)

    def diff(self, before: str, after: str, *, types: Sequence[str] | None = None) -> Diff:
        """What differs between two states: rows that came, went or say something else. Found as it is asked for.

        A state is a branch (`review`), a commit's id, or a commit or time of a branch (`review@2026-01-31T12:00:00Z`).
        `types` are the only ones to compare. It costs what differs, however large the tables are.

        Raises:
            BranchMissingError, CommitMissingError: There is no such state.
            TypeMissingError: Neither state has a type of that name.
        """
        session = self._session
        return Diff(session, state_of(session, before), state_of(session, after), types)

    def merge(
        self,
        source: str,
        *,
        into: str = "main",
        strategy: Strategy | str | None = None,
        actor: str = "anonymous",
        message: str | None = None,
        dry_run: bool = False,
    ) -> MergeResult:
        """Bring to a branch what another one has done since the two parted, in one commit with two parents.

        Rows are told apart by their ids, and merged property by property. What the two don't agree about, or break
        together, is listed in the result's `conflicts`; then nothing is published. `strategy` settles rows that both
        changed: with `ours` the target's word counts, with `theirs` the source's. Merging again does nothing.

        Raises:
            BadArgumentError: The two are one branch, or there is no such strategy.
            BranchMissingError, BranchGoneError: One of the branches is not there, or not any more.
            MergeBaseGoneError: What the two have in common can't be told any more: its commits are gone.
            ConflictError: Meanwhile the target's schema was changed, a table of it was overwritten, or another branch
                was merged into it; or others kept writing the same tables.
        """
        settled = None if strategy is None else chosen("strategy", Strategy, strategy)
        call = MergeCall(source=source, into=into, strategy=settled, actor=actor, message=message, is_dry_run=dry_run)
        return merge(self._session, call)

    def query(
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
    ) -> Result:
        """Run the query of that name, or the only one of the text, on one state of the graph.

        That is the branch's newest, which has every commit acknowledged before this call, or that of a commit's id
        (`snapshot`) or of an instant (`at`). `seconds` and `memory_bytes` are what it may use, if not what the options
        say.

        Raises:
            SourceError: The text has mistakes.
            QueryMissingError, QueryAmbiguousError, NotAReadError: It is not clear, or not right, what to run.
            ParameterError: The parameters don't fit.
            BranchMissingError, CommitMissingError, TargetAmbiguousError: There is no such state.
            AggregateOverflowError: A sum or count is too large for its type.
            QueryTimeoutError, QueryMemoryError: It needs more than it may use.
        """
        call = QueryCall(
            source=_source(source),
            name=name,
            params=params or {},
            branch=branch,
            snapshot=snapshot,
            at=at,
            seconds=seconds,
            memory_bytes=memory_bytes,
        )
        return query(self._session, call)

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
        answer: Result = _door("answers").answer(
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
    ) -> Explained:
        """How `query` would run: the steps, with how many rows each is expected to have and how they are found.

        With `analyze` the query is run, and the steps say what they really did.

        Raises:
            What `query` raises.
        """
        call = QueryCall(
            source=_source(source),
            name=name,
            params=params or {},
            branch=branch,
            snapshot=snapshot,
            at=at,
            seconds=seconds,
            memory_bytes=memory_bytes,
        )
        return explain(self._session, call, analyze=analyze)

    def mutate(
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
    ) -> MutationResult:
        """Run the mutation of that name, or the only one of the text: all of it in one commit, or nothing.

        With an `idempotency_key` that a commit of this actor already has, nothing is done and the answer is what it
        was then; KeyReusedError if that commit is no mutation's.
        With `if_commit`, nothing is done unless that commit is still the newest.

        Raises:
            SourceError: The text has mistakes.
            QueryMissingError, QueryAmbiguousError, NotAMutationError: It is not clear, or not right, what to run.
            ParameterError: The parameters don't fit.
            ConstraintError: The result would break the schema; it says how, up to 20 times.
            BlobSourceError: A Blob is given by a URI that the settings don't allow, or that can't be read.
            BranchMissingError: There is no such branch.
            ConflictError: Somebody else changed what this relied on: read again and retry.
        """
        call = MutationCall(
            source=_source(source),
            name=name,
            params=params or {},
            actor=actor,
            message=message,
            idempotency_key=idempotency_key,
            if_commit=if_commit,
        )
        return mutate(self._session.on(branch), call)

    def load(  # noqa: PLR0913 - all but the data by name
        self,
        data: GraphData | None = None,
        *,
        mode: LoadMode | str,
        nodes: Mapping[str, TypedData] | None = None,
        edges: Mapping[str, TypedData] | None = None,
        map: Mapping[str, str] | None = None,
        branch: str = "main",
        from_: str | None = None,
        actor: str = "anonymous",
        message: str | None = None,
        idempotency_key: str | None = None,
        on_error: str | os.PathLike[str] | None = None,
        max_errors: int | None = None,
        dry_run: bool = False,
        engine: Engine | str = Engine.AUTO,
        master: str | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> LoadResult:
        """Load records: all of them in one commit, or nothing.

        Args:
            data: Graph JSONL, by its path or as a binary file, or several of these; or its records as mappings.
            mode: `append` adds rows, and one whose id exists is an error. `merge` adds and updates by id: what a
                record leaves out stays, an explicit null clears. `overwrite` replaces the tables that the input names.
            nodes: Rows of one node type by its name: Parquet, CSV, ORC or JSONL files, or a table of Arrow, pandas or
                polars.
            edges: The same for edge types.
            map: Which column holds a property, where their names differ: `{"Person.name": "full_name"}`.
            branch: The branch to load into.
            from_: The branch to make it from first; then it must not be there yet, and is not if the load fails.
            actor: Who the commit is by.
            message: A message to keep with the commit.
            idempotency_key: With a key that a commit of this actor already has, nothing is done and the answer is what
                it was then; KeyReusedError if that was no load of this mode.
            on_error: A directory for records that can't be loaded; the others are. Without it one fails the load.
            max_errors: With a directory, how many records may go there before the load fails.
            dry_run: Check everything and write nothing, bad records neither; whether the key was used does not matter.
            engine: `local` is this process, `spark` is Spark, with the same result; `auto` is Spark for DataFrames and
                very large input.
            master: Where Spark runs, such as `local[4]` or `spark://host:7077`; naming one chooses Spark.
            progress: Is told how far the load is, again and again.

        Raises:
            LoadError: Records can't be loaded; it says why, up to 20 times.
            BadArgumentError: Nothing is given to load, the mode is none, or `max_errors` has no `on_error`.
            RecordError, ColumnError, FileDamagedError: The input can't be read at all.
            ConflictError: Somebody else changed what this relied on: read again and retry.
            BranchMissingError: There is no such branch.
            BadBranchNameError, BranchExistsError: With `from_`, no branch of that name can be made.
            SparkMissingError, JavaMissingError, SparkNotStartedError: There is no Spark to do it.
        """
        check_max_errors(max_errors, has_directory=on_error is not None)
        call = LoadCall(
            input=load_input(data, nodes, edges, map),
            mode=chosen("mode", LoadMode, mode),
            actor=actor,
            message=message,
            idempotency_key=idempotency_key,
            on_error=None if on_error is None else Path(on_error),
            max_errors=max_errors,
            is_dry_run=dry_run,
            progress=progress,
        )
        reader = _reader(chosen("engine", Engine, engine), master)
        if from_ is not None:
            return load_on_new_branch(self._session, call, branch=branch, source=from_, reader=reader)
        return load(self._session.on(branch), call, reader)

    def export(  # noqa: PLR0913 - all but the target by name
        self,
        target: str | os.PathLike[str] | BinaryIO,
        *,
        format: ExportFormat | str = ExportFormat.JSONL,
        types: Sequence[str] | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        engine: Engine | str = Engine.AUTO,
        master: str | None = None,
        progress: Callable[[ExportProgress], None] | None = None,
    ) -> Exported:
        """Write the graph's rows, of the newest state, a commit's id or an instant; `load` takes what this writes.

        Graph JSONL goes to a file or a binary writer: node types then edge types in declared order, rows by id.
        Parquet goes to a directory, one file for each type. `types` are the only ones to write. `progress` is told how
        far it is, again and again.

        With the engine `spark`, or a `master` that it runs on, executors write the same rows in the same order to
        several files: graph JSONL is a directory then, and so is what is one file of Parquet otherwise.

        Raises:
            TypeMissingError: The schema of that snapshot has no such type.
            CommitMissingError: The history has no such commit, or nothing that early.
            BranchMissingError: There is no such branch.
            ExportTargetError: The target can't be written.
            SparkMissingError, JavaMissingError, SparkNotStartedError: There is no Spark to do it.
        """
        state = self.snapshot(branch=branch, snapshot=snapshot, at=at)
        form = chosen("format", ExportFormat, format)
        by = chosen("engine", Engine, engine)
        if by is Engine.LOCAL and master is not None:
            raise BadArgumentError("master", f"`{master}`", "the engine `local` does without Spark")
        if by is Engine.SPARK or (by is Engine.AUTO and master is not None):
            door: SparkGraph = _door("graph").on_master(self._session, state, master)
            return door.export(target, format=form, types=types, progress=progress)
        return export_graph(self._session, state, target, format=form, types=types, progress=progress)

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
        return read_blob(self._session, state, type_name, id, property)

    def embed(  # noqa: PLR0913 - the choices of a run, all by name but the type
        self,
        type_name: str,
        *,
        property: str | None = None,
        batch: int | None = None,
        limit: int | None = None,
        all: bool = False,
        dry_run: bool = False,
        branch: str = "main",
        actor: str = "anonymous",
        message: str | None = None,
        progress: Callable[[EmbedProgress], None] | None = None,
    ) -> EmbedResult:
        """Compute the vectors that `@embed` declares and that are missing, through the configured provider.

        Each `batch` of rows is a commit, so a run that stops has not worked in vain. With `all`, vectors that are there
        are computed anew; with `dry_run`, rows are only counted.

        Raises:
            TypeMissingError, NotEmbeddedError: There is nothing of that name to compute.
            NoProviderError, ProviderSettingsError: No provider is configured, or not rightly.
            ModelDiffersError, VectorSizeError: Its model or size is not what the schema declares.
            ProviderRefusedError, ProviderFailedError: It gave no answer.
            BranchMissingError: There is no such branch.
            ConflictError: Others kept changing the rows of a batch; what was committed before stays.
        """
        call = EmbedCall(
            type_name=type_name,
            property=property,
            batch=DEFAULT_BATCH if batch is None else batch,
            limit=limit,
            all=all,
            dry_run=dry_run,
            actor=actor,
            message=message,
        )
        return embed(self._session.on(branch), call, progress)

    def optimize(
        self,
        *,
        types: Sequence[str] | None = None,
        all_indexes: bool = False,
        engine: Engine | str = Engine.LOCAL,
        master: str | None = None,
        branch: str = "main",
        actor: str = "anonymous",
        message: str | None = None,
        progress: Callable[[OptimizeProgress], None] | None = None,
    ) -> OptimizeResult:
        """Keep tables fast: merge small fragments, drop deleted rows from files, build and complete indexes.

        What rows say, and what queries answer, stays the same. Each table where it pays gets a commit of its own; one
        that fails is reported, and the others are done. Readers and writers go on meanwhile, and none fails because of
        it.

        Args:
            types: Only these types; without, all.
            all_indexes: Also build indexes that are declared and that no query asks, for other tools that read the
                tables: full text, vectors, lists, and numbers that are not signed integers.
            engine: `local` works in this process; `spark` compacts and builds large indexes on Spark's executors.
            master: Where Spark runs, such as `local[4]` or `spark://host:7077`, if not where it runs anyway.
            branch: The branch to optimise.
            actor: Who the commits are by.
            message: A message to keep with the commits.
            progress: Is told when a table is done.

        Raises:
            TypeMissingError: The schema has no such type.
            BranchMissingError: There is no such branch.
        """
        call = OptimizeCall(
            types=None if types is None else tuple(types),
            upkeep=UpkeepCall(actor=actor, message=message, all_indexes=all_indexes),
            progress=progress,
        )
        session = self._session.on(branch)
        return optimize(session, call, _hands(session, Engine(engine), master))

    def indexes(
        self, *, branch: str = "main", snapshot: str | None = None, at: datetime | None = None
    ) -> list[IndexReport]:
        """Every index that is declared or there, with the share of rows that it covers, of one state of the graph.

        Raises:
            BranchMissingError, CommitMissingError: There is no such state.
        """
        return list_indexes(self._session, self.snapshot(branch=branch, snapshot=snapshot, at=at))

    def plan_schema(self, schema: str | Source, *, branch: str = "main") -> MigrationPlan:
        """What it takes to get from a branch's schema to another one; nothing is changed, and no row is looked at.

        Raises:
            SourceError: The text has mistakes.
            BranchMissingError: There is no such branch.
        """
        return plan_schema(self._session.on(branch), _schema(schema))

    def apply_schema(
        self, schema: str | Source, *, branch: str = "main", actor: str = "anonymous", message: str | None = None
    ) -> SchemaResult:
        """Make a schema the accepted one of a branch, with all that follows for its tables, in one commit.

        New rules are checked against the rows that are there first. What is dropped stays readable in earlier
        snapshots, and those keep the schema that they had.

        Raises:
            SourceError: The text has mistakes.
            SchemaUnsupportedError: Some change has no migration; the message says the way round.
            SchemaUnfitError: Rows that are there break a new rule; it names the first of them.
            ConflictError: Somebody else wrote meanwhile: look again and retry.
            BranchMissingError: There is no such branch.
        """
        call = SchemaCall(source=_schema(schema), actor=actor, message=message)
        return apply_schema(self._session.on(branch), call)

    def operations(self) -> Operations:
        """Operations that are at work, or died and wait for recovery. They block nobody."""
        return list_operations(self._session)


class GraphBranches:
    """The branches of a graph."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self) -> list[Branch]:
        """All branches, main first and the others by name."""
        return list_branches(self._session)

    def create(
        self,
        name: str,
        *,
        from_: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        actor: str = "anonymous",
    ) -> Branch:
        """A new branch that starts as the newest state of `from_`, or as that of one of its commits or of an instant.

        It takes the same few requests for any graph: no table is copied.

        Raises:
            BadBranchNameError: No branch may have that name.
            BranchExistsError: The name is taken.
            BranchMissingError, CommitMissingError: There is no such state to start from.
            BranchGoneError: `from_` was deleted meanwhile.
            BranchOutcomeUnknownError: The store stopped answering; `list` tells later whether it is there.
        """
        return create_branch(self._session, name, source=from_, commit_id=snapshot, at=at, actor=actor)

    def delete(self, name: str) -> Branch:
        """Delete a branch, with its commits; what it was. Whoever works on it gets a BranchGoneError.

        Raises:
            BadBranchNameError: It is main, which every graph has.
            BranchMissingError: There is no such branch.
            BranchHasChildrenError: Others were taken from it: delete those first.
            BranchOutcomeUnknownError: The store stopped answering; `list` tells later whether it is gone.
        """
        return delete_branch(self._session, name)


def _schema(text: str | Source) -> Source:
    return text if isinstance(text, Source) else Source(text, "schema.pg")


def _reader(engine: Engine, master: str | None) -> Reader:
    """Who reads, checks and writes the records of a load: it is known when the load is about to begin."""
    if engine is Engine.LOCAL:
        if master is not None:
            raise BadArgumentError("master", f"`{master}`", "the engine `local` does without Spark")
        return read_here

    def read(session: Session, call: LoadCall, head: Head) -> Records:
        choice = _door("choice").choose_engine(call.input, session.runtime.options, engine, master)
        call.tell_engine(str(choice))
        reader: Reader = read_here if choice.engine is Engine.LOCAL else _door("job").reader(choice.master)
        return reader(session, call, head)

    return read


def _hands(session: Session, engine: Engine, master: str | None) -> Hands | None:
    """Who does the heavy work of maintenance; None: this process."""
    if engine is Engine.LOCAL and master is not None:
        raise BadArgumentError("master", f"`{master}`", "the engine `local` does without Spark")
    if engine is Engine.LOCAL or (engine is Engine.AUTO and master is None):
        return None
    hands: Hands = _door("upkeep").hands(session, master)
    return hands


def _distributed(session: Session) -> "DistributedAlgorithms":
    found: DistributedAlgorithms = _door("algorithms").on(session)
    return found


def _door(name: str) -> ModuleType:
    """A module of the Spark room, which stands above this one: imported when it is needed, for it may not be there."""
    try:
        return import_module(f"omnigraph.spark.{name}")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _SPARKS_OWN:
            raise
        raise SparkMissingError(missing) from error


def _source(text: str | Source) -> Source:
    return text if isinstance(text, Source) else Source(text, "query.gq")
