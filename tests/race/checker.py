"""Decides whether a history of list-append transactions could have happened one after another, in real time.

Each transaction reads some lists and appends unique elements to some. A list shows the order of its writers, so the
dependencies between transactions can be derived: who wrote after whom (ww), who read whose write (wr), who read
a state that somebody overwrote (rw), and who had ended before another began (rt). A cycle is an anomaly.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True)
class Txn:
    """One transaction as its client saw it. `outcome` is ok, fail or unknown."""

    name: str
    start: float
    end: float
    outcome: str
    reads: dict[str, list[str]]
    appends: dict[str, str]


@dataclass
class Graph:
    """Dependencies between transactions, each with its kind."""

    edges: dict[str, dict[str, set[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))

    def add(self, before: str, after: str, kind: str) -> None:
        """`before` must come before `after`."""
        if before != after:
            self.edges[before][after].add(kind)


def anomalies(history: list[Txn], final: dict[str, list[str]]) -> list[str]:
    """Everything that is wrong, named; empty for a history that is strictly serializable."""
    found: list[str] = []
    writer = {element: txn for txn in history for element in txn.appends.values()}
    found += _wrong_elements(history, final, writer)
    found += _wrong_orders(history, final)
    found += _lost_writes(history, final)
    if not found:
        found += _cycles(_dependencies(history, final, writer))
    return found


def _wrong_elements(history: list[Txn], final: dict[str, list[str]], writer: dict[str, Txn]) -> list[str]:
    found = []
    for key, elements in final.items():
        if len(set(elements)) != len(elements):
            found.append(f"duplicate element in {key}")
    for txn in history:
        for key, elements in txn.reads.items():
            for element in elements:
                if element not in writer:
                    found.append(f"garbage: {txn.name} read {element} of {key}, which nobody wrote")
                elif writer[element].outcome == "fail":
                    found.append(f"aborted read: {txn.name} read {element} of {key}")
    found += [
        f"aborted write: {element} of {key} is there"
        for key, elements in final.items()
        for element in elements
        if element in writer and writer[element].outcome == "fail"
    ]
    return found


def _wrong_orders(history: list[Txn], final: dict[str, list[str]]) -> list[str]:
    found = []
    for txn in history:
        for key, seen in txn.reads.items():
            if final.get(key, [])[: len(seen)] != seen:
                found.append(f"incompatible order: {txn.name} read {seen} of {key}")
            mine = txn.appends.get(key)
            if mine is not None and txn.outcome == "ok" and final.get(key, [])[len(seen) : len(seen) + 1] != [mine]:
                found.append(f"lost update: {mine} does not follow what {txn.name} read of {key}")
    return found


def _lost_writes(history: list[Txn], final: dict[str, list[str]]) -> list[str]:
    return [
        f"lost write: {element} of {key}"
        for txn in history
        if txn.outcome == "ok"
        for key, element in txn.appends.items()
        if element not in final.get(key, [])
    ]


def _dependencies(history: list[Txn], final: dict[str, list[str]], writer: dict[str, Txn]) -> Graph:
    graph = Graph()
    for elements in final.values():
        for earlier, later in pairwise(elements):
            graph.add(writer[earlier].name, writer[later].name, "ww")
    for txn in history:
        if txn.outcome == "fail":
            continue
        for key, seen in txn.reads.items():
            if seen:
                graph.add(writer[seen[-1]].name, txn.name, "wr")
            if len(seen) < len(final.get(key, [])):
                graph.add(txn.name, writer[final[key][len(seen)]].name, "rw")
    _real_time([txn for txn in history if txn.outcome == "ok"], graph)
    return graph


def _real_time(done: list[Txn], graph: Graph) -> None:
    """T before U when T ended before U began; only the edges that others don't imply."""
    by_end = sorted(done, key=lambda txn: txn.end)
    for txn in done:
        ended = [other for other in by_end if other.end < txn.start]
        if ended:
            newest_start = max(other.start for other in ended)
            for other in ended:
                if other.end >= newest_start:
                    graph.add(other.name, txn.name, "rt")


def _cycles(graph: Graph) -> list[str]:
    found = []
    for component in _components(graph):
        inside = set(component)
        kinds = {kind for a in component for b, many in graph.edges[a].items() if b in inside for kind in many}
        found.append(f"{_classified(kinds)}: {sorted(component)[:6]}")
    return found


def _classified(kinds: set[str]) -> str:
    timed = "realtime " if "rt" in kinds else ""
    if "rw" in kinds:
        return f"{timed}G2 (skew)"
    return f"{timed}G1c" if "wr" in kinds else f"{timed}G0"


def _components(graph: Graph) -> list[list[str]]:
    """Strongly connected components with more than one member (Tarjan, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    on_stack: set[str] = set()
    stack: list[str] = []
    found: list[list[str]] = []
    for root in list(graph.edges):
        if root in index:
            continue
        work = [(root, iter(list(graph.edges[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(list(graph.edges[successor]))))
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == node:
                            break
                    if len(component) > 1:
                        found.append(component)
    return found
