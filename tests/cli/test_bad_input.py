"""`omnigraph load` of bad input: each mistake has its message and its exit code, and nothing is left of it."""

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from load_calls import files_below
from omnigraph.cli.main import main
from worlds import runtime

SCHEMA = """
node P { name: String @key  n: I64?  f: F64?  d: Date?  v: Vector(3)?  text: String? }
node C { title: String? }
edge K: P -> P { @key(src, dst) }
"""
ADA = b'{"type": "P", "data": {"name": "ada"}}\n'
MOST_OF_A_LINE = 8_388_608


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the engine's temporary files go."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


class Loader:
    """Runs the command, and makes sure that a failed one leaves nothing."""

    def __init__(self, graph: og.Graph, place: Path, temporary: Path, output: pytest.CaptureFixture[str]) -> None:
        self.graph, self.place, self.temporary, self._output = graph, place, temporary, output

    def file(self, data: bytes, name: str = "in.jsonl") -> str:
        """A file of these bytes."""
        path = self.place / name
        path.write_bytes(data)
        return str(path)

    def output(self) -> str:
        """What was written to stderr since the last time."""
        return self._output.readouterr().err

    def fails(self, *arguments: str, uri: str | None = None) -> tuple[int, str]:
        """The exit code and the message; the graph, its files and the temporary directory are as they were."""
        before = (self.graph.snapshot().commit.id, files_below(self.graph))
        others = {path for path in self.place.rglob("*") if not path.is_relative_to(Path(self.graph.uri))}

        code = main(["load", uri or self.graph.uri, "--mode", "append", *arguments])

        printed = self._output.readouterr()
        assert printed.out == ""
        assert (self.graph.snapshot().commit.id, files_below(self.graph)) == before
        assert others == {path for path in self.place.rglob("*") if not path.is_relative_to(Path(self.graph.uri))}
        assert list(self.temporary.iterdir()) == []
        assert "Traceback" not in printed.err
        assert "bug in omnigraph" not in printed.err
        return code, printed.err.replace(f"{self.place}/", "")


@pytest.fixture
def loader(tmp_path: Path, temporary: Path, capsys: pytest.CaptureFixture[str]) -> Loader:
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    return Loader(graph, tmp_path, temporary, capsys)


def person(**data: object) -> bytes:
    return json.dumps({"type": "P", "data": {"name": "bob", **data}}).encode() + b"\n"


def raw(value: bytes, name: bytes = b"n") -> bytes:
    """A person with a value that Python would not write."""
    return b'{"type": "P", "data": {"name": "bob", "' + name + b'": ' + value + b"}}\n"


I64_RANGE = "expected a whole number from -9223372036854775808 to 9223372036854775807"
RECORDS: dict[str, tuple[bytes, str]] = {
    "truncated": (b'{"type": "P", "data": {"name": "bob"', "the JSON ends before it is complete"),
    "no JSON": (b"name,age\n", "the line is not JSON: Expecting value at character 1"),
    "not UTF-8": (raw(b'"\xff"', b"text"), "the line is not UTF-8: byte 0xff at offset 47; save it as UTF-8"),
    "zero bytes": (b"\x00\x00\x00\n", "the line is not JSON: Expecting value at character 1"),
    "an endless line": (
        person(text="x" * 10_000_000),
        f"the line has more than {MOST_OF_A_LINE} bytes, the limit of a record",
    ),
    "an endless line without a record": (
        b"x" * 10_000_000,
        f"the line has more than {MOST_OF_A_LINE} bytes, the limit of a record",
    ),
    "deep nesting": (raw(b"[" * 100_000 + b"]" * 100_000), "the JSON is nested too deeply"),
    "deep nesting that never ends": (b"[" * 1_000_000, "the JSON is nested too deeply"),
    "an id that is a number": (b'{"type": "C", "id": 3, "data": {}}\n', "`C.id`: expected a string, got 3"),
    "an id that is empty": (b'{"type": "C", "id": "", "data": {}}\n', "`C.id`: an id is not empty"),
    "an id that the key does not make": (
        b'{"type": "P", "id": "x", "data": {"name": "bob"}}\n',
        '`P.id`: the id "x" does not agree with the key (name), which makes it "bob"',
    ),
    "NaN": (raw(b"NaN", b"f"), "`P.f`: NaN is not a JSON number"),
    "infinity": (raw(b"-Infinity", b"f"), "`P.f`: -Infinity is not a JSON number"),
    "above I64": (raw(b"9223372036854775808"), f"`P.n`: {I64_RANGE}, got 9223372036854775808"),
    "below I64": (raw(b"-9223372036854775809"), f"`P.n`: {I64_RANGE}, got -9223372036854775809"),
    "above I64, as text": (person(n="9223372036854775808"), f"`P.n`: {I64_RANGE}, got 9223372036854775808"),
    "a day that is none": (
        person(d="2026-02-30"),
        '`P.d`: "2026-02-30" is not a day of the calendar (years 0001 to 9999)',
    ),
    "a vector that is too short": (person(v=[1, 2]), "`P.v`: expected a list of 3 numbers, got 2"),
    "a vector that is too long": (person(v=[1, 2, 3, 4]), "`P.v`: expected a list of 3 numbers, got 4"),
    "a vector with a null": (person(v=[1, 2, None]), "`P.v`: item 3: expected a number, got null"),
    "a vector beyond F32": (person(v=[1, 2, 1e39]), "`P.v`: item 3: 1e+39 is too large for F32"),
}


