"""Changed rows as lines for people: of a diff, or of a mutation that is only tried."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from omnigraph.cli.render import format_table

# Characters of a value; the forms for programs have values in full.
MAX_VALUE_WIDTH = 40
_SIGNS = {"inserted": "+", "updated": "~", "deleted": "-"}


def format_changes(
    changes: Iterable[Mapping[str, Any]], max_width: int | None = None, *, is_whole: bool = False
) -> str:
    """Format changed rows as a table: a sign for the change, the type, the id, and the values that matter.

    Lines fit into `max_width` terminal columns; with `is_whole` no value is shortened.
    """
    shorten = str if is_whole else shorten_text
    rows = [
        (
            _SIGNS[change["change"]],
            str(change.get("type", change.get("edge"))),
            str(change["id"]),
            ", ".join(_format_values(change, shorten)),
        )
        for change in changes
    ]
    return format_table(("", "type", "id", "values"), rows, max_width=max_width)


def _format_values(change: Mapping[str, Any], shorten: Callable[[str], str]) -> list[str]:
    before, after = change["before"] or {}, change["after"] or {}
    if change["change"] == "updated":
        return [_format_update(name, before, after, shorten) for name in change["changed"]]
    return [
        f"{name}: {shorten(_format_value(value))}" for name, value in (after or before).items() if value is not None
    ]


def _format_update(
    name: str, before: Mapping[str, Any], after: Mapping[str, Any], shorten: Callable[[str], str]
) -> str:
    # A blob is in neither record. Where the schemas differ, a property may be in one of them only.
    if name not in before and name not in after:
        return f"{name}: changed"
    old = shorten(_format_value(before[name])) if name in before else "none"
    new = shorten(_format_value(after[name])) if name in after else "none"
    return f"{name}: {old} → {new}"


def _format_value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def shorten_text(text: str) -> str:
    """Return the beginning of a text that is too long for a value among others."""
    return text if len(text) <= MAX_VALUE_WIDTH else text[: MAX_VALUE_WIDTH - 1] + "…"
