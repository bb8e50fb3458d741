"""Cedar policies: validated when loaded, evaluated by every operation. What no policy permits is denied."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import cedarpy

from omnigraph.config.settings_file import read_text
from omnigraph.errors import SettingsError
from omnigraph.lru_cache import LruCache
from omnigraph.policy import GRAPH_ACTIONS, NAMED_ACTIONS, Access, Action, Actor, Decision
from omnigraph.row_rules import RowRules
from omnigraph.server.cedar_row_rules import (
    applies_to_rows,
    compile_rules,
    find_problem,
    iter_static,
    list_actions,
    names_see,
)

SUFFIX = ".cedar"
_MAX_CACHED_DECISIONS = 8_192
# A decision about longer names is not cached: they come from requests, and 1,500 names of 1 MB took 1.8 GB.
_MAX_CACHED_CHARACTERS = 1_024
# Every example is tried when tools are listed for an actor, so their number is bounded.
_MAX_EXAMPLES = 256

_BRANCH_ACTIONS = ", ".join(f'"{action.value}"' for action in Action if action not in GRAPH_ACTIONS)
_GRAPH_ACTIONS = ", ".join(f'"{action.value}"' for action in Action if action in GRAPH_ACTIONS)
# The Cedar schema: a policy that names anything else is rejected when it is loaded.
SCHEMA = f"""
entity Group;
entity Actor in [Group] = {{ "name": String }};
entity Graph = {{ "name": String }};
entity Branch in [Graph] = {{ "name": String, "graph": String }};
action {_BRANCH_ACTIONS} appliesTo {{
  principal: [Actor], resource: [Graph, Branch], context: {{ "query"?: String }}
}};
action {_GRAPH_ACTIONS} appliesTo {{
  principal: [Actor], resource: [Graph], context: {{ "query"?: String }}
}};
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyName:
    """The name of a policy in reasons and messages: its `@id`, or else its file and position there."""

    file: str
    number: int
    id: str | None

    def __str__(self) -> str:
        return self.id or f"{self.file}, policy {self.number}"


