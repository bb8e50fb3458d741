"""One Spark for all tests of a process: starting one takes longer than most of them."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_shared import shared_spark

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They run in one process (see tests/conftest.py) and share a session; the first one waits for its start."""
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The session. Whoever changes its settings changes them back."""
    return shared_spark()
