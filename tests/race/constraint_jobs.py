"""Processes that try to break the schema together. Every function runs in its own process."""

from collections import Counter
from collections.abc import Callable, Iterable

import omnigraph as og
from mutating import run
from omnigraph.runtime import Runtime
from race.jobs import RACING, plant


def opened(uri: str) -> og.Graph:
    """The graph, with settings for races."""
    return og.open_graph(uri, runtime=Runtime(options=RACING))


def take_emails(uri: str, name: str, emails: int, bug: str | None = None) -> dict[str, int]:
    """Insert a person of one's own for each of the shared addresses; how the tries ended."""
    if bug is not None:
        plant(bug)
    graph = opened(uri)
    text = "query q($n: String, $e: String) { insert Person { name: $n, email: $e } }"
    return _tries(
        lambda number: run(graph, text, n=f"{name}-{number}", e=f"{number}@example.org"),
        range(emails),
    )


def move_emails(uri: str, name: str, emails: int) -> dict[str, int]:
    """Give one's own person, by an update, each of the shared addresses in turn."""
    graph = opened(uri)
    run(graph, "query q($n: String) { insert Person { name: $n } }", n=name)
    text = "query q($n: String, $e: String) { update Person set { email: $e } where name = $n }"
    return _tries(lambda number: run(graph, text, n=name, e=f"{number}@example.org"), range(emails))


def hang_edges(uri: str, name: str, nodes: int) -> dict[str, int]:
    """An edge from the hub to each of the shared nodes, while they last."""
    graph = opened(uri)
    text = "query q($to: String, $since: I32) { insert Knows { from: $to, to: $to, since: $since } }"
    return _tries(lambda number: run(graph, text, to=f"n{number}", since=len(name)), range(nodes))


def delete_nodes(uri: str, nodes: int) -> dict[str, int]:
    """Delete the shared nodes, from the last one on."""
    graph = opened(uri)
    text = "query q($n: String) { delete Person where name = $n }"
    return _tries(lambda number: run(graph, text, n=f"n{number}"), reversed(range(nodes)))


def take_jobs(uri: str, people: int, city: str) -> dict[str, int]:
    """A job for each of the shared people, of whom none may have two."""
    graph = opened(uri)
    text = "query q($n: String, $c: String) { insert WorksAt { from: $n, to: $c } }"
    return _tries(lambda number: run(graph, text, n=f"n{number}", c=city), range(people))


def drop_leads(uri: str, teams: int, person: str) -> dict[str, int]:
    """Take one's own leader from each team, which must keep one."""
    graph = opened(uri)
    text = "query q($t: String, $p: String) { delete Leads where from = $t and to = $p }"
    return _tries(lambda number: run(graph, text, t=f"t{number}", p=person), range(teams))


def _tries(attempt: Callable[[int], object], numbers: Iterable[int]) -> dict[str, int]:
    ended: Counter[str] = Counter()
    for number in numbers:
        try:
            attempt(number)
        except (og.ConstraintError, og.ConflictError) as error:
            ended[type(error).__name__] += 1
        else:
            ended["done"] += 1
    return dict(ended)
