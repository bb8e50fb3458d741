"""`omnigraph export`: rows on stdout and nothing else, or files and what was written."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.main import main
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from worlds import rows, seeded_world

LINE = '{{"type":"A","id":"{}","data":{{"v":{}}}}}\n'


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A graph with three commits: init, seed, and one more row in A."""
    session = seeded_world(tmp_path / "g")
    write_tables(session, [TableWrite(table_key="node:A", append=rows({"0": 26}))], operation="append", actor="ada")
    return session


def run(*arguments: str, capfdbinary: pytest.CaptureFixture[bytes]) -> tuple[int, str, str]:
    code = main(["export", *arguments])
    captured = capfdbinary.readouterr()
    return code, captured.out.decode(), captured.err.decode()


def test_rows_go_to_stdout_and_nothing_else(session: Session, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    code, out, err = run(session.uri, "--type", "A", capfdbinary=capfdbinary)

    assert code == 0
    assert out == "".join(LINE.format(*pair) for pair in (("0", 26), ("a", 1), ("b", 2), ("c", 3), ("d", 4)))
    assert err == ""


def test_all_types_are_written_in_declared_order(session: Session, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    _, out, _ = run(session.uri, capfdbinary=capfdbinary)

    types = [json.loads(line)["type"] for line in out.splitlines()]
    assert types == [*"AAAAA", *"BBBB", *"CCCC", *"DDDD", *"EEEE"]


def test_an_older_state_is_written(session: Session, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    seed = list(session.log.iter_history(session.head()))[1]

    _, by_id, _ = run(session.uri, "--type", "A", "--snapshot", seed.id, capfdbinary=capfdbinary)
    _, by_time, _ = run(session.uri, "--type", "A", "--at", seed.at, capfdbinary=capfdbinary)

    assert by_id == by_time == "".join(LINE.format(*pair) for pair in (("a", 1), ("b", 2), ("c", 3), ("d", 4)))


def test_a_file_is_written_and_counted(
    session: Session, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    target = tmp_path / "out.jsonl"

    code, out, _ = run(session.uri, "--type", "A", "--output", str(target), "--json", capfdbinary=capfdbinary)

    assert code == 0
    assert json.loads(out) == {
        "output": str(target),
        "commit_id": session.resolve_snapshot().commit.id,
        "format": "jsonl",
        "rows": {"A": 5},
    }
    assert len(target.read_text().splitlines()) == 5


def test_parquet_is_a_file_for_each_type(
    session: Session, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    target = tmp_path / "out"

    code, out, _ = run(session.uri, "--format", "parquet", "--output", str(target), capfdbinary=capfdbinary)

    assert code == 0
    assert sorted(path.name for path in (target / "nodes").iterdir()) == [f"{name}.parquet" for name in "ABCDE"]
    assert [line.split() for line in out.splitlines()][2] == ["A", "5", "rows"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--format", "parquet"], "name a directory with --output"),
        (["--json"], "--json needs --output"),
        (["--snapshot", "x", "--at", "2026-01-31T12:00:00Z"], "not both"),
    ],
)
def test_what_can_not_be_meant_is_refused(
    session: Session, arguments: list[str], message: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    code, out, err = run(session.uri, *arguments, capfdbinary=capfdbinary)

    assert (code, out) == (2, "")
    assert message in err


def test_an_unknown_type_is_not_found(session: Session, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    code, out, err = run(session.uri, "--type", "Nope", capfdbinary=capfdbinary)

    assert (code, out) == (4, "")
    assert "the graph has no type `Nope`" in err


def test_a_reader_that_stops_is_no_error_worth_words(session: Session) -> None:
    many = rows({f"{number:06}": number for number in range(20_000)})
    write_tables(session, [TableWrite(table_key="node:B", append=many)], operation="append", actor="ada")

    process = subprocess.Popen(
        [sys.executable, "-m", "omnigraph", "export", session.uri], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    process.stdout.close()
    _, err = process.communicate()

    assert json.loads(first)["type"] == "A"
    assert (process.returncode, err) == (141, b"")


@pytest.mark.parametrize(
    "format_, told", [("jsonl", "nothing was written"), ("parquet", "only finished types were written")]
)
def test_an_interrupted_export_says_what_is_there(
    session: Session,
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    format_: str,
    told: str,
) -> None:
    real = og.Graph.export

    def interrupted(*arguments: object, **options: object) -> None:
        def stop(_: object) -> None:
            raise KeyboardInterrupt

        real(*arguments, **{**options, "progress": stop})  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(og.Graph, "export", interrupted)
    code, out, err = run(session.uri, "--output", str(tmp_path / "out"), "--format", format_, capfdbinary=capfdbinary)

    assert (code, out, err.strip()) == (130, "", f"interrupted: {told}")
    assert not [path for path in tmp_path.rglob(".*") if "out" in path.name]
    assert (tmp_path / "out").exists() == (format_ == "parquet")
