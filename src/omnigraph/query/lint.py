"""Lint queries: warn about what is valid but seldom intended (L201 to L208)."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from omnigraph.lang import query_ast as ast
from omnigraph.lang.diagnostics import Diagnostic, sort_diagnostics
from omnigraph.lang.expression_tree import walk
from omnigraph.lang.lexer import Language, TokenKind, tokenize
from omnigraph.lang.literals import NullLiteral
from omnigraph.lang.source import Source, Span
from omnigraph.query.expr import (
    And,
    Compare,
    Const,
    EdgeRef,
    Expr,
    ExprType,
    Identity,
    In,
    IsNull,
    NodeRef,
    Now,
    Op,
    Or,
    ParamRef,
    Prop,
    StartsWith,
)
from omnigraph.query.expr_tree import find_variables, split_conjuncts
from omnigraph.query.expr_types import ROW
from omnigraph.query.logical_plan import Pattern, ReadQuery, get_bound_types, get_patterns, iter_stages
from omnigraph.query.mutation_plan import (
    BoundQuery,
    Delete,
    DriveMatch,
    InsertEdge,
    InsertNode,
    MutationQuery,
    Update,
)
from omnigraph.query.union_types import resolve_types
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.schema.findings import join_words
from omnigraph.schema.types import EnumOf, Scalar

# With fewer values, each one is in more than a tenth of the rows on average, and then the table reader uses no index
# (`_MAX_SELECTIVITY` of `engine.tables.table_reader`).
_MIN_ENUM_VALUES = 10


def lint_file(
    file: ast.QueryFile, bound: Iterable[BoundQuery], catalog: Catalog, source: Source
) -> tuple[Diagnostic, ...]:
    """Return all warnings about the queries of a file, in source order.

    `bound` are the queries without errors; the others get only those warnings that need no plan.
    """
    warnings = list(_find_hidden_divisors(source))
    statements = [statement for query in file.queries for statement in list_statements(query)]
    warnings.extend(warning for _, warning in find_never_updated(statements, catalog))
    for query in file.queries:
        warnings.extend(_find_missing_params(query))
        warnings.extend(_find_null_comparisons(query))
        warnings.extend(_find_glued_signs(query))
    for plan in bound:
        if isinstance(plan, ReadQuery):
            for stage in iter_stages(plan):
                warnings.extend(_find_cross_products(stage.pattern, _list_joined(stage)))
        else:
            warnings.extend(_find_unapplied_defaults(plan, catalog))
        warnings.extend(_find_unindexed(plan, catalog))
    return sort_diagnostics(warnings)


def _list_reads(query: ast.Query) -> tuple[ast.Read | ast.Stage, ...]:
    """Return the reads of a query with their stages, in source order; none for a mutation."""
    if isinstance(query.body, tuple):
        return ()
    reads = query.body.reads if isinstance(query.body, ast.Union) else (query.body,)
    return tuple(part for read in reads for part in read.parts)


def _list_joined(stage: ReadQuery) -> tuple[str, ...]:
    """Return the variables from an earlier stage that a pattern should be connected with.

    A stage without a group key is one row: what it is paired with stays as it is.
    """
    source = stage.source
    is_single = isinstance(source, ReadQuery) and source.grouping is not None and not source.grouping.keys
    return () if is_single else tuple(each.variable for each in stage.inputs)


# --- L201 ----------------------------------------------------------------------------------------


def find_never_updated(statements: Sequence[ast.Mutation], catalog: Catalog) -> Iterator[tuple[ast.Insert, Diagnostic]]:
    """Find the nullable properties that no update sets, for each type that one of the statements of a file inserts.

    Only a file that inserts a type is expected to update it. A vector embedded from a text needs no update. The warning
    belongs to the first insert of the type, which comes with it.
    """
    updated = {(s.type.text, a.name.text) for s in statements if isinstance(s, ast.Update) for a in s.assignments}
    # The type of a variable is not known here, so an update after a match counts for every type.
    set_anywhere = {a.name.text for s in statements if isinstance(s, ast.UpdateMatched) for a in s.assignments}
    # Reversed, so that the first insert of a type wins.
    inserted = {s.type.text: s for s in reversed(statements) if isinstance(s, ast.Insert)}
    for name, insert in inserted.items():
        declared = catalog.find_type(name)
        if declared is None:
            continue
        nullable = [p.name for p in declared.properties if p.nullable and p.embedding is None]
        never_set = [prop for prop in nullable if (name, prop) not in updated and prop not in set_anywhere]
        if never_set:
            message = f"no update sets {join_words(never_set)} of `{name}`: null values stay null"
            help_ = f"add an update, or make {'it' if len(never_set) == 1 else 'them'} required in the schema"
            yield insert, Diagnostic("L201", insert.type.span, message, help_)


# --- L202 ----------------------------------------------------------------------------------------


def _find_missing_params(query: ast.Query) -> Iterator[Diagnostic]:
    statements = list_statements(query)
    # What a match finds differs from time to time.
    is_driven = any(isinstance(statement, ast.DriveMatch) for statement in statements)
    if statements and not is_driven and not query.params:
        message = f"mutation `{query.name.text}` has no parameters: it does the same each time"
        yield Diagnostic("L202", query.name.span, message, f"declare what changes: `{query.name.text}($name: Type)`")


# --- L203 ----------------------------------------------------------------------------------------


def _find_cross_products(pattern: Pattern, shared: tuple[str, ...]) -> Iterator[Diagnostic]:
    """Find the connected components of a block that nothing connects with the variables before them.

    Hops connect variables, and so do required equalities between them. The variables that a `not` block shares with
    its outer block are one component.
    """
    parts = _DisjointSets([*shared, *pattern.types])
    parts.union(shared)
    for hop in pattern.hops:
        parts.union([name for name in (hop.source, hop.edge_variable, hop.target) if name is not None])
    for block in pattern.blocks:
        bound = get_bound_types(block)
        # A block that binds variables joins them with all that it reads.
        parts.union([*(shared.variable for shared in block.shared), *bound] if bound else ())
    for expr in pattern.filters:
        for term in split_conjuncts(expr):
            if isinstance(term, Compare) and term.op is Op.EQ:
                parts.union([*find_variables(term.left), *find_variables(term.right)])
    origins = {node.variable: node.origin for node in pattern.nodes}
    seen = {parts.find_root(name) for name in shared}
    # In source order: the first component is connected by definition, each later one is a cross product.
    for name in sorted(origins, key=lambda name: origins[name]):
        if seen and parts.find_root(name) not in seen:
            message = f"nothing connects `${name}` with the variables before it: every combination is a row"
            help_ = "connect it by a hop or an equality, or make it a separate query"
            yield Diagnostic("L203", origins[name], message, help_)
        seen.add(parts.find_root(name))
    for block in pattern.blocks:
        for inner in get_patterns(block):
            yield from _find_cross_products(inner, tuple(outer.variable for outer in block.shared))


class _DisjointSets:
    """A union-find structure over names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._parent = {name: name for name in names}

    def find_root(self, name: str) -> str:
        """Return the representative of the set that contains a name."""
        # Path halving: each step points a name at its grandparent.
        while self._parent[name] != name:
            self._parent[name] = name = self._parent[self._parent[name]]
        return name

    def union(self, names: Iterable[str]) -> None:
        """Merge the sets of all these names."""
        roots = [self.find_root(name) for name in names]
        for root in roots[1:]:
            self._parent[self.find_root(root)] = self.find_root(roots[0])


