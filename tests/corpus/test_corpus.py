"""Every case of the corpus holds; tests/corpus/README.md describes the format."""

import re
from pathlib import Path

import pytest

from corpus_format import Case, CaseFormatError, parse_cases, read_cases
from corpus_runner import failure_of

CORPUS = Path(__file__).parent
FILES = sorted(CORPUS.glob("*/*.case"))


def readable_cases() -> list[tuple[str, Case]]:
    """Each case with its id; a file that can't be read fails its own test below, not the collection."""
    found: list[tuple[str, Case]] = []
    for path in FILES:
        try:
            cases = read_cases(path)
        except CaseFormatError:
            continue
        found.extend((f"{path.parent.name}/{path.stem}: {case.title}", case) for case in cases)
    return found


CASES = readable_cases()


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_case_file_is_well_formed(path: Path) -> None:
    assert read_cases(path)


@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[name for name, _ in CASES])
def test_a_case_holds(case: Case) -> None:
    failure = failure_of(case)

    if failure is not None:
        pytest.fail(f"{case.path}:{case.line}: {case.title}\n\n{failure}", pytrace=False)


def test_the_cases_of_the_description_hold() -> None:
    page = CORPUS / "README.md"
    fences = re.findall(r"^```\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    examples = [case for fence in fences if "===" in fence for case in parse_cases(fence, page)]

    failures = [failure for case in examples if (failure := failure_of(case)) is not None]

    assert len(examples) >= 3
    assert not failures, "\n\n".join(failures)
