"""The arguments of the MCP tools: decoded as strictly as HTTP bodies, and published as JSON Schemas."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from omnigraph.server.http.request_bodies import decode_body
from omnigraph.server.http_errors import BadRequestError

MAX_ROWS = 1_000
# An agent pays for every row that it reads, so a page is small unless the agent requests more (decision 32).
DEFAULT_ROWS = 100

T = TypeVar("T", bound=msgspec.Struct)

# A model reads these descriptions in every list of tools, so they are short.
Query = Annotated[str, Meta(description="The query or mutation, in omnigraph's query language.")]
QueryName = Annotated[str | None, Meta(description="Which query of the text; needed only if it has several.")]
Params = Annotated[dict[str, Any], Meta(description='Values of its parameters, by name without `$`: {"name": "Ada"}.')]
ReadBranch = Annotated[str, Meta(description="The branch to read.")]
WriteBranch = Annotated[str, Meta(description="The branch to write to; create your own with graph_create_branch.")]
CommitRef = Annotated[str | None, Meta(description="Read the state of this commit or tag instead of the newest.")]
At = Annotated[str | None, Meta(description="Read the state at this time, such as 2026-01-31T12:00:00Z.")]
Limit = Annotated[int, Meta(ge=1, le=MAX_ROWS, description="Maximum number of items to return.")]
Offset = Annotated[int, Meta(ge=0, description="Number of items to skip: `next_offset` of the previous result.")]
Message = Annotated[str | None, Meta(description="The commit message.")]
IdempotencyKey = Annotated[
    str | None, Meta(description="A key of your choice: a call repeated with the same key is executed only once.")
]
IfCommit = Annotated[str | None, Meta(description="Write only if this is still the branch's newest commit.")]
Seconds = Annotated[float | None, Meta(description="Maximum run time in seconds, up to the server's limit.")]
MemoryBytes = Annotated[int | None, Meta(description="Maximum memory in bytes, up to the server's limit.")]
State = Annotated[str, Meta(description="A branch, a commit's id, `branch@commit` or `branch@time`.")]


class QueryArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of `graph_query`."""

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


class CypherArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of `graph_cypher`."""

    cypher: Annotated[str, Meta(description="A statement of Cypher that only reads.")]
    params: Params = {}
    branch: ReadBranch = "main"
    snapshot: CommitRef = None
    at: At = None
    limit: Limit = DEFAULT_ROWS
    offset: Offset = 0
    seconds: Seconds = None
    memory_bytes: MemoryBytes = None


class ExplainArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of `graph_explain`."""

    query: Query
    name: QueryName = None
    params: Params = {}
    branch: ReadBranch = "main"
    analyze: Annotated[bool, Meta(description="Also run the query, and report what each step did.")] = False
    seconds: Seconds = None
    memory_bytes: MemoryBytes = None


class MutateArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of `graph_mutate`."""

    query: Query
    branch: WriteBranch
    name: QueryName = None
    params: Params = {}
    message: Message = None
    idempotency_key: IdempotencyKey = None
    if_commit: IfCommit = None
    seconds: Seconds = None
    memory_bytes: MemoryBytes = None


class ProposeArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of `graph_propose`."""

    query: Query
    branch: Annotated[str, Meta(description="The name of the new branch, such as agent/fix-ages.")]
    name: QueryName = None
    params: Params = {}
    base: Annotated[str, Meta(description="The branch that the change is meant for.")] = "main"
    snapshot: Annotated[str | None, Meta(description="The commit that you have read; by default the newest.")] = None
    message: Message = None
    limit: Limit = DEFAULT_ROWS
    seconds: Seconds = None
    memory_bytes: MemoryBytes = None


class DescribeArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of `graph_describe`."""

    types: Annotated[list[str] | None, Meta(description="Only these node and edge types.")] = None
    samples: Annotated[int, Meta(ge=0, le=10, description="Sample values of each property.")] = 3
    branch: ReadBranch = "main"
    limit: Limit = 20
    offset: Offset = 0


class LintArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of `graph_lint`."""

    query: Query
    branch: ReadBranch = "main"


class SearchArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of `graph_search`."""

    text: Annotated[str, Meta(description="An id, the beginning of one, or words.")]
    types: Annotated[list[str] | None, Meta(description="Only these node types.")] = None
    branch: ReadBranch = "main"
    snapshot: CommitRef = None
    limit: Annotated[int, Meta(ge=1, le=200, description="Maximum number of matches to return.")] = 10
    offset: Annotated[int, Meta(ge=0, le=500, description="Number of matches to skip.")] = 0


class SchemaArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of `graph_schema`."""

    branch: ReadBranch = "main"


class BranchesArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of `graph_branches`."""

    limit: Limit = DEFAULT_ROWS
    offset: Offset = 0


class CommitsArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of `graph_commits`."""

    branch: ReadBranch = "main"
    limit: Limit = 20
    before: Annotated[
        str | None, Meta(description="Only commits before this one: `next_before` of the previous result.")
    ] = None


class DiffArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of `graph_diff`."""

    before: State
    after: State
    types: Annotated[list[str] | None, Meta(description="Only these node and edge types.")] = None
    limit: Limit = DEFAULT_ROWS
    offset: Offset = 0


class CreateBranchArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename={"from_": "from"}):
    """The arguments of `graph_create_branch`."""

    name: Annotated[str, Meta(description="The name of the new branch, such as agent/fix-ages.")]
    from_: Annotated[str, Meta(description="The branch to start from.")] = "main"


class DeleteBranchArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of `graph_delete_branch`."""

    name: Annotated[str, Meta(description="The name of the branch.")]


class MergeArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of `graph_merge`."""

    source: Annotated[str, Meta(description="The branch whose changes are merged.")]
    into: Annotated[str, Meta(description="The branch to merge them into.")]
    strategy: Annotated[
        Literal["ours", "theirs"] | None,
        Meta(description="Whose value wins where both branches changed it; without it, conflicts abort the merge."),
    ] = None
    message: Message = None
    dry_run: Annotated[bool, Meta(description="Only report what the merge would do.")] = False
    seconds: Seconds = None
    memory_bytes: MemoryBytes = None


class ReadControls(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of a stored read query beside its parameters."""

    branch: ReadBranch = "main"
    snapshot: CommitRef = None
    at: At = None
    limit: Limit = DEFAULT_ROWS
    offset: Offset = 0
    seconds: Seconds = None
    memory_bytes: MemoryBytes = None


class WriteControls(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of a stored mutation beside its parameters."""

    branch: WriteBranch
    message: Message = None
    idempotency_key: IdempotencyKey = None
    if_commit: IfCommit = None
    seconds: Seconds = None
    memory_bytes: MemoryBytes = None


def read_arguments(arguments: Mapping[str, object], type_: type[T]) -> T:
    """Decode the arguments of a call into a struct.

    Raises:
        BadRequestError: They do not fit; the message contains no values.
    """
    # The protocol's library has parsed the arguments already. Encoded again, they go through the decoder of HTTP
    # bodies, so that both interfaces accept and reject the same.
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeError:
        raise BadRequestError("arguments", "a string contains half of a surrogate pair") from None
    except RecursionError:
        raise BadRequestError("arguments", "they are nested too deeply") from None
    except (TypeError, ValueError):
        raise BadRequestError("arguments", "a value does not exist in JSON, such as NaN") from None
    try:
        return decode_body(text, type_)
    except BadRequestError as error:
        raise BadRequestError("arguments", error.reason) from None
