"""Routes of differences: between two states, and the change feed of a branch."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.graph import Graph
from omnigraph.ops.commit_changes import ChangeSet
from omnigraph.ops.diff import Diff, DiffPosition
from omnigraph.ops.export import iter_chunks
from omnigraph.ops.neighbours import MAX_EDGES
from omnigraph.ops.row_diff import ChangePosition
from omnigraph.policy import Action
from omnigraph.server.http.maintenance_bodies import ChangeAnswer
from omnigraph.server.http.openapi import describe_route
from omnigraph.server.http.paging import MAX_PAGE_ITEMS, CommitCursor, DiffCursor, decode_cursor, encode_cursor
from omnigraph.server.http.relaying import relay_follower
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
    negotiate_stream,
    respond_large_json,
    start_stream,
)
from omnigraph.server.http_errors import BadRequestError, RequestLimitError
from omnigraph.server.service import Service, get_exchange, get_service, poll_head

router = APIRouter()

State = Annotated[str, Query(description="A branch, a commit's id, `branch@commit` or `branch@time`.", max_length=512)]
DiffBase = Annotated[
    Literal["merge"] | None,
    Query(description="`merge`: compare `after` with the merge base of the two, to see what a merge would bring."),
]
Around = Annotated[
    int | None,
    Query(description="Also return up to so many unchanged edges of changed nodes, as a graph.", ge=0, le=MAX_EDGES),
]
Commits = Annotated[
    int | None,
    Query(
        description=f"The maximum number of commits. The default is {DEFAULT_LIMIT} per page, and all for a stream.",
        ge=1,
        le=MAX_PAGE_ITEMS,
    ),
]
Wait = Annotated[float, Query(description="Seconds to wait for a new commit if there is none yet.", ge=0, le=60)]
# The interval in which a request that waits looks for its client's leaving and the server's shutdown.
_CHECK_SECONDS = 1.0


@router.get("/graphs/{graph}/diff", **describe_route(DiffAnswer, streams=[NDJSON]))
async def diff(  # noqa: PLR0913, PLR0917 - one argument per parameter
    request: Request,
    graph: GraphId,
    before: State,
    after: State,
    types: TypeNames = None,
    counts: CountsOnly = False,
    base: DiffBase = None,
    around: Around = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Return the changes that turn one state into another; all of them with `Accept: application/x-ndjson`.

    With `counts`, only the number of differences per type. With `around`, a page has a `graph` of what lies around its
    changes and did not change.
    """
    service = get_service(request)
    budget = service.build_read_budget()
    position = None if cursor is None else decode_cursor(cursor, DiffCursor)
    if position is not None:
        # The page before has resolved the base.
        before, after, types, base = position.before, position.after, position.types, None
    branch = parse_branch(before)
    if negotiate_stream(request) == NDJSON:
        handle = service.bind_graph(request, graph, Action.READ, branch)
        difference = await service.run(request, partial(handle.diff, before, after, types=types, base=base))
        chunks = iter_chunks(difference.json_lines())
        return await start_stream(service, request, chunks, NDJSON, _build_state_headers(difference))
    handle = service.bind_graph(request, graph, Action.READ, branch, budget=budget)

    def build_page() -> dict[str, object]:
        difference = handle.diff(before, after, types=types, base=base)
        if counts:
            return {**difference.to_json(), "changes": [], "next_cursor": None}
        page = _build_diff_page(difference, position, types, limit)
        if around is not None:
            # The page has lines that are encoded already; what lies around is found by their ids.
            changes = [json.loads(bytes(line)) for line in page["changes"]]
            page["graph"] = difference.read_surroundings(changes, around, budget).to_json()
        return page

    document = await service.read(request, budget, build_page)
    return await respond_large_json(lambda: document, service.limits)


def _build_state_headers(difference: Diff) -> dict[str, str]:
    return {"Omnigraph-Before": difference.before.commit.id, "Omnigraph-After": difference.after.commit.id}


def _build_diff_page(
    difference: Diff, cursor: DiffCursor | None, types: list[str] | None, limit: int
) -> dict[str, Any]:
    """Return a page of differences.

    Raises:
        BadRequestError: The cursor is of no position between these states.
    """
    start = DiffPosition()
    if cursor is not None:
        start = DiffPosition(cursor.type_name, ChangePosition(cursor.chunk, cursor.kind, cursor.row), cursor.skipped)
    try:
        page = difference.read_page(start, limit)
    except ValueError:
        raise BadRequestError.bad_cursor() from None
    next_cursor = None
    if page.next is not None:
        # The cursor names commits, not branches: a new commit must not shift the pages that follow.
        before, after = (f"{state.branch}@{state.commit.id}" for state in (difference.before, difference.after))
        row = page.next.row
        next_cursor = encode_cursor(
            DiffCursor(before, after, types, page.next.type, row.chunk, row.kind, row.row, page.next.skipped)
        )
    return {
        "before": difference.before.commit.id,
        "after": difference.after.commit.id,
        "schema": None if difference.schema is None else difference.schema.to_json(),
        # The lines are JSON already.
        "changes": [msgspec.Raw(line) for line in page.lines],
        "next_cursor": next_cursor,
    }


