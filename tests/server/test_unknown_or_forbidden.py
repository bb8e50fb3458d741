"""A stored query that somebody may not run can't be told from one that is not there: by body, headers or work."""

import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import omnigraph
from serving import Served, serving

UNKNOWN = {"everybody": "nobodyyet", "rename_age": "never_been"}
"""Stored queries that a reader may not run, and names that nobody has, of the same lengths."""
TIMES = 10
PACKAGE = str(Path(omnigraph.__file__).parent)
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


def count_calls(served: Served, name: str) -> int:
    """Return how many functions of ours the server calls for a request, whatever else the machine does."""
    calls = 0

    def note(frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(PACKAGE)

    # A request of this client is answered in a new thread.
    threading.setprofile(note)
    try:
        asked(served, name, {"params": {"n": "Ada"}})
    finally:
        threading.setprofile(None)
    return calls


@pytest.mark.parametrize("forbidden", UNKNOWN)
def test_the_work_is_the_same(forbidden: str, served: Served) -> None:
    # Not the time, which other processes change; nor the calls of the event loop, which has more in some requests.
    there, missing = (min(count_calls(served, name) for _ in range(TIMES)) for name in (forbidden, UNKNOWN[forbidden]))

    assert missing > 100
    assert there == missing