# --- L204 ----------------------------------------------------------------------------------------


def _find_unindexed(plan: BoundQuery, catalog: Catalog) -> Iterator[Diagnostic]:
    """Find equalities with a literal, a parameter or `now()` that no index, key or unique constraint can answer.

    Left out are those where an index would not help: under a `not`, in an `or` with an alternative that no index can
    answer, and on a property with few values.
    """
    match plan:
        case ReadQuery():
            for stage in iter_stages(plan):
                inputs: dict[str, ExprType] = {each.variable: each.type for each in stage.inputs}
                yield from _find_unindexed_in_pattern(stage.pattern, inputs, catalog)
        case MutationQuery():
            for statement in plan.statements:
                if isinstance(statement, DriveMatch):
                    yield from _find_unindexed_in_pattern(statement.read.pattern, {}, catalog)
                elif isinstance(statement, Update | Delete):
                    yield from _find_unindexed_in_expr(statement.where, {ROW: statement.type}, catalog)
        case _:
            assert_never(plan)


def _find_unindexed_in_pattern(
    pattern: Pattern, outer_types: dict[str, ExprType], catalog: Catalog
) -> Iterator[Diagnostic]:
    types = {**outer_types, **pattern.entity_types}
    for filters in (*(n.filters for n in pattern.nodes), *(h.filters for h in pattern.hops), pattern.filters):
        for expr in filters:
            yield from _find_unindexed_in_expr(expr, types, catalog)
    for block in pattern.blocks:
        for inner in get_patterns(block):
            yield from _find_unindexed_in_pattern(inner, types, catalog)


