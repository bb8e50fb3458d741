"""Every verb works on any branch, and touches no other; a load may make the branch that it goes to."""

import io
import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from load_calls import person, text_of
from omnigraph.faults import ArmedFaults
from omnigraph.ops import load_branch
from omnigraph.ops.load import LoadResult, load
from omnigraph.options import EmbedOptions, EmbedProvider
from omnigraph.runtime import Runtime
from omnigraph.storage.layout import BRANCHES
from raised_codes import has_code
from worlds import FAST

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob?  vec: Vector(4)? @embed("name") }
edge Knows: Person -> Person
"""
OPTIONS = og.Options(
    durability=FAST.durability, backoff_seconds=0.001, embedding=EmbedOptions(provider=EmbedProvider.HASH)
)
NAMES = "query q() { match { $p: Person } return { $p.name as name } order { $p.name } }"
FRIENDS = 'query q() { match { $a: Person { name: "a" }  $a knows $b } return { $b.name as name } order { $b.name } }'


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Main has a and b, who a knows; the branch `dev` has c as well, who a knows too."""
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=Runtime(options=OPTIONS))
    graph.mutate(
        'query q($p: Blob) { insert Person { name: "a", photo: $p } insert Person { name: "b" }'
        ' insert Knows { from: "a", to: "b" } }',
        params={"p": b"main's"},
    )
    graph.branches.create("dev")
    graph.mutate(
        'query q() { insert Person { name: "c" } insert Knows { from: "a", to: "c" } }', branch="dev", actor="eve"
    )
    return graph


def names(graph: og.Graph, text: str = NAMES, **target: Any) -> list[Any]:
    return [row["name"] for row in graph.query(text, **target).rows()]


def exported(graph: og.Graph, **target: Any) -> list[dict[str, Any]]:
    out = io.BytesIO()
    graph.export(out, **target)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_query_reads_its_branch(graph: og.Graph) -> None:
    assert (names(graph), names(graph, branch="dev")) == (["a", "b"], ["a", "b", "c"])
    assert (names(graph, FRIENDS), names(graph, FRIENDS, branch="dev")) == (["b"], ["b", "c"])


def test_a_result_says_which_branch_it_is_of(graph: og.Graph) -> None:
    result = graph.query(NAMES, branch="dev")

    assert result.to_json()["target"] == {"branch": "dev"}
    assert result.commit_id == graph.snapshot(branch="dev").commit.id


def test_siblings_that_grew_apart_share_no_answer(graph: og.Graph) -> None:
    """Both added rows to the same tables at the same places; what is kept in memory must tell them apart."""
    graph.mutate('query q() { insert Person { name: "m" } insert Knows { from: "a", to: "m" } }')

    for _ in range(2):
        assert names(graph, FRIENDS) == ["b", "m"]
        assert names(graph, FRIENDS, branch="dev") == ["b", "c"]


def test_a_query_of_the_past_reads_before_the_fork(graph: og.Graph) -> None:
    forked = graph.commits()[0]

    assert names(graph, branch="dev", snapshot=forked.id) == ["a", "b"]


def test_explain_names_its_branch(graph: og.Graph) -> None:
    assert graph.explain(NAMES, branch="dev").text.startswith("query q at dev, commit ")


def test_a_mutation_changes_its_branch_only(graph: og.Graph) -> None:
    done = graph.mutate('query q() { delete Person where name = "a" }', branch="dev")

    assert (done.branch, done.affected_nodes, done.affected_edges) == ("dev", 1, 2)
    assert names(graph, branch="dev") == ["b", "c"]
    assert names(graph) == ["a", "b"]


def test_a_mutation_is_checked_on_its_branch(graph: og.Graph) -> None:
    with pytest.raises(og.ConstraintError, match="c"):
        graph.mutate('query q() { insert Knows { from: "b", to: "c" } }')

    graph.mutate('query q() { insert Knows { from: "b", to: "c" } }', branch="dev")
    assert graph.snapshot(branch="dev").pin("edge:Knows").rows == 3


@pytest.mark.parametrize("mode, records", [("append", [person("d")]), ("merge", [person("a", age=9), person("d")])])
def test_a_load_goes_to_its_branch_only(mode: str, records: list[Any], graph: og.Graph) -> None:
    result = graph.load(records, mode=mode, branch="dev")

    assert result.branch == "dev"
    assert names(graph, branch="dev") == ["a", "b", "c", "d"]
    assert names(graph) == ["a", "b"]


def test_an_export_is_of_its_branch(graph: og.Graph) -> None:
    people = [record["data"]["name"] for record in exported(graph, branch="dev") if record.get("type") == "Person"]

    assert people == ["a", "b", "c"]
    assert len(exported(graph)) == 3


