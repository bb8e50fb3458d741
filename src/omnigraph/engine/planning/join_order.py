"""Choose the join order of a connected component: where to start, which hop is next, and what is only counted.

`min` returns the first of equal ones: equal costs are decided by the order of appearance, so plans are deterministic.
"""

import math
from dataclasses import replace

from omnigraph.engine.physical_plan import Check, Close, Expand, Link, Product, Scan
from omnigraph.engine.planning.counted_subtrees import SubtreePlanner, build_link
from omnigraph.engine.planning.pattern_graph import HopsByVariable, strip_leaves
from omnigraph.engine.planning.plan_builder import MAX_EXPECTED_ROWS, MatchSemantics, PlanBuilder
from omnigraph.query.logical_plan import Hop

# In trees of more variables, the root is the one with the fewest rows: costs are not compared.
_MAX_COMPARED_ROOTS = 12
# A variable with at most this number of rows may be bound on its own; hops to it then become conditions.
_MAX_RARE_ROWS = 64.0
# The logarithm of the largest number of rows that is told apart from larger ones.
_MAX_LOG_ROWS = math.log(MAX_EXPECTED_ROWS)
# If at least this number of rows is expected and few are requested, they are produced in their order, so that most are
# never produced.
MIN_ORDERED_ROWS = 65_536.0


