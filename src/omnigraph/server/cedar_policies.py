"""Cedar policies: validated when loaded, evaluated by every operation. What no policy permits is denied."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import cedarpy

from omnigraph.config.settings_file import read_text
from omnigraph.errors import SettingsError
from omnigraph.lru_cache import LruCache
from omnigraph.policy import Access, Action, Actor, Decision

SUFFIX = ".cedar"
_MAX_CACHED_DECISIONS = 8_192
# A decision about longer names is not cached: they come from requests, and 1,500 names of 1 MB took 1.8 GB.
_MAX_CACHED_CHARACTERS = 1_024
# Every example is tried when tools are listed for an actor, so their number is bounded.
_MAX_EXAMPLES = 256

_BRANCH_ACTIONS = ", ".join(f'"{action.value}"' for action in Action if action is not Action.GRAPH_LIST)
# The Cedar schema: a policy that names anything else is rejected when it is loaded.
SCHEMA = f"""
entity Group;
entity Actor in [Group] = {{ "name": String }};
entity Graph = {{ "name": String }};
entity Branch in [Graph] = {{ "name": String, "graph": String }};
action {_BRANCH_ACTIONS} appliesTo {{
  principal: [Actor], resource: [Graph, Branch], context: {{ "query"?: String }}
}};
action "{Action.GRAPH_LIST.value}" appliesTo {{
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
        self.names = dict(names)
        self.examples = tuple(dict.fromkeys(_iter_branch_names(text)))[:_MAX_EXAMPLES]
        """Branch names that the policies may treat specially: for each pattern in them, one that matches."""
        self._cache: LruCache[tuple[str, Access], Decision] = LruCache(_MAX_CACHED_DECISIONS)

    @classmethod
    def load(cls, directory: Path) -> "CedarPolicies":
        """Load the policies of all `.cedar` files of a directory.

        Raises:
            SettingsError: A policy has a mistake, or there is no policy at all, which would deny everything.
        """
        files = {path.name: read_text(path) for path in sorted(directory.glob(f"*{SUFFIX}"))}
        problems = [f"{name}: {problem}" for name, text in files.items() for problem in _validate(text)]
        if problems:
            raise SettingsError.bad_policies(str(directory), tuple(problems))
        # Cedar numbers the policies of the concatenated text in order, as `policy0`, `policy1` and so on.
        names: dict[str, PolicyName] = {}
        for name, text in files.items():
            for number, id_ in enumerate(_read_ids(text), start=1):
                names[f"policy{len(names)}"] = PolicyName(file=name, number=number, id=id_)
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
            # Groups too: those of a JWT are chosen by its issuer.
            names = (graph, access.branch or "", access.query or "", *access.actor.groups)
            if sum(map(len, names)) <= _MAX_CACHED_CHARACTERS:
                self._cache.put(key, decision)
        return decision

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
        reasons = tuple(str(self.names.get(policy, policy)) for policy in sorted(response.diagnostics.reasons))
        return Decision(is_allowed=bool(response.allowed) and not has_errors, reasons=reasons)


class Policies(Protocol):
    """The policies of a server, either immutable or reloaded when their files change."""

    def decide(self, graph: str, access: Access) -> Decision:
        """Return whether an actor may perform an action on a graph, and the policies that decided it."""
        ...


@dataclass(frozen=True, slots=True)
class GraphPolicy:
    """The policies of a server applied to one of its graphs, in the form that a `Runtime` takes."""

    policies: Policies
    graph: str

    def decide(self, access: Access) -> Decision:
        """Return whether an actor may perform an action on the graph."""
        return self.policies.decide(self.graph, access)


def _validate(text: str) -> list[str]:
    return [str(error) for error in cedarpy.validate_policies(text, SCHEMA).errors]


def _read_ids(text: str) -> list[str | None]:
    """Return the `@id` of each policy of a text, in order; None for a policy without one."""
    policies = json.loads(cedarpy.policies_to_json_str(text))["staticPolicies"]
    # Sorted by number: as texts, `policy10` comes before `policy2`.
    in_order = sorted(policies, key=lambda name: int(name.removeprefix("policy")))
    return [policies[name].get("annotations", {}).get("id") for name in in_order]


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
        case list():
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
