"""Physical plans that were made already: the same question of the same state is planned once."""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.physical_plan import PhysicalPlan
from omnigraph.engine.planning.planner import plan_read
from omnigraph.query.expr import Compare, Expr, Identity, MetaColumn, Now, Op, ParamRef, Prop, split_conjuncts, walk
from omnigraph.query.logical_plan import Pattern, ReadQuery
from omnigraph.schema.catalog import Catalog, Value

MAX_QUERIES, MAX_PLANS_PER_QUERY = 256, 16
MAX_PARAM_SIZE = 4_096
"""Values of more letters or items than this are not kept in memory for a plan: it is made anew each time."""

_Key: TypeAlias = tuple[str, int, str, tuple[object, ...]]
"""The state, by branch, manifest version and commit; and what counts of the parameters."""


@dataclass(slots=True)
class _CachedQuery:
    """What is known of one query."""

    query: ReadQuery
    """Kept alive, so that its identity is nobody else's."""
    value_params: tuple[str, ...]
    """The parameters whose values may change the plan."""
    null_params: tuple[str, ...]
    """Those of which only counts whether they are null."""
    is_time_independent: bool
    plans: OrderedDict[_Key, PhysicalPlan] = field(default_factory=OrderedDict)

    def build_key(self, snapshot: Snapshot, params: Mapping[str, Value]) -> _Key | None:
        """What two calls with the same plan have in common; None for a call that shares its plan with none."""
        shape: tuple[object, ...] = ()
        if not self.is_time_independent:
            return None
        if params:
            counted = tuple(params[name] for name in self.value_params)
            if sum(map(_measure_value, counted)) > MAX_PARAM_SIZE:
                return None
            shape = (*counted, *(params[name] is None for name in self.null_params))
        return snapshot.branch, snapshot.manifest_version, snapshot.manifest.head, shape


class PlanCache:
    """Plans by query, state and parameters; the least recently used ones go first. Safe from several threads.

    A plan may be kept because it is the same each time: the table versions of a state and the values of parameters
    decide, never what is in memory. Values that can't change it are left out: that of a key, which names one row, and
    those that only stand behind the pattern. A pattern that reads `now()`, or very large values, is planned each time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: OrderedDict[int, _CachedQuery] = OrderedDict()

    def get_or_plan(self, query: ReadQuery, snapshot: Snapshot, reading: ExecutionContext) -> PhysicalPlan:
        """The plan of a query, made first if need be."""
        with self._lock:
            known = self._get_or_analyze(query, reading.view.catalog)
            key = known.build_key(snapshot, reading.inputs.params)
            found = None if key is None else known.plans.get(key)
            if key is not None and found is not None:
                known.plans.move_to_end(key)
                return found
        plan = plan_read(query, reading)
        if key is not None:
            with self._lock:
                known.plans[key] = plan
                if len(known.plans) > MAX_PLANS_PER_QUERY:
                    known.plans.popitem(last=False)
        return plan

    def _get_or_analyze(self, query: ReadQuery, catalog: Catalog) -> _CachedQuery:
        found = self._queries.get(id(query))
        if found is None or found.query is not query:
            found = self._queries[id(query)] = _analyze_query(query, catalog)
            if len(self._queries) > MAX_QUERIES:
                self._queries.popitem(last=False)
        self._queries.move_to_end(id(query))
        return found


def _measure_value(value: Value) -> int:
    """About how much a value takes, in letters or items."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, tuple):
        return len(value) if len(value) > MAX_PARAM_SIZE else sum(map(_measure_value, value))
    return 1


def _analyze_query(query: ReadQuery, catalog: Catalog) -> _CachedQuery:
    counted: dict[str, None] = {}
    named: dict[str, None] = {}
    is_timeless = True
    for types, term in _iter_predicates(query.pattern, {}):
        key = _find_key_param(term, types, catalog)
        if key is not None:
            named[key] = None
            continue
        for part in walk(term):
            is_timeless &= not isinstance(part, Now)
            if isinstance(part, ParamRef):
                counted[part.name] = None
    return _CachedQuery(query, tuple(counted), tuple(name for name in named if name not in counted), is_timeless)


def _iter_predicates(pattern: Pattern, outside: Mapping[str, str]) -> Iterator[tuple[Mapping[str, str], Expr]]:
    """Every predicate of a pattern and of its blocks, and the types of the variables that it may read."""
    types = {**outside, **{name: type_.name for name, type_ in pattern.types.items()}}
    of_nodes = [expr for node in pattern.nodes for expr in node.filters]
    of_hops = [expr for hop in pattern.hops for expr in hop.filters]
    for expr in (*of_nodes, *of_hops, *pattern.filters):
        for term in split_conjuncts(expr):
            yield types, term
    for absent in pattern.absent:
        yield from _iter_predicates(absent.pattern, types)


def _find_key_param(term: Expr, types: Mapping[str, str], catalog: Catalog) -> str | None:
    """The parameter that a term sets a whole key or an id equal to: one row has it, whichever value it is."""
    match term:
        case Compare(op=Op.EQ, left=Prop() | Identity() as column, right=ParamRef(name=name)):
            pass
        case Compare(op=Op.EQ, left=ParamRef(name=name), right=Prop() | Identity() as column):
            pass
        case _:
            return None
    if isinstance(column, Identity):
        return name if column.part is MetaColumn.ID else None
    type_ = catalog.find_type(types[column.variable])
    return name if type_ is not None and type_.key == (column.name,) else None
