"""Routes of tags, the past of one row, Blobs and maintenance; what takes too long or would be too large is refused."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from earlier_release import without_checksums
from omnigraph.config.server import ServerLimits
from omnigraph.engine.query_budget import Budget
from omnigraph.server.http.request_arguments import parse_range
from omnigraph.server.http.responses import limit_time
from omnigraph.server.http_errors import BadRequestError
from raised_codes import has_code
from serving import ADD, SCHEMA, Served, serving
from worlds import FAST

WITH_PHOTOS = SCHEMA.replace("age: I64?", "age: I64?  photo: Blob?")
PHOTO = bytes(range(256)) * 16
TALL = "query q($n: String, $a: I64) { update Person set { age: $a } where name = $n }"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    options = replace(FAST, upkeep=replace(FAST.upkeep, index_rows=1))
    found = serving(tmp_path_factory.mktemp("upkeep"), options=options)
    found.graph.apply_schema(WITH_PHOTOS)
    found.graph.mutate(
        'query q($p: Blob) { update Person set { photo: $p } where name = "Ada" }', params={"p": PHOTO}, actor="ada"
    )
    yield found
    found.service.close()


def ask(served: Served, method: str, path: str, body: Any = None, status: int = 200, **headers: str) -> Any:
    response = served.client.request(
        method, f"/graphs/people{path}", json=body, headers={**served.as_role("admin"), **headers}
    )
    assert response.status_code == status, response.text
    return response


# --- tags ----------------------------------------------------------------------------------------------------


def test_tags_are_listed_in_pages(served: Served) -> None:
    for name in ("p/1", "p/2", "p/3"):
        ask(served, "POST", "/tags", {"name": name}, 201)

    first = ask(served, "GET", "/tags?limit=2").json()
    rest = ask(served, "GET", f"/tags?limit=2&cursor={first['next_cursor']}").json()

    assert [one["name"] for one in (*first["tags"], *rest["tags"])] == ["p/1", "p/2", "p/3"]
    assert rest["next_cursor"] is None
    for name in ("p/1", "p/2", "p/3"):
        assert ask(served, "DELETE", f"/tags/{name}").json()["name"] == name


def test_a_tag_is_by_who_asks(served: Served) -> None:
    made = ask(served, "POST", "/tags", {"name": "mine", "ref": "main"}, 201).json()
    ask(served, "DELETE", "/tags/mine")

    assert made["created_by"] == "admin"
    assert ask(served, "POST", "/tags", {"name": "mine", "created_by": "eve"}, 400).json()["code"] == "bad_request"


# --- Blobs ---------------------------------------------------------------------------------------------------

PHOTO_OF_ADA = "/blob?type=Person&id=Ada&property=photo"


def test_a_blob_is_sent_whole(served: Served) -> None:
    response = ask(served, "GET", PHOTO_OF_ADA)

    assert response.content == PHOTO
    assert response.headers["content-length"] == str(len(PHOTO))
    assert response.headers["omnigraph-commit"] == served.graph.snapshot().commit.id


@pytest.mark.parametrize(
    "header, part",
    [
        ("bytes=0-0", slice(0, 1)),
        ("bytes=10-19", slice(10, 20)),
        ("bytes=4000-9999", slice(4000, None)),
        ("bytes=-5", slice(-5, None)),
    ],
)
def test_a_part_of_a_blob_is_sent(header: str, part: slice, served: Served) -> None:
    response = ask(served, "GET", PHOTO_OF_ADA, None, 206, Range=header)

    start, stop, _ = part.indices(len(PHOTO))
    assert response.content == PHOTO[part]
    assert response.headers["content-range"] == f"bytes {start}-{stop - 1}/{len(PHOTO)}"


@pytest.mark.parametrize("header", ["bytes=0-1,5-6", "lines=1-2", "bytes=9-3", "bytes=-", "bytes=x-", ""])
def test_a_part_that_is_not_understood_is_all_of_it(header: str) -> None:
    assert parse_range(header, 100) == range(100)


def test_a_part_behind_the_end_is_refused(served: Served) -> None:
    response = ask(served, "GET", PHOTO_OF_ADA, None, 416, Range="bytes=4096-")

    assert response.json()["size"] == len(PHOTO)
    with pytest.raises(BadRequestError, check=has_code("range_refused")):
        parse_range("bytes=0-", 0)


def test_a_null_has_no_content(served: Served) -> None:
    assert ask(served, "GET", "/blob?type=Person&id=Bob&property=photo", None, 204).content == b""


@pytest.mark.parametrize(
    "query, code",
    [
        ("type=Persn&id=Ada&property=photo", "type_not_found"),
        ("type=Person&id=Zoe&property=photo", "row_not_found"),
        ("type=Person&id=Ada&property=name", "blob_property_not_found"),
    ],
)
def test_a_blob_that_is_not_there_is_a_404(query: str, code: str, served: Served) -> None:
    assert ask(served, "GET", f"/blob?{query}", None, 404).json()["code"] == code


# --- the past ------------------------------------------------------------------------------------------------


def test_the_versions_of_a_node_are_told(served: Served) -> None:
    found = ask(served, "GET", "/history?type=Person&id=Ada").json()

    assert found == served.graph.history("Person", "Ada").to_json()
    assert [one["change"] for one in found["versions"]] == ["updated", "reshaped", "inserted"]


def test_a_commit_is_counted_or_told_row_by_row(served: Served) -> None:
    head = served.graph.snapshot().commit.id
    counted = ask(served, "GET", f"/commits/{head}/changes?counts=true").json()
    told = ask(served, "GET", f"/commits/{head}/changes").json()
    lines = ask(served, "GET", f"/commits/{head}/changes", Accept="application/x-ndjson").text.splitlines()

    assert "rows" not in counted
    assert {**counted, "rows": told["rows"]} == told
    assert len(lines) == len(told["rows"]) + 2


def test_who_waits_gets_the_next_commit(served: Served) -> None:
    head = served.graph.snapshot().commit.id
    empty = ask(served, "GET", f"/changes?since={head}&wait=0.05").json()
    served.graph.mutate(ADD, params={"n": "Waited"}, actor="ada")
    found = ask(served, "GET", f"/changes?since={head}&wait=30").json()

    assert (empty["changes"], empty["since"]) == ([], head)
    assert [one["rows"][0]["id"] for one in found["changes"]] == ["Waited"]


# --- maintenance ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/check", "/repair"])
def test_what_is_verified_is_told_without_addresses_of_the_machine(path: str, served: Served) -> None:
    found = ask(served, "POST", path, {}).json()

    assert found["uri"] == "people"
    assert str(served.home) not in str(found)


def test_checksums_are_recorded_through_a_server_by_who_asks(tmp_path: Path) -> None:
    with without_checksums():
        older = serving(tmp_path)
    done = ask(older, "POST", "/check", {"record": True, "message": "first"}).json()
    again = ask(older, "POST", "/check", {"record": True}).json()
    older.service.close()

    commit = older.graph.commit(done["recorded"]["main"])
    assert (commit.operation, commit.actor, commit.message) == ("record", "admin", "first")
    assert (again["recorded"], again["unrecorded"], again["errors"]) == ({}, 0, 0)


def test_a_repair_is_never_confirmed_through_a_server(served: Served) -> None:
    assert ask(served, "POST", "/repair", {"confirm": True}, 400).json()["code"] == "bad_request"


def test_an_optimisation_is_by_who_asks(served: Served) -> None:
    for number in range(3):
        served.graph.mutate(TALL, params={"n": "Bob", "a": number}, actor="ada")
    branch = served.graph.branches.create("tidy")

    done = ask(served, "POST", "/optimize", {"branch": branch.name, "all_indexes": True, "message": "tidy"}).json()

    commits = [one["commit_id"] for one in done["tables"] if one["committed"]]
    assert commits
    assert {served.graph.commit(one, branch="tidy").actor for one in commits} == {"admin"}


def test_a_cleanup_only_tells_unless_it_is_confirmed(served: Served) -> None:
    ask(served, "POST", "/cleanup", {"keep": 1, "grace_seconds": 0})
    before = len(served.graph.commits())
    preview = ask(served, "POST", "/cleanup", {"keep": 2, "grace_seconds": 0}).json()

    assert preview["preview"] is True
    assert preview["epoch"] is None
    assert all(served.graph.snapshot(snapshot=one.id) for one in served.graph.commits())
    assert len(served.graph.commits()) == before


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"keep": 0},
        {"keep": 1, "grace_seconds": -1},
        {"older_than_seconds": 1e30},
        {"keep": "1"},
        {"keep": 1, "x": 1},
    ],
)
def test_a_cleanup_that_makes_no_sense_is_a_400(body: dict[str, Any], served: Served) -> None:
    ask(served, "POST", "/cleanup", body, 400)


# --- limits --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    limits = ServerLimits(threads=2, write_seconds=1e-9, stream_seconds=1e-9, rows=1, answer_bytes=700)
    found = serving(tmp_path_factory.mktemp("narrow"), limits=limits)
    for number in range(5):
        found.graph.mutate(TALL, params={"n": "Bob", "a": number})
    yield found
    found.service.close()


def test_a_mutation_that_takes_too_long_is_not_done(narrow: Served) -> None:
    before = narrow.graph.snapshot().commit.id

    found = ask(narrow, "POST", "/mutate", {"query": ADD, "params": {"n": "Late"}}, 422).json()

    assert found["code"] == "query_timeout"
    assert narrow.graph.snapshot().commit.id == before


def test_a_mutation_that_writes_too_much_is_not_done(narrow: Served) -> None:
    service = narrow.service
    small = replace(service.config, limits=replace(service.limits, write_seconds=60.0, memory_bytes=1))
    budget = Budget(service.runtime.clock, seconds=60.0, memory_bytes=small.limits.memory_bytes)

    with pytest.raises(Exception, match="what the mutation writes needs") as refused:
        narrow.graph.mutate(ADD, params={"n": "Large"}, budget=budget)

    assert refused.value.code == "query_memory"  # type: ignore[attr-defined]  # it is one of ours
    assert "Large" not in str(narrow.graph.query("query q() { match { $p: Person } return { $p.name } }").rows())


def test_a_load_that_takes_too_long_is_not_done(narrow: Served) -> None:
    before = narrow.graph.snapshot().commit.id
    response = narrow.client.post(
        "/graphs/people/load?mode=append",
        content=b'{"type":"Person","data":{"name":"Late"}}',
        headers=narrow.as_role("admin"),
    )

    assert (response.status_code, response.json()["code"]) == (422, "query_timeout")
    assert narrow.graph.snapshot().commit.id == before


@pytest.mark.parametrize(
    "method, path, body",
    [
        ("POST", "/export", {}),
        ("GET", "/diff?before=main&after=main", None),
        ("GET", "/changes", None),
        ("POST", "/query", {"query": "query q() { match { $p: Person } return { $p.name } }"}),
    ],
)
def test_a_stream_that_works_too_long_is_refused(method: str, path: str, body: Any, narrow: Served) -> None:
    found = ask(narrow, method, path, body, 422, Accept="application/x-ndjson").json()

    assert found["code"] == "request_too_long"


def test_only_the_work_of_a_stream_counts(narrow: Served) -> None:
    clock = narrow.service.runtime.clock
    pieces = limit_time(iter([b"a", b"b"]), clock, 0.5)

    next(pieces)
    clock.sleep(0.6)

    assert list(pieces) == [b"b"]


@pytest.mark.parametrize("path", ["/changes?since=FIRST", "/history?type=Person&id=Bob"])
def test_a_document_that_would_be_too_large_is_refused(path: str, narrow: Served) -> None:
    first = narrow.graph.commits()[-1].id

    assert ask(narrow, "GET", path.replace("FIRST", first), None, 413).json()["code"] == "answer_too_large"


def test_counts_of_what_would_be_too_large_are_told(narrow: Served) -> None:
    found = ask(narrow, "GET", "/changes?counts=true&limit=1").json()

    assert [one["operation"] for one in found["changes"]] == ["init"]
