"""Resolve the deadline and memory limit of an operation: those of its caller, else those of the settings."""

from dataclasses import dataclass

from omnigraph.engine.parallel import count_threads
from omnigraph.engine.query_budget import Budget
from omnigraph.ops.argument_checks import check_count, check_number
from omnigraph.ops.session import Session, with_budget

# The effect that a budget error reports for a write that was not published.
UNCHANGED = "nothing was changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """The limits that a caller sets; None uses the settings. A `budget` replaces the other two."""

    seconds: float | None = None
    memory_bytes: int | None = None
    budget: Budget | None = None


def resolve_budget(session: Session, limits: ResourceLimits) -> Budget:
    """Return the budget of the caller, or start a new one, whose deadline counts from now.

    Raises:
        BadArgumentError: A limit is not a number of seconds or bytes.
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
        threads=count_threads(options.threads),
    )


def with_limits(session: Session, limits: ResourceLimits, subject: str, effect: str = UNCHANGED) -> Session:
    """Return the session with these limits for one operation; budget errors state its subject and effect."""
    budget = resolve_budget(session, limits)
    budget.subject, budget.effect = subject, effect
    return with_budget(session, budget)
