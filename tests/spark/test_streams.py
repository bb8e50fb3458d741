"""A stream is in the graph exactly once, however often it is interrupted."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import omnigraph as og
import spark_streaming
from omnigraph.faults import ArmedFaults, InjectedFaultError
from omnigraph.ops.arguments import BadArgumentError
from omnigraph.runtime import Runtime
from omnigraph.spark import stream as stream_module
from omnigraph.spark.stream import BadMappingError
from spark_streaming import MAPPING, SCHEMA, events, expected, found, run, write_events
from worlds import FAST, runtime

FILES = 4
JOB = Path(spark_streaming.__file__)


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())


@pytest.fixture
def incoming(tmp_path: Path) -> Path:
    for number in range(FILES):
        write_events(tmp_path / "in", number)
    return tmp_path / "in"


def batches_of(graph: og.Graph) -> list[str]:
    """What batches are known by, oldest first."""
    return [str(one.idempotency_key).rpartition(" ")[2] for one in reversed(graph.commits()) if one.idempotency_key]


def forget_last_batch(checkpoint: Path) -> None:
    """As if Spark had been killed when the last batch was done, before it wrote that down."""
    last = max((path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()), key=lambda p: int(p.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def test_a_stream_that_fails_at_every_step_ends_with_exactly_the_input(
    graph: og.Graph, incoming: Path, tmp_path: Path, spark: SparkSession
) -> None:
    for point in ("stream.begun", "publish.swapped", "stream.loaded"):
        armed = Runtime(options=FAST, faults=ArmedFaults(point, "error", 2))
        with pytest.raises(InjectedFaultError):
            run(og.open_graph(graph.uri, runtime=armed), spark, incoming, tmp_path / "checkpoint")
    run(graph, spark, incoming, tmp_path / "checkpoint")

    assert found(graph) == expected(FILES)
    assert batches_of(graph) == [str(number) for number in range(FILES)]


def test_a_stream_whose_process_is_killed_goes_on(
    graph: og.Graph, incoming: Path, tmp_path: Path, spark: SparkSession
) -> None:
    job = [sys.executable, str(JOB), graph.uri, str(incoming), str(tmp_path / "checkpoint")]
    killed = subprocess.run(job, env={**os.environ, "OMNIGRAPH_FAULT": "stream.loaded@2=kill"}, check=False)
    after_the_kill = batches_of(graph)
    write_events(incoming, FILES)
    run(graph, spark, incoming, tmp_path / "checkpoint")

    assert killed.returncode == -signal.SIGKILL
    assert after_the_kill == ["0", "1"]
    assert found(graph) == expected(FILES + 1)
