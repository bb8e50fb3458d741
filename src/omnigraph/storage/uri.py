"""Parse the URI of a graph: a local directory or an S3 prefix."""

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.locations import BadPlaceError, Location, locate, parse_scheme


class BadUriError(OmnigraphError):
    """The text is not a URI under which a graph can be stored."""

    kind = Kind.USAGE
    code = "bad_uri"

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(uri, reason)
        self.uri = uri
        self.reason = reason

    def __str__(self) -> str:
        return f"`{self.uri}` can't hold a graph: {self.reason}"


def parse_uri(text: str) -> Location:
    """Return the location of a path, `file://…` or `s3://bucket/prefix`.

    Raises:
        BadUriError: It is anything else.
    """
    try:
        if parse_scheme(text) in ("http", "https"):
            raise BadUriError(text, "it is a server's address; use --server URL --graph ID")
        return locate(text)
    except BadPlaceError as error:
        raise BadUriError(text, error.reason) from error
