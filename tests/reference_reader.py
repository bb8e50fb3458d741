"""What a bound read means, in the plainest Python: the engine's answers are compared with these.

One record at a time, no index, no rewriting, nothing shared with the engine. Where a rule of the language leaves a
choice, the docstrings here say which one is taken.
"""

import operator
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from math import fsum, inf
from typing import Any, TypeAlias, TypeVar

from omnigraph.query.expr import (
    Aggregate,
    AggregateFunction,
    And,
    Bm25,
    Case,
    Compare,
    Computed,
    Const,
    Contains,
    Distance,
    EdgeRef,
    Entity,
    EntityType,
    Expr,
    ExprType,
    FieldRef,
    FuzzyScore,
    Identity,
    In,
    IsNull,
    MetaColumn,
    Missing,
    Mmr,
    Nearest,
    NodeRef,
    Not,
    Now,
    Op,
    Or,
    ParamRef,
    Prop,
    Rank,
    RecordExpr,
    RecordsParam,
    Rrf,
    Snippet,
    StartsWith,
    TextMatch,
    United,
    ValueRef,
    WalkOf,
    Window,
)
from omnigraph.query.expr_tree import find_variable, find_variables
from omnigraph.query.expr_types import ROW
from omnigraph.query.logical_plan import Count, Hop, HopDirection, Pattern, ReadQuery
from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.schema.types import Scalar
from reference_blocks import add_blocks
from reference_entities import choose, evaluate_chosen, reads_chosen
from reference_scalars import CalculationError, compute
from reference_search import chosen_to_differ, cosine_distance, fuses, relevances, text_matches
from reference_stages import best_of_each, fold, start_rows, windows_of
from reference_unions import find_end_keys, follows_members, is_within, union_records
from reference_values import evaluate
from reference_walks import Walk, Way, find_way, is_walk, list_parts, list_walks, read_walk, show_walk

T = TypeVar("T")
Record: TypeAlias = Mapping[str, Any]
"""A node or edge: its properties by name, and `@id` (of an edge also `@src` and `@dst`)."""
Match: TypeAlias = Mapping[str, Any]
"""What each variable is bound to."""

_GROUP = "#group"
"""No user can write such a variable: it holds the aggregates of a group."""
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_BASIC_FOLDS = (
    AggregateFunction.COUNT,
    AggregateFunction.SUM,
    AggregateFunction.AVG,
    AggregateFunction.MIN,
    AggregateFunction.MAX,
)
I64_RANGE = range(-(2**63), 2**63)
OPERATORS: dict[Op, Callable[[Any, Any], bool]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}


class TooManyError(Exception):
    """A pattern that this reader, which tries everything, would take too long for."""


class SumOverflowError(CalculationError):
    """A sum that 64 bits can't hold: the query has no answer."""


@dataclass(frozen=True)
class PlainGraph:
    """The records of each type, in any order."""

    nodes: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    edges: Mapping[str, Sequence[Record]] = field(default_factory=dict)

    def records(self, type_: EntityType) -> Sequence[Record]:
        """All of a type, or of the members of a union."""
        united = union_records(self.records, type_)
        if united is not None:
            return united
        return (self.edges if isinstance(type_, EdgeRef) else self.nodes).get(type_.name, ())


