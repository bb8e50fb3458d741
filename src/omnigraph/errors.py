"""Define the base class of all errors, and errors that several packages raise.

The kind shows what a caller can do, the code names the case, and fields hold the facts. They are declared once: the
constructor, the message, the facts of `--json` and pickling follow from the declaration.
"""

from enum import Enum
from typing import ClassVar, dataclass_transform

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


class _FieldSignature:
    """The signature of an error class for `inspect.signature`, built from its fields on demand."""

    def __get__(self, error: object, owner: type["OmnigraphError"]) -> object:
        # Only tools need it, and `import omnigraph` must stay cheap.
        from inspect import Parameter, Signature  # noqa: PLC0415

        if owner.__init__ is not OmnigraphError.__init__:
            message = f"{owner.__name__} defines its own constructor"
            raise AttributeError(message)
        kind = Parameter.POSITIONAL_OR_KEYWORD
        return Signature(
            [
                Parameter(name, kind, default=getattr(owner, name, Parameter.empty), annotation=annotation)
                for name, annotation in owner._fields.items()
            ]
        )


@dataclass_transform()
class OmnigraphError(Exception):
    """The base class of every error that omnigraph raises on purpose.

    A subclass declares its fields like a dataclass, and its message as a template over them. One whose text depends on
    more than its fields defines `__str__`. The fields are kept in `args` too, so that an error pickles.
    """

    kind: ClassVar[Kind] = Kind.INTERNAL
    code: ClassVar[str] = "internal"
    message: ClassVar[str] = ""

    _fields: ClassVar[dict[str, object]] = {}
    __signature__: ClassVar[object] = _FieldSignature()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._fields = {**cls._fields, **cls.__annotations__}

    def __init__(self, *values: object, **named: object) -> None:
        names = tuple(self._fields)
        rest = names[len(values) :]
        missing = [name for name in rest if name not in named and not hasattr(type(self), name)]
        # A class without fields has its own constructor, which passes what it keeps in `args`.
        if names and (missing or len(values) > len(names) or not named.keys() <= set(rest)):
            message = f"{type(self).__name__} takes {', '.join(names)}"
            raise TypeError(message)
        super().__init__(*values, *(named.get(name, getattr(type(self), name, None)) for name in rest))
        vars(self).update(zip(names, self.args, strict=False))

    def __str__(self) -> str:
        return self.message.format_map(vars(self)) if self.message else super().__str__()

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
    path: str
    message = "there is no file `{path}`; check the path and the working directory"


class DirectoryMissingError(OmnigraphError):
    """A file is to be written into a directory that does not exist."""

    kind = Kind.NOT_FOUND
    code = "directory_not_found"
    path: str
    file: str
    message = "there is no directory `{path}` to write `{file}` in: make it first, or check the path"


class NotAFileError(OmnigraphError):
    """A directory, or another object without text, was named where a file is needed."""

    kind = Kind.INVALID
    code = "not_a_file"
    path: str
    message = "`{path}` is a directory; name a file in it"


class FileDeniedError(OmnigraphError):
    """The permissions of a file do not allow the access."""

    kind = Kind.DENIED
    code = "file_denied"
    path: str
    action: str
    message = "no permission to {action} `{path}`; change its mode or run as its owner"


class FileUnreadableError(OmnigraphError):
    """The system can't read or write an existing file now."""

    kind = Kind.UNAVAILABLE
    code = "file_unreadable"
    path: str
    reason: str
    message = "can't read or write `{path}`: {reason}"


class TextEncodingError(OmnigraphError):
    """A text is not UTF-8; `offset` is the first invalid byte."""

    kind = Kind.INVALID
    code = "not_utf8"
    path: str
    offset: int
    byte: int
    message = "`{path}` is not UTF-8: byte 0x{byte:02x} at offset {offset}; save it as UTF-8"


class TextTooLargeError(OmnigraphError):
    """A schema or query text exceeds the size limit."""

    kind = Kind.EXHAUSTED
    code = "text_too_large"
    path: str
    limit: int
    message = "`{path}` has more than {limit} bytes, the limit for a schema or query file; split it"


class QueryMissingError(OmnigraphError):
    """A file has no query of this name; `near` is the name that was likely meant, `names` are its queries."""

    kind = Kind.NOT_FOUND
    code = "query_not_found"
    name: str
    source: str
    near: str | None
    names: tuple[str, ...] = ()

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
    source: str
    names: tuple[str, ...]

    def facts(self) -> dict[str, object]:
        """Return the source, and the names to choose from."""
        return {"source": self.source, "names": list(self.names)}

    def __str__(self) -> str:
        return f"`{self.source}` has {len(self.names)} queries; name one: {', '.join(self.names)}"


class NotAMutationError(OmnigraphError):
    """A query that only reads was passed where a mutation is needed."""

    kind = Kind.INVALID
    code = "not_a_mutation"
    name: str
    message = "the query `{name}` only reads; run it as a query, not as a mutation"


class NotAReadError(OmnigraphError):
    """A query that changes the graph was passed where only reads are allowed."""

    kind = Kind.INVALID
    code = "not_a_read"
    name: str
    message = "the query `{name}` changes the graph; run it as a mutation, not as a query"


class SparkMissingError(OmnigraphError):
    """Spark is needed but not installed."""

    kind = Kind.USAGE
    code = "spark_missing"
    module: str
    message = "this needs Spark ({module} is not installed): `pip install 'omnigraph[spark]'`"


class ServerMissingError(OmnigraphError):
    """The server is needed but not installed."""

    kind = Kind.USAGE
    code = "server_missing"
    module: str

    def __str__(self) -> str:
        extra = "mcp" if self.module.startswith("mcp") else "server"
        return f"this needs the server ({self.module} is not installed): `pip install 'omnigraph[{extra}]'`"


class OutputError(OmnigraphError):
    """The output of a command could not be written: a full disk, a closed file."""

    kind = Kind.UNAVAILABLE
    code = "output_failed"
    reason: str
    message = "can't write the output: {reason}"
