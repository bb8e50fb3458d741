"""Damage of every kind of file, in every way: it is noticed, it makes nothing worse, and nothing is destroyed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from damage_files import UNNEEDED
from damage_plan import by_group, plan_few, plan_indexes
from damage_report import count_verdicts, failures, run_plan, show
from damage_worker import Case, DamageWorker
from rich_graph import build

PARTS = 12
"""How many tests share the cases, so that several processes have something to do."""
INDEX_PARTS = 4


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DamageWorker]:
    yield from _worker(tmp_path_factory.mktemp("plain"), indexed=False)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DamageWorker]:
    yield from _worker(tmp_path_factory.mktemp("indexed"), indexed=True)


def _worker(place: Path, *, indexed: bool) -> Iterator[DamageWorker]:
    build(place / "graph", indexed=indexed)
    worker = DamageWorker(place / "graph", place)
    yield worker
    worker.close()


@pytest.mark.parametrize("part", range(PARTS))
def test_damage_is_noticed(part: int, plain: DamageWorker, request: pytest.FixtureRequest) -> None:
    cases = run_plan(plain, plan_few(plain.files())[part::PARTS])

    count_verdicts(request, cases)
    assert not failures(cases), show(failures(cases))


@pytest.mark.parametrize("part", range(INDEX_PARTS))
def test_damage_of_an_index_is_noticed(part: int, indexed: DamageWorker, request: pytest.FixtureRequest) -> None:
    cases = run_plan(indexed, plan_indexes(indexed.files())[part::INDEX_PARTS])

    count_verdicts(request, cases)
    assert not failures(cases), show(failures(cases))


def test_there_are_files_of_every_kind(plain: DamageWorker, indexed: DamageWorker) -> None:
    kinds = {file["kind"] for file in indexed.files()} | {file["kind"] for file in plain.files()}
    indexes = {kind.split()[1] for kind in kinds if kind.startswith("index ")}
    needed = {
        "audit data",
        "audit version",
        "blob",
        "data",
        "deletions array",
        "deletions bitmap",
        "key run",
        "manifest head",
        "manifest version",
        "sealed part",
        "sidecar",
        "table version",
    }

    assert {kind for kind in kinds if not kind.startswith("index ")} == needed | set(UNNEEDED)
    assert indexes == {"BTREE", "BITMAP", "INVERTED", "LABELLIST", "IVF_FLAT"}


def test_there_are_two_thousand_cases(plain: DamageWorker, indexed: DamageWorker) -> None:
    plan = [*plan_few(plain.files()), *plan_indexes(indexed.files())]

    assert sum(len(one.verbs) for one in plan) >= 2_000
    assert len(by_group(plain.files())) >= 30


@pytest.mark.parametrize("word", [b"spot", b"string"])
def test_a_version_that_names_another_column_or_type_is_noticed(
    word: bytes, plain: DamageWorker, request: pytest.FixtureRequest
) -> None:
    """Lance takes such a version as it is, or panics over its schema: only its checksum tells."""
    reads = ("rows of main", "rows of side", "rows of old", "read past")
    cases: list[Case] = []
    for group in by_group([file for file in plain.files() if file["kind"] == "table version"]):
        versions = {file["place"]: (plain.pristine / file["place"]).read_bytes() for file in group}
        place = next(place for place, data in versions.items() if word in data)
        cases += plain.run(place, "flip", 0, reads, bit=8 * (versions[place].index(word) + len(word) - 1))

    count_verdicts(request, cases)
    assert not failures(cases), show(failures(cases))
