"""Bodies of requests, which are decoded strictly, and of responses, as the OpenAPI document describes them."""

import json
import re
from typing import Any, TypeVar

import msgspec

from omnigraph.lang.lexer import abbreviate
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.branch import Branch
from omnigraph.ops.scrub import ScrubReport
from omnigraph.schema.findings import join_words
from omnigraph.server.http_errors import BadRequestError
from omnigraph.struct_decoder import convert

NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"
BYTES = "application/octet-stream"
# The file name of a load's body in errors.
BODY_NAME = "body"

T = TypeVar("T", bound=msgspec.Struct)

_encode = msgspec.json.Encoder().encode
# The escape of one half of a surrogate pair; without the other half it is not a character.
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
# What msgspec says about a field that the struct of a body does not have.
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(?P<name>[^`]*)`")


# --- requests ---------------------------------------------------------------------------------------------
# Unknown fields are rejected: a misspelled one would be ignored otherwise. msgspec copies the empty defaults.


class StateBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The state that a request reads: the newest of a branch, that of a commit, or of an instant."""

    branch: str = "main"
    snapshot: str | None = None
    at: str | None = None


class LimitedBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A state to read, the limits of reading it, and a name by which it can be cancelled while it runs."""

    branch: str = "main"
    snapshot: str | None = None
    at: str | None = None
    seconds: float | None = None
    memory_bytes: int | None = None
    query_id: str | None = None


class QueryBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A query, its parameters, the state to read, and its limits.

    `texts` are parameters in the form of a command line: each is parsed according to its declared type. While it runs,
    `DELETE …/running/{query_id}` cancels it.
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
    query_id: str | None = None
    engine: str = "auto"
    """`auto`, `memory` or `local`: where it runs; the answer is the same."""


class SortBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A column that orders the rows of a window; null comes last."""

    column: str
    descending: bool = False


class ReadBody(QueryBody, kw_only=True):
    """A query to run.

    With `max_staleness`, the state may be one that was the newest so many seconds ago; it contains `min_commit`.

    With `limit`, the answer is a window: so many rows from `offset` on, after all are ordered by `sort`. Send
    `commit_id` of the answer as `snapshot` to read other windows of the same rows.
    """

    max_staleness: float = 0.0
    min_commit: str | None = None
    offset: int = 0
    limit: int | None = None
    sort: list[SortBody] = []


class SqlBody(LimitedBody, kw_only=True):
    """A SQL query, its parameters, the state to read, and its limits; `texts` are parameters that are text."""

    sql: str
    params: dict[str, Any] = {}
    texts: dict[str, str] = {}


class CypherBody(LimitedBody, kw_only=True):
    """A statement of Cypher, its parameters, the state to read, and its limits.

    `texts` are parameters that are text. If `strict`, unknown labels and properties are errors.
    """

    cypher: str
    params: dict[str, Any] = {}
    texts: dict[str, str] = {}
    strict: bool = False
    max_staleness: float = 0.0
    min_commit: str | None = None
    engine: str = "auto"
    """`auto`, `memory` or `local`: where it runs; the answer is the same."""


class AlgorithmBody(LimitedBody, kw_only=True):
    """A graph algorithm by name, the edge types it follows, its parameters, the state to read, and its limits.

    With `into`, a `Type.property`, the value of each node is also written, in one commit with the `message`.
    """

    name: str
    edges: list[str]
    parameters: dict[str, Any] = {}
    into: str | None = None
    message: str | None = None


class ExplainBody(QueryBody, kw_only=True):
    """A query to explain; if `cypher`, it is a statement of Cypher."""

    analyze: bool = False
    cypher: bool = False


class CompleteBody(StateBody, kw_only=True):
    """A query that is being typed, the position in it, or else its end, and the state whose schema it names."""

    query: str
    position: int | None = None


class MutateBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A mutation, its parameters, its branch, and its limits."""

    query: str
    name: str | None = None
    params: dict[str, Any] = {}
    texts: dict[str, str] = {}
    branch: str = "main"
    message: str | None = None
    idempotency_key: str | None = None
    if_commit: str | None = None
    dry_run: bool = False
    seconds: float | None = None
    memory_bytes: int | None = None


class InvokeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of a stored query: a read takes a state, a mutation takes the fields of `MutateBody`."""

    params: dict[str, Any] = {}
    texts: dict[str, str] = {}
    branch: str = "main"
    snapshot: str | None = None
    at: str | None = None
    max_staleness: float | None = None
    min_commit: str | None = None
    message: str | None = None
    idempotency_key: str | None = None
    if_commit: str | None = None
    seconds: float | None = None
    memory_bytes: int | None = None
    query_id: str | None = None


class ExportBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The types to export, all or some, and their state."""

    types: list[str] | None = None
    branch: str = "main"
    snapshot: str | None = None
    at: str | None = None
    seconds: float | None = None
    memory_bytes: int | None = None


class BranchBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename={"from_": "from"}):
    """A new branch, and the state that it starts from."""

    name: str
    from_: str = "main"
    snapshot: str | None = None
    at: str | None = None


class MergeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The branches of a merge, and its options."""

    source: str
    into: str = "main"
    strategy: str | None = None
    message: str | None = None
    idempotency_key: str | None = None
    dry_run: bool = False
    resolutions: list[dict[str, Any]] | None = None
    all_conflicts: bool = False
    seconds: float | None = None
    memory_bytes: int | None = None


class UndoBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The commit of a revert or a cherry-pick, and its options."""

    commit: str
    branch: str = "main"
    strategy: str | None = None
    message: str | None = None
    idempotency_key: str | None = None
    dry_run: bool = False
    resolutions: list[dict[str, Any]] | None = None
    all_conflicts: bool = False
    seconds: float | None = None
    memory_bytes: int | None = None


class ResetBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The state that a branch returns to."""

    to: str
    branch: str = "main"
    message: str | None = None
    dry_run: bool = False


class PlanBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A schema to plan a migration to."""

    schema: str
    branch: str = "main"
    allow_data_loss: bool = False


class ApplyBody(PlanBody, kw_only=True):
    """A schema to migrate to."""

    allow_drops: bool = False
    message: str | None = None
    seconds: float | None = None
    memory_bytes: int | None = None


class ExplorerCodeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The code of an address that `omnigraph explore` opened; it is good once, and for a minute."""

    code: str


# Only for the OpenAPI document: the MCP library decodes its messages itself.
class RpcBody(msgspec.Struct, kw_only=True):
    """An MCP message: a request, or a notification if it has no `id`."""

    jsonrpc: str
    method: str
    id: str | int | msgspec.UnsetType = msgspec.UNSET
    params: dict[str, Any] = {}


# --- responses, for the OpenAPI document ------------------------------------------------------------------
# Routes don't encode these types: they encode results by their own `to_json`, see `answer_types`.


class ErrorAnswer(msgspec.Struct, kw_only=True):
    """An error. It has further fields that depend on its code; `request_id` is in the server's log, too."""

    error: str
    code: str
    kind: str
    request_id: str


class HealthAnswer(msgspec.Struct, kw_only=True):
    """The status and version of the server."""

    status: str
    version: str
    source_version: str | None
    """The revision that the package was installed from, if it was installed from a repository."""
    internal_schema_version: int


class ReadyScrub(msgspec.Struct, kw_only=True):
    """The findings of the scrub in all graphs. Damage does not make a server unready: other data can be read."""

    state: str
    """`sound` or `damaged`; `off` if files are not verified."""
    damaged_graphs: int
    damaged_files: int


class ReadyAnswer(HealthAnswer, kw_only=True):
    """The status of a server that accepts requests, and whether the scrub found damaged files."""

    scrub: ReadyScrub


class GraphAnswer(msgspec.Struct, kw_only=True):
    """A graph of the server."""

    id: str
    state: str
    read_only: bool
    scrub: ScrubReport | None
    """Null if files are not verified."""


class GraphsAnswer(msgspec.Struct, kw_only=True):
    """The graphs that the actor may see."""

    graphs: list[GraphAnswer]


class GraphBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A graph to create."""

    graph: str
    """Its name on the server."""
    schema: str


class GraphCreatedAnswer(msgspec.Struct, kw_only=True):
    """A graph that was created."""

    graph: str
    commit_id: str
    """Its first commit, which has the schema and no rows."""


class GraphDeletedAnswer(msgspec.Struct, kw_only=True):
    """A graph that was deleted."""

    deleted: str


class TableAnswer(msgspec.Struct, kw_only=True):
    """A table at its pinned version, which is text because it exceeds the range of JSON numbers."""

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


class BranchesAnswer(msgspec.Struct, kw_only=True):
    """A page of branches: main first, the others by name."""

    branches: list[Branch]
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


class SurroundingsAnswer(msgspec.Struct, kw_only=True):
    """The unchanged ends of changed edges, and unchanged edges of changed nodes with their other ends, all whole."""

    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    is_cut: bool
    """Whether there are more edges than were asked for."""


class DiffAnswer(msgspec.Struct, kw_only=True):
    """A page of the differences between two commits."""

    before: str
    after: str
    changes: list[dict[str, Any]]
    next_cursor: str | None
    types: dict[str, dict[str, Any]] | None = None
    """The number of differences by type, if only counts are requested."""
    schema: dict[str, Any] | None = None
    """The differences between the two schemas; null if they are equal."""
    graph: SurroundingsAnswer | msgspec.UnsetType = msgspec.UNSET
    """What lies around the changes of the page and did not change; only with `around`."""


class ChangesAnswer(msgspec.Struct, kw_only=True):
    """A page of commits, oldest first, each with its changes; `since` is the position to continue from later."""

    changes: list[dict[str, Any]]
    since: str | None
    next_cursor: str | None


class ColumnTypeAnswer(msgspec.Struct, kw_only=True):
    """A column of a result: its `kind` is `value`, `node`, `edge`, `path` or `list`; a type with `?` has null."""

    name: str
    kind: str
    type: str


class ResultAnswer(msgspec.Struct, kw_only=True):
    """The rows of a query at one commit."""

    query_name: str
    target: dict[str, str]
    commit_id: str
    row_count: int
    columns: list[str]
    types: list[ColumnTypeAnswer]
    """What the values of each column are, and of which type."""
    total_rows: int | msgspec.UnsetType = msgspec.UNSET
    """The number of all rows, if these are a window of them."""
    notes: list[str] | msgspec.UnsetType = msgspec.UNSET
    """What to know about the rows, such as a traversal that its upper bound cut off; only if there is something."""
    rows: list[dict[str, Any]]


class ExplainAnswer(msgspec.Struct, kw_only=True):
    """The plan of a query."""

    query_name: str
    target: dict[str, str]
    commit_id: str
    engine: dict[str, Any]
    plan: dict[str, Any]
    output: list[str]
    text: str


class PlanAnswer(msgspec.Struct, kw_only=True):
    """The steps from one schema to another."""

    steps: list[dict[str, Any]]
    safe: bool
    supported: bool
    drops_values: bool
    notes: list[str]


class ApplyAnswer(PlanAnswer, kw_only=True):
    """The executed steps; without steps there is no commit."""

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


class ExplorerTokenAnswer(msgspec.Struct, kw_only=True):
    """The token of a page, and the graph that it was opened for."""

    token: str
    graph: str


class RpcAnswer(msgspec.Struct, kw_only=True):
    """The response to an MCP message: a result, or a protocol error."""

    jsonrpc: str
    id: str | int | None = None
    result: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    error: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


# --- decoding and encoding --------------------------------------------------------------------------------


def decode_body(body: bytes, type_: type[T]) -> T:
    """Decode a JSON body, rejecting unknown fields, duplicate names and invalid text.

    Raises:
        BadRequestError: The body is malformed; the message quotes none of its values.
    """
    # The standard parser comes first, as msgspec does not report duplicate names.
    try:
        values = _decoder.decode(body.decode())
        # `json` accepts half of a surrogate pair, encoding does not. Most bodies have no such escape.
        if _SURROGATE_ESCAPE.search(body):
            json.dumps(values, ensure_ascii=False).encode()
        return convert(values, type_)
    except UnicodeError:
        raise BadRequestError("body", "it is not UTF-8, or has half of a surrogate pair") from None
    except RecursionError:
        raise BadRequestError("body", "it is nested too deeply") from None
    except msgspec.ValidationError as error:
        raise BadRequestError("body", _explain(error, type_)) from None
    except json.JSONDecodeError as error:
        raise BadRequestError("body", f"it is not JSON: {error.msg} at line {error.lineno}") from None
    except ValueError as error:
        raise BadRequestError("body", str(error)) from None


def _explain(error: msgspec.ValidationError, type_: type[msgspec.Struct]) -> str:
    # Behind the name of an unknown field within the body's objects stands its place: it is not of `type_`.
    message = str(error)
    unknown = _UNKNOWN_FIELD.fullmatch(message)
    if unknown is None:
        return message
    known = [field.encode_name for field in msgspec.structs.fields(type_)]
    meant = find_closest(unknown["name"], known)
    help_ = f"did you mean `{meant}`?" if meant else f"the fields are {join_words(sorted(known))}"
    return f"unknown field `{abbreviate(unknown['name'])}`; {help_ if known else 'there are none'}"


def encode_json(value: object) -> bytes:
    """Return a value as a JSON document."""
    return _encode(value)


def _reject_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) < len(pairs):
        msg = "an object has the same name twice"
        raise ValueError(msg)
    return values


def _reject_constant(text: str) -> object:
    msg = f"{text} is not a JSON number"
    raise ValueError(msg)


# Built once: `json.loads` with these arguments builds a decoder for each body, a quarter of the time for a small one.
_decoder = json.JSONDecoder(object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant)
