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
from omnigraph.server.http.error_responses import shown
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
from omnigraph.server.http.openapi import described
from omnigraph.server.http.paging import NameCursor, cursor_of, cursor_text
from omnigraph.server.http.request_arguments import (
    USUAL_LIMIT,
    BranchName,
    CommitId,
    Cursor,
    GraphId,
    Instant,
    Limit,
    body_of,
    instant_of,
)
from omnigraph.server.http.responses import answer, bounded
from omnigraph.server.http_errors import BadRequestError
from omnigraph.server.service import Service, service_of

router = APIRouter()

_LONGEST_SECONDS = 100 * 365 * 86_400.0


class _Answer(Protocol):
    """What a verb answers."""

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        ...


@router.get("/graphs/{graph}/indexes", **described(IndexesAnswer))
async def indexes(
    request: Request, graph: GraphId, branch: BranchName = "main", snapshot: CommitId = None, at: Instant = None
) -> Response:
    """Every index that is declared or there, with the share of rows that it covers."""
    service = service_of(request)
    handle = service.graph(request, graph, Action.READ, branch)
    found = await service.run(request, partial(handle.indexes, branch=branch, snapshot=snapshot, at=instant_of(at)))
    return bounded({"branch": branch, "indexes": [one.to_json() for one in found]}, service.limits)


@router.get("/graphs/{graph}/operations", **described(OperationsAnswer))
async def operations(request: Request, graph: GraphId) -> Response:
    """Operations that are at work, or died and wait for recovery. They block nobody."""
    service = service_of(request)
    handle = service.graph(request, graph, Action.READ, None)
    return _shown(service, await service.run(request, handle.operations))


@router.get("/graphs/{graph}/recoveries", **described(RecoveriesAnswer))
async def recoveries(request: Request, graph: GraphId, limit: Limit = USUAL_LIMIT, cursor: Cursor = None) -> Response:
    """What recovery did about operations that died, newest first, on any branch, also on one that was deleted."""
    service = service_of(request)
    handle = service.graph(request, graph, Action.READ, None)
    before = None if cursor is None else cursor_of(cursor, NameCursor).after
    found = await service.run(request, partial(handle.recoveries, limit=limit + 1, before=before))
    more = cursor_text(NameCursor(found[limit - 1].id)) if len(found) > limit else None
    return answer({"recoveries": [one.to_json() for one in found[:limit]], "next_cursor": more})


@router.post("/graphs/{graph}/embed", **described(EmbedAnswer, body=EmbedBody, can_conflict=True))
async def embed(request: Request, graph: GraphId) -> Response:
    """Compute vectors that are missing, through the server's provider; each batch of rows is a commit."""
    body = await body_of(request, EmbedBody)
    service = service_of(request)
    handle = service.graph(request, graph, Action.CHANGE, body.branch)
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
            budget=service.write_budget(body.seconds, body.memory_bytes),
        ),
    )
    for commit_id in done.commits:
        service.committed(request, "embed", commit_id)
    return bounded(done.to_json(), service.limits)


@router.post("/graphs/{graph}/optimize", **described(OptimizeAnswer, body=OptimizeBody, can_conflict=True))
async def optimize(request: Request, graph: GraphId) -> Response:
    """Merge small files and complete indexes; a commit for each table where it pays, and no row changes."""
    body = await body_of(request, OptimizeBody)
    service = service_of(request)
    handle = service.graph(request, graph, Action.MAINTAIN, body.branch, within=service.write_budget())
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
        service.committed(request, "optimize", commit_id)
    return _shown(service, done)


@router.post("/graphs/{graph}/cleanup", **described(CleanupAnswer, body=CleanupBody, can_conflict=True))
async def cleanup(request: Request, graph: GraphId) -> Response:
    """Remove what no kept commit needs; without `confirm`, only tell what would go."""
    body = await body_of(request, CleanupBody)
    service = service_of(request)
    handle = service.graph(request, graph, Action.MAINTAIN, None, within=service.write_budget())
    done = await service.write(
        request,
        partial(
            handle.cleanup,
            keep=body.keep,
            older_than=_duration(body.older_than_seconds, "older_than_seconds"),
            grace=_duration(body.grace_seconds, "grace_seconds"),
            confirm=body.confirm,
        ),
    )
    return _shown(service, done)


@router.post("/graphs/{graph}/check", **described(CheckAnswer, body=CheckBody, can_conflict=True))
async def check(request: Request, graph: GraphId) -> Response:
    """Verify manifests, files, rows and indexes. Nothing is changed, unless checksums are to be recorded."""
    body = await body_of(request, CheckBody)
    service = service_of(request)
    budget = service.write_budget()
    handle = service.graph(request, graph, Action.MAINTAIN, body.branch, within=budget)
    work = partial(
        handle.check,
        branch=body.branch,
        quick=body.quick,
        deep=body.deep,
        record=body.record,
        message=body.message,
    )
    if not body.record:
        return _shown(service, await service.read(request, budget, work, is_long=True))
    done = await service.write(request, work)
    for commit_id in done.recorded.values():
        service.committed(request, "record", commit_id)
    return _shown(service, done)


@router.post("/graphs/{graph}/verify", **described(VerifyAnswer, body=VerifyBody))
async def verify(request: Request, graph: GraphId) -> Response:
    """Prove the history of a branch by its digests, and its files by its history; nothing is changed."""
    body = await body_of(request, VerifyBody)
    service = service_of(request)
    budget = service.write_budget()
    handle = service.graph(request, graph, Action.MAINTAIN, body.branch, within=budget)
    work = partial(handle.verify, branch=body.branch, digest=body.digest)
    return _shown(service, await service.read(request, budget, work, is_long=True))


@router.post("/graphs/{graph}/repair", **described(RepairAnswer, body=RepairBody, can_conflict=True))
async def repair(request: Request, graph: GraphId) -> Response:
    """Show what can't be read, and what could take its place. Nothing is done: that is for the graph's own place."""
    body = await body_of(request, RepairBody)
    service = service_of(request)
    budget = service.write_budget()
    handle = service.graph(request, graph, Action.MAINTAIN, body.branch, within=budget)
    work = partial(handle.repair, branch=body.branch, deep=body.deep)
    return _shown(service, await service.read(request, budget, work, is_long=True))


def _shown(service: Service, done: _Answer) -> Response:
    """What a verb answers, without addresses of the machine."""
    return bounded(shown(done.to_json(), service.hosting.hidden), service.limits)


def _duration(seconds: float | None, place: str) -> timedelta | None:
    """BadRequestError for what is no time."""
    if seconds is None:
        return None
    if not abs(seconds) <= _LONGEST_SECONDS:
        raise BadRequestError(place, f"it is a number of seconds, at most {_LONGEST_SECONDS:.0f}")
    return timedelta(seconds=seconds)
