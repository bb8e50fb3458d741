"""Parse the URI of a graph: a local directory or an S3 prefix."""

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.locations import BadPlaceError, Location, locate, parse_scheme


class BadUriError(OmnigraphError):
    """The text is not a URI under which a graph can be stored."""

    kind = Kind.USAGE
    code = "bad_uri"
    uri: str
    reason: str
    message = "`{uri}` can't hold a graph: {reason}"


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