class JoinOrderPlanner:
    """Add the steps of one connected component to a plan."""

    def __init__(
        self, builder: PlanBuilder, subtree_planner: SubtreePlanner, required: set[str], hops: tuple[Hop, ...]
    ) -> None:
        self._builder = builder
        self._subtree_planner = subtree_planner
        self._required = required
        self._context = builder.context
        self._costs = builder.context.costs
        self._graph = builder.graph
        # The hops that can be followed now; those from alternatives that are not solved yet come later.
        self._hops = hops
        self._edges = self._graph.group_hops(hops)
        self._subtrees: HopsByVariable = {}
        self._growths: dict[tuple[int, bool], float] = {}
        self._has_multiplicity = builder.semantics is not MatchSemantics.EXISTS

    def add(self, component: list[str]) -> None:
        """Bind the variables of a component that must be listed; all others are counted subtrees of them."""
        required = self._required.intersection(component) or {self._choose_root(component)}
        core, self._subtrees = strip_leaves(self._edges, component, required)
        self._subtree_planner.forget()
        members = set(core)
        hops = [hop for hop in self._hops if hop.source in members and hop.target in members]
        if not self._builder.bound:
            leading = self._context.leading_variable
            if leading in members and self._estimate_total(core, hops) >= MIN_ORDERED_ROWS:
                self._add_scan(leading)
            else:
                self._add_scan(self._choose_first(core, hops))
        else:
            for variable in core:
                if variable in self._builder.bound and self._subtrees.get(variable):
                    self._add_check(variable)
        self._follow_hops(hops)

    # --- where to start ---------------------------------------------------------------------------------

    def _estimate_total(self, core: list[str], hops: list[Hop]) -> float:
        """Estimate the number of rows of the whole component, which no order changes."""
        # Logarithms, since the product of many variables is larger than any float.
        factors = [self._estimate_alone(variable) for variable in core]
        for hop in hops:
            ends = max(self._costs.count(hop.source_type), 1.0)
            share = self._costs.estimate_edge_share(hop)
            factors.append(self._costs.estimate_fan_out(hop, forward=False) * share / ends)
        if not all(factors):
            return 0.0
        return math.exp(min(sum(map(math.log, factors)), _MAX_LOG_ROWS))

    def _choose_root(self, component: list[str]) -> str:
        """Return the variable from which a component that is only counted is cheapest to count."""
        members = set(component)
        hops = sum(hop.source in members for hop in self._hops)
        # A component with a cycle is no tree, so the cost estimate of subtrees does not apply.
        if len(component) > _MAX_COMPARED_ROOTS or hops != len(component) - 1:
            return min(component, key=self._estimate_passing)
        self._subtree_planner.forget()
        return min(component, key=lambda variable: self._subtree_planner.estimate(variable, self._edges, None)[1])

    def _estimate_passing(self, variable: str) -> float:
        return self._costs.estimate_passing(self._graph.types[variable], self._graph.filters[variable])

    def _choose_first(self, core: list[str], hops: list[Hop]) -> str:
        """Return the variable from which the hops of a component are cheapest to follow."""
        touching: dict[str, list[Hop]] = {variable: [] for variable in core}
        for hop in hops:
            for variable in {hop.source, hop.target}:
                touching[variable].append(hop)
        return min(core, key=lambda variable: self._estimate_first_cost(variable, touching[variable]))

    def _estimate_first_cost(self, variable: str, hops: list[Hop]) -> float:
        rows, cost = self._subtree_planner.estimate(variable, self._subtrees, None)
        onward = [self._costs.estimate_fan_out(hop, forward=hop.source == variable) for hop in hops]
        return cost + rows * (1.0 + min(onward, default=0.0))

    def _add_scan(self, variable: str) -> None:
        number = self._context.next_number()
        node = self._subtree_planner.build_node(variable, self._subtrees, None)
        step = Scan(number=number, node=node, rows=node.rows)
        self._builder.add(step, binds={variable}, rows=self._builder.rows * node.rows)
        self._builder.apply_pending()

    def _add_check(self, variable: str) -> None:
        """Count the subtrees of an outer variable."""
        number = self._context.next_number()
        node = self._subtree_planner.build_node(variable, self._subtrees, self._builder.rows)
        rows = self._builder.rows * node.rows / max(self._costs.count(node.type), 1.0)
        self._builder.add(Check(number=number, node=node, rows=rows), reads={variable})

    # --- which hop is next --------------------------------------------------------------------------------

    def _follow_hops(self, hops: list[Hop]) -> None:
        """Add hops, each time the one that is expected to leave the fewest rows."""
        left = list(hops)
        while left:
            bound = self._builder.bound
            # A hop with both ends bound is a condition: it binds no further node.
            closing = next((hop for hop in left if hop.source in bound and hop.target in bound), None)
            hop: Hop | None = None
            if closing is not None:
                left.remove(closing)
                self._add_close(closing)
            else:
                reachable = (hop for hop in left if hop.source in bound or hop.target in bound)
                hop = min(reachable, key=self._estimate_growth)
                target = hop.target if hop.source in bound else hop.source
                if self._is_rare(target, hop):
                    self._add_product(target)
                else:
                    left.remove(hop)
                    self._add_expand(hop)
            bound = self._builder.bound
            has_condition = any(hop.source in bound and hop.target in bound for hop in left)
            # A hop that is a condition costs less than a block, so it comes first.
            self._builder.apply_pending(with_blocks=not has_condition)
            self._builder.drop_dead_variables(left)
            if left or hop is not None:
                self._builder.merge_rows(left, last=None if left else hop)

    def _estimate_alone(self, variable: str) -> float:
        return self._subtree_planner.estimate(variable, self._subtrees, None)[0]

    def _estimate_growth(self, hop: Hop) -> float:
        """Estimate how many rows each row becomes by a hop."""
        forward = hop.source in self._builder.bound
        growth = self._growths.get((id(hop), forward))
        if growth is None:
            variable = hop.target if forward else hop.source
            share = self._estimate_alone(variable) / max(self._costs.count(self._graph.types[variable]), 1.0)
            growth = self._costs.estimate_fan_out(hop, forward=forward) * self._costs.estimate_edge_share(hop) * share
            self._growths[id(hop), forward] = growth
        return growth

    def _is_rare(self, variable: str, hop: Hop) -> bool:
        """Return whether a variable has far fewer rows than a hop to it has ends."""
        alone = self._estimate_alone(variable)
        return alone <= _MAX_RARE_ROWS and alone * 2 < self._costs.estimate_fan_out(
            hop, forward=hop.source in self._builder.bound
        )

    def _add_product(self, variable: str) -> None:
        """Bind a variable of very few rows on its own; the hops to it are then conditions."""
        number, inner = self._context.next_number(), self._context.next_number()
        node = self._subtree_planner.build_node(variable, self._subtrees, None)
        scan = Scan(number=inner, node=node, rows=node.rows)
        rows = self._builder.rows
        step = Product(number=number, steps=(scan,), rows=rows * node.rows, left_rows=rows, right_rows=node.rows)
        self._builder.add(step, binds={variable})

    def _add_expand(self, hop: Hop) -> None:
        builder = self._builder
        forward = hop.source in builder.bound
        source, target = (hop.source, hop.target) if forward else (hop.target, hop.source)
        link = build_link(
            hop,
            self._costs,
            builder.rows,
            forward=forward,
            has_multiplicity=self._has_multiplicity,
            needed=builder.find_needed_edges(),
        )
        link = self._add_derived(link, hop)
        rows = builder.rows * self._estimate_growth(hop)
        number = self._context.next_number()
        node = self._subtree_planner.build_node(target, self._subtrees, builder.rows * link.fan_out)
        step = Expand(number=number, source=source, link=link, node=node, keep=(), rows=rows)
        builder.add(step, reads={source}, binds=_drop_unnamed(target, link.edge_variable, _get_walk(link)))

    def _add_derived(self, link: Link, hop: Hop) -> Link:
        """Return the link with the steps that find its edges, if it is a named pattern."""
        if hop.derived is None or self._context.plan_derived is None:
            return link
        return replace(link, derived=self._context.plan_derived(hop.derived))

    def _add_close(self, hop: Hop) -> None:
        builder = self._builder
        fan_out = self._costs.estimate_fan_out(hop, forward=True) * self._costs.estimate_edge_share(hop)
        rows = builder.rows * fan_out / max(self._costs.count(hop.target_type), 1.0)
        link = build_link(
            hop,
            self._costs,
            builder.rows,
            forward=True,
            has_multiplicity=self._has_multiplicity,
            needed=builder.find_needed_edges(),
        )
        link = self._add_derived(link, hop)
        number = self._context.next_number()
        step = Close(number=number, source=hop.source, target=hop.target, link=link, keep=(), rows=rows)
        builder.add(step, reads={hop.source, hop.target}, binds=_drop_unnamed(link.edge_variable, _get_walk(link)))


def _get_walk(link: Link) -> str | None:
    return link.walk.variable if link.walk is not None and link.binds_walk else None


def _drop_unnamed(*variables: str | None) -> list[str]:
    return [variable for variable in variables if variable is not None]
