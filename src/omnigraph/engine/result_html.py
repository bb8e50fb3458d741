"""How a notebook shows a result: its first rows, as a table."""

from collections.abc import Iterator, Mapping
from html import escape
from itertools import islice
from typing import Protocol

MAX_ROWS = 20
MAX_CHARACTERS = 200


class HtmlSource(Protocol):
    """What is needed of a result."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""

    @property
    def row_count(self) -> int:
        """How many rows there are."""

    def json_rows(self, size: int = ...) -> Iterator[Mapping[str, object]]:
        """Each row as an object of JSON values, fetched `size` at a time."""


def render_html(result: HtmlSource) -> str:
    """The first rows as HTML, and how many there are; only these are fetched, and long values are cut."""
    head = "".join(f"<th>{escape(name)}</th>" for name in result.columns)
    first = list(islice(result.json_rows(MAX_ROWS), MAX_ROWS))
    body = "".join(f"<tr>{''.join(_render_cell(row[name]) for name in result.columns)}</tr>" for row in first)
    count = f"{result.row_count:,} {'row' if result.row_count == 1 else 'rows'}"
    told = count if len(first) == result.row_count else f"the first {len(first)} of {count}"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{told}</p>"


def _render_cell(value: object) -> str:
    text = "null" if value is None else str(value)
    clipped = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"
    return f"<td>{escape(clipped)}</td>"
