"""Lower the steps of a physical plan to relations, in the order of joins that the planner has chosen.

An engine of tables knows no sizes of ours, so the order of joins, and the side of each to build a hash table of, are
written down here. A step that has no relational form ends the lowering: it and all later ones are the rest, which the
caller runs in another way or refuses by name.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from omnigraph.engine.physical_plan import (
    VALUE_TYPE,
    BindValue,
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
    Membership,
    Merge,
    Node,
    Nothing,
    Product,
    Scan,
    SemiJoin,
    Step,
    UnionJoin,
    Unnest,
    iter_steps,
)
from omnigraph.engine.relational.dialect import UnsupportedForm
from omnigraph.engine.relational.lower_edges import EdgeColumns, build_edges
from omnigraph.engine.relational.lower_state import (
    INNER_COUNT,
    LoweringState,
    ValueColumn,
    check_value,
    has_one_form,
    is_column_of,
    pick_columns,
    rename_column,
)
from omnigraph.engine.relational.lower_unions import convert_ids, scan_rows, select_type
from omnigraph.engine.relational.lower_values import bind_block, bind_default, is_test_alone, unnest
from omnigraph.engine.relational.lowering_host import LoweringHost
from omnigraph.engine.relational.tree import (
    ID_VALUE,
    MULTIPLICITY,
    AnyOf,
    ColumnTerm,
    CountSum,
    Distinct,
    GroupRows,
    JoinKind,
    JoinRows,
    Measure,
    Project,
    Reach,
    Relation,
    Select,
    SingleRow,
    TypedIdTerm,
    UnionAll,
    list_id_columns,
    name_id,
    name_overflow,
    name_property,
    name_row,
    name_value,
)
from omnigraph.lang.source import Span
from omnigraph.query.expr import (
    Compare,
    Const,
    Contains,
    Entity,
    Expr,
    ExprType,
    Identity,
    In,
    MetaColumn,
    Or,
    Prop,
    StartsWith,
)
from omnigraph.query.expr_tree import walk
from omnigraph.query.logical_plan import HopDirection
from omnigraph.query.union_types import is_union
from omnigraph.schema.arrow import ID
from omnigraph.schema.types import Scalar

# A hop from at most this share of all edges, and of all nodes, reads only the edges of these nodes before it merges
# parallel ones. From all nodes, the test passes every edge and costs a join.
_FEW_DIVISOR = 4


@dataclass(frozen=True, slots=True)
class LoweredPattern:
    """The relation of the steps that were lowered, and the steps that are left to run over its rows."""

    relation: Relation
    bound: Mapping[str, str]
    """The types of the variables that it binds."""
    rest: tuple[Step, ...] = ()
    reason: str = ""
    """The form that the first step of the rest has, if there is a rest."""
    values: Mapping[str, ValueColumn] = field(default_factory=dict)
    """By variable, the values that the relation has a column for."""


def lower_steps(
    steps: tuple[Step, ...],
    host: LoweringHost,
    start: Relation,
    bound: Mapping[str, str],
    *,
    is_set: bool,
    reads: Iterable[Expr] = (),
    rows: float = 1.0,
    values: Mapping[str, ValueColumn] | None = None,
) -> LoweredPattern:
    """Lower as many steps as have a relational form, from the rows of `start`, which bind `bound`.

    `is_set` tells that only the existence of a match matters. `reads` are expressions whose properties the relation
    needs to have in the end; with a rest, it has those that were read so far. `values` are those of variables that
    the start has columns for.
    """
    state = LoweringState(
        host=host,
        relation=start,
        bound=dict(bound),
        columns=_collect_columns(steps, reads),
        is_set=is_set,
        rows=rows,
        values=dict(values or {}),
    )
    for number, step in enumerate(steps):
        before = state.relation, dict(state.bound), dict(state.values)
        try:
            _add(state, step)
        except UnsupportedForm as error:
            state.relation, state.bound, state.values = before
            state.attach_rows()
            return LoweredPattern(state.relation, state.bound, steps[number:], error.form, state.values)
    state.attach_rows()
    return LoweredPattern(state.relation, state.bound, values=state.values)


def _collect_columns(steps: tuple[Step, ...], reads: Iterable[Expr]) -> dict[str, set[str]]:
    """Return by variable the columns that filters, joins and `reads` read."""
    exprs = list(reads)
    for step in iter_steps(steps):
        if isinstance(step, Filter):
            exprs += step.predicates
        elif isinstance(step, Unnest):
            exprs.append(step.value)
        elif isinstance(step, BindValue):
            exprs += step.block.exprs
        elif isinstance(step, Join):
            exprs += [part for condition in step.conditions for part in _list_sides(condition)]
    columns: dict[str, set[str]] = {}
    for part in (part for expr in exprs for part in walk(expr)):
        if isinstance(part, Prop):
            columns.setdefault(part.variable, set()).add(ID_VALUE if part.name == ID else part.name)
        elif isinstance(part, Identity) and part.part is not MetaColumn.ID:
            columns.setdefault(part.variable, set()).add(part.part.value)
        elif isinstance(part, Entity):
            columns.setdefault(part.variable, set()).update(field.name for field in part.fields)
            columns[part.variable].update(column for _, column in list_id_columns(part) if column != ID)
    return columns


def _list_sides(condition: JoinCondition) -> tuple[Expr, ...]:
    if isinstance(condition, JoinAlternatives):
        return tuple(side for term in condition.terms for side in (term.left, term.right))
    return (condition.left, condition.right)


def _add(state: LoweringState, step: Step) -> None:
    """Add a step.

    Raises:
        UnsupportedForm: It has no relational form; the relation may be anything then.
    """
    match step:
        case Scan():
            _scan(state, step.node)
        case Expand():
            _expand(state, step)
        case Check():
            _apply_node(state, step.node)
        case Close():
            _close(state, step)
        case Filter():
            _filter(state, step.predicates)
        case Product():
            _cross(state, step.steps, ())
        case Join():
            _cross(state, step.steps, tuple(map(_build_predicate, step.conditions)))
        case SemiJoin():
            _test(state, step)
        case LeftJoin():
            _left_join(state, step)
        case UnionJoin():
            _union_join(state, step)
        case BindValue():
            _bind_value(state, step)
        case Unnest():
            unnest(state, step)
        case Compact():
            _compact(state, step.keep)
        case Merge():
            # Only merges rows earlier than the output would; what it counts is counted there.
            pass
        case _:
            raise UnsupportedForm(_name_form(step))
    state.rows = step.rows


def _scan(state: LoweringState, node: Node) -> None:
    rows = _read_node(state, node)
    if isinstance(state.relation, SingleRow):
        state.relation = rows
    else:
        state.relation = JoinRows(kind=JoinKind.INNER, left=state.relation, right=rows, equal=())
    state.bound[node.variable] = node.type
    state.rows = node.rows
    _apply_subtrees(state, node)


def _read_node(state: LoweringState, node: Node) -> Relation:
    """Return the rows of a node's table that pass its filters."""
    columns = state.list_scan_columns(node.variable)
    computed = state.host.compute_rows(node, columns)
    if computed is not None:
        return computed
    for each in node.filters:
        state.host.check_filter(each)
    return scan_rows(state.host, node.type, node.variable, columns, node.filters)


