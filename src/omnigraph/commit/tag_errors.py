"""Define the errors of tags."""

from omnigraph.errors import MAX_LISTED_NAMES, Kind, OmnigraphError


class BadTagNameError(OmnigraphError):
    """A name that no tag may have."""

    kind = Kind.USAGE
    code = "bad_tag_name"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason

    def __str__(self) -> str:
        return f"`{self.name}` can't be the name of a tag: {self.reason}"


class TagExistsError(OmnigraphError):
    """A tag with this name exists already; a name stands for one state."""

    kind = Kind.CONFLICT
    code = "tag_exists"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return (
            f"the graph has a tag `{self.name}` already; choose another name,"
            f" or delete it with `omnigraph tag delete {self.name}`"
        )


class TagMissingError(OmnigraphError):
    """The graph has no tag with this name; `known` are its tags, `near` is the one that was likely meant."""

    kind = Kind.NOT_FOUND
    code = "tag_not_found"

    def __init__(self, name: str, known: tuple[str, ...], near: str | None = None) -> None:
        super().__init__(name, known, near)
        self.name = name
        self.known = known
        self.near = near

    def facts(self) -> dict[str, object]:
        """Return the name, the tags of the graph, and the suggestion."""
        return {"name": self.name, "known": list(self.known), "near": self.near}

    def __str__(self) -> str:
        return f"the graph has no tag `{self.name}`; {self._format_hint()}"

    def _format_hint(self) -> str:
        if self.near:
            return f"did you mean `{self.near}`?"
        if not self.known:
            return "it has none"
        # A graph may have thousands of tags; `facts` lists them all.
        more = len(self.known) - MAX_LISTED_NAMES
        rest = f" and {more} more" if more > 0 else ""
        return f"it has {', '.join(f'`{name}`' for name in self.known[:MAX_LISTED_NAMES])}{rest}"


class TagOutcomeUnknownError(OmnigraphError):
    """The store stopped answering while a tag was created or deleted, so the outcome is not known."""

    kind = Kind.UNAVAILABLE
    code = "tag_outcome_unknown"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason

    def __str__(self) -> str:
        return (
            f"the outcome for tag `{self.name}` is not known: the store stopped answering ({self.reason})."
            " Run `omnigraph tag list` once it answers again"
        )
