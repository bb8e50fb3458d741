"""A stored query that somebody may not run can't be told from one that is not there: by body, headers or time."""

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import pytest

from serving import Served, serving

UNKNOWN = {"everybody": "nobodyyet", "rename_age": "never_been"}
"""Stored queries that a reader may not run, and names that nobody has, of the same lengths."""
TIMES = 60
BODIES: list[dict[str, Any]] = [{}, {"params": {"n": "Ada", "a": 1}}, {"branch": "nope"}, {"snapshot": "x", "at": "y"}]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found = serving(tmp_path_factory.mktemp("unknown"))
    yield found
    found.service.close()


def asked(served: Served, name: str, body: dict[str, Any], role: str = "reader") -> tuple[int, str, list[Any]]:
    """Everything that comes back, but for what is different with every request, and for the name itself."""
    answer = served.client.post(f"/graphs/people/queries/{name}", json=body, headers=served.as_role(role))
    id_ = answer.headers["x-request-id"]
    headers = [(key, value.replace(id_, "ID")) for key, value in answer.headers.items()]
    return answer.status_code, answer.text.replace(id_, "ID").replace(name, "NAME"), headers


@pytest.mark.parametrize("body", BODIES, ids=str)
@pytest.mark.parametrize("role", ["reader", "nobody"])
@pytest.mark.parametrize("forbidden", UNKNOWN)
def test_body_and_headers_are_the_same(forbidden: str, role: str, body: dict[str, Any], served: Served) -> None:
    there = asked(served, forbidden, body, role)

    assert there == asked(served, UNKNOWN[forbidden], body, role)
    assert there[0] == 404


@pytest.mark.parametrize("forbidden", UNKNOWN)
def test_time_is_the_same_within_noise(forbidden: str, served: Served) -> None:
    taken: dict[str, list[float]] = {forbidden: [], UNKNOWN[forbidden]: []}
    for _ in range(TIMES):
        for name, found in taken.items():  # in turns: what else the machine does befalls both
            began = time.perf_counter()
            asked(served, name, {"params": {"n": "Ada"}})
            found.append(time.perf_counter() - began)

    there, missing = (median(found) for found in taken.values())
    print(f"forbidden {there * 1e3:.2f} ms, unknown {missing * 1e3:.2f} ms, ratio {there / missing:.3f}")  # noqa: T201 - for who looks
    assert 0.5 < there / missing < 2
