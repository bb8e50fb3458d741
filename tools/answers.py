"""Run the queries of the pages that show a result, and update the results in the pages.

The ```` ```jsonl ```` block of a page has the data of a small graph; its schema is the page's first ```` ```pg ````
block. A ```` ```result ```` block is the result of the query in the ```` ```gq ```` block before it on that graph, as
`omnigraph query` prints it, without the number of rows. The word `result` is followed by the query's name, if the block
has several, and by its parameters as JSON. Rows whose order is unspecified are sorted. A mutation with `returning` runs
on a branch of its own, which is deleted afterwards, so that every query of a page sees the same data.
"""

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from omnigraph.cli.render import format_table
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
_IS_MUTATION = re.compile(r"\breturning\b")
_BRANCH = "answer"
_HAS_ORDER = re.compile(r"\b(?:order|limit|offset)\b")


@dataclass(frozen=True)
class Answer:
    """A query of a page, and the result that the page shows."""

    line: int
    query: str
    name: str | None
    params: dict[str, object]
    shown: str

    def __str__(self) -> str:
        return str(self.line)


def pages() -> list[Path]:
    """Return the pages of the reference and of the how-to guides that have data and show results."""
    candidates = [page for part in ("reference", "how-to") for page in sorted((ROOT / "docs" / part).glob("*.md"))]
    return [page for page in candidates if _shows_results(page.read_text(encoding="utf-8"))]


def _shows_results(text: str) -> bool:
    return DATA.search(text) is not None and ANSWER.search(text) is not None


def answers(text: str) -> list[Answer]:
    """Return the queries and results that a page's text shows, in order."""
    return [_read_answer(text, match) for match in ANSWER.finditer(text)]


def _read_answer(text: str, match: re.Match[str]) -> Answer:
    params = json.loads(match["params"] or "{}")
    line = text.count("\n", 0, match.start()) + 1
    return Answer(line, match["query"], match["name"], params, match["answer"])


@contextmanager
def graph_of(text: str) -> Iterator[Graph]:
    """Build the graph that a page describes, and remove it at the end of the context."""
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


def answered(graph: Graph, answer: Answer) -> str:
    """Return the result of a query as text: its table, or its error."""
    try:
        table = _mutate(graph, answer) if _IS_MUTATION.search(answer.query) else _query(graph, answer)
    except OmnigraphError as error:
        return f"error: {error}\n"
    if not table:
        return "0 rows\n"
    heading, *rows = table.splitlines(keepends=True)
    rows[-1] = rows[-1].removesuffix("\n") + "\n"
    return "".join([heading, *(rows if _HAS_ORDER.search(answer.query) else sorted(rows))])


def _query(graph: Graph, answer: Answer) -> str:
    result = graph.query(answer.query, name=answer.name, params=answer.params)
    return format_result_table(result).rpartition("\n\n")[0] if result.row_count else ""


def _mutate(graph: Graph, answer: Answer) -> str:
    """Run a mutation on a branch of its own; return the rows that it returns as a table."""
    graph.branches.create(_BRANCH, actor="docs")
    try:
        result = graph.mutate(answer.query, name=answer.name, params=answer.params, branch=_BRANCH, actor="docs")
    finally:
        graph.branches.delete(_BRANCH)
    columns = list(result.columns or ())
    return format_table(columns, [[_format_cell(row[name]) for name in columns] for row in result.rows or ()])


def _format_cell(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def refreshed(text: str) -> str:
    """Return a page's text with its queries run again."""
    with graph_of(text) as graph:

        def replace(match: re.Match[str]) -> str:
            start, end = (offset - match.start() for offset in match.span("answer"))
            return match.group()[:start] + answered(graph, _read_answer(text, match)) + match.group()[end:]

        return ANSWER.sub(replace, text)


if __name__ == "__main__":
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = refreshed(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"refreshed {page.relative_to(ROOT)}")
