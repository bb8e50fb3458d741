"""The maintenance methods of a graph: embedding, compaction, garbage collection, checks and repair.

Each method is one call into `ops`, through `lazy_ops`, which imports its module on first use.
"""

import os
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self

from omnigraph.engine.query_budget import Budget
from omnigraph.graph import lazy_ops
from omnigraph.graph.arguments import check_uri
from omnigraph.graph.blame import blames_damage
from omnigraph.graph.spark_bridge import select_workers
from omnigraph.ops.argument_checks import parse_choice
from omnigraph.ops.limits import ResourceLimits, with_limits
from omnigraph.ops.session import Session
from omnigraph.options import Engine

if TYPE_CHECKING:
    from omnigraph.ops.auto_maintenance import Reconciler, ReconcileRound
    from omnigraph.ops.backup import BackupResult
    from omnigraph.ops.check import CheckProgress, CheckResult
    from omnigraph.ops.cleanup import CleanupProgress, CleanupResult
    from omnigraph.ops.clone_tables import CloneProgress
    from omnigraph.ops.embed import EmbedProgress, EmbedResult
    from omnigraph.ops.indexes import IndexReport
    from omnigraph.ops.operations import Operations
    from omnigraph.ops.optimize import OptimizeProgress, OptimizeResult
    from omnigraph.ops.recoveries import Recovery
    from omnigraph.ops.repair_result import RepairResult
    from omnigraph.ops.verify import VerifyResult


