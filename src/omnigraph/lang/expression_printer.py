"""Print expressions and literals of the languages, as messages quote them and the formatter writes them."""

from typing import assert_never

from omnigraph.lang.layout import Anchor, Item, LineGroup, PrintedLine
from omnigraph.lang.lexer import is_invisible
from omnigraph.lang.literals import (
    BoolLiteral,
    DateLiteral,
    DateTimeLiteral,
    FloatLiteral,
    IntLiteral,
    ListLiteral,
    Literal,
    NullLiteral,
    StringLiteral,
)
from omnigraph.lang.query_ast import (
    And,
    Arithmetic,
    ArithmeticOp,
    BareName,
    Call,
    Case,
    Compare,
    Expr,
    Index,
    IsNull,
    ListExpr,
    LiteralExpr,
    Negate,
    Not,
    Or,
    Predicate,
    PropertyRef,
    Star,
    Variable,
)

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
# Zero-width joiner and non-joiner, and the selectors between text and emoji.
_JOINERS = frozenset("\u200c\u200d\ufe0e\ufe0f")


def quote(value: str) -> str:
    """Quote the text as a string literal; invisible characters are escaped, so that texts that look equal are equal.

    Joiners and emoji selectors stay unescaped after a character that is not ASCII, whose look they change.
    """
    parts: list[str] = []
    for char in value:
        if char in _ESCAPES:
            parts.append(_ESCAPES[char])
        elif is_invisible(char) and not (char in _JOINERS and parts and not parts[-1].isascii()):
            parts.append(_escape(char))
        else:
            parts.append(char)
    return f'"{"".join(parts)}"'


def print_float(value: float) -> str:
    """Print the shortest text that parses to the same number, with digits on both sides of the point."""
    mantissa, _, exponent = repr(value).partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def print_literal(literal: Literal) -> str:
    """Print a literal of either language."""
    match literal:
        case StringLiteral(value=value):
            return quote(value)
        case IntLiteral(value=number):
            return str(number)
        case FloatLiteral(value=real):
            return print_float(real)
        case BoolLiteral(value=flag):
            return "true" if flag else "false"
        case NullLiteral():
            return "null"
        case DateLiteral(text=text):
            return f"date({quote(text)})"
        case DateTimeLiteral(text=text):
            return f"datetime({quote(text)})"
        case ListLiteral(items=items):
            return f"[{', '.join(map(print_literal, items))}]"
        case _:
            assert_never(literal)


def _escape(char: str) -> str:
    # `\uXXXX` is one UTF-16 unit; a character outside the basic plane takes two.
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def format_expr(expr: Expr) -> str:
    """Format an expression on one line."""
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
        case ListExpr(items=items):
            return f"[{', '.join(map(format_expr, items))}]"
        case Case():
            return _format_case(expr)
        case _:
            return _format_operator(expr)


def _format_operator(expr: Arithmetic | Negate | Index | Predicate) -> str:
    match expr:
        case Arithmetic(op=op, left=left, right=right):
            level = _get_level(expr)
            return f"{_format_operand(left, level)} {op.value} {_format_operand(right, level + 1)}"
        case Negate(operand=operand):
            return _format_negation(operand)
        case Index(operand=operand, index=index):
            return f"{_format_operand(operand, _INDEX)}[{format_expr(index)}]"
        case Compare(op=op, left=left, right=right):
            return f"{_format_operand(left, _SUM)} {op.value} {_format_operand(right, _SUM)}"
        case IsNull(operand=operand, negated=negated):
            return f"{_format_operand(operand, _SUM)} is {'not ' if negated else ''}null"
        case Not(term=term):
            return f"not {_format_operand(term, _NOT)}"
        case And(terms=terms) | Or(terms=terms):
            return f" {_get_connective(expr)} ".join(_format_operand(term, _get_level(expr) + 1) for term in terms)
        case _:
            assert_never(expr)


# How tightly an expression binds, loosest first; an operand that binds less tightly than its place needs parentheses.
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN, _INDEX, _PRIMARY = range(9)


