"""Idempotency keys: a request that is sent again is answered as before; a key is one actor's, for one request."""

import io
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import omnigraph as og
from load_calls import loaded, person, text_of
from mutating import SCHEMA, column, new_graph, people
from omnigraph.commit.idempotency import check_same_request
from omnigraph.ops import load_digest
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from worlds import FAST, runtime

ADD_A = 'query q() { insert Person { name: "a" } }'
ADD_B = 'query q() { insert Person { name: "b" } }'


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path)


@pytest.mark.parametrize("statement", ['insert Person { name: "b" }', 'update Person set { age: 7 } where name = "a"'])
def test_a_key_of_another_actor_is_another_key(graph: og.Graph, statement: str) -> None:
    people(graph, "a")
    first = graph.mutate(
        'query q() { insert Team { name: "t" } insert Leads { from: "t", to: "a" } }', idempotency_key="k", actor="ada"
    )

    second = graph.mutate(f"query q() {{ {statement} }}", idempotency_key="k", actor="bob")

    assert second.commit_id != first.commit_id
    assert (second.affected_nodes, second.affected_edges) == (1, 0)


def test_a_mutation_whose_commit_was_sealed_is_still_known(tmp_path: Path) -> None:
    options = replace(FAST, head_commits=4, sealed_fragments=2)
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime(options))
    text = 'query q() { update Person set { age: 7 } where name = "a" }'
    people(graph, "a")
    first = graph.mutate(text, idempotency_key="k")
    graph.mutate('query q() { update Person set { age: 8 } where name = "a" }')
    for number in range(12):
        people(graph, f"p{number}")

    again = graph.mutate(text, idempotency_key="k")

    assert again == first
    assert column(graph, "Person", "age")[0] == 8


ADD = "query q($n: String) { insert Person { name: $n } }"
"""A mutation whose layout and comments are nothing that a key belongs to."""


def test_a_mutation_that_was_done_is_answered_however_its_text_is_laid_out(graph: og.Graph) -> None:
    first = graph.mutate(ADD, params={"n": "a"}, idempotency_key="k")

    again = graph.mutate(
        f'// again\n{ADD}\nquery other() {{ delete Person where name = "a" }}',
        name="q",
        params={"n": "a"},
        idempotency_key="k",
    )

    assert again == first


@pytest.mark.parametrize(
    "text, params",
    [
        pytest.param(ADD, {"n": "b"}, id="other parameters"),
        pytest.param(ADD_B, {}, id="another query"),
        pytest.param(ADD, {"n": 1}, id="parameters that don't fit"),
    ],
)
def test_a_key_of_a_mutation_is_none_for_another_one(graph: og.Graph, text: str, params: dict[str, object]) -> None:
    done = graph.mutate(ADD, params={"n": "a"}, idempotency_key="k")

    with pytest.raises(og.KeyReusedError) as caught:
        graph.mutate(text, params=params, idempotency_key="k")

    assert str(caught.value) == (
        f"the idempotency key `k` was used before, for another request: `mutate` made the commit"
        f" {done.commit_id}, and this is `mutate of something else`; give this request a key of its own"
    )
    assert column(graph, "Person", "id") == ["a"]


