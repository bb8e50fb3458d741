"""The pages for those who come from elsewhere: each question has the same rows there and here."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.cli.main import main

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
EXAMPLES = Path(__file__).parents[2] / "examples"


def fences(page: str, language: str) -> list[str]:
    """The fenced blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (HOW_TO / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)


def pairs(page: str, language: str) -> list[tuple[str, str]]:
    """Each question: the statement there, and the query here that follows it."""
    pattern = rf"^```{language}\n(.*?)^```\n+```gq\n(.*?)^```$"
    return re.findall(pattern, (HOW_TO / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    """The graph that the commands of the page about Neo4j make."""
    (tmp_path / "examples").symlink_to(EXAMPLES)
    monkeypatch.chdir(tmp_path)
    text = "\n".join(fences("come-from-neo4j.md", "text"))
    commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    assert len(commands) == 2
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0
    return og.open_graph("people.omni")


def test_cypher_and_its_translation_have_the_same_rows(moved: og.Graph) -> None:
    page, graph = "come-from-neo4j.md", moved
    questions = pairs(page, "cypher")

    answers = [
        (list(graph.cypher(there).json_rows()), list(graph.query(here).json_rows())) for there, here in questions
    ]

    assert len(questions) == len(fences(page, "cypher")) == len(fences(page, "gq")) >= 9
    assert [(there, here) for (there, here) in answers if there != here or not there] == []


PARAMS = {
    "id": ("String", "p9"),
    "n": ("String", "Ada"),
    "m": ("String", "Dan"),
    "rows": ("[{id: String, name: String, born: I64}]", [{"id": "p8", "name": "Eve", "born": 1900}]),
}


def test_each_write_changes_the_graph_of_the_page(moved: og.Graph) -> None:
    text = (HOW_TO / "come-from-neo4j.md").read_text("utf-8").partition("## Writes")[2]
    writes = re.findall(r"^\| `.*` \| `(.*?)`", text, re.MULTILINE)

    changed = []
    for write in writes:
        used = {name: PARAMS[name] for name in PARAMS if re.search(rf"\${name}\b(?!:)", write)}
        head = ", ".join(f"${name}: {type_}" for name, (type_, _) in used.items())
        params = {name: value for name, (_, value) in used.items()}
        done = moved.mutate(f"query write({head}) {{ {write} }}", params=params, dry_run=True)
        changed.append((done.affected_nodes, done.affected_edges))

    assert changed == [(1, 0), (1, 0), (1, 0), (1, 0), (0, 1), (1, 3), (1, 0)]


def test_sql_and_its_translation_have_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = "come-from-lancedb-and-duckdb.md"
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for program in fences(page, "python"):
        exec(compile(program, page, "exec"), names)  # noqa: S102 - the page's own programs
    shop = names["shop"]
    graph: og.Graph = names["graph"]
    questions = pairs(page, "sql")

    answers = [
        (shop.sql(there).fetchall(), [tuple(row.values()) for row in graph.query(here).json_rows()])
        for there, here in questions
    ]

    assert len(questions) == len(fences(page, "sql")) == len(fences(page, "gq")) >= 6
    assert [(there, here) for (there, here) in answers if not same(there, here) or not there] == []
    assert [graph.query(query).rows() for query in fences(page, "gq only")] == [[{"slug": "b"}]]
    assert capsys.readouterr().out == "[{'name': 'Ada'}, {'name': 'Bob'}]\n"


def same(there: list[tuple[Any, ...]], here: list[tuple[Any, ...]]) -> bool:
    """Whether the rows are equal; SQL puts null last, and here it comes first."""
    return sorted(map(repr, there)) == sorted(map(repr, here))
