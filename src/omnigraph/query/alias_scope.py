"""Resolve the names of output columns, where a clause after `return` or `with` may use them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from omnigraph.lang import query_ast as ast
from omnigraph.query.expr import EntityType, Expr
from omnigraph.query.scope import NameResolver, Reference
from omnigraph.schema.catalog import AnyType


class AliasReporter(Protocol):
    """A place that reports unknown aliases with its own suggestions."""

    def report_unknown_alias(self, node: ast.BareName) -> None:
        """Report a bare name that is no alias."""


@dataclass(frozen=True, slots=True)
class AliasResolver:
    """A resolver for which a bare name is an alias; all other references are those of `names`.

    The value of an alias is None if its column has an error, which is already reported.
    """

    names: NameResolver
    aliases: Mapping[str, Expr | None]
    reporter: AliasReporter

    def resolve(self, node: Reference) -> Expr | None:
        """Resolve a reference; see `NameResolver`."""
        if not isinstance(node, ast.BareName) or node.is_meta:
            return self.names.resolve(node)
        if node.name.text not in self.aliases:
            self.reporter.report_unknown_alias(node)
            return None
        return self.aliases[node.name.text]

    def get_type(self, type_: EntityType) -> AnyType:
        """Return the catalog entry of a node or edge type; see `NameResolver`."""
        return self.names.get_type(type_)