@router.get("/graphs/{graph}/commits/{commit}/changes", **describe_route(ChangeAnswer, streams=[NDJSON]))
async def commit_changes(
    request: Request,
    graph: GraphId,
    commit: str,
    branch: BranchFilter = None,
    types: TypeNames = None,
    counts: CountsOnly = False,
) -> Response:
    """Return the changes of one commit against its first parent; all rows with `Accept: application/x-ndjson`."""
    service = get_service(request)
    if negotiate_stream(request) == NDJSON:
        handle = service.bind_graph(request, graph, Action.READ, branch or "main")
        feed = await service.run(request, partial(handle.commit_changes, commit, branch=branch, types=types))
        return await start_stream(service, request, feed.blocks(), NDJSON, {})
    budget = service.build_read_budget()
    handle = service.bind_graph(request, graph, Action.READ, branch or "main", budget=budget)

    def read_changes() -> dict[str, Any] | None:
        change_set = handle.commit_changes(commit, branch=branch, types=types)
        return _encode_change(change_set, service.limits.rows, counts=counts)

    document = await service.read(request, budget, read_changes)
    if document is None:
        raise RequestLimitError.answer_too_large("rows", service.limits.rows)
    return await respond_large_json(lambda: document, service.limits)


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
    """Return the changes of the commits after `since`, oldest first, each exactly once.

    With `Accept: application/x-ndjson` they are streamed, up to the newest unless there is a limit. With `wait`, if
    there is no commit after `since`, the response comes with the next commit, or empty when the time is over: repeated
    requests follow a branch.
    """
    service = get_service(request)
    handle = service.bind_graph(request, graph, Action.READ, branch)
    position = None if cursor is None else decode_cursor(cursor, CommitCursor)
    if position is not None and position.branch != branch:
        raise BadRequestError.bad_cursor()
    begin = since if position is None else position.before
    if wait and begin is not None:
        # All that follow a branch meet in one worker, and share one poll.
        relayed = await relay_follower(service, request, graph, branch)
        if relayed is not None:
            return relayed
        await _wait_for_commit(service, request, handle, branch, begin, wait)
    if negotiate_stream(request) == NDJSON:
        feed = await service.run(request, partial(handle.changes, branch=branch, since=begin, types=types, limit=limit))
        return await start_stream(service, request, feed.blocks(), NDJSON, {})
    budget = service.build_read_budget()
    handle = service.bind_graph(request, graph, Action.READ, branch, budget=budget)
    page = partial(
        _build_feed_page, service.limits.rows, handle, branch, begin, types, limit or DEFAULT_LIMIT, counts=counts
    )
    document = await service.read(request, budget, page)
    return await respond_large_json(lambda: document, service.limits)


async def _wait_for_commit(
    service: Service, request: Request, graph: Graph, branch: str, since: str, seconds: float
) -> None:
    """Wait until the head of the branch is another commit, or the time is over, without holding a thread."""
    clock = service.runtime.clock
    end = clock.monotonic() + seconds

    async def read_head() -> str:
        return (await service.run(request, partial(graph.snapshot, branch=branch))).commit.id

    while True:
        # A token that expires, or is taken away, waits no longer.
        service.check_access(request)
        # For this request itself: its policy counts, and the poll of all may have been a moment earlier.
        head = await read_head()
        left = end - clock.monotonic()
        # A waiting request must not delay the server's shutdown.
        if head != since or left <= 0 or service.is_draining or await request.is_disconnected():
            return
        id_ = get_exchange(request).graph or ""
        await service.watchers.wait(
            id_, branch, since, min(left, _CHECK_SECONDS), partial(poll_head, service, id_, branch)
        )


def _build_feed_page(
    max_rows: int,
    graph: Graph,
    branch: str,
    since: str | None,
    types: Sequence[str] | None,
    limit: int,
    *,
    counts: bool,
) -> dict[str, object]:
    """Return a page of the change feed, with fewer commits than requested if they have many rows.

    Raises:
        RequestLimitError: The first commit alone has too many rows.
    """
    feed = graph.changes(branch=branch, since=since, types=types, limit=limit)
    documents: list[dict[str, object]] = []
    # Without a commit, the position stays where the feed begins.
    last = feed.cursor
    rows = 0
    is_cut = False
    for change_set in feed:
        document = _encode_change(change_set, max_rows - rows, counts=counts)
        if document is None:
            # A page ends before a commit that does not fit; a commit that fits on no page is an error.
            if not documents:
                raise RequestLimitError.answer_too_large("rows", max_rows)
            is_cut = True
            break
        documents.append(document)
        last = change_set.cursor
        rows += len(document.get("rows", ()))
    is_full = is_cut or len(documents) == limit
    next_cursor = encode_cursor(CommitCursor(branch, last)) if is_full and last is not None else None
    return {"changes": documents, "since": last, "next_cursor": next_cursor}


def _encode_change(change_set: ChangeSet, max_rows: int, *, counts: bool) -> dict[str, Any] | None:
    """Return the changes of a commit as a JSON document, or None if they have more than `max_rows` rows."""
    return change_set.summary() if counts else change_set.to_json_within(max_rows)