def _apply_node(state: LoweringState, node: Node) -> None:
    """Keep the rows whose variable, of which the id is known, passes what its node asks."""
    wanted = state.columns.get(node.variable, set())
    # The position of its row is joined last, and only if the variable is still needed then.
    is_known = all(name_property(node.variable, name) in state.relation.names for name in wanted)
    if node.filters or not is_known:
        _join_node(state, node)
    _apply_subtrees(state, node)


def _join_node(state: LoweringState, node: Node) -> None:
    rows = _read_node(state, node)
    key = name_id(node.variable)
    fresh = [name for name in rows.names if name not in state.relation.names]
    if not fresh:
        state.relation = JoinRows(kind=JoinKind.SEMI, left=state.relation, right=rows, equal=((key, key),))
        return
    # Columns that are there already are the same: a name may come from one side only.
    rows = pick_columns(rows, (key, *fresh))
    state.relation = state.join_inner(rows, node.rows, ((key, key),))


def _apply_subtrees(state: LoweringState, node: Node) -> None:
    for subtree in node.subtrees:
        _count_subtree(state, node.variable, subtree)
    for block in node.blocks:
        _test(state, block)


def _count_subtree(state: LoweringState, variable: str, subtree: CountedSubtree) -> None:
    """Count the matches of a subtree, which multiply the rows; test it if their number does not matter."""
    inner = LoweringState(
        host=state.host, relation=SingleRow(), bound={}, columns=state.columns, is_set=state.is_set, rows=state.rows
    )
    far = subtree.node.variable
    pairs = _build_pairs(state, subtree.link, variable, far)
    near = name_id(variable)
    inner.relation = pairs
    inner.bound = {far: subtree.node.type}
    if not subtree.node.is_free:
        inner.rows = float(state.host.count_rows(subtree.link.edge))
        _apply_node(inner, replace(subtree.node))
    if state.is_set:
        state.relation = JoinRows(
            kind=JoinKind.SEMI, left=state.relation, right=pick_columns(inner.relation, (near,)), equal=((near, near),)
        )
        return
    has_counts = MULTIPLICITY in inner.relation.names
    count = CountSum(column=MULTIPLICITY if has_counts else None)
    counts = GroupRows(input=inner.relation, keys=(near,), measures=((INNER_COUNT, count),))
    joined = state.join_inner(counts, float(state.host.count_rows(subtree.link.near)), ((near, near),))
    state.relation = state.multiply(joined)


