"""Bind `return`, `order`, `limit` and `offset`: columns, grouping and a total order."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from omnigraph.lang import literals as lit
from omnigraph.lang import query_ast as ast
from omnigraph.lang.expression_tree import walk
from omnigraph.lang.printer import format_expr as print_expr
from omnigraph.lang.source import Span
from omnigraph.query.alias_scope import AliasResolver
from omnigraph.query.bind_expr import ExprBinder
from omnigraph.query.column_names import build_column_name
from omnigraph.query.decided_values import find_decided
from omnigraph.query.expr import (
    Bm25,
    Const,
    EdgeRef,
    Entity,
    Expr,
    Identity,
    Mmr,
    Nearest,
    NodeRef,
    Now,
    ParamRef,
    Rank,
    Rerank,
    Rrf,
    ShapedType,
    ValueRef,
    WalkOf,
    is_whole,
)
from omnigraph.query.expr_tree import find_aggregates, find_foreign, find_variables, find_windows
from omnigraph.query.format_expr import format_expr
from omnigraph.query.functions import FUNCTIONS, CallContext, FunctionFamily
from omnigraph.query.group_plan import is_compared
from omnigraph.query.logical_plan import GENERATED_PREFIX, Count, Grouping, OrderTerm, OutputColumn, build_identity
from omnigraph.query.scope import BrokenType, ReadNameResolver, Scope, ValueVariable, build_position_name
from omnigraph.query.union_types import list_identities, list_identity_fields
from omnigraph.query.walk_plan import WALK_KEY, read_part, read_walk
from omnigraph.schema.findings import DiagnosticCollector
from omnigraph.schema.types import Scalar, is_scalar

# The largest I64.
_MAX_COUNT = 2**63 - 1
_RANK_NAMES: dict[type, str] = {Nearest: "nearest", Bm25: "bm25", Rrf: "rrf", Mmr: "mmr", Rerank: "rerank"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundOutput:
    """The bound clauses after the pattern of a read."""

    columns: tuple[OutputColumn, ...]
    grouping: Grouping | None
    distinct: bool
    decided: tuple[ValueRef, ...]
    having: Expr | None
    rank: Rank | None
    order: tuple[OrderTerm, ...]
    ties: tuple[Expr, ...]
    limit: Count | None
    per: tuple[Expr, ...]
    offset: Count | None
    # The columns by name, also those with an error, whose value is None.
    named: Mapping[str, Expr | None]


@dataclass(frozen=True, slots=True)
class _BoundProjection:
    """A projection with the name of its column; the value is None if it has an error."""

    node: ast.Projection
    name: str
    value: Expr | None


def bind_output(
    read: ast.Read | ast.Stage,
    scope: Scope,
    appearance: tuple[str, ...],
    findings: DiagnosticCollector,
    inputs: tuple[str, ...] = (),
) -> BoundOutput:
    """Bind the output of a read or stage. If there are findings, the result must not be used.

    `appearance` are the variables of the pattern in order of appearance, which breaks ties, after those in `inputs`,
    which come from an earlier stage.
    """
    row_ties = build_row_ties((*inputs, *appearance), scope, read.span, inputs)
    binder = ExprBinder(ReadNameResolver(scope, findings), findings, scope.lifter, ties=row_ties)
    nodes = tuple(expand_properties(read.projections, scope, findings))
    projected = _project(nodes, binder, findings, inputs)
    if isinstance(read, ast.Stage):
        projected = _name_variables(projected, scope, findings)
    is_grouped = any(_calls_aggregate(projection.value) for projection in read.projections)
    if is_grouped:
        _check_grouped(projected, scope, findings)
        _check_windows(projected, findings)
    if is_grouped or read.distinct:
        _check_comparable(projected, "aggregates" if is_grouped else "`distinct`", scope, findings)
    aliases, columns = _index_columns(projected)
    after = replace(scope, aliases=frozenset(aliases))
    naming = replace(binder, names=ReadNameResolver(after, findings))
    orderer = _OrderBinder(read, naming, after, is_grouped, aliases, columns)
    bound_keys = [orderer.bind_key(index, key) for index, key in enumerate(read.order)]
    keys = [key for key in bound_keys if key is not None]
    # A rank can only be the first key, so taking it out keeps the order of the others.
    rank = next((key.value for key in keys if isinstance(key.value, Rank)), None)
    order = tuple(key for key in keys if not isinstance(key.value, Rank))
    values = [column.value for column in projected if column.value is not None]
    having = None if read.having is None else orderer.bind_having(read.having)
    per = tuple(value for node in read.per if (value := orderer.bind_partition(node)) is not None)
    used = (*(key.value for key in order), *(() if having is None else (having,)))
    is_merged = is_grouped or read.distinct
    return BoundOutput(
        columns=tuple(OutputColumn(name=c.name, value=c.value) for c in projected if c.value is not None),
        # `Grouping` rejects invalid input, so it is not built from erroneous columns.
        grouping=_build_grouping(values, used, scope) if is_grouped and not findings else None,
        distinct=read.distinct,
        decided=_find_decided(scope, _find_group_keys(projected)) if is_merged else (),
        having=having,
        rank=rank,
        order=order,
        ties=_build_ties(values, row_ties, is_merged=is_merged),
        limit=bind_count(read.limit, "limit", scope, findings),
        per=per,
        offset=bind_count(read.offset, "offset", scope, findings),
        named={column.name: column.value for column in projected},
    )


# --- columns -------------------------------------------------------------------------------------


def _project(
    nodes: Iterable[ast.Projection], binder: ExprBinder, findings: DiagnosticCollector, inputs: tuple[str, ...]
) -> tuple[_BoundProjection, ...]:
    projected: list[_BoundProjection] = []
    seen: set[str] = set()
    before: ast.Projection | None = None
    for node in nodes:
        # `$p.name name` was probably meant as `$p.name as name`.
        if isinstance(node.value, ast.BareName) and node.alias is None and before is not None and before.alias is None:
            name = node.value.name.text
            help_ = f"did you mean `{print_expr(before.value)} as {name}`?"
            if name in ("mod", "div"):
                first = print_expr(before.value)
                help_ = f"write `{first} % …`" if name == "mod" else f"write `div({first}, …)`"
            if name in inputs:
                # A column of the stage before goes on as a variable.
                help_ = f"did you mean `${name}`?"
            findings.add_error("T6", node.value.span, f"`{name}` has no value", help_)
            continue
        before = node
        value = binder.bind_value(node.value, CallContext.OUTPUT)
        if node.alias is None and isinstance(node.value, ast.LiteralExpr):
            message = f"the column `{print_expr(node.value)}` has no name"
            findings.add_error("Q000", node.value.span, message, f"name it: `{print_expr(node.value)} as name`")
            continue
        name = build_column_name(node.value) if node.alias is None else node.alias.text
        if name in seen:
            span = node.value.span if node.alias is None else node.alias.span
            help_ = f"name it: `{print_expr(node.value)} as another_name`"
            findings.add_error("T25", span, f"there is already a column `{name}`", help_)
        seen.add(name)
        projected.append(_BoundProjection(node, name, value))
    return tuple(projected)


def expand_properties(
    nodes: Iterable[ast.Projection], scope: Scope, findings: DiagnosticCollector
) -> Iterator[ast.Projection]:
    """Yield the projections, and for `$v.*` one for each scalar property of the variable's type."""
    for node in nodes:
        if not isinstance(node.value, ast.AllProperties):
            yield node
            continue
        variable = node.value.variable
        if node.alias is not None:
            message = f"`${variable.name}.*` is several columns, so it can't be named"
            findings.add_error(
                "T25", node.alias.span, message, f"name one of them: `${variable.name}.property as name`"
            )
        type_ = scope.find(variable.name)
        if isinstance(type_, BrokenType):
            continue
        if type_ is None or isinstance(type_, ValueVariable):
            message = f"`${variable.name}` is no node or edge, so it has no properties"
            findings.add_error("T6", variable.span, message, "bind it in `match`, or return it as it is")
            continue
        for prop in scope.get_type(type_).properties:
            if is_scalar(prop.type):
                name = lit.Name(prop.name, node.value.span)
                value = ast.PropertyRef(variable=variable, name=name, span=node.value.span)
                yield ast.Projection(value=value, span=node.span)


