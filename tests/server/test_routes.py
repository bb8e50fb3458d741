"""What the routes answer is what the embedded graph answers."""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow.ipc as pa_ipc
import pytest

from serving import ADD, ALL, SCHEMA, Served, serving

NDJSON, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found = serving(tmp_path_factory.mktemp("routes"))
    yield found
    found.service.close()


def ask(served: Served, method: str, path: str, *, role: str = "admin", **how: Any) -> Any:
    """The JSON of an answer that is fine."""
    response = served.client.request(method, f"/graphs/people{path}", headers=served.as_role(role), **how)
    assert response.is_success, response.text
    return response.json()


def refused(served: Served, method: str, path: str, *, role: str = "admin", **how: Any) -> tuple[int, Any]:
    """The status and JSON of one that is not."""
    response = served.client.request(method, f"/graphs/people{path}", headers=served.as_role(role), **how)
    assert not response.is_success
    return response.status_code, response.json()


# --- reading -----------------------------------------------------------------------------------------------


def test_a_query_answers_what_the_graph_answers(served: Served) -> None:
    answer = ask(served, "POST", "/query", json={"query": ALL})

    assert answer == served.graph.query(ALL).to_json()


def test_a_query_needs_no_name(served: Served) -> None:
    answer = ask(served, "POST", "/query", json={"query": "match { $p: Person } return { count($p) as n }"})
    named = ask(
        served, "POST", "/query", json={"query": "query q() { match { $p: Person } return { count($p) as n } }"}
    )

    assert answer["rows"] == named["rows"]
    assert answer["rows"][0]["n"] > 0


@pytest.mark.parametrize("query", [ALL, 'query none() { match { $p: Person { name: "Zoe" } } return { $p.name } }'])
def test_streams_have_the_rows_of_the_document(query: str, served: Served) -> None:
    expected = served.graph.query(query)
    answers = {
        accept: served.client.post(
            "/graphs/people/query", json={"query": query}, headers={**served.as_role("reader"), "Accept": accept}
        )
        for accept in (NDJSON, ARROW)
    }

    assert [json.loads(line) for line in answers[NDJSON].text.splitlines()] == list(expected.json_rows())
    assert pa_ipc.open_stream(answers[ARROW].content).read_all() == expected.to_arrow()
    assert {answer.headers["omnigraph-commit"] for answer in answers.values()} == {expected.commit_id}
    assert {answer.headers["omnigraph-rows"] for answer in answers.values()} == {str(expected.row_count)}


def test_the_state_of_a_commit_and_of_a_time_are_read(served: Served) -> None:
    first = served.graph.commits()[-1]

    by_commit = ask(served, "POST", "/query", json={"query": ALL, "snapshot": first.id})
    by_time = ask(served, "POST", "/query", json={"query": ALL, "at": first.at})

    assert by_commit["row_count"] == by_time["row_count"] == 0
    assert by_commit["target"] == {"snapshot": first.id}


def test_a_plan_is_explained(served: Served) -> None:
    answer = ask(served, "POST", "/explain", json={"query": ALL, "analyze": True})

    assert answer["measured"]["rows"] == served.graph.query(ALL).row_count
    assert "scan $p: Person" in answer["text"]


def test_the_schema_and_the_snapshot_are_those_of_the_graph(served: Served) -> None:
    assert ask(served, "GET", "/schema")["schema"] == served.graph.schema
    state = served.graph.snapshot()
    assert ask(served, "GET", "/snapshot") == {**state.to_json(), "commit": state.commit.to_json()}


def test_an_export_can_be_loaded(served: Served) -> None:
    text = served.client.post("/graphs/people/export", json={}, headers=served.as_role("writer")).content

    answer = ask(served, "POST", "/load?mode=merge", content=text)

    counts = [*answer["nodes"].values(), *answer["edges"].values()]
    assert sum(one["read"] for one in counts) == len(text.splitlines())
    assert sum(one["unchanged"] for one in counts) == len(text.splitlines())


# --- pages -------------------------------------------------------------------------------------------------


def pages(served: Served, path: str, items: str) -> list[Any]:
    """All items of all pages."""
    found, cursor = [], None
    while True:
        page = ask(served, "GET", f"{path}&cursor={cursor}" if cursor else path)
        found += page[items]
        cursor = page["next_cursor"]
        if cursor is None:
            return found


def test_pages_of_commits_are_the_history(served: Served) -> None:
    found = pages(served, "/commits?limit=1", "commits")

    assert [one["id"] for one in found] == [one.id for one in served.graph.commits()]


