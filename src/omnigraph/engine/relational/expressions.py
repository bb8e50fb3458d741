"""Print typed expressions as SQL, in a dialect that gives them the same value in every row as our evaluator does.

Comparisons, logic, integers and what else a dialect says exactly are printed. Everything else (Unicode tables, regular
expressions, floats that must be finite, time zones, exact comparisons of integers with floats) becomes a call of a
`DelegatedFunction`, which runs our own evaluator over batches of the engine's columns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from omnigraph.engine.in_list_eval import select_numbers
from omnigraph.engine.predicate_eval import find_shared_type
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.relational.delegates import DelegatedFunction, is_plain_type, name_argument
from omnigraph.engine.relational.dialect import UnsupportedForm
from omnigraph.engine.relational.sql_syntax import SqlSyntax
from omnigraph.errors import QueryError
from omnigraph.query.expr import (
    Aggregate,
    And,
    Bm25,
    Case,
    Compare,
    Computed,
    Const,
    Contains,
    Distance,
    Entity,
    Expr,
    FieldRef,
    FuzzyScore,
    Identity,
    In,
    IsNull,
    Missing,
    Mmr,
    Nearest,
    Not,
    Now,
    Or,
    ParamRef,
    Prop,
    RecordExpr,
    RecordsParam,
    Rerank,
    Rrf,
    Snippet,
    StartsWith,
    TextMatch,
    United,
    ValueRef,
    Window,
)
from omnigraph.query.expr_tree import list_children, map_children, walk
from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf

# Returns the column of an expression as it is written in a statement; None if the relation has none.
FindColumn: TypeAlias = Callable[[Expr], str | None]
_F = ScalarFunction
# Calculations that read integers as I64, or whose result may not fit into it.
_OVERFLOWING = frozenset(
    {_F.ADD, _F.SUBTRACT, _F.MULTIPLY, _F.DIV, _F.MODULO, _F.NEGATE, _F.ABS, _F.ROUND, _F.FLOOR, _F.CEIL}
)
_DATE_PARTS = frozenset({_F.YEAR, _F.MONTH, _F.DAY})
# They choose one of their arguments, which have one type.
_CHOICES = {_F.COALESCE: "COALESCE", _F.NULLIF: "NULLIF", _F.LEAST: "LEAST", _F.GREATEST: "GREATEST"}
# What no batch of columns can be evaluated for: it needs tables, indexes or other rows.
_UNSUPPORTED: dict[type, str] = {
    TextMatch: "a text search",
    Nearest: "`nearest`",
    Bm25: "`bm25`",
    Rrf: "`rrf`",
    Mmr: "`mmr`",
    Rerank: "`rerank`",
    Snippet: "`snippet`",
    FuzzyScore: "`fuzzy_score`",
    Distance: "a distance of two vectors",
    Aggregate: "an aggregate inside of an expression",
    Window: "a window function",
    RecordExpr: "a record",
    RecordsParam: "a list of records",
    FieldRef: "a field of a record, node or edge",
    Entity: "a whole node or edge",
    United: "a whole node or edge",
    Missing: "a whole node or edge",
}


@dataclass(slots=True)
class ExpressionPrinter:
    """Print the expressions of one statement, and collect the functions that the engine needs for them."""

    syntax: SqlSyntax
    inputs: QueryInputs
    prefix: str = "omnigraph_"
    """What the names of the functions begin with."""
    functions: list[DelegatedFunction] = field(default_factory=list)
    _names: dict[tuple[Expr, bool], str] = field(default_factory=dict)

    def print_value(self, expr: Expr, find_column: FindColumn) -> str:
        """Return the text of a value that is calculated for a result: an integer that overflows is an error.

        Raises:
            UnsupportedForm: No engine of tables can evaluate a part of it.
        """
        if can_overflow(expr, find_column):
            return self._delegate(expr, find_column, reports_overflow=True)
        return self._print(expr, find_column)

    def print_condition(self, expr: Expr, find_column: FindColumn) -> str:
        """Return the text of a predicate, or of a part of one: an integer that overflows is unknown.

        Raises:
            UnsupportedForm: No engine of tables can evaluate a part of it.
        """
        if is_strict(expr):
            # An engine of tables chooses when it evaluates a condition, also for rows that another one drops.
            raise UnsupportedForm("a condition whose calculation may fail")
        return self._print(expr, find_column)

    # --- what is printed ---------------------------------------------------------------------------

    def _print(self, expr: Expr, find_column: FindColumn) -> str:
        """Return the text of an expression, parts of which may be delegated."""
        # Logic and comparisons stay the engine's own: it pushes their parts down, and joins by them.
        match expr:
            case _ if (column := find_column(expr)) is not None:
                return column
            case And() | Or():
                word = " AND " if isinstance(expr, And) else " OR "
                return f"({word.join(self._print(term, find_column) for term in expr.terms)})"
            case Not():
                return f"(NOT {self._print(expr.term, find_column)})"
            case IsNull():
                return f"({self._print(expr.operand, find_column)} IS {'NOT ' if expr.negated else ''}NULL)"
            case Compare() if (cast := self._find_cast(expr)) is not None:
                left, right = (self._print(side, find_column) for side in (expr.left, expr.right))
                return f"({cast(left)} {expr.op.value.replace('!=', '<>')} {cast(right)})"
            case _:
                text = self._try_print(expr, find_column)
                return self._delegate(expr, find_column) if text is None else text

    def _try_print(self, expr: Expr, find_column: FindColumn) -> str | None:
        """Return the text of an expression that the dialect can say as a whole, else None."""
        column = find_column(expr)
        if column is not None:
            return column
        match expr:
            case Const() | ParamRef() | Now():
                is_printed = not isinstance(expr.type, VectorOf) and expr.type is not Scalar.BLOB
                return self.syntax.print_literal(self.inputs.resolve(expr), expr.type) if is_printed else None
            case And() | Or() | Not() | IsNull() | Compare():
                parts = [self._try_print(child, find_column) for child in list_children(expr)]
                is_said = None not in parts and not (isinstance(expr, Compare) and self._find_cast(expr) is None)
                return self._print(expr, find_column) if is_said else None
            case Contains():
                return self._call(self.syntax.contains, (expr.text, expr.part), find_column)
            case StartsWith():
                return self._call(self.syntax.starts_with, (expr.text, expr.prefix), find_column)
            case In():
                return self._try_print_in(expr, find_column)
            case Case():
                return self._try_print_case(expr, find_column)
            case Computed():
                return self._try_print_computed(expr, find_column)
            case _:
                return None

    def _try_print_all(self, parts: Sequence[Expr], find_column: FindColumn) -> list[str] | None:
        texts = [self._try_print(part, find_column) for part in parts]
        known = [text for text in texts if text is not None]
        return known if len(known) == len(texts) else None

    def _call(self, function: str, arguments: Sequence[Expr], find_column: FindColumn) -> str | None:
        texts = self._try_print_all(arguments, find_column)
        return None if texts is None else f"{function}({', '.join(texts)})"

    def _find_cast(self, expr: Compare) -> Callable[[str], str] | None:
        """Return what both sides of a comparison have to be cast to; None if the dialect can't compare them exactly."""
        left, right = (_plain(side.type) for side in (expr.left, expr.right))
        if left is None or right is None:
            return None
        if left == right or _are_integers(left, right):
            return _keep
        # A fraction is rounded to an F32 where it meets one; only our evaluator does that.
        if find_shared_type(left, right) is None or {left, right} == {Scalar.F32, Scalar.F64}:
            return None
        double = self.syntax.types[Scalar.F64]
        return lambda text: f"CAST({text} AS {double})"

    def _try_print_in(self, expr: In, find_column: FindColumn) -> str | None:
        element_type = _plain(expr.element.type)
        if element_type is None or not isinstance(expr.collection.type, ListOf):
            return None
        item_type = expr.collection.type.element
        element = self._try_print(expr.element, find_column)
        if element is None or (isinstance(element_type, Scalar) and element_type.is_float):
            return None
        if isinstance(expr.collection, Const | ParamRef) and find_column(expr.collection) is None:
            items = self.inputs.resolve(expr.collection)
            if items is None:
                return self.syntax.print_literal(None, Scalar.BOOL)
            assert isinstance(items, list | tuple)  # noqa: S101 - the value of a list
            kept = items
            if isinstance(element_type, Scalar) and element_type.is_numeric:
                kept = [int(item) for item in select_numbers(items, element_type)]
            texts = [self.syntax.print_literal(item, element_type) for item in kept]
            if not texts:
                return f"(CASE WHEN {element} IS NOT NULL THEN FALSE END)"
            return f"({element} IN ({', '.join(texts)}))"
        collection = self._try_print(expr.collection, find_column)
        if collection is None or item_type != element_type:
            return None
        return f"{self.syntax.list_contains}({collection}, {element})"

    def _try_print_case(self, expr: Case, find_column: FindColumn) -> str | None:
        parts = self._try_print_all(list_children(expr), find_column)
        if parts is None:
            return None
        branches = [f"WHEN {parts[at]} THEN {parts[at + 1]}" for at in range(0, len(parts) - 1, 2)]
        return f"(CASE {' '.join(branches)} ELSE {parts[-1]} END)"

    def _try_print_computed(self, expr: Computed, find_column: FindColumn) -> str | None:
        types = [_plain(argument.type) for argument in expr.arguments]
        texts = self._try_print_all(expr.arguments, find_column)
        if texts is None or None in types:
            return None
        function = expr.function
        if function in _CHOICES:
            kind = types[0]
            is_exact = all(type_ == kind for type_ in types) and not (isinstance(kind, Scalar) and kind.is_float)
            return f"{_CHOICES[function]}({', '.join(texts)})" if is_exact and _plain(expr.type) == kind else None
        if function in self.syntax.integer_functions and expr.type is Scalar.I64:
            cast = "TRY_CAST({} AS BIGINT)" if Scalar.U64 in types else "CAST({} AS BIGINT)"
            return self.syntax.integer_functions[function](*(cast.format(text) for text in texts))
        # The parts of an instant depend on a time zone, which is the engine's.
        if function in _DATE_PARTS and types[0] is not Scalar.DATE:
            return None
        template = self.syntax.functions.get(function)
        return None if template is None else template(*texts)

    # --- what is delegated -------------------------------------------------------------------------

    def _delegate(self, expr: Expr, find_column: FindColumn, *, reports_overflow: bool = False) -> str:
        """Return a call of our own evaluator, with the columns that the expression reads."""
        arguments: list[str] = []
        types: list[ValueType] = []

        def replace(part: Expr) -> Expr:
            column = find_column(part)
            if column is None:
                form = _find_unsupported(part)
                if form is not None:
                    raise UnsupportedForm(form)
                return map_children(part, replace)
            # A whole node or edge is only asked for whether there is one, which its id tells.
            type_ = Scalar.STRING if isinstance(part, Entity) else part.type
            if not is_plain_type(type_):
                raise UnsupportedForm(f"a value of the type {type_}")
            assert isinstance(type_, Scalar | EnumOf | ListOf | VectorOf)  # noqa: S101 - as just checked
            if column not in arguments:
                arguments.append(column)
                types.append(type_)
            return ValueRef(variable=name_argument(arguments.index(column)), type=type_, origin=part.origin)

        rewritten = replace(expr)
        if not is_plain_type(expr.type):
            raise UnsupportedForm(f"a value of the type {expr.type}")
        assert isinstance(expr.type, Scalar | EnumOf | ListOf | VectorOf)  # noqa: S101 - as just checked
        function = DelegatedFunction(
            name=self.prefix + str(len(self.functions)),
            expr=rewritten,
            argument_types=tuple(types),
            type=expr.type,
            inputs=self.inputs,
            reports_overflow=reports_overflow,
        )
        if not arguments:
            folded = self._fold(function)
            if folded is not None:
                return folded
        name = self._names.setdefault((rewritten, reports_overflow), function.name)
        if name == function.name:
            self.functions.append(function)
        return f"{name}({', '.join(arguments) or 'TRUE'})"

    def _fold(self, function: DelegatedFunction) -> str | None:
        """Return the value of an expression that reads no column, as a literal; None if there is none."""
        if isinstance(function.type, VectorOf):
            return None
        try:
            value = function.evaluate((), 1)[0].as_py()
        except QueryError:
            # An error of its own at the first row, as in every other expression.
            return None
        return self.syntax.print_literal(value, function.type)