def _name_variables(
    projected: tuple[_BoundProjection, ...], scope: Scope, findings: DiagnosticCollector
) -> tuple[_BoundProjection, ...]:
    """Check that each column of a stage can go on as a variable; whole nodes and edges go on without their fields."""
    named = []
    for column in projected:
        node = column.node
        if node.alias is None and not isinstance(node.value, ast.Variable):
            text = print_expr(node.value)
            message = f"`{text}` has no name, so nothing after `with` could use it"
            findings.add_error("T6", node.value.span, message, f"name it: `{text} as name`")
        elif column.name in scope.params:
            span = node.value.span if node.alias is None else node.alias.span
            message = f"`${column.name}` is a parameter, so it can't name a variable"
            findings.add_error("Q003", span, message, "a parameter needs no `with`; give a variable another name")
        value = column.value
        named.append(replace(column, value=replace(value, fields=()) if isinstance(value, Entity) else value))
    return tuple(named)


def _calls_aggregate(node: ast.Expr) -> bool:
    """Return whether a node calls an aggregate function, by its name alone."""
    # An invalid aggregate counts too: else its error would cause others, in the order keys.
    calls = (part.function.text for part in walk(node) if isinstance(part, ast.Call) and part.window is None)
    functions = (FUNCTIONS.get(name) for name in calls)
    return any(function is not None and function.family is FunctionFamily.AGGREGATE for function in functions)


