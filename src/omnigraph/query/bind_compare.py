"""Bind comparisons: each side is an expression, or a literal that takes its type from the other side."""

import re
from dataclasses import dataclass

from omnigraph.lang import literals as lit
from omnigraph.lang import query_ast as ast
from omnigraph.lang.printer import format_expr as print_expr
from omnigraph.lang.source import Span
from omnigraph.query.bind_literal import bind_literal, clip_text, coerce_literal, infer_literal_type
from omnigraph.query.expr import (
    And,
    ArrayOf,
    Compare,
    Const,
    Contains,
    EdgeRef,
    Entity,
    Expr,
    ExprType,
    Identity,
    In,
    NodeRef,
    Op,
    Or,
    Predicate,
    Prop,
    RecordOf,
    ShapedType,
    StartsWith,
)
from omnigraph.query.numeric_narrowing import find_exact, narrow
from omnigraph.query.union_types import (
    ID_COLUMN,
    TYPE_COLUMN,
    build_meta_value,
    is_union,
    list_identity_fields,
    list_members,
)
from omnigraph.schema.findings import DiagnosticCollector
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf, are_comparable, is_numeric, is_text
from omnigraph.schema.values import InvalidValue, describe_type

_OPS = {
    ast.CompareOp.EQ: Op.EQ,
    ast.CompareOp.NE: Op.NE,
    ast.CompareOp.LT: Op.LT,
    ast.CompareOp.LE: Op.LE,
    ast.CompareOp.GT: Op.GT,
    ast.CompareOp.GE: Op.GE,
}
# A string literal that looks like this was probably meant as a number.
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
# A day without quotes and `date`, which is read as a subtraction.
_SUBTRACTED_DAY = re.compile(r"(\d{4}) - (\d{1,2}) - (\d{1,2})")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})")


@dataclass(frozen=True, slots=True)
class Operand:
    """One side of a comparison: its syntax node, and its bound expression or literal."""

    node: ast.Expr
    value: Expr | lit.Literal

    @property
    def text(self) -> str:
        """The source text for messages, clipped if it is long."""
        return clip_text(print_expr(self.node))

    @property
    def type(self) -> ExprType | None:
        """The type; None for null and for a list without a common type."""
        return infer_literal_type(self.value) if isinstance(self.value, LITERALS) else self.value.type

    def __str__(self) -> str:
        if isinstance(self.value, lit.IntLiteral | lit.FloatLiteral):
            return f"`{self.text}` (a number)"
        if self.type is not None:
            return f"`{self.text}` ({self.type})"
        return "`null`" if isinstance(self.value, lit.NullLiteral) else f"`{self.text}` (a list)"


# The members of the union `lit.Literal`, for `isinstance`.
LITERALS = (
    lit.StringLiteral,
    lit.IntLiteral,
    lit.FloatLiteral,
    lit.BoolLiteral,
    lit.NullLiteral,
    lit.DateLiteral,
    lit.DateTimeLiteral,
    lit.ListLiteral,
)


@dataclass(frozen=True, slots=True)
class MismatchReporter:
    """The code and position with which an invalid comparison is reported."""

    code: str
    span: Span
    findings: DiagnosticCollector

    def report_mismatch(self, message: str, help_: str | None = None) -> None:
        """Report that the types of the two sides can't be compared."""
        self.findings.add_error(self.code, self.span, message, help_)

    def report_misfit(self, type_: ExprType | None, literal: lit.Literal, misfit: InvalidValue) -> None:
        """Report a literal of the right kind that is not a value of the type (T3)."""
        if isinstance(type_, EnumOf) and isinstance(literal, lit.StringLiteral):
            message = f'"{literal.value}" is not a value of {type_}'
            help_ = self.findings.suggest_closest(literal.value, type_.values) or f"write {describe_type(type_)}"
        else:
            message = misfit.reason
            help_ = _LITERAL_FORMS.get(type(literal), "")
            if isinstance(literal, lit.DateTimeLiteral) and _DAY.fullmatch(literal.text):
                help_ = f'write `datetime("{literal.text}T00:00:00Z")`'
        self.findings.add_error("T3", literal.span, message, help_ or None)


