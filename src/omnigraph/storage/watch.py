"""Define the deadline and memory limit that apply while rows are read and written."""

from typing import Protocol


class Watch(Protocol):
    """The limits of an operation, which raise an error to end it. The engine's budget implements it."""

    def check(self) -> None:
        """Raise an error if the operation must stop."""
        ...

    def check_size(self, nbytes: int, what: str) -> None:
        """Raise an error if `nbytes` in memory exceed the limit; `what` describes them."""
        ...
