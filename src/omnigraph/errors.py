"""Define the base class of all errors, and errors that several packages raise.

The kind shows what a caller can do, the code names the case, and attributes hold the facts. An error keeps its facts in
`args`, so that it can be pickled out of a worker process; `__str__` builds the message.
"""

from enum import Enum
from typing import ClassVar

# Larger integers are not exact in parsers that read JSON numbers as floating point.
_MAX_JSON_INTEGER = 2**53 - 1
# The number of names that a message lists; `facts` has them all.
MAX_LISTED_NAMES = 10


class Kind(Enum):
    """What a caller can do about an error; the command line maps it to an exit code."""

    INVALID = "invalid"
    """The input is wrong: change it."""
    USAGE = "usage"
    """The call is wrong: read the help."""
    CONFLICT = "conflict"
    """Another writer was first: read again and retry."""
    NOT_FOUND = "not_found"
    """The thing named does not exist: check the name."""
    DENIED = "denied"
    """The actor may not do this: ask for the permission."""
    EXHAUSTED = "exhausted"
    """A budget of time, memory or size ran out: ask for less, or raise the budget."""
    UNAVAILABLE = "unavailable"
    """The storage or server did not answer: retry later."""
    CORRUPT = "corrupt"
    """The stored data is damaged or has another format: run `omnigraph check`."""
    INTERNAL = "internal"
    """A bug of omnigraph: please report it."""


class OmnigraphError(Exception):
    """The base class of every error that omnigraph raises on purpose."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    code: ClassVar[str] = "internal"

    def facts(self) -> dict[str, object]:
        """Return the error's own attributes by name, which `--json` prints beside code, kind and message.

        A number that JSON can't hold exactly, such as a table version, is text.
        """
        attributes = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return {
            name: str(value) if isinstance(value, int) and abs(value) > _MAX_JSON_INTEGER else value
            for name, value in attributes.items()
        }


class FileMissingError(OmnigraphError):
    """A file that was named on the command line or in a call does not exist."""

    kind = Kind.NOT_FOUND
    code = "file_not_found"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"there is no file `{self.path}`; check the path and the working directory"


class DirectoryMissingError(OmnigraphError):
    """A file is to be written into a directory that does not exist."""

    kind = Kind.NOT_FOUND
    code = "directory_not_found"

    def __init__(self, path: str, file: str) -> None:
        super().__init__(path, file)
        self.path, self.file = path, file

    def __str__(self) -> str:
        return f"there is no directory `{self.path}` to write `{self.file}` in: make it first, or check the path"


class NotAFileError(OmnigraphError):
    """A directory, or another object without text, was named where a file is needed."""

    kind = Kind.INVALID
    code = "not_a_file"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"`{self.path}` is a directory; name a file in it"


class FileDeniedError(OmnigraphError):
    """The permissions of a file do not allow the access."""

    kind = Kind.DENIED
    code = "file_denied"

    def __init__(self, path: str, action: str) -> None:
        super().__init__(path, action)
        self.path, self.action = path, action

    def __str__(self) -> str:
        return f"no permission to {self.action} `{self.path}`; change its mode or run as its owner"


class FileUnreadableError(OmnigraphError):
    """The system can't read or write an existing file now."""

    kind = Kind.UNAVAILABLE
    code = "file_unreadable"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"can't read or write `{self.path}`: {self.reason}"


class TextEncodingError(OmnigraphError):
    """A text is not UTF-8; `offset` is the first invalid byte."""

    kind = Kind.INVALID
    code = "not_utf8"

    def __init__(self, path: str, offset: int, byte: int) -> None:
        super().__init__(path, offset, byte)
        self.path = path
        self.offset = offset
        self.byte = byte

    def __str__(self) -> str:
        return f"`{self.path}` is not UTF-8: byte 0x{self.byte:02x} at offset {self.offset}; save it as UTF-8"


class TextTooLargeError(OmnigraphError):
    """A schema or query text exceeds the size limit."""

    kind = Kind.EXHAUSTED
    code = "text_too_large"

    def __init__(self, path: str, limit: int) -> None:
        super().__init__(path, limit)
        self.path, self.limit = path, limit

    def __str__(self) -> str:
        return f"`{self.path}` has more than {self.limit} bytes, the limit for a schema or query file; split it"


class QueryMissingError(OmnigraphError):
    """A file has no query of this name; `near` is the name that was likely meant, `names` are its queries."""

    kind = Kind.NOT_FOUND
    code = "query_not_found"

    def __init__(self, name: str, source: str, near: str | None, names: tuple[str, ...] = ()) -> None:
        super().__init__(name, source, near, names)
        self.name = name
        self.source = source
        self.near = near
        self.names = names

    def facts(self) -> dict[str, object]:
        """Return the requested name, where it was looked up, and the names that exist."""
        return {"name": self.name, "source": self.source, "near": self.near, "names": list(self.names)}

    def __str__(self) -> str:
        if not self.name:
            return f"`{self.source}` holds no query"
        return f"`{self.source}` holds no query `{self.name}`{self._format_hint()}"

    def _format_hint(self) -> str:
        if self.near:
            return f"; did you mean `{self.near}`?"
        if not self.names:
            return ""
        more = len(self.names) - MAX_LISTED_NAMES
        rest = f" and {more} more" if more > 0 else ""
        return f"; it has {', '.join(f'`{name}`' for name in self.names[:MAX_LISTED_NAMES])}{rest}"


class QueryAmbiguousError(OmnigraphError):
    """A source has several queries, and none was named."""

    kind = Kind.USAGE
    code = "query_ambiguous"

    def __init__(self, source: str, names: tuple[str, ...]) -> None:
        super().__init__(source, names)
        self.source, self.names = source, names

    def facts(self) -> dict[str, object]:
        """Return the source, and the names to choose from."""
        return {"source": self.source, "names": list(self.names)}

    def __str__(self) -> str:
        return f"`{self.source}` has {len(self.names)} queries; name one: {', '.join(self.names)}"


class NotAMutationError(OmnigraphError):
    """A query that only reads was passed where a mutation is needed."""

    kind = Kind.INVALID
    code = "not_a_mutation"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"the query `{self.name}` only reads; run it as a query, not as a mutation"


class NotAReadError(OmnigraphError):
    """A query that changes the graph was passed where only reads are allowed."""

    kind = Kind.INVALID
    code = "not_a_read"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"the query `{self.name}` changes the graph; run it as a mutation, not as a query"


class SparkMissingError(OmnigraphError):
    """Spark is needed but not installed."""

    kind = Kind.USAGE
    code = "spark_missing"

    def __init__(self, module: str) -> None:
        super().__init__(module)
        self.module = module

    def __str__(self) -> str:
        return f"this needs Spark ({self.module} is not installed): `pip install 'omnigraph[spark]'`"


class ServerMissingError(OmnigraphError):
    """The server is needed but not installed."""

    kind = Kind.USAGE
    code = "server_missing"

    def __init__(self, module: str) -> None:
        super().__init__(module)
        self.module = module

    def __str__(self) -> str:
        extra = "mcp" if self.module.startswith("mcp") else "server"
        return f"this needs the server ({self.module} is not installed): `pip install 'omnigraph[{extra}]'`"


class OutputError(OmnigraphError):
    """The output of a command could not be written: a full disk, a closed file."""

    kind = Kind.UNAVAILABLE
    code = "output_failed"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"can't write the output: {self.reason}"