def _check_grouped(projected: Iterable[_BoundProjection], scope: Scope, findings: DiagnosticCollector) -> None:
    """Check that a column with an aggregate reads nothing else but group keys."""
    columns = tuple(projected)
    # Grouped by the columns without an aggregate, a value of any other row would be arbitrary.
    keys = _find_known(columns, scope)
    for column in columns:
        aggregates = () if column.value is None else find_aggregates(column.value)
        foreign = find_foreign(column.value, {*keys, *aggregates}) if aggregates and column.value is not None else None
        if foreign is not None:
            text = f"{format_expr(foreign)}` in `{print_expr(column.node.value)}"
            own = f"return `{format_expr(foreign)}` as a column of its own"
            findings.add_error("T9", column.node.value.span, *_describe_foreign(foreign, keys, text, own))


def _describe_foreign(value: Expr, known: Collection[Expr], text: str, way_out: str) -> tuple[str, str]:
    """Return the message about a value that the groups do not decide, and its help."""
    # A block is bound to a variable that no user wrote.
    foreign = find_foreign(value, known)
    if isinstance(foreign, ValueRef) and foreign.variable.startswith(GENERATED_PREFIX):
        help_ = (
            "return what the block reads as columns, or calculate it in a stage before: `with { $c, count { … } as n }`"
        )
        message = "a block reads more than the group keys" if known else "a block needs a group key beside an aggregate"
        return message, help_
    return f"`{text}` is neither an aggregate nor a group key", way_out


def _check_windows(projected: Iterable[_BoundProjection], findings: DiagnosticCollector) -> None:
    """Check that no column of a read that groups has a window function."""
    for column in projected:
        if column.value is not None and find_windows(column.value):
            _report_window(column.node.value, findings)


def _report_window(node: ast.Expr, findings: DiagnosticCollector) -> None:
    message = f"`{print_expr(node)}` reads single rows, but this read groups them"
    findings.add_error("T8", node.span, message, "group in a stage before: `with { … } return { … }`")


def _find_group_keys(columns: Iterable[_BoundProjection]) -> set[Expr]:
    """Return the columns that are compared, and the ids of whole nodes and edges among them."""
    values = (column.value for column in columns if column.value is not None)
    keys = {value for value in values if is_compared(value)}
    return keys.union(*(list_identities(key) for key in keys if isinstance(key, Entity)))


def _find_known(columns: Iterable[_BoundProjection], scope: Scope) -> set[Expr]:
    """Return the group keys, and the blocks that read nothing else."""
    keys = _find_group_keys(columns)
    return {*keys, *_find_decided(scope, keys)}


def _find_decided(scope: Scope, keys: set[Expr]) -> tuple[ValueRef, ...]:
    types = {name: scope.find(name) for name in scope.names}
    nodes = {name: scope.get_type(type_) for name, type_ in types.items() if isinstance(type_, NodeRef)}
    return () if scope.lifter is None else find_decided(scope.lifter.blocks, keys, {n: t.key for n, t in nodes.items()})


