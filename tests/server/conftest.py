"""No test of the server may leave a token in a log, whatever it is about."""

from collections.abc import Iterator

import pytest

from secrets_sought import everything_said, leaks


@pytest.fixture(autouse=True)
def no_token_is_logged() -> Iterator[None]:
    with everything_said() as lines:
        yield
    assert leaks("\n".join(lines)) == []