@dataclass(frozen=True)
class Answer:
    """Column names and rows; `is_ordered` says whether the order of the rows means something."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    is_ordered: bool


def answer(
    query: ReadQuery, graph: PlainGraph, params: Mapping[str, Any] | None = None, *, most_tried: float = inf
) -> Answer:
    """The rows of a read; SumOverflowError when it has none, TooManyError when more bindings would be tried."""
    return _Reader(query, graph, params or {}, most_tried).answer()


class _Reader:
    def __init__(self, query: ReadQuery, graph: PlainGraph, params: Mapping[str, Any], most_tried: float = inf) -> None:
        self.query, self.graph, self.params = query, graph, params
        self.tries_left = most_tried
        self.scores: dict[Expr, dict[str, float]] = {}
        self.starts: list[dict[str, Any]] | None = None
        self.walks: dict[int, dict[tuple[str, str], list[Walk]]] = {}
        self.is_condition = False

    def answer(self) -> Answer:
        query = self.query
        shown = [tuple(row.value(column.value) for column in query.output) for row in self.rows()]
        return Answer(tuple(column.name for column in query.output), shown, query.is_ordered)

    def found(self) -> list[Match]:
        """Every match, for each row that the read starts from."""
        if self.starts is None:
            self.starts = start_rows(self.query, self.rows_of)
        return [match for start in self.starts for match in self.matches(self.query.pattern, start)]

    def rows_of(self, source: ReadQuery) -> "list[_Row]":
        """The rows of a read that this one starts from."""
        return _Reader(source, self.graph, self.params, self.tries_left).rows()

    def rows(self) -> "list[_Row]":
        query = self.query
        if query.limit is not None and self.count(query.limit, 0) == 0:
            return []  # without looking, so that no sum overflows
        found = self.found()
        if query.rank is not None:
            self.scores[query.rank] = self.rank(query.rank, found)
        if query.grouping:
            rows = self.groups(found)
        else:
            windows = windows_of(query, self, found, self.fold)
            rows = [_Row(self, match, values) for match, values in zip(found, windows, strict=True)]
        if query.having is not None:
            rows = [row for row in rows if self.condition(query.having, row.all) is True]
        if query.rank is not None:  # a row that the rank leaves out is no row of the answer
            rows = [row for row in rows if row.value(query.rank) is not None]
        if query.distinct:
            rows = list({tuple(_identity(row.value(value)) for value in query.compared): row for row in rows}.values())
        if query.is_ordered:
            self.sort(rows)
            start, most = self.count(query.offset, 0), self.count(query.limit, len(rows))
            rows = best_of_each(query, rows, start, most) if query.per else rows[start : start + most]
        return rows

    # --- matches -----------------------------------------------------------------------------------

    def matches(self, pattern: Pattern, outside: Match) -> Iterator[Match]:
        """Every way to bind the pattern's variables so that all hops and filters hold, by trying all records.

        A condition is tested as soon as the last of its variables is bound.
        """
        own = [*pattern.own_types.items()]
        ends = {name for name, _ in own} | outside.keys()
        own += [
            (hop.walk.variable, hop.walk.type)
            for hop in pattern.hops
            if hop.walk is not None and {hop.source, hop.target} <= ends
        ]
        conditions = list(self._conditions(pattern))
        known = set(outside)
        stages = [self._decidable(conditions, known)]
        for name, _ in own:
            known.add(name)
            stages.append(self._decidable(conditions, known))

        def extend(match: Match, bound: int) -> Iterator[Match]:
            self._count_try()
            if not all(holds(match) for holds in stages[bound]):
                return
            if bound == len(own):
                yield from add_blocks(self, pattern, match, conditions)
                return
            name, type_ = own[bound]
            for record in self._choices(pattern, name, type_, match):
                yield from extend({**match, name: record}, bound + 1)

        yield from extend(outside, 0)

    def _choices(self, pattern: Pattern, name: str, type_: ExprType, match: Match) -> Sequence[Any]:
        """What a variable may be bound to: the walks between ends that are bound, or all records of its type."""
        if isinstance(type_, WalkOf):
            return self._walks(pattern, name, match)
        assert isinstance(type_, NodeRef | EdgeRef)
        return self.graph.records(type_)

    def _conditions(self, pattern: Pattern) -> Iterator[tuple[set[str], Callable[[Match], bool]]]:
        """Each condition with the variables that it reads."""
        filters = list(pattern.filters)
        filters += [predicate for node in pattern.nodes for predicate in node.filters]
        filters += [predicate for hop in pattern.hops for predicate in hop.filters]
        for predicate in filters:
            yield set(find_variables(predicate)), self._is_true(predicate)
        for hop in pattern.hops:
            if hop.walk is not None:  # its walks are listed between ends that are bound
                continue
            names = {hop.source, hop.target} | ({hop.edge_variable} if hop.edge_variable else set())
            yield names, self._follows(hop)

    def _is_true(self, predicate: Expr) -> Callable[[Match], bool]:
        return lambda match: self.condition(predicate, match) is True

    def condition(self, expr: Expr, match: Match) -> bool | None:
        """The truth of a condition: where an integer overflows in it, a calculation is null."""
        before, self.is_condition = self.is_condition, True
        try:
            found: bool | None = self.value(expr, match)
        finally:
            self.is_condition = before
        return found

    @staticmethod
    def _decidable(
        conditions: list[tuple[set[str], Callable[[Match], bool]]], known: set[str]
    ) -> list[Callable[[Match], bool]]:
        """Takes out those that can be tested now."""
        ready = [condition for condition in conditions if condition[0] <= known]
        conditions[:] = [condition for condition in conditions if not condition[0] <= known]
        return [holds for _, holds in ready]

    def _follows(self, hop: Hop) -> Callable[[Match], bool]:
        source, target, edge = hop.source, hop.target, hop.edge_variable
        if hop.members:
            return follows_members(hop, self.graph.edges, _reached, _undirected_cycle)
        if edge is not None:  # one match for each edge: this very edge lies between the two
            return lambda match: _lies_between(match[edge], hop.direction, *_ids(match, source, target))
        distances = self.distances(hop)

        def holds(match: Match) -> bool:
            ids = _ids(match, source, target)
            return is_within(hop, distances.get(ids, 0), is_same=ids[0] == ids[1])

        return holds

    def _way(self, hop: Hop) -> Way:
        nodes, edges = list_parts(hop, self.graph.nodes, self.graph.edges)
        if hop.derived is not None:
            found = self.matches(hop.derived.pattern, {})
            pairs = {_ids(match, hop.derived.source, hop.derived.target) for match in found}
            edges = [{"@id": f"{source} {target}", "@src": source, "@dst": target} for source, target in pairs]
        return find_way(hop, nodes, edges, self.condition)

    def add_walks(self, pattern: Pattern, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows with the walks between ends that only alternatives or lists bind, if these are known by now."""
        for hop in pattern.hops:
            walk, ends = hop.walk, {hop.source, hop.target}
            if walk is not None and rows and walk.variable not in rows[0] and ends <= rows[0].keys():
                rows = [
                    {**row, walk.variable: each} for row in rows for each in self._walks(pattern, walk.variable, row)
                ]
        return rows

    def _walks(self, pattern: Pattern, name: str, match: Match) -> Sequence[Any]:
        hop = next(hop for hop in pattern.hops if hop.walk is not None and hop.walk.variable == name)
        if id(hop) not in self.walks:
            weight = None if hop.walk is None else hop.walk.weight
            nodes, _ = list_parts(hop, self.graph.nodes, self.graph.edges)
            self.walks[id(hop)] = list_walks(
                hop,
                self._way(hop),
                nodes,
                lambda edge: 0 if weight is None else self.value(weight, {ROW: edge}),
                self._count_try,
            )
        source, target = _ids(match, hop.source, hop.target)
        if hop.members:
            source, target = (f"{id_}\0{type_}" for type_, id_ in find_end_keys(hop, match))
        return self.walks[id(hop)].get((source, target), [])

    def _count_try(self) -> None:
        self.tries_left -= 1
        if self.tries_left < 0:
            raise TooManyError

    def distances(self, hop: Hop) -> dict[tuple[str, str], int]:
        """The breadth-first distance from every node to every node; to itself, the length of its shortest cycle."""
        steps: dict[str, set[str]] = {}
        way = self._way(hop)
        for edge in way.edges:
            if hop.direction is not HopDirection.IN:
                steps.setdefault(edge["@src"], set()).add(edge["@dst"])
            if hop.direction is not HopDirection.OUT:
                steps.setdefault(edge["@dst"], set()).add(edge["@src"])
        found: dict[tuple[str, str], int] = {}
        for start, first in steps.items():
            # A node that may not be inside of a walk leads nowhere, unless the walk starts there.
            inner = {node: steps[node] for node in steps if node in way.inner or not hop.through}
            own = {**inner, start: first}
            found.update({(start, node): distance for node, distance in _reached(own, start).items()})
            if hop.direction is HopDirection.BOTH:
                found[start, start] = _undirected_cycle(own, start)
        return found

    # --- values ------------------------------------------------------------------------------------

    def value(self, expr: Expr, match: Match) -> Any:  # noqa: C901, PLR0911, PLR0912 - one line for each kind of expression
        """The value of an expression in one match; a predicate is True, False or None (unknown)."""
        match expr:
            case Const():
                return expr.value
            case ParamRef():
                return self.params[expr.name]
            case Now():
                return NOW
            case ValueRef() if is_walk(expr):
                return show_walk(match[expr.variable], expr)
            case ValueRef() if isinstance(error := match[expr.variable], CalculationError):
                return self._overflow(error)
            case ValueRef():
                return match[expr.variable]
            case Prop() | Identity() | Entity() if match[expr.variable] is None:
                return None  # an optional block without a match
            case Prop():
                return match[expr.variable].get(expr.name)
            case Identity():
                return _identify(match[expr.variable], expr.part)
            case Entity():
                record = match[expr.variable]
                shown = {part.value: record["@" + part.value] for part in expr.ids}
                shown["@type"] = record.get("@type", expr.type.name)
                return shown | {prop.name: _as_type(record.get(prop.name), prop) for prop in expr.fields}
            case FieldRef() | United() | Missing() | Computed() | Case() if reads_chosen(expr):
                return evaluate_chosen(self, expr, match)
            case FieldRef(operand=ValueRef() as walk) if is_walk(walk):
                return read_walk(match[walk.variable], expr)
            case FieldRef():
                owner = self.value(expr.operand, match)
                return None if owner is None else _read_field(owner, expr)
            case IsNull():
                return (self.value(expr.operand, match) is None) != expr.negated
            case Not():
                return _negated(self.value(expr.term, match))
            case And():
                return self._all_hold(expr.terms, match)
            case Or():
                return _negated(self._all_hold([Not(term=term, origin=expr.origin) for term in expr.terms], match))
            case Compare():
                a, b = (
                    _as_compared(self.value(side, match), expr.left, expr.right) for side in (expr.left, expr.right)
                )
                return None if a is None or b is None else OPERATORS[expr.op](a, b)
            case In():
                sides = (expr.element, expr.collection)
                item, items = (_as_compared(self.value(side, match), *sides) for side in sides)
                return None if item is None or items is None else _is_among(item, items)
            case Contains():
                return self._of_both(lambda text, part: part in text, expr.text, expr.part, match)
            case StartsWith():
                return self._of_both(str.startswith, expr.text, expr.prefix, match)
            case TextMatch():
                edits = None if expr.edits is None else self.value(expr.edits, match)
                found = lambda text, query: text_matches(expr.mode, text, query, edits)  # noqa: E731 - as above
                return self._of_both(found, expr.prop, expr.query, match)
            case Nearest() | Bm25() | Distance() | Snippet() | FuzzyScore() | FieldRef() | RecordsParam():
                return evaluate(self, expr, match)
            case Rrf() | Mmr():
                return self._score(expr).get(_node_key(match[find_variable(expr)]))
            case Computed():
                arguments = [self.value(argument, match) for argument in self._needed(expr, match)]
                try:
                    return compute(expr, arguments, NOW)
                except CalculationError as error:
                    if expr.is_strict:
                        raise
                    return self._overflow(error)
            case Case():
                for condition, value in expr.branches:
                    if self.condition(condition, match) is True:
                        return self.value(value, match)
                return self.value(expr.otherwise, match)
            case RecordExpr():
                return {name: self.value(item, match) for name, item in expr.items}
            case Aggregate() | Window():
                return match[_GROUP][expr]

    def _all_hold(self, terms: Sequence[Expr], match: Match) -> bool | None:
        """The conjunction: beside a term that is false, one that fails does not matter."""
        whole: bool | None = True
        failure: CalculationError | None = None
        for term in terms:
            try:
                truth = self.value(term, match)
            except CalculationError as error:
                failure = error
                continue
            if truth is False:
                return False
            if truth is None:
                whole = None
        if failure is not None:
            raise failure
        return whole

    def _overflow(self, error: CalculationError) -> None:
        """A condition is unknown there; anything else has no answer."""
        if not self.is_condition:
            raise error

    def _needed(self, expr: Computed, match: Match) -> Iterator[Expr]:
        """The arguments that decide: of `coalesce`, those up to the first that is not null."""
        for argument in expr.arguments:
            yield argument
            if expr.function is ScalarFunction.COALESCE and self.value(argument, match) is not None:
                return

    def _of_both(self, function: Callable[[Any, Any], bool], left: Expr, right: Expr, match: Match) -> bool | None:
        a, b = self.value(left, match), self.value(right, match)
        return None if a is None or b is None else function(a, b)

    # --- ranks -------------------------------------------------------------------------------------

    def _score(self, expr: Rrf | Mmr) -> dict[str, float]:
        if expr not in self.scores:
            self.scores[expr] = self.rank(expr, self.found())
        return self.scores[expr]

    def union_records(self, rank: Nearest | Bm25) -> Sequence[Record]:
        """All records of the types that a ranked variable can have."""
        type_ = self.query.types[rank.prop.variable]
        assert isinstance(type_, NodeRef | EdgeRef)
        return self.graph.records(type_)

    def rank(self, rank: Rank, found: Sequence[Match]) -> dict[str, float]:
        """The score of every candidate that has one: a candidate is what the variable is bound to in some match."""
        if isinstance(rank, Rrf):
            first, second = self.rank(rank.first, found), self.rank(rank.second, found)
            wanted = self.count(self.query.limit, 0) + self.count(self.query.offset, 0)
            if self.query.per:  # the best of a group may be far down, so both lists have all rows
                wanted = len(found)
            lists = _best(rank.first, first), _best(rank.second, second)
            fused = fuses(*lists, k=self.value(rank.k, {}), length=max(4 * wanted, 100))
            return {_node_key(match[rank.first.prop.variable]): 0.0 for match in found} | fused
        if isinstance(rank, Mmr):
            scores = self.rank(rank.rank, found)
            wanted = self.count(self.query.limit, 0) + self.count(self.query.offset, 0)
            pool = _best(rank.rank, scores)[: max(4 * wanted, 100)]
            records = {_node_key(match[rank.prop.variable]): match[rank.prop.variable] for match in found}
            vectors = {id_: records[id_].get(rank.prop.name) for id_ in pool}
            sign = -1 if isinstance(rank.rank, Nearest) else 1
            relevance = {id_: sign * scores[id_] for id_ in pool}
            return chosen_to_differ(relevance, vectors, rank.balance, wanted)
        assert isinstance(rank, Nearest | Bm25)  # no reranker is configured here
        name, asked = rank.prop.name, self.value(rank.query, {})
        candidates = {_node_key(match[rank.prop.variable]): match[rank.prop.variable] for match in found}
        if isinstance(rank, Nearest):
            vectors = {id_: record.get(name) for id_, record in candidates.items()}
            return {id_: cosine_distance(v, asked) for id_, v in vectors.items() if v is not None}
        type_ = self.query.types[rank.prop.variable]
        assert isinstance(type_, NodeRef | EdgeRef)
        texts = {_node_key(record): record.get(name) for record in self.graph.records(type_)}
        return {id_: score for id_, score in relevances(texts, asked).items() if id_ in candidates}

    # --- groups ------------------------------------------------------------------------------------

    def groups(self, found: Sequence[Match]) -> list["_Row"]:
        """One row for each combination of keys; without keys always one."""
        grouping = self.query.grouping
        assert grouping is not None
        members: dict[tuple[Any, ...], list[Match]] = {} if grouping.keys else {(): []}
        for match in found:
            key = tuple(_identity(self.value(expr, match)) for expr in grouping.keys)
            members.setdefault(key, []).append(match)
        return [
            _Row(self, group[0] if group else {}, {expr: self.fold(expr, group) for expr in grouping.aggregates})
            for group in members.values()
        ]

    def fold(self, aggregate: Aggregate, group: Sequence[Match]) -> Any:
        """The aggregate's value over the matches of a group."""
        if aggregate.where is not None:
            group = [match for match in group if self.condition(aggregate.where, match) is True]
        if aggregate.argument is None:
            return len(group)
        if aggregate.fold not in _BASIC_FOLDS:
            try:
                value = fold(self, aggregate, group)
            except OverflowError as error:
                raise SumOverflowError from error
            if aggregate.type is Scalar.I64 and value is not None and value not in I64_RANGE:
                raise SumOverflowError(value)
            return value
        values = [value for match in group if (value := self.value(aggregate.argument, match)) is not None]
        if aggregate.fold is AggregateFunction.COUNT:
            return len(set(values)) if aggregate.distinct else len(values)
        if not values:
            return None
        if aggregate.fold is AggregateFunction.MIN:
            return min(values)
        if aggregate.fold is AggregateFunction.MAX:
            return max(values)
        if aggregate.fold is AggregateFunction.AVG:
            return float(sum(map(Fraction, values)) / len(values))
        is_whole = all(isinstance(value, int) for value in values)
        try:
            total = sum(values) if is_whole else fsum(values)
        except OverflowError as error:
            raise SumOverflowError from error
        if aggregate.type is Scalar.I64 and total not in I64_RANGE:
            raise SumOverflowError(total)
        return total

    # --- order -------------------------------------------------------------------------------------

    def sort(self, rows: list["_Row"]) -> None:
        """By rank, order and ties, the least important first: Python's sort keeps the order of equals."""
        keys = [(tie, False) for tie in reversed(self.query.ties)]
        keys += [(key.value, key.descending) for key in reversed(self.query.order)]
        if self.query.rank is not None:
            keys.append((self.query.rank, not isinstance(self.query.rank, Nearest)))
        for expr, descending in keys:
            rows.sort(key=lambda row, expr=expr: _sortable(row.value(expr)), reverse=descending)  # type: ignore[misc]  # mypy can't infer a lambda with a default

    def count(self, count: Count | None, otherwise: int) -> int:
        """The value of a limit or offset."""
        if count is None:
            return otherwise
        return count if isinstance(count, int) else int(self.value(count, {}))