def _get_level(expr: Expr) -> int:
    match expr:
        case Or():
            return _OR
        case And():
            return _AND
        case Not():
            return _NOT
        case Compare() | IsNull():
            return _COMPARISON
        case Arithmetic(op=ArithmeticOp.ADD | ArithmeticOp.SUBTRACT):
            return _SUM
        case Arithmetic():
            return _PRODUCT
        case Negate():
            return _SIGN
        case Index():
            return _INDEX
        case _:
            return _PRIMARY


def _format_operand(expr: Expr, level: int) -> str:
    text = format_expr(expr)
    return f"({text})" if _get_level(expr) < level else text


def _format_negation(operand: Expr) -> str:
    text = _format_operand(operand, _INDEX)
    # `-5` is a literal and `--` no operator, so both need parentheses to be read as a sign again.
    return f"-({text})" if text[0] == "-" or text[0].isdigit() else f"-{text}"


def _format_case(case: Case) -> str:
    parts = [f"{format_expr(branch.condition)} => {format_expr(branch.value)}" for branch in case.branches]
    if case.otherwise is not None:
        parts.append(f"else => {format_expr(case.otherwise)}")
    return f"case {{ {', '.join(parts)} }}"


def build_predicate_item(predicate: Expr, depth: int, anchor: Anchor, prefix: str = "") -> Item:
    """Build a predicate after `prefix`, which can be broken before each `and` and `or`."""
    flat = PrintedLine(depth, prefix + format_expr(predicate), anchor)
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


def find_predicate_start(predicate: Expr, skipped: int = 0) -> Anchor:
    """Find where a predicate starts if `skipped` parentheses before it belong to earlier lines."""
    while isinstance(predicate, And | Or):
        predicate = predicate.terms[0]
    return Anchor(predicate.span.start, skipped=skipped)


def _ends_in_name(expr: Expr) -> bool:
    """Return whether the last word is a name, which a parenthesis after it would turn into a call."""
    match expr:
        case BareName(is_meta=is_meta):
            return not is_meta
        case Compare(right=last) | Arithmetic(right=last) | Negate(operand=last) | Not(term=last):
            return _ends_in_name(last) and not format_expr(expr).endswith(")")
        case And(terms=(*_, last)) | Or(terms=(*_, last)):
            return _ends_in_name(last) and not format_expr(expr).endswith(")")
        case _:
            return False


def is_read_on(expr: Expr, following: str) -> bool:
    """Return whether the parser would read `following` as the continuation of an expression before it."""
    return following.startswith(("-", "[")) or (following.startswith("(") and _ends_in_name(expr))


def _format_call(call: Call) -> str:
    parts = [format_expr(argument) for argument in call.arguments]
    parts += (f"{name.text}={format_expr(value)}" for name, value in call.options)
    distinct = ["distinct"] if call.distinct else []
    return f"{call.function.text}({' '.join([*distinct, ', '.join(parts)]).rstrip()})"


def _build_term_item(term: Expr, parent: And | Or | Not, depth: int, anchor: Anchor, prefix: str) -> Item:
    if not _needs_parentheses(term, parent):
        return build_predicate_item(term, depth, anchor, prefix)
    # After a word, all parentheses but this line's own belong to what is inside.
    inner = build_predicate_item(
        term, depth + 1, find_predicate_start(term, 1 if prefix else (anchor.skipped or 0) + 1)
    )
    flat = PrintedLine(depth, f"{prefix}({format_expr(term)})", anchor)
    # The closing parenthesis has no anchor: its position is not in the tree.
    return LineGroup(flat, (PrintedLine(depth, f"{prefix}(", anchor), inner, PrintedLine(depth, ")")))


def _needs_parentheses(term: Expr, parent: And | Or | Not) -> bool:
    """Return whether a term needs parentheses; an `and` in an `and` does, so that nesting survives."""
    return _get_level(term) < (_NOT if isinstance(parent, Not) else _get_level(parent) + 1)


def _get_connective(predicate: And | Or) -> str:
    return "and" if isinstance(predicate, And) else "or"
