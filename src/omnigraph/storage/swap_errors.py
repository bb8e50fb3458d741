"""Errors of compare-and-swap tables, for rooms that may not touch such tables themselves."""

from omnigraph.errors import Kind, OmnigraphError


class SwapLostError(OmnigraphError):
    """Somebody else made the next version first."""

    kind = Kind.CONFLICT
    code = "swap_lost"

    def __init__(self, path: str, version: int) -> None:
        super().__init__(path, version)
        self.path, self.version = path, version

    def __str__(self) -> str:
        return f"{self.path} has moved on from version {self.version}"


class TableMissingError(OmnigraphError):
    """There is no such table, or nothing that can be read as one."""

    kind = Kind.NOT_FOUND
    code = "table_missing"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"there is no table at {self.path}"


class NewestVersionDamagedError(OmnigraphError):
    """The newest version of a table can't be read, for instance after a power loss without flush."""

    kind = Kind.CORRUPT
    code = "newest_version_damaged"

    def __init__(self, path: str, version: int, readable: int, reason: str) -> None:
        super().__init__(path, version, readable, reason)
        self.path, self.version, self.readable, self.reason = path, version, readable, reason

    def __str__(self) -> str:
        return (
            f"version {self.version} of {self.path}, the newest, can't be read ({self.reason})."
            " Older commits are intact:"
            " read one with --snapshot, and run `omnigraph repair` to go back to the newest readable one"
        )


class DamagedError(OmnigraphError):
    """Something that is stored can't be read, although the store answers."""

    kind = Kind.CORRUPT
    code = "damaged"

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place, self.reason = place, reason

    def __str__(self) -> str:
        return f"{self.place} can't be read ({self.reason}): run `omnigraph check`, which tells what to do"
