"""The canonical text of expressions and predicates; parentheses only where the tree needs them."""

from typing import assert_never

from omnigraph.lang.layout import Anchor, Item, LineGroup, PrintedLine
from omnigraph.lang.print_values import print_literal
from omnigraph.lang.query_ast import (
    And,
    BareName,
    Call,
    CallPredicate,
    Compare,
    Expr,
    IsNull,
    LiteralExpr,
    Not,
    Or,
    Predicate,
    PropertyRef,
    Star,
    Variable,
)


def format_expr(expr: Expr) -> str:
    """One expression."""
    match expr:
        case Variable(name=name):
            return f"${name}"
        case PropertyRef(variable=variable, name=property_, is_meta=is_meta):
            return f"${variable.name}.{'@' if is_meta else ''}{property_.text}"
        case BareName(name=word, is_meta=is_meta):
            return f"@{word.text}" if is_meta else word.text
        case Star():
            return "*"
        case Call():
            return _format_call(expr)
        case LiteralExpr(value=value):
            return print_literal(value)
        case _:
            assert_never(expr)


def format_predicate(predicate: Predicate) -> str:
    """One predicate on one line."""
    match predicate:
        case Compare(op=op, left=left, right=right):
            return f"{format_expr(left)} {op.value} {format_expr(right)}"
        case IsNull(operand=operand, negated=negated):
            return f"{format_expr(operand)} is {'not ' if negated else ''}null"
        case CallPredicate(call=call):
            return format_expr(call)
        case Not(term=term):
            return f"not {_format_term(term, predicate)}"
        case And(terms=terms) | Or(terms=terms):
            return f" {_get_connective(predicate)} ".join(_format_term(term, predicate) for term in terms)
        case _:
            assert_never(predicate)


def build_predicate_item(predicate: Predicate, depth: int, anchor: Anchor, prefix: str = "") -> Item:
    """One predicate behind `prefix`, which can be broken before each `and` and `or`."""
    flat = PrintedLine(depth, prefix + format_predicate(predicate), anchor)
    match predicate:
        case And(terms=terms) | Or(terms=terms):
            word = _get_connective(predicate)
            first, *rest = terms
            head = _build_term_item(first, predicate, depth, anchor, prefix)
            tail = (
                _build_term_item(term, predicate, depth + 1, Anchor(term.span.start, (word,)), f"{word} ")
                for term in rest
            )
            return LineGroup(flat, (head, *tail))
        case Not(term=term):
            return _build_term_item(term, predicate, depth, anchor, f"{prefix}not ")
        case _:
            return flat


def find_predicate_start(predicate: Predicate, skipped: int = 0) -> Anchor:
    """Where a predicate starts, when so many of the parentheses before it belong to earlier lines."""
    while isinstance(predicate, And | Or):
        predicate = predicate.terms[0]
    return Anchor(predicate.span.start, skipped=skipped)


def ends_in_name(predicate: Predicate) -> bool:
    """True when the last word is a name, which a parenthesis behind it would turn into a call."""
    match predicate:
        case Compare(right=BareName(is_meta=False)):
            return True
        case Not(term=last) | And(terms=(*_, last)) | Or(terms=(*_, last)):
            return not _needs_parentheses(last, predicate) and ends_in_name(last)
        case _:
            return False


def _format_call(call: Call) -> str:
    parts = [format_expr(argument) for argument in call.arguments]
    parts += (f"{name.text}={format_expr(value)}" for name, value in call.options)
    distinct = ["distinct"] if call.distinct else []
    return f"{call.function.text}({' '.join([*distinct, ', '.join(parts)]).rstrip()})"


def _format_term(term: Predicate, parent: Predicate) -> str:
    text = format_predicate(term)
    return f"({text})" if _needs_parentheses(term, parent) else text


def _build_term_item(term: Predicate, parent: Predicate, depth: int, anchor: Anchor, prefix: str) -> Item:
    if not _needs_parentheses(term, parent):
        return build_predicate_item(term, depth, anchor, prefix)
    # Behind a word, all parentheses but this line's own belong to what is inside.
    inner = build_predicate_item(
        term, depth + 1, find_predicate_start(term, 1 if prefix else (anchor.skipped or 0) + 1)
    )
    flat = PrintedLine(depth, f"{prefix}({format_predicate(term)})", anchor)
    # The closing parenthesis has no anchor: where it stands is not in the tree.
    return LineGroup(flat, (PrintedLine(depth, f"{prefix}(", anchor), inner, PrintedLine(depth, ")")))


def _needs_parentheses(term: Predicate, parent: Predicate) -> bool:
    """`or` needs them everywhere, `and` everywhere but in an `or`: one joiner inside the same stays nested."""
    match term:
        case Or():
            return True
        case And():
            return not isinstance(parent, Or)
        case _:
            return False


def _get_connective(predicate: And | Or) -> str:
    return "and" if isinstance(predicate, And) else "or"
