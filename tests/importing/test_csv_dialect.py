"""CSV of any dialect is read as Python's csv module reads it, with lines and quotes known."""

import csv
import io
import random
import time

import pytest

from omnigraph.engine.decoding.input_files import FileDamagedError
from omnigraph.engine.importing.csv_dialect import Cell, guess_delimiter, read_records

PIECES = ["a", "1", "", " ", '"', "\n", "\r\n", ",", ";", "\t", "|", "é", "x y", "''", "\\"]


def random_rows(dice: random.Random) -> list[list[str]]:
    width = dice.randint(1, 4)
    rows = [
        ["".join(dice.choices(PIECES, k=dice.randint(0, 4))) for _ in range(width)] for _ in range(dice.randint(1, 6))
    ]
    # A row of one empty cell is a blank line, which is no record.
    return [row for row in rows if row != [""]]


@pytest.mark.parametrize("seed", range(300))
def test_a_random_dialect_is_read_as_pythons_module_reads_it(seed: int) -> None:
    dice = random.Random(seed)
    delimiter = dice.choice([",", ";", "\t", "|", ":", "~"])
    quoting = dice.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC])
    terminator = dice.choice(["\n", "\r\n"])
    rows = random_rows(dice)
    out = io.StringIO(newline="")
    form = {"delimiter": delimiter, "quoting": quoting, "lineterminator": terminator}
    csv.writer(out, **form).writerows(rows)  # type: ignore[arg-type]  # one of the constants
    text = out.getvalue()

    lines = io.StringIO(text, newline="")
    found = [[cell.text for cell in record.cells] for record in read_records(lines, delimiter, "f.csv")]

    assert found == [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    assert found == rows


def test_a_record_has_the_line_on_which_it_starts() -> None:
    text = '\ufeffa,b\n\n"x\ny",1\n"z",""\n,\n'

    records = list(read_records(io.StringIO(text, newline=""), ",", "f.csv"))

    assert [record.line for record in records] == [1, 3, 5, 6]
    assert records[0].cells[0] == Cell("a")
    assert records[2].cells == (Cell("z", is_quoted=True), Cell("", is_quoted=True))
    assert records[3].cells == (Cell(""), Cell(""))


@pytest.mark.parametrize(
    "text, reason",
    [
        ('a\n"b', "line 2 is never closed"),
        ('a\nb"c"\n', "on line 2"),
        ('a\n"b"c\n', "on line 2"),
        ('a\n"\nx\n', "line 2"),
    ],
)
def test_a_quote_that_is_wrong_is_refused_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(FileDamagedError, match=reason):
        list(read_records(io.StringIO(text, newline=""), ",", "f.csv"))


@pytest.mark.parametrize(
    "header, sign", [("a,b", ","), ("a;b;c,d", ";"), ("a\tb", "\t"), ('"a,b,c"|d', "|"), ("one", ","), ("", ",")]
)
def test_the_delimiter_is_guessed_from_the_header(header: str, sign: str) -> None:
    assert guess_delimiter(header) == sign


def test_a_quote_that_is_never_closed_costs_linear_time() -> None:
    lines = ['"open\n', *["0123456789\n"] * 200_000]
    started = time.process_time()

    with pytest.raises(FileDamagedError, match="line 1 is never closed"):
        list(read_records(lines, ",", "file.csv"))

    # Searching all earlier lines again for each one took half a minute.
    assert time.process_time() - started < 5
