"""Where a graph lives: a local directory or an S3 prefix."""

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.locations import BadPlaceError, Location, locate, parse_scheme


class BadUriError(OmnigraphError):
    """The text is not the address of a place where a graph can be stored."""

    kind = Kind.USAGE
    code = "bad_uri"

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(uri, reason)
        self.uri, self.reason = uri, reason

    def __str__(self) -> str:
        return f"`{self.uri}` can't hold a graph: {self.reason}"


def parse_uri(text: str) -> Location:
    """A path, `file://…` or `s3://bucket/prefix`; anything else is `BadUriError`."""
    try:
        if parse_scheme(text) in ("http", "https"):
            raise BadUriError(text, "it is a server's address; use --server URL --graph ID")
        return locate(text)
    except BadPlaceError as error:
        raise BadUriError(text, error.reason) from error