_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_LITERAL_FORMS: dict[type, str] = {
    lit.DateLiteral: 'write `date("YYYY-MM-DD")`',
    lit.DateTimeLiteral: 'write `datetime("YYYY-MM-DDThh:mm:ssZ")`, with a zone',
}


def bind_compare(node: ast.Compare, left: Operand, right: Operand, findings: DiagnosticCollector) -> Predicate | None:
    """Bind a comparison; None if its sides can't be compared, which is reported (T7, T3)."""
    reporter = MismatchReporter("T7", node.span, findings)
    match node.op:
        case ast.CompareOp.IN:
            return bind_membership(left, right, node.span, reporter)
        case ast.CompareOp.CONTAINS:
            return _bind_contains(left, right, node.span, reporter)
        case ast.CompareOp.STARTS_WITH:
            return _bind_starts_with(left, right, node.span, reporter)
        case _:
            return bind_scalar_compare(_OPS[node.op], left, right, node.span, reporter)


def bind_brace_filter(
    prop: Prop, node: ast.Assignment, value: Operand, findings: DiagnosticCollector
) -> Predicate | None:
    """Bind `{p: v}`: an equality for a scalar property, a membership for a list; a wrong value is T3."""
    reporter = MismatchReporter("T3", node.value.span, findings)
    operand = Operand(ast.BareName(name=node.name, span=node.name.span), prop)
    if isinstance(prop.type, ListOf):
        return bind_membership(value, operand, node.span, reporter)
    return bind_scalar_compare(Op.EQ, operand, value, node.span, reporter)


# --- = != < <= > >= ------------------------------------------------------------------------------


def bind_scalar_compare(
    op: Op, left: Operand, right: Operand, origin: Span, reporter: MismatchReporter
) -> Predicate | None:
    """Bind `left op right` between two scalars, or two nodes of one type."""
    if isinstance(left.value, LITERALS):
        if isinstance(right.value, LITERALS):
            return _compare_literals(op, left.value, right.value, (left, right), origin, reporter)
        # A single literal is always the right side; the operands keep their order for messages.
        return _compare_with_literal(op.mirrored, right.value, left.value, (right, left), origin, reporter)
    if isinstance(right.value, LITERALS):
        return _compare_with_literal(op, left.value, right.value, (left, right), origin, reporter)
    if isinstance(left.value.type, NodeRef | EdgeRef) or isinstance(right.value.type, NodeRef | EdgeRef):
        return _compare_entities(op, left, right, origin, reporter)
    if not _is_comparable(left.value.type, right.value.type):
        return _refuse(left, right, reporter)
    return Compare(op=op, left=left.value, right=right.value, origin=origin)


def _is_comparable(left: ExprType, right: ExprType) -> bool:
    if isinstance(left, ShapedType) or isinstance(right, ShapedType):
        return False
    return are_comparable(left, right)


def _compare_with_literal(
    op: Op, expr: Expr, literal: lit.Literal, sides: tuple[Operand, Operand], origin: Span, reporter: MismatchReporter
) -> Predicate | None:
    type_ = expr.type
    if isinstance(type_, ShapedType) or not are_comparable(type_, type_):
        return _refuse(*sides, reporter)
    if isinstance(literal, lit.IntLiteral | lit.FloatLiteral) and isinstance(type_, Scalar) and is_numeric(type_):
        # In the column's type, so that an index can answer it; the operator may change with the value.
        narrowed = narrow(op, literal.value, type_)
        value = Const(value=narrowed.value, type=type_, origin=literal.span)
        return Compare(op=narrowed.op, left=expr, right=value, origin=origin)
    constant = coerce_literal(type_, literal)
    if constant is None:
        return _refuse(*sides, reporter)
    if isinstance(constant, InvalidValue):
        reporter.report_misfit(type_, literal, constant)
        return None
    return Compare(op=op, left=expr, right=constant, origin=origin)


def _compare_literals(
    op: Op,
    left: lit.Literal,
    right: lit.Literal,
    sides: tuple[Operand, Operand],
    origin: Span,
    reporter: MismatchReporter,
) -> Predicate | None:
    # Both are bound before either is checked, so that both report their errors.
    first = _bind_constant(left, right, reporter)
    second = _bind_constant(right, left, reporter)
    if first is None or second is None:
        return None
    if not are_comparable(first.type, second.type):
        return _refuse(*sides, reporter)
    return Compare(op=op, left=first, right=second, origin=origin)


