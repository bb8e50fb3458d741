"""Routes of maintenance: indexes, recovery, embedding, compaction, garbage collection and verification.

A repair is only previewed: it is confirmed where the graph is stored, by an operator who has access to its files.
"""

from datetime import timedelta
from functools import partial
from typing import Annotated, Protocol

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.ops.check import CheckResult
from omnigraph.ops.cleanup import CleanupResult
from omnigraph.ops.embed import EmbedResult
from omnigraph.ops.optimize import OptimizeResult
from omnigraph.ops.repair_result import RepairResult
from omnigraph.ops.verify import VerifyResult
from omnigraph.policy import Action
from omnigraph.server.http.error_responses import redact
from omnigraph.server.http.maintenance_bodies import (
    CheckBody,
    CleanupBody,
    EmbedBody,
    IndexesAnswer,
    OperationsAnswer,
    OptimizeBody,
    RecoveriesAnswer,
    RepairBody,
    VerifyBody,
)
from omnigraph.server.http.openapi import describe_route
from omnigraph.server.http.paging import NameCursor, decode_cursor, encode_cursor
from omnigraph.server.http.request_arguments import (
    DEFAULT_LIMIT,
    BranchName,
    CommitId,
    Cursor,
    GraphId,
    Instant,
    Limit,
    parse_optional_instant,
    read_body,
)
from omnigraph.server.http.responses import respond_large_json
from omnigraph.server.http_errors import BadRequestError
from omnigraph.server.service import Service, get_service

router = APIRouter()

# A hundred years: a `timedelta` can't hold an arbitrary number of seconds.
_MAX_DURATION_SECONDS = 100 * 365 * 86_400.0

Recall = Annotated[bool, Query(description="Also measure the share of the nearest rows that each vector index finds.")]


class _JsonResult(Protocol):
    """The result of an operation."""

    def to_json(self) -> dict[str, object]:
        """Return the JSON form."""
        ...


@router.get("/graphs/{graph}/indexes", **describe_route(IndexesAnswer))
async def indexes(
    request: Request,
    graph: GraphId,
    branch: BranchName = "main",
    snapshot: CommitId = None,
    at: Instant = None,
    recall: Recall = False,
) -> Response:
    """List all declared and existing indexes, with the share of rows that each covers, and on request their recall."""
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, branch)
    records = await service.run(
        request, partial(handle.indexes, branch=branch, snapshot=snapshot, at=parse_optional_instant(at), recall=recall)
    )
    return await respond_large_json(
        lambda: {"branch": branch, "indexes": [index.to_json() for index in records]}, service.limits
    )


@router.get("/graphs/{graph}/operations", **describe_route(OperationsAnswer))
async def operations(request: Request, graph: GraphId) -> Response:
    """List operations that are running, or were interrupted and wait for recovery. They block no other operation."""
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, None)
    return await _respond_redacted(service, await service.run(request, handle.operations))


@router.get("/graphs/{graph}/recoveries", **describe_route(RecoveriesAnswer))
async def recoveries(request: Request, graph: GraphId, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None) -> Response:
    """List recoveries of interrupted operations on all branches, including deleted ones, newest first."""
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, None)
    before = None if cursor is None else decode_cursor(cursor, NameCursor).after
    # One more than the page: it shows whether there is a next page.
    records = await service.run(request, partial(handle.recoveries, limit=limit + 1, before=before))
    next_cursor = encode_cursor(NameCursor(records[limit - 1].id)) if len(records) > limit else None
    return await respond_large_json(
        lambda: {"recoveries": [record.to_json() for record in records[:limit]], "next_cursor": next_cursor},
        service.limits,
    )


@router.post("/graphs/{graph}/embed", **describe_route(EmbedResult, body=EmbedBody, can_conflict=True))
async def embed(request: Request, graph: GraphId) -> Response:
    """Compute missing vectors with the server's embedding provider; each batch of rows is a commit."""
    body = await read_body(request, EmbedBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.CHANGE, body.branch)
    done = await service.write(
        request,
        partial(
            handle.embed,
            body.type,
            property=body.property,
            batch=body.batch,
            limit=body.limit,
            all=body.all,
            dry_run=body.dry_run,
            branch=body.branch,
            message=body.message,
            budget=service.build_write_budget(body.seconds, body.memory_bytes),
        ),
    )
    for commit_id in done.commits:
        service.record_commit(request, "embed", commit_id)
    return await respond_large_json(done.to_json, service.limits)


