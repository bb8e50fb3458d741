"""Format the logical plan of a query as indented text: the pattern, the columns read, the output and its order.

The text is stable: equal plans have equal texts, so tests can quote it and two plans can be compared.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from omnigraph.query.expr import Bm25, Expr, Mmr, Nearest, Parameter, Rank, Rerank, Rrf, ValueRef
from omnigraph.query.format_expr import format_expr
from omnigraph.query.logical_plan import (
    RRF_LIMIT_FACTOR,
    RRF_MIN_ROWS,
    Count,
    EachBlock,
    EitherBlock,
    Exists,
    Hop,
    HopDirection,
    NodeBinding,
    OptionalMatch,
    OrderTerm,
    OutputColumn,
    Pattern,
    PatternBlock,
    ReadQuery,
    UnionSource,
    ValueBlock,
    get_patterns,
)
from omnigraph.query.mutation_plan import (
    Assign,
    BoundQuery,
    Delete,
    DeleteMatched,
    DriveMatch,
    DrivenStatement,
    InsertEdge,
    InsertNode,
    MutationQuery,
    Statement,
    Update,
    UpdateMatched,
)
from omnigraph.query.rules.empty_pattern import is_empty
from omnigraph.query.walk_plan import WalkKind

_INDENT = "  "
# The text before and after the edge in brackets, as in `$a -[Knows]-> $b`.
_WALK_ROWS = {
    WalkKind.PATH: "each walk without a repeated edge",
    WalkKind.SHORTEST: "the first shortest walk of each pair, by ids",
    WalkKind.ALL_SHORTEST: "each shortest walk of each pair",
    WalkKind.CHEAPEST: "the cheapest walk of each pair, then the shortest, then by ids",
}
_ARROWS = {HopDirection.OUT: ("-", "->"), HopDirection.IN: ("<-", "-"), HopDirection.BOTH: ("-", "-")}


def explain(query: BoundQuery) -> str:
    """Format the plan with one fact per line and a final line break.

    A node or hop is followed by the filters that are evaluated where it is read; filters over several variables are
    listed under `where`. `reads` are the properties that are fetched. Accepts a query before and after rewriting.
    """
    match query:
        case ReadQuery():
            lines = _explain_read(query)
        case MutationQuery():
            lines = _explain_mutation(query)
        case _:
            assert_never(query)
    return "".join(f"{line}\n" for line in lines)


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (_INDENT + line for line in lines)


def _format_heading(word: str, name: str, params: tuple[Parameter, ...]) -> str:
    declared = ", ".join(f"${p.name}: {p.type}{'?' if p.nullable else ''}" for p in params)
    return f"{word} {name}({declared})"


# --- reads ---------------------------------------------------------------------------------------


def _explain_read(query: ReadQuery) -> Iterator[str]:
    yield _format_heading("query", query.name, query.params)
    yield from _indent(_explain_clauses(query))


def _explain_clauses(query: ReadQuery, *, is_stage: bool = False) -> Iterator[str]:
    for title, source in title_sources(query):
        yield title
        yield from _indent(_explain_clauses(source, is_stage=isinstance(query.source, ReadQuery)))
    # A union has no pattern of its own.
    if not isinstance(query.source, UnionSource):
        yield "match"
        yield from _indent(_explain_pattern(query.pattern))
    yield from explain_output(query, is_stage=is_stage)


def title_sources(query: ReadQuery) -> Iterator[tuple[str, ReadQuery]]:
    """Yield the reads that a read starts from, each with the line that introduces it."""
    if isinstance(query.source, UnionSource):
        for index, read in enumerate(query.source.reads):
            is_kept = index > 0 and query.source.keeps_equal[index - 1]
            title = "rows of" if index == 0 else "union"
            yield "union all" if is_kept else title, read
    elif query.source is not None:
        yield "for each row of", query.source


def explain_output(query: ReadQuery, *, is_stage: bool = False) -> Iterator[str]:
    """Yield the lines about the output: grouping, columns, order, limit and offset."""
    if query.grouping is not None:
        keys = ", ".join(map(format_expr, query.grouping.keys))
        yield f"group by {keys}" if keys else "group all rows into one"
    word = "with" if is_stage else "return"
    yield f"{word} distinct" if query.distinct else word
    yield from _indent(map(_format_column, query.output))
    if query.having is not None:
        yield f"having {format_expr(query.having)}"
    yield from _explain_order(query)
    if query.limit is not None:
        per = f" per {', '.join(map(format_expr, query.per))}" if query.per else ""
        yield f"limit {_format_count(query.limit)}{per}"
    if query.offset is not None:
        yield f"offset {_format_count(query.offset)}"


def _format_column(column: OutputColumn) -> str:
    # A whole variable is named after itself.
    text = format_expr(column.value)
    return text if text == f"${column.name}" else f"{text} as {column.name}"


def _format_count(count: int | Expr) -> str:
    return str(count) if isinstance(count, int) else format_expr(count)


def _explain_order(query: ReadQuery) -> Iterator[str]:
    if not query.is_ordered:
        yield "order unspecified"
        return
    keys: list[str] = []
    if query.rank is not None:
        # A distance sorts the smallest first, a score the largest.
        direction = "asc" if isinstance(query.rank, Nearest) else "desc"
        keys.append(f"{format_expr(query.rank)} {direction}")
    keys += map(_format_sort_key, query.order)
    if keys:
        yield f"order by {', '.join(keys)}"
    if query.rank is not None:
        yield from _indent(_explain_rank(query.rank, query))
    if query.ties:
        yield f"{'ties' if keys else 'order'} by {', '.join(map(format_expr, query.ties))}"


def _explain_rank(rank: Rank, query: ReadQuery) -> Iterator[str]:
    """Yield the lines about a rank: the rows it drops, and the top-k it keeps."""
    if isinstance(rank, Bm25):
        yield "rows without a match are left out"
    counts = [count for count in (query.limit, query.offset) if count is not None]
    if query.limit is None:
        return
    best = f"{_format_sum(counts)} of each group" if query.per else _format_sum(counts)
    if isinstance(rank, Rrf):
        # Each list is longer than the result, see `logical_plan.RRF_LIMIT_FACTOR`.
        list_size = _format_sum(counts, minimum=RRF_MIN_ROWS, factor=RRF_LIMIT_FACTOR)
        yield f"each list: top {list_size} of the rows that pass all filters and hops"
        if any(isinstance(part, Bm25) for part in rank.ranks):
            yield "rows without a match are not in the list of bm25"
        weighted = " by their weights" if rank.weights else ""
        lists = "all lists" if rank.others else "both lists"
        yield f"top {best} of {lists}{weighted}; a list without the row adds 0"
    elif isinstance(rank, Mmr | Rerank):
        pool_size = _format_sum(counts, minimum=RRF_MIN_ROWS, factor=RRF_LIMIT_FACTOR)
        most = ", at most OMNIGRAPH_RERANK_TEXTS," if isinstance(rank, Rerank) else ""
        yield f"top {pool_size}{most} by {format_expr(rank.rank)} of the rows that pass all filters and hops"
        how = "by relevance and difference" if isinstance(rank, Mmr) else "by the configured reranker"
        yield f"top {best} of these {how}"
    else:
        yield f"top {best} of the rows that pass all filters and hops"


def _format_sum(counts: list[Count], *, minimum: int = 0, factor: int = 1) -> str:
    """Format `factor` times the sum of the counts, but at least `minimum`; a formula if a count is a parameter."""
    numbers = [count for count in counts if isinstance(count, int)]
    if len(numbers) == len(counts):
        return str(max(factor * sum(numbers), minimum))
    total = " + ".join(map(_format_count, counts))
    return total if factor == 1 else f"max({factor} * ({total}), {minimum})"


def _format_sort_key(key: OrderTerm) -> str:
    return f"{format_expr(key.value)} {'desc' if key.descending else 'asc'}"


# --- patterns ------------------------------------------------------------------------------------


def _explain_pattern(pattern: Pattern) -> Iterator[str]:
    # An empty pattern has one filter, the constant false, which this line replaces.
    if is_empty(pattern):
        yield "nothing: no row can match"
    for node in pattern.nodes:
        yield _format_node(node)
        yield from _indent(map(format_expr, node.filters))
    for hop in pattern.hops:
        yield _format_hop(hop)
        yield from _indent(_explain_way(hop))
        if hop.derived is not None:
            yield from _indent(("for each match of", *_indent(_explain_pattern(hop.derived.pattern))))
    if pattern.filters and not is_empty(pattern):
        yield "where"
        yield from _indent(map(format_expr, pattern.filters))
    for block in pattern.blocks:
        yield from _explain_block(block)


def _explain_block(block: PatternBlock) -> Iterator[str]:
    shared = ", ".join(f"${each.variable}" for each in block.shared)
    per = f", for each {shared}" if shared else ", once"
    match block:
        case Exists():
            yield f"{'not' if block.negated else 'exists'}{per}"
        case OptionalMatch():
            yield f"optional{per}"
        case ValueBlock():
            yield f"${block.variable} = {format_block(block)}{per}"
        case EachBlock():
            yield f"each ${block.variable} in {format_expr(block.value)}"
        case EitherBlock():
            yield f"distinct {', '.join(f'${each.variable}' for each in block.variables) or 'matches'} of either{per}"
        case _:
            assert_never(block)
    for number, inner in enumerate(get_patterns(block)):
        if number:
            yield "or"
        yield from _indent(_explain_pattern(inner))


def format_block(block: ValueBlock) -> str:
    """Format what a block does with the matches of its pattern."""
    parts = [block.kind.value]
    if block.value is not None:
        parts.append(f"{'distinct ' if block.distinct else ''}{format_expr(block.value)}")
    if block.order:
        parts.append(f"order by {', '.join(map(_format_sort_key, block.order))}")
    if block.limit is not None:
        parts.append(f"limit {_format_count(block.limit)}")
    return " ".join(parts)


def _format_node(node: NodeBinding) -> str:
    return _append_notes(f"${node.variable}: {node.type}", _format_reads(node.columns))


def _explain_way(hop: Hop) -> Iterator[str]:
    """Yield the filters of a hop's edges, the conditions on its way, and the weight of its walks."""
    yield from map(format_expr, hop.filters)
    yield from (f"along {format_expr(expr)}" for expr in hop.along)
    yield from (f"through {format_expr(expr)}" for expr in hop.through)
    if hop.walk is not None and hop.walk.weight is not None:
        yield f"by {format_expr(hop.walk.weight)}"