@dataclass(frozen=True)
class _Row:
    """A match, or a group with one of its matches and the values of its aggregates."""

    reader: _Reader
    match: Match
    aggregates: Mapping[Expr, Any]

    def value(self, expr: Expr) -> Any:
        return self.reader.value(expr, self.all)

    def record(self, expr: Expr) -> Any:
        """The record of a whole node or edge."""
        return choose(self.reader, expr, self.all)

    @property
    def all(self) -> Match:
        """The match together with its aggregates."""
        return {**self.match, _GROUP: self.aggregates}


def _reached(steps: Mapping[T, set[T]], start: T) -> dict[T, int]:
    """Every node that one step or more lead to, at its smallest distance; the start when a way leads back to it."""
    found: dict[T, int] = {}
    frontier, distance = {start}, 0
    while frontier:
        distance += 1
        frontier = {node for reached in frontier for node in steps.get(reached, ()) if node not in found}
        found.update(dict.fromkeys(frontier, distance))
    return found


def _undirected_cycle(steps: Mapping[T, set[T]], start: T) -> int:
    """The length of the shortest cycle: an edge to itself, or three or more nodes; 0 if there is none.

    The last step back to the start may not be the first one again, so each first step is tried without its pair.
    """
    if start in steps[start]:
        return 1
    lengths = []
    for first in steps[start]:
        if first not in steps:  # it may not be inside of a walk
            continue
        without = {**steps, first: steps[first] - {start}, start: steps[start] - {first}}
        if start in (back := _reached(without, first)):
            lengths.append(1 + back[start])
    return min(lengths, default=0)