def _find_unindexed_in_expr(expr: Expr, types: dict[str, ExprType], catalog: Catalog) -> Iterator[Diagnostic]:
    match expr:
        case Or() if not _can_use_indexes(expr):
            return
        case And() | Or():
            for term in expr.terms:
                yield from _find_unindexed_in_expr(term, types, catalog)
        case Compare(op=Op.EQ, left=Prop() as prop, right=ParamRef() | Now() | Const() as other):
            yield from _check_equality_index(prop, other, types, catalog)
        case Compare(op=Op.EQ, left=ParamRef() | Now() | Const() as other, right=Prop() as prop):
            yield from _check_equality_index(prop, other, types, catalog)
        case _:
            return


def _check_equality_index(
    prop: Prop, other: Expr, types: dict[str, ExprType], catalog: Catalog
) -> Iterator[Diagnostic]:
    type_ = types[prop.variable]
    # A comparison with null is never true and gets its own warning, L205.
    is_null = isinstance(other, Const) and other.value is None
    if not isinstance(type_, NodeRef | EdgeRef) or is_null or not _is_selective(prop):
        return
    # Each type of a union has an index of its own, or none. The type and id of a union are no properties.
    for declared in resolve_types(catalog, type_.name):
        if declared.find_property(prop.name) is not None and not _has_index(declared, prop.name):
            message = f"`{prop.name}` of `{declared.name}` has no index: this equality reads every row"
            yield Diagnostic("L204", prop.origin, message, f"add `@index({prop.name})` to `{declared.name}`")


def _can_use_indexes(expr: Or) -> bool:
    """Return whether indexes could answer every alternative of an `or`."""
    # One alternative that reads all rows makes the whole `or` read them.
    return len(find_variables(expr)) == 1 and all(map(_can_use_index, expr.terms))


def _can_use_index(expr: Expr) -> bool:
    match expr:
        case And(terms=terms):
            return any(map(_can_use_index, terms))
        case Or(terms=terms):
            return all(map(_can_use_index, terms))
        case Compare(op=op, left=left, right=right):
            # A lookup needs a value that is known before rows are read.
            is_column = (isinstance(left, Prop | Identity), isinstance(right, Prop | Identity))
            return op is not Op.NE and is_column.count(True) == 1
        case In() | StartsWith():
            return True
        case IsNull(negated=negated):
            return not negated
        case _:
            return False


def _is_selective(prop: Prop) -> bool:
    """Return whether one value of the property probably selects few rows, so that an index would be used."""
    match prop.type:
        case Scalar.BOOL:
            return False
        case EnumOf(values=values):
            return len(values) >= _MIN_ENUM_VALUES
        case _:
            return True


def _has_index(declared: AnyType, name: str) -> bool:
    return name in declared.indexed or name in declared.key or any(name in members for members in declared.unique)


# --- L205 ----------------------------------------------------------------------------------------


def _find_null_comparisons(query: ast.Query) -> Iterator[Diagnostic]:
    for read in _list_reads(query):
        yield from _find_null_in_clauses(read.clauses)
        if read.having is not None:
            yield from _find_null_in_predicate(read.having)
    for statement in list_statements(query):
        if isinstance(statement, ast.Update | ast.Delete):
            yield from _find_null_in_predicate(statement.where)
        elif isinstance(statement, ast.DriveMatch):
            yield from _find_null_in_clauses(statement.clauses)


def list_statements(query: ast.Query) -> tuple[ast.Mutation, ...]:
    """Return the statements of a mutation; none for a read."""
    return query.body if isinstance(query.body, tuple) else ()


