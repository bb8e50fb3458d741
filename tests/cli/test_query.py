"""`omnigraph query`: a query, its parameters and a graph; the rows as text, and as every format for programs."""

import io
import json
import math
import os
import stat
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from mutating import new_graph, run
from omnigraph.cli import progress, result_formats
from omnigraph.cli.main import main
from omnigraph.cli.options import ByteSize
from omnigraph.cli.render import find_column_limit, measure_width
from omnigraph.engine.query_progress import QueryProgress
from omnigraph.engine.tables import graph_cache
from terminals import Terminal

ALL = "query all() { match { $p: Person } return { $p.name, $p.age, $p.score, $p.born } order { $p.name } }"
ONE = "query one($n: String, $a: I32?) { match { $p: Person { name: $n } } return { $p.name, $p.age } }"
WHOLE = "query whole() { match { $p: Person } return { $p } order { $p.name } limit 1 }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = new_graph(tmp_path)
    run(
        made,
        """
        insert Person { name: "ada", age: 36, score: 1.5, born: date("1915-12-10") }
        insert Person { name: "日本", age: 7 }
        insert Person { name: "zoë" }
        """,
    )
    return made


@pytest.fixture
def queries(tmp_path: Path) -> str:
    path = tmp_path / "people.gq"
    path.write_text(f"{ALL}\n{ONE}", encoding="utf-8")
    return str(path)


def asked(capsysbinary: pytest.CaptureFixture[bytes], *words: str) -> bytes:
    code = main(["query", *words])

    captured = capsysbinary.readouterr()
    assert code == 0, captured.err.decode()
    assert captured.err == b""
    return captured.out


