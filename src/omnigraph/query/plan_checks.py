"""The check that plan nodes apply to their input when they are built."""


def require(condition: bool, problem: str) -> None:
    """Check a condition of a plan node, so that a rewrite rule that builds an invalid node fails immediately.

    Raises:
        ValueError: It does not hold.
    """
    if not condition:
        raise ValueError(problem)
