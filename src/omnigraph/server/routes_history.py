"""Routes about states: snapshots, schemas, branches, commits, and what differs between them."""

from functools import partial
from itertools import islice
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.commit.records import Snapshot
from omnigraph.graph import Graph
from omnigraph.policy import Action
from omnigraph.server.answers import answer, streamed, wanted_stream
from omnigraph.server.asked import (
    USUAL_LIMIT,
    BranchName,
    CommitId,
    Cursor,
    GraphId,
    Instant,
    Limit,
    TypeNames,
    branch_of,
    instant_of,
)
from omnigraph.server.openapi import described
from omnigraph.server.paging import CommitCursor, NameCursor, RowCursor, cursor_of, cursor_text
from omnigraph.server.refusals import AnswerTooLargeError, BadCursorError
from omnigraph.server.service import service_of
from omnigraph.server.wire import (
    NDJSON,
    BranchesAnswer,
    ChangesAnswer,
    CommitAnswer,
    CommitsAnswer,
    DiffAnswer,
    SchemaAnswer,
    SnapshotAnswer,
)

router = APIRouter()

State = Annotated[str, Query(description="A branch, a commit's id, `branch@commit` or `branch@time`.", max_length=512)]
Filters = Annotated[list[str] | None, Query(alias="filter", description="`actor=ada`; may be repeated.", max_length=16)]


@router.get("/graphs/{graph}/snapshot", **described(SnapshotAnswer))
async def snapshot(
    request: Request, graph: GraphId, branch: BranchName = "main", snapshot: CommitId = None, at: Instant = None
) -> Response:
    """Which tables a state has, at which versions."""
    return answer((await _state(request, graph, branch, snapshot, at)).to_json())


@router.get("/graphs/{graph}/schema", **described(SchemaAnswer))
async def schema(
    request: Request, graph: GraphId, branch: BranchName = "main", snapshot: CommitId = None, at: Instant = None
) -> Response:
    """The accepted schema of a state."""
    state = await _state(request, graph, branch, snapshot, at)
    record = state.manifest.schema
    found = {"branch": state.branch, "commit_id": state.commit.id, "schema_id": record.id}
    return answer({**found, "schema_fingerprint": record.fingerprint, "schema": record.source})


async def _state(request: Request, graph: str, branch: str, commit_id: str | None, at: str | None) -> Snapshot:
    service = service_of(request)
    handle = service.graph(request, graph, Action.READ, branch)
    return await service.run(request, partial(handle.snapshot, branch=branch, snapshot=commit_id, at=instant_of(at)))


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
    limit: Limit = USUAL_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """The history of a branch, newest first."""
    service = service_of(request)
    handle = service.graph(request, graph, Action.READ, branch)
    place = None if cursor is None else cursor_of(cursor, CommitCursor)
    if place is not None and place.branch != branch:
        raise BadCursorError
    named = dict(pair.partition("=")[::2] for pair in filters or ())
    before = None if place is None else place.before
    page = await service.run(
        request, partial(handle.commit_page, branch=branch, filters=named, limit=limit, before=before)
    )
    more = None if page.next is None else cursor_text(CommitCursor(branch, page.next))
    return answer({"commits": page.to_json()["commits"], "next_cursor": more})


@router.get("/graphs/{graph}/commits/{commit}", **described(CommitAnswer))
async def commit(request: Request, graph: GraphId, commit: str) -> Response:
    """One commit, of any branch."""
    service = service_of(request)
    handle = service.graph(request, graph, Action.READ, "main")
    return answer((await service.run(request, partial(handle.commit, commit))).to_json())


@router.get("/graphs/{graph}/diff", **described(DiffAnswer, streams=[NDJSON]))
async def diff(
    request: Request,
    graph: GraphId,
    before: State,
    after: State,
    types: TypeNames = None,
    limit: Limit = USUAL_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """What has to be done to one state to make it another; all of it with `Accept: application/x-ndjson`."""
    service = service_of(request)
    handle = service.graph(request, graph, Action.READ, branch_of(before))
    place = RowCursor(before, after, 0) if cursor is None else cursor_of(cursor, RowCursor)
    found = await service.run(request, partial(handle.diff, place.before, place.after, types=types))
    if wanted_stream(request) == NDJSON:
        return await streamed(service, request, found.json_lines(), NDJSON, {})

    def taken() -> list[bytes]:
        return list(islice(found.json_lines(), place.skipped, place.skipped + limit + 1))

    lines = await service.run(request, taken)
    pinned = [f"{state.branch}@{state.commit.id}" for state in (found.before, found.after)]
    more = cursor_text(RowCursor(pinned[0], pinned[1], place.skipped + limit)) if len(lines) > limit else None
    return answer(
        {
            "before": found.before.commit.id,
            "after": found.after.commit.id,
            "changes": [msgspec.Raw(line.rstrip(b"\n")) for line in lines[:limit]],
            "next_cursor": more,
        }
    )


@router.get("/graphs/{graph}/changes", **described(ChangesAnswer, streams=[NDJSON]))
async def changes(
    request: Request,
    graph: GraphId,
    branch: BranchName = "main",
    since: CommitId = None,
    types: TypeNames = None,
    limit: Limit = USUAL_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """What the commits behind `since` changed, oldest first, each exactly once.

    With `Accept: application/x-ndjson` they are streamed, up to the newest and regardless of the limit.
    """
    service = service_of(request)
    handle = service.graph(request, graph, Action.READ, branch)
    place = None if cursor is None else cursor_of(cursor, CommitCursor)
    if place is not None and place.branch != branch:
        raise BadCursorError
    begin = since if place is None else place.before
    if wanted_stream(request) == NDJSON:
        feed = await service.run(request, partial(handle.changes, branch=branch, since=begin, types=types))
        return await streamed(service, request, feed.blocks(), NDJSON, {})
    return answer(
        await service.run(request, partial(_feed_page, handle, branch, begin, types, limit, service.limits.rows))
    )


def _feed_page(
    graph: Graph, branch: str, since: str | None, types: list[str] | None, limit: int, most_rows: int
) -> dict[str, object]:
    """A page of the feed: fewer commits than asked for when they have many rows. AnswerTooLargeError for one alone."""
    feed = graph.changes(branch=branch, since=since, types=types, limit=limit)
    found: list[dict[str, object]] = []
    last, rows = since, 0
    for one in feed:
        rows += sum(1 for _ in islice(one.records(), most_rows + 1))
        if rows > most_rows:
            if not found:
                raise AnswerTooLargeError("rows", most_rows)
            break
        found.append(one.to_json())
        last = one.cursor
    is_full = rows > most_rows or len(found) == limit
    more = cursor_text(CommitCursor(branch, last)) if is_full and last is not None else None
    return {"changes": found, "since": last, "next_cursor": more}
