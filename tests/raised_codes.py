"""Check which case of an error class was raised: `pytest.raises(MissingError, check=has_code("row_not_found"))`."""

from collections.abc import Callable

from omnigraph.errors import OmnigraphError


def has_code(code: str) -> Callable[[OmnigraphError], bool]:
    """Return a predicate of errors with this code."""
    return lambda error: error.code == code
