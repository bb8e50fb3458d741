"""Ask a model the questions of `bench/questions`, through any OpenAI-compatible endpoint, and count right answers.

    python bench/model_questions.py --url http://127.0.0.1:8000/v1 --model NAME [--graph supply-chain] [--rounds 2]

The key is read from `OPENAI_API_KEY`. The model gets the guide of the graph that agents get, answers with a query, and
if that has mistakes, once more with what the checker says: the diagnostics are part of what is measured. A query is
right if it returns the rows of the gold query, whatever its columns are called. Nothing but the query is run, and it
can only read.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import omnigraph as og
from omnigraph.lang.source import Source
from omnigraph.query.static_checks import check_schema
from omnigraph.schema.catalog import build_catalog
from omnigraph.server.mcp.guide import write_guide

ROOT = Path(__file__).parents[1]
QUESTIONS = Path(__file__).parent / "questions"
GRAPHS = ("supply-chain", "research-library")
_FENCE = re.compile(r"```[a-z]*\n(.*?)```", re.DOTALL)
_SECONDS = 120
_TASK = "Answer with one query in a fenced block, and nothing else. The query takes no parameters."


@dataclass(frozen=True)
class Question:
    """A question with the query that answers it, its rows, and wrong forms with words of their diagnostics."""

    ask: str
    gold: str
    rows: list[list[Any]]
    wrong: list[list[str]]
    ordered: bool = False
    """Whether the question asks for an order."""


def read_questions(graph: str) -> list[Question]:
    """Return the questions to one of the example graphs."""
    text = (QUESTIONS / f"{graph}.toml").read_text(encoding="utf-8")
    return [Question(**entry) for entry in tomllib.loads(text)["question"]]


def build_graph(name: str, home: Path) -> og.Graph:
    """Create an example graph with its data."""
    files = ROOT / "examples" / name
    graph = og.create_graph(str(home / f"{name}.omni"), (files / "schema.pg").read_text(encoding="utf-8"))
    if name == "supply-chain":
        graph.load(files / "parts.jsonl", mode="append")
    else:
        nodes = {"Paper": files / "papers.csv", "Author": files / "authors.csv"}
        graph.load(files / "links.jsonl", mode="append", nodes=nodes, edges={"WroteBy": files / "wrote_by.csv"})
    return graph


def list_rows(graph: og.Graph, query: str) -> list[list[Any]]:
    """Return the rows of a query, as lists of JSON values."""
    return [list(row.values()) for row in graph.query(query).json_rows()]


def is_right(graph: og.Graph, query: str, question: Question) -> bool:
    """Return whether a query has the rows of the gold query, in any order unless the question asks for one."""
    found = list_rows(graph, query)
    if question.ordered:
        return found == question.rows
    return sorted(map(json.dumps, found)) == sorted(map(json.dumps, question.rows))


def ask_model(url: str, model: str, messages: Sequence[dict[str, str]]) -> str:
    """Return what the model answers."""
    body = json.dumps({"model": model, "messages": list(messages), "temperature": 0}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}"}
    request = Request(f"{url.rstrip('/')}/chat/completions", data=body, headers=headers)  # noqa: S310 - the user's own
    with urlopen(request, timeout=_SECONDS) as response:  # noqa: S310 - as above
        return str(json.load(response)["choices"][0]["message"]["content"])


def answer(graph: og.Graph, guide: str, question: Question, url: str, model: str, rounds: int) -> str:
    """Ask one question; return `right`, `right after a diagnostic`, `wrong`, or `mistakes` if no query could be run."""
    messages = [
        {"role": "system", "content": f"{guide}\n{_TASK}"},
        {"role": "user", "content": question.ask},
    ]
    for number in range(rounds):
        text = ask_model(url, model, messages)
        fenced = _FENCE.search(text)
        query = fenced.group(1) if fenced else text
        try:
            verdict = is_right(graph, query, question)
        except og.OmnigraphError as error:
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": f"{error}\n{_TASK}"}]
            continue
        if not verdict:
            return "wrong"
        return "right after a diagnostic" if number else "right"
    return "mistakes"


def main(words: Sequence[str] | None = None) -> int:
    """Ask all questions, and print a line for each and the counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--url", required=True, help="The base address of the endpoint, such as http://127.0.0.1:8000/v1."
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--graph", action="append", choices=GRAPHS, help="Only this graph; may be repeated.")
    parser.add_argument(
        "--rounds", type=int, default=2, help="How often a query with mistakes may be corrected, plus one."
    )
    options = parser.parse_args(words)
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as home:
        for name in options.graph or GRAPHS:
            graph = build_graph(name, Path(home))
            _, catalog = check_schema(Source(graph.schema, name))
            guide = write_guide(catalog or build_catalog())
            for question in read_questions(name):
                verdict = answer(graph, guide, question, options.url, options.model, options.rounds)
                counts[verdict] = counts.get(verdict, 0) + 1
                print(f"{verdict:<24} {question.ask}")
    total = sum(counts.values())
    print(", ".join(f"{count} of {total} {verdict}" for verdict, count in sorted(counts.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
