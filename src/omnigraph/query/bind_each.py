"""Bind `each $x in list`: as soon as the variables that the list reads are known."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from omnigraph.lang import query_ast as ast
from omnigraph.lang.printer import format_expr as print_expr
from omnigraph.lang.source import Span
from omnigraph.query.bind_computed import convert_list
from omnigraph.query.bind_expr import ExprBinder
from omnigraph.query.bind_literal import clip_text
from omnigraph.query.expr import ArrayOf, Const, EdgeRef, Expr, ExprType, NodeRef
from omnigraph.query.expr_tree import find_variables
from omnigraph.query.functions import CallContext
from omnigraph.query.logical_plan import EachBlock, EitherBlock, Pattern, PatternBlock, SharedVariable
from omnigraph.query.pattern_scope import BlockDraft, BlockDrafter
from omnigraph.query.scope import (
    BROKEN,
    BrokenType,
    ReadNameResolver,
    Scope,
    ValueVariable,
    VariableType,
    build_position_name,
    iter_expr_variables,
    iter_names_bound_inside,
)
from omnigraph.schema.findings import DiagnosticCollector
from omnigraph.schema.types import ListOf, Scalar

# Returns the types of the values that were lifted out of expressions so far, by their generated names.
ListLifted = Callable[[], Mapping[str, ExprType]]


@dataclass
class EachBinder:
    """Bind the `each` clauses of one block; each waits until the variables that its list reads are in scope."""

    drafter: BlockDrafter
    draft: BlockDraft
    list_lifted: ListLifted
    pending: list[ast.Each] = field(default_factory=list)
    blocks: list[EachBlock] = field(default_factory=list)
    order: dict[str, Span] = field(default_factory=dict)

    @property
    def findings(self) -> DiagnosticCollector:
        """The findings of the query."""
        return self.drafter.findings

    def bind_ready(self, scope: Scope) -> Scope:
        """Bind all clauses whose lists read known variables only; return the scope with their variables too."""
        while ready := next((clause for clause in self.pending if _is_ready(clause, scope)), None):
            self.pending.remove(ready)
            scope = self._bind(ready, scope)
        return scope

    def bind_rest(self, scope: Scope) -> Scope:
        """Bind the clauses that are left, whose lists read variables that are not bound, for their errors."""
        names = {clause.variable.name for clause in self.pending}
        for clause in self.pending:
            reads = {variable.name for variable in iter_expr_variables(clause.value)}
            circle = sorted(reads & names)
            if circle and all(name in names or scope.find(name) is not None for name in reads - {*scope.params.names}):
                own = clause.variable.name
                message = f"the list of `${own}` depends on `${circle[0]}`, and that one on it"
                if own in circle:
                    message = f"the list of `${own}` reads `${own}` itself"
                self.findings.add_error("T6", clause.value.span, message, "read the list from another variable")
            else:
                self._bind_value(clause, scope)
            scope = _add_variable(scope, clause.variable.name, BROKEN)
        self.pending = []
        return scope

    def _bind(self, clause: ast.Each, scope: Scope) -> Scope:
        name = self._choose_name(clause.variable, scope)
        value = self._bind_value(clause, scope)
        if name is None or value is None:
            return _add_variable(scope, clause.variable.name, BROKEN)
        assert isinstance(value.type, ListOf | ArrayOf)  # noqa: S101 - `_bind_value` has checked it
        element = value.type.element
        type_: VariableType = element if isinstance(element, NodeRef | EdgeRef) else ValueVariable(element)
        if not self._check_node_uses(clause, name, element):
            return _add_variable(scope, name, BROKEN)
        span = min(clause.variable.span, self.draft.order.get(name, clause.variable.span))
        self.order[name] = span
        if not self.findings:
            shared = self._build_shared(value, scope)
            position = build_position_name(name)
            self.blocks.append(
                EachBlock(variable=name, position=position, value=value, shared=shared, origin=clause.span)
            )
        return replace(_add_variable(scope, name, type_), elements=scope.elements | {name})

    def _bind_value(self, clause: ast.Each, scope: Scope) -> Expr | None:
        binder = ExprBinder(ReadNameResolver(scope, self.findings), self.findings, scope.lifter)
        value = binder.bind_value(clause.value, CallContext.OPERAND)
        if value is None or isinstance(value.type, ListOf | ArrayOf):
            return value
        text = clip_text(print_expr(clause.value))
        message = f"`each` needs a list, but `{text}` is {value.type}"
        if isinstance(value, Const) and value.value is None:
            message = "`each` needs a list, but `null` has no elements"
        self.findings.add_error("T7", clause.value.span, message)
        return None

    def _choose_name(self, variable: ast.Variable, scope: Scope) -> str | None:
        """Return the name of the variable, or a generated one; None if the name is taken, which is reported."""
        if variable.name == ast.ANONYMOUS:
            return next(self.drafter.generated_names)
        help_ = "give the element another name"
        if variable.name in scope.params:
            message = f"`${variable.name}` is a parameter, so it can't be bound"
        elif scope.is_let(variable.name):
            message = f"`${variable.name}` is an abbreviation (`let`), so it can't be bound"
        elif isinstance(scope.find(variable.name), BrokenType):
            return None
        elif scope.find(variable.name) is not None:
            message = f"`${variable.name}` is already a variable, so it can't name the elements of a list"
        else:
            return variable.name
        self.findings.add_error("Q003", variable.span, message, help_)
        return None

    def _check_node_uses(self, clause: ast.Each, name: str, element: ExprType) -> bool:
        """Check that an element that is used as a node is one, of the type that its uses need."""
        used = self.draft.types.get(name)
        if used is None or isinstance(used, BrokenType) or used == element:
            return True
        message = f"the elements of `{clip_text(print_expr(clause.value))}` are {element}"
        needed = f"but `${name}` is used as a node of `{used}`"
        self.findings.add_error("T5", clause.variable.span, f"{message}, {needed}", "use another variable")
        return False

    def _build_shared(self, value: Expr, scope: Scope) -> tuple[SharedVariable, ...]:
        lifted = self.list_lifted()
        shared: list[SharedVariable] = []
        for name in find_variables(value):
            type_ = scope.find(name)
            match type_:
                case ValueVariable():
                    shared.append(SharedVariable(variable=name, type=type_.type))
                case NodeRef() | EdgeRef():
                    shared.append(SharedVariable(variable=name, type=type_))
                case _:
                    # A block inside the expression: its value has a generated name.
                    shared.append(SharedVariable(variable=name, type=lifted[name]))
        return tuple(shared)


def find_each_clauses(clauses: Iterable[ast.Clause]) -> list[ast.Each]:
    """Return the `each` clauses of a block, in order."""
    return [clause for clause in clauses if isinstance(clause, ast.Each)]


def find_element_types(
    clauses: Sequence[ast.Clause], scope: Scope, drafter: BlockDrafter, draft: BlockDraft, list_lifted: ListLifted
) -> dict[str, frozenset[str]]:
    """Return the types of elements that are nodes, for the hops that start at them.

    What is wrong is not reported here: the drafter of the caller collects it on the side.
    """
    binder = EachBinder(drafter, replace(draft, types={}), list_lifted, find_each_clauses(clauses))
    names = {clause.variable.name for clause in binder.pending}
    wider = binder.bind_ready(scope)
    types = {name: wider.find(name) for name in names}
    return {name: frozenset({type_.name}) for name, type_ in types.items() if isinstance(type_, NodeRef)}


def widen_elements(pattern: Pattern, types: Mapping[str, ExprType]) -> Pattern:
    """Return an alternative whose elements have the types that they have outside: those of all alternatives."""
    blocks: list[PatternBlock] = []
    for block in pattern.blocks:
        wider = types.get(block.variable) if isinstance(block, EachBlock) else None
        if isinstance(block, EachBlock) and isinstance(wider, Scalar) and block.type != wider:
            value = convert_list(block.value, ListOf(wider))
            blocks.append(replace(block, value=value))
        elif isinstance(block, EitherBlock):
            inner = tuple(replace(each, type=types.get(each.variable, each.type)) for each in block.variables)
            own = {each.variable: each.type for each in inner if not isinstance(each.type, NodeRef | EdgeRef)}
            alternatives = tuple(widen_elements(each, own) for each in block.alternatives)
            blocks.append(replace(block, variables=inner, alternatives=alternatives))
        else:
            blocks.append(block)
    return replace(pattern, blocks=tuple(blocks))


def _is_ready(clause: ast.Each, scope: Scope) -> bool:
    names = {variable.name for variable in iter_expr_variables(clause.value)}
    inside = {name for name in names if scope.find(name) is None and name not in scope.params}
    # Names that only a block inside the list binds are not in scope here.
    return inside <= _find_own_names(clause.value)


def _find_own_names(value: ast.Expr) -> set[str]:
    where = ast.Where(predicate=value, span=value.span)
    return {*iter_names_bound_inside((where,)), ast.ANONYMOUS}


def _add_variable(scope: Scope, name: str, type_: VariableType) -> Scope:
    return replace(scope, variables={**scope.variables, name: type_}, hidden=scope.hidden - {name})
