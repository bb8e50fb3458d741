"""Rules about rows: what is compiled decides as the policy engine does, and what can't be compiled is refused."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cedarpy
import pyarrow as pa
import pytest

from hidden_rows import load_policies
from omnigraph.config.tokens import read_tokens
from omnigraph.engine.row_security.evaluate_rules import RowValues, find_seen_rows
from omnigraph.errors import SettingsError
from omnigraph.lang.source import Source
from omnigraph.policy import Actor, parse_attribute
from omnigraph.row_rules import RowRules
from omnigraph.schema.bind import load_schema

SCHEMA = """
node Person { name: String  region: String?  secret: Bool?  level: I32?  score: I64?  tier: enum(low, high)? }
node City { name: String  region: String? }
"""
TYPES = ("Person", "City")
VALUES: dict[str, Sequence[Any]] = {
    "name": ["ada", "bob"],
    "region": [None, "eu", "us", ""],
    "secret": [None, True, False],
    "level": [None, 0, 1, 2, -1],
    "score": [None, 2**62, 1, -5],
    "tier": [None, "low", "high"],
}
ATTRIBUTES = {
    "region": "eu",
    "level": 1,
    "regions": ["eu", "us"],
    "levels": [1, 2],
    "trusted": True,
    "mixed": ["eu", 1],
}
ACTOR = Actor(
    name="ada",
    groups=frozenset({"g1", "g2"}),
    attributes=tuple(sorted((name, parse_attribute(value)) for name, value in ATTRIBUTES.items())),  # type: ignore[misc]
)
PROPERTIES = ("name", "region", "secret", "level", "score", "tier")


def draw_operand(rng: random.Random) -> str:
    return rng.choice(
        [
            '"eu"',
            '"ada"',
            "1",
            "true",
            "-5",
            "[1, 2]",
            "principal.region",
            "principal.level",
            "principal.missing",
            "principal.trusted",
            "principal.name",
            'Group::"g1"',
            "context.query",
        ]
    )


def draw_property(rng: random.Random) -> str:
    return f"resource.{rng.choice((*PROPERTIES, 'type'))}"


def draw_condition(rng: random.Random, depth: int) -> str:
    if depth and rng.random() < 0.6:
        left, right = draw_condition(rng, depth - 1), draw_condition(rng, depth - 1)
        return rng.choice([f"({left} && {right})", f"({left} || {right})", f"!({left})"])
    sets = ['["eu", "us"]', "[1, true]", "principal.regions", "principal.levels", "principal.mixed", "principal.region"]
    return rng.choice(
        [
            f"{draw_property(rng)} {rng.choice(['==', '!='])} {draw_operand(rng)}",
            f"{draw_operand(rng)} == {draw_property(rng)}",
            f"{draw_operand(rng)} == {draw_operand(rng)}",
            f"{draw_property(rng)} {rng.choice(['<', '<=', '>', '>='])} {draw_operand(rng)}",
            f"{draw_operand(rng)} {rng.choice(['<', '>='])} {draw_property(rng)}",
            f"resource has {rng.choice(PROPERTIES)}",
            f"principal has {rng.choice(['region', 'missing'])}",
            f"{rng.choice(sets)}.contains({rng.choice([draw_property, draw_operand])(rng)})",
            f'principal in Group::"{rng.choice(["g1", "g9"])}"',
            f'principal in [Group::"g9", {rng.choice(["Group::", "Actor::"])}"{rng.choice(["g1", "ada"])}"]',
            f'resource in {rng.choice(["Graph::", "Branch::"])}"{rng.choice(["g", "g/main", "h"])}"',
            "resource is Row",
            "principal is Actor",
            'resource.type == "Person"',
            "resource.secret",
            "principal.trusted",
            "context has query",
            rng.choice(["true", "false"]),
        ]
    )


def draw_policies(rng: random.Random) -> str:
    texts = []
    for _ in range(rng.randint(1, 4)):
        principal = rng.choice(
            ["principal", 'principal == Actor::"ada"', 'principal in Group::"g1"', "principal is Actor"]
        )
        resource = rng.choice(
            [
                "resource",
                'resource in Graph::"g"',
                'resource in Branch::"g/main"',
                'resource in Branch::"g/b"',
                "resource is Row",
            ]
        )
        conditions = " ".join(
            f"{rng.choice(['when', 'when', 'unless'])} {{ {draw_condition(rng, 3)} }}" for _ in range(rng.randint(0, 2))
        )
        effect = rng.choice(["permit", "permit", "forbid"])
        texts.append(f'{effect}({principal}, action == Action::"see", {resource}) {conditions};')
    return "\n".join(texts)


def draw_rows(rng: random.Random, type_name: str, count: int) -> list[dict[str, Any]]:
    names = PROPERTIES if type_name == "Person" else ("name", "region")
    return [{name: rng.choice(VALUES[name]) for name in names} for _ in range(count)]


def ask_engine(policies: str, rows: list[dict[str, Any]], type_name: str, query: str | None) -> list[bool]:
    """The policy engine's own answer for each row; a forbid that fails forbids."""
    entities: list[dict[str, Any]] = [
        {
            "uid": {"type": "Actor", "id": ACTOR.name},
            "attrs": {"name": ACTOR.name, **ATTRIBUTES},
            "parents": [{"type": "Group", "id": group} for group in sorted(ACTOR.groups)],
        },
        {"uid": {"type": "Graph", "id": "g"}, "attrs": {}, "parents": []},
        {"uid": {"type": "Branch", "id": "g/main"}, "attrs": {}, "parents": [{"type": "Graph", "id": "g"}]},
    ]
    effects = [line.partition("(")[0] for line in policies.splitlines()]
    answers = []
    for row in rows:
        values = {name: value for name, value in row.items() if value is not None}
        entity = {
            "uid": {"type": "Row", "id": "row"},
            "attrs": {"type": type_name, **values},
            "parents": [{"type": "Branch", "id": "g/main"}],
        }
        request = {
            "principal": {"type": "Actor", "id": ACTOR.name},
            "action": {"type": "Action", "id": "see"},
            "resource": {"type": "Row", "id": "row"},
            "context": {} if query is None else {"query": query},
        }
        answer = cedarpy.is_authorized(request, policies, [*entities, entity])
        failed = {
            effects[number]
            for number in range(len(effects))
            for error in answer.diagnostics.errors
            if f"`policy{number}`" in str(error)
        }
        assert bool(failed) == bool(answer.diagnostics.errors)
        answers.append(bool(answer.allowed) and "forbid" not in failed)
    return answers


