"""Cache physical plans: the same query over the same snapshot is planned once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.physical_plan import PhysicalPlan, get_type_name
from omnigraph.engine.planning.memory_estimate import estimate_memory
from omnigraph.engine.planning.planner import plan_read
from omnigraph.lru_cache import LruCache
from omnigraph.query.expr import Compare, Expr, Identity, MetaColumn, Now, Op, ParamRef, Prop, RecordsParam
from omnigraph.query.expr_tree import split_conjuncts, walk
from omnigraph.query.logical_plan import Pattern, ReadQuery, get_block_exprs, get_patterns, iter_stages
from omnigraph.query.params import ParamValue
from omnigraph.query.record_params import RecordRows
from omnigraph.schema.catalog import Catalog

# A query by key took 0.21 ms with a cached plan, 0.31 ms with planning. A plan is valid for one snapshot only, so the
# sixteen of a query are for different parameter values and for the last few commits.
MAX_QUERIES = 256
MAX_PLANS_PER_QUERY = 16
# Sixteen plans of 400 hops take 3.7 MB with their query, so that 256 such queries would take a gigabyte. Long queries
# have fewer places and fewer plans: the cache holds this number of nodes and hops, of queries and of plans of a query.
MAX_PARTS = 8_192
MAX_PARTS_PER_QUERY = 512
# A cache key holds its parameter values, so large ones are not cached: 256 queries with 16 plans of up to 4,096
# characters or list items each stay below 17 million of them.
MAX_PARAM_SIZE = 4_096

_Key: TypeAlias = tuple[str, int, str, str, tuple[object, ...]]
"""Branch, manifest version and commit of the snapshot, the rows left out, and values of parameters that matter."""


@dataclass(slots=True)
class _CachedQuery:
    """The plans of one query, and what their cache key depends on."""

    query: ReadQuery
    """Referenced here so that its `id()`, which is the cache key, is not reused."""
    value_params: tuple[str, ...]
    """Parameters whose values may change the plan."""
    null_params: tuple[str, ...]
    """Parameters that change the plan only by being null or not."""
    is_time_independent: bool
    parts: int
    """The number of its nodes, hops and blocks, which measures the size of its plans."""
    plans: LruCache[_Key, PhysicalPlan] = field(init=False)

    def __post_init__(self) -> None:
        self.plans = LruCache(max(1, min(MAX_PLANS_PER_QUERY, MAX_PARTS_PER_QUERY // self.parts)))

    def build_key(self, snapshot: Snapshot, realm: str, params: Mapping[str, ParamValue]) -> _Key | None:
        """Return the key under which the plan of a call is cached, or None if it must not be cached."""
        if not self.is_time_independent:
            return None
        param_key: tuple[object, ...] = ()
        if params:
            values = tuple(params[name] for name in self.value_params)
            if sum(map(_measure_value, values)) > MAX_PARAM_SIZE:
                return None
            nulls = tuple(params[name] is None for name in self.null_params)
            param_key = (*values, *nulls)
        return snapshot.branch, snapshot.manifest_version, snapshot.manifest.head, realm, param_key


class PlanCache:
    """An LRU cache of plans by query, snapshot and parameters. Thread-safe.

    Caching is sound because a plan depends on the table versions of the snapshot and on parameter values only, never on
    what happens to be in memory. Values that can't change the plan are left out of the key: that of a unique key, which
    selects one row whatever it is, and those used only after pattern matching, such as LIMIT. Patterns that read
    `now()`, and calls with very large values, are planned each time.
    """

    def __init__(self) -> None:
        self._queries: LruCache[int, _CachedQuery] = LruCache(MAX_PARTS)

    def get_or_plan(self, query: ReadQuery, snapshot: Snapshot, context: ExecutionContext) -> PhysicalPlan:
        """Return the cached plan of a query, or plan it and cache the plan.

        Two threads may plan the same query at the same time; both plans are equal, and the later one stays.
        """
        cached = self._get_or_analyze(query, context.view.catalog)
        key = cached.build_key(snapshot, context.view.realm, context.inputs.params)
        plan = None if key is None else cached.plans.get(key)
        if plan is not None:
            return plan
        plan = plan_read(query, context)
        if key is not None:
            plan = replace(plan, memory=estimate_memory(query, plan, context))
            cached.plans.put(key, plan)
        return plan

    def _get_or_analyze(self, query: ReadQuery, catalog: Catalog) -> _CachedQuery:
        cached = self._queries.get(id(query))
        if cached is None or cached.query is not query:
            cached = _analyze_query(query, catalog)
            # The least size of an entry limits their number.
            self._queries.put(id(query), cached, max(cached.parts, MAX_PARTS // MAX_QUERIES))
        return cached


def _measure_value(value: ParamValue) -> int:
    """Return the approximate size of a value, in characters or list items."""
    if isinstance(value, RecordRows):
        return value.size + sum(map(_measure_value, value.columns)) if value.size <= MAX_PARAM_SIZE else value.size
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, tuple):
        # A list that is too long by its length alone need not be measured item by item.
        return len(value) if len(value) > MAX_PARAM_SIZE else sum(map(_measure_value, value))
    return 1


def _analyze_query(query: ReadQuery, catalog: Catalog) -> _CachedQuery:
    """Find out which parameters of a query can change its plan, and whether the plan depends on the time."""
    value_params: dict[str, None] = {}
    key_params: dict[str, None] = {}
    is_time_independent = True
    for types, predicate in _iter_stage_predicates(query):
        key_param = _find_key_param(predicate, types, catalog)
        if key_param is not None:
            key_params[key_param] = None
            continue
        for part in walk(predicate):
            is_time_independent &= not isinstance(part, Now)
            if isinstance(part, ParamRef | RecordsParam):
                value_params[part.name] = None
    null_params = tuple(name for name in key_params if name not in value_params)
    parts = sum(_count_parts(stage.pattern) for stage in iter_stages(query))
    return _CachedQuery(query, tuple(value_params), null_params, is_time_independent, max(parts, 1))


def _count_parts(pattern: Pattern) -> int:
    inner = (other for block in pattern.blocks for other in get_patterns(block))
    return len(pattern.nodes) + len(pattern.hops) + len(pattern.blocks) + sum(map(_count_parts, inner))


def _iter_stage_predicates(query: ReadQuery) -> Iterator[tuple[Mapping[str, str], Expr]]:
    """Yield every predicate of the patterns of a read and of those that it starts from."""
    for stage in iter_stages(query):
        inputs = {each.variable: each.entity.name for each in stage.inputs if each.entity is not None}
        yield from _iter_predicates(stage.pattern, inputs)


def _iter_predicates(pattern: Pattern, outer_types: Mapping[str, str]) -> Iterator[tuple[Mapping[str, str], Expr]]:
    """Yield every predicate of a pattern and of its blocks, with the types of the variables in scope."""
    own_types = {name: get_type_name(type_) for name, type_ in pattern.types.items()}
    types = {**outer_types, **own_types}
    node_filters = [expr for node in pattern.nodes for expr in node.filters]
    hop_filters = [expr for hop in pattern.hops for expr in hop.filters]
    for expr in (*node_filters, *hop_filters, *pattern.filters):
        for predicate in split_conjuncts(expr):
            yield types, predicate
    for block in pattern.blocks:
        for inner in get_patterns(block):
            yield from _iter_predicates(inner, types)
        for expr in get_block_exprs(block):
            # No index finds the values of a block, so their parameters are as good as any in a predicate.
            yield types, expr


def _find_key_param(predicate: Expr, types: Mapping[str, str], catalog: Catalog) -> str | None:
    """Return the parameter that a predicate compares with a single-column key or an id, or None if it does not.

    Such a predicate selects at most one row, whatever the value, so the value can't change the plan.
    """
    match predicate:
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
