"""A schema inferred from files accepts these files, and the graph then holds what they hold."""

import csv
import gzip
import json
import random
import re
import sqlite3
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.ipc as pa_ipc
import pyarrow.parquet as pa_parquet
import pytest

import omnigraph as og
from omnigraph.cli.main import main
from page_blocks import check_programs


def exported(graph: og.Graph) -> list[dict[str, Any]]:
    out = BytesIO()
    graph.export(out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def loaded(place: Path, *files: Path, **options: Any) -> og.Graph:
    """The graph that is inferred from files, and holds them."""
    inferred = og.infer_schema(files, **options)
    graph = og.create_graph(str(place / f"g{len(list(place.iterdir()))}.omni"), inferred.source)
    paths = dict.fromkeys(mapping.file for mapping in inferred.mappings)
    graph.load(og.read_files(paths, inferred.source, mapping=inferred.mapping), mode="append")  # type: ignore[arg-type]
    return graph


def write_csv(path: Path, header: list[str], rows: list[list[str]], delimiter: str = ",") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(header)
        writer.writerows(rows)
    return path


# --- random files ------------------------------------------------------------------------------------------

MAKERS: dict[str, Any] = {
    "whole": lambda dice: dice.choice([0, -1, 7, 10**17, dice.randint(-999, 999)]),
    "float": lambda dice: dice.choice([0.5, -1.25, 1e300, dice.random()]),
    "bool": lambda dice: dice.random() < 0.5,
    "date": lambda dice: date(2000, 1, 1) + timedelta(days=dice.randint(0, 9_999)),
    "time": lambda dice: datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=dice.randint(0, 10**8)),
    "text": lambda dice: dice.choice(["", "x", "a,b", 'say "hi"', "line\nbreak", "007", "+1", "é", "null", "1" * 19]),
    "list": lambda dice: [dice.choice("abc") for _ in range(dice.randint(0, 3))],
}
NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")
NAMES = ["name", "First Name", "id", "from", "_x", "Größe", "order", "a b", "A-B", "x.y", "1st", "to", "src"]


def random_columns(dice: random.Random, *, is_csv: bool) -> tuple[list[str], list[list[Any]]]:
    names = dice.sample(NAMES, dice.randint(2, 5))
    kinds = [dice.choice([kind for kind in MAKERS if not (is_csv and kind == "list")]) for _ in names]
    rows = [[None if dice.random() < 0.15 else MAKERS[kind](dice) for kind in kinds] for _ in range(dice.randint(1, 8))]
    return names, rows


def as_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value


