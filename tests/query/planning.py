"""Bound queries for tests: from text against one small schema."""

from omnigraph.lang.query_ast import QueryFile
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.query.bind import BoundQuery, bind_file
from omnigraph.query.logical_plan import ReadQuery
from schema_making import catalog_from

CATALOG = catalog_from("""
node Person {
    name: String
    age: I32?
    mail: String? @unique
    status: enum(new, active, gone)?
    seen: DateTime?
    bio: String? @index
    face: Vector(2)? @embed("bio") @index
    photo: Blob?
    @key(name)
}
node Company { name: String @index  city: String }
edge Knows: Person -> Person { since: Date?  weight: F64? }
edge WorksAt: Person -> Company { role: String  @key(src, dst) }
""")


def parsed(text: str) -> QueryFile:
    """The tree of a correct file."""
    source = Source(text)
    return parse_queries(source).require(source)


def plans(text: str) -> tuple[BoundQuery, ...]:
    """The plans of a correct file, as bound."""
    return bind_file(parsed(text), CATALOG).require(Source(text))


def plan(text: str) -> BoundQuery:
    """The plan of a file with one query, as bound."""
    (only,) = plans(text)
    return only


def read(clauses: str, output: str = "$p.name", rest: str = "", params: str = "") -> ReadQuery:
    """A bound read, from its parts."""
    bound = plan(f"query q({params}) {{ match {{ {clauses} }} return {{ {output} }} {rest} }}")
    assert isinstance(bound, ReadQuery)
    return bound
