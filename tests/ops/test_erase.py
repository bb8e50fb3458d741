"""The documented way to erase something leaves nothing of it in any file below the graph's root.

A search of bytes alone would not see what is compressed. So every Lance file is decoded too; and what remains of the
tables is shown to have been written after the deletion, but for the first, empty version of each table.
"""

import base64
import io
from collections.abc import Iterator
from datetime import timedelta
from itertools import takewhile
from pathlib import Path

import pytest
from lance.file import LanceFileReader

import omnigraph as og
from load_calls import Record, edge, node
from mutating import new_graph
from omnigraph.engine.search import column_index
from omnigraph.engine.tables import graph_cache
from upkeep_calls import MAINTAINED, optimized, settled
from worlds import runtime

WORD = "vqxzkwj"
"""A word that no stemmer changes, and that is nowhere by chance."""
ROOMY = 70_000
"""A blob of so many bytes has a file of its own."""
SCHEMA = """
node Doc { name: String @key  body: String? @index  tags: [String]? @index  vec: Vector(2)?  file: Blob? }
edge Cites: Doc -> Doc { why: String? }
"""
HOPS = "query q() { match { $a: Doc  $a cites $b  $b cites $c } return { count(*) as n } }"
SEARCH = f'query q() {{ match {{ $a: Doc  search($a.body, "{WORD}") }} return {{ $a.name }} }}'
FIND = f'query q() {{ match {{ $a: Doc {{ name: "{WORD}-key" }} }} return {{ $a.name }} }}'


