"""What becomes of cases of damage: counts for the summary of a run, and the failures of a test."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import pytest

from damage_plan import Planned
from damage_verbs import ERROR, FOUND, RIGHT
from damage_worker import Case, DamageWorker

SHOWN = 25


def run_plan(worker: DamageWorker, plan: Iterable[Planned]) -> list[Case]:
    """Run all cases of a plan."""
    return [case for one in plan for case in worker.run(one.place, one.way, one.seed, one.verbs, one.bit)]


def count_verdicts(request: pytest.FixtureRequest, cases: Sequence[Case]) -> None:
    """Hand the counts to the summary of the run."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for case in cases:
        counts[case.group][case.verdict] += 1
    request.node.user_properties.append(("damage verdicts", json.dumps(counts)))


def failures(cases: Iterable[Case]) -> list[Case]:
    """Return the cases that ended neither with the right answer nor with an error that helps."""
    return [case for case in cases if case.verdict not in (RIGHT, ERROR, FOUND)]


def show(failed: Sequence[Case]) -> str:
    """Return the failures, one of each sort, as many as a person reads."""
    sorts: dict[tuple[str, ...], list[Case]] = {}
    for case in failed:
        sorts.setdefault((case.verdict, case.verb, case.group), []).append(case)
    lines = [f"{len(alike)} × {alike[0]}" for alike in sorts.values()]
    return "\n".join([f"{len(failed)} cases failed", *lines[:SHOWN]])
