"""What each step of a plan really did: rows, time, requests, bytes. Only `explain --analyze` keeps one."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from omnigraph.clock import Clock
from omnigraph.telemetry import RequestCounts, Telemetry


@dataclass(slots=True)
class StepProfile:
    """The sums over every time a step ran; a step runs once for each chunk of its input."""

    rows: int = 0
    seconds: float = 0.0
    requests: int = 0
    bytes: int = 0
    """What the step allocated for its result."""
    runs: int = 0
    choices: list[str] = field(default_factory=list)
    """What the plan leaves to the moment, and how it was decided: by what is in memory, and how many rows there are."""
    joined_with: int | None = None
    """The later step that it was run together with: there were no rows between the two."""

    def to_json(self) -> dict[str, object]:
        """What `--json` shows."""
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
    """Collects actuals by step; steps are numbered by the plan."""

    clock: Clock
    telemetry: Telemetry
    steps: dict[int, StepProfile] = field(default_factory=dict)
    _running: list[StepProfile] = field(default_factory=list)
    """The steps that are being measured, the innermost last."""

    def get_step(self, step: int) -> StepProfile:
        """The sums of a step so far."""
        return self.steps.setdefault(step, StepProfile())

    def note_choice(self, choice: str) -> None:
        """Note a choice of the step that is running, once; between steps there is nobody to note it for."""
        if self._running and choice not in self._running[-1].choices:
            self._running[-1].choices.append(choice)

    @contextmanager
    def measure(self, step: int) -> Iterator[StepProfile]:
        """Time and requests of the block go to the step; the block adds rows and bytes."""
        actual = self.get_step(step)
        before = self.clock.monotonic()
        with self.telemetry.count_requests() as requests:
            self._running.append(actual)
            try:
                yield actual
            finally:
                self._running.pop()
                actual.seconds += self.clock.monotonic() - before
                actual.requests += _sum_requests(requests)
                actual.runs += 1


def _sum_requests(requests: RequestCounts) -> int:
    return requests.count()
