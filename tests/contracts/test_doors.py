"""One engine, several doors: a call has the same answer, error and exit code, whichever door it comes through."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from door_calls import CALLS, ERRORS, Call
from doors import DOORS, Door, Outcome, opened
from omnigraph.ops import cleanup_files
from serving import TOKENS


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Door]]:
    with opened(tmp_path_factory.mktemp("doors")) as found:
        yield found


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_TOKEN", TOKENS["admin"])
    monkeypatch.setenv("OMNIGRAPH_DURABILITY", "os")
    monkeypatch.delenv("OMNIGRAPH_STORE", raising=False)
    # On a machine that is busy the doors may come to a cleanup on both sides of the time that manifests stay.
    monkeypatch.setattr(cleanup_files, "MIN_GRACE", timedelta(days=1))


def called(door: Door, call: Call, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    monkeypatch.chdir(door.home)
    return door.call(call)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_a_call_comes_to_the_same_through_every_door(
    call: Call, doors: list[Door], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, *others = [called(door, call, monkeypatch) for door in doors]

    assert (expected.error is None) == (call not in ERRORS)
    assert dict(zip(DOORS[1:], others, strict=True)) == dict.fromkeys(DOORS[1:], expected)


@pytest.mark.parametrize("call", [call for call in CALLS if call.text], ids=lambda call: call.name)
def test_people_see_the_same_through_both_command_lines(
    call: Call, doors: list[Door], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for door in doors[2:]:
        monkeypatch.chdir(door.home)
        found.append(door.text(call))

    assert found[1] == found[0]


def test_there_are_a_hundred_calls_and_more() -> None:
    assert len(CALLS) - len(ERRORS) > 90
    assert len(ERRORS) > 45