def test_a_key_of_another_mutation_that_came_meanwhile_is_refused(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = og.open_graph(graph.uri, runtime=runtime())
    waiting, fresh = [other._session.head()], Session.head
    graph.mutate(ADD_A, idempotency_key="k", actor="ada")

    for look in ("head", "cached_head"):
        monkeypatch.setattr(Session, look, lambda session: waiting.pop() if waiting else fresh(session))
    with pytest.raises(og.KeyReusedError, match="`mutate of something else`"):
        other.mutate(ADD_B, idempotency_key="k", actor="ada")

    assert column(graph, "Person", "id") == ["a"]
    assert not waiting


def test_a_commit_from_before_requests_were_kept_answers_by_its_key_alone(graph: og.Graph) -> None:
    done = graph.mutate(ADD, params={"n": "a"}, idempotency_key="k")
    commit = graph.commit(done.commit_id or "")
    old = msgspec.structs.replace(commit, request=None)

    check_same_request(old, "mutate", "a digest")

    assert commit.request is not None


def test_a_key_of_a_load_is_none_for_a_mutation(graph: og.Graph) -> None:
    done = loaded(graph, "append", person("a"), idempotency_key="k", actor="ada")

    with pytest.raises(og.KeyReusedError) as caught:
        graph.mutate(ADD_B, idempotency_key="k", actor="ada")

    assert str(caught.value) == (
        f"the idempotency key `k` was used before, for another request: `load` made the commit"
        f" {done.commit_id}, and this is `mutate`; give this request a key of its own"
    )
    assert caught.value.kind is og.Kind.INVALID
    assert caught.value.code == "idempotency_key_reused"
    assert column(graph, "Person", "id") == ["a"]


def test_a_key_of_a_mutation_is_none_for_a_load(graph: og.Graph) -> None:
    graph.mutate(ADD_A, idempotency_key="k", actor="test")

    with pytest.raises(og.KeyReusedError, match=r"`mutate` made the commit .*, and this is `load`"):
        loaded(graph, "append", person("b"), idempotency_key="k")

    assert column(graph, "Person", "id") == ["a"]


def test_a_key_of_a_load_is_none_for_a_load_in_another_mode(graph: og.Graph) -> None:
    loaded(graph, "append", person("a"), idempotency_key="k")

    with pytest.raises(og.KeyReusedError, match=r"`load append` made the commit .*, and this is `load overwrite`"):
        loaded(graph, "overwrite", person("b"), idempotency_key="k")

    assert column(graph, "Person", "id") == ["a"]


# --- what a load is known by -------------------------------------------------------------------------


def rows_of(*names: str) -> pa.Table:
    return pa.table({"name": list(names)})


def file_of(path: Path, *names: str) -> str:
    path.write_text("\n".join(["name", *names]) + "\n")
    return str(path)


LOADS: dict[str, Callable[[og.Graph, Path, tuple[str, ...]], object]] = {
    "graph JSONL": lambda graph, _, names: graph.load(
        io.BytesIO(text_of(map(person, names))), mode="append", idempotency_key="k"
    ),
    "records": lambda graph, _, names: graph.load(list(map(person, names)), mode="append", idempotency_key="k"),
    "a table": lambda graph, _, names: graph.load(
        nodes={"Person": rows_of(*names)}, mode="append", idempotency_key="k"
    ),
    "a stream of tables": lambda graph, _, names: graph.load(
        nodes={"Person": rows_of(*names).to_reader()},
        mode="append",
        idempotency_key="k",
    ),
    "a file": lambda graph, path, names: graph.load(
        nodes={"Person": file_of(path / "p.csv", *names)}, mode="append", idempotency_key="k"
    ),
}


@pytest.mark.parametrize("kind", LOADS)
def test_a_key_of_a_load_is_none_for_other_data(kind: str, graph: og.Graph, tmp_path: Path) -> None:
    first = LOADS[kind](graph, tmp_path, ("a", "b"))

    again = LOADS[kind](graph, tmp_path, ("a", "b"))
    with pytest.raises(og.KeyReusedError, match="`load of something else`"):
        LOADS[kind](graph, tmp_path, ("a", "c"))

    assert again == first
    assert column(graph, "Person", "id") == ["a", "b"]


def test_a_load_is_known_by_what_its_file_holds_and_not_by_its_name(graph: og.Graph, tmp_path: Path) -> None:
    first, moved = (file_of(tmp_path / name, "a") for name in ("one.csv", "two.csv"))

    done = graph.load(nodes={"Person": first}, mode="append", idempotency_key="k")

    assert graph.load(nodes={"Person": moved}, mode="append", idempotency_key="k") == done


def test_a_large_file_is_known_by_its_size_and_time(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_digest, "MAX_WHOLE_FILE_BYTES", 4)
    path = tmp_path / "p.csv"
    done = graph.load(nodes={"Person": file_of(path, "a")}, mode="append", idempotency_key="k")
    again = graph.load(nodes={"Person": str(path)}, mode="append", idempotency_key="k")
    os.utime(path, ns=(0, 0))

    with pytest.raises(og.KeyReusedError):
        graph.load(nodes={"Person": str(path)}, mode="append", idempotency_key="k")

    assert again == done


@pytest.mark.parametrize("options", [{"max_errors": 3}, {"only_known": True}])
def test_a_key_of_a_load_is_none_for_other_options(options: dict[str, Any], graph: og.Graph, tmp_path: Path) -> None:
    given: dict[str, Any] = {"on_error": tmp_path / "bad", "idempotency_key": "k"}
    loaded(graph, "merge", person("a"), **given)

    with pytest.raises(og.KeyReusedError):
        loaded(graph, "merge", person("a"), **given, **options)


@pytest.mark.parametrize("second, is_same", [("a", True), ("b", False)])
def test_what_comes_by_a_pipe_is_compared_too(graph: og.Graph, tmp_path: Path, second: str, *, is_same: bool) -> None:
    pipe = tmp_path / "people.jsonl"
    os.mkfifo(pipe)

    def load(name: str) -> og.LoadResult:
        writer = Thread(target=pipe.write_bytes, args=(text_of([person(name)]),))
        writer.start()
        try:
            return graph.load(str(pipe), mode="append", idempotency_key="k")
        finally:
            writer.join()

    first = load("a")

    assert first.nodes["Person"].inserted == 1
    if is_same:
        assert load(second) == first
    else:
        with pytest.raises(og.KeyReusedError):
            load(second)


def test_a_pipe_of_one_type_has_no_key(graph: og.Graph, tmp_path: Path) -> None:
    pipe = tmp_path / "people.csv"
    os.mkfifo(pipe)

    with pytest.raises(og.BadArgumentError, match="can be read only once"):
        graph.load(nodes={"Person": str(pipe)}, mode="append", idempotency_key="k")


def test_a_load_that_meets_its_key_with_other_data_at_the_swap_is_refused(graph: og.Graph) -> None:
    other = og.open_graph(graph.uri, runtime=runtime())
    head = other._session.head()
    loaded(graph, "append", person("a"), idempotency_key="k")

    with pytest.raises(og.KeyReusedError):
        write_tables(
            other._session,
            [TableWrite(table_key="node:Team", append=pa.table({"id": ["t"], "name": ["t"]}))],
            operation="load",
            actor="test",
            base=head,
            idempotency_key="k",
            request="other",
        )

    assert column(graph, "Team", "id") == []


def test_a_key_that_another_request_takes_meanwhile_is_refused(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = og.open_graph(graph.uri, runtime=runtime())
    waiting, fresh = [other._session.head()], Session.head
    loaded(graph, "append", person("a"), idempotency_key="k", actor="ada")

    for look in ("head", "cached_head"):
        monkeypatch.setattr(Session, look, lambda session: waiting.pop() if waiting else fresh(session))
    with pytest.raises(og.KeyReusedError, match="`load` made the commit"):
        other.mutate(ADD_B, idempotency_key="k", actor="ada")

    assert column(graph, "Person", "id") == ["a"]
    assert not waiting


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_dry_run_does_not_care_whether_its_key_was_used(graph: og.Graph, mode: str) -> None:
    loaded(graph, "append", person("a"), idempotency_key="k")

    result = loaded(graph, mode, person("b"), person("c"), idempotency_key="k", is_dry_run=True)

    assert result.is_dry_run
    assert result.commit_id is None
    assert result.nodes["Person"].inserted == 2
