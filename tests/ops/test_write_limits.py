"""Every verb that writes, or moves whole tables, has a deadline and a memory limit, and leaves nothing behind them."""

import io
import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.clock import SystemClock
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.writing import statements
from omnigraph.engine.writing.streamed_update import StreamedRows
from omnigraph.options import EmbedOptions, EmbedProvider
from worlds import FAST, runtime

SCHEMA = """
node Doc { name: String @key  rank: I64?  text: String?  vec: Vector(4)? @embed("text")  @unique(rank, text) }
edge Cites: Doc -> Doc { weight: I64? }
"""
WIDER = SCHEMA.replace("rank: I64?", "rank: I64?  more: String?")
RULED = SCHEMA.replace("@unique(rank, text)", "@unique(rank, text) @range(rank, 0..1000)")
UNIQUE = SCHEMA.replace("@unique(rank, text)", "@unique(rank, text) @unique(name, text)")
OPTIONS = replace(FAST, embedding=EmbedOptions(provider=EmbedProvider.HASH))
ROWS = 12


class Ticking(SystemClock):
    """A clock on which a second goes by whenever it is looked at."""

    def __init__(self) -> None:
        self.looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return float(self.looks)


def new_graph(place: Path) -> og.Graph:
    graph = og.create_graph(str(place), SCHEMA, runtime=runtime(OPTIONS))
    names = [f"d{number:02}" for number in range(ROWS)]
    docs = pa.table({"name": names, "rank": list(range(ROWS)), "text": ["t"] * ROWS})
    cites = pa.table({"from": names, "to": names[1:] + names[:1]})
    graph.load(nodes={"Doc": docs}, edges={"Cites": cites}, mode="append")
    graph.branches.create("side")
    graph.mutate('query q() { update Doc set { text: "side" } where rank < 5 }', branch="side")
    graph.mutate('query q() { update Doc set { text: "main" } where rank > 7 }')
    return graph


def more_docs() -> pa.Table:
    return pa.table({"name": ["d00", "new"], "rank": [500, 501], "text": ["t", "u"]})


WRITES: dict[str, Callable[..., object]] = {
    "insert": lambda graph, **given: graph.mutate('query q() { insert Doc { name: "x" } }', **given),
    "update": lambda graph, **given: graph.mutate(
        "query q() { update Doc set { rank: null } where rank > 3 }", **given
    ),
    "delete": lambda graph, **given: graph.mutate("query q() { delete Doc where rank < 6 }", **given),
    "append": lambda graph, **given: graph.load(nodes={"Doc": more_docs().slice(1)}, mode="append", **given),
    "merge load": lambda graph, **given: graph.load(nodes={"Doc": more_docs()}, mode="merge", **given),
    "new branch": lambda graph, **given: graph.load(
        nodes={"Doc": more_docs()}, mode="merge", branch="made", from_="main", **given
    ),
    "merge": lambda graph, **given: graph.merge("side", **given),
    "new column": lambda graph, **given: graph.apply_schema(WIDER, **given),
    "new rule": lambda graph, **given: graph.apply_schema(RULED, **given),
    "new unique": lambda graph, **given: graph.apply_schema(UNIQUE, **given),
    "algorithm": lambda graph, **given: graph.algorithms.shortest_paths(
        "Cites", "d05", into="Doc.rank", engine="local", **given
    ),
}
READS: dict[str, Callable[..., object]] = {
    "export": lambda graph, **given: graph.export(io.BytesIO(), **given),
    "export stream": lambda graph, **given: list(graph.export_stream(**given)),
    "algorithm alone": lambda graph, **given: graph.algorithms.pagerank("Cites", engine="local", **given),
    "embed": lambda graph, **given: graph.embed("Doc", **given),
}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path / "g")


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """A graph that nothing changes: whatever is tried is ended."""
    return new_graph(tmp_path_factory.mktemp("lasting") / "g")


def files_of(graph: og.Graph) -> set[str]:
    root = Path(graph.uri)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("verb", [*WRITES, *READS])
def test_a_verb_is_ended_by_its_own_deadline(verb: str, lasting: og.Graph) -> None:
    graph = lasting
    head, before = graph.snapshot().commit.id, files_of(graph)

    with pytest.raises(og.QueryTimeoutError, match="ran longer than 1e-09 seconds"):
        {**WRITES, **READS}[verb](graph, seconds=1e-9)

    assert graph.snapshot().commit.id == head
    assert files_of(graph) == before


@pytest.mark.parametrize("verb", [*WRITES, *READS])
def test_a_verb_is_ended_by_the_deadline_of_the_settings(verb: str, lasting: og.Graph) -> None:
    hurried = og.open_graph(lasting.uri, runtime=runtime(replace(OPTIONS, query_seconds=1e-9)))

    with pytest.raises(og.QueryTimeoutError):
        {**WRITES, **READS}[verb](hurried)


@pytest.mark.parametrize(
    "verb", ["update", "delete", "merge load", "merge", "new unique", "export", "algorithm", "embed"]
)
def test_a_verb_is_ended_by_its_memory_limit(verb: str, lasting: og.Graph) -> None:
    graph = lasting
    head, before = graph.snapshot().commit.id, files_of(graph)

    with pytest.raises(og.QueryMemoryError, match="more than the 1 bytes that a") as refused:
        {**WRITES, **READS}[verb](graph, memory_bytes=1)

    assert "or raise the budget" in str(refused.value)
    assert graph.snapshot().commit.id == head
    assert files_of(graph) == before


