import pytest

from omnigraph.lang.cursor import MAX_DEPTH, Cursor, EnoughError, GaveUpError
from omnigraph.lang.lexer import Language, TokenKind
from omnigraph.lang.source import Source, Span


def cursor(text: str) -> Cursor:
    return Cursor(Source(text), Language.QUERY)


def test_every_look_and_every_step_counts() -> None:
    one = cursor("a b c")

    one.peek()
    one.advance()
    one.accept("b")

    assert one.steps == 4


def test_behind_the_last_token_there_is_only_the_end() -> None:
    one = cursor("a")

    assert one.peek(7).kind is TokenKind.END
    one.advance()
    assert one.advance().kind is TokenKind.END
    assert one.advance().kind is TokenKind.END


def test_a_string_is_never_taken_for_a_sign() -> None:
    assert not cursor('"{"').is_at("{")


def test_glued_means_without_a_space() -> None:
    one = cursor("a b-c")
    one.advance()

    assert [one.is_glued(), one.is_glued(1), one.is_glued(2)] == [False, True, True]


def test_a_place_is_reported_once() -> None:
    one = cursor("a b")

    for _ in range(2):
        with pytest.raises(GaveUpError):
            one.fail("something else")

    (found,) = one.build_result(None).diagnostics
    assert found.message == "expected something else, found `a`"


def test_what_the_lexer_found_explains_the_place_behind_it() -> None:
    one = cursor("a € b")
    one.advance()

    one.report_missing("missing `,`")

    (found,) = one.build_result(None).diagnostics
    assert found.message.startswith("unexpected character `€`")


def test_something_missing_is_shown_behind_the_previous_token() -> None:
    one = cursor("a   b")
    one.advance()

    one.report_missing("missing `,`")

    (found,) = one.build_result(None).diagnostics
    assert found.span == Span(1, 1)


def test_depth_is_bounded_and_comes_back() -> None:
    one = cursor("a")

    def descend(levels: int) -> None:
        if levels:
            with one.nest():
                descend(levels - 1)

    descend(MAX_DEPTH)
    descend(MAX_DEPTH)
    with pytest.raises(GaveUpError):
        descend(MAX_DEPTH + 1)

    (found,) = one.build_result(None).diagnostics
    assert (found.code, found.message) == ("Q001", "nested more than 64 deep")


def test_the_fiftieth_finding_is_the_last() -> None:
    one = cursor("a")

    for number in range(49):
        one.report(Span(0, 1), f"finding {number}")
    with pytest.raises(EnoughError):
        one.report(Span(0, 1), "finding 49")

    assert len(one.build_result(None).diagnostics) == 50


def test_a_block_goes_on_behind_a_broken_item() -> None:
    one = cursor("{ a b { c } d\n a e }")
    read: list[str] = []

    def item() -> None:
        read.append(one.expect("a").text)

    one.parse_block(one.advance(), "the block", item, is_item_start=lambda: one.is_at("a"), is_block_end=lambda: False)

    assert read == ["a", "a"]
    assert one.is_at_end
    assert [found.message for found in one.build_result(None).diagnostics] == [
        "expected `a`, found `b`",
        "expected `a`, found `e`",
    ]


def step(one: Cursor) -> None:
    one.advance()


def test_a_block_ends_where_only_its_outside_can_start() -> None:
    one = cursor("{ a\n outside")

    one.parse_block(
        one.advance(),
        "the block",
        lambda: step(one),
        is_item_start=lambda: False,
        is_block_end=lambda: one.is_at("outside"),
    )

    (found,) = one.build_result(None).diagnostics
    assert (found.message, found.help) == ("missing `}` at the end of the block", "its `{` is in line 1, column 1")
    assert one.is_at("outside")