class CedarPolicies:
    """An immutable set of Cedar policies, with an LRU cache of decisions. Thread-safe."""

    def __init__(self, text: str, names: Mapping[str, PolicyName]) -> None:
        self._policies = cedarpy.PolicySet.from_str(text)
        static = list(iter_static(_parse(text)))
        policies = [policy for _, policy in static]
        self._actions = {name: frozenset(list_actions(policy)) for name, policy in static}
        self._row_policies = tuple(filter(applies_to_rows, policies)) if any(map(names_see, policies)) else None
        self._row_texts = frozenset(_iter_texts(self._row_policies or ()))
        self.names = dict(names)
        self.examples = tuple(dict.fromkeys(_iter_branch_names(text)))[:_MAX_EXAMPLES]
        """Branch names that the policies may treat specially: for each pattern in them, one that matches."""
        self._cache: LruCache[tuple[str, Access], Decision] = LruCache(_MAX_CACHED_DECISIONS)
        self._rules: LruCache[tuple[str, Actor, str, str | None, str | None], tuple[RowRules | None]] = LruCache(
            _MAX_CACHED_DECISIONS
        )

    @classmethod
    def load(cls, directory: Path) -> "CedarPolicies":
        """Load the policies of all `.cedar` files of a directory.

        Raises:
            SettingsError: A policy has a mistake, or there is no policy at all, which would deny everything.
        """
        files = {path.name: read_text(path) for path in sorted(directory.glob(f"*{SUFFIX}"))}
        problems = [f"{name}: {problem}" for name, text in files.items() for problem in _validate(text)]
        if not problems:
            problems = _find_row_problems(files)
        if problems:
            raise SettingsError.bad_policies(str(directory), tuple(problems))
        # Cedar numbers the policies of the concatenated text in order, as `policy0`, `policy1` and so on.
        names: dict[str, PolicyName] = {}
        for name, text in files.items():
            for policy_name in _build_names(name, text):
                names[f"policy{len(names)}"] = policy_name
        if not names:
            raise SettingsError.bad_policies(
                str(directory), (f"its {SUFFIX} files have no policy, so everything would be denied",)
            )
        return cls("\n".join(files.values()), names)

    def decide(self, graph: str, access: Access) -> Decision:
        """Return whether an actor may perform an action on a graph, and the policies that decided it."""
        key = (graph, access)
        decision = self._cache.get(key)
        if decision is None:
            # Two threads may evaluate the same request, with the same result.
            decision = self._evaluate(graph, access)
            if _is_short(graph, access.actor, access.branch, access.query):
                self._cache.put(key, decision)
        return decision

    def find_row_rules(self, graph: str, actor: Actor, branch: str | None, query: str | None) -> RowRules | None:
        """Return which rows of a branch of a graph an actor sees; None means all. See `Policy.find_row_rules`."""
        if self._row_policies is None:
            return None
        # As text too, because `True == 1` in Python, and a rule tells one from the other.
        key = (graph, actor, repr(actor.attributes), branch, query)
        known = self._rules.get(key)
        if known is None:
            known = (compile_rules(self._row_policies, graph, actor, branch, query),)
            if _is_short(graph, actor, branch, query):
                self._rules.put(key, known)
        return known[0]

    def names_type(self, name: str) -> bool:
        """Return whether a policy about rows has the name of a type, as any text that it compares with."""
        return name in self._row_texts

    def of_graph(self, graph: str) -> "GraphPolicy":
        """Return these policies applied to one graph, in the form that a `Runtime` takes."""
        return GraphPolicy(self, graph)

    def _evaluate(self, graph: str, access: Access) -> Decision:
        request = {
            "principal": _build_uid("Actor", access.actor.name),
            "action": _build_uid("Action", access.action.value),
            "resource": _build_resource(graph, access.branch),
            "context": {} if access.query is None else {"query": access.query},
        }
        response = cedarpy.is_authorized(request, self._policies, _build_entities(graph, access.actor, access.branch))
        # Cedar skips a policy whose evaluation fails. It may be the one that forbids, so an error denies.
        has_errors = bool(response.diagnostics.errors)
        deciding = sorted(response.diagnostics.reasons)
        is_allowed = bool(response.allowed) and not has_errors
        if is_allowed and access.action in NAMED_ACTIONS:
            deciding = [policy for policy in deciding if access.action.value in self._actions.get(policy, ())]
            is_allowed = bool(deciding)
        reasons = tuple(str(self.names.get(policy, policy)) for policy in deciding)
        return Decision(is_allowed=is_allowed, reasons=reasons)


class Policies(Protocol):
    """The policies of a server, either immutable or reloaded when their files change."""

    def decide(self, graph: str, access: Access) -> Decision:
        """Return whether an actor may perform an action on a graph, and the policies that decided it."""
        ...

    def find_row_rules(self, graph: str, actor: Actor, branch: str | None, query: str | None) -> RowRules | None:
        """Return which rows of a branch of a graph an actor sees; None means all."""
        ...

    def names_type(self, name: str) -> bool:
        """Return whether a rule about rows may name a type."""
        ...


@dataclass(frozen=True, slots=True)
class GraphPolicy:
    """The policies of a server applied to one of its graphs, in the form that a `Runtime` takes."""

    policies: Policies
    graph: str

    def decide(self, access: Access) -> Decision:
        """Return whether an actor may perform an action on the graph."""
        return self.policies.decide(self.graph, access)

    def find_row_rules(self, actor: Actor, branch: str | None, query: str | None) -> RowRules | None:
        """Return which rows of a branch of the graph an actor sees; None means all."""
        return self.policies.find_row_rules(self.graph, actor, branch, query)

    def names_type(self, name: str) -> bool:
        """Return whether a rule about rows may name a type."""
        return self.policies.names_type(name)


def _parse(text: str) -> dict[str, Any]:
    """Return the policies of a text in Cedar's JSON form, by name."""
    policies: dict[str, Any] = json.loads(cedarpy.policies_to_json_str(text))["staticPolicies"]
    return policies


