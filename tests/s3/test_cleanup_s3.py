"""Cleanup on an object store: the same as on a disk, by the store's own clock."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

import omnigraph as og
from branching import branch, put
from collecting import collect, content, small_world
from omnigraph.ops.branch import delete_branch
from omnigraph.ops.history import list_commits
from omnigraph.ops.open import open_session
from omnigraph.ops.revision import resolve_state
from omnigraph.ops.session import Session
from omnigraph.ops.tag import create_tag
from omnigraph.runtime import Runtime
from s3_server import fresh_uri, s3_server
from upkeep_calls import AtPoint
from worlds import FAST

NOTHING = timedelta()


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.fixture
def session(storage: dict[str, str]) -> Session:
    """A tag, a branch, a branch that was deleted, and a past."""
    session = small_world(fresh_uri(), replace(FAST, storage=storage))
    for number in (1, 2, 3):
        put(session, {"a": number}, "node:A", "node:B")
    create_tag(session, "then", actor="test")
    put(branch(session, "side"), {"b": 1})
    put(branch(session, "gone"), {"c": 1})
    delete_branch(session, "gone")
    put(session, {"a": 4})
    wait_a_second(session)
    return session


def wait_a_second(session: Session) -> None:
    """The store's times are whole seconds: what is to be older has to wait for the next one."""
    session.runtime.clock.sleep(1.1)


def again(session: Session, **runtime: object) -> Session:
    settings = {"options": session.runtime.options, **runtime}
    return open_session(session.uri, is_read_only=False, runtime=Runtime(**settings))  # type: ignore[arg-type]  # by name


def test_what_is_kept_is_read_and_the_rest_is_gone_on_s3(session: Session) -> None:
    expected = {name: content(session, resolve_state(session, name)) for name in ("main", "side", "then")}
    oldest = list_commits(session)[-2].id
    before = len(session.store.objects.list_under("nodes"))

    done = collect(session, grace=NOTHING)
    left = collect(session, grace=NOTHING, confirm=False)

    there = again(session)
    assert {name: content(there, resolve_state(there, name)) for name in expected} == expected
    assert done.bytes_removed > 0
    assert (len(session.store.objects.list_under("nodes")) < before, left.bytes_removed) == (True, 0)
    with pytest.raises(og.CommitCollectedError):
        there.resolve_snapshot(commit_id=oldest)


def test_a_writer_that_was_overtaken_fails_on_s3(session: Session) -> None:
    def meanwhile() -> None:
        wait_a_second(session)
        collect(session, grace=NOTHING)

    with pytest.raises(og.TooSlowError, match="ran in the meantime"):
        put(again(session, faults=AtPoint("publish.flushed", meanwhile)), {"z": 1})

    there = again(session)
    assert content(there, there.resolve_snapshot())["node:A"] == {"a": 4}


class _KilledError(BaseException):
    """The process died here."""


class _KilledAt:
    """Faults that end everything when a point is reached for the nth time."""

    def __init__(self, point: str, nth: int) -> None:
        self._point, self._left = point, nth

    def reach(self, point: str) -> None:
        self._left -= point == self._point
        if not self._left:
            raise _KilledError


def test_a_cleanup_that_dies_anywhere_on_s3_takes_nothing_that_is_kept(session: Session) -> None:
    """It dies again and again, a step further each time: floors of a deleted branch, of branches, mark, sweep."""
    dead = branch(session, "dead", "side")
    put(dead, {"d": 1})
    put(dead, {"d": 2})
    create_tag(session, "last", ref="dead", actor="test")
    delete_branch(session, "dead")
    wait_a_second(session)
    kept = ("main", "side", "then", "last")
    expected = {name: content(session, resolve_state(session, name)) for name in kept}
    steps = ["listed", "floored", "floored", "floor", "marked", "removed", "removed", "swept"]

    for place, point in enumerate(steps):
        nth = 1 + steps[:place].count(point)
        with pytest.raises(_KilledError):
            collect(again(session, faults=_KilledAt(f"cleanup.{point}", nth)), grace=NOTHING)
        there = again(session)
        assert {name: content(there, resolve_state(there, name)) for name in kept} == expected, f"{point} {nth}"
        put(again(session), {"next": nth}, "node:B")
        expected["main"] = content(session, session.resolve_snapshot())

    wait_a_second(session)
    collect(again(session), grace=NOTHING)
    wait_a_second(session)
    there = again(session)
    assert {name: content(there, resolve_state(there, name)) for name in kept} == expected
    assert collect(there, grace=NOTHING, confirm=False).bytes_removed == 0
