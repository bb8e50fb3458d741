"""Rows of a CSV have the lines that an editor shows, whatever stands between them and however the bytes arrive."""

import csv
import io
import random

import numpy as np
import pytest

from omnigraph.engine.decoding.csv_splitting import RecordLines


@pytest.mark.parametrize("seed", range(60))
def test_records_have_the_lines_of_pythons_reader(seed: int) -> None:
    dice = random.Random(seed)
    end = dice.choice(["\n", "\r\n", "\r"])
    cells = ["a", "", "x y", '"q""q"', f'"two{end}lines"', f'"{end}{end}"', "é"]
    rows = [",".join([dice.choice(cells), "z"]) for _ in range(dice.randint(1, 30))]
    text = "".join(row + end * dice.choice([1, 1, 1, 2, 3]) for row in rows)
    expected: list[int] = []
    before = 0
    reader = csv.reader(io.StringIO(text, newline=""))
    for record in reader:
        if record:
            expected.append(before + 1)
        before = reader.line_num
    data = text.encode()
    size = dice.choice([1, 2, 7, 1000])

    places = RecordLines()
    for start in range(0, len(data), size):
        places.feed(data[start : start + size])
    places.feed(b"\n")

    assert places.locate(np.arange(len(expected))).tolist() == expected
    assert places.locate(np.arange(len(expected) // 2, len(expected))).tolist() == expected[len(expected) // 2 :]
