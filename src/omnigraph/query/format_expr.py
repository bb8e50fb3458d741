"""Format bound expressions in the syntax of the query language, for plans and messages."""

from collections.abc import Iterable
from typing import assert_never

from omnigraph.lang.expression_printer import print_float
from omnigraph.query.expr import (
    Aggregate,
    And,
    Bm25,
    Case,
    Compare,
    Computed,
    Const,
    Contains,
    Distance,
    EdgeRef,
    Entity,
    Expr,
    FieldRef,
    FuzzyScore,
    Identity,
    In,
    IsNull,
    MetaColumn,
    Missing,
    Mmr,
    Nearest,
    NodeRef,
    Not,
    Now,
    Or,
    OrderTerm,
    ParamRef,
    Prop,
    RecordExpr,
    RecordsParam,
    Rerank,
    Rrf,
    SearchValue,
    Snippet,
    StartsWith,
    TextMatch,
    TextMode,
    United,
    ValueRef,
    WalkOf,
    Window,
)
from omnigraph.query.expr_types import ROW, WALK_KEY
from omnigraph.query.logical_plan import POSITION_PREFIX
from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.query.union_types import ID_COLUMN
from omnigraph.schema.values import format_value

_META_NAMES = frozenset(meta.value for meta in MetaColumn)
# How a mutation writes the columns of the current row.
_ROW_COLUMN_NAMES = {"src": "from", "dst": "to", "id": "@id"}


def format_expr(expr: Expr) -> str:
    """Format an expression in query syntax; long lists and texts are clipped. Equal expressions have equal texts."""
    match expr:
        case Const():
            return format_value(expr.value, in_query=True)
        case Missing():
            return "null"
        case United():
            return format_expr(expr.operand)
        case ParamRef() | RecordsParam():
            return f"${expr.name}"
        case Now():
            return "now()"
        case Prop():
            # The id of a union is a value like its properties.
            name = "@id" if expr.name == ID_COLUMN else expr.name
            return name if expr.variable == ROW else f"${expr.variable}.{name}"
        case Identity():
            column = expr.part.value
            return _ROW_COLUMN_NAMES[column] if expr.variable == ROW else f"${expr.variable}.@{column}"
        case ValueRef() if expr.variable.startswith(POSITION_PREFIX):
            return f"the position of ${expr.variable.removeprefix(POSITION_PREFIX)}"
        case Entity() | ValueRef():
            return f"${expr.variable}"
        case Aggregate():
            return _format_aggregate(expr)
        case Window():
            return _format_window(expr)
        case Nearest() | Bm25() | Rrf() | Mmr() | Rerank() | TextMatch() | Distance() | Snippet() | FuzzyScore():
            return _format_search(expr)
        case Compare() | In() | Contains() | StartsWith() | IsNull() | Not() | And() | Or():
            return _format_predicate(expr)
        case _:
            return _format_composed(expr)


def _format_search(expr: SearchValue | TextMatch) -> str:
    match expr:
        case Nearest():
            call = _format_call("nearest", expr.prop, expr.query)
            return f"{call.removesuffix(')')}, exact=true)" if expr.exact else call
        case Distance():
            return _format_call("nearest", expr.left, expr.right)
        case Bm25():
            return _format_call("bm25", expr.prop, expr.query)
        case Snippet():
            return _format_call("snippet", expr.prop, expr.query)
        case Rrf():
            call = _format_call("rrf", *expr.ranks, expr.k)
            weights = f", weights=[{', '.join(map(print_float, expr.weights))}])"
            return call.removesuffix(")") + weights if expr.weights else call
        case Mmr():
            call = _format_call("mmr", expr.rank, expr.prop)
            return f"{call.removesuffix(')')}, lambda={print_float(expr.balance)})"
        case Rerank():
            return _format_call("rerank", expr.rank, expr.prop, expr.query)
        case FuzzyScore():
            return f"fuzzy_score{_format_search(expr.match).removeprefix(TextMode.FUZZY.value)}"
        case TextMatch():
            edits = () if expr.edits is None else (expr.edits,)
            return _format_call(expr.mode.value, expr.prop, expr.query, *edits)
        case _:
            assert_never(expr)


def _format_composed(expr: Computed | RecordExpr | FieldRef | Case) -> str:
    match expr:
        case Computed():
            return _format_computed(expr)
        case RecordExpr():
            return f"{{ {', '.join(f'{name}: {format_expr(value)}' for name, value in expr.items)} }}"
        case FieldRef() if isinstance(expr.operand.type, WalkOf):
            # The key of a walk stands for the walk itself.
            walk = format_expr(expr.operand)
            return walk if expr.name == WALK_KEY else f"{expr.name}({walk})"
        case FieldRef():
            return f"{_format_nested(expr.operand)}.{_format_field(expr)}"
        case Case():
            branches = [f"{format_expr(condition)} => {format_expr(value)}" for condition, value in expr.branches]
            return f"case {{ {', '.join([*branches, f'else => {format_expr(expr.otherwise)}'])} }}"
        case _:
            assert_never(expr)


