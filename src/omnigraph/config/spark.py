"""Read the Spark settings of the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

MASTER = "OMNIGRAPH_SPARK_MASTER"
PYTHON = "PYSPARK_PYTHON"
# Set by `spark-submit` for the program that it runs.
GATEWAY = "PYSPARK_GATEWAY_PORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """Where Spark runs, which Python its executors start, and whether `spark-submit` started this process."""

    master: str | None = None
    python: str | None = None
    is_submitted: bool = False


def load_spark_settings() -> SparkSettings:
    """Return the settings of this process's environment."""
    return read_spark_settings(os.environ)


def read_spark_settings(environment: Mapping[str, str]) -> SparkSettings:
    """Return the settings of an environment."""
    return SparkSettings(
        master=environment.get(MASTER) or None,
        python=environment.get(PYTHON) or None,
        is_submitted=bool(environment.get(GATEWAY)),
    )