def documents() -> Iterator[Record]:
    """Rows of which one, and an edge that leads to it, say the word."""
    for number in range(60):
        yield node("Doc", name=f"d{number}", body=f"common words {number}", tags=["usual"], vec=[1.0, float(number)])
    secret = f"{WORD} " * 10
    blob = "base64:" + base64.b64encode(secret.encode() * (ROOMY // len(secret) + 1)).decode()
    yield node("Doc", name=f"{WORD}-key", body=f"the {WORD} of it", tags=[f"{WORD}-tag"], vec=[0.5, 0.5], file=blob)
    for number in range(59):
        yield edge("Cites", f"d{number}", f"d{number + 1}")
    yield edge("Cites", "d0", f"{WORD}-key", why=f"because of {WORD}")


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    """A graph that says the word in rows, blobs, indexes, what was derived, on branches and under a tag."""
    monkeypatch.setattr(graph_cache, "MIN_DERIVED_EDGES", 1)
    monkeypatch.setattr(column_index, "MIN_STORED_ROWS", 1)
    made = new_graph(tmp_path, SCHEMA)
    made.load(list(documents()), mode="append")
    optimized(made)
    made.tags.create("then")
    made.branches.create("merged")
    change(made, f'insert Doc {{ name: "late", body: "{WORD} again" }}', branch="merged")
    made.merge("merged", into="main")
    made.branches.delete("merged")
    made.branches.create("open")
    change(made, f'update Doc set {{ body: "{WORD} once more" }} where name = "d7"', branch="open")  # noqa: S608 - not SQL
    ask(made)
    return made


def change(graph: og.Graph, statement: str, branch: str = "main") -> None:
    graph.mutate(f"query q() {{ {statement} }}", branch=branch)


def ask(graph: og.Graph) -> list[int]:
    """Ask what makes adjacency and words, and have those kept; how many rows have the word, or lie two hops away."""
    fresh = og.open_graph(graph.uri)
    counts = [fresh.query(text).row_count for text in (SEARCH, FIND)]
    fresh.query(HOPS)
    fresh._session.reads.wait_for_workers()
    return counts


def holders(graph: og.Graph) -> set[str]:
    """The rooms of all files that say the word, in bytes as they are or in what they decode to."""
    root = Path(graph.uri)
    found = {path for path in root.rglob("*") if path.is_file() and holds(path)}
    return {room(path.relative_to(root)) for path in found}


def room(path: Path) -> str:
    return path.parts[2] if path.parts[0] in {"nodes", "edges"} else path.parts[0]


def holds(path: Path) -> bool:
    if WORD.encode() in path.read_bytes().lower():
        return True
    return path.suffix == ".lance" and any(WORD in str(value) for value in decoded(path))


def decoded(path: Path) -> Iterator[object]:
    """Every value of a Lance file, but blobs: those lie in it as they are. Their column is the last one."""
    names = list(takewhile(lambda name: name != "file", LanceFileReader(str(path)).metadata().schema.names))
    for batch in LanceFileReader(str(path), columns=names).read_all().to_batches():
        for column in batch.columns:
            yield from column.to_pylist()


def test_the_documented_way_leaves_nothing_of_it_in_any_file(graph: og.Graph) -> None:
    before = {path for path in Path(graph.uri).rglob("*") if path.is_file()}
    assert holders(graph) >= {"data", "_indices", "_derived"}
    assert [path for path in before if path.suffix == ".blob" and holds(path)]
    assert ask(graph) == [2, 1]

    graph.tags.delete("then")
    graph.branches.delete("open")
    change(graph, f'delete Doc where name = "{WORD}-key"')
    change(graph, 'delete Doc where name = "late"')
    ask(graph)  # what is derived from the new state still names files that have the word
    left = io.BytesIO()
    graph.export(left)
    graph.load(io.BytesIO(left.getvalue()), mode="overwrite", message="written anew")
    graph.cleanup(keep=1, grace=timedelta(0), confirm=True)

    assert holders(graph) == set()
    remaining = {
        path for path in before if path.exists() and path.relative_to(graph.uri).parts[0] in {"nodes", "edges"}
    }
    assert {path.name for path in remaining} <= {f"{2**64 - 2:020d}.manifest", "latest_version_hint.json"}
    assert (ask(graph), holders(graph)) == ([0, 0], set())
    assert og.check_graph(graph.uri).findings == ()


def test_a_branch_that_was_taken_before_keeps_it(graph: og.Graph) -> None:
    graph.tags.delete("then")
    for branch in ("main", "open"):
        change(graph, f'delete Doc where name = "{WORD}-key"', branch=branch)
        left = io.BytesIO()
        graph.export(left, branch=branch)
        graph.load(io.BytesIO(left.getvalue()), mode="overwrite", branch=branch)

    graph.cleanup(keep=1, grace=timedelta(0), confirm=True)

    assert "data" in holders(graph)


def test_what_readers_kept_of_a_deleted_row_goes_with_a_hard_drop(graph: og.Graph) -> None:
    graph.tags.delete("then")
    graph.branches.delete("open")
    change(graph, f'delete Doc where name = "{WORD}-key"')
    assert "_derived" in holders(graph)

    graph.apply_schema(SCHEMA.replace("  body: String? @index", ""), allow_data_loss=True)
    graph.cleanup(keep=1, grace=timedelta(0), confirm=True)

    assert "_derived" not in holders(graph)


def test_small_writes_leave_nothing_of_it_in_what_versions_carry_or_in_pages_of_keys(tmp_path: Path) -> None:
    made = og.create_graph(str(tmp_path / "g"), "node Doc { name: String @key }", runtime=runtime(MAINTAINED))
    for number in range(4):
        change(made, f'insert Doc {{ name: "{WORD}-{number}" }} insert Doc {{ name: "d{number}" }}')
        settled(made)
    calm = og.open_graph(made.uri, runtime=runtime())
    change(calm, f'insert Doc {{ name: "{WORD}-late" }}')
    root = Path(made.uri)
    assert list((root / "_derived").glob("keys-*"))
    assert holders(made) >= {"_versions", "_derived"}, "pages and versions have it as it is"

    for name in (*map(str, range(4)), "late"):
        change(calm, f'delete Doc where name = "{WORD}-{name}"')
    left = io.BytesIO()
    calm.export(left)
    calm.load(io.BytesIO(left.getvalue()), mode="overwrite", message="written anew")
    calm.cleanup(keep=1, grace=timedelta(0), confirm=True)

    assert holders(made) == set()
    assert not list((root / "_derived").glob("keys-*"))
