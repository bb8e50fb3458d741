"""What a commit of one row costs its process in bytes and calls: the same after any number of commits."""

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import omnigraph as og
from load_calls import node
from mutating import run
from omnigraph.engine.tables.key_pages import StoredKeyPages
from omnigraph.options import Maintenance, Options
from omnigraph.runtime import Runtime
from omnigraph.storage.key_cache import KeyPage
from omnigraph.storage.lance_table import LanceTable
from upkeep_calls import settled
from worlds import CALM

SCHEMA = "node P { name: String @key  email: String? @unique }"
# No version of the manifest is removed, so that the bytes of all files are those that were written. Each lists
# the sealed parts of the journal, of which there are up to 32 by default.
KEPT = replace(CALM, maintenance=Maintenance.AUTO, head_commits=64, sealed_fragments=4, trim_every=1_000_000)
WINDOW = 64
"""As many commits as a head has, and more than there are between two compactions."""


def created(root: Path, options: Options = KEPT) -> og.Graph:
    return og.create_graph(str(root / "g"), SCHEMA, runtime=Runtime(options=options))


def add(graph: og.Graph, number: int) -> None:
    run(graph, f'insert P {{ name: "k{number}", email: "e{number}" }}')


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[KeyPage]:
    """The pages of keys that are written."""
    written: list[KeyPage] = []
    write = StoredKeyPages.write

    def note(self: StoredKeyPages, table: Any, page: KeyPage) -> None:
        written.append(page)
        write(self, table, page)

    monkeypatch.setattr(StoredKeyPages, "write", note)
    return written


def count_calls(graph: og.Graph, number: int) -> int:
    """The calls of functions of the package by this thread during one insert."""
    calls = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and "/omnigraph/" in frame.f_code.co_filename

    sys.setprofile(note)
    try:
        add(graph, number)
    finally:
        sys.setprofile(None)
    return calls


def measure(graph: og.Graph, first: int, pages: list[KeyPage]) -> tuple[float, float]:
    """The calls of one insert, and the bytes of the files that it leaves, on average."""

    def count_bytes() -> int:
        return sum(path.stat().st_size for path in Path(graph.uri).rglob("*") if path.is_file())

    before = count_bytes()
    pages.clear()
    calls = 0
    for number in range(first, first + WINDOW):
        calls += count_calls(graph, number)
        settled(graph)
    replaced = sum(values.nbytes for page in pages for values in page.columns.values())
    return calls / WINDOW, (count_bytes() - before + replaced) / WINDOW


def test_an_insert_costs_the_same_after_two_thousand_commits(tmp_path: Path, pages: list[KeyPage]) -> None:
    graph = created(tmp_path)
    found = []
    last = 0
    for commits in (100, 2_000):
        # In groups, which are made faster.
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(lambda number: add(graph, number), range(last, commits)))
        settled(graph)
        found.append(measure(graph, commits, pages))
        last = commits + WINDOW

    (calls, nbytes), (later_calls, later_nbytes) = found
    assert later_calls < 1.1 * calls, found
    assert later_nbytes < 1.3 * nbytes, found
    # The head has 280 bytes for each of its commits, compressed, and 550 without.
    assert nbytes < 27_000, found


def forbid(table: LanceTable, columns: Sequence[str], fragments: Sequence[int]) -> None:
    pytest.fail(f"{columns} of the files {fragments} of {table.path} are read")


def test_the_page_of_keys_is_not_written_again_by_each_compaction(
    tmp_path: Path, pages: list[KeyPage], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = created(tmp_path)
    rows = 20_000
    graph.load([node("P", name=f"old{number}", email=f"o{number}") for number in range(rows)], mode="append")

    for number in range(200):
        add(graph, number)
        settled(graph)

    assert len(graph.commits(filters={"operation": "maintain"}, limit=100)) >= 5
    assert [len(page.files) >= 1 for page in pages] == [True]
    # A new process finds all keys in the page and in the version: it reads no file.
    cold = og.open_graph(graph.uri, runtime=Runtime(options=CALM))
    monkeypatch.setattr(LanceTable, "iter_written_rows", forbid)
    add(cold, rows)
    with pytest.raises(og.ConstraintError, match="e77"):
        run(cold, 'insert P { name: "other", email: "e77" }')
    with pytest.raises(og.ConstraintError, match="o19999"):
        run(cold, 'insert P { name: "other", email: "o19999" }')
