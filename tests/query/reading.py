"""Reads for tests: from text against one small schema."""

from omnigraph.lang.diagnostics import Diagnostic, StageResult
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.query.bind import bind_query
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.query.mutation_plan import BoundQuery
from schema_making import catalog_from

CATALOG = catalog_from("""
interface Named { name: String }
node Person implements Named {
    age: I32?
    score: F32?
    height: F64?
    visits: U64?
    active: Bool
    born: Date?
    seen: DateTime?
    status: enum(new, gone)
    tags: [String]?
    photo: Blob?
    face: Vector(2)?
    bio: String?
    @key(name)
}
node Company implements Named { founded: I32?  @key(name) }
node City { name: String  @key(name) }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company { role: String }
edge LivesIn: Person -> City
edge BasedIn: Company -> City
edge In: City -> City
""")


def checked(text: str) -> StageResult[BoundQuery | None]:
    """What binding makes of one query."""
    source = Source(text)
    (query,) = parse_queries(source).require(source).queries
    return bind_query(query, CATALOG)


def bound(text: str) -> ReadQuery:
    """The plan of a correct read."""
    result = checked(text)
    assert isinstance(result.value, ReadQuery), result.diagnostics
    return result.value


def matching(clauses: str, params: str = "") -> ReadQuery:
    """The plan of a correct read of these clauses that returns a constant."""
    return bound(f"query q({params}) {{ match {{ {clauses} }} return {{ 1 as one }} }}")


def returning(tail: str, clauses: str = "$p: Person", params: str = "") -> ReadQuery:
    """The plan of a correct read that goes on like this behind `match`."""
    return bound(f"query q({params}) {{ match {{ {clauses} }} return {tail} }}")


def problems(text: str) -> list[tuple[str, str]]:
    """The code of each finding and the text that it marks, in order."""
    return [(found.code, Source(text).slice(found.span)) for found in checked(text).diagnostics]


def problems_in(clauses: str, params: str = "") -> list[tuple[str, str]]:
    """The findings in these clauses."""
    return problems(f"query q({params}) {{ match {{ {clauses} }} return {{ 1 as one }} }}")


def problems_behind(tail: str, clauses: str = "$p: Person", params: str = "") -> list[tuple[str, str]]:
    """The findings in what follows `return`."""
    return problems(f"query q({params}) {{ match {{ {clauses} }} return {tail} }}")


def only_finding(text: str) -> Diagnostic:
    """The one finding in a text."""
    (found,) = checked(text).diagnostics
    return found
