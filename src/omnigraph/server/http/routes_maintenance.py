"""Routes of maintenance: what the tables are like, and what keeps them fast and sound.

A repair is only shown: it is confirmed where the graph is, by somebody who sees its files.
"""

from datetime import timedelta
from functools import partial
from typing import Protocol

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.policy import Action
from omnigraph.server.http.error_responses import redact
from omnigraph.server.http.maintenance_bodies import (
    CheckAnswer,
    CheckBody,
    CleanupAnswer,
    CleanupBody,
    EmbedAnswer,
    EmbedBody,
    IndexesAnswer,
    OperationsAnswer,
    OptimizeAnswer,
    OptimizeBody,
    RecoveriesAnswer,
    RepairAnswer,
    RepairBody,
    VerifyAnswer,
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
from omnigraph.server.http.responses import respond_json, respond_limited_json
from omnigraph.server.http_errors import BadRequestError
from omnigraph.server.service import Service, get_service

router = APIRouter()

_MAX_DURATION_SECONDS = 100 * 365 * 86_400.0


class _JsonResult(Protocol):
    """What a verb answers."""

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        ...


@router.get("/graphs/{graph}/indexes", **describe_route(IndexesAnswer))
async def indexes(
    request: Request, graph: GraphId, branch: BranchName = "main", snapshot: CommitId = None, at: Instant = None
) -> Response:
    """Every index that is declared or there, with the share of rows that it covers."""
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, branch)
    found = await service.run(
        request, partial(handle.indexes, branch=branch, snapshot=snapshot, at=parse_optional_instant(at))
    )
    return respond_limited_json({"branch": branch, "indexes": [one.to_json() for one in found]}, service.limits)


@router.get("/graphs/{graph}/operations", **describe_route(OperationsAnswer))
async def operations(request: Request, graph: GraphId) -> Response:
    """Operations that are at work, or died and wait for recovery. They block nobody."""
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, None)
    return _respond_redacted(service, await service.run(request, handle.operations))


@router.get("/graphs/{graph}/recoveries", **describe_route(RecoveriesAnswer))
async def recoveries(request: Request, graph: GraphId, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None) -> Response:
    """What recovery did about operations that died, newest first, on any branch, also on one that was deleted."""
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, None)
    before = None if cursor is None else decode_cursor(cursor, NameCursor).after
    found = await service.run(request, partial(handle.recoveries, limit=limit + 1, before=before))
    more = encode_cursor(NameCursor(found[limit - 1].id)) if len(found) > limit else None
    return respond_json({"recoveries": [one.to_json() for one in found[:limit]], "next_cursor": more})


@router.post("/graphs/{graph}/embed", **describe_route(EmbedAnswer, body=EmbedBody, can_conflict=True))
async def embed(request: Request, graph: GraphId) -> Response:
    """Compute vectors that are missing, through the server's provider; each batch of rows is a commit."""
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
    return respond_limited_json(done.to_json(), service.limits)


@router.post("/graphs/{graph}/optimize", **describe_route(OptimizeAnswer, body=OptimizeBody, can_conflict=True))
async def optimize(request: Request, graph: GraphId) -> Response:
    """Merge small files and complete indexes; a commit for each table where it pays, and no row changes."""
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
    for commit_id in (one.commit_id for one in done.tables if one.commit_id is not None):
        service.record_commit(request, "optimize", commit_id)
    return _respond_redacted(service, done)


@router.post("/graphs/{graph}/cleanup", **describe_route(CleanupAnswer, body=CleanupBody, can_conflict=True))
async def cleanup(request: Request, graph: GraphId) -> Response:
    """Remove what no kept commit needs; without `confirm`, only tell what would go."""
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
    return _respond_redacted(service, done)


@router.post("/graphs/{graph}/check", **describe_route(CheckAnswer, body=CheckBody, can_conflict=True))
async def check(request: Request, graph: GraphId) -> Response:
    """Verify manifests, files, rows and indexes. Nothing is changed, unless checksums are to be recorded."""
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
    if not body.record:
        return _respond_redacted(service, await service.read(request, budget, work, is_long=True))
    done = await service.write(request, work)
    for commit_id in done.recorded.values():
        service.record_commit(request, "record", commit_id)
    return _respond_redacted(service, done)


@router.post("/graphs/{graph}/verify", **describe_route(VerifyAnswer, body=VerifyBody))
async def verify(request: Request, graph: GraphId) -> Response:
    """Prove the history of a branch by its digests, and its files by its history; nothing is changed."""
    body = await read_body(request, VerifyBody)
    service = get_service(request)
    budget = service.build_write_budget()
    handle = service.bind_graph(request, graph, Action.MAINTAIN, body.branch, budget=budget)
    work = partial(handle.verify, branch=body.branch, digest=body.digest)
    return _respond_redacted(service, await service.read(request, budget, work, is_long=True))


@router.post("/graphs/{graph}/repair", **describe_route(RepairAnswer, body=RepairBody, can_conflict=True))
async def repair(request: Request, graph: GraphId) -> Response:
    """Show what can't be read, and what could take its place. Nothing is done: that is for the graph's own place."""
    body = await read_body(request, RepairBody)
    service = get_service(request)
    budget = service.build_write_budget()
    handle = service.bind_graph(request, graph, Action.MAINTAIN, body.branch, budget=budget)
    work = partial(handle.repair, branch=body.branch, deep=body.deep)
    return _respond_redacted(service, await service.read(request, budget, work, is_long=True))


def _respond_redacted(service: Service, done: _JsonResult) -> Response:
    """What a verb answers, without addresses of the machine."""
    return respond_limited_json(redact(done.to_json(), service.registry.redactions), service.limits)


def _parse_duration(seconds: float | None, place: str) -> timedelta | None:
    """BadRequestError for what is no time."""
    if seconds is None:
        return None
    if not abs(seconds) <= _MAX_DURATION_SECONDS:
        raise BadRequestError(place, f"it is a number of seconds, at most {_MAX_DURATION_SECONDS:.0f}")
    return timedelta(seconds=seconds)
