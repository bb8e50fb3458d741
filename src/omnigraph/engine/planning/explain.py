"""Format a physical plan for `explain`: what each step does, how, why, and how many rows are expected.

Equal plans have equal texts. With a profile, each step also shows what it really did; only those numbers vary.
"""

from collections.abc import Iterable, Iterator
from typing import assert_never

from omnigraph.engine.physical_plan import (
    SEED,
    BindValue,
    BlockStep,
    Check,
    Close,
    Compact,
    CountedSubtree,
    Expand,
    Filter,
    Join,
    JoinAlternatives,
    JoinComparison,
    JoinCondition,
    JoinMembership,
    LeftJoin,
    Link,
    Merge,
    Node,
    Nothing,
    PhysicalPlan,
    Product,
    Scan,
    SemiJoin,
    Step,
    SubtreeDirection,
    UnionJoin,
    Unnest,
    get_inner_steps,
)
from omnigraph.engine.query_profile import QueryProfile, StepProfile
from omnigraph.query.explain import format_block
from omnigraph.query.expr import Expr
from omnigraph.query.format_expr import format_expr
from omnigraph.query.logical_plan import GENERATED_PREFIX, HopDirection, ReadQuery

_INDENT = "  "
_ARROWS = {HopDirection.OUT: ("-", "->"), HopDirection.IN: ("<-", "-"), HopDirection.BOTH: ("-", "-")}


def format_plan(plan: PhysicalPlan, trace: QueryProfile | None = None) -> str:
    """Format a plan as text, one step per line and inner steps indented below; ends with a line break."""
    lines = [
        *_format_steps(plan.steps, plan.has_multiplicity, trace),
        *(line for part in plan.parts for line in _format_part(*part, trace)),
        *(f"warning: {warning}" for warning in plan.warnings),
    ]
    return "".join(f"{line}\n" for line in lines)


def build_plan_json(plan: PhysicalPlan, trace: QueryProfile | None = None) -> dict[str, object]:
    """Return the JSON form of a plan."""
    return {
        "variables": list(plan.variables),
        "counts": plan.has_multiplicity,
        "steps": [_build_step_json(step, plan.has_multiplicity, trace) for step in plan.steps],
        **({"parts": [build_plan_json(part, trace) for _, part in plan.parts]} if plan.parts else {}),
        "warnings": list(plan.warnings),
    }


# --- text ------------------------------------------------------------------------------------------


def _format_part(query: ReadQuery, plan: PhysicalPlan, trace: QueryProfile | None) -> Iterator[str]:
    yield f"for {', '.join(format_expr(column.value) for column in query.output)}"
    yield from (_INDENT + line for line in _format_steps(plan.steps, plan.has_multiplicity, trace))


def _format_steps(steps: Iterable[Step], has_multiplicity: bool, trace: QueryProfile | None) -> Iterator[str]:
    for step in steps:
        actual = None if trace is None else trace.steps.get(step.number)
        notes = ", ".join(_build_notes(step))
        yield f"{step.number}. {_format_title(step)}{'  ' if notes else ''}{notes}{_format_profile(trace, actual)}"
        for line in _format_inner(step, has_multiplicity, trace):
            yield _INDENT + line


def _format_inner(step: Step, has_multiplicity: bool, trace: QueryProfile | None) -> Iterator[str]:
    match step:
        case Scan() | Check():
            yield from _format_node(step.node, has_multiplicity, trace)
        case Expand():
            yield from _format_conditions(step.link)
            yield from _format_derived(step.link, trace)
            yield from _format_node(step.node, has_multiplicity, trace)
        case Close():
            yield from _format_conditions(step.link)
            yield from _format_derived(step.link, trace)
        case Filter():
            yield from map(format_expr, step.predicates)
        case Product() | Join() | SemiJoin() | LeftJoin() | BindValue():
            yield from _format_steps(step.steps, _counts_inside(step, has_multiplicity), trace)
        case UnionJoin():
            for number, steps in enumerate(step.alternatives):
                if number:
                    yield "or"
                yield from _format_steps(steps, False, trace)
        case Unnest() | Compact() | Merge() | Nothing():
            pass
        case _:
            assert_never(step)


