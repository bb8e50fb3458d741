"""Bind calls of text searches and rank functions, and check their arguments."""

from dataclasses import dataclass

from omnigraph.lang import literals as lit
from omnigraph.lang import query_ast as ast
from omnigraph.lang.printer import format_expr as print_expr
from omnigraph.query.bind_aggregates import ArgumentBinder
from omnigraph.query.bind_literal import clip_text
from omnigraph.query.expr import (
    BaseRank,
    Bm25,
    Const,
    Distance,
    EdgeRef,
    Expr,
    FuzzyScore,
    Input,
    Mmr,
    Nearest,
    NodeRef,
    ParamRef,
    Prop,
    Rank,
    Rerank,
    Rrf,
    Snippet,
    TextMatch,
    TextMode,
    is_whole,
)
from omnigraph.query.expr_tree import find_variable
from omnigraph.query.functions import CallContext, Function, resolve_function
from omnigraph.query.scope import NameResolver, ReadNameResolver, ValueVariable
from omnigraph.query.union_types import resolve_types
from omnigraph.schema.findings import DiagnosticCollector
from omnigraph.schema.types import ListOf, Scalar, VectorOf
from omnigraph.schema.values import InvalidValue, from_literal

# The documented default of the query language.
DEFAULT_RRF_K = 60
DEFAULT_MMR_LAMBDA = 0.5


