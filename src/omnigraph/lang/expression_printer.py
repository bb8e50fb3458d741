"""Print expressions, clauses and literals on one line, as messages quote them and the formatter writes them."""

from collections.abc import Iterator, Sequence
from typing import assert_never

from omnigraph.lang.lexer import is_invisible
from omnigraph.lang.literals import (
    BaseType,
    BoolLiteral,
    DateLiteral,
    DateTimeLiteral,
    EnumType,
    FloatLiteral,
    IntLiteral,
    ListLiteral,
    ListType,
    Literal,
    NullLiteral,
    RecordType,
    StringLiteral,
    TypeExpr,
    VectorType,
)
from omnigraph.lang.query_ast import (
    AllProperties,
    And,
    Arithmetic,
    ArithmeticOp,
    Assignment,
    BareName,
    Binding,
    Block,
    Call,
    Case,
    Clause,
    Compare,
    Each,
    EdgeName,
    Either,
    Expr,
    Field,
    Index,
    IsNull,
    Let,
    ListExpr,
    LiteralExpr,
    Negate,
    Not,
    NotBlock,
    OptionalBlock,
    Or,
    OrderKey,
    PathClause,
    Predicate,
    PropertyRef,
    Record,
    Star,
    TraversalClause,
    Variable,
    Where,
    Window,
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


def print_type(type_: TypeExpr) -> str:
    """Print a type of either language, without the `?` that belongs to its property or parameter."""
    match type_:
        case BaseType(name=name):
            return name
        case ListType(element=element):
            return f"[{_print_record_type(element) if isinstance(element, RecordType) else print_type(element)}]"
        case VectorType(size=size):
            return f"Vector({size})"
        case EnumType(values=values):
            return f"enum({', '.join(value.text for value in values)})"
        case _:
            assert_never(type_)


def _print_record_type(record: RecordType) -> str:
    fields = (f"{each.name.text}: {print_type(each.type)}{'?' if each.nullable else ''}" for each in record.fields)
    return f"{{{', '.join(fields)}}}"


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
        case AllProperties(variable=variable):
            return f"${variable.name}.*"
        case Record(items=fields):
            return f"{{ {', '.join(f'{field.name.text}: {format_expr(field.value)}' for field in fields)} }}"
        case Block():
            return _format_block(expr)
        case _:
            return _format_operator(expr)


def _format_operator(expr: Arithmetic | Negate | Index | Field | Predicate) -> str:
    match expr:
        case Field(operand=operand, name=name, is_meta=is_meta):
            return f"{_format_record_operand(operand)}.{'@' if is_meta else ''}{name.text}"
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
            text = format_expr(term)
            return f"not ({text})" if needs_parentheses(term, expr) else f"not {text}"
        case And(terms=terms) | Or(terms=terms):
            return f" {get_connective(expr)} ".join(_format_operand(term, _get_level(expr) + 1) for term in terms)
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
        case Index() | Field():
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


def _format_record_operand(operand: Expr) -> str:
    text = _format_operand(operand, _INDEX)
    # Without parentheses `$r.name`, `@id.name` and `1.name` are read as something else.
    is_whole = isinstance(operand, Variable | BareName | AllProperties | LiteralExpr)
    return f"({text})" if is_whole else text


def _format_block(block: Block) -> str:
    parts = [format_clauses(block.clauses)]
    if block.value is not None:
        distinct = "distinct " if block.distinct else ""
        parts.append(f"return {distinct}{format_expr(block.value)}")
    parts += format_tail(block.order, block.limit)
    return f"{block.kind.value} {{ {' '.join(parts)} }}"


def format_tail(order: Sequence[OrderKey], limit: Expr | None) -> list[str]:
    """Format an order and a limit where they stand on the line of what they belong to."""
    parts: list[str] = []
    if order:
        parts.append(f"order {{ {', '.join(map(format_order_key, order))} }}")
    if limit is not None:
        parts.append(f"limit {format_expr(limit)}")
    return parts


def format_order_key(key: OrderKey) -> str:
    """Format `expr asc`."""
    direction = {None: "", False: " asc", True: " desc"}[key.descending]
    return format_expr(key.value) + direction


def format_per(keys: Sequence[Expr]) -> str:
    """Format `per { key, … }`."""
    return f"per {{ {', '.join(map(format_expr, keys))} }}"


def _format_window(window: Window) -> str:
    parts = [format_per(window.per)] if window.per else []
    parts += format_tail(window.order, None)
    return f"over {{ {' '.join(parts)} }}" if parts else "over {}"


def _format_case(case: Case) -> str:
    parts = [f"{format_expr(branch.condition)} => {format_expr(branch.value)}" for branch in case.branches]
    if case.otherwise is not None:
        parts.append(f"else => {format_expr(case.otherwise)}")
    return f"case {{ {', '.join(parts)} }}"


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
    # A name before a parenthesis is a function, and some names before a brace start a block.
    return following.startswith(("-", "[")) or (following.startswith(("(", "{")) and _ends_in_name(expr))


def _format_call(call: Call) -> str:
    parts = [format_expr(argument) for argument in call.arguments]
    parts += (f"{name.text}={format_expr(value)}" for name, value in call.options)
    inside = ["distinct"] if call.distinct else []
    inside.append(", ".join(parts))
    if call.where is not None:
        inside.append(f"where {format_expr(call.where)}")
    inside += format_tail(call.order, call.limit)
    window = "" if call.window is None else f" {_format_window(call.window)}"
    return f"{call.function.text}({' '.join(inside).rstrip()}){window}"


def needs_parentheses(term: Expr, parent: And | Or | Not) -> bool:
    """Return whether a term needs parentheses; an `and` in an `and` does, so that nesting survives."""
    if isinstance(parent, Not):
        # After `not`, a brace starts a block and no record.
        return _get_level(term) < _NOT or format_expr(term).startswith("{")
    return _get_level(term) < _get_level(parent) + 1


def get_connective(predicate: And | Or) -> str:
    """Return the word between the terms."""
    return "and" if isinstance(predicate, And) else "or"


# --- clauses ---------------------------------------------------------------------------------------------


def format_clauses(clauses: Sequence[Clause]) -> str:
    """Format clauses on one line."""
    return "; ".join(map(format_clause, clauses))


def format_clause(clause: Clause) -> str:
    """Format a clause on one line."""
    match clause:
        case Binding(filters=filters):
            braces = f" {{ {format_assignments(filters)} }}" if filters else ""
            return format_binding_head(clause) + braces
        case TraversalClause():
            return format_hop(clause)
        case PathClause():
            return f"{format_path_head(clause)}{format_hop(clause.hop)}{format_weight(clause)}"
        case Where(predicate=predicate):
            return format_expr(predicate)
        case Let(variable=variable, value=value):
            return f"let ${variable.name} = {format_expr(value)}"
        case Each(variable=variable, value=value):
            return f"each ${variable.name} in {format_expr(value)}"
        case NotBlock(clauses=clauses):
            return f"not {{ {format_clauses(clauses)} }}"
        case OptionalBlock(clauses=clauses):
            return f"optional {{ {format_clauses(clauses)} }}"
        case Either(alternatives=alternatives):
            return f"either {' or '.join(f'{{ {format_clauses(each)} }}' for each in alternatives)}"
        case _:
            assert_never(clause)


def format_binding_head(binding: Binding) -> str:
    """Format `$p: Person` or `$p: (Person|Company)`, without the filters."""
    return f"${binding.variable.name}: {format_choice([name.text for name in binding.types])}"


def format_choice(names: Sequence[str]) -> str:
    """Format one name, or several in parentheses."""
    return names[0] if len(names) == 1 else f"({'|'.join(names)})"


def format_path_head(path: PathClause) -> str:
    """Format `path $w = `."""
    return f"{path.kind.value} ${path.variable.name} = "


def format_weight(path: PathClause) -> str:
    """Format ` by { weight }`, where a path has one."""
    return "" if path.weight is None else f" by {{ {format_expr(path.weight)} }}"


def format_hop(hop: TraversalClause) -> str:
    """Format `$a knows{1,3} $b` with the conditions after it."""
    return " ".join([format_hop_head(hop), *iter_hop_conditions(hop)])


def format_hop_head(hop: TraversalClause) -> str:
    """Format `$a knows{1,3} $b` without the conditions after it."""
    # `*` alone would be read as a product after a variable.
    needs_parentheses = hop.edge_variable is None and not hop.is_undirected
    edge = format_choice([_format_edge(each) for each in hop.edges]) if hop.edges else "*"
    if not hop.edges and needs_parentheses:
        edge = "(*)"
    if hop.is_undirected:
        edge = f"<{edge}>"
    if hop.edge_variable is not None:
        edge = f"${hop.edge_variable.name}:{edge}"
    if hop.bounds is not None:
        high = "*" if hop.bounds.high is None else str(hop.bounds.high)
        edge += f"{{{hop.bounds.low},{high}}}"
    return f"${hop.source.name} {edge} ${hop.target.name}"


def iter_hop_conditions(hop: TraversalClause) -> Iterator[str]:
    """Yield `along { … }` and `through { … }`, where a hop has them."""
    for word, conditions in (("along", hop.along), ("through", hop.through)):
        if conditions:
            yield f"{word} {{ {'; '.join(map(format_expr, conditions))} }}"


def _format_edge(edge: EdgeName) -> str:
    return quote(edge.name.text) if edge.is_text else edge.name.text


def format_assignments(assignments: Sequence[Assignment]) -> str:
    """Format `name: value, …`."""
    return ", ".join(map(format_assignment, assignments))


def format_assignment(assignment: Assignment) -> str:
    """Format `name: value`."""
    return f"{assignment.name.text}: {format_expr(assignment.value)}"
