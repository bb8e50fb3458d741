"""Errors about a branch: its existence, its children; and changes whose outcome is not known."""

from omnigraph.commit.manifest_types import MAIN
from omnigraph.errors import MAX_LISTED_NAMES, Kind, MissingError, OmnigraphError, variant


class OutcomeUnknownError(OmnigraphError):
    """The commit may or may not have been published: the store stopped responding. Look up the commit id later."""

    kind = Kind.UNAVAILABLE
    code = "outcome_unknown"
    commit_id: str
    reason: str
    branch: str = MAIN

    def _format_message(self) -> str:
        option = "" if self.branch == MAIN else f" --branch {self.branch}"
        return (
            f"commit {self.commit_id} may or may not have been published: the store stopped responding"
            f" ({self.reason}). Check with `omnigraph commit show {self.commit_id}{option}` once it responds again"
        )

    @variant
    def branch_outcome_unknown(self, name: str, reason: str) -> str:
        """Report that a branch may or may not have been created or deleted: the store stopped responding."""
        return (
            f"the branch `{name}` may or may not have been changed: the store stopped responding ({reason})."
            " Check with `omnigraph branch list` once it responds again"
        )

    @variant
    def tag_outcome_unknown(self, name: str, reason: str) -> str:
        """Report that the store stopped answering while a tag was created or deleted, so the outcome is not known."""
        return (
            f"the outcome for tag `{name}` is not known: the store stopped answering ({reason})."
            " Run `omnigraph tag list` once it answers again"
        )


class BranchMissingError(MissingError):
    """The graph has no branch of that name; `known` lists its branches, `near` is the one that was likely meant.

    `tag` is set to the name if a tag has it: the operation needs a branch.
    """

    kind = Kind.NOT_FOUND
    code = "branch_not_found"
    name: str
    known: tuple[str, ...]
    near: str | None = None
    tag: str | None = None

    def __str__(self) -> str:
        if self.tag is not None:
            return (
                f"`{self.name}` is a tag, and this needs a branch; create one from it with"
                f" `omnigraph branch create NAME --from {self.name}`"
            )
        way_out = f"did you mean `{self.near}`?" if self.near else f"it has {_format_names(self.known)}"
        return f"the graph has no branch `{self.name}`; {way_out}"


class BranchGoneError(OmnigraphError):
    """The branch was deleted while an operation used it. Nothing was committed."""

    kind = Kind.CONFLICT
    code = "branch_gone"
    name: str
    message = (
        "the branch `{name}` was deleted in the meantime; if a branch of that name exists now, it is a"
        " different one: see `omnigraph branch list`, and start again"
    )


class BranchExistsError(OmnigraphError):
    """The name is taken: a branch has it, or has a name that is a path prefix of it or that it is a path prefix of."""

    kind = Kind.CONFLICT
    code = "branch_exists"

    def __init__(self, name: str, existing: str, is_for_load: bool = False) -> None:
        super().__init__(name, existing, is_for_load)
        self.name = name
        self.existing = existing
        self._is_for_load = is_for_load

    def __str__(self) -> str:
        if self.name == self.existing and self._is_for_load:
            return (
                f"the graph has a branch `{self.name}` already; to load into it leave out `--from`, or add"
                " `--if-exists` (`if_exists`), which creates the branch only if it is missing; or choose another name"
            )
        if self.name == self.existing:
            return (
                f"the graph has a branch `{self.name}` already; choose another name,"
                f" or delete it with `omnigraph branch delete {self.name}`"
            )
        return (
            f"`{self.name}` can't be used next to the branch `{self.existing}`: a branch name may not be a path prefix"
            " of another; choose another name"
        )


class BranchHasChildrenError(OmnigraphError):
    """Other branches were created from this one and read their older history from its journal."""

    kind = Kind.CONFLICT
    code = "branch_has_children"
    name: str
    children: tuple[str, ...]

    def __str__(self) -> str:
        children = _format_names(self.children)
        return f"the branch `{self.name}` can't be deleted before the branches that were created from it: {children}"


def _format_names(names: tuple[str, ...]) -> str:
    more = len(names) - MAX_LISTED_NAMES
    rest = f" and {more} more" if more > 0 else ""
    return f"{', '.join(f'`{name}`' for name in names[:MAX_LISTED_NAMES])}{rest}"