def _check_comparable(
    projected: Iterable[_BoundProjection], reason: str, scope: Scope, findings: DiagnosticCollector
) -> None:
    """Check that columns are compared as group keys or distinct ones, or are decided by those that are."""
    columns = tuple(projected)
    known = _find_known(columns, scope)
    for column in columns:
        value, node = column.value, column.node.value
        if value is None or find_aggregates(value):
            continue
        if isinstance(value, Rank):
            findings.add_error("T18", node.span, f"a rank function can't be combined with {reason}")
        elif not is_compared(value) and find_foreign(value, known) is not None:
            message = (
                f"`{print_expr(node)}` is {value.type}, which can't be compared, so it can't be used with {reason}"
            )
            findings.add_error("T8", node.span, message, "return what it is read from as well: that decides it")


# --- order ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OrderBinder:
    """Bind the keys of `order`."""

    read: ast.Read | ast.Stage
    binder: ExprBinder
    scope: Scope
    is_grouped: bool
    aliases: Mapping[str, _BoundProjection]
    # The expressions that may be keys with aggregates or `distinct`; None represents a column with an error.
    columns: frozenset[Expr | None]

    def bind_key(self, index: int, node: ast.OrderKey) -> OrderTerm | None:
        """Bind one key; None if it has an error, which is reported."""
        value = self._bind_value(node.value)
        if value is None:
            return None
        if isinstance(value, Rank):
            return OrderTerm(value=value) if self._is_valid_rank(value, index, node) else None
        if not self._has_order(value, node.value) or not self._is_available(value, node.value):
            return None
        return OrderTerm(value=value, descending=bool(node.descending))

    def bind_having(self, node: ast.Expr) -> Expr | None:
        """Bind the condition of `having`, which names what the keys of `order` may."""
        value = self._name_aliases(CallContext.HAVING).bind_predicate(node)
        return None if value is None or not self._is_available(value, node) else value

    def bind_partition(self, node: ast.Expr) -> Expr | None:
        """Bind one of the values of `limit … per { … }`."""
        value = self._name_aliases(CallContext.ORDER).bind_value(node, CallContext.ORDER)
        if isinstance(value, Entity):
            # A whole node or edge is compared by its id.
            value = build_identity(value)
        if value is None or not self._is_available(value, node):
            return None
        if isinstance(value, Rank):
            self._report("T18", node, "a rank function can't be used in `per`")
            return None
        if not is_compared(value) and not find_aggregates(value):
            text = print_expr(node)
            message = f"`{text}` is {value.type}, which can't be compared, so it can't be used in `per`"
            self._report("T8", node, message)
            return None
        return value

    def _name_aliases(self, place: CallContext) -> ExprBinder:
        """Return a binder that also resolves the aliases of columns."""
        names = AliasResolver(self.binder.names, {name: column.value for name, column in self.aliases.items()}, self)
        return replace(self.binder, names=names, place=place)

    def report_unknown_alias(self, node: ast.BareName) -> None:
        """Report a bare name that is no alias."""
        self._report("T6", node, f"there is no alias `{node.name.text}`", self._build_alias_help(node.name.text))

    def _report(self, code: str, node: ast.Expr, message: str, help_: str | None = None) -> None:
        self.binder.findings.add_error(code, node.span, message, help_)

    def _bind_value(self, node: ast.Expr) -> Expr | None:
        if not isinstance(node, ast.BareName):
            return self.binder.bind_value(node, CallContext.ORDER)
        column = self.aliases.get(node.name.text)
        if column is None:
            self.report_unknown_alias(node)
            return None
        return column.value

    def _build_alias_help(self, name: str) -> str:
        # First a property that was written without its variable, then a misspelled alias.
        names = self.binder.names
        if isinstance(names, ReadNameResolver):
            if names.scope.find(name) is not None:
                return f"did you mean `${name}`?"
            for variable in names.scope.names:
                type_ = names.scope.find(variable)
                if type_ is None or isinstance(type_, BrokenType | ValueVariable):
                    continue
                if names.scope.get_type(type_).find_property(name) is not None:
                    return f"did you mean `${variable}.{name}`?"
        closest = self.binder.findings.suggest_closest(name, self.aliases)
        return closest or "an alias is defined in `return`: `$p.name as name`"

    def _is_valid_rank(self, value: Rank, index: int, node: ast.OrderKey) -> bool:
        name = _RANK_NAMES[type(value)]
        before = len(self.binder.findings)
        if self.is_grouped or self.read.distinct:
            reason = "aggregates" if self.is_grouped else "`distinct`"
            self._report("T18", node.value, f"a rank function can't be combined with {reason}")
        elif index > 0:
            self._report("T18", node.value, f"`{name}` must be the first key", "keys after it break ties")
        elif node.descending is not None and node.descending != (name != "nearest"):
            word, first = ("desc", "smallest") if node.descending else ("asc", "largest")
            message = f"`{name}` can't be ordered `{word}`: the {first} comes first"
            self._report("T18", node.value, message, f"delete `{word}`")
        elif self.read.per and isinstance(value, Mmr | Rerank):
            self._report("T18", node.value, f"`{name}` chooses among all rows, and can't be combined with `per`")
        # By the reference of the language, `bm25` alone needs no `limit`.
        if self.read.limit is None and name != "bm25":
            self._report("T17", node.value, f"an order by `{name}` needs a `limit`", "add `limit 10` after `order`")
        return len(self.binder.findings) == before

    def _has_order(self, value: Expr, node: ast.Expr) -> bool:
        text = print_expr(node)
        if isinstance(value, Entity):
            help_ = f"order by a property, or by its id: `${value.variable}.@id`"
            self._report("T7", node, f"`{text}` is a whole `{value.type}`, which has no order", help_)
        elif isinstance(value, Const | ParamRef | Now):
            self._report("T7", node, f"`{text}` is the same for all rows, so it orders nothing", "name a property")
        elif isinstance(value.type, ShapedType) or not is_scalar(value.type):
            is_entity = isinstance(value.type, NodeRef | EdgeRef)
            way_out = f"order by a property: `{text}.name`" if is_entity else None
            self._report("T7", node, f"`{text}` is {value.type}, which has no order", way_out)
        else:
            return True
        return False

    def _is_available(self, value: Expr, node: ast.Expr) -> bool:
        text = print_expr(node)
        aggregates = find_aggregates(value)
        if self.is_grouped and find_windows(value):
            _report_window(node, self.binder.findings)
            return False
        if aggregates and not self.is_grouped:
            message = f"`{text}` is an aggregate, but no column is one"
            help_ = f"return it as well: `{text} as name`"
            if value not in aggregates:
                single = next(part for part in walk(node) if part.span == aggregates[0].origin)
                help_ = f"return the aggregate as well: `{print_expr(single)} as n`, and write `n` here"
            self._report("T8", node, message, help_)
            return False
        if not self.is_grouped and not self.read.distinct:
            return True
        columns = {column for column in self.columns if column is not None}
        known = {*columns, *aggregates, *_find_decided(self.scope, columns)}
        # A column with an error might be the one that the key names.
        if find_foreign(value, known) is None or None in self.columns:
            return True
        if self.is_grouped:
            self._report(
                "T9", node, *_describe_foreign(value, known, text, "return it, or order by an aggregate of it")
            )
        else:
            message = f"`{text}` is not a column, so equal rows could have several values of it"
            self._report("T9", node, message, "return it as well, or drop `distinct`")
        return False


