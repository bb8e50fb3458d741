"""Binding of a predicate that stands alone, over the rows of one type."""

from omnigraph.lang import query_ast as ast
from omnigraph.lang.diagnostics import StageResult
from omnigraph.query.bind_expr import ExprBinder
from omnigraph.query.expr import Expr
from omnigraph.query.mutation_scope import RowNameResolver
from omnigraph.query.scope import declare_params
from omnigraph.schema.catalog import AnyType
from omnigraph.schema.findings import DiagnosticCollector


def bind_filter(predicate: ast.Predicate, declared: AnyType) -> StageResult[Expr | None]:
    """The typed predicate, or None and every independent error. It has no parameters."""
    findings = DiagnosticCollector()
    names = RowNameResolver(declared, declare_params((), findings), findings)
    bound = ExprBinder(names, findings).bind_predicate(predicate)
    return StageResult(bound, findings.finalize())
