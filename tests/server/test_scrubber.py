"""A server verifies the files of its graphs in the background, and tells of damage where each may see it."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import damaging as harm
from omnigraph.ops.scrub import Scrub, ScrubReport, ScrubState
from omnigraph.server import scrubber as module
from omnigraph.server.scrubber import Scrubber
from omnigraph.storage import scrubbing as reading
from serving import Served, serving

BRIEF = 1e-9
"""A pass of no time: every rest is over at once."""


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("scrub ")]


def scrub_of(served: Served) -> Scrub:
    """The scrub of the served graph, which a test takes the steps of."""
    assert served.service.scrubber is not None
    (scrub,) = served.service.scrubber._scrubs.values()
    return scrub


def run_pass(scrub: Scrub) -> ScrubReport:
    """Take steps to the end of a pass, whatever rest they ask for."""
    number = scrub._pass_number
    while scrub._pass_number == number or scrub._is_in_pass:
        scrub.step()
        scrub._due = 0
    return scrub.report()


def damaged_file(served: Served) -> Path:
    path = Path(served.graph.uri) / served.graph.snapshot().pin("node:Person").path / "data"
    return path / served.graph.table("Person").get_fragments()[0].metadata.files[0].path


@pytest.fixture(autouse=True)
def no_thread_begins_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_START_SECONDS", 3_600.0)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    found = serving(tmp_path)
    yield found
    found.service.close()


def shown_to(served: Served, role: str) -> dict[str, Any]:
    (graph,) = served.client.get("/graphs", headers=served.as_role(role)).json()["graphs"]
    found: dict[str, Any] = graph["scrub"]
    return found


# --- who sees what -----------------------------------------------------------------------------------------


def test_it_runs_unless_it_is_switched_off_and_ends_with_the_server(tmp_path: Path) -> None:
    served = serving(tmp_path / "on")
    assert threads() == ["scrub people"]
    served.service.close()
    assert threads() == []

    served = serving(tmp_path / "off", config={"scrub_days": 0.0})
    assert threads() == []
    assert served.client.get("/readyz").json()["scrub"]["state"] == "off"
    (graph,) = served.client.get("/graphs", headers=served.as_role("admin")).json()["graphs"]
    assert graph["scrub"] is None
    served.service.close()


def test_a_sound_server_says_so(served: Served) -> None:
    report = run_pass(scrub_of(served))

    ready = served.client.get("/readyz").json()
    assert ready["status"] == "ready"
    assert ready["scrub"] == {"state": "sound", "damaged_graphs": 0, "damaged_files": 0}
    shown = shown_to(served, "admin")
    assert (shown["state"], shown["files"], shown["damaged"]) == ("resting", report.files, [])
    assert report.files > 0


def test_damage_is_counted_for_everybody_and_named_for_those_who_maintain_the_graph(served: Served) -> None:
    file = damaged_file(served)
    whole = file.read_bytes()
    harm.scarred(lambda _: file)(file)
    run_pass(scrub_of(served))

    ready = served.client.get("/readyz")
    assert ready.status_code == 200
    assert ready.json()["status"] == "ready"
    assert ready.json()["scrub"] == {"state": "damaged", "damaged_graphs": 1, "damaged_files": 1}
    assert "people" not in ready.text
    assert file.name not in ready.text
    assert shown_to(served, "reader")["damaged_files"] == 1
    assert shown_to(served, "reader")["damaged"] == []
    (told,) = shown_to(served, "admin")["damaged"]
    assert told["table"] == "node:Person"
    assert told["file"] == str(file.relative_to(served.graph.uri))
    assert (told["reason"], told["branches"]) == ("it does not match its checksum", ["main"])

    file.write_bytes(whole)
    run_pass(scrub_of(served))
    assert served.client.get("/readyz").json()["scrub"]["damaged_files"] == 0


def test_metrics_count_what_was_verified_and_what_is_damaged(served: Served) -> None:
    def metrics() -> dict[str, float]:
        text = served.client.get("/metrics", headers=served.as_role("reader")).text
        lines = [line.rpartition(" ") for line in text.splitlines() if line.startswith("omnigraph_scrub_")]
        return {name: float(value) for name, _, value in lines}

    before = metrics()
    file = damaged_file(served)
    harm.scarred(lambda _: file)(file)
    report = run_pass(scrub_of(served))

    assert report.last_pass is not None
    assert before == {
        'omnigraph_scrub_files_total{graph="people"}': 0,
        'omnigraph_scrub_bytes_total{graph="people"}': 0,
        'omnigraph_scrub_damaged_files{graph="people"}': 0,
    }
    assert metrics() == {
        'omnigraph_scrub_files_total{graph="people"}': report.files,
        'omnigraph_scrub_bytes_total{graph="people"}': report.nbytes,
        'omnigraph_scrub_damaged_files{graph="people"}': 1,
        'omnigraph_scrub_last_pass_timestamp_seconds{graph="people"}': pytest.approx(report.last_pass.timestamp()),
    }


def test_a_graph_that_is_served_read_only_is_scrubbed_too(served: Served) -> None:
    (hosted,) = served.service.registry.graphs.values()
    hosted.config = replace(hosted.config, is_read_only=True)
    files = sorted(str(path) for path in Path(served.graph.uri).rglob("*"))
    (scrub,) = Scrubber([hosted], 30.0, lambda: False)._scrubs.values()

    report = run_pass(scrub)

    assert report.files > 0
    assert report.state is ScrubState.RESTING
    assert sorted(str(path) for path in Path(served.graph.uri).rglob("*")) == files


# --- the thread --------------------------------------------------------------------------------------------


@pytest.fixture
def hurried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server without a scrub of its own; one that a test makes begins at once."""
    found = serving(tmp_path, config={"scrub_days": 0.0})
    monkeypatch.setattr(module, "_START_SECONDS", 0.0)
    yield found
    found.service.close()