def as_cell(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(as_json(value))


def values_of(graph: og.Graph) -> list[list[Any]]:
    return sorted((list(record["data"].values()) for record in exported(graph)), key=repr)


@pytest.mark.parametrize("seed", range(150))
def test_random_csv_files_load_with_what_was_inferred(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    names, rows = random_columns(dice, is_csv=True)
    path = write_csv(tmp_path / "Some rows.csv", names, [[as_cell(value) for value in row] for row in rows], ";")

    found = values_of(loaded(tmp_path, path, options=og.FileOptions(delimiter=";")))

    # An empty text without quotes is null, as CSV writes both.
    expected = [["" if value is None else value for value in row] for row in rows]
    assert sorted(map(as_cells, found)) == sorted(map(as_cells, expected))


def as_cells(row: list[Any]) -> list[str]:
    """The cells of a row; a number is compared by its value: large ones are exported as text, some are floats."""
    return [repr(float(cell)) if NUMBER.fullmatch(cell) else cell for cell in map(as_cell, row)]


@pytest.mark.parametrize("seed", range(150))
def test_random_objects_load_with_what_was_inferred(seed: int, tmp_path: Path) -> None:
    dice = random.Random(1_000 + seed)
    names, rows = random_columns(dice, is_csv=False)
    records = [dict(zip(names, map(as_json, row), strict=True)) for row in rows]
    if seed % 2:
        path = tmp_path / "Things.json"
        path.write_text(json.dumps(records), encoding="utf-8")
    else:
        path = tmp_path / "Things.jsonl.gz"
        path.write_bytes(gzip.compress("".join(json.dumps(record) + "\n" for record in records).encode()))

    found = values_of(loaded(tmp_path, path))

    assert sorted(map(as_cells, found)) == sorted(as_cells([as_json(value) for value in row]) for row in rows)


# --- the rules ---------------------------------------------------------------------------------------------


def schema_of(path: Path, **options: Any) -> str:
    return og.infer_schema([path], **options).source


@pytest.mark.parametrize(
    "cells, declared",
    [
        (["1", "-2", "0"], "x: I64"),
        (["1", ""], "x: I64?  // 1 without a value"),
        (["1", "02"], "x: String"),
        (["+1"], "x: String"),
        (["9" * 18], "x: I64"),
        (["9" * 19], "x: String"),
        (["1", "2.5"], "x: F64"),
        (["9007199254740993", "0.5"], "x: String"),
        (["true", "False"], "x: Bool"),
        (["yes", "no"], "x: String"),
        (["2020-02-29"], "x: Date"),
        (["2021-02-29", "x"], "x: String"),
        (["2020-01-01T10:00:00+02:00", "2020-01-01 10:00"], "x: DateTime"),
        (["31.12.2020"], "x: String  // dates? then declare it a Date, and load with --date-format"),
        (["NaN"], "x: String"),
        (["1e999"], "x: String"),
        (["", ""], "x: String?  // 2 without a value"),
    ],
)
def test_a_column_of_text_has_the_narrowest_type(cells: list[str], declared: str, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "T.csv", ["x", "y"], [[cell, "v"] for cell in cells])

    assert declared in [line.strip() for line in schema_of(path).splitlines()]
    loaded(tmp_path, path)


def test_the_key_is_the_first_likely_column_that_is_unique_and_never_empty(tmp_path: Path) -> None:
    both = write_csv(tmp_path / "A.csv", ["name", "id"], [["x", "1"], ["y", "2"]])
    twice = write_csv(tmp_path / "B.csv", ["name", "id"], [["x", "1"], ["y", "1"]])
    empty = write_csv(tmp_path / "C.csv", ["code", "id"], [["x", "1"], ["y", ""]])
    none = write_csv(tmp_path / "D.csv", ["name"], [["x"], ["x"]])
    floats = write_csv(tmp_path / "E.csv", ["id"], [["1.5"], ["2.5"]])

    keys = [
        next((line.strip() for line in schema_of(path).splitlines() if "@key" in line), None)
        for path in (both, twice, empty, none, floats)
    ]

    assert keys == ["@key(a_id)", "@key(name)", "@key(code)", None, None]


def test_an_enum_only_if_it_is_asked_for(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "T.csv", ["mood"], [["glad"], ["sad"], ["glad"], ["sad"]])

    assert "mood: String" in schema_of(path)
    assert "mood: enum(glad, sad)" in schema_of(path, enums=True)
    loaded(tmp_path, path, enums=True)


def test_edges_are_found_by_names_and_by_keys(tmp_path: Path) -> None:
    people = write_csv(tmp_path / "people.csv", ["id", "company_id", "boss"], [["1", "10", ""], ["2", "", "1"]])
    companies = write_csv(tmp_path / "Company.csv", ["id", "name"], [["10", "Acme"]])
    knows = write_csv(tmp_path / "knows.csv", ["src", "dst", "since"], [["1", "2", "2020-01-01"]])

    graph = loaded(tmp_path, people, companies, knows)

    edges = [(record["edge"], record["from"], record["to"]) for record in exported(graph) if "edge" in record]
    assert edges == [("Knows", "1", "2"), ("PeopleCompany", "1", "10")]
    assert "boss: I64?" in graph.schema


def test_an_edge_whose_ends_are_unknown_is_refused(tmp_path: Path) -> None:
    people = write_csv(tmp_path / "people.csv", ["id"], [["1"]])
    knows = write_csv(tmp_path / "knows.csv", ["from", "to"], [["1", "9"]])

    with pytest.raises(og.BadArgumentError, match="keys of the other files"):
        og.infer_schema([people], edges={"Knows": [str(knows)]})
    assert "node Knows" in og.infer_schema([people, knows]).source


def make_database(connection: Any) -> None:
    connection.execute("create table person (id integer primary key, name text, boss integer references person(id))")
    connection.execute("create table team (code text primary key)")
    member = "who integer references person(id), team text references team(code), since date"
    connection.execute(f"create table member ({member})")
    connection.execute("insert into person values (1, 'Ada', null)")
    connection.execute("insert into person values (2, 'Bob', 1)")
    connection.execute("insert into team values ('t1')")
    connection.execute("insert into member values (2, 't1', '2020-01-01')")


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_the_foreign_keys_of_a_database_are_edges(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"company.{kind}"
    connection = sqlite3.connect(path) if kind == "sqlite" else duckdb.connect(str(path))
    make_database(connection)
    connection.commit()
    connection.close()
    before = path.read_bytes()

    graph = loaded(tmp_path, path)

    edges = {(r["edge"], r["from"], r["to"], r["data"].get("since")) for r in exported(graph) if "edge" in r}
    assert edges == {("Member", "2", "t1", "2020-01-01"), ("PersonBoss", "2", "1", None)}
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_primary_key_of_several_columns_is_the_key(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"shop.{kind}"
    connection = sqlite3.connect(path) if kind == "sqlite" else duckdb.connect(str(path))
    connection.execute("create table item (id integer primary key)")
    connection.execute("create table line (pos integer, ord integer, what text, primary key (ord, pos))")
    ends = "a integer references item(id), b integer references item(id)"
    connection.execute(f"create table pair ({ends}, primary key (b, a))")
    connection.execute(f"create table loose ({ends})")
    connection.execute("insert into item values (1), (2)")
    connection.execute("insert into line values (1, 7, 'x'), (2, 7, 'x')")
    connection.execute("insert into pair values (1, 2)")
    connection.execute("insert into loose values (1, 2)")
    connection.commit()
    connection.close()

    graph = loaded(tmp_path, path)
    source = og.infer_schema([path]).source
    graph.load(og.read_files([path], source, mapping=og.infer_schema([path]).mapping), mode="merge")  # type: ignore[arg-type]

    assert "@key(ord, pos)" in source
    assert "edge Pair: Item -> Item {\n    @key(src, dst)\n}" in source
    assert "a merge adds the rows again.\nedge Loose: Item -> Item {\n}" in source
    # Only the edges without a key are there twice.
    names = [record.get("edge") or record["type"] for record in exported(graph)]
    assert {name: names.count(name) for name in names} == {"Item": 2, "Line": 2, "Pair": 1, "Loose": 2}


def test_columnar_files_keep_their_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": [1, 2],
            "score": [0.5, None],
            "tags": [["a"], []],
            "at": [datetime(2020, 1, 1, tzinfo=UTC), None],
            "raw": [b"\x00\xff", None],
            "kind": pa.array(["x", "y"]).dictionary_encode(),
        }
    )
    pa_parquet.write_table(table, tmp_path / "Thing.parquet")
    with pa_ipc.new_file(tmp_path / "Thing.arrow", table.schema) as writer:
        writer.write_table(table)
    with pa_ipc.new_stream(str(tmp_path / "Thing.feather"), table.schema) as writer:
        writer.write_table(table)

    results = [exported(loaded(tmp_path, tmp_path / f"Thing.{end}")) for end in ("parquet", "arrow", "feather")]

    assert results[0] == results[1] == results[2]
    assert results[0][0]["data"]["tags"] == ["a"]
    assert results[0][0]["data"]["at"] == "2020-01-01T00:00:00Z"


# --- loading with options ----------------------------------------------------------------------------------

SCHEMA = "node Person { name: String @key  age: I64?  born: Date?  active: Bool?  pay: F64?  note: String? }\n"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.create_graph(str(tmp_path / "people.omni"), SCHEMA)


def test_options_say_how_a_file_is_written(graph: og.Graph, tmp_path: Path) -> None:
    path = tmp_path / "Person.csv"
    text = 'name;age;born;active;pay;note\nJosé;1.000;31.12.2020;ja;1.234,5;NA\nBob;;;nein;;"NA"\n'
    path.write_bytes(text.encode("latin-1"))
    options = ["--encoding", "latin-1", "--null", "", "--null", "NA", "--true", "ja", "--false", "nein"]
    options += ["--decimal", ",", "--thousands", ".", "--date-format", "%d.%m.%Y"]

    assert main(["load", graph.uri, str(path), "--mode", "append", *options, "--quiet"]) == 0

    rows = graph.query("match { $p: Person } return { $p } order { $p.name }").rows()
    assert [list(row["p"].values())[2:] for row in rows] == [
        ["Bob", None, None, False, None, "NA"],
        ["José", 1000, date(2020, 12, 31), True, 1234.5, None],
    ]


@pytest.mark.parametrize(
    "options, message",
    [
        (["--delimiter", "ab"], "one character"),
        (["--encoding", "nope"], "utf-8"),
        (["--decimal", ",", "--thousands", ","], "different"),
        (["--true", "x", "--false", "x"], "also a text of false"),
        (["--mapping", "missing.toml"], "missing.toml"),
    ],
)
def test_a_bad_option_is_explained_and_nothing_changes(
    options: list[str], message: str, graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_csv(tmp_path / "Person.csv", ["name"], [["Ada"]])
    head = graph.snapshot().commit.id

    assert main(["load", graph.uri, str(path), "--mode", "append", *options, "--quiet"]) in (2, 4)

    assert message in capsys.readouterr().err
    assert graph.snapshot().commit.id == head


GERMAN = og.FileOptions(
    decimal=",",
    thousands=".",
    true=["ja"],
    false=["nein"],
    date_format="%d.%m.%Y",
    datetime_format="%d.%m.%Y %H:%M",
)


def test_the_forms_of_values_are_inferred_and_mapped(tmp_path: Path) -> None:
    path = tmp_path / "Rows.csv"
    path.write_text(
        "id;born;at;iso;pay;size;ok;note\n"
        "1;31.01.2020;31.01.2020 10:00;2020-01-31;1.234,5;1.000;ja;1.5\n"
        "2;01.02.2020;;2020-02-01;7;20;NEIN;31.01.2020\n"
    )

    inferred = og.infer_schema([path], options=GERMAN)
    graph = og.create_graph(str(tmp_path / "g.omni"), inferred.source)
    # The mapping alone says how the file is written.
    graph.load(og.read_files([path], inferred.source, mapping=inferred.mapping), mode="append")  # type: ignore[arg-type]

    assert [list(record["data"].values()) for record in exported(graph)] == [
        [1, "2020-01-31", "2020-01-31T10:00:00Z", "2020-01-31", 1234.5, 1000, True, "1.5"],
        [2, "2020-02-01", None, "2020-02-01", 7.0, 20, False, "31.01.2020"],
    ]


def test_words_and_formats_that_look_like_numbers_leave_other_columns_alone(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "Rows.csv", ["id", "ok", "day"], [["1", "0", "20200131"], ["2", "1", "20200201"]])
    options = og.FileOptions(true=["1"], false=["0"], date_format="%Y%m%d")

    source = schema_of(path, options=options)

    assert re.findall(r"^    (\w+: \w+)", source, re.MULTILINE) == ["rows_id: I64", "ok: Bool", "day: Date"]


@pytest.mark.parametrize("cell", ["1.5", "31.01.2020", "1234.567", "1,5.000"])
def test_a_number_in_other_groups_is_refused(cell: str, graph: og.Graph, tmp_path: Path) -> None:
    """It used to lose its separators: 1.5 was loaded as 15."""
    path = write_csv(tmp_path / "p.csv", ["name", "pay"], [["Ada", cell]], ";")
    streams = og.read_files([], graph.schema, nodes={"Person": [str(path)]}, options=GERMAN)

    with pytest.raises(og.OmnigraphError, match=re.escape(f'got "{cell}"')):
        graph.load(streams, mode="append")  # type: ignore[arg-type]


def test_a_format_that_can_not_be_read_is_refused() -> None:
    with pytest.raises(og.BadArgumentError, match="`date_format` can't be `%q`"):
        og.infer_schema([], options=og.FileOptions(date_format="%q"))


@pytest.mark.parametrize(
    "name, data, message",
    [
        ("a.csv", "id\n1\né\n".encode("latin-1"), "line 3 is not utf-8; name its encoding, such as --encoding latin-1"),
        ("a.csv", "id\n1\n".encode("utf-16"), "it is not utf-8; name its encoding: --encoding utf-16"),
        (
            "a.csv",
            b"id,x\n1,2,3\n",
            "line 2 has 3 cells, and the header has 2; a cell with a `,` in it stands in quotes",
        ),
        ("a.jsonl", b'{"x": 1}\n\n{"x": }\n', "line 3, column 7: it is not JSON: Expecting value"),
        ("a.json", b'[{"x": 1},\n{"x": }]', "line 2, column 7: it is not JSON: Expecting value"),
    ],
)
def test_a_damaged_file_is_described_with_its_place(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)

    with pytest.raises(og.OmnigraphError, match=re.escape(message)):
        og.infer_schema([path])


def test_a_file_that_two_sources_of_a_mapping_may_mean_is_refused(tmp_path: Path) -> None:
    for place in ("a", "b", "c"):
        (tmp_path / place).mkdir()
        write_csv(tmp_path / place / "person.csv", ["id", "name"], [["1", place]])
    inferred = og.infer_schema([tmp_path / "a/person.csv", tmp_path / "b/person.csv"])

    assert len(og.read_files([tmp_path / "b/person.csv"], inferred.source, mapping=inferred.mapping)) == 1
    with pytest.raises(og.BadArgumentError, match="none is this file"):
        og.read_files([tmp_path / "c/person.csv"], inferred.source, mapping=inferred.mapping)


def test_a_file_that_is_named_with_its_type_too_is_loaded_once(graph: og.Graph, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "people.csv", ["name"], [["Ada"]])

    assert main(["load", graph.uri, str(path), "--node", f"Person={path}", "--mode", "append", "--quiet"]) == 0
    assert len(exported(graph)) == 1


def test_all_unknown_columns_are_named_with_the_way_to_ignore_them(
    graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_csv(tmp_path / "Person.csv", ["name", "aeg", "junk"], [["Ada", "1", "x"]])

    assert main(["load", graph.uri, str(path), "--mode", "append", "--quiet"]) == 2
    error = capsys.readouterr().err
    assert "`aeg`, `junk`; did you mean `age`?" in error
    assert "--ignore 'junk'" in error
    options = ["--ignore", "junk", "--map", "Person.age=aeg", "--quiet"]
    assert main(["load", graph.uri, str(path), "--mode", "append", *options]) == 0


def test_a_bad_value_is_reported_with_its_line_in_the_file(
    graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "people.tsv"
    path.write_text('name\tage\n"a\nb"\t1\n\nc\tmany\n', encoding="utf-8")

    assert main(["load", graph.uri, "--node", f"Person={path}", "--null", "", "--mode", "append", "--quiet"]) == 1
    assert "people.tsv, line 5" in capsys.readouterr().err


def test_a_file_without_a_type_is_refused(graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_csv(tmp_path / "people.csv", ["name"], [["Ada"]])

    assert main(["load", graph.uri, str(path), "--mode", "append", "--quiet"]) == 2
    assert "--node Person=" in capsys.readouterr().err


def test_a_mapping_is_checked_against_schema_and_header(graph: og.Graph, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "p.csv", ["n", "b"], [["Ada", "31.12.1815"]])
    good = '[[source]]\nfile = "p.csv"\nnode = "Person"\nconstants = {note = "x"}\n'
    good += '[source.columns]\nn = "name"\nb = "born"\n[source.formats]\nb = "%d.%m.%Y"\n'

    streams = og.read_files([path], SCHEMA, mapping=good)
    graph.load(streams, mode="append")  # type: ignore[arg-type]
    assert exported(graph)[0]["data"]["born"] == "1815-12-31"
    assert exported(graph)[0]["data"]["note"] == "x"
    for wrong, message in [
        (good.replace('"Person"', '"Persn"'), "no node type"),
        (good.replace('b = "born"', 'c = "born"'), "no column `c`"),
        (good.replace('"born"', '"name"'), "both `name`"),
        (good.replace("note =", "nope ="), "no property `nope`"),
        (good + "wrong = 1\n", "the format of `wrong` must be one of"),
        (good.replace("%d.%m.%Y", "%q"), "the format of `b` must be one of"),
        (good + "[[source]]\nflie = 1\n", "unknown key `flie`; did you mean `file`"),
        ("x = 1", "nothing else"),
        ("[[source", "does not fit"),
    ]:
        with pytest.raises(og.BadArgumentError, match=message):
            og.read_files([path], SCHEMA, mapping=wrong)


def test_the_commands_infer_write_and_load(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "people.csv", ["id", "Full Name"], [["1", "Ada"]])
    schema, place = tmp_path / "s.pg", str(tmp_path / "g.omni")

    assert main(["schema", "infer", f"--node=Person={path}", "-o", str(schema)]) == 0
    assert main(["init", place, "--schema", str(schema)]) == 0
    mapping = str(tmp_path / "s.mapping.toml")
    assert main(["load", place, str(path), "--mapping", mapping, "--mode", "append", "--quiet"]) == 0
    assert main(["init", str(tmp_path / "h.omni"), "--from", f"{path.parent}/*.csv"]) == 0
    assert main(["init", str(tmp_path / "i.omni")]) == 2
    assert exported(og.open_graph(place))[0]["data"] == {"person_id": 1, "full_name": "Ada"}


def test_the_page_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_programs("start-from-files.md", tmp_path, monkeypatch, capsys, programs=1)


# --- keys that are given -----------------------------------------------------------------------------------


def test_a_key_that_is_given_is_the_key(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "Package.csv", ["Package", "name"], [["apt", "x"], ["libc6", "y"]])

    assert "@key(package)" in og.infer_schema([file], keys={"Package": ["Package"]}).source


def test_a_key_of_several_columns_can_be_given(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "Package.csv", ["name", "version"], [["apt", "v1"], ["apt", "v2"]])

    assert "@key(name, version)" in og.infer_schema([file], keys={"Package": ["name", "version"]}).source


@pytest.mark.parametrize(
    "keys, message",
    [
        ({"Package": ["name"]}, "in .*Package.csv it is no key"),
        ({"Package": ["size"]}, "in .*Package.csv it is no key"),
        ({"Package": ["note"]}, "in .*Package.csv it is no key"),
        ({"Package": ["naem"]}, "no such column; did you mean `name`"),
        ({"Package": []}, "no such column; it has `name`, `size`, `note`"),
        ({"Packages": ["name"]}, "no file has this type; did you mean `Package`"),
    ],
)
def test_a_key_that_is_none_is_refused(tmp_path: Path, keys: dict[str, list[str]], message: str) -> None:
    rows = [["apt", "1.5", ""], ["apt", "2.5", "x"]]
    file = write_csv(tmp_path / "Package.csv", ["name", "size", "note"], rows)

    with pytest.raises(og.OmnigraphError, match=message):
        og.infer_schema([file], keys=keys)


def test_commands_take_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(write_csv(tmp_path / "Package.csv", ["Package"], [["apt"]]))

    assert main(["init", str(tmp_path / "g.omni"), "--from", file, "--key", "Package=Package"]) == 0
    assert main(["schema", "show", str(tmp_path / "g.omni")]) == 0
    assert "@key(package)" in capsys.readouterr().out
    assert main(["schema", "infer", file, "--key", "Package"]) == 2
    assert "--key takes TYPE=COLUMN" in capsys.readouterr().err


def test_files_of_one_type_have_one_type(tmp_path: Path) -> None:
    may = write_csv(tmp_path / "may.csv", ["id", "total", "town"], [["1", "9", "01234"]])
    june = write_csv(tmp_path / "june.csv", ["id", "total"], [["2", "1.5"], ["3", "2"]], ";")

    graph = loaded(tmp_path, nodes={"Sale": [may, june]})

    assert "node Sale {" in graph.schema
    assert "Sale2" not in graph.schema
    found = {row["data"]["sale_id"]: (row["data"]["total"], row["data"].get("town")) for row in exported(graph)}
    assert found == {1: (9.0, "01234"), 2: (1.5, None), 3: (2.0, None)}


def test_edges_from_the_rows_of_several_files_are_all_there(tmp_path: Path) -> None:
    towns = write_csv(tmp_path / "Town.csv", ["code", "name"], [["B", "Bonn"], ["K", "Kiel"]])
    may = write_csv(tmp_path / "may.csv", ["id", "town"], [["1", "B"]])
    june = write_csv(tmp_path / "june.csv", ["id", "town"], [["2", "K"], ["3", ""]])

    graph = loaded(tmp_path, towns, nodes={"Sale": [may, june]})

    edges = [(row["from"], row["to"]) for row in exported(graph) if "edge" in row]
    assert sorted(edges) == [("1", "B"), ("2", "K")]
