"""The logical plan of a query as indented text: what is matched, what is read of it, what comes out in which order.

The text is stable: equal plans have equal texts, so a test can hold it, and a reader can compare two of them.
"""

from collections.abc import Iterable, Iterator
from typing import assert_never

from omnigraph.query.expr import Bm25, Expr, Nearest, Parameter, Rank, Rrf
from omnigraph.query.format_expr import expr_text
from omnigraph.query.logical_plan import (
    RRF_LEAST,
    RRF_TIMES,
    Absent,
    BoundQuery,
    Column,
    Count,
    Direction,
    Hop,
    NodeBinding,
    Pattern,
    ReadQuery,
    SortKey,
)
from omnigraph.query.mutation_plan import Assign, Delete, InsertEdge, InsertNode, MutationQuery, Statement, Update
from omnigraph.query.rules.empty_pattern import is_empty

_INDENT = "  "
_ARROWS = {Direction.OUT: ("-", "->"), Direction.IN: ("<-", "-"), Direction.BOTH: ("-", "-")}


def explain(query: BoundQuery) -> str:
    """The plan, one fact a line, ending with a line break.

    A node or hop is followed by the filters that are answered where it is read; filters that need more stand under
    `where`. `reads` are the properties that are fetched. Works on a query as bound and as rewritten.
    """
    match query:
        case ReadQuery():
            lines = _read(query)
        case MutationQuery():
            lines = _mutation(query)
        case _:
            assert_never(query)
    return "".join(f"{line}\n" for line in lines)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (_INDENT + line for line in lines)


def _heading(word: str, name: str, params: tuple[Parameter, ...]) -> str:
    declared = ", ".join(f"${p.name}: {p.type}{'?' if p.nullable else ''}" for p in params)
    return f"{word} {name}({declared})"


# --- reads ---------------------------------------------------------------------------------------


def _read(query: ReadQuery) -> Iterator[str]:
    yield _heading("query", query.name, query.params)
    yield from _indented(_clauses(query))


def _clauses(query: ReadQuery) -> Iterator[str]:
    yield "match"
    yield from _indented(_pattern(query.pattern))
    yield from explain_output(query)


def explain_output(query: ReadQuery) -> Iterator[str]:
    """What is made of the matches, one fact a line."""
    if query.grouping is not None:
        keys = ", ".join(map(expr_text, query.grouping.keys))
        yield f"group by {keys}" if keys else "group all rows into one"
    yield "return distinct" if query.distinct else "return"
    yield from _indented(map(_column, query.output))
    yield from _order(query)
    if query.limit is not None:
        yield f"limit {_count(query.limit)}"
    if query.offset is not None:
        yield f"offset {_count(query.offset)}"


def _column(column: Column) -> str:
    text = expr_text(column.value)
    return text if text == f"${column.name}" else f"{text} as {column.name}"


def _count(count: int | Expr) -> str:
    return str(count) if isinstance(count, int) else expr_text(count)


def _order(query: ReadQuery) -> Iterator[str]:
    if not query.is_ordered:
        yield "order unspecified"
        return
    keys = (
        []
        if query.rank is None
        else [f"{expr_text(query.rank)} {'asc' if isinstance(query.rank, Nearest) else 'desc'}"]
    )
    keys += map(_sort_key, query.order)
    if keys:
        yield f"order by {', '.join(keys)}"
    if query.rank is not None:
        yield from _indented(_ranked(query.rank, query))
    if query.ties:
        yield f"{'ties' if keys else 'order'} by {', '.join(map(expr_text, query.ties))}"


def _ranked(rank: Rank, query: ReadQuery) -> Iterator[str]:
    """What a rank does with the rows: which it leaves out, and of which the best are taken."""
    if isinstance(rank, Bm25):
        yield "rows without a match are left out"
    counts = [count for count in (query.limit, query.offset) if count is not None]
    if query.limit is None:
        return
    best = _sum(counts)
    if isinstance(rank, Rrf):
        listed = _sum(counts, least=RRF_LEAST, times=RRF_TIMES)
        yield f"each list: top {listed} of the rows that pass all filters and hops"
        if Bm25 in (type(rank.first), type(rank.second)):
            yield "rows without a match are not in the list of bm25"
        yield f"top {best} of both lists; a list without the row adds 0"
    else:
        yield f"top {best} of the rows that pass all filters and hops"


