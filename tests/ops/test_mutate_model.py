"""Random mutations against a graph of plain dictionaries: equal after each, and unchanged after a rejected one."""

import tempfile
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from mutating import new_graph

SCHEMA = """
node P { name: String  tag: String?  n: I32?  @key(name) @unique(tag) @range(n, 0..5) }
edge Knows: P -> P { w: I32?  @key(src, dst) }
edge Owns: P -> P @card(0..2)
"""
NAMES = st.sampled_from(["a", "b", "c", "d"])
TAGS = st.sampled_from([None, "x", "y"])
NUMBERS = st.sampled_from([None, 0, 1, 5, 6])


class RejectedError(Exception):
    """The model refuses."""


@dataclass
class Model:
    """The graph: rows by id, edges as (src, dst)."""

    nodes: dict[str, tuple[str | None, int | None]] = field(default_factory=dict)
    knows: dict[tuple[str, str], int | None] = field(default_factory=dict)
    owns: list[tuple[str, str]] = field(default_factory=list)

    def check(self) -> None:
        """Refuse what the schema does not allow."""
        tags = [tag for tag, _ in self.nodes.values() if tag is not None]
        ends = {end for edge in [*self.knows, *self.owns] for end in edge}
        sources = [src for src, _ in self.owns]
        is_sound = (
            len(tags) == len(set(tags))
            and all(n is None or n <= 5 for _, n in self.nodes.values())
            and ends <= set(self.nodes)
            and all(sources.count(src) <= 2 for src in sources)
        )
        if not is_sound:
            raise RejectedError

    def run(self, statement: tuple[Any, ...]) -> None:
        """One statement."""
        match statement:
            case ("node", name, tag, n):
                self.nodes[name] = (tag, n)
            case ("knows", src, dst, w):
                self.knows[src, dst] = w
            case ("owns", src, dst):
                self.owns.append((src, dst))
            case ("set", n, below):
                for name, (tag, old) in self.nodes.items():
                    if old is not None and old < below:
                        self.nodes[name] = (tag, n)
            case ("retag", name, tag):
                if name in self.nodes:
                    self.nodes[name] = (tag, self.nodes[name][1])
            case ("drop", name):
                self.nodes.pop(name, None)
                self.knows = {edge: w for edge, w in self.knows.items() if name not in edge}
                self.owns = [edge for edge in self.owns if name not in edge]
            case ("unown", src):
                self.owns = [edge for edge in self.owns if edge[0] != src]


def text_of(statement: tuple[Any, ...]) -> str:
    match statement:
        case ("node", name, tag, n):
            return f'insert P {{ name: "{name}", tag: {_literal(tag)}, n: {_literal(n)} }}'
        case ("knows", src, dst, w):
            return f'insert Knows {{ from: "{src}", to: "{dst}", w: {_literal(w)} }}'
        case ("owns", src, dst):
            return f'insert Owns {{ from: "{src}", to: "{dst}" }}'
        case ("set", n, below):
            return f"update P set {{ n: {_literal(n)} }} where n < {below}"  # noqa: S608 - no SQL
        case ("retag", name, tag):
            return f'update P set {{ tag: {_literal(tag)} }} where name = "{name}"'  # noqa: S608 - no SQL
        case ("drop", name):
            return f'delete P where name = "{name}"'
        case ("unown", src):
            return f'delete Owns where from = "{src}"'
    raise AssertionError(statement)


def _literal(value: str | int | None) -> str:
    return "null" if value is None else f'"{value}"' if isinstance(value, str) else str(value)


PUTS = st.one_of(
    st.tuples(st.just("node"), NAMES, TAGS, NUMBERS),
    st.tuples(st.just("node"), NAMES, st.none(), st.sampled_from([1, 2])),
    st.tuples(st.just("knows"), NAMES, NAMES, NUMBERS),
    st.tuples(st.just("owns"), NAMES, NAMES),
    st.tuples(st.just("set"), NUMBERS, st.sampled_from([0, 2, 6])),
    st.tuples(st.just("retag"), NAMES, TAGS),
)
DROPS = st.one_of(st.tuples(st.just("drop"), NAMES), st.tuples(st.just("unown"), NAMES))
CHANGES = st.lists(PUTS, min_size=1, max_size=3)
QUERIES = st.one_of(CHANGES, CHANGES, CHANGES, st.lists(DROPS, min_size=1, max_size=2))
START = [("node", name, None, place) for place, name in enumerate("abcd")]


def contents(graph: og.Graph) -> Model:
    nodes = graph.table("P").to_table().to_pylist()
    knows = graph.table("Knows").to_table().to_pylist()
    owns = graph.table("Owns").to_table().to_pylist()
    assert all(row["id"] == row["name"] for row in nodes)
    found = Model(
        {row["name"]: (row["tag"], row["n"]) for row in nodes},
        {(row["src"], row["dst"]): row["w"] for row in knows},
        sorted((row["src"], row["dst"]) for row in owns),
    )
    assert (len(found.nodes), len(found.knows)) == (len(nodes), len(knows)), "a row is there twice"
    return found


def steps(graph: og.Graph, queries: list[list[tuple[Any, ...]]]) -> Iterator[tuple[Model, Model]]:
    """The graph and the model, after each query."""
    model = Model()
    for query in queries:
        text = f"query q() {{ {' '.join(map(text_of, query))} }}"
        wanted = deepcopy(model)
        for statement in query:
            wanted.run(statement)
        before = graph.snapshot().commit.id
        try:
            wanted.check()
        except RejectedError:
            with pytest.raises(og.ConstraintError):
                graph.mutate(text)
            assert graph.snapshot().commit.id == before
        else:
            result = graph.mutate(text)
            assert (result.commit_id or before) == graph.snapshot().commit.id
            model = wanted
        yield contents(graph), model


@pytest.mark.parametrize(
    "examples", [pytest.param(25, id="some"), pytest.param(500, id="many", marks=pytest.mark.soak)]
)
def test_a_graph_is_what_a_dictionary_would_be(examples: int) -> None:
    @settings(
        max_examples=examples,
        derandomize=examples < 100,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.lists(QUERIES, min_size=4, max_size=10))
    def check(queries: list[list[tuple[Any, ...]]]) -> None:
        with tempfile.TemporaryDirectory() as root:
            graph = new_graph(Path(root), SCHEMA)
            for found, model in steps(graph, [START, *queries]):
                model.owns.sort()
                assert found == model

    check()
