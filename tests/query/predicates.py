"""Random predicates and rows for the tests of the rules, and short ways to write expressions."""

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

from hypothesis import strategies as st

from omnigraph.lang.source import Span
from omnigraph.query.expr import (
    And,
    Compare,
    Const,
    Contains,
    Expr,
    In,
    IsNull,
    Not,
    Op,
    Or,
    ParamRef,
    Prop,
    StartsWith,
    TextMatch,
    TextMode,
)
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, are_comparable

T = TypeVar("T")

NOWHERE = Span(0, 0)
COLOR = EnumOf(("red", "green"))
PROPS: dict[str, tuple[ValueType, bool]] = {
    "age": (Scalar.I32, True),
    "rank": (Scalar.I32, False),
    "score": (Scalar.F32, True),
    "name": (Scalar.STRING, True),
    "code": (Scalar.STRING, False),
    "color": (COLOR, True),
    "ok": (Scalar.BOOL, True),
    "tags": (ListOf(Scalar.STRING), True),
}
"""The properties of every variable: type, and whether it is nullable."""


def prop(name: str, variable: str = "p") -> Prop:
    type_, nullable = PROPS[name]
    return Prop(variable=variable, name=name, type=type_, nullable=nullable, origin=NOWHERE)


def const(value: Any, type_: ValueType | None = None) -> Const:
    return Const(value=value, type=type_ or _TYPES[type(value)], origin=NOWHERE)


_TYPES: dict[type, ValueType] = {int: Scalar.I32, float: Scalar.F64, str: Scalar.STRING, bool: Scalar.BOOL}
TRUE, FALSE, UNKNOWN = (Const(value=v, type=Scalar.BOOL, origin=NOWHERE) for v in (True, False, None))


def compare(left: Expr, op: str, right: Expr) -> Compare:
    return Compare(op=Op(op), left=left, right=right, origin=NOWHERE)


def member(element: Expr, *values: Any, of: Scalar | None = None) -> In:
    element_type = of or (Scalar.STRING if isinstance(element.type, EnumOf) else element.type)
    assert isinstance(element_type, Scalar)
    return In(element=element, collection=const(values, ListOf(element_type)), origin=NOWHERE)


def null(operand: Expr) -> IsNull:
    return IsNull(operand=operand, origin=NOWHERE)


def not_null(operand: Expr) -> IsNull:
    return IsNull(operand=operand, negated=True, origin=NOWHERE)


def no(term: Expr) -> Not:
    return Not(term=term, origin=NOWHERE)


def both(*terms: Expr) -> And:
    return And(terms=terms, origin=NOWHERE)


def either(*terms: Expr) -> Or:
    return Or(terms=terms, origin=NOWHERE)


# --- random ones -----------------------------------------------------------------------------------

_VALUES: dict[ValueType, tuple[Any, ...]] = {
    Scalar.I32: (-(2**31), -1, 0, 1, 2, 3, 2**31 - 1),
    Scalar.I64: (-(2**40), 0, 1, 2, 3, 2**31, 2**53 + 1),
    Scalar.F32: (-1.5, -0.0, 0.0, 0.10000000149011612, 1.0, 2.5),
    Scalar.F64: (-1e300, -0.5, 0.0, 0.1, 1.0, 2.5, 2.7, 1e300),
    Scalar.STRING: ("", "a", "ab", "red", "green", "zoo"),
    COLOR: COLOR.values,
    Scalar.BOOL: (False, True),
    ListOf(Scalar.STRING): ((), ("a",), ("ab", "red"), ("a", "red", "a")),
}
PARAMS: dict[str, tuple[ValueType, bool]] = {
    "n": (Scalar.I32, False),
    "m": (Scalar.I32, True),
    "s": (Scalar.STRING, True),
}


