"""What the steps of the tour cost, as lines of text."""

from collections.abc import Iterable, Sequence

from omnigraph.demo.runner import StepCost
from omnigraph.telemetry import RequestCounts

HEADERS = ("step", "seconds", "reads", "writes", "lists", "rows")
_KINDS = {"get": "reads", "head": "reads", "list": "lists"}
"""What a request is, by the first word of its operation; any other one writes."""


def build_cost_rows(costs: Iterable[StepCost]) -> list[tuple[str, ...]]:
    """A row for each step, in order, and one for all of them; commands of one step are added up."""
    steps: dict[str, list[StepCost]] = {}
    for cost in costs:
        steps.setdefault(cost.step, []).append(cost)
    rows = [_build_row(step, some) for step, some in steps.items()]
    return [*rows, _build_row("all of it", [one for some in steps.values() for one in some])]


def _build_row(step: str, costs: Sequence[StepCost]) -> tuple[str, ...]:
    counted = [one.requests for one in costs if one.requests is not None]
    rows = [one.rows for one in costs if one.rows is not None]
    return (
        step,
        f"{sum(one.seconds for one in costs):.1f}",
        *(_format_total(counted, kind) for kind in ("reads", "writes", "lists")),
        f"{sum(rows):,}" if rows else "",
    )


def _format_total(counted: Sequence[RequestCounts], kind: str) -> str:
    if not counted:
        return ""
    found = sum(
        number
        for one in counted
        for key, number in one.counts.items()
        if _KINDS.get(key.operation.partition("_")[0], "writes") == kind
    )
    return f"{found:,}"
