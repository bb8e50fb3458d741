"""Where a graph lives: a local directory or an S3 prefix."""

import os
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from omnigraph.errors import Kind, OmnigraphError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class BadUriError(OmnigraphError):
    """The text is not the address of a place where a graph can be stored."""

    kind = Kind.USAGE
    code = "bad_uri"

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(uri, reason)
        self.uri, self.reason = uri, reason

    def __str__(self) -> str:
        return f"`{self.uri}` can't hold a graph: {self.reason}"


@dataclass(frozen=True, slots=True)
class Location:
    """An absolute place: a directory of this machine, or a bucket and prefix."""

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

    def child(self, relative: str) -> "Location":
        """The place of an object below this one; `relative` is one of our own keys, never user input."""
        return Location(f"{self.path}/{relative}" if self.path else relative, self.bucket)

    def __str__(self) -> str:
        return self.uri


def parse_uri(text: str) -> Location:
    """A path, `file://…` or `s3://bucket/prefix`; anything else is `BadUriError`."""
    if not text or "\0" in text:
        raise BadUriError(text, "it is empty or has a NUL character")
    if not _SCHEME.match(text):
        return Location(os.path.abspath(os.path.expanduser(text)))  # noqa: PTH100, PTH111 - resolve() follows links
    parts = urlsplit(text)
    scheme = parts.scheme.lower()
    if scheme in ("http", "https"):
        raise BadUriError(text, "it is a server's address; use --server URL --graph ID")
    if scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path:
            raise BadUriError(text, "a file URI has three slashes: file:///directory")
        return Location(os.path.abspath(unquote(parts.path)))  # noqa: PTH100 - as above
    if scheme == "s3":
        prefix = parts.path.strip("/")
        if not parts.netloc or not prefix or parts.query or parts.fragment:
            raise BadUriError(text, "write s3://bucket/prefix")
        if any(segment in ("", ".", "..") for segment in prefix.split("/")):
            raise BadUriError(text, "the prefix has an empty, `.` or `..` segment")
        return Location(prefix, parts.netloc)
    raise BadUriError(text, f"`{scheme}://` is not supported; use a path, file:// or s3://")
