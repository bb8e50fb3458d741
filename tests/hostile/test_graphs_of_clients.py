"""Strangers and tokens at the door that creates and deletes graphs: no failure, no trace of a path, nothing kept."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.locations import Location
from serving import POLICIES, SCHEMA, Served, serving

NAMED = """
permit(principal in Group::"writers", action in [Action::"graph_create", Action::"graph_delete"], resource);
permit(principal in Group::"writers", action == Action::"read", resource);
"""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.text(max_size=80) | st.sampled_from(["people", "..", "a/../b", "CON", "a" * 63, "-x", "_", "x.omni", "\x00"])
BODIES = st.fixed_dictionaries({"graph": NAMES | JSON, "schema": st.just(SCHEMA) | st.text(max_size=60) | JSON}) | JSON
HEADERS = ["", "00", "00-0-0-0", "ff-" + "f" * 32 + "-" + "f" * 16 + "-ff", "00-" + "0" * 32 + "-" + "0" * 16 + "-00"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("clients")
    config = {"graph_root": str(home / "graphs"), "max_created_graphs": 3}
    found = serving(home / "server", config=config, policies=POLICIES + NAMED)
    yield found
    found.service.close()


@given(body=BODIES, role=st.sampled_from(["writer", "reader", "nobody"]))
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_body_is_a_failure_or_leads_out_of_the_root(body: object, role: str, served: Served) -> None:
    root = served.home.parent / "graphs"
    outside = {path for path in served.home.parent.iterdir() if path != root}

    response = served.client.post("/graphs", json=body, headers=served.as_role(role))

    assert response.status_code < 500, response.text
    assert str(served.home.parent) not in response.text
    assert {path for path in served.home.parent.iterdir() if path != root} == outside
    if role != "writer":
        assert response.status_code in {400, 403}
    if response.status_code == 201:
        name = response.json()["graph"]
        assert [path.name for path in root.iterdir()] == [name]
        gone = served.client.delete(f"/graphs/{name}?confirm=true", headers=served.as_role("writer"))
        assert gone.status_code == 200
        assert list(root.iterdir()) == []


def test_nothing_is_kept_of_graphs_that_are_gone(served: Served) -> None:
    for number in range(5):
        body = {"graph": f"g{number}", "schema": SCHEMA}
        assert served.client.post("/graphs", json=body, headers=served.as_role("writer")).status_code == 201
        query = {"query": "match { $p: Person } return { $p.name }"}
        asked = served.client.post(f"/graphs/g{number}/query", json=query, headers=served.as_role("writer"))
        assert asked.status_code == 200
        gone = served.client.delete(f"/graphs/g{number}?confirm=true", headers=served.as_role("writer"))
        assert gone.status_code == 200

    assert 'graph="g' not in served.service.metrics.render()
    assert set(served.service.registry.graphs) == {"people"}
    assert not [name for name in served.service.registry.redactions if "/g" in name and "people" not in name]


@pytest.mark.parametrize("header", HEADERS)
def test_a_made_up_trace_is_no_failure(header: str, served: Served) -> None:
    response = served.client.get("/graphs", headers={**served.as_role("reader"), "traceparent": header})

    assert response.status_code == 200


def test_a_full_disk_is_no_failure_that_tells_of_the_machine(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever goes wrong inside, the answer has no path."""
    (tmp_path / "file").write_text("x", encoding="utf-8")
    root = served.service.graph_root
    monkeypatch.setattr(root, "_location", Location(str(tmp_path / "file")))

    body = {"graph": "new", "schema": SCHEMA}
    response = served.client.post("/graphs", json=body, headers=served.as_role("writer"))

    assert response.status_code in {409, 503}
    assert str(tmp_path) not in json.dumps(response.json())
