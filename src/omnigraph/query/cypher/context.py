"""What all binders of one Cypher statement share: the schema, names, findings, parameters, types of variables."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from omnigraph.lang.source import Span
from omnigraph.query.cypher.findings import CypherFindings
from omnigraph.query.cypher.names import CypherNames
from omnigraph.query.cypher.scope import EntityVariable, FreshNames
from omnigraph.query.expr import Expr, ExprType, Parameter
from omnigraph.query.expr_tree import find_variables
from omnigraph.query.expr_types import ROW
from omnigraph.query.logical_plan import (
    Pattern,
    PatternBlock,
    SharedVariable,
    get_block_exprs,
    get_patterns,
    iter_predicates,
)
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.types import ValueType


@dataclass(frozen=True, slots=True)
class ParameterForm:
    """The type of a parameter's value; None is null.

    A map has a parameter for each of its keys, and a list of nulls, lists or maps for each of its items. A parameter
    that names a property has its `key`, which decides the type of what is read.
    """

    type: ValueType | None = None
    fields: Mapping[str, "ParameterForm"] | None = None
    items: tuple["ParameterForm", ...] | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class KnownEnds:
    """The nodes at the ends of a relationship, its start first if it is followed in its direction."""

    nodes: tuple[EntityVariable, EntityVariable]
    is_directed: bool


@dataclass
class CypherContext:
    """The state of binding one statement. Plan variables have one name and one type in the whole of it."""

    catalog: Catalog
    names: CypherNames
    findings: CypherFindings
    text: str
    given: Mapping[str, ParameterForm]
    fresh: FreshNames = field(default_factory=FreshNames)
    types: dict[str, ExprType] = field(default_factory=dict)
    declared: dict[str, Parameter] = field(default_factory=dict)
    full_lists: set[str] = field(default_factory=set)
    """The variables that are lists without nulls."""
    ends: dict[str, KnownEnds] = field(default_factory=dict)
    """The ends of single relationships, by their variable."""
    live: set[str] = field(default_factory=set)
    """The nodes that the clauses since the last projection bind, named or not."""
    nullable_values: set[str] = field(default_factory=set)
    """The variables that are elements of lists and may be null."""

    def declare(self, name: str | None, type_: ExprType) -> str:
        """Return the name of a new plan variable of this type."""
        chosen = self.fresh.choose(name)
        self.types[chosen] = type_
        return chosen

    def quote(self, span: Span) -> str:
        """Return a part of the statement as written, for a message."""
        text = " ".join(self.text[span.start : span.end].split())
        return text if len(text) <= 60 else f"{text[:57]}…"

    def find_shared(self, pattern: Pattern, exprs: Iterable[Expr] = ()) -> tuple[SharedVariable, ...]:
        """Return the variables of the outside that a pattern and expressions over its matches read."""
        read: dict[str, None] = {}
        _collect_reads(pattern, read)
        for expr in exprs:
            read.update(dict.fromkeys(find_variables(expr)))
        # A condition along a walk reads its row, which is no variable of the outside.
        own = _collect_bound(pattern) | {ROW}
        outside = (name for name in read if name not in own)
        return tuple(SharedVariable(variable=name, type=self.types[name]) for name in outside)


def _collect_reads(pattern: Pattern, read: dict[str, None]) -> None:
    for hop in pattern.hops:
        read.update({hop.source: None, hop.target: None})
    for expr in iter_predicates(pattern):
        read.update(dict.fromkeys(find_variables(expr)))
    for block in pattern.blocks:
        _collect_block_reads(block, read)


def _collect_block_reads(block: PatternBlock, read: dict[str, None]) -> None:
    read.update(dict.fromkeys(each.variable for each in block.shared))
    for expr in get_block_exprs(block):
        read.update(dict.fromkeys(find_variables(expr)))
    for inner in get_patterns(block):
        _collect_reads(inner, read)


def _collect_bound(pattern: Pattern) -> set[str]:
    """Return all variables that a pattern binds, those inside its blocks included: names are given once."""
    bound = set(pattern.types)
    # Also what inner blocks bind: a name that is given once is no variable of the outside.
    for block in pattern.blocks:
        for inner in get_patterns(block):
            bound |= _collect_bound(inner)
    return bound