def find_seen(rules: RowRules | None, rows: list[dict[str, Any]], type_name: str) -> list[bool]:
    if rules is None:
        return [True] * len(rows)
    type_ = load_schema(Source(SCHEMA, "s.pg")).nodes[type_name]
    types = {"level": pa.int32(), "score": pa.int64(), "secret": pa.bool_()}

    def load(name: str) -> pa.Array:
        return pa.array([row[name] for row in rows], types.get(name, pa.string()))

    seen = find_seen_rows([rules.get_type_rules(type_name)], RowValues(type_, len(rows), load))
    return [bool(is_seen) for is_seen in seen]


@pytest.mark.parametrize("seed", range(150))
def test_compiled_rules_decide_as_the_policy_engine_does(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    text = draw_policies(rng)
    query = rng.choice([None, "eu"])
    rules = load_policies(tmp_path / "p", text).find_row_rules("g", ACTOR, "main", query)

    for type_name in TYPES:
        rows = draw_rows(rng, type_name, 25)
        own = None if rules is None else rules.get_type_rules(type_name)
        if own is not None and own.properties - rows[0].keys():
            # A type that lacks a property of its rules is hidden.
            assert find_seen(rules, rows, type_name) == [False] * len(rows)
        else:
            assert find_seen(rules, rows, type_name) == ask_engine(text, rows, type_name, query), text


@pytest.mark.parametrize(
    "condition, reason",
    [
        ('resource.name like "a*"', "`like`"),
        ("if true then true else false", "`if-then-else`"),
        ("resource.name == resource.region", "two properties"),
        ("resource.tags.contains(1)", "can't be a set"),
        ('["a"].containsAny(["a"])', "`containsAny`"),
        ("resource.level + 1 == 2", "`+`"),
        ("resource.a.b == 1", "attributes of attributes"),
        ('resource == Row::"ada"', "`resource` itself"),
        ('principal in Graph::"g"', "Actor, Group"),
        ('resource in Group::"g"', "Graph, Branch"),
        ("principal is Robot", "no type `Robot`"),
        ('ip("1.2.3.4").isLoopback()', "isLoopback"),
        ("[resource.name].contains(1)", "element"),
    ],
)
def test_what_cant_be_compiled_is_refused_when_it_is_loaded(condition: str, reason: str, tmp_path: Path) -> None:
    text = f'@id("broad") permit(principal, action == Action::"see", resource) when {{ {condition} }};'

    with pytest.raises(SettingsError) as refused:
        load_policies(tmp_path / "p", text)

    assert "`broad` can't decide which rows are seen" in str(refused.value)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    "policy, reason",
    [
        ('permit(principal in Grup::"x", action == Action::"see", resource);', "Grup"),
        ('permit(principal, action == Action::"see", resource is Branch);', "Branch"),
        ('permit(principal, action in [Action::"see", Action::"read"], resource);', "of its own"),
        ('permit(principal, action == Other::Action::"see", resource);', 'Action::"see"'),
        ('permit(principal, action, resource) when { resource has name && resource.name like "x*" };', "`like`"),
    ],
)
def test_scopes_of_policies_about_rows_are_checked(policy: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=reason):
        load_policies(tmp_path / "p", f'permit(principal, action == Action::"see", resource);\n{policy}')


