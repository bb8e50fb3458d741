"""Write a graph of this release for later releases to read: an archive of it and of the results of reading it.

Run it once per storage format, before that format changes: `PYTHONPATH=tests python tools/older_graph.py NAME` writes
`tests/fixtures/NAME.tar.xz`, which tests/ops/test_older_graphs.py reads from then on.
"""

import io
import json
import sys
import tarfile
import tempfile
from pathlib import Path

import omnigraph as og
from rich_graph import STATES, build, read_all, runtime

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures"


def write_fixture(name: str) -> Path:
    """Build the graph, read all of it, and write both to an archive."""
    archive = FIXTURES / f"{name}.tar.xz"
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(archive, "w:xz", preset=9) as tar:
        root = Path(scratch) / "graph"
        build(root)
        with og.open_graph(str(root), read_only=True, runtime=runtime()) as graph:
            answers = {state: read_all(graph, state) for state in STATES}
        tar.add(root, "graph")
        text = json.dumps(answers, indent=1).encode()
        entry = tarfile.TarInfo("answers.json")
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text))
    return archive


if __name__ == "__main__":
    written = write_fixture(sys.argv[1])
    print(f"{written}: {written.stat().st_size:,} bytes")
