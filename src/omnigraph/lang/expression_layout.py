"""Lay out clauses and expressions over several lines, where one is too long or a comment stands inside."""

from collections.abc import Sequence
from typing import assert_never

from omnigraph.lang.expression_printer import (
    format_binding_head,
    format_clause,
    format_expr,
    format_hop_head,
    format_order_key,
    format_path_head,
    get_connective,
    is_read_on,
    iter_hop_conditions,
    needs_parentheses,
)
from omnigraph.lang.layout import Anchor, Item, LineGroup, PrintedLine, append_suffix
from omnigraph.lang.query_ast import (
    And,
    Assignment,
    Binding,
    Block,
    Case,
    Clause,
    Compare,
    Each,
    Either,
    Expr,
    IsNull,
    Let,
    Not,
    NotBlock,
    OptionalBlock,
    Or,
    PathClause,
    Record,
    TraversalClause,
    Where,
)

# --- expressions -----------------------------------------------------------------------------------------


def build_expr_item(expr: Expr, depth: int, anchor: Anchor, prefix: str = "") -> Item:
    """Build an expression after `prefix`; it can be broken before each `and` and `or`, and inside its braces."""
    flat = PrintedLine(depth, prefix + format_expr(expr), anchor)
    match expr:
        case And(terms=terms) | Or(terms=terms):
            word = get_connective(expr)
            first, *rest = terms
            head = _build_term_item(first, expr, depth, anchor, prefix)
            tail = (
                _build_term_item(term, expr, depth + 1, Anchor(term.span.start, (word,)), f"{word} ") for term in rest
            )
            return LineGroup(flat, (head, *tail))
        case Not(term=term):
            return _build_term_item(term, expr, depth, anchor, f"{prefix}not ")
        case Compare(op=op, left=Block() as block, right=right):
            if not _has_braces(right):
                return append_suffix(build_expr_item(block, depth, anchor, prefix), _format_rest(expr, block))
            return flat
        case Compare(op=op, left=left, right=Block() as block):
            return build_expr_item(block, depth, anchor, f"{prefix}{format_expr(left)} {op.value} ")
        case IsNull(operand=Block() as block):
            return append_suffix(build_expr_item(block, depth, anchor, prefix), _format_rest(expr, block))
        case Block():
            return LineGroup(flat, tuple(_build_block(expr, depth, anchor, prefix)))
        case Case():
            return LineGroup(flat, tuple(_build_case(expr, depth, anchor, prefix)))
        case Record():
            return LineGroup(flat, tuple(_build_record(expr, depth, anchor, prefix)))
        case _:
            return flat


def _format_rest(expr: Expr, first: Expr) -> str:
    """Format what follows the first operand of an expression."""
    return format_expr(expr).removeprefix(format_expr(first))


def _has_braces(expr: Expr) -> bool:
    return isinstance(expr, Block | Case | Record)


def find_predicate_start(predicate: Expr, skipped: int = 0) -> Anchor:
    """Find where a predicate starts if `skipped` parentheses before it belong to earlier lines."""
    while isinstance(predicate, And | Or):
        predicate = predicate.terms[0]
    return Anchor(predicate.span.start, skipped=skipped)


def _build_term_item(term: Expr, parent: And | Or | Not, depth: int, anchor: Anchor, prefix: str) -> Item:
    if not needs_parentheses(term, parent):
        return build_expr_item(term, depth, anchor, prefix)
    # After a word, all parentheses but this line's own belong to what is inside.
    inner = build_expr_item(term, depth + 1, find_predicate_start(term, 1 if prefix else (anchor.skipped or 0) + 1))
    flat = PrintedLine(depth, f"{prefix}({format_expr(term)})", anchor)
    # The closing parenthesis has no anchor: its position is not in the tree.
    return LineGroup(flat, (PrintedLine(depth, f"{prefix}(", anchor), inner, PrintedLine(depth, ")")))


def _build_block(block: Block, depth: int, anchor: Anchor, prefix: str) -> list[Item]:
    items: list[Item] = [
        PrintedLine(depth, f"{prefix}{block.kind.value} {{", anchor),
        *build_clauses(block.clauses, depth + 1),
    ]
    if block.value is not None:
        word = "return distinct" if block.distinct else "return"
        items.append(build_expr_item(block.value, depth + 1, Anchor(block.value.span.start, ("return",)), f"{word} "))
    if block.order:
        keys = ", ".join(map(format_order_key, block.order))
        items.append(PrintedLine(depth + 1, f"order {{ {keys} }}", Anchor(block.order[0].span.start, ("order",))))
    if block.limit is not None:
        limit = f"limit {format_expr(block.limit)}"
        items.append(PrintedLine(depth + 1, limit, Anchor(block.limit.span.start, ("limit",))))
    return [*items, _build_brace(depth, block.span.end)]


def _build_brace(depth: int, end: int) -> PrintedLine:
    """Build the closing brace that is the last one before `end`."""
    return PrintedLine(depth, "}", Anchor(end, ("}",)), closes=True)


def _build_case(case: Case, depth: int, anchor: Anchor, prefix: str) -> list[Item]:
    items: list[Item] = [PrintedLine(depth, f"{prefix}case {{", anchor)]
    branches = [
        build_expr_item(branch.value, depth + 1, Anchor(branch.span.start), f"{format_expr(branch.condition)} => ")
        for branch in case.branches
    ]
    if case.otherwise is not None:
        place = Anchor(case.otherwise.span.start, ("=>", "else"))
        branches.append(build_expr_item(case.otherwise, depth + 1, place, "else => "))
    items += _join_with_commas(branches)
    return [*items, _build_brace(depth, case.span.end)]


