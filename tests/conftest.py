"""Settings that every test runs under."""

import os

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # it gives no types

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")

# Whoever starts a Spark in a test starts the one that tests/spark shares.
os.environ["OMNIGRAPH_SPARK_MASTER"] = "local[2,2]"
# No JVM of a test lives long enough to make good for its second compiler, or has garbage for more than one thread.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

BY_FILE = (
    "tests/cost/",
    "tests/crash/",
    "tests/race/",
    "tests/s3/",
    "tests/server/",
    "tests/cli/test_server_mode.py",
    "tests/contracts/test_doors.py",
    "tests/demo/",
    "tests/packaging/",
)
"""Where the tests of a file belong to one process: they share a server or a long history, or go on from each other."""


class Together(LoadScopeScheduling):  # type: ignore[misc]  # xdist gives no types
    """Each test by itself to whichever process is free, but those of one Spark, or of one file of some, to one process.

    The marks of `--dist loadgroup` have no effect with pytest 9.2, which makes ids of tests in another way.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        if path.startswith("tests/spark/") or "spark.md]" in nodeid:
            return "spark"
        return path if path.startswith(BY_FILE) else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Together:
    """What hands out the tests."""
    return Together(config, log)
