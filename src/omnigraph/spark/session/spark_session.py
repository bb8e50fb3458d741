"""The Spark session of the data pipeline: the active one, or a new one that prints nothing."""

import atexit
import logging
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from omnigraph.config.spark import SparkSettings, load_spark_settings
from omnigraph.engine.bulk.temp_directory import TempDirectory
from omnigraph.engine.tables.graph_cache import detect_memory_limit
from omnigraph.spark.session.connect import CONNECT, get_master, runs_on
from omnigraph.spark.session.java_runtime import JAVA_HOME, detect_java, set_variables
from omnigraph.spark.session.launch_environment import LaunchEnvironment
from omnigraph.spark.session.master import LOCAL, LOCAL_CLUSTER, count_cores, explain_unreachable, is_own_machine
from omnigraph.spark.spark_errors import SparkFailedError, SparkUsageError
from omnigraph.telemetry import log

_LOOPBACK = "127.0.0.1"
_MIN_DRIVER_MEMORY = 1 << 30
_MAX_DRIVER_MEMORY = 8 << 30
_STOP_TIMEOUT_SECONDS = 10
_SCRATCH_PREFIX = "omnigraph-spark-"
_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
_PYTHON = "spark.pyspark.python"
_QUIET_CONF: Mapping[str, str] = {
    "spark.app.name": "omnigraph",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # By default, of tasks that end together some are reported only when the next one ends.
    "spark.ui.liveUpdate.period": "0ms",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
    "spark.log.structuredLogging.enabled": "false",
    # The checkpoints of a search over several edges go when nothing refers to them any more.
    "spark.cleaner.referenceTracking.cleanCheckpoints": "true",
}
# After each batch, glibc would return its memory to the system, and request it again page by page: 10,000 to 25,000
# faults per task (decision 36). The workers of a Spark that we start keep it; 32 MiB is the maximum of the threshold.
_WORKER_VARIABLES: Mapping[str, str] = {
    "MALLOC_MMAP_THRESHOLD_": str(32 * 1024 * 1024),
    "MALLOC_TRIM_THRESHOLD_": str(128 * 1024 * 1024),
}
# The beginnings of Py4J's log messages about an interrupted call.
_INTERRUPTED = ("KeyboardInterrupt while sending", "Exception while sending command")
# Loggers that repeat the message of an exception that is raised anyway, with the whole stack of Java.
_LOUD_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")

# The shuffle of a load distributes rows by `repartitionById`, which is Spark 4.1's.
_MIN_VERSION = (4, 1)
_CONNECT_REASON = (
    "a session of Spark Connect is made by your program, with `SparkSession.builder.remote(…)`, and used while it is"
    " the active one"
)
_build_lock = threading.Lock()


def find_active_session() -> SparkSession | None:
    """Return the session of this process, or None if there is none. Nothing is started."""
    active = SparkSession.getActiveSession()
    # The active session is per thread. With a context, `getOrCreate` returns the session of the process.
    if active is None and SparkContext._active_spark_context is not None:  # noqa: SLF001 - there is no public way
        active = SparkSession.builder.getOrCreate()
    return active


def session(master: str | None = None, **conf: str) -> SparkSession:
    """Return the active Spark session, or start a new one.

    An existing session (of a notebook, of `spark-submit`) is used unchanged. A new one uses UTC and Arrow, has no web
    interface and prints nothing; its files are removed when this process ends. It runs on `master`, else on
    `OMNIGRAPH_SPARK_MASTER`, else on all cores of this machine.

    Args:
        master: Such as `local[4]`, `spark://host:7077`, `yarn` or `k8s://…`.
        conf: Spark's own settings, which override ours: `session(**{"spark.executor.memory": "8g"})`.

    Raises:
        JavaMissingError: There is no Java runtime.
        SparkUsageError: The active session runs on another master, or is of an older Spark.
        SparkFailedError: Spark does not start; the message has its last output.
    """
    with _build_lock:
        existing = find_active_session()
        if existing is None:
            settings = load_spark_settings()
            chosen = master or settings.master
            if chosen is not None and chosen.startswith(CONNECT):
                raise SparkFailedError.spark_not_started(chosen, _CONNECT_REASON)
            return _build_session(chosen, settings, conf)
        check_version(str(existing.version))
        if master is not None and not runs_on(existing, master):
            raise SparkUsageError.other_master(master, get_master(existing))
        for name, value in conf.items():
            existing.conf.set(name, value)
        return existing


def check_version(version: str) -> None:
    """Check that a session is of a Spark that has what this package calls.

    Raises:
        SparkUsageError: It is older.
    """
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is not None and (int(match[1]), int(match[2])) < _MIN_VERSION:
        raise SparkUsageError.old_spark(version, ".".join(map(str, _MIN_VERSION)))


