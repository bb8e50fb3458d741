"""Mutations for tests: from text against one small schema."""

from omnigraph.lang.diagnostics import StageResult
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.query.bind import bind_query
from omnigraph.query.mutation_plan import MutationQuery
from schema_making import catalog_from

CATALOG = catalog_from("""
interface Named { name: String }
node Person implements Named {
    age: I32?
    active: Bool @default(true)
    seen: DateTime?
    born: Date?
    status: enum(new, gone)?
    score: F64?
    bio: String?
    face: Vector(2) @embed("bio")
    @key(name)
}
node Note { text: String  stars: I64? }
edge Knows: Person -> Person { since: Date? }
edge Follows: Person -> Person { weight: F64 @key(src, dst) }
""")


def checked(text: str, params: str = "", annotations: str = "") -> StageResult[MutationQuery | None]:
    """What binding makes of the statements of one query."""
    source = Source(f"query q({params}) {annotations} {{ {text} }}")
    (query,) = parse_queries(source).require(source).queries
    result = bind_query(query, CATALOG)
    assert result.value is None or isinstance(result.value, MutationQuery)
    return StageResult(result.value, result.diagnostics)


def bound(text: str, params: str = "") -> MutationQuery:
    """The plan of a correct mutation."""
    result = checked(text, params)
    assert result.value is not None, result.diagnostics
    return result.value


def codes(text: str, params: str = "") -> list[str]:
    """The codes of everything that is wrong, in source order."""
    result = checked(text, params)
    assert (result.value is None) is bool(result.diagnostics)
    return [found.code for found in result.diagnostics]
