"""Bind expressions of Cypher to typed expressions of the plan."""

from dataclasses import dataclass, field, replace
from typing import Final, NoReturn, Protocol

from omnigraph.lang.cypher import tree
from omnigraph.lang.literals import Name
from omnigraph.lang.source import Span
from omnigraph.query.cypher import values
from omnigraph.query.cypher.context import CypherContext, GivenParameter
from omnigraph.query.cypher.functions import bind_aggregate, bind_function, is_aggregate
from omnigraph.query.cypher.names import suggest
from omnigraph.query.cypher.properties import bind_labels_test, find_property, read_property
from omnigraph.query.cypher.scope import CypherScope, EntityVariable
from omnigraph.query.expr import (
    And,
    ArrayOf,
    Case,
    Const,
    Contains,
    EdgeRef,
    Entity,
    Expr,
    ExprType,
    FieldRef,
    In,
    NodeRef,
    Not,
    Op,
    Or,
    Parameter,
    ParamRef,
    RecordExpr,
    RecordOf,
    ShapedType,
    StartsWith,
)
from omnigraph.query.logical_plan import PatternBlock
from omnigraph.query.scalar_functions import ScalarFunction, widen
from omnigraph.schema.types import ListOf, Scalar, are_comparable

_F = ScalarFunction
_COMPARISONS: Final = {
    tree.CompareOp.EQ: Op.EQ,
    tree.CompareOp.NE: Op.NE,
    tree.CompareOp.LT: Op.LT,
    tree.CompareOp.LE: Op.LE,
    tree.CompareOp.GT: Op.GT,
    tree.CompareOp.GE: Op.GE,
}
_ARITHMETIC: Final = {
    tree.BinaryOp.SUBTRACT: _F.SUBTRACT,
    tree.BinaryOp.MULTIPLY: _F.MULTIPLY,
    tree.BinaryOp.DIVIDE: _F.QUOTIENT,
    tree.BinaryOp.MODULO: _F.REMAINDER,
}
LIST_NULLS_HELP = "lists hold no null here: leave it out by `WHERE … IS NOT NULL`, or replace it by `coalesce(…)`"


class Subqueries(Protocol):
    """What binds the parts of expressions that have matches of their own."""

    def bind_test(self, expr: tree.PatternPredicate, binder: "ExpressionBinder") -> Expr:
        """Return whether a pattern has a match."""

    def bind_subquery(self, expr: tree.Subquery, binder: "ExpressionBinder") -> Expr:
        """Return the value of `EXISTS { }`, `COUNT { }` or `COLLECT { }`."""

    def bind_pattern_list(self, expr: tree.PatternComprehension, binder: "ExpressionBinder") -> Expr:
        """Return the list of a pattern comprehension."""

    def bind_list(self, expr: tree.ListComprehension, binder: "ExpressionBinder") -> Expr:
        """Return the list of a list comprehension."""

    def bind_quantifier(self, expr: tree.Quantifier, binder: "ExpressionBinder") -> Expr:
        """Return whether the elements of a list fulfil a condition."""

    def bind_reduce(self, expr: tree.Reduce, binder: "ExpressionBinder") -> Expr:
        """Return the sum that a `reduce` is."""


