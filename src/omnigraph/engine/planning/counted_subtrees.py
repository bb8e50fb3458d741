"""What hangs on a variable and is not listed: in which direction each branch is worked out, by cost."""

from collections.abc import Callable

from omnigraph.engine.physical_plan import REVERSED, AntiJoin, CountedSubtree, Link, Node, SubtreeDirection
from omnigraph.engine.planning.cost_model import CostModel
from omnigraph.engine.planning.pattern_graph import HopsByVariable, PatternGraph
from omnigraph.query.logical_plan import Hop, NotExists

PlanBlock = Callable[[NotExists, float], AntiJoin]
"""Plans a `not` block for an expected number of combinations."""

_ANTI_JOIN_SHARE = 0.7
"""The share of rows that a `not` block keeps, where nothing is known."""


def build_link(
    hop: Hop,
    costs: CostModel,
    sources: float,
    *,
    forward: bool,
    has_multiplicity: bool,
    needed: frozenset[str] = frozenset(),
    is_from_leaf: bool = False,
) -> Link:
    """A hop as it is travelled from so many nodes; `counts`: parallel edges of an edge variable are matches each.

    A branch that is pushed is travelled the other way round than it is written down.
    """
    access, why = costs.choose_edge_access(hop, sources, forward=forward is not is_from_leaf)
    return Link(
        edge=hop.edge.name,
        near=hop.source_type if forward else hop.target_type,
        far=hop.target_type if forward else hop.source_type,
        direction=hop.direction if forward else REVERSED[hop.direction],
        low=hop.low,
        high=hop.high,
        each_edge=has_multiplicity and not hop.is_set,
        filters=hop.filters,
        edge_variable=hop.edge_variable if hop.edge_variable in needed else None,
        access=access,
        fan_out=costs.estimate_fan_out(hop, forward=forward),
        why=why,
    )


class SubtreePlanner:
    """Nodes of a plan, with what hangs on them."""

    def __init__(self, shape: PatternGraph, costs: CostModel, plan_block: PlanBlock, *, has_multiplicity: bool) -> None:
        self._shape, self._costs, self._plan_block, self._has_multiplicity = shape, costs, plan_block, has_multiplicity
        self._estimates: dict[tuple[str, int], tuple[float, float]] = {}

    def forget(self) -> None:
        """What hangs where has changed."""
        self._estimates.clear()

    def build_node(self, variable: str, hanging: HopsByVariable, demand: float | None, came: Hop | None = None) -> Node:
        """The node of a variable; `demand` is how many of its rows are asked about, None if all."""
        type_name = self._shape.types[variable]
        filters = self._shape.filters.get(variable, ())
        rows, _ = self.estimate(variable, hanging, None, came)
        asked = self._costs.count(type_name) if demand is None else min(demand, self._costs.count(type_name))
        asked *= self._costs.estimate_passing(type_name, filters) / max(self._costs.count(type_name), 1.0)
        branches = [
            self._build_subtree(variable, hop, other, hanging, asked)
            for hop, other in hanging.get(variable, ())
            if hop is not came
        ]
        return Node(
            variable=variable,
            type=type_name,
            filters=filters,
            absent=tuple(self._plan_block(absent, asked) for absent in self._shape.single.get(variable, ())),
            subtrees=tuple(branches),
            rows=rows,
            access=self._costs.describe_access(type_name, filters) if variable in self._shape.filters else "",
        )

    def estimate(
        self, variable: str, hanging: HopsByVariable, demand: float | None, came: Hop | None = None
    ) -> tuple[float, float]:
        """How many rows of a variable pass, of those that are asked about, and what finding out costs."""
        key = (variable, id(came))
        if demand is None and key in self._estimates:
            return self._estimates[key]
        costs, type_name = self._costs, self._shape.types[variable]
        filters = self._shape.filters.get(variable, ())
        count = costs.count(type_name)
        passing = costs.estimate_passing(type_name, filters)
        rows, cost = passing, costs.estimate_scan_cost(type_name, filters, passing)
        if demand is not None:
            asked = min(demand, count)
            rows, cost = asked * passing / max(count, 1.0), asked if filters else 0.0
        rows *= _ANTI_JOIN_SHARE ** len(self._shape.single.get(variable, ()))
        for hop, other in hanging.get(variable, ()):
            if hop is came:
                continue
            pull, push, share = self._estimate_directions(variable, hop, other, hanging, rows)
            cost += min(pull, push)
            rows *= share
        if demand is None:
            self._estimates[key] = rows, cost
        return rows, cost

    def _estimate_directions(
        self, variable: str, hop: Hop, other: str, hanging: HopsByVariable, rows: float
    ) -> tuple[float, float, float]:
        """What a branch costs when its near end pulls and when its far end pushes; and which share of rows has one."""
        costs, forward = self._costs, hop.source == variable
        there = costs.estimate_fan_out(hop, forward=forward)
        back = costs.estimate_fan_out(hop, forward=not forward)
        far, far_cost = self.estimate(other, hanging, None, hop)
        is_plain = not (hop.filters or hop.is_multi or self._is_filtered(other, hanging, hop))
        _, asked_cost = self.estimate(other, hanging, rows * there, hop)
        pull = rows if is_plain else rows * there + asked_cost
        push = far_cost + far * back
        count = max(costs.count(self._shape.types[variable]), 1.0)
        return pull, push, min(1.0, far * back * costs.estimate_edge_share(hop) / count)

    def _is_filtered(self, variable: str, hanging: HopsByVariable, came: Hop) -> bool:
        others = [hop for hop, _ in hanging.get(variable, ()) if hop is not came]
        return bool(others or self._shape.filters.get(variable) or self._shape.single.get(variable))

    def _build_subtree(
        self, variable: str, hop: Hop, other: str, hanging: HopsByVariable, rows: float
    ) -> CountedSubtree:
        forward = hop.source == variable
        pull, push, _ = self._estimate_directions(variable, hop, other, hanging, rows)
        is_pull = pull <= push
        far, _ = self.estimate(other, hanging, None, hop)
        there = self._costs.estimate_fan_out(hop, forward=forward)
        sources = rows if is_pull else far
        link = build_link(
            hop,
            self._costs,
            sources,
            forward=forward,
            has_multiplicity=self._has_multiplicity,
            is_from_leaf=not is_pull,
        )
        demand = min(rows * there, self._costs.count(self._shape.types[other])) if is_pull else None
        return CountedSubtree(
            link=link,
            node=self.build_node(other, hanging, demand, hop),
            direction=SubtreeDirection.FROM_ROOT if is_pull else SubtreeDirection.FROM_LEAF,
        )