def test_vectors_are_computed_on_their_branch(graph: og.Graph) -> None:
    result = graph.embed("Person", branch="dev")

    assert (result.branch, result.properties[0].embedded) == ("dev", 3)
    assert graph.table("Person", branch="dev").to_table(columns=["vec"])["vec"].null_count == 0
    assert graph.table("Person").to_table(columns=["vec"])["vec"].null_count == 2


def test_a_blob_is_its_branchs(graph: og.Graph) -> None:
    graph.mutate(
        'query q($p: Blob) { update Person set { photo: $p } where name = "a" }', params={"p": b"dev's"}, branch="dev"
    )

    streams = graph.blob("Person", "a", "photo"), graph.blob("Person", "a", "photo", branch="dev")

    assert [stream and stream.read() for stream in streams] == [b"main's", b"dev's"]


def test_history_is_the_branchs(graph: og.Graph) -> None:
    own, *before = graph.commits(branch="dev")

    assert (own.branch, own.actor) == ("dev", "eve")
    assert before == graph.commits()
    assert graph.commits(branch="dev", filters={"actor": "eve"}) == [own]
    assert graph.commit(own.id, branch="dev") == own
    assert graph.commit(own.id) == own
    with pytest.raises(og.CommitMissingError, match="the branch `main` has no commit"):
        graph.commit(own.id, branch="main")


@pytest.mark.parametrize(
    "verb",
    [
        lambda graph: graph.query(NAMES, branch="nope"),
        lambda graph: graph.explain(NAMES, branch="nope"),
        lambda graph: graph.mutate('query q() { insert Person { name: "z" } }', branch="nope"),
        lambda graph: graph.load([person("z")], mode="append", branch="nope"),
        lambda graph: graph.load([person("z")], mode="append", branch="new", from_="nope"),
        lambda graph: graph.export(io.BytesIO(), branch="nope"),
        lambda graph: graph.embed("Person", branch="nope"),
        lambda graph: graph.blob("Person", "a", "photo", branch="nope"),
        lambda graph: graph.table("Person", branch="nope"),
        lambda graph: graph.snapshot(branch="nope"),
        lambda graph: graph.commits(branch="nope"),
        lambda graph: graph.commit("x", branch="nope"),
        lambda graph: graph.branches.create("new", from_="nope"),
        lambda graph: graph.branches.delete("nope"),
    ],
)
def test_every_verb_refuses_a_branch_that_is_not_there(verb: Any, graph: og.Graph) -> None:
    before = [branch.name for branch in graph.branches.list()]

    with pytest.raises(og.BranchMissingError, match="no branch `nope`; it has `main`, `dev`"):
        verb(graph)

    assert [branch.name for branch in graph.branches.list()] == before


# --- loads that make their branch ------------------------------------------------------------------


def test_a_load_makes_the_branch_that_it_goes_to(graph: og.Graph) -> None:
    result = graph.load([person("z")], mode="append", branch="new/one", from_="dev", actor="ada")

    made = graph.branches.list()[-1]
    assert (made.name, made.parent_branch, made.created_by) == ("new/one", "dev", "ada")
    assert result.branch == "new/one"
    assert names(graph, branch="new/one") == ["a", "b", "c", "z"]
    assert graph.commit(result.commit_id or "", branch="new/one").branch == "new/one"


def test_a_load_that_fails_makes_no_branch(graph: og.Graph) -> None:
    manifests = graph._session.store.objects.list_under(BRANCHES)

    with pytest.raises(og.LoadError):
        graph.load([person("z"), person("a")], mode="append", branch="new", from_="main")

    assert [branch.name for branch in graph.branches.list()] == ["main", "dev"]
    assert graph._session.store.objects.list_under(BRANCHES) == manifests


def test_a_load_that_changes_nothing_makes_the_branch(graph: og.Graph) -> None:
    result = graph.load([person("a")], mode="merge", branch="new", from_="main")

    assert result.commit_id is None
    assert names(graph, branch="new") == ["a", "b"]


def test_a_dry_run_makes_no_branch(graph: og.Graph) -> None:
    result = graph.load([person("z")], mode="append", branch="new", from_="dev", dry_run=True)

    assert (result.branch, result.nodes["Person"].inserted) == ("new", 1)
    assert [branch.name for branch in graph.branches.list()] == ["main", "dev"]


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_load_that_makes_its_branch_needs_a_free_name(dry_run: bool, graph: og.Graph) -> None:
    with pytest.raises(og.BranchExistsError):
        graph.load([person("z")], mode="append", branch="dev", from_="main", dry_run=dry_run)
    with pytest.raises(og.BadArgumentError, check=has_code("bad_branch_name")):
        graph.load([person("z")], mode="append", branch="main", from_="dev", dry_run=dry_run)


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_load_into_a_taken_name_says_how_to_use_the_branch(dry_run: bool, graph: og.Graph) -> None:
    with pytest.raises(og.BranchExistsError) as refused:
        graph.load([person("z")], mode="append", branch="dev", from_="main", dry_run=dry_run)

    told = "the graph has a branch `dev` already; to load into it leave out `--from`, or add `--if-exists`"
    assert str(refused.value).startswith(told)
    assert refused.value.facts() == {"name": "dev", "existing": "dev"}
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)  # noqa: S301 - our own bytes