@pytest.mark.parametrize("mistake", RECORDS)
def test_a_bad_record_is_told_with_its_place(loader: Loader, mistake: str) -> None:
    data, message = RECORDS[mistake]
    path = loader.file(ADA + data)

    code, told = loader.fails("--data", path)

    assert code == 1
    assert told == f"error: in.jsonl, line 2: {message}\n1 problem: nothing was loaded\n"


def test_an_id_may_be_there_once(loader: Loader) -> None:
    path = loader.file(ADA + ADA)

    code, told = loader.fails("--data", path)

    assert code == 1
    assert "in.jsonl, line 2: P 'ada' appears twice: first in in.jsonl, line 1\n" in told


def edges(*targets: str) -> bytes:
    return b"".join(json.dumps({"edge": "K", "from": "ada", "to": to}).encode() + b"\n" for to in targets)


def test_an_edge_may_come_before_its_nodes(loader: Loader) -> None:
    path = loader.file(edges("bob", "ada") + person() + ADA)

    assert main(["load", loader.graph.uri, "--mode", "append", "--data", path]) == 0
    assert loader.graph.table("K").count_rows() == 2


def test_edges_to_nowhere_are_all_listed(loader: Loader) -> None:
    path = loader.file(ADA + edges(*(f"n{number}" for number in range(20))))

    code, told = loader.fails("--data", path)

    listed = [f"in.jsonl, line {number + 2}: K.to: no P 'n{number}'" for number in range(20)]
    assert code == 1
    assert told.removeprefix("error: ").splitlines() == [*listed, "20 problems: nothing was loaded"]


def test_of_more_edges_to_nowhere_twenty_are_listed_and_all_counted(loader: Loader) -> None:
    path = loader.file(ADA + edges(*(f"n{number}" for number in range(5000))))

    code, told = loader.fails("--data", path)

    assert code == 1
    assert len(told.splitlines()) == 23
    assert told.splitlines()[0] == "error: 5,000 × endpoint K.to"
    assert told.splitlines()[20:] == [
        "in.jsonl, line 21: K.to: no P 'n19'",
        "and 4980 more",
        "5000 problems: nothing was loaded",
    ]


@pytest.mark.parametrize("mark, told_as", [(b";", "semicolons"), (b"\t", "tabs"), (b"|", "bars")])
def test_a_csv_with_other_separators_than_commas_is_told_so(loader: Loader, mark: bytes, told_as: str) -> None:
    path = loader.file(mark.join([b"name", b"n"]) + b"\n" + mark.join([b"ada", b"3"]) + b"\n", "in.csv")

    code, told = loader.fails("--node", f"P={path}")

    assert code == 1
    assert f"for `P`: {told_as} stand between its names, and CSV has commas there; say so with --delimiter" in told


# --- calls -------------------------------------------------------------------------------------------------

