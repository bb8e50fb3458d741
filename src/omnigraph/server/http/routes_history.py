"""Routes of states and history: snapshots, schemas, branches, commits, and the versions of a node or edge."""

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.ops.catalog_report import CatalogReport
from omnigraph.ops.entity_history import EntityHistory
from omnigraph.policy import Action
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
from omnigraph.server.http.responses import respond_large_json
from omnigraph.server.http_errors import BadRequestError
from omnigraph.server.service import get_service

router = APIRouter()
# More than any history has; a number beyond 64 bits is a bad request, not an error of the server.
MAX_VERSIONS = 2**31 - 1

SchemaForm = Annotated[
    Literal["source", "catalog"],
    Query(alias="as", description="`source` is the text; `catalog` the types, with numbers of rows and indexes."),
]
Versions = Annotated[
    int | None, Query(description="The maximum number of versions; all by default.", ge=1, le=MAX_VERSIONS)
]
Before = Annotated[str | None, Query(description="Only commits older than this one.", max_length=64)]
AllBranches = Annotated[bool, Query(description="Commits of all branches, by time; `branch` is ignored.")]
IncludeMaintenance = Annotated[bool, Query(description="Also commits of automatic maintenance, which change no row.")]
Filters = Annotated[list[str] | None, Query(alias="filter", description="`actor=ada`; may be repeated.", max_length=16)]


@router.get("/graphs/{graph}/snapshot", **describe_route(SnapshotAnswer))
async def snapshot(
    request: Request, graph: GraphId, branch: BranchName = "main", snapshot: CommitId = None, at: Instant = None
) -> Response:
    """Return the tables of a state, with their versions."""
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, branch)
    state = await service.run(
        request, partial(handle.snapshot, branch=branch, snapshot=snapshot, at=parse_optional_instant(at))
    )
    return await respond_large_json(lambda: {**state.to_json(), "commit": state.commit.to_json()}, service.limits)


@router.get("/graphs/{graph}/schema", **describe_route(SchemaAnswer, CatalogReport))
async def schema(
    request: Request,
    graph: GraphId,
    branch: BranchName = "main",
    snapshot: CommitId = None,
    at: Instant = None,
    form: SchemaForm = "source",
) -> Response:
    """Return the accepted schema of a state: its text, or its types with numbers of rows and indexes."""
    service = get_service(request)
    budget = service.build_read_budget()
    handle = service.bind_graph(request, graph, Action.READ, branch, budget=budget)
    # Another shape under the same path: it is the same schema, with what the rows add to it.
    if form == "catalog":
        read_catalog = partial(handle.catalog, branch=branch, snapshot=snapshot, at=parse_optional_instant(at))
        report = await service.read(request, budget, read_catalog)
        return await respond_large_json(report.to_json, service.limits)
    accepted = await service.run(
        request, partial(handle.accepted_schema, branch=branch, snapshot=snapshot, at=parse_optional_instant(at))
    )
    document = {
        "branch": accepted.branch,
        "commit_id": accepted.commit_id,
        "schema_id": accepted.id,
        "schema_fingerprint": accepted.fingerprint,
        "schema": accepted.source,
    }
    return await respond_large_json(lambda: document, service.limits)


@router.get("/graphs/{graph}/branches", **describe_route(BranchesAnswer))
async def branches(request: Request, graph: GraphId, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None) -> Response:
    """List the branches: main first, the others by name."""
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, None)
    after = None if cursor is None else decode_cursor(cursor, NameCursor).after
    records = await service.run(request, handle.branches.list)
    # A cursor by name, not by offset: branches created or deleted in the meantime don't shift the next page.
    rest = [
        record
        for record in records
        if after is None or (record.name != "main" and (after == "main" or record.name > after))
    ]
    page = rest[:limit]
    next_cursor = encode_cursor(NameCursor(page[-1].name)) if len(rest) > limit else None
    return await respond_large_json(
        lambda: {"branches": [record.to_json() for record in page], "next_cursor": next_cursor}, service.limits
    )


@router.get("/graphs/{graph}/commits", **describe_route(CommitsAnswer))
async def commits(  # noqa: PLR0913, PLR0917 - one argument per parameter
    request: Request,
    graph: GraphId,
    branch: BranchName = "main",
    filters: Filters = None,
    before: Before = None,
    all_branches: AllBranches = False,
    include_maintenance: IncludeMaintenance = False,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """List the commits of a branch, or of all branches, newest first."""
    service = get_service(request)
    budget = service.build_read_budget()
    handle = service.bind_graph(request, graph, Action.READ, None if all_branches else branch, budget=budget)
    position = None if cursor is None else decode_cursor(cursor, CommitCursor)
    # No branch has an empty name, so it represents all branches in a cursor.
    cursor_branch = "" if all_branches else branch
    if position is not None and position.branch != cursor_branch:
        raise BadRequestError.bad_cursor()
    filter_values = dict(pair.partition("=")[::2] for pair in filters or ())
    before = before if position is None else position.before
    page = await service.read(
        request,
        budget,
        partial(
            handle.commit_page,
            branch=branch,
            filters=filter_values,
            limit=limit,
            before=before,
            all_branches=all_branches,
            include_maintenance=include_maintenance,
        ),
    )
    next_cursor = None if page.next is None else encode_cursor(CommitCursor(cursor_branch, page.next))
    return await respond_large_json(
        lambda: {"commits": page.to_json()["commits"], "next_cursor": next_cursor}, service.limits
    )


@router.get("/graphs/{graph}/commits/{commit}", **describe_route(CommitAnswer))
async def commit(request: Request, graph: GraphId, commit: str, branch: BranchFilter = None) -> Response:
    """Return one commit, of any branch or of the given one."""
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, branch or "main")
    record = await service.run(request, partial(handle.commit, commit, branch=branch))
    return await respond_large_json(record.to_json, service.limits)


@router.get("/graphs/{graph}/history", **describe_route(EntityHistory))
async def history(
    request: Request,
    graph: GraphId,
    type_: EntityType,
    id_: EntityId,
    branch: BranchName = "main",
    limit: Versions = None,
) -> Response:
    """List all versions of a node or edge on a branch, newest first."""
    service = get_service(request)
    budget = service.build_read_budget()
    handle = service.bind_graph(request, graph, Action.READ, branch, budget=budget)
    versions = await service.read(request, budget, partial(handle.history, type_, id_, branch=branch, limit=limit))
    return await respond_large_json(versions.to_json, service.limits)
