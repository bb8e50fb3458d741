"""A load that is killed while it writes its rows: everything it has written, and was writing, is reclaimed."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from crash.jobs import leftovers
from load_calls import files_below
from mutating import new_graph, rows, run
from omnigraph.commit.recovery import recover
from worlds import FAST, reopened

VICTIM = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
import pyarrow as pa
import omnigraph as og
import omnigraph.storage.staging as staging
from omnigraph.ops.load import LoadCall, LoadInput, LoadMode, TypedSource, load
from worlds import runtime

staging.MAX_FRAGMENT_ROWS = 100_000


def die(progress):
    if progress.phase == "write" and progress.rows > 330_000:
        os.kill(os.getpid(), signal.SIGKILL)


graph = og.open_graph(sys.argv[1], runtime=runtime())
people = TypedSource(type="Person", is_edge=False, data=pa.table({"name": [f"n{i}" for i in range(600_000)]}))
call = LoadCall(input=LoadInput(typed=(people,)), mode=LoadMode.APPEND, actor="victim", progress=die)
load(graph._session, call)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere, an unfinished file waits for cleanup")
def test_a_load_that_is_killed_while_it_writes_leaves_nothing_behind_recovery(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    run(graph, 'insert Person { name: "a" }')
    before = files_below(graph)

    tests = str(Path(__file__).parents[1])
    died = subprocess.run([sys.executable, "-c", VICTIM, graph.uri, tests], check=False)
    left = {file for file in files_below(graph) - before if "/data/" in file}
    time.sleep(FAST.lease_seconds * 1.5)
    session = reopened(graph._session)
    recover(session.store, session.log)

    assert died.returncode < 0
    assert len(left) >= 3
    assert {file for file in files_below(graph) - before if file.startswith(("nodes/", "edges/"))} == set()
    assert leftovers(session, ("nodes", "edges"))["sidecars"] == 0
    assert len(rows(graph, "Person")) == 1
