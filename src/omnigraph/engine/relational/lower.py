"""Lower the steps of a physical plan to relations, in the order of joins that the planner has chosen.

An engine of tables knows no sizes of ours, so the order of joins, and the side of each to build a hash table of, are
written down here. A step that has no relational form ends the lowering: it and all later ones are the rest, which the
caller runs in another way or refuses by name.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from omnigraph.engine.physical_plan import (
    SEED,
    VALUE_TYPE,
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
from omnigraph.engine.relational.tree import (
    MULTIPLICITY,
    ROW_POSITION,
    AnyOf,
    ColumnTerm,
    CountSum,
    Distinct,
    ComputedRows,
    GroupRows,
    JoinKind,
    JoinRows,
    Measure,
    ProductTerm,
    Project,
    Reach,
    Relation,
    Select,
    SingleRow,
    ScanRows,
    Term,
    UnionAll,
    name_id,
    name_property,
    name_row,
)
from omnigraph.query.expr import Compare, Contains, Entity, Expr, Identity, In, MetaColumn, Or, Prop, StartsWith
from omnigraph.query.expr_tree import find_variables, walk
from omnigraph.query.union_types import is_union
from omnigraph.schema.arrow import ID

# A hop from at most this share of all edges reads only the edges of these nodes before it merges parallel ones.
_FEW_DIVISOR = 4


class LoweringHost(Protocol):
    """What the engine that will run the relations can do, and knows of the tables."""

    with_rows: bool
    """Whether bound variables need the positions of their rows in the end."""

    def count_rows(self, type_name: str) -> int:
        """Return the number of rows of a type."""
        ...

    def check_expr(self, expr: Expr) -> None:
        """Check that an expression over several variables can be evaluated exactly.

        Raises:
            UnsupportedForm: It can't.
        """
        ...

    def check_filter(self, expr: Expr) -> None:
        """Check that a predicate over the rows of one table can be evaluated exactly in its scan.

        Raises:
            UnsupportedForm: It can't.
        """
        ...

    def compute_rows(self, node: Node, columns: tuple[tuple[str, str], ...]) -> ComputedRows | None:
        """Return the rows that a node's filters leave if our own engine should find them first, else None."""
        ...


@dataclass(frozen=True, slots=True)
class LoweredPattern:
    """The relation of the steps that were lowered, and the steps that are left to run over its rows."""

    relation: Relation
    bound: Mapping[str, str]
    """The types of the variables that it binds."""
    rest: tuple[Step, ...] = ()
    reason: str = ""
    """The form that the first step of the rest has, if there is a rest."""


def lower_steps(
    steps: tuple[Step, ...],
    host: LoweringHost,
    start: Relation,
    bound: Mapping[str, str],
    *,
    is_set: bool,
    reads: Iterable[Expr] = (),
    rows: float = 1.0,
) -> LoweredPattern:
    """Lower as many steps as have a relational form, from the rows of `start`, which bind `bound`.

    `is_set` tells that only the existence of a match matters. `reads` are expressions whose properties the relation
    needs to have in the end; with a rest, it has those that were read so far.
    """
    lowering = _Lowering(host, start, dict(bound), _collect_columns(steps, reads), is_set=is_set, rows=rows)
    for number, step in enumerate(steps):
        before = lowering.relation, dict(lowering.bound)
        try:
            lowering.add(step)
        except UnsupportedForm as error:
            lowering.relation, lowering.bound = before
            lowering.attach_rows()
            return LoweredPattern(lowering.relation, lowering.bound, steps[number:], error.form)
    lowering.attach_rows()
    return LoweredPattern(lowering.relation, lowering.bound)


