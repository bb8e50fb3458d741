"""One quiet session, which is the active one where there is one."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from omnigraph.spark.session import spark_session
from omnigraph.spark.session.java_runtime import JavaRuntime
from omnigraph.spark.session.launch_environment import LaunchEnvironment
from omnigraph.spark.session.master import explain_unreachable
from omnigraph.spark.session.spark_session import check_version, find_active_session, session
from omnigraph.spark.spark_errors import SparkFailedError, SparkUsageError
from raised_codes import has_code


def test_the_active_session_is_used_as_it_is(spark: SparkSession) -> None:
    assert session() is spark
    assert find_active_session() is spark


def test_another_master_than_the_active_one_is_refused(spark: SparkSession) -> None:
    with pytest.raises(SparkUsageError, check=has_code("other_master")) as error:
        session("spark://elsewhere:7077")

    assert str(spark.sparkContext.master) in str(error.value)
    assert "spark://elsewhere:7077" in str(error.value)


def test_a_session_of_spark_connect_is_made_by_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_session, "find_active_session", lambda: None)

    with pytest.raises(SparkFailedError, match=r"SparkSession\.builder\.remote"):
        session("sc://127.0.0.1:1")


def test_a_session_of_ours_is_calm(spark: SparkSession) -> None:
    context = spark.sparkContext

    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert context.uiWebUrl is None
    assert context.getConf().get("spark.driver.host") == "127.0.0.1"


@pytest.mark.skipif(any(name.startswith("MALLOC_") for name in os.environ), reason="the environment has its own")
def test_python_workers_of_a_session_of_ours_reuse_the_memory_of_a_batch(spark: SparkSession) -> None:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"threshold": [os.environ.get("MALLOC_MMAP_THRESHOLD_")]})

    row = spark.range(0, 1, numPartitions=1).mapInArrow(task, "threshold string").first()

    assert row is not None
    assert row.threshold == "33554432"


@pytest.mark.parametrize(
    "printed, words",
    [
        (
            'Exception in thread "main" org.apache.spark.SparkException: HADOOP_CONF_DIR must be set\n\tat S.main(S)',
            "HADOOP_CONF_DIR must be set",
        ),
        (
            "WARN: first\njava.io.IOException: no space\n\tat a.b(C.java)\nCaused by: x.Y: really\n\t... 3 more\n",
            "WARN: first\nno space\nreally",
        ),
        ("Error: Could not find or load main class\n", "Error: Could not find or load main class"),
        ("", ""),
    ],
)
def test_the_last_words_of_java_are_without_its_stack(tmp_path: Path, printed: str, words: str) -> None:
    home = LaunchEnvironment(tmp_path)
    home.output_path.write_text(printed)

    assert home.read_last_output() == words


def test_a_java_whose_start_was_interrupted_does_not_outlive_us(tmp_path: Path) -> None:
    home = LaunchEnvironment(tmp_path)
    program = (
        home.create_java_home(JavaRuntime(program=Path("/bin/sleep"), release=17, has_vectors=True, is_bundled=False))
        / "bin"
        / "java"
    )
    with subprocess.Popen([program, "300"]) as process:
        while not (home.pids_path.exists() and home.pids_path.read_text().endswith("\n")):
            time.sleep(0.01)

        home.kill_abandoned()

        assert process.wait(60) == -signal.SIGKILL


@pytest.mark.parametrize(
    "master", ["local[2]", "yarn", "k8s://https://127.0.0.1:9", "local-cluster[2,1,1024]", "spark://x"]
)
def test_only_masters_of_standalone_clusters_are_asked_whether_they_answer(master: str) -> None:
    assert explain_unreachable(master) is None


def test_a_master_that_does_not_answer_is_named_with_each_of_its_addresses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert explain_unreachable(f"spark://127.0.0.1:{port}") is None
        assert explain_unreachable(f"spark://127.0.0.1:9,127.0.0.1:{port}") is None

    assert explain_unreachable(f"spark://127.0.0.1:9,127.0.0.1:{port}") == (
        f"nothing answers at 127.0.0.1:9 (Connection refused); nothing answers at 127.0.0.1:{port} (Connection refused)"
    )


@pytest.mark.parametrize("version", ["3.5.4", "4.0.1"])
def test_an_older_spark_is_refused_by_its_version(version: str) -> None:
    with pytest.raises(SparkUsageError, match=f"the active session runs Spark {version}, and omnigraph needs 4.1"):
        check_version(version)


@pytest.mark.parametrize("version", ["4.1.0", "4.3.0-SNAPSHOT", "5.0", "a build"])
def test_a_spark_that_is_new_enough_or_unknown_is_used(version: str) -> None:
    check_version(version)