@dataclass
class ExpressionBinder:
    """Bind expressions at one place; `blocks` takes the blocks whose values they read."""

    context: CypherContext
    scope: CypherScope
    subqueries: Subqueries
    blocks: list[PatternBlock] = field(default_factory=list)
    allows_aggregates: bool = False

    def at(self, scope: CypherScope) -> "ExpressionBinder":
        """Return a binder of the same place with other variables and blocks of its own."""
        return replace(self, scope=scope, blocks=[], allows_aggregates=False)

    def bind(self, expr: tree.Expr) -> Expr:
        """Return the typed expression.

        Raises:
            RefusedError: It has a mistake, which was reported.
        """
        match expr:
            case tree.Literal(value=value):
                return values.build_const(value, expr.span)
            case tree.Parameter():
                return self._bind_parameter(expr)
            case tree.Variable():
                return self._bind_variable(expr)
            case tree.Property():
                return self._bind_property(expr)
            case tree.Unary() | tree.Binary() | tree.Comparison() | tree.IsNull() | tree.HasLabels():
                return self._bind_operator(expr)
            case tree.Call():
                if is_aggregate(expr.function.text):
                    return bind_aggregate(expr, self)
                return bind_function(expr, self)
            case tree.CountStar():
                return bind_aggregate(tree.Call(function=Name("count", expr.span), arguments=(), span=expr.span), self)
            case tree.Case():
                return self._bind_case(expr)
            case tree.ListLiteral() | tree.MapLiteral() | tree.MapProjection() | tree.Subscript() | tree.Slice():
                return self._bind_collection(expr)
            case _:
                return self._bind_inner(expr)

    def bind_condition(self, expr: tree.Expr) -> Expr:
        """Return a predicate."""
        value = self.bind(expr)
        if values.is_null(value):
            return values.build_unknown(expr.span)
        if value.type is not Scalar.BOOL:
            self.refuse_type(
                expr.span, f"a condition is a Bool, but {self.show(expr)} is {values.describe(value.type)}"
            )
        return value

    # --- reporting -------------------------------------------------------------------------------------

    def show(self, expr: tree.Expr) -> str:
        """Return an expression as written, for a message."""
        return f"`{self.context.quote(expr.span)}`"

    def refuse_type(self, span: Span, message: str, help: str | None = None) -> NoReturn:
        """Refuse operands of a wrong type."""
        self.context.findings.refuse("C005", span, message, help)

    def refuse_form(self, span: Span, message: str, help: str) -> NoReturn:
        """Refuse a form that is not supported."""
        self.context.findings.refuse("C002", span, message, help)

    # --- names -----------------------------------------------------------------------------------------

    def _bind_variable(self, expr: tree.Variable) -> Expr:
        variable = self.scope.find(expr.name)
        if variable is None:
            from_near = values_near(expr.name, self.scope)
            self.context.findings.refuse("C004", expr.span, f"`{expr.name}` is not defined", from_near)
        return self.scope.read(variable, expr.span)

    def _bind_parameter(self, expr: tree.Parameter) -> Expr:
        given = self.context.given.get(expr.name)
        if given is None:
            help_ = "give it a value: `--param NAME=VALUE`, or `params` in Python"
            self.context.findings.refuse("C004", expr.span, f"the parameter `${expr.name}` has no value", help_)
        return self._declare_parameter(expr.name, given, expr.span)

    def _declare_parameter(self, name: str, given: GivenParameter, origin: Span) -> Expr:
        if given.fields is not None:
            items = (
                (key, self._declare_parameter(f"{name}.{key}", each, origin)) for key, each in given.fields.items()
            )
            return RecordExpr(items=tuple(items), origin=origin)
        if given.type is None:
            return values.build_unknown(origin)
        self.context.declared[name] = Parameter(name=name, type=given.type, nullable=False, origin=origin)
        return ParamRef(name=name, type=given.type, nullable=False, origin=origin)

    def _bind_property(self, expr: tree.Property) -> Expr:
        if isinstance(expr.operand, tree.Variable):
            variable = self.scope.find(expr.operand.name)
            if isinstance(variable, EntityVariable):
                return read_property(self.context, variable, expr.key)
        operand = self.bind(expr.operand)
        if values.is_null(operand):
            return values.build_unknown(expr.span)
        return read_field(self, operand, expr)

    # --- operators -------------------------------------------------------------------------------------

    def _bind_operator(self, expr: tree.Unary | tree.Binary | tree.Comparison | tree.IsNull | tree.HasLabels) -> Expr:
        match expr:
            case tree.Unary():
                return self._bind_unary(expr)
            case tree.Binary():
                return self._bind_binary(expr)
            case tree.Comparison():
                return self._bind_comparison(expr)
            case tree.IsNull():
                return values.is_null_test(self.bind(expr.operand), expr.span, negated=expr.negated)
            case tree.HasLabels():
                return bind_labels_test(self, expr)

    def _bind_unary(self, expr: tree.Unary) -> Expr:
        if expr.op is tree.UnaryOp.NOT:
            return Not(term=self.bind_condition(expr.operand), origin=expr.span)
        operand = self.bind(expr.operand)
        if values.is_null(operand):
            return operand
        if not values.is_number(operand):
            self.refuse_type(
                expr.span,
                f"`{expr.op.value}` needs a number, but {self.show(expr.operand)} is {values.describe(operand.type)}",
            )
        if expr.op is tree.UnaryOp.PLUS:
            return operand
        type_ = widen((values.get_value_type(operand),))
        return self.compute(_F.NEGATE, (operand,), type_, expr.span, can_fail=True)

    def compute(
        self, function: ScalarFunction, arguments: tuple[Expr, ...], type_: ExprType, span: Span, *, can_fail: bool
    ) -> Expr:
        """Return the value of a function of the plan."""
        return values.compute(function, arguments, type_, span, self.context.quote(span), can_fail=can_fail)

    def _bind_binary(self, expr: tree.Binary) -> Expr:
        match expr.op:
            case tree.BinaryOp.AND | tree.BinaryOp.OR:
                terms = tuple(self.bind_condition(term) for term in list_terms(expr, expr.op))
                return (And if expr.op is tree.BinaryOp.AND else Or)(terms=terms, origin=expr.span)
            case tree.BinaryOp.XOR:
                left, right = self.bind_condition(expr.left), self.bind_condition(expr.right)
                first = And(terms=(left, Not(term=right, origin=expr.span)), origin=expr.span)
                second = And(terms=(Not(term=left, origin=expr.span), right), origin=expr.span)
                return Or(terms=(first, second), origin=expr.span)
            case tree.BinaryOp.IN:
                return self._bind_in(expr)
            case tree.BinaryOp.STARTS_WITH | tree.BinaryOp.ENDS_WITH | tree.BinaryOp.CONTAINS | tree.BinaryOp.MATCHES:
                return self._bind_text_test(expr)
            case _:
                return self._bind_arithmetic(expr)

    def _bind_comparison(self, expr: tree.Comparison) -> Expr:
        operands = [expr.first, *(operand for _, operand in expr.rest)]
        bound = [self.bind(operand) for operand in operands]
        terms: list[Expr] = []
        for index, (op, _) in enumerate(expr.rest):
            term = values.compare(_COMPARISONS[op], bound[index], bound[index + 1], expr.span)
            if term is None:
                self.refuse_form(expr.span, "lists and maps can't be compared", "compare their elements: `list[0] = 1`")
            terms.append(term)
        return values.build_and(terms, expr.span)

    def _bind_in(self, expr: tree.Binary) -> Expr:
        element, collection = self.bind(expr.left), self.bind(expr.right)
        if values.is_null(collection):
            return values.build_unknown(expr.span)
        if isinstance(expr.right, tree.ListLiteral) and not expr.right.items:
            return values.build_const(value=False, origin=expr.span)
        type_ = collection.type
        if not isinstance(type_, ListOf | ArrayOf):
            self.refuse_type(
                expr.right.span, f"`IN` needs a list, but {self.show(expr.right)} is {values.describe(type_)}"
            )
        if values.is_null(element):
            # Unknown, except that nothing is in an empty list.
            size = self.compute(_F.SIZE, (collection,), Scalar.I64, expr.span, can_fail=False)
            is_empty = values.compare(Op.EQ, size, values.build_const(0, expr.span), expr.span)
            assert is_empty is not None  # noqa: S101 - numbers compare
            branch = (is_empty, values.build_const(value=False, origin=expr.span))
            return Case(branches=(branch,), otherwise=values.build_unknown(expr.span), origin=expr.span)
        if not self._is_element(element, type_):
            return values.decide_unless_null((element, collection), truth=False, origin=expr.span)
        found = In(element=element, collection=collection, origin=expr.span)
        if not element.nullable:
            return found
        size = self.compute(_F.SIZE, (collection,), Scalar.I64, expr.span, can_fail=False)
        is_empty = values.compare(Op.EQ, size, values.build_const(0, expr.span), expr.span)
        assert is_empty is not None  # noqa: S101 - numbers compare
        branch = (is_empty, values.build_const(value=False, origin=expr.span))
        return Case(branches=(branch,), otherwise=found, origin=expr.span)

    def _is_element(self, element: Expr, type_: ListOf | ArrayOf) -> bool:
        if isinstance(type_, ArrayOf):
            return isinstance(element.type, NodeRef | EdgeRef) and element.type == type_.element
        if isinstance(element.type, ShapedType):
            return False
        return are_comparable(element.type, type_.element)

    def _bind_text_test(self, expr: tree.Binary) -> Expr:
        left, right = self.bind(expr.left), self.bind(expr.right)
        if values.is_null(left) or values.is_null(right):
            return values.build_unknown(expr.span)
        if not (values.is_text_value(left) and values.is_text_value(right)):
            # A value that is no text neither contains nor starts with one: unknown.
            return values.build_unknown(expr.span)
        match expr.op:
            case tree.BinaryOp.CONTAINS:
                return Contains(text=left, part=right, origin=expr.span)
            case tree.BinaryOp.STARTS_WITH:
                return StartsWith(text=left, prefix=right, origin=expr.span)
            case tree.BinaryOp.ENDS_WITH:
                return self.compute(_F.ENDS_WITH, (left, right), Scalar.BOOL, expr.span, can_fail=False)
            case _:
                return self._bind_matches(expr, left, right)

    def _bind_matches(self, expr: tree.Binary, text: Expr, pattern: Expr) -> Expr:
        if not isinstance(expr.right, tree.Literal) or not isinstance(expr.right.value, str):
            self.refuse_form(expr.right.span, "a regular expression is a literal here", "write the text of the pattern")
        whole = values.build_const(f"^(?:{expr.right.value})$", pattern.origin)
        return self.compute(_F.MATCHES, (text, whole), Scalar.BOOL, expr.span, can_fail=False)

    def _bind_arithmetic(self, expr: tree.Binary) -> Expr:
        left, right = self.bind(expr.left), self.bind(expr.right)
        if values.is_null(left) or values.is_null(right):
            return values.build_unknown(expr.span)
        is_sum = expr.op in (tree.BinaryOp.ADD, tree.BinaryOp.CONCAT)
        if is_sum and (values.is_text_value(left) or values.is_text_value(right)):
            return self._concatenate(expr, left, right)
        if not (values.is_number(left) and values.is_number(right)):
            self._refuse_operands(expr, left, right)
        types = (values.get_value_type(left), values.get_value_type(right))
        if expr.op is tree.BinaryOp.POWER:
            return self.compute(_F.POW, (left, right), Scalar.F64, expr.span, can_fail=True)
        function = _ARITHMETIC.get(expr.op, _F.ADD)
        return self.compute(function, (left, right), widen(types), expr.span, can_fail=True)

    def _concatenate(self, expr: tree.Binary, left: Expr, right: Expr) -> Expr:
        sides = []
        for side in (left, right):
            is_single = not isinstance(side.type, ShapedType | ListOf)
            if not is_single:
                self._refuse_operands(expr, left, right)
            text = (
                side
                if values.is_text_value(side)
                else self.compute(_F.TO_STRING, (side,), Scalar.STRING, expr.span, can_fail=False)
            )
            sides.append(text)
        return self.compute(_F.CONCATENATE, tuple(sides), Scalar.STRING, expr.span, can_fail=False)

    def _refuse_operands(self, expr: tree.Binary, left: Expr, right: Expr) -> NoReturn:
        sides = f"{values.describe(left.type)} and {values.describe(right.type)}"
        if values.is_list(left) or values.is_list(right):
            help_ = "collect the values of both by one `UNWIND` or `collect`"
            self.refuse_form(expr.span, "lists can't be joined or extended", help_)
        self.refuse_type(expr.span, f"`{expr.op.value}` can't be applied to {sides}")

    # --- choices, collections ----------------------------------------------------------------------------

    def _bind_case(self, expr: tree.Case) -> Expr:
        operand = None if expr.operand is None else self.bind(expr.operand)
        conditions: list[Expr] = []
        for condition, _ in expr.branches:
            if operand is None:
                conditions.append(self.bind_condition(condition))
                continue
            test = values.compare(Op.EQ, operand, self.bind(condition), condition.span)
            if test is None:
                self.refuse_form(condition.span, "lists and maps can't be compared", "compare their elements")
            conditions.append(test)
        nodes = [value for _, value in expr.branches]
        bound = [self.bind(value) for value in nodes]
        bound.append(values.build_unknown(expr.span) if expr.otherwise is None else self.bind(expr.otherwise))
        agreed = values.agree(bound)
        if agreed is None:
            self.refuse_type(expr.span, f"the values of a `CASE` have no common type: {self.list_types(bound)}")
        branches = tuple(zip(conditions, agreed, strict=False))
        return Case(branches=branches, otherwise=agreed[-1], origin=expr.span)

    def list_types(self, bound: list[Expr]) -> str:
        """Return the types of values, for a message."""
        return ", ".join(dict.fromkeys(values.describe(value.type) for value in bound if not values.is_null(value)))

    def _bind_collection(
        self, expr: tree.ListLiteral | tree.MapLiteral | tree.MapProjection | tree.Subscript | tree.Slice
    ) -> Expr:
        match expr:
            case tree.ListLiteral():
                return self._bind_list(expr)
            case tree.MapLiteral():
                items = {key.text: self.bind(value) for key, value in expr.entries}
                return self.build_map(items, expr.span)
            case tree.MapProjection():
                return self._bind_projection(expr)
            case tree.Subscript():
                return self._bind_subscript(expr)
            case tree.Slice():
                return self._bind_slice(expr)

    def build_map(self, items: dict[str, Expr], span: Span) -> Expr:
        """Return a map."""
        if not items:
            self.refuse_form(span, "an empty map is not supported", "give it a key")
        return RecordExpr(items=tuple(items.items()), origin=span)

    def _bind_list(self, expr: tree.ListLiteral) -> Expr:
        bound = [self.bind(item) for item in expr.items]
        return self.build_list(bound, expr.span)

    def build_list(self, bound: list[Expr], span: Span) -> Expr:
        """Return a list of values of one type, none of which can be null."""
        if not bound:
            return Const(value=(), type=ListOf(Scalar.STRING), origin=span)
        if any(map(values.is_null, bound)):
            self.refuse_form(span, "a list with null is not supported", LIST_NULLS_HELP)
        if any(value.nullable for value in bound):
            self.refuse_form(span, "a list whose elements may be null is not supported", LIST_NULLS_HELP)
        agreed = values.agree(bound)
        if agreed is None:
            self.refuse_form(
                span,
                f"a list of several types is not supported: {self.list_types(bound)}",
                "make them one, by `toString(…)`",
            )
        element = agreed[0].type
        if all(isinstance(value, Const) for value in agreed) and isinstance(element, Scalar):
            items = tuple(value.value for value in agreed if isinstance(value, Const))
            return Const(value=items, type=ListOf(element), origin=span)
        type_ = ListOf(element) if isinstance(element, Scalar) else ArrayOf(element)
        return self.compute(_F.LIST, agreed, type_, span, can_fail=False)

    def _bind_projection(self, expr: tree.MapProjection) -> Expr:
        items: dict[str, Expr] = {}
        for item in expr.items:
            match item:
                case tree.ProjectedKey(key=key):
                    read = tree.Property(operand=expr.variable, key=key, span=key.span)
                    items[key.text] = self.bind(read)
                case tree.ProjectedVariable(variable=variable):
                    items[variable.name] = self.bind(variable)
                case tree.ProjectedEntry(key=key, value=value):
                    items[key.text] = self.bind(value)
                case tree.ProjectedAll():
                    whole = self.bind(expr.variable)
                    items.update(list_fields(self, whole, expr))
        return self.build_map(items, expr.span)

    def _bind_subscript(self, expr: tree.Subscript) -> Expr:
        operand = self.bind(expr.operand)
        if isinstance(expr.index, tree.Literal) and isinstance(expr.index.value, str):
            key = Name(expr.index.value, expr.index.span)
            return self._bind_property(tree.Property(operand=expr.operand, key=key, span=expr.span))
        index = self.bind(expr.index)
        if values.is_null(operand) or values.is_null(index):
            return values.build_unknown(expr.span)
        if not isinstance(operand.type, ListOf | ArrayOf):
            help_ = "the name of a property stands in the text: `n.name` or `n['name']`"
            self.refuse_form(expr.span, "a property whose name is a value is not supported", help_)
        if not values.is_integer(index):
            self.refuse_type(expr.index.span, f"an index is a whole number, but this is {values.describe(index.type)}")
        return self.compute(_F.ELEMENT, (operand, index), operand.type.element, expr.span, can_fail=True)

    def _bind_slice(self, expr: tree.Slice) -> Expr:
        operand = self.bind(expr.operand)
        bounds = [None if each is None else self.bind(each) for each in (expr.low, expr.high)]
        if values.is_null(operand) or any(each is not None and values.is_null(each) for each in bounds):
            return values.build_unknown(expr.span)
        if not values.is_list(operand):
            self.refuse_type(expr.operand.span, f"`[…]` needs a list, but this is {values.describe(operand.type)}")
        low, high = (None if each is None else self._read_bound(each, expr.span) for each in bounds)
        start = low or 0
        arguments: tuple[Expr, ...] = (operand, values.build_const(start, expr.span))
        if high is not None:
            arguments = (*arguments, values.build_const(max(high - start, 0), expr.span))
        return self.compute(_F.SLICE, arguments, operand.type, expr.span, can_fail=False)

    def _read_bound(self, bound: Expr, span: Span) -> int:
        value = bound.value if isinstance(bound, Const) else None
        if not isinstance(value, int) or value < 0:
            help_ = "the bounds of a part are whole numbers of at least 0 in the text: `list[1..3]`"
            self.refuse_form(span, "these bounds are not supported", help_)
        return value

    def _bind_inner(self, expr: tree.Expr) -> Expr:
        """Bind an expression that has matches or variables of its own."""
        match expr:
            case tree.PatternPredicate():
                return self.subqueries.bind_test(expr, self)
            case tree.Subquery():
                return self.subqueries.bind_subquery(expr, self)
            case tree.PatternComprehension():
                return self.subqueries.bind_pattern_list(expr, self)
            case tree.ListComprehension():
                return self.subqueries.bind_list(expr, self)
            case tree.Quantifier():
                return self.subqueries.bind_quantifier(expr, self)
            case tree.Reduce():
                return self.subqueries.bind_reduce(expr, self)
            case _:
                raise AssertionError(type(expr).__name__)


