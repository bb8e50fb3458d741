"""Failures of Spark in our words: one typed error with one message. The Java stack goes to the debug log.

An exception leaves an executor as text only. So a task's own error travels inside of that text, and is taken out of it
on the driver.
"""

import base64
import gc
import io
import pickle
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkException

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.telemetry import log

_CARRIED_ERROR = re.compile(r"\[omnigraph:([A-Za-z0-9+/=]+)\]")
_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Interrupt|Exit)\b(?:: .*)?)$", re.MULTILINE)
_CANCELLED = re.compile(r"SPARK_JOB_CANCELLED|\bcancelled\b")
_CONDITION = re.compile(r"^\[[A-Z_0-9.]+\] ")
_STATE = re.compile(r"[.]? SQLSTATE: \w+")
_JAVA_CLASS = re.compile(r"^(?:Caused by: |: )?[\w.$]+\.(\w+(?:Exception|Error)): ")
_LOST_REASONS = (
    ("No space left on device", "a disk is full; free some of it, or name another one in spark.local.dir"),
    ("Container killed", "it used more memory than it is allowed; raise spark.executor.memoryOverhead"),
    ("OutOfMemoryError", "Java ran out of memory; raise spark.executor.memory, or spark.driver.memory on one machine"),
    ("Python worker exited unexpectedly", "its Python process died, maybe for lack of memory; run fewer tasks at once"),
    ("ExecutorLostFailure", "the connection to it broke, or it was killed"),
    ("Failed to connect", "the connection to it broke, or it was killed"),
)
_OTHER_BUILD = "its omnigraph is not the one of this machine; install the same there, or send it along (--py-files)"
_SETUP_REASONS = (
    ("No module named 'omnigraph.", _OTHER_BUILD),
    ("on <module 'omnigraph.", _OTHER_BUILD),
    ("No module named 'omnigraph", "its Python lacks omnigraph; install it there, or send it along (--py-files)"),
    ("No module named 'lance", "its Python lacks pylance; install omnigraph with its requirements there"),
    ("No module named 'pyarrow", "its Python lacks pyarrow; install omnigraph with its requirements there"),
    ("PYTHON_VERSION_MISMATCH", "its Python is of another version than this one; name the right one in PYSPARK_PYTHON"),
    ("Cannot run program", "its Python is not where it should be; name the right one in PYSPARK_PYTHON"),
)


class TaskFailedError(OmnigraphError):
    """A task failed in code that is not omnigraph's, such as a function of the DataFrame that is loaded."""

    kind = Kind.INVALID
    code = "task_failed"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"a task failed on Spark: {self.reason}"


class TaskBrokenError(OmnigraphError):
    """A task failed in omnigraph's own code, on an executor."""

    kind = Kind.INTERNAL
    code = "task_broken"

    def __init__(self, reason: str, place: str) -> None:
        super().__init__(reason, place)
        self.reason, self.place = reason, place

    def __str__(self) -> str:
        return f"this is a bug of omnigraph, in a task on Spark: {self.reason} ({self.place}); please report it"


class ExecutorLostError(OmnigraphError):
    """An executor, or Python on it, was lost too often for the job to go on."""

    kind = Kind.UNAVAILABLE
    code = "executor_lost"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"an executor of Spark was lost: {self.reason}"


class ExecutorNotReadyError(OmnigraphError):
    """An executor can't run our tasks: it lacks omnigraph, or has another Python."""

    kind = Kind.USAGE
    code = "executor_not_ready"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"an executor of Spark can't run this: {self.reason}"


class JobCancelledError(OmnigraphError):
    """Somebody cancelled the job in Spark, or stopped its session."""

    kind = Kind.UNAVAILABLE
    code = "job_cancelled"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the job was cancelled on Spark: {self.reason}"


class SqlError(OmnigraphError):
    """Spark does not understand a SQL statement, or what it names does not exist."""

    kind = Kind.INVALID
    code = "sql"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class SparkFailedError(OmnigraphError):
    """Spark failed in a way that is its own; the debug log has all it said."""

    kind = Kind.UNAVAILABLE
    code = "spark_failed"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"Spark failed: {self.reason}"


# --- on an executor ----------------------------------------------------------------------------------


