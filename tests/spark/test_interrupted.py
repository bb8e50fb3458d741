"""Ctrl-C ends a load on Spark as it ends every load: nothing is loaded, and nothing is left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import omnigraph as og
from load_calls import files_below
from worlds import runtime

SCHEMA = "node Person { name: String @key  bio: String }"


@pytest.mark.timeout(360)  # a Spark of its own, from its start to its end
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)])
def test_an_interrupted_load_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    before = files_below(graph)
    source = tmp_path / "people.jsonl"
    line = '{{"type": "Person", "data": {{"name": "p{}", "bio": "%s"}}}}\n' % ("x" * 100)
    source.write_text("".join(map(line.format, range(300_000))), encoding="utf-8")
    command = ["load", graph.uri, "--mode", "append", "--data", str(source), "--engine", "spark"]

    process = subprocess.Popen(
        [sys.executable, "-m", "omnigraph", *command],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while files_below(graph) == before and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    _, told = process.communicate(timeout=300)

    assert told == "interrupted: nothing was loaded\n"
    assert process.returncode == 130
    assert files_below(graph) == before
    assert {path.name for path in tmp_path.iterdir()} == {"g", "people.jsonl"}
    assert graph.table("Person").count_rows() == 0
