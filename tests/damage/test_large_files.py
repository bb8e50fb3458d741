"""Files that are too large to be verified at each first read: what that costs in answers, and what `always` gives."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from damage_plan import Planned, plan_changes, plan_flips
from damage_report import count_verdicts, failures, run_plan, show
from damage_verbs import ERROR, RIGHT, WRONG
from damage_worker import Case, DamageWorker
from rich_graph import build

FLIPS = 24
Plan = Callable[[Sequence[Mapping[str, str]], Mapping[str, int], int, int], list[Planned]]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("large") / "graph"
    build(root, indexed=False)
    return root


@pytest.fixture
def unverified(graph: Path, tmp_path: Path) -> Iterator[DamageWorker]:
    worker = DamageWorker(graph, tmp_path, {"small_bytes": 0})
    yield worker
    worker.close()


@pytest.fixture
def always(graph: Path, tmp_path: Path) -> Iterator[DamageWorker]:
    worker = DamageWorker(graph, tmp_path, {"small_bytes": 0, "verify": "always"})
    yield worker
    worker.close()


def flips(worker: DamageWorker, plan: Plan = plan_flips) -> list[Planned]:
    """Plan flips in the files that a read may leave unverified: rows and blobs."""
    files = [file for file in worker.files() if file["kind"] in ("data", "blob") and file["needed_by"] != "past"]
    sizes = {file["place"]: (worker.pristine / file["place"]).stat().st_size for file in files}
    return plan(files, sizes, FLIPS, 7)


def count_silent(request: pytest.FixtureRequest, flipped: list[list[Case]]) -> None:
    """Tell the summary of the run how many flips changed an answer without an error."""
    silent = sum(any(case.verdict == WRONG for case in cases) for cases in flipped)
    reads = Counter(case.verdict for cases in flipped for case in cases if " of " in case.verb)
    told = (
        f"rows and blobs as if too large to verify: {silent} flips of {len(flipped)} changed an answer silently;"
        f" of {reads.total()} reads {reads[WRONG]} were wrong, {reads[ERROR]} errors, {reads[RIGHT]} right"
    )
    request.node.user_properties.append(("silent flips", told))


def test_only_reads_of_large_files_answer_wrongly(unverified: DamageWorker, request: pytest.FixtureRequest) -> None:
    flipped = [run_plan(unverified, [flip]) for flip in flips(unverified)]
    cases = [case for alike in flipped for case in alike]

    count_silent(request, flipped)
    count_verdicts(request, cases)
    failed = [case for case in failures(cases) if case.verdict != WRONG or case.verb.startswith("check")]
    assert not failed, show(failed)


def test_no_answer_is_wrong_where_every_file_is_verified(always: DamageWorker, request: pytest.FixtureRequest) -> None:
    cases = run_plan(always, flips(always))

    count_verdicts(request, cases)
    assert not failures(cases), show(failures(cases))


def test_no_damage_is_written_anew_as_if_it_were_whole(
    unverified: DamageWorker, request: pytest.FixtureRequest
) -> None:
    cases = run_plan(unverified, flips(unverified, plan_changes))

    count_verdicts(request, cases)
    assert not failures(cases), show(failures(cases))
