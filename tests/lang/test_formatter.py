"""Formatting keeps what was said, comments included, and comes to rest at once."""

import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given

from language_strategies import commented, query_texts, schema_texts
from omnigraph.lang.cursor import ParseResult
from omnigraph.lang.formatter import format_source
from omnigraph.lang.lexer import Language
from omnigraph.lang.query_ast import QueryFile
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_ast import SchemaFile
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from property_profiles import SOME_AND_MANY, profile

BOTH = pytest.mark.parametrize("language", list(Language), ids=lambda language: language.name.lower())
TEXTS = {Language.SCHEMA: schema_texts, Language.QUERY: query_texts}


@BOTH
@SOME_AND_MANY
def test_formatting_keeps_tree_and_comments(language: Language, examples: int) -> None:
    @profile(examples)
    @given(commented(TEXTS[language], language))
    def holds(text: str) -> None:
        before = parse(text, language)
        assert before.diagnostics == ()

        formatted = format_source(Source(text), language)
        after = parse(formatted.value, language)

        assert after.diagnostics == ()
        assert after.tree == before.tree
        assert comments(after) == comments(before)

    holds()


@BOTH
@SOME_AND_MANY
def test_formatting_twice_changes_nothing(language: Language, examples: int) -> None:
    @profile(examples)
    @given(commented(TEXTS[language], language, most=10))
    def holds(text: str) -> None:
        once = format_source(Source(text), language).value

        twice = format_source(Source(once), language).value

        assert twice == once
        assert once == "" or re.search(r"[^\n]\n\Z", once)
        assert not re.search(r"\r|[ \t]\n", once)

    holds()


def parse(text: str, language: Language) -> ParseResult[SchemaFile] | ParseResult[QueryFile]:
    return parse_schema(Source(text)) if language is Language.SCHEMA else parse_queries(Source(text))


def comments(parsed: ParseResult[SchemaFile] | ParseResult[QueryFile]) -> list[str]:
    """The comments in order, without the blanks at line ends that a formatter may drop."""
    return [re.sub(r"[ \t]+$", "", re.sub(r"\r\n?", "\n", each.text), flags=re.MULTILINE) for each in parsed.comments]


# --- by example ------------------------------------------------------------------------------------------


def formatted(text: str, language: Language = Language.SCHEMA) -> str:
    source = Source(text)
    return format_source(source, language).require(source)


def test_comments_stay_before_and_behind_what_they_belong_to() -> None:
    text = (
        "// file\n\n//node\nnode A{// head\n//a\na:String// behind a\n"
        "\n\n  b:I64  /* b */ // b\n// last\n}// end\n// eof"
    )

    assert formatted(text) == (
        "// file\n"
        "\n"
        "//node\n"
        "node A { // head\n"
        "    //a\n"
        "    a: String // behind a\n"
        "\n"
        "    b: I64 /* b */ // b\n"
        "    // last\n"
        "} // end\n"
        "// eof\n"
    )


def test_a_comment_inside_a_line_moves_before_it() -> None:
    assert formatted("node /* odd */ A { a /* name */ : // type\n String }") == (
        "/* odd */\nnode A {\n    /* name */\n    // type\n    a: String\n}\n"
    )


def test_a_comment_inside_something_breakable_breaks_it() -> None:
    text = "query q() { match { $p: P { a: 1, // one\n b: 2 } $p.a = 1 and // both\n $p.b = 2 } return { $p } }"

    assert formatted(text, Language.QUERY) == (
        "query q() {\n"
        "    match {\n"
        "        $p: P {\n"
        "            a: 1, // one\n"
        "            b: 2\n"
        "        }\n"
        "        $p.a = 1\n"
        "            // both\n"
        "            and $p.b = 2\n"
        "    }\n"
        "    return {\n"
        "        $p\n"
        "    }\n"
        "}\n"
    )


@pytest.mark.parametrize(
    "predicate",
    [
        "( /* c */ $a = 1 or $b = 2) and $c = 3",
        "/* c */ ($a = 1 or $b = 2) and $c = 3",
        "$a = 1 and ( ( /* c */ $b = 2 and $c = 3) and $d = 4)",
        "$a = 1 and ( /* c */ ($b = 2 and $c = 3) and $d = 4)",
        "$a = 1 and ((($b = 2 /* c */ or $c = 3)))",
        "not /* c */ ($a = 1 or $b = 2 /* d */)",
    ],
)
def test_a_comment_among_parentheses_comes_to_rest_at_once(predicate: str) -> None:
    once = formatted(f"query q() {{ match {{ $a: A {predicate} }} return {{ $a }} }}", Language.QUERY)

    assert "/* c */" in once
    assert formatted(once, Language.QUERY) == once


def test_one_blank_line_is_kept_and_none_inside_the_braces() -> None:
    text = (
        "node A {\n\n\n    a: String\n\n\n\n    b: String\n\n}\n\n\n\n"
        "edge E: A -> A\nedge F: A -> A\n\nedge G: A -> A\n\n\n"
    )

    assert formatted(text) == (
        "node A {\n    a: String\n\n    b: String\n}\n\nedge E: A -> A\nedge F: A -> A\n\nedge G: A -> A\n"
    )


def test_every_line_break_becomes_the_same() -> None:
    assert (
        formatted("node A {\r\n  /* x\r\n  y */ a: String\r}\r\n") == "node A {\n    /* x\n  y */\n    a: String\n}\n"
    )


def test_a_file_of_comments_stays_one() -> None:
    assert formatted("\n\n  // a\n\n\n  // b /* */\n /* c */ // d") == "// a\n\n// b /* */\n/* c */ // d\n"


def test_an_empty_file_stays_empty() -> None:
    assert formatted(" \n\n\t") == ""


def test_a_file_with_errors_gives_its_diagnostics() -> None:
    result = format_source(Source("node A { a: Strin }"), Language.SCHEMA)

    assert result.value == ""
    assert [found.code for found in result.diagnostics] == ["S000"]


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python something runs: always the same, however busy the machine is."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("separator", [" ", "\n", " // y\n"])
def test_many_comments_between_two_tokens_take_time_in_proportion(separator: str) -> None:
    def lines(count: int) -> int:
        comments = f"/* x */{separator}" * count
        source = Source(f"query a() {{ match {{ $p: Person {comments} }} return {{ $p.name }} }}")
        return lines_run(lambda: format_source(source, Language.QUERY))

    # Work in proportion is 4 times as much, a search from every comment to the next token 16 times.
    assert lines(8_000) < 5 * lines(2_000)
