"""How often a property-based test is tried: 200 times on the same examples, or many times on others with `-m soak`."""

import pytest
from hypothesis import HealthCheck, settings

MANY = 20_000

SOME_AND_MANY = pytest.mark.parametrize(
    "examples", [pytest.param(200, id="some"), pytest.param(MANY, id="many", marks=pytest.mark.soak)]
)
"""Runs a test with `examples` of 200, and of 20,000 in the soak profile."""


def profile(examples: int) -> settings:
    """Settings for that many examples; the many differ from run to run."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=examples, derandomize=examples < MANY, suppress_health_check=slow)
