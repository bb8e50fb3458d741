"""Run a mutation: all statements, checked as a whole, in one commit or not at all."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from itertools import chain, repeat

import msgspec
import pyarrow as pa

from omnigraph.commit.conflict import ConflictError
from omnigraph.commit.idempotency import find_earlier_commit
from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import Commit
from omnigraph.commit.rebase import check_if_commit
from omnigraph.engine.predicate_eval import QueryInputs
from omnigraph.engine.search.search_arguments import check_search_arguments
from omnigraph.engine.view import View
from omnigraph.engine.writing.blobs import list_blob_properties
from omnigraph.engine.writing.constraints import check_constraints
from omnigraph.engine.writing.statements import run_statements
from omnigraph.engine.writing.write_buffer import PendingTable, WriteBuffer
from omnigraph.errors import NotAMutationError
from omnigraph.lang.printer import print_queries
from omnigraph.lang.query_ast import Insert, Query, QueryFile, Read
from omnigraph.lang.source import Source
from omnigraph.ops.retry import rerun_on_conflict
from omnigraph.ops.select_query import choose_query
from omnigraph.ops.session import ReadOnlyError, Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.policy import Action
from omnigraph.query.bind import bind_query
from omnigraph.query.mutation_plan import Delete, MutationQuery, Update
from omnigraph.query.params import check_params
from omnigraph.query.rules import rewrite
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.staging import RowStream

OPERATION = "mutate"
# Estimated memory of a pending row beside its values: Python strings of its id, in a few sets and lists.
_ROW_BYTES = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationResult:
    """The result of a mutation, each node and edge counted once; there is no commit if nothing changed."""

    query_name: str
    branch: str
    commit_id: str | None
    affected_nodes: int
    affected_edges: int

    def to_json(self) -> dict[str, object]:
        """Return the JSON form."""
        return {
            "query_name": self.query_name,
            "target": {"branch": self.branch},
            "commit_id": self.commit_id,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
        }


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


def mutate(session: Session, call: MutationCall) -> MutationResult:
    """Run a mutation on the newest state.

    If another writer commits first, a mutation that only inserts is run again. One that updates or deletes rows it has
    read is not: if these rows have changed, its meaning may have changed too, and it fails with ConflictError.

    Raises:
        SourceError, QueryMissingError, QueryAmbiguousError, NotAMutationError, ParameterError: The call is wrong.
        ConstraintError: The result would break the schema.
        ConflictError: Another writer changed rows that this depends on, or `if_commit` is not the head.
        KeyReusedError: The actor's idempotency key belongs to another request: a load, another query, other parameters.
        QueryTimeoutError, QueryMemoryError, QueryCancelledError: The session's budget ran out; nothing was changed.
    """
    session.allow(Action.CHANGE, signed=call.actor)
    if session.is_read_only:
        raise ReadOnlyError(session.uri)
    chosen = choose_query(call.source, call.name)
    if isinstance(chosen.body, Read):
        raise NotAMutationError(chosen.name.text)
    now = session.runtime.clock.now()
    # Inserts read no rows, so running them again has the same meaning.
    is_blind = call.if_commit is None and all(isinstance(statement, Insert) for statement in chosen.body)
    if is_blind:
        # A cached head saves a request. If it is outdated, the publisher rebases the write or reports a conflict.
        heads = chain([session.cached_head], repeat(session.head))
        return rerun_on_conflict(session.runtime, lambda: _attempt(session, call, chosen, now, next(heads)()))
    try:
        return _attempt(session, call, chosen, now, session.head())
    except ConflictError:
        # The other writer may have been this very call, sent twice with its idempotency key.
        if _find_earlier_commit(session, session.head(), call, chosen) is None:
            raise
    return _attempt(session, call, chosen, now, session.head())


def _attempt(session: Session, call: MutationCall, chosen: Query, now: datetime, head: Head) -> MutationResult:
    snapshot = head.snapshot
    earlier = _find_earlier_commit(session, head, call, chosen)
    if earlier is not None:
        return _build_result(chosen.name.text, snapshot.branch, earlier)
    catalog = session.load_catalog(snapshot)
    query = _bind_mutation(chosen, catalog, call.source)
    inputs = QueryInputs(check_params(query.params, call.params, session.check_cancelled), now)
    check_search_arguments(
        (statement.where for statement in query.statements if isinstance(statement, Update | Delete)), inputs
    )
    check_if_commit(call.if_commit, session.log.iter_history(head))
    pending = WriteBuffer(View(catalog, session.open_tables(snapshot)), session.blob_sources, session.watch)
    read = run_statements(query, pending, inputs, session.runtime.ids, session.check_cancelled)
    size = sum(table.rows.nbytes + table.rows.num_rows * _ROW_BYTES for table in pending.touched)
    pending.check_size(size, "what the mutation writes")
    checked = check_constraints(pending)
    affected = pending.count_affected()
    done = write_tables(
        session,
        [_build_write(table) for table in pending.touched],
        operation=OPERATION,
        actor=call.actor,
        base=head,
        requirements=(*read, *checked),
        message=call.message,
        idempotency_key=call.idempotency_key,
        request=_digest_request(call, chosen),
        if_commit=call.if_commit,
        affected=affected,
    )
    if done is None:
        return MutationResult(
            query_name=query.name, branch=snapshot.branch, commit_id=None, affected_nodes=0, affected_edges=0
        )
    return _build_result(query.name, snapshot.branch, done.commit)


def _bind_mutation(chosen: Query, catalog: Catalog, source: Source) -> MutationQuery:
    bound = bind_query(chosen, catalog).require(source)
    planned = None if bound is None else rewrite(bound)
    assert isinstance(planned, MutationQuery)  # noqa: S101 - `require` has raised for errors, and the tree is a mutation
    return planned


def _build_write(table: PendingTable) -> TableWrite:
    key = table.type.table_key
    if table.streamed is not None:
        streamed = table.streamed
        stream = RowStream(batches=streamed.iter_stored, keys=streamed.ids, located=streamed.located)
        return TableWrite(table_key=key, upsert=stream)
    if table.deleted:
        return TableWrite(table_key=key, delete=tuple(table.deleted), located=table.located)
    rows: pa.Table | RowStream = table.rows
    # The stored form contains the bytes of the row's blobs, so it is read batch by batch.
    if list_blob_properties(table.type):
        rows = RowStream(batches=table.iter_stored, keys=pa.array(table.known_ids, pa.string()))
    if table.is_append:
        return TableWrite(table_key=key, append=rows)
    return TableWrite(table_key=key, upsert=rows, located=table.located)


def _find_earlier_commit(session: Session, head: Head, call: MutationCall, chosen: Query) -> Commit | None:
    return find_earlier_commit(
        session.log,
        head,
        operation=OPERATION,
        actor=call.actor,
        key=call.idempotency_key,
        request=_digest_request(call, chosen),
    )


def _digest_request(call: MutationCall, chosen: Query) -> str | None:
    """Return the digest of a request with an idempotency key: of its query and parameters. None without a key."""
    if call.idempotency_key is None:
        return None
    # The printed form is the same however the query was laid out.
    text = print_queries(QueryFile(queries=(chosen,), span=chosen.span))
    params = msgspec.json.encode(dict(call.params), enc_hook=repr, order="deterministic")
    return blake2b(text.encode() + b"\0" + params, digest_size=16).hexdigest()


def _build_result(query_name: str, branch: str, commit: Commit) -> MutationResult:
    return MutationResult(
        query_name=query_name,
        branch=branch,
        commit_id=commit.id,
        affected_nodes=commit.affected_nodes or 0,
        affected_edges=commit.affected_edges or 0,
    )
