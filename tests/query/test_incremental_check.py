"""A long file is checked in parts: an edit costs the declaration that it is in, and finds the same as a whole check."""

import random
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from corpus_format import Case, read_cases
from corpus_runner import schema_of_case
from omnigraph.lang.declarations import split_declarations
from omnigraph.lang.source import Source
from omnigraph.query.incremental_check import QueryFileChecker, collect_diagnostics
from omnigraph.query.static_checks import check_queries, check_schema
from omnigraph.schema.catalog import Catalog

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "src" / "omnigraph" / "demo"
CASES = [
    case
    for folder in ("query", "mutation", "lint")
    for path in sorted((ROOT / "tests" / "corpus" / folder).glob("*.case"))
    for case in read_cases(path)
    if "query" in case.blocks
]


def catalog_of(text: str) -> Catalog:
    catalog = check_schema(Source(text))[1]
    assert catalog is not None
    return catalog


def long_text(lines: int) -> str:
    """The demo's queries again and again, each with a name of its own."""
    demo = (DEMO / "queries.gq").read_text(encoding="utf-8")
    parts: list[str] = []
    while sum(part.count("\n") for part in parts) < lines:
        number = len(parts)
        parts.append(re.sub(r"^(query|pattern) (\w+)", rf"\g<1> \g<2>{number}", demo, flags=re.MULTILINE))
    return "\n".join(parts)


def findings(text: str, catalog: Catalog | None) -> list[object]:
    found = check_queries(Source(text), catalog).diagnostics
    return [(each.span, each.code, each.message, each.help) for each in found]


def incremental(checker: QueryFileChecker, text: str) -> list[object]:
    found = collect_diagnostics(checker.check(text), checker.catalog)
    return [(each.span, each.code, each.message, each.help) for each in found]


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.soak) for part in range(1, 12))])
def test_every_case_of_the_corpus_has_the_same_findings_in_parts(part: int) -> None:
    for case in CASES[part::12]:
        text = case.blocks["query"]
        catalog = check_schema(Source(schema_of_case(case)))[1]
        assert incremental(QueryFileChecker(catalog), text) == findings(text, catalog), describe(case)


def describe(case: Case) -> str:
    return f"{case.title}\n{case.blocks['query']}"


def test_a_file_of_many_cases_has_the_same_findings_in_parts() -> None:
    # Their schemas differ, so they are checked without one; patterns and queries have names of their own.
    catalog = catalog_of((DEMO / "schema.pg").read_text(encoding="utf-8"))
    text = long_text(200) + "\nquery again() { match { $p: Person $p likes $q } return { $p.nme } }\n"
    text += "query again() { match { $p: Person } return { $p.name as name } }\n"
    text += "pattern near($a: Person, $b: Person) { $a knows $b $b.nme = 3 }\n"
    text += "query uses() { match { $p: Person near($p, $q) } return { $q.name as name } }\n"

    assert incremental(QueryFileChecker(catalog), text) == findings(text, catalog)


def test_declarations_joined_are_the_text() -> None:
    text = (
        "// first\n\n" + long_text(100) + "\n/* query x() { \n query y() {} */ query z() { }\nquery\npattern is no word"
    )

    pieces = split_declarations(text)

    assert "".join(piece.text for _, piece in pieces) == text
    assert [start for start, _ in pieces] == [
        sum(len(piece.text) for _, piece in pieces[:index]) for index in range(len(pieces))
    ]
    # What is in the comment declares nothing.
    assert [name for _, piece in pieces for name in piece.queries][-1] == "z"


def test_each_of_200_edits_of_5000_lines_reads_one_declaration(record_property: Callable[[str, object], None]) -> None:
    catalog = catalog_of((DEMO / "schema.pg").read_text(encoding="utf-8"))
    text = long_text(5000)
    assert text.count("\n") >= 5000
    checker = QueryFileChecker(catalog)
    assert checker.check(text)
    at = text.index("$p worksAt $c", len(text) // 2)
    typed = ("$p knows $friend // 😀 and so on\n        $friend.born > 1950\n        " * 3)[:200]
    longest = max(piece.line_breaks for _, piece in split_declarations(text)) + 8
    seconds = []

    for index, char in enumerate(typed):
        place = at + index
        text = text[:place] + char + text[place:]
        lines, declarations = checker.lines_read, checker.declarations_checked
        start = time.perf_counter()
        collect_diagnostics(checker.check(text), catalog)
        seconds.append(time.perf_counter() - start)

        # Lexed once and checked once, and never anything else of the file.
        assert checker.declarations_checked - declarations <= 1
        assert checker.lines_read - lines <= 2 * longest
    assert len(seconds) == 200
    # For people who look at the report: a machine that is busy decides nothing.
    record_property("median_ms", round(sorted(seconds)[100] * 1000, 1))
    record_property("longest_ms", round(max(seconds) * 1000, 1))
    shown = f"median {sorted(seconds)[100] * 1000:.1f} ms, longest {max(seconds) * 1000:.1f} ms"
    sys.stdout.write(f"200 edits of 5,000 lines: {shown}\n")


def test_a_line_that_a_help_names_moves_with_the_text() -> None:
    checker = QueryFileChecker()
    broken = "query q() { match { $p: Person } return { $p.name "
    checker.check(broken)

    found = collect_diagnostics(checker.check(f"\n\n{broken}"), None)

    assert [each.help for each in found] == [
        each.help for each in check_queries(Source(f"\n\n{broken}"), None).diagnostics
    ]
    assert any("line 3" in (each.help or "") for each in found)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 20))])
def test_random_edits_find_the_same_errors_as_a_whole_check(seed: int) -> None:
    catalog = catalog_of((DEMO / "schema.pg").read_text(encoding="utf-8"))
    numbers = random.Random(seed)
    original = long_text(60)
    checker = QueryFileChecker(catalog)
    for _ in range(25):
        # One mistake at a time: of several, a whole check may explain one by the words of another.
        at = numbers.randrange(len(original))
        text = original[:at] + numbers.choice(["x", "$", "{", "}", '"', "/*", "*/", "\n", "//"]) + original[at:]
        found = [each for each in collect_diagnostics(checker.check(text), catalog) if each.is_error]
        whole = [each for each in check_queries(Source(text), catalog).diagnostics if each.is_error]

        assert [(e.span, e.code, e.message, e.help) for e in found] == [
            (e.span, e.code, e.message, e.help) for e in whole
        ], text[max(at - 80, 0) : at + 80]
