"""A physical plan for people and for programs: what each step does, how, why, and how many rows are expected.

Equal plans have equal texts. With a trace, each step also says what it really did; only those numbers vary.
"""

from collections.abc import Iterable, Iterator
from typing import assert_never

from omnigraph.engine.physical_plan import (
    SEED,
    AntiJoin,
    Branch,
    Check,
    Close,
    Compact,
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
    Travel,
    inner_steps,
)
from omnigraph.engine.query_profile import Actual, Trace
from omnigraph.query.expr import Expr
from omnigraph.query.format_expr import expr_text
from omnigraph.query.logical_plan import GENERATED, Direction

_INDENT = "  "
_ARROWS = {Direction.OUT: ("-", "->"), Direction.IN: ("<-", "-"), Direction.BOTH: ("-", "-")}


def plan_text(plan: PhysicalPlan, trace: Trace | None = None) -> str:
    """One step a line, what is inside a step indented below it; ends with a line break."""
    lines = [*_steps(plan.steps, plan.counts, trace), *(f"warning: {warning}" for warning in plan.warnings)]
    return "".join(f"{line}\n" for line in lines)


def plan_json(plan: PhysicalPlan, trace: Trace | None = None) -> dict[str, object]:
    """The same as data."""
    return {
        "variables": list(plan.variables),
        "counts": plan.counts,
        "steps": [_step_json(step, plan.counts, trace) for step in plan.steps],
        "warnings": list(plan.warnings),
    }


# --- text ------------------------------------------------------------------------------------------


def _steps(steps: Iterable[Step], counts: bool, trace: Trace | None) -> Iterator[str]:
    for step in steps:
        actual = None if trace is None else trace.steps.get(step.number)
        notes = ", ".join(_notes(step))
        yield f"{step.number}. {_title(step)}{'  ' if notes else ''}{notes}{_actual(trace, actual)}"
        for line in _inside(step, counts, trace):
            yield _INDENT + line


def _inside(step: Step, counts: bool, trace: Trace | None) -> Iterator[str]:
    match step:
        case Scan() | Check():
            yield from _node(step.node, counts, trace)
        case Expand():
            yield from map(expr_text, step.link.filters)
            yield from _node(step.node, counts, trace)
        case Close():
            yield from map(expr_text, step.link.filters)
        case Filter():
            yield from map(expr_text, step.predicates)
        case Product() | Join() | AntiJoin():
            yield from _steps(step.steps, counts and not isinstance(step, AntiJoin), trace)
        case Compact() | Merge() | Nothing():
            pass
        case _:
            assert_never(step)


def _node(node: Node, counts: bool, trace: Trace | None) -> Iterator[str]:
    """What reads one variable alone, and what hangs on it."""
    yield from map(expr_text, node.filters)
    for branch in node.branches:
        yield f"{_branch_title(node, branch, counts)}  {', '.join(_branch_notes(branch))}"
        for line in (*map(expr_text, branch.link.filters), *_node(branch.node, counts, trace)):
            yield _INDENT + line
    yield from _steps(node.absent, counts, trace)


def _title(step: Step) -> str:
    match step:
        case Scan():
            return f"scan {_name(step.node.variable)}: {step.node.type}"
        case Expand():
            return f"expand {_hop(step.source, step.link, step.node.variable)}"
        case Check():
            return f"check {_name(step.node.variable)}: {step.node.type}"
        case Close():
            return f"close {_hop(step.source, step.link, step.target)}"
        case Filter():
            return "filter"
        case Product():
            return "product with"
        case Join():
            return f"join on {expr_text(step.left)} {step.op.value} {expr_text(step.right)} with"
        case AntiJoin():
            return f"keep {', '.join(_name(variable) for variable, _ in step.shared)} without a match of"
        case Compact():
            return _compact_title(step)
        case Merge():
            word = "count rows by the values of" if step.counts else "distinct values of"
            return f"{word} {', '.join(map(expr_text, step.values))}"
        case Nothing():
            return "nothing: no row can match"
        case _:
            assert_never(step)


def _compact_title(step: Compact) -> str:
    if step.keep == (SEED,):
        return "note which have a match"
    names = ", ".join(_name(variable) for variable in step.keep)
    if not step.counts:
        return f"distinct {names}" if names else "one row if there is a match"
    return f"count rows by {names}" if names else "count rows"


