"""Maintenance: the verbs that keep a graph fast and sound.

A verb is imported when it is first called: say `verbs.<module of ops>.<name>`, see `graph/lazy_ops.py`.
"""

import os
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self

from omnigraph.engine.query_budget import Budget
from omnigraph.graph import lazy_ops
from omnigraph.graph.blame import blames_damage
from omnigraph.graph.spark_bridge import select_workers
from omnigraph.ops.argument_checks import parse_choice
from omnigraph.ops.limits import ResourceLimits, with_limits
from omnigraph.ops.session import Session
from omnigraph.options import Engine

if TYPE_CHECKING:
    from omnigraph.ops.auto_optimize import Reconciler, ReconcileRound
    from omnigraph.ops.check import CheckProgress, CheckResult
    from omnigraph.ops.cleanup import CleanupProgress, CleanupResult
    from omnigraph.ops.embed import EmbedProgress, EmbedResult
    from omnigraph.ops.indexes import IndexReport
    from omnigraph.ops.operations import Operations
    from omnigraph.ops.optimize import OptimizeProgress, OptimizeResult
    from omnigraph.ops.recoveries import Recovery
    from omnigraph.ops.repair_result import RepairResult
    from omnigraph.ops.verify import VerifyResult


@blames_damage
class MaintenanceMethods:
    """What keeps a graph fast and sound, each verb one call into `ops`."""

    _session: Session

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing has to be given back: memory goes with the handle. Here so that either door can stand in `with`."""

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

        Each `batch` of rows is a commit, so a run that stops has not worked in vain. With `all`, vectors that are there
        are computed anew; with `dry_run`, rows are only counted. `seconds` and `memory_bytes` are what the whole run
        may use, if not what the options say; a `budget` can also be cancelled, and counts instead.

        Raises:
            TypeMissingError, NotEmbeddedError: There is nothing of that name to compute.
            NoProviderError, ProviderSettingsError: No provider is configured, or not rightly.
            ModelDiffersError, VectorSizeError: Its model or size is not what the schema declares.
            ProviderRefusedError, ProviderFailedError: It gave no answer.
            BranchMissingError: There is no such branch.
            ConflictError: Others kept changing the rows of a batch; what was committed before stays.
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
        """Keep tables fast: merge small fragments, drop deleted rows from files, build and complete indexes.

        What rows say, and what queries answer, stays the same. Each table where it pays gets a commit of its own; one
        that fails is reported, and the others are done. Readers and writers go on meanwhile, and none fails because of
        it.

        Args:
            types: Only these types; without, all.
            all_indexes: Also build indexes that are declared and that no query asks, for other tools that read the
                tables: full text and vectors.
            dry_run: Only tell what is worth doing, as `due` of the result; nothing is written.
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
        """Maintenance that looks after itself: `run` it in a thread of its own, until another calls its `stop`.

        It looks at every branch again and again, `every_seconds` at the most often, and optimises what pays; no more
        than `budget`, a share of the time, is spent on it. `tell` is told of every round.

        Raises:
            BadArgumentError, ActorRefusedError: It can't run that often, that much, or by that name.
            ReadOnlyError: The graph was opened read-only.
        """
        given = {} if actor is None else {"actor": actor}
        policy = lazy_ops.auto_optimize.ReconcilePolicy(every_seconds=every_seconds, budget=budget, **given)
        return lazy_ops.auto_optimize.Reconciler(self._session, policy, tell)

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: timedelta | None = None,
        grace: timedelta | None = None,
        confirm: bool = False,
        progress: "Callable[[CleanupProgress], None] | None" = None,
    ) -> "CleanupResult":
        """Collect what no kept commit needs any more: the only verb that removes files. Without `confirm` a preview.

        Kept are, of every branch, the newest `keep` commits, and those that were current within `older_than`; with
        both, what either keeps. Tagged commits are kept, those that branches were taken from, and those that merges
        will compare with. Not kept for that alone is what several such bases, of branches that were merged crosswise,
        have grown from: a later merge may then have conflicts about values in which these bases differ. A collected
        commit stays in the history, and can't be read any more. Readers and writers go on meanwhile.

        Args:
            keep: How many commits of each branch.
            older_than: How far back every state can still be read. One of the two must be given.
            grace: How long everything stays for those who are at work with it, a day unless given: what was current
                within it is kept too. A write that takes longer, and has no sidecar, fails.
            confirm: Do it.
            progress: Is told when a table is done.

        Raises:
            BadArgumentError: Neither `keep` nor `older_than` is given, or a value makes no sense.
            ConflictError: Another cleanup is at work.
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
        self, *, branch: str = "main", snapshot: str | None = None, at: datetime | None = None
    ) -> "list[IndexReport]":
        """Every index that is declared or there, with the share of rows that it covers, of one state of the graph.

        Raises:
            BranchMissingError, CommitMissingError: There is no such state.
        """
        return lazy_ops.indexes.list_indexes(
            self._session, self._session.checkout(branch).resolve_snapshot(commit_id=snapshot, at=at)
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
        """Verify the graph: manifests, files, rows, indexes, operations. Nothing is changed, unless `record` is given.

        What is wrong, or only worth knowing, is a finding: with a code, what it is about, where that is, and the way
        out. Others may read and write meanwhile. It costs a list of all files and a scan of ids, ends and what rules
        are about; a deep check reads every file that a kept commit names.

        Args:
            branch: Only this branch; without, all, and what belongs to none.
            quick: Only manifests and files; no row is read.
            deep: Compare every file that a kept commit names with its checksum, present and past, and read every
                column of every row but Blobs.
            record: Check deeply, and if there is no error, record checksums of files that have none: those of earlier
                releases, and all on an object store. One commit for each branch that changes nothing else.
            actor: Who these commits are by.
            message: A message to keep with them.
            progress: Is told how far it is.

        Raises:
            BranchMissingError: There is no such branch.
            BadArgumentError: Both `quick` and `deep` or `record` are given.
            StoreUnavailableError: The store does not answer, so nothing can be said.
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
        """Prove what a branch shows: its history by the digests of commits, its files by the history.

        Nothing is changed. The `digest` of the result stands for the whole history: written down elsewhere, and given
        to a later call, it proves that nothing was changed since, here or in a clone.

        Args:
            branch: The branch.
            digest: One that was written down: of the head, or of an earlier commit. The result says of which.
            progress: Is told how far it is.

        Raises:
            BranchMissingError: There is no such branch.
            CommitAlteredError: A commit does not match its digest, or what is shown not its commit.
            DigestUnknownError: No commit of the history has that digest.
            FilesDamagedError: A file that the branch needs is gone or damaged.
            HistoryUnrecordedError: The history was made by an older release, and has no digests.
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
        """Find tables that other tools have damaged, and earlier versions that can take their place.

        A preview, unless `confirm` is given: then what loses nothing is published, in one commit for each branch, and
        the rest is refused. With `force` the rest is published too; each says what it loses. No data file is rewritten
        or removed. Others may read and write meanwhile.

        Args:
            confirm: Publish what is verified: every step that is undone left all rows as they were.
            force: With `confirm`, also publish what loses rows, or of which it can't be told.
            deep: Read every column of every row but Blobs, as `check` does; else only ids and ends are. A version that
                would take the place of another is always read so.
            branch: Only this branch; without, all.
            source: A copy of the graph, a clone or a backup, of which missing and damaged files are put back, verified,
                under their own names. Nothing else is done then, and no commit is made.
            actor: Who the commits are by.
            message: A message to keep with the commits.

        Raises:
            BranchMissingError: There is no such branch.
            AnotherGraphError: `source` is no copy of this graph.
            ConflictError: Others kept writing to the tables that are repaired; nothing of these is published.
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
        """Operations that are at work, or died and wait for recovery. They block nobody."""
        return lazy_ops.operations.list_operations(self._session)

    def recoveries(self, *, limit: int | None = None, before: str | None = None) -> "list[Recovery]":
        """What recovery did about operations that died, newest first, on any branch, also on one that was deleted.

        Args:
            limit: At most so many.
            before: Only what is older than the one of this id.
        """
        return lazy_ops.recoveries.list_recoveries(self._session, limit=limit, before=before)
