"""The metrics of a server: exact numbers, as many lines whoever asks for what, and made beside the event loop."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.server.metrics import Metrics
from serving import ALL, Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    server = serving(tmp_path)
    yield server
    server.service.close()


@pytest.mark.parametrize("value", [10_000_001, 2**53 - 1, 12_345_678.25, 123_456.789, 0.0009765625, 1_784_000_000.5])
def test_numbers_are_exact(value: float) -> None:
    metrics = Metrics()
    metrics.declare_counter("c_total", "C.")
    metrics.declare_callback("g", "G.", lambda: [({}, value)])
    metrics.declare_histogram("h", "H.")
    metrics.count("c_total", value)
    metrics.observe("h", value)

    found = dict(line.rsplit(" ", 1) for line in metrics.render().splitlines() if not line.startswith("#"))

    assert {name: float(found[name]) for name in ("c_total", "g", "h_sum")} == {
        "c_total": value,
        "g": value,
        "h_sum": value,
    }


def test_what_is_added_to_a_large_sum_shows() -> None:
    metrics = Metrics()
    metrics.declare_counter("c_total", "C.")
    metrics.count("c_total", 7_654_321.5)
    before = metrics.render()
    metrics.count("c_total")

    assert "c_total 7654321.5" in before
    assert "c_total 7654322.5" in metrics.render()


def test_they_are_made_beside_the_event_loop(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    loops: list[bool] = []
    render = Metrics.render

    def note(metrics: Metrics, *args: object) -> str:
        loops.append(has_running_loop())
        return render(metrics, *args)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(Metrics, "render", note)

    status = served.client.get("/metrics", headers=served.as_role("admin")).status_code

    assert (status, loops) == (200, [False])


def has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def test_requests_that_strangers_and_readers_make_up_add_no_lines(served: Served) -> None:
    """The text has a line for each series: what nobody can multiply costs the same under attack."""

    def attack(number: int) -> None:
        name = f"n{number}-{'x' * number}"
        guess = {"Authorization": f"Bearer og_{name}"}
        reader = served.as_role("reader")
        for headers in ({}, guess, reader):
            served.client.request(name, "/graphs", headers=headers)
            served.client.get(f"/{name}", headers=headers)
            served.client.get(f"/graphs/{name}/snapshot", headers=headers)
            served.client.get(f"/graphs/people/snapshot?branch={name}", headers=headers)
            served.client.get(f"/graphs/people/commits/{name}", headers=headers)
            served.client.get(f"/graphs/people/snapshot?{name}=1", headers=headers)
            served.client.post(f"/graphs/people/queries/{name}", json={}, headers=headers)
            served.client.post(
                "/graphs/people/query", json={"query": ALL.replace("people", f"q{number}")}, headers=headers
            )
            served.client.post("/graphs/people/query", content=b"{" + name.encode(), headers=headers)
            served.client.get("/healthz", headers={"Host": name})

    def list_series() -> list[str]:
        text = served.service.metrics.render()
        return [re.sub(r" \S+$", "", line) for line in text.splitlines()]

    attack(0)
    before = list_series()
    for number in range(1, 25):
        attack(number)

    assert list_series() == before