def test_pages_of_branches_are_all_branches(served: Served) -> None:
    for name in ("a", "b/c", "zz"):
        served.graph.branches.create(f"paged/{name}")

    found = pages(served, "/branches?limit=2", "branches")

    assert [one["name"] for one in found] == [one.name for one in served.graph.branches.list()]


def test_pages_of_a_difference_are_of_two_fixed_commits(served: Served) -> None:
    served.graph.branches.create("differs")
    for name in ("P", "Q", "R"):
        served.graph.mutate(ADD, params={"n": name}, branch="differs")

    first = ask(served, "GET", "/diff?before=main&after=differs&limit=2")
    served.graph.mutate(ADD, params={"n": "too late"}, branch="differs")
    second = ask(served, "GET", f"/diff?before=main&after=differs&limit=2&cursor={first['next_cursor']}")

    assert [one["id"] for one in first["changes"] + second["changes"]] == ["P", "Q", "R"]
    assert second["next_cursor"] is None


def test_pages_of_changes_are_the_feed(served: Served) -> None:
    found = pages(served, "/changes?limit=1", "changes")

    assert [one["commit"] for one in found] == [one.id for one in reversed(served.graph.commits())]


def test_a_cursor_of_something_else_is_refused(served: Served) -> None:
    cursor = ask(served, "GET", "/commits?limit=1")["next_cursor"]

    assert refused(served, "GET", f"/branches?cursor={cursor}")[1]["code"] == "bad_cursor"
    assert refused(served, "GET", f"/commits?branch=differs&cursor={cursor}")[1]["code"] == "bad_cursor"
    assert refused(served, "GET", "/commits?cursor=%00%FF")[1]["code"] == "bad_cursor"


# --- writing -----------------------------------------------------------------------------------------------


def test_a_commit_is_by_the_owner_of_the_token(served: Served) -> None:
    answer = ask(served, "POST", "/mutate", role="writer", json={"query": ADD, "params": {"n": "Carl"}})

    assert served.graph.commit(answer["commit_id"]).actor == "writer"


@pytest.mark.parametrize("place", ["body", "parameter", "header"])
def test_nobody_can_say_who_they_are(place: str, served: Served) -> None:
    body: dict[str, Any] = {"query": ADD, "params": {"n": f"by {place}"}}
    headers = {**served.as_role("writer"), "X-Actor": "admin", "Omnigraph-Actor": "admin"}
    url = "/graphs/people/mutate?actor=admin" if place == "parameter" else "/graphs/people/mutate"
    if place == "body":
        body["actor"] = "admin"

    response = served.client.post(url, json=body, headers=headers)

    if place in {"body", "parameter"}:
        assert (response.status_code, response.json()["code"]) == (400, "bad_request")
    else:
        assert served.graph.commit(response.json()["commit_id"]).actor == "writer"


def test_a_key_makes_a_repeated_mutation_one(served: Served) -> None:
    body = {"query": ADD, "params": {"n": "Once"}, "idempotency_key": "k1"}

    first, second = (ask(served, "POST", "/mutate", json=body) for _ in range(2))

    assert first == second


def test_a_head_that_moved_is_a_conflict_with_its_versions(served: Served) -> None:
    old = served.graph.commits()[-1].id
    body = {"query": ADD, "params": {"n": "Late"}, "if_commit": old}

    status, answer = refused(served, "POST", "/mutate", json=body)

    head = served.graph.snapshot().commit.id
    assert (status, answer["code"], answer["kind"]) == (409, "conflict", "conflict")
    assert answer["manifest_conflict"] == {"table_key": "graph_head", "expected": old, "actual": head}


def test_a_load_into_a_new_branch_makes_it(served: Served) -> None:
    line = b'{"type":"Person","data":{"name":"Nina"}}'

    answer = ask(served, "POST", "/load?mode=append&branch=fresh&from=main", role="writer", content=line)

    assert answer["target"] == {"branch": "fresh"}
    assert served.graph.query(ALL, branch="fresh").row_count == served.graph.query(ALL).row_count + 1


def test_a_load_into_a_branch_that_may_be_there(served: Served) -> None:
    line = b'{"type":"Person","data":{"name":"Olga"}}'
    path = "/load?mode=merge&branch=maybe&from=main"

    first, again = (ask(served, "POST", f"{path}&if_exists=true", role="writer", content=line) for _ in range(2))
    status, refusal = refused(served, "POST", path, content=line)

    assert (first["nodes"]["Person"]["inserted"], again["nodes"]["Person"]["unchanged"]) == (1, 1)
    assert (status, refusal["code"]) == (409, "branch_exists")
    assert "add `--if-exists` (`if_exists`)" in refusal["error"]