def test_a_load_with_if_exists_makes_its_branch_once_and_uses_it_then(graph: og.Graph) -> None:
    first, second = (
        graph.load([person(name)], mode="append", branch="new", from_="dev", if_exists=True) for name in "yz"
    )

    assert (first.branch, second.branch) == ("new", "new")
    assert [one.id for one in graph.commits(branch="new", limit=2)] == [second.commit_id, first.commit_id]
    assert names(graph, branch="new") == ["a", "b", "c", "y", "z"]


@pytest.mark.parametrize("is_file", [True, False])
def test_a_load_with_if_exists_uses_a_branch_that_another_load_makes_meanwhile(
    is_file: bool, graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "z.jsonl"
    file.write_bytes(text_of([person("z")]))

    def make_first(*args: Any, **options: Any) -> LoadResult:
        monkeypatch.undo()
        graph.load([person("y")], mode="append", branch="new", from_="main", if_exists=True)
        return load(*args, **options)

    monkeypatch.setattr(load_branch, "load", make_first)
    data = file if is_file else io.BytesIO(file.read_bytes())

    if is_file:
        done = graph.load(data, mode="append", branch="new", from_="main", if_exists=True)
        assert (done.branch, done.nodes["Person"].inserted) == ("new", 1)
    else:
        with pytest.raises(og.ConflictError, match=r"branch changed .*another writer created it.*retry"):
            graph.load(data, mode="append", branch="new", from_="main", if_exists=True)

    assert names(graph, branch="new") == ["a", "b", "y", *(["z"] if is_file else [])]


def test_a_load_with_if_exists_leaves_a_branch_that_is_there_as_it_was_when_it_fails(graph: og.Graph) -> None:
    with pytest.raises(og.LoadError):
        graph.load([person("z"), person("a")], mode="append", branch="dev", from_="main", if_exists=True)

    assert names(graph, branch="dev") == ["a", "b", "c"]


def test_a_dry_run_with_if_exists_checks_against_the_branch_that_is_there(graph: og.Graph) -> None:
    with pytest.raises(og.LoadError):
        graph.load([person("c")], mode="append", branch="dev", from_="main", if_exists=True, dry_run=True)

    done = graph.load([person("c")], mode="append", branch="new", from_="main", if_exists=True, dry_run=True)

    assert (done.branch, done.nodes["Person"].inserted) == ("new", 1)
    assert [branch.name for branch in graph.branches.list()] == ["main", "dev"]


@pytest.mark.parametrize(
    "options, error, told",
    [
        ({"branch": "dev"}, og.BadArgumentError, "`if_exists` can't be True: it needs `from_`"),
        ({"from_": "dev"}, og.BadArgumentError, "`main` can't be"),
        ({"branch": "dev/more", "from_": "main"}, og.BranchExistsError, "next to the branch `dev`: a branch name"),
        ({"branch": "then", "from_": "main"}, og.TagExistsError, "`then`"),
    ],
)
def test_if_exists_is_for_a_branch_of_that_very_name(
    options: dict[str, Any], error: type[og.OmnigraphError], told: str, graph: og.Graph
) -> None:
    graph.tags.create("then")

    with pytest.raises(error, match=re.escape(told)):
        graph.load([person("z")], mode="append", if_exists=True, **options)

    assert names(graph) == ["a", "b"]


def test_a_repeated_load_finds_the_branch_that_it_made(graph: og.Graph) -> None:
    def load() -> og.LoadResult:
        return graph.load([person("z")], mode="append", branch="new", from_="main", idempotency_key="k")

    first, again = load(), load()

    assert again.commit_id == first.commit_id
    assert names(graph, branch="new") == ["a", "b", "z"]


def test_a_load_whose_swap_is_lost_on_the_way_has_not_happened(graph: og.Graph) -> None:
    store = graph._session.store
    store.runtime = Runtime(options=OPTIONS, faults=ArmedFaults("publish.swapped", "error"))

    with pytest.raises(og.StoreUnavailableError, match="load into the new branch `new`"):
        graph.load([person("z")], mode="append", branch="new", from_="main")

    store.runtime = Runtime(options=OPTIONS)
    assert [branch.name for branch in graph.branches.list()] == ["main", "dev"]


def test_a_stream_can_make_its_branch(graph: og.Graph) -> None:
    graph.load(io.BytesIO(text_of([person("z")])), mode="append", branch="new", from_="main")

    assert names(graph, branch="new") == ["a", "b", "z"]
