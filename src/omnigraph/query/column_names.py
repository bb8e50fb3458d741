"""Name the columns of a result that have no alias."""

from omnigraph.lang import query_ast as ast
from omnigraph.lang.printer import format_expr as print_expr
from omnigraph.lang.printer import print_literal


def build_column_name(node: ast.Expr) -> str:
    """Return the name of a column without an alias: its text without `$`."""
    match node:
        case ast.Variable():
            return node.name
        case ast.PropertyRef():
            return f"{node.variable.name}.{'@' if node.is_meta else ''}{node.name.text}"
        case ast.BareName():
            return node.name.text
        case ast.Star():
            return "*"
        case ast.LiteralExpr():
            return print_literal(node.value)
        case ast.Call():
            arguments = [build_column_name(argument) for argument in node.arguments]
            arguments += [f"{option.text}={build_column_name(value)}" for option, value in node.options]
            if node.where is not None or node.order or node.limit is not None or node.window is not None:
                return print_expr(node).replace("$", "")
            return f"{node.function.text}({'distinct ' if node.distinct else ''}{', '.join(arguments)})"
        case _:
            return print_expr(node).replace("$", "")
