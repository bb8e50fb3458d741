"""The long profiles: every file in every way with every verb, and flips of single bits by the ten thousand."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from damage_plan import plan_all, plan_flips
from damage_report import count_verdicts, failures, run_plan, show
from damage_verbs import WRONG
from damage_worker import Case, DamageWorker
from rich_graph import build

pytestmark = pytest.mark.soak
SEED = int(os.environ.get("OMNIGRAPH_TEST_SEED", "1"))
PARTS = 20
FLIPS = 500
"""In each part: ten thousand in all."""
MODES: dict[str, dict[str, object]] = {
    "small": {},
    "unverified": {"small_bytes": 0},
    "always": {"small_bytes": 0, "verify": "always"},
}
SETTINGS = [(mode, part) for part in range(PARTS) for mode in [(*MODES, "small", "small")[part % 5]]]
"""Most parts as it is by default, some as if all files were large, with and without `verify = always`."""


@pytest.fixture(params=[False, True], ids=["plain", "indexed"])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    build(tmp_path / "graph", indexed=request.param)
    return tmp_path / "graph"


@contextmanager
def worker_on(graph: Path, mode: str) -> Iterator[DamageWorker]:
    worker = DamageWorker(graph, graph.parent, MODES[mode])
    try:
        yield worker
    finally:
        worker.close()


@pytest.mark.parametrize("part", range(PARTS))
def test_every_file_in_every_way(part: int, graph: Path, request: pytest.FixtureRequest) -> None:
    with worker_on(graph, "small") as worker:
        cases = run_plan(worker, list(plan_all(worker.files(), SEED))[part::PARTS])

    count_verdicts(request, cases)
    assert not failures(cases), show(failures(cases))


@pytest.mark.parametrize("mode, part", SETTINGS)
def test_flips_of_single_bits(mode: str, part: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    graph = tmp_path / "graph"
    build(graph, indexed=part % 4 == 3)
    silent = 0
    cases: list[Case] = []
    with worker_on(graph, mode) as worker:
        files = worker.files()
        sizes = {file["place"]: (graph / file["place"]).stat().st_size for file in files}
        for flip in plan_flips(files, sizes, FLIPS, 1_000 * SEED + part):
            ended = run_plan(worker, [flip])
            silent += any(case.verdict == WRONG for case in ended)
            cases += ended

    count_verdicts(request, cases)
    told = f"{mode}: {silent} flips of {FLIPS} changed an answer silently"
    request.node.user_properties.append(("silent flips", told))
    may_be_wrong = mode == "unverified"
    failed = [case for case in failures(cases) if not may_be_wrong or case.verdict != WRONG]
    assert not failed, show(failed)
