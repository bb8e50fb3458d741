"""Two servers of one graph: both keep its tables short, and neither is in the way of the other's clients."""

import shutil
import threading
import time
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.options import Options
from server_process import Process, laid_out, running
from serving import ADD, TOKENS

ROWS = 90
MOST_FRAGMENTS = 4 * Options().upkeep.tail_fragments
MOST_LATER = 1_000


def test_two_servers_compact_beside_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_MAINTENANCE", "auto")
    first, second = tmp_path / "first", tmp_path / "second"
    graph = laid_out(first)
    shutil.copytree(first, second, ignore=shutil.ignore_patterns("people.omni"))
    settings = (first / "omnigraph.toml").read_text(encoding="utf-8")
    (second / "omnigraph.toml").write_text(settings.replace('"people.omni"', f'"{graph.uri}"'), encoding="utf-8")
    errors: list[BaseException] = []

    def insert(process: Process, name: str) -> None:
        try:
            with og.connect(f"http://localhost:{process.port}", TOKENS["admin"], graph="people") as client:
                for number in range(ROWS):
                    client.mutate(ADD, params={"n": f"{name}-{number}"})
        except BaseException as error:
            errors.append(error)
            raise

    with running(graph, first) as one, running(graph, second) as other:
        jobs = [(one, "a"), (one, "b"), (other, "c"), (other, "d")]
        threads = [threading.Thread(target=insert, args=job) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        later = write_until_short(graph, one)

    assert errors == []
    assert len(graph.query("query q() { match { $p: Person } return { $p.name } }").rows()) == 2 + 4 * ROWS + later
    maintained = graph.commits(filters={"operation": "maintain"}, include_maintenance=True)
    assert len(maintained) > 1
    # Without it, there would be one for each row.
    assert count_fragments(graph) < MOST_FRAGMENTS
    assert not graph.check().has_errors


def write_until_short(graph: og.Graph, process: Process) -> int:
    """Write one row after the other, however slow the machine is, until maintenance has caught up; the rows written."""
    with og.connect(f"http://localhost:{process.port}", TOKENS["admin"], graph="people") as client:
        for number in range(MOST_LATER):
            if count_fragments(graph) < MOST_FRAGMENTS:
                return number
            client.mutate(ADD, params={"n": f"later-{number}"})
            time.sleep(0.05)
    return MOST_LATER


def count_fragments(graph: og.Graph) -> int:
    return len(graph.table("Person").get_fragments())
