"""Policies are read again while a server runs, all at once; what can't be used changes nothing."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.clock import SystemClock
from omnigraph.errors import SettingsError
from omnigraph.policy import Access, Action, Actor
from omnigraph.server import policy_reload
from omnigraph.server.cedar_policies import CedarPolicies
from omnigraph.server.policy_reload import ReloadingPolicies
from raised_codes import has_code
from serving import ADD, POLICIES, Served, serving

CLOCK = SystemClock()

READER = Actor(name="rita", groups=frozenset({"readers"}))
CHANGE = Access(actor=READER, action=Action.CHANGE, branch="main")
ALSO = '@id("readers may write") permit(principal in Group::"readers", action == Action::"change", resource);'


@pytest.fixture(autouse=True)
def always_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_reload, "_POLL_SECONDS", -1.0)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "all.cedar").write_text(POLICIES, encoding="utf-8")
    return tmp_path


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    found = serving(tmp_path / "server")
    yield found
    found.service.close()


def test_a_policy_that_is_added_and_taken_away_counts_from_then_on(directory: Path) -> None:
    policies = ReloadingPolicies(directory, CLOCK)
    before = policies.decide("people", CHANGE).is_allowed

    (directory / "more.cedar").write_text(ALSO, encoding="utf-8")
    added = policies.decide("people", CHANGE)
    (directory / "more.cedar").unlink()
    after = policies.decide("people", CHANGE).is_allowed

    assert (before, added.is_allowed, after) == (False, True, False)
    assert added.reasons == ("readers may write",)


@pytest.mark.parametrize("text", ["permit(", 'permit(principal, action == Action::"fly", resource);', None])
def test_what_cannot_be_used_leaves_the_policies_as_they_were(
    text: str | None, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (directory / "more.cedar").write_text(ALSO, encoding="utf-8")
    policies = ReloadingPolicies(directory, CLOCK)

    with caplog.at_level(logging.ERROR, "omnigraph"):
        for path in directory.iterdir():
            if text is None:
                path.unlink()
            else:
                path.write_text(text, encoding="utf-8")
        still = policies.decide("people", CHANGE).is_allowed

    assert still
    assert "the previous ones stay in use" in caplog.text


def test_policies_that_are_wrong_from_the_start_are_refused(tmp_path: Path) -> None:
    (tmp_path / "all.cedar").write_text("permit(", encoding="utf-8")

    with pytest.raises(SettingsError, check=has_code("bad_policies")):
        ReloadingPolicies(tmp_path, CLOCK)


def test_a_server_goes_by_the_policies_of_now(served: Served) -> None:
    def status() -> int:
        body = {"query": ADD, "params": {"n": "Eve"}}
        return served.client.post("/graphs/people/mutate", json=body, headers=served.as_role("reader")).status_code

    before = status()
    (served.home / "policies" / "more.cedar").write_text(ALSO, encoding="utf-8")

    assert (before, status()) == (403, 200)


def test_policies_give_examples_of_the_branches_that_they_are_about(tmp_path: Path) -> None:
    (tmp_path / "all.cedar").write_text(
        """permit(principal, action, resource) when { resource is Branch && resource.name like "agent/*" };
        permit(principal, action, resource == Branch::"people/review");
        permit(principal, action, resource) when { resource is Branch && ["a", "b"].contains(resource.name) };""",
        encoding="utf-8",
    )

    assert set(CedarPolicies.load(tmp_path).examples) == {"agent/x", "review", "a", "b"}
