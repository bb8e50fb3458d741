"""Typed expressions of values that searches give beside ranks: the distance of two vectors, and values of texts."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.lang.source import Span
from omnigraph.schema.types import Scalar, VectorOf

if TYPE_CHECKING:
    from omnigraph.query.expr import Expr, Input, Prop, TextMatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """`nearest(a, b)` of two vectors of each row: their cosine distance, null if one of them is.

    Unlike the distance to one vector that is known before a row is read, it ranks nothing: it is a value.
    """

    left: "Expr"
    right: "Expr"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.left.type, VectorOf) or self.left.type != self.right.type:
            msg = f"no distance between {self.left.type} and {self.right.type}"
            raise ValueError(msg)

    @property
    def type(self) -> Scalar:
        """The type F64, of a distance."""
        return Scalar.F64

    @property
    def nullable(self) -> bool:
        """Whether it can be null: a vector can be."""
        return self.left.nullable or self.right.nullable


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """`snippet(text, query)`: the passage of a text that has most of the words of `query`, which are marked."""

    prop: "Prop"
    query: "Input"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.prop.type is not Scalar.STRING or self.query.type is not Scalar.STRING:
            msg = "a snippet needs a String property and looks for a String"
            raise ValueError(msg)

    @property
    def type(self) -> Scalar:
        """The type String."""
        return Scalar.STRING

    @property
    def nullable(self) -> bool:
        """Whether it can be null: always, for a text without any of the words."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzyScore:
    """`fuzzy_score(text, query)`: how many edits a text is from the words of `query`; null if none is near."""

    match: "TextMatch"
    origin: Span = field(compare=False, repr=False)

    @property
    def prop(self) -> "Prop":
        """The text."""
        return self.match.prop

    @property
    def type(self) -> Scalar:
        """The type F64, as of all scores."""
        return Scalar.F64

    @property
    def nullable(self) -> bool:
        """Whether it can be null: always, for a text without a near word."""
        return True
