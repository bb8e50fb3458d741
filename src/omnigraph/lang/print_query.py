"""The items that a query's canonical text is made of."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from omnigraph.lang.layout import Anchor, Group, Item, Line, ending
from omnigraph.lang.print_predicate import ends_in_name, expr_text, predicate_item, predicate_text, start_of
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
    Traversal,
    Update,
    Where,
)


def query_items(query: Query) -> list[Item]:
    """One query, from `query` to its closing brace."""
    body = _read(query.body, query.span.end) if isinstance(query.body, Read) else list(map(_mutation, query.body))
    return [_header(query), *body, Line(0, "}", Anchor(query.span.end, ("}",)), closes=True)]


# --- the header ------------------------------------------------------------------------------------------


def _header(query: Query) -> Item:
    start = Anchor(query.span.start)
    params = [_param_text(param) for param in query.params]
    annotations = [_annotation_text(annotation) for annotation in query.annotations]
    call = Line(0, f"query {query.name.text}({', '.join(params)})", start)
    flat = Line(0, " ".join([call.text, *annotations, "{"]), start)
    body = query.body.clauses[0].span.start if isinstance(query.body, Read) else query.body[0].span.start
    signature: Item = call
    if params:
        behind = query.annotations[0].span.start if annotations else body
        signature = Group(
            call,
            (
                Line(0, f"query {query.name.text}(", start),
                *_listed(1, ((text, param.span.start) for text, param in zip(params, query.params, strict=True))),
                Line(0, ")", Anchor(behind, (")",)), closes=True),
            ),
        )
    if not annotations:
        return ending(signature, " {")
    notes = (Line(1, _annotation_text(each), Anchor(each.span.start)) for each in query.annotations)
    words = ("match", "{") if isinstance(query.body, Read) else ("{",)
    return Group(flat, (signature, *notes, Line(0, "{", Anchor(body, words))))


def _param_text(param: ParamDecl) -> str:
    return f"${param.name.text}: {print_type(param.type)}{'?' if param.nullable else ''}"


def _annotation_text(annotation: QueryAnnotation) -> str:
    return f"@{annotation.name.text}({quote(annotation.text)})"


# --- reads -----------------------------------------------------------------------------------------------


def _read(read: Read, end: int) -> list[Item]:
    tail = [(word, place) for word, place in _tail(read) if place is not None]
    behind_return = tail[0] if tail else ("}", end)
    first = read.projections[0].span.start
    items: list[Item] = [
        Line(1, "match {", Anchor(read.clauses[0].span.start, ("match",))),
        *_clauses(read.clauses, 2),
        Line(1, "}", Anchor(first, ("return", "}")), closes=True),
        Line(1, "return distinct {" if read.distinct else "return {", Anchor(first, ("return",))),
        *(Line(2, _projection_text(each), Anchor(each.span.start)) for each in read.projections),
        _closing(1, behind_return),
    ]
    if read.order:
        behind_order = tail[1] if len(tail) > 1 else ("}", end)
        items.append(_order(read.order, behind_order))
    if read.limit is not None:
        items.append(Line(1, f"limit {expr_text(read.limit)}", Anchor(read.limit.span.start, ("limit",))))
    if read.offset is not None:
        items.append(Line(1, f"offset {expr_text(read.offset)}", Anchor(read.offset.span.start, ("offset",))))
    return items


def _tail(read: Read) -> Iterable[tuple[str, int | None]]:
    yield "order", read.order[0].span.start if read.order else None
    yield "limit", read.limit.span.start if read.limit is not None else None
    yield "offset", read.offset.span.start if read.offset is not None else None


def _closing(depth: int, behind: tuple[str, int]) -> Line:
    """The brace in front of the word that follows the block."""
    word, place = behind
    return Line(depth, "}", Anchor(place, (word, "}")), closes=True)


def _order(keys: Sequence[OrderKey], behind: tuple[str, int]) -> Group:
    start = Anchor(keys[0].span.start, ("order",))
    texts = list(map(_order_key_text, keys))
    lines = _listed(2, ((text, key.span.start) for text, key in zip(texts, keys, strict=True)))
    return Group(
        Line(1, f"order {{ {', '.join(texts)} }}", start),
        (Line(1, "order {", start), *lines, _closing(1, behind)),
    )


def _order_key_text(key: OrderKey) -> str:
    direction = {None: "", False: " asc", True: " desc"}[key.descending]
    return expr_text(key.value) + direction


def _projection_text(projection: Projection) -> str:
    alias = f" as {projection.alias.text}" if projection.alias is not None else ""
    return expr_text(projection.value) + alias


# --- clauses ---------------------------------------------------------------------------------------------


def _clauses(clauses: Sequence[Clause], depth: int) -> list[Item]:
    items: list[Item] = []
    for index, clause in enumerate(clauses):
        here = _clause(clause, depth)
        following = clauses[index + 1] if index + 1 < len(clauses) else None
        if following is not None and _would_read_as_call(clause, following):
            here[-1] = ending(here[-1], ";")
        items += here
    return items


def _would_read_as_call(clause: Clause, following: Clause) -> bool:
    """`$a = name` in front of `($b = 1 or …)`."""
    return isinstance(clause, Where) and ends_in_name(clause.predicate) and _clause_text(following).startswith("(")


def _clause(clause: Clause, depth: int) -> list[Item]:
    start = Anchor(clause.span.start)
    match clause:
        case Binding(filters=filters):
            head = f"{_binding_head(clause)} {{"
            flat = Line(depth, _clause_text(clause), start)
            return [_braced(flat, head, filters, clause.span.end) if filters else flat]
        case Traversal():
            return [Line(depth, _clause_text(clause), start)]
        case Where(predicate=predicate):
            return [predicate_item(predicate, depth, start_of(predicate))]
        case NotBlock(clauses=clauses):
            close = Line(depth, "}", Anchor(clause.span.end, ("}",)), closes=True)
            inside = _clauses(clauses, depth + 1)
            block: list[Item] = [Line(depth, "not {", start), *inside, close]
            return block if len(inside) > 1 else [Group(Line(depth, _clause_text(clause), start), tuple(block))]
        case _:
            assert_never(clause)


def _clause_text(clause: Clause) -> str:
    match clause:
        case Binding(filters=filters):
            braces = f" {{ {_assignments_text(filters)} }}" if filters else ""
            return _binding_head(clause) + braces
        case Traversal():
            return f"${clause.source.name} {_hop_text(clause)} ${clause.target.name}"
        case Where(predicate=predicate):
            return predicate_text(predicate)
        case NotBlock(clauses=clauses):
            return f"not {{ {'; '.join(map(_clause_text, clauses))} }}"
        case _:
            assert_never(clause)


def _binding_head(binding: Binding) -> str:
    return f"${binding.variable.name}: {binding.type.text}"


def _hop_text(hop: Traversal) -> str:
    edge = quote(hop.edge.text) if hop.edge_is_text else hop.edge.text
    if hop.is_undirected:
        edge = f"<{edge}>"
    if hop.edge_variable is not None:
        edge = f"${hop.edge_variable.name}:{edge}"
    if hop.bounds is not None:
        edge += f"{{{hop.bounds.low},{hop.bounds.high}}}"
    return edge


# --- mutations -------------------------------------------------------------------------------------------


def _mutation(mutation: Mutation) -> Item:
    start = Anchor(mutation.span.start)
    match mutation:
        case Insert(type=type_, assignments=assignments):
            flat = Line(1, f"insert {type_.text} {_braces_text(assignments)}", start)
            return _braced(flat, f"insert {type_.text} {{", assignments, mutation.span.end)
        case Update(type=type_, assignments=assignments, where=where):
            before = where.span.start
            place = Anchor(assignments[0].span.start if assignments else before, ("set",))
            set_ = Line(2, f"set {_braces_text(assignments)}", place)
            flat = Line(1, f"update {type_.text} {set_.text} where {predicate_text(where)}", start)
            return Group(
                flat,
                (
                    Line(1, f"update {type_.text}", start),
                    _braced(set_, "set {", assignments, before, "where"),
                    predicate_item(where, 2, Anchor(before, ("where",)), "where "),
                ),
            )
        case Delete(type=type_, where=where):
            flat = Line(1, f"delete {type_.text} where {predicate_text(where)}", start)
            condition = predicate_item(where, 2, Anchor(where.span.start, ("where",)), "where ")
            return Group(flat, (Line(1, f"delete {type_.text}", start), condition))
        case _:
            assert_never(mutation)


def _braces_text(assignments: Sequence[Assignment]) -> str:
    return f"{{ {_assignments_text(assignments)} }}" if assignments else "{}"


def _assignments_text(assignments: Sequence[Assignment]) -> str:
    return ", ".join(map(_assignment_text, assignments))


def _assignment_text(assignment: Assignment) -> str:
    return f"{assignment.name.text}: {expr_text(assignment.value)}"


def _braced(flat: Line, head: str, assignments: Sequence[Assignment], end: int, *words: str) -> Group:
    """`head` and a block of assignments whose brace is the last one before `end`, or before the `words` there."""
    lines = _listed(flat.depth + 1, ((_assignment_text(each), each.span.start) for each in assignments))
    close = Line(flat.depth, "}", Anchor(end, (*words, "}")), closes=True)
    return Group(flat, (Line(flat.depth, head, flat.anchor), *lines, close))


def _listed(depth: int, parts: Iterable[tuple[str, int]]) -> list[Line]:
    """One line each, with commas between."""
    listed = list(parts)
    last = len(listed) - 1
    return [
        Line(depth, text if index == last else f"{text},", Anchor(start)) for index, (text, start) in enumerate(listed)
    ]