def list_terms(expr: tree.Expr, op: tree.BinaryOp) -> list[tree.Expr]:
    """Return the terms that are joined by one operator, from left to right."""
    terms: list[tree.Expr] = []
    while isinstance(expr, tree.Binary) and expr.op is op:
        terms.append(expr.right)
        expr = expr.left
    return [expr, *reversed(terms)]


def values_near(name: str, scope: CypherScope) -> str | None:
    """Return a help line with the nearest variable, or None."""
    return suggest(name, scope.variables) or "a variable is defined by a pattern, `WITH`, `UNWIND` or a comprehension"


def read_field(binder: ExpressionBinder, operand: Expr, expr: tree.Property) -> Expr:
    """Return a field of a map, or a property of a node or relationship that is no variable."""
    type_, name = operand.type, expr.key.text
    if isinstance(operand, RecordExpr):
        found = dict(operand.items).get(name)
        return values.build_unknown(expr.span) if found is None else found
    if isinstance(type_, RecordOf):
        field_type = type_.find_field(name)
        if field_type is None:
            return values.build_unknown(expr.span)
        nullable = operand.nullable or name not in type_.required
        return FieldRef(operand=operand, name=name, type=field_type, nullable=nullable, origin=expr.span)
    if isinstance(type_, NodeRef | EdgeRef):
        prop = find_property(binder.context, type_, expr.key)
        if prop is None:
            return values.build_unknown(expr.span)
        return FieldRef(operand=operand, name=prop.name, type=prop.type, nullable=True, origin=expr.span)
    return read_moment(binder, operand, expr)


