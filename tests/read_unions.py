"""Random hops of several edge types, and variables of several types, for the random reads.

The types of the variables are asked of the binder, which the corpus tests; what it refuses is not written.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.query.bind import bind_query
from omnigraph.query.expr import EdgeRef, EntityType, NodeRef
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.query.union_types import list_members
from omnigraph.schema.bind import bind_schema
from omnigraph.schema.catalog import Catalog
from read_worlds import TypeSpec, World

BOUNDS = ("", "", "", "", "", "{1,2}", "{1,3}", "{2,3}", "{1,*}", "{0,2}", "{0,*}", "{2,*}", "{1,64}", "{0,1}")


@dataclass(frozen=True)
class UnionWriter:
    """Writes clauses about several types; `specs` are shared, so that equal types are one object."""

    random: Random
    world: World
    catalog: Catalog
    specs: dict[str, TypeSpec]

    def bindings(self, variable: str) -> list[str]:
        """A variable of several node types."""
        names = [spec.name for spec in self.world.nodes]
        chosen = self.random.sample(names, self.random.randint(min(2, len(names)), len(names)))
        return [f"{variable}: ({'|'.join(chosen)})"]

    def hop(self, start: str, end: str, edge_variable: str) -> str:
        """A hop of several edge types, of any, or of one with bounds that reach far."""
        edges = [self._edge_name(spec) for spec in self.world.edges]
        count = self.random.randint(1, len(edges))
        chosen = self.random.sample(edges, count)
        text = "*" if self.random.randrange(3) == 0 else f"({'|'.join(chosen)})"
        is_undirected = self.random.randrange(2) == 0
        left, right = (start, end) if self.random.randrange(2) else (end, start)
        if self.random.randrange(4) == 0:
            return f"{left} {edge_variable}:{f'<{text}>' if is_undirected else text} {right}"
        bounds = self.random.choice(BOUNDS)
        if is_undirected:
            return f"{left} <{text}>{bounds} {right}"
        return f"{left} {'(*)' if text == '*' else text}{bounds} {right}"

    def types(self, clauses: Sequence[str], params: Sequence[str]) -> dict[str, EntityType] | None:
        """The types of all variables of a pattern, as `$name`; None if it is refused."""
        source = Source(
            f"query q({', '.join(params)}) {{ match {{\n{chr(10).join(clauses)}\n}} return {{ 1 as one }} }}"
        )
        parsed = parse_queries(source)
        if parsed.diagnostics:
            raise AssertionError([str(problem) for problem in parsed.diagnostics], source.text)
        bound = bind_query(parsed.require(source).queries[0], self.catalog).value
        if not isinstance(bound, ReadQuery):
            return None
        return {f"${k}": v for k, v in bound.pattern.types.items() if isinstance(v, NodeRef | EdgeRef)}

    def spec(self, type_: EntityType) -> TypeSpec:
        """What a variable of a type has: the world's own type, or what all members share."""
        members = [self.world.types[name] for name in list_members(type_.name)]
        if len(members) == 1:
            return members[0]
        shared = {
            name: is_nullable or any(member.properties[name] for member in members[1:])
            for name, is_nullable in members[0].properties.items()
            if all(name in member.properties for member in members[1:])
        }
        ends = ("?", "?") if isinstance(type_, EdgeRef) else ("", "")
        return self.specs.setdefault(type_.name, TypeSpec(f"({type_.name})", shared, None, *ends))

    def _edge_name(self, spec: TypeSpec) -> str:
        return f'"{spec.name}"' if spec.name == "In" else spec.name


def union_writer(random: Random, world: World) -> UnionWriter:
    """A writer for one query of a world."""
    source = Source(world.schema)
    catalog = bind_schema(parse_schema(source).require(source)).require(source)
    return UnionWriter(random, world, catalog, {})
