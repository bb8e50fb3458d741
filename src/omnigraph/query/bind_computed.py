"""Bind calculations: arithmetic, scalar functions, lists, indexes and `case`.

Every method returns None for an invalid expression, whose errors it has reported.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from omnigraph.lang import literals as lit
from omnigraph.lang import query_ast as ast
from omnigraph.lang.printer import format_expr as print_expr
from omnigraph.query.bind_literal import clip_text
from omnigraph.query.expr import (
    ArrayOf,
    Case,
    Computed,
    Const,
    EdgeRef,
    Expr,
    ExprType,
    Missing,
    NodeRef,
    ParamRef,
    ShapedType,
    United,
    WalkOf,
)
from omnigraph.query.scalar_functions import (
    DURATION_UNITS,
    FIXED_KINDS,
    TRUNC_UNITS,
    ParameterKind,
    ScalarFunction,
    Signature,
    accepts,
    resolve_arithmetic,
    resolve_sum,
    unify,
    widen,
)
from omnigraph.query.union_types import unite_types
from omnigraph.schema.findings import DiagnosticCollector, join_words
from omnigraph.schema.regex import find_pattern_problem
from omnigraph.schema.types import ListOf, Scalar, ValueType, is_numeric

_OPERATORS = {
    ast.ArithmeticOp.ADD: ScalarFunction.ADD,
    ast.ArithmeticOp.SUBTRACT: ScalarFunction.SUBTRACT,
    ast.ArithmeticOp.MULTIPLY: ScalarFunction.MULTIPLY,
    ast.ArithmeticOp.DIVIDE: ScalarFunction.DIVIDE,
    ast.ArithmeticOp.MODULO: ScalarFunction.MODULO,
}
# These take lists of nodes, edges, records and lists too; a sorted or unique list needs values that compare.
_ARRAY_CALLS = frozenset({ScalarFunction.SIZE, ScalarFunction.FIRST, ScalarFunction.LAST, ScalarFunction.SLICE})
# These choose among whole nodes and edges too, which have no order but an identity.
_ENTITY_CALLS = frozenset({ScalarFunction.COALESCE, ScalarFunction.NULLIF})
_MOMENTS = (Scalar.DATE, Scalar.DATETIME)
# The type of the literal null as an argument; a parameter that takes any value takes its own.
_NULL_TYPES: dict[ParameterKind, ValueType] = {
    ParameterKind.INTEGER: Scalar.I64,
    ParameterKind.NUMBER: Scalar.I64,
    ParameterKind.DATE: Scalar.DATE,
    ParameterKind.DATETIME: Scalar.DATETIME,
    ParameterKind.LIST: ListOf(Scalar.STRING),
    ParameterKind.TEXT_LIST: ListOf(Scalar.STRING),
}


@dataclass(frozen=True, slots=True)
class ComputedBinder:
    """Bind calculations of one place in a query; `bind` binds their operands, `bind_condition` those of a `case`."""

    findings: DiagnosticCollector
    bind: Callable[[ast.Expr], Expr | None]
    bind_condition: Callable[[ast.Expr], Expr | None]

    # --- operators -------------------------------------------------------------------------------

    def bind_arithmetic(self, node: ast.Arithmetic) -> Expr | None:
        """Bind `left op right` between numbers, `+` between texts, or a moment shifted by a duration."""
        # A duration has no type of its own: it exists only as the right side of `+` and `-`.
        if unit := _find_duration(node.right):
            return self._bind_shift(node, unit)
        left = self._bind_value(node.left)
        right = self._bind_value(node.right)
        if left is None or right is None:
            return None
        function = _OPERATORS[node.op]
        left, right = _settle_null(left, right), _settle_null(right, left)
        left_type, right_type = _get_type(left), _get_type(right)
        type_ = resolve_arithmetic(function, left_type, right_type)
        # `+` joins texts too, which is another kernel.
        if function is ScalarFunction.ADD:
            type_ = resolve_sum(left_type, right_type)
            if type_ is Scalar.STRING:
                function = ScalarFunction.CONCATENATE
        if type_ is None:
            sides = f"`{_clip(node.left)}` ({left_type}) and `{_clip(node.right)}` ({right_type})"
            self._report(
                node, f"`{node.op.value}` can't be applied to {sides}", _suggest(node.op, left_type, right_type)
            )
            return None
        # An overflow, a float that is not finite, a division by zero: all are null.
        can_fail = function is not ScalarFunction.CONCATENATE
        return _build(function, (left, right), type_, node, can_fail=can_fail)

    def bind_negation(self, node: ast.Negate) -> Expr | None:
        """Bind `-operand`."""
        operand = self._bind_value(node.operand)
        if operand is None:
            return None
        operand = _settle_null(operand, operand)
        if not is_numeric(_get_type(operand)):
            self._report(node, f"`-` needs a number, but `{_clip(node.operand)}` is {operand.type}")
            return None
        return _build(ScalarFunction.NEGATE, (operand,), widen((_get_type(operand),)), node, can_fail=True)

    def bind_index(self, node: ast.Index) -> Expr | None:
        """Bind `list[index]`; outside of the list it is null."""
        operand = self.bind(node.operand)
        index = self._bind_value(node.index)
        if operand is None or index is None:
            return None
        type_ = operand.type
        if not isinstance(type_, ListOf | ArrayOf):
            help_ = None
            if isinstance(type_, NodeRef | EdgeRef):
                help_ = f"a property is written with its name, `{_clip(node.operand)}.name`; it can't be a value"
            elif type_ is Scalar.STRING:
                help_ = f"a part of a text is written `substring({_clip(node.operand)}, 0, 1)`"
            self._report(node.operand, f"`[…]` needs a list, but `{_clip(node.operand)}` is {type_}", help_)
            return None
        index = _settle_null(index, index)
        if not accepts(ParameterKind.INTEGER, _get_type(index)):
            self._report(node.index, f"an index is an integer, but `{_clip(node.index)}` is {index.type}")
            return None
        return _build(ScalarFunction.ELEMENT, (operand, index), type_.element, node, can_fail=True)

    def bind_list(self, node: ast.ListExpr) -> Expr | None:
        """Bind `[a, b, …]`, whose items get one type."""
        bound = [self.bind(item) for item in node.items]
        if all(item is not None and isinstance(item.type, ShapedType) for item in bound):
            return self._bind_array(node, tuple(item for item in bound if item is not None))
        items = self._check_values(node.items, bound)
        if items is None:
            return None
        agreed = self._agree(items, node.items, "the items of a list")
        if agreed is None:
            return None
        type_ = _get_type(agreed[0])
        if not isinstance(type_, Scalar) or type_ is Scalar.BLOB:
            self._report(node, f"a list can't hold values of type {type_}")
            return None
        # Lists hold no nulls, so a null item makes the whole list null.
        nullable = any(item.nullable for item in agreed)
        return _build(ScalarFunction.LIST, agreed, ListOf(type_), node, can_fail=nullable)

    def _bind_array(self, node: ast.ListExpr, items: tuple[Expr, ...]) -> Expr | None:
        """Bind a list of nodes, edges, records or lists, all of one type."""
        types = dict.fromkeys(item.type for item in items)
        if len(types) > 1:
            shown = join_words([str(type_) for type_ in types])
            self._report(node, f"the items of a list have no common type: {shown}")
            return None
        nullable = any(item.nullable for item in items)
        return _build(ScalarFunction.LIST, items, ArrayOf(items[0].type), node, can_fail=nullable)

    def bind_case(self, node: ast.Case) -> Expr | None:
        """Bind a `case`, whose branches get one type; without `else` it is null where no condition is true."""
        conditions = [self.bind_condition(branch.condition) for branch in node.branches]
        nodes = [branch.value for branch in node.branches]
        if node.otherwise is not None:
            nodes.append(node.otherwise)
        # All are bound before the first failure returns, so that each reports its errors.
        values = [self.bind(value) for value in nodes]
        if not node.branches:
            return None
        agreed = self._choose(values, nodes, "the branches of a `case`")
        bound = [condition for condition in conditions if condition is not None]
        if agreed is None or len(bound) < len(conditions):
            return None
        # The value of `else` comes last and has no condition.
        branches = tuple(zip(bound, agreed, strict=False))
        otherwise = _build_null(agreed[0].type, node) if node.otherwise is None else agreed[-1]
        return Case(branches=branches, otherwise=otherwise, origin=node.span)

    def _bind_shift(self, node: ast.Arithmetic, unit: str) -> Expr | None:
        call = node.right
        assert isinstance(call, ast.Call)  # noqa: S101 - `_find_duration` has checked it
        base = self._bind_value(node.left)
        usage = f"`moment {node.op.value} {unit}(3)`"
        if node.op not in (ast.ArithmeticOp.ADD, ast.ArithmeticOp.SUBTRACT) or len(call.arguments) != 1:
            self._report(call, f"a duration is added to a Date or DateTime: {usage}")
            return None
        amount = self._bind_value(call.arguments[0])
        if base is None or amount is None:
            return None
        type_ = _get_type(base)
        if type_ not in _MOMENTS:
            self._report(node.left, f"`{unit}` can be added to a Date or DateTime, but `{_clip(node.left)}` is {type_}")
            return None
        if type_ is Scalar.DATE and not DURATION_UNITS[unit]:
            help_ = "a Date has days: use `days`, `weeks`, `months` or `years`, or a DateTime"
            self._report(call, f"`{unit}` can't be added to the Date `{_clip(node.left)}`", help_)
            return None
        amount = _settle_null(amount, amount)
        if not accepts(ParameterKind.INTEGER, _get_type(amount)):
            self._report(call.arguments[0], f"`{unit}` takes an integer, but this is {amount.type}")
            return None
        # One kernel for both directions; the smallest integer has no opposite, and is out of range anyway.
        if node.op is ast.ArithmeticOp.SUBTRACT:
            amount = _build(ScalarFunction.NEGATE, (amount,), Scalar.I64, node, can_fail=True)
        word = Const(value=unit, type=Scalar.STRING, origin=call.span)
        # A moment beyond the years 1 to 9999 is null.
        return _build(ScalarFunction.SHIFT, (base, word, amount), type_, node, can_fail=True)

    # --- calls -----------------------------------------------------------------------------------

    def bind_call(self, call: ast.Call, signature: Signature) -> Expr | None:
        """Bind the call of a scalar function, whose number of arguments is already checked."""
        bound = [self.bind(argument) for argument in call.arguments]
        if signature.function in _ARRAY_CALLS and bound[0] is not None and isinstance(bound[0].type, ArrayOf):
            return self._bind_array_call(call, signature, bound[0].type, bound)
        if signature.function in _ENTITY_CALLS and any(_is_choosable(value) for value in bound):
            return self._bind_entity_call(call, signature, bound)
        arguments = self._check_values(call.arguments, bound)
        if arguments is None:
            return None
        for index, (argument, node) in enumerate(zip(arguments, call.arguments, strict=True)):
            if not self._check_argument(argument, node, signature.get_parameter(index), signature):
                return None
        arguments = _settle_arguments(arguments, signature)
        if signature.agrees:
            agreed = self._agree(arguments, call.arguments, f"the arguments of `{signature.name}`")
            if agreed is None:
                return None
            arguments = agreed
        types = tuple(_get_type(argument) for argument in arguments)
        if signature.function is ScalarFunction.DAYS_BETWEEN and types[0] != types[1]:
            message = f"`days_between` needs two Dates or two DateTimes, not a {types[0]} and a {types[1]}"
            self._report(call, message, "turn a DateTime into a Date with `date(…)`")
            return None
        type_ = signature.result(types)
        # One value that is never null is enough for these.
        if signature.skips_nulls:
            nullable = all(argument.nullable for argument in arguments)
            computed = _build(signature.function, arguments, type_, call, can_fail=False)
            return replace(computed, nullable=nullable)
        return _build(signature.function, arguments, type_, call, can_fail=signature.can_fail)

    def _bind_array_call(
        self, call: ast.Call, signature: Signature, type_: ArrayOf, bound: Sequence[Expr | None]
    ) -> Expr | None:
        """Bind a call that takes a list of nodes, edges, records or lists."""
        others = self._check_values(call.arguments[1:], bound[1:])
        first = bound[0]
        if others is None or first is None:
            return None
        for index, (argument, node) in enumerate(zip(others, call.arguments[1:], strict=True), start=1):
            if not self._check_argument(argument, node, signature.get_parameter(index), signature):
                return None
        results: dict[ScalarFunction, ExprType] = {
            ScalarFunction.SIZE: Scalar.I64,
            ScalarFunction.SLICE: type_,
        }
        result = results.get(signature.function, type_.element)
        return _build(signature.function, (first, *others), result, call, can_fail=signature.can_fail)

    def _bind_entity_call(self, call: ast.Call, signature: Signature, bound: Sequence[Expr | None]) -> Expr | None:
        """Bind a call that chooses among whole nodes and edges, or lists of them."""
        agreed = self._choose(bound, call.arguments, f"the arguments of `{signature.name}`")
        if agreed is None:
            return None
        type_ = agreed[0].type
        if signature.function is ScalarFunction.NULLIF:
            if isinstance(type_, ArrayOf):
                self._report(call, f"`nullif` compares its arguments, and {type_} can't be compared")
                return None
            return _build(signature.function, agreed, type_, call, can_fail=True)
        computed = _build(signature.function, agreed, type_, call, can_fail=False)
        return replace(computed, nullable=all(argument.nullable for argument in agreed))

    def _check_argument(self, argument: Expr, node: ast.Expr, kind: ParameterKind, signature: Signature) -> bool:
        type_ = _get_type(argument)
        # The literal null has a type by chance; whatever the parameter, the result is null.
        if isinstance(argument, Const) and argument.value is None and kind not in FIXED_KINDS:
            return True
        is_fixed = isinstance(argument, Const | ParamRef)
        if not accepts(kind, type_) or (kind in FIXED_KINDS and not is_fixed):
            message = f"`{signature.name}` needs {kind.value}, but `{_clip(node)}` is {type_}"
            help_ = f"write {signature.usage}"
            if kind is ParameterKind.TEXT and isinstance(type_, Scalar):
                help_ = f"turn it into a text: `to_string({_clip(node)})`"
            help_ = _suggest_function(signature.name, type_, _clip(node)) or help_
            self._report(node, message, help_)
            return False
        if kind is ParameterKind.PATTERN and isinstance(argument, Const):
            problem = find_pattern_problem(str(argument.value))
            if problem is not None:
                self._report(node, f"{_clip(node)} is not a regular expression: {problem}", "the syntax is that of RE2")
                return False
        if kind is ParameterKind.UNIT and not (isinstance(argument, Const) and argument.value in TRUNC_UNITS):
            units = join_words([f'"{unit}"' for unit in TRUNC_UNITS], "or")
            self._report(node, f"`{_clip(node)}` is not a unit", f"write {units}")
            return False
        return True

    # --- operands --------------------------------------------------------------------------------

    def _bind_value(self, node: ast.Expr) -> Expr | None:
        """Bind an operand that must be a value: a whole node or edge is refused."""
        return self._check_value(node, self.bind(node))

    def _check_value(self, node: ast.Expr, value: Expr | None) -> Expr | None:
        if value is not None and isinstance(value.type, NodeRef | EdgeRef):
            help_ = f"name a property: `{_clip(node)}.property`"
            self._report(node, f"`{_clip(node)}` is a whole `{value.type}`, which is not a value", help_)
            return None
        if value is not None and isinstance(value.type, ShapedType):
            message = f"`{_clip(node)}` is {value.type}, which shapes results and is not calculated with"
            call = "length" if isinstance(value.type, WalkOf) else "size"
            has_length = isinstance(value.type, WalkOf | ArrayOf)
            self._report(node, message, f"its length is `{call}({_clip(node)})`" if has_length else None)
            return None
        return value

    def _check_values(self, nodes: Sequence[ast.Expr], bound: Sequence[Expr | None]) -> tuple[Expr, ...] | None:
        checked = [self._check_value(node, value) for node, value in zip(nodes, bound, strict=True)]
        values = tuple(value for value in checked if value is not None)
        return values if len(values) == len(checked) else None

    def _agree(self, values: tuple[Expr, ...], nodes: Sequence[ast.Expr], what: str) -> tuple[Expr, ...] | None:
        """Return alternatives in their common type; a null literal has whatever type the others have."""
        typed = [value for value, node in zip(values, nodes, strict=True) if not _is_null(node)]
        if any(isinstance(value.type, ListOf) and not _is_empty(value) for value in typed):
            # The literal `[]` has no element that would have a type.
            typed = [value for value in typed if not _is_empty(value)]
        if not typed:
            return values
        common = unify(tuple(_get_type(value) for value in typed))
        if common is None:
            shown = join_words([f"{value.type}" for value in typed])
            self._report(
                nodes[0], f"{what} have no common type: {shown}", "convert them with `to_string` or `to_float`"
            )
            return None
        return tuple(_convert(value, common) for value in values)

    def _choose(self, bound: Sequence[Expr | None], nodes: Sequence[ast.Expr], what: str) -> tuple[Expr, ...] | None:
        """Return alternatives in their common type: values, or whole nodes and edges, whose types unite."""
        values = tuple(value for value in bound if value is not None)
        if len(values) < len(bound):
            return None
        if not any(_is_choosable(value) for value in values):
            checked = self._check_values(nodes, values)
            return None if checked is None else self._agree(checked, nodes, what)
        types = [value.type for value, node in zip(values, nodes, strict=True) if not _is_null(node)]
        common = types[0] if len(set(types)) == 1 else unite_types(types)
        if common is None or not isinstance(common, NodeRef | EdgeRef | ArrayOf):
            shown = join_words(dict.fromkeys(f"{type_}" for type_ in types))
            help_ = "name a property of each node" if any(isinstance(t, NodeRef | EdgeRef) for t in types) else None
            self._report(nodes[0], f"{what} have no common type: {shown}", help_)
            return None
        return tuple(
            Missing(type=common, origin=node.span) if _is_null(node) else _unite(value, common)
            for value, node in zip(values, nodes, strict=True)
        )

    def _report(self, node: ast.Expr, message: str, help_: str | None = None) -> None:
        self.findings.add_error("T27", node.span, message, help_)


def _settle_null(operand: Expr, other: Expr) -> Expr:
    """Return an operand; the literal null, which has a type by chance, has that of the other one or is an integer."""
    if not _is_null_value(operand):
        return operand
    type_ = Scalar.I64 if _is_null_value(other) else _get_type(other)
    return Const(value=None, type=type_, origin=operand.origin)


def _settle_arguments(arguments: tuple[Expr, ...], signature: Signature) -> tuple[Expr, ...]:
    """Return arguments in which the literal null has a type that its parameter takes: each kernel has its types."""
    is_instant = any(argument.type is Scalar.DATETIME for argument in arguments)
    types = _NULL_TYPES | {ParameterKind.MOMENT: Scalar.DATETIME if is_instant else Scalar.DATE}
    kinds = map(signature.get_parameter, range(len(arguments)))
    return tuple(
        Const(value=None, type=types[kind], origin=argument.origin)
        if kind in types and _is_null_value(argument)
        else argument
        for argument, kind in zip(arguments, kinds, strict=True)
    )


def _is_null_value(value: Expr) -> bool:
    return isinstance(value, Const) and value.value is None


def _find_duration(node: ast.Expr) -> str | None:
    if isinstance(node, ast.Call) and node.function.text in DURATION_UNITS:
        return node.function.text
    return None


def _build(
    function: ScalarFunction, arguments: tuple[Expr, ...], type_: ExprType, node: ast.Expr, *, can_fail: bool
) -> Computed:
    nullable = can_fail or any(argument.nullable for argument in arguments)
    text = clip_text(print_expr(node))
    return Computed(function=function, arguments=arguments, type=type_, nullable=nullable, text=text, origin=node.span)


def _convert(value: Expr, type_: ValueType) -> Expr:
    """Return a value in a wider type; a literal is converted at once."""
    if value.type == type_:
        return value
    if isinstance(type_, ListOf):
        return convert_list(value, type_)
    if isinstance(value, Const):
        converted = float(value.value) if type_ is Scalar.F64 and isinstance(value.value, int) else value.value
        return Const(value=converted, type=type_, origin=value.origin)
    function = {Scalar.F64: ScalarFunction.TO_FLOAT, Scalar.I64: ScalarFunction.TO_INT}.get(
        type_ if isinstance(type_, Scalar) else Scalar.STRING, ScalarFunction.TO_STRING
    )
    return Computed(
        function=function, arguments=(value,), type=type_, nullable=value.nullable, text="", origin=value.origin
    )


def convert_list(value: Expr, type_: ListOf) -> Expr:
    """Return a list with elements of a wider type; a literal is converted at once."""
    if isinstance(value, Const) and (value.value is None or isinstance(value.value, tuple)):
        items = value.value
        if items is not None and type_.element is Scalar.F64:
            items = tuple(float(item) if isinstance(item, int) else item for item in items)
        return Const(value=items, type=type_, origin=value.origin)
    return Computed(
        function=ScalarFunction.WIDEN,
        arguments=(value,),
        type=type_,
        nullable=value.nullable,
        text="",
        origin=value.origin,
    )


def _is_empty(value: Expr) -> bool:
    return isinstance(value, Const) and value.value == ()


def _is_choosable(value: Expr | None) -> bool:
    return value is not None and isinstance(value.type, NodeRef | EdgeRef | ArrayOf)


def _unite(value: Expr, type_: NodeRef | EdgeRef | ArrayOf) -> Expr:
    """Return a whole node or edge as one of a union of types."""
    if value.type == type_ or isinstance(type_, ArrayOf):
        return value
    return United(operand=value, type=type_, origin=value.origin)


def _build_null(type_: ExprType, node: ast.Expr) -> Expr:
    if isinstance(type_, ShapedType):
        return Missing(type=type_, origin=node.span)
    return Const(value=None, type=type_, origin=node.span)


def _get_type(expr: Expr) -> ValueType:
    type_ = expr.type
    assert not isinstance(type_, ShapedType)  # noqa: S101 - `_bind_value` has refused what is no value
    return type_


def _is_null(node: ast.Expr) -> bool:
    return isinstance(node, ast.LiteralExpr) and isinstance(node.value, lit.NullLiteral)


def _clip(node: ast.Expr) -> str:
    return clip_text(print_expr(node))


def _suggest_function(name: str, type_: ValueType, argument: str) -> str | None:
    """Return the call that does for this type what other languages call so too."""
    match name, type_:
        case "date", Scalar.DATE:
            return f"it is a Date already: write `{argument}`"
        case "date", Scalar.STRING:
            return f"write `to_date({argument})`"
        case "size", Scalar.STRING:
            return f"write `length({argument})`"
        case "length", ListOf():
            return f"write `size({argument})`"
        case (("first" | "last"), Scalar()):
            return f"of a group: `{name}(collect({argument}))`"
    return None


def _suggest(op: ast.ArithmeticOp, left: ValueType, right: ValueType) -> str | None:
    if left in _MOMENTS and right in _MOMENTS and op is ast.ArithmeticOp.SUBTRACT:
        return "write `days_between(from, to)` or `seconds_between(from, to)`"
    if left in _MOMENTS:
        return f"add a duration: `… {op.value} days(3)`"
    if isinstance(left, ListOf) or isinstance(right, ListOf):
        return "a list is written `[a, b]`, or made by a block: `collect { each $x in $p.tags return upper($x) }`"
    if Scalar.STRING in (left, right) and op is ast.ArithmeticOp.ADD:
        return "turn the other side into a text with `to_string(…)`"
    return None
