"""Every diagnostic code of both languages and of Cypher, with its severity and its one-line meaning.

A diagnostic can only be built with a code of this registry. The reference page of diagnostics and the corpus
are checked against it, so a code without a case or without a line in the docs fails the tests.
"""

from dataclasses import dataclass
from enum import Enum


class DiagnosticSeverity(Enum):
    """Errors stop; warnings are advice."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class DiagnosticCode:
    """One kind of diagnostic."""

    name: str
    severity: DiagnosticSeverity
    meaning: str


def _build_errors(**meanings: str) -> dict[str, DiagnosticCode]:
    return {name: DiagnosticCode(name, DiagnosticSeverity.ERROR, meaning) for name, meaning in meanings.items()}


def _build_warnings(**meanings: str) -> dict[str, DiagnosticCode]:
    return {name: DiagnosticCode(name, DiagnosticSeverity.WARNING, meaning) for name, meaning in meanings.items()}


SCHEMA_CODES = _build_errors(
    S000="the schema text does not follow the grammar",
    S001="a limit of the language is exceeded: nesting, length of a name, size of a number or list",
    S002="two types have the same name",
    S003="two edge types have names that differ only in case",
    S004="a type has two properties of the same name",
    S005="a property name is reserved",
    S006="an edge's end is not a declared node type",
    S007="`implements` names something that is not a declared interface",
    S008="a property redeclares an interface's property with another type",
    S009="`@key` breaks a rule: once per type, required scalar columns, no floats",
    S010="a constraint names a property that the type does not have",
    S011="`@unique` on a property that can't be compared",
    S012="`@index` on a property that can't be indexed",
    S013="`@range` on a property without an order, or with bounds that don't fit",
    S014="`@check` on a property that is not a String, or with a bad pattern",
    S015="`@card` with bounds that are not a range",
    S016="`@embed` that is not on a node's Vector, or names no String source",
    S017="`@default` that does not fit its property",
    S018="a Vector size out of range",
    S019="an enum without or with repeated values",
    S020="a list of something that can't be listed",
    S021="a known annotation with wrong arguments",
    S022="a known annotation in a place where it means nothing",
    S023="an annotation or constraint given twice",
    S024="`@rename_from` that names a type or property which still exists, or that two claim",
    S025="`@metric`, `@language` or options of `@index` that don't fit their property",
)

QUERY_CODES = _build_errors(
    Q000="the query text does not follow the grammar",
    Q001="a limit of the language is exceeded: nesting, length of a name, size of a number, list or predicate",
    Q002="two queries of one file have the same name",
    Q003="a name clash in one query: two parameters, a variable and a parameter, or an edge variable used twice",
    Q004="an annotation that queries don't have, or one given twice",
    T1="unknown type",
    T2="unknown property",
    T3="a literal or parameter does not fit the property",
    T4="unknown edge",
    T5="the variable's type is not an endpoint of the edge, or the variable is bound to two types",
    T6="a variable, parameter or alias is used but never bound, or where it can't be",
    T7="operands that can't be compared",
    T8="an aggregate over a wrong type, or in a place where none may stand",
    T9=(
        "a block that shares no variable with its outside or binds none,"
        " or an output that is neither aggregate nor group key"
    ),
    T10="a mutation of an unknown type, or without assignments",
    T11="unknown property in a mutation",
    T12="a required property or endpoint is missing",
    T13="a property is assigned twice",
    T14="an insert value that reads a property: there is no row yet",
    T15="hop bounds outside 0 ≤ min ≤ max ≤ 64, a multi-hop between different types, or a wrong `nearest` argument",
    T17="an order by `nearest`, `rrf`, `mmr` or `rerank` without `limit`",
    T18="a rank function in a wrong place: outside order and projections, not first in the order, or reversed",
    T19="`search` or `match_text` over something other than a String property and a String",
    T20="`fuzzy` with wrong arguments",
    T21="`bm25`, `rrf`, `mmr` or `rerank` with wrong arguments",
    T22="an undirected hop between different types",
    T23="an edge variable on a multi-hop",
    T24="`limit` or `offset` that is not a whole number of at least 0",
    T25="duplicate column name",
    T26="update of a key property or an endpoint",
    T27="a calculation or function with operands of a wrong type or number, or alternatives without a common type",
    D2="inserts or updates mixed with deletes in one query",
    D3="a statement without the `match` that it needs, or one that no `match` can drive; `if absent` without a key",
)

CYPHER_CODES = {
    **_build_errors(
        C000="the Cypher text does not follow the grammar",
        C001="a limit is exceeded: nesting, length of a name, size of a number, list or statement",
        C002="a form of Cypher that is not supported; the help says what to write instead",
        C003="a clause that writes: Cypher only reads here; the help has the query that writes",
        C004="a variable that is not defined, is defined twice, or is used as what it is not",
        C005="operands, arguments or values of a wrong type, or of types that are not one",
        C006="an unknown function or procedure, or a wrong number of arguments",
        C007="an aggregate where none may stand, or a value beside aggregates that is no column",
        C008="a property that has two types among the labels that a variable can have",
        C009="columns: two of one name, one without a name, or other ones in the parts of a union",
        C010="`SKIP` or `LIMIT` that is not a whole number of at least 0",
        C011="an unknown label or relationship type, where names are strict",
        C012="an unknown property, where names are strict",
    ),
    **_build_warnings(
        C101="an unknown label or relationship type: nothing has it",
        C102="an unknown property: it is null",
        C103="whole nodes or relationships of several types leave out a property that has two types among them",
    ),
}

MIGRATION_CODES = {
    "OG-DS-102": DiagnosticCode("OG-DS-102", DiagnosticSeverity.ERROR, "a node type that has data is dropped"),
    "OG-DS-103": DiagnosticCode("OG-DS-103", DiagnosticSeverity.ERROR, "an edge type that has data is dropped"),
    "OG-DS-104": DiagnosticCode("OG-DS-104", DiagnosticSeverity.ERROR, "a property that has data is dropped"),
    "OG-MF-103": DiagnosticCode(
        "OG-MF-103", DiagnosticSeverity.ERROR, "a required property is added without a default"
    ),
    "OG-MF-104": DiagnosticCode("OG-MF-104", DiagnosticSeverity.ERROR, "a nullable property becomes required"),
    "OG-MF-106": DiagnosticCode(
        "OG-MF-106", DiagnosticSeverity.ERROR, "a type changes: of a property, of an edge's ends, of a key"
    ),
    "OG-MF-107": DiagnosticCode("OG-MF-107", DiagnosticSeverity.ERROR, "a constraint does not hold on the data"),
    "OG-MF-108": DiagnosticCode(
        "OG-MF-108", DiagnosticSeverity.ERROR, "a `@rename_from` that was applied before may be meant again"
    ),
    "OG-MF-109": DiagnosticCode(
        "OG-MF-109", DiagnosticSeverity.ERROR, "a `@rename_from` names what the schema before does not have"
    ),
}

LINT_CODES = _build_warnings(
    L101="an interface that nothing implements",
    L102="an `@index` that a key or another index already gives",
    L103="a property whose name is a reserved word of the query language",
    L104="an `@embed` vector without `@index`: every search reads all rows",
    L105="an annotation that nothing knows, and that is nearly one that is known",
    L201="a nullable property that no update sets",
    L202="a mutation without parameters",
    L203="a product of two unconnected bindings",
    L204="an equality on an unindexed property",
    L205="a comparison with `null`, which is never true",
    L206="an insert that leaves a default to be filled in, where a row with the key may exist",
    L207="a `-` that looks like the sign of a second column and subtracts",
    L208="a `//` that looks like a division and starts a comment",
)

CODES: dict[str, DiagnosticCode] = {**SCHEMA_CODES, **QUERY_CODES, **CYPHER_CODES, **MIGRATION_CODES, **LINT_CODES}
