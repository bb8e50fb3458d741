"""Bodies of requests and responses of the routes for tools that show a graph."""

import msgspec

from omnigraph.ops.find_entities import DEFAULT_MATCHES
from omnigraph.ops.neighbours import DEFAULT_EDGES
from omnigraph.server.http.request_bodies import LimitedBody, StateBody

# --- requests ---------------------------------------------------------------------------------------------


class LintBody(StateBody, kw_only=True):
    """A text of queries, a schema to check too, or both, and the state whose schema the queries are checked against.

    A `schema` that is given takes the place of that of the state.
    """

    query: str | None = None
    schema: str | None = None


class NodeKeyBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What identifies a node: its type and its id."""

    type: str
    id: str


class NeighboursBody(LimitedBody, kw_only=True):
    """The nodes whose edges are read, the types of edges, all or some, and the state.

    `direction` is `out`, `in` or `both`. With a `limit` of 0, edges are only counted.
    """

    # At most 1,000; the operation checks it, for all interfaces alike.
    nodes: list[NodeKeyBody]
    edges: list[str] | None = None
    direction: str = "both"
    limit: int = DEFAULT_EDGES
    cursor: str | None = None


class SearchBody(LimitedBody, kw_only=True):
    """A text that a person typed, the node types to search, all or some, and the state."""

    # The words of a search box, not a query.
    text: str
    types: list[str] | None = None
    limit: int = DEFAULT_MATCHES


# --- responses, for the OpenAPI document ------------------------------------------------------------------


class MeAnswer(msgspec.Struct, kw_only=True):
    """The owner of the token: its name, which signs commits, and its groups."""

    actor: str
    groups: list[str]
    is_authenticated: bool
    """False on a server that needs no token."""


class BranchActions(msgspec.Struct, kw_only=True):
    """What the actor may do on a branch; `hides_rows` if a rule hides rows of it."""

    name: str
    actions: list[str]
    hides_rows: bool


class GraphMeAnswer(msgspec.Struct, kw_only=True):
    """What the actor may do on the graph as a whole, and on a page of the branches that it may read."""

    actor: str
    groups: list[str]
    graph: str
    read_only: bool
    actions: list[str]
    branches: list[BranchActions]
    next_cursor: str | None


class CancelledAnswer(msgspec.Struct, kw_only=True):
    """Whether a request of that name was running, and now ends."""

    query_id: str
    cancelled: bool


class RunningQuery(msgspec.Struct, kw_only=True):
    """A request of the actor that is running."""

    query_id: str
    route: str
    started_at: str
    seconds: float


class RunningAnswer(msgspec.Struct, kw_only=True):
    """The requests of the actor that are running and have a `query_id`, oldest first."""

    running: list[RunningQuery]


def build_node_keys(nodes: list[NodeKeyBody]) -> list[tuple[str, str]]:
    """Return the nodes of a request as pairs of type and id."""
    return [(node.type, node.id) for node in nodes]