def _find_null_in_clauses(clauses: Iterable[ast.Clause]) -> Iterator[Diagnostic]:
    for clause in clauses:
        match clause:
            case ast.Binding():
                for assignment in clause.filters:
                    if _is_null(assignment.value):
                        message = "no property equals `null`, so this matches nothing"
                        test = f"`${clause.variable.name}.{assignment.name.text} is null`"
                        yield Diagnostic("L205", assignment.value.span, message, f"write a clause: {test}")
            case ast.Where():
                yield from _find_null_in_predicate(clause.predicate)
            case ast.NotBlock() | ast.OptionalBlock():
                yield from _find_null_in_clauses(clause.clauses)
            case ast.Either():
                for alternative in clause.alternatives:
                    yield from _find_null_in_clauses(alternative)
            case ast.Let() | ast.Each():
                yield from _find_null_in_predicate(clause.value)
            case ast.TraversalClause() | ast.PathClause():
                pass
            case _:
                assert_never(clause)


def _find_null_in_predicate(predicate: ast.Expr) -> Iterator[Diagnostic]:
    for part in walk(predicate):
        if isinstance(part, ast.Block):
            yield from _find_null_in_clauses(part.clauses)
        elif isinstance(part, ast.Compare) and (_is_null(part.left) or _is_null(part.right)):
            test = "is not null" if part.op is ast.CompareOp.NE else "is null"
            yield Diagnostic("L205", part.span, "a comparison with `null` is never true", f"test with `{test}`")


def _is_null(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.LiteralExpr) and isinstance(expr.value, NullLiteral)


# --- L207 ----------------------------------------------------------------------------------------


def _find_glued_signs(query: ast.Query) -> Iterator[Diagnostic]:
    """Find `$p.age -1` among the columns of a read, which looks like two columns and subtracts."""
    projections = (projection for read in _list_reads(query) for projection in read.projections)
    parts = (part for projection in projections for part in walk(projection.value))
    for part in parts:
        if not isinstance(part, ast.Arithmetic) or part.op is not ast.ArithmeticOp.SUBTRACT:
            continue
        is_glued = part.op_span.end == part.right.span.start and part.left.span.end < part.op_span.start
        if is_glued:
            help_ = "write a blank after `-`, or a comma before it for two columns"
            yield Diagnostic("L207", part.op_span, "`-` subtracts here, as one column", help_)


# --- L208 ----------------------------------------------------------------------------------------

# A divisor and what may follow it in an expression: a comment in words has neither.
_DIVISOR = re.compile(r"//[ \t]*(\d+(\.\d+)?|\$\w+(\.\w+)*|\([^()]*\))[ \t]*(as\b.*|(and|or)\b.*|[-,+*%<>=!})].*)?")
_VALUE_KINDS = (TokenKind.IDENT, TokenKind.VARIABLE, TokenKind.INT, TokenKind.FLOAT)


def _find_hidden_divisors(source: Source) -> Iterator[Diagnostic]:
    """Find `$p.age // 2`, which looks like a division without a rest and is a comment."""
    stream = tokenize(source, Language.QUERY)
    ends = [token.span.end for token in stream.tokens]
    for comment in stream.comments:
        index = bisect_right(ends, comment.span.start) - 1
        if index < 0 or _DIVISOR.fullmatch(comment.text) is None:
            continue
        before = stream.tokens[index]
        is_value = before.kind in _VALUE_KINDS or before.text in (")", "]")
        if is_value and "\n" not in source.text[before.span.end : comment.span.start]:
            span = Span(comment.span.start, comment.span.start + len("//"))
            help_ = "divide with `div(a, b)`, or with `/` for a fraction; a comment is clearer on a line of its own"
            yield Diagnostic("L208", span, "`//` starts a comment here, so nothing is divided", help_)


# --- L206 ----------------------------------------------------------------------------------------


def _find_unapplied_defaults(plan: MutationQuery, catalog: Catalog) -> Iterator[Diagnostic]:
    """Find upserts that rely on a default, which only new rows get."""
    for statement in plan.list_statements():
        # With `if absent`, an existing row keeps all its values, as it says.
        if not isinstance(statement, InsertNode | InsertEdge) or not statement.is_upsert or statement.if_absent:
            continue
        declared = catalog.find_type(statement.type.name)
        if declared is None:
            continue
        names = [name for name in statement.omitted if declared.by_name[name].default is not None]
        if names:
            default, value = ("its default", "its value") if len(names) == 1 else ("their defaults", "its values")
            message = f"the insert leaves {join_words(names)} to {default}: an existing `{declared.name}` keeps {value}"
            yield Diagnostic("L206", statement.origin, message, "give a value to set it in existing rows too")