def _counts_inside(step: Step, has_multiplicity: bool) -> bool:
    """Return whether the inner steps of a step count matches; a test only asks whether there is one."""
    if isinstance(step, BindValue):
        return step.has_multiplicity
    return has_multiplicity and not isinstance(step, SemiJoin | UnionJoin)


def _format_derived(link: Link, trace: QueryProfile | None) -> Iterator[str]:
    """Format the steps that find the edges of a named pattern."""
    if link.derived is not None:
        yield f"{link.edge} is"
        yield from (_INDENT + line for line in _format_steps(link.derived.steps, False, trace))


def _format_conditions(link: Link) -> Iterator[str]:
    """Format the filters of a hop's edges, the conditions on its way, and the weight of its walks."""
    yield from map(format_expr, link.filters)
    yield from (f"along {format_expr(expr)}" for expr in link.along)
    yield from (f"through {format_expr(expr)}" for expr in link.through)
    if link.walk is not None and link.walk.weight is not None:
        yield f"by {format_expr(link.walk.weight)}"


def _format_node(node: Node, has_multiplicity: bool, trace: QueryProfile | None) -> Iterator[str]:
    """Format the filters of a node, its counted subtrees and the blocks that test it."""
    yield from map(format_expr, node.filters)
    for subtree in node.subtrees:
        yield f"{_format_subtree_title(node, subtree, has_multiplicity)}  {', '.join(_build_subtree_notes(subtree))}"
        for line in (*_format_conditions(subtree.link), *_format_node(subtree.node, has_multiplicity, trace)):
            yield _INDENT + line
    yield from _format_steps(node.blocks, has_multiplicity, trace)


def _format_title(step: Step) -> str:
    match step:
        case Scan():
            return f"scan {_format_variable(step.node.variable)}: {step.node.type}"
        case Expand():
            return f"{_format_verb('expand', step.link)} {_format_hop(step.source, step.link, step.node.variable)}"
        case Check():
            return f"check {_format_variable(step.node.variable)}: {step.node.type}"
        case Close():
            return f"{_format_verb('close', step.link)} {_format_hop(step.source, step.link, step.target)}"
        case Filter():
            return "filter"
        case Product():
            return "product with"
        case Join():
            return f"join on {' and '.join(map(_format_condition, step.conditions))} with"
        case Compact():
            return _format_compact_title(step)
        case Merge():
            word = "count rows by the values of" if step.has_multiplicity else "distinct values of"
            when = " where hops meet a hub" if step.is_for_hubs else ""
            return f"{word} {', '.join(map(format_expr, step.values))}{when}"
        case Nothing():
            return "nothing: no row can match"
        case _:
            return _format_block_title(step)


def _format_condition(condition: JoinCondition) -> str:
    match condition:
        case JoinComparison():
            return f"{format_expr(condition.left)} {condition.op.value} {format_expr(condition.right)}"
        case JoinMembership():
            sides = (condition.left, condition.right) if condition.is_whole_left else (condition.right, condition.left)
            return f" {condition.kind.value} ".join(map(format_expr, sides))
        case JoinAlternatives():
            return " or ".join(map(_format_condition, condition.terms))
        case _:
            assert_never(condition)


def _format_block_title(step: BlockStep) -> str:
    match step:
        case SemiJoin():
            word = "without" if step.is_anti else "with"
            return f"keep {_format_shared(step)} {word} a match of"
        case LeftJoin():
            return f"for each {_format_shared(step)} {_format_variables(step.binds) or 'matches'} or null of"
        case UnionJoin():
            names = _format_variables(step.variables) or "a match"
            per = f"for each {_format_shared(step)} " if step.shared else ""
            return f"{per}distinct {names} of either"
        case Unnest():
            return f"each {_format_variable(step.variable)} in {format_expr(step.value)}"
        case BindValue():
            per = f"for each {_format_shared(step)} " if step.shared else "once "
            return f"{per}bind ${step.block.variable} to {format_block(step.block)} of"
        case _:
            assert_never(step)


