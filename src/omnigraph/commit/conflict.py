"""The error of a write that lost against a concurrent one."""

from omnigraph.errors import Kind, OmnigraphError


class ConflictError(OmnigraphError):
    """Another writer changed data that this write relied on. Nothing was committed."""

    kind = Kind.CONFLICT
    code = "conflict"
    table_key: str
    expected: str
    actual: str
    reason: str
    message = (
        "{table_key} changed while this write was prepared ({reason});"
        " expected {expected}, found {actual}: read again and retry"
    )
