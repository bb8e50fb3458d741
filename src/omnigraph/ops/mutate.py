"""Run a mutation: all statements, checked as a whole, in one commit or not at all."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from itertools import chain, repeat
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import structs

from omnigraph.commit.commit_plan import CommitPlan
from omnigraph.commit.commit_queue import get_queue
from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.idempotency import find_earlier_commit
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import Commit
from omnigraph.commit.publisher import ArmedWrite, publish_or_replan
from omnigraph.commit.rebase import check_if_commit
from omnigraph.commit.requirements import Requirement
from omnigraph.engine.constraints.check import check_constraints
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.result_files import build_json_objects
from omnigraph.engine.row_security.masked_tables import MaskedTables
from omnigraph.engine.search.search_arguments import check_search_arguments
from omnigraph.engine.view import View
from omnigraph.engine.writing.blobs import list_blob_properties, measure_blobs
from omnigraph.engine.writing.driven_statements import DrivenRun
from omnigraph.engine.writing.match_dependencies import find_read_types
from omnigraph.engine.writing.returned_rows import compute_returned_rows
from omnigraph.engine.writing.row_visibility import build_requirements, check_put_seen, check_replaced_seen
from omnigraph.engine.writing.statements import run_statements
from omnigraph.engine.writing.write_buffer import PendingTable, WriteBuffer
from omnigraph.errors import QueryError
from omnigraph.json_struct import JsonStruct
from omnigraph.lang.printer import print_queries
from omnigraph.lang.query_ast import Insert, Query, QueryFile, Read, Union
from omnigraph.lang.source import Source
from omnigraph.ops.answer_match import MatchAnswerer
from omnigraph.ops.commit_signature import check_signature
from omnigraph.ops.evaluation_cost import EvaluationCost
from omnigraph.ops.evaluation_slots import EVALUATION_SLOTS
from omnigraph.ops.mutation_preview import MutationPreview, build_preview
from omnigraph.ops.retry import rerun_on_conflict
from omnigraph.ops.run_notes import RUN_NOTES, MutationKey, find_max_length
from omnigraph.ops.session import Session, open_whole_tables
from omnigraph.ops.write_tables import TableWrite, keep_tails_short, stage_plan
from omnigraph.policy import Action
from omnigraph.query.expr import Expr
from omnigraph.query.logical_plan import iter_predicates
from omnigraph.query.mutation_plan import Delete, DriveMatch, InsertEdge, InsertNode, MutationQuery, Update
from omnigraph.query.params import check_params
from omnigraph.storage.staging import RowStream

OPERATION = "mutate"
# A write of blobs that lost to other writers of its process is repeated while these wait, unless it is larger.
MAX_TURN_BLOB_BYTES = 4 * 1024 * 1024
MAX_TURN_BLOB_ROWS = 64
# Estimated memory of a pending row beside its values: Python strings of its id, in a few sets and lists.
_ROW_BYTES = 400


class MutationResult(JsonStruct, frozen=True, kw_only=True):
    """The result of a mutation, each node and edge counted once; there is no commit if nothing changed.

    Only a mutation with `returning` has `columns` and `rows`, of JSON values; a repeated request with the same
    idempotency key has none. Only one with `if absent` counts existing nodes and edges, which were left as they are.
    """

    json_keys = (
        "query_name target.branch=branch commit_id affected_nodes affected_edges"
        " existing_nodes? existing_edges? columns? rows? preview?"
    )

    query_name: str
    branch: str
    commit_id: str | None
    affected_nodes: int
    affected_edges: int
    existing_nodes: int | None = None
    existing_edges: int | None = None
    columns: tuple[str, ...] | None = None
    rows: tuple[dict[str, Any], ...] | None = None
    preview: MutationPreview | None = None
    """What a dry run would change; only a dry run has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What one run of a mutation tells beside its commit."""

    existing: tuple[int, int] | None = None
    columns: tuple[str, ...] | None = None
    rows: tuple[dict[str, Any], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationCall:
    """The arguments of a mutation."""

    source: Source
    name: str | None
    params: Mapping[str, object]
    actor: str
    message: str | None = None
    idempotency_key: str | None = None
    if_commit: str | None = None
    is_dry_run: bool = False
    """Whether to return what would change, without writing a file or using up the idempotency key."""


def mutate(session: Session, call: MutationCall) -> MutationResult:
    """Run a mutation on the newest state.

    If another writer commits first, and that changes what the mutation read, the mutation is run again on the newer
    state, as if it had arrived later. With `if_commit` it is not.

    Raises:
        SourceError, MissingError, BadArgumentError, QueryError, ParameterError: The call is wrong.
        ConstraintError: The result would break the schema.
        ConflictError: `if_commit` is not the head, or other writers kept changing what this depends on.
        KeyReusedError: The actor's idempotency key belongs to another request: a load, another query, other parameters.
        QueryTimeoutError, QueryMemoryError, QueryCancelledError: The session's budget ran out; nothing was changed.
    """
    if call.is_dry_run:
        # It tells what is stored, and writes nothing.
        session.allow(Action.READ, hides_rows=True)
    else:
        session.allow(Action.CHANGE, signed=call.actor, hides_rows=True)
        session.check_writable()
    check_signature(call.actor, call.message, call.idempotency_key)
    chosen = session.prepared.get_or_choose(call.source, call.name)
    if isinstance(chosen.body, Read | Union):
        raise QueryError.not_a_mutation(chosen.name.text)
    # The number of rows that a condition selects reveals stored values, so that only a plain insert needs no `read`.
    is_plain = all(isinstance(statement, Insert) and not statement.if_absent for statement in chosen.body)
    if not is_plain or chosen.returning:
        session.allow(Action.READ, hides_rows=True)
    mutation = _Mutation(session, call, chosen, session.runtime.clock.now())
    # A cached head saves a request. If it is outdated, the publisher moves the write, or has it run again.
    heads = chain([session.cached_head], repeat(session.head))
    if call.is_dry_run:
        return mutation.preview(session.head())
    if call.if_commit is None:
        return rerun_on_conflict(session.runtime, lambda: mutation.attempt(next(heads)()))
    try:
        return mutation.attempt(next(heads)())
    except ConflictError:
        # The other writer may have been this very call, sent twice with its idempotency key.
        if mutation.find_earlier_commit(session.head()) is None:
            raise
    return mutation.attempt(session.head())


@dataclass(slots=True)
class _Mutation:
    """One call of a mutation, which may be run several times."""

    session: Session
    call: MutationCall
    chosen: Query
    now: datetime
    latest: _Answer = field(default_factory=_Answer)
    """The answer of the latest run, for one that changes nothing; a plan that is committed has its own."""
    is_quick: bool = False
    """Whether it may be run again while other writers wait."""
    is_deferred: bool = False
    """Whether its first run is in its turn."""
    copies_small_blobs: bool = False
    """Whether the latest run wrote blobs, few enough to write them while others wait."""
    is_large: bool = False
    """Whether it turned out, in its turn, that it must be run by its own thread."""
    needs_turn: bool = False
    """Whether other writers have outdated it, and it can't be run again as a member of a group."""
    max_length: int | None = None
    """See `find_max_length`, of the latest run."""

    def attempt(self, head: Head) -> MutationResult:
        """Run the mutation on a state and publish it; if it `needs_turn`, on the newest one, while others wait."""
        if not self.needs_turn:
            try:
                return self._attempt(head)
            except ConflictError:
                self.needs_turn = self.copies_small_blobs
                raise
        with get_queue(self.session.log).hold():
            return self._attempt(self.session.head())

    def _attempt(self, head: Head) -> MutationResult:
        session = self.session
        name, branch = self.chosen.name.text, head.snapshot.branch
        earlier = self.find_earlier_commit(head)
        if earlier is not None:
            return build_result(name, branch, earlier)
        staged = self._stage(head)
        if staged is None:
            return _build_empty_result(name, branch, self.latest)
        done = publish_or_replan(session.log, session.handles, *staged, self._replan if self.is_quick else None)
        if done is None:
            return _build_empty_result(name, branch, self.latest)
        keep_tails_short(session, staged[0], done)
        answer = done.answer if isinstance(done.answer, _Answer) else _Answer()
        return build_result(name, branch, done.commit, answer)

    def preview(self, head: Head) -> MutationResult:
        """Run the mutation on a state, and return what it would change."""
        pending, _ = self._run_statements(head)
        affected = pending.count_affected()
        result = _build_any_result(self.chosen.name.text, head.snapshot.branch, None, affected, self.latest)
        return structs.replace(result, preview=build_preview(pending, head.snapshot.commit.id))

    def _stage(self, head: Head) -> tuple[CommitPlan, ArmedWrite | None] | None:
        """Run the mutation on a state and stage its writes; None if it changes nothing."""
        session, call = self.session, self.call
        deferred = self._defer(head)
        if deferred is not None:
            return deferred, None
        # On an object store an evaluation waits for requests, and many may wait at the same time.
        slot = EVALUATION_SLOTS.get().hold() if session.store.location.is_local else nullcontext()
        with slot, EvaluationCost() as cost:
            session.check_cancelled()
            # While it waited, another writer may have begun to publish.
            deferred = self._defer(head)
            if deferred is not None:
                return deferred, None
            self.is_deferred = False
            RUN_NOTES.get().note_outdated(self._key, call.params, is_outdated=False)
            parts, writes = self._evaluate(head)
            staged = stage_plan(session, parts, writes, awaits_turn=get_queue(session.log).is_busy)
        self.is_quick = cost.is_quick
        RUN_NOTES.get().note_cost(self._key, cost.seconds, self.max_length)
        return staged

    @property
    def _key(self) -> MutationKey:
        log = self.session.log
        return log.store.location.uri, log.path, self.call.source.text, self.call.name

    def _defer(self, head: Head) -> CommitPlan | None:
        """Return a plan that is run in its turn only, if others would outdate a run before that, or be held up by it.

        On an object store an evaluation may wait for requests, and the others with it.
        """
        session, call = self.session, self.call
        if call.if_commit is not None or self.is_large or not get_queue(session.log).is_busy:
            return None
        notes = RUN_NOTES.get()
        is_short = session.store.location.is_local and notes.is_short(self._key, call.params)
        if not (is_short or notes.is_outdated(self._key, call.params)):
            return None
        self.is_quick = self.is_deferred = True
        return CommitPlan(
            base=head,
            operation=OPERATION,
            actor=call.actor,
            commit_id=session.next_commit,
            message=call.message,
            idempotency_key=call.idempotency_key,
            request=_digest_request(call, self.chosen),
            watch=session.watch,
            is_deferred=True,
        )

    def find_earlier_commit(self, head: Head) -> Commit | None:
        """Return the commit that this call made when it was sent before; None without an idempotency key."""
        return find_earlier_commit(
            self.session.log,
            head,
            operation=OPERATION,
            actor=self.call.actor,
            key=self.call.idempotency_key,
            request=_digest_request(self.call, self.chosen),
        )

    def _replan(self, head: Head) -> CommitPlan | None:
        """Run the mutation again on a state, while other writers wait; None if it changes nothing there.

        Raises:
            ConflictError: It has become so large that it must not keep them waiting.
        """
        notes = RUN_NOTES.get()
        if not self.is_deferred:
            notes.note_outdated(self._key, self.call.params, is_outdated=True)
        with EvaluationCost() as cost:
            parts, writes = self._evaluate(head)
        # Others that work at the same time add to what it seems to cost, so that only a large one is believed.
        if not cost.is_quick:
            notes.note_cost(self._key, cost.seconds, self.max_length)
        if any(write.is_streamed for write in writes):
            self.is_large = True
            raise ConflictError("graph_head", head.snapshot.commit.id, head.snapshot.commit.id, "it changes many rows")
        staged = stage_plan(self.session, parts, writes)
        return None if staged is None else staged[0]

    def _evaluate(self, head: Head) -> tuple[CommitPlan, list[TableWrite]]:
        """Run all statements on a state; return the commit without its moves, and the writes to stage."""
        session, call = self.session, self.call
        pending, requirements = self._run_statements(head)
        parts = CommitPlan(
            base=head,
            operation=OPERATION,
            actor=call.actor,
            commit_id=session.next_commit,
            requirements=requirements,
            message=call.message,
            idempotency_key=call.idempotency_key,
            request=_digest_request(call, self.chosen),
            if_commit=call.if_commit,
            affected=pending.count_affected(),
            watch=session.watch,
            answer=self.latest,
        )
        return parts, [build_write(table) for table in pending.touched]

    def _run_statements(self, head: Head) -> tuple[WriteBuffer, tuple[Requirement, ...]]:
        """Run all statements on a state; return its pending rows, checked, and what they rely on."""
        session, call = self.session, self.call
        snapshot = head.snapshot
        catalog = session.load_catalog(snapshot)
        schema_id = snapshot.manifest.schema.id
        query = session.prepared.get_or_bind(self.chosen, call.source, call.name, schema_id, catalog)
        assert isinstance(query, MutationQuery)  # noqa: S101 - the tree is a mutation
        budget = session.watch or Budget(session.runtime.clock)
        inputs = QueryInputs(check_params(query.params, call.params, session.check_cancelled), self.now, budget)
        check_search_arguments(_list_searches(query), inputs)
        check_if_commit(call.if_commit, session.log.iter_history(head))
        seen = session.open_tables(snapshot)
        pending = WriteBuffer(
            View(catalog, open_whole_tables(session, snapshot)),
            session.blob_sources,
            session.watch,
            seen if isinstance(seen, MaskedTables) else None,
        )
        stage_as = None if call.is_dry_run else build_write
        self.max_length = find_max_length(query, pending.view)
        answerer = MatchAnswerer(session, head, catalog, inputs, budget, stage_as)
        with budget.scope():
            run = run_statements(query, pending, inputs, session.runtime.ids, session.check_cancelled, answerer.answer)
            size = sum(table.rows.nbytes + table.rows.num_rows * _ROW_BYTES for table in pending.touched)
            pending.check_size(size, "what the mutation writes")
            if pending.seen is not None:
                check_replaced_seen(pending)
            checked = check_constraints(pending)
            completed = [requirement for table in pending.touched for requirement in table.omitted.build_read_set()]
            if pending.seen is not None:
                check_put_seen(pending, pending.seen)
                completed += _list_sight_requirements(query, pending)
            self.copies_small_blobs = _copies_small_blobs(pending)
            self.latest = _build_answer(query, pending, run, answerer)
        return pending, (*run.requirements, *completed, *checked)