def _bind_constant(literal: lit.Literal, other: lit.Literal, reporter: MismatchReporter) -> Const | None:
    """Return a literal as a constant in its own type; a null gets the type of the other literal."""
    other_type = infer_literal_type(other)
    if isinstance(literal, lit.NullLiteral) and other_type is not None:
        return Const(value=None, type=other_type, origin=literal.span)
    constant = bind_literal(literal)
    if isinstance(constant, InvalidValue):
        reporter.report_misfit(infer_literal_type(literal), literal, constant)
        return None
    return constant


def _compare_entities(
    op: Op, left: Operand, right: Operand, origin: Span, reporter: MismatchReporter
) -> Predicate | None:
    first, second = left.value, right.value
    # Nodes have an identity but no order: `=` and `!=` compare their ids.
    if isinstance(first, LITERALS) or isinstance(second, LITERALS) or op not in (Op.EQ, Op.NE):
        return _refuse(left, right, reporter)
    if not isinstance(first.type, NodeRef) or not isinstance(second.type, NodeRef):
        return _refuse(left, right, reporter)
    if first.type != second.type or not (isinstance(first, Entity) and isinstance(second, Entity)):
        common = set(list_members(first.type.name)) & set(list_members(second.type.name))
        return _compare_unions(op, first, second, origin) if common else _refuse(left, right, reporter)
    return Compare(
        op=op,
        left=Identity(variable=first.variable, nullable=first.nullable, origin=first.origin),
        right=Identity(variable=second.variable, nullable=second.nullable, origin=second.origin),
        origin=origin,
    )


def _compare_unions(op: Op, first: Expr, second: Expr, origin: Span) -> Predicate:
    """Compare nodes of different types, or nodes that are no variables, by type and id."""
    sides = [_list_identity_values(node) for node in (first, second)]
    if first.type == second.type and not is_union(str(first.type)):
        (_, left), (_, right) = sides
        return Compare(op=op, left=left, right=right, origin=origin)
    terms = tuple(Compare(op=op, left=a, right=b, origin=origin) for a, b in zip(*sides, strict=True))
    # Unequal nodes differ in their type or in their id.
    return And(terms=terms, origin=origin) if op is Op.EQ else Or(terms=terms, origin=origin)


def _list_identity_values(entity: Expr) -> tuple[Expr, Expr]:
    """Return the type and the id of a node as values."""
    if not isinstance(entity, Entity):
        type_value, id_value = list_identity_fields(entity)
        return type_value, id_value
    if is_union(entity.type.name):
        return (
            build_meta_value(entity.variable, TYPE_COLUMN, entity.origin),
            build_meta_value(entity.variable, ID_COLUMN, entity.origin),
        )
    type_name = Const(value=entity.type.name, type=Scalar.STRING, origin=entity.origin)
    return type_name, Identity(variable=entity.variable, nullable=entity.nullable, origin=entity.origin)


# --- in, contains, starts_with -------------------------------------------------------------------


def bind_membership(
    element: Operand, collection: Operand, origin: Span, reporter: MismatchReporter
) -> Predicate | None:
    """Bind `element in collection`, where the collection is a list literal, parameter or property."""
    if isinstance(collection.value, lit.ListLiteral):
        return _bind_in_items(element, collection, collection.value, origin, reporter)
    if not isinstance(collection.value, LITERALS) and isinstance(collection.value.type, ArrayOf):
        return _bind_entity_membership(element, collection, collection.value, origin, reporter)
    if isinstance(collection.value, LITERALS) or not isinstance(collection.value.type, ListOf):
        reporter.report_mismatch(f"{collection} is not a list", 'write a list, `["a", "b"]`, or compare with `=`')
        return None
    inner = collection.value.type.element
    value = _bind_element(element, inner, reporter)
    if isinstance(value, _Mismatch):
        reporter.report_mismatch(f"{element} can't be an element of {collection}", _build_help(element, inner))
        return None
    return None if value is None else In(element=value, collection=collection.value, origin=origin)