def _sum(counts: list[Count], *, least: int = 0, times: int = 1) -> str:
    """`times` the sum of the counts, but at least `least`: a number, or how it comes about when parameters count."""
    numbers = [count for count in counts if isinstance(count, int)]
    if len(numbers) == len(counts):
        return str(max(times * sum(numbers), least))
    total = " + ".join(map(_count, counts))
    return total if times == 1 else f"max({times} * ({total}), {least})"


def _sort_key(key: SortKey) -> str:
    return f"{expr_text(key.value)} {'desc' if key.descending else 'asc'}"


# --- patterns ------------------------------------------------------------------------------------


def _pattern(pattern: Pattern) -> Iterator[str]:
    if is_empty(pattern):
        yield "nothing: no row can match"
    for node in pattern.nodes:
        yield _node(node)
        yield from _indented(map(expr_text, node.filters))
    for hop in pattern.hops:
        yield _hop(hop)
        yield from _indented(map(expr_text, hop.filters))
    if pattern.filters and not is_empty(pattern):
        yield "where"
        yield from _indented(map(expr_text, pattern.filters))
    for block in pattern.absent:
        yield _not(block)
        yield from _indented(_pattern(block.pattern))


def _node(node: NodeBinding) -> str:
    return _with_notes(f"${node.variable}: {node.type}", _reads(node.columns))


def _hop(hop: Hop) -> str:
    tail, head = _ARROWS[hop.direction]
    variable = "" if hop.edge_variable is None else f"${hop.edge_variable}: "
    bounds = f"{{{hop.low},{hop.high}}}" if hop.is_multi else ""
    text = f"${hop.source} {tail}[{variable}{hop.edge}{bounds}]{head} ${hop.target}"
    if hop.is_multi:
        rows = "each pair once, by its smallest distance"
    else:
        rows = "each pair once" if hop.is_set else "each edge"
    return _with_notes(text, rows, _reads(hop.columns))


def _not(block: Absent) -> str:
    return f"not, for each {', '.join(f'${shared.variable}' for shared in block.shared)}"


def _reads(columns: tuple[str, ...]) -> str | None:
    return f"reads {', '.join(columns)}" if columns else None


def _with_notes(text: str, *notes: str | None) -> str:
    given = [note for note in notes if note]
    return f"{text}  ({'; '.join(given)})" if given else text


# --- mutations -----------------------------------------------------------------------------------


def _mutation(query: MutationQuery) -> Iterator[str]:
    yield _heading("query", query.name, query.params)
    for statement in query.statements:
        yield from _indented(_statement(statement))


def _statement(statement: Statement) -> Iterator[str]:
    match statement:
        case InsertNode():
            yield _insert(statement)
            yield from _indented((*map(_assign, statement.values), *_omitted(statement.omitted)))
        case InsertEdge():
            yield _insert(statement)
            ends = (f"from: {expr_text(statement.source)}", f"to: {expr_text(statement.target)}")
            yield from _indented((*ends, *map(_assign, statement.values), *_omitted(statement.omitted)))
        case Update():
            yield f"update {statement.type}"
            yield from _indented(map(_assign, statement.values))
            yield from _indented((f"where {expr_text(statement.where)}",))
        case Delete():
            yield f"delete {statement.type}"
            yield from _indented((f"where {expr_text(statement.where)}",))
        case _:
            assert_never(statement)


def _insert(statement: InsertNode | InsertEdge) -> str:
    return _with_notes(f"insert {statement.type}", "an update if the key exists" if statement.is_upsert else None)


def _assign(assign: Assign) -> str:
    return f"{assign.property}: {expr_text(assign.value)}"


def _omitted(names: tuple[str, ...]) -> Iterator[str]:
    if names:
        yield f"default or null: {', '.join(names)}"
