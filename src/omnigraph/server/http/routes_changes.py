"""Routes about what differs: between two states, and from commit to commit."""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.graph import Graph
from omnigraph.ops.commit_changes import ChangeSet
from omnigraph.ops.diff import Diff
from omnigraph.ops.export import large_pieces
from omnigraph.policy import Action
from omnigraph.server.http.maintenance_bodies import ChangeAnswer
from omnigraph.server.http.openapi import described
from omnigraph.server.http.paging import MOST_ITEMS, CommitCursor, RowCursor, cursor_of, cursor_text
from omnigraph.server.http.request_arguments import (
    USUAL_LIMIT,
    BranchName,
    CommitId,
    Counts,
    Cursor,
    GraphId,
    Limit,
    OneBranch,
    TypeNames,
    branch_of,
)
from omnigraph.server.http.request_bodies import NDJSON, ChangesAnswer, DiffAnswer
from omnigraph.server.http.responses import answer, bounded, streamed, wanted_stream, within
from omnigraph.server.http_errors import AnswerTooLargeError, BadCursorError
from omnigraph.server.service import Service, service_of

router = APIRouter()

State = Annotated[str, Query(description="A branch, a commit's id, `branch@commit` or `branch@time`.", max_length=512)]
Commits = Annotated[
    int | None,
    Query(description=f"The most commits: of a page {USUAL_LIMIT} unless given, of a stream all.", ge=1, le=MOST_ITEMS),
]
Wait = Annotated[
    float, Query(description="Where there is nothing new yet, so many seconds may pass until there is.", ge=0, le=60)
]
_LOOK_SECONDS = 0.25
"""How often a branch is looked at for somebody who waits."""


