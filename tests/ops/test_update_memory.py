"""An update of many rows holds their ids, never the rows: twice the text is not twice the memory."""

import json
import subprocess
import sys
from pathlib import Path

ROWS = 2_500
SMALL, LARGE = 30_000, 60_000
"""Both are more bytes a row than are ever held of all rows together."""
MORE = ROWS * (LARGE - SMALL)
CHILD = """
import json, sys
from pathlib import Path

import pyarrow as pa

import omnigraph as og

place, rows, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
schema = "node N { k: String @key  text: String  n: I64? }"
if sys.argv[4] == "make":
    graph = og.create_graph(str(place / "g"), schema)
    texts = [f"{row:08}" * (size // 8) for row in range(rows)]
    keys = [f"k{row}" for row in range(rows)]
    graph.load(nodes={"N": pa.table({"k": keys, "text": texts})}, mode="append", engine="local")
else:
    graph = og.open_graph(str(place / "g"))
    done = graph.mutate("query q() { update N set { n: 5 } where n is null }", memory_bytes=50_000_000)
    peak = next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(json.dumps({"peak": peak, "changes": done.affected_nodes}))
"""


def peak(place: Path, size: int) -> int:
    """The most memory that a process had which updated rows with texts of so many bytes."""
    place.mkdir(parents=True)
    command = [sys.executable, "-c", CHILD, str(place), str(ROWS), str(size)]
    subprocess.run([*command, "make"], capture_output=True, text=True, check=True)
    done = subprocess.run([*command, "update"], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert told["changes"] == ROWS
    return int(told["peak"])


def test_memory_does_not_grow_with_the_size_of_the_rows(tmp_path: Path) -> None:
    small, large = peak(tmp_path / "small", SMALL), peak(tmp_path / "large", LARGE)

    assert large - small < MORE / 2
