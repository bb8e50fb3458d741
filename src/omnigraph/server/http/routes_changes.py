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
from omnigraph.ops.export import iter_chunks
from omnigraph.policy import Action
from omnigraph.server.http.maintenance_bodies import ChangeAnswer
from omnigraph.server.http.openapi import describe_route
from omnigraph.server.http.paging import MAX_PAGE_ITEMS, CommitCursor, RowCursor, decode_cursor, encode_cursor
from omnigraph.server.http.request_arguments import (
    DEFAULT_LIMIT,
    BranchFilter,
    BranchName,
    CommitId,
    CountsOnly,
    Cursor,
    GraphId,
    Limit,
    TypeNames,
    parse_branch,
)
from omnigraph.server.http.request_bodies import NDJSON, ChangesAnswer, DiffAnswer
from omnigraph.server.http.responses import (
    limit_time,
    negotiate_stream,
    respond_json,
    respond_limited_json,
    start_stream,
)
from omnigraph.server.http_errors import AnswerTooLargeError, BadCursorError
from omnigraph.server.service import Service, get_service

router = APIRouter()

State = Annotated[str, Query(description="A branch, a commit's id, `branch@commit` or `branch@time`.", max_length=512)]
Commits = Annotated[
    int | None,
    Query(
        description=f"The most commits: of a page {DEFAULT_LIMIT} unless given, of a stream all.",
        ge=1,
        le=MAX_PAGE_ITEMS,
    ),
]
Wait = Annotated[
    float, Query(description="Where there is nothing new yet, so many seconds may pass until there is.", ge=0, le=60)
]
_POLL_SECONDS = 0.25
"""How often a branch is looked at for somebody who waits."""


@router.get("/graphs/{graph}/diff", **describe_route(DiffAnswer, streams=[NDJSON]))
async def diff(
    request: Request,
    graph: GraphId,
    before: State,
    after: State,
    types: TypeNames = None,
    counts: CountsOnly = False,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """What has to be done to one state to make it another; all of it with `Accept: application/x-ndjson`.

    With `counts`, only how much differs in each type.
    """
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, parse_branch(before))
    place = RowCursor(before, after, 0) if cursor is None else decode_cursor(cursor, RowCursor)
    found = await service.run(request, partial(handle.diff, place.before, place.after, types=types))
    if negotiate_stream(request) == NDJSON:
        return await start_stream(
            service, request, iter_chunks(found.json_lines()), NDJSON, _build_state_headers(found)
        )
    if counts:
        told = await service.run(request, found.to_json)
        return respond_json({**told, "changes": [], "next_cursor": None})
    lines = await service.run(request, partial(_read_page, service, found.json_lines(), place.skipped, limit))
    pinned = [f"{state.branch}@{state.commit.id}" for state in (found.before, found.after)]
    more = encode_cursor(RowCursor(pinned[0], pinned[1], place.skipped + limit)) if len(lines) > limit else None
    return respond_limited_json(
        {
            "before": found.before.commit.id,
            "after": found.after.commit.id,
            "schema": None if found.schema is None else found.schema.to_json(),
            "changes": [msgspec.Raw(line.rstrip(b"\n")) for line in lines[:limit]],
            "next_cursor": more,
        },
        service.limits,
    )


def _build_state_headers(found: Diff) -> dict[str, str]:
    return {"Omnigraph-Before": found.before.commit.id, "Omnigraph-After": found.after.commit.id}


def _read_page(service: Service, lines: Iterator[bytes], skipped: int, limit: int) -> list[bytes]:
    """So many lines, and one that tells whether there are more; RequestTooLongError, AnswerTooLargeError."""
    timed = limit_time(lines, service.runtime.clock, service.limits.seconds)
    found: list[bytes] = []
    size = 0
    for line in islice(timed, skipped, skipped + limit + 1):
        size += len(line)
        if size > service.limits.answer_bytes:
            raise AnswerTooLargeError("bytes", service.limits.answer_bytes)
        found.append(line)
    return found


@router.get("/graphs/{graph}/commits/{commit}/changes", **describe_route(ChangeAnswer, streams=[NDJSON]))
async def commit_changes(
    request: Request,
    graph: GraphId,
    commit: str,
    branch: BranchFilter = None,
    types: TypeNames = None,
    counts: CountsOnly = False,
) -> Response:
    """What one commit changed against its first parent; all rows of it with `Accept: application/x-ndjson`."""
    service = get_service(request)
    if negotiate_stream(request) == NDJSON:
        handle = service.bind_graph(request, graph, Action.READ, branch or "main")
        feed = await service.run(request, partial(handle.commit_changes, commit, branch=branch, types=types))
        return await start_stream(service, request, feed.blocks(), NDJSON, {})
    budget = service.build_read_budget()
    handle = service.bind_graph(request, graph, Action.READ, branch or "main", budget=budget)

    def asked() -> dict[str, Any] | None:
        found = handle.commit_changes(commit, branch=branch, types=types)
        return _encode_change(found, service.limits.rows, counts=counts)

    told = await service.read(request, budget, asked)
    if told is None:
        raise AnswerTooLargeError("rows", service.limits.rows)
    return respond_limited_json(told, service.limits)


@router.get("/graphs/{graph}/changes", **describe_route(ChangesAnswer, streams=[NDJSON]))
async def changes(  # noqa: PLR0913 - the parameters of the route
    request: Request,
    graph: GraphId,
    *,
    branch: BranchName = "main",
    since: CommitId = None,
    types: TypeNames = None,
    counts: CountsOnly = False,
    limit: Commits = None,
    cursor: Cursor = None,
    wait: Wait = 0.0,
) -> Response:
    """What the commits behind `since` changed, oldest first, each exactly once.

    With `Accept: application/x-ndjson` they are streamed, up to the newest unless there is a limit. With `wait`, where
    there is no commit behind `since`, the answer comes with the next one, or empty when the time is over: so whoever
    asks again and again follows a branch.
    """
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, branch)
    place = None if cursor is None else decode_cursor(cursor, CommitCursor)
    if place is not None and place.branch != branch:
        raise BadCursorError
    begin = since if place is None else place.before
    if wait and begin is not None:
        await _wait_for_commit(service, request, handle, branch, begin, wait)
    if negotiate_stream(request) == NDJSON:
        feed = await service.run(request, partial(handle.changes, branch=branch, since=begin, types=types, limit=limit))
        return await start_stream(service, request, feed.blocks(), NDJSON, {})
    budget = service.build_read_budget()
    handle = service.bind_graph(request, graph, Action.READ, branch, budget=budget)
    page = partial(
        _build_feed_page, service.limits.rows, handle, branch, begin, types, limit or DEFAULT_LIMIT, counts=counts
    )
    return respond_limited_json(await service.read(request, budget, page), service.limits)


async def _wait_for_commit(
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
        await asyncio.sleep(min(_POLL_SECONDS, left))


def _build_feed_page(
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
        told = _encode_change(one, most_rows - rows, counts=counts)
        if told is None:
            if not found:
                raise AnswerTooLargeError("rows", most_rows)
            is_cut = True
            break
        found.append(told)
        last = one.cursor
        rows += len(told.get("rows", ()))
    is_full = is_cut or len(found) == limit
    more = encode_cursor(CommitCursor(branch, last)) if is_full and last is not None else None
    return {"changes": found, "since": last, "next_cursor": more}


def _encode_change(found: ChangeSet, most_rows: int, *, counts: bool) -> dict[str, Any] | None:
    """A change as a document; None when it has too many rows for one."""
    return found.summary() if counts else found.to_json_within(most_rows)
