"""The tour goes through, says what it does, and leaves other people's files alone."""

import json
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.bug_error import BugError
from omnigraph.cli import demo
from omnigraph.cli.main import main
from omnigraph.demo.cost_table import build_cost_rows
from omnigraph.demo.directory import prepare
from omnigraph.demo.runner import StepCost, TourRunner
from omnigraph.errors import FileDeniedError
from omnigraph.options import Engine
from omnigraph.spark.load.engine_choice import Machine
from omnigraph.telemetry import PROCESS_TELEMETRY, Telemetry

STEPS = [
    "make up data",
    "init",
    "load",
    "killed writers",
    "traversal",
    "aggregate",
    "hybrid search",
    "explain",
    "branch",
    "diff",
    "merge with a conflict",
    "resolution",
    "time travel",
    "optimize",
    "check",
    "all of it",
]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A small tour: its directory, what it told, and its document."""
    directory = tmp_path_factory.mktemp("tour") / "here"
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["demo", "--small", str(directory), "--json"])
    assert code == 0, err.getvalue()
    return directory, err.getvalue(), out.getvalue()


def test_every_step_is_told_with_its_command(played: tuple[Path, str, str]) -> None:
    _, told, _ = played

    assert re.findall(r"^=== (\d+)\.", told, re.MULTILINE) == [str(number) for number in range(1, len(STEPS))]
    for command in ("init", "load", "query", "explain", "mutate", "branch merge", "diff", "optimize", "check"):
        assert re.search(rf"^\$ (?:\w+=\S+ )?omnigraph {command} ", told, re.MULTILINE), command


def test_every_step_has_its_cost(played: tuple[Path, str, str]) -> None:
    document = json.loads(played[2])

    assert [step["step"] for step in document["steps"]] == STEPS
    assert all(step["seconds"] >= 0 for step in document["steps"])
    assert document["steps"][STEPS.index("load")]["rows"] == 12_000
    assert document["steps"][STEPS.index("traversal")]["reads"] > 0
    assert document["steps"][STEPS.index("init")]["writes"] > 0
    assert document["steps"][STEPS.index("make up data")]["reads"] is None


def test_two_writers_are_killed_and_the_second_is_in_the_history(played: tuple[Path, str, str]) -> None:
    directory, told, _ = played
    graph = og.open_graph(str(directory / "library.omni"), read_only=True)
    people = graph.query(
        'query q() { match { $p: Person  $p.name in ["Hedy Lamarr", "Mary Somerville"] } return { $p.name } }'
    )

    assert told.count("(killed by signal 9)") == 2
    assert people.rows() == [{"p.name": "Mary Somerville"}]


def test_what_the_killed_writers_left_is_in_no_commit_and_damages_nothing(played: tuple[Path, str, str]) -> None:
    told = played[1]

    assert "note[unused_files]" in told
    assert "error[" not in told


def test_the_conflict_is_shown_and_resolved(played: tuple[Path, str, str]) -> None:
    directory, told, _ = played

    newest = og.open_graph(str(directory / "library.omni"), read_only=True).commits(limit=1)[0]

    assert "1 conflict: nothing is merged" in told
    assert newest.operation == "merge"


def test_the_queries_of_the_tour_find_something(played: tuple[Path, str, str]) -> None:
    document = json.loads(played[2])
    rows = {step["step"]: step["rows"] for step in document["steps"]}

    assert rows["traversal"] > 0
    assert rows["hybrid search"] == 6
    assert rows["aggregate"] == 8


def test_another_tour_takes_the_place_of_an_earlier_one_and_of_nothing_else(tmp_path: Path) -> None:
    prepare(tmp_path)
    (tmp_path / "library.omni").mkdir()
    (tmp_path / "notes.txt").write_text("mine")

    prepare(tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".omnigraph-demo",
        "notes.txt",
        "queries.gq",
        "schema.pg",
    ]


@pytest.mark.soak
def test_a_tour_can_be_repeated(played: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["demo", "--small", str(played[0])])

    assert code == 0
    assert "=== What it cost" in capsys.readouterr().out


def test_a_directory_with_something_else_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "library.omni").mkdir()

    code = main(["demo", "--small", str(tmp_path)])

    assert code == 2
    assert "not created by an earlier tour" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["library.omni"]


@pytest.mark.parametrize("call", ["mkdir", "touch", "write_text"])
def test_a_place_that_can_not_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, call, refuse)

    with pytest.raises(FileDeniedError):
        prepare(tmp_path)


def test_a_file_is_no_place_for_a_tour(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")

    code = main(["demo", "--small", str(file)])

    assert code == 2
    assert "name another directory" in capsys.readouterr().err


def test_a_step_that_does_not_do_what_it_should_stops_the_tour() -> None:
    stage = TourRunner(run_command=lambda _: 1, write=lambda _: None)

    with pytest.raises(BugError, match="`omnigraph query x` ended with exit code 1 instead of 0"):
        stage.run("query", "x")


def test_a_long_command_can_be_pasted_as_it_is_shown() -> None:
    shown: list[str] = []
    stage = TourRunner(run_command=lambda _: 0, write=shown.append)
    words = ["load", *(word for number in range(9) for word in ("--node", f"Person=a file/{number}.parquet"))]

    stage.run(*words)

    text = shown[0].removeprefix("$ ")
    assert max(map(len, text.splitlines())) < 130
    assert shlex.split(text.replace("\\\n", " ")) == ["omnigraph", *words]


def test_commands_of_one_step_are_added_up() -> None:
    below = Telemetry()
    with below.count_requests() as read:
        below.record("table", "get_range", 3)
        below.record("control", "put", 2)
    costs = [
        StepCost(step="ask", seconds=1.0, requests=read, rows=2),
        StepCost(step="ask", seconds=0.5, requests=None, rows=None),
        StepCost(step="wait", seconds=2.0, requests=None, rows=None),
    ]

    assert build_cost_rows(costs) == [
        ("ask", "1.5", "3", "2", "0", "2"),
        ("wait", "2.0", "", "", "", ""),
        ("all of it", "3.5", "3", "2", "0", "2"),
    ]


def test_what_a_handle_counts_is_counted_for_the_process(tmp_path: Path) -> None:
    with PROCESS_TELEMETRY.count_requests() as requests:
        og.create_graph(str(tmp_path / "x.omni"), "node A { name: String @key }")

    assert requests.count() > 0


def test_spark_loads_the_data_where_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "describe_machine", lambda _: Machine(cores=2, memory=1))

    assert demo._choose_engine(Engine.AUTO, is_small=False) == (Engine.SPARK, "")


def test_without_spark_the_tour_says_who_loads_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        demo, "describe_machine", lambda _: Machine(cores=2, memory=1, find_missing=lambda: "there is no Java")
    )

    chosen, told = demo._choose_engine(Engine.AUTO, is_small=False)

    assert chosen is Engine.LOCAL
    assert told == "\nThis process loads the data: there is no Java."
