"""Describe what DuckDB has done for a plan: its operators, their rows and time."""

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

import duckdb

_Operator: TypeAlias = dict[str, Any]
# They only hand rows on.
_SILENT = frozenset({"RESULT_COLLECTOR", "EXPLAIN_ANALYZE", "PROJECTION"})
_MAX_CHARACTERS = 80


def list_operators(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return a line for each operator of the last query, those that it reads below it, with its rows and its time."""
    profile = json.loads(connection.get_profiling_information("json"))
    return [line for root in profile.get("operator", ()) for line in _describe(root, 0)]


def _describe(operator: _Operator, depth: int) -> Iterator[str]:
    kind = str(operator.get("type", "")).strip()
    is_shown = bool(kind) and kind not in _SILENT
    if is_shown:
        rows = int(operator.get("intermediate_rows", 0))
        seconds = float(operator.get("timing", 0.0))
        detail = _find_detail(operator.get("extra_info", {}))
        name = kind.lower().replace("_", " ")
        yield f"{'  ' * depth}{name}{detail}: {rows:,} {'row' if rows == 1 else 'rows'} in {seconds * 1e3:.3f} ms"
    for child in operator.get("children", ()):
        yield from _describe(child, depth + is_shown)


def _find_detail(extra: dict[str, Any]) -> str:
    """Return what tells an operator from others of its kind: the conditions of a join, the keys of groups."""
    for name in ("Conditions", "Groups", "Order By", "CTE Name"):
        value = extra.get(name)
        if value:
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            return f" ({text[:_MAX_CHARACTERS]})"
    return ""
