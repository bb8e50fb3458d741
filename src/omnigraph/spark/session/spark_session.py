"""The Spark session that the data pipeline runs in: the one that is there, or a quiet one of our own."""

import atexit
import logging
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
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.spark.session.java_runtime import JAVA_HOME, detect_java, set_variables
from omnigraph.spark.session.launch_environment import LaunchEnvironment
from omnigraph.spark.session.master import LOCAL, LOCAL_CLUSTER, count_cores, explain_unreachable, is_own_machine
from omnigraph.telemetry import log

_LOOPBACK = "127.0.0.1"
_MIN_DRIVER_MEMORY, _MAX_DRIVER_MEMORY = 1 << 30, 8 << 30
_STOP_TIMEOUT_SECONDS = 10
_SCRATCH_PREFIX = "omnigraph-spark-"
_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
_PYTHON = "spark.pyspark.python"
_QUIET_CONF: Mapping[str, str] = {
    "spark.app.name": "omnigraph",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.liveUpdate.period": "0ms",  # by the default, tasks that end together are told when the next one does
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
    "spark.log.structuredLogging.enabled": "false",
}
_INTERRUPTED = ("KeyboardInterrupt while sending", "Exception while sending command")
_LOUD_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""Loggers that print what an exception says anyway, with all of Java's stack."""

_build_lock = threading.Lock()


class OtherMasterError(OmnigraphError):
    """A master is asked for, but this process has a session with another one, and can have only one."""

    kind = Kind.USAGE
    code = "other_master"

    def __init__(self, asked: str, active: str) -> None:
        super().__init__(asked, active)
        self.asked, self.active = asked, active

    def __str__(self) -> str:
        return (
            f"a Spark session on `{self.active}` is active, so none can be made on `{self.asked}`;"
            " leave the master out to use it, or stop it first"
        )


class SparkNotStartedError(OmnigraphError):
    """Spark does not start, or its master does not answer; `reason` is what it said last."""

    kind = Kind.UNAVAILABLE
    code = "spark_not_started"

    def __init__(self, master: str, reason: str) -> None:
        super().__init__(master, reason)
        self.master, self.reason = master, reason

    def __str__(self) -> str:
        return f"can't start Spark on `{self.master}`: {self.reason}"


def find_active_session() -> SparkSession | None:
    """The session that this process has, if any. Nothing is started."""
    found = SparkSession.getActiveSession()
    if found is None and SparkContext._active_spark_context is not None:  # noqa: SLF001 - there is no public way
        found = SparkSession.builder.getOrCreate()
    return found


def session(master: str | None = None, **conf: str) -> SparkSession:
    """The active session, or a new one.

    A session that is there already (of a notebook, of `spark-submit`) is used as it is. Otherwise a quiet one is
    made: UTC, Arrow on, no web interface, its files below a directory that goes with this process. It runs on
    `master`, else on the one of `OMNIGRAPH_SPARK_MASTER`, else on all cores of this machine.

    Args:
        master: Such as `local[4]`, `spark://host:7077`, `yarn`, `k8s://…`.
        conf: Spark's own settings, which win over ours: `session(**{"spark.executor.memory": "8g"})`.

    Raises:
        JavaMissingError: There is no Java runtime.
        OtherMasterError: Another master is asked for than the active session has.
        SparkNotStartedError: Spark does not start; the message has its last words.
    """
    with _build_lock:
        found = find_active_session()
        if found is None:
            settings = load_spark_settings()
            return _build_session(master or settings.master, settings, conf)
        active = str(found.sparkContext.master)
        if master is not None and active != master:
            raise OtherMasterError(master, active)
        for name, value in conf.items():
            found.conf.set(name, value)
        return found


# --- a session of our own ----------------------------------------------------------------------------


