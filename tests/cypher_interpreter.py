"""An interpreter of the Cypher tree, over dictionaries, with dynamic values and bags of rows.

It shares the tree with the product and nothing else: no types, no plan, no index. Every clause maps a list of rows to a
list of rows, in the order in which openCypher describes it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import date
from itertools import pairwise
from typing import Any

from cypher_functions import AGGREGATES, add, aggregate, calculate, call_function, get_component
from cypher_patterns import Matcher, has_labels, list_pattern_variables
from cypher_values import (
    SORT_KEY,
    CypherError,
    ModelGraph,
    Node,
    Relationship,
    Row,
    Value,
    build_group_key,
    check_integer,
    compare_equal,
    compare_less,
    conjunction,
    disjunction,
    is_in,
    is_number,
    remove_duplicates,
)
from omnigraph.lang.cypher import tree
from omnigraph.lang.literals import Name


@dataclass(frozen=True)
class Table:
    """The result of a statement."""

    columns: tuple[str, ...]
    rows: list[tuple[Value, ...]]
    is_ordered: bool


@dataclass(frozen=True)
class Scope:
    """What an expression reads: the row, the rows of its group, and values that are known already."""

    row: Row
    group: Sequence[Row] | None = None
    known: tuple[tuple[tree.Expr, Value], ...] = ()

    def bind(self, name: str, value: Value) -> "Scope":
        """Return the scope with one more variable."""
        return Scope({**self.row, name: value}, self.group, self.known)


@dataclass
class Interpreter:
    """Answers statements over one graph with the parameters of one call."""

    graph: ModelGraph
    parameters: dict[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.matcher = Matcher(self.graph, lambda expression, row: self.evaluate(expression, Scope(row)))

    def run(self, statement: tree.Statement) -> Table:
        """Return the result of a statement.

        Raises:
            CypherError: It has none.
        """
        tables = [self._run_query(query, {}) for query in statement.queries]
        if len({table.columns for table in tables}) > 1:
            raise CypherError("the queries of a union have different columns")
        if len(tables) == 1:
            return tables[0]
        rows = [row for table in tables for row in table.rows]
        if statement.distinct:
            rows = [tuple(row) for row in _unpack(remove_duplicates([list(row) for row in rows]))]
        return Table(tables[0].columns, rows, is_ordered=False)

    # --- clauses -------------------------------------------------------------------------------------

    def _run_query(self, query: tree.Query, outer: Row) -> Table:
        """Run the clauses; the variables of `outer` are visible in all of them."""
        rows: list[Row] = [outer]
        is_ordered = False
        scope = tuple(outer)
        for clause in query.clauses:
            match clause:
                case tree.Match():
                    new = [name for name in list_pattern_variables(clause.patterns) if name not in scope]
                    rows = [extended for row in rows for extended in self._match(clause, row, new)]
                    scope = (*scope, *new)
                case tree.Unwind():
                    rows = [extended for row in rows for extended in self._unwind(clause, row)]
                    scope = (*scope, clause.variable.text)
                case tree.With(projection=projection, where=where):
                    rows, names = self._project(projection, rows, scope)
                    rows = [{**outer, **row} for row in rows]
                    rows = [row for row in rows if where is None or self._is_true(where, row)]
                    scope = tuple(dict.fromkeys((*outer, *names)))
                case tree.Return(projection=projection):
                    rows, scope = self._project(projection, rows, scope)
                    is_ordered = bool(projection.order)
                case tree.CallProcedure():
                    rows, scope = self._call(clause, rows, scope)
                case tree.CallSubquery():
                    raise CypherError("CALL { … }")
        return Table(scope, [tuple(row[name] for name in scope) for row in rows], is_ordered)

    def _match(self, clause: tree.Match, row: Row, new: list[str]) -> list[Row]:
        found = [
            extended
            for extended in self.matcher.match(clause.patterns, row)
            if clause.where is None or self._is_true(clause.where, extended)
        ]
        if clause.optional and not found:
            return [{**row, **dict.fromkeys(new)}]
        return found

    def _unwind(self, clause: tree.Unwind, row: Row) -> list[Row]:
        items = self.evaluate(clause.source, Scope(row))
        if items is None:
            return []
        return [{**row, clause.variable.text: item} for item in (items if isinstance(items, list) else [items])]

    def _call(
        self, clause: tree.CallProcedure, rows: list[Row], scope: tuple[str, ...]
    ) -> tuple[list[Row], tuple[str, ...]]:
        name = clause.procedure.text.lower()
        column, values = {
            "db.labels": ("label", sorted({name for names in self.graph.labels.values() for name in names})),
            "db.relationshiptypes": ("relationshipType", sorted(names[0] for names in self.graph.types.values())),
        }[name]
        if clause.items:
            alias = clause.items[0].alias
            column = column if alias is None else alias.text
        found: list[Row] = [{**row, column: value} for row in rows for value in values]
        found = [row for row in found if clause.where is None or self._is_true(clause.where, row)]
        return found, (*scope, column)

    # --- projections ---------------------------------------------------------------------------------

    def _project(
        self, projection: tree.Projection, rows: list[Row], scope: tuple[str, ...]
    ) -> tuple[list[Row], tuple[str, ...]]:
        items: list[tuple[str, tree.Expr]] = []
        if projection.star:
            span = projection.span
            items.extend((name, tree.Variable(name=name, span=span)) for name in scope)
        items.extend((item.name, item.value) for item in projection.items)
        names = tuple(name for name, _ in items)
        if len(set(names)) < len(names):
            raise CypherError("two columns have one name")
        if any(has_aggregate(value) for _, value in items):
            projected = self._aggregate(items, rows)
        else:
            projected = [(self._build_row(items, Scope(row)), Scope(row)) for row in rows]
        if projection.distinct:
            first: dict[object, tuple[Row, Scope]] = {}
            for row, scoped in projected:
                first.setdefault(build_group_key([row[name] for name in names]), (row, scoped))
            projected = list(first.values())
        projected = self._sort(projection, items, projected)
        start = self._count(projection.skip, 0)
        end = None if projection.limit is None else start + self._count(projection.limit, 0)
        return [row for row, _ in projected[start:end]], names

    def _build_row(self, items: list[tuple[str, tree.Expr]], scope: Scope) -> Row:
        return {name: self.evaluate(value, scope) for name, value in items}

    def _aggregate(self, items: list[tuple[str, tree.Expr]], rows: list[Row]) -> list[tuple[Row, Scope]]:
        keys = [value for _, value in items if not has_aggregate(value)]
        groups: dict[object, list[Row]] = {}
        for row in rows:
            group = build_group_key([self.evaluate(key, Scope(row)) for key in keys])
            groups.setdefault(group, []).append(row)
        if not keys and not groups:
            groups[None] = []
        projected = []
        for members in groups.values():
            scope = Scope(members[0] if members else {}, members)
            projected.append((self._build_row(items, scope), scope))
        return projected

    def _sort(
        self,
        projection: tree.Projection,
        items: list[tuple[str, tree.Expr]],
        projected: list[tuple[Row, Scope]],
    ) -> list[tuple[Row, Scope]]:
        for key in reversed(projection.order):

            def find_value(pair: tuple[Row, Scope], key: tree.SortKey = key) -> Any:
                row, scope = pair
                known = tuple((value, row[name]) for name, value in items)
                return SORT_KEY(self.evaluate(key.value, Scope({**scope.row, **row}, scope.group, known)))

            projected = sorted(projected, key=find_value, reverse=key.descending)
        return projected

    def _count(self, expression: tree.Expr | None, default: int) -> int:
        if expression is None:
            return default
        value = self.evaluate(expression, Scope({}))
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise CypherError("SKIP and LIMIT take whole numbers from 0")
        return value

    # --- expressions ---------------------------------------------------------------------------------

    def _is_true(self, expression: tree.Expr, row: Row) -> bool:
        if isinstance(expression, tree.Binary) and expression.op is tree.BinaryOp.AND:
            return self._are_true((expression.left, expression.right), row)
        value = self._decide(expression, row)
        if not isinstance(value, bool | None):
            raise CypherError("a condition is true, false or null")
        return value is True

    def _are_true(self, terms: Sequence[tree.Expr], row: Row) -> bool:
        """Whether all terms hold; one that fails does not matter beside one that does not hold."""
        failure: CypherError | None = None
        for term in terms:
            try:
                if not self._is_true(term, row):
                    return False
            except CypherError as error:
                failure = error
        if failure is not None:
            raise failure
        return True

    def _decide(self, expression: tree.Expr, row: Row) -> Value:
        """Evaluate a condition, in which a term that fails does not matter beside one that decides."""
        ops: dict[tree.BinaryOp, bool | None] = {tree.BinaryOp.AND: False, tree.BinaryOp.OR: True}
        # Null beside `XOR` decides too.
        ops[tree.BinaryOp.XOR] = None
        if not isinstance(expression, tree.Binary) or expression.op not in ops:
            return self.evaluate(expression, Scope(row))
        values: list[Value] = []
        failure: CypherError | None = None
        for side in (expression.left, expression.right):
            try:
                values.append(_require_boolean(self._decide(side, row)))
            except CypherError as error:
                failure = error
        if failure is not None and ops[expression.op] not in values:
            raise failure
        return ops[expression.op] if failure is not None else self.evaluate(expression, Scope(row))

    def evaluate(self, expression: tree.Expr, scope: Scope) -> Value:
        """Return the value of an expression in a scope."""
        for known, value in scope.known:
            if known == expression and not isinstance(expression, tree.Literal):
                return value
        return EVALUATORS[type(expression)](self, expression, scope)

    def _evaluate_all(self, expressions: Sequence[tree.Expr], scope: Scope) -> list[Value]:
        return [self.evaluate(expression, scope) for expression in expressions]

    def _evaluate_variable(self, expression: tree.Variable, scope: Scope) -> Value:
        if expression.name not in scope.row:
            raise CypherError(f"unknown variable {expression.name}")
        return scope.row[expression.name]

    def _evaluate_parameter(self, expression: tree.Parameter, scope: Scope) -> Value:
        del scope
        if expression.name not in self.parameters:
            raise CypherError(f"no parameter {expression.name}")
        return self.parameters[expression.name]

    def _evaluate_property(self, expression: tree.Property, scope: Scope) -> Value:
        value = self.evaluate(expression.operand, scope)
        key = expression.key.text
        if value is None:
            return None
        if isinstance(value, dict):
            return value.get(key)
        if isinstance(value, date):
            return get_component(value, key)
        return self.graph.get_properties(value).get(key)

    def _evaluate_subscript(self, expression: tree.Subscript, scope: Scope) -> Value:
        value, index = self._evaluate_all((expression.operand, expression.index), scope)
        if value is None or index is None:
            return None
        if isinstance(value, list) and isinstance(index, int):
            return value[index] if -len(value) <= index < len(value) else None
        if isinstance(index, str):
            return value.get(index) if isinstance(value, dict) else self.graph.get_properties(value).get(index)
        raise CypherError("an index is a whole number")

    def _evaluate_slice(self, expression: tree.Slice, scope: Scope) -> Value:
        value = self.evaluate(expression.operand, scope)
        low = 0 if expression.low is None else self.evaluate(expression.low, scope)
        has_high = expression.high is not None
        high = self.evaluate(expression.high, scope) if expression.high is not None else None
        if value is None or low is None or (has_high and high is None):
            return None
        assert isinstance(value, list)
        return value[low:high] if has_high else value[low:]

    def _evaluate_list(self, expression: tree.ListLiteral, scope: Scope) -> Value:
        return self._evaluate_all(expression.items, scope)

    def _evaluate_map(self, expression: tree.MapLiteral, scope: Scope) -> Value:
        return {key.text: self.evaluate(value, scope) for key, value in expression.entries}

    def _evaluate_projection(self, expression: tree.MapProjection, scope: Scope) -> Value:
        value = self.evaluate(expression.variable, scope)
        if value is None:
            return None
        own = value if isinstance(value, dict) else self.graph.get_properties(value)
        projected: dict[str, Value] = {}
        for item in expression.items:
            match item:
                case tree.ProjectedKey(key=key):
                    projected[key.text] = own.get(key.text)
                case tree.ProjectedVariable(variable=variable):
                    projected[variable.name] = self.evaluate(variable, scope)
                case tree.ProjectedEntry(key=key, value=entry):
                    projected[key.text] = self.evaluate(entry, scope)
                case tree.ProjectedAll():
                    projected.update((key, item) for key, item in own.items() if item is not None)
        return projected

    def _evaluate_unary(self, expression: tree.Unary, scope: Scope) -> Value:
        value = self.evaluate(expression.operand, scope)
        if value is None:
            return None
        if expression.op is tree.UnaryOp.NOT:
            return not _require_boolean(value)
        if not is_number(value):
            raise CypherError("a sign stands before a number")
        if expression.op is tree.UnaryOp.PLUS:
            return value
        return calculate("-", 0, value) if isinstance(value, int) else -value

    def _evaluate_binary(self, expression: tree.Binary, scope: Scope) -> Value:
        left, right = self._evaluate_all((expression.left, expression.right), scope)
        op = expression.op
        if op is tree.BinaryOp.AND:
            return conjunction([_require_boolean(left), _require_boolean(right)])
        if op is tree.BinaryOp.OR:
            return disjunction([_require_boolean(left), _require_boolean(right)])
        if op is tree.BinaryOp.IN:
            return is_in(left, right)
        if left is None or right is None:
            return None
        if op is tree.BinaryOp.XOR:
            return _require_boolean(left) != _require_boolean(right)
        if op in (tree.BinaryOp.ADD, tree.BinaryOp.CONCAT):
            return add(left, right)
        if op in TEXT_OPERATORS:
            return TEXT_OPERATORS[op](left, right) if isinstance(left, str) and isinstance(right, str) else None
        return calculate(op.value, left, right)

    def _evaluate_comparison(self, expression: tree.Comparison, scope: Scope) -> Value:
        values = self._evaluate_all((expression.first, *(value for _, value in expression.rest)), scope)
        pairs = pairwise(values)
        operators = (operator for operator, _ in expression.rest)
        return conjunction([_compare(operator, *pair) for operator, pair in zip(operators, pairs, strict=True)])

    def _evaluate_null_test(self, expression: tree.IsNull, scope: Scope) -> Value:
        return (self.evaluate(expression.operand, scope) is None) != expression.negated

    def _evaluate_labels(self, expression: tree.HasLabels, scope: Scope) -> Value:
        value = self.evaluate(expression.operand, scope)
        if value is None:
            return None
        if isinstance(value, Node):
            return has_labels(expression.labels, self.graph.labels[value.type])
        if isinstance(value, Relationship):
            return has_labels(expression.labels, self.graph.types[value.type])
        raise CypherError("only nodes and relationships have labels")

    def _evaluate_call(self, expression: tree.Call, scope: Scope) -> Value:
        name = expression.function.text
        if name.lower() == "exists":
            return self.evaluate(expression.arguments[0], scope) is not None
        if name.lower() not in AGGREGATES:
            return call_function(self.graph, name, self._evaluate_all(expression.arguments, scope))
        if scope.group is None:
            raise CypherError(f"{name} stands in RETURN or WITH")
        values = [self.evaluate(expression.arguments[0], Scope(row)) for row in scope.group]
        if expression.distinct:
            values = remove_duplicates([value for value in values if value is not None])
        share = self.evaluate(expression.arguments[1], scope) if len(expression.arguments) > 1 else None
        return aggregate(name, values, share)

    def _evaluate_count(self, expression: tree.CountStar, scope: Scope) -> Value:
        del expression
        if scope.group is None:
            raise CypherError("count(*) stands in RETURN or WITH")
        return len(scope.group)

    def _evaluate_case(self, expression: tree.Case, scope: Scope) -> Value:
        for condition, value in expression.branches:
            found = self.evaluate(condition, scope)
            if expression.operand is not None:
                found = compare_equal(self.evaluate(expression.operand, scope), found)
            if found is True:
                return self.evaluate(value, scope)
        return None if expression.otherwise is None else self.evaluate(expression.otherwise, scope)

    def _evaluate_comprehension(self, expression: tree.ListComprehension, scope: Scope) -> Value:
        items = self.evaluate(expression.source, scope)
        if items is None:
            return None
        assert isinstance(items, list)
        inner = [scope.bind(expression.variable.text, item) for item in items]
        if expression.where is not None:
            inner = [one for one in inner if self.evaluate(expression.where, one) is True]
        if expression.value is None:
            return [one.row[expression.variable.text] for one in inner]
        return [self.evaluate(expression.value, one) for one in inner]

    def _evaluate_quantifier(self, expression: tree.Quantifier, scope: Scope) -> Value:
        items = self.evaluate(expression.source, scope)
        if items is None:
            return None
        assert isinstance(items, list)
        bound = (scope.bind(expression.variable.text, item) for item in items)
        holds = [_require_boolean(self.evaluate(expression.where, one)) for one in bound]
        match expression.kind:
            case tree.QuantifierKind.ALL:
                return conjunction(holds)
            case tree.QuantifierKind.ANY:
                return disjunction(holds)
            case tree.QuantifierKind.NONE:
                one_holds = disjunction(holds)
                return None if one_holds is None else not one_holds
            case tree.QuantifierKind.SINGLE:
                if holds.count(True) > 1:
                    return False
                return None if None in holds else holds.count(True) == 1

    def _evaluate_reduce(self, expression: tree.Reduce, scope: Scope) -> Value:
        items = self.evaluate(expression.source, scope)
        if items is None:
            return None
        assert isinstance(items, list)
        value = self.evaluate(expression.initial, scope)
        for item in items:
            inner = scope.bind(expression.accumulator.text, value).bind(expression.variable.text, item)
            value = self.evaluate(expression.value, inner)
        return value

    # --- patterns and statements as values -----------------------------------------------------------

    def _evaluate_pattern(self, expression: tree.PatternPredicate, scope: Scope) -> Value:
        if expression.pattern.kind is tree.PathKind.ALL:
            return any(True for _ in self.matcher.match((expression.pattern,), scope.row))
        named = _name_path(expression.pattern)
        paths = [row[" path"] for row in self.matcher.match((named,), scope.row)]
        if expression.pattern.kind is tree.PathKind.ALL_SHORTEST:
            return paths
        return paths[0] if paths else None

    def _evaluate_pattern_comprehension(self, expression: tree.PatternComprehension, scope: Scope) -> Value:
        rows = self.matcher.match((expression.pattern,), scope.row)
        inner = [Scope(row, scope.group, scope.known) for row in rows]
        if expression.where is not None:
            inner = [one for one in inner if self.evaluate(expression.where, one) is True]
        return [self.evaluate(expression.value, one) for one in inner]

    def _evaluate_subquery(self, expression: tree.Subquery, scope: Scope) -> Value:
        rows: list[Value] = []
        for query in expression.statement.queries:
            table = self._run_query(query, scope.row)
            values = [list(row) for row in table.rows]
            if expression.kind is tree.SubqueryKind.COLLECT:
                rows.extend(row[-1] for row in values)
            else:
                rows.extend(values)
        if len(expression.statement.queries) > 1 and expression.statement.distinct:
            rows = remove_duplicates(rows)
        match expression.kind:
            case tree.SubqueryKind.EXISTS:
                return bool(rows)
            case tree.SubqueryKind.COUNT:
                return len(rows)
            case tree.SubqueryKind.COLLECT:
                return rows


def _unpack(values: list[Value]) -> list[list[Value]]:
    return [value for value in values if isinstance(value, list)]


def _name_path(pattern: tree.PathPattern) -> tree.PathPattern:
    return replace(pattern, variable=Name(" path", pattern.span))


def _require_boolean(value: Value) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise CypherError(f"{value!r} is no condition")


def _compare(operator: tree.CompareOp, left: Value, right: Value) -> bool | None:
    match operator:
        case tree.CompareOp.EQ:
            return compare_equal(left, right)
        case tree.CompareOp.NE:
            equal = compare_equal(left, right)
            return None if equal is None else not equal
        case tree.CompareOp.LT:
            return compare_less(left, right)
        case tree.CompareOp.GT:
            return compare_less(right, left)
        case tree.CompareOp.LE:
            above = compare_less(right, left)
            return None if above is None else not above
        case tree.CompareOp.GE:
            below = compare_less(left, right)
            return None if below is None else not below


def has_aggregate(expression: object) -> bool:
    """Return whether an expression aggregates; what stands in a subquery does not count."""
    if isinstance(expression, tree.CountStar):
        return True
    if isinstance(expression, tree.Call) and expression.function.text.lower() in AGGREGATES:
        return True
    if isinstance(expression, tree.Subquery | tree.PathPattern):
        return False
    if isinstance(expression, tuple):
        return any(has_aggregate(item) for item in expression)
    if is_dataclass(expression):
        return any(has_aggregate(getattr(expression, part.name)) for part in fields(expression))
    return False


TEXT_OPERATORS: dict[tree.BinaryOp, Callable[[str, str], bool]] = {
    tree.BinaryOp.STARTS_WITH: str.startswith,
    tree.BinaryOp.ENDS_WITH: str.endswith,
    tree.BinaryOp.CONTAINS: lambda left, right: right in left,
    tree.BinaryOp.MATCHES: lambda left, right: re.fullmatch(right, left) is not None,
}
EVALUATORS: dict[type, Callable[..., Value]] = {
    tree.Literal: lambda _interpreter, expression, _scope: _check_literal(expression.value),
    tree.Parameter: Interpreter._evaluate_parameter,
    tree.Variable: Interpreter._evaluate_variable,
    tree.Property: Interpreter._evaluate_property,
    tree.Subscript: Interpreter._evaluate_subscript,
    tree.Slice: Interpreter._evaluate_slice,
    tree.ListLiteral: Interpreter._evaluate_list,
    tree.MapLiteral: Interpreter._evaluate_map,
    tree.MapProjection: Interpreter._evaluate_projection,
    tree.Unary: Interpreter._evaluate_unary,
    tree.Binary: Interpreter._evaluate_binary,
    tree.Comparison: Interpreter._evaluate_comparison,
    tree.IsNull: Interpreter._evaluate_null_test,
    tree.HasLabels: Interpreter._evaluate_labels,
    tree.Call: Interpreter._evaluate_call,
    tree.CountStar: Interpreter._evaluate_count,
    tree.Case: Interpreter._evaluate_case,
    tree.ListComprehension: Interpreter._evaluate_comprehension,
    tree.Quantifier: Interpreter._evaluate_quantifier,
    tree.Reduce: Interpreter._evaluate_reduce,
    tree.PatternPredicate: Interpreter._evaluate_pattern,
    tree.PatternComprehension: Interpreter._evaluate_pattern_comprehension,
    tree.Subquery: Interpreter._evaluate_subquery,
}


def _check_literal(value: Value) -> Value:
    return check_integer(value) if isinstance(value, int) and not isinstance(value, bool) else value
