"""Bind a whole statement: its clauses become stages of a read, each of which starts from the rows of the one before."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from omnigraph.lang.cypher import tree
from omnigraph.lang.source import Span
from omnigraph.query.column_pruning import prune_columns
from omnigraph.query.counts import fold_number, is_calculated
from omnigraph.query.cypher import values
from omnigraph.query.cypher.context import CypherContext
from omnigraph.query.cypher.elements import build_each
from omnigraph.query.cypher.expressions import ExpressionBinder
from omnigraph.query.cypher.folding import fold_before, list_unfolded
from omnigraph.query.cypher.lists import may_hold_null, split_keys
from omnigraph.query.cypher.mentions import has_aggregate, list_names
from omnigraph.query.cypher.names import get_relationship_type, suggest
from omnigraph.query.cypher.optional import make_optional
from omnigraph.query.cypher.patterns import MatchBinder, join_late
from omnigraph.query.cypher.properties import warn_omissions
from omnigraph.query.cypher.scope import (
    ComputedVariable,
    CypherScope,
    CypherVariable,
    EntityVariable,
    build_column_variable,
    build_identity_of,
)
from omnigraph.query.cypher.set_hops import relax_hops
from omnigraph.query.cypher.subqueries import SubqueryBinder, build_order
from omnigraph.query.expr import (
    Aggregate,
    AggregateFunction,
    And,
    Case,
    Compare,
    Computed,
    Const,
    EdgeRef,
    Entity,
    Expr,
    ExprType,
    NodeRef,
    Or,
    ParamRef,
    ShapedType,
    is_whole,
)
from omnigraph.query.expr_tree import find_aggregates, find_foreign, find_variables
from omnigraph.query.group_plan import Grouping, OutputColumn
from omnigraph.query.logical_plan import (
    Count,
    Hop,
    NodeBinding,
    OptionalMatch,
    OrderTerm,
    Pattern,
    PatternBlock,
    ReadQuery,
    ValueBlock,
)
from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.query.stage_plan import StageVariable, UnionSource
from omnigraph.query.union_types import list_identities
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.types import ListOf, Scalar, is_scalar

QUERY_NAME = "cypher"
_PROCEDURES = {
    "db.labels": "label",
    "db.relationshiptypes": "relationshipType",
    "db.propertykeys": "propertyKey",
}
_PROCEDURE_NAMES = ("db.labels", "db.relationshipTypes", "db.propertyKeys")


@dataclass
class _StageDraft:
    """The clauses since the last projection."""

    source: ReadQuery | UnionSource | None = None
    inputs: tuple[StageVariable, ...] = ()
    nodes: list[NodeBinding] = field(default_factory=list)
    hops: list[Hop] = field(default_factory=list)
    filters: list[Expr] = field(default_factory=list)
    blocks: list[PatternBlock] = field(default_factory=list)

    @property
    def pattern(self) -> Pattern:
        """The pattern of the stage."""
        return Pattern(
            nodes=tuple(self.nodes), hops=tuple(self.hops), filters=tuple(self.filters), blocks=tuple(self.blocks)
        )

    def add(self, pattern: Pattern) -> None:
        """Add the clauses of a `MATCH`."""
        self.nodes += pattern.nodes
        self.hops += pattern.hops
        self.filters += pattern.filters
        self.blocks += pattern.blocks


@dataclass
class _Columns:
    """What a projection outputs."""

    names: list[str]
    values: list[Expr]
    has_aggregates: bool
    keys: dict[Expr, None] = field(default_factory=dict)
    """What tells merged rows apart."""
    is_split: bool = False
    """Whether a list or map was taken apart into keys."""

    @property
    def is_grouped(self) -> bool:
        """Whether rows are merged by groups, and not as a whole."""
        return self.has_aggregates or self.is_split


@dataclass
class StatementBinder:
    """Bind a statement; every method raises `RefusedError` for a mistake, which was reported."""

    context: CypherContext

    def bind(self, statement: tree.Statement) -> ReadQuery:
        """Return the plan of a statement."""
        reads = [QueryBinder(self.context).bind(query) for query in statement.queries]
        return reads[0] if len(reads) == 1 else self._unite(statement, reads)

    def _unite(self, statement: tree.Statement, reads: Sequence[ReadQuery]) -> ReadQuery:
        first = [column.name for column in reads[0].output]
        for query, read in zip(statement.queries, reads, strict=True):
            names = [column.name for column in read.output]
            if names != first:
                message = f"the columns are {', '.join(names)}, but those before are {', '.join(first)}"
                help_ = "all parts of a `UNION` have the same columns in the same order"
                self.context.findings.refuse("C009", query.clauses[-1].span, message, help_)
        inputs = []
        for index, name in enumerate(first):
            united = [read.output[index].value for read in reads]
            agreed = values.agree(united)
            if agreed is None:
                types = ", ".join(dict.fromkeys(values.describe(value.type) for value in united))
                message = f"the column `{name}` of a `UNION` has values that can't be united: {types}"
                self.context.findings.refuse("C005", statement.span, message, "convert them by `toString(…)`")
            type_ = agreed[0].type
            warn_omissions(self.context, type_, statement.span)
            self.context.types[name] = type_
            inputs.append(StageVariable(variable=name, type=type_, nullable=any(value.nullable for value in united)))
        is_plain = not statement.distinct or all(_is_comparable(each.type) for each in inputs)
        scope = CypherScope(self.context.catalog)
        output = []
        keys: dict[Expr, None] = {}
        for each in inputs:
            variable = build_column_variable(each.variable, each.type, nullable=each.nullable, origin=statement.span)
            value = scope.read(variable, statement.span)
            # Lists and maps are no keys of a union: its rows are merged by groups after it.
            split = ((), value) if is_plain else split_keys(value)
            if split is None:
                message = f"`UNION` of {values.describe(each.type)} is not supported"
                self.context.findings.refuse("C002", statement.span, message, "write `UNION ALL`")
            keys.update(dict.fromkeys(split[0]))
            output.append(OutputColumn(name=each.variable, value=split[1]))
        keeps_equal = not (statement.distinct and is_plain)
        columns = _Columns(first, [column.value for column in output], has_aggregates=False, keys=keys)
        return prune_columns(
            ReadQuery(
                name=QUERY_NAME,
                params=tuple(self.context.declared.values()),
                source=UnionSource(reads=tuple(reads), keeps_equal=(keeps_equal,) * (len(reads) - 1)),
                grouping=None if is_plain else _build_grouping(columns, (), statement.span),
                inputs=tuple(inputs),
                pattern=Pattern(nodes=()),
                output=tuple(output),
                origin=statement.span,
            )
        )


def _is_comparable(type_: ExprType) -> bool:
    if isinstance(type_, ShapedType):
        return isinstance(type_, NodeRef | EdgeRef)
    return is_scalar(type_)


@dataclass
class QueryBinder:
    """Bind the clauses of one query between two `UNION`."""

    context: CypherContext
    draft: _StageDraft = field(default_factory=_StageDraft)
    scope: CypherScope = field(init=False)
    subqueries: SubqueryBinder = field(init=False)

    def __post_init__(self) -> None:
        self.scope = CypherScope(self.context.catalog)
        self.subqueries = SubqueryBinder(self.context)

    def bind(self, query: tree.Query) -> ReadQuery:
        """Return the plan of the query."""
        for clause in query.clauses:
            match clause:
                case tree.Match():
                    self._bind_match(clause)
                case tree.Unwind():
                    self._bind_unwind(clause)
                case tree.With():
                    self._bind_with(clause)
                case tree.CallProcedure():
                    self._bind_call(clause)
                case tree.CallSubquery():
                    help_ = "write its clauses after the others, or use `COUNT { }`, `COLLECT { }` or `EXISTS { }`"
                    self.context.findings.refuse("C002", clause.span, "`CALL { }` is not supported", help_)
                case tree.Return(projection=projection):
                    return self._project(projection, clause.span, is_last=True)
        # A lone procedure returns its columns.
        star = tree.Projection(items=(), star=True, span=query.span)
        return self._project(star, query.span, is_last=True)

    def _build_binder(self) -> ExpressionBinder:
        return ExpressionBinder(self.context, self.scope, self.subqueries)

    # --- clauses -----------------------------------------------------------------------------------

    def _bind_match(self, clause: tree.Match) -> None:
        if clause.optional:
            self._bind_optional(clause)
            return
        # Blocks apply after all hops of a stage, so those of clauses before this one end it.
        if self.draft.blocks:
            self._flush(clause.span)
        binder = MatchBinder(self.context, self.subqueries)
        matched = binder.bind(clause, self.scope)
        self.scope = matched.scope
        self.context.live.update(matched.pattern.types)
        bound = {node.bound.name for node in binder.nodes.values() if node.bound is not None}
        self._require(bound)
        self.draft.add(matched.pattern)
        if matched.late:
            read = [name for condition in matched.late for name in find_variables(condition)]
            self._flush(clause.span, read)
            self.draft.filters.append(values.build_and(matched.late, clause.span))

    def _require(self, names: set[str]) -> None:
        """Leave out the rows in which a variable that is matched again is null."""
        if not names:
            return
        inputs = (replace(each, is_matched=each.is_matched or each.variable in names) for each in self.draft.inputs)
        self.draft.inputs = tuple(inputs)
        variables = dict(self.scope.variables)
        for name, variable in variables.items():
            if isinstance(variable, EntityVariable) and variable.name in names:
                variables[name] = replace(variable, nullable=False)
        self.scope = replace(self.scope, variables=variables)

    def _bind_optional(self, clause: tree.Match) -> None:
        if self.draft.blocks:
            self._flush(clause.span)
        before = self.scope
        matched = MatchBinder(self.context, self.subqueries).bind(clause, before)
        variables: dict[str, CypherVariable] = dict(before.variables)
        for name, variable in matched.scope.variables.items():
            if name not in before.variables:
                variables[name] = make_optional(variable, matched)
        self.scope = replace(before, variables=variables)
        pattern = join_late(matched)
        self.context.live.update(pattern.types)
        shared = self.context.find_shared(pattern)
        self.draft.blocks.append(OptionalMatch(shared=shared, pattern=pattern, origin=clause.span))

    def _bind_unwind(self, clause: tree.Unwind) -> None:
        binder = self._build_binder()
        source = binder.bind(clause.source)
        self.draft.blocks += binder.blocks
        self._add_each(clause.variable.text, source, clause.source.span, clause.variable.span)

    def _add_each(self, name: str, source: Expr, span: Span, name_span: Span) -> None:
        if self.scope.find(name) is not None:
            self.context.findings.refuse("C004", name_span, f"`{name}` is already defined", "give it another name")
        # `UNWIND null` has no rows, as that of an empty list.
        if values.is_null(source):
            source = Const(value=(), type=ListOf(Scalar.STRING), origin=span)
        if not values.is_list(source):
            message = f"`UNWIND` needs a list, but this is {values.describe(source.type)}"
            self.context.findings.refuse("C005", span, message, "put it into brackets: `[value]`")
        if self.draft.blocks:
            self._flush(span, find_variables(source))
        block, self.scope, _ = build_each(self.context, name, source, span, self.scope)
        self.draft.blocks.append(block)

    def _bind_with(self, clause: tree.With) -> None:
        hidden = _find_hidden(self.scope, clause)
        projection = clause.projection
        if hidden:
            carried = (
                tree.ProjectionItem(
                    value=tree.Variable(name=name, span=clause.span), alias=None, text=name, span=clause.span
                )
                for name in hidden
            )
            projection = replace(projection, items=(*projection.items, *carried))
        read = self._project(projection, clause.span, is_last=False)
        inputs = tuple(
            StageVariable(variable=column.name, type=column.value.type, nullable=column.value.nullable)
            for column in read.output
        )
        self.draft = _StageDraft(source=read, inputs=inputs)
        self.context.live.clear()
        if clause.where is not None:
            binder = self._build_binder()
            self.draft.filters.append(binder.bind_condition(clause.where))
            self.draft.blocks += binder.blocks
        if hidden:
            kept = {name: each for name, each in self.scope.variables.items() if name not in hidden}
            self.scope = replace(self.scope, variables=kept)

    def _bind_call(self, clause: tree.CallProcedure) -> None:
        name = clause.procedure.text.lower()
        column = _PROCEDURES.get(name)
        if column is None:
            help_ = suggest(clause.procedure.text, _PROCEDURE_NAMES) or f"there are {', '.join(_PROCEDURE_NAMES)}"
            message = f"there is no procedure `{clause.procedure.text}`"
            self.context.findings.refuse("C006", clause.procedure.span, message, help_)
        if clause.arguments:
            message = f"`{clause.procedure.text}` takes no arguments"
            self.context.findings.refuse("C006", clause.procedure.span, message)
        # Each of these procedures has one column.
        alias = column
        for item in clause.items or ():
            if item.column.text != column:
                message = f"`{clause.procedure.text}` has no column `{item.column.text}`"
                self.context.findings.refuse("C004", item.column.span, message, f"its column is `{column}`")
            alias = column if item.alias is None else item.alias.text
        found = Const(value=_list_names(self.context.catalog, name), type=ListOf(Scalar.STRING), origin=clause.span)
        self._add_each(alias, found, clause.span, clause.span)
        if clause.where is not None:
            binder = self._build_binder()
            self._flush(clause.span)
            self.draft.filters.append(binder.bind_condition(clause.where))
            self.draft.blocks += binder.blocks

    # --- stages ------------------------------------------------------------------------------------

    def _flush(self, span: Span, also: Sequence[str] = ()) -> None:
        """End the stage, and start the next one from its rows, with all variables in scope."""
        carried: dict[str, None] = {}
        nullable: dict[str, bool] = {}
        for variable in self.scope.variables.values():
            if isinstance(variable, EntityVariable):
                carried[variable.name] = None
                nullable[variable.name] = variable.nullable
            else:
                carried.update(dict.fromkeys(find_variables(variable.value)))
        carried.update(dict.fromkeys(also))
        block_nulls = {block.variable: block.nullable for block in self.draft.blocks if isinstance(block, ValueBlock)}
        optional = self.draft.pattern.optional_variables
        known = {each.variable: each.nullable for each in self.draft.inputs}
        output: list[OutputColumn] = []
        for name in carried:
            type_ = self.context.types[name]
            is_nullable = nullable.get(name, block_nulls.get(name, known.get(name, False))) or name in optional
            is_nullable = is_nullable or name in self.context.nullable_values
            variable = build_column_variable(name, type_, nullable=is_nullable, origin=span)
            output.append(OutputColumn(name=name, value=self.scope.read(variable, span)))
        if not output:
            # Only the number of rows matters.
            name = self.context.declare(None, Scalar.I64)
            output.append(OutputColumn(name=name, value=values.build_const(1, span)))
        read = self._build(output, span)
        inputs = tuple(
            StageVariable(variable=column.name, type=column.value.type, nullable=column.value.nullable)
            for column in output
        )
        self.draft = _StageDraft(source=read, inputs=inputs)
        self.context.live.clear()

    def _build(
        self,
        output: Sequence[OutputColumn],
        span: Span,
        *,
        grouping: Grouping | None = None,
        distinct: bool = False,
        order: tuple[OrderTerm, ...] = (),
        ties: tuple[Expr, ...] = (),
        limit: Count | None = None,
        offset: Count | None = None,
    ) -> ReadQuery:
        return _finish(
            self.context.catalog,
            ReadQuery(
                name=QUERY_NAME,
                params=tuple(self.context.declared.values()),
                source=self.draft.source,
                inputs=self.draft.inputs,
                pattern=self.draft.pattern,
                output=tuple(output),
                grouping=grouping,
                distinct=distinct,
                order=order,
                ties=ties,
                limit=limit,
                offset=offset,
                origin=span,
            ),
        )

    # --- projections -------------------------------------------------------------------------------

    def _project(self, projection: tree.Projection, span: Span, *, is_last: bool) -> ReadQuery:
        """Return the read of a projection, and continue with its columns as the scope."""
        self._check_absent(projection)
        divided = fold_before(projection)
        if divided is not None:
            self._bind_with(divided[0])
            projection = divided[1]
        binder = self._build_binder()
        binder.allows_aggregates = True
        columns = self._bind_items(projection, binder)
        self.draft.blocks += binder.blocks
        binder.blocks = []
        # Rows that become one have no other values than their columns.
        is_merged = columns.has_aggregates or projection.distinct
        if is_merged:
            _split_keys(self.context, projection, columns)
        if columns.has_aggregates:
            self._check_groups(columns)
        order = self._bind_order(projection, columns, binder, is_merged=is_merged)
        # The values of blocks are those of rows, and aggregates fold rows: first one stage, then the other.
        if columns.has_aggregates and any(isinstance(block, ValueBlock) for block in self.draft.blocks):
            read = [name for value in columns.values for name in find_variables(value)]
            self._flush(span, read)
        if is_last:
            for value in columns.values:
                warn_omissions(self.context, value.type, value.origin)
        names = columns.names if is_last else _declare_columns(self.context, columns)
        output = [OutputColumn(name=name, value=value) for name, value in zip(names, columns.values, strict=True)]
        # Without an order, any rows will do: a limit then reads no more than it needs.
        ties: tuple[Expr, ...] = ()
        if order and not is_merged:
            ties = tuple(build_identity_of(each, span) for each in self.scope.iter_entities())
        read_query = self._build(
            output,
            span,
            grouping=_build_grouping(columns, order, span) if columns.is_grouped else None,
            distinct=projection.distinct and not columns.is_grouped,
            order=order,
            ties=ties,
            limit=self._bind_count(projection.limit, "LIMIT"),
            offset=self._bind_count(projection.skip, "SKIP"),
        )
        self.scope = CypherScope(self.context.catalog)
        for alias, column in zip(columns.names, output, strict=True):
            value = column.value
            if values.is_list(value) and not may_hold_null(self.context, value):
                self.context.full_lists.add(column.name)
            variable = build_column_variable(column.name, value.type, nullable=value.nullable, origin=span)
            if values.is_null(value) or _is_null_aggregate(value):
                variable = ComputedVariable(value=values.build_unknown(span))
            elif values.is_untyped_list(value):
                # Its type is by chance, so it stays the literal.
                variable = ComputedVariable(value=value)
            self.scope = self.scope.add(alias, variable)
        return read_query

    def _check_absent(self, projection: tree.Projection) -> None:
        """Check that what has no type, and so is null, stands beside an aggregate only if it is a column itself."""
        alone = {item.value for item in projection.items if not has_aggregate(item.value)}
        for expr in (*(item.value for item in projection.items), *(key.value for key in projection.order)):
            for part in list_unfolded(expr) if has_aggregate(expr) else ():
                name = part.name if isinstance(part, tree.Variable) else part.operand
                variable = name if isinstance(name, tree.Variable) else tree.Variable(name=str(name), span=part.span)
                known = self.scope.find(variable.name)
                is_absent = isinstance(known, ComputedVariable) and values.is_null(known.value)
                if is_absent and part not in alone and variable not in alone:
                    self._refuse_unfolded(part.span)

    def _refuse_unfolded(self, span: Span) -> NoReturn:
        message = f"`{self.context.quote(span)}` is neither aggregated nor a column of its own"
        help_ = "give it a column of its own before: `WITH n.age AS age, count(*) AS count`"
        self.context.findings.refuse("C007", span, message, help_)

    def _bind_items(self, projection: tree.Projection, binder: ExpressionBinder) -> _Columns:
        names: list[str] = []
        bound: list[Expr] = []
        if projection.star:
            if not self.scope.variables:
                self.context.findings.refuse(
                    "C009", projection.span, "`*` stands for no variable here", "name the columns"
                )
            for name in self.scope.variables:
                names.append(name)
                bound.append(self.scope.read(self.scope.variables[name], projection.span))
        for item in projection.items:
            if item.name in names:
                message = f"there are two columns `{item.name}`"
                self.context.findings.refuse("C009", item.span, message, "name one of them: `… AS name`")
            names.append(item.name)
            bound.append(binder.bind(item.value))
        has_aggregates = any(find_aggregates(value) for value in bound)
        return _Columns(names, bound, has_aggregates)

    def _check_groups(self, columns: _Columns) -> None:
        aggregates = {aggregate for value in columns.values for aggregate in find_aggregates(value)}
        known = _list_known([key for key in columns.keys if _is_simple(key)]) | aggregates
        for value in columns.values:
            foreign = find_foreign(value, known) if find_aggregates(value) else None
            if foreign is not None:
                self._refuse_unfolded(foreign.origin)

    def _bind_order(
        self, projection: tree.Projection, columns: _Columns, binder: ExpressionBinder, *, is_merged: bool
    ) -> tuple[OrderTerm, ...]:
        if not projection.order:
            return ()
        inner = binder.at(self.scope)
        inner.allows_aggregates = columns.has_aggregates
        for name, value in zip(columns.names, columns.values, strict=True):
            known = inner.scope.find(name)
            if not (isinstance(known, EntityVariable) and isinstance(value, Entity)):
                variable: CypherVariable = ComputedVariable(value=value)
                if isinstance(value, Entity):
                    variable = EntityVariable(name=value.variable, type=value.type, nullable=value.nullable)
                inner.scope = inner.scope.add(name, variable)
        order = build_order(projection.order, inner)
        self.draft.blocks += inner.blocks
        if is_merged:
            known_values = _list_known([*columns.keys, *columns.values])
            simple = _list_known([key for key in columns.keys if _is_simple(key)])
            folded = {aggregate for value in columns.values for aggregate in find_aggregates(value)}
            for term in order:
                unknown = next((each for each in find_aggregates(term.value) if each not in folded), None)
                if unknown is not None:
                    message = f"`{self.context.quote(unknown.origin)}` is no column"
                    self.context.findings.refuse("C007", term.value.origin, message, "return it as a column too")
                inside = simple.union(find_aggregates(term.value)) if _mixes(term.value, columns) else known_values
                foreign = find_foreign(term.value, inside)
                if foreign is not None:
                    message = f"`{self.context.quote(foreign.origin)}` is no column, so equal rows could have several"
                    self.context.findings.refuse("C007", term.value.origin, message, "return it as a column too")
        return order

    def _bind_count(self, expr: tree.Expr | None, word: str) -> Count | None:
        if expr is None:
            return None
        value = ExpressionBinder(self.context, CypherScope(self.context.catalog), self.subqueries).bind(expr)
        if isinstance(value, ParamRef) and is_whole(value, at_least=0):
            return value
        number = fold_number(value)
        if isinstance(number, int) and number >= 0:
            return number
        if number is None and isinstance(value, Computed):
            # What parameters make is known when the statement runs.
            if is_calculated(value) and value.type is Scalar.I64:
                return value
            help_ = "calculate it before, and pass it as a parameter"
            self.context.findings.refuse("C002", expr.span, f"this `{word}` is not supported", help_)
        message = f"`{word}` takes a whole number of at least 0, not `{self.context.quote(expr.span)}`"
        return self.context.findings.refuse("C010", expr.span, message, "write a number or a parameter")


def _list_known(columns: Sequence[Expr]) -> set[Expr]:
    known: set[Expr] = set(columns)
    for value in columns:
        known.update(find_aggregates(value))
        if isinstance(value, Entity):
            known.update(list_identities(value))
            known.update(value.fields)
    return known


def _is_null_aggregate(value: Expr) -> bool:
    """Return whether a value is the extreme or mean of the literal null, whose type is by chance."""
    if not isinstance(value, Aggregate) or not value.nullable or value.argument is None:
        return False
    return values.is_null(value.argument)


def _is_simple(key: Expr) -> bool:
    """Return whether a group key can be read beside an aggregate: a variable or property, and no calculation."""
    if isinstance(key, Computed) and key.function is ScalarFunction.LIST_KEY:
        return _is_simple(key.arguments[0])
    return not isinstance(key, Computed | Case | And | Or | Compare)


def _mixes(value: Expr, columns: _Columns) -> bool:
    """Return whether a sort key calculates with aggregates anew, instead of reading a column."""
    return value not in columns.values and bool(find_aggregates(value)) and not isinstance(value, Aggregate)


def _build_grouping(columns: _Columns, order: Sequence[OrderTerm], span: Span) -> Grouping:
    everything = (*columns.values, *(term.value for term in order))
    aggregates = dict.fromkeys(aggregate for value in everything for aggregate in find_aggregates(value))
    if not aggregates:
        # The groups of a `DISTINCT` by lists: a grouping has an aggregate, which nothing reads here.
        aggregates = {Aggregate(fold=AggregateFunction.COUNT, origin=span): None}
    return Grouping(keys=tuple(columns.keys), aggregates=tuple(aggregates))


def _list_names(catalog: Catalog, procedure: str) -> tuple[str, ...]:
    match procedure:
        case "db.labels":
            return tuple(sorted({*catalog.nodes, *catalog.interfaces}))
        case "db.relationshiptypes":
            return tuple(sorted({get_relationship_type(edge) for edge in catalog.edges.values()}))
        case _:
            return tuple(sorted({prop.name for type_ in catalog.types for prop in type_.properties}))


def _finish(catalog: Catalog, read: ReadQuery) -> ReadQuery:
    return prune_columns(relax_hops(read, catalog))


def _find_hidden(scope: CypherScope, clause: tree.With) -> list[str]:
    """Return the variables that a `WHERE` reads, and that its `WITH` leaves out: it sees those of both sides."""
    projection = clause.projection
    if clause.where is None or projection.distinct or projection.star:
        return []
    if any(has_aggregate(item.value) for item in projection.items):
        return []
    named = {item.name for item in projection.items}
    read = (name for name in list_names(clause.where) if name not in named)
    return [name for name in dict.fromkeys(read) if scope.find(name) is not None]


def _declare_columns(context: CypherContext, columns: _Columns) -> list[str]:
    return [context.declare(name, value.type) for name, value in zip(columns.names, columns.values, strict=True)]


def _split_keys(context: CypherContext, projection: tree.Projection, columns: _Columns) -> None:
    """Add keys that tell lists and maps apart, which are no keys themselves."""
    what = "a group" if columns.has_aggregates else "`DISTINCT`"
    for index, value in enumerate(columns.values):
        if find_aggregates(value):
            continue
        split = split_keys(value)
        if split is None:
            message = f"{what} by {values.describe(value.type)} is not supported"
            context.findings.refuse("C002", projection.span, message, "use its parts, each as a column")
        keys, rebuilt = split
        columns.keys.update(dict.fromkeys(keys))
        columns.is_split = columns.is_split or rebuilt != value
        columns.values[index] = rebuilt
