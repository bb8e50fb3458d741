"""Routes about states and the past: snapshots, schemas, branches, commits, versions of one node or edge."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.policy import Action
from omnigraph.server.http.maintenance_bodies import HistoryAnswer
from omnigraph.server.http.openapi import describe_route
from omnigraph.server.http.paging import CommitCursor, NameCursor, decode_cursor, encode_cursor
from omnigraph.server.http.request_arguments import (
    DEFAULT_LIMIT,
    BranchFilter,
    BranchName,
    CommitId,
    Cursor,
    EntityId,
    EntityType,
    GraphId,
    Instant,
    Limit,
    parse_optional_instant,
)
from omnigraph.server.http.request_bodies import (
    BranchesAnswer,
    CommitAnswer,
    CommitsAnswer,
    SchemaAnswer,
    SnapshotAnswer,
)
from omnigraph.server.http.responses import respond_json, respond_limited_json
from omnigraph.server.http_errors import BadCursorError
from omnigraph.server.service import get_service

router = APIRouter()

Versions = Annotated[int | None, Query(description="The most versions; all unless given.", ge=1)]
Before = Annotated[str | None, Query(description="Only what is older than this commit.", max_length=64)]
AllBranches = Annotated[bool, Query(description="Commits of every branch, by their times; `branch` does not matter.")]
Filters = Annotated[list[str] | None, Query(alias="filter", description="`actor=ada`; may be repeated.", max_length=16)]


@router.get("/graphs/{graph}/snapshot", **describe_route(SnapshotAnswer))
async def snapshot(
    request: Request, graph: GraphId, branch: BranchName = "main", snapshot: CommitId = None, at: Instant = None
) -> Response:
    """Which tables a state has, at which versions."""
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, branch)
    state = await service.run(
        request, partial(handle.snapshot, branch=branch, snapshot=snapshot, at=parse_optional_instant(at))
    )
    return respond_json({**state.to_json(), "commit": state.commit.to_json()})


@router.get("/graphs/{graph}/schema", **describe_route(SchemaAnswer))
async def schema(
    request: Request, graph: GraphId, branch: BranchName = "main", snapshot: CommitId = None, at: Instant = None
) -> Response:
    """The accepted schema of a state."""
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, branch)
    found = await service.run(
        request, partial(handle.accepted_schema, branch=branch, snapshot=snapshot, at=parse_optional_instant(at))
    )
    head = {"branch": found.branch, "commit_id": found.commit_id, "schema_id": found.id}
    return respond_json({**head, "schema_fingerprint": found.fingerprint, "schema": found.source})


@router.get("/graphs/{graph}/branches", **describe_route(BranchesAnswer))
async def branches(request: Request, graph: GraphId, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None) -> Response:
    """The branches: main first, the others by name."""
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, None)
    after = None if cursor is None else decode_cursor(cursor, NameCursor).after
    found = await service.run(request, handle.branches.list)
    rest = [one for one in found if after is None or (one.name != "main" and (after == "main" or one.name > after))]
    page = rest[:limit]
    more = encode_cursor(NameCursor(page[-1].name)) if len(rest) > limit else None
    return respond_json({"branches": [one.to_json() for one in page], "next_cursor": more})


@router.get("/graphs/{graph}/commits", **describe_route(CommitsAnswer))
async def commits(
    request: Request,
    graph: GraphId,
    branch: BranchName = "main",
    filters: Filters = None,
    before: Before = None,
    all_branches: AllBranches = False,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """The history of a branch, or the commits of all branches, newest first."""
    service = get_service(request)
    budget = service.build_read_budget()
    handle = service.bind_graph(request, graph, Action.READ, None if all_branches else branch, budget=budget)
    place = None if cursor is None else decode_cursor(cursor, CommitCursor)
    line = "" if all_branches else branch
    if place is not None and place.branch != line:
        raise BadCursorError
    named = dict(pair.partition("=")[::2] for pair in filters or ())
    before = before if place is None else place.before
    page = await service.read(
        request,
        budget,
        partial(
            handle.commit_page, branch=branch, filters=named, limit=limit, before=before, all_branches=all_branches
        ),
    )
    more = None if page.next is None else encode_cursor(CommitCursor(line, page.next))
    return respond_json({"commits": page.to_json()["commits"], "next_cursor": more})


@router.get("/graphs/{graph}/commits/{commit}", **describe_route(CommitAnswer))
async def commit(request: Request, graph: GraphId, commit: str, branch: BranchFilter = None) -> Response:
    """One commit, of any branch, or of one."""
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, branch or "main")
    return respond_json((await service.run(request, partial(handle.commit, commit, branch=branch))).to_json())


@router.get("/graphs/{graph}/history", **describe_route(HistoryAnswer))
async def history(
    request: Request,
    graph: GraphId,
    type_: EntityType,
    id_: EntityId,
    branch: BranchName = "main",
    limit: Versions = None,
) -> Response:
    """Every version that one node or edge has had on a branch, newest first."""
    service = get_service(request)
    budget = service.build_read_budget()
    handle = service.bind_graph(request, graph, Action.READ, branch, budget=budget)
    found = await service.read(request, budget, partial(handle.history, type_, id_, branch=branch, limit=limit))
    return respond_limited_json(found.to_json(), service.limits)