@blames_damage
class MaintenanceMethods:
    """The methods of a graph for maintenance."""

    _session: Session

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End a short-lived use of the graph: compact small fragments if the options give this a time, else do nothing.

        Memory is freed with the handle, which can still be used.
        """
        self._session.tails.close()

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
        progress: "Callable[[EmbedProgress], None] | None" = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        budget: Budget | None = None,
    ) -> "EmbedResult":
        """Compute the vectors that `@embed` declares and that are missing, through the configured provider.

        Each `batch` of rows is one commit, so a run that stops keeps what it has computed. `all` also recomputes
        existing vectors; `dry_run` only counts rows. `seconds` and `memory_bytes` limit the whole run; the options have
        the defaults. A `budget` replaces both limits, and lets the caller cancel the run.

        Raises:
            TypeMissingError, MissingError: There is no such type, or no such property to compute.
            SettingsError: No provider is configured, or its settings are invalid.
            EmbeddingError: The model or vector size is not what the schema declares, or the provider rejected a text.
            ProviderFailedError: The provider did not answer.
            BranchMissingError: There is no such branch.
            ConflictError: Other writers kept changing the rows of a batch; earlier batches stay committed.
            QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget ran out; likewise.
        """
        call = lazy_ops.embed.EmbedCall(
            type_name=type_name,
            property=property,
            batch=lazy_ops.embed.DEFAULT_BATCH if batch is None else batch,
            limit=limit,
            all=all,
            dry_run=dry_run,
            actor=self._session.resolve_signer(actor),
            message=message,
        )
        limits = ResourceLimits(seconds=seconds, memory_bytes=memory_bytes, budget=budget)
        session = with_limits(self._session, limits, "computation of vectors", "what it has committed stays")
        return lazy_ops.embed.embed(session.checkout(branch), call, progress)

    def optimize(  # noqa: PLR0913 - the choices of a run, all by name
        self,
        *,
        types: Sequence[str] | None = None,
        all_indexes: bool = False,
        dry_run: bool = False,
        engine: Engine | str = Engine.LOCAL,
        master: str | None = None,
        branch: str = "main",
        actor: str = "anonymous",
        message: str | None = None,
        progress: "Callable[[OptimizeProgress], None] | None" = None,
    ) -> "OptimizeResult":
        """Optimize tables: compact small fragments, remove deleted rows from files, build and update indexes.

        Data and query results stay the same. Each table that benefits gets its own commit; a table that fails is
        reported, and the others are done. Reads and writes may run at the same time, and none fails because of it.

        Args:
            types: Only these types; by default all.
            all_indexes: Also build declared indexes that queries don't use, for other tools that read the tables: full
                text and vectors.
            dry_run: Only report what would be done, as `due` of the result; nothing is written.
            engine: `local` runs in this process; `spark` compacts and builds large indexes on Spark's executors.
            master: Where Spark runs, such as `local[4]` or `spark://host:7077`; by default as Spark is configured.
            branch: The branch to optimize.
            actor: The author of the commits.
            message: A message to store with the commits.
            progress: Called when a table is done.

        Raises:
            TypeMissingError: The schema has no such type.
            BranchMissingError: There is no such branch.
        """
        call = lazy_ops.optimize.OptimizeCall(
            types=None if types is None else tuple(types),
            upkeep=lazy_ops.optimize_table.UpkeepCall(
                actor=self._session.resolve_signer(actor), message=message, all_indexes=all_indexes
            ),
            is_dry_run=dry_run,
            progress=progress,
        )
        session = self._session.checkout(branch)
        return lazy_ops.optimize.optimize(
            session, call, select_workers(session, parse_choice("engine", Engine, engine), master)
        )

    def reconciler(
        self,
        *,
        every_seconds: float = 60.0,
        budget: float = 0.1,
        actor: str | None = None,
        tell: "Callable[[ReconcileRound], None] | None" = None,
    ) -> "Reconciler":
        """Return a background optimizer: `run` it in its own thread, until another thread calls its `stop`.

        It checks every branch at intervals of at least `every_seconds`, and optimizes where that pays off, for at most
        the share `budget` of the time. `tell` is called after every round.

        Raises:
            BadArgumentError, ActorRefusedError: The interval, the budget or the actor's name is invalid.
            ReadOnlyError: The graph was opened read-only.
        """
        policy = lazy_ops.auto_maintenance.ReconcilePolicy(
            every_seconds=every_seconds,
            budget=budget,
            # The same author as that of the maintenance that writes start.
            actor=lazy_ops.auto_maintenance.DEFAULT_ACTOR if actor is None else actor,
        )
        return lazy_ops.auto_maintenance.Reconciler(self._session, policy, tell)

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: timedelta | None = None,
        grace: timedelta | None = None,
        confirm: bool = False,
        progress: "Callable[[CleanupProgress], None] | None" = None,
    ) -> "CleanupResult":
        """Remove data that no retained commit needs; the only operation that removes files. Previews by default.

        On every branch, the newest `keep` commits are retained, and those that were current within `older_than`; with
        both, commits that either retains. Tagged commits, branch points and the bases of future merges are always
        retained. After criss-cross merges, the common ancestors of several bases are not retained for that alone: a
        later merge may then have conflicts about values in which these bases differ. A collected commit is still
        listed, but can no longer be read. Reads and writes may run at the same time.

        Args:
            keep: The number of commits to retain on each branch.
            older_than: The period within which every state stays readable. One of the two must be given.
            grace: Data that was current or written within this period is kept too, for reads and writes in progress;
                by default a day. A write that takes longer, and has no sidecar, fails.
            confirm: Remove the data; otherwise only report what would be removed.
            progress: Called when a table is done.

        Raises:
            BadArgumentError: Neither `keep` nor `older_than` is given, or a value is invalid.
            ConflictError: Another cleanup is running.
        """
        call = lazy_ops.cleanup.CleanupCall(
            keep=keep,
            older_than=older_than,
            grace=lazy_ops.cleanup.DEFAULT_GRACE if grace is None else grace,
            is_confirmed=confirm,
            progress=progress,
        )
        return lazy_ops.cleanup.cleanup(self._session, call)

    def indexes(
        self,
        *,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        recall: bool = False,
    ) -> "list[IndexReport]":
        """List the indexes of one state, declared or existing, with the share of rows that each covers.

        With `recall`, also the share of the nearest rows that `nearest` finds by each vector index, without a filter
        and with filters that a tenth, a hundredth and a thousandth of the rows pass. That takes a scan of its column.

        Raises:
            BranchMissingError, CommitMissingError: There is no such state.
        """
        return lazy_ops.indexes.list_indexes(
            self._session, self._session.checkout(branch).resolve_snapshot(commit_id=snapshot, at=at), recall=recall
        )

    def check(
        self,
        *,
        branch: str | None = None,
        quick: bool = False,
        deep: bool = False,
        record: bool = False,
        actor: str = "anonymous",
        message: str | None = None,
        progress: "Callable[[CheckProgress], None] | None" = None,
    ) -> "CheckResult":
        """Check the graph: manifests, files, rows, indexes, operations. Nothing is changed, unless `record` is given.

        Each finding, an error or a note, has a code, a subject, a location and a remedy. Reads and writes may run at
        the same time. The check lists all files, and scans ids, ends and the columns of constraints; a deep check reads
        every file that a retained commit names.

        Args:
            branch: Only this branch; by default all, and files that belong to none.
            quick: Only manifests and files; no row is read.
            deep: Compare every file that a retained commit names with its checksum, and read every column of every row
                except Blobs.
            record: Check deeply and, if there is no error, record checksums of files that have none: those of earlier
                releases, and all on an object store. One commit per branch, which changes nothing else.
            actor: The author of these commits.
            message: A message to store with them.
            progress: Called repeatedly with the progress of the check.

        Raises:
            BranchMissingError: There is no such branch.
            BadArgumentError: `quick` is combined with `deep` or `record`.
            StoreUnavailableError: The store does not answer, so nothing can be checked.
        """
        call = lazy_ops.check.CheckCall(
            branch=branch,
            is_quick=quick,
            is_deep=deep,
            is_record=record,
            actor=self._session.resolve_signer(actor),
            message=message,
            progress=progress,
        )
        return lazy_ops.check.check(self._session, call)

    def verify(
        self,
        *,
        branch: str = "main",
        digest: str | None = None,
        progress: "Callable[[CheckProgress], None] | None" = None,
    ) -> "VerifyResult":
        """Verify the integrity of a branch: its history by the digests of commits, its files by the history.

        Nothing is changed. The `digest` of the result represents the whole history: stored elsewhere and passed to a
        later call, it proves that nothing was altered since, here or in a clone.

        Args:
            branch: The branch to verify.
            digest: A digest stored earlier, of the head or of an older commit. The result names the commit.
            progress: Called repeatedly with the progress.

        Raises:
            BranchMissingError: There is no such branch.
            VerificationError: A commit does not match its digest, the branch's state does not match its commit, no
                commit of the history has that digest, or a file that the branch needs is missing or damaged.
            MissingError: The history was written by an older release, and has no digests.
        """
        call = lazy_ops.verify.VerifyCall(branch=branch, digest=digest, progress=progress)
        return lazy_ops.verify.verify(self._session, call)

    def repair(
        self,
        *,
        confirm: bool = False,
        force: bool = False,
        deep: bool = False,
        branch: str | None = None,
        source: str | os.PathLike[str] | None = None,
        actor: str = "anonymous",
        message: str | None = None,
    ) -> "RepairResult":
        """Repair tables that other tools have damaged, by replacing them with earlier versions. Previews by default.

        With `confirm`, repairs that lose nothing are published, in one commit per branch, and the others are rejected.
        With `force` those are published too; each reports what it loses. No data file is rewritten or removed. Reads
        and writes may run at the same time.

        Args:
            confirm: Publish verified repairs: every step that they undo left all rows unchanged.
            force: With `confirm`, also publish repairs that lose rows, or may lose some.
            deep: Read every column of every row except Blobs, as `check` does; otherwise only ids and ends. A version
                that would replace another is always read this way.
            branch: Only this branch; by default all.
            source: A copy of the graph, a clone or a backup, from which missing and damaged files are restored under
                their own names, verified. Nothing else is done then, and no commit is made.
            actor: The author of the commits.
            message: A message to store with the commits.

        Raises:
            BranchMissingError: There is no such branch.
            BadArgumentError: `source` is not a copy of this graph.
            ConflictError: Other writers kept changing the tables under repair; none of these repairs is published.
        """
        call = lazy_ops.repair.RepairCall(
            branch=branch,
            confirm=confirm,
            force=force,
            deep=deep,
            source=None if source is None else os.fspath(source),
            actor=self._session.resolve_signer(actor),
            message=message,
        )
        return lazy_ops.repair.repair(self._session, call)

    def operations(self) -> "Operations":
        """List operations that are running, or that died and await recovery. They block no reader or writer."""
        return lazy_ops.operations.list_operations(self._session)

    def recoveries(self, *, limit: int | None = None, before: str | None = None) -> "list[Recovery]":
        """List the recoveries of operations that died, newest first, on all branches, including deleted ones.

        Args:
            limit: The maximum number to return.
            before: Only recoveries older than the one with this id.
        """
        return lazy_ops.recoveries.list_recoveries(self._session, limit=limit, before=before)

    def backup(
        self,
        target: str | os.PathLike[str],
        *,
        keep: int | None = None,
        progress: "Callable[[CloneProgress], None] | None" = None,
    ) -> "BackupResult":
        """Add a backup to a repository of backups of this graph, with what is new since the one before it.

        A backup has all branches and their history, and exists completely or not at all; others may write meanwhile.
        If nothing has changed since the newest backup, none is added. See `omnigraph.restore_graph`.

        Args:
            target: The location of the repository, which is created if it is empty: a path or an S3 prefix.
            keep: Afterwards, remove all but this number of the newest backups.
            progress: Called now and then with the progress, from several threads, one at a time.

        Raises:
            BadArgumentError: The repository overlaps the graph, or `keep` is less than 1.
            PlaceTakenError: The location holds anything else, or another backup is being written there.
            CorruptError: The record of another backup is damaged.
        """
        call = lazy_ops.backup.BackupCall(target=check_uri(target, "target"), keep=keep, progress=progress)
        return lazy_ops.backup.back_up(self._session, call)
