"""Settings that every test runs under."""

import os

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # it gives no types

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")

# Whoever starts a Spark in a test starts the one that tests/spark shares.
os.environ["OMNIGRAPH_SPARK_MASTER"] = "local[2,2]"

ONE_AFTER_THE_OTHER = (
    "tests/cli/test_server_mode.py",  # its commands go on from each other, on one server
    "tests/cost/test_requests.py",  # a history of two thousand commits is made once
    "tests/cost/test_write_requests.py",
    "tests/server/test_client.py",  # as the commands
)
"""Files whose tests belong to one process."""


class Together(LoadScopeScheduling):  # type: ignore[misc]  # xdist gives no types
    """Each test by itself to whichever process is free, but those of one Spark, or of one such file, to one process.

    The marks of `--dist loadgroup` have no effect with pytest 9.2, which makes ids of tests in another way.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        if path.startswith("tests/spark/") or "spark.md]" in nodeid:
            return "spark"
        return path if path in ONE_AFTER_THE_OTHER else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Together:
    """What hands out the tests."""
    return Together(config, log)
