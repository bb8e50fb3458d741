"""Graphs with equal commits that differ in rows which a policy hides, and an actor who does not see these."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.options import Options
from omnigraph.policy import Actor, Policy
from omnigraph.server.cedar_policies import CedarPolicies
from worlds import FAST, runtime

SCHEMA = """
interface Named { name: String }
node Person implements Named {
  name: String @key
  region: String?
  secret: Bool?
  level: I32?
  bio: String?
  vec: Vector(2)?
  photo: Blob?
}
node City implements Named { name: String @key }
edge Knows: Person -> Person { since: I64? }
edge LivesIn: Person -> City
"""
POLICIES = """
permit(principal, action in [
  Action::"read", Action::"export", Action::"change", Action::"branch_create", Action::"branch_delete",
  Action::"branch_merge", Action::"reset", Action::"schema_apply", Action::"maintain", Action::"graph_list",
  Action::"invoke_query"
], resource);
permit(principal, action == Action::"see", resource)
  when { resource.type == "Person" && principal.regions.contains(resource.region) };
permit(principal, action == Action::"see", resource) when { ["City", "Knows", "LivesIn"].contains(resource.type) };
forbid(principal, action == Action::"see", resource)
  when { resource.type == "Person" && resource has secret && resource.secret };
forbid(principal, action == Action::"see", resource)
  when { resource.type == "Knows" && resource has since && resource.since < 0 };
permit(principal in Group::"admins", action == Action::"see", resource);
"""
EVE = Actor(name="eve", attributes=(("regions", ("eu",)),))
Row = dict[str, Any]
Commit = tuple[str, list[Row]]


def person(name: str, **values: object) -> Row:
    """Return the record of a person."""
    return {"type": "Person", "data": {"name": name, **values}}


def knows(edge_id: str, source: str, target: str, **values: object) -> Row:
    """Return the record of an edge."""
    return {"edge": "Knows", "id": edge_id, "from": source, "to": target, "data": values}


def lives(edge_id: str, source: str, target: str) -> Row:
    """Return the record of an edge."""
    return {"edge": "LivesIn", "id": edge_id, "from": source, "to": target}


SEEN: list[list[Row]] = [
    [
        *(
            person(f"p{n}", region="eu", level=n, bio=f"word{n} common text", vec=[n, 1.0], photo="base64:aGk=")
            for n in range(6)
        ),
        {"type": "City", "data": {"name": "Rome"}},
        *(knows(f"k{n}", f"p{n}", f"p{(n + 1) % 6}", since=n) for n in range(6)),
        *(lives(f"l{n}", f"p{n}", "Rome") for n in range(3)),
    ],
    [person("p1", region="eu", level=11, bio="changed words"), person("p6", region="eu", secret=False)],
    [knows("k7", "p6", "p0", since=7)],
]
"""The rows that the actor sees, by commit."""

EDGE_IDS = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b")


@dataclass(frozen=True)
class HiddenRows:
    """Hidden rows by commit, which are loaded with those that are seen."""

    name: str
    commits: tuple[list[Row], ...]


VARIANTS = (
    HiddenRows("none", ([], [], [])),
    HiddenRows(
        "some",
        (
            [
                *(person(f"h{n}", region="us", level=2**31 - 1, bio="common hidden", vec=[0.0, 1.0]) for n in range(9)),
                person("null"),
                {"type": "Person", "data": {"name": "s", "region": "eu", "secret": True, "level": -5, "bio": "common"}},
                *(knows(f"x{n}", f"h{n}", f"p{n % 6}", since=100 + n) for n in range(9)),
                *(knows(f"y{n}", f"p{n % 6}", f"h{n}") for n in range(9)),
                knows("z1", "p0", "p3", since=-1),
                lives("hl", "h1", "Rome"),
                lives("sl", "s", "Rome"),
            ],
            [person("h1", region="us", bio="changed words"), person("h9", region="asia", vec=[11.0, 1.0])],
            [knows("z2", "p2", "p5", since=-2), knows("z3", "h9", "s")],
        ),
    ),
    HiddenRows(
        "others",
        (
            [person(f"a{n}", region="us", level=n, bio="word1", secret=True) for n in range(300)]
            + [knows(f"w{n}", f"a{n}", f"a{n + 1}", since=n) for n in range(299)],
            [person("h1", region="mars"), *(lives(f"q{n}", f"a{n}", "Rome") for n in range(9))],
            [person("zz", region="us"), knows("z9", "zz", "p1")],
        ),
    ),
)


def build_graph(home: Path, variant: HiddenRows, options: Options = FAST) -> og.Graph:
    """Return a graph whose commits have the seen rows and those of a variant."""
    home.mkdir(parents=True)
    graph = og.create_graph(str(home / "g.omni"), SCHEMA, runtime=runtime(options))
    for number, (seen, hidden) in enumerate(zip(SEEN, variant.commits, strict=True)):
        file = home / f"{number}.jsonl"
        # Hidden rows first, so that they move the positions of all others.
        nodes_first = sorted([*hidden, *seen], key=lambda row: "edge" in row)
        file.write_text("\n".join(map(json.dumps, nodes_first)), encoding="utf-8")
        graph.load(file, mode="merge", actor="loader", message=f"load {number}")
        if number == 0:
            graph.tags.create("first")
            graph.branches.create("review")
    return graph


def load_policies(home: Path, text: str = POLICIES) -> CedarPolicies:
    """Return policies from their text."""
    home.mkdir(parents=True)
    (home / "all.cedar").write_text(text, encoding="utf-8")
    return CedarPolicies.load(home)


def open_as(graph: og.Graph, policy: Policy, actor: Actor = EVE) -> og.Graph:
    """Return another handle on a graph, which acts for an actor under a policy."""
    return og.open_graph(graph.uri, runtime=replace(runtime(), policy=policy)).acting_as(actor)


class Normalizer:
    """Replaces what differs between two graphs with equal commits: ids, times and places."""

    def __init__(self, graph: og.Graph) -> None:
        self._names = {graph.uri: "GRAPH"}
        for branch in graph.branches.list():
            for commit in graph.commits(branch=branch.name, include_maintenance=True):
                self._names[commit.id] = f"commit {commit.branch} {commit.seq}"
                self._names[commit.digest or "-"] = "DIGEST"

    def normalize(self, value: object) -> str:
        """Return an answer as text."""
        text = value if isinstance(value, str) else json.dumps(value, default=str, sort_keys=False)
        for name, replacement in self._names.items():
            text = text.replace(name, replacement)
        text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?", "TIME", text)
        return EDGE_IDS.sub("ID", text)


def ask(graph: og.Graph, call: Callable[[og.Graph], object]) -> object:
    """Return what a call answers, or its error with all facts."""
    try:
        return call(graph)
    except og.OmnigraphError as error:
        return {"error": type(error).__name__, "code": error.code, "message": str(error), "facts": error.facts()}


def iter_pairs(values: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the first value with each other one."""
    yield from ((values[0], other) for other in values[1:])