CALLS: dict[str, tuple[list[str], int, str]] = {
    "a missing branch": (["--data", "{good}", "--branch", "dev"], 4, "the graph has no branch `dev`; it has `main`"),
    "an unknown mode": (
        ["--data", "{good}", "--mode", "upsert"],
        2,
        "Invalid value for '--mode': 'upsert' is not one of 'append', 'merge', 'overwrite'.",
    ),
    "a missing file": (
        ["--data", "{place}/none.jsonl"],
        4,
        "there is no file `none.jsonl`; check the path and the working directory",
    ),
    "a good file and a missing one": (
        ["--data", "{good}", "--data", "{place}/none.jsonl"],
        4,
        "there is no file `none.jsonl`; check the path and the working directory",
    ),
    "a directory without files": (
        ["--node", "P={place}/empty"],
        4,
        "`empty` names nothing to load: the directory holds no files",
    ),
    "a pattern without files": (
        ["--node", "P={place}/*.csv"],
        4,
        "`*.csv` names nothing to load: no file matches the pattern",
    ),
}


@pytest.mark.parametrize("mistake", CALLS)
def test_a_call_that_can_not_work_says_why(loader: Loader, mistake: str) -> None:
    arguments, exit_code, message = CALLS[mistake]
    (loader.place / "empty").mkdir()
    good = loader.file(ADA, "good.jsonl")

    code, told = loader.fails(*(word.format(good=good, place=loader.place) for word in arguments))

    assert code == exit_code
    assert told.splitlines()[0] == f"error: {message}"


@pytest.mark.parametrize("below", ["h", "good.jsonl/h"])
def test_a_place_without_a_graph_says_so(loader: Loader, below: str) -> None:
    good = loader.file(ADA, "good.jsonl")

    code, told = loader.fails("--data", good, uri=str(loader.place / below))

    assert code == 4
    assert told.startswith(f"error: there is no graph at {below}; create one with `omnigraph init ")


# --- places that can't be written; a file where a directory is needed stops the superuser too -------------------


def block_rows(graph: Path) -> None:
    for table in (graph / "nodes").iterdir():
        (table / "data").write_bytes(b"in the way")


def block_announcing(graph: Path) -> None:
    shutil.rmtree(graph / "__recovery", ignore_errors=True)
    (graph / "__recovery").write_bytes(b"in the way")


@pytest.mark.parametrize("block", [block_rows, block_announcing])
def test_a_graph_that_can_not_be_written_says_so(loader: Loader, block: Callable[[Path], None]) -> None:
    good = loader.file(ADA)
    block(Path(loader.graph.uri))

    code, told = loader.fails("--data", good, "--quiet")

    assert code == 5
    assert "the store failed to " in told


def test_a_load_whose_end_nobody_knows_says_how_to_find_out(loader: Loader) -> None:
    good = loader.file(ADA)
    before = loader.graph.snapshot().commit.id
    transactions = Path(loader.graph.uri) / "__manifest" / "_transactions"
    shutil.rmtree(transactions)
    transactions.write_bytes(b"in the way")

    code = main(["load", loader.graph.uri, "--mode", "append", "--data", good])

    told = loader.output()
    assert code == 5
    assert "may or may not have been published" in told
    assert "`omnigraph commit show " in told
    assert loader.graph.snapshot().commit.id == before
    assert list(loader.temporary.iterdir()) == []


def test_a_directory_for_bad_records_that_can_not_be_made_says_so(loader: Loader) -> None:
    path = loader.file(ADA + b"bad\n")

    code, told = loader.fails("--data", path, "--on-error", f"{path}/bad")

    assert code == 1
    assert told == "error: rejected records can't be kept in `in.jsonl/bad`: Not a directory\n"


def test_temporary_files_that_can_not_be_written_say_so(loader: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    path = loader.file(ADA)
    monkeypatch.setattr(tempfile, "tempdir", path)

    code, told = loader.fails("--data", path)

    assert code == 1
    assert told == (
        "error: a load keeps its rows in `in.jsonl` until they are checked, and that failed: Not a directory;"
        " free some space, or set TMPDIR to a directory that has more\n"
    )
