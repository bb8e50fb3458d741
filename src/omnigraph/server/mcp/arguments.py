"""What the tools of an agent take: read as strictly as the bodies of requests, and shown as JSON Schemas."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from omnigraph.server.http.request_bodies import decode_body
from omnigraph.server.http_errors import BadRequestError

MAX_ROWS = 1_000
DEFAULT_ROWS = 100

T = TypeVar("T", bound=msgspec.Struct)

Query = Annotated[str, Meta(description="The query or mutation, in omnigraph's query language.")]
QueryName = Annotated[str | None, Meta(description="Which query of the text; needed only if it has several.")]
Params = Annotated[dict[str, Any], Meta(description='Values of its parameters, by name without `$`: {"name": "Ada"}.')]
ReadBranch = Annotated[str, Meta(description="The branch to read.")]
WriteBranch = Annotated[str, Meta(description="The branch to write to; make one of your own with graph_create_branch.")]
CommitRef = Annotated[str | None, Meta(description="Read the state of this commit or tag instead of the newest.")]
At = Annotated[str | None, Meta(description="Read the state at this time, such as 2026-01-31T12:00:00Z.")]
Limit = Annotated[int, Meta(ge=1, le=MAX_ROWS, description="The most items of this answer.")]
Offset = Annotated[int, Meta(ge=0, description="How many items to skip: `next_offset` of the answer before.")]
Message = Annotated[str | None, Meta(description="What the commit says it is for.")]
IdempotencyKey = Annotated[
    str | None, Meta(description="A key of your choice: the same call with the same key is done only once.")
]
IfCommit = Annotated[str | None, Meta(description="Write only if this is still the branch's newest commit.")]
Seconds = Annotated[
    float | None, Meta(description="How long it may run; the server allows no more than its own limit.")
]
MemoryBytes = Annotated[
    int | None, Meta(description="How much memory it may use; the server allows no more than its own limit.")
]
State = Annotated[str, Meta(description="A branch, a commit's id, `branch@commit` or `branch@time`.")]


class QueryArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A query that reads."""

    query: Query
    name: QueryName = None
    params: Params = {}
    branch: ReadBranch = "main"
    snapshot: CommitRef = None
    at: At = None
    limit: Limit = DEFAULT_ROWS
    offset: Offset = 0
    seconds: Seconds = None
    memory_bytes: MemoryBytes = None


class ExplainArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A query whose plan is wanted."""

    query: Query
    name: QueryName = None
    params: Params = {}
    branch: ReadBranch = "main"
    analyze: Annotated[bool, Meta(description="Run it, too, and tell what each step did.")] = False
    seconds: Seconds = None
    memory_bytes: MemoryBytes = None


class MutateArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A mutation."""

    query: Query
    branch: WriteBranch
    name: QueryName = None
    params: Params = {}
    message: Message = None
    idempotency_key: IdempotencyKey = None
    if_commit: IfCommit = None
    seconds: Seconds = None
    memory_bytes: MemoryBytes = None


class SchemaArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Whose schema is wanted."""

    branch: ReadBranch = "main"


class BranchesArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which of the branches are wanted."""

    limit: Limit = DEFAULT_ROWS
    offset: Offset = 0


class CommitsArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which of the commits are wanted."""

    branch: ReadBranch = "main"
    limit: Limit = 20
    before: Annotated[str | None, Meta(description="Only commits before this one: `next_before`.")] = None


class DiffArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is compared with what."""

    before: State
    after: State
    types: Annotated[list[str] | None, Meta(description="Only these node and edge types.")] = None
    limit: Limit = DEFAULT_ROWS
    offset: Offset = 0


class CreateBranchArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename={"from_": "from"}):
    """A new branch."""

    name: Annotated[str, Meta(description="Its name, such as agent/fix-ages.")]
    from_: Annotated[str, Meta(description="The branch that it starts from.")] = "main"


class DeleteBranchArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A branch that is done with."""

    name: Annotated[str, Meta(description="Its name.")]


class MergeArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is merged into what."""

    source: Annotated[str, Meta(description="The branch whose changes are wanted.")]
    into: Annotated[str, Meta(description="The branch that gets them.")]
    strategy: Annotated[
        Literal["ours", "theirs"] | None,
        Meta(description="Whose value counts where both changed the same; without, conflicts refuse the merge."),
    ] = None
    message: Message = None
    dry_run: Annotated[bool, Meta(description="Only tell what it would do.")] = False
    seconds: Seconds = None
    memory_bytes: MemoryBytes = None


class ReadControls(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What a stored query that reads takes beside its parameters."""

    branch: ReadBranch = "main"
    snapshot: CommitRef = None
    at: At = None
    limit: Limit = DEFAULT_ROWS
    offset: Offset = 0
    seconds: Seconds = None
    memory_bytes: MemoryBytes = None


class WriteControls(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What a stored query that writes takes beside its parameters."""

    branch: WriteBranch
    message: Message = None
    idempotency_key: IdempotencyKey = None
    if_commit: IfCommit = None
    seconds: Seconds = None
    memory_bytes: MemoryBytes = None


def read_arguments(given: Mapping[str, object], type_: type[T]) -> T:
    """The arguments of a call, of that shape; BadRequestError says what is wrong with them, without their values."""
    try:
        text = json.dumps(given, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeError:
        raise BadRequestError("arguments", "a text has half of a surrogate pair") from None
    except RecursionError:
        raise BadRequestError("arguments", "they are nested too deeply") from None
    except (TypeError, ValueError):
        raise BadRequestError("arguments", "there is a value that JSON does not have, such as NaN") from None
    try:
        return decode_body(text, type_)
    except BadRequestError as error:
        raise BadRequestError("arguments", error.reason) from None
