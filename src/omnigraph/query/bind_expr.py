"""Expressions and predicates: what the text says, typed.

Reads and mutations share this binder; they differ in what names stand for (`Names`). Every method returns None when
something is wrong, and then it is already reported, so that callers go on and find the rest.
"""

from dataclasses import dataclass
from typing import assert_never

from omnigraph.lang import query_ast as ast
from omnigraph.lang.print_predicate import expr_text as print_expr
from omnigraph.query.bind_calls import CallBinder
from omnigraph.query.bind_compare import Blame, Side, brace_filter, compare
from omnigraph.query.bind_literal import natural, natural_type
from omnigraph.query.expr import And, Entity, Expr, IsNull, Not, Now, Or, Predicate, Prop
from omnigraph.query.functions import Family, Place, look_up
from omnigraph.query.logical_plan import GENERATED
from omnigraph.query.scope import Names
from omnigraph.schema.findings import Findings
from omnigraph.schema.misfit import Misfit


@dataclass(frozen=True, slots=True)
class ExprBinder:
    """Binds expressions; `names` says what variables, properties and bare names stand for."""

    names: Names
    findings: Findings

    def predicate(self, node: ast.Predicate) -> Predicate | None:
        """A predicate; all its terms are looked at, also behind a wrong one."""
        match node:
            case ast.Compare():
                left, right = self._side(node.left), self._side(node.right)
                return None if left is None or right is None else compare(node, left, right, self.findings)
            case ast.IsNull():
                return self._is_null(node)
            case ast.CallPredicate():
                function = look_up(node.call, Place.PREDICATE, self.findings)
                return None if function is None else self._calls.text_match(node.call, function)
            case ast.Not():
                term = self.predicate(node.term)
                return None if term is None else Not(term=term, origin=node.span)
            case ast.And():
                terms = self._terms(node.terms)
                return None if terms is None else And(terms=terms, origin=node.span)
            case ast.Or():
                terms = self._terms(node.terms)
                return None if terms is None else Or(terms=terms, origin=node.span)
            case _:
                assert_never(node)

    def value(self, node: ast.Expr, place: Place) -> Expr | None:
        """An expression that stands by itself: an output, an order key, an argument."""
        match node:
            case ast.Variable() | ast.PropertyRef() | ast.BareName():
                return self.names.resolve(node)
            case ast.LiteralExpr():
                constant = natural(node.value)
                if isinstance(constant, Misfit):
                    Blame("T3", node.span, self.findings).misfit(natural_type(node.value), node.value, constant)
                    return None
                return constant
            case ast.Star():
                self.findings.error("T8", node.span, "`*` stands for rows", "count them with `count(*)`")
                return None
            case ast.Call():
                return self._call(node, place)
            case _:
                assert_never(node)

    def brace_filter(self, prop: Prop, node: ast.Assignment) -> Predicate | None:
        """`{p: v}` of a binding."""
        if isinstance(node.value, ast.BareName):
            name = node.value.name.text
            help_ = f'write a text in quotes, `"{name}"`, or a parameter with `$`, `${name}`'
            self.findings.error("T6", node.value.span, f"`{name}` has no value here", help_)
            return None
        if isinstance(node.value, ast.PropertyRef):
            text = print_expr(node.value)
            message = f"`{prop.name}` takes a literal, a parameter or `now()` here, not `{text}`"
            variable = "v" if prop.variable.startswith(GENERATED) else prop.variable
            help_ = f"write it as a clause of its own: `${variable}.{prop.name} = {text}`"
            self.findings.error("T3", node.value.span, message, help_)
            return None
        value = self._side(node.value, Place.STORED)
        return None if value is None else brace_filter(prop, node, value, self.findings)

    @property
    def _calls(self) -> CallBinder:
        return CallBinder(self.names, self.findings)

    def _side(self, node: ast.Expr, place: Place = Place.OPERAND) -> Side | None:
        if isinstance(node, ast.LiteralExpr):
            return Side(node, node.value)
        value = self.value(node, place)
        return None if value is None else Side(node, value)

    def _terms(self, nodes: tuple[ast.Predicate, ...]) -> tuple[Expr, ...] | None:
        terms = [self.predicate(node) for node in nodes]
        found = tuple(term for term in terms if term is not None)
        return found if len(found) == len(terms) else None

    def _is_null(self, node: ast.IsNull) -> IsNull | None:
        operand = self.value(node.operand, Place.OPERAND)
        if isinstance(operand, Entity):
            message = f"`{print_expr(node.operand)}` is a whole `{operand.type}`, which is never null"
            help_ = f"test a property (`{print_expr(node.operand)}.property is null`), or use a `not` block"
            self.findings.error("T7", node.operand.span, message, help_)
            return None
        return None if operand is None else IsNull(operand=operand, negated=node.negated, origin=node.span)

    def _call(self, node: ast.Call, place: Place) -> Expr | None:
        function = look_up(node, place, self.findings)
        if function is None:
            return None
        match function.family:
            case Family.VALUE:
                return Now(origin=node.span)
            case Family.AGGREGATE:
                return self._calls.aggregate(node, function, self.value)
            case Family.RANK:
                return self._calls.rank(node, function)
            case Family.SEARCH:
                return self._calls.text_match(node, function)
            case _:
                assert_never(function.family)
