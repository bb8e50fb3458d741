"""Try all schedules of a small scenario, up to the order of independent steps.

`search_all` is dynamic partial-order reduction (Flanagan and Godefroid, 2005) with sleep sets: after each run it looks
for pairs of dependent steps that could have come in the other order, and tries that order. Two steps are dependent if
operations of one process take them, or if they are about one resource and one of them writes. Time moves only when all
threads wait.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from schedules.scheduler import Fault, Task
from schedules.strategies import FaultPlan, PlannedFault, Schedule

Access = tuple[str, str, str, bool]
"""The thread and process of a step, its resource, and whether it writes."""


def is_dependent(left: Access, right: Access) -> bool:
    """Return whether the order of two steps may matter."""
    if not (left[3] or right[3]) or not left[2] or not right[2]:
        return False
    # A listing is about all keys that begin with its resource.
    return left[2] == right[2] or _is_below(left[2], right[2]) or _is_below(right[2], left[2])


def _is_below(key: str, prefix: str) -> bool:
    return prefix.endswith("/") and key.startswith(prefix)


@dataclass
class Node:
    """A decision of the run that is being explored."""

    ready: dict[str, Access]
    chosen: str
    sleep: dict[str, Access]
    backtrack: set[str] = field(default_factory=set)
    done: dict[str, Access] = field(default_factory=dict)


class GuidedStrategy:
    """Follow the decisions of a stack of nodes, then add new ones."""

    def __init__(self, nodes: list[Node], faults: Sequence[PlannedFault]) -> None:
        self._nodes = nodes
        # Between two requests of a thread nobody else notices whether it still lives.
        self._plan = FaultPlan(faults, lambda task: task.step.is_request)
        self._depth = 0
        self.is_pruned = False

    @property
    def injected(self) -> list[PlannedFault]:
        """The faults that happened."""
        return self._plan.injected

    def choose(self, last: Task | None, ready: list[Task], sleeping: list[Task]) -> Task | None:
        """See Strategy."""
        del sleeping
        accesses = {task.name: _find_access(task) for task in ready}
        if self._depth < len(self._nodes):
            node = self._nodes[self._depth]
            node.ready = accesses
        else:
            parent = self._nodes[-1] if self._nodes else None
            sleep = {} if parent is None else _find_sleep(parent)
            awake = [task.name for task in ready if task.name not in sleep]
            if not awake:
                self.is_pruned = True
                return None
            chosen = last.name if last is not None and last.name in awake else awake[0]
            node = Node(accesses, chosen, sleep, {chosen})
            self._nodes.append(node)
        self._depth += 1
        return next((task for task in ready if task.name == node.chosen), None)

    def inject(self, task: Task) -> Fault | None:
        """See Strategy."""
        return self._plan.inject(task)


def _find_access(task: Task) -> Access:
    # A thread beside the operations, such as that of a heartbeat, shares locks and events with them, and no more.
    process = "" if task.is_daemon else task.process.name
    return task.name, process, task.step.resource, task.step.writes


def _find_sleep(parent: Node) -> dict[str, Access]:
    """Return the threads that need not run next: a run where they did so earlier was explored."""
    chosen = parent.ready[parent.chosen]
    return {
        name: access
        for name, access in {**parent.sleep, **parent.done}.items()
        if name != parent.chosen and not is_dependent(access, chosen)
    }


@dataclass
class Search:
    """What a search has done."""

    runs: int = 0
    pruned: int = 0
    decisions: int = 0
    problems: list[tuple[Schedule, list[str]]] = field(default_factory=list)
    is_complete: bool = False
    faults: int = 0
    fault: int = 0
    """The number of the step that failed."""

    def add(self, other: "Search") -> None:
        """Add what another search has done."""
        self.runs += other.runs
        self.pruned += other.pruned
        self.decisions += other.decisions
        self.problems += other.problems


PlayGuided = Callable[[GuidedStrategy], tuple[list[str], Schedule]]


def search_all(play: PlayGuided, faults: Sequence[PlannedFault] = (), limit: int = 100_000) -> Search:
    """Explore every order of dependent steps, with given faults."""
    search = Search()
    nodes: list[Node] = []
    while search.runs + search.pruned < limit:
        strategy = GuidedStrategy(nodes, faults)
        problems, schedule = play(strategy)
        search.decisions += len(nodes)
        search.fault = max((fault.number for fault in strategy.injected), default=search.fault)
        if strategy.is_pruned:
            search.pruned += 1
        else:
            search.runs += 1
            if problems:
                search.problems.append((schedule, problems))
        _add_backtracks(nodes)
        while nodes:
            node = nodes[-1]
            node.done[node.chosen] = node.ready[node.chosen]
            waiting = sorted(node.backtrack - node.done.keys() - node.sleep.keys())
            if waiting:
                node.chosen = waiting[0]
                break
            nodes.pop()
        if not nodes:
            search.is_complete = True
            break
    return search


def _add_backtracks(nodes: list[Node]) -> None:
    """For each step, find the last one before it that it depends on and could have preceded; mark that for a try."""
    clocks: dict[str, dict[str, int]] = {}
    last: dict[str, int] = {}
    before: list[dict[str, int]] = []
    for number, node in enumerate(nodes):
        access = node.ready[node.chosen]
        thread = access[0]
        clock = dict(clocks.get(thread, {}))
        # Without the order that a wait enforced: who waited for a lock may have taken it before who held it then.
        free = dict(clock)
        is_raced = False
        for earlier in range(number - 1, -1, -1):
            past = nodes[earlier]
            other = past.ready[past.chosen]
            if other[0] == thread or not is_dependent(other, access):
                continue
            is_blocked = thread not in past.ready and last.get(thread, -1) < earlier
            if not is_raced and not is_blocked and free.get(other[0], -1) < earlier:
                # Not ordered by anything between them: a race.
                is_raced = True
                past.backtrack |= {thread} if thread in past.ready else past.ready.keys()
            for name, time in before[earlier].items():
                clock[name] = max(clock.get(name, -1), time)
                if not is_blocked:
                    free[name] = max(free.get(name, -1), time)
        clocks[thread] = clock
        last[thread] = number
        before.append(clock)


def search_with_one_fault(play: PlayGuided, threads: Sequence[str], kinds: Sequence[Fault], limit: int) -> Search:
    """Explore every order for no fault, and for each kind of fault at each step of each thread."""
    total = search_all(play, (), limit)
    complete = total.is_complete
    for thread in threads:
        for kind in kinds:
            number = 1
            while total.runs + total.pruned < limit:
                # The fault happens at the first request from `number` on.
                search = search_all(play, (PlannedFault(thread, number, kind),), limit - total.runs - total.pruned)
                total.add(search)
                complete &= search.is_complete
                if not search.fault:
                    break
                total.faults += 1
                number = search.fault + 1
            else:
                complete = False
    total.is_complete = complete
    return total