def _index_columns(projected: Iterable[_BoundProjection]) -> tuple[dict[str, _BoundProjection], frozenset[Expr | None]]:
    """Return the columns by alias, and the set of their values with the ids of whole nodes and edges."""
    columns = tuple(projected)
    aliases = {column.node.alias.text: column for column in columns if column.node.alias is not None}
    values = {column.value for column in columns}
    return aliases, frozenset(values.union(*(list_identities(v) for v in values if isinstance(v, Entity))))


def _build_grouping(values: list[Expr], used: tuple[Expr, ...], scope: Scope) -> Grouping:
    keys = dict.fromkeys(value for value in values if is_compared(value))
    blocks = set() if scope.lifter is None else {b.variable for b in scope.lifter.blocks if not b.shared}
    if blocks.issuperset(name for key in keys for name in find_variables(key)) and all(map(find_variables, keys)):
        # Values that are the same whatever the rows are group nothing: there is one row, also of no match.
        keys = {}
    aggregates = dict.fromkeys(aggregate for value in (*values, *used) for aggregate in find_aggregates(value))
    return Grouping(keys=tuple(keys), aggregates=tuple(aggregates))


def build_row_ties(names: Iterable[str], scope: Scope, origin: Span, inputs: Collection[str] = ()) -> tuple[Expr, ...]:
    """Return the values that tell the rows of a read apart: the ids of its variables, and values in `inputs`.

    They are in order of appearance: "Order is total" in the reference of the query language documents it. Values of an
    earlier stage that have no order, such as lists, break no ties.
    """
    ties: list[Expr] = []
    for name in names:
        type_ = scope.find(name)
        if name not in inputs or not isinstance(type_, ValueVariable) or isinstance(type_.type, WalkOf):
            ties += build_identities((name,), scope, origin)
        elif not isinstance(type_.type, ShapedType) and is_scalar(type_.type):
            ties.append(ValueRef(variable=name, type=type_.type, nullable=type_.nullable, origin=origin))
    return tuple(ties)


