"""What can be wrong with a branch: its name, its being there, its children."""

from omnigraph.errors import MAX_LISTED_NAMES, Kind, OmnigraphError


class BadBranchNameError(OmnigraphError):
    """A name that no branch may have."""

    kind = Kind.USAGE
    code = "bad_branch_name"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason

    def __str__(self) -> str:
        return f"`{self.name}` can't be the name of a branch: {self.reason}"


class BranchMissingError(OmnigraphError):
    """The graph has no branch of that name; `known` are those it has, `near` is the one that was likely meant.

    `tag` is the name if a tag has it: a branch is needed.
    """

    kind = Kind.NOT_FOUND
    code = "branch_not_found"

    def __init__(self, name: str, known: tuple[str, ...], near: str | None = None, tag: str | None = None) -> None:
        super().__init__(name, known, near, tag)
        self.name, self.known, self.near, self.tag = name, known, near, tag

    def facts(self) -> dict[str, object]:
        """The name, and those there are."""
        return {"name": self.name, "known": list(self.known), "near": self.near, "tag": self.tag}

    def __str__(self) -> str:
        if self.tag is not None:
            return (
                f"`{self.name}` is a tag, and this needs a branch; make one of it with"
                f" `omnigraph branch create NAME --from {self.name}`"
            )
        way_out = f"did you mean `{self.near}`?" if self.near else f"it has {_format_names(self.known)}"
        return f"the graph has no branch `{self.name}`; {way_out}"


class BranchGoneError(OmnigraphError):
    """The branch was deleted while it was worked on. Nothing of the work is visible."""

    kind = Kind.CONFLICT
    code = "branch_gone"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return (
            f"the branch `{self.name}` was deleted meanwhile; if there is one of that name again, it is another one:"
            " see `omnigraph branch list`, and start anew"
        )


class BranchExistsError(OmnigraphError):
    """The name is taken: by a branch of that very name, or by one whose path it would extend or be part of."""

    kind = Kind.CONFLICT
    code = "branch_exists"

    def __init__(self, name: str, existing: str, is_for_load: bool = False) -> None:
        super().__init__(name, existing, is_for_load)
        self.name, self.existing = name, existing
        self._is_for_load = is_for_load

    def __str__(self) -> str:
        if self.name == self.existing and self._is_for_load:
            return (
                f"the graph has a branch `{self.name}` already; to load into it leave out `--from`, or add"
                " `--if-exists` (`if_exists`), which makes the branch only if there is none; or choose another name"
            )
        if self.name == self.existing:
            return (
                f"the graph has a branch `{self.name}` already; choose another name,"
                f" or delete it with `omnigraph branch delete {self.name}`"
            )
        return (
            f"there is a branch `{self.existing}`, and of two names neither may begin with the other and a slash:"
            f" choose another name than `{self.name}`"
        )


class BranchHasChildrenError(OmnigraphError):
    """Branches were taken from this one and read their older history there."""

    kind = Kind.CONFLICT
    code = "branch_has_children"

    def __init__(self, name: str, children: tuple[str, ...]) -> None:
        super().__init__(name, children)
        self.name, self.children = name, children

    def facts(self) -> dict[str, object]:
        """The branch, and those that were taken from it."""
        return {"name": self.name, "children": list(self.children)}

    def __str__(self) -> str:
        return f"the branch `{self.name}` can't be deleted before those that were taken from it: {_format_names(self.children)}"


class BranchOutcomeUnknownError(OmnigraphError):
    """A branch may or may not have been made or deleted: the store stopped answering."""

    kind = Kind.UNAVAILABLE
    code = "branch_outcome_unknown"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason

    def __str__(self) -> str:
        return (
            f"what became of the branch `{self.name}` is not known: the store stopped answering ({self.reason})."
            " `omnigraph branch list` tells once it answers again"
        )


def _format_names(names: tuple[str, ...]) -> str:
    more = len(names) - MAX_LISTED_NAMES
    rest = f" and {more} more" if more > 0 else ""
    return f"{', '.join(f'`{name}`' for name in names[:MAX_LISTED_NAMES])}{rest}"
