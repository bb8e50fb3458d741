"""Translate failures of Spark to typed errors with one message each; the Java stack goes to the debug log.

An exception leaves an executor as text only. So a task's own error is pickled into that text, and unpickled by the
driver.
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

from omnigraph.bug_error import BugError
from omnigraph.errors import OmnigraphError
from omnigraph.spark.spark_errors import SparkFailedError, SparkInputError, SparkUsageError
from omnigraph.telemetry import log

_CARRIED_ERROR = re.compile(r"\[omnigraph:([A-Za-z0-9+/=]+)\]")
_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Interrupt|Exit)\b(?:: .*)?)$", re.MULTILINE)
_CANCELLED = re.compile(r"SPARK_JOB_CANCELLED|\bcancelled\b")
# Spark's error class at the start of a message, such as `[TABLE_OR_VIEW_NOT_FOUND] `, and the SQLSTATE at its end.
_CONDITION = re.compile(r"^\[[A-Z_0-9.]+\] ")
_STATE = re.compile(r"[.]? SQLSTATE: \w+")
_JAVA_CLASS = re.compile(r"^(?:Caused by: |: )?[\w.$]+\.(\w+(?:Exception|Error)): ")
# By a part of Spark's message, why an executor was lost and what helps. The first match wins.
_LOST_REASONS = (
    ("No space left on device", "a disk is full; free some space, or set spark.local.dir to another disk"),
    ("Container killed", "it used more memory than it is allowed; raise spark.executor.memoryOverhead"),
    ("OutOfMemoryError", "Java ran out of memory; raise spark.executor.memory, or spark.driver.memory on one machine"),
    (
        "Python worker exited unexpectedly",
        "its Python process died, maybe for lack of memory; run fewer tasks in parallel",
    ),
    ("ExecutorLostFailure", "the connection to it broke, or it was killed"),
    ("Failed to connect", "the connection to it broke, or it was killed"),
)
_OTHER_BUILD = "its omnigraph differs from this one; install the same build there, or send it along (--py-files)"
# By a part of Spark's message, why an executor can't run our tasks. A missing module inside of omnigraph comes before
# a missing omnigraph, whose text it contains.
_SETUP_REASONS = (
    ("No module named 'omnigraph.", _OTHER_BUILD),
    ("on <module 'omnigraph.", _OTHER_BUILD),
    ("No module named 'omnigraph", "its Python lacks omnigraph; install it there, or send it along (--py-files)"),
    ("No module named 'lance", "its Python lacks pylance; install omnigraph with its requirements there"),
    ("No module named 'pyarrow", "its Python lacks pyarrow; install omnigraph with its requirements there"),
    ("PYTHON_VERSION_MISMATCH", "its Python has another version than this one; set PYSPARK_PYTHON to the right one"),
    ("Cannot run program", "its Python was not found; set PYSPARK_PYTHON to the right one"),
)


# --- on an executor ----------------------------------------------------------------------------------


class _CarriedError(Exception):
    """An error on its way to the driver; its text is the message, followed by the pickled error."""


@contextmanager
def carry_errors() -> Iterator[None]:
    """Wrap the body of a task, so that its error reaches the driver, where `surface_errors` raises it again."""
    _freeze_garbage()
    try:
        yield
    except OmnigraphError as error:
        raise _pack_error(error) from None
    except MemoryError:
        raise _pack_error(
            SparkFailedError.executor_lost("Python ran out of memory; run fewer tasks in parallel")
        ) from None
    except Exception as error:
        # Chained, so that its traceback is in the text that Spark passes on, and thus in the debug log.
        raise _pack_error(_build_broken_error(error)) from error


@contextmanager
def name_errors() -> Iterator[None]:
    """Wrap a method of a data source: Spark's own exception quotes our error's name and message, and nothing else.

    Users call Spark themselves there, so what `carry_errors` adds would never be unpacked.
    """
    _freeze_garbage()
    try:
        yield
    except OmnigraphError as error:
        # With the traceback of this line alone, which Spark quotes too.
        raise error.with_traceback(None) from None


@cache
def _freeze_garbage() -> None:
    """Exclude our modules from garbage collection, once per Python worker.

    Spark collects garbage after every task. Traversing our modules took 50 milliseconds, longer than many a task.
    """
    gc.freeze()


def _build_broken_error(error: Exception) -> BugError:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    message = str(error).partition("\n")[0]
    reason = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return BugError.task_broken(reason, f"{frame.filename.rpartition('/')[2]}:{frame.lineno}")


def _pack_error(error: OmnigraphError) -> _CarriedError:
    return _CarriedError(f"{error}\n[omnigraph:{base64.b64encode(pickle.dumps(error)).decode()}]")


# --- on the driver -----------------------------------------------------------------------------------


@contextmanager
def surface_errors() -> Iterator[None]:
    """Wrap a call to Spark, so that its failures are logged for debugging and raised as our errors."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        log.debug("Spark failed: %s", error)
        raise translate_error(error) from None