def _expand(state: LoweringState, step: Expand) -> None:
    link, variable = step.link, step.node.variable
    pairs = _build_pairs(state, link, step.source, variable)
    near = name_id(step.source)
    edge_rows = float("inf") if link.is_multi else float(state.host.count_rows(link.edge))
    state.relation = state.join_inner(pairs, edge_rows, ((near, near),))
    state.bound[variable] = step.node.type
    if link.edge_variable is not None:
        state.bound[link.edge_variable] = link.edge
    state.rows = step.rows
    _apply_node(state, step.node)
    state.keep(step.keep)


def _close(state: LoweringState, step: Close) -> None:
    source, target = name_id(step.source), name_id(step.target)
    pairs = _build_pairs(state, step.link, step.source, _OTHER_END if source == target else step.target)
    far = name_id(_OTHER_END) if source == target else target
    equal = ((source, source), (target, far))
    if step.link.reads_edges and not state.is_set:
        pairs_rows = float(state.host.count_rows(step.link.edge))
        if source == target:
            # Both columns are compared with one: the name of the second must not stay.
            joined = JoinRows(kind=JoinKind.INNER, left=state.relation, right=pairs, equal=equal)
            state.relation = pick_columns(joined, tuple(name for name in joined.names if name != far))
        else:
            state.relation = state.join_inner(pairs, pairs_rows, equal)
        if step.link.edge_variable is not None:
            state.bound[step.link.edge_variable] = step.link.edge
    elif step.link.edge_variable is not None:
        raise UnsupportedForm("an edge variable that closes a cycle")
    else:
        state.relation = JoinRows(kind=JoinKind.SEMI, left=state.relation, right=pairs, equal=equal)
    state.keep(step.keep)


def _build_pairs(state: LoweringState, link: Link, source: str, target: str) -> Relation:
    """Return the pairs of ids that a hop connects, in columns of the two variables, with what its edges need."""
    if link.walk is not None:
        raise UnsupportedForm("a path variable")
    for each in (*link.filters, *link.along, *link.through):
        state.host.check_filter(each)
    near, far = name_id(source), name_id(target)
    if link.is_multi:
        return _build_reach(state, link, near, far)
    if link.derived is not None:
        inner = _solve_alone(state, link.derived.steps, is_set=True)
        pair = (link.derived.source, link.derived.target)
        return build_edges(state.host, link, EdgeColumns(near, far), derived=(inner, pair), is_set=False)
    extra = () if link.edge_variable is None else state.list_scan_columns(link.edge_variable)
    few: Relation | None = None
    if near in state.relation.names and state.rows * _FEW_DIVISOR <= _count_smaller(state, link):
        few = Distinct(input=pick_columns(state.relation, (near,)))
    return build_edges(state.host, link, EdgeColumns(near, far, extra), is_set=state.is_set, few=few)


