"""Format the costs of the tour's steps as a table."""

from collections.abc import Iterable, Sequence

from omnigraph.demo.runner import StepCost
from omnigraph.telemetry import RequestCounts

HEADERS = ("step", "seconds", "reads", "writes", "lists", "rows")
# The kind of a request by the first word of its operation; all others are writes.
_KINDS = {"get": "reads", "head": "reads", "list": "lists"}


def build_cost_rows(costs: Iterable[StepCost]) -> list[tuple[str, ...]]:
    """Return a row for each step, in order, and one for the total; commands of one step are added up."""
    steps: dict[str, list[StepCost]] = {}
    for cost in costs:
        steps.setdefault(cost.step, []).append(cost)
    rows = [_build_row(step, step_costs) for step, step_costs in steps.items()]
    return [*rows, _build_row("all of it", [cost for step_costs in steps.values() for cost in step_costs])]


def _build_row(step: str, costs: Sequence[StepCost]) -> tuple[str, ...]:
    requests = [cost.requests for cost in costs if cost.requests is not None]
    rows = [cost.rows for cost in costs if cost.rows is not None]
    return (
        step,
        f"{sum(cost.seconds for cost in costs):.1f}",
        *(_format_total(requests, kind) for kind in ("reads", "writes", "lists")),
        f"{sum(rows):,}" if rows else "",
    )


def _format_total(requests: Sequence[RequestCounts], kind: str) -> str:
    if not requests:
        return ""
    total = sum(
        number
        for counted in requests
        for key, number in counted.counts.items()
        if _KINDS.get(key.operation.partition("_")[0], "writes") == kind
    )
    return f"{total:,}"