def _as_compared(value: Any, left: Expr, right: Expr) -> Any:
    """The value, or items, of one side; beside an F32 a fraction is read as one, whole numbers stay exact."""
    types = {getattr(side.type, "element", side.type) for side in (left, right)}
    if types != {Scalar.F32, Scalar.F64}:
        return value
    if isinstance(value, list | tuple):
        return [_as_compared(item, left, right) for item in value]
    is_fraction = isinstance(value, float) and not value.is_integer()
    return struct.unpack("<f", struct.pack("<f", value))[0] if is_fraction else value


def _lies_between(edge: Record, direction: HopDirection, source: str, target: str) -> bool:
    forwards = (edge["@src"], edge["@dst"]) == (source, target)
    backwards = (edge["@dst"], edge["@src"]) == (source, target)
    return {HopDirection.OUT: forwards, HopDirection.IN: backwards, HopDirection.BOTH: forwards or backwards}[direction]


def _best(rank: Rank, scores: Mapping[str, float]) -> list[str]:
    """The ids, best first; ties by id."""
    sign = 1 if isinstance(rank, Nearest) else -1
    return sorted(scores, key=lambda id_: (sign * scores[id_], id_))


def _node_key(record: Record) -> str:
    """What tells the rows of a rank apart: of a union also their types."""
    return f"{record.get('@type', '')} {record['@id']}"


