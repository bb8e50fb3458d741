"""The pretty printer: the canonical text of a syntax tree without errors, which parses to an equal tree."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from omnigraph.lang.expression_printer import (
    build_predicate_item,
    find_predicate_start,
    format_expr,
    is_read_on,
    print_literal,
    quote,
)
from omnigraph.lang.layout import Anchor, Item, LineGroup, PrintedLine, append_suffix, lay_out
from omnigraph.lang.literals import (
    BaseType,
    EnumType,
    ListType,
    Name,
    TypeExpr,
    VectorType,
)
from omnigraph.lang.query_ast import (
    Assignment,
    Binding,
    Clause,
    Delete,
    Insert,
    Mutation,
    NotBlock,
    OrderKey,
    ParamDecl,
    Projection,
    Query,
    QueryAnnotation,
    QueryFile,
    Read,
    TraversalClause,
    Update,
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
        *_build_projections(read.projections),
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


def _build_projections(projections: Sequence[Projection]) -> list[Item]:
    items: list[Item] = []
    for index, projection in enumerate(projections):
        text = _format_projection(projection)
        following = _format_projection(projections[index + 1]) if index + 1 < len(projections) else ""
        # Without the separator the parser would read both columns as one.
        if projection.alias is None and is_read_on(projection.value, following):
            text += ","
        items.append(PrintedLine(2, text, Anchor(projection.span.start)))
    return items


def _format_projection(projection: Projection) -> str:
    alias = f" as {projection.alias.text}" if projection.alias is not None else ""
    return format_expr(projection.value) + alias


# --- clauses ---------------------------------------------------------------------------------------------


def _build_clauses(clauses: Sequence[Clause], depth: int) -> list[Item]:
    items: list[Item] = []
    for index, clause in enumerate(clauses):
        here = _build_clause(clause, depth)
        following = clauses[index + 1] if index + 1 < len(clauses) else None
        text = None if following is None else _format_clause(following)
        if text is not None and isinstance(clause, Where) and is_read_on(clause.predicate, text):
            # Without the separator the parser would read both clauses as one.
            here[-1] = append_suffix(here[-1], ";")
        items += here
    return items


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
            return format_expr(predicate)
        case NotBlock(clauses=clauses):
            return f"not {{ {'; '.join(map(_format_clause, clauses))} }}"
        case _:
            assert_never(clause)


def _format_binding_head(binding: Binding) -> str:
    return f"${binding.variable.name}: {binding.type.text}"


def _format_hop(hop: TraversalClause) -> str:
    edge = quote(hop.edge.text) if hop.edges[0].is_text else hop.edge.text
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
            flat = PrintedLine(1, f"update {type_.text} {set_.text} where {format_expr(where)}", start)
            return LineGroup(
                flat,
                (
                    PrintedLine(1, f"update {type_.text}", start),
                    _build_braced_group(set_, "set {", assignments, before, "where"),
                    build_predicate_item(where, 2, Anchor(before, ("where",)), "where "),
                ),
            )
        case Delete(type=type_, where=where):
            flat = PrintedLine(1, f"delete {type_.text} where {format_expr(where)}", start)
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


__all__ = ["format_expr", "print_literal", "print_queries", "print_schema", "print_type", "quote"]


def print_schema(tree: SchemaFile) -> str:
    """Print the canonical text of a schema, without comments; spans have no influence."""
    return _join_lines([build_declaration_items(declaration) for declaration in tree.declarations])


def print_queries(tree: QueryFile) -> str:
    """Print the canonical text of queries, without comments; spans have no influence."""
    return _join_lines([build_query_items(query) for query in tree.queries])


def _join_lines(declarations: Sequence[Sequence[Item]]) -> str:
    return "".join(f"{chr(10) if line.blank_before else ''}{line}\n" for line in lay_out(declarations))
