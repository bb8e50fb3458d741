"""The lines of queries and named patterns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from omnigraph.lang.expression_layout import (
    build_assignment_items,
    build_clauses,
    build_expr_item,
    find_predicate_start,
)
from omnigraph.lang.expression_printer import (
    format_assignments,
    format_choice,
    format_expr,
    format_order_key,
    format_per,
    is_read_on,
    print_type,
    quote,
)
from omnigraph.lang.layout import Anchor, Item, LineGroup, PrintedLine, append_suffix
from omnigraph.lang.query_ast import (
    Assignment,
    Clause,
    Delete,
    DeleteMatched,
    DriveMatch,
    Expr,
    Insert,
    Mutation,
    OrderKey,
    ParamDecl,
    PatternDecl,
    Projection,
    Query,
    QueryAnnotation,
    Read,
    Stage,
    Union,
    Update,
    UpdateMatched,
)


@dataclass(frozen=True, slots=True)
class _Successor:
    """What follows a block: an offset, and the words to search back from there for its first token."""

    place: int
    words: tuple[str, ...] = ()

    def find_brace(self) -> Anchor:
        """Return the anchor of the closing brace before it."""
        return Anchor(self.place, (*self.words, "}"))


def build_query_items(query: Query) -> list[Item]:
    """Build the lines of one query, from `query` to its closing brace."""
    end = _Successor(query.span.end, ("}",))
    after_body = end
    if query.returning:
        after_body = _Successor(query.returning[0].span.start, ("returning",))
    match query.body:
        case Read():
            body = _build_read_items(query.body, after_body)
        case Union():
            body = _build_union_items(query.body, after_body)
        case _:
            body = _build_statements(query.body, after_body)
    if query.returning:
        body += _build_columns("returning", query.returning, end)
    return [_build_query_header(query), *body, PrintedLine(0, "}", Anchor(query.span.end, ("}",)), closes=True)]


def build_pattern_items(pattern: PatternDecl) -> list[Item]:
    """Build the lines of one named pattern."""
    params = ", ".join(
        f"${param.variable.name}: {format_choice([name.text for name in param.types])}" for param in pattern.params
    )
    head = PrintedLine(0, f"pattern {pattern.name.text}({params}) {{", Anchor(pattern.span.start))
    close = PrintedLine(0, "}", Anchor(pattern.span.end, ("}",)), closes=True)
    return [head, *build_clauses(pattern.clauses, 1), close]


# --- the header ------------------------------------------------------------------------------------------


def _build_query_header(query: Query) -> Item:
    start = Anchor(query.span.start)
    params = [_format_param(param) for param in query.params]
    annotations = [_format_query_annotation(annotation) for annotation in query.annotations]
    call = PrintedLine(0, f"query {query.name.text}({', '.join(params)})", start)
    flat = PrintedLine(0, " ".join([call.text, *annotations, "{"]), start)
    body = query.body[0].span.start if isinstance(query.body, tuple) else query.body.span.start
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
    return LineGroup(flat, (signature, *notes, PrintedLine(0, "{", Anchor(body, ("{",)))))


def _format_param(param: ParamDecl) -> str:
    return f"${param.name.text}: {print_type(param.type)}{'?' if param.nullable else ''}"


def _format_query_annotation(annotation: QueryAnnotation) -> str:
    return f"@{annotation.name.text}({quote(annotation.text)})"


# --- reads -----------------------------------------------------------------------------------------------


def _build_union_items(union: Union, end: _Successor) -> list[Item]:
    items: list[Item] = []
    tail = [_Successor(place, (word,)) for word, place in _iter_tail(union.order, union.limit, union.offset)]
    following = [*(_Successor(read.span.start, ("union",)) for read in union.reads[1:]), (tail or [end])[0]]
    for index, (read, successor) in enumerate(zip(union.reads, following, strict=True)):
        if index:
            word = "union all" if union.keeps_equal[index - 1] else "union"
            items.append(PrintedLine(1, word, Anchor(read.span.start, ("union",))))
        items += _build_read_items(read, successor)
    return items + _build_tail(union.order, union.limit, (), union.offset, end)


def _build_read_items(read: Read, end: _Successor) -> list[Item]:
    following = _find_stage_start(read)
    return [*_build_stages(read.stages, following), *_build_stage(read, "return", end)]


def _build_stages(stages: Sequence[Stage], end: _Successor) -> list[Item]:
    items: list[Item] = []
    for index, stage in enumerate(stages):
        is_last = index + 1 == len(stages)
        items += _build_stage(stage, "with", end if is_last else _find_stage_start(stages[index + 1]))
    return items


def _find_stage_start(stage: Stage | Read) -> _Successor:
    if stage.clauses:
        return _Successor(stage.clauses[0].span.start, ("match",))
    # After the stages of a read, its own start is not in the tree, but that of its columns is.
    place = stage.projections[0].span.start
    return _Successor(place, ("with" if isinstance(stage, Stage) else "return",))


def _build_stage(stage: Stage | Read, word: str, end: _Successor) -> list[Item]:
    columns = _Successor(stage.projections[0].span.start, (word,))
    tail = [_Successor(place, (part,)) for part, place in _iter_tail(stage.order, stage.limit, stage.offset)]
    if stage.having is not None:
        tail.insert(0, _Successor(stage.having.span.start, ("having",)))
    after_columns, *after_having = [*tail, end]
    head = f"{word} distinct" if stage.distinct else word
    items = _build_match(stage.clauses, columns) if stage.clauses else []
    items += _build_columns(head, stage.projections, after_columns)
    if stage.having is not None:
        items.append(_build_having(stage.having, after_having[0]))
    return items + _build_tail(stage.order, stage.limit, stage.per, stage.offset, end)


def _build_match(clauses: Sequence[Clause], end: _Successor) -> list[Item]:
    return [
        PrintedLine(1, "match {", Anchor(clauses[0].span.start, ("match",))),
        *build_clauses(clauses, 2),
        PrintedLine(1, "}", end.find_brace(), closes=True),
    ]


def _build_columns(head: str, projections: Sequence[Projection], end: _Successor) -> list[Item]:
    """Build `return { … }`, always one column below the other, or `with { … }`, on one line if it fits."""
    word = head.split(maxsplit=1)[0]
    start = Anchor(projections[0].span.start, (word,))
    lines: list[Item] = [
        PrintedLine(1, f"{head} {{", start),
        *_build_projections(projections),
        PrintedLine(1, "}", end.find_brace(), closes=True),
    ]
    if word == "return":
        return lines
    flat = PrintedLine(1, f"{head} {{ {', '.join(map(_format_projection, projections))} }}", start)
    return [LineGroup(flat, tuple(lines))]


def _build_having(condition: Expr, end: _Successor) -> Item:
    start = Anchor(condition.span.start, ("having",))
    flat = PrintedLine(1, f"having {{ {format_expr(condition)} }}", start)
    inner = build_expr_item(condition, 2, find_predicate_start(condition))
    return LineGroup(
        flat, (PrintedLine(1, "having {", start), inner, PrintedLine(1, "}", end.find_brace(), closes=True))
    )


def _build_tail(
    order: Sequence[OrderKey], limit: Expr | None, per: Sequence[Expr], offset: Expr | None, end: _Successor
) -> list[Item]:
    items: list[Item] = []
    after = [_Successor(place, (word,)) for word, place in _iter_tail((), limit, offset)]
    if order:
        items.append(_build_order(order, (after or [end])[0]))
    if limit is not None:
        groups = f" {format_per(per)}" if per else ""
        text = f"limit {format_expr(limit)}{groups}"
        items.append(PrintedLine(1, text, Anchor(limit.span.start, ("limit",))))
    if offset is not None:
        items.append(PrintedLine(1, f"offset {format_expr(offset)}", Anchor(offset.span.start, ("offset",))))
    return items


def _iter_tail(order: Sequence[OrderKey], limit: Expr | None, offset: Expr | None) -> Iterable[tuple[str, int]]:
    """Yield the word and the place of each part that follows the columns."""
    if order:
        yield "order", order[0].span.start
    if limit is not None:
        yield "limit", limit.span.start
    if offset is not None:
        yield "offset", offset.span.start


def _build_order(keys: Sequence[OrderKey], end: _Successor) -> LineGroup:
    start = Anchor(keys[0].span.start, ("order",))
    texts = list(map(format_order_key, keys))
    lines = _build_list_lines(2, ((text, key.span.start) for text, key in zip(texts, keys, strict=True)))
    return LineGroup(
        PrintedLine(1, f"order {{ {', '.join(texts)} }}", start),
        (PrintedLine(1, "order {", start), *lines, PrintedLine(1, "}", end.find_brace(), closes=True)),
    )


def _build_projections(projections: Sequence[Projection]) -> list[Item]:
    items: list[Item] = []
    for index, projection in enumerate(projections):
        alias = f" as {projection.alias.text}" if projection.alias is not None else ""
        following = _format_projection(projections[index + 1]) if index + 1 < len(projections) else ""
        # Without the separator the parser would read both columns as one.
        if projection.alias is None and is_read_on(projection.value, following):
            alias += ","
        item = build_expr_item(projection.value, 2, Anchor(projection.span.start))
        items.append(append_suffix(item, alias))
    return items


def _format_projection(projection: Projection) -> str:
    alias = f" as {projection.alias.text}" if projection.alias is not None else ""
    return format_expr(projection.value) + alias


# --- mutations -------------------------------------------------------------------------------------------


def _build_statements(statements: Sequence[Mutation], end: _Successor) -> list[Item]:
    items: list[Item] = []
    for index, statement in enumerate(statements):
        is_last = index + 1 == len(statements)
        following = end if is_last else _Successor(statements[index + 1].span.start)
        if isinstance(statement, DriveMatch):
            items += _build_drive(statement, following)
        else:
            items.append(_build_mutation(statement))
    return items


def _build_drive(drive: DriveMatch, end: _Successor) -> list[Item]:
    if not drive.clauses:
        return _build_stages(drive.stages, end)
    after_stages = _Successor(drive.clauses[0].span.start, ("match",))
    return [*_build_stages(drive.stages, after_stages), *_build_match(drive.clauses, end)]


def _build_mutation(mutation: Insert | Update | Delete | UpdateMatched | DeleteMatched) -> Item:
    start = Anchor(mutation.span.start)
    match mutation:
        case Insert(type=type_, assignments=assignments):
            head = f"insert {type_.text}"
            flat = PrintedLine(1, f"{head} {_format_braces(assignments)}", start)
            group = _build_braced_group(flat, f"{head} {{", assignments, mutation.span.end)
            return append_suffix(group, _format_insert_tail(mutation))
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
                    build_expr_item(where, 2, Anchor(before, ("where",)), "where "),
                ),
            )
        case Delete(type=type_, where=where):
            flat = PrintedLine(1, f"delete {type_.text} where {format_expr(where)}", start)
            condition = build_expr_item(where, 2, Anchor(where.span.start, ("where",)), "where ")
            return LineGroup(flat, (PrintedLine(1, f"delete {type_.text}", start), condition))
        case UpdateMatched(variable=variable, assignments=assignments):
            head = f"update ${variable.name} set"
            flat = PrintedLine(1, f"{head} {_format_braces(assignments)}", start)
            return _build_braced_group(flat, f"{head} {{", assignments, mutation.span.end)
        case DeleteMatched(variable=variable):
            return PrintedLine(1, f"delete ${variable.name}", start)
        case _:
            assert_never(mutation)


def _format_insert_tail(insert: Insert) -> str:
    name = "" if insert.variable is None else f" as ${insert.variable.name}"
    return (" if absent" if insert.if_absent else "") + name


def _format_braces(assignments: Sequence[Assignment]) -> str:
    return f"{{ {format_assignments(assignments)} }}" if assignments else "{}"


def _build_braced_group(
    flat: PrintedLine, head: str, assignments: Sequence[Assignment], end: int, *words: str
) -> LineGroup:
    """Build `head` and a block of assignments whose brace is the last one before `end`, or before the `words` there."""
    lines = build_assignment_items(assignments, flat.depth + 1)
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
