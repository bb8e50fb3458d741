"""Tell sessions of Spark Connect from those of this process, and ask both what only the latter's JVM knows directly.

A client of Spark Connect has no JVM: it sends plans, and functions for the tasks, to a server. So it can't look into a
plan, nor ask which tasks run, and a function that Spark calls on the driver runs in the server.
"""

import re
from functools import lru_cache
from urllib.parse import urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from omnigraph.spark.session.master import count_cores, is_own_machine
from omnigraph.spark.spark_errors import SparkUsageError

# The scheme of the address of a server.
CONNECT = "sc://"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# A server may keep the number of its cores to itself; tasks have a minimum size anyway.
_UNKNOWN_CORES = 8


def is_connect(of: SparkSession | DataFrame) -> bool:
    """Return whether a session, or that of a DataFrame, is one of Spark Connect."""
    # By the module's name: it can only be imported where grpcio is installed.
    return type(of).__module__.startswith("pyspark.sql.connect.")


def check_has_jvm(spark: SparkSession, what: str, instead: str) -> None:
    """Check that a session is one of this process, for what Spark Connect can't do.

    Raises:
        SparkUsageError: It is one of Spark Connect.
    """
    if is_connect(spark):
        raise SparkUsageError.connect_unsupported(what, instead)


def get_master(spark: SparkSession) -> str:
    """Return the master of a session, or the address of its server if that is on another machine."""
    if not is_connect(spark):
        return str(spark.sparkContext.master)
    host = _get_host(spark)
    if host not in _LOOPBACK:
        return f"{CONNECT}{host}"
    return _get_conf(spark, "spark.master") or CONNECT


def runs_on(spark: SparkSession, master: str) -> bool:
    """Return whether a session is on a master, or connected to a server of Spark Connect."""
    if master.startswith(CONNECT):
        return is_connect(spark) and urlsplit(master).hostname == _get_host(spark)
    return get_master(spark) == master


def count_parallel_tasks(spark: SparkSession) -> int:
    """Return the number of tasks that a session runs in parallel, or a guess if its server does not tell."""
    return _ask_parallel_tasks(spark) if is_connect(spark) else spark.sparkContext.defaultParallelism


@lru_cache(maxsize=8)
def _ask_parallel_tasks(spark: SparkSession) -> int:
    configured = _read_number(spark, "spark.default.parallelism")
    if configured:
        return configured
    master = _get_conf(spark, "spark.master") or ""
    if is_own_machine(master):
        return count_cores(master)
    cores = _read_number(spark, "spark.executor.instances") * _read_number(spark, "spark.executor.cores")
    return cores or _UNKNOWN_CORES


def _get_host(spark: SparkSession) -> str:
    return str(spark.client.host).strip("[]").lower()


def _read_number(spark: SparkSession, name: str) -> int:
    text = _get_conf(spark, name) or ""
    return int(text) if re.fullmatch(r"\d+", text, re.ASCII) else 0


def _get_conf(spark: SparkSession, name: str) -> str | None:
    try:
        return spark.conf.get(name, None)
    except PySparkException:  # a shared server shows few settings
        return None