def _pool(variables: tuple[str, ...], names: tuple[str, ...]) -> list[tuple[Expr, ValueType]]:
    """Every single value that a random predicate can be made of, with its type."""
    pool: list[tuple[Expr, ValueType]] = []
    for name in names * 3:
        pool += [(prop(name, variable), PROPS[name][0]) for variable in variables]
    for type_, values in _VALUES.items():
        if any(are_comparable(type_, PROPS[name][0]) or type_ == PROPS[name][0] for name in names):
            pool += [(const(value, type_), type_) for value in (None, *values)]
    for name, (type_, nullable) in PARAMS.items():
        pool.append((ParamRef(name=name, type=type_, nullable=nullable, origin=NOWHERE), type_))
    return pool


def _leaves(variables: tuple[str, ...], names: tuple[str, ...]) -> st.SearchStrategy[Expr]:
    pool = _pool(variables, names)
    pairs = [(a, b) for a, left in pool for b, right in pool if are_comparable(left, right)]
    texts = [value for value, type_ in pool if type_ is Scalar.STRING]
    elements = [(e, t) for e, type_ in pool for t in _VALUES if isinstance(t, Scalar) and are_comparable(type_, t)]
    text, nowhere = _drawn(texts), st.just(NOWHERE)
    searches = [
        TextMatch(mode=TextMode.ANY, prop=prop("name", variables[0]), query=const(query, Scalar.STRING), origin=NOWHERE)
        for query in (None, "a", "red")
    ]
    compares = st.builds(lambda op, pair: compare(pair[0], op.value, pair[1]), st.sampled_from(Op), _drawn(pairs))
    return st.one_of(
        compares,
        compares,
        _drawn(elements).flatmap(_memberships),
        st.builds(Contains, text=text, part=text, origin=nowhere),
        st.builds(StartsWith, text=text, prefix=text, origin=nowhere),
        st.builds(IsNull, operand=_drawn([value for value, _ in pool]), negated=st.booleans(), origin=nowhere),
        _drawn([*searches, TRUE, FALSE, UNKNOWN]),
    )


def _drawn(items: Sequence[T]) -> st.SearchStrategy[T]:
    """One of them; unlike `sampled_from`, its repr does not spell out all of them."""
    return st.integers(0, len(items) - 1).map(lambda place: items[place])


def _memberships(element_and_type: tuple[Expr, Scalar]) -> st.SearchStrategy[Expr]:
    element, type_ = element_and_type
    values = st.none() | st.lists(st.sampled_from(_VALUES[type_]), max_size=3).map(tuple)
    return values.map(lambda items: In(element=element, collection=const(items, ListOf(type_)), origin=NOWHERE))


def predicates(variables: tuple[str, ...] = ("p", "q"), names: tuple[str, ...] = ()) -> st.SearchStrategy[Expr]:
    """Any predicate over (these) properties of the variables, with nulls, odd numbers and constants in every place."""
    return st.recursive(
        _leaves(variables, names or tuple(PROPS)),
        lambda inner: (
            st.builds(no, inner)
            | st.lists(inner, min_size=2, max_size=3).map(lambda terms: both(*terms))
            | st.lists(inner, min_size=2, max_size=3).map(lambda terms: either(*terms))
        ),
        max_leaves=6,
    )


def random_rows(seed: int, count: int, variables: tuple[str, ...] = ("p", "q")) -> list[dict[tuple[str, str], Any]]:
    """Rows with a value, or null where allowed, for every property of every variable."""
    random = Random(seed)
    return [
        {(variable, name): _value(random, *PROPS[name]) for variable in variables for name in PROPS}
        for _ in range(count)
    ]


def random_params(seed: int) -> dict[str, Any]:
    """A value, or null where allowed, for every parameter."""
    random = Random(seed)
    return {name: _value(random, *declared) for name, declared in PARAMS.items()}


def _value(random: Random, type_: ValueType, nullable: bool) -> Any:
    return random.choice((None, *_VALUES[type_]) if nullable else _VALUES[type_])
