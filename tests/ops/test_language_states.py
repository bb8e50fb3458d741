"""The newer forms of the language read every state: a commit, an instant, a branch; and what they wrote is exported."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import omnigraph as og
from language_states import QUESTIONS, ask_all, change_graph, write_graph
from omnigraph.clock import parse_instant


@pytest.mark.parametrize("engine", ["memory", "local"])
def test_an_earlier_state_is_read_by_commit_and_by_instant(tmp_path: Path, engine: str) -> None:
    graph = write_graph(tmp_path / "g")
    first, before = graph.snapshot().commit, ask_all(graph)

    change_graph(graph)

    after = ask_all(graph, engine=engine)
    assert [name for name in QUESTIONS if after[name] == before[name]] == []
    assert ask_all(graph, snapshot=first.id, engine=engine) == before
    assert ask_all(graph, at=parse_instant(first.at), engine=engine) == before
    empty = parse_instant(first.at) - timedelta(days=1)
    with pytest.raises(og.OmnigraphError):
        graph.query(QUESTIONS["union"], at=empty, engine=engine)


@pytest.mark.parametrize("engine", ["memory", "local"])
def test_a_branch_is_read_beside_main(tmp_path: Path, engine: str) -> None:
    graph = write_graph(tmp_path / "g")
    before = ask_all(graph)
    graph.branches.create("work")

    change_graph(graph, branch="work")
    change_graph(graph)

    assert ask_all(graph, branch="work", engine=engine) == ask_all(graph) != before


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_an_export_of_what_was_written_loads_as_the_same_graph(tmp_path: Path, form: str) -> None:
    graph = write_graph(tmp_path / "g")
    first = graph.snapshot().commit.id
    change_graph(graph)
    for name, state in (("new", None), ("old", first)):
        target = tmp_path / f"{name}.{form}"

        graph.export(target, format=form, snapshot=state)
        copy = og.create_graph(str(tmp_path / name), graph.schema)
        if form == "parquet":
            nodes, edges = ({path.stem: path for path in (target / kind).iterdir()} for kind in ("nodes", "edges"))
            copy.load(nodes=nodes, edges=edges, mode="append")
        else:
            copy.load(target, mode="append")

        assert ask_all(copy) == ask_all(graph, snapshot=state)


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_result_is_written_as_parquet_and_arrow(tmp_path: Path, name: str, written: og.Graph) -> None:
    result = written.query(QUESTIONS[name])
    table = result.to_arrow()

    result.write(tmp_path / "rows.parquet", "parquet")
    result.write(tmp_path / "rows.arrow", "arrow")

    assert _without_metadata(pq.read_table(tmp_path / "rows.parquet")).to_pylist() == table.to_pylist()
    assert _without_metadata(feather.read_table(tmp_path / "rows.arrow")).equals(_without_metadata(table))


def _without_metadata(table: pa.Table) -> pa.Table:
    return table.replace_schema_metadata(None)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return write_graph(tmp_path_factory.mktemp("written") / "g")