# --- a new session -----------------------------------------------------------------------------------


@cache
def _hush_interrupts() -> None:
    """Filter the tracebacks that Py4J logs when Ctrl-C interrupts a call; errors that matter are raised anyway."""
    logging.getLogger().addFilter(lambda record: not str(record.msg).startswith(_INTERRUPTED))
    if logging.getLogger("py4j").level == logging.NOTSET:  # another level is a choice of the user
        logging.getLogger("py4j").setLevel(logging.CRITICAL)


def _build_session(master: str | None, settings: SparkSettings, conf: Mapping[str, str]) -> SparkSession:
    # Under `spark-submit`, its command line has named the master, unless the caller names one.
    chosen = master or (None if settings.is_submitted else LOCAL)
    problem = explain_unreachable(chosen or "")
    if problem is not None:
        raise SparkFailedError.spark_not_started(str(chosen), problem)
    environment = _create_environment()
    _hush_interrupts()
    variables = {"PYSPARK_PYTHON": conf.get(_PYTHON) or settings.python or sys.executable}
    variables["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # An existing gateway has its JVM already, so Java is looked for only before the first session.
    if not settings.is_submitted and SparkContext._gateway is None:  # noqa: SLF001 - there is no public way
        variables[JAVA_HOME] = str(environment.create_java_home(detect_java()))
        if (chosen or "").startswith(LOCAL_CLUSTER):
            variables["SPARK_HOME"] = str(environment.create_spark_home())
    builder = SparkSession.builder if chosen is None else SparkSession.builder.master(chosen)
    for name, value in _build_conf(chosen, environment, conf).items():
        builder = builder.config(name, value)
    for name in _LOUD_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    log.debug("starting Spark on %s; its output goes to %s", chosen, environment.output_path)
    try:
        with set_variables(variables), _suppress_disturbances():
            return builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        log.debug("Spark did not start", exc_info=error)
        raise SparkFailedError.spark_not_started(str(chosen), _find_reason(error, environment)) from error


@cache
def _create_environment() -> LaunchEnvironment:
    """Create the environment of this process, once: all of its sessions share one JVM."""
    scratch = TempDirectory(_SCRATCH_PREFIX)
    atexit.register(_stop_spark, scratch)
    return LaunchEnvironment(scratch.directory)


def _stop_spark(scratch: TempDirectory) -> None:
    """Stop Spark before its files are removed."""
    context = SparkContext._active_spark_context  # noqa: SLF001 - no public way
    gateway = SparkContext._gateway  # noqa: SLF001 - no public way
    # This process is ending: no failure matters to it, nor a JVM that an interrupt has ended before.
    with suppress(Exception), warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        if context is not None:
            context.stop()
        if gateway is not None and gateway.proc is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(_STOP_TIMEOUT_SECONDS)
    scratch.close()


def _build_conf(master: str | None, environment: LaunchEnvironment, conf: Mapping[str, str]) -> dict[str, str]:
    defaults = {
        **_QUIET_CONF,
        "spark.local.dir": str(environment.directory / "local"),
        "spark.sql.warehouse.dir": str(environment.directory / "warehouse"),
    }
    if master is not None and is_own_machine(master):
        # All processes run on this machine, so the driver need not listen on the network.
        defaults |= {
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.driver.memory": f"{_choose_driver_memory() >> 20}m",
            "spark.sql.shuffle.partitions": str(max(2, count_cores(master))),
        }
    if not any(name in os.environ for name in _WORKER_VARIABLES):
        defaults |= {f"spark.executorEnv.{name}": value for name, value in _WORKER_VARIABLES.items()}
    # The user's Java options come after ours, so they win.
    options = f"-Dlog4j2.configurationFile={environment.logging.as_uri()} {conf.get(_DRIVER_OPTIONS, '')}".strip()
    return {**defaults, **conf, _DRIVER_OPTIONS: options}


def _choose_driver_memory() -> int:
    """Choose a quarter of the machine's memory: Python, beside the JVM, does most of the work."""
    return min(max(detect_memory_limit() // 4, _MIN_DRIVER_MEMORY), _MAX_DRIVER_MEMORY)


@contextmanager
def _suppress_disturbances() -> Iterator[None]:
    """Prevent side effects of a new context: its handler for Ctrl-C, and Lance's warning about a fork."""
    # This fork is harmless: it starts another program immediately.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="lance is not fork-safe")
        with _restore_interrupts():
            yield


@contextmanager
def _restore_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only the main thread can set handlers
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _find_reason(error: Exception, environment: LaunchEnvironment) -> str:
    """Return Spark's own reason if it has one, else the last output of its JVM."""
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.getMessage() or error.java_exception.toString()).partition("\n")[0]
    output = environment.read_last_output()
    return output.splitlines()[-1] if output else str(error).partition("\n")[0]