def _bind_entity_membership(
    element: Operand, collection: Operand, nodes: Expr, origin: Span, reporter: MismatchReporter
) -> Predicate | None:
    """Bind `$p in list` for a list of nodes or edges, which are compared by their identity."""
    inner = nodes.type.element if isinstance(nodes.type, ArrayOf) else None
    value = element.value
    if isinstance(value, LITERALS) or not isinstance(inner, NodeRef | EdgeRef) or value.type != inner:
        reporter.report_mismatch(f"{element} can't be an element of {collection}")
        return None
    return In(element=value, collection=nodes, origin=origin)


class _Mismatch:
    """The type of `_MISMATCH`: an element that can't be compared with those of the list, which is not reported yet."""


_MISMATCH = _Mismatch()


def _bind_element(side: Operand, inner: Scalar, reporter: MismatchReporter) -> Expr | _Mismatch | None:
    if not isinstance(side.value, LITERALS):
        return side.value if _is_comparable(side.value.type, inner) else _MISMATCH
    constant = coerce_literal(inner, side.value)
    if isinstance(constant, InvalidValue):
        reporter.report_misfit(inner, side.value, constant)
        return None
    return _MISMATCH if constant is None else constant


def _bind_in_items(
    element: Operand, collection: Operand, items: lit.ListLiteral, origin: Span, reporter: MismatchReporter
) -> Predicate | None:
    type_ = element.type
    if isinstance(element.value, lit.NullLiteral):
        # A null has no type of its own: it gets that of the items.
        items_type = infer_literal_type(items)
        type_ = items_type.element if isinstance(items_type, ListOf) else Scalar.STRING
    if type_ is None or isinstance(type_, ShapedType) or not are_comparable(type_, type_):
        return _refuse(element, collection, reporter)
    values: list[Const] = []
    fits = True
    for item in items.items:
        constant = None if isinstance(item, lit.NullLiteral) else _bind_item(type_, item)
        if constant is None:
            reporter.report_mismatch(
                f"{element} does not compare with the items of {collection}", _build_item_help(item, type_)
            )
            return None
        if isinstance(constant, InvalidValue):
            # The other items are still checked: each wrong item is an error of its own.
            reporter.report_misfit(type_, item, constant)
            fits = False
        elif constant.value is not None:
            values.append(constant)
    value: Expr | None
    if isinstance(element.value, lit.NullLiteral):
        value = Const(value=None, type=type_, origin=element.value.span)
    elif isinstance(element.value, LITERALS):
        value = _bind_constant(element.value, element.value, reporter)
    else:
        value = element.value
    if value is None or not fits:
        return None
    # The values of an enum are strings.
    inner = type_ if isinstance(type_, Scalar) else Scalar.STRING
    constants = Const(value=tuple(v.value for v in values), type=ListOf(inner), origin=items.span)
    return In(element=value, collection=constants, origin=origin)


def _bind_item(type_: ValueType, item: lit.Literal) -> Const | InvalidValue | None:
    """Return an item in the element's type; a number without an equal value is a null, which the caller drops."""
    if isinstance(item, lit.IntLiteral | lit.FloatLiteral) and isinstance(type_, Scalar) and is_numeric(type_):
        return Const(value=find_exact(item.value, type_), type=type_, origin=item.span)
    return coerce_literal(type_, item)


def _build_item_help(item: lit.Literal, type_: ValueType) -> str | None:
    if isinstance(item, lit.NullLiteral):
        return "a list can't contain null: test with `is null`"
    return _build_literal_help(item, type_)


def _bind_contains(left: Operand, right: Operand, origin: Span, reporter: MismatchReporter) -> Predicate | None:
    # `contains` means an element of a list or a substring of a text: the left side decides.
    if isinstance(left.type, ListOf | ArrayOf) or isinstance(left.value, lit.ListLiteral):
        return bind_membership(right, left, origin, reporter)
    pair = _bind_texts(left, right, "contains", reporter)
    return None if pair is None else Contains(text=pair[0], part=pair[1], origin=origin)


