"""The error of a write that lost against a concurrent one."""

from omnigraph.errors import Kind, OmnigraphError


class ConflictError(OmnigraphError):
    """Another writer changed data that this write relied on. Nothing was committed."""

    kind = Kind.CONFLICT
    code = "conflict"

    def __init__(self, table_key: str, expected: str, actual: str, reason: str) -> None:
        super().__init__(table_key, expected, actual, reason)
        self.table_key = table_key
        self.expected = expected
        self.actual = actual
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.table_key} changed while this write was prepared ({self.reason});"
            f" expected {self.expected}, found {self.actual}: read again and retry"
        )
