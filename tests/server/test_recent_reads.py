"""How old an answer may be, over HTTP: the fields reach the read, and are refused where they mean nothing."""

from collections.abc import Iterator
from typing import Any

import pytest

from serving import ADD, ALL, Served, serving

NOWHERE = "01M7QDFWZ7N9761BR55DY88TZS"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = serving(tmp_path_factory.mktemp("recent"))
    yield server
    server.service.close()


def post(served: Served, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    answer = served.client.post(f"/graphs/people/{path}", json=body, headers=served.as_role("admin"))
    return answer.status_code, answer.json()


@pytest.mark.parametrize("path, body", [("query", {"query": ALL}), ("queries/everybody", {})])
def test_a_read_is_as_old_as_allowed_and_not_behind_a_commit(path: str, body: dict[str, Any], served: Served) -> None:
    rows = post(served, path, body)[1]["row_count"]
    # Through another handle, as another server would: this one has not seen the commit.
    commit = served.graph.mutate(ADD, params={"n": path}).commit_id

    stale = post(served, path, {**body, "max_staleness": 3_600})
    behind = post(served, path, {**body, "max_staleness": 3_600, "min_commit": commit})
    missing = post(served, path, {**body, "min_commit": NOWHERE})

    assert (stale[0], stale[1]["row_count"]) == (200, rows)
    assert (behind[0], behind[1]["row_count"], behind[1]["commit_id"]) == (200, rows + 1, commit)
    assert missing[0] == 404


@pytest.mark.parametrize(
    "path, body",
    [
        ("queries/rename_age", {"params": {"n": "Ada", "a": 1}, "max_staleness": 1}),
        ("queries/rename_age", {"params": {"n": "Ada", "a": 1}, "min_commit": NOWHERE}),
        ("explain", {"query": ALL, "max_staleness": 1}),
        ("query", {"query": ALL, "max_staleness": -1}),
        ("query", {"query": ALL, "max_staleness": "1"}),
        ("query", {"query": ALL, "max_staleness": 1, "snapshot": NOWHERE}),
    ],
)
def test_fields_that_mean_nothing_are_refused(path: str, body: dict[str, Any], served: Served) -> None:
    assert post(served, path, body)[0] == 400