def _name(variable: str) -> str:
    """Anonymous variables are all called the same, as they are written."""
    return "$_" if variable.startswith(GENERATED) else f"${variable}"


def _hop(source: str, link: Link, target: str) -> str:
    tail, head = _ARROWS[link.direction]
    variable = "" if link.edge_variable is None else f"{_name(link.edge_variable)}: "
    bounds = f"{{{link.low},{link.high}}}" if link.is_multi else ""
    return f"{_name(source)} {tail}[{variable}{link.edge}{bounds}]{head} {_name(target)}"


def _branch_title(node: Node, branch: Branch, counts: bool) -> str:
    word = "count" if counts else "find"
    return f"{word} {_hop(node.variable, branch.link, branch.node.variable)}"


def _notes(step: Step) -> list[str]:
    notes = []
    if isinstance(step, Scan):
        notes.append(_scan_access(step.node))
    if isinstance(step, Expand | Close):
        notes.append(_access(step.link))
    if isinstance(step, Expand):
        notes.append(f"{_about(step.link.fan_out)} each")
        if step.link.each_edge:
            notes.append("each edge")
    if isinstance(step, Product) and step.is_large:
        notes.append("both sides are large")
    if not isinstance(step, Nothing):
        notes.append(f"{_about(step.rows)} {'row' if _about(step.rows) in ('~1', '<1') else 'rows'}")
    return notes


def _branch_notes(branch: Branch) -> list[str]:
    link = branch.link
    way = "from the near end" if branch.travel is Travel.PULL else "from the far end"
    notes = [way, _access(link), f"{_about(link.fan_out)} each"]
    if branch.node.filters:
        notes.append(f"{branch.node.access} {_about(branch.node.rows)} of {_name(branch.node.variable)}")
    return notes


def _scan_access(node: Node) -> str:
    is_led = any(branch.travel is Travel.PUSH for branch in node.branches)
    return "where its branches lead" if is_led and not node.filters else node.access


def _access(link: Link) -> str:
    return f"{link.access.value} ({link.why})" if link.why else link.access.value


def _about(value: float) -> str:
    """An estimate, rounded as much as it is worth."""
    if 0 < value <= 0.5:
        return "<1"
    if value >= 10 or value == round(value) or value < 1:
        return f"~{value:,.0f}"
    return f"~{value:.1f}"


def _actual(trace: Trace | None, actual: Actual | None) -> str:
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


def _step_json(step: Step, counts: bool, trace: Trace | None) -> dict[str, object]:
    found: dict[str, object] = {
        "number": step.number,
        "kind": type(step).__name__.lower(),
        "text": _title(step),
        "estimated_rows": step.rows,
    }
    if isinstance(step, Expand | Close):
        found |= {"access": step.link.access.value, "why": step.link.why, "filters": _texts(step.link.filters)}
    if isinstance(step, Scan | Expand | Check):
        found["node"] = _node_json(step.node, counts, trace)
    if isinstance(step, Filter):
        found["filters"] = _texts(step.predicates)
    inside = inner_steps(step)
    if inside:
        is_counted = counts and not isinstance(step, AntiJoin)
        found["steps"] = [_step_json(each, is_counted, trace) for each in inside]
    if trace is not None:
        actual = trace.steps.get(step.number)
        found["actual"] = None if actual is None else actual.to_json()
    return found


def _node_json(node: Node, counts: bool, trace: Trace | None) -> dict[str, object]:
    return {
        "variable": node.variable,
        "type": node.type,
        "access": node.access,
        "filters": _texts(node.filters),
        "estimated_rows": node.rows,
        "branches": [
            {
                "text": _branch_title(node, branch, counts),
                "travel": branch.travel.value,
                "access": branch.link.access.value,
                "why": branch.link.why,
                "filters": _texts(branch.link.filters),
                "node": _node_json(branch.node, counts, trace),
            }
            for branch in node.branches
        ],
        "absent": [_step_json(block, counts, trace) for block in node.absent],
    }


def _texts(exprs: Iterable[Expr]) -> list[str]:
    return [expr_text(expr) for expr in exprs]
