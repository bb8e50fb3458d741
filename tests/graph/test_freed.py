"""A handle that nobody has any more frees what it has read at once, and does not wait for Python's collector.

Who opens a graph for every request would otherwise hold the tables of all of them.
"""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from load_calls import edge, node
from worlds import runtime


@pytest.fixture
def uncollected() -> Iterator[None]:
    """While Python's collector does nothing."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    "body",
    [
        "match { $p: P } return { $p.k, $p.n } order { $p.n desc } limit 3",
        "match { $p: P  not { $p knows $o } } return { count(*) as n }",
        "match { $p: P  $p knows{1,3} $o } return { $p.k, $o.k }",
    ],
)
def test_what_a_handle_has_read_goes_with_it(body: str, tmp_path: Path) -> None:
    made = og.create_graph(
        str(tmp_path / "g"), "node P { k: String @key  n: I64 }\nedge Knows: P -> P", runtime=runtime()
    )
    people = [node("P", k=f"k{number}", n=number) for number in range(50)]
    made.load([*people, *(edge("Knows", f"k{number}", f"k{number + 1}") for number in range(49))], mode="append")
    graph = og.open_graph(made.uri, read_only=True, runtime=runtime())

    graph.query(f"query q() {{ {body} }}").rows()
    session = graph._session
    held = [weakref.ref(one) for one in (session.reads, session.handles, session.store)]
    del graph, session

    assert [one() for one in held] == [None] * 3


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("verb", ["mutate", "query", "diff", "merge", "cleanup"])
def test_a_handle_that_was_at_work_on_a_branch_goes_at_once(verb: str, tmp_path: Path) -> None:
    made = og.create_graph(str(tmp_path / "g"), "node P { k: String @key }", runtime=runtime())
    made.branches.create("x")
    made.load([node("P", k="a")], mode="append", branch="x")
    graph = og.open_graph(made.uri, runtime=runtime())

    match verb:
        case "mutate":
            graph.mutate('query q() { insert P { k: "b" } }', branch="x")
        case "query":
            graph.query("query q() { match { $p: P } return { $p.k } }", branch="x").rows()
        case "diff":
            list(graph.diff("x", "main"))
        case "merge":
            graph.merge("x")
        case _:
            graph.cleanup(keep=1)
    session = graph._session
    held = [weakref.ref(one) for one in (session.reads, session.handles, session.store)]
    del graph, session

    assert [one() for one in held] == [None] * 3