def _format_hop(hop: Hop) -> str:
    tail, head = _ARROWS[hop.direction]
    variable = "" if hop.edge_variable is None else f"${hop.edge_variable}: "
    # A single hop has no bounds to show, also if it was written with `{1,1}`.
    high = "*" if hop.high is None else str(hop.high)
    bounds = f"{{{hop.low},{high}}}" if hop.is_multi else ""
    text = f"${hop.source} {tail}[{variable}{hop.edge}{bounds}]{head} ${hop.target}"
    if hop.walk is not None:
        text = f"{hop.walk.kind.value} ${hop.walk.variable} = {text}"
        rows = _WALK_ROWS[hop.walk.kind]
    elif hop.is_multi:
        rows = "each pair once, by its smallest distance"
    else:
        rows = "each pair once" if hop.is_set else "each edge"
    return _append_notes(text, rows, _format_reads(hop.columns))


def _format_reads(columns: tuple[str, ...]) -> str | None:
    return f"reads {', '.join(columns)}" if columns else None


def _append_notes(text: str, *notes: str | None) -> str:
    present = [note for note in notes if note]
    return f"{text}  ({'; '.join(present)})" if present else text


# --- mutations -----------------------------------------------------------------------------------


def _explain_mutation(query: MutationQuery) -> Iterator[str]:
    yield _format_heading("query", query.name, query.params)
    for statement in query.statements:
        yield from _indent(_explain_statement(statement))
    if query.returning:
        yield from _indent(("returning, after the write",))
        yield from _indent(_indent(f"{column.name} = {format_expr(column.value)}" for column in query.returning))


