"""Limits that hold while rows are read and written: a deadline, and how much may be in memory at once."""

from typing import Protocol


class Watch(Protocol):
    """Ends an operation by what it raises. A budget of the engine is one."""

    def check(self) -> None:
        """Raise when the operation may not continue."""
        ...

    def check_size(self, nbytes: int, what: str) -> None:
        """Raise when so much may not be in memory at once."""
        ...
