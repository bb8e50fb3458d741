"""A gigabyte of graph JSONL is loaded in bounded memory and time. The figures are printed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MEGABYTES = int(os.environ.get("OMNIGRAPH_SOAK_MB", "1024"))  # a smaller size shows as well that it works
MOST_MEMORY = 1_500_000_000
MOST_SECONDS = 15 * 60
SCHEMA = """
node Person {
  name: String @key
  email: String?
  age: I32?
  born: Date?
  seen: DateTime?
  score: F64?
  bio: String?
  tags: [String]?
  place: Vector(8)?
  @unique(email)
  @range(age, 0..200)
}
edge Knows: Person -> Person { since: I32?  @key(src, dst) }
edge Likes: Person -> Person @card(0..8)
"""
CHILD = """
import json, sys, time
import omnigraph as og

graph, path, mode = og.open_graph(sys.argv[1]), sys.argv[2], sys.argv[3]
start = time.monotonic()
result = graph.load(path, mode=mode)
seconds = time.monotonic() - start
peak = next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"peak": peak, "seconds": seconds, **{kind: result.to_json()[kind] for kind in ("nodes", "edges")}}))
"""


def write_records(path: Path, megabytes: int) -> tuple[int, int]:
    """A file of about that size: persons, who know two others each and like one; how many persons and edges."""
    persons = edges = 0
    with path.open("wb", buffering=1 << 20) as file:
        while file.tell() < megabytes << 20:
            lines: list[dict[str, object]] = []
            for number in range(persons, persons + 1000):
                data: dict[str, object] = {
                    "name": f"person{number:09}",
                    "email": f"p{number}@example.org" if number % 3 else None,
                    "age": number % 120,
                    "born": f"{1900 + number % 100}-{1 + number % 12:02}-{1 + number % 28:02}",
                    "seen": f"2026-01-02T03:04:{number % 60:02}.{number % 1_000_000:06}Z",
                    "score": number / 7,
                    "bio": f"é {number} " * 12,
                    "tags": [f"t{number % 10}", f"u{number % 7}"],
                    "place": [(number % 97) / 97] * 8,
                }
                lines.append({"type": "Person", "data": data})
                for step in (1, 7):
                    other = f"person{max(number - step, 0):09}"
                    if number >= step:
                        lines.append({"edge": "Knows", "from": data["name"], "to": other, "data": {"since": step}})
                lines.append({"edge": "Likes", "from": data["name"], "to": "person000000000", "data": {}})
            file.write("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode())
            persons += 1000
            edges += sum("edge" in line for line in lines)
    return persons, edges


@pytest.mark.soak
@pytest.mark.timeout(3 * MOST_SECONDS)
@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_gigabyte_is_loaded_in_bounded_memory(tmp_path: Path, mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    schema, data, graph = tmp_path / "schema.pg", tmp_path / "in.jsonl", tmp_path / "g"
    schema.write_text(SCHEMA, encoding="utf-8")
    persons, edges = write_records(data, MEGABYTES)
    subprocess.run([sys.executable, "-m", "omnigraph", "init", str(graph), "--schema", str(schema)], check=True)

    command = [sys.executable, "-c", CHILD, str(graph), str(data), mode]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MOST_SECONDS)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)

    size = data.stat().st_size
    with capsys.disabled():
        print(  # noqa: T201 - the figures are what a soak is run for
            f"\n{mode}: {size / 2**20:,.0f} MB, {persons:,} nodes, {edges:,} edges in {told['seconds']:.1f} s"
            f" ({size / 2**20 / told['seconds']:.1f} MB/s), peak memory {told['peak'] / 2**20:,.0f} MB"
        )
    assert told["nodes"]["Person"]["inserted"] == persons
    assert sum(one["inserted"] for one in told["edges"].values()) == edges
    assert told["peak"] < MOST_MEMORY
