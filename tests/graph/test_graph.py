"""The Python door: `omnigraph` and `Graph`, as a program uses them."""

import ast
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import __all__ as public_names
from omnigraph.clock import parse_instant
from omnigraph.ops.write_tables import TableWrite, write_tables
from worlds import rows, runtime

SCHEMA = "node Person { v: I64 }\nnode City { v: I64 }\nedge LivesIn: Person -> City\n"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """A graph with two commits: an init, and two rows of Person."""
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, actor="ada", runtime=runtime())
    add(graph, {"a": 1, "b": 2})
    return graph


def add(graph: og.Graph, values: dict[str, int]) -> None:
    write_tables(
        graph._session, [TableWrite(table_key="node:Person", append=rows(values))], operation="add", actor="bob"
    )


def test_a_graph_that_was_made_is_opened(graph: og.Graph) -> None:
    opened = og.open_graph(graph.uri)

    assert opened.uri == graph.uri
    assert opened.schema == SCHEMA
    assert opened.snapshot() == graph.snapshot()
    assert repr(opened) == f"Graph({graph.uri!r})"


def test_a_relative_path_becomes_an_absolute_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    graph = og.create_graph("people.omni", SCHEMA)

    assert graph.uri == str(tmp_path / "people.omni")


def test_a_schema_with_mistakes_makes_no_graph(tmp_path: Path) -> None:
    with pytest.raises(og.SourceError) as refused:
        og.create_graph(str(tmp_path / "g"), "node Person { v: I6 }")

    assert refused.value.source.name == "schema.pg"
    assert list(tmp_path.iterdir()) == []


def test_the_history_is_read_newest_first(graph: og.Graph) -> None:
    added, made = graph.commits()

    assert [added.operation, made.operation] == ["add", "init"]
    assert added.parent == made.id
    assert graph.commits(limit=1) == [added]
    assert graph.commits(filters={"actor": "ada"}) == [made]
    assert graph.commit(made.id) == made


def test_a_bad_filter_is_refused_whatever_the_others_let_through(graph: og.Graph) -> None:
    with pytest.raises(og.BadArgumentError, match="since"):
        graph.commits(filters={"actor": "nobody", "since": "yesterday"})


def test_a_commit_that_never_was_is_missing(graph: og.Graph) -> None:
    with pytest.raises(og.CommitMissingError):
        graph.commit("01JC0000000000000000000000")


def test_a_handle_sees_what_others_commit(graph: og.Graph) -> None:
    other = og.open_graph(graph.uri, runtime=runtime())

    add(other, {"c": 3})

    assert graph.snapshot().pin("node:Person").rows == 3


# --- tables for other tools ------------------------------------------------------------------------------


def test_a_table_is_the_lance_dataset_at_its_pin(graph: og.Graph) -> None:
    dataset = graph.table("Person")

    assert dataset.version == graph.snapshot().pin("node:Person").version
    assert dataset.to_table(columns=["id", "v"]).to_pylist() == [{"id": "a", "v": 1}, {"id": "b", "v": 2}]


@pytest.mark.parametrize("name, columns", [("LivesIn", {"src", "dst"}), ("edge:LivesIn", {"src", "dst"})])
def test_an_edge_type_has_a_table_too(graph: og.Graph, name: str, columns: set[str]) -> None:
    assert columns <= set(graph.table(name).schema.names)


def test_a_table_of_the_past_is_what_it_was(graph: og.Graph) -> None:
    added, made = graph.commits()

    assert graph.table("Person", snapshot=made.id).count_rows() == 0
    assert graph.table("Person", at=parse_instant(added.at) - timedelta(microseconds=1)).count_rows() == 0
    assert graph.table("Person", at=parse_instant(added.at)).count_rows() == 2


def test_a_handle_given_away_can_be_moved_without_harm(graph: og.Graph) -> None:
    dataset = graph.table("Person")

    dataset.restore()  # type: ignore[no-untyped-call]  # puts the pinned version at the table's own head
    dataset.delete("v = 1")

    assert dataset.count_rows() == 1
    assert graph.table("Person").count_rows() == 2
    assert graph._session.open_tables(graph.snapshot()).open_table("node:Person").count() == 2


def test_an_unknown_type_gets_its_near_miss(graph: og.Graph) -> None:
    with pytest.raises(og.TypeMissingError, match="no type `Persn`; did you mean `Person`"):
        graph.table("Persn")


def test_a_dataset_given_away_is_plain_arrow(graph: og.Graph) -> None:
    assert isinstance(graph.table("City").to_table(), pa.Table)


# --- reading only ----------------------------------------------------------------------------------------


def test_a_graph_opened_read_only_refuses_writes(graph: og.Graph) -> None:
    reader = og.open_graph(graph.uri, read_only=True)

    with pytest.raises(og.ReadOnlyError):
        add(reader, {"c": 3})

    assert reader.snapshot().pin("node:Person").rows == 2


# --- the public names ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", public_names)
def test_a_public_name_is_there(name: str) -> None:
    assert getattr(og, name) is not None
    assert name in dir(og)


def test_every_name_is_at_home_where_the_table_says() -> None:
    strangers = {
        name: home
        for name, home in og._MODULE_BY_EXPORT.items()
        if getattr(og, name).__module__ != f"omnigraph.{home}" or getattr(og, name).__name__ != name
    }

    assert strangers == {}


def test_type_checkers_and_programs_are_told_the_same_names() -> None:
    tree = ast.parse(Path(og.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    told = {
        (str(node.module).removeprefix("omnigraph."), alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert told == {(home, name) for name, home in og._MODULE_BY_EXPORT.items()}
    # The errors that several packages raise are there from the start, with their base class.
    loaded = {name for name in public_names if getattr(vars(og).get(name), "__module__", None) == "omnigraph.errors"}
    assert set(og._MODULE_BY_EXPORT) | loaded | {"__version__"} == set(public_names)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'opengraph'"):
        _ = og.opengraph


def test_importing_omnigraph_imports_nothing_heavy() -> None:
    heavy = "('omnigraph', 'lance', 'pyarrow')"
    code = f"import sys, omnigraph; print(*sorted(m for m in sys.modules if m.startswith({heavy})))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert result.stdout.split() == ["omnigraph", "omnigraph.errors", "omnigraph.extensions"]
