"""What the functions of Cypher share: how one is bound, and how an argument is refused."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from omnigraph.lang.cypher import tree
from omnigraph.query.cypher import values
from omnigraph.query.expr import Expr

if TYPE_CHECKING:
    from omnigraph.query.cypher.expressions import ExpressionBinder

Bind: TypeAlias = Callable[["ExpressionBinder", tree.Call, list[Expr]], Expr]


def refuse_argument(binder: "ExpressionBinder", call: tree.Call, value: Expr, needed: str) -> NoReturn:
    """Refuse an argument of a wrong type."""
    name = call.function.text
    binder.refuse_type(call.span, f"`{name}` needs {needed}, but this is {values.describe(value.type)}")
