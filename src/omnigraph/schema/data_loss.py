"""Migrations that drop for good: the same steps, but what they drop is gone from earlier states too."""

from dataclasses import replace

from omnigraph.schema.steps import MigrationPlan, Step, StepKind


def losing(plan: MigrationPlan) -> MigrationPlan:
    """The plan when data loss is allowed: its drops are hard."""
    return replace(plan, steps=tuple(_hard(step) if step.kind.drops_data else step for step in plan.steps))


def _hard(step: Step) -> Step:
    if step.kind is StepKind.DROP_PROPERTY:
        message = (
            f"drop property `{step.type}.{step.property_name}` with its values;"
            f" no earlier state of `{step.type}` can be read any more"
        )
    else:
        kind = "edge type" if step.facts.get("kind") == "edge" else "node type"
        message = f"drop {kind} `{step.type}` with its rows; no earlier state of it can be read any more"
    return replace(step, is_hard=True, message=message)
