"""Load records in bounded memory: read them, check them as a whole, write them in one commit or not at all."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

import msgspec

from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.idempotency import check_same_request, find_earlier_commit
from omnigraph.commit.manifest_log import Head
from omnigraph.engine.bulk.load_batch import LoadBatch, LoadMode, OnDuplicate
from omnigraph.engine.bulk.load_errors import LoadError
from omnigraph.engine.bulk.problem_groups import ProblemGroups
from omnigraph.engine.bulk.rejected_records import Quarantine, settle_published
from omnigraph.engine.constraints.violations import MAX_REPORTED_PROBLEMS
from omnigraph.engine.view import View
from omnigraph.ops.commit_signature import check_signature
from omnigraph.ops.keep_derived import keep_after_load
from omnigraph.ops.load_call import PUBLISHING, LoadCall, LoadResult, Progress, TypeCounts, restore_result
from omnigraph.ops.load_digest import RequestDigest
from omnigraph.ops.load_engine import LoadRecords, Reader
from omnigraph.ops.load_inputs import GraphSource, LoadInput, TypedSource
from omnigraph.ops.load_local import read_locally
from omnigraph.ops.retry import rerun_on_conflict
from omnigraph.ops.session import Session, open_whole_tables
from omnigraph.ops.write_tables import write_tables
from omnigraph.policy import Action

__all__ = [
    "GraphSource",
    "LoadCall",
    "LoadError",
    "LoadInput",
    "LoadMode",
    "LoadResult",
    "OnDuplicate",
    "Progress",
    "TypeCounts",
    "TypedSource",
    "load",
]

OPERATION = "load"
# Rules that a correct record breaks if another writer commits the same key or unique value first.
_RACE_RULES = frozenset({"exists", "unique"})


def load(session: Session, call: LoadCall, reader: Reader = read_locally) -> LoadResult:
    """Load all records of the input in one commit. `reader` selects the engine that reads, checks and writes them.

    If another writer commits first, an append or a merge is checked again without reading the input again. An overwrite
    fails if its tables have changed.

    Raises:
        LoadError: Records were rejected; it lists the first of them with reasons.
        ConflictError: Another writer committed first: records of the same keys, or tables to be overwritten.
        KeyReusedError: The actor's idempotency key belongs to another kind of request, or to a load of other data, in
            another mode or with other options.
        SpoolError, QuarantineError: Temporary files or rejected records can't be written to disk.
        QueryTimeoutError, QueryMemoryError, QueryCancelledError: The session's budget ran out; nothing was changed.
    """
    session.allow(Action.CHANGE, signed=call.actor)
    session.check_writable()
    check_signature(call.actor, call.message, call.idempotency_key)
    watched = replace(call, progress=_with_cancellation(session, call.progress))
    digest = RequestDigest(watched, session.runtime.options.storage)
    head = session.head()
    earlier = _find_earlier_result(session, head, digest)
    if earlier is not None:
        return earlier
    work = _Load(session, digest, reader)
    try:
        work.read(head)
        result = work.run()
    finally:
        work.close()
    keep_after_load(session, result)
    return result


def _find_earlier_result(session: Session, head: Head, digest: RequestDigest) -> LoadResult | None:
    """Return the result of an earlier call with the same idempotency key, or None; always None for a dry run.

    Raises:
        KeyReusedError: The key belongs to another request.
    """
    call = digest.call
    key = None if call.is_dry_run else call.idempotency_key
    commit = find_earlier_commit(session.log, head, operation=OPERATION, actor=call.actor, key=key)
    if commit is None:
        return None
    result = restore_result(commit, call, session.load_catalog(head.snapshot), head.snapshot.branch)
    # Commits of older versions have no digest of their request: the key alone decides.
    if commit.request is not None:
        check_same_request(commit, OPERATION, digest.get_or_compute())
    if result.quarantine is not None:
        # The process of that call may have died right after its commit.
        settle_published(Path(result.quarantine))
    return result


def _with_cancellation(session: Session, progress: Callable[[Progress], None] | None) -> Callable[[Progress], None]:
    """Return a progress callback that checks the session's limits, then calls the callback of the caller."""

    def report(done: Progress) -> None:
        # Once publishing begins, the publisher checks: it knows what can still be undone.
        if done.phase != PUBLISHING:
            session.check_cancelled()
        if progress is not None:
            progress(done)

    return report


