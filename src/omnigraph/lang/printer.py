"""The canonical text of trees: parsing it gives an equal tree. What a parser left of a text with errors has none."""

from collections.abc import Sequence

from omnigraph.lang.layout import Item, lay_out
from omnigraph.lang.print_predicate import format_expr, format_predicate
from omnigraph.lang.print_query import build_query_items
from omnigraph.lang.print_schema import build_declaration_items
from omnigraph.lang.print_values import print_literal, print_type, quote
from omnigraph.lang.query_ast import Expr, Predicate, QueryFile
from omnigraph.lang.schema_ast import SchemaFile

__all__ = ["print_expr", "print_literal", "print_predicate", "print_queries", "print_schema", "print_type", "quote"]


def print_schema(tree: SchemaFile) -> str:
    """The schema's canonical text, without comments; spans have no influence on it."""
    return _join_lines([build_declaration_items(declaration) for declaration in tree.declarations])


def print_queries(tree: QueryFile) -> str:
    """The queries' canonical text, without comments; spans have no influence on it."""
    return _join_lines([build_query_items(query) for query in tree.queries])


def print_expr(expr: Expr) -> str:
    """An expression as it would be written, for messages."""
    return format_expr(expr)


def print_predicate(predicate: Predicate) -> str:
    """A predicate as it would be written, for messages."""
    return format_predicate(predicate)


def _join_lines(declarations: Sequence[Sequence[Item]]) -> str:
    return "".join(f"{chr(10) if line.blank_before else ''}{line}\n" for line in lay_out(declarations))
