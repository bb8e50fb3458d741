"""What a text says of a place: a path of this machine, `file://…` or `s3://bucket/prefix`; nothing else is one.

Everything that is told where to read or write asks here, so that no address is ever taken for the name of a file.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from omnigraph.errors import Kind, OmnigraphError

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/(?P<second>/?)|(?P<letter>[A-Za-z])://")


class BadPlaceError(OmnigraphError):
    """The text is not the address of a place that can be read from or written to here."""

    kind = Kind.USAGE
    code = "bad_place"

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place, self.reason = place, reason

    def __str__(self) -> str:
        return f"`{self.place}` can't be used: {self.reason}"


@dataclass(frozen=True, slots=True)
class Location:
    """An absolute place: a directory or file of this machine, or a bucket and prefix."""

    path: str
    bucket: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether this is a directory of this machine."""
        return self.bucket is None

    @property
    def uri(self) -> str:
        """The address as Lance and people write it."""
        return self.path if self.bucket is None else f"s3://{self.bucket}/{self.path}"

    def join(self, relative: str) -> "Location":
        """The place of an object below this one; `relative` is one of our own keys, never user input."""
        return Location(f"{self.path}/{relative}" if self.path else relative, self.bucket)

    def __str__(self) -> str:
        return self.uri


def parse_scheme(text: str) -> str | None:
    """Return the scheme of an address in lower case, or None for a path.

    Raises:
        BadPlaceError: It has one slash where an address has two, as a `Path` that is made of an address does.
    """
    found = _SCHEME.match(text)
    if found is None:
        return None
    if found["letter"]:
        return found["letter"].lower()
    if not found["second"]:
        reason = f"an address has two slashes, `{found['scheme']}://`, and is given as a text; a path begins with `./`"
        raise BadPlaceError(text, reason)
    return found["scheme"].lower()


def locate(text: str) -> Location:
    """Return the place that a path, `file://…` or `s3://bucket/prefix` names; BadPlaceError for anything else."""
    if not text:
        raise BadPlaceError(text, "it is empty")
    _check_nul(text, text)
    scheme = parse_scheme(text)
    if scheme is None:
        return Location(os.path.abspath(os.path.expanduser(text)))  # noqa: PTH100, PTH111 - resolve() follows links
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise BadPlaceError(text, f"it is not an address: {error}") from error
    if scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path:
            raise BadPlaceError(text, "a file URI has three slashes: file:///directory")
        if parts.query or parts.fragment:
            raise BadPlaceError(text, "it has a query or fragment; in a name, `?` is written %3F and `#` %23")
        path = unquote(parts.path)
        _check_nul(path, text)
        return Location(os.path.abspath(path))  # noqa: PTH100 - as above
    if scheme == "s3":
        prefix = parts.path.strip("/")
        if not parts.netloc or not prefix or parts.query or parts.fragment:
            raise BadPlaceError(text, "write s3://bucket/prefix")
        if any(segment in ("", ".", "..") for segment in prefix.split("/")):
            raise BadPlaceError(text, "the prefix has an empty, `.` or `..` segment")
        return Location(prefix, parts.netloc)
    raise BadPlaceError(text, f"`{scheme}://` is not supported; use a path, file:// or s3://")


def resolve_local_path(given: str | os.PathLike[str]) -> Path:
    """Return the path of a place that has to be on this machine; a path is returned as it was given.

    Raises:
        BadPlaceError: It is somewhere else.
    """
    text = os.fspath(given)
    if parse_scheme(text) is None:
        _check_nul(text, text)
        return Path(text)
    found = locate(text)
    if not found.is_local:
        raise BadPlaceError(text, "this is written to this machine only; name a path, and copy it from there")
    return Path(found.path)


def _check_nul(path: str, given: str) -> None:
    if "\0" in path:
        raise BadPlaceError(given, "it has a NUL character, which no name has")
