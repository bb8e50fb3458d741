"""The canonical text of expressions and predicates; parentheses only where the tree needs them."""

from typing import assert_never

from omnigraph.lang.layout import Anchor, Group, Item, Line
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


def expr_text(expr: Expr) -> str:
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
            return _call_text(expr)
        case LiteralExpr(value=value):
            return print_literal(value)
        case _:
            assert_never(expr)


def predicate_text(predicate: Predicate) -> str:
    """One predicate on one line."""
    match predicate:
        case Compare(op=op, left=left, right=right):
            return f"{expr_text(left)} {op.value} {expr_text(right)}"
        case IsNull(operand=operand, negated=negated):
            return f"{expr_text(operand)} is {'not ' if negated else ''}null"
        case CallPredicate(call=call):
            return expr_text(call)
        case Not(term=term):
            return f"not {_term_text(term, predicate)}"
        case And(terms=terms) | Or(terms=terms):
            return f" {_joiner(predicate)} ".join(_term_text(term, predicate) for term in terms)
        case _:
            assert_never(predicate)


def predicate_item(predicate: Predicate, depth: int, anchor: Anchor, prefix: str = "") -> Item:
    """One predicate behind `prefix`, which can be broken before each `and` and `or`."""
    flat = Line(depth, prefix + predicate_text(predicate), anchor)
    match predicate:
        case And(terms=terms) | Or(terms=terms):
            word = _joiner(predicate)
            first, *rest = terms
            head = _term_item(first, predicate, depth, anchor, prefix)
            tail = (
                _term_item(term, predicate, depth + 1, Anchor(term.span.start, (word,)), f"{word} ") for term in rest
            )
            return Group(flat, (head, *tail))
        case Not(term=term):
            return _term_item(term, predicate, depth, anchor, f"{prefix}not ")
        case _:
            return flat


def start_of(predicate: Predicate, skipped: int = 0) -> Anchor:
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


def _call_text(call: Call) -> str:
    parts = [expr_text(argument) for argument in call.arguments]
    parts += (f"{name.text}={expr_text(value)}" for name, value in call.options)
    distinct = ["distinct"] if call.distinct else []
    return f"{call.function.text}({' '.join([*distinct, ', '.join(parts)]).rstrip()})"


def _term_text(term: Predicate, parent: Predicate) -> str:
    text = predicate_text(term)
    return f"({text})" if _needs_parentheses(term, parent) else text


def _term_item(term: Predicate, parent: Predicate, depth: int, anchor: Anchor, prefix: str) -> Item:
    if not _needs_parentheses(term, parent):
        return predicate_item(term, depth, anchor, prefix)
    # Behind a word, all parentheses but this line's own belong to what is inside.
    inner = predicate_item(term, depth + 1, start_of(term, 1 if prefix else (anchor.skipped or 0) + 1))
    flat = Line(depth, f"{prefix}({predicate_text(term)})", anchor)
    # The closing parenthesis has no anchor: where it stands is not in the tree.
    return Group(flat, (Line(depth, f"{prefix}(", anchor), inner, Line(depth, ")")))


def _needs_parentheses(term: Predicate, parent: Predicate) -> bool:
    """`or` needs them everywhere, `and` everywhere but in an `or`: one joiner inside the same stays nested."""
    match term:
        case Or():
            return True
        case And():
            return not isinstance(parent, Or)
        case _:
            return False


def _joiner(predicate: And | Or) -> str:
    return "and" if isinstance(predicate, And) else "or"
