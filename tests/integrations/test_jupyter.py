"""The magics of notebooks, in IPython's own shell in a process of its own."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og

ROOT = Path(__file__).parents[2]
HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)">]]>&amp;'
SCHEMA = "node Person { name: String @key  note: String? }\nedge Knows: Person -> Person\n"
SHELL = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
shell = InteractiveShell.instance()
told = []
for cell in json.load(sys.stdin):
    with capture_output() as out:
        done = shell.run_cell(cell)
    data, _ = shell.display_formatter.format(done.result) if done.result is not None else ({}, {})
    error = done.error_in_exec or done.error_before_exec
    told.append({"data": data, "error": error and f"{type(error).__name__}: {error}", "out": out.stdout + out.stderr})
json.dump(told, sys.stdout)
"""


def run_cells(*cells: str, cwd: Path = ROOT) -> list[dict[str, Any]]:
    """What a notebook would show for each cell."""
    done = subprocess.run(
        [sys.executable, "-c", SHELL], input=json.dumps(cells), cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told: list[dict[str, Any]] = json.loads(done.stdout)
    return told


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.create_graph(str(tmp_path_factory.mktemp("notebook") / "people.omni"), SCHEMA)
    graph.mutate(
        "query a($n: String, $t: String) { insert Person { name: $n, note: $t } as $a"
        ' insert Person { name: "Bob" } as $b insert Knows { from: $a, to: $b } }',
        params={"n": HOSTILE, "t": HOSTILE},
    )
    return graph


def test_cells_draw_entities_tabulate_values_and_tell_mistakes(people: og.Graph) -> None:
    _, _, drawn, table, cypher, _, named, kept, mistake, write = run_cells(
        "%load_ext omnigraph.jupyter",
        f"%graph {people.uri}",
        "%%gq\nmatch { $p: Person $p $e:knows $q } return { $p, $e, $q }",
        '%%gq --params {"n":"Bob"}\nquery q($n: String) { match { $q knows $p $p.name = $n } return { $q.note } }',
        "%%cypher\nMATCH (p:Person)-[e:KNOWS]->(q) RETURN p, e, q",
        "ask = {'n': 'Bob'}",
        "%%gq --params ask --name b --into rows\n"
        "query a() { match { $p: Person } return { $p.name } }\n"
        "query b($n: String) { match { $p: Person { name: $n } } return { $p.name } }",
        "rows.rows()",
        "%%gq\nmatch { $p: Persn } return { $p.name }",
        '%%gq\ndelete Person where name = "Bob"',
    )

    for picture in (drawn, cypher):
        svg = picture["data"]["image/svg+xml"]
        tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(svg).iter()}  # noqa: S314 - our own
        assert "circle" in tags or "rect" in tags
        assert not tags & {"script", "img", "image", "foreignObject", "a"}
        assert 'onerror="' not in svg
    assert "<script" not in table["data"]["text/html"]
    assert "&lt;script&gt;" in table["data"]["text/html"]
    assert named["data"] == {}
    assert "Bob" in kept["data"]["text/plain"]
    assert "Persn" in mistake["error"]
    assert "did you mean `Person`" in mistake["error"]
    assert mistake["error"].startswith("UsageError")
    assert write["error"] is not None
    assert people.query("query q() { match { $p: Person } return { count($p) as n } }").rows() == [{"n": 2}]


def test_a_graph_is_named_in_each_way_and_notes_of_a_result_are_shown(people: og.Graph) -> None:
    _, _, held, by_place, quoted, opened, by_graph, number, noted, into = run_cells(
        "%load_ext omnigraph.jupyter",
        f"import omnigraph as og; five = 5; place = {people.uri!r}",
        "g = og.open_graph(place)",
        "%graph place",
        f"%graph '{people.uri}'",
        "%graph g",
        "%%gq\nmatch { $p: Person } return { count($p) as n }",
        "%graph five",
        "%%cypher\nMATCH (p:Persn) RETURN p.name",
        "%%gq --into 2nd\nmatch { $p: Person } return { $p.name }",
    )

    assert [cell["error"] for cell in (held, by_place, quoted, opened, by_graph, noted)] == [None] * 6
    assert number["error"] == "UsageError: `five` is a variable that holds no graph: it is of the type int"
    assert "no node has the label `Persn`; did you mean `Person`?" in noted["out"]
    assert into["error"] == "UsageError: `--into 2nd` can't be the name of a variable"


def test_what_is_missing_is_told_without_a_traceback(people: og.Graph) -> None:
    read = "\nmatch { $p: Person } return { $p.name }"
    cells = (f"%%gq{read}", "%graph", "%graph nowhere.omni", f"%graph {people.uri}", f"%%gq --params nothing{read}")

    _, unnamed, empty, nowhere, _, params = run_cells("%load_ext omnigraph.jupyter", *cells)

    assert "name the graph first" in unnamed["error"]
    assert "name a graph" in empty["error"]
    assert "nowhere.omni" in nowhere["error"]
    assert "neither a variable" in params["error"]
    assert all(answer["error"].startswith("UsageError") for answer in (unnamed, empty, nowhere, params))


@pytest.mark.soak
def test_the_notebook_of_the_examples_runs() -> None:
    notebook = json.loads((ROOT / "examples/integrations/papers.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"]]

    answers = run_cells(*cells)

    assert [answer["error"] for answer in answers] == [None] * len(cells)
    assert "image/svg+xml" in answers[2]["data"]
    assert "Anatomy" in answers[3]["data"]["text/html"]
    assert "papers" in answers[4]["data"]["text/html"]
