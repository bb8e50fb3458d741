"""Run the commands of the tour as a user would, show them, and record what they cost."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from io import TextIOBase
from typing import TextIO

from omnigraph.bug_error import BugError
from omnigraph.clock import Clock, SystemClock
from omnigraph.spark.session.java_runtime import set_variables
from omnigraph.telemetry import PROCESS_TELEMETRY, RequestCounts

_ROWS = re.compile(r"^([\d,]+) rows?\b", re.MULTILINE)
_MAX_WIDTH = 110

# Runs the command line with these words, and returns the exit code.
RunCommand = Callable[[Sequence[str]], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """The cost of a step. `requests` is None if other processes made the requests."""

    step: str
    seconds: float
    requests: RequestCounts | None
    rows: int | None


@dataclass
class TourRunner:
    """Runs the commands of the tour, and collects their costs."""

    run_command: RunCommand
    write: Callable[[str], None]
    emphasize: Callable[[str], str] = str
    """Formats headings and commands."""
    clock: Clock = field(default_factory=SystemClock)
    costs: list[StepCost] = field(default_factory=list)
    step: str = ""
    number: int = 0

    def begin_step(self, step: str, heading: str) -> None:
        """Print the heading of a step; the costs of commands that follow are counted under its name."""
        self.step = step
        self.number += 1
        self.write(self.emphasize(f"=== {self.number}. {heading}") + "\n\n")

    def say(self, text: str) -> None:
        """Print a line of explanation."""
        self.write(f"{text}\n")

    def run(
        self,
        *words: str,
        expected: int = 0,
        variables: Mapping[str, str] | None = None,
        rows: int | None = None,
        are_requests_elsewhere: bool = False,
    ) -> str:
        """Show a command, run it in this process, and check its exit code; return what it printed on stdout."""
        shown = self._show(words, variables or {})
        printed = _TeeStream(sys.stdout)
        with set_variables(variables or {}), self._measure() as measured, redirect_stdout(printed):
            code = self.run_command(words)
        self._check_exit(shown, code, expected)
        text = printed.getvalue()
        match = _ROWS.search(text)
        self.costs.append(
            StepCost(
                step=self.step,
                seconds=measured.seconds,
                requests=None if are_requests_elsewhere else measured.requests,
                rows=int(match[1].replace(",", "")) if rows is None and match else rows,
            )
        )
        return text

    def run_child(self, *words: str, expected: int, variables: Mapping[str, str]) -> None:
        """Show a command, and run it in its own process, which may be killed."""
        shown = self._show(words, variables)
        with set_variables(variables), self._measure() as measured:
            child = subprocess.run([sys.executable, "-m", "omnigraph", *words], check=False)  # noqa: S603 - our own
        self._check_exit(shown, child.returncode, expected)
        self.costs.append(StepCost(step=self.step, seconds=measured.seconds, requests=None, rows=None))

    @contextmanager
    def measure_work(self, rows: int) -> Iterator[None]:
        """Record the cost of the block as work of the tour itself."""
        with self._measure() as measured:
            yield
        self.costs.append(StepCost(step=self.step, seconds=measured.seconds, requests=None, rows=rows))

    def _show(self, words: Sequence[str], variables: Mapping[str, str]) -> str:
        settings = "".join(f"{name}={value} " for name, value in variables.items())
        shown = f"{settings}{shlex.join(['omnigraph', *words])}"
        self.write(self.emphasize(f"$ {_fold_command(settings, words)}") + "\n")
        return shown

    def _check_exit(self, shown: str, code: int, expected: int) -> None:
        if code != 0:
            self.write(f"({_format_exit(code)})\n")
        if code != expected:
            raise BugError.demo_failed(shown, expected, code)
        self.write("\n")

    @contextmanager
    def _measure(self) -> Iterator["_Measurement"]:
        measured = _Measurement()
        start = self.clock.monotonic()
        with PROCESS_TELEMETRY.count_requests() as measured.requests:
            try:
                yield measured
            finally:
                measured.seconds = self.clock.monotonic() - start


@dataclass
class _Measurement:
    seconds: float = 0.0
    requests: RequestCounts = field(default_factory=RequestCounts)


class _TeeStream(TextIOBase):
    """A stream that passes text on immediately, and records it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._parts: list[str] = []

    @property
    def encoding(self) -> str:  # type: ignore[override]  # TextIOBase has it as an attribute that can be set
        """The encoding of the underlying stream."""
        return self._stream.encoding

    def isatty(self) -> bool:
        """Return whether the underlying stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the file descriptor of the underlying stream."""
        return self._stream.fileno()

    def write(self, text: str, /) -> int:
        """Pass text on and record it."""
        self._parts.append(text)
        return self._stream.write(text)

    def flush(self) -> None:
        """Flush the underlying stream."""
        self._stream.flush()

    def getvalue(self) -> str:
        """Return all text written so far."""
        return "".join(self._parts)


def _fold_command(settings: str, words: Sequence[str]) -> str:
    """Format a command over several lines if it is long; the result can be pasted into a shell."""
    lines = []
    line = f"{settings}omnigraph"
    for word in words:
        quoted = shlex.quote(word)
        # An option and its value stay on one line: a new line begins with an option only.
        if len(line) + len(quoted) > _MAX_WIDTH - 24 and word.startswith("-"):
            lines.append(line)
            line = f"    {quoted}"
        else:
            line = f"{line} {quoted}"
    return " \\\n".join([*lines, line])


def _format_exit(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
