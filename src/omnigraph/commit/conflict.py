"""What a write ends with when somebody else was faster."""

from omnigraph.errors import Kind, OmnigraphError


class ConflictError(OmnigraphError):
    """Somebody else changed what this write relied on. Nothing of it is visible."""

    kind = Kind.CONFLICT
    code = "conflict"

    def __init__(self, table_key: str, expected: str, actual: str, reason: str) -> None:
        super().__init__(table_key, expected, actual, reason)
        self.table_key, self.expected, self.actual, self.reason = table_key, expected, actual, reason

    def __str__(self) -> str:
        return (
            f"{self.table_key} changed while this write was prepared ({self.reason});"
            f" expected {self.expected}, found {self.actual}: read again and retry"
        )