def _count_smaller(state: LoweringState, link: Link) -> int:
    """Return the number of edges of a hop, or of the nodes that it starts from if these are fewer."""
    return min(state.host.count_rows(link.edge), state.host.count_rows(link.near))


def _build_reach(state: LoweringState, link: Link, near: str, far: str) -> Relation:
    derived: tuple[Relation, tuple[str, str]] | None = None
    if link.derived is not None:
        inner = _solve_alone(state, link.derived.steps, is_set=True)
        derived = inner, (link.derived.source, link.derived.target)
    # Walks start and end at any node of the type, so the columns of a step have names of their own.
    edges = build_edges(state.host, link, EdgeColumns(_STEP_FROM, _STEP_TO), derived=derived, is_set=True)
    space = link.space[0]
    through: Relation | None = None
    if link.through:
        through = scan_rows(state.host, space, _STEP_FROM, ((ID, _STEP_FROM),), link.through)
    if near not in state.relation.names:
        raise UnsupportedForm("a count of nodes that are reached over several edges")
    sources: Relation = Distinct(input=pick_columns(state.relation, (near,)))
    # The nodes of a walk may be of more types than its ends.
    is_wider = is_union(space) and not is_union(link.near)
    start = _STEP_START if is_wider else near
    if is_wider:
        typed = TypedIdTerm(type=link.near, column=near)
        sources = Project(input=sources, items=((near, ColumnTerm(near)), (start, typed)))
    pairs: Relation = Reach(
        sources=pick_columns(sources, (start,)),
        source=start,
        edges=edges,
        near=_STEP_FROM,
        far=_STEP_TO,
        target=far,
        low=link.low,
        high=link.high,
        through=through,
        is_undirected=link.direction is HopDirection.BOTH,
    )
    pairs = select_type(state.host, pairs, far, space, link.far)
    if is_wider:
        pairs = JoinRows(kind=JoinKind.INNER, left=pairs, right=sources, equal=((start, start),))
    return pick_columns(pairs, (near, far))


def _solve_alone(state: LoweringState, steps: tuple[Step, ...], *, is_set: bool) -> Relation:
    """Return the matches of steps that start from nothing."""
    inner = LoweringState(
        host=state.host, relation=SingleRow(), bound={}, columns=_collect_columns(steps, ()), is_set=is_set, rows=1.0
    )
    for step in steps:
        _add(inner, step)
    return inner.relation


def _filter(state: LoweringState, predicates: tuple[Expr, ...]) -> None:
    for predicate in predicates:
        state.host.check_expr(predicate)
        state.require_columns(predicate)
    state.relation = Select(input=state.relation, predicates=predicates)


def _cross(state: LoweringState, steps: tuple[Step, ...], predicates: tuple[Expr, ...]) -> None:
    """Join the rows with those of another part of the pattern for which the predicates are true."""
    inner = LoweringState(
        host=state.host, relation=SingleRow(), bound={}, columns=state.columns, is_set=state.is_set, rows=1.0
    )
    for step in steps:
        _add(inner, step)
    for predicate in predicates:
        state.host.check_expr(predicate)
        state.require_columns(predicate)
        inner.require_columns(predicate)
    other = inner.relation
    if MULTIPLICITY in other.names:
        other = rename_column(other, MULTIPLICITY, INNER_COUNT)
    joined: Relation = JoinRows(kind=JoinKind.INNER, left=state.relation, right=other, equal=(), predicates=predicates)
    state.relation = state.multiply(joined) if INNER_COUNT in other.names else joined
    state.bound.update(inner.bound)
    state.values.update(inner.values)


