"""The syntax of SQL dialects: how DuckDB and Spark write types, literals and functions that mean what ours mean.

A dialect lists only what is the same in every value, the edges included. What it does not list is evaluated by our own
evaluator, as a function that the engine calls (`delegates`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TypeAlias

import numpy as np

from omnigraph.query.scalar_functions import ScalarFunction
from omnigraph.schema.catalog import Value
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf

# Writes a call from the texts of its arguments.
Template: TypeAlias = Callable[..., str]
_F = ScalarFunction
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlSyntax:
    """The spellings of one engine."""

    name: str
    types: Mapping[Scalar, str]
    print_list_type: Callable[[str], str]
    print_vector_type: Callable[[int], str]
    quote_text: Callable[[str], str]
    quote_name: Callable[[str], str]
    instant: str
    """The function that builds an instant from microseconds since 1970."""
    build_list: Template
    contains: str
    starts_with: str
    ends_with: str
    list_contains: str
    functions: Mapping[ScalarFunction, Template]
    """Functions of texts, dates and lists. An argument is null, so the result is."""
    integer_functions: Mapping[ScalarFunction, Template]
    """Calculations of I64, null where they overflow or divide by zero. The arguments are I64."""

    def print_type(self, type_: ValueType) -> str:
        """Return the name of the type that represents every value of a type."""
        match type_:
            case Scalar():
                return self.types[type_]
            case EnumOf():
                return self.types[Scalar.STRING]
            case ListOf(element=element):
                return self.print_list_type(self.types[element])
            case VectorOf(size=size):
                return self.print_vector_type(size)

    def print_literal(self, value: Value, type_: ValueType) -> str:
        """Return a value as text, of exactly its type."""
        name = self.print_type(type_)
        if value is None:
            return f"CAST(NULL AS {name})"
        match type_:
            case Scalar.BOOL:
                return "TRUE" if value else "FALSE"
            case Scalar.STRING | EnumOf():
                return self.quote_text(str(value))
            case Scalar.DATE if isinstance(value, date):
                return f"DATE '{value.isoformat()}'"
            case Scalar.DATETIME if isinstance(value, datetime):
                difference = value - _EPOCH
                micros = (difference.days * 86_400 + difference.seconds) * 1_000_000 + difference.microseconds
                return f"{self.instant}(CAST('{micros}' AS {self.types[Scalar.I64]}))"
            case Scalar.F32 if isinstance(value, int | float):
                return f"CAST('{float(np.float32(value))!r}' AS {name})"
            case Scalar.F64 if isinstance(value, int | float):
                return f"CAST('{float(value)!r}' AS {name})"
            case ListOf(element=element) if isinstance(value, list | tuple):
                items = [self.print_literal(item, element) for item in value]
                return f"CAST({self.build_list(*items)} AS {name})"
            case Scalar() if type_.is_integer and isinstance(value, int):
                # As text: a number of its own could be a decimal, or one without a sign.
                return f"CAST('{value}' AS {name})"
            case _:
                msg = f"no literal of {type_}"
                raise TypeError(msg)


def _build_call(name: str) -> Template:
    return lambda *arguments: f"{name}({', '.join(arguments)})"


def _print_concatenation(*arguments: str) -> str:
    return f"({' || '.join(arguments)})"


def _nullify_zero(divisor: str) -> str:
    return f"NULLIF({divisor}, 0)"


# --- DuckDB --------------------------------------------------------------------------------------------


def _quote_duckdb(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _widen(template: str) -> Template:
    # In 128 bits no sum, product or negation of 64-bit integers overflows; back in 64 bits, a larger one is null.
    def write(*arguments: str) -> str:
        return f"TRY_CAST({template.format(*(f'CAST({argument} AS HUGEINT)' for argument in arguments))} AS BIGINT)"

    return write


DUCKDB = SqlSyntax(
    name="DuckDB",
    types={
        Scalar.STRING: "VARCHAR",
        Scalar.BLOB: "BLOB",
        Scalar.BOOL: "BOOLEAN",
        Scalar.I32: "INTEGER",
        Scalar.I64: "BIGINT",
        Scalar.U32: "UINTEGER",
        Scalar.U64: "UBIGINT",
        Scalar.F32: "FLOAT",
        Scalar.F64: "DOUBLE",
        Scalar.DATE: "DATE",
        Scalar.DATETIME: "TIMESTAMP WITH TIME ZONE",
    },
    print_list_type=lambda element: f"{element}[]",
    print_vector_type=lambda size: f"FLOAT[{size}]",
    quote_text=_quote_duckdb,
    quote_name=lambda name: '"' + name.replace('"', '""') + '"',
    instant="make_timestamptz",
    build_list=lambda *items: f"[{', '.join(items)}]",
    contains="contains",
    starts_with="starts_with",
    ends_with="ends_with",
    list_contains="list_contains",
    functions={
        _F.CONCATENATE: _print_concatenation,
        _F.LENGTH: _build_call("length"),
        _F.YEAR: _build_call("year"),
        _F.MONTH: _build_call("month"),
        _F.DAY: _build_call("day"),
        _F.SIZE: _build_call("len"),
        _F.STARTS_WITH: _build_call("starts_with"),
        _F.ENDS_WITH: _build_call("ends_with"),
    },
    integer_functions={
        _F.ADD: _widen("({} + {})"),
        _F.SUBTRACT: _widen("({} - {})"),
        _F.MULTIPLY: _widen("({} * {})"),
        _F.NEGATE: _widen("(-{})"),
        _F.ABS: _widen("abs({})"),
        _F.MODULO: lambda left, right: _widen("({} % {})")(left, _nullify_zero(right)),
        _F.DIV: lambda left, right: _widen("({} // {})")(left, _nullify_zero(right)),
    },
)


# --- Spark ---------------------------------------------------------------------------------------------


def _quote_spark(text: str) -> str:
    # A dollar sign could start a variable, which Spark replaces anywhere in a text, `${env:HOME}` for example.
    # A code of its own also for what is invisible, such as NUL.
    parts = [
        char if char.isprintable() and char not in "'\\$" and char < "\ud800" else _escape_char(char) for char in text
    ]
    return "'" + "".join(parts) + "'"


def _escape_char(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _print_long(template: str) -> Template:
    return lambda *arguments: f"CAST({template.format(*arguments)} AS BIGINT)"


SPARK = SqlSyntax(
    name="Spark",
    types={
        Scalar.STRING: "STRING",
        Scalar.BLOB: "BINARY",
        Scalar.BOOL: "BOOLEAN",
        Scalar.I32: "INT",
        Scalar.I64: "BIGINT",
        Scalar.U32: "BIGINT",
        Scalar.U64: "DECIMAL(20,0)",
        Scalar.F32: "FLOAT",
        Scalar.F64: "DOUBLE",
        Scalar.DATE: "DATE",
        Scalar.DATETIME: "TIMESTAMP",
    },
    print_list_type=lambda element: f"ARRAY<{element}>",
    print_vector_type=lambda _size: "ARRAY<FLOAT>",
    quote_text=_quote_spark,
    quote_name=lambda name: "`" + name.replace("`", "``") + "`",
    instant="timestamp_micros",
    build_list=_build_call("array"),
    contains="contains",
    starts_with="startswith",
    ends_with="endswith",
    list_contains="array_contains",
    functions={
        _F.CONCATENATE: _print_concatenation,
        _F.LENGTH: _print_long("char_length({})"),
        _F.YEAR: _print_long("year({})"),
        _F.MONTH: _print_long("month({})"),
        _F.DAY: _print_long("day({})"),
        _F.SIZE: lambda items: f"CASE WHEN {items} IS NOT NULL THEN CAST(cardinality({items}) AS BIGINT) END",
        _F.STARTS_WITH: _build_call("startswith"),
        _F.ENDS_WITH: _build_call("endswith"),
    },
    integer_functions={
        _F.ADD: _build_call("try_add"),
        _F.SUBTRACT: _build_call("try_subtract"),
        _F.MULTIPLY: _build_call("try_multiply"),
        _F.NEGATE: lambda value: f"try_subtract(CAST('0' AS BIGINT), {value})",
        _F.MODULO: _build_call("try_mod"),
    },
)
