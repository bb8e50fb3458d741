"""Check blocks: what they share with the clauses around them, and that optional variables are no ends of hops there."""

from collections.abc import Iterable, Sequence

from omnigraph.lang import literals as lit
from omnigraph.lang import query_ast as ast
from omnigraph.lang.source import Span
from omnigraph.query.expr import ShapedType, WalkOf
from omnigraph.query.pattern_scope import BlockDraft
from omnigraph.query.scalar_functions import unify
from omnigraph.query.scope import (
    BROKEN,
    BrokenType,
    Scope,
    ValueVariable,
    VariableType,
    find_bound_variables,
    iter_mentioned_variables,
    iter_names_bound_inside,
)
from omnigraph.query.union_types import unite_types
from omnigraph.schema.findings import DiagnosticCollector, join_words
from omnigraph.schema.types import is_scalar


def find_test(node: ast.Expr) -> tuple[ast.Block, bool] | None:
    """Return the `exists` block that a condition is, and whether it is negated; None if it is any other condition."""
    match node:
        case ast.Block(kind=ast.BlockKind.EXISTS):
            return node, False
        case ast.Not(term=term):
            inner = find_test(term)
            return None if inner is None else (inner[0], not inner[1])
        case ast.Compare(
            op=ast.CompareOp.EQ | ast.CompareOp.NE as op,
            left=left,
            right=ast.LiteralExpr(value=lit.BoolLiteral(value=value)),
        ):
            # As a clause, a lone Bool value such as an abbreviation is written `= true`.
            inner = find_test(left)
            return None if inner is None else (inner[0], inner[1] is (value is (op is ast.CompareOp.EQ)))
        case _:
            return None


def is_isolated(clauses: tuple[ast.Clause, ...], scope: Scope, own: Iterable[str]) -> bool:
    """Return whether a block reads no variable of the clauses around it."""
    names = {
        variable.name
        for variable in iter_mentioned_variables(clauses)
        if variable.name not in scope.params and variable.name != ast.ANONYMOUS
    }
    bound_inside = {*own, *iter_names_bound_inside(clauses)}
    # An unbound name is another error; it may have been meant as the shared variable.
    return all(scope.find(name) is None and name in bound_inside for name in names)


def report_isolated(word: str, span: Span, findings: DiagnosticCollector) -> None:
    """Report a block that reads nothing from the clauses around it."""
    effect = "all rows would have the same matches" if word == "optional" else "it would keep or drop all rows"
    message = f"this `{word}` block shares no variable with the clauses around it, so {effect}"
    earlier = ", or of an `optional` block before it" if word == "optional" else ""
    findings.add_error("T9", span, message, f"share a variable: use one of the clauses around the block{earlier}")


# --- optional ------------------------------------------------------------------------------------


def check_optional_ends(clauses: Sequence[ast.Clause], draft: BlockDraft, findings: DiagnosticCollector) -> None:
    """Check that no hop outside ends at a variable that an optional block was meant to bind.

    Such a hop binds the variable, so the block would only test it. It is a mistake if the block binds nothing else, or
    if only the block connects the variable with the others that it names, and no clause gives a type to any variable
    on its side.
    """
    typed = {clause.variable.name for clause in clauses if isinstance(clause, ast.Binding)}
    roots = _connect(clauses)
    # The variables of outer blocks have types too.
    typed |= {name for name in roots if name not in draft.types}
    typed_roots = {roots[name] for name in typed if name in roots}
    ends = [
        end for clause in clauses if isinstance(clause, ast.TraversalClause) for end in (clause.source, clause.target)
    ]
    for clause in clauses:
        if not isinstance(clause, ast.OptionalBlock):
            continue
        bound = {variable.name for variable in find_bound_variables(clause)} - {ast.ANONYMOUS}
        is_bare = bound <= draft.types.keys()
        outside = (
            {variable.name for variable in iter_mentioned_variables((clause,))} & draft.types.keys() & roots.keys()
        )
        for end in ends:
            if end.name not in bound or end.name in typed:
                continue
            is_apart = any(roots[name] != roots[end.name] for name in outside)
            if is_apart and (is_bare or roots[end.name] not in typed_roots):
                message = f"`${end.name}` belongs to an `optional` block, so it can't be an end of a hop outside it"
                help_ = "move the hop into the block, or into a stage after `with`"
                findings.add_error("T6", end.span, message, help_)


def _connect(clauses: Iterable[ast.Clause]) -> dict[str, str]:
    """Return a representative of each variable's component: those that hops and alternatives connect have the same."""
    roots: dict[str, str] = {}
    for clause in clauses:
        if isinstance(clause, ast.OptionalBlock):
            continue
        names = [variable.name for variable in find_bound_variables(clause)]
        if isinstance(clause, ast.Either):
            names = [variable.name for variable in iter_mentioned_variables((clause,))]
        if isinstance(clause, ast.Where):
            names = [variable.name for variable in iter_mentioned_variables((clause,))]
        for name in names:
            roots.setdefault(name, name)
        merged = {roots[name] for name in names}
        if merged:
            target = min(merged)
            roots = {name: target if root in merged else root for name, root in roots.items()}
    return roots


# --- either --------------------------------------------------------------------------------------


def check_alternative_types(
    clause: ast.Either, names: Sequence[str], scopes: Sequence[Scope], findings: DiagnosticCollector
) -> dict[str, VariableType]:
    """Return the types of the variables that all alternatives bind, those of nodes and edges united.

    A type is broken if the alternatives disagree about a value, which is reported.
    """
    bound: dict[str, VariableType] = {}
    for name in names:
        types = [scope.variables.get(name, BROKEN) for scope in scopes]
        if any(isinstance(type_, BrokenType) for type_ in types):
            bound[name] = BROKEN
            continue
        if any(isinstance(type_, ValueVariable) and isinstance(type_.type, WalkOf) for type_ in types):
            message = f"`${name}` is a walk in an alternative, so it can't be visible outside"
            findings.add_error("T6", clause.span, message, "move the `path` out of the `either`")
            bound[name] = BROKEN
            continue
        if any(name in scope.optional for scope in scopes):
            message = f"`${name}` may be null in an alternative, so it can't be visible outside"
            findings.add_error("T6", clause.span, message, "move the `optional` block out of the `either`")
            bound[name] = BROKEN
            continue
        united = _unite(types)
        if united is None:
            kinds = (type_.type if isinstance(type_, ValueVariable) else type_ for type_ in types)
            shown = join_words(dict.fromkeys(str(kind) for kind in kinds))
            message = f"`${name}` has a different type in each alternative: {shown}"
            help_ = "use one variable for each type, or bind a type that they have in common"
            findings.add_error("T5", clause.span, message, help_)
            bound[name] = BROKEN
            continue
        if isinstance(united, ValueVariable) and (isinstance(united.type, ShapedType) or not is_scalar(united.type)):
            message = f"`${name}` is {united.type}, which can't be compared, so alternatives can't bind it"
            findings.add_error("T8", clause.span, message, "move the `each` out of the `either`")
            united = BROKEN
        bound[name] = united
    return bound


def _unite(types: Sequence[VariableType]) -> VariableType | None:
    """Return the type that a variable of alternatives has outside; None if they have none in common."""
    if len(set(types)) == 1:
        return types[0]
    values = tuple(
        type_.type for type_ in types if isinstance(type_, ValueVariable) and not isinstance(type_.type, ShapedType)
    )
    if not values:
        return unite_types(types)
    common = unify(values) if len(values) == len(types) else None
    return None if common is None else ValueVariable(common)
