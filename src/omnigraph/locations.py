"""Parse locations: a local path, `file://…`, `s3://bucket/prefix` (also `s3a://`) or `az://container/prefix`.

All code that reads or writes a location given by a user parses it here, so that no address is ever taken for a file
name.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from omnigraph.errors import BadArgumentError

# The names by which Hadoop and Spark call addresses on S3.
_S3_ALIASES = frozenset({"s3a", "s3n"})
# What a container of Azure is called instead of a bucket's name, so that the two are never taken for each other.
AZURE = "az://"
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/(?P<second>/?)|(?P<letter>[A-Za-z])://")


@dataclass(frozen=True, slots=True)
class Location:
    """An absolute location: a local directory or file, or a bucket and prefix."""

    path: str
    bucket: str | None = None
    """The name of a bucket of S3, or `az://` and that of a container of Azure."""

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return self.bucket is None

    @property
    def uri(self) -> str:
        """The address as Lance and users write it."""
        return self.path if self.bucket is None else format_address(self.bucket, self.path)

    def join(self, relative: str) -> "Location":
        """Return the location of an object below this one; `relative` is one of our own keys, never user input."""
        return Location(f"{self.path}/{relative}" if self.path else relative, self.bucket)

    def __str__(self) -> str:
        return self.uri


def format_address(bucket: str, key: str) -> str:
    """Return the address of an object, of a bucket as a `Location` names it."""
    return f"{bucket}/{key}" if bucket.startswith(AZURE) else f"s3://{bucket}/{key}"


def parse_scheme(text: str) -> str | None:
    """Return the scheme of an address in lower case, or None for a path; `s3a` and `s3n` are `s3`.

    Raises:
        BadArgumentError: It has one slash instead of two, as a `Path` built from an address has, or is `dbfs:` or
            `abfss:`.
    """
    match = _SCHEME.match(text)
    if match is None:
        return None
    if match["letter"]:
        return match["letter"].lower()
    if match["scheme"].lower() == "dbfs":
        reason = "files of Databricks are paths here: write /Volumes/…, or /dbfs/… where that is mounted"
        raise BadArgumentError.bad_place(text, reason)
    if match["scheme"].lower() in ("abfs", "abfss"):
        reason = "write az://container/…, and name the account in AZURE_STORAGE_ACCOUNT_NAME"
        raise BadArgumentError.bad_place(text, reason)
    if not match["second"]:
        reason = f"write an address as a text with two slashes, `{match['scheme']}://`, or begin a path with `./`"
        raise BadArgumentError.bad_place(text, reason)
    scheme = match["scheme"].lower()
    return "s3" if scheme in _S3_ALIASES else scheme


def locate(text: str) -> Location:
    """Return the location that a path, `file://…`, `s3://bucket/prefix` or `az://container/prefix` names.

    Raises:
        BadArgumentError: It has another form.
    """
    if not text:
        raise BadArgumentError.bad_place(text, "it is empty")
    _check_nul(text, text)
    scheme = parse_scheme(text)
    if scheme is None:
        return Location(os.path.abspath(os.path.expanduser(text)))  # noqa: PTH100, PTH111 - resolve() follows links
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise BadArgumentError.bad_place(text, f"it is not an address: {error}") from error
    if scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path:
            raise BadArgumentError.bad_place(text, "a file URI has three slashes: file:///directory")
        if parts.query or parts.fragment:
            raise BadArgumentError.bad_place(
                text, "it has a query or fragment; in a name, `?` is written %3F and `#` %23"
            )
        # The first check saw %00 as text, so the decoded path is checked again.
        path = unquote(parts.path)
        _check_nul(path, text)
        return Location(os.path.abspath(path))  # noqa: PTH100 - as above
    if scheme in ("s3", "az"):
        prefix = parts.path.strip("/")
        if not parts.netloc or not prefix or parts.query or parts.fragment:
            raise BadArgumentError.bad_place(
                text, f"write {'s3://bucket' if scheme == 's3' else 'az://container'}/prefix"
            )
        if any(segment in ("", ".", "..") for segment in prefix.split("/")):
            raise BadArgumentError.bad_place(text, "the prefix has an empty, `.` or `..` segment")
        return Location(prefix, parts.netloc if scheme == "s3" else f"{AZURE}{parts.netloc}")
    raise BadArgumentError.bad_place(text, f"`{scheme}://` is not supported; use a path, file://, s3:// or az://")


def resolve_local_path(target: str | os.PathLike[str]) -> Path:
    """Return the path of a location that must be on this machine; a path is returned unchanged.

    Raises:
        BadArgumentError: It is not on this machine.
    """
    text = os.fspath(target)
    if parse_scheme(text) is None:
        _check_nul(text, text)
        return Path(text)
    location = locate(text)
    if not location.is_local:
        raise BadArgumentError.bad_place(
            text, "this can only be written to this machine; name a local path, and copy the file from there"
        )
    return Path(location.path)


def _check_nul(path: str, text: str) -> None:
    if "\0" in path:
        raise BadArgumentError.bad_place(text, "it has a NUL character, which no file name can have")