def _list_sight_requirements(query: MutationQuery, pending: WriteBuffer) -> list[Requirement]:
    """Return what the write of an actor who sees some rows relies on, see `build_requirements`."""
    statements = query.statements
    matches = [statement.read for statement in statements if isinstance(statement, DriveMatch)]
    read_types = {name for read in matches for name in find_read_types(read, pending.view.catalog)}
    is_row_local = all(isinstance(statement, InsertNode) and not statement.if_absent for statement in statements)
    return build_requirements(pending, read_types, is_row_local=is_row_local)


def _build_answer(query: MutationQuery, pending: WriteBuffer, run: DrivenRun, answerer: MatchAnswerer) -> _Answer:
    """Return what a mutation tells about its rows, after all statements have run."""
    statements = query.list_statements()
    existing = None
    if any(isinstance(statement, InsertNode | InsertEdge) and statement.if_absent for statement in statements):
        nodes = sum(count for name, count in run.existing.items() if name in answerer.catalog.nodes)
        existing = nodes, sum(run.existing.values()) - nodes
    if not query.returning:
        return _Answer(existing=existing)
    context = answerer.build_context(answerer.head.snapshot, answerer.session.reads)
    batch = compute_returned_rows(query, pending, run.matched, context)
    rows = tuple(build_json_objects(batch.schema, batch))
    return _Answer(existing=existing, columns=tuple(batch.schema.names), rows=rows)


