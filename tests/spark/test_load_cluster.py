"""A load by executors that are processes of their own, one of which is killed while it writes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from crash.jobs import leftovers
from load_calls import edge, files_below, person
from mutating import new_graph
from spark_loading import file_of, left_over

DRIVER = """
import json, os, pathlib, signal, sys
sys.path.insert(0, sys.argv[3])
import omnigraph as og
from omnigraph.ops.load import GraphSource, LoadCall, LoadInput, LoadMode, load
from omnigraph.spark.job import SparkLoading, reader
from omnigraph.spark.session import session
from worlds import runtime

killed = []


def executors():
    for place in pathlib.Path("/proc").iterdir():
        try:
            words = (place / "cmdline").read_bytes().split(b"\\0") if place.name.isdigit() else []
            session_id = os.getsid(int(place.name)) if words else 0
        except OSError:
            continue
        if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and session_id == os.getsid(0):
            yield int(place.name)


def kill_one(progress):
    there = sorted(executors())
    if progress.phase == "read" and there and not killed:
        os.kill(there[0], signal.SIGKILL)
        killed.append(there[0])


spark = session("local-cluster[2,1,1024]", **{"spark.speculation": "true", "spark.speculation.quantile": "0.1"})
spark.range(0, 4, 1, 4).mapInArrow(lambda batches: batches, "id long").collect()
graph = og.open_graph(sys.argv[1], runtime=runtime())
call = LoadCall(
    input=LoadInput(graph=(GraphSource(data=pathlib.Path(sys.argv[2])),)),
    mode=LoadMode.APPEND,
    actor="test",
    progress=kill_one,
)
result = load(graph._session, call, reader(spark=spark, loading=SparkLoading(split_bytes=20_000, local_keys=0)))
print(json.dumps({"killed": len(killed), **result.to_json()}))
"""


@pytest.mark.timeout(600)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="executors are found by /proc")
def test_an_executor_that_is_killed_costs_nothing_but_time(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    before = files_below(graph)
    data = file_of(
        tmp_path,
        *(edge("Knows", f"p{number}", f"p{number * 7 % 3_000}") for number in range(3_000)),
        *(person(f"p{number}", age=1) for number in range(3_000)),
    )

    tests = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, graph.uri, str(data), tests],
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["killed"] == 1
    assert (told["nodes"]["Person"]["inserted"], told["edges"]["Knows"]["inserted"]) == (3_000, 3_000)
    assert graph.table("Person").count_rows() == graph.table("Knows").count_rows() == 3_000
    assert left_over(graph) == []
    assert leftovers(og.open_graph(graph.uri)._session, ("nodes", "edges"))["orphans"] == []
    assert before <= files_below(graph)
