"""Define actions, actors and decisions of a policy, and the check that every operation makes."""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from omnigraph.errors import Kind, OmnigraphError, variant
from omnigraph.row_rules import RowRules


class Action(Enum):
    """What an actor may be allowed to do."""

    READ = "read"
    """Query, explain, and inspect schemas, branches, commits and differences."""
    EXPORT = "export"
    """Export whole tables."""
    CHANGE = "change"
    """Write rows: mutations, loads, vectors."""
    SCHEMA_APPLY = "schema_apply"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    """Merge into a branch; the source needs the permission to read too."""
    RESET = "reset"
    """Return a branch to another state; that state needs the permission to read too."""
    INVOKE_QUERY = "invoke_query"
    """Run a stored query, which also needs the permission for what the query does."""
    MAINTAIN = "maintain"
    """Optimise, repair, clean up."""
    GRAPH_LIST = "graph_list"
    """See that the graph exists."""
    GRAPH_CREATE = "graph_create"
    """Create a graph of this name on a server that has a place for such graphs."""
    GRAPH_DELETE = "graph_delete"
    """Delete a graph that was created so, with all its data."""


# A policy allows these only if it names them: one about every action is older than they are.
NAMED_ACTIONS = frozenset({Action.GRAPH_CREATE, Action.GRAPH_DELETE})
# The actions that concern a graph, never a branch: a policy whose resource is a `Branch` does not allow them.
GRAPH_ACTIONS = frozenset({Action.GRAPH_LIST, *NAMED_ACTIONS})


# A value that rules about rows compare with properties.
AttributeValue: TypeAlias = str | bool | int | tuple[str | bool | int, ...]


_INTEGERS = range(-(2**63), 2**63)
_MAX_ATTRIBUTE_VALUES = 1_000


def parse_attribute(value: object) -> AttributeValue | None:
    """Return a value of settings or claims as an attribute of an actor; None if it can't be one."""
    if isinstance(value, list):
        if len(value) > _MAX_ATTRIBUTE_VALUES:
            return None
        parsed = [parse_attribute(element) for element in value]
        # Sorted by type too: a set that is written in another order is the same set.
        elements = sorted((one for one in parsed if isinstance(one, str | int)), key=lambda one: (str(type(one)), one))
        return tuple(elements) if len(elements) == len(value) else None
    if isinstance(value, bool | str) or (isinstance(value, int) and value in _INTEGERS):
        return value
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """An authenticated actor, its groups, and its attributes, which rules about rows may read."""

    name: str
    groups: frozenset[str] = frozenset()
    attributes: tuple[tuple[str, AttributeValue], ...] = ()
    """Names with values, sorted by name; a tuple is a set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """An access to a branch, or to the graph as a whole (`branch` is None).

    `query` is the stored query that makes it.
    """

    actor: Actor
    action: Action
    branch: str | None = None
    query: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The decision on an access, and the names of the rules that led to it; none if no rule allowed it."""

    is_allowed: bool
    reasons: tuple[str, ...] = ()


class Policy(Protocol):
    """Decides on accesses to one graph. Thread-safe, and fast: every operation calls it at its start."""

    def decide(self, access: Access) -> Decision:
        """Return the decision on an access."""
        ...

    def find_row_rules(self, actor: Actor, branch: str | None, query: str | None) -> RowRules | None:
        """Return which rows of a branch an actor sees, through a stored query if one is named; None means all.

        Without a branch, a rule about some branch permits nothing, and forbids.
        """
        ...

    # A rename asks, because rules go by the names of the state that is read.
    def names_type(self, name: str) -> bool:
        """Return whether a rule about rows may name a type."""
        ...


class DeniedError(OmnigraphError):
    """The policy does not let the actor do this."""

    kind = Kind.DENIED
    code = "denied"
    actor: str
    action: str
    branch: str | None

    def __str__(self) -> str:
        if self.code in self.variants:
            return super().__str__()
        target = "this graph" if self.branch is None else f"the branch `{self.branch}`"
        return f"`{self.actor}` may not `{self.action}` {target}: ask the administrator of the policy to allow it"

    @variant
    def rows_hidden(self, actor: str, branch: str | None) -> str:
        """Report that the policy may hide rows from the actor, and the operation is for actors who see all."""
        target = "this graph" if branch is None else f"the branch `{branch}`"
        return f"`{actor}` may not see every row of {target}, and this operation needs an actor who does"

    @variant
    def row_hidden(self, type: str, id: str) -> str:
        """Report that a row with the id of a written one is hidden from its author."""
        return f"{type} `{id}`: there is a row with this id that you may not see, so it can't be written"

    @variant
    def edge_hidden(self, type: str) -> str:
        """Report that a node that would be deleted has an edge that is hidden from the author."""
        return f"a node can't be deleted while it has edges of {type} that you may not see"

    @variant
    def row_out_of_sight(self, type: str, id: str) -> str:
        """Report that the author would not see a row after writing it."""
        return f"{type} `{id}`: you could not see the row after this, so it can't be written; see the policy about rows"

    @variant
    def graphs_fixed(self) -> str:
        """Report that a server has no place for graphs of clients."""
        return "this server does not let clients create or delete graphs: `graph_root` in its settings does"

    @variant
    def graph_configured(self, graph: str) -> str:
        """Report that a graph is part of a server's settings, so that no client can delete it."""
        return f"the graph `{graph}` is named by the settings of the server, which only its operator changes"

    @variant
    def rules_name_type(self, old: str, new: str) -> str:
        """Report that rules about rows name a type's old name or its new one, but not both."""
        return (
            f"the type `{old}` can't become `{new}`: the policy about rows names one of them and not the other, so that"
            " other rows would be seen; name both in the policy first, or none"
        )


class WrongActorError(OmnigraphError):
    """A handle acts for another actor, or for none."""

    kind = Kind.DENIED

    @variant
    def nobody_acts(self) -> str:
        """Report that the graph has a policy, and the handle has no actor."""
        return "this graph has a policy, and this handle has no actor: use `graph.acting_as(actor)`"

    @variant
    def actor_differs(self, actor: str, named: str) -> str:
        """Report that a handle that acts for one actor was asked to sign as another."""
        return f"this handle acts for `{actor}` and can't sign as `{named}`: leave the actor out"


def require(policy: Policy, actor: Actor | None, action: Action, branch: str | None, query: str | None) -> None:
    """Check that the policy allows an access.

    Raises:
        WrongActorError: There is no actor.
        DeniedError: It is not allowed. If the actor can't even read the branch or graph, the error reports only that.
    """
    if actor is None:
        raise WrongActorError.nobody_acts()
    if policy.decide(Access(actor=actor, action=action, branch=branch, query=query)).is_allowed:
        return
    # To an actor that can't read it, a branch that exists must look like one that does not.
    if action is not Action.READ:
        read = Access(actor=actor, action=Action.READ, branch=branch, query=query)
        if not policy.decide(read).is_allowed:
            raise DeniedError(actor.name, Action.READ.value, branch)
    raise DeniedError(actor.name, action.value, branch)
