"""Define the error of guards that find a bug of omnigraph itself."""

from omnigraph.errors import Kind, OmnigraphError, variant


class BugError(OmnigraphError):
    """A guard found a bug of omnigraph before it did harm: please report it."""

    kind = Kind.INTERNAL

    @variant
    def demo_failed(self, command: str, expected: int, found: int) -> str:
        """Report that a step of the tour did not end as expected; its output shows why."""
        return f"the tour stops here: `{command}` ended with exit code {found} instead of {expected}"

    @variant
    def search_not_here(self, function: str) -> str:
        """Report that a text search reached the evaluation of column values; the planner should keep them apart."""
        return f"`{function}` can't be evaluated by comparing values: please report this as a bug, with the query"

    @variant
    def purge_mismatch(self, path: str, expected: int, found: int) -> str:
        """Report that rewritten files do not have the rows of those that they replace. None of them is used."""
        return (
            f"rewriting {expected} rows of {path} produced {found}; nothing was changed."
            " This is a bug: please report it"
        )

    @variant
    def rewrite_mismatch(self, path: str, expected: int, found: int) -> str:
        """Report that a compaction wrote another number of rows than it read. None of it is used."""
        return (
            f"compacting {expected} rows of {path} produced {found}; nothing was changed."
            " This is a bug: please report it"
        )

    @variant
    def stale_base(self, path: str, base: int, found: int) -> str:
        """Report that a staged write other than an append was about to be applied to a version that is not its base."""
        return (
            f"a write of {path} was staged on version {base}, not {found};"
            " applying it there would restore deleted rows, or duplicate rows"
        )

    @variant
    def task_broken(self, reason: str, place: str) -> str:
        """Report that a task failed in omnigraph's own code, on an executor."""
        return f"this is a bug of omnigraph, in a task on Spark: {reason} ({place}); please report it"
