"""How diagnostics look to people and to programs."""

import json

import pytest

from omnigraph.lang.diagnostic_rendering import MAX_LINE_COLUMNS, diagnostic_to_json, render_text
from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.source import Source, Span

PEOPLE = Source("query q() {\n    match {\n        $p: person { name: $n }\n    }\n}\n", "people.gq")


def place(source: Source, text: str) -> Span:
    start = source.text.index(text)
    return Span(start, start + len(text))


def unknown_type(
    span: Span, message: str = "expected a node type, found `person`", help: str | None = None
) -> Diagnostic:
    return Diagnostic("T1", span, message, help)


def line_and_caret(source: Source, span: Span) -> tuple[str, str]:
    """The source line and the caret line, each behind its margin."""
    _title, _place, line, caret, *_rest = render_text(source, [unknown_type(span)]).splitlines()
    return line[6:], caret[6:]


def test_a_diagnostic_shows_code_place_line_caret_and_help() -> None:
    advice = "type names start with a capital: did you mean `Person`?"

    shown = render_text(PEOPLE, [unknown_type(place(PEOPLE, "person"), help=advice)])

    assert shown == (
        "error[T1]: expected a node type, found `person`\n"
        " --> people.gq:3:13\n"
        "  3 |         $p: person { name: $n }\n"
        "    |             ^^^^^^\n"
        "    = help: type names start with a capital: did you mean `Person`?\n"
    )


def test_diagnostics_are_separated_by_a_blank_line() -> None:
    one = unknown_type(place(PEOPLE, "person"))

    assert render_text(PEOPLE, [one, one]) == f"{render_text(PEOPLE, [one])}\n{render_text(PEOPLE, [one])}"


def test_nothing_found_is_nothing_shown() -> None:
    assert render_text(PEOPLE, []) == ""


def test_errors_and_warnings_differ_in_color() -> None:
    error = render_text(PEOPLE, [unknown_type(Span(0, 5))], color=True)
    warning = render_text(PEOPLE, [Diagnostic("L202", Span(0, 5), "a mutation without parameters")], color=True)

    assert "\x1b[1;31merror[T1]\x1b[0m" in error
    assert "\x1b[1;33mwarning[L202]\x1b[0m" in warning


def test_there_is_no_color_unless_asked_for() -> None:
    assert "\x1b" not in render_text(PEOPLE, [unknown_type(Span(0, 5))])


def test_a_span_over_several_lines_is_marked_to_the_end_of_its_first() -> None:
    span = Span(PEOPLE.text.index("match"), len(PEOPLE.text))

    assert line_and_caret(PEOPLE, span) == ("    match {", "    ^^^^^^^")


@pytest.mark.parametrize("text", ["node A {", "node A {\n", "", "\n", "\r\n"])
def test_the_end_of_the_file_has_a_place(text: str) -> None:
    source = Source(text)

    line, caret = line_and_caret(source, Span(len(text), len(text)))

    assert caret == " " * len(line) + "^"


def test_a_line_number_of_four_digits_keeps_the_margin_straight() -> None:
    source = Source("\n" * 1233 + "x")

    _title, where, line, caret, *_ = render_text(source, [unknown_type(Span(1233, 1234))]).splitlines()

    assert (where, line, caret) == ("  --> <input>:1234:1", "1234 | x", "     | ^")


def test_tabs_are_expanded() -> None:
    source = Source("\t$p:\tperson")

    assert line_and_caret(source, place(source, "person")) == ("    $p: person", "        ^^^^^^")


def test_wide_characters_take_two_columns_and_combining_ones_none() -> None:
    source = Source('"名前 e\u0301" person')

    line, caret = line_and_caret(source, place(source, "person"))

    assert line == source.text
    assert caret == " " * len('"____ e" ') + "^^^^^^"


@pytest.mark.parametrize(
    "char, shown",
    [
        ("\x00", "<U+0000>"),
        ("\u202e", "<U+202E>"),
        ("\ud800", "<U+D800>"),
        ("\x1b", "<U+001B>"),
        ("\U000e0041", "<U+E0041>"),
    ],
)
def test_what_can_not_be_seen_is_spelled_out(char: str, shown: str) -> None:
    source = Source(f"a{char}b", f"{char}.pg")

    text = render_text(source, [unknown_type(Span(2, 3), f"found `{char}`", f"delete `{char}`")])

    assert text.count(shown) == 4
    assert char not in text
    assert text.splitlines()[3] == "    | " + " " * len(f"a{shown}") + "^"


def test_a_long_line_is_clipped_around_its_caret() -> None:
    source = Source("a " * 5000 + "person" + " b" * 5000)

    line, caret = line_and_caret(source, place(source, "person"))

    assert line.startswith("…")
    assert line.endswith("…")
    assert len(line) <= MAX_LINE_COLUMNS + 2
    assert line[caret.index("^") :].startswith("person")
    assert caret.strip() == "^^^^^^"


def test_a_long_line_is_not_clipped_where_it_begins() -> None:
    source = Source("person" + " b" * 5000)

    line, caret = line_and_caret(source, Span(0, 6))

    assert (line[:6], line[-1], caret) == ("person", "…", "^^^^^^")


def test_a_mark_that_is_longer_than_the_window_ends_with_it() -> None:
    source = Source("x" * 10_000)

    line, caret = line_and_caret(source, Span(0, 10_000))

    assert line == "x" * MAX_LINE_COLUMNS + "…"
    assert caret == "^" * MAX_LINE_COLUMNS


@pytest.mark.parametrize(
    "errors, warnings, last",
    [
        (51, 0, "… and 1 more error in people.gq"),
        (8_000, 50, "… and 7,950 more errors in people.gq"),
        (50, 52, "… and 2 more warnings in people.gq"),
        (51, 51, "… and 1 more error and 1 more warning in people.gq"),
    ],
)
def test_of_many_findings_the_first_fifty_of_each_severity_are_shown(errors: int, warnings: int, last: str) -> None:
    advice = [Diagnostic("L202", Span(0, 0), f"advice {number}") for number in range(warnings)]
    mistakes = [Diagnostic("T1", Span(0, 0), f"mistake {number}") for number in range(errors)]

    text = render_text(PEOPLE, [*advice, *mistakes])

    assert (text.count("error["), text.count("warning[")) == (min(errors, 50), min(warnings, 50))
    assert "mistake 49" in text
    assert text.endswith(f"\n\n{last}\n")


def test_fifty_findings_are_shown_without_another_word() -> None:
    text = render_text(PEOPLE, [Diagnostic("T1", Span(0, 0), "mistake")] * 50)

    assert text.count("error[") == 50
    assert "more" not in text


def test_json_tells_every_part() -> None:
    found = unknown_type(place(PEOPLE, "person"), help="did you mean `Person`?")

    assert diagnostic_to_json(PEOPLE, found) == {
        "code": "T1",
        "severity": "error",
        "message": "expected a node type, found `person`",
        "help": "did you mean `Person`?",
        "file": "people.gq",
        "start": {"line": 3, "column": 13, "offset": 36},
        "end": {"line": 3, "column": 19, "offset": 42},
    }


def test_json_can_be_written_whatever_the_source_holds() -> None:
    source = Source("\ud800", "\udcff.pg")
    found = unknown_type(Span(0, 1), "the character `\ud800`", None)

    told = json.dumps(diagnostic_to_json(source, found), ensure_ascii=False).encode("utf-8")

    assert json.loads(told)["message"] == "the character `\\ud800`"
    assert json.loads(told)["file"] == "\\udcff.pg"
    assert json.loads(told)["help"] is None