def _format_aggregate(expr: Aggregate) -> str:
    inside = "*" if expr.argument is None else format_expr(expr.argument)
    inside = f"distinct {inside}" if expr.distinct else inside
    if expr.fraction is not None:
        inside += f", {format_expr(expr.fraction)}"
    if expr.where is not None:
        inside += f" where {format_expr(expr.where)}"
    # What breaks the ties is left out: no query writes it.
    if expr.order:
        inside += f" order {{ {format_order(expr.order)} }}"
    if expr.limit is not None:
        inside += f" limit {format_expr(expr.limit)}"
    return f"{expr.fold.value}({inside})"


def _format_window(expr: Window) -> str:
    if expr.aggregate is not None:
        call = _format_aggregate(expr.aggregate)
    else:
        function = "" if expr.function is None else expr.function.value
        call = f"{function}({'' if expr.argument is None else format_expr(expr.argument)})"
    parts = []
    if expr.per:
        parts.append(f"per {{ {', '.join(map(format_expr, expr.per))} }}")
    if expr.order:
        parts.append(f"order {{ {format_order(expr.order)} }}")
    return f"{call} over {{ {' '.join(parts)} }}" if parts else f"{call} over {{ }}"


def format_order(order: Iterable[OrderTerm]) -> str:
    """Format sort keys as `order` lists them; ascending ones are not marked."""
    return ", ".join(f"{format_expr(term.value)}{' desc' if term.descending else ''}" for term in order)


def _format_field(expr: FieldRef) -> str:
    # The columns that every node and edge has are written with an `@`; a record may have fields of these names.
    is_meta = isinstance(expr.operand.type, NodeRef | EdgeRef) and expr.name in _META_NAMES
    return f"@{expr.name}" if is_meta else expr.name


def _format_computed(expr: Computed) -> str:
    function = expr.function
    arguments = [format_expr(argument) for argument in expr.arguments]
    infix = {ScalarFunction.CONCATENATE: "+"}.get(function, function.value)
    match function:
        case (
            ScalarFunction.ADD
            | ScalarFunction.SUBTRACT
            | ScalarFunction.MULTIPLY
            | ScalarFunction.DIVIDE
            | ScalarFunction.MODULO
            | ScalarFunction.CONCATENATE
        ):
            left, right = (_format_nested(argument) for argument in expr.arguments)
            return f"{left} {infix} {right}"
        case ScalarFunction.NEGATE:
            return f"-({arguments[0]})"
        case ScalarFunction.ELEMENT:
            return f"{_format_nested(expr.arguments[0])}[{arguments[1]}]"
        case ScalarFunction.WIDEN:
            return arguments[0]
        case ScalarFunction.LIST:
            return f"[{', '.join(arguments)}]"
        case ScalarFunction.SHIFT:
            unit = expr.arguments[1]
            word = str(unit.value) if isinstance(unit, Const) else arguments[1]
            return f"{_format_nested(expr.arguments[0])} + {word}({arguments[2]})"
        case _:
            return f"{function.value}({', '.join(arguments)})"


def _format_predicate(expr: Compare | In | Contains | StartsWith | IsNull | Not | And | Or) -> str:
    match expr:
        case Compare():
            return f"{format_expr(expr.left)} {expr.op.value} {format_expr(expr.right)}"
        case In():
            return f"{format_expr(expr.element)} in {format_expr(expr.collection)}"
        case Contains():
            return f"{format_expr(expr.text)} contains {format_expr(expr.part)}"
        case StartsWith():
            return f"{format_expr(expr.text)} starts_with {format_expr(expr.prefix)}"
        case IsNull():
            return f"{format_expr(expr.operand)} is {'not ' if expr.negated else ''}null"
        case Not():
            return f"not {_format_nested(expr.term)}"
        # `and` binds tighter than `or`, so an `and` inside an `or` needs no parentheses.
        case And():
            return " and ".join(_format_nested(t) if isinstance(t, Or | And) else format_expr(t) for t in expr.terms)
        case Or():
            return " or ".join(_format_nested(t) if isinstance(t, Or) else format_expr(t) for t in expr.terms)
        case _:
            assert_never(expr)


def _format_nested(expr: Expr) -> str:
    is_infix = isinstance(expr, Compare | In | Contains | StartsWith | And | Or) or (
        isinstance(expr, Computed) and not expr.function.value.isidentifier()
    )
    return f"({format_expr(expr)})" if is_infix else format_expr(expr)


def _format_call(name: str, *arguments: Expr) -> str:
    return f"{name}({', '.join(map(format_expr, arguments))})"
