"""Rules that a record keeps or breaks on its own, while a load reads it."""

from typing import Protocol

import numpy as np
import pyarrow as pa

from omnigraph.engine.bulk.rejected_records import encode_rows
from omnigraph.engine.decoding.record_error import RecordError
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.engine.writing.value_rules import BrokenValue, find_broken_values
from omnigraph.engine.writing.violations import format_row_value


class RejectByRule(Protocol):
    """Takes a record that breaks a rule: why, its text, and the rule's name."""

    def __call__(self, error: RecordError, text: bytes, rule: str = ...) -> None:
        """One more record."""
        ...


def reject_broken_rows(window: TypedRows, name: str, unit: str, reject: RejectByRule) -> TypedRows:
    """The rows of a window that keep the rules over single values; the others are rejected.

    `name` is that of the input, and `unit` what its lines are called.
    """
    broken = find_broken_values(window.type, window.rows)
    if not broken:
        return window
    first: dict[int, BrokenValue] = {}
    for one in broken:
        first.setdefault(one.row, one)
    rows = sorted(first)
    chosen = pa.array(rows)
    left_out = {name: mask.take(chosen) for name, mask in window.left_out.items()}
    texts = encode_rows(window.type, window.rows.take(chosen), left_out)
    for row, text in zip(rows, texts, strict=True):
        one = first[row]
        error = RecordError(
            name,
            window.lines[row].as_py(),
            window.type.name,
            one.property,
            format_row_value(one.value),
            one.message,
            unit,
        )
        reject(error, text, one.rule)
    is_kept = np.ones(window.rows.num_rows, np.bool_)
    is_kept[rows] = False
    kept = pa.array(is_kept)
    return TypedRows(
        type=window.type,
        rows=window.rows.filter(kept),
        lines=window.lines.filter(kept),
        left_out={name: mask.filter(kept) for name, mask in window.left_out.items()},
    )
