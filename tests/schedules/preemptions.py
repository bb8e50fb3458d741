"""Try all schedules of a small scenario with few preemptions, and each set of equivalent ones once.

A preemption is at a request of a thread, in favour of another one that could go on. Who goes on when a thread waits or
has ended, and who begins, is no preemption: all are tried. If what the thread does from that
request to its next one is independent of everything that others do until it goes on, the preemption may as well come
at the next request: both schedules have the same steps in an order that nobody can tell apart, and one is run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from schedules.exhaustive import Search
from schedules.scheduler import Task
from schedules.strategies import Choice, ReplayStrategy, Schedule

Switches = tuple[Choice, ...]
Point = tuple[str, int]
"""After which step of a thread."""
PATIENCE = timedelta(seconds=1)
"""Steps between which the time jumps are told apart by a look at the clock."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A step that was taken: what it read and wrote; a name that ends with a slash means all below it."""

    thread: str
    number: int
    at: timedelta
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    is_request: bool = False
    has_fault: bool = False


def is_independent(left: Taken, right: Taken) -> bool:
    """Return whether nobody can tell in which order two steps were taken."""
    return not (
        left.has_fault
        or right.has_fault
        or _have_common(left.writes, right.writes)
        or _have_common(left.writes, right.reads)
        or _have_common(left.reads, right.writes)
    )


def _have_common(left: frozenset[str], right: frozenset[str]) -> bool:
    if not left.isdisjoint(right):
        return True
    return any(
        (a.endswith("/") and b.startswith(a)) or (b.endswith("/") and a.startswith(b)) for a in left for b in right
    )


class WatchedStrategy(ReplayStrategy):
    """Replay choices, and note which others there were."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule)
        self.others: dict[Point, tuple[str, ...]] = {}
        self.free: dict[Point, tuple[str, ...]] = {}

    def choose(self, last: Task | None, ready: list[Task], sleeping: list[Task]) -> Task:
        """See Strategy."""
        chosen = super().choose(last, ready, sleeping)
        if last is not None and last in ready:
            self.others[last.name, last.steps] = tuple(task.name for task in (*ready, *sleeping) if task is not last)
        elif len(ready) > 1:
            point = ("", 0) if last is None else (last.name, last.steps)
            self.free[point] = tuple(task.name for task in ready if task is not chosen)
        return chosen


@dataclass(frozen=True)
class Played:
    """A run: what is wrong after it, its steps, and who else could have gone on."""

    problems: list[str]
    steps: Sequence[Taken]
    others: Mapping[Point, tuple[str, ...]]
    """The others before a step of a thread that could go on itself."""
    free: Mapping[Point, tuple[str, ...]]
    """The others after a step of a thread that then waited, or ended."""


def search_preemptions(play: Callable[[Switches], Played], bound: int, limit: int) -> Search:
    """Explore every schedule with at most `bound` preemptions."""
    return _PreemptionSearch(play, bound, limit).run()


class _PreemptionSearch:
    """One search. Of a schedule that is left out it knows the steps, from the run that it is equivalent to."""

    def __init__(self, play: Callable[[Switches], Played], bound: int, limit: int) -> None:
        self._play = play
        self._bound = bound
        self._limit = limit
        self._search = Search(is_complete=True)
        self._known: dict[Switches, Played] = {}
        self._next_points: dict[Switches, dict[Choice, Choice]] = {}
        """For a schedule and a preemption more: the same preemption at the next request of its thread."""

    def run(self) -> Search:
        """Explore all."""
        self._explore((), 0)
        return self._search

    def _explore(self, switches: Switches, preemptions: int) -> None:
        """Run a schedule, and those with more choices after its own, the last first."""
        if self._search.runs >= self._limit:
            self._search.is_complete = False
            return
        is_last = preemptions == self._bound
        played = self._find_equivalent(switches) if is_last else None
        if played is None:
            played = self._play(switches)
            self._search.runs += 1
            self._search.decisions += sum(step.is_request for step in played.steps)
            if played.problems:
                self._search.problems.append((Schedule(switches), played.problems))
        else:
            self._search.pruned += 1
        self._known[switches] = played
        begin = _find_begin(switches, played.steps)
        if not is_last:
            points = self._next_points[switches] = dict(_list_preemptions(switches, played, begin))
            for choice in reversed(points):
                self._explore((*switches, choice), preemptions + 1)
        for choice in _list_free(switches, played, begin):
            self._explore((*switches, choice), preemptions)

    def _find_equivalent(self, switches: Switches) -> Played | None:
        """Return what is known of a schedule by one in which a preemption comes a request later."""
        for position, choice in enumerate(switches):
            later = self._next_points.get(switches[:position], {}).get(choice)
            if later is None or any(other[:2] == later[:2] for other in switches):
                continue
            known = self._known.get((*switches[:position], later, *switches[position + 1 :]))
            steps = None if known is None else _move_back(known.steps, choice, later)
            if known is not None and steps is not None:
                return replace(known, steps=steps)
        return None


def _find_begin(switches: Switches, steps: Sequence[Taken]) -> int:
    """Return the position of the step before the last choice."""
    point = switches[-1][:2] if switches else ("", 0)
    return -1 if point == ("", 0) else _find_step(steps, point)


def _find_step(steps: Sequence[Taken], point: Point) -> int:
    """Return the position of a step; a great number if it was not taken."""
    return next((at for at, step in enumerate(steps) if (step.thread, step.number) == point), len(steps))


def _list_preemptions(switches: Switches, played: Played, begin: int) -> Iterator[tuple[Choice, Choice]]:
    """Yield the preemptions after the last choice of a run, each with what it is at the next request of its thread."""
    steps = played.steps
    taken = {choice[:2] for choice in switches}
    requests = [at for at, step in enumerate(steps) if step.is_request and at > begin]
    for position, at in enumerate(requests):
        thread, point = steps[at].thread, (steps[at].thread, steps[at].number - 1)
        if point in taken:
            continue
        following = requests[position + 1] if position + 1 < len(requests) else at
        is_alone = all(step.thread == thread for step in steps[at : following + 1])
        next_point = (thread, steps[following].number - 1) if is_alone else point
        for other in played.others.get(point, ()):
            is_possible = other in played.others.get(next_point, ())
            yield (*point, other), (*(next_point if is_possible else point), other)


def _list_free(switches: Switches, played: Played, begin: int) -> Iterator[Choice]:
    """Yield the choices after the last one of a run where a thread could not go on."""
    taken = {choice[:2] for choice in switches}
    for point, others in played.free.items():
        is_later = begin < 0 if point == ("", 0) else begin <= _find_step(played.steps, point) < len(played.steps)
        if point not in taken and is_later:
            yield from ((*point, other) for other in others)


def _move_back(steps: Sequence[Taken], choice: Choice, later: Choice) -> Sequence[Taken] | None:
    """Return the steps with the preemption at the earlier request, if that is an order that nobody can tell apart."""
    thread, first, _ = choice
    end = _find_step(steps, later[:2])
    begin = end - (later[1] - first) + 1
    if choice == later or end == len(steps):
        return None
    moved = steps[begin : end + 1]
    resumed = next((at for at in range(end + 1, len(steps)) if steps[at].thread == thread), len(steps))
    window = steps[end + 1 : resumed]
    if not window or any(step.thread != thread for step in moved) or window[-1].at - moved[0].at > PATIENCE:
        return None
    if not all(is_independent(step, other) for step in moved for other in window):
        return None
    return [*steps[:begin], *window, *moved, *steps[resumed:]]
