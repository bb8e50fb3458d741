"""The deadline and memory limit of a verb: what its caller says, else what the settings say."""

from dataclasses import dataclass

from omnigraph.engine.query_budget import Budget
from omnigraph.ops.argument_checks import check_count, check_number
from omnigraph.ops.session import Session, with_budget

UNCHANGED = "nothing was changed"
"""What became of a write that ran out of its budget before it was published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """What a caller allows a verb to use; None: as the settings say. A `budget` counts instead of the other two."""

    seconds: float | None = None
    memory_bytes: int | None = None
    budget: Budget | None = None


def resolve_budget(session: Session, limits: ResourceLimits) -> Budget:
    """Return the budget that a caller handed in, or start one: its deadline counts from now.

    Raises:
        BadArgumentError: A limit is no number of seconds or bytes.
    """
    if limits.budget is not None:
        return limits.budget
    check_number("seconds", limits.seconds)
    check_count("memory_bytes", limits.memory_bytes)
    options = session.runtime.options
    return Budget(
        session.runtime.clock,
        seconds=options.query_seconds if limits.seconds is None else limits.seconds,
        memory_bytes=options.query_memory_bytes if limits.memory_bytes is None else limits.memory_bytes,
    )


def with_limits(session: Session, limits: ResourceLimits, subject: str, effect: str = UNCHANGED) -> Session:
    """Return the session for one verb with these limits; errors name the verb and say what became of it."""
    budget = resolve_budget(session, limits)
    budget.subject, budget.effect = subject, effect
    return with_budget(session, budget)