def _bind_starts_with(left: Operand, right: Operand, origin: Span, reporter: MismatchReporter) -> Predicate | None:
    pair = _bind_texts(left, right, "starts_with", reporter)
    return None if pair is None else StartsWith(text=pair[0], prefix=pair[1], origin=origin)


def _bind_texts(left: Operand, right: Operand, word: str, reporter: MismatchReporter) -> tuple[Expr, Expr] | None:
    for side in (left, right):
        # A literal null compares with everything; the result is unknown, and L205 warns about it.
        is_null = isinstance(side.value, lit.NullLiteral)
        if not is_null and (side.type is None or isinstance(side.type, ShapedType) or not is_text(side.type)):
            needs = "a String or a list on its left" if word == "contains" and side is left else "a String on each side"
            reporter.report_mismatch(f"`{word}` needs {needs}, not {left} and {right}")
            return None
    first, second = (
        _bind_constant(side.value, side.value, reporter) if isinstance(side.value, LITERALS) else side.value
        for side in (left, right)
    )
    return None if first is None or second is None else (first, second)


# --- messages ------------------------------------------------------------------------------------


def _refuse(left: Operand, right: Operand, reporter: MismatchReporter) -> Predicate | None:
    reporter.report_mismatch(
        f"{left} can't be compared with {right}", _build_help(left, right.type) or _build_help(right, left.type)
    )
    return None


def _build_help(side: Operand, other: ExprType | None) -> str | None:
    if isinstance(side.value, LITERALS):
        return _build_literal_help(side.value, other)
    match side.type:
        case NodeRef() | EdgeRef():
            return f"compare its id: `{side.text}.@id`"
        case RecordOf():
            return f"compare a field: `{side.text}.field`"
        case ListOf() | ArrayOf():
            return "test for one element: `list contains value` or `value in list`"
        case VectorOf():
            return "vectors are compared by distance: order by `nearest(vector, query)`"
        case Scalar.BLOB:
            return "a Blob has no order and no equality: test it with `is null`"
        case Scalar.I64 if other is Scalar.DATE and (day := _SUBTRACTED_DAY.fullmatch(side.text.strip("`"))):
            year, month, number = day.groups()
            return f'a day is written `date("{year}-{month:0>2}-{number:0>2}")`'
        case Scalar.DATETIME if other is Scalar.DATE:
            return f"a Date is a day and a DateTime an instant: compare the day, `date({side.text})`"
        case _:
            return None


def _build_moment_help(text: str) -> str:
    """Build the help for a String where a DateTime is needed, with a literal that is accepted."""
    if _DAY.fullmatch(text):
        text += "T00:00:00Z"
    return f'write `datetime("{text}")`' if _MOMENT.fullmatch(text) else _LITERAL_FORMS[lit.DateTimeLiteral]


def _build_literal_help(literal: lit.Literal, other: ExprType | None) -> str | None:
    match literal, other:
        case lit.StringLiteral(), Scalar.DATE:
            # Only a literal that is accepted is a way out.
            day = coerce_literal(Scalar.DATE, lit.DateLiteral(literal.value, literal.span))
            return f'write `date("{literal.value}")`' if isinstance(day, Const) else _LITERAL_FORMS[lit.DateLiteral]
        case lit.StringLiteral(), Scalar.DATETIME:
            return _build_moment_help(literal.value)
        case lit.StringLiteral(), Scalar() if other.is_numeric and _NUMBER.fullmatch(literal.value):
            return f"write `{literal.value}`, without quotes"
        case ((lit.IntLiteral() | lit.FloatLiteral() | lit.StringLiteral()), Scalar.BOOL):
            return "write `true` or `false`"
        case ((lit.IntLiteral() | lit.FloatLiteral()), (Scalar.STRING | EnumOf())):
            return f'write `"{literal.value}"`, with quotes'
        case lit.DateLiteral(), Scalar.DATETIME:
            return f"a Date is a day and a DateTime an instant: {_build_moment_help(literal.text)}"
        case lit.DateTimeLiteral(), Scalar.DATE:
            date = literal.text[:10]
            form = f'write `date("{date}")`' if _DAY.fullmatch(date) else _LITERAL_FORMS[lit.DateLiteral]
            return f"a Date is a day and a DateTime an instant: {form}"
        case _:
            return None