@cache
def _hush_interrupts() -> None:
    """Py4J logs a traceback when a Ctrl-C comes in the middle of a call. What matters of its errors is raised."""
    logging.getLogger().addFilter(lambda record: not str(record.msg).startswith(_INTERRUPTED))
    if logging.getLogger("py4j").level == logging.NOTSET:  # else somebody wants to hear them
        logging.getLogger("py4j").setLevel(logging.CRITICAL)


def _build_session(master: str | None, settings: SparkSettings, conf: Mapping[str, str]) -> SparkSession:
    # Under `spark-submit` the master is that of its command, unless one is named here.
    chosen = master or (None if settings.is_submitted else LOCAL)
    silence = explain_unreachable(chosen or "")
    if silence is not None:
        raise SparkNotStartedError(str(chosen), silence)
    home = _create_environment()
    _hush_interrupts()
    variables = {"PYSPARK_PYTHON": conf.get(_PYTHON) or settings.python or sys.executable}
    variables["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if not settings.is_submitted and SparkContext._gateway is None:  # noqa: SLF001 - there is no public way
        variables[JAVA_HOME] = str(home.create_java_home(detect_java()))
        if (chosen or "").startswith(LOCAL_CLUSTER):
            variables["SPARK_HOME"] = str(home.create_spark_home())
    builder = SparkSession.builder if chosen is None else SparkSession.builder.master(chosen)
    for name, value in _build_conf(chosen, home, conf).items():
        builder = builder.config(name, value)
    for name in _LOUD_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    log.debug("starting Spark on %s; what it prints goes to %s", chosen, home.output_path)
    try:
        with set_variables(variables), _suppress_disturbances():
            return builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        log.debug("Spark did not start", exc_info=error)
        raise SparkNotStartedError(str(chosen), _find_reason(error, home)) from error


@cache
def _create_environment() -> LaunchEnvironment:
    """One for the process: it has one JVM, whatever sessions come and go in it."""
    scratch = TempDirectory(_SCRATCH_PREFIX)
    atexit.register(_stop_spark, scratch)
    return LaunchEnvironment(scratch.directory)


def _stop_spark(scratch: TempDirectory) -> None:
    """Stop Spark before its files are removed."""
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway  # noqa: SLF001 - no public way
    with suppress(Exception):  # whatever is left of it, this process ends now
        if context is not None:
            context.stop()
        if gateway is not None and gateway.proc is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(_STOP_TIMEOUT_SECONDS)
    scratch.close()


def _build_conf(master: str | None, home: LaunchEnvironment, given: Mapping[str, str]) -> dict[str, str]:
    own = {
        **_QUIET_CONF,
        "spark.local.dir": str(home.directory / "local"),
        "spark.sql.warehouse.dir": str(home.directory / "warehouse"),
    }
    if master is not None and is_own_machine(master):
        own |= {
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.driver.memory": f"{_choose_driver_memory() >> 20}m",
            "spark.sql.shuffle.partitions": str(max(2, count_cores(master))),
        }
    options = f"-Dlog4j2.configurationFile={home.logging.as_uri()} {given.get(_DRIVER_OPTIONS, '')}".strip()
    return {**own, **given, _DRIVER_OPTIONS: options}


def _choose_driver_memory() -> int:
    """A quarter of the machine's: most of the work is done by Python, beside the JVM."""
    return min(max(detect_memory_limit() // 4, _MIN_DRIVER_MEMORY), _MAX_DRIVER_MEMORY)


@contextmanager
def _suppress_disturbances() -> Iterator[None]:
    """A new context takes Ctrl-C for itself; whoever handled it before handles it again.

    And Lance warns of every fork, also of this one, behind which another program is started at once.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="lance is not fork-safe")
        with _restore_interrupts():
            yield


@contextmanager
def _restore_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only there handlers can be set
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _find_reason(error: Exception, home: LaunchEnvironment) -> str:
    """Spark's own reason where it has one, else the last words of its JVM."""
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.getMessage() or error.java_exception.toString()).partition("\n")[0]
    told = home.read_last_output()
    return told.splitlines()[-1] if told else str(error).partition("\n")[0]