def _build_ties(values: list[Expr], row_ties: tuple[Expr, ...], *, is_merged: bool) -> tuple[Expr, ...]:
    if not is_merged:
        return row_ties
    # Group keys decide the aggregates, so these break no ties.
    keys = (v for v in values if not isinstance(v, Const | ParamRef | Now) and is_compared(v))
    return tuple(part for key in keys for part in _identify_key(key))


def _identify_key(key: Expr) -> tuple[Expr, ...]:
    """Return what orders the values of a column: the ids of a node, edge or walk."""
    if isinstance(key, Entity):
        return (build_identity(key),)
    if isinstance(key.type, NodeRef | EdgeRef):
        return list_identity_fields(key)
    return (read_part(key, WALK_KEY) if isinstance(key.type, WalkOf) else key,)


def build_identities(names: Iterable[str], scope: Scope, origin: Span) -> tuple[Expr, ...]:
    """Return what tells matches apart: ids of nodes, edges and walks, and positions of elements in their lists."""
    identities = (_identify(name, scope, origin) for name in names)
    return tuple(identity for identity in identities if identity is not None)


def _identify(name: str, scope: Scope, origin: Span) -> Expr | None:
    """Return the id of a variable; None if its value does not tell matches apart."""
    type_ = scope.find(name)
    nullable = scope.is_nullable(name)
    if scope.is_element(name):
        return ValueRef(variable=build_position_name(name), type=Scalar.I64, nullable=nullable, origin=origin)
    if not isinstance(type_, ValueVariable):
        return Identity(variable=name, nullable=nullable, origin=origin)
    if not isinstance(type_.type, WalkOf):
        # The elements of lists in alternatives are told apart by their values.
        is_value = not isinstance(type_.type, ShapedType)
        return ValueRef(variable=name, type=type_.type, nullable=nullable, origin=origin) if is_value else None
    return read_walk(name, type_.type, WALK_KEY, origin, nullable=nullable or type_.nullable)


# --- limit, offset -------------------------------------------------------------------------------


def bind_count(node: ast.Expr | None, word: str, scope: Scope, findings: DiagnosticCollector) -> Count | None:
    """Bind a number of rows: a literal or a parameter; None if there is none, or if it has an error."""
    if node is None:
        return None
    help_ = f"give a number, or an integer parameter: `{word} $n` with `$n: I64`"
    if isinstance(node, ast.LiteralExpr):
        if isinstance(node.value, lit.IntLiteral) and 0 <= node.value.value <= _MAX_COUNT:
            return node.value.value
    elif isinstance(node, ast.Variable):
        if node.name not in scope.params and scope.find(node.name) is None and node.name != ast.ANONYMOUS:
            closest = findings.suggest_closest(f"${node.name}", (f"${name}" for name in scope.params.names))
            declare_help = f"declare it in the parentheses after the query's name: `${node.name}: I64`"
            findings.add_error("T6", node.span, f"`${node.name}` is not a declared parameter", closest or declare_help)
            return None
        param = scope.params.resolve(node)
        if isinstance(param, ParamRef) and is_whole(param, at_least=0):
            return param
        # Its declaration is already reported.
        if node.name in scope.params.broken:
            return None
    message = f"`{word}` takes a whole number from 0 to {_MAX_COUNT}, not `{print_expr(node)}`"
    findings.add_error("T24", node.span, message, help_)
    return None