def _copies_small_blobs(pending: WriteBuffer) -> bool:
    tables = pending.touched
    rows = sum(table.rows.num_rows for table in tables)
    if rows > MAX_TURN_BLOB_ROWS or any(table.streamed is not None for table in tables):
        return False
    with_blobs = [table for table in tables if list_blob_properties(table.type)]
    nbytes = sum(measure_blobs(table.type, table.rows) for table in with_blobs)
    return bool(with_blobs) and nbytes <= MAX_TURN_BLOB_BYTES


def _list_searches(query: MutationQuery) -> list[Expr]:
    """Return the expressions of a mutation that may search, whose arguments are checked before anything is read."""
    exprs: list[Expr] = []
    for statement in query.statements:
        if isinstance(statement, Update | Delete):
            exprs.append(statement.where)
        elif isinstance(statement, DriveMatch):
            exprs += [*statement.read.results, *iter_predicates(statement.read.pattern)]
    return exprs


def build_write(table: PendingTable) -> TableWrite:
    """Return the write of a table's pending rows and deletes."""
    key = table.type.table_key
    if table.streamed is not None:
        streamed = table.streamed
        stream = RowStream(batches=streamed.iter_stored, keys=streamed.ids, located=streamed.located)
        return TableWrite(table_key=key, upsert=stream)
    deleted = tuple(table.deleted) if table.deleted else None
    if deleted is not None and not table.rows.num_rows:
        return TableWrite(table_key=key, delete=deleted, located=table.located)
    rows: pa.Table | RowStream = table.rows
    # The stored form contains the bytes of the row's blobs, so it is read batch by batch.
    if list_blob_properties(table.type):
        rows = RowStream(batches=table.iter_stored, keys=pa.array(table.known_ids, pa.string()))
    if table.is_append:
        return TableWrite(table_key=key, append=rows)
    return TableWrite(table_key=key, upsert=rows, delete=deleted, located=table.located)