class _CarriedError(Exception):
    """An error on its way to the driver; its text is for people first, then for us."""


@contextmanager
def carry_errors() -> Iterator[None]:
    """Around the body of a task: its error reaches the driver whole, where `surfacing` raises it again."""
    _freeze_garbage()
    try:
        yield
    except OmnigraphError as error:
        raise _pack_error(error) from None
    except MemoryError:
        raise _pack_error(ExecutorLostError("Python ran out of memory; run fewer tasks at once")) from None
    except Exception as error:
        # Its own traceback stays in the text, and by that in the log.
        raise _pack_error(_build_broken_error(error)) from error


@cache
def _freeze_garbage() -> None:
    """Once in a Python process of Spark, which collects garbage behind every task: it need not look at our modules.

    To look at them takes 50 milliseconds, which is more than many a task.
    """
    gc.freeze()


def _build_broken_error(error: Exception) -> TaskBrokenError:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    told = str(error).partition("\n")[0]
    reason = f"{type(error).__name__}: {told}" if told else type(error).__name__
    return TaskBrokenError(reason, f"{frame.filename.rpartition('/')[2]}:{frame.lineno}")


def _pack_error(error: OmnigraphError) -> _CarriedError:
    return _CarriedError(f"{error}\n[omnigraph:{base64.b64encode(pickle.dumps(error)).decode()}]")


# --- on the driver -----------------------------------------------------------------------------------


@contextmanager
def surface_errors() -> Iterator[None]:
    """Around whatever runs on Spark: its failures are raised as our errors, and told to the debug log whole."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        log.debug("Spark failed: %s", error)
        raise translate_error(error) from None


def translate_error(error: Exception) -> OmnigraphError:
    """What a failure of Spark means."""
    text = str(error)
    if (carried := _CARRIED_ERROR.search(text)) is not None:
        return _unpack_error(carried[1])
    if isinstance(error, AnalysisException) and _TRACEBACK not in text:
        return SqlError(_format_first_line(text.strip()))
    if isinstance(error, Py4JNetworkError | ConnectionError):
        return SparkFailedError("its process is gone; start again, and see whether the machine has enough memory")
    if "spark.driver.maxResultSize" in text:
        return SqlError("the answer is too large to be fetched: ask for less, or raise spark.driver.maxResultSize")
    for known, reason in _SETUP_REASONS:
        if known in text:
            return ExecutorNotReadyError(reason)
    for known, reason in _LOST_REASONS:
        if known in text:
            return ExecutorLostError(reason)
    if _TRACEBACK in text:
        raised = _RAISED.findall(text)
        return TaskFailedError(raised[-1] if raised else _format_first_line(text))
    if _CANCELLED.search(text):
        return JobCancelledError(_find_reason(error))
    return SparkFailedError(_find_reason(error))


def _find_reason(error: Exception) -> str:
    """The innermost reason that Java gives, without its class and its stack."""
    if isinstance(error, Py4JJavaError):
        causes = [line for line in str(error).splitlines() if _JAVA_CLASS.match(line)]
        if causes:
            return _format_first_line(_JAVA_CLASS.sub("", causes[-1]))
    return _format_first_line(str(error).strip())


def _format_first_line(text: str) -> str:
    line = _CONDITION.sub("", _STATE.sub("", text.partition("\n")[0]))
    return line.strip().rstrip(";") or "it does not say why"


class _ErrorUnpickler(pickle.Unpickler):
    """Takes errors of omnigraph and plain values, and nothing that could do something."""

    def find_class(self, module: str, name: str) -> object:
        found = super().find_class(module, name) if module.startswith("omnigraph.") else None
        if not (isinstance(found, type) and found.__module__ == module):  # not what a module of ours imports
            msg = f"{module}.{name} is no part of an error"
            raise pickle.UnpicklingError(msg)
        return found


def _unpack_error(text: str) -> OmnigraphError:
    try:
        error = _ErrorUnpickler(io.BytesIO(base64.b64decode(text))).load()
    except (pickle.UnpicklingError, ValueError, EOFError, AttributeError, TypeError, ImportError) as broken:
        return SparkFailedError(f"an error could not be read ({broken}); is omnigraph of one version everywhere?")
    return error if isinstance(error, OmnigraphError) else SparkFailedError("an executor sent something else")
