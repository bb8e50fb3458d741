"""Which engine a load takes when nobody says: by size, cores, memory, and what is there at all."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.cli.main import main
from omnigraph.errors import BadArgumentError
from omnigraph.ops.load_inputs import GraphSource, LoadInput, TypedSource
from omnigraph.options import Engine, Options
from omnigraph.spark.load.engine_choice import EngineChoice, LoadRequest, Machine, choose_by_rules, choose_engine
from omnigraph.spark.session.master import count_cores, is_own_machine
from worlds import runtime

GB = 10**9
LAPTOP = Machine(cores=4, memory=16 * GB)
SERVER = Machine(cores=32, memory=128 * GB)
AT_A_CLUSTER = replace(LAPTOP, cluster="spark://host:7077")


@pytest.mark.parametrize(
    "machine, size, engine",
    [
        (LAPTOP, 1 * GB, Engine.LOCAL),
        (LAPTOP, 10 * GB, Engine.LOCAL),
        (LAPTOP, 17 * GB, Engine.SPARK),  # ids may not fit
        (SERVER, 2 * GB, Engine.LOCAL),
        (SERVER, 3 * GB, Engine.SPARK),  # its cores have something to do
        (AT_A_CLUSTER, 2 * GB, Engine.LOCAL),
        (AT_A_CLUSTER, 3 * GB, Engine.SPARK),
    ],
)
def test_large_input_goes_to_spark_where_that_pays(machine: Machine, size: int, engine: Engine) -> None:
    assert choose_by_rules(LoadRequest(size=size), machine).engine is engine


@pytest.mark.parametrize(
    "asked, told",
    [
        (LoadRequest(size=1200), "engine local: 1.2 kB of input, less than 2.1 GB"),
        (LoadRequest(size=5 * GB), "engine spark: 5.0 GB of input, 2.1 GB or more"),
        (LoadRequest(size=None), "engine local: a stream is read once, by one process"),
        (LoadRequest(has_frames=True, size=None), "engine spark: a DataFrame is in Spark already"),
        (LoadRequest(size=1, master="local[2]"), "engine spark on local[2]: a master is named"),
        (LoadRequest(engine=Engine.LOCAL, size=5 * GB), "engine local: as requested"),
        (LoadRequest(engine=Engine.SPARK, size=1, master="yarn"), "engine spark on yarn: as requested"),
    ],
)
def test_a_choice_says_why(asked: LoadRequest, told: str) -> None:
    assert str(choose_by_rules(asked, SERVER)) == told


def test_a_limit_of_the_caller_counts_instead_of_the_rule() -> None:
    assert choose_by_rules(LoadRequest(size=100, limit=100), LAPTOP).engine is Engine.SPARK
    assert choose_by_rules(LoadRequest(size=99, limit=100), LAPTOP).engine is Engine.LOCAL


def test_without_spark_everything_is_done_here() -> None:
    machine = replace(SERVER, find_missing=lambda: "Spark is not installed")

    found = choose_by_rules(LoadRequest(size=5 * GB), machine)

    assert found == EngineChoice(engine=Engine.LOCAL, reason="5.0 GB of input, and Spark is not installed")


def test_the_size_is_that_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"x" * 60)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.csv").write_bytes(b"x" * 50)
    given = LoadInput(
        graph=(GraphSource(data=tmp_path / "a.jsonl"),),
        typed=(TypedSource(type="Person", is_edge=False, data=(tmp_path / "more",)),),
    )

    found = choose_engine(given, Options(spark_bytes=1000), Engine.AUTO, None)

    assert str(found) == "engine local: 110 B of input, less than 1.0 kB"


def test_a_table_in_memory_is_a_stream() -> None:
    given = LoadInput(typed=(TypedSource(type="Person", is_edge=False, data=pa.table({"name": ["ada"]})),))

    assert choose_engine(given, Options(spark_bytes=0), Engine.AUTO, None).engine is Engine.LOCAL


def test_input_that_is_not_there_is_left_to_the_load(tmp_path: Path) -> None:
    given = LoadInput(graph=(GraphSource(data=tmp_path / "none.jsonl"),))

    assert choose_engine(given, Options(), Engine.AUTO, None).engine is Engine.LOCAL


def test_a_load_tells_its_engine_before_anything_else(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), "node Person { name: String @key }", runtime=runtime())
    (tmp_path / "in.jsonl").write_text('{"type": "Person", "data": {"name": "ada"}}\n', encoding="utf-8")
    seen: list[tuple[str, str]] = []

    graph.load(tmp_path / "in.jsonl", mode="append", progress=lambda one: seen.append((one.phase, one.detail)))

    assert seen[0][0] == "engine"
    assert seen[0][1].startswith("engine local: 44 B of input")
    assert "engine" not in [phase for phase, _ in seen[1:]]


def test_a_master_without_spark_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = og.create_graph(str(tmp_path / "g"), "node Person { name: String @key }", runtime=runtime())

    with pytest.raises(BadArgumentError, match="does not use Spark"):
        graph.load([], mode="append", engine="local", master="local[2]")
    code = main(["load", graph.uri, "--mode", "append", "--data", "-", "--engine", "local", "--master", "local[2]"])

    assert code == 2
    assert "--master is for Spark" in capsys.readouterr().err


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local[2,3]", "local-cluster[2,1,1024]", "spark://127.0.0.1:7"]
)
def test_masters_of_this_machine(master: str) -> None:
    assert is_own_machine(master)


@pytest.mark.parametrize("master", ["yarn", "k8s://host", "spark://host:7077", "spark://127.0.0.1:7,host:7"])
def test_masters_elsewhere(master: str) -> None:
    assert not is_own_machine(master)


@pytest.mark.parametrize(
    "master, cores", [("local", 1), ("local[3]", 3), ("local[2,5]", 2), ("local-cluster[2,3,9]", 6)]
)
def test_the_cores_of_a_master(master: str, cores: int) -> None:
    assert count_cores(master) == cores
