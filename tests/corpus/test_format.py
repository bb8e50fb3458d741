"""The reader of case files is strict, and says where."""

from pathlib import Path

import pytest

from corpus_format import CaseFormatError, Finding, expand, parse_cases

SCHEMA = "=== a case\nschema:\n    node A {}\n"
READ = "=== r\ngraph: friends\nquery:\n    query q() {}\n"
WRITE = "=== w\ngraph: office\nmutate:\n    insert A {}\n"
LOAD = "=== l\nschema:\n    node A {}\nload merge without bad records:\n    {}\n"


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


def test_a_read_has_an_answer_for_each_set_of_parameters() -> None:
    first = 'params: {"a": 1}\ncolumns: ["x"]\nordered:\n    [1]\n    ["‹U+00E9›"]\n'

    (case,) = parse_cases(READ + first + 'params: {"a": 2}\nno rows\nparams: {"a": 3}\nfails some_code: a part\n')

    assert [(answer.given["a"], answer.rows, answer.failure) for answer in case.answers] == [
        (1, ([1], ["é"]), None),
        (2, (), None),
        (3, None, ("some_code", "a part")),
    ]
    assert (case.answers[0].columns, case.answers[0].is_ordered) == (("x",), True)


def test_a_write_has_its_effect_and_what_is_there_afterwards() -> None:
    text = WRITE + 'params: {"a": 1}\naffects: {"nodes": 2}\nholds:\n    {"b": 3}\nload append:\n    x\n'

    (case,) = parse_cases(text + "refused some_code:\n    one\n    two\nholds nothing\n")

    first, second = case.writes
    assert (first.mode, first.text, first.given, first.counts) == (None, "insert A {}\n", {"a": 1}, {"nodes": 2})
    assert first.holds == ({"b": 3},)
    assert (second.mode, second.refusal, second.holds) == ("append", ("some_code", "one\ntwo"), ())


def test_a_load_may_leave_records_out() -> None:
    (case,) = parse_cases(LOAD + 'counts: {"rejected": 1}\nleft out:\n    line 1: bad\n')

    (write,) = case.writes
    assert (write.mode, write.leaves_out, write.left_out) == ("merge", True, ("line 1: bad",))


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
        (SCHEMA + "rows:\n    [1]\n", 4, "rows are expected of a query with `graph:`"),
        (READ, 1, "a read expects `rows:`"),
        (READ + "ok\n", 1, "nothing else"),
        (READ + "params: {}\n", 1, "a read expects `rows:`"),
        (READ + "rows:\n    1\n", 6, "a JSON array"),
        (READ + "rows:\n    [1\n", 6, "a JSON array"),
        (READ + "rows:\n    [1]\nno rows\n", 7, "more answers need `params:`"),
        (READ + 'params: {"a": 1}\nno rows\nno rows\n', 7, "already have an answer"),
        (READ + 'params: {"a": 1}\nparams: {"a": 2}\n', 6, "no answer yet"),
        (READ + "fails: badly\n", 5, "unknown section `fails:`"),
        (READ + "fails badly\n", 5, "`fails CODE: fragment"),
        (READ + "uses: people\nno rows\n", 1, "a schema of its own"),
        ("=== r\ngraph: friends\nno rows\n", 1, "needs `schema:`, `query:`"),
        (READ + "data:\n    {}\nno rows\n", 1, "instead of a schema and `data:`"),
        ("=== r\ndata:\n    {}\nquery:\n    query q() {}\nno rows\n", 1, "needs `schema:` or `uses:`"),
        (WRITE, 3, "a write expects `affects:`"),
        (WRITE + "mutate:\n    x\n", 5, "no expectation yet"),
        (WRITE + "counts: {}\n", 5, "no expectation of `mutate:`"),
        (WRITE + "holds nothing\n", 5, "no expectation of `mutate:`"),
        (WRITE + "affects: 1\n", 5, "a JSON object"),
        (WRITE + "affects: {}\naffects: {}\n", 6, "no expectation of `mutate:`"),
        (WRITE + "affects: {}\nleft out:\n    x\n", 6, "no expectation of `mutate:`"),
        (WRITE + "affects: {}\nrows:\n    [1]\n", 6, "no expectation of `mutate:`"),
        (WRITE + "refused:\n    x\n", 5, "no expectation of `mutate:`"),
        (LOAD + "affects: {}\n", 6, "no expectation of `load merge without bad records:`"),
        (LOAD + "params: {}\n", 6, "no expectation of `load merge without bad records:`"),
        (LOAD.replace("schema:\n    node A {}\n", "") + "counts: {}\n", 1, "needs one of `graph:`"),
        (READ + "no rows\nmutate:\n    x\n", 6, "already expects something else"),
        (READ + "mutate:\n    x\naffects: {}\n", 1, "a graph and its writes, nothing else"),
        (WRITE.replace("mutate", "data:\n    {}\nmutate") + "affects: {}\n", 1, "instead of a schema and `data:`"),
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
