"""Routes about states and the past: snapshots, schemas, branches, commits, versions of one node or edge."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.policy import Action
from omnigraph.server.http.maintenance_bodies import HistoryAnswer
from omnigraph.server.http.openapi import described
from omnigraph.server.http.paging import CommitCursor, NameCursor, cursor_of, cursor_text
from omnigraph.server.http.request_arguments import (
    USUAL_LIMIT,
    BranchName,
    CommitId,
    Cursor,
    EntityId,
    EntityType,
    GraphId,
    Instant,
    Limit,
    OneBranch,
    instant_of,
)
from omnigraph.server.http.request_bodies import (
    BranchesAnswer,
    CommitAnswer,
    CommitsAnswer,
    SchemaAnswer,
    SnapshotAnswer,
)
from omnigraph.server.http.responses import answer, bounded
from omnigraph.server.http_errors import BadCursorError
from omnigraph.server.service import service_of

router = APIRouter()

Versions = Annotated[int | None, Query(description="The most versions; all unless given.", ge=1)]
Before = Annotated[str | None, Query(description="Only what is older than this commit.", max_length=64)]
AllBranches = Annotated[bool, Query(description="Commits of every branch, by their times; `branch` does not matter.")]
Filters = Annotated[list[str] | None, Query(alias="filter", description="`actor=ada`; may be repeated.", max_length=16)]


@router.get("/graphs/{graph}/snapshot", **described(SnapshotAnswer))
async def snapshot(
    request: Request, graph: GraphId, branch: BranchName = "main", snapshot: CommitId = None, at: Instant = None
) -> Response:
    """Which tables a state has, at which versions."""
    service = service_of(request)
    handle = service.graph(request, graph, Action.READ, branch)
    state = await service.run(request, partial(handle.snapshot, branch=branch, snapshot=snapshot, at=instant_of(at)))
    return answer({**state.to_json(), "commit": state.commit.to_json()})


@router.get("/graphs/{graph}/schema", **described(SchemaAnswer))
async def schema(
    request: Request, graph: GraphId, branch: BranchName = "main", snapshot: CommitId = None, at: Instant = None
) -> Response:
    """The accepted schema of a state."""
    service = service_of(request)
    handle = service.graph(request, graph, Action.READ, branch)
    found = await service.run(
        request, partial(handle.accepted_schema, branch=branch, snapshot=snapshot, at=instant_of(at))
    )
    head = {"branch": found.branch, "commit_id": found.commit_id, "schema_id": found.id}
    return answer({**head, "schema_fingerprint": found.fingerprint, "schema": found.source})


@router.get("/graphs/{graph}/branches", **described(BranchesAnswer))
async def branches(request: Request, graph: GraphId, limit: Limit = USUAL_LIMIT, cursor: Cursor = None) -> Response:
    """The branches: main first, the others by name."""
    service = service_of(request)
    handle = service.graph(request, graph, Action.READ, None)
    after = None if cursor is None else cursor_of(cursor, NameCursor).after
    found = await service.run(request, handle.branches.list)
    rest = [one for one in found if after is None or (one.name != "main" and (after == "main" or one.name > after))]
    page = rest[:limit]
    more = cursor_text(NameCursor(page[-1].name)) if len(rest) > limit else None
    return answer({"branches": [one.to_json() for one in page], "next_cursor": more})


@router.get("/graphs/{graph}/commits", **described(CommitsAnswer))
async def commits(
    request: Request,
    graph: GraphId,
    branch: BranchName = "main",
    filters: Filters = None,
    before: Before = None,
    all_branches: AllBranches = False,
    limit: Limit = USUAL_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """The history of a branch, or the commits of all branches, newest first."""
    service = service_of(request)
    budget = service.budget()
    handle = service.graph(request, graph, Action.READ, None if all_branches else branch, within=budget)
    place = None if cursor is None else cursor_of(cursor, CommitCursor)
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
    more = None if page.next is None else cursor_text(CommitCursor(line, page.next))
    return answer({"commits": page.to_json()["commits"], "next_cursor": more})


@router.get("/graphs/{graph}/commits/{commit}", **described(CommitAnswer))
async def commit(request: Request, graph: GraphId, commit: str, branch: OneBranch = None) -> Response:
    """One commit, of any branch, or of one."""
    service = service_of(request)
    handle = service.graph(request, graph, Action.READ, branch or "main")
    return answer((await service.run(request, partial(handle.commit, commit, branch=branch))).to_json())


@router.get("/graphs/{graph}/history", **described(HistoryAnswer))
async def history(
    request: Request,
    graph: GraphId,
    type_: EntityType,
    id_: EntityId,
    branch: BranchName = "main",
    limit: Versions = None,
) -> Response:
    """Every version that one node or edge has had on a branch, newest first."""
    service = service_of(request)
    budget = service.budget()
    handle = service.graph(request, graph, Action.READ, branch, within=budget)
    found = await service.read(request, budget, partial(handle.history, type_, id_, branch=branch, limit=limit))
    return bounded(found.to_json(), service.limits)
