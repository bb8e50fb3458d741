"""Tell an actor what the policy lets it do, on the graph and on each branch."""

from collections.abc import Sequence

from omnigraph.commit.manifest_types import MAIN
from omnigraph.json_struct import JsonStruct
from omnigraph.ops.session import Session, find_row_rules, is_readable
from omnigraph.policy import GRAPH_ACTIONS, Access, Action

# What a handle that was opened read-only can do, whatever the policy allows.
_READ_ACTIONS = frozenset({Action.READ, Action.EXPORT, Action.INVOKE_QUERY, Action.GRAPH_LIST})


class BranchPermissions(JsonStruct, frozen=True, kw_only=True):
    """What an actor may do on a branch, and whether rows of it are hidden from the actor."""

    name: str
    actions: tuple[Action, ...]
    hides_rows: bool


class Permissions(JsonStruct, frozen=True, kw_only=True):
    """What an actor may do on the graph as a whole, and on the branches that it may read.

    Without an actor there is no policy, and everything is allowed that the handle can do.
    """

    actor: str | None
    groups: tuple[str, ...]
    read_only: bool
    actions: tuple[Action, ...]
    branches: tuple[BranchPermissions, ...]


def list_permissions(session: Session, branches: Sequence[str] | None = None) -> Permissions:
    """Return what the session's actor may do; of these branches, or of all, those that exist and that it may read."""
    actor = session.actor
    names = (MAIN, *(record.name for record in session.branches.list_records()))
    selected = names if branches is None else [name for name in dict.fromkeys(branches) if name in names]
    readable = [name for name in selected if is_readable(session, name)]
    return Permissions(
        actor=None if actor is None else actor.name,
        groups=() if actor is None else tuple(sorted(actor.groups)),
        read_only=session.is_read_only,
        actions=_list_actions(session, None),
        branches=tuple(
            BranchPermissions(
                name=name,
                actions=_list_actions(session, name),
                hides_rows=find_row_rules(session, name) is not None,
            )
            for name in readable
        ),
    )


def _list_actions(session: Session, branch: str | None) -> tuple[Action, ...]:
    """Return the allowed actions on a branch, or on the graph as a whole."""
    possible = [action for action in Action if action in _READ_ACTIONS or not session.is_read_only]
    if branch is not None:
        possible = [action for action in possible if action not in GRAPH_ACTIONS]
    policy, actor = session.runtime.policy, session.actor
    if policy is None or actor is None:
        return tuple(possible)
    return tuple(
        action
        for action in possible
        if policy.decide(Access(actor=actor, action=action, branch=branch, query=session.through)).is_allowed
    )
