"""Parse the URI of a graph: a local directory, or a prefix of a bucket."""

from omnigraph.errors import BadArgumentError
from omnigraph.locations import Location, locate, parse_scheme


def parse_uri(text: str) -> Location:
    """Return the location of a path, `file://…`, `s3://bucket/prefix` or `az://container/prefix`.

    Raises:
        BadArgumentError: It is anything else.
    """
    try:
        location = None if parse_scheme(text) in ("http", "https") else locate(text)
    except BadArgumentError as error:
        _, reason = error.args
        raise BadArgumentError.bad_uri(text, reason) from error
    if location is None:
        raise BadArgumentError.bad_uri(text, "it is a server's address; use --server URL --graph ID")
    return location
