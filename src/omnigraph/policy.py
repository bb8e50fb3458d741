"""Define actions, actors and decisions of a policy, and the check that every operation makes."""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from omnigraph.errors import Kind, OmnigraphError, variant


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """An authenticated actor, and its groups."""

    name: str
    groups: frozenset[str] = frozenset()


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


class DeniedError(OmnigraphError):
    """The policy does not let the actor do this."""

    kind = Kind.DENIED
    code = "denied"
    actor: str
    action: str
    branch: str | None

    def __str__(self) -> str:
        target = "this graph" if self.branch is None else f"the branch `{self.branch}`"
        return f"`{self.actor}` may not `{self.action}` {target}: ask the administrator of the policy to allow it"


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
