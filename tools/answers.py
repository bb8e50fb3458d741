"""Runs the queries of the reference pages that show an answer, and writes what they answer now.

A page that has a ```` ```jsonl ```` block holds the data of a small graph; its schema is the page's first block
```` ```pg ````. A block that starts with ```` ```result ```` is what the query in the ```` ```gq ```` block before it
answers on that graph, as `omnigraph query` prints it, without the number of rows. Behind the word stand the query's
name, if there are several, and its parameters as JSON. Rows whose order is unspecified are sorted.
"""

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from omnigraph.cli.result_formats import format_result_table
from omnigraph.errors import OmnigraphError
from omnigraph.graph import Graph
from omnigraph.lang.source import Source
from omnigraph.options import Durability, Options
from omnigraph.runtime import Runtime

ROOT = Path(__file__).parents[1]
DATA = re.compile(r"^```jsonl\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
ANSWER = re.compile(
    r"^```gq(?: warning \w+)?\n(?P<query>[^`]*?)^```\n\n"
    r"```result(?: (?P<name>\w+))?(?: (?P<params>\{[^\n]*\}))?\n(?P<answer>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_SCHEMA = re.compile(r"^```pg\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_HAS_ORDER = re.compile(r"\b(?:order|limit|offset)\b")


@dataclass(frozen=True)
class Answer:
    """A query that a page asks, and what the page says that it answers."""

    line: int
    query: str
    name: str | None
    params: dict[str, object]
    shown: str

    def __str__(self) -> str:
        return str(self.line)


def pages() -> list[Path]:
    """The reference pages that have data."""
    found = sorted((ROOT / "docs" / "reference").glob("*.md"))
    return [page for page in found if DATA.search(page.read_text(encoding="utf-8"))]


def answers(text: str) -> list[Answer]:
    """What a page's text shows, in order."""
    return [_answer(text, found) for found in ANSWER.finditer(text)]


def _answer(text: str, found: re.Match[str]) -> Answer:
    params = json.loads(found["params"] or "{}")
    line = text.count("\n", 0, found.start()) + 1
    return Answer(line, found["query"], found["name"], params, found["answer"])


@contextmanager
def graph_of(text: str) -> Iterator[Graph]:
    """The graph that a page describes, for a while."""
    schema, data = _SCHEMA.search(text), DATA.search(text)
    if schema is None or data is None:
        raise ValueError("a page with answers has a `pg` block and a `jsonl` block")
    with tempfile.TemporaryDirectory(prefix="omnigraph-answers-") as directory:
        file = Path(directory) / "page.jsonl"
        file.write_text(data["text"], encoding="utf-8")
        runtime = Runtime(options=Options(durability=Durability.OS))
        graph = Graph.create(f"{directory}/page.omni", Source(schema["text"], "page.pg"), actor="docs", runtime=runtime)
        graph.load(str(file), mode="append", actor="docs")
        yield graph


def answered(graph: Graph, asked: Answer) -> str:
    """What a query answers: its table, or its error."""
    try:
        result = graph.query(asked.query, name=asked.name, params=asked.params)
    except OmnigraphError as error:
        return f"error: {error}\n"
    if not result.row_count:
        return "0 rows\n"
    heading, *rows = format_result_table(result).rpartition("\n\n")[0].splitlines(keepends=True)
    rows[-1] = rows[-1].removesuffix("\n") + "\n"
    return "".join([heading, *(rows if _HAS_ORDER.search(asked.query) else sorted(rows))])


def refreshed(text: str) -> str:
    """A page's text with its queries asked again."""
    with graph_of(text) as graph:

        def replaced(found: re.Match[str]) -> str:
            start, end = (place - found.start() for place in found.span("answer"))
            return found.group()[:start] + answered(graph, _answer(text, found)) + found.group()[end:]

        return ANSWER.sub(replaced, text)


if __name__ == "__main__":
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = refreshed(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"refreshed {page.relative_to(ROOT)}")
