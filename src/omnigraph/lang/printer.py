"""The pretty printer: the canonical text of a syntax tree without errors, which parses to an equal tree."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from omnigraph.lang.layout import Anchor, Item, LineGroup, PrintedLine, append_suffix, lay_out
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
    Name,
    NullLiteral,
    StringLiteral,
    TypeExpr,
    VectorType,
)
from omnigraph.lang.query_ast import (
    And,
    Assignment,
    BareName,
    Binding,
    Call,
    CallPredicate,
    Clause,
    Compare,
    Delete,
    Expr,
    Insert,
    IsNull,
    LiteralExpr,
    Mutation,
    Not,
    NotBlock,
    Or,
    OrderKey,
    ParamDecl,
    Predicate,
    Projection,
    PropertyRef,
    Query,
    QueryAnnotation,
    QueryFile,
    Read,
    Star,
    TraversalClause,
    Update,
    Variable,
    Where,
)
from omnigraph.lang.schema_ast import (
    Annotation,
    Bound,
    CardDecl,
    CheckDecl,
    Declaration,
    EdgeDecl,
    IndexDecl,
    InterfaceDecl,
    KeyDecl,
    Member,
    NodeDecl,
    PropertyDecl,
    RangeDecl,
    SchemaFile,
    UniqueDecl,
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


def print_type(type_: TypeExpr) -> str:
    """Print a type of either language, without the `?` that belongs to its property or parameter."""
    match type_:
        case BaseType(name=name):
            return name
        case ListType(element=element):
            return f"[{element.name}]"
        case VectorType(size=size):
            return f"Vector({size})"
        case EnumType(values=values):
            return f"enum({', '.join(value.text for value in values)})"
        case _:
            assert_never(type_)


def _escape(char: str) -> str:
    # `\uXXXX` is one UTF-16 unit; a character outside the basic plane takes two.
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def build_declaration_items(declaration: Declaration) -> list[Item]:
    """Build the lines of one interface, node or edge."""
    match declaration:
        case InterfaceDecl(name=name, members=members):
            return _build_body(declaration, [f"interface {name.text}"], members)
        case NodeDecl(name=name, annotations=annotations, implements=implements, members=members):
            header = [f"node {name.text}", *map(format_annotation, annotations)]
            if implements:
                header.append(f"implements {_join_names(implements)}")
            return _build_body(declaration, header, members)
        case EdgeDecl(name=name, source=source, target=target, cards=cards, annotations=annotations, members=members):
            header = [
                f"edge {name.text}: {source.text} -> {target.text}",
                *map(_format_card, cards),
                *map(format_annotation, annotations),
            ]
            if members:
                return _build_body(declaration, header, members)
            return [_build_declaration_header(declaration, header, brace="")]
        case _:
            assert_never(declaration)


def format_annotation(annotation: Annotation) -> str:
    """Format `@name`, `@name(arg)` or `@name(arg, option=literal)`."""
    if annotation.argument is None:
        return f"@{annotation.name.text}"
    argument = annotation.argument
    parts = [argument.text if isinstance(argument, Name) else print_literal(argument)]
    parts += (f"{name.text}={print_literal(value)}" for name, value in annotation.options)
    return f"@{annotation.name.text}({', '.join(parts)})"


def _build_body(declaration: Declaration, header: list[str], members: tuple[Member, ...]) -> list[Item]:
    close = PrintedLine(0, "}", Anchor(declaration.span.end, ("}",)), closes=True)
    if not members:
        opened = _build_declaration_header(declaration, header, brace="{")
        return [LineGroup(_build_declaration_header(declaration, header, brace="{}").flat, (opened, close))]
    return [
        _build_declaration_header(declaration, header, brace="{"),
        *(_build_member(member) for member in members),
        close,
    ]


def _build_declaration_header(declaration: Declaration, parts: list[str], *, brace: str) -> LineGroup:
    # Annotations may stand on both sides of `implements` and of `@card`, so the tree's order is not the source's:
    # the parts have no anchors, and comments among them go before the declaration.
    start = Anchor(declaration.span.start)
    flat = PrintedLine(0, " ".join([*parts, brace] if brace else parts), start)
    first, *rest = parts
    broken = [PrintedLine(0, first, start), *(PrintedLine(1, part) for part in rest)]
    if brace:
        broken.append(PrintedLine(0, brace))
    return LineGroup(flat, tuple(broken))


def _build_member(member: Member) -> Item:
    match member:
        case PropertyDecl():
            return _build_property(member)
        case KeyDecl(columns=columns):
            text = f"@key({_join_names(columns)})"
        case UniqueDecl(columns=columns):
            text = f"@unique({_join_names(columns)})"
        case IndexDecl(columns=columns):
            text = f"@index({_join_names(columns)})"
        case RangeDecl(column=column, low=low, high=high):
            text = f"@range({column.text}, {_format_bound(low)}..{_format_bound(high)})"
        case CheckDecl(column=column, pattern=pattern):
            text = f"@check({column.text}, {quote(pattern)})"
        case _:
            assert_never(member)
    return PrintedLine(1, text, Anchor(member.span.start))


def _build_property(member: PropertyDecl) -> Item:
    optional = "?" if member.nullable else ""
    start = Anchor(member.span.start)
    line = PrintedLine(1, f"{member.name.text}: {print_type(member.type)}{optional}", start)
    typed: Item = line
    if isinstance(member.type, EnumType):
        typed = LineGroup(
            line,
            (
                PrintedLine(1, f"{member.name.text}: enum(", start),
                *_iter_value_lines(member.type.values),
                PrintedLine(1, f"){optional}", closes=True),
            ),
        )
    if not member.annotations:
        return typed
    annotations = [(format_annotation(annotation), annotation.span) for annotation in member.annotations]
    flat = PrintedLine(1, " ".join([line.text, *(shown for shown, _ in annotations)]), start)
    return LineGroup(flat, (typed, *(PrintedLine(2, shown, Anchor(span.start)) for shown, span in annotations)))


def _iter_value_lines(names: tuple[Name, ...]) -> Iterable[PrintedLine]:
    last = len(names) - 1
    for index, name in enumerate(names):
        yield PrintedLine(2, name.text if index == last else f"{name.text},", Anchor(name.span.start))


def _join_names(names: Iterable[Name]) -> str:
    return ", ".join(name.text for name in names)


def _format_card(card: CardDecl) -> str:
    return f"@card({card.low}..{'*' if card.high is None else card.high})"


def _format_bound(bound: Bound | None) -> str:
    return "" if bound is None else print_literal(bound)


def build_query_items(query: Query) -> list[Item]:
    """Build the lines of one query, from `query` to its closing brace."""
    body = (
        _build_read_items(query.body, query.span.end)
        if isinstance(query.body, Read)
        else list(map(_build_mutation, query.body))
    )
    return [_build_query_header(query), *body, PrintedLine(0, "}", Anchor(query.span.end, ("}",)), closes=True)]


# --- the header ------------------------------------------------------------------------------------------


def _build_query_header(query: Query) -> Item:
    start = Anchor(query.span.start)
    params = [_format_param(param) for param in query.params]
    annotations = [_format_query_annotation(annotation) for annotation in query.annotations]
    call = PrintedLine(0, f"query {query.name.text}({', '.join(params)})", start)
    flat = PrintedLine(0, " ".join([call.text, *annotations, "{"]), start)
    body = query.body.clauses[0].span.start if isinstance(query.body, Read) else query.body[0].span.start
    signature: Item = call
    if params:
        successor = query.annotations[0].span.start if annotations else body
        signature = LineGroup(
            call,
            (
                PrintedLine(0, f"query {query.name.text}(", start),
                *_build_list_lines(
                    1, ((text, param.span.start) for text, param in zip(params, query.params, strict=True))
                ),
                PrintedLine(0, ")", Anchor(successor, (")",)), closes=True),
            ),
        )
    if not annotations:
        return append_suffix(signature, " {")
    notes = (PrintedLine(1, _format_query_annotation(each), Anchor(each.span.start)) for each in query.annotations)
    words = ("match", "{") if isinstance(query.body, Read) else ("{",)
    return LineGroup(flat, (signature, *notes, PrintedLine(0, "{", Anchor(body, words))))


def _format_param(param: ParamDecl) -> str:
    return f"${param.name.text}: {print_type(param.type)}{'?' if param.nullable else ''}"


def _format_query_annotation(annotation: QueryAnnotation) -> str:
    return f"@{annotation.name.text}({quote(annotation.text)})"


# --- reads -----------------------------------------------------------------------------------------------


def _build_read_items(read: Read, end: int) -> list[Item]:
    tail = [(word, place) for word, place in _iter_tail(read) if place is not None]
    after_return = tail[0] if tail else ("}", end)
    first = read.projections[0].span.start
    items: list[Item] = [
        PrintedLine(1, "match {", Anchor(read.clauses[0].span.start, ("match",))),
        *_build_clauses(read.clauses, 2),
        PrintedLine(1, "}", Anchor(first, ("return", "}")), closes=True),
        PrintedLine(1, "return distinct {" if read.distinct else "return {", Anchor(first, ("return",))),
        *(PrintedLine(2, _format_projection(each), Anchor(each.span.start)) for each in read.projections),
        _build_closing_brace(1, after_return),
    ]
    if read.order:
        after_order = tail[1] if len(tail) > 1 else ("}", end)
        items.append(_build_order(read.order, after_order))
    if read.limit is not None:
        items.append(PrintedLine(1, f"limit {format_expr(read.limit)}", Anchor(read.limit.span.start, ("limit",))))
    if read.offset is not None:
        items.append(PrintedLine(1, f"offset {format_expr(read.offset)}", Anchor(read.offset.span.start, ("offset",))))
    return items


def _iter_tail(read: Read) -> Iterable[tuple[str, int | None]]:
    yield "order", read.order[0].span.start if read.order else None
    yield "limit", read.limit.span.start if read.limit is not None else None
    yield "offset", read.offset.span.start if read.offset is not None else None


def _build_closing_brace(depth: int, successor: tuple[str, int]) -> PrintedLine:
    """Build the closing brace before the word that follows the block."""
    word, place = successor
    return PrintedLine(depth, "}", Anchor(place, (word, "}")), closes=True)


def _build_order(keys: Sequence[OrderKey], successor: tuple[str, int]) -> LineGroup:
    start = Anchor(keys[0].span.start, ("order",))
    texts = list(map(_format_order_key, keys))
    lines = _build_list_lines(2, ((text, key.span.start) for text, key in zip(texts, keys, strict=True)))
    return LineGroup(
        PrintedLine(1, f"order {{ {', '.join(texts)} }}", start),
        (PrintedLine(1, "order {", start), *lines, _build_closing_brace(1, successor)),
    )


def _format_order_key(key: OrderKey) -> str:
    direction = {None: "", False: " asc", True: " desc"}[key.descending]
    return format_expr(key.value) + direction


def _format_projection(projection: Projection) -> str:
    alias = f" as {projection.alias.text}" if projection.alias is not None else ""
    return format_expr(projection.value) + alias


# --- clauses ---------------------------------------------------------------------------------------------


def _build_clauses(clauses: Sequence[Clause], depth: int) -> list[Item]:
    items: list[Item] = []
    for index, clause in enumerate(clauses):
        here = _build_clause(clause, depth)
        following = clauses[index + 1] if index + 1 < len(clauses) else None
        if following is not None and _is_readable_as_call(clause, following):
            # Without the separator the parser would read both clauses as one.
            here[-1] = append_suffix(here[-1], ";")
        items += here
    return items


def _is_readable_as_call(clause: Clause, following: Clause) -> bool:
    """Return whether `$a = name` before `($b = 1 or …)` would be parsed as a call."""
    return isinstance(clause, Where) and ends_in_name(clause.predicate) and _format_clause(following).startswith("(")


def _build_clause(clause: Clause, depth: int) -> list[Item]:
    start = Anchor(clause.span.start)
    match clause:
        case Binding(filters=filters):
            head = f"{_format_binding_head(clause)} {{"
            flat = PrintedLine(depth, _format_clause(clause), start)
            return [_build_braced_group(flat, head, filters, clause.span.end) if filters else flat]
        case TraversalClause():
            return [PrintedLine(depth, _format_clause(clause), start)]
        case Where(predicate=predicate):
            return [build_predicate_item(predicate, depth, find_predicate_start(predicate))]
        case NotBlock(clauses=clauses):
            close = PrintedLine(depth, "}", Anchor(clause.span.end, ("}",)), closes=True)
            inside = _build_clauses(clauses, depth + 1)
            block: list[Item] = [PrintedLine(depth, "not {", start), *inside, close]
            return (
                block
                if len(inside) > 1
                else [LineGroup(PrintedLine(depth, _format_clause(clause), start), tuple(block))]
            )
        case _:
            assert_never(clause)


def _format_clause(clause: Clause) -> str:
    match clause:
        case Binding(filters=filters):
            braces = f" {{ {_format_assignments(filters)} }}" if filters else ""
            return _format_binding_head(clause) + braces
        case TraversalClause():
            return f"${clause.source.name} {_format_hop(clause)} ${clause.target.name}"
        case Where(predicate=predicate):
            return format_predicate(predicate)
        case NotBlock(clauses=clauses):
            return f"not {{ {'; '.join(map(_format_clause, clauses))} }}"
        case _:
            assert_never(clause)


def _format_binding_head(binding: Binding) -> str:
    return f"${binding.variable.name}: {binding.type.text}"


def _format_hop(hop: TraversalClause) -> str:
    edge = quote(hop.edge.text) if hop.edge_is_text else hop.edge.text
    if hop.is_undirected:
        edge = f"<{edge}>"
    if hop.edge_variable is not None:
        edge = f"${hop.edge_variable.name}:{edge}"
    if hop.bounds is not None:
        edge += f"{{{hop.bounds.low},{hop.bounds.high}}}"
    return edge


# --- mutations -------------------------------------------------------------------------------------------


def _build_mutation(mutation: Mutation) -> Item:
    start = Anchor(mutation.span.start)
    match mutation:
        case Insert(type=type_, assignments=assignments):
            flat = PrintedLine(1, f"insert {type_.text} {_format_braces(assignments)}", start)
            return _build_braced_group(flat, f"insert {type_.text} {{", assignments, mutation.span.end)
        case Update(type=type_, assignments=assignments, where=where):
            before = where.span.start
            place = Anchor(assignments[0].span.start if assignments else before, ("set",))
            set_ = PrintedLine(2, f"set {_format_braces(assignments)}", place)
            flat = PrintedLine(1, f"update {type_.text} {set_.text} where {format_predicate(where)}", start)
            return LineGroup(
                flat,
                (
                    PrintedLine(1, f"update {type_.text}", start),
                    _build_braced_group(set_, "set {", assignments, before, "where"),
                    build_predicate_item(where, 2, Anchor(before, ("where",)), "where "),
                ),
            )
        case Delete(type=type_, where=where):
            flat = PrintedLine(1, f"delete {type_.text} where {format_predicate(where)}", start)
            condition = build_predicate_item(where, 2, Anchor(where.span.start, ("where",)), "where ")
            return LineGroup(flat, (PrintedLine(1, f"delete {type_.text}", start), condition))
        case _:
            assert_never(mutation)


def _format_braces(assignments: Sequence[Assignment]) -> str:
    return f"{{ {_format_assignments(assignments)} }}" if assignments else "{}"


def _format_assignments(assignments: Sequence[Assignment]) -> str:
    return ", ".join(map(_format_assignment, assignments))


def _format_assignment(assignment: Assignment) -> str:
    return f"{assignment.name.text}: {format_expr(assignment.value)}"


def _build_braced_group(
    flat: PrintedLine, head: str, assignments: Sequence[Assignment], end: int, *words: str
) -> LineGroup:
    """Build `head` and a block of assignments whose brace is the last one before `end`, or before the `words` there."""
    lines = _build_list_lines(flat.depth + 1, ((_format_assignment(each), each.span.start) for each in assignments))
    close = PrintedLine(flat.depth, "}", Anchor(end, (*words, "}")), closes=True)
    return LineGroup(flat, (PrintedLine(flat.depth, head, flat.anchor), *lines, close))


def _build_list_lines(depth: int, parts: Iterable[tuple[str, int]]) -> list[PrintedLine]:
    """Build one line per item, separated by commas."""
    listed = list(parts)
    last = len(listed) - 1
    return [
        PrintedLine(depth, text if index == last else f"{text},", Anchor(start))
        for index, (text, start) in enumerate(listed)
    ]


def format_expr(expr: Expr) -> str:
    """Format an expression."""
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
    """Format a predicate on one line."""
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
    """Build a predicate after `prefix`, which can be broken before each `and` and `or`."""
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
    """Find where a predicate starts if `skipped` parentheses before it belong to earlier lines."""
    while isinstance(predicate, And | Or):
        predicate = predicate.terms[0]
    return Anchor(predicate.span.start, skipped=skipped)


def ends_in_name(predicate: Predicate) -> bool:
    """Return whether the last word is a name, which a parenthesis after it would turn into a call."""
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
    # After a word, all parentheses but this line's own belong to what is inside.
    inner = build_predicate_item(
        term, depth + 1, find_predicate_start(term, 1 if prefix else (anchor.skipped or 0) + 1)
    )
    flat = PrintedLine(depth, f"{prefix}({format_predicate(term)})", anchor)
    # The closing parenthesis has no anchor: its position is not in the tree.
    return LineGroup(flat, (PrintedLine(depth, f"{prefix}(", anchor), inner, PrintedLine(depth, ")")))


def _needs_parentheses(term: Predicate, parent: Predicate) -> bool:
    """Return whether a term needs parentheses: an `or` always, an `and` except in an `or`, so that nesting survives."""
    match term:
        case Or():
            return True
        case And():
            return not isinstance(parent, Or)
        case _:
            return False


def _get_connective(predicate: And | Or) -> str:
    return "and" if isinstance(predicate, And) else "or"


__all__ = ["print_expr", "print_literal", "print_predicate", "print_queries", "print_schema", "print_type", "quote"]


def print_schema(tree: SchemaFile) -> str:
    """Print the canonical text of a schema, without comments; spans have no influence."""
    return _join_lines([build_declaration_items(declaration) for declaration in tree.declarations])


def print_queries(tree: QueryFile) -> str:
    """Print the canonical text of queries, without comments; spans have no influence."""
    return _join_lines([build_query_items(query) for query in tree.queries])


def print_expr(expr: Expr) -> str:
    """Print an expression as it would be written, for messages."""
    return format_expr(expr)


def print_predicate(predicate: Predicate) -> str:
    """Print a predicate as it would be written, for messages."""
    return format_predicate(predicate)


def _join_lines(declarations: Sequence[Sequence[Item]]) -> str:
    return "".join(f"{chr(10) if line.blank_before else ''}{line}\n" for line in lay_out(declarations))