@router.post("/graphs/{graph}/optimize", **describe_route(OptimizeResult, body=OptimizeBody, can_conflict=True))
async def optimize(request: Request, graph: GraphId) -> Response:
    """Compact small files and complete indexes: one commit per table where it pays off. No row changes."""
    body = await read_body(request, OptimizeBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.MAINTAIN, body.branch, budget=service.build_write_budget())
    done = await service.write(
        request,
        partial(
            handle.optimize,
            types=body.types,
            all_indexes=body.all_indexes,
            dry_run=body.dry_run,
            branch=body.branch,
            message=body.message,
        ),
    )
    for commit_id in (table.commit_id for table in done.tables if table.commit_id is not None):
        service.record_commit(request, "optimize", commit_id)
    return await _respond_redacted(service, done)


@router.post("/graphs/{graph}/cleanup", **describe_route(CleanupResult, body=CleanupBody, can_conflict=True))
async def cleanup(request: Request, graph: GraphId) -> Response:
    """Remove data that no kept commit needs; without `confirm`, only report what would be removed."""
    body = await read_body(request, CleanupBody)
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.MAINTAIN, None, budget=service.build_write_budget())
    done = await service.write(
        request,
        partial(
            handle.cleanup,
            keep=body.keep,
            older_than=_parse_duration(body.older_than_seconds, "older_than_seconds"),
            grace=_parse_duration(body.grace_seconds, "grace_seconds"),
            confirm=body.confirm,
        ),
    )
    return await _respond_redacted(service, done)


@router.post("/graphs/{graph}/check", **describe_route(CheckResult, body=CheckBody, can_conflict=True))
async def check(request: Request, graph: GraphId) -> Response:
    """Check manifests, files, rows and indexes. Nothing is changed, except that `record` records checksums."""
    body = await read_body(request, CheckBody)
    service = get_service(request)
    budget = service.build_write_budget()
    handle = service.bind_graph(request, graph, Action.MAINTAIN, body.branch, budget=budget)
    work = partial(
        handle.check,
        branch=body.branch,
        quick=body.quick,
        deep=body.deep,
        record=body.record,
        message=body.message,
    )
    # Long reads queue with the writes, and unlike these end when the client disconnects.
    if not body.record:
        return await _respond_redacted(service, await service.read(request, budget, work, is_long=True))
    done = await service.write(request, work)
    for commit_id in done.recorded.values():
        service.record_commit(request, "record", commit_id)
    return await _respond_redacted(service, done)


@router.post("/graphs/{graph}/verify", **describe_route(VerifyResult, body=VerifyBody))
async def verify(request: Request, graph: GraphId) -> Response:
    """Verify the history of a branch by its digests, and its files by its history. Nothing is changed."""
    body = await read_body(request, VerifyBody)
    service = get_service(request)
    budget = service.build_write_budget()
    handle = service.bind_graph(request, graph, Action.MAINTAIN, body.branch, budget=budget)
    work = partial(handle.verify, branch=body.branch, digest=body.digest)
    return await _respond_redacted(service, await service.read(request, budget, work, is_long=True))


@router.post("/graphs/{graph}/repair", **describe_route(RepairResult, body=RepairBody, can_conflict=True))
async def repair(request: Request, graph: GraphId) -> Response:
    """Report unreadable data and possible replacements. Nothing is changed: repair the graph where it is stored."""
    body = await read_body(request, RepairBody)
    service = get_service(request)
    budget = service.build_write_budget()
    handle = service.bind_graph(request, graph, Action.MAINTAIN, body.branch, budget=budget)
    work = partial(handle.repair, branch=body.branch, deep=body.deep)
    return await _respond_redacted(service, await service.read(request, budget, work, is_long=True))


async def _respond_redacted(service: Service, done: _JsonResult) -> Response:
    """Respond with the result of an operation, without addresses of the server's machine."""
    return await respond_large_json(lambda: redact(done.to_json(), service.registry.redactions), service.limits)


def _parse_duration(seconds: float | None, field: str) -> timedelta | None:
    """Return a number of seconds as a duration.

    Raises:
        BadRequestError: It is too large.
    """
    if seconds is None:
        return None
    # Negated, so that NaN is rejected too.
    if not abs(seconds) <= _MAX_DURATION_SECONDS:
        raise BadRequestError(field, f"it must be a number of seconds, at most {_MAX_DURATION_SECONDS:.0f}")
    return timedelta(seconds=seconds)