@dataclass(frozen=True, slots=True)
class CallBinder:
    """Bind calls whose function, context and number of arguments are already checked.

    Every method returns None for an invalid call, whose errors it has reported.
    """

    names: NameResolver
    findings: DiagnosticCollector

    # --- search ----------------------------------------------------------------------------------

    def bind_text_match(self, call: ast.Call, function: Function) -> TextMatch | None:
        """Bind a call of `search`, `match_text`, `fuzzy` or `fuzzy_score`, which measures what `fuzzy` finds."""
        prop = self._bind_string_property(call.arguments[0], function)
        query = self._bind_string_input(call.arguments[1], function)
        # All three arguments are bound before the first error returns, so that each reports its own.
        edits: Input | None = None
        if len(call.arguments) == 3:
            edits = self._bind_integer(call.arguments[2], function, "the distance", at_least=0)
            if edits is None:
                return None
        if prop is None or query is None:
            return None
        mode = TextMode.FUZZY if function.name == "fuzzy_score" else TextMode(function.name)
        return TextMatch(mode=mode, prop=prop, query=query, edits=edits, origin=call.span)

    # --- ranks -----------------------------------------------------------------------------------

    def bind_rank(self, call: ast.Call, function: Function, bind: ArgumentBinder) -> Rank | Distance | None:
        """Bind a call of a rank function; `bind` binds a vector that is neither literal nor parameter."""
        match function.name:
            case "rrf":
                return self._bind_rrf(call, function)
            case "mmr":
                return self._bind_mmr(call, function)
            case "rerank":
                return self._bind_rerank(call, function)
            case _:
                pass
        if function.name == "nearest" and self._is_pair(call):
            if call.options:
                message = "`exact` compares all rows with one vector, and `nearest` of two properties always does"
                self.findings.add_error(function.misused_code, call.options[0][0].span, message, "leave it out")
                return None
            return self._bind_distance(call, function, bind)
        return self._bind_simple_rank(call, function)

    def _is_pair(self, call: ast.Call) -> bool:
        """Return whether both arguments of `nearest` are read from rows: neither is the vector to look for."""
        first, second = call.arguments
        if not isinstance(second, ast.LiteralExpr | ast.Variable):
            return True
        if isinstance(second, ast.Variable) and self._is_vector_variable(second):
            return True
        # A vector of a record or list is compared, not searched for.
        return not isinstance(first, ast.Variable | ast.PropertyRef | ast.BareName | ast.LiteralExpr)

    def _is_vector_variable(self, node: ast.Variable) -> bool:
        """Return whether a variable is a vector of the row: a column of an earlier stage."""
        scope = self.names.scope if isinstance(self.names, ReadNameResolver) else None
        type_ = None if scope is None else scope.find(node.name)
        return isinstance(type_, ValueVariable) and isinstance(type_.type, VectorOf)

    def _bind_distance(self, call: ast.Call, function: Function, bind: ArgumentBinder) -> Distance | None:
        # Both are bound before the first error returns, so that each reports its own.
        sides = [bind(node, CallContext.OPERAND) for node in call.arguments]
        for side, node in zip(sides, call.arguments, strict=True):
            if side is not None and not isinstance(side.type, VectorOf):
                message = f"`nearest` needs two vectors, but `{clip_text(print_expr(node))}` is {side.type}"
                self.findings.add_error(function.misused_code, node.span, message, f"write {function.usage}")
                return None
        left, right = sides
        if left is None or right is None:
            return None
        if left.type != right.type:
            message = f"`nearest` needs vectors of one size, not {left.type} and {right.type}"
            self.findings.add_error(function.misused_code, call.span, message)
            return None
        if isinstance(left, Prop) and isinstance(right, Prop) and left.metric is not right.metric:
            message = f"`nearest` needs vectors of one metric, not of {left.metric.value} and {right.metric.value}"
            self.findings.add_error(function.misused_code, call.span, message)
            return None
        return Distance(left=left, right=right, origin=call.span)

    def bind_text_value(self, call: ast.Call, function: Function) -> Snippet | FuzzyScore | None:
        """Bind a call of `snippet` or `fuzzy_score`."""
        if function.name == "fuzzy_score":
            match = self.bind_text_match(call, function)
            return None if match is None else FuzzyScore(match=match, origin=call.span)
        prop = self._bind_string_property(call.arguments[0], function)
        query = self._bind_string_input(call.arguments[1], function)
        return None if prop is None or query is None else Snippet(prop=prop, query=query, origin=call.span)

    def _bind_simple_rank(self, call: ast.Call, function: Function) -> Nearest | Bm25 | None:
        first, second = call.arguments
        if function.name == "bm25":
            prop = self._bind_string_property(first, function)
            query = self._bind_string_input(second, function)
            return None if prop is None or query is None else Bm25(prop=prop, query=query, origin=call.span)
        prop = self._bind_property(first, function, "a Vector property")
        if prop is None:
            return None
        if not isinstance(prop.type, VectorOf):
            message = f"`nearest` needs a Vector property first, but `{print_expr(first)}` is {prop.type}"
            self.findings.add_error(function.misused_code, first.span, message)
            return None
        if self._has_mixed_metrics(prop):
            message = f"the types of `${prop.variable}` measure the distance of `{prop.name}` by different metrics"
            self.findings.add_error(function.misused_code, first.span, message, "rank each type by a query of its own")
            return None
        query = self._bind_vector_input(second, function, prop.type)
        exact = self._bind_exact(call, function)
        return (
            None if query is None or exact is None else Nearest(prop=prop, query=query, exact=exact, origin=call.span)
        )

    def _has_mixed_metrics(self, prop: Prop) -> bool:
        """Return whether the property of a variable of several types has another metric in one of them."""
        scope = self.names.scope if isinstance(self.names, ReadNameResolver) else None
        type_ = None if scope is None else scope.find(prop.variable)
        if scope is None or not isinstance(type_, NodeRef | EdgeRef):
            return False
        declared = (member.find_property(prop.name) for member in resolve_types(scope.catalog, type_.name))
        return len({member.metric for member in declared if member is not None}) > 1

    def _bind_exact(self, call: ast.Call, function: Function) -> bool | None:
        """Return the option `exact`, false without it."""
        # `resolve_function` has rejected other options, and a second one.
        for _, node in call.options:
            if isinstance(node, ast.LiteralExpr) and isinstance(node.value, lit.BoolLiteral):
                return node.value.value
            message = f"`exact` of `nearest` is `true` or `false`, not `{clip_text(print_expr(node))}`"
            self.findings.add_error(function.misused_code, node.span, message, f"write {function.usage}")
            return None
        return False

    def _bind_rrf(self, call: ast.Call, function: Function) -> Rrf | None:
        nodes = list(call.arguments)
        options = {option.text: (option, value) for option, value in call.options}
        # `k` is an option, or the last argument after two ranks or more.
        k_node: ast.Expr | None = options["k"][1] if "k" in options else None
        if len(nodes) > 2 and not isinstance(nodes[-1], ast.Call):
            if k_node is not None:
                message = "`k` of `rrf` is given twice"
                self.findings.add_error(function.misused_code, options["k"][0].span, message, f"write {function.usage}")
                return None
            k_node = nodes.pop()
        # All arguments are bound before the first error returns, so that each reports its own.
        ranks = [self._bind_fused_rank(node, function) for node in nodes]
        k: Input | None = Const(value=DEFAULT_RRF_K, type=Scalar.I64, origin=call.span)
        if k_node is not None:
            k = self._bind_integer(k_node, function, "`k`", at_least=1)
        weights = self._bind_weights(options["weights"][1], function, len(nodes)) if "weights" in options else ()
        known = [rank for rank in ranks if rank is not None]
        if len(known) < len(ranks) or k is None or weights is None:
            return None
        first, second, *others = known
        for other in known[1:]:
            if other.prop.variable != first.prop.variable:
                variables = f"`${first.prop.variable}` and `${other.prop.variable}`"
                message = f"`rrf` fuses ranks of one variable, not of {variables}"
                self.findings.add_error(function.misused_code, call.span, message)
                return None
        return Rrf(first=first, second=second, others=tuple(others), k=k, weights=weights, origin=call.span)

    def _bind_weights(self, node: ast.Expr, function: Function, count: int) -> tuple[float, ...] | None:
        """Return a list of one positive number for each rank."""
        value = from_literal(ListOf(Scalar.F64), node.value) if isinstance(node, ast.LiteralExpr) else None
        if isinstance(value, tuple | list) and len(value) == count:
            weights = tuple(weight for weight in value if isinstance(weight, float) and weight > 0)
            if len(weights) == count:
                return weights
        message = (
            f"`weights` of `rrf` are {count} numbers above 0, one for each rank, not `{clip_text(print_expr(node))}`"
        )
        self.findings.add_error(function.misused_code, node.span, message, f"write {function.usage}")
        return None

    def _bind_fused_rank(self, node: ast.Expr, function: Function) -> Nearest | Bm25 | None:
        if isinstance(node, ast.Call) and node.function.text in ("nearest", "bm25"):
            inner = resolve_function(node, CallContext.ORDER, self.findings)
            return None if inner is None else self._bind_simple_rank(node, inner)
        message = f"`rrf` fuses `nearest` and `bm25`, not `{print_expr(node)}`"
        self.findings.add_error(function.misused_code, node.span, message, f"write {function.usage}")
        return None

    def _bind_mmr(self, call: ast.Call, function: Function) -> Mmr | None:
        node, vectors = call.arguments
        rank = self._bind_base_rank(node, function)
        prop = self._bind_property(vectors, function, "a Vector property")
        if prop is not None and not isinstance(prop.type, VectorOf):
            message = f"`mmr` needs a Vector property, but `{print_expr(vectors)}` is {prop.type}"
            self.findings.add_error(function.misused_code, vectors.span, message)
            return None
        balance: float | None = DEFAULT_MMR_LAMBDA
        for _, option in call.options:
            balance = _bind_lambda(option, function, self.findings)
        if (
            rank is None
            or prop is None
            or balance is None
            or not _is_one_variable(call, function, rank, prop, self.findings)
        ):
            return None
        return Mmr(rank=rank, prop=prop, balance=balance, origin=call.span)

    def _bind_rerank(self, call: ast.Call, function: Function) -> Rerank | None:
        rank = self._bind_base_rank(call.arguments[0], function)
        prop = self._bind_string_property(call.arguments[1], function)
        query = self._bind_string_input(call.arguments[2], function)
        if (
            rank is None
            or prop is None
            or query is None
            or not _is_one_variable(call, function, rank, prop, self.findings)
        ):
            return None
        return Rerank(rank=rank, prop=prop, query=query, origin=call.span)

    def _bind_base_rank(self, node: ast.Expr, function: Function) -> BaseRank | None:
        """Bind the rank that another one begins with."""
        if isinstance(node, ast.Call) and node.function.text in ("nearest", "bm25", "rrf"):
            inner = resolve_function(node, CallContext.ORDER, self.findings)
            if inner is None:
                return None
            return self._bind_rrf(node, inner) if inner.name == "rrf" else self._bind_simple_rank(node, inner)
        message = f"`{function.name}` begins with `nearest`, `bm25` or `rrf`, not with `{clip_text(print_expr(node))}`"
        self.findings.add_error(function.misused_code, node.span, message, f"write {function.usage}")
        return None

    # --- arguments -------------------------------------------------------------------------------

    def _bind_property(self, node: ast.Expr, function: Function, expected: str) -> Prop | None:
        if isinstance(node, ast.Variable | ast.PropertyRef | ast.BareName):
            value = self.names.resolve(node)
            # None: the error is already reported.
            if value is None or isinstance(value, Prop):
                return value
        message = f"`{function.name}` needs {expected} first, not `{print_expr(node)}`"
        self.findings.add_error(function.misused_code, node.span, message, f"write {function.usage}")
        return None

    def _bind_string_property(self, node: ast.Expr, function: Function) -> Prop | None:
        prop = self._bind_property(node, function, "a String property")
        if prop is not None and prop.type is not Scalar.STRING:
            message = f"`{function.name}` needs a String property first, but `{print_expr(node)}` is {prop.type}"
            self.findings.add_error(function.misused_code, node.span, message)
            return None
        return prop

    def _bind_string_input(self, node: ast.Expr, function: Function) -> Input | None:
        if isinstance(node, ast.LiteralExpr) and isinstance(node.value, lit.StringLiteral):
            return Const(value=node.value.value, type=Scalar.STRING, origin=node.span)
        if isinstance(node, ast.Variable):
            value = self.names.resolve(node)
            if value is None or (isinstance(value, ParamRef) and value.type is Scalar.STRING):
                return value
        message = f"`{function.name}` searches for a String, not for `{print_expr(node)}`"
        self.findings.add_error(function.misused_code, node.span, message, "give a text or a String parameter")
        return None

    def _bind_vector_input(self, node: ast.Expr, function: Function, type_: VectorOf) -> Input | None:
        if isinstance(node, ast.LiteralExpr):
            literal = node.value
            # A text is embedded when the query runs.
            if isinstance(literal, lit.StringLiteral):
                return Const(value=literal.value, type=Scalar.STRING, origin=node.span)
            value = from_literal(type_, literal)
            if not isinstance(value, InvalidValue):
                return Const(value=value, type=type_, origin=node.span)
            problem = f"it is not a {type_}: {value.reason}"
        else:
            resolved = self.names.resolve(node) if isinstance(node, ast.Variable) else None
            if isinstance(node, ast.Variable) and resolved is None:
                return None
            if isinstance(resolved, ParamRef) and resolved.type in (type_, Scalar.STRING):
                return resolved
            problem = "it is neither a literal nor a parameter"
            if isinstance(resolved, ParamRef):
                problem = f"it is {resolved.type}"
        message = f"`nearest` can't search for `{clip_text(print_expr(node))}`: {problem}"
        self.findings.add_error(
            function.misused_code, node.span, message, f"give a `{type_}`, or a String to be embedded"
        )
        return None

    def _bind_integer(self, node: ast.Expr, function: Function, what: str, *, at_least: int) -> Input | None:
        bound: Expr | None = None
        if isinstance(node, ast.LiteralExpr) and isinstance(node.value, lit.IntLiteral):
            value = from_literal(Scalar.I64, node.value)
            bound = None if isinstance(value, InvalidValue) else Const(value=value, type=Scalar.I64, origin=node.span)
        elif isinstance(node, ast.Variable):
            bound = self.names.resolve(node)
            if bound is None:
                return None
        if isinstance(bound, Const | ParamRef) and is_whole(bound, at_least=at_least):
            return bound
        message = f"{what} of `{function.name}` is a whole number of at least {at_least}, not `{print_expr(node)}`"
        self.findings.add_error(
            function.misused_code, node.span, message, "give a number or a required integer parameter"
        )
        return None


def _bind_lambda(node: ast.Expr, function: Function, findings: DiagnosticCollector) -> float | None:
    value = from_literal(Scalar.F64, node.value) if isinstance(node, ast.LiteralExpr) else None
    if isinstance(value, float) and 0 <= value <= 1:
        return value
    message = f"`lambda` of `mmr` is a number from 0 to 1, not `{clip_text(print_expr(node))}`"
    findings.add_error(function.misused_code, node.span, message, f"write {function.usage}")
    return None


def _is_one_variable(
    call: ast.Call, function: Function, rank: BaseRank, prop: Prop, findings: DiagnosticCollector
) -> bool:
    """Return whether a property is of the variable that is ranked; reports it if not."""
    ranked = find_variable(rank)
    if ranked == prop.variable:
        return True
    message = f"`{function.name}` ranks rows of one variable, not of `${ranked}` and `${prop.variable}`"
    findings.add_error(function.misused_code, call.span, message)
    return False