def _solve_block(
    state: LoweringState,
    shared: tuple[tuple[str, str], ...],
    steps: tuple[Step, ...],
    *,
    is_set: bool,
    own: Collection[str] = (),
) -> "LoweringState":
    """Return the matches of a block for each combination of the outer variables that it reads.

    Of the variables `own`, they have only the columns that the block reads.
    """
    columns = state.list_shared(shared)
    seeds = Distinct(input=pick_columns(state.relation, columns)) if columns else SingleRow()
    inside = _collect_columns(steps, ()) if own else {}
    inner = LoweringState(
        host=state.host,
        relation=seeds,
        bound=dict(shared),
        columns={**state.columns, **{name: inside.get(name, set()) for name in own}},
        is_set=is_set,
        rows=state.rows,
        seeds=columns,
        values=dict(state.values),
    )
    if _is_empty(steps):
        inner.relation = Select(input=seeds, predicates=(_NEVER,))
        return inner
    for step in steps:
        _add(inner, step)
    return inner


def _is_empty(steps: tuple[Step, ...]) -> bool:
    """Return whether a block has no match at all; its variables have no columns then."""
    return any(isinstance(step, Nothing) for step in steps)


def _bind_value(state: LoweringState, step: BindValue) -> None:
    if _is_empty(step.steps):
        bind_default(state, step.block)
        return
    bind_block(state, step, _solve_block(state, step.shared, step.steps, is_set=is_test_alone(step.block)))


def _test(state: LoweringState, step: SemiJoin) -> None:
    inner = _solve_block(state, step.shared, step.steps, is_set=True)
    columns = state.list_shared(step.shared)
    state.relation = JoinRows(
        kind=JoinKind.ANTI if step.is_anti else JoinKind.SEMI,
        left=state.relation,
        right=pick_columns(inner.relation, columns),
        equal=tuple((name, name) for name in columns),
        is_null_equal=True,
    )


def _left_join(state: LoweringState, step: LeftJoin) -> None:
    inner = _solve_block(state, step.shared, step.steps, is_set=state.is_set)
    _join_block(state, inner, step.shared, step.binds, JoinKind.LEFT)


def _join_block(
    state: LoweringState,
    inner: "LoweringState",
    shared: tuple[tuple[str, str], ...],
    binds: tuple[str, ...],
    kind: JoinKind,
) -> None:
    columns = state.list_shared(shared)
    own = [name for name in inner.relation.names if is_column_of(name, binds)]
    matches = pick_columns(inner.relation, (*columns, *own, *(n for n in inner.relation.names if n == MULTIPLICITY)))
    if MULTIPLICITY in matches.names:
        matches = rename_column(matches, MULTIPLICITY, INNER_COUNT)
    joined: Relation = JoinRows(
        kind=kind,
        left=state.relation,
        right=matches,
        equal=tuple((name, name) for name in columns),
        is_null_equal=True,
    )
    state.relation = state.multiply(joined) if INNER_COUNT in joined.names else joined
    for variable in binds:
        if variable in inner.values:
            state.bind_value(variable, inner.values[variable])
        elif inner.bound.get(variable, VALUE_TYPE) == VALUE_TYPE:
            raise UnsupportedForm("an optional block that binds a value")
        else:
            state.bound[variable] = inner.bound[variable]


def _union_join(state: LoweringState, step: UnionJoin) -> None:
    columns = state.list_shared(step.shared)
    elements = dict(step.elements)
    named = {name: name_value(name) if name in elements else name_id(name) for name in (*step.variables, *step.binds)}
    keys = (*columns, *(named[name] for name in step.variables))
    parts: list[Relation] = []
    bound: dict[str, str] = {}
    for number, steps in enumerate(step.alternatives):
        conversions = step.conversions[number] if step.conversions else ()
        # What is read outside is a column of the union, which a row of one of its types may not have.
        inner = _solve_block(state, step.shared, steps, is_set=True, own={each.variable for each in conversions})
        for each in conversions:
            if not _is_empty(steps):
                column = name_id(each.variable)
                inner.relation = convert_ids(inner.relation, column, each.from_type, each.to_type)
            inner.bound[each.variable] = each.to_type
        for variable in step.variables:
            _check_alternative(inner, variable, elements.get(variable))
        parts.append(pick_columns(inner.relation, keys))
        bound = inner.bound
    united = Distinct(input=UnionAll(inputs=tuple(parts)))
    kept = pick_columns(united, (*columns, *(named[name] for name in step.binds)))
    state.relation = JoinRows(
        kind=JoinKind.INNER,
        left=state.relation,
        right=kept,
        equal=tuple((name, name) for name in columns),
        is_null_equal=True,
    )
    state.bound.update({variable: bound[variable] for variable in step.binds})
    state.values.update({name: ValueColumn(elements[name]) for name in step.binds if name in elements})