def test_it_stops_while_a_huge_file_is_read(hurried: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    has_begun = threading.Event()
    closed = threading.Event()

    def endless(*_: object) -> reading.Scan:
        try:
            while True:
                has_begun.set()
                yield 1 << 22
        finally:
            closed.set()

    monkeypatch.setattr("omnigraph.ops.scrub.scan_file", endless)
    scrubber = Scrubber(hurried.service.registry.graphs.values(), BRIEF, lambda: False)
    scrubber.start()
    assert has_begun.wait(60)

    scrubber.stop()

    assert not scrubber._threads[0].is_alive()
    assert closed.is_set()


def test_it_does_not_wait_for_a_store_that_hangs(hurried: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, may_go = threading.Event(), threading.Event()

    def hanging(*_: object) -> reading.Scan:
        hangs.set()
        may_go.wait(60)
        yield 0
        return None

    monkeypatch.setattr("omnigraph.ops.scrub.scan_file", hanging)
    monkeypatch.setattr(module, "_SECONDS_TO_STOP", 0.01)
    scrubber = Scrubber(hurried.service.registry.graphs.values(), BRIEF, lambda: False)
    scrubber.start()
    assert hangs.wait(60)

    scrubber.stop()  # and not: until it goes on

    assert scrubber._threads[0].is_alive()
    may_go.set()
    scrubber._threads[0].join(60)
    assert not scrubber._threads[0].is_alive()


def test_it_gives_way_to_requests_for_a_while(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BUSY_SECONDS", 0.0)
    looks: list[bool] = []

    def is_busy(until: int) -> bool:
        looks.append(len(looks) < until)
        return looks[-1]

    graphs = served.service.registry.graphs.values()
    Scrubber(graphs, 30.0, lambda: is_busy(3))._yield_to_requests()
    assert looks == [True, True, True, False]

    looks.clear()
    Scrubber(graphs, 30.0, lambda: is_busy(10**6))._yield_to_requests()
    assert looks == [True] * module._MAX_BUSY_WAITS


def test_a_graph_that_cannot_be_opened_is_tried_again(served: Served, tmp_path: Path) -> None:
    (hosted,) = served.service.registry.graphs.values()
    hosted.config = replace(hosted.config, uri=str(tmp_path / "later.omni"))
    (scrub,) = Scrubber([hosted], 30.0, lambda: False)._scrubs.values()

    scrub.step()

    assert scrub.report().state is ScrubState.FAILING
    Path(served.graph.uri).rename(tmp_path / "later.omni")
    assert run_pass(scrub).last_pass is not None
    Path(tmp_path / "later.omni").rename(served.graph.uri)


def test_the_days_are_those_of_the_settings(tmp_path: Path) -> None:
    served = serving(tmp_path, config={"scrub_days": 7.0})

    assert scrub_of(served)._days == 7.0
    served.service.close()
