"""A load holds columns of keys, never the rows: twice the text is not twice the memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROWS = 10_000
SMALL, LARGE = 30_000, 60_000
"""Both larger than what is ever held, so that all buffers are full."""
MORE = ROWS * (LARGE - SMALL)
"""By how many bytes the texts of one load are larger than those of the other."""
CHILD = """
import io, json, sys
from pathlib import Path

import omnigraph as og
from omnigraph.ops.load import GraphSource, LoadCall, LoadInput, LoadMode, load

place, mode, size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
graph = og.create_graph(str(place / "g"), "node N { k: String @key  text: String  n: I64? }")


def chunks(number):
    for start in range(0, int(sys.argv[4]), 100):
        yield "".join(
            json.dumps({"type": "N", "data": {"k": f"k{row}", "text": f"{row:08}{number}" * (size // 9)}}) + "\\n"
            for row in range(start, start + 100)
        ).encode()


def put(number, mode):
    given = LoadInput(graph=(GraphSource(data=chunks(number), name="in.jsonl"),))
    return load(graph._session, LoadCall(input=given, mode=LoadMode(mode), actor="test"))


counts = put(0, "append").nodes["N"]
if mode != "append":
    counts = put(1, mode).nodes["N"]
peak = next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"peak": peak, "changes": counts.changes}))
"""


def peak(place: Path, mode: str, size: int) -> int:
    """The most memory that a process had which loaded so many rows with texts of so many bytes."""
    place.mkdir(parents=True)
    command = [sys.executable, "-c", CHILD, str(place), mode, str(size), str(ROWS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert told["changes"] == ROWS
    return int(told["peak"])


@pytest.mark.parametrize("mode", ["append", pytest.param("merge", marks=pytest.mark.soak)])
def test_memory_does_not_grow_with_the_size_of_the_rows(tmp_path: Path, mode: str) -> None:
    small = peak(tmp_path / "small", mode, SMALL)
    large = peak(tmp_path / "large", mode, LARGE)

    assert large - small < MORE / 2
