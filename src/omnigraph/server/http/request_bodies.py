"""What goes over the wire: the bodies of requests, read strictly, and the shapes of answers for the OpenAPI."""

import json
import re
from typing import Any, TypeVar

import msgspec

from omnigraph.server.http_errors import BadRequestError

NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"
BYTES = "application/octet-stream"
BODY_NAME = "body"
"""What errors call the body of a load."""

T = TypeVar("T", bound=msgspec.Struct)

_encode = msgspec.json.Encoder().encode
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
"""The escape of one half of a pair; without the other half, it is no character."""


class ReadBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which query is asked, with which parameters, of which state, and what it may use at most.

    `texts` are parameters as a person writes them on a command line: each is read as its type says.
    """

    query: str
    name: str | None = None
    params: dict[str, Any] = {}
    texts: dict[str, str] = {}
    branch: str = "main"
    snapshot: str | None = None
    at: str | None = None
    seconds: float | None = None
    memory_bytes: int | None = None


class ExplainBody(ReadBody, kw_only=True):
    """A query to be explained."""

    analyze: bool = False


class MutateBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which mutation is run, with which parameters, on which branch."""

    query: str
    name: str | None = None
    params: dict[str, Any] = {}
    texts: dict[str, str] = {}
    branch: str = "main"
    message: str | None = None
    idempotency_key: str | None = None
    if_commit: str | None = None
    seconds: float | None = None
    memory_bytes: int | None = None


class InvokeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How a stored query is run. One that reads takes a state, one that writes takes what a mutation takes."""

    params: dict[str, Any] = {}
    texts: dict[str, str] = {}
    branch: str = "main"
    snapshot: str | None = None
    at: str | None = None
    message: str | None = None
    idempotency_key: str | None = None
    if_commit: str | None = None
    seconds: float | None = None
    memory_bytes: int | None = None


class ExportBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is exported: all types or some, of which state."""

    types: list[str] | None = None
    branch: str = "main"
    snapshot: str | None = None
    at: str | None = None
    seconds: float | None = None
    memory_bytes: int | None = None


class BranchBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename={"from_": "from"}):
    """A new branch, and the state that it starts as."""

    name: str
    from_: str = "main"
    snapshot: str | None = None
    at: str | None = None


class MergeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is merged into what."""

    source: str
    into: str = "main"
    strategy: str | None = None
    message: str | None = None
    dry_run: bool = False
    seconds: float | None = None
    memory_bytes: int | None = None


class PlanBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A schema that is wanted."""

    schema: str
    branch: str = "main"
    allow_data_loss: bool = False


class ApplyBody(PlanBody, kw_only=True):
    """A schema that is to be accepted."""

    allow_drops: bool = False
    message: str | None = None
    seconds: float | None = None
    memory_bytes: int | None = None


class RpcBody(msgspec.Struct, kw_only=True):
    """A message of MCP: a request, or without an `id` a notification."""

    jsonrpc: str
    method: str
    id: str | int | msgspec.UnsetType = msgspec.UNSET
    params: dict[str, Any] = {}


# --- answers, as the OpenAPI tells of them ----------------------------------------------------------------


class ErrorAnswer(msgspec.Struct, kw_only=True):
    """What went wrong. Beside these, an error has its own facts; `request_id` is in the server's log too."""

    error: str
    code: str
    kind: str
    request_id: str


class HealthAnswer(msgspec.Struct, kw_only=True):
    """Whether the server is there, and what it is."""

    status: str
    version: str
    source_version: str | None
    """The revision that the package was installed from, if it came from a repository."""
    internal_schema_version: int


class ReadyScrub(msgspec.Struct, kw_only=True):
    """What the scrub has found in all graphs. It does not make a server less ready: other data can be read."""

    state: str
    """`sound`, or `damaged`; `off` where files are not verified."""
    damaged_graphs: int
    damaged_files: int


class ReadyAnswer(HealthAnswer, kw_only=True):
    """Whether the server takes requests, and whether files were found to be damaged."""

    scrub: ReadyScrub


class DamagedFileAnswer(msgspec.Struct, kw_only=True):
    """A file that is not what was recorded of it."""

    table: str
    """`node:TYPE` or `edge:TYPE`; `branch:NAME` for a manifest."""
    file: str
    reason: str
    branches: list[str]
    """The branches whose present needs it; none when only earlier commits do."""


class GraphScrub(msgspec.Struct, kw_only=True):
    """How far the slow verification of a graph's files is."""

    state: str
    """`waiting`, `running`, `resting` until the next pass, or `failing` while the store does not answer."""
    files: int
    bytes: int
    """What was verified since the server was started."""
    skipped: int
    """Files that the store failed over in this pass."""
    pass_began: str | None
    last_pass: str | None
    """When all files were last verified."""
    damaged_files: int
    damaged: list[DamagedFileAnswer]
    """Shown to those who may `maintain` the graph; empty for others."""


class GraphAnswer(msgspec.Struct, kw_only=True):
    """A graph of the server."""

    id: str
    state: str
    read_only: bool
    scrub: GraphScrub | None
    """Null where files are not verified."""


class GraphsAnswer(msgspec.Struct, kw_only=True):
    """The graphs that the actor may see."""

    graphs: list[GraphAnswer]


class TableAnswer(msgspec.Struct, kw_only=True):
    """A table at its pin; the version is text, since it exceeds what JSON's numbers hold."""

    table_key: str
    location: str
    branch: str
    table_branch: str | None
    version: str
    table_version: str
    rows: int
    row_count: int


