"""Patterns solved by the engine and by the reference reader, as counted combinations of ids."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.clock import SystemClock
from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.executor import solve
from omnigraph.engine.physical_plan import PhysicalPlan, get_type_name
from omnigraph.engine.planning.planner import plan_read
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.query_profile import QueryProfile
from omnigraph.engine.view import View
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.ops.session import Session
from omnigraph.options import Traversal
from omnigraph.query.bind import bind_query
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.query.rules import rewrite
from omnigraph.schema.catalog import Catalog
from read_seeding import append, new_graph
from reference_reader import NOW, Match, PlainGraph, Record, _Reader

Combinations = Counter[tuple[str, ...]]
"""How many matches there are for each combination of ids."""
LARGE = 1 << 21


SCHEMA = """
node User { name: String  age: I32?  city: String?  tags: [String]?  @key(name) }
node Place { name: String  size: I32?  @key(name) }
edge Knows: User -> User { since: I32? }
edge Likes: User -> User { since: I32? }
edge Lives: User -> Place { since: I32? }
edge Near: Place -> Place
"""


def bound(text: str, catalog: Catalog, *, is_rewritten: bool = True) -> ReadQuery:
    """The only query of a text."""
    source = Source(text, "test.gq")
    (query,) = parse_queries(source).require(source).queries
    found = bind_query(query, catalog).require(source)
    assert isinstance(found, ReadQuery)
    changed = rewrite(found) if is_rewritten else found
    assert isinstance(changed, ReadQuery)
    return changed


@dataclass
class Solver:
    """One graph, opened, and its records."""

    session: Session
    graph: PlainGraph

    @property
    def view(self) -> View:
        """The newest state."""
        snapshot = self.session.resolve_snapshot()
        return View(self.session.load_catalog(snapshot), self.session.open_tables(snapshot))

    def query(self, text: str, *, is_rewritten: bool = True) -> ReadQuery:
        """A query over this graph."""
        return bound(text, self.view.catalog, is_rewritten=is_rewritten)

    def reading(
        self,
        params: Mapping[str, Any] | None = None,
        traversal: Traversal = Traversal.AUTO,
        budget: Budget | None = None,
        trace: QueryProfile | None = None,
    ) -> ExecutionContext:
        """What a query is run with."""
        return ExecutionContext(
            view=self.view,
            inputs=QueryInputs(dict(params or {}), NOW),
            budget=budget or Budget(SystemClock()),
            cache=self.session.reads,
            traversal=traversal,
            profile=trace,
        )

    def plan(self, text: str, params: Mapping[str, Any] | None = None, **how: Any) -> PhysicalPlan:
        """The physical plan."""
        return plan_read(self.query(text), self.reading(params, **how))

    def solved(
        self, text: str | ReadQuery, params: Mapping[str, Any] | None = None, *, chunk_rows: int = LARGE, **how: Any
    ) -> Combinations:
        """What the engine finds."""
        query = self.query(text) if isinstance(text, str) else text
        reading = self.reading(params, **how)
        plan = plan_read(query, reading)
        found = solve(plan, reading, chunk_rows=chunk_rows)
        return self.counted(found, plan, query, reading)

    def counted(self, found: Bindings, plan: PhysicalPlan, query: ReadQuery, reading: ExecutionContext) -> Combinations:
        """Bindings by ids."""
        types = query.pattern.types
        columns = [
            reading.get_reader(get_type_name(types[name])).take_values("id", found.columns[name]).to_pylist()
            for name in plan.variables
        ]
        weights = [1] * found.size if found.multiplicity is None else found.multiplicity.tolist()
        counted: Combinations = Counter()
        for row, weight in enumerate(weights):
            assert weight > 0
            counted[tuple(column[row] for column in columns)] += weight
        return counted

    def matches(self, query: ReadQuery, params: Mapping[str, Any] | None = None) -> list[Match]:
        """Every match of the pattern, by the reference reader."""
        return list(_Reader(query, self.graph, dict(params or {})).matches(query.pattern, {}))

    def expected(self, query: ReadQuery, matches: list[Match]) -> Combinations:
        """The matches as combinations of the variables that the plan gives out."""
        names = plan_read(query, self.reading()).variables
        return Counter(tuple(match[name]["@id"] for name in names) for match in matches)


def random_records(seed: int, users: int, edges: int) -> PlainGraph:
    """Users and places, with parallel edges, loops and nulls."""
    rng = random.Random(seed)
    names = [f"u{n}" for n in range(users)]
    places = [f"p{n}" for n in range(max(users // 3, 1))]
    cities = ["x", "y", None]
    nodes: dict[str, list[Record]] = {
        "User": [
            {
                "@id": name,
                "name": name,
                "age": rng.choice([None, 1, 2, 3]),
                "city": rng.choice(cities),
                "tags": rng.choice([None, [], ["x"], ["x", "y"]]),
            }
            for name in names
        ],
        "Place": [{"@id": name, "name": name, "size": rng.choice([None, 1, 2, 3])} for name in places],
    }

    def edge(prefix: str, number: int, sources: list[str], targets: list[str]) -> Record:
        ends = {"@src": rng.choice(sources), "@dst": rng.choice(targets)}
        return {"@id": f"{prefix}{number}", **ends, "since": rng.choice([None, 1, 2, 3])}

    found: dict[str, list[Record]] = {
        "Knows": [edge("k", n, names, names) for n in range(edges)],
        "Likes": [edge("l", n, names, names) for n in range(edges // 2)],
        "Lives": [edge("v", n, names, places) for n in range(edges // 2)],
        "Near": [{k: v for k, v in edge("n", n, places, places).items() if k != "since"} for n in range(edges // 2)],
    }
    return PlainGraph(nodes, found)


def seeded(root: Path, graph: PlainGraph) -> Solver:
    """A graph of these records."""
    session = new_graph(root, SCHEMA)
    records = [(name, record) for name, rows in (*graph.nodes.items(), *graph.edges.items()) for record in rows]
    append(session, records)
    return Solver(session, graph)
