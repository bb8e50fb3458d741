"""One tree of errors: the kind says what to do, the code names the case, the facts are attributes.

An error keeps its facts in `args`, so it pickles out of a worker process; the story is told by `__str__`.
"""

from enum import Enum
from typing import ClassVar


class Kind(Enum):
    """What a caller can do about an error; the command line turns it into an exit code."""

    INVALID = "invalid"
    """The input is wrong: change it."""
    USAGE = "usage"
    """The call is wrong: read the help."""
    CONFLICT = "conflict"
    """Somebody else was first: read again and retry."""
    NOT_FOUND = "not_found"
    """The thing named does not exist: check the name."""
    DENIED = "denied"
    """The actor may not do this: ask for the permission."""
    EXHAUSTED = "exhausted"
    """A budget of time, memory or size ran out: ask for less, or raise the budget."""
    UNAVAILABLE = "unavailable"
    """The storage or server did not answer: retry later."""
    CORRUPT = "corrupt"
    """What is stored is damaged or of another format: run `omnigraph check`."""
    INTERNAL = "internal"
    """A bug of omnigraph: please report it."""


class OmnigraphError(Exception):
    """The root of every error that omnigraph raises on purpose."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    code: ClassVar[str] = "internal"

    def facts(self) -> dict[str, object]:
        """The error's own attributes, by name: what `--json` prints beside code, kind and message."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


class FileMissingError(OmnigraphError):
    """A file that was named on the command line or in a call does not exist."""

    kind = Kind.NOT_FOUND
    code = "file_not_found"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"there is no file `{self.path}`; check the path and the working directory"


class FileUnreadableError(OmnigraphError):
    """A file exists but can't be read, or is something other than a file."""

    kind = Kind.UNAVAILABLE
    code = "file_unreadable"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"can't read `{self.path}`: {self.reason}"
