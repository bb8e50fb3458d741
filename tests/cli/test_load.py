"""`omnigraph load`: what it takes, what it says, and how it ends."""

import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import omnigraph as og
from mutating import column, new_graph
from omnigraph.cli.main import main
from omnigraph.cli.progress import format_progress
from omnigraph.telemetry import format_bytes

PEOPLE = [{"type": "Person", "data": {"name": name}} for name in ("ada", "bob")]
KNOWS = {"edge": "Knows", "from": "ada", "to": "bob"}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path)


def lines(*records: object) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "people.jsonl"
    path.write_bytes(lines(*PEOPLE, KNOWS))
    return str(path)


# --- what it does --------------------------------------------------------------------------------------------------


def test_a_load_says_what_it_did(graph: og.Graph, data: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["load", graph.uri, "--mode", "append", "--data", data, "--as", "eve", "--message", "hi"])

    commit = graph.commits()[0]
    assert code == 0
    assert capsys.readouterr().out == (
        f"type    read  inserted\nPerson     2         2\nKnows      1         1\ncommit {commit.id}\n"
    )
    assert (commit.operation, commit.actor, commit.message) == ("load", "eve", "hi")


def test_as_json_it_is_one_document(graph: og.Graph, data: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["load", graph.uri, "--mode", "append", "--data", data, "--json"])

    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert printed.err == ""
    assert document["commit_id"] == graph.commits()[0].id
    assert (document["nodes"]["Person"]["inserted"], document["edges"]["Knows"]["inserted"]) == (2, 1)


def test_several_files_are_one_load(graph: og.Graph, tmp_path: Path, data: str) -> None:
    more = tmp_path / "more.jsonl"
    more.write_bytes(lines({"edge": "Knows", "from": "bob", "to": "ada"}))

    code = main(["load", graph.uri, "--mode", "append", "--data", str(more), "--data", data])

    assert code == 0
    assert len(graph.commits()) == 2
    assert sorted(column(graph, "Knows", "src")) == ["ada", "bob"]


def test_stdin_is_a_file(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines(*PEOPLE))))

    code = main(["load", graph.uri, "--mode", "append", "--data", "-"])

    assert code == 0
    assert column(graph, "Person", "id") == ["ada", "bob"]