@router.get("/graphs/{graph}/diff", **described(DiffAnswer, streams=[NDJSON]))
async def diff(
    request: Request,
    graph: GraphId,
    before: State,
    after: State,
    types: TypeNames = None,
    counts: Counts = False,
    limit: Limit = USUAL_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """What has to be done to one state to make it another; all of it with `Accept: application/x-ndjson`.

    With `counts`, only how much differs in each type.
    """
    service = service_of(request)
    handle = service.graph(request, graph, Action.READ, branch_of(before))
    place = RowCursor(before, after, 0) if cursor is None else cursor_of(cursor, RowCursor)
    found = await service.run(request, partial(handle.diff, place.before, place.after, types=types))
    if wanted_stream(request) == NDJSON:
        return await streamed(service, request, large_pieces(found.json_lines()), NDJSON, _states_of(found))
    if counts:
        told = await service.run(request, found.to_json)
        return answer({**told, "changes": [], "next_cursor": None})
    lines = await service.run(request, partial(_page, service, found.json_lines(), place.skipped, limit))
    pinned = [f"{state.branch}@{state.commit.id}" for state in (found.before, found.after)]
    more = cursor_text(RowCursor(pinned[0], pinned[1], place.skipped + limit)) if len(lines) > limit else None
    return bounded(
        {
            "before": found.before.commit.id,
            "after": found.after.commit.id,
            "schema": None if found.schema is None else found.schema.to_json(),
            "changes": [msgspec.Raw(line.rstrip(b"\n")) for line in lines[:limit]],
            "next_cursor": more,
        },
        service.limits,
    )


def _states_of(found: Diff) -> dict[str, str]:
    return {"Omnigraph-Before": found.before.commit.id, "Omnigraph-After": found.after.commit.id}


def _page(service: Service, lines: Iterator[bytes], skipped: int, limit: int) -> list[bytes]:
    """So many lines, and one that tells whether there are more; RequestTooLongError, AnswerTooLargeError."""
    timed = within(lines, service.runtime.clock, service.limits.seconds)
    found: list[bytes] = []
    size = 0
    for line in islice(timed, skipped, skipped + limit + 1):
        size += len(line)
        if size > service.limits.answer_bytes:
            raise AnswerTooLargeError("bytes", service.limits.answer_bytes)
        found.append(line)
    return found


@router.get("/graphs/{graph}/commits/{commit}/changes", **described(ChangeAnswer, streams=[NDJSON]))
async def commit_changes(
    request: Request,
    graph: GraphId,
    commit: str,
    branch: OneBranch = None,
    types: TypeNames = None,
    counts: Counts = False,
) -> Response:
    """What one commit changed against its first parent; all rows of it with `Accept: application/x-ndjson`."""
    service = service_of(request)
    if wanted_stream(request) == NDJSON:
        handle = service.graph(request, graph, Action.READ, branch or "main")
        feed = await service.run(request, partial(handle.commit_changes, commit, branch=branch, types=types))
        return await streamed(service, request, feed.blocks(), NDJSON, {})
    budget = service.budget()
    handle = service.graph(request, graph, Action.READ, branch or "main", within=budget)

    def asked() -> dict[str, Any] | None:
        found = handle.commit_changes(commit, branch=branch, types=types)
        return _told(found, service.limits.rows, counts=counts)

    told = await service.read(request, budget, asked)
    if told is None:
        raise AnswerTooLargeError("rows", service.limits.rows)
    return bounded(told, service.limits)


@router.get("/graphs/{graph}/changes", **described(ChangesAnswer, streams=[NDJSON]))
async def changes(  # noqa: PLR0913 - the parameters of the route
    request: Request,
    graph: GraphId,
    *,
    branch: BranchName = "main",
    since: CommitId = None,
    types: TypeNames = None,
    counts: Counts = False,
    limit: Commits = None,
    cursor: Cursor = None,
    wait: Wait = 0.0,
) -> Response:
    """What the commits behind `since` changed, oldest first, each exactly once.

    With `Accept: application/x-ndjson` they are streamed, up to the newest unless there is a limit. With `wait`, where
    there is no commit behind `since`, the answer comes with the next one, or empty when the time is over: so whoever
    asks again and again follows a branch.
    """
    service = service_of(request)
    handle = service.graph(request, graph, Action.READ, branch)
    place = None if cursor is None else cursor_of(cursor, CommitCursor)
    if place is not None and place.branch != branch:
        raise BadCursorError
    begin = since if place is None else place.before
    if wait and begin is not None:
        await _next_commit(service, request, handle, branch, begin, wait)
    if wanted_stream(request) == NDJSON:
        feed = await service.run(request, partial(handle.changes, branch=branch, since=begin, types=types, limit=limit))
        return await streamed(service, request, feed.blocks(), NDJSON, {})
    budget = service.budget()
    handle = service.graph(request, graph, Action.READ, branch, within=budget)
    page = partial(_feed_page, service.limits.rows, handle, branch, begin, types, limit or USUAL_LIMIT, counts=counts)
    return bounded(await service.read(request, budget, page), service.limits)


async def _next_commit(
    service: Service, request: Request, graph: Graph, branch: str, since: str, seconds: float
) -> None:
    """Return when the branch is not at that commit, or the time is over. It holds no thread meanwhile."""
    clock = service.runtime.clock
    end = clock.monotonic() + seconds
    while True:
        newest = await service.run(request, partial(graph.snapshot, branch=branch))
        left = end - clock.monotonic()
        if newest.commit.id != since or left <= 0 or service.is_draining or await request.is_disconnected():
            return
        await asyncio.sleep(min(_LOOK_SECONDS, left))


def _feed_page(
    most_rows: int,
    graph: Graph,
    branch: str,
    since: str | None,
    types: Sequence[str] | None,
    limit: int,
    *,
    counts: bool,
) -> dict[str, object]:
    """A page of the feed: fewer commits than asked for when they have many rows. AnswerTooLargeError for one alone."""
    feed = graph.changes(branch=branch, since=since, types=types, limit=limit)
    found: list[dict[str, object]] = []
    last, rows, is_cut = feed.cursor, 0, False
    for one in feed:
        told = _told(one, most_rows - rows, counts=counts)
        if told is None:
            if not found:
                raise AnswerTooLargeError("rows", most_rows)
            is_cut = True
            break
        found.append(told)
        last = one.cursor
        rows += len(told.get("rows", ()))
    is_full = is_cut or len(found) == limit
    more = cursor_text(CommitCursor(branch, last)) if is_full and last is not None else None
    return {"changes": found, "since": last, "next_cursor": more}


def _told(found: ChangeSet, most_rows: int, *, counts: bool) -> dict[str, Any] | None:
    """A change as a document; None when it has too many rows for one."""
    return found.summary() if counts else found.to_json_within(most_rows)