@pytest.mark.parametrize("verb", WRITES)
def test_a_deadline_ends_a_write_wherever_it_is_and_never_behind_its_commit(verb: str, graph: og.Graph) -> None:
    write, before = WRITES[verb], files_of(graph)
    heads = heads_of(graph)
    messages = []

    for seconds in itertools.count():
        try:
            write(graph, budget=Budget(Ticking(), seconds=seconds))
        except og.QueryTimeoutError as error:
            messages.append(str(error))
            assert heads_of(graph) == heads
            assert files_of(graph) == before
        else:
            break

    assert len(messages) > 2
    assert all("nothing was changed" in message for message in messages)
    assert heads_of(graph) != heads


def heads_of(graph: og.Graph) -> dict[str, str]:
    """The newest commit of every branch."""
    return {one.name: graph.snapshot(branch=one.name).commit.id for one in graph.branches.list()}


def test_an_error_names_the_verb_and_what_became_of_it(lasting: og.Graph) -> None:
    with pytest.raises(og.QueryTimeoutError) as late:
        lasting.merge("side", seconds=1e-9)
    with pytest.raises(og.QueryMemoryError) as large:
        lasting.mutate("query q() { delete Doc where rank < 6 }", memory_bytes=1)

    assert str(late.value) == (
        "the merge ran longer than 1e-09 seconds, and nothing was changed: ask for less, or raise the deadline"
    )
    assert str(large.value).endswith(
        "than the 1 bytes that a mutation may use; nothing was changed: do it in smaller parts, or raise the budget"
    )


@pytest.mark.parametrize("verb", WRITES)
def test_a_write_that_is_cancelled_does_nothing(verb: str, lasting: og.Graph) -> None:
    budget = Budget(SystemClock())
    budget.cancel()

    with pytest.raises(og.QueryCancelledError, match="was cancelled"):
        WRITES[verb](lasting, budget=budget)


@pytest.mark.parametrize("given", [{"seconds": "soon"}, {"seconds": -1}, {"memory_bytes": -1}])
@pytest.mark.parametrize("verb", ["update", "append", "merge", "new column", "export", "embed", "algorithm"])
def test_a_limit_that_is_none_is_refused(verb: str, given: dict[str, object], lasting: og.Graph) -> None:
    with pytest.raises(og.BadArgumentError):
        {**WRITES, **READS}[verb](lasting, **given)


# --- updates of many rows ---------------------------------------------------------------------------------------------


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every update that may be streamed is."""
    monkeypatch.setattr(statements, "MAX_BUFFERED_ROWS", 0)


def docs(graph: og.Graph) -> list[dict[str, object]]:
    found = graph.query(
        "query q() { match { $d: Doc } return { $d.name as n, $d.rank as r, $d.text as t } order { n } }"
    )
    return found.rows()


@pytest.mark.parametrize(
    "text",
    [
        "update Doc set { rank: null } where rank > 3",
        'update Doc set { text: "new", rank: null } where not (rank < 3)',
        'update Doc set { text: null } where search(text, "main")',
        "update Doc set { rank: 5 } where rank > 100",
        'insert Doc { name: "z" } update Cites set { weight: 4 } where from = "d01" or to = "d01"',
    ],
)
def test_a_streamed_update_does_what_a_held_one_does(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, streamed = new_graph(tmp_path / "held"), new_graph(tmp_path / "streamed")

    one = held.mutate(f"query q() {{ {text} }}")
    monkeypatch.setattr(statements, "MAX_BUFFERED_ROWS", 0)
    other = streamed.mutate(f"query q() {{ {text} }}")

    assert (other.affected_nodes, other.affected_edges) == (one.affected_nodes, one.affected_edges)
    assert docs(streamed) == docs(held)
    assert (other.commit_id is None) == (one.commit_id is None)
    assert [finding.code for finding in streamed.check(deep=True).findings] == []


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    "text, message",
    [
        ("update Doc set { rank: 1 } where rank > 8", "@unique violation on Doc(rank, text)"),
        ('update Doc set { rank: 3, text: "t" } where rank = 7', "is held by 'd03' and 'd07'"),
    ],
)
def test_a_streamed_update_keeps_the_rules(text: str, message: str, graph: og.Graph) -> None:
    before = docs(graph)

    with pytest.raises(og.ConstraintError) as refused:
        graph.mutate(f"query q() {{ {text} }}")

    assert message in str(refused.value)
    assert docs(graph) == before


@pytest.mark.usefixtures("tiny")
def test_a_streamed_update_of_a_text_leaves_no_vector_behind(graph: og.Graph) -> None:
    graph.embed("Doc")

    graph.mutate('query q() { update Doc set { text: "other" } where rank < 3 }')

    waiting = graph.embed("Doc", dry_run=True).properties[0].waiting
    assert waiting == 3


@pytest.mark.usefixtures("tiny")
def test_statements_that_see_each_other_are_held(graph: og.Graph) -> None:
    graph.mutate(
        "query q() { update Doc set { rank: 100 } where rank = 1 update Doc set { text: null } where rank = 100 }"
    )

    assert docs(graph)[1] == {"n": "d01", "r": 100, "t": None}


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    "meanwhile", ['update Doc set { text: "x" } where rank = 2', 'insert Doc { name: "n", rank: 2 }']
)
def test_a_streamed_update_is_run_again_after_a_change_of_what_it_chose(
    meanwhile: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = StreamedRows.iter_stored

    def stored(rows: StreamedRows) -> object:
        monkeypatch.setattr(StreamedRows, "iter_stored", check)
        og.open_graph(graph.uri, runtime=runtime(OPTIONS)).mutate(f"query q() {{ {meanwhile} }}")
        return check(rows)

    monkeypatch.setattr(StreamedRows, "iter_stored", stored)

    result = graph.mutate("query q() { update Doc set { rank: null } where rank < 4 }")

    assert result.affected_nodes == (5 if meanwhile.startswith("insert") else 4)
    assert not {doc["r"] for doc in docs(graph)} & {0, 1, 2, 3}