def refused(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> str:
    found = main(["query", *words])

    captured = capsys.readouterr()
    assert found == code, captured.err
    assert captured.out == ""
    return captured.err


# --- for people -----------------------------------------------------------------------------------------------


def test_rows_are_a_table_with_aligned_columns(graph: og.Graph, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    text = asked(capsysbinary, graph.uri, "-e", ALL).decode()

    assert text == (
        "p.name  p.age  p.score  p.born\n"
        "ada        36      1.5  1915-12-10\n"
        "zoë      null     null  null\n"
        "日本        7     null  null\n"
        "\n"
        "3 rows\n"
    )


def test_integers_that_json_shows_as_text_are_aligned_as_numbers(
    graph: og.Graph, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    text = "query q($n: I64) { match { $p: Person } return { $p.name, $n as n } order { $p.name } limit 1 }"

    lines = asked(capsysbinary, graph.uri, "-e", text, "--param", f"n={2**60}").decode().splitlines()

    assert lines[:2] == ["p.name                    n", f"ada     {2**60}"]


def test_a_table_without_rows_has_its_columns(graph: og.Graph, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    text = asked(capsysbinary, graph.uri, "-e", ONE, "--param", "n=nobody").decode()

    assert text == "p.name  p.age\n\n0 rows\n"


def test_a_table_shows_the_first_rows_and_says_so(
    graph: og.Graph, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_formats, "MAX_TABLE_ROWS", 2)

    text = asked(capsysbinary, graph.uri, "-e", ALL).decode()

    assert text.endswith("zoë      null     null  null\n\nthe first 2 of 3 rows; --format jsonl or csv prints all\n")


def test_long_values_are_shortened_by_what_they_take_on_a_terminal(
    graph: og.Graph, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    run(graph, f'insert Person {{ name: "{"語" * 50}" }}')
    text = 'query q() { match { $p: Person $p.name starts_with "語" } return { $p.name } }'

    lines = asked(capsysbinary, graph.uri, "-e", text).decode().splitlines()

    assert lines[1] == "語" * 39 + "…"
    assert lines[-1] == "1 row; long values are shortened; --format kv shows them whole"


LONG = 'query q() { match { $p: Person $p.name starts_with "long" } return { $p.name, $p.name as again, 1 as n } }'


@pytest.fixture
def narrow(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    """A graph with a long name, and a terminal of 40 columns."""
    long_name = "long" + "語" * 50
    run(graph, f'insert Person {{ name: "{long_name}" }}')
    monkeypatch.setattr("omnigraph.cli.options.measure_terminal", lambda: 40)
    return graph


def test_a_table_fits_into_the_terminal(narrow: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", narrow.uri, "-e", LONG]) == 0

    lines = capsys.readouterr().out.splitlines()
    # 40 columns, without two gaps and the number, are shared by two equally long columns.
    assert lines[1] == f"long{'語' * 6}…  long{'語' * 6}…  1"
    assert max(map(measure_width, lines[:2])) <= 40
    assert "long values are shortened" in lines[-1]


def test_the_size_is_that_of_the_terminal(narrow: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    with Terminal(["query", narrow.uri, "-e", LONG]) as terminal:
        lines = terminal.wait_for("1 row").splitlines()
        assert terminal.wait_for_end() == 0

    # Terminals of tests have 100 columns: 95 without the gaps and the number, 47 for each long column.
    assert max(map(measure_width, lines)) == len("long") + 42 + 1 + 2 + len("long") + 42 + 1 + 2 + 1


def test_wide_prints_whole_values(narrow: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", narrow.uri, "-e", LONG, "--wide"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["long" + "語" * 50, "long" + "語" * 50, "1"]
    assert lines[-1] == "1 row"


@pytest.mark.parametrize(
    "widths, max_width, expected",
    [
        ([5, 5], 100, 5),
        ([5, 50], 40, 33),
        ([50, 50], 42, 20),
        ([3, 30, 50], 60, 26),
        ([50] * 20, 40, 8),
        ([], 40, 8),
    ],
)
def test_the_widest_columns_give_way(widths: list[int], max_width: int, expected: int) -> None:
    assert find_column_limit(widths, max_width) == expected


def test_a_diff_and_a_type_fit_too(narrow: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["diff", "main~1", "main", narrow.uri], ["show", narrow.uri, "Person"]):
        assert main(words) == 0
        fitted = [line for line in capsys.readouterr().out.splitlines() if "語" in line]
        assert main([*words, "--wide"]) == 0
        whole = [line for line in capsys.readouterr().out.splitlines() if "語" in line]
        assert len(fitted) == len(whole) == 1
        assert measure_width(fitted[0]) < measure_width(whole[0])
        assert whole[0].count("語") == 100


def test_what_can_t_be_seen_is_revealed(graph: og.Graph, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    run(graph, 'insert Person { name: "a\\u202eb\\nc" }')

    text = asked(capsysbinary, graph.uri, "-e", ALL).decode()

    assert "a<U+202E>b<U+000A>c" in text


def test_records_show_a_value_a_line(graph: og.Graph, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    text = asked(capsysbinary, graph.uri, "-e", ALL, "--format", "kv").decode()

    assert text == (
        "row 1\n  p.name   ada\n  p.age    36\n  p.score  1.5\n  p.born   1915-12-10\n"
        "\nrow 2\n  p.name   zoë\n  p.age    null\n  p.score  null\n  p.born   null\n"
        "\nrow 3\n  p.name   日本\n  p.age    7\n  p.score  null\n  p.born   null\n"
    )


# --- for programs -----------------------------------------------------------------------------------------------


def test_json_is_the_result_document(graph: og.Graph, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    expected = graph.query(ALL).to_json()

    assert json.loads(asked(capsysbinary, graph.uri, "-e", ALL, "--json")) == expected
    assert json.loads(asked(capsysbinary, graph.uri, "-e", ALL, "--format", "json")) == expected


def test_jsonl_is_a_row_a_line(graph: og.Graph, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    lines = asked(capsysbinary, graph.uri, "-e", ALL, "--format", "jsonl").splitlines()

    assert lines[0] == b'{"p.name":"ada","p.age":36,"p.score":1.5,"p.born":"1915-12-10"}'
    assert len(lines) == 3


def test_csv_has_a_header_and_leaves_nulls_empty(graph: og.Graph, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert asked(capsysbinary, graph.uri, "-e", ALL, "--format", "csv").decode() == (
        '"p.name","p.age","p.score","p.born"\n"ada",36,1.5,1915-12-10\n"zoë",,,\n"日本",7,,\n'
    )


def test_arrow_on_stdout_is_a_stream(graph: og.Graph, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    data = asked(capsysbinary, graph.uri, "-e", WHOLE, "--format", "arrow")

    assert pa.ipc.open_stream(data).read_all().to_pylist() == graph.query(WHOLE).rows()


def test_parquet_goes_to_a_pipe_too(graph: og.Graph, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    data = asked(capsysbinary, graph.uri, "-e", ALL, "--format", "parquet")

    assert pq.read_table(io.BytesIO(data)).to_pylist() == graph.query(ALL).rows()


@pytest.mark.parametrize("format_", ["arrow", "parquet"])
def test_bytes_don_t_go_to_a_terminal(
    graph: og.Graph, format_: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    assert "name a file with --output" in refused(capsys, 2, graph.uri, "-e", ALL, "--format", format_)


# --- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["r.parquet", "r.arrow", "r.csv", "r.jsonl", "r.json", "r.txt"])
def test_the_name_of_a_file_says_its_format(
    graph: og.Graph, name: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / name

    text = asked(capsysbinary, graph.uri, "-e", ALL, "--output", str(path)).decode()

    assert text.splitlines()[0] == f"output  {path}"
    assert text.splitlines()[2:] == ["rows    3", f"commit  {graph.snapshot().commit.id}"]
    assert read_back(path) == (3, "ada")


def read_back(path: Path) -> tuple[int, str]:
    rows: Any
    match path.suffix:
        case ".parquet":
            rows = pq.read_table(path).to_pylist()
        case ".arrow":
            rows = pa.ipc.open_file(path.read_bytes()).read_all().to_pylist()
        case ".json":
            rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
        case ".jsonl":
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        case _:
            lines = path.read_text(encoding="utf-8").splitlines()
            return 3 if len([line for line in lines if line]) in (4, 5) else 0, lines[1][:4].strip('" ')
    return len(rows), rows[0]["p.name"]


def test_what_was_written_is_told_as_json(
    graph: og.Graph, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = str(tmp_path / "rows")

    document = json.loads(asked(capsysbinary, graph.uri, "-e", ALL, "--output", path, "--format", "parquet", "--json"))

    assert document == {
        "output": path,
        "format": "parquet",
        "query_name": "all",
        "target": {"branch": "main"},
        "commit_id": graph.snapshot().commit.id,
        "row_count": 3,
        "columns": ["p.name", "p.age", "p.score", "p.born"],
        "types": [
            {"name": "p.name", "kind": "value", "type": "String"},
            {"name": "p.age", "kind": "value", "type": "I32?"},
            {"name": "p.score", "kind": "value", "type": "F64?"},
            {"name": "p.born", "kind": "value", "type": "Date?"},
        ],
    }


def test_a_file_is_replaced_whole_and_keeps_its_mode(
    graph: og.Graph, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "r.csv"
    path.write_text("old", encoding="utf-8")
    path.chmod(0o600)

    asked(capsysbinary, graph.uri, "-e", ALL, "--output", str(path))

    assert path.read_text(encoding="utf-8").startswith('"p.name"')
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_new_file_has_the_usual_mode(
    graph: og.Graph, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    before = os.umask(0o027)
    try:
        asked(capsysbinary, graph.uri, "-e", ALL, "--output", str(tmp_path / "r.csv"))
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "r.csv").stat().st_mode) == 0o640


def test_a_query_that_fails_leaves_the_file_as_it_was(
    graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.csv"
    path.write_text("old", encoding="utf-8")

    def fails(*_: Any) -> None:
        raise og.QueryTimeoutError(1.0)

    monkeypatch.setattr(og.Result, "write", fails)

    refused(capsys, 1, graph.uri, "-e", ALL, "--output", str(path))

    assert path.read_text(encoding="utf-8") == "old"
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".r.csv")] == []


def test_a_device_is_written_to_as_it_is(graph: og.Graph, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    asked(capsysbinary, graph.uri, "-e", ALL, "--output", "/dev/null", "--format", "csv")

    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_directory_that_is_not_there_is_named(
    graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "nowhere"

    told = refused(capsys, 4, graph.uri, "-e", ALL, "--output", str(directory / "r.csv"))

    assert f"there is no directory `{directory.resolve()}` to write `r.csv` in" in told


@pytest.mark.parametrize("size", ["1", "1.5KB", "2 KiB", "3k"])
def test_a_query_that_needs_more_memory_than_it_is_given_is_refused(
    graph: og.Graph, size: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = (
        "query q() { match { $a: Person  $b: Person  $c: Person  $d: Person } return { $a.name, $b.name, $c.name } }"
    )

    assert "more than the" in refused(capsys, 1, graph.uri, "-e", pairs, "--memory", size)


def test_a_query_ends_with_its_time(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    told = refused(capsys, 1, graph.uri, "-e", ALL, "--timeout", "0.000001")

    assert "the query ran longer than 1e-06 seconds" in told


@pytest.mark.parametrize(
    "words, problem",
    [
        (("--memory", "much"), "`much` is not a size, such as 500MB or 2GiB"),
        (("--memory", "0"), "`0` is not a size"),
        (("--timeout", "soon"), "`soon` is not a number of seconds above 0"),
        (("--timeout", "-1"), "`-1` is not a number of seconds above 0"),
        (("--timeout", "inf"), "`inf` is not a number of seconds above 0"),
    ],
)
def test_what_a_query_may_use_is_a_size_and_a_time(
    graph: og.Graph, words: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert problem in refused(capsys, 2, graph.uri, "-e", ALL, *words)


@pytest.mark.parametrize(
    "text, expected",
    [("512", 512), ("1kB", 1000), ("1KiB", 1024), ("2G", 2 * 2**30), ("1.5 MiB", 3 * 2**19), ("500MB", 5 * 10**8)],
)
def test_a_size_has_a_unit(text: str, expected: int) -> None:
    assert ByteSize().convert(text, None, None) == expected


@pytest.mark.parametrize(
    "words, problem",
    [
        (("--output", "rows"), "the name `rows` selects no format: use --format"),
        (("--output", "-", "--format", "csv"), "without it the result goes to stdout"),
        (("--json", "--format", "csv"), "either --json or --format csv"),
        (("--snapshot", "x", "--at", "2026-01-01T00:00:00Z"), "either --snapshot or --at"),
        (("--at", "2026-01-01"), "not a time with a time zone"),
        (("--format", "xml"), "xml"),
        (("--query", "q.gq"), "either --query FILE or -e TEXT"),
        (("--param", "n"), "--param takes NAME=VALUE"),
        (("--params", "[]"), "one JSON object"),
        (("a", "b"), "at most NAME and URI"),
    ],
)
def test_a_wrong_call_exits_with_2(
    graph: og.Graph, words: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert problem in refused(capsys, 2, graph.uri, "-e", ALL, *words)


# --- which query, of which graph ----------------------------------------------------------------------------------


def test_a_query_of_a_file_is_picked_by_its_name(
    graph: og.Graph, queries: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    words = ("one", graph.uri, "--query", queries, "--params", '{"n": "ada"}', "--param", "a=3", "--format", "jsonl")

    assert asked(capsysbinary, *words) == b'{"p.name":"ada","p.age":36}\n'


def test_a_single_word_is_the_query_when_the_graph_is_named_otherwise(
    graph: og.Graph, queries: str, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_STORE", graph.uri)

    assert asked(capsysbinary, "one", "--query", queries, "--param", "n=zoë", "--format", "jsonl").startswith(
        b'{"p.name"'
    )


def test_the_state_of_a_commit_or_time_is_asked(graph: og.Graph, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    first = graph.commits()[-1].id
    now = datetime.now(UTC).isoformat()

    past = json.loads(asked(capsysbinary, graph.uri, "-e", ALL, "--json", "--snapshot", first))
    present = json.loads(asked(capsysbinary, graph.uri, "-e", ALL, "--json", "--at", now, "--branch", "main"))

    assert (past["target"], past["row_count"]) == ({"snapshot": first}, 0)
    assert present["row_count"] == 3


@pytest.mark.parametrize(
    "words, code, error",
    [
        (("-e", "query q() { match { $p: Persn } return { $p } }"), 1, "invalid_source"),
        (("-e", ONE), 1, "invalid_parameters"),
        (("-e", 'query d() { delete Person where name = "ada" }'), 1, "not_a_read"),
        (("-e", f"{ALL}\n{ONE}"), 2, "query_ambiguous"),
        (("-e", ALL, "--branch", "review"), 4, "branch_not_found"),
        (("-e", ALL, "--snapshot", "x"), 4, "commit_not_found"),
        (("--query", "nowhere.gq"), 4, "file_not_found"),
    ],
)
def test_what_goes_wrong_has_its_exit_code(
    graph: og.Graph, words: tuple[str, ...], code: int, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert json.loads(refused(capsys, code, graph.uri, *words, "--json"))["error"]["code"] == error


def test_who_asks_with_a_mutation_is_told_the_command(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    told = refused(capsys, 1, graph.uri, "-e", 'query d() { delete Person where name = "ada" }')

    assert "help: `omnigraph mutate` runs it" in told


def test_who_runs_out_of_a_budget_is_told_its_variable(
    graph: og.Graph, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_QUERY_MEMORY_BYTES", "1")

    assert "help: OMNIGRAPH_QUERY_MEMORY_BYTES sets the memory limit" in refused(capsys, 1, graph.uri, "-e", ALL)


def test_a_graph_that_is_not_there_exits_with_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no graph" in refused(capsys, 4, str(tmp_path / "none"), "-e", ALL)


def test_asking_changes_nothing(graph: og.Graph, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    before = {str(path): path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}

    asked(capsysbinary, graph.uri, "-e", ALL)

    assert {str(path): path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before


# --- in parts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
@pytest.mark.parametrize("condition", ["", '{ name: "nobody" }'])
def test_a_json_document_is_made_in_parts(
    graph: og.Graph,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    at_once: int,
    condition: str,
) -> None:
    monkeypatch.setattr(result_formats, "_BATCH_ROWS", at_once)
    text = f"query q() {{ match {{ $p: Person {condition} }} return {{ $p, $p.age }} order {{ $p.name }} }}"

    printed = asked(capsysbinary, graph.uri, "-e", text, "--json").decode()

    expected = graph.query(text).to_json()
    assert json.loads(printed) == expected
    assert printed == json.dumps(expected, indent=2, ensure_ascii=False) + "\n"


# --- what is kept for the next process --------------------------------------------------------------------------


@pytest.fixture
def every_topology_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_cache, "MIN_DERIVED_EDGES", 1)


HOPS = "query hops() { match { $p: Person; $p knows{1,2} $q } return { count(*) as n } }"


def settle() -> None:
    for thread in threading.enumerate():
        if thread.name == "omnigraph-derived":
            thread.join()


@pytest.mark.usefixtures("every_topology_is_kept")
@pytest.mark.parametrize("command", [["query"], ["explain", "--analyze"]])
def test_a_command_that_reads_writes_nothing_below_the_graph(
    graph: og.Graph, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    run(graph, 'insert Knows { from: "ada", to: "zoë" }')
    before = {path: path.stat().st_mtime_ns for path in Path(graph.uri).rglob("*")}

    assert main([*command, graph.uri, "-e", HOPS]) == 0
    settle()

    assert capsys.readouterr().err == ""
    assert {path: path.stat().st_mtime_ns for path in Path(graph.uri).rglob("*")} == before


@pytest.mark.usefixtures("every_topology_is_kept")
def test_where_nothing_can_be_kept_a_query_is_answered_in_silence(
    graph: og.Graph, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    run(graph, 'insert Knows { from: "ada", to: "zoë" }')
    (Path(graph.uri) / "_derived").write_text("in the way", encoding="utf-8")

    text = asked(capsysbinary, graph.uri, "-e", HOPS).decode()
    settle()

    assert text == "n\n1\n\n1 row\n"
    assert capsysbinary.readouterr().err == b""


def test_a_query_on_the_command_line_needs_no_name(graph: og.Graph, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    text = "match { $p: Person $p.age > 7 } return { $p.name }"

    assert asked(capsysbinary, graph.uri, "-e", text, "--format", "csv").decode() == '"p.name"\n"ada"\n'
    assert graph.query(text).rows() == [{"p.name": "ada"}]

    assert main(["explain", graph.uri, "-e", text]) == 0
    assert b"scan $p: Person" in capsysbinary.readouterr().out


def test_a_mutation_on_the_command_line_needs_no_name(
    graph: og.Graph, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    text = 'match { $p: Person { name: "ada" } } update $p set { age: age + 1 } returning { $p.age }'

    assert main(["mutate", graph.uri, "-e", text]) == 0
    assert b"37" in capsysbinary.readouterr().out
    assert graph.mutate('insert Person { name: "eve" }').affected_nodes == 1


def test_a_query_without_a_name_has_no_parameters(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, 1, graph.uri, "-e", "match { $p: Person { name: $n } } return { $p.name }")

    assert "`$n` is not bound" in message


class Screen(io.StringIO):
    """A terminal that keeps what was written."""

    def isatty(self) -> bool:
        """A terminal."""
        return True


def test_the_progress_of_a_query_is_a_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(progress, "_MIN_QUERY_SECONDS", 0.0)
    monkeypatch.setattr(progress, "_MIN_REDRAW_SECONDS", 0.0)

    with progress.show_query_progress() as show:
        show(QueryProgress(1_000, 4_000))
        show(QueryProgress(4_000, 4_000))

    reading, joining, end = screen.getvalue().split("\x1b[2K")[1:]
    assert reading.rstrip("\r") == "reading  [======>                 ]  25%  1,000 rows"
    assert joining.rstrip("\r") == "joining  [========================] 100%  4,000 rows"
    assert end == ""


def test_a_short_query_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(progress, "_MIN_QUERY_SECONDS", math.inf)

    with progress.show_query_progress() as show:
        show(QueryProgress(1_000, 4_000))

    assert screen.getvalue() == ""
