"""Bind a `match` that drives statements, and `returning`: as a read of what the statements need of each row."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeAlias

from omnigraph.lang import query_ast as ast
from omnigraph.lang.diagnostics import StageResult
from omnigraph.lang.expression_tree import walk as walk_tree
from omnigraph.lang.literals import BoolLiteral, Name
from omnigraph.lang.printer import format_expr as print_expr
from omnigraph.lang.source import Span
from omnigraph.query.bind_literal import clip_text
from omnigraph.query.column_pruning import prune_columns
from omnigraph.query.expr import (
    ArrayOf,
    EdgeRef,
    Entity,
    EntityType,
    Expr,
    Identity,
    NodeRef,
    Prop,
    Rank,
    RecordOf,
    TextMatch,
    ValueRef,
)
from omnigraph.query.expr_tree import find_variables, walk
from omnigraph.query.functions import FUNCTIONS, FunctionFamily
from omnigraph.query.logical_plan import GENERATED_PREFIX, OutputColumn, Pattern, ReadQuery
from omnigraph.query.mutation_plan import build_id
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.findings import DiagnosticCollector
from omnigraph.schema.types import Scalar

# Binds a read of a query, whose parameters it declares; the value is None if there is an error.
BindRead: TypeAlias = Callable[[ast.Query, ast.Read, Catalog], StageResult[Any]]

# The columns of values that statements store; no variable has such a name, not even a generated one.
_VALUE_PREFIX = f"{GENERATED_PREFIX}value"
# The column of a match whose statements read nothing of its rows.
_ROW_COLUMN = "#each"


@dataclass(frozen=True, slots=True)
class MatchColumns:
    """The columns of a bound match by what they were asked for; empty if the match has an error, which is reported."""

    variables: Mapping[str, Expr] = field(default_factory=dict)
    values: Mapping[int, tuple[str, Expr]] = field(default_factory=dict)
    """The name and value of a column by `id` of the syntax node that it was asked for."""
    read: ReadQuery | None = None

    @property
    def names(self) -> frozenset[str]:
        """The variables of the match, as far as they are known."""
        types = {} if self.read is None else self.read.pattern.types
        return frozenset({*types, *self.variables})

    def find_value(self, node: ast.Expr) -> ValueRef | None:
        """Return the column of a value that a statement stores."""
        column = self.values.get(id(node))
        if column is None:
            return None
        name, value = column
        return ValueRef(variable=name, type=value.type, nullable=value.nullable, origin=value.origin)

    def find_type(self, variable: str) -> EntityType | None:
        """Return the type of a variable that is bound to nodes or edges."""
        value = self.variables.get(variable)
        return value.type if isinstance(value, Entity) else None

    def list_types(self) -> tuple[tuple[str, EntityType], ...]:
        """Return the types of all variables whose ids are columns."""
        known = {} if self.read is None else self.read.pattern.entity_types
        types = {name: type_ for name, type_ in known.items() if isinstance(type_, NodeRef | EdgeRef)}
        types |= {name: value.type for name, value in self.variables.items() if isinstance(value, Entity)}
        columns = () if self.read is None else self.read.output
        return tuple((column.name, types[column.name]) for column in columns if column.name in types)


@dataclass(slots=True)
class MatchDraft:
    """The columns that the statements after a match ask for, until it is bound."""

    match: ast.DriveMatch
    _variables: dict[str, ast.Variable] = field(default_factory=dict)
    # The syntax nodes as they were asked for are kept, so that their `id` is not reused.
    _values: list[tuple[ast.Expr, ast.Expr]] = field(default_factory=list)

    def add_variable(self, node: ast.Variable) -> None:
        """Ask for the ids of a variable."""
        self._variables.setdefault(node.name, node)

    def add_value(self, node: ast.Expr, row: ast.Variable | None = None) -> None:
        """Ask for a value; with `row`, a bare name in it is a property of that variable."""
        self._values.append((node, node if row is None else qualify_names(node, row)))

    def bind(
        self,
        query: ast.Query,
        catalog: Catalog,
        bind_read: BindRead,
        returning: "Returning",
        findings: DiagnosticCollector,
    ) -> MatchColumns:
        """Bind the match as a read of these columns and of what `returning` reads; all errors are reported."""
        for node in returning.list_variables():
            self.add_variable(node)
        nodes: list[ast.Expr] = [*self._variables.values(), *(value for _, value in self._values)]
        # `return` would group by the others; a stage before the statements says what is grouped.
        if report_aggregates([*nodes, *(each.value for each in returning.projections)], findings):
            return MatchColumns()
        projections = [
            ast.Projection(value=node, alias=Name(f"{_VALUE_PREFIX}{number}", node.span), span=node.span)
            for number, node in enumerate(nodes)
        ]
        if not projections:
            projections = [_build_row_column(self.match.span)]
        body = ast.Read(
            clauses=(*self.match.clauses, *returning.build_clauses()),
            projections=(*projections, *returning.projections),
            stages=self.match.stages,
            span=self.match.span,
        )
        bound = bind_read(replace(query, body=body, returning=(), annotations=()), body, catalog)
        for diagnostic in bound.diagnostics:
            findings.add_error(diagnostic.code, diagnostic.span, diagnostic.message, diagnostic.help)
        read: ReadQuery | None = bound.value
        if read is None:
            return MatchColumns()
        values = [column.value for column in read.output[: len(projections)]]
        variables = dict(zip(self._variables, values, strict=False))
        rest = values[len(self._variables) :]
        # The row column stands alone, when nothing was asked for: there are no values then.
        asked = zip(self._values, rest, strict=False)
        named = {id(node): (f"{_VALUE_PREFIX}{n}", value) for n, ((node, _), value) in enumerate(asked)}
        columns = [OutputColumn(name=name, value=_to_id(value)) for name, value in variables.items()]
        columns += [OutputColumn(name=name, value=value) for name, value in named.values()]
        returning.columns = read.output[len(projections) :]
        types = {**read.pattern.entity_types, **{n: v.type for n, v in variables.items() if isinstance(v, Entity)}}
        several = {name for name, type_ in types.items() if catalog.find_type(str(type_)) is None}
        if not returning.check(findings, several):
            return MatchColumns()
        columns += returning.list_inputs(variables)
        columns = columns or [OutputColumn(name=_ROW_COLUMN, value=values[0])]
        read = replace(read, output=tuple(columns), ties=(), pattern=_remove_variables(read.pattern, returning.named))
        return MatchColumns(variables, named, prune_columns(read))


@dataclass(slots=True)
class Returning:
    """The columns of `returning`, over the variables of a match and those that inserts have named."""

    projections: tuple[ast.Projection, ...] = ()
    named: Mapping[str, EntityType] = field(default_factory=dict)
    """The variables of inserts that it reads, and their types."""
    params: frozenset[str] = frozenset()
    columns: tuple[OutputColumn, ...] = ()

    def list_variables(self) -> list[ast.Variable]:
        """Return the variables of the match that the columns name, so that their types are known."""
        parts = [part for projection in self.projections for part in walk_tree(projection.value)]
        variables = [part for part in parts if isinstance(part, ast.Variable)]
        variables += [part.variable for part in parts if isinstance(part, ast.PropertyRef)]
        return [variable for variable in variables if variable.name not in self.excluded]

    @property
    def excluded(self) -> frozenset[str]:
        """The names that are no variables of the match: those of inserts, and parameters."""
        return frozenset({*self.named, *self.params})

    def build_clauses(self) -> tuple[ast.Clause, ...]:
        """Return clauses that bind the variables of inserts, so that their properties have types."""
        span = self.projections[0].span if self.projections else Span(0, 0)
        return tuple(_build_clause(name, type_, span) for name, type_ in self.named.items())

    def check(self, findings: DiagnosticCollector, several: Collection[str] = ()) -> bool:
        """Check that the columns can be computed from single rows after the write; return whether they can.

        `several` are the variables of several types, whose rows are in no single table.
        """
        before = len(findings)
        for projection, column in zip(self.projections, self.columns, strict=True):
            node = projection.value
            text = clip_text(print_expr(node))
            parts = tuple(walk(column.value))
            if any(isinstance(part, Rank | TextMatch) for part in parts):
                message = f"`{text}` searches, which a mutation can't do after it has written"
                findings.add_error("T18", node.span, message, "run a query after the mutation")
            elif any(isinstance(part, Prop | Identity | Entity) and part.variable in several for part in parts):
                message = f"`{text}` is of several types, which a mutation can't return"
                findings.add_error("T8", node.span, message, "match one type, or run a query after the mutation")
            elif any(isinstance(part, Prop) and part.type is Scalar.BLOB for part in parts):
                findings.add_error("T8", node.span, f"`{text}` is a Blob, which a mutation can't return")
            elif any(isinstance(part, ValueRef) and _has_entity(part.type) for part in parts):
                message = f"`{text}` contains nodes or edges as the match has read them"
                help_ = "return the variables themselves, or calculate in a stage before: `with { …, length($w) as n }`"
                findings.add_error("T8", node.span, message, help_)
        return len(findings) == before

    def list_inputs(self, present: Iterable[str]) -> list[OutputColumn]:
        """Return the columns that a match needs so that these can be computed, except for those that are present."""
        inputs: dict[str, OutputColumn] = {}
        for column in self.columns:
            values = {part.variable: part for part in walk(column.value) if isinstance(part, ValueRef)}
            for name in find_variables(column.value):
                if name not in self.named and name not in present:
                    value = values.get(name) or build_id(name, column.value.origin, nullable=True)
                    inputs[name] = OutputColumn(name=name, value=value)
        return list(inputs.values())


def bind_returning_alone(
    returning: Returning, query: ast.Query, catalog: Catalog, bind_read: BindRead, findings: DiagnosticCollector
) -> None:
    """Bind the columns of `returning` of a mutation without a match."""
    if report_aggregates([projection.value for projection in returning.projections], findings):
        return
    span = query.span
    # Without a variable there is no pattern: such a column would be the same for every mutation.
    if not returning.named:
        findings.add_error(
            "T6", returning.projections[0].span, "`returning` has no variable to read", "name one: `insert … as $x`"
        )
        return
    body = ast.Read(clauses=returning.build_clauses(), projections=returning.projections, span=span)
    bound = bind_read(replace(query, body=body, returning=(), annotations=()), body, catalog)
    for diagnostic in bound.diagnostics:
        findings.add_error(diagnostic.code, diagnostic.span, diagnostic.message, diagnostic.help)
    if bound.value is not None:
        returning.columns = bound.value.output
        returning.check(findings)


def report_aggregates(nodes: Sequence[ast.Expr], findings: DiagnosticCollector) -> bool:
    """Report the aggregates in values of statements; return whether there are any."""
    before = len(findings)
    for node in nodes:
        for part in walk_tree(node):
            function = FUNCTIONS.get(part.function.text) if isinstance(part, ast.Call) else None
            if function is not None and function.family is FunctionFamily.AGGREGATE:
                text = clip_text(print_expr(part))
                message = f"`{text}` is an aggregate, but a statement runs for every row"
                help_ = f"compute it before, in a stage: `with {{ …, {text} as n }}`"
                findings.add_error("T8", part.span, message, help_)
    return len(findings) > before


def find_mentioned(node: ast.Expr) -> set[str]:
    """Return the names of all variables in an expression."""
    parts = tuple(walk_tree(node))
    names = {part.name for part in parts if isinstance(part, ast.Variable)}
    return names | {part.variable.name for part in parts if isinstance(part, ast.PropertyRef)}


def qualify_names(node: Any, row: ast.Variable) -> Any:  # noqa: ANN401 - any part of a syntax tree
    """Return an expression in which every bare name is a property of a variable: `n + 1` is `$p.n + 1`."""
    if isinstance(node, ast.BareName):
        return ast.PropertyRef(variable=row, name=node.name, is_meta=node.is_meta, span=node.span)
    if isinstance(node, tuple):
        return tuple(qualify_names(item, row) for item in node)
    if not is_dataclass(node) or isinstance(node, type | Span | Name):
        return node
    changes = {f.name: qualify_names(getattr(node, f.name), row) for f in fields(node)}
    is_same = all(value is getattr(node, name) for name, value in changes.items())
    return node if is_same else replace(node, **changes)


def _to_id(value: Expr) -> Expr:
    """Return the id of a whole node or edge; any other value unchanged."""
    if not isinstance(value, Entity):
        return value
    return Identity(variable=value.variable, nullable=value.nullable, origin=value.origin)


def _build_row_column(span: Span) -> ast.Projection:
    literal = ast.LiteralExpr(value=BoolLiteral(value=True, span=span), span=span)
    return ast.Projection(value=literal, alias=Name(_ROW_COLUMN, span), span=span)


def _build_clause(name: str, type_: EntityType, span: Span) -> ast.Clause:
    variable = ast.Variable(name=name, span=span)
    if isinstance(type_, NodeRef):
        return ast.Binding(variable=variable, types=(Name(type_.name, span),), span=span)
    anonymous = ast.Variable(name=ast.ANONYMOUS, span=span)
    edge = ast.EdgeName(name=Name(type_.name, span), span=span)
    return ast.TraversalClause(
        source=anonymous, edges=(edge,), target=anonymous, edge_variable=variable, edge_span=span, span=span
    )


def _remove_variables(pattern: Pattern, names: Iterable[str]) -> Pattern:
    """Return a pattern without the variables that only `_build_clause` has added."""
    removed = set(names)
    for hop in pattern.hops:
        if hop.edge_variable in removed:
            removed |= {hop.source, hop.target}
    return replace(
        pattern,
        nodes=tuple(node for node in pattern.nodes if node.variable not in removed),
        hops=tuple(hop for hop in pattern.hops if hop.edge_variable not in removed),
    )


def _has_entity(type_: object) -> bool:
    match type_:
        case NodeRef() | EdgeRef():
            return True
        case ArrayOf(element=element):
            return _has_entity(element)
        case RecordOf(fields=parts):
            return any(_has_entity(part) for _, part in parts)
        case _:
            return False
