"""No test of the server may leave a token or a value of somebody's in a log, whatever it is about."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from secrets_sought import everything_said, everything_sent, leaks
from serving import Served, serving


@pytest.fixture(autouse=True)
def no_token_or_value_is_logged() -> Iterator[None]:
    with everything_said() as lines, everything_sent() as values:
        yield
    assert leaks("\n".join(lines), values) == []


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Served]:
    """A server that a test may change."""
    found = serving(tmp_path)
    yield found
    found.service.close()