def _validate(text: str) -> list[str]:
    """Return the mistakes in the policies of a text, without those about rows, which have a check of their own."""
    try:
        about_rows = [name for name, policy in _parse(text).items() if names_see(policy)]
    except ValueError:
        # It does not parse: the validation says where.
        about_rows = []
    if about_rows:
        policies = json.loads(cedarpy.policies_to_json_str(text))
        for name in about_rows:
            del policies["staticPolicies"][name]
        text = cedarpy.policies_from_json_str(json.dumps(policies))
    return [str(error) for error in cedarpy.validate_policies(text, SCHEMA).errors]


def _find_row_problems(files: Mapping[str, str]) -> list[str]:
    """Return why policies can't be applied to rows. If none names `see`, none is applied to rows."""
    parsed = {name: list(iter_static(_parse(text))) for name, text in files.items()}
    if not any(names_see(policy) for policies in parsed.values() for _, policy in policies):
        return []
    problems = []
    for name, policies in parsed.items():
        for policy_name, (_, policy) in zip(_build_names(name, files[name]), policies, strict=True):
            problem = find_problem(policy) if applies_to_rows(policy) else None
            if problem is not None:
                problems.append(f"{name}: `{policy_name}` can't decide which rows are seen: {problem}")
    return problems


def _build_names(file: str, text: str) -> list[PolicyName]:
    """Return the name of each policy of a text, in order."""
    policies = iter_static(_parse(text))
    return [
        PolicyName(file=file, number=number, id=policy.get("annotations", {}).get("id"))
        for number, (_, policy) in enumerate(policies, start=1)
    ]


def _is_short(graph: str, actor: Actor, branch: str | None, query: str | None) -> bool:
    """Return whether names are short enough to be cached. Groups and attributes too: an issuer of JWTs chooses them."""
    names = (graph, branch or "", query or "", *actor.groups, repr(actor.attributes) if actor.attributes else "")
    return sum(map(len, names)) <= _MAX_CACHED_CHARACTERS


def _iter_texts(policies: object) -> Iterator[str]:
    """Yield all texts that policies compare with."""
    for node in _walk_json(policies):
        match node:
            case {"Value": str(value)}:
                yield value


def _iter_branch_names(text: str) -> Iterator[str]:
    """Yield texts in policies that may be branch names: string values, filled-in patterns, ids of branches."""
    for node in _walk_json(json.loads(cedarpy.policies_to_json_str(text))["staticPolicies"]):
        match node:
            case {"pattern": list(pattern)}:
                # `agent/*` becomes `agent/x`.
                yield "".join("x" if part == "Wildcard" else part["Literal"] for part in pattern)
            case {"Value": str(value)}:
                yield value
            case {"type": "Branch", "id": str(id_)}:
                yield id_.partition("/")[2]  # the id is `graph/branch`, as `_build_resource` writes it


def _walk_json(value: object) -> Iterator[object]:
    match value:
        case dict():
            yield value
            for item in value.values():
                yield from _walk_json(item)
        case list() | tuple():
            for item in value:
                yield from _walk_json(item)


def _build_uid(type_: str, id_: str) -> dict[str, str]:
    return {"type": type_, "id": id_}


def _build_resource(graph: str, branch: str | None) -> dict[str, str]:
    return _build_uid("Graph", graph) if branch is None else _build_uid("Branch", f"{graph}/{branch}")


def _build_entities(graph: str, actor: Actor, branch: str | None) -> list[dict[str, object]]:
    entities: list[dict[str, object]] = [
        _build_entity("Actor", actor.name, {"name": actor.name}, [("Group", group) for group in sorted(actor.groups)]),
        _build_entity("Graph", graph, {"name": graph}, []),
    ]
    if branch is not None:
        attributes = {"name": branch, "graph": graph}
        entities.append(_build_entity("Branch", f"{graph}/{branch}", attributes, [("Graph", graph)]))
    return entities


def _build_entity(
    type_: str, id_: str, attributes: dict[str, str], parents: list[tuple[str, str]]
) -> dict[str, object]:
    return {
        "uid": _build_uid(type_, id_),
        "attrs": attributes,
        "parents": [_build_uid(parent, name) for parent, name in parents],
    }