def _ids(match: Match, source: str, target: str) -> tuple[str, str]:
    # Nothing lies between null and anything, not even nothing.
    first, second = (match[name] for name in (source, target))
    return "null source" if first is None else first["@id"], "null target" if second is None else second["@id"]


def _is_among(value: Any, others: Sequence[Any]) -> bool:
    """Whether a value is in a list; nodes and edges are the same by type, where it is known, and id."""
    if not isinstance(value, Mapping):
        return value in others
    return any(
        value["id"] == other["id"] and len({value.get("@type"), other.get("@type")} - {None}) < 2 for other in others
    )


def _negated(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _all(truths: Iterable[bool | None]) -> bool | None:
    """False beats unknown, unknown beats true."""
    found = list(truths)
    if False in found:
        return False
    return None if None in found else True


def _identity(value: Any) -> Any:
    """What tells a value from others: of a whole node or edge, its id, and its type if it may have several."""
    if isinstance(value, Mapping) and "id" not in value:  # a walk
        return repr(value)
    return (value.get("@type"), value["id"]) if isinstance(value, Mapping) else value


def _as_type(value: Any, prop: Prop) -> Any:
    """A value of a union's object: numbers of different types are all floats."""
    return float(value) if prop.type is Scalar.F64 and isinstance(value, int) else value


def _read_field(owner: Mapping[str, Any], expr: FieldRef) -> Any:
    """A field of a record, node or edge; only what has several types shows its own type."""
    if expr.name == "@type":
        return owner.get("@type", getattr(expr.operand.type, "name", None))
    return owner.get(expr.name)


def _sortable(value: Any) -> tuple[Any, ...]:
    """Null is smaller than every value."""
    return () if value is None else (value,)


def _identify(record: Mapping[str, Any], part: MetaColumn) -> Any:
    if part is MetaColumn.ID and "@type" in record:  # rows of a union differ in type or id
        return record["@type"], record["@id"]
    return record["@" + part.value]