def _keep(text: str) -> str:
    return text


def _plain(type_: object) -> ValueType | None:
    """Return a type with enums as texts; None for one that is no single value or list."""
    if isinstance(type_, EnumOf):
        return Scalar.STRING
    return type_ if isinstance(type_, Scalar | ListOf | VectorOf) else None


def _are_integers(left: ValueType, right: ValueType) -> bool:
    return all(isinstance(type_, Scalar) and type_.is_integer for type_ in (left, right))


def _find_unsupported(expr: Expr) -> str | None:
    if isinstance(expr, In) and not isinstance(expr.collection.type, ListOf):
        return "a test for a node or edge in a list"
    if isinstance(expr, Prop | Identity | ValueRef):
        return f"`${expr.variable}` in this place"
    return _UNSUPPORTED.get(type(expr))


def is_strict(expr: Expr) -> bool:
    """Return whether a calculation in a condition is an error where it has no value."""
    return any(isinstance(part, Computed) and part.is_strict for part in walk(expr))


def can_overflow(expr: Expr, find_column: FindColumn = lambda _: None) -> bool:
    """Return whether an expression calculates an integer that may not fit; what has a column is calculated."""
    if find_column(expr) is not None:
        return False
    if isinstance(expr, Computed) and expr.function in _OVERFLOWING and expr.type is Scalar.I64:
        return True
    return any(can_overflow(child, find_column) for child in list_children(expr))
