"""A physical plan for people and for programs: what each step does, how, why, and how many rows are expected.

Equal plans have equal texts. With a trace, each step also says what it really did; only those numbers vary.
"""

from collections.abc import Iterable, Iterator
from typing import assert_never

from omnigraph.engine.physical_plan import (
    SEED,
    AntiJoin,
    Check,
    Close,
    Compact,
    CountedSubtree,
    Expand,
    Filter,
    Join,
    Link,
    Merge,
    Node,
    Nothing,
    PhysicalPlan,
    Product,
    Scan,
    Step,
    SubtreeDirection,
    get_inner_steps,
)
from omnigraph.engine.query_profile import QueryProfile, StepProfile
from omnigraph.query.expr import Expr
from omnigraph.query.format_expr import format_expr
from omnigraph.query.logical_plan import GENERATED_PREFIX, HopDirection

_INDENT = "  "
_ARROWS = {HopDirection.OUT: ("-", "->"), HopDirection.IN: ("<-", "-"), HopDirection.BOTH: ("-", "-")}


def format_plan(plan: PhysicalPlan, trace: QueryProfile | None = None) -> str:
    """One step a line, what is inside a step indented below it; ends with a line break."""
    lines = [
        *_format_steps(plan.steps, plan.has_multiplicity, trace),
        *(f"warning: {warning}" for warning in plan.warnings),
    ]
    return "".join(f"{line}\n" for line in lines)


def build_plan_json(plan: PhysicalPlan, trace: QueryProfile | None = None) -> dict[str, object]:
    """The same as data."""
    return {
        "variables": list(plan.variables),
        "counts": plan.has_multiplicity,
        "steps": [_build_step_json(step, plan.has_multiplicity, trace) for step in plan.steps],
        "warnings": list(plan.warnings),
    }


# --- text ------------------------------------------------------------------------------------------


def _format_steps(steps: Iterable[Step], counts: bool, trace: QueryProfile | None) -> Iterator[str]:
    for step in steps:
        actual = None if trace is None else trace.steps.get(step.number)
        notes = ", ".join(_build_notes(step))
        yield f"{step.number}. {_format_title(step)}{'  ' if notes else ''}{notes}{_format_profile(trace, actual)}"
        for line in _format_inner(step, counts, trace):
            yield _INDENT + line


def _format_inner(step: Step, counts: bool, trace: QueryProfile | None) -> Iterator[str]:
    match step:
        case Scan() | Check():
            yield from _format_node(step.node, counts, trace)
        case Expand():
            yield from map(format_expr, step.link.filters)
            yield from _format_node(step.node, counts, trace)
        case Close():
            yield from map(format_expr, step.link.filters)
        case Filter():
            yield from map(format_expr, step.predicates)
        case Product() | Join() | AntiJoin():
            yield from _format_steps(step.steps, counts and not isinstance(step, AntiJoin), trace)
        case Compact() | Merge() | Nothing():
            pass
        case _:
            assert_never(step)


def _format_node(node: Node, counts: bool, trace: QueryProfile | None) -> Iterator[str]:
    """What reads one variable alone, and what hangs on it."""
    yield from map(format_expr, node.filters)
    for branch in node.subtrees:
        yield f"{_format_subtree_title(node, branch, counts)}  {', '.join(_build_subtree_notes(branch))}"
        for line in (*map(format_expr, branch.link.filters), *_format_node(branch.node, counts, trace)):
            yield _INDENT + line
    yield from _format_steps(node.absent, counts, trace)


def _format_title(step: Step) -> str:
    match step:
        case Scan():
            return f"scan {_format_variable(step.node.variable)}: {step.node.type}"
        case Expand():
            return f"expand {_format_hop(step.source, step.link, step.node.variable)}"
        case Check():
            return f"check {_format_variable(step.node.variable)}: {step.node.type}"
        case Close():
            return f"close {_format_hop(step.source, step.link, step.target)}"
        case Filter():
            return "filter"
        case Product():
            return "product with"
        case Join():
            return f"join on {format_expr(step.left)} {step.op.value} {format_expr(step.right)} with"
        case AntiJoin():
            return f"keep {', '.join(_format_variable(variable) for variable, _ in step.shared)} without a match of"
        case Compact():
            return _format_compact_title(step)
        case Merge():
            word = "count rows by the values of" if step.has_multiplicity else "distinct values of"
            return f"{word} {', '.join(map(format_expr, step.values))}"
        case Nothing():
            return "nothing: no row can match"
        case _:
            assert_never(step)


def _format_compact_title(step: Compact) -> str:
    if step.keep == (SEED,):
        return "note which have a match"
    names = ", ".join(_format_variable(variable) for variable in step.keep)
    if not step.has_multiplicity:
        return f"distinct {names}" if names else "one row if there is a match"
    return f"count rows by {names}" if names else "count rows"


def _format_variable(variable: str) -> str:
    """Anonymous variables are all called the same, as they are written."""
    return "$_" if variable.startswith(GENERATED_PREFIX) else f"${variable}"


