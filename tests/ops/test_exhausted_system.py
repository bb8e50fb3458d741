"""A system that is out of files or memory says nothing about what is stored: no damage is told, nothing goes back."""

import json
import os
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import omnigraph as og
from damaging import made
from omnigraph.errors import OmnigraphError
from omnigraph.ops.check_findings import FindingSeverity
from omnigraph.storage.io_counters import is_unreachable

SPARE = (*range(12), 14, 18, 24, 40)
"""How many files a process may open beside those that it has open already."""


@pytest.mark.parametrize(
    "text",
    [
        "LanceError(IO): Generic LocalFileSystem error: Unable to open file /g/x: Too many open files (os error 24)",
        "called `Result::unwrap()` on an `Err` value: Os { code: 12, kind: OutOfMemory, message: ... }",
        "the store failed to read `x`: Input/output error",
        "Stale file handle",
        "operation timed out",
    ],
)
def test_what_the_system_lacks_is_not_damage(text: str) -> None:
    assert is_unreachable(OSError(text))


@pytest.mark.parametrize(
    "text", ["Not found: x", "failed to fill whole buffer", "(os error 2)", "No such file or directory"]
)
def test_what_is_missing_or_cut_is_damage(text: str) -> None:
    assert not is_unreachable(OSError(text))


def test_a_repair_without_free_files_changes_nothing(tmp_path: Path) -> None:
    made(tmp_path / "graph")
    versions = tmp_path / "graph" / "__manifest" / "_versions"
    before = sorted(path.name for path in versions.iterdir())

    command = [sys.executable, __file__, str(tmp_path / "graph")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stderr[-2000:]
    outcomes = Counter(json.loads(result.stdout.splitlines()[-1]))
    assert outcomes.keys() == {"store_unavailable", "whole"}
    assert sorted(path.name for path in versions.iterdir()) == before


def judge(verb: Callable[[], og.CheckResult | og.RepairResult]) -> str:
    """Return the code of an error, `damage` or `whole`."""
    try:
        result = verb()
    except OmnigraphError as error:
        return error.code
    if isinstance(result, og.CheckResult):
        return "damage" if any(one.severity is FindingSeverity.ERROR for one in result.findings) else "whole"
    return "damage" if result.tables or result.manifests else "whole"


def judge_with_few_files(root: str) -> Iterator[str]:
    """Check and repair a graph again and again, each time with some more files to spare."""
    verbs = (lambda: og.check_graph(root, deep=True), lambda: og.repair_graph(root, confirm=True, force=True))
    for verb in verbs:
        yield judge(verb)  # with everything imported that they need
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    for spare in SPARE:
        highest = max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208 - numbers, not paths
        for verb in verbs:
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + spare, limit[1]))
            outcome = judge(verb)
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
            yield outcome


if __name__ == "__main__":
    sys.stdout.write(json.dumps(list(judge_with_few_files(sys.argv[1]))) + "\n")