def test_files_of_one_type_are_taken_by_columns(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("full,age\nada,36\nbob,\n", encoding="utf-8")
    (tmp_path / "knows.csv").write_text("from,to\nada,bob\n", encoding="utf-8")

    code = main(
        [
            *("load", graph.uri, "--mode", "append"),
            *("--node", f"Person={tmp_path}/people.csv", "--map", "Person.name=full"),
            *("--edge", f"knows={tmp_path}/knows.csv"),
        ]
    )

    assert code == 0
    assert column(graph, "Person", "age") == [36, None]
    assert column(graph, "Knows", "dst") == ["bob"]


def test_a_merge_changes_what_is_there(graph: og.Graph, tmp_path: Path, data: str) -> None:
    main(["load", graph.uri, "--mode", "append", "--data", data])
    more = tmp_path / "more.jsonl"
    more.write_bytes(lines({"type": "Person", "data": {"name": "ada", "age": 36}}))

    code = main(["load", graph.uri, "--mode", "merge", "--data", str(more)])

    assert code == 0
    assert column(graph, "Person", "age") == [36, None]


def test_a_dry_run_counts_bad_records_and_keeps_none(
    graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text("no record\n")

    code = main(
        ["load", graph.uri, "--mode", "append", "--data", str(path), "--on-error", str(tmp_path / "bad"), "--dry-run"]
    )

    assert code == 0
    assert capsys.readouterr().out == "1 bad record\ndry run: nothing was written\n"
    assert not (tmp_path / "bad").exists()


def test_a_dry_run_writes_nothing(graph: og.Graph, data: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["load", graph.uri, "--mode", "append", "--data", data, "--dry-run"])

    assert code == 0
    assert capsys.readouterr().out.endswith("dry run: nothing was written\n")
    assert len(graph.commits()) == 1


def test_a_key_makes_repeating_safe(graph: og.Graph, data: str) -> None:
    for _ in range(2):
        code = main(["load", graph.uri, "--mode", "append", "--data", data, "--idempotency-key", "k"])
        assert code == 0

    assert len(graph.commits()) == 2


def test_an_input_without_rows_changes_nothing(
    graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "none.jsonl").write_text("// nothing yet\n", encoding="utf-8")

    code = main(["load", graph.uri, "--mode", "overwrite", "--data", str(tmp_path / "none.jsonl")])

    assert code == 0
    assert capsys.readouterr().out == "nothing to change\n"


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_bad_record_fails_the_load(graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(lines(PEOPLE[0], {"type": "Person", "data": {"name": "bob", "age": 201}}))

    code = main(["load", graph.uri, "--mode", "append", "--data", str(bad)])

    assert code == 1
    assert f"{bad}, line 2: @range violation on Person.age: 201 > max 200" in capsys.readouterr().err
    assert column(graph, "Person", "id") == []


def test_as_json_every_problem_is_a_fact(graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(lines(PEOPLE[0], KNOWS))

    main(["load", graph.uri, "--mode", "append", "--data", str(bad), "--json"])

    error = json.loads(capsys.readouterr().err)["error"]
    assert (error["code"], error["kind"], error["total"]) == ("load_refused", "invalid", 1)
    assert (error["problems"][0]["line"], error["problems"][0]["property"]) == (2, "to")


def test_bad_records_go_to_a_directory(graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad, kept = tmp_path / "bad.jsonl", tmp_path / "kept"
    bad.write_bytes(lines(PEOPLE[0], {"type": "Person", "data": {"name": "bob", "age": 201}}))

    code = main(["load", graph.uri, "--mode", "append", "--data", str(bad), "--on-error", str(kept)])

    assert code == 0
    assert f"1 bad record in {kept}\n" in capsys.readouterr().out
    assert column(graph, "Person", "id") == ["ada"]
    assert json.loads((kept / "reasons.jsonl").read_text("utf-8"))["line"] == 2


def test_too_many_bad_records_fail_the_load(graph: og.Graph, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(lines(PEOPLE[0], KNOWS))

    code = main(
        [
            *("load", graph.uri, "--mode", "append", "--data", str(bad)),
            *("--on-error", str(tmp_path / "kept"), "--max-errors", "0"),
        ]
    )

    assert code == 1
    assert len(graph.commits()) == 1


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["--mode", "append"], 2, "name what to load"),
        (["--data", "{data}"], 2, "Missing option '--mode'"),
        (["--mode", "append", "--node", "Person"], 2, "--node takes TYPE=PATH, not `Person`"),
        (["--mode", "append", "--node", "Person=x.csv", "--map", "name=x"], 2, "--map takes TYPE.PROPERTY=COLUMN"),
        (
            ["--mode", "append", "--node", "Person=x.csv", "--map", "Person.name=x", "--map", "Person.name=y"],
            2,
            "--map names `Person.name` twice",
        ),
        (
            ["--mode", "append", "--data", "{data}", "--map", "Person.name=x"],
            2,
            "no file of this type is loaded from columns",
        ),
        (["--mode", "append", "--data", "-", "--data", "-"], 2, "stdin can be read only once"),
        (["--mode", "append", "--data", "{data}", "--max-errors", "3"], 2, "needs --on-error DIR"),
        (["--mode", "append", "--data", "{data}", "--if-exists"], 2, "needs --from BRANCH"),
        (["--mode", "append", "--data", "none.jsonl"], 4, "there is no file `none.jsonl`"),
        (["--mode", "append", "--node", "Persn={data}"], 4, "did you mean `Person`"),
        (["--mode", "append", "--data", "{data}", "--branch", "dev"], 4, "no branch `dev`; it has `main`"),
        (["--mode", "append", "--data", "{data}", "--as", "omnigraph:x"], 2, "can't sign a commit"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(
    graph: og.Graph, data: str, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    given = [word.format(data=data) for word in arguments]

    assert main(["load", graph.uri, *given]) == code
    assert message in capsys.readouterr().err
    assert len(graph.commits()) == 1


def test_overwriting_a_remote_graph_needs_a_yes(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["load", "s3://bucket/graph", "--mode", "overwrite", "--data", data])

    assert code == 2
    assert "needs --yes when there is no terminal to ask at" in capsys.readouterr().err


# --- on a terminal ---------------------------------------------------------------------------------------------------


def on_a_terminal(arguments: list[str], answer: bytes = b"") -> tuple[int, str, str]:
    """The exit code, stdout, and what a person sees on stderr."""
    person, terminal = pty.openpty()
    os.write(person, answer)
    process = subprocess.Popen(
        [sys.executable, "-m", "omnigraph", *arguments],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=terminal,
        text=True,
    )
    os.close(terminal)
    printed, _ = process.communicate(timeout=60)
    seen = bytearray()
    try:
        while part := os.read(person, 4096):
            seen += part
    except OSError:  # nobody holds the other end any more
        pass
    os.close(person)
    return process.returncode, printed, seen.decode()


def test_a_person_sees_where_it_goes_and_how_far_it_is(graph: og.Graph, data: str) -> None:
    code, printed, seen = on_a_terminal(["load", graph.uri, "--mode", "append", "--data", data])

    assert code == 0
    assert printed.startswith("type ")
    assert seen.startswith(f"omnigraph load → {graph.uri} (local)\r\n")
    assert "read  [" in seen
    assert seen.endswith("\r\x1b[2K")


def test_quiet_shows_nothing(graph: og.Graph, data: str) -> None:
    _, _, seen = on_a_terminal(["load", graph.uri, "--mode", "append", "--data", data, "--quiet"])

    assert seen == ""


def test_a_person_is_asked_before_a_remote_graph_is_overwritten(data: str) -> None:
    code, _, seen = on_a_terminal(["load", "s3://bucket/graph", "--mode", "overwrite", "--data", data], b"n\n")

    assert code == 1
    assert "Replace the tables of s3://bucket/graph for all types in the input?" in seen


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_load_leaves_nothing(graph: og.Graph, tmp_path: Path, sign: signal.Signals) -> None:
    spools = tmp_path / "tmp"
    spools.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "omnigraph", "load", graph.uri, "--mode", "append", "--data", "-"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(spools)},
    )
    assert process.stdin is not None
    process.stdin.write(lines(*PEOPLE))
    process.stdin.flush()
    while not any(spools.glob("omnigraph-load-*")):  # it reads, and waits for the rest
        assert process.poll() is None
        time.sleep(0.01)

    process.send_signal(sign)
    _, told = process.communicate(timeout=60)

    assert process.returncode == 130
    assert told.decode() == "interrupted: nothing was loaded\n"
    assert list(spools.iterdir()) == []
    assert len(graph.commits()) == 1
    assert graph.operations().pending == ()


# --- how far ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "share, shown",
    [
        (None, "read  1,200 rows  3.4 MB"),
        (0.0, "read  [>                       ]   0%  1,200 rows  3.4 MB"),
        (0.5, "read  [============>           ]  50%  1,200 rows  3.4 MB"),
        (1.2, "read  [========================] 100%  1,200 rows  3.4 MB"),
    ],
)
def test_the_line_says_how_far_it_is(share: float | None, shown: str) -> None:
    assert format_progress("read", rows=1200, nbytes=3_400_000, share=share) == shown


@pytest.mark.parametrize("count, shown", [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (2_500_000_000, "2.5 GB")])
def test_sizes_are_short(count: int, shown: str) -> None:
    assert format_bytes(count) == shown
