"""Profile the steps of a plan for `explain --analyze`: actual rows, time, requests and bytes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from omnigraph.clock import Clock
from omnigraph.telemetry import Telemetry


@dataclass(slots=True)
class StepProfile:
    """The totals over all runs of a step, which runs once for each chunk of its input."""

    rows: int = 0
    seconds: float = 0.0
    requests: int = 0
    bytes: int = 0
    """The size of the step's results."""
    runs: int = 0
    choices: list[str] = field(default_factory=list)
    """The choices made at run time, which depend on what is in memory and on the number of rows."""
    joined_with: int | None = None
    """The number of the later step that it ran together with, without rows in between."""
    engine: str = ""
    """The engine that ran it, if not our own operators."""

    def to_json(self) -> dict[str, object]:
        """Return the JSON form, as `--json` shows it."""
        return {
            "rows": self.rows,
            "ms": round(self.seconds * 1e3, 3),
            "requests": self.requests,
            "bytes": self.bytes,
            "runs": self.runs,
            "chosen_at_run_time": self.choices,
            "run_with_step": self.joined_with,
        }


@dataclass
class QueryProfile:
    """The profiles of all steps, by the step numbers of the plan."""

    clock: Clock
    telemetry: Telemetry
    steps: dict[int, StepProfile] = field(default_factory=dict)
    # The steps being measured, the innermost last: a step may run others, such as the side of a join.
    _running: list[StepProfile] = field(default_factory=list)

    def get_step(self, step: int) -> StepProfile:
        """Return the totals of a step so far."""
        return self.steps.setdefault(step, StepProfile())

    def note_choice(self, choice: str) -> None:
        """Record a choice for the running step, once; ignore it between steps."""
        if self._running and choice not in self._running[-1].choices:
            self._running[-1].choices.append(choice)

    @contextmanager
    def measure(self, step: int) -> Iterator[StepProfile]:
        """Add the time and requests of the `with` block to a step; the block itself adds rows and bytes."""
        # Added up, not replaced: a step runs once for each chunk of its input.
        actual = self.get_step(step)
        before = self.clock.monotonic()
        with self.telemetry.count_requests() as requests:
            self._running.append(actual)
            try:
                yield actual
            finally:
                self._running.pop()
                actual.seconds += self.clock.monotonic() - before
                actual.requests += requests.count()
                actual.runs += 1