def _format_hop(source: str, link: Link, target: str) -> str:
    tail, head = _ARROWS[link.direction]
    variable = "" if link.edge_variable is None else f"{_format_variable(link.edge_variable)}: "
    bounds = f"{{{link.low},{link.high}}}" if link.is_multi else ""
    return f"{_format_variable(source)} {tail}[{variable}{link.edge}{bounds}]{head} {_format_variable(target)}"


def _format_subtree_title(node: Node, branch: CountedSubtree, counts: bool) -> str:
    word = "count" if counts else "find"
    return f"{word} {_format_hop(node.variable, branch.link, branch.node.variable)}"


def _build_notes(step: Step) -> list[str]:
    notes = []
    if isinstance(step, Scan):
        notes.append(_format_scan_access(step.node))
    if isinstance(step, Expand | Close):
        notes.append(_format_access(step.link))
    if isinstance(step, Expand):
        notes.append(f"{_format_estimate(step.link.fan_out)} each")
        if step.link.each_edge:
            notes.append("each edge")
    if isinstance(step, Product) and step.is_large:
        notes.append("both sides are large")
    if not isinstance(step, Nothing):
        notes.append(
            f"{_format_estimate(step.rows)} {'row' if _format_estimate(step.rows) in ('~1', '<1') else 'rows'}"
        )
    return notes


def _build_subtree_notes(branch: CountedSubtree) -> list[str]:
    link = branch.link
    way = "from the near end" if branch.direction is SubtreeDirection.FROM_ROOT else "from the far end"
    notes = [way, _format_access(link), f"{_format_estimate(link.fan_out)} each"]
    if branch.node.filters:
        notes.append(
            f"{branch.node.access} {_format_estimate(branch.node.rows)} of {_format_variable(branch.node.variable)}"
        )
    return notes


def _format_scan_access(node: Node) -> str:
    is_led = any(branch.direction is SubtreeDirection.FROM_LEAF for branch in node.subtrees)
    return "where its branches lead" if is_led and not node.filters else node.access


def _format_access(link: Link) -> str:
    return f"{link.access.value} ({link.why})" if link.why else link.access.value


def _format_estimate(value: float) -> str:
    """An estimate, rounded as much as it is worth."""
    if 0 < value <= 0.5:
        return "<1"
    if value >= 10 or value == round(value) or value < 1:
        return f"~{value:,.0f}"
    return f"~{value:.1f}"


def _format_profile(trace: QueryProfile | None, actual: StepProfile | None) -> str:
    if trace is None:
        return ""
    if actual is None:
        return "  [not run]"
    if actual.joined_with is not None and not actual.runs:
        return f"  [run with step {actual.joined_with}]"
    parts = [f"{actual.rows:,} {'row' if actual.rows == 1 else 'rows'}", f"{actual.seconds * 1e3:.3f} ms"]
    parts += [f"{actual.requests:,} {'request' if actual.requests == 1 else 'requests'}", f"{actual.bytes:,} bytes"]
    if actual.runs > 1:
        parts.append(f"in {actual.runs:,} parts")
    return f"  [{'; '.join((', '.join(parts), *actual.choices))}]"


# --- data ------------------------------------------------------------------------------------------


def _build_step_json(step: Step, counts: bool, trace: QueryProfile | None) -> dict[str, object]:
    found: dict[str, object] = {
        "number": step.number,
        "kind": type(step).__name__.lower(),
        "text": _format_title(step),
        "estimated_rows": step.rows,
    }
    if isinstance(step, Expand | Close):
        found |= {"access": step.link.access.value, "why": step.link.why, "filters": _format_exprs(step.link.filters)}
    if isinstance(step, Scan | Expand | Check):
        found["node"] = _build_node_json(step.node, counts, trace)
    if isinstance(step, Filter):
        found["filters"] = _format_exprs(step.predicates)
    inside = get_inner_steps(step)
    if inside:
        is_counted = counts and not isinstance(step, AntiJoin)
        found["steps"] = [_build_step_json(each, is_counted, trace) for each in inside]
    if trace is not None:
        actual = trace.steps.get(step.number)
        found["actual"] = None if actual is None else actual.to_json()
    return found


def _build_node_json(node: Node, counts: bool, trace: QueryProfile | None) -> dict[str, object]:
    return {
        "variable": node.variable,
        "type": node.type,
        "access": node.access,
        "filters": _format_exprs(node.filters),
        "estimated_rows": node.rows,
        "branches": [
            {
                "text": _format_subtree_title(node, branch, counts),
                "travel": branch.direction.value,
                "access": branch.link.access.value,
                "why": branch.link.why,
                "filters": _format_exprs(branch.link.filters),
                "node": _build_node_json(branch.node, counts, trace),
            }
            for branch in node.subtrees
        ],
        "absent": [_build_step_json(block, counts, trace) for block in node.absent],
    }


def _format_exprs(exprs: Iterable[Expr]) -> list[str]:
    return [format_expr(expr) for expr in exprs]