class _Load:
    """A load in progress: its input is read once, then checked and written until a commit succeeds."""

    def __init__(self, session: Session, digest: RequestDigest, reader: Reader) -> None:
        self._session = session
        self._digest = digest
        self._reader = reader
        self._call = digest.call
        self._records: LoadRecords | None = None
        self._quarantine: Quarantine | None = None
        self._base: Head | None = None
        self._conflicts: list[ConflictError] = []

    @property
    def records(self) -> LoadRecords:
        """The records that were read."""
        assert self._records is not None  # noqa: S101 - `read` comes first
        return self._records

    def read(self, head: Head) -> None:
        """Read the whole input with the schema of a state."""
        self.close()
        self._records = self._reader(self._session, self._call, head)
        if self._call.on_error is not None:
            self._quarantine = Quarantine(self._call.on_error, self._records.inputs.names)
        self._base = head
        self._records.read()

    def close(self) -> None:
        """Remove the temporary files."""
        if self._quarantine is not None:
            self._quarantine.discard()
        if self._records is not None:
            self._records.close()

    def run(self) -> LoadResult:
        """Check and write the records, again after a conflict if the mode allows it."""
        if self._call.mode is LoadMode.OVERWRITE:
            return self._attempt()
        try:
            return rerun_on_conflict(self._session.runtime, self._attempt)
        except LoadError as error:
            is_append = self._call.mode is LoadMode.APPEND
            if is_append and self._conflicts and any(problem.rule in _RACE_RULES for problem in error.problems):
                # The records were valid at the first attempt, so the other writer is the cause.
                raise self._conflicts[-1] from error
            raise

    def _attempt(self) -> LoadResult:
        session, call = self._session, self._call
        head = self._choose_head()
        earlier = _find_earlier_result(session, head, self._digest)
        if earlier is not None:
            return earlier
        batch = self._check(head)
        result = self._build_result(batch)
        if call.is_dry_run:
            return result
        try:
            result = self._write(head, batch, result)
        except ConflictError as error:
            self._conflicts.append(error)
            raise
        if result.rejected and self._quarantine is not None:
            self._quarantine.settle(is_loaded=True)
        return result

    def _choose_head(self) -> Head:
        """Return the state to load onto: the newest, or for an overwrite the one that the call started from.

        An overwrite must not replace rows that were committed after it started.
        """
        assert self._base is not None  # noqa: S101 - `read` comes first
        if self._call.mode is LoadMode.OVERWRITE:
            return self._base
        head = self._session.head()
        old_schema, new_schema = self.records.schema_id, head.snapshot.manifest.schema.id
        # Records were decoded by the old schema.
        if old_schema != new_schema:
            if not self.records.is_repeatable:
                raise ConflictError(
                    "schema", old_schema, new_schema, "the schema was changed, and a stream can't be read again"
                )
            self.read(head)
        return head

    def _check(self, head: Head) -> LoadBatch:
        """Check all rows against a state.

        Raises:
            LoadError: More records are rejected than `max_errors` allows.
        """
        session, call, records = self._session, self._call, self.records
        view = View(session.load_catalog(head.snapshot), open_whole_tables(session, head.snapshot))
        batch = records.check(view, leaves_out=self._quarantine is not None)
        total = records.rejects.count + batch.rejections.records
        quarantine = self._quarantine if total and not call.is_dry_run else None
        if quarantine is not None:
            quarantine.prepare(records.rejects, batch.rejections, records.inputs)
        global_count = sum(problem.count for problem in batch.rejections.global_problems)
        max_errors = call.max_errors if self._quarantine is not None else 0
        if global_count or (max_errors is not None and total > max_errors):
            quarantine_path = None if quarantine is None else quarantine.settle(is_loaded=False)
            problems = self._collect_problems(batch)
            raise LoadError(problems.select_examples(), problems.total, quarantine_path, problems.list_groups())
        records.compare(batch)
        return batch

    def _collect_problems(self, batch: LoadBatch) -> ProblemGroups:
        """Return all problems by group."""
        problems = ProblemGroups()
        problems.include(self.records.rejects.groups)
        for rejection, type_, first in batch.rejections.iter_first(self.records.inputs):
            problems.add_many((rejection.rule, type_, rejection.property), len(rejection.rows), iter(first))
        # Problems of no file, such as those between rows, come last.
        last = (len(self.records.inputs.names), 0)
        for each in batch.rejections.global_problems:
            first = [(last, problem) for problem in islice(each.iter_problems(), MAX_REPORTED_PROBLEMS)]
            problems.add_many((each.rule, each.type, each.property), each.count, iter(first))
        return problems

    def _build_result(self, batch: LoadBatch) -> LoadResult:
        """Return the result without its commit."""
        rejected = self.records.rejects.count + batch.rejections.records
        edges = {rows.type.name: self.records.count_changes(rows) for rows in batch.list_edge_batches()}
        return LoadResult(
            mode=self._call.mode,
            branch=batch.view.snapshot.branch,
            commit_id=None,
            nodes={rows.type.name: self.records.count_changes(rows) for rows in batch.list_node_batches()},
            edges=edges,
            rejected=rejected,
            quarantine=str(self._call.on_error) if rejected and not self._call.is_dry_run else None,
            is_dry_run=self._call.is_dry_run,
            warnings=tuple(self._iter_warnings(batch, edges)),
        )

    def _iter_warnings(self, batch: LoadBatch, edges: Mapping[str, TypeCounts]) -> Iterator[str]:
        """Yield a warning for each edge type whose edges a merge adds again each time: nothing identifies them."""
        if batch.mode is not LoadMode.MERGE:
            return
        for rows in batch.list_edge_batches():
            name, added = rows.type.name, edges[rows.type.name].inserted
            if added and not rows.type.key and self.records.count_generated_ids(rows):
                yield (
                    f"{name} has no @key: this merge added {added:,} of its edges, and the same merge adds them again;"
                    " @key(src, dst) keeps one edge for each pair of nodes"
                )

    def _write(self, head: Head, batch: LoadBatch, result: LoadResult) -> LoadResult:
        call = self._call
        done = write_tables(
            self._session,
            self.records.build_writes(batch),
            operation=OPERATION,
            actor=call.actor,
            base=head,
            requirements=self.records.build_requirements(batch),
            message=call.message if call.message is not None else self.records.export,
            idempotency_key=call.idempotency_key,
            request=self._digest.get_or_compute(),
            affected=result.affected,
            summary=result.summary(),
            armed=self.records.armed,
        )
        if done is None:
            return result
        if done.is_repeated:
            return restore_result(done.commit, call, batch.view.catalog, result.branch)
        return msgspec.structs.replace(result, commit_id=done.commit.id)