def test_a_bad_record_is_told_with_its_line(served: Served) -> None:
    lines = b'{"type":"Person","data":{"name":"Ok"}}\n{"type":"Person","data":{"name":7}}\n'

    status, answer = refused(served, "POST", "/load?mode=append", content=lines)

    assert (status, answer["code"]) == (422, "load_refused")
    assert "body" in answer["error"]
    assert "line 2" in answer["error"] or ":2" in answer["error"]


def test_branches_are_made_merged_and_deleted(served: Served) -> None:
    made = ask(served, "POST", "/branches", role="writer", json={"name": "job/x"})
    ask(served, "POST", "/mutate", role="writer", json={"query": ADD, "params": {"n": "Wim"}, "branch": "job/x"})
    merged = ask(served, "POST", "/merge", role="writer", json={"source": "job/x"})
    gone = ask(served, "DELETE", "/branches/job/x", role="writer")

    assert made["created_by"] == "writer"
    assert merged["outcome"] in {"fast_forward", "merged"}
    assert gone["name"] == "job/x"
    assert "Wim" in {row["p.name"] for row in served.graph.query(ALL).rows()}


def test_conflicts_of_a_merge_are_listed(served: Served) -> None:
    update = 'query u($a: I64) { update Person set { age: $a } where name = "Ada" }'
    served.graph.branches.create("other")
    served.graph.mutate(update, params={"a": 1}, branch="other")
    served.graph.mutate(update, params={"a": 2})

    status, answer = refused(served, "POST", "/merge", json={"source": "other"})

    assert (status, answer["code"], answer["kind"]) == (409, "merge_conflicts", "conflict")
    assert len(answer["conflicts"]) == answer["merge"]["conflicts"]["total"] == 1


def test_a_schema_is_planned_and_applied(served: Served) -> None:
    served.graph.branches.create("typed")
    schema = SCHEMA.replace("age: I64?", "age: I64?  city: String?")

    plan = ask(served, "POST", "/schema/plan", json={"schema": schema, "branch": "typed"})
    done = ask(served, "POST", "/schema/apply", json={"schema": schema, "branch": "typed"})

    assert [step["step"] for step in plan["steps"]] == ["add_property"]
    assert done["commit_id"] == served.graph.snapshot(branch="typed").commit.id


def test_a_drop_of_values_needs_a_permission(served: Served) -> None:
    served.graph.branches.create("narrow")
    body = {"schema": SCHEMA.replace("  age: I64?", ""), "branch": "narrow"}

    status, answer = refused(served, "POST", "/schema/apply", json=body)
    done = ask(served, "POST", "/schema/apply", json={**body, "allow_drops": True})

    assert (status, answer["code"]) == (422, "schema_drops_data")
    assert answer["steps"][0]["details"]["values"] > 0
    assert done["drops_values"] is True


# --- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body, status, code",
    [
        ({"query": ADD, "params": {"n": "x"}}, 400, "not_a_read"),
        ({"query": "query q( {"}, 400, "invalid_source"),
        ({"query": ALL, "name": "nope"}, 404, "query_not_found"),
        ({"query": ALL, "params": {"x": 1}}, 400, "invalid_parameters"),
        ({"query": ALL, "branch": "nowhere"}, 404, "branch_not_found"),
        ({"query": ALL, "snapshot": "01JC0000000000000000000000"}, 404, "commit_not_found"),
        ({"query": ALL, "at": "yesterday"}, 400, "bad_request"),
        ({"query": ALL, "at": "2030-01-01T00:00:00Z", "snapshot": "x"}, 400, "target_ambiguous"),
        ({}, 400, "bad_request"),
        ({"query": ALL, "extra": 1}, 400, "bad_request"),
    ],
)
def test_what_is_wrong_with_a_query_has_its_status_and_code(
    body: dict[str, Any], status: int, code: str, served: Served
) -> None:
    found, answer = refused(served, "POST", "/query", json=body)

    assert (found, answer["code"]) == (status, code)
    assert set(answer) >= {"error", "code", "kind", "request_id"}


@pytest.mark.parametrize(
    "body, reason",
    [
        ({"quer": ALL}, "unknown field `quer`; did you mean `query`?"),
        ({"query": ALL, "language": "gq"}, "unknown field `language`; the fields are `at`, `branch`, `engine`,"),
        ({"query": ALL, "limit": 1, "sort": [{"colum": 1}]}, "unknown field `colum` - at `$.sort[0]`"),
    ],
)
def test_an_unknown_field_says_which_there_are(served: Served, body: dict[str, Any], reason: str) -> None:
    answer = served.client.post("/graphs/people/query", json=body, headers=served.as_role("reader"))

    assert (answer.status_code, reason in answer.json()["reason"]) == (400, True), answer.text


