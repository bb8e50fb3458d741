"""Routes of tools that show a graph: they say the same as an embedded graph, and what an actor sees, no more."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.ipc as pa_ipc
import pytest

import omnigraph as og
from omnigraph.json_struct import JsonStruct
from server_process import Process, laid_out, running
from serving import ALL, TOKENS, Served, serving

EDGES = """query knows() {
  match { $a: Person $a $k:knows $b path $w = $a knows{1,2} $c }
  return { $a, $k, $w, [$b] as bs, $b.age }
}"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = serving(tmp_path_factory.mktemp("browse"))
    with made.client:
        yield made


def posted(served: Served, route: str, body: dict[str, Any], role: str = "reader", graph: str = "people") -> Any:
    answer = served.client.post(f"/graphs/{graph}/{route}", json=body, headers=served.as_role(role))
    assert answer.status_code == 200, answer.text
    return answer.json()


def got(served: Served, path: str, role: str = "reader", **params: Any) -> Any:
    answer = served.client.get(path, params=params, headers=served.as_role(role))
    assert answer.status_code == 200, answer.text
    return answer.json()


# --- types ---------------------------------------------------------------------------------------------------


def test_every_column_of_an_answer_has_its_kind_and_type(served: Served) -> None:
    answer = posted(served, "query", {"query": EDGES})

    assert answer["types"] == [
        {"name": "a", "kind": "node", "type": "Person"},
        {"name": "k", "kind": "edge", "type": "Knows"},
        {"name": "w", "kind": "path", "type": "{nodes: [Person], edges: [Knows]}"},
        {"name": "bs", "kind": "list", "type": "[Person]"},
        {"name": "b.age", "kind": "value", "type": "I64?"},
    ]


def test_whole_nodes_and_edges_name_their_type_at_any_depth(served: Served) -> None:
    (row,) = posted(served, "query", {"query": EDGES})["rows"]

    found = [row["a"], row["k"], *row["w"]["nodes"], *row["w"]["edges"], *row["bs"]]
    assert [item["@type"] for item in found] == ["Person", "Knows", "Person", "Person", "Knows", "Person"]


def test_a_stream_keeps_the_types(served: Served) -> None:
    with served.client.stream(
        "POST",
        "/graphs/people/query",
        json={"query": EDGES},
        headers={**served.as_role("reader"), "Accept": "application/vnd.apache.arrow.stream"},
    ) as answer:
        table = pa_ipc.open_stream(answer.read()).read_all()

    expected = posted(served, "query", {"query": EDGES})["types"]
    result = og.Result.of_table(table, commit_id="", target=None, query_name="")  # type: ignore[arg-type]  # unused
    assert [column.to_json() for column in result.types] == expected


def test_sql_and_algorithms_have_types_too(served: Served) -> None:
    sql = posted(served, "sql", {"sql": "select name, age, [name] as names from Person order by name"})
    ranks = posted(served, "algorithms", {"name": "core_numbers", "edges": ["Knows"]})

    assert [(column["kind"], column["type"]) for column in sql["types"]] == [
        ("value", "String?"),
        ("value", "I64?"),
        ("list", "[String]?"),
    ]
    assert [column["name"] for column in ranks["types"]] == ranks["columns"]


# --- windows -------------------------------------------------------------------------------------------------


def test_a_window_has_its_rows_and_the_number_of_all(served: Served) -> None:
    window = {"limit": 1, "offset": 1, "sort": [{"column": "p.age", "descending": True}]}

    answer = posted(served, "query", {"query": ALL, **window})

    assert (answer["rows"], answer["row_count"], answer["total_rows"]) == ([{"p.name": "Ada", "p.age": 36}], 1, 2)


def test_a_window_is_of_its_commit_after_a_write(tmp_path: Path) -> None:
    served = serving(tmp_path)
    with served.client:
        first = posted(served, "query", {"query": ALL, "limit": 1})
        served.graph.mutate('query q() { insert Person { name: "Aaa" } }')
        second = posted(served, "query", {"query": ALL, "limit": 1, "offset": 1, "snapshot": first["commit_id"]})

    assert [row["p.name"] for row in first["rows"] + second["rows"]] == ["Ada", "Bob"]


@pytest.mark.parametrize(
    "body, place",
    [
        ({"offset": 1}, "limit"),
        ({"sort": [{"column": "p.name"}]}, "limit"),
        ({"limit": 0}, "limit"),
        ({"limit": 10_001}, "limit"),
        ({"limit": 1, "offset": -1}, "offset"),
        ({"limit": 1, "sort": [{"column": "p.nme"}]}, "did you mean `p.name`?"),
        ({"limit": 1, "max_staleness": 1.0}, "limit"),
    ],
)
def test_a_wrong_window_is_refused(served: Served, body: dict[str, Any], place: str) -> None:
    answer = served.client.post("/graphs/people/query", json={"query": ALL, **body}, headers=served.as_role("reader"))

    assert (answer.status_code, place in answer.json()["error"]) == (400, True)


