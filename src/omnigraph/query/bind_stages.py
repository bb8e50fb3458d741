"""Bind reads: a chain of stages, each of which starts from the rows of the one before, and unions of reads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from omnigraph.lang import query_ast as ast
from omnigraph.query.bind_expr import ExprBinder
from omnigraph.query.bind_output import BoundOutput, bind_count, bind_output, build_row_ties
from omnigraph.query.bind_pattern import bind_match, generate_names
from omnigraph.query.column_names import build_column_name
from omnigraph.query.column_pruning import prune_columns
from omnigraph.query.expr import Const, EdgeRef, EntityType, Expr, ExprType, NodeRef, Parameter, ShapedType, ValueRef
from omnigraph.query.functions import CallContext
from omnigraph.query.independent_blocks import split_aggregates
from omnigraph.query.inline_lets import inline_lets
from omnigraph.query.logical_plan import (
    OrderTerm,
    OutputColumn,
    Pattern,
    ReadQuery,
    StageVariable,
    UnionSource,
    require_scores,
)
from omnigraph.query.scalar_functions import unify
from omnigraph.query.scope import (
    BROKEN,
    Params,
    ReadNameResolver,
    Reference,
    Scope,
    ValueVariable,
    VariableType,
    build_entity,
)
from omnigraph.query.union_types import unite_types
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.schema.findings import DiagnosticCollector, join_words
from omnigraph.schema.types import is_scalar


@dataclass(frozen=True)
class ReadBinder:
    """Bind the reads of one query; every method returns None if it has reported an error."""

    query: ast.Query
    catalog: Catalog
    params: Params
    findings: DiagnosticCollector
    # One sequence for all reads and stages: a generated name is one variable of the whole query.
    generated_names: Iterator[str] = field(default_factory=generate_names)

    def bind_body(self, body: ast.Read | ast.Union) -> ReadQuery | None:
        """Bind the body of a query."""
        return self._bind_union(body) if isinstance(body, ast.Union) else self._bind_read(body)

    # --- stages ----------------------------------------------------------------------------------

    def _bind_read(self, read: ast.Read) -> ReadQuery | None:
        source: ReadQuery | None = None
        scope: Scope | None = None
        for part in read.parts:
            stage = self._inline_lets(part)
            matched = bind_match(stage.clauses, self.catalog, self.params, self.findings, scope, self.generated_names)
            inputs = () if scope is None else tuple(scope.variables)
            # Bound even if the pattern has errors: the errors of the output are independent of them.
            output = bind_output(stage, matched.scope, matched.order, self.findings, inputs)
            bound: ReadQuery | None = None
            if not self.findings and matched.pattern is not None and output.columns:
                variables = () if source is None else _list_inputs(source.output, stage.clauses)
                for pattern, own in split_aggregates(matched.pattern, output, self.generated_names):
                    bound = self._build(stage, pattern, own, source if bound is None else bound, variables)
                    variables = _list_inputs(bound.output, ())
            source = bound
            scope = _build_stage_scope(output, matched.scope)
        return source

    def _inline_lets(self, part: ast.Read | ast.Stage) -> ast.Read | ast.Stage:
        if isinstance(part, ast.Stage):
            return inline_lets(part, self.findings)
        return inline_lets(part, self.findings)

    def _build(
        self,
        stage: ast.Read | ast.Stage,
        pattern: Pattern,
        output: BoundOutput,
        source: ReadQuery | UnionSource | None,
        inputs: tuple[StageVariable, ...],
    ) -> ReadQuery:
        is_last = isinstance(stage, ast.Read)
        notes = {annotation.name.text: annotation.text for annotation in self.query.annotations if is_last}
        bound = ReadQuery(
            name=self.query.name.text,
            params=self._list_params(),
            source=source,
            inputs=inputs,
            pattern=require_scores(pattern, output.order),
            output=output.columns,
            grouping=output.grouping,
            decided=output.decided,
            having=output.having,
            distinct=output.distinct,
            rank=output.rank,
            order=output.order,
            ties=output.ties,
            limit=output.limit,
            per=output.per,
            offset=output.offset,
            description=notes.get("description"),
            instruction=notes.get("instruction"),
            origin=self.query.span if is_last else stage.span,
        )
        return prune_columns(bound)

    def _list_params(self) -> tuple[Parameter, ...]:
        return tuple(self.params.declared.values())

    # --- unions ----------------------------------------------------------------------------------

    def _bind_union(self, union: ast.Union) -> ReadQuery | None:
        # All reads are bound before the first failure returns, so that each reports its errors.
        bound = [self._bind_read(read) for read in union.reads]
        reads = tuple(read for read in bound if read is not None)
        inputs = self._unite_columns(union, reads) if len(reads) == len(bound) else None
        if inputs is None:
            return None
        variables = {each.variable: _get_variable_type(each.type, nullable=each.nullable) for each in inputs}
        optional = frozenset(each.variable for each in inputs if each.entity is not None and each.nullable)
        scope = Scope(self.catalog, self.params, variables, optional=optional)
        names = _ColumnResolver(scope, self.findings)
        order = self._bind_order(union, names)
        limit = bind_count(union.limit, "limit", scope, self.findings)
        offset = bind_count(union.offset, "offset", scope, self.findings)
        if self.findings:
            return None
        notes = {annotation.name.text: annotation.text for annotation in self.query.annotations}
        return ReadQuery(
            name=self.query.name.text,
            params=self._list_params(),
            source=UnionSource(reads=reads, keeps_equal=union.keeps_equal),
            inputs=inputs,
            pattern=Pattern(nodes=()),
            output=tuple(OutputColumn(name=name, value=names.read(name, union)) for name in variables),
            order=order,
            ties=build_row_ties(variables, scope, union.span, variables),
            limit=limit,
            offset=offset,
            description=notes.get("description"),
            instruction=notes.get("instruction"),
            origin=self.query.span,
        )

    def _unite_columns(self, union: ast.Union, reads: Sequence[ReadQuery]) -> tuple[StageVariable, ...] | None:
        """Return the columns of a union with the types that those of its reads have in common."""
        first = [column.name for column in reads[0].output]
        for node, read in zip(union.reads[1:], reads[1:], strict=True):
            names = [column.name for column in read.output]
            if names != first:
                message = (
                    f"the columns of this read are {join_words(names)}, but those before it are {join_words(first)}"
                )
                help_ = "give all reads of a `union` the same columns in the same order, with `as` if need be"
                self.findings.add_error("T25", node.projections[0].span, message, help_)
                return None
        is_set = not all(union.keeps_equal)
        united = []
        for index, name in enumerate(first):
            values = [read.output[index].value for read in reads]
            # The literal null has no type of its own.
            typed = [value for value in values if not isinstance(value, Const) or value.value is not None]
            type_ = _unify([value.type for value in typed or values])
            # `$v.*` is one projection for several columns.
            written = union.reads[-1].projections
            place = written[min(index, len(written) - 1)].span
            if type_ is None:
                shown = join_words([f"{value.type}" for value in values])
                message = f"the columns `{name}` of a union have no common type: {shown}"
                is_whole = any(isinstance(value.type, NodeRef | EdgeRef) for value in values)
                help_ = "return properties of the nodes" if is_whole else "convert them with `to_string` or `to_float`"
                self.findings.add_error("T27", place, message, help_)
            elif is_set and not isinstance(type_, NodeRef | EdgeRef) and not _is_comparable(type_):
                message = f"`{name}` is {type_}, which can't be compared, so it can't be used with `union`"
                self.findings.add_error("T8", place, message, "write `union all`, which keeps equal rows")
            else:
                nullable = any(value.nullable for value in values)
                united.append(StageVariable(variable=name, type=type_, nullable=nullable))
        return tuple(united) if len(united) == len(first) else None

    def _bind_order(self, union: ast.Union, names: "_ColumnResolver") -> tuple[OrderTerm, ...]:
        binder = ExprBinder(names, self.findings)
        terms = []
        for key in union.order:
            value = binder.bind_value(key.value, CallContext.AGGREGATE)
            if value is None:
                continue
            if not _is_comparable(value.type):
                self.findings.add_error("T7", key.value.span, f"this is {value.type}, which has no order")
                continue
            terms.append(OrderTerm(value=value, descending=bool(key.descending)))
        return tuple(terms)


@dataclass(frozen=True, slots=True)
class _ColumnResolver:
    """The name resolver of the order of a union: a reference names the column that it would be without an alias."""

    scope: Scope
    findings: DiagnosticCollector

    def resolve(self, node: Reference) -> Expr | None:
        if isinstance(node, ast.Variable) and node.name in self.scope.params:
            return self.scope.params.resolve(node)
        name = build_column_name(node)
        if name in self.scope.variables:
            return self.read(name, node)
        if isinstance(node, ast.PropertyRef) and node.variable.name in self.scope.variables:
            # A property of a column that is a whole node or edge.
            return ReadNameResolver(self.scope, self.findings).resolve(node)
        help_ = self.findings.suggest_closest(name, self.scope.variables)
        columns = join_words(self.scope.variables)
        message = f"the union has no column `{name}`"
        self.findings.add_error(
            "T6", node.span, message, help_ or f"an order after a union names its columns: {columns}"
        )
        return None

    def read(self, name: str, node: ast.Expr | ast.Union) -> Expr:
        """Return the value of a column."""
        type_ = self.scope.variables[name]
        if isinstance(type_, ValueVariable):
            return ValueRef(variable=name, type=type_.type, nullable=type_.nullable, origin=node.span)
        assert isinstance(type_, NodeRef | EdgeRef)  # noqa: S101 - columns with an error make no union
        return build_entity(name, type_, self.scope, ast.Variable(name=name, span=node.span))

    def get_type(self, type_: EntityType) -> AnyType:
        """Return the catalog entry of a node or edge type; see `NameResolver`."""
        return self.scope.get_type(type_)


def _unify(types: Sequence[ExprType]) -> ExprType | None:
    if all(type_ == types[0] for type_ in types):
        return types[0]
    united = unite_types(types)
    if united is not None:
        return united
    values = tuple(type_ for type_ in types if not isinstance(type_, ShapedType))
    return unify(values) if len(values) == len(types) else None


def _is_comparable(type_: ExprType) -> bool:
    return not isinstance(type_, ShapedType) and is_scalar(type_)


def _build_stage_scope(output: BoundOutput, before: Scope) -> Scope:
    """Return the scope after a stage: the variables that it names, and nothing else."""
    variables: dict[str, VariableType] = {}
    optional: set[str] = set()
    for name, value in output.named.items():
        variables[name] = BROKEN if value is None else _get_variable_type(value.type, nullable=value.nullable)
        if value is not None and value.nullable:
            optional.add(name)
    # A name that was visible before gets a help line of its own.
    dropped = frozenset(name for name in before.names if name not in variables)
    return Scope(before.catalog, before.params, variables, optional=frozenset(optional), dropped=dropped)


def _get_variable_type(type_: ExprType, *, nullable: bool) -> VariableType:
    return type_ if isinstance(type_, NodeRef | EdgeRef) else ValueVariable(type_, nullable)


def _list_inputs(columns: Sequence[OutputColumn], clauses: Sequence[ast.Clause]) -> tuple[StageVariable, ...]:
    """Return the columns of a stage as variables; the next pattern matches those that are bound again or hop ends."""
    matched = {variable.name for clause in clauses for variable in _list_matched(clause)}
    return tuple(
        StageVariable(
            variable=column.name,
            type=column.value.type,
            nullable=column.value.nullable,
            is_matched=column.name in matched,
        )
        for column in columns
    )


def _list_matched(clause: ast.Clause) -> tuple[ast.Variable, ...]:
    match clause:
        case ast.Binding():
            return (clause.variable,)
        case ast.TraversalClause():
            return (clause.source, clause.target)
        case ast.PathClause():
            return (clause.hop.source, clause.hop.target)
        case _:
            return ()
