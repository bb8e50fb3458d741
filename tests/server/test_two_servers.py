"""Two servers of one graph: both keep its tables short, and neither is in the way of the other's clients."""

import shutil
import threading
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.options import Options
from server_process import Process, laid_out, running
from serving import ADD, TOKENS

ROWS = 90


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

    assert errors == []
    assert len(graph.query("query q() { match { $p: Person } return { $p.name } }").rows()) == 2 + 4 * ROWS
    maintained = graph.commits(filters={"operation": "maintain"}, include_maintenance=True)
    assert len(maintained) > 1
    # Without it, there would be one for each row.
    assert len(graph.table("Person").get_fragments()) < 4 * Options().upkeep.tail_fragments
    assert not graph.check().has_errors