def _format_shared(step: SemiJoin | LeftJoin | UnionJoin | BindValue) -> str:
    """Return what a block is solved for: the values it reads of an outer variable, or its rows."""
    values = dict(step.outer_values)
    return ", ".join(
        ", ".join(map(format_expr, values.get(variable, ()))) or _format_variable(variable)
        for variable, _ in step.shared
    )


def _format_variables(variables: Iterable[str]) -> str:
    return ", ".join(map(_format_variable, variables))


def _format_compact_title(step: Compact) -> str:
    # In a block that tests or counts only the seed is kept: the number of the outer combination.
    if step.keep == (SEED,):
        return "count the matches of each" if step.has_multiplicity else "note which have a match"
    names = _format_variables(variable for variable in step.keep if variable != SEED)
    if not step.has_multiplicity:
        return f"distinct {names}" if names else "one row if there is a match"
    return f"count rows by {names}" if names else "count rows"


def _format_variable(variable: str) -> str:
    """Format a variable; anonymous ones are all `$_`, as they are written in queries."""
    return "$_" if variable.startswith(GENERATED_PREFIX) else f"${variable}"


def _format_verb(verb: str, link: Link) -> str:
    """Return the verb of a step, with the walks that it finds."""
    if link.walk is None:
        return verb
    variable = f" {_format_variable(link.walk.variable)}" if link.binds_walk else ""
    return f"{verb} {link.walk.kind.value}{variable} ="


def _format_hop(source: str, link: Link, target: str) -> str:
    tail, head = _ARROWS[link.direction]
    variable = "" if link.edge_variable is None else f"{_format_variable(link.edge_variable)}: "
    high = "*" if link.high is None else str(link.high)
    bounds = f"{{{link.low},{high}}}" if link.is_multi else ""
    return f"{_format_variable(source)} {tail}[{variable}{link.edge}{bounds}]{head} {_format_variable(target)}"


def _format_subtree_title(node: Node, subtree: CountedSubtree, has_multiplicity: bool) -> str:
    word = "count" if has_multiplicity else "find"
    return f"{word} {_format_hop(node.variable, subtree.link, subtree.node.variable)}"


def _build_notes(step: Step) -> list[str]:
    notes = []
    if isinstance(step, Scan):
        notes.append(_format_scan_access(step.node))
    if isinstance(step, Expand | Close):
        notes.append(_format_access(step.link))
    if isinstance(step, Expand):
        notes.append(f"{_format_estimate(step.link.fan_out)} each")
        # Parallel edges are separate matches.
        if step.link.each_edge:
            notes.append("each edge")
    if isinstance(step, Product) and step.is_large:
        notes.append("both sides are large")
    if not isinstance(step, Nothing):
        rows = _format_estimate(step.rows)
        notes.append(f"{rows} {'row' if rows in ('~1', '<1') else 'rows'}")
    return notes


def _build_subtree_notes(subtree: CountedSubtree) -> list[str]:
    link = subtree.link
    direction = "from the near end" if subtree.direction is SubtreeDirection.FROM_ROOT else "from the far end"
    notes = [direction, _format_access(link), f"{_format_estimate(link.fan_out)} each"]
    if subtree.node.filters:
        node = subtree.node
        notes.append(f"{node.access} {_format_estimate(node.rows)} of {_format_variable(node.variable)}")
    return notes


def _format_scan_access(node: Node) -> str:
    is_from_leaf = any(subtree.direction is SubtreeDirection.FROM_LEAF for subtree in node.subtrees)
    # Its rows are those that a subtree, evaluated from its leaf, reaches.
    return "where its branches lead" if is_from_leaf and not node.filters else node.access


