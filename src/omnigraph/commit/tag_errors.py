"""Define the errors of tags."""

from omnigraph.errors import MAX_LISTED_NAMES, Kind, MissingError, OmnigraphError


class TagExistsError(OmnigraphError):
    """A tag with this name exists already; a name stands for one state."""

    kind = Kind.CONFLICT
    code = "tag_exists"
    name: str
    message = (
        "the graph has a tag `{name}` already; choose another name, or delete it with `omnigraph tag delete {name}`"
    )


class TagMissingError(MissingError):
    """The graph has no tag with this name; `known` are its tags, `near` is the one that was likely meant."""

    kind = Kind.NOT_FOUND
    code = "tag_not_found"
    name: str
    known: tuple[str, ...]
    near: str | None = None

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
