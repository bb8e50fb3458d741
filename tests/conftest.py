"""Settings that every test runs under."""

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")

# Whoever starts a Spark in a test starts the one that tests/spark shares.
os.environ["OMNIGRAPH_SPARK_MASTER"] = "local[2,2]"
