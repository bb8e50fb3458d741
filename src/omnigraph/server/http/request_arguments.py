"""What requests say, in the engine's own terms: states by commit and time, names of types, pages."""

import re
from datetime import datetime
from typing import Annotated, TypeVar

import msgspec
from fastapi import Path, Query
from starlette.requests import Request

from omnigraph.clock import parse_instant
from omnigraph.config.server import ServerLimits
from omnigraph.errors import TextTooLargeError
from omnigraph.query.params import ParamText
from omnigraph.server.http.paging import DEFAULT_PAGE_ITEMS, MAX_PAGE_ITEMS
from omnigraph.server.http.request_bodies import MutateBody, ReadBody, decode_body
from omnigraph.server.http_errors import BadRequestError, RangeRefusedError

T = TypeVar("T", bound=msgspec.Struct)

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
Limit = Annotated[int, Query(description="The most items of a page.", ge=1, le=MAX_PAGE_ITEMS)]
Cursor = Annotated[str | None, Query(description="`next_cursor` of the page before.", max_length=4_096)]
DEFAULT_LIMIT = DEFAULT_PAGE_ITEMS


async def read_body(request: Request, type_: type[T]) -> T:
    """The body of a request, of that shape; BadRequestError."""
    return decode_body(await request.body(), type_)


def merge_params(body: ReadBody | MutateBody) -> dict[str, object]:
    """The parameters of a query; BadRequestError for one that is there twice."""
    twice = body.params.keys() & body.texts.keys()
    if twice:
        raise BadRequestError("texts", f"the parameter `{min(twice)}` is in `params`, too")
    return {**body.params, **{name: ParamText(text) for name, text in body.texts.items()}}


def parse_optional_instant(text: str | None) -> datetime | None:
    """A time with a zone; BadRequestError."""
    try:
        return None if text is None else parse_instant(text)
    except ValueError:
        raise BadRequestError("at", "it is no time with a zone, such as 2026-01-31T12:00:00Z") from None


def parse_branch(state: str) -> str:
    """The branch that a state is named by, as `review` or `review@…`."""
    return state.partition("@")[0]


def parse_range(header: str | None, size: int) -> range:
    """The bytes that a `Range` header asks for, of so many: all of them where it is none that is understood.

    RangeRefusedError when it begins behind the end.
    """
    found = _RANGE.fullmatch(header or "")
    if found is None or found.groups() == ("", ""):
        return range(size)
    first, last = found.groups()
    if not first:
        return range(max(size - int(last), 0), size)
    if last and int(last) < int(first):
        return range(size)
    if int(first) >= size:
        raise RangeRefusedError(size)
    return range(int(first), min(int(last) + 1, size) if last else size)


def check_text(text: str, name: str, limits: ServerLimits) -> None:
    """TextTooLargeError for a query or schema that is longer than any that somebody wrote."""
    if len(text) > limits.query_characters:
        raise TextTooLargeError(name, limits.query_characters)
