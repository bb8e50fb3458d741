"""The long profiles go on where they ended, whoever was killed."""

import multiprocessing
import sys
from pathlib import Path

import pytest

from schedules import soak
from schedules.soak import FIRST, Ledger, Profile, main

SMALL = Profile(25, 10)
RANGES = [range(FIRST, FIRST + 10), range(FIRST + 10, FIRST + 20), range(FIRST + 20, FIRST + 25)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledgers" / "model.txt"


def test_every_range_is_run_once(path: Path) -> None:
    ledgers = [Ledger(path, SMALL), Ledger(path, SMALL)]

    taken = [ledgers[number % 2].take() for number in range(4)]

    assert taken == [*RANGES, None]


def _take(path: Path) -> None:
    Ledger(path, SMALL).take()


def test_a_range_of_a_process_that_has_died_is_run_again(path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_take, args=(path,))
    process.start()
    process.join()
    assert path.read_text() == f"begun {FIRST} {process.pid}\n"

    assert Ledger(path, SMALL).take() == RANGES[0]


def test_what_is_done_is_known_to_the_next_run_and_half_a_line_counts_for_nothing(path: Path) -> None:
    ledger = Ledger(path, SMALL)
    for seeds, failed in zip(RANGES[:2], ([], ["seed 7: wedge"]), strict=True):
        assert ledger.take() == seeds
        ledger.end(seeds, failed)
    with path.open("a") as file:
        file.write(f"done {FIRST + 20}")

    again = Ledger(path, SMALL)

    assert again.count() == (20, 1)
    assert again.take() == RANGES[2]
    assert path.with_suffix(".failed").read_text() == "seed 7: wedge\n\n"
    assert again.take() is None


def test_a_soak_runs_all_and_tells_of_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(soak.PROFILES, "model", Profile(2, 1))
    monkeypatch.setattr(sys, "argv", ["soak", "model", "--processes", "1", "--ledgers", str(tmp_path)])

    assert main() == 0

    assert capsys.readouterr().out.startswith("model: 2 of 2 schedules, 0 failed; ")


@pytest.mark.parametrize("words", [["modell"], ["--seed", "1"], ["model", "s3", "--seed", "1"]])
def test_wrong_words_are_refused(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["soak", *words])

    with pytest.raises(SystemExit, match="2"):
        main()

    assert "store" in capsys.readouterr().err
