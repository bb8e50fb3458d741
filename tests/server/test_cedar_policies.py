"""Policies in Cedar: checked before they are asked, and what none permits is denied."""

from pathlib import Path

import pytest

from omnigraph.errors import SettingsError
from omnigraph.policy import Access, Action, Actor
from omnigraph.server.cedar_policies import CedarPolicies
from serving import POLICIES

READER = Actor(name="rea", groups=frozenset({"readers"}))
WRITER = Actor(name="wri", groups=frozenset({"writers"}))
ADMIN = Actor(name="adm", groups=frozenset({"admins"}))


def policies(home: Path, **files: str) -> CedarPolicies:
    for name, text in files.items():
        (home / f"{name}.cedar").write_text(text, encoding="utf-8")
    return CedarPolicies.load(home)


def may(
    found: CedarPolicies, actor: Actor, action: Action, branch: str | None = "main", query: str | None = None
) -> bool:
    return found.decide("people", Access(actor=actor, action=action, branch=branch, query=query)).is_allowed


def test_groups_actions_and_branches_decide(tmp_path: Path) -> None:
    found = policies(tmp_path, all=POLICIES)

    assert [may(found, one, Action.READ) for one in (READER, WRITER, ADMIN)] == [True, True, True]
    assert [may(found, one, Action.CHANGE) for one in (READER, WRITER, ADMIN)] == [False, True, True]
    assert [may(found, one, Action.SCHEMA_APPLY) for one in (READER, WRITER, ADMIN)] == [False, False, True]
    assert [may(found, one, Action.READ, "vault/x") for one in (READER, WRITER, ADMIN)] == [False, False, True]


def test_a_right_may_hold_for_one_stored_query_only(tmp_path: Path) -> None:
    found = policies(tmp_path, all=POLICIES)

    assert may(found, READER, Action.INVOKE_QUERY, query="friends")
    assert not may(found, READER, Action.INVOKE_QUERY, query="others")
    assert not may(found, READER, Action.INVOKE_QUERY)


def test_a_graph_contains_its_branches_and_no_others(tmp_path: Path) -> None:
    found = policies(tmp_path, one='permit(principal, action, resource in Graph::"people");')
    access = Access(actor=READER, action=Action.CHANGE, branch="deep/er")

    assert found.decide("people", access).is_allowed
    assert not found.decide("people2", access).is_allowed
    assert not found.decide("people/deep", Access(actor=READER, action=Action.CHANGE, branch="er")).is_allowed


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "é", "a\0b", "' or true", '", action, resource); //'])
def test_names_are_never_read_as_policy(name: str, tmp_path: Path) -> None:
    found = policies(tmp_path, one='permit(principal == Actor::"root", action, resource);')
    actor = Actor(name=name, groups=frozenset({name}))

    assert not may(found, actor, Action.READ, name, name)
    assert may(found, Actor(name="root"), Action.READ, name, name)


def test_a_decision_names_its_policies(tmp_path: Path) -> None:
    permit = 'permit(principal, action == Action::"{}", resource);'
    named = '@id("by name") ' + permit.format("read")
    found = policies(tmp_path, a=named, b=f"{permit.format('change')}\n{permit.format('export')}")

    reasons = {
        action: found.decide("g", Access(actor=READER, action=action)).reasons
        for action in (Action.READ, Action.CHANGE, Action.EXPORT, Action.MAINTAIN)
    }

    assert reasons == {
        Action.READ: ("by name",),
        Action.CHANGE: ("b.cedar, policy 1",),
        Action.EXPORT: ("b.cedar, policy 2",),
        Action.MAINTAIN: (),
    }


@pytest.mark.parametrize(
    "text, problem",
    [
        ("", "no policy"),
        ("// nothing but a comment\n", "no policy"),
        ("permit(principal, action, resource)", "all.cedar"),
        ('permit(principal, action == Action::"raed", resource);', "raed"),
        ('permit(principal == User::"ada", action, resource);', "User"),
        ("permit(principal, action, resource) when { resource.colour == 1 };", "colour"),
    ],
)
def test_policies_with_mistakes_are_refused_before_they_are_asked(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=problem):
        policies(tmp_path, all=text)


def test_a_policy_that_fails_denies(tmp_path: Path) -> None:
    failing = "forbid(principal, action, resource) when { 9223372036854775807 + 1 == 0 };"
    found = policies(tmp_path, all=f"permit(principal, action, resource);\n{failing}")

    assert not may(found, READER, Action.READ)