_PARTS: Final = {
    "year": _F.YEAR,
    "month": _F.MONTH,
    "week": _F.WEEK,
    "day": _F.DAY,
    "dayofweek": _F.WEEKDAY,
    "weekday": _F.WEEKDAY,
    "hour": _F.HOUR,
    "minute": _F.MINUTE,
    "second": _F.SECOND,
}


def read_moment(binder: ExpressionBinder, operand: Expr, expr: tree.Property) -> Expr:
    """Return a part of a Date or DateTime."""
    part = _PARTS.get(expr.key.text.lower())
    is_moment = operand.type in (Scalar.DATE, Scalar.DATETIME)
    if part is None or not is_moment or (part in (_F.HOUR, _F.MINUTE, _F.SECOND) and operand.type is Scalar.DATE):
        message = f"{binder.show(expr.operand)} is {values.describe(operand.type)}, which has no `{expr.key.text}`"
        binder.refuse_type(expr.span, message)
    return binder.compute(part, (operand,), Scalar.I64, expr.span, can_fail=False)


def list_fields(binder: ExpressionBinder, whole: Expr, expr: tree.MapProjection) -> dict[str, Expr]:
    """Return all properties of a node or relationship, or all entries of a map."""
    match whole:
        case RecordExpr(items=items):
            return dict(items)
        case Entity(fields=fields):
            return {
                each.name: replace(each, nullable=each.nullable or whole.nullable)
                for each in fields
                if not each.name.startswith("@")
            }
        case _:
            return binder.refuse_form(
                expr.span, "`.*` of this value is not supported", "name its keys: `{.name, .age}`"
            )
