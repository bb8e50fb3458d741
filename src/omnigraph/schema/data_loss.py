"""What a migration drops: how much of it there is, and whether it is gone from earlier states too."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from omnigraph.schema.migration_steps import MigrationPlan, Step, StepKind

Losses: TypeAlias = Mapping[tuple[str | None, str | None], int]
"""By the table of a step and its property, None for a whole type, how many values or rows it drops."""


def mark_drops_hard(plan: MigrationPlan) -> MigrationPlan:
    """The plan when data loss is allowed: its drops are hard."""
    return _map_drops(plan, lambda step: replace(step, is_hard=True))


def count_losses(plan: MigrationPlan, losses: Losses) -> MigrationPlan:
    """Return the plan with the number of rows or values in each step that drops some."""

    def count(step: Step) -> Step:
        noun = "values" if step.kind is StepKind.DROP_PROPERTY else "rows"
        return replace(step, facts={**step.facts, noun: losses[step.table, step.property_name]})

    return _map_drops(plan, count)


def describe_drop(step: Step) -> Step:
    """Return a step that drops a type or a property with the message for what is known of it."""
    return replace(step, message=_format_message(step))


def _format_message(step: Step) -> str:
    if step.kind is StepKind.DROP_PROPERTY:
        what, noun, past = f"property `{step.type}.{step.property_name}`", "value", f"`{step.type}`"
    else:
        kind = "edge type" if step.facts.get("kind") == "edge" else "node type"
        what, noun, past = f"{kind} `{step.type}`", "row", "it"
    count = step.lost
    if count == 0 and not step.is_hard:
        return f"drop {what}, which has no {noun}"
    number = f"{noun}s" if count is None else f"{count} {noun if count == 1 else noun + 's'}"
    if step.is_hard:
        return f"drop {what} with its {number}; no earlier state of {past} can be read any more"
    verb = "stays" if count == 1 else "stay"
    return f"drop {what}: its {number} {verb} in earlier versions unless data loss is allowed"


def _map_drops(plan: MigrationPlan, change: Callable[[Step], Step]) -> MigrationPlan:
    """Return the plan with its drops changed, and their messages with them."""
    steps = (describe_drop(change(step)) if step.kind.drops_data else step for step in plan.steps)
    return replace(plan, steps=tuple(steps))
