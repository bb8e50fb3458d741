"""What the children of the crash tests of Spark loads do. Every function runs in its own process."""

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

import omnigraph as og
from crash.data_jobs import contents, opened
from crash.jobs import leftovers
from mutating import run
from omnigraph.commit.recovery import recover
from omnigraph.ops.load import GraphSource, LoadCall, LoadInput, LoadMode, load
from omnigraph.spark.load.load_engine import SparkLoadOptions, build_reader
from omnigraph.spark.load.load_jobs import MAX_LOCAL_MERGE_ROWS, MAX_LOCAL_REREAD_BYTES
from worlds import CALM, FAST, runtime


def borrowed(port: int, secret: str) -> SparkSession:
    """The Spark of another process: its JVM outlives this one, and so may its tasks."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
    gateway = launch_gateway()  # type: ignore[no-untyped-call] # it ships no types for this
    java = gateway.jvm
    context = java.org.apache.spark.api.java.JavaSparkContext(java.org.apache.spark.SparkContext.getOrCreate())
    return SparkSession(SparkContext(gateway=gateway, jsc=context))


def load_file(
    port: int,
    secret: str,
    uri: str,
    data: str,
    mode: str,
    dies_after: float | None = None,
    local_bytes: int = MAX_LOCAL_REREAD_BYTES,
    merged_here: int = MAX_LOCAL_MERGE_ROWS,
) -> None:
    """Load a file on Spark; die where the environment says, or so many seconds after tasks have started."""
    spark = borrowed(port, secret)
    graph = opened(uri, is_victim=True)
    call = LoadCall(
        input=LoadInput(graph=(GraphSource(data=Path(data)),)),
        mode=LoadMode(mode),
        actor="victim",
        on_error=Path(data).parent / "bad",
    )
    if dies_after is not None:
        threading.Timer(dies_after, os.kill, (os.getpid(), 9)).start()
    how = SparkLoadOptions(
        split_bytes=2000, max_local_reread_bytes=local_bytes, max_local_merge_rows=merged_here, max_local_read_bytes=0
    )
    load(graph._session, call, build_reader(spark=spark, loading=how))


def settle(uri: str) -> dict[str, Any]:
    """Wait for the lease to run out, recover, and tell what is left."""
    time.sleep(FAST.lease_seconds * 1.5)
    session = opened(uri)._session
    recover(session.store, session.log)
    notes = [info.key for info in session.store.objects.list_under("__recovery")]
    return {**leftovers(session, ("nodes", "edges")), "notes": notes}


def write_until(uri: str, name: str, over: str) -> int:
    """Insert people of that name, one commit each, until there is a file; how many there are."""
    graph = og.open_graph(uri, runtime=runtime(CALM))
    count = 0
    while not Path(over).exists():
        run(graph, f'insert Person {{ name: "{name}-{count}" }}')
        count += 1
        time.sleep(0.1)  # the load has a chance to be the next one
    return count


__all__ = ["contents", "load_file", "settle", "write_until"]
