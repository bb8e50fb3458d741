"""Executors with another omnigraph than the driver are refused by name, before they read or write anything."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
import spark_other_build
from load_calls import person
from mutating import new_graph
from omnigraph.spark.session import handshake
from omnigraph.spark.session.handshake import check_build, compute_build
from omnigraph.spark.spark_errors import SparkUsageError
from raised_codes import has_code
from spark_loading import file_of

PACKAGE = Path(og.__file__).parent
SCHEMA = "node Person { name: String @key  age: I32? @index  @range(age, 0..150) }"
DOORS = ("load", "load of a frame", "read", "export", "optimize", "source", "sink")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = new_graph(tmp_path_factory.mktemp("handshake"), SCHEMA)
    for number in range(3):
        made.load([person(f"p{number}", age=number)], mode="append")
    return made


@pytest.fixture(scope="module")
def answers(graph: og.Graph, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each door said to executors whose copy knows no ranges."""
    place = tmp_path_factory.mktemp("other")
    shutil.copytree(PACKAGE, place / "omnigraph")
    rules = place / "omnigraph/engine/constraints/values.py"
    text = rules.read_text()
    assert "for limits in type_.ranges" in text
    rules.write_text(text.replace("for limits in type_.ranges", "for limits in ()"))
    data = file_of(place, *(person(f"q{number}", age=200) for number in range(50)))
    words = [sys.executable, spark_other_build.__file__, graph.uri, str(data), str(place), str(place / "out")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("door", DOORS)
def test_another_build_is_refused_wherever_tasks_run(answers: dict[str, str], door: str) -> None:
    assert "differs from the driver in the source of omnigraph" in answers[door]


def test_nothing_was_published(answers: dict[str, str], graph: og.Graph) -> None:
    assert set(answers) == set(DOORS)
    assert len(og.open_graph(graph.uri).commits()) == 4
    assert [path.name for path in Path(graph.uri, "__recovery").glob("*")] == []


@pytest.mark.parametrize("place", range(len(compute_build())))
def test_the_first_difference_is_named(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = compute_build()
    name, value = driver[place]
    other = tuple((one, "other") if one == name else (one, said) for one, said in driver)
    monkeypatch.setattr(handshake, "compute_build", lambda: other)

    with pytest.raises(SparkUsageError, check=has_code("executor_differs")) as refused:
        check_build(driver)

    assert refused.value.args[1:] == (name, value, "other")


def test_an_executor_that_knows_less_of_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = compute_build()
    monkeypatch.setattr(handshake, "compute_build", lambda: driver[:-1])

    with pytest.raises(SparkUsageError, match="unknown there"):
        check_build(driver)


def test_a_driver_that_says_less_of_itself_is_refused() -> None:
    for driver in ((), compute_build()[:-1]):
        with pytest.raises(SparkUsageError, match="unknown here"):
            check_build(driver)


def test_the_digest_is_of_names_and_contents(tmp_path: Path) -> None:
    digests: set[str] = set()
    for name, text in (("a.py", "x"), ("b.py", "x"), ("a.py", "y"), ("sub/a.py", "x")):
        place = tmp_path / str(len(digests))
        (place / name).parent.mkdir(parents=True)
        (place / name).write_text(text)
        (place / "notes.txt").write_text(name + text)
        digests.add(handshake._digest(place))

    assert len(digests) == 4


def test_tasks_are_started_in_one_place_only() -> None:
    calls = [path.name for path in (PACKAGE / "spark").rglob("*.py") if ".mapInArrow(" in path.read_text()]

    assert calls == ["handshake.py"]