# --- the same as embedded ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    home = tmp_path_factory.mktemp("remote")
    with running(laid_out(home), home) as found:
        yield found


@pytest.fixture(scope="module")
def remote(process: Process) -> Iterator[og.RemoteGraph]:
    with og.connect(f"http://{process.host}:{process.port}", TOKENS["admin"], graph="people") as graph:
        yield graph


CALLS = [
    lambda graph: graph.lint("query q($n: String?) { match { $p: Person } return { $p.nme } }"),
    lambda graph: graph.lint(ALL, schema="node City { name: String @key }"),
    lambda graph: graph.lint(ALL),
    lambda graph: graph.catalog(),
    lambda graph: graph.neighbours([("Person", "Ada"), ("Person", "Nobody")]),
    lambda graph: graph.neighbours([("Person", "Bob")], direction="in", edges=["knows"], limit=0),
    lambda graph: graph.search("aDa"),
    lambda graph: graph.search("bob", types=["Person"], limit=1),
    lambda graph: graph.query_window(EDGES, limit=1),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_server_says_the_same_as_an_embedded_graph(
    call: Callable[[Any], og.Result | JsonStruct], process: Process, remote: og.RemoteGraph
) -> None:
    here, there = call(process.graph), call(remote)

    assert there.to_json() == here.to_json()
    assert type(there) is type(here)
    assert isinstance(here, og.Result) or there == here


def test_permissions_of_a_server_are_those_of_the_token(process: Process, remote: og.RemoteGraph) -> None:
    here, there = process.graph.permissions(), remote.permissions()

    assert (there.actor, there.branches) == ("admin", here.branches)
    # Some actions have to be named by a policy, and this one names none.
    assert set(there.actions) <= set(here.actions)
    assert remote.permissions(branches=["main", "missing"]).branches == here.branches


@pytest.mark.parametrize(
    "text", ["match { $p: Person } return { $p }", "query query() { match { $p: Person } return { $p } }"]
)
def test_a_text_without_a_head_is_checked_as_it_would_run(served: Served, text: str) -> None:
    report = posted(served, "lint", {"query": text})

    assert (report["errors"], report["diagnostics"]) == (0, [])
    assert report["queries"] == [{"name": "query", "kind": "read", "params": [], "description": None}]


def test_a_broken_query_does_not_hide_the_parameters_of_another(served: Served) -> None:
    broken = "query b() { match { $p: Persn } return { $p } }"

    report = posted(
        served, "lint", {"query": f"query a($n: String?) {{ match {{ $p: Person }} return {{ $p }} }} {broken}"}
    )

    assert [finding["code"] for finding in report["diagnostics"]] == ["T1"]
    assert report["queries"][0]["params"] == [{"name": "n", "type": "String", "nullable": True}]


# --- permissions ---------------------------------------------------------------------------------------------


def test_an_actor_learns_what_it_may_do(served: Served) -> None:
    me = got(served, "/graphs/people/me")

    assert (me["actor"], me["groups"], me["graph"], me["read_only"]) == ("reader", ["readers"], "people", False)
    assert me["actions"] == ["read", "graph_list"]
    assert me["branches"] == [{"name": "main", "actions": ["read"], "hides_rows": False}]


def test_an_actor_without_rights_learns_no_more_than_of_a_missing_graph(served: Served) -> None:
    answers = [
        served.client.get(f"/graphs/{name}/me", headers=served.as_role("nobody")) for name in ("people", "missing")
    ]

    bodies = [{**answer.json(), "request_id": ""} for answer in answers]
    assert answers[0].status_code == 403
    assert bodies[0] == bodies[1]


def test_hidden_branches_are_not_listed(tmp_path: Path) -> None:
    served = serving(tmp_path)
    served.graph.branches.create("vault/secret")
    with served.client:
        seen = {role: got(served, "/graphs/people/me", role) for role in ("writer", "admin")}

    names = {role: [branch["name"] for branch in me["branches"]] for role, me in seen.items()}
    assert names == {"writer": ["main"], "admin": ["main", "vault/secret"]}


def test_a_token_says_whose_it_is(served: Served) -> None:
    assert got(served, "/me", "writer") == {"actor": "writer", "groups": ["writers"], "is_authenticated": True}


# --- names of stored queries that run -------------------------------------------------------------------------


def test_a_stored_query_that_reads_has_a_name_while_it_runs(served: Served) -> None:
    def invoke(name: str, params: dict[str, Any]) -> Any:
        body = {"params": params, "query_id": "mine"}
        answer = served.client.post(f"/graphs/people/queries/{name}", json=body, headers=served.as_role("admin"))
        return answer.json()

    with served.service.running.track("people", "admin", "mine", "friends", served.service.build_read_budget()):
        taken = invoke("friends", {"n": "Ada"})
    free = invoke("friends", {"n": "Ada"})
    written = invoke("rename_age", {"n": "Ada", "a": 1})

    assert taken["code"] == "bad_request"
    assert free["rows"] == [{"q.name": "Bob"}]
    assert "does not take `query_id`" in written["error"]
