"""Maintenance: the verbs that keep a graph fast and sound."""

from collections.abc import Callable, Sequence
from datetime import datetime

from omnigraph.graph.spark_door import hands_for
from omnigraph.ops.embed import DEFAULT_BATCH, EmbedCall, EmbedProgress, EmbedResult, embed
from omnigraph.ops.indexes import IndexReport, list_indexes
from omnigraph.ops.operations import Operations, list_operations
from omnigraph.ops.optimize import OptimizeCall, OptimizeProgress, OptimizeResult, optimize
from omnigraph.ops.session import Session
from omnigraph.ops.table_upkeep import UpkeepCall
from omnigraph.options import Engine


class UpkeepVerbs:
    """What keeps a graph fast and sound, each verb one call into `ops`."""

    _session: Session

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
        return optimize(session, call, hands_for(session, Engine(engine), master))

    def indexes(
        self, *, branch: str = "main", snapshot: str | None = None, at: datetime | None = None
    ) -> list[IndexReport]:
        """Every index that is declared or there, with the share of rows that it covers, of one state of the graph.

        Raises:
            BranchMissingError, CommitMissingError: There is no such state.
        """
        return list_indexes(self._session, self._session.on(branch).snapshot(commit_id=snapshot, at=at))

    def operations(self) -> Operations:
        """Operations that are at work, or died and wait for recovery. They block nobody."""
        return list_operations(self._session)