def _collect_columns(steps: tuple[Step, ...], reads: Iterable[Expr]) -> dict[str, set[str]]:
    """Return by variable the columns that filters, joins and `reads` read."""
    exprs = list(reads)
    for step in iter_steps(steps):
        if isinstance(step, Filter):
            exprs += step.predicates
        elif isinstance(step, Join):
            exprs += [part for condition in step.conditions for part in _list_sides(condition)]
    columns: dict[str, set[str]] = {}
    for part in (part for expr in exprs for part in walk(expr)):
        if isinstance(part, Prop):
            columns.setdefault(part.variable, set()).add(part.name)
        elif isinstance(part, Identity) and part.part is not MetaColumn.ID:
            columns.setdefault(part.variable, set()).add(part.part.value)
        elif isinstance(part, Entity):
            columns.setdefault(part.variable, set()).update(field.name for field in part.fields)
            columns[part.variable].update(meta.value for meta in part.ids if meta is not MetaColumn.ID)
    return columns


def _list_sides(condition: JoinCondition) -> tuple[Expr, ...]:
    if isinstance(condition, JoinAlternatives):
        return tuple(side for term in condition.terms for side in (term.left, term.right))
    return (condition.left, condition.right)


class _Lowering:
    """Grow a relation step by step."""

    def __init__(
        self,
        host: LoweringHost,
        start: Relation,
        bound: dict[str, str],
        columns: Mapping[str, set[str]],
        *,
        is_set: bool,
        rows: float,
        seeds: tuple[str, ...] = (),
    ) -> None:
        self.host = host
        self.relation = start
        self.bound = bound
        self._columns = columns
        self._is_set = is_set
        self._rows = rows
        # In a block, the columns of the outer combination that a row belongs to: they are never dropped.
        self._seeds = seeds

    def add(self, step: Step) -> None:
        """Add a step.

        Raises:
            UnsupportedForm: It has no relational form; the relation may be anything then.
        """
        match step:
            case Scan():
                self._scan(step.node)
            case Expand():
                self._expand(step)
            case Check():
                self._apply_node(step.node)
            case Close():
                self._close(step)
            case Filter():
                self._filter(step.predicates)
            case Product():
                self._cross(step.steps, ())
            case Join():
                self._cross(step.steps, tuple(map(_build_predicate, step.conditions)))
            case SemiJoin():
                self._test(step)
            case LeftJoin():
                self._left_join(step)
            case UnionJoin():
                self._union_join(step)
            case Compact():
                self._compact(step.keep)
            case Merge():
                # Only merges rows earlier than the output would; what it counts is counted there.
                pass
            case _:
                raise UnsupportedForm(_name_form(step))
        self._rows = step.rows

    # --- nodes ------------------------------------------------------------------------------------------

    def _list_scan_columns(self, variable: str) -> tuple[tuple[str, str], ...]:
        row = ((ROW_POSITION, name_row(variable)),) if self.host.with_rows else ()
        wanted = sorted(self._columns.get(variable, set()) - {ID})
        return ((ID, name_id(variable)), *row, *((name, name_property(variable, name)) for name in wanted))

    def _scan(self, node: Node) -> None:
        rows = self._read_node(node)
        if isinstance(self.relation, SingleRow):
            self.relation = rows
        else:
            self.relation = JoinRows(kind=JoinKind.INNER, left=self.relation, right=rows, equal=())
        self.bound[node.variable] = node.type
        self._rows = node.rows
        self._apply_subtrees(node)

    def _read_node(self, node: Node) -> Relation:
        """Return the rows of a node's table that pass its filters."""
        _check_single_type(node.type)
        columns = self._list_scan_columns(node.variable)
        given = self.host.compute_rows(node, columns)
        if given is not None:
            return given
        for each in node.filters:
            self.host.check_filter(each)
        return ScanRows(type=node.type, variable=node.variable, columns=columns, filters=node.filters)

    def _apply_node(self, node: Node) -> None:
        """Keep the rows whose variable, of which the id is known, passes what its node asks."""
        wanted = self._columns.get(node.variable, set())
        # The position of its row is joined last, and only if the variable is still needed then.
        is_known = all(name_property(node.variable, name) in self.relation.names for name in wanted)
        if node.filters or not is_known:
            self._join_node(node)
        self._apply_subtrees(node)

    def _join_node(self, node: Node) -> None:
        rows = self._read_node(node)
        key = name_id(node.variable)
        fresh = [name for name in rows.names if name not in self.relation.names]
        if not fresh:
            self.relation = JoinRows(kind=JoinKind.SEMI, left=self.relation, right=rows, equal=((key, key),))
            return
        # Columns that are there already are the same: a name may come from one side only.
        rows = _pick(rows, (key, *fresh))
        self.relation = self._join_inner(rows, node.rows, ((key, key),))

    def _join_inner(self, other: Relation, other_rows: float, equal: tuple[tuple[str, str], ...]) -> Relation:
        """Join the relation with another one; the smaller side becomes the hash table."""
        if other_rows <= self._rows:
            return JoinRows(kind=JoinKind.INNER, left=self.relation, right=other, equal=equal)
        swapped = tuple((right, left) for left, right in equal)
        return JoinRows(kind=JoinKind.INNER, left=other, right=self.relation, equal=swapped)

    def _apply_subtrees(self, node: Node) -> None:
        for subtree in node.subtrees:
            self._count_subtree(node.variable, subtree)
        for block in node.blocks:
            self._test(block)

    def _count_subtree(self, variable: str, subtree: CountedSubtree) -> None:
        """Multiply the rows by the matches of a subtree, or test it if their number does not matter."""
        inner = _Lowering(self.host, SingleRow(), {}, {}, is_set=self._is_set, rows=self._rows)
        far = subtree.node.variable
        pairs = self._build_pairs(subtree.link, variable, far)
        near = name_id(variable)
        inner.relation = pairs
        inner.bound = {far: subtree.node.type}
        _check_single_type(subtree.node.type)
        if not subtree.node.is_free:
            inner._rows = float(self.host.count_rows(subtree.link.edge))
            inner._apply_node(replace(subtree.node))
        if self._is_set:
            self.relation = JoinRows(
                kind=JoinKind.SEMI, left=self.relation, right=_pick(inner.relation, (near,)), equal=((near, near),)
            )
            return
        has_counts = MULTIPLICITY in inner.relation.names
        count = CountSum(column=MULTIPLICITY if has_counts else None)
        counts = GroupRows(input=inner.relation, keys=(near,), measures=((_INNER_COUNT, count),))
        joined = self._join_inner(counts, float(self.host.count_rows(subtree.link.near)), ((near, near),))
        self.relation = self._multiply(joined)

    def _multiply(self, joined: Relation) -> Relation:
        """Return a relation whose counts are multiplied by those of a joined side."""
        has_counts = MULTIPLICITY in joined.names
        factors = (MULTIPLICITY, _INNER_COUNT) if has_counts else (_INNER_COUNT,)
        kept = [name for name in joined.names if name not in (MULTIPLICITY, _INNER_COUNT)]
        items: list[tuple[str, Term]] = [(name, ColumnTerm(name)) for name in kept]
        return Project(input=joined, items=(*items, (MULTIPLICITY, ProductTerm(factors))))

    def attach_rows(self) -> None:
        """Add the columns that are still missing: positions of rows, and properties that are read later."""
        for variable, type_name in self.bound.items():
            if type_name != VALUE_TYPE and not is_union(type_name):
                self._attach(variable, type_name)

    # --- hops -------------------------------------------------------------------------------------------

    def _expand(self, step: Expand) -> None:
        link, variable = step.link, step.node.variable
        _check_single_type(step.node.type)
        pairs = self._build_pairs(link, step.source, variable)
        near = name_id(step.source)
        edge_rows = float("inf") if link.is_multi else float(self.host.count_rows(link.edge))
        self.relation = self._join_inner(pairs, edge_rows, ((near, near),))
        self.bound[variable] = step.node.type
        if link.edge_variable is not None:
            self.bound[link.edge_variable] = link.edge
        self._rows = step.rows
        self._apply_node(step.node)
        self._keep(step.keep)

    def _close(self, step: Close) -> None:
        source, target = name_id(step.source), name_id(step.target)
        pairs = self._build_pairs(step.link, step.source, _OTHER_END if source == target else step.target)
        far = name_id(_OTHER_END) if source == target else target
        equal = ((source, source), (target, far))
        if step.link.reads_edges and not self._is_set:
            pairs_rows = float(self.host.count_rows(step.link.edge))
            if source == target:
                # Both columns are compared with one: the name of the second must not stay.
                joined = JoinRows(kind=JoinKind.INNER, left=self.relation, right=pairs, equal=equal)
                self.relation = _pick(joined, tuple(name for name in joined.names if name != far))
            else:
                self.relation = self._join_inner(pairs, pairs_rows, equal)
            if step.link.edge_variable is not None:
                self.bound[step.link.edge_variable] = step.link.edge
        elif step.link.edge_variable is not None:
            raise UnsupportedForm("an edge variable that closes a cycle")
        else:
            self.relation = JoinRows(kind=JoinKind.SEMI, left=self.relation, right=pairs, equal=equal)
        self._keep(step.keep)

    def _build_pairs(self, link: Link, source: str, target: str) -> Relation:
        """Return the pairs of ids that a hop connects, in columns of the two variables, with what its edges need."""
        if link.walk is not None:
            raise UnsupportedForm("a path variable")
        if link.members:
            raise UnsupportedForm("a hop along several edge types")
        _check_single_type(link.near)
        _check_single_type(link.far)
        for each in (*link.filters, *link.along, *link.through):
            self.host.check_filter(each)
        near, far = name_id(source), name_id(target)
        if link.is_multi:
            return self._build_reach(link, near, far)
        if link.derived is not None:
            inner = self._solve_alone(link.derived.steps, is_set=True)
            pair = (link.derived.source, link.derived.target)
            return build_edges(link, EdgeColumns(near, far), derived=(inner, pair), is_set=False)
        extra = () if link.edge_variable is None else self._list_scan_columns(link.edge_variable)
        few: Relation | None = None
        if near in self.relation.names and self._rows * _FEW_DIVISOR <= self.host.count_rows(link.edge):
            few = Distinct(input=_pick(self.relation, (near,)))
        return build_edges(link, EdgeColumns(near, far, extra), is_set=self._is_set, few=few)

    def _build_reach(self, link: Link, near: str, far: str) -> Relation:
        derived: tuple[Relation, tuple[str, str]] | None = None
        if link.derived is not None:
            inner = self._solve_alone(link.derived.steps, is_set=True)
            derived = inner, (link.derived.source, link.derived.target)
        # Walks start and end at any node of the type, so the columns of a step have names of their own.
        edges = build_edges(
            replace(link, low=1, high=1), EdgeColumns(_STEP_FROM, _STEP_TO), derived=derived, is_set=True
        )
        through: Relation | None = None
        if link.through:
            through = ScanRows(type=link.near, variable=_STEP_FROM, columns=((ID, _STEP_FROM),), filters=link.through)
        if near not in self.relation.names:
            raise UnsupportedForm("a count of nodes that are reached over several edges")
        return Reach(
            sources=Distinct(input=_pick(self.relation, (near,))),
            source=near,
            edges=edges,
            near=_STEP_FROM,
            far=_STEP_TO,
            target=far,
            low=link.low,
            high=link.high,
            through=through,
        )

    def _solve_alone(self, steps: tuple[Step, ...], *, is_set: bool) -> Relation:
        """Return the matches of steps that start from nothing."""
        inner = _Lowering(self.host, SingleRow(), {}, self._columns, is_set=is_set, rows=1.0)
        for step in steps:
            inner.add(step)
        return inner.relation

    # --- filters and other parts ------------------------------------------------------------------------

    def _filter(self, predicates: tuple[Expr, ...]) -> None:
        for predicate in predicates:
            self.host.check_expr(predicate)
            self._require_columns(predicate)
        self.relation = Select(input=self.relation, predicates=predicates)

    def _require_columns(self, expr: Expr) -> None:
        """Join what an expression reads of the bound variables and the relation does not have yet."""
        for variable in find_variables(expr):
            if variable in self.bound:
                self._require_variable(variable)

    def _cross(self, steps: tuple[Step, ...], predicates: tuple[Expr, ...]) -> None:
        """Pair the rows with those of another part of the pattern for which the predicates are true."""
        inner = _Lowering(self.host, SingleRow(), {}, self._columns, is_set=self._is_set, rows=1.0)
        for step in steps:
            inner.add(step)
        for predicate in predicates:
            self.host.check_expr(predicate)
            self._require_columns(predicate)
            inner._require_columns(predicate)
        other = inner.relation
        if MULTIPLICITY in other.names:
            other = _rename(other, MULTIPLICITY, _INNER_COUNT)
        joined: Relation = JoinRows(
            kind=JoinKind.INNER, left=self.relation, right=other, equal=(), predicates=predicates
        )
        self.relation = self._multiply(joined) if _INNER_COUNT in other.names else joined
        self.bound.update(inner.bound)

    def _require_variable(self, variable: str) -> None:
        type_name = self.bound[variable]
        if type_name == VALUE_TYPE or is_union(type_name):
            raise UnsupportedForm("a condition on a computed value")
        self._attach(variable, type_name)

    def _attach(self, variable: str, type_name: str) -> None:
        """Join the columns of a variable's row that the relation does not have yet."""
        columns = self._list_scan_columns(variable)
        fresh = [(stored, name) for stored, name in columns if name not in self.relation.names]
        if fresh:
            key = name_id(variable)
            scan = ScanRows(type=type_name, variable=variable, columns=((ID, key), *fresh))
            # A variable of an optional block may have no row.
            self.relation = JoinRows(kind=JoinKind.LEFT, left=self.relation, right=scan, equal=((key, key),))

    # --- blocks -----------------------------------------------------------------------------------------

    def _list_shared(self, shared: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """Return the columns of the outer variables that a block reads."""
        names = []
        for variable, type_name in shared:
            if type_name == VALUE_TYPE or is_union(type_name):
                raise UnsupportedForm("a block that reads a computed value")
            names.append(name_id(variable))
        return tuple(names)

    def _solve_block(
        self, shared: tuple[tuple[str, str], ...], steps: tuple[Step, ...], *, is_set: bool
    ) -> "_Lowering":
        """Return the matches of a block for each combination of the outer variables that it reads."""
        columns = self._list_shared(shared)
        seeds = Distinct(input=_pick(self.relation, columns)) if columns else SingleRow()
        inner = _Lowering(self.host, seeds, dict(shared), self._columns, is_set=is_set, rows=self._rows, seeds=columns)
        for step in steps:
            inner.add(step)
        return inner

    def _test(self, step: SemiJoin) -> None:
        inner = self._solve_block(step.shared, step.steps, is_set=True)
        columns = self._list_shared(step.shared)
        self.relation = JoinRows(
            kind=JoinKind.ANTI if step.is_anti else JoinKind.SEMI,
            left=self.relation,
            right=_pick(inner.relation, columns),
            equal=tuple((name, name) for name in columns),
            is_null_equal=True,
        )

    def _left_join(self, step: LeftJoin) -> None:
        inner = self._solve_block(step.shared, step.steps, is_set=self._is_set)
        self._join_block(inner, step.shared, step.binds, JoinKind.LEFT)

    def _join_block(
        self, inner: "_Lowering", shared: tuple[tuple[str, str], ...], binds: tuple[str, ...], kind: JoinKind
    ) -> None:
        columns = self._list_shared(shared)
        own = [name for name in inner.relation.names if _is_of(name, binds)]
        matches = _pick(inner.relation, (*columns, *own, *(n for n in inner.relation.names if n == MULTIPLICITY)))
        if MULTIPLICITY in matches.names:
            matches = _rename(matches, MULTIPLICITY, _INNER_COUNT)
        joined: Relation = JoinRows(
            kind=kind,
            left=self.relation,
            right=matches,
            equal=tuple((name, name) for name in columns),
            is_null_equal=True,
        )
        self.relation = self._multiply(joined) if _INNER_COUNT in joined.names else joined
        for variable in binds:
            if inner.bound.get(variable, VALUE_TYPE) == VALUE_TYPE:
                raise UnsupportedForm("an optional block that computes a value")
            self.bound[variable] = inner.bound[variable]

    def _union_join(self, step: UnionJoin) -> None:
        if any(step.conversions) or step.elements:
            raise UnsupportedForm("alternatives of several types")
        columns = self._list_shared(step.shared)
        keys = (*columns, *map(name_id, step.variables))
        parts: list[Relation] = []
        bound: dict[str, str] = {}
        for steps in step.alternatives:
            inner = self._solve_block(step.shared, steps, is_set=True)
            if any(inner.bound.get(variable, VALUE_TYPE) == VALUE_TYPE for variable in step.variables):
                raise UnsupportedForm("alternatives that compute a value")
            parts.append(_pick(inner.relation, keys))
            bound = inner.bound
        united = Distinct(input=UnionAll(inputs=tuple(parts)))
        kept = _pick(united, (*columns, *map(name_id, step.binds)))
        self.relation = JoinRows(
            kind=JoinKind.INNER,
            left=self.relation,
            right=kept,
            equal=tuple((name, name) for name in columns),
            is_null_equal=True,
        )
        self.bound.update({variable: bound[variable] for variable in step.binds})

    # --- columns ----------------------------------------------------------------------------------------

    def _keep(self, variables: tuple[str, ...]) -> None:
        """Drop the variables that nothing reads any more; the number of rows stays."""
        if SEED in variables:
            # The outer variables of a block identify its seeds.
            variables = (*variables, *(name for name in self.bound if name_id(name) in self._seeds))
        self.bound = {name: type_name for name, type_name in self.bound.items() if name in variables}
        self.relation = _pick(self.relation, self._list_kept())

    def _list_kept(self) -> tuple[str, ...]:
        return tuple(
            name
            for name in self.relation.names
            if name == MULTIPLICITY or name in self._seeds or _is_of(name, self.bound)
        )

    def _compact(self, keep: tuple[str, ...]) -> None:
        self._keep(keep)
        names = [name for name in self.relation.names if name != MULTIPLICITY]
        if self._is_set:
            self.relation = Distinct(input=_pick(self.relation, tuple(names)))
            return
        keys = [name for name in names if name.endswith("@id") or name in self._seeds]
        # Values have no ids: their own columns tell them apart.
        keys += [name_row(variable) for variable, type_name in self.bound.items() if type_name == VALUE_TYPE]
        has_counts = MULTIPLICITY in self.relation.names
        counted = CountSum(column=MULTIPLICITY if has_counts else None)
        others: list[tuple[str, Measure]] = [(name, AnyOf(column=name)) for name in names if name not in keys]
        self.relation = GroupRows(
            input=self.relation, keys=tuple(keys), measures=(*others, (MULTIPLICITY, counted)), drops_empty=True
        )


# Columns that only one step has.
_INNER_COUNT = "#inner count"
_STEP_FROM, _STEP_TO = "#from", "#to"
_OTHER_END = "#other end"


def _is_of(name: str, variables: Iterable[str]) -> bool:
    """Return whether a column belongs to one of these variables."""
    return any(name.startswith((f"{variable}@", f"{variable}.")) for variable in variables)


def _pick(relation: Relation, names: tuple[str, ...]) -> Relation:
    """Return the relation with these columns alone."""
    if relation.names == names:
        return relation
    return Project(input=relation, items=tuple((name, ColumnTerm(name)) for name in names))


def _rename(relation: Relation, old: str, new: str) -> Relation:
    return Project(
        input=relation, items=tuple((new if name == old else name, ColumnTerm(name)) for name in relation.names)
    )


def _check_single_type(type_name: str) -> None:
    if is_union(type_name):
        raise UnsupportedForm("a variable of several types")


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
    if isinstance(step, Unnest):
        return "each"
    return {"BindValue": "a value block", "Nothing": "a pattern without matches"}.get(type(step).__name__, "a step")
