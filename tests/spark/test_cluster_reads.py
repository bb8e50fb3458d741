"""Executors that share nothing with the driver but the storage read, write and export as one process does."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import spark_cluster
from spark_worlds import all_types_graph, stored


@pytest.mark.timeout(600)
def test_a_cluster_of_separate_processes_reads_writes_and_exports(tmp_path: Path) -> None:
    graph = all_types_graph(tmp_path / "g", rows=30)
    here = io.BytesIO()
    graph.export(here)
    before = stored(graph, "Thing")
    edges = stored(graph, "Link")

    done = subprocess.run(
        [sys.executable, str(Path(spark_cluster.__file__)), graph.uri, str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["master"].startswith("local-cluster")
    assert answer["ids"] == before["id"].to_pylist()
    assert answer["joined"] == sum(one in answer["ids"] for one in edges["src"].to_pylist())
    assert answer["rows"] == before.num_rows + 2
    assert b"".join(path.read_bytes() for path in sorted((tmp_path / "out").iterdir())) == here.getvalue()