def _build_record(record: Record, depth: int, anchor: Anchor, prefix: str) -> list[Item]:
    fields = [
        build_expr_item(each.value, depth + 1, Anchor(each.span.start), f"{each.name.text}: ") for each in record.items
    ]
    head = PrintedLine(depth, f"{prefix}{{", anchor)
    return [head, *_join_with_commas(fields), _build_brace(depth, record.span.end)]


def _join_with_commas(items: Sequence[Item]) -> list[Item]:
    return [*(append_suffix(item, ",") for item in items[:-1]), *items[-1:]]


def build_assignment_items(assignments: Sequence[Assignment], depth: int) -> list[Item]:
    """Build one line or more for each assignment, separated by commas."""
    return _join_with_commas(
        [build_expr_item(each.value, depth, Anchor(each.span.start), f"{each.name.text}: ") for each in assignments]
    )


# --- clauses ---------------------------------------------------------------------------------------------


def build_clauses(clauses: Sequence[Clause], depth: int) -> list[Item]:
    """Build the lines of clauses, with a `;` where two would be read as one."""
    items: list[Item] = []
    for index, clause in enumerate(clauses):
        here = _build_clause(clause, depth)
        if index + 1 < len(clauses) and _is_clause_read_on(clause, format_clause(clauses[index + 1])):
            # Without the separator the parser would read both clauses as one.
            here[-1] = append_suffix(here[-1], ";")
        items += here
    return items


def _is_clause_read_on(clause: Clause, following: str) -> bool:
    """Return whether the parser would read `following` as the continuation of a clause before it."""
    match clause:
        case Where(predicate=value) | Let(value=value) | Each(value=value):
            return is_read_on(value, following)
        case Binding(filters=()):
            return following.startswith("{")
        case _:
            return False


def _build_clause(clause: Clause, depth: int) -> list[Item]:
    start = Anchor(clause.span.start)
    match clause:
        case Binding(filters=filters):
            flat = PrintedLine(depth, format_clause(clause), start)
            if not filters:
                return [flat]
            head = PrintedLine(depth, f"{format_binding_head(clause)} {{", start)
            values = build_assignment_items(filters, depth + 1)
            return [LineGroup(flat, (head, *values, _build_brace(depth, clause.span.end)))]
        case TraversalClause() | PathClause():
            return [_build_hop(clause, depth)]
        case Where(predicate=predicate):
            return [build_expr_item(predicate, depth, find_predicate_start(predicate))]
        case Let(variable=variable, value=value):
            return [build_expr_item(value, depth, start, f"let ${variable.name} = ")]
        case Each(variable=variable, value=value):
            return [build_expr_item(value, depth, start, f"each ${variable.name} in ")]
        case NotBlock(clauses=clauses):
            return _build_clause_block("not", clause, clauses, depth)
        case OptionalBlock(clauses=clauses):
            return _build_clause_block("optional", clause, clauses, depth)
        case Either():
            return _build_either(clause, depth)
        case _:
            assert_never(clause)


def _build_hop(clause: TraversalClause | PathClause, depth: int) -> Item:
    start = Anchor(clause.span.start)
    flat = PrintedLine(depth, format_clause(clause), start)
    hop = clause.hop if isinstance(clause, PathClause) else clause
    head = format_path_head(clause) if isinstance(clause, PathClause) else ""
    starts = [conditions[0].span.start for conditions in (hop.along, hop.through) if conditions]
    parts: list[Item] = [
        PrintedLine(depth + 1, text, Anchor(place, (text.split()[0],)))
        for text, place in zip(iter_hop_conditions(hop), starts, strict=True)
    ]
    if isinstance(clause, PathClause) and clause.weight is not None:
        weight = f"by {{ {format_expr(clause.weight)} }}"
        parts.append(PrintedLine(depth + 1, weight, Anchor(clause.weight.span.start, ("by",))))
    if not parts:
        return flat
    return LineGroup(flat, (PrintedLine(depth, head + format_hop_head(hop), start), *parts))


def _build_clause_block(word: str, clause: Clause, clauses: Sequence[Clause], depth: int) -> list[Item]:
    start = Anchor(clause.span.start)
    inside = build_clauses(clauses, depth + 1)
    block: list[Item] = [PrintedLine(depth, f"{word} {{", start), *inside, _build_brace(depth, clause.span.end)]
    # Several clauses are one below the other however short they are.
    if len(inside) > 1:
        return block
    return [LineGroup(PrintedLine(depth, format_clause(clause), start), tuple(block))]


def _build_either(clause: Either, depth: int) -> list[Item]:
    start = Anchor(clause.span.start)
    items: list[Item] = [PrintedLine(depth, "either {", start)]
    is_short = True
    for index, alternative in enumerate(clause.alternatives):
        if index:
            items.append(PrintedLine(depth, "} or {", Anchor(alternative[0].span.start, ("{", "or", "}")), closes=True))
        items += build_clauses(alternative, depth + 1)
        is_short = is_short and len(alternative) == 1
    items.append(_build_brace(depth, clause.span.end))
    if not is_short:
        return items
    return [LineGroup(PrintedLine(depth, format_clause(clause), start), tuple(items))]
