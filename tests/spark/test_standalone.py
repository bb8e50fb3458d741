"""A cluster of separate processes, as people run one: a master and two workers, reached over the network."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

import omnigraph as og
from omnigraph.spark.session.java_runtime import detect_java
from omnigraph.spark.session.launch_environment import LaunchEnvironment
from worlds import runtime

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]

SCHEMA = """
node Person { name: String @key  bio: String }
edge Knows: Person -> Person { since: I32? }
"""
PEOPLE, EDGES, FILES = 120_000, 240_000, 6
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
SPARK_SUBMIT = SPARK_CLASS.with_name("spark-submit")


class Cluster:
    """A master, and workers that can be killed."""

    def __init__(self, master: str, workers: list["subprocess.Popen[str]"]) -> None:
        self.master, self.workers = master, workers

    def kill_a_worker(self) -> None:
        """With its executors, which are in its process group."""
        os.killpg(self.workers.pop().pid, signal.SIGKILL)


@contextmanager
def daemon(name: str, *arguments: str, directory: Path, host: str = "127.0.0.1") -> Iterator["subprocess.Popen[str]"]:
    """One of Spark's own servers; its log goes to a file."""
    java_home = LaunchEnvironment(directory).create_java_home(detect_java())
    with (directory / "out.log").open("w", encoding="utf-8") as out:
        process = subprocess.Popen(
            [SPARK_CLASS, f"org.apache.spark.deploy.{name}", "--host", host, "--webui-port", "0", *arguments],
            env={**os.environ, "JAVA_HOME": str(java_home), "SPARK_LOCAL_IP": host},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def logged(directory: Path, pattern: str) -> str:
    """What a server's log says, when it has said it."""
    for _ in range(600):
        for log in directory.glob("*.log"):
            found = re.search(pattern, log.read_text(encoding="utf-8", errors="replace"))
            if found:
                return found[1]
        time.sleep(0.1)
    raise AssertionError(f"{directory} never said {pattern}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        (root / "master").mkdir()
        stack.enter_context(daemon("master.Master", "--port", "0", directory=root / "master"))
        master = logged(root / "master", r"Starting Spark master at (spark://\S+)")
        workers = []
        for number in range(3):
            place = root / f"worker{number}"
            place.mkdir()
            given = ("--cores", "1", "--memory", "1g", "--work-dir", str(place / "work"), master)
            host = f"127.0.0.{number + 2}"  # of its own: Spark starts no double of a task on the same host
            workers.append(stack.enter_context(daemon("worker.Worker", *given, directory=place, host=host)))
            logged(place, r"(Successfully registered with master)")
        yield Cluster(master, workers)


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Graph JSONL in several files, each of which is a task."""
    directory = tmp_path_factory.mktemp("input")
    for number in range(FILES):
        with (directory / f"{number}.jsonl").open("w", encoding="utf-8") as file:
            for one in range(number, PEOPLE, FILES):
                file.write(json.dumps({"type": "Person", "data": {"name": f"p{one}", "bio": "x" * 80}}) + "\n")
            for one in range(number, EDGES, FILES):
                edge = {"edge": "Knows", "from": f"p{one % PEOPLE}", "to": f"p{one * 7 % PEOPLE}"}
                file.write(json.dumps({**edge, "data": {"since": one}}) + "\n")
    return directory


def start(*arguments: str, **variables: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "omnigraph", *arguments],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=900)
    return process.returncode, out, err


def load(graph: og.Graph, source: Path, master: str, mode: str = "append", **variables: str) -> "subprocess.Popen[str]":
    given = ("load", graph.uri, "--mode", mode, "--data", str(source), "--master", master, "--json")
    return start(*given, **variables)


def is_clean(graph: og.Graph) -> bool:
    """Whether no operation is under way, and no file of one is left."""
    left = [path for path in Path(graph.uri, "__recovery").rglob("*") if path.is_file()]
    return not graph.operations().pending and not left


def test_a_cluster_loads_merges_and_answers(cluster: Cluster, graph: og.Graph, source: Path) -> None:
    code, out, err = finished(load(graph, source, cluster.master))
    again = finished(load(graph, source, cluster.master, "merge"))
    asked = start("spark", "sql", "select count(*) as n from Knows", graph.uri, "--master", cluster.master, "--json")
    answer = json.loads(finished(asked)[1])

    assert (code, err) == (0, "")
    assert json.loads(out)["edges"]["Knows"]["inserted"] == EDGES
    assert json.loads(again[1])["nodes"]["Person"]["unchanged"] == PEOPLE
    assert answer["rows"] == [{"n": 2 * EDGES}]  # edges without a key are new ones each time
    assert is_clean(graph)


def test_a_worker_that_is_killed_loses_and_doubles_nothing(cluster: Cluster, graph: og.Graph, source: Path) -> None:
    process = load(graph, source, cluster.master)
    while not list(Path(graph.uri, "__recovery").rglob("*.note")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    cluster.kill_a_worker()
    code, _, err = finished(process)

    assert (code, err) == (0, "")
    assert graph.table("Person").count_rows() == PEOPLE
    assert graph.table("Knows").count_rows() == EDGES
    assert is_clean(graph)


def test_executors_without_omnigraph_are_told_so(cluster: Cluster, graph: og.Graph, source: Path) -> None:
    bare = str(Path(sys.base_prefix) / "bin" / "python3")

    code, _, err = finished(load(graph, source, cluster.master, PYSPARK_PYTHON=bare))

    assert code == 2
    assert json.loads(err)["error"]["code"] == "executor_not_ready"
    assert is_clean(graph)


def test_a_master_that_does_not_answer_is_told_so(graph: og.Graph, source: Path) -> None:
    code, _, err = finished(load(graph, source, "spark://127.0.0.1:9"))

    assert code == 5
    error = json.loads(err)["error"]
    assert error["code"] == "spark_not_started"
    assert "nothing answers at 127.0.0.1:9 (Connection refused)" in error["message"]
    assert graph.table("Person").count_rows() == 0
    assert is_clean(graph)


def test_the_program_of_the_page_runs_by_spark_submit(cluster: Cluster, graph: og.Graph, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/run-on-clusters.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "load_people.py").write_text(program, encoding="utf-8")
    data = tmp_path / "people.jsonl"
    lines = [{"type": "Person", "data": {"name": f"p{number}", "bio": "b"}} for number in range(50)]
    data.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    java_home = LaunchEnvironment(tmp_path).create_java_home(detect_java())

    done = subprocess.run(
        [SPARK_SUBMIT, "--master", cluster.master, tmp_path / "load_people.py", graph.uri, data],
        env={
            **os.environ,
            "JAVA_HOME": str(java_home),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "50 inserted, 50 people"
    assert is_clean(graph)


HANGING = """
import json, pathlib, sys
import omnigraph as og
from dataclasses import replace
from omnigraph.faults import ArmedFaults
from omnigraph.ops.load import GraphSource, LoadCall, LoadInput, LoadMode, load
from omnigraph.spark.load.load_engine import build_reader
from omnigraph.spark.session.spark_session import session
from omnigraph.runtime import Runtime

master, uri, data = sys.argv[1:]
spark = session(master, **{
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.task.duration.threshold": "3s",
})
graph = og.open_graph(uri, runtime=Runtime(faults=ArmedFaults("task.staged", "stop")))
call = LoadCall(input=LoadInput(graph=(GraphSource(data=pathlib.Path(data)),)), mode=LoadMode.APPEND, actor="test")
told = load(graph._session, call, build_reader(spark=spark)).to_json()
store = spark.sparkContext._jsc.sc().statusStore()
found = [store.speculationSummary(stage, 0) for stage in range(100)]
print(json.dumps({**told, "doubles": sum(int(one.get().numTasks()) for one in found if one.isDefined())}))
"""


def test_a_task_that_hangs_gets_a_double_and_its_rows_are_there_once(
    cluster: Cluster, graph: og.Graph, tmp_path: Path
) -> None:
    data = tmp_path / "few.jsonl"
    lines = [{"type": "Person", "data": {"name": f"p{number}", "bio": "b"}} for number in range(50)]
    data.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING, cluster.master, graph.uri, str(data)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    code, out, err = finished(process)

    assert code == 0, err[-2000:]
    assert json.loads(out.splitlines()[-1])["doubles"] == 1
    assert graph.table("Person").count_rows() == 50
    assert is_clean(graph)
