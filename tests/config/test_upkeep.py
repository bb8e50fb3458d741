"""How many tables maintenance works on at once, by the environment."""

import pytest

from omnigraph.config.environment import build_runtime
from omnigraph.errors import SettingsError

NAME = "OMNIGRAPH_MAINTENANCE_CONCURRENCY"


@pytest.mark.parametrize("value, found", [({}, 8), ({NAME: ""}, 8), ({NAME: "1"}, 1), ({NAME: "32"}, 32)])
def test_the_environment_says_how_many_tables_are_worked_on_at_once(value: dict[str, str], found: int) -> None:
    assert build_runtime(value).options.upkeep.concurrency == found


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "٣"])
def test_anything_but_a_whole_number_above_0_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="whole number above 0"):
        build_runtime({NAME: value})