def _explain_statement(statement: Statement) -> Iterator[str]:
    match statement:
        case InsertNode() | InsertEdge():
            yield from _explain_insert(statement, {})
        case Update():
            yield f"update {statement.type}"
            yield from _indent(_format_assign(assign, {}) for assign in statement.values)
            yield from _indent((f"where {format_expr(statement.where)}",))
        case Delete():
            yield f"delete {statement.type}"
            yield from _indent((f"where {format_expr(statement.where)}",))
        case DriveMatch():
            yield "match, answered once"
            yield from _indent(_explain_pattern(statement.read.pattern))
            columns = {column.name: column.value for column in statement.read.output}
            yield from _indent(("for all its rows",))
            for inner in statement.statements:
                yield from _indent(_indent(_explain_driven(inner, columns)))
        case _:
            assert_never(statement)


def _explain_driven(statement: DrivenStatement, columns: Mapping[str, Expr]) -> Iterator[str]:
    match statement:
        case InsertNode() | InsertEdge():
            yield from _explain_insert(statement, columns)
        case UpdateMatched():
            yield f"update ${statement.variable}: {statement.type}"
            yield from _indent(_format_assign(assign, columns) for assign in statement.values)
        case DeleteMatched():
            yield f"delete ${statement.variable}: {statement.type}"
        case _:
            assert_never(statement)


def _explain_insert(statement: InsertNode | InsertEdge, columns: Mapping[str, Expr]) -> Iterator[str]:
    yield _format_insert(statement)
    if isinstance(statement, InsertEdge):
        ends = (("from", statement.source), ("to", statement.target))
        yield from _indent(f"{name}: {_format_value(end, columns)}" for name, end in ends)
    yield from _indent(_format_assign(assign, columns) for assign in statement.values)
    yield from _indent(_explain_omitted(statement.omitted))


def _format_value(value: Expr, columns: Mapping[str, Expr]) -> str:
    """Format a value; a column of a match as the expression that computes it."""
    return format_expr(columns.get(value.variable, value) if isinstance(value, ValueRef) else value)


def _format_insert(statement: InsertNode | InsertEdge) -> str:
    note = "an update if the key exists" if statement.is_upsert else None
    name = "" if statement.variable is None else f" as ${statement.variable}"
    return _append_notes(f"insert {statement.type}{name}", "unless the key exists" if statement.if_absent else note)


def _format_assign(assign: Assign, columns: Mapping[str, Expr]) -> str:
    return f"{assign.property}: {_format_value(assign.value, columns)}"


def _explain_omitted(names: tuple[str, ...]) -> Iterator[str]:
    if names:
        yield f"default or null: {', '.join(names)}"