def translate_error(error: Exception) -> OmnigraphError:
    """Return the typed error that a failure of Spark means."""
    text = str(error)
    # The order matters: texts of later checks also occur in the failures that earlier ones recognise.
    if (carried := _CARRIED_ERROR.search(text)) is not None:
        return _unpack_error(carried[1])
    if isinstance(error, AnalysisException) and _TRACEBACK not in text:
        return SparkInputError.sql(_format_first_line(text.strip()))
    if isinstance(error, Py4JNetworkError | ConnectionError):
        return SparkFailedError("its process has ended; start again, and check that the machine has enough memory")
    if "spark.driver.maxResultSize" in text:
        return SparkInputError.sql(
            "the result is too large to be fetched; select less, or raise spark.driver.maxResultSize"
        )
    for sign, reason in _SETUP_REASONS:
        if sign in text:
            return SparkUsageError.executor_not_ready(reason)
    for sign, reason in _LOST_REASONS:
        if sign in text:
            return SparkFailedError.executor_lost(reason)
    if _TRACEBACK in text:
        raised = _RAISED.findall(text)
        return SparkInputError.task_failed(raised[-1] if raised else _format_first_line(text))
    if _CANCELLED.search(text):
        return SparkFailedError.job_cancelled(_find_reason(error))
    return SparkFailedError(_find_reason(error))


def _find_reason(error: Exception) -> str:
    """Return the message of the innermost Java exception, without its class and its stack."""
    if isinstance(error, Py4JJavaError):
        causes = [line for line in str(error).splitlines() if _JAVA_CLASS.match(line)]
        if causes:
            return _format_first_line(_JAVA_CLASS.sub("", causes[-1]))
    return _format_first_line(str(error).strip())


def _format_first_line(text: str) -> str:
    line = _CONDITION.sub("", _STATE.sub("", text.partition("\n")[0]))
    return line.strip().rstrip(";") or "it gave no reason"


class _ErrorUnpickler(pickle.Unpickler):
    """An unpickler of omnigraph's errors and plain values, which can't run other code."""

    def find_class(self, module: str, name: str) -> object:
        # How msgspec restores a struct with keywords; the class that it gets is checked below like any other.
        if (module, name) == ("msgspec._utils", "rebuild"):
            return super().find_class(module, name)
        cls = super().find_class(module, name) if module.startswith("omnigraph.") else None
        # A name that one of our modules only imports, such as `Path`, is rejected.
        if not (isinstance(cls, type) and cls.__module__ == module):
            msg = f"{module}.{name} is not part of an error"
            raise pickle.UnpicklingError(msg)
        return cls


def _unpack_error(text: str) -> OmnigraphError:
    try:
        error = _ErrorUnpickler(io.BytesIO(base64.b64decode(text))).load()
    except (pickle.UnpicklingError, ValueError, EOFError, AttributeError, TypeError, ImportError) as broken:
        return SparkFailedError(
            f"an error could not be read ({broken}); check that all machines have the same version of omnigraph"
        )
    return (
        error
        if isinstance(error, OmnigraphError)
        else SparkFailedError("an executor sent an object that is not an error")
    )