def _format_access(link: Link) -> str:
    return f"{link.access.value} ({link.why})" if link.why else link.access.value


def _format_estimate(value: float) -> str:
    """Format an estimate with as many digits as are meaningful."""
    # `~0` would mean that no row is expected.
    if 0 < value <= 0.5:
        return "<1"
    if value >= 10 or value == round(value) or value < 1:
        return f"~{value:,.0f}"
    return f"~{value:.1f}"


def _format_profile(trace: QueryProfile | None, actual: StepProfile | None) -> str:
    if trace is None:
        return ""
    # Steps after one that left no rows do not run.
    if actual is None:
        return "  [not run]"
    if actual.engine and not actual.runs:
        return f"  [by {actual.engine}]"
    # A hop and the condition after it run as one step, and only one of the two has figures.
    if actual.joined_with is not None and not actual.runs:
        return f"  [run with step {actual.joined_with}]"
    parts = [f"{actual.rows:,} {'row' if actual.rows == 1 else 'rows'}", f"{actual.seconds * 1e3:.3f} ms"]
    parts += [f"{actual.requests:,} {'request' if actual.requests == 1 else 'requests'}", f"{actual.bytes:,} bytes"]
    if actual.runs > 1:
        parts.append(f"in {actual.runs:,} parts")
    return f"  [{'; '.join((', '.join(parts), *actual.choices))}]"


# --- data ------------------------------------------------------------------------------------------


def _build_step_json(step: Step, has_multiplicity: bool, trace: QueryProfile | None) -> dict[str, object]:
    data: dict[str, object] = {
        "number": step.number,
        "kind": _get_kind(step),
        "text": _format_title(step),
        "estimated_rows": step.rows,
    }
    if isinstance(step, Expand | Close):
        data |= {"access": step.link.access.value, "why": step.link.why, "filters": _format_exprs(step.link.filters)}
    if isinstance(step, Scan | Expand | Check):
        data["node"] = _build_node_json(step.node, has_multiplicity, trace)
    if isinstance(step, Filter):
        data["filters"] = _format_exprs(step.predicates)
    inner_steps = get_inner_steps(step)
    if inner_steps:
        is_counted = _counts_inside(step, has_multiplicity)
        data["steps"] = [_build_step_json(each, is_counted, trace) for each in inner_steps]
    if trace is not None:
        actual = trace.steps.get(step.number)
        data["actual"] = None if actual is None else actual.to_json()
    return data


def _get_kind(step: Step) -> str:
    # JSON values are part of the interface: the two tests have a name each.
    if isinstance(step, SemiJoin):
        return "antijoin" if step.is_anti else "semijoin"
    return type(step).__name__.lower()


def _build_node_json(node: Node, has_multiplicity: bool, trace: QueryProfile | None) -> dict[str, object]:
    return {
        "variable": node.variable,
        "type": node.type,
        "access": node.access,
        "filters": _format_exprs(node.filters),
        "estimated_rows": node.rows,
        # JSON keys are part of the interface: subtrees are `branches`, their direction is `travel`.
        "branches": [
            {
                "text": _format_subtree_title(node, subtree, has_multiplicity),
                "travel": subtree.direction.value,
                "access": subtree.link.access.value,
                "why": subtree.link.why,
                "filters": _format_exprs(subtree.link.filters),
                "node": _build_node_json(subtree.node, has_multiplicity, trace),
            }
            for subtree in node.subtrees
        ],
        "absent": [_build_step_json(block, has_multiplicity, trace) for block in node.blocks if block.is_anti],
        "present": [_build_step_json(block, has_multiplicity, trace) for block in node.blocks if not block.is_anti],
    }


def _format_exprs(exprs: Iterable[Expr]) -> list[str]:
    return [format_expr(expr) for expr in exprs]
