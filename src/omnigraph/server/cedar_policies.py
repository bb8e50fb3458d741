"""Policies in Cedar: read and checked once, asked by every verb. What no policy permits is denied."""

import json
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import cedarpy

from omnigraph.config.settings_file import read_text
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.policy import Access, Action, Actor, Decision

SUFFIX = ".cedar"
_MAX_CACHED_DECISIONS = 8_192
_MAX_EXAMPLES = 256

_BRANCH_ACTIONS = ", ".join(f'"{action.value}"' for action in Action if action is not Action.GRAPH_LIST)
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
"""What policies may speak of; one that names anything else is refused before it is asked."""


class PoliciesError(OmnigraphError):
    """Policies that can't be used: `problems` says what is wrong, each with its file."""

    kind = Kind.USAGE
    code = "bad_policies"

    def __init__(self, path: str, problems: tuple[str, ...]) -> None:
        super().__init__(path, problems)
        self.path, self.problems = path, problems

    def facts(self) -> dict[str, object]:
        """The directory, and what is wrong in it."""
        return {"path": self.path, "problems": list(self.problems)}

    def __str__(self) -> str:
        return "\n".join([f"the policies of `{self.path}` can't be used:", *self.problems])


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyName:
    """A policy: the name that its `@id` gives it, else its file and place there."""

    file: str
    number: int
    id: str | None

    def __str__(self) -> str:
        return self.id or f"{self.file}, policy {self.number}"


class CedarPolicies:
    """All policies of a server. Immutable, and safe from several threads; answers are kept."""

    def __init__(self, text: str, names: Mapping[str, PolicyName]) -> None:
        self._policies = cedarpy.PolicySet.from_str(text)
        self.names = dict(names)
        self.examples = tuple(dict.fromkeys(_iter_branch_names(text)))[:_MAX_EXAMPLES]
        """Names of branches that the policies make a difference for: of each pattern that they have, one that fits."""
        self._lock = threading.Lock()
        self._cache: OrderedDict[tuple[str, Access], Decision] = OrderedDict()

    @classmethod
    def load(cls, directory: Path) -> "CedarPolicies":
        """The policies of all `.cedar` files of a directory.

        Raises:
            PoliciesError: One has a mistake, or there is none at all: then everything would be denied.
        """
        files = {path.name: read_text(path) for path in sorted(directory.glob(f"*{SUFFIX}"))}
        problems = [f"{name}: {problem}" for name, text in files.items() for problem in _validate(text)]
        if problems:
            raise PoliciesError(str(directory), tuple(problems))
        names: dict[str, PolicyName] = {}
        for name, text in files.items():
            for number, id_ in enumerate(_read_ids(text), start=1):
                names[f"policy{len(names)}"] = PolicyName(file=name, number=number, id=id_)
        if not names:
            raise PoliciesError(str(directory), (f"no policy is in its {SUFFIX} files, so everything would be denied",))
        return cls("\n".join(files.values()), names)

    def decide(self, graph: str, access: Access) -> Decision:
        """Whether somebody may do something to a graph of the server."""
        key = (graph, access)
        with self._lock:
            found = self._cache.get(key)
            if found is not None:
                self._cache.move_to_end(key)
                return found
        found = self._evaluate(graph, access)
        with self._lock:
            self._cache[key] = found
            if len(self._cache) > _MAX_CACHED_DECISIONS:
                self._cache.popitem(last=False)
        return found

    def of_graph(self, graph: str) -> "GraphPolicy":
        """The same for one graph."""
        return GraphPolicy(self, graph)

    def _evaluate(self, graph: str, access: Access) -> Decision:
        request = {
            "principal": _build_uid("Actor", access.actor.name),
            "action": _build_uid("Action", access.action.value),
            "resource": _build_resource(graph, access.branch),
            "context": {} if access.query is None else {"query": access.query},
        }
        answer = cedarpy.is_authorized(request, self._policies, _build_entities(graph, access.actor, access.branch))
        is_sound = not answer.diagnostics.errors  # a policy that failed may be the one that forbids
        reasons = tuple(str(self.names.get(one, one)) for one in sorted(answer.diagnostics.reasons))
        return Decision(is_allowed=bool(answer.allowed) and is_sound, reasons=reasons)


class Policies(Protocol):
    """Policies of a server, whether they are read once or again and again."""

    def decide(self, graph: str, access: Access) -> Decision:
        """Whether somebody may do something to a graph of the server."""
        ...


@dataclass(frozen=True, slots=True)
class GraphPolicy:
    """The policies of a server, asked about one of its graphs: what a `Runtime` takes."""

    policies: Policies
    graph: str

    def decide(self, access: Access) -> Decision:
        """Whether it may be done."""
        return self.policies.decide(self.graph, access)


def _validate(text: str) -> list[str]:
    return [str(one) for one in cedarpy.validate_policies(text, SCHEMA).errors]


def _read_ids(text: str) -> list[str | None]:
    """For each policy of a text, in order, what its `@id` says."""
    found = json.loads(cedarpy.policies_to_json_str(text))["staticPolicies"]
    in_order = sorted(found, key=lambda name: int(name.removeprefix("policy")))
    return [found[name].get("annotations", {}).get("id") for name in in_order]


def _iter_branch_names(text: str) -> Iterator[str]:
    """Names of branches that policies could mean: their texts, their patterns filled in, the ids of their branches."""
    for part in _walk_json(json.loads(cedarpy.policies_to_json_str(text))["staticPolicies"]):
        match part:
            case {"pattern": list(pattern)}:
                yield "".join("x" if one == "Wildcard" else one["Literal"] for one in pattern)
            case {"Value": str(value)}:
                yield value
            case {"type": "Branch", "id": str(id_)}:
                yield id_.partition("/")[2]


def _walk_json(value: object) -> Iterator[object]:
    match value:
        case dict():
            yield value
            for one in value.values():
                yield from _walk_json(one)
        case list():
            for one in value:
                yield from _walk_json(one)


def _build_uid(type_: str, id_: str) -> dict[str, str]:
    return {"type": type_, "id": id_}


def _build_resource(graph: str, branch: str | None) -> dict[str, str]:
    return _build_uid("Graph", graph) if branch is None else _build_uid("Branch", f"{graph}/{branch}")


def _build_entities(graph: str, actor: Actor, branch: str | None) -> list[dict[str, object]]:
    found: list[dict[str, object]] = [
        _build_entity("Actor", actor.name, {"name": actor.name}, [("Group", group) for group in sorted(actor.groups)]),
        _build_entity("Graph", graph, {"name": graph}, []),
    ]
    if branch is not None:
        found.append(_build_entity("Branch", f"{graph}/{branch}", {"name": branch, "graph": graph}, [("Graph", graph)]))
    return found


def _build_entity(
    type_: str, id_: str, attributes: dict[str, str], parents: list[tuple[str, str]]
) -> dict[str, object]:
    return {
        "uid": _build_uid(type_, id_),
        "attrs": attributes,
        "parents": [_build_uid(parent, name) for parent, name in parents],
    }