def test_mistakes_of_a_text_are_told_with_their_places(served: Served) -> None:
    _, answer = refused(
        served, "POST", "/query", json={"query": "query q() { match { $p: Persn } return { $p.name } }"}
    )

    assert [(one["code"], one["start"]["column"]) for one in answer["diagnostics"]] == [("T1", 25)]


def test_a_graph_that_is_not_there_looks_like_one_that_may_not_be_read(served: Served) -> None:
    answers = [
        served.client.post(f"/graphs/{graph}/query", json={"query": ALL}, headers=served.as_role("nobody"))
        for graph in ("people", "secret")
    ]

    bodies = [{**answer.json(), "request_id": None} for answer in answers]
    assert [answer.status_code for answer in answers] == [403, 403]
    assert bodies[0] == bodies[1]
    assert refused(served, "GET", "/nowhere")[0] == 404


def test_no_answer_names_the_place_of_a_graph(served: Served) -> None:
    config = served.service.registry.graphs["people"].session
    assert config is not None
    config.is_read_only = True
    try:
        status, answer = refused(served, "POST", "/mutate", json={"query": ADD, "params": {"n": "No"}})
    finally:
        config.is_read_only = False

    assert (status, answer["code"]) == (400, "read_only")
    assert str(served.home) not in json.dumps(answer)
    assert answer["uri"] == "people"


# --- stored queries ------------------------------------------------------------------------------------------


def test_a_stored_query_is_run_with_parameters(served: Served) -> None:
    answer = ask(served, "POST", "/queries/friends", role="reader", json={"params": {"n": "Ada"}})

    assert answer["rows"][0] == {"q.name": "Bob"}


def test_a_stored_mutation_needs_the_right_to_change(served: Served) -> None:
    body = {"params": {"n": "Bob", "a": 50}}

    denied = refused(served, "POST", "/queries/rename_age", role="reader", json=body)
    done = ask(served, "POST", "/queries/rename_age", role="writer", json=body)

    assert denied[0] == 404
    assert done["affected_nodes"] == 1


def test_a_stored_query_that_may_not_be_run_looks_like_one_that_is_not_there(served: Served) -> None:
    answers = [
        served.client.post(f"/graphs/people/queries/{name}", json={}, headers=served.as_role("reader"))
        for name in ("everybody", "nowhere")
    ]

    volatile = {"x-request-id", "content-length"}
    heads = [{name: text for name, text in one.headers.items() if name not in volatile} for one in answers]
    bodies = [{**one.json(), "request_id": None} for one in answers]
    assert [one.status_code for one in answers] == [404, 404]
    assert heads[0] == heads[1]
    assert json.dumps(bodies[0]).replace("everybody", "nowhere") == json.dumps(bodies[1])


def test_an_actor_sees_the_stored_queries_that_they_may_run(served: Served) -> None:
    of_reader = ask(served, "GET", "/queries", role="reader")["queries"]
    of_admin = ask(served, "GET", "/queries")["queries"]

    assert [one["name"] for one in of_reader] == ["friends"]
    assert [(one["name"], one["kind"]) for one in of_admin] == [
        ("everybody", "read"),
        ("friends", "read"),
        ("rename_age", "mutation"),
    ]
    assert of_reader[0]["params"] == [{"name": "n", "type": "String", "nullable": False}]
    assert of_reader[0]["description"] == "Whom somebody knows."


def test_a_stored_query_takes_nothing_of_the_other_kind(served: Served) -> None:
    status, answer = refused(served, "POST", "/queries/friends", json={"params": {"n": "Ada"}, "message": "m"})

    assert (status, answer["code"]) == (400, "bad_request")
    assert "message" in answer["error"]


def test_changed_stored_queries_count_once_they_are_right(served: Served) -> None:
    stored = served.service.registry.graphs["people"].stored_queries
    assert stored is not None
    path = served.home / "queries" / "more.gq"

    path.write_text("query broken() { match { $p: Persn } return { $p.name } }", encoding="utf-8")
    stored._checked_at -= 10
    while_broken = [one.name for one in stored.list_all()]
    path.write_text("query whole() { match { $p: Person } return { $p.name } }  ", encoding="utf-8")
    stored._checked_at -= 10
    when_right = [one.name for one in stored.list_all()]

    assert while_broken == ["everybody", "friends", "rename_age"]
    assert when_right == ["everybody", "friends", "rename_age", "whole"]
    path.unlink()
