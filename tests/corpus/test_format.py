"""The reader of case files is strict, and says where."""

from pathlib import Path

import pytest

from corpus_format import CaseFormatError, Finding, expand, parse_cases

SCHEMA = "=== a case\nschema:\n    node A {}\n"


def test_a_block_loses_its_indent_and_ends_with_a_line_break() -> None:
    text = "=== a case\nschema:\n    node A {\n        x: I32\n\n    }\n\n\nok\n"

    (case,) = parse_cases(text)

    assert case.blocks == {"schema": "node A {\n    x: I32\n\n}\n"}


def test_a_finding_is_read_with_place_text_and_help() -> None:
    (case,) = parse_cases(SCHEMA + "error S009 at 3:10 on `name`: is nullable\nhelp: remove\n")

    assert case.findings == (Finding("error", "S009", 3, 10, "name", "is nullable", "remove"),)


def test_cases_know_their_lines() -> None:
    cases = parse_cases("# about keys\n\n" + SCHEMA + "ok\n\n" + SCHEMA.replace("a case", "another") + "clean\n")

    assert [(case.title, case.line) for case in cases] == [("a case", 3), ("another", 8)]


def test_parameters_have_their_own_verdicts() -> None:
    query = "=== q\nuses: people\nquery:\n    query q() {}\nok\n"

    (case,) = parse_cases(query + 'params: {"a": 1}\nok\nparams: {"a": 2}\nerror: one\nerror: two\n')

    assert [(check.given, check.fragments) for check in case.params] == [({"a": 1}, ()), ({"a": 2}, ("one", "two"))]


def test_codes_of_steps_count_as_expected() -> None:
    text = "=== m\nold:\n    node A {}\nnew:\n    node B {}\nsteps:\n    drop_type A refused OG-DS-102\n"

    (case,) = parse_cases(text)

    assert case.codes == {"OG-DS-102"}


@pytest.mark.parametrize(
    "written, meant",
    [("‹U+202E›", "\u202e"), ("a‹b ×3›c", "abbbc"), ("‹U+1F600›", "\U0001f600"), ("‹plain›", "‹plain›")],
)
def test_characters_that_an_editor_would_spoil_are_spelled_out(written: str, meant: str) -> None:
    assert expand(written) == meant


@pytest.mark.parametrize(
    "text, line, problem",
    [
        ("", 1, "no case in this file"),
        ("ok\n", 1, "before the first case"),
        ("===\n", 1, "=== title"),
        (SCHEMA, 1, "expects nothing"),
        (SCHEMA + "okay\n", 4, "no section and no expectation"),
        (SCHEMA + "seed: 3\n", 4, "unknown section `seed:`"),
        (SCHEMA + "schema:\n    node B {}\nok\n", 4, "given twice"),
        (SCHEMA + "ok\nok\n", 5, "already says"),
        (SCHEMA + "ok\nerror S000 at 1:1: x\n", 5, "already says"),
        (SCHEMA + "ok \n", 4, "white space at the end"),
        (SCHEMA + "ok\n  indented\n", 5, "belongs to no block"),
        (SCHEMA + "error S000 at 1: x\n", 4, "LINE:COLUMN"),
        (SCHEMA + "error S000 at 1:1\n", 4, "LINE:COLUMN"),
        (SCHEMA + "error S000 at 2:1: x\nerror S000 at 1:1: y\n", 5, "order of their places"),
        (SCHEMA + "help: x\nok\n", 4, "stands under the error"),
        (SCHEMA + "error S000 at 1:1: x\nprints:\n    node A {}\n", 1, "no golden text"),
        (SCHEMA + "ok\nplan:\n    Scan A\n", 1, "expected of queries"),
        (SCHEMA + "ok\nparams: {}\nok\n", 1, "expected of queries"),
        (SCHEMA + "uses: people\nok\n", 1, "`uses:` stands with `query:`"),
        (SCHEMA + "ok\n" + SCHEMA + "ok\n", 5, "the title `a case`"),
        ("=== q\nquery:\n    query q() {}\nok\n", 1, "needs `schema:` or `uses:`"),
        ("=== q\nuses: people\nquery:\n    query q() {}\nok\nparams: {}\n", 6, "followed by `ok`"),
        ("=== q\nuses: people\nquery:\n    query q() {}\nok\nparams: 3\nok\n", 6, "a JSON object"),
        ("=== s\nschema:\nok\n", 2, "is empty"),
        ("=== s\nschema: node A {}\nok\n", 2, "on the next lines"),
        ("=== m\nold:\n    node A {}\nunchanged\n", 1, "`old:`, `new:`"),
        ("=== m\nold:\n    node A {}\nnew:\n    node A {}\n", 1, "either `steps:` or `unchanged`"),
        ("=== m\nold:\n    node A {}\nnew:\n    node A {}\nok\n", 1, "nothing else"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(CaseFormatError) as refusal:
        parse_cases(text, Path("some.case"))

    assert str(refusal.value).startswith(f"some.case:{line}: ")
    assert problem in str(refusal.value)