def _check_alternative(inner: LoweringState, variable: str, element: ExprType | None) -> None:
    """Check that the matches of an alternative have the variable in a column; `element` is its type if it is a value.

    Raises:
        UnsupportedForm: They have not, or not as the other alternatives.
    """
    if element is None:
        if inner.bound.get(variable, VALUE_TYPE) == VALUE_TYPE:
            raise UnsupportedForm("alternatives that compute a value")
        return
    check_value(variable, inner.values)
    if inner.values[variable].type != element or not has_one_form(element):
        raise UnsupportedForm(f"alternatives with elements of the type {element}")


def _compact(state: LoweringState, keep: tuple[str, ...]) -> None:
    state.keep(keep)
    names = [name for name in state.relation.names if name != MULTIPLICITY]
    # Values have no ids: their own columns tell them apart, or their rows stay as they are.
    computed = [variable for variable, type_name in state.bound.items() if type_name == VALUE_TYPE]
    own = [_list_value_keys(state, variable) for variable in computed]
    if None in own:
        return
    if state.is_set:
        state.relation = Distinct(input=pick_columns(state.relation, tuple(names)))
        return
    keys = [name for name in names if name.endswith("@id") or name in state.seeds]
    keys += [key for each in own if each is not None for key in each if key not in state.seeds]
    has_counts = MULTIPLICITY in state.relation.names
    counted = CountSum(column=MULTIPLICITY if has_counts else None)
    others: list[tuple[str, Measure]] = [(name, AnyOf(column=name)) for name in names if name not in keys]
    state.relation = GroupRows(
        input=state.relation, keys=tuple(keys), measures=(*others, (MULTIPLICITY, counted)), drops_empty=True
    )


def _list_value_keys(state: LoweringState, variable: str) -> list[str] | None:
    """Return the columns that tell the values of a variable apart; None if nothing does."""
    if name_row(variable) in state.relation.names:
        return [name_row(variable)]
    column = state.values[variable]
    if not column.is_comparable:
        return None
    # A null that is unknown because of an overflow is another value than a null.
    return [name_value(variable), *([] if column.overflow is None else [name_overflow(variable)])]


_NEVER = Const(value=False, type=Scalar.BOOL, origin=Span(0, 0))
# Columns that only one step has.
_STEP_START, _STEP_FROM, _STEP_TO = "#start", "#from", "#to"
_OTHER_END = "#other end"


def _build_predicate(condition: JoinCondition) -> Expr:
    """Return the predicate that a join's condition stands for."""
    match condition:
        case JoinComparison():
            origin = condition.left.origin
            return Compare(op=condition.op, left=condition.left, right=condition.right, origin=origin)
        case JoinMembership():
            whole, part = condition.left, condition.right
            if not condition.is_whole_left:
                whole, part = part, whole
            match condition.kind:
                case Membership.ELEMENT:
                    return In(element=part, collection=whole, origin=whole.origin)
                case Membership.PART:
                    return Contains(text=whole, part=part, origin=whole.origin)
                case _:
                    return StartsWith(text=whole, prefix=part, origin=whole.origin)
        case JoinAlternatives():
            terms = tuple(map(_build_predicate, condition.terms))
            return Or(terms=terms, origin=terms[0].origin)


def _name_form(step: Step) -> str:
    """Return the name of a form that has no relational counterpart, for the user."""
    return {"Nothing": "a pattern without matches"}.get(type(step).__name__, "a step")