def _digest_request(call: MutationCall, chosen: Query) -> str | None:
    """Return the digest of a request with an idempotency key: of its query and parameters. None without a key."""
    if call.idempotency_key is None:
        return None
    # The printed form is the same however the query was laid out.
    text = print_queries(QueryFile(queries=(chosen,), span=chosen.span))
    params = msgspec.json.encode(dict(call.params), enc_hook=repr, order="deterministic")
    return blake2b(text.encode() + b"\0" + params, digest_size=16).hexdigest()


def build_result(query_name: str, branch: str, commit: Commit, answer: _Answer | None = None) -> MutationResult:
    """Return the result of a mutation that made a commit; without its answer, as for a repeated request."""
    affected = commit.affected_nodes or 0, commit.affected_edges or 0
    return _build_any_result(query_name, branch, commit.id, affected, answer or _Answer())


def _build_empty_result(query_name: str, branch: str, answer: _Answer) -> MutationResult:
    return _build_any_result(query_name, branch, None, (0, 0), answer)


def _build_any_result(
    query_name: str, branch: str, commit_id: str | None, affected: tuple[int, int], answer: _Answer
) -> MutationResult:
    existing_nodes, existing_edges = answer.existing or (None, None)
    return MutationResult(
        query_name=query_name,
        branch=branch,
        commit_id=commit_id,
        affected_nodes=affected[0],
        affected_edges=affected[1],
        existing_nodes=existing_nodes,
        existing_edges=existing_edges,
        columns=answer.columns,
        rows=answer.rows,
    )
