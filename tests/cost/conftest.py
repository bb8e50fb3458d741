"""Requests are counted here, so nothing may depend on how long anything takes."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from omnigraph.commit import freshness, manifest_log


@pytest.fixture(scope="module", autouse=True)
def a_held_state_stays_recent() -> Iterator[None]:
    """A handle that was not used for ten seconds looks once more: on a busy machine, while a world is being made.

    By module, because a worker runs tests of other folders after these.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(freshness, "RECENT_SECONDS", 1e9)
        patched.setattr(manifest_log, "TRIM_AGE", timedelta(0))
        yield