def test_without_a_policy_about_rows_all_are_seen(tmp_path: Path) -> None:
    text = 'forbid(principal, action, resource) when { resource is Branch && resource.name like "vault/*" };'

    policies = load_policies(tmp_path / "p", f"permit(principal, action, resource);\n{text}")

    assert policies.find_row_rules("g", ACTOR, "main", None) is None


def test_a_policy_about_every_action_is_about_rows_too(tmp_path: Path) -> None:
    see = 'permit(principal in Group::"g9", action == Action::"see", resource);'
    text = f'permit(principal in Group::"g1", action, resource);\n{see}'

    policies = load_policies(tmp_path / "p", text)

    assert policies.find_row_rules("g", ACTOR, "main", None) is None
    assert policies.find_row_rules("g", Actor(name="bob"), "main", None) == RowRules((), ())


def test_attributes_that_are_equal_in_python_are_not_the_same(tmp_path: Path) -> None:
    policies = load_policies(
        tmp_path / "p", 'permit(principal, action == Action::"see", resource) when { principal.trusted };'
    )
    found = [
        policies.find_row_rules("g", Actor(name="eve", attributes=(("trusted", value),)), "main", None)
        for value in (True, 1)
    ]

    assert found[0] is None
    assert found[1] is not None


def test_for_the_whole_graph_a_rule_about_a_branch_never_opens(tmp_path: Path) -> None:
    see = 'permit(principal, action == Action::"see", resource'
    on_branch = load_policies(tmp_path / "a", f'{see} in Branch::"g/main");')
    hidden = load_policies(
        tmp_path / "b", f'{see});\nforbid(principal, action == Action::"see", resource in Branch::"g/x");'
    )

    assert on_branch.find_row_rules("g", ACTOR, "main", None) is None
    assert hidden.find_row_rules("g", ACTOR, "main", None) is None
    for policies in (on_branch, hidden):
        rules = policies.find_row_rules("g", ACTOR, None, None)
        assert rules is not None
        assert rules.get_type_rules("Person").is_nothing_seen


def test_attributes_are_read_from_the_tokens_file(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    digest = "0" * 64
    file.write_text(
        f'[[token]]\nactor = "ada"\nsha256 = "{digest}"\n'
        '[token.attributes]\nregions = ["us", "eu"]\nlevel = 3\nok = true\n'
    )
    file.chmod(0o600)

    (record,) = read_tokens(file)

    assert record.actor.attributes == (("level", 3), ("ok", True), ("regions", ("eu", "us")))


@pytest.mark.parametrize("value", ["1.5", "{ a = 1 }", '[["a"]]', "9223372036854775808"])
def test_an_attribute_that_no_rule_could_compare_is_refused(value: str, tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(f'[[token]]\nactor = "ada"\nsha256 = "{"0" * 64}"\nattributes = {{ level = {value} }}\n')
    file.chmod(0o600)

    with pytest.raises(SettingsError, match="level"):
        read_tokens(file)
