"""Who may do what: the words of it, and the one question that every verb asks. Who answers is chosen by a door."""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from omnigraph.errors import Kind, OmnigraphError


class Action(Enum):
    """What an actor may be allowed to do."""

    READ = "read"
    """Ask, explain, look at schemas, branches, commits and differences."""
    EXPORT = "export"
    """Take whole tables away."""
    CHANGE = "change"
    """Write rows: mutations, loads, vectors."""
    SCHEMA_APPLY = "schema_apply"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    """Merge into a branch; what is merged has to be read as well."""
    INVOKE_QUERY = "invoke_query"
    """Run a stored query, which also needs what the query itself does."""
    MAINTAIN = "maintain"
    """Optimise, repair, clean up."""
    GRAPH_LIST = "graph_list"
    """See that there is a graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Somebody who was recognised, and the groups that they are in."""

    name: str
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What somebody wants to do to a branch, or to the graph as a whole (`branch` is None).

    `query` is the stored query on whose behalf it happens.
    """

    actor: Actor
    action: Action
    branch: str | None = None
    query: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer, and the names of the rules that led to it; none when nothing allowed it."""

    is_allowed: bool
    reasons: tuple[str, ...] = ()


class Policy(Protocol):
    """Decides for one graph. Safe from several threads, and quick: every verb asks at its start."""

    def decide(self, access: Access) -> Decision:
        """Whether it may be done."""
        ...


class DeniedError(OmnigraphError):
    """The policy does not let the actor do this."""

    kind = Kind.DENIED
    code = "denied"

    def __init__(self, actor: str, action: str, branch: str | None) -> None:
        super().__init__(actor, action, branch)
        self.actor, self.action, self.branch = actor, action, branch

    def __str__(self) -> str:
        place = "this graph" if self.branch is None else f"the branch `{self.branch}`"
        return f"`{self.actor}` may not `{self.action}` {place}: whoever keeps the policy can allow it"


class NobodyActsError(OmnigraphError):
    """There is a policy, and the handle does not say for whom it acts."""

    kind = Kind.DENIED
    code = "nobody_acts"

    def __str__(self) -> str:
        return "this graph has a policy, and this handle acts for nobody: use `graph.acting_as(actor)`"


class ActorDiffersError(OmnigraphError):
    """A handle that acts for one actor was told to sign as another."""

    kind = Kind.DENIED
    code = "actor_differs"

    def __init__(self, actor: str, named: str) -> None:
        super().__init__(actor, named)
        self.actor, self.named = actor, named

    def __str__(self) -> str:
        return f"this handle acts for `{self.actor}` and can't sign as `{self.named}`: leave the actor out"


def require(policy: Policy, actor: Actor | None, action: Action, branch: str | None, query: str | None) -> None:
    """Nothing when the policy allows it; else NobodyActsError or DeniedError.

    Of a branch or graph that the actor can't read, the error says just that, whatever was wanted: it tells no more of
    those that are there than of those that are not.
    """
    if actor is None:
        raise NobodyActsError
    if policy.decide(Access(actor=actor, action=action, branch=branch, query=query)).is_allowed:
        return
    if action is not Action.READ:
        read = Access(actor=actor, action=Action.READ, branch=branch, query=query)
        if not policy.decide(read).is_allowed:
            raise DeniedError(actor.name, Action.READ.value, branch)
    raise DeniedError(actor.name, action.value, branch)
