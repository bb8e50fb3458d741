"""The items that a query's canonical text is made of."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from omnigraph.lang.layout import Anchor, Item, LineGroup, PrintedLine, append_suffix
from omnigraph.lang.print_predicate import (
    build_predicate_item,
    ends_in_name,
    find_predicate_start,
    format_expr,
    format_predicate,
)
from omnigraph.lang.print_values import print_type, quote
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
    Read,
    TraversalClause,
    Update,
    Where,
)


def build_query_items(query: Query) -> list[Item]:
    """One query, from `query` to its closing brace."""
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
        behind = query.annotations[0].span.start if annotations else body
        signature = LineGroup(
            call,
            (
                PrintedLine(0, f"query {query.name.text}(", start),
                *_build_list_lines(
                    1, ((text, param.span.start) for text, param in zip(params, query.params, strict=True))
                ),
                PrintedLine(0, ")", Anchor(behind, (")",)), closes=True),
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
    behind_return = tail[0] if tail else ("}", end)
    first = read.projections[0].span.start
    items: list[Item] = [
        PrintedLine(1, "match {", Anchor(read.clauses[0].span.start, ("match",))),
        *_build_clauses(read.clauses, 2),
        PrintedLine(1, "}", Anchor(first, ("return", "}")), closes=True),
        PrintedLine(1, "return distinct {" if read.distinct else "return {", Anchor(first, ("return",))),
        *(PrintedLine(2, _format_projection(each), Anchor(each.span.start)) for each in read.projections),
        _build_closing_brace(1, behind_return),
    ]
    if read.order:
        behind_order = tail[1] if len(tail) > 1 else ("}", end)
        items.append(_build_order(read.order, behind_order))
    if read.limit is not None:
        items.append(PrintedLine(1, f"limit {format_expr(read.limit)}", Anchor(read.limit.span.start, ("limit",))))
    if read.offset is not None:
        items.append(PrintedLine(1, f"offset {format_expr(read.offset)}", Anchor(read.offset.span.start, ("offset",))))
    return items


def _iter_tail(read: Read) -> Iterable[tuple[str, int | None]]:
    yield "order", read.order[0].span.start if read.order else None
    yield "limit", read.limit.span.start if read.limit is not None else None
    yield "offset", read.offset.span.start if read.offset is not None else None


def _build_closing_brace(depth: int, behind: tuple[str, int]) -> PrintedLine:
    """The brace in front of the word that follows the block."""
    word, place = behind
    return PrintedLine(depth, "}", Anchor(place, (word, "}")), closes=True)


def _build_order(keys: Sequence[OrderKey], behind: tuple[str, int]) -> LineGroup:
    start = Anchor(keys[0].span.start, ("order",))
    texts = list(map(_format_order_key, keys))
    lines = _build_list_lines(2, ((text, key.span.start) for text, key in zip(texts, keys, strict=True)))
    return LineGroup(
        PrintedLine(1, f"order {{ {', '.join(texts)} }}", start),
        (PrintedLine(1, "order {", start), *lines, _build_closing_brace(1, behind)),
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
            here[-1] = append_suffix(here[-1], ";")
        items += here
    return items


def _is_readable_as_call(clause: Clause, following: Clause) -> bool:
    """`$a = name` in front of `($b = 1 or …)`."""
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
    """`head` and a block of assignments whose brace is the last one before `end`, or before the `words` there."""
    lines = _build_list_lines(flat.depth + 1, ((_format_assignment(each), each.span.start) for each in assignments))
    close = PrintedLine(flat.depth, "}", Anchor(end, (*words, "}")), closes=True)
    return LineGroup(flat, (PrintedLine(flat.depth, head, flat.anchor), *lines, close))


def _build_list_lines(depth: int, parts: Iterable[tuple[str, int]]) -> list[PrintedLine]:
    """One line each, with commas between."""
    listed = list(parts)
    last = len(listed) - 1
    return [
        PrintedLine(depth, text if index == last else f"{text},", Anchor(start))
        for index, (text, start) in enumerate(listed)
    ]