class SnapshotAnswer(msgspec.Struct, kw_only=True):
    """One state of a branch."""

    branch: str
    commit_id: str
    at: str
    digest: str | None
    manifest_version: int
    internal_schema_version: int
    schema_id: str
    schema_fingerprint: str
    tables: list[TableAnswer]
    commit: dict[str, Any]


class SchemaAnswer(msgspec.Struct, kw_only=True):
    """The accepted schema of a state."""

    branch: str
    commit_id: str
    schema_id: str
    schema_fingerprint: str
    schema: str


class BranchAnswer(msgspec.Struct, kw_only=True):
    """A branch, and what it was taken from."""

    name: str
    id: str | None
    parent_branch: str | None
    parent_commit: str | None
    created_at: str | None
    created_by: str | None


class BranchesAnswer(msgspec.Struct, kw_only=True):
    """A page of branches: main first, the others by name."""

    branches: list[BranchAnswer]
    next_cursor: str | None


class CommitAnswer(msgspec.Struct, kw_only=True):
    """A commit."""

    id: str
    graph_commit_id: str
    parent: str | None
    merged_parent: str | None
    seq: int
    branch: str
    actor: str
    actor_id: str
    at: str
    operation: str
    message: str | None
    digest: str | None
    changes: list[dict[str, Any]]


class CommitsAnswer(msgspec.Struct, kw_only=True):
    """A page of commits, newest first."""

    commits: list[CommitAnswer]
    next_cursor: str | None


class DiffAnswer(msgspec.Struct, kw_only=True):
    """A page of what differs between two commits."""

    before: str
    after: str
    changes: list[dict[str, Any]]
    next_cursor: str | None
    types: dict[str, dict[str, Any]] | None = None
    """By type, how much differs, if that is what is asked for."""
    schema: dict[str, Any] | None = None
    """What differs between the schemas of the two; null when they say the same."""


class ChangesAnswer(msgspec.Struct, kw_only=True):
    """A page of commits, oldest first, each with what it changed; `since` is where to go on later."""

    changes: list[dict[str, Any]]
    since: str | None
    next_cursor: str | None


class ResultAnswer(msgspec.Struct, kw_only=True):
    """The rows of a query, of one commit's state."""

    query_name: str
    target: dict[str, str]
    commit_id: str
    row_count: int
    columns: list[str]
    rows: list[dict[str, Any]]


class ExplainAnswer(msgspec.Struct, kw_only=True):
    """How a query is run."""

    query_name: str
    target: dict[str, str]
    commit_id: str
    plan: dict[str, Any]
    output: list[str]
    text: str


class MutationAnswer(msgspec.Struct, kw_only=True):
    """What a mutation did; without an effect there is no commit."""

    query_name: str
    target: dict[str, str]
    commit_id: str | None
    affected_nodes: int
    affected_edges: int


class LoadAnswer(msgspec.Struct, kw_only=True):
    """What a load did, by type."""

    mode: str
    target: dict[str, str]
    commit_id: str | None
    nodes: dict[str, dict[str, int]]
    edges: dict[str, dict[str, int]]
    rejected: int
    quarantine: str | None
    dry_run: bool


class MergeAnswer(msgspec.Struct, kw_only=True):
    """What a merge did. With conflicts it is in the body of a 409, as `merge`."""

    outcome: str
    source: str
    into: str
    source_commit: str
    base_commit: str
    commit_id: str | None
    dry_run: bool
    tables: list[dict[str, Any]]
    restored_edges: dict[str, int]
    conflicts: dict[str, Any]


class PlanAnswer(msgspec.Struct, kw_only=True):
    """The steps from one schema to another."""

    steps: list[dict[str, Any]]
    safe: bool
    supported: bool
    drops_values: bool
    notes: list[str]


class ApplyAnswer(PlanAnswer, kw_only=True):
    """What was done; without steps there is no commit."""

    target: dict[str, str]
    commit_id: str | None


class StoredParameter(msgspec.Struct, kw_only=True):
    """A parameter of a stored query."""

    name: str
    type: str
    nullable: bool


class StoredAnswer(msgspec.Struct, kw_only=True):
    """A stored query that the actor may run."""

    name: str
    kind: str
    params: list[StoredParameter]
    description: str | None
    instruction: str | None


class StoredListAnswer(msgspec.Struct, kw_only=True):
    """The stored queries that the actor may run."""

    queries: list[StoredAnswer]


class RpcAnswer(msgspec.Struct, kw_only=True):
    """The answer to a message of MCP: a result, or an error of the protocol."""

    jsonrpc: str
    id: str | int | None = None
    result: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    error: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


# --- reading and writing ----------------------------------------------------------------------------------


def decode_body(body: bytes, type_: type[T]) -> T:
    """A body of that shape; BadRequestError says what is wrong with it, without its values."""
    try:
        values = json.loads(body.decode(), object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant)
        if _SURROGATE_ESCAPE.search(body):
            json.dumps(values, ensure_ascii=False).encode()
        return msgspec.convert(values, type_, strict=True)
    except UnicodeError:
        raise BadRequestError("body", "it is not UTF-8, or has half of a surrogate pair") from None
    except RecursionError:
        raise BadRequestError("body", "it is nested too deeply") from None
    except msgspec.ValidationError as error:
        raise BadRequestError("body", str(error)) from None
    except json.JSONDecodeError as error:
        raise BadRequestError("body", f"it is no JSON: {error.msg} at line {error.lineno}") from None
    except ValueError as error:
        raise BadRequestError("body", str(error)) from None


def encode_json(value: object) -> bytes:
    """A JSON document."""
    return _encode(value)


def _reject_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        msg = "a name is there twice in one object"
        raise ValueError(msg)
    return found


def _reject_constant(text: str) -> object:
    msg = f"{text} is no number of JSON"
    raise ValueError(msg)
