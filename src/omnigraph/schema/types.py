"""The types of properties and parameters, and which values compare."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

# A list literal has at most this number of items too, so every vector can be written as one.
MAX_VECTOR_SIZE = 65_536


class Scalar(Enum):
    """The base types, by their name in the schema and query languages."""

    STRING = "String"
    BLOB = "Blob"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATE = "Date"
    DATETIME = "DateTime"

    def __str__(self) -> str:
        return self.value

    @property
    def is_integer(self) -> bool:
        """Whether it is I32, I64, U32 or U64."""
        return self in INTEGER_RANGES

    @property
    def is_float(self) -> bool:
        """Whether it is F32 or F64."""
        return self in (Scalar.F32, Scalar.F64)

    @property
    def is_numeric(self) -> bool:
        """Whether it is an integer or a float."""
        return self.is_integer or self.is_float


INTEGER_RANGES: dict[Scalar, tuple[int, int]] = {
    Scalar.I32: (-(2**31), 2**31 - 1),
    Scalar.I64: (-(2**63), 2**63 - 1),
    Scalar.U32: (0, 2**32 - 1),
    Scalar.U64: (0, 2**64 - 1),
}


@dataclass(frozen=True, slots=True)
class EnumOf:
    """A String from a fixed set of values, in declared order."""

    values: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) != len(self.values):
            msg = "an enum needs at least one value, each once"
            raise ValueError(msg)

    def __str__(self) -> str:
        return f"enum({', '.join(self.values)})"


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of a base type other than Blob."""

    element: Scalar

    def __post_init__(self) -> None:
        if self.element is Scalar.BLOB:
            msg = "a list of Blob is not a type"
            raise ValueError(msg)

    def __str__(self) -> str:
        return f"[{self.element}]"


@dataclass(frozen=True, slots=True)
class VectorOf:
    """A vector of `size` 32-bit floats."""

    size: int

    def __post_init__(self) -> None:
        if not 1 <= self.size <= MAX_VECTOR_SIZE:
            msg = f"a Vector has 1 to {MAX_VECTOR_SIZE} elements, not {self.size}"
            raise ValueError(msg)

    def __str__(self) -> str:
        return f"Vector({self.size})"


# Without nullability, which belongs to the property, parameter or expression that has the type.
ValueType: TypeAlias = Scalar | EnumOf | ListOf | VectorOf


def is_text(type_: ValueType) -> bool:
    """Return whether a type is String or an enum; all of these compare with each other."""
    return type_ is Scalar.STRING or isinstance(type_, EnumOf)


def is_numeric(type_: ValueType) -> bool:
    """Return whether a type is an integer or a float; all of these compare with each other."""
    return isinstance(type_, Scalar) and type_.is_numeric


def is_scalar(type_: ValueType) -> bool:
    """Return whether values of a type are single and comparable: any base type but Blob, or an enum."""
    return isinstance(type_, EnumOf) or (isinstance(type_, Scalar) and type_ is not Scalar.BLOB)


def are_comparable(left: ValueType, right: ValueType) -> bool:
    """Return whether values of two types compare: numbers with numbers, text with text, else equal types."""
    if is_numeric(left) and is_numeric(right):
        return True
    if is_text(left) and is_text(right):
        return True
    return is_scalar(left) and left == right
