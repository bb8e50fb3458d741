"""Parameters of requests: their types in path and query string, and their conversion to the engine's terms."""

import re
from datetime import datetime
from typing import Annotated, TypeVar

import msgspec
from fastapi import Path, Query
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from omnigraph.clock import parse_instant
from omnigraph.config.server import ServerLimits
from omnigraph.errors import LimitError
from omnigraph.lang.lexer import abbreviate
from omnigraph.lang.spelling import find_closest
from omnigraph.query.params import ParamText
from omnigraph.schema.findings import join_words
from omnigraph.server.http.paging import DEFAULT_PAGE_ITEMS, MAX_PAGE_ITEMS
from omnigraph.server.http.request_bodies import CypherBody, MutateBody, QueryBody, SqlBody, decode_body
from omnigraph.server.http_errors import BadRequestError

T = TypeVar("T", bound=msgspec.Struct)

# Larger bodies are decoded in a thread: a megabyte of JSON kept the event loop, and every other request, for 0.7 s.
MAX_LOOP_BYTES = 16 * 1024
# 18 digits are enough for any file; a longer number does not count as a range.
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")

EntityType = Annotated[str, Query(alias="type", description="The type of the node or edge.", max_length=256)]
EntityId = Annotated[str, Query(alias="id", description="The id of the node or edge.", max_length=4_096)]
CountsOnly = Annotated[bool, Query(description="Only count rows, by type.")]
GraphId = Annotated[str, Path(description="The graph's name on this server.", max_length=63)]
BranchName = Annotated[str, Query(description="The branch.", max_length=256)]
BranchFilter = Annotated[str | None, Query(description="Only this branch.", max_length=256)]
CommitId = Annotated[str | None, Query(description="The state of a commit, tag or manifest version.", max_length=64)]
Instant = Annotated[
    str | None, Query(description="The state at this time, such as 2026-01-31T12:00:00Z.", max_length=64)
]
TypeNames = Annotated[list[str] | None, Query(description="Only these types; may be repeated.", max_length=1_000)]
Limit = Annotated[int, Query(description="The maximum number of items per page.", ge=1, le=MAX_PAGE_ITEMS)]
Cursor = Annotated[str | None, Query(description="`next_cursor` of the previous page.", max_length=4_096)]
DEFAULT_LIMIT = DEFAULT_PAGE_ITEMS


async def check_query_names(request: Request) -> None:
    """Check that the route has every parameter of the query string: a misspelled `dry_run` must not be ignored.

    Raises:
        BadRequestError: It has not.
    """
    names = request.query_params.keys()
    if not names:
        return
    route = request.scope["route"]
    known = [field.alias for field in route.dependant.query_params] if isinstance(route, APIRoute) else []
    for name in names:
        if name not in known:
            meant = find_closest(name, known)
            help_ = f"it has {join_words(sorted(known))}" if known else "it has none"
            help_ = f"did you mean `{meant}`?" if meant else help_
            raise BadRequestError("query", f"this route has no parameter `{abbreviate(name)}`; {help_}")


async def read_body(request: Request, type_: type[T]) -> T:
    """Read and decode the body of a request.

    Raises:
        BadRequestError: The body does not have this shape.
        ClientDisconnect: The client left before its end.
    """
    body = await _receive_body(request)
    if len(body) <= MAX_LOOP_BYTES:
        return decode_body(body, type_)
    return await run_in_threadpool(decode_body, body, type_)


async def _receive_body(request: Request) -> bytes:
    """Return the whole body; unlike `Request.body`, without a generator for the usual single message."""
    message = await request.receive()
    parts = [message.get("body", b"")]
    while message["type"] == "http.request" and message.get("more_body", False):
        message = await request.receive()
        parts.append(message.get("body", b""))
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    body = b"".join(parts)
    # For another worker that may have to answer the request.
    request.scope["state"]["body"] = body
    return body


def merge_params(body: QueryBody | MutateBody | SqlBody | CypherBody) -> dict[str, object]:
    """Return the parameters of a query, from JSON values and from texts.

    Raises:
        BadRequestError: A parameter is given as both.
    """
    duplicates = body.params.keys() & body.texts.keys()
    if duplicates:
        # The smallest name, so that the message does not depend on the order of a set.
        raise BadRequestError("texts", f"the parameter `{min(duplicates)}` is in `params`, too")
    return {**body.params, **{name: ParamText(text) for name, text in body.texts.items()}}


def parse_optional_instant(text: str | None) -> datetime | None:
    """Parse a time with a time zone.

    Raises:
        BadRequestError: The text is not such a time.
    """
    try:
        return None if text is None else parse_instant(text)
    except ValueError:
        raise BadRequestError("at", "it is not a time with a time zone, such as 2026-01-31T12:00:00Z") from None


def parse_branch(state: str) -> str:
    """Return the branch in the name of a state, such as `review` or `review@…`."""
    return state.partition("@")[0]


def parse_range(header: str | None, size: int) -> range:
    """Return the byte range that a `Range` header requests, or all bytes if it is missing or not supported.

    Raises:
        BadRequestError: The range begins after the end.
    """
    # HTTP lets a server ignore a `Range` that it does not support or that is invalid.
    parsed = _RANGE.fullmatch(header or "")
    if parsed is None or parsed.groups() == ("", ""):
        return range(size)
    first, last = parsed.groups()
    # `-500` requests the last 500 bytes.
    if not first:
        return range(max(size - int(last), 0), size)
    if last and int(last) < int(first):
        return range(size)
    if int(first) >= size:
        raise BadRequestError.range_refused(size)
    return range(int(first), min(int(last) + 1, size) if last else size)


def check_text(text: str, name: str, limits: ServerLimits) -> None:
    """Check that the text of a query or schema is not too long to be parsed.

    Raises:
        LimitError: It is longer than the limit.
    """
    if len(text) > limits.query_characters:
        raise LimitError.text_too_large(name, limits.query_characters)
