import pytest

from language_findings import unmarked
from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.lexer import Comment, Language, Token, TokenKind, tokenize
from omnigraph.lang.source import Source, Span


def tokens(text: str) -> list[Token]:
    lexed = tokenize(Source(text), Language.QUERY)
    assert not lexed.diagnostics
    return list(lexed.tokens[:-1])


def finding(text: str) -> tuple[Diagnostic, Span]:
    text, span = unmarked(text)
    (found,) = tokenize(Source(text), Language.SCHEMA).diagnostics
    return found, span


@pytest.mark.parametrize(
    "text, kind, value",
    [
        ("name", TokenKind.IDENT, None),
        ("_x1", TokenKind.IDENT, None),
        ("Person", TokenKind.TYPE, None),
        ("$p", TokenKind.VARIABLE, "p"),
        ("$_", TokenKind.VARIABLE, "_"),
        ('"a"', TokenKind.STRING, "a"),
        ("007", TokenKind.INT, 7),
        ("2.50", TokenKind.FLOAT, 2.5),
        ("1.0e-2", TokenKind.FLOAT, 0.01),
        ("9" * 40, TokenKind.INT, 10**40 - 1),
        ("->", TokenKind.SIGN, None),
        ("<=", TokenKind.SIGN, None),
    ],
)
def test_a_token_knows_its_kind_and_its_value(text: str, kind: TokenKind, value: object) -> None:
    (token,) = tokens(text)

    assert token == Token(kind, text, Span(0, len(text)), value, starts_line=True)  # type: ignore[arg-type] # a table


@pytest.mark.parametrize(
    "text, parts",
    [
        ("0..200", ["0", "..", "200"]),
        ("1.5..2", ["1.5", "..", "2"]),
        ("in-progress", ["in", "-", "progress"]),
        ("2fa", ["2", "fa"]),
        ("$p.@id", ["$p", ".", "@", "id"]),
        ("$a<-5", ["$a", "<", "-", "5"]),
        ("$a->$b", ["$a", "->", "$b"]),
        ("$a<knows>$b", ["$a", "<", "knows", ">", "$b"]),
        ("a<=b!=c", ["a", "<=", "b", "!=", "c"]),
    ],
)
def test_text_falls_into_the_longest_tokens(text: str, parts: list[str]) -> None:
    assert [token.text for token in tokens(text)] == parts


@pytest.mark.parametrize(
    "written, meant",
    [
        (r"\"", '"'),
        (r"\\", "\\"),
        (r"a\nb", "a\nb"),
        (r"\r\t", "\r\t"),
        (r"\u00e9", "é"),
        (r"\ud83d\ude00", "😀"),
        (r"\u202e\u0000", "\u202e\0"),
        ("é 😀 \u200d", "é 😀 \u200d"),
        ("// no comment", "// no comment"),
    ],
)
def test_escapes_are_resolved(written: str, meant: str) -> None:
    (token,) = tokens(f'"{written}"')

    assert token.value == meant


def test_comments_are_kept_as_written() -> None:
    lexed = tokenize(Source("a // one\n/* two\n* */ b /**/"), Language.QUERY)

    assert lexed.comments == (
        Comment("// one", Span(2, 8)),
        Comment("/* two\n* */", Span(9, 20)),
        Comment("/**/", Span(23, 27)),
    )
    assert [token.text for token in lexed.tokens] == ["a", "b", ""]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_every_line_ending_starts_a_line(ending: str) -> None:
    found = tokens(f"a b{ending}c")

    assert [token.starts_line for token in found] == [True, False, True]


def test_a_byte_order_mark_at_the_start_is_skipped() -> None:
    (token,) = tokens("\ufeffa")

    assert token.span == Span(1, 2)


@pytest.mark.parametrize(
    "text, message, help",
    [
        ("«#» it's\na", "`#` does not start a comment", "comments are written `// …` or `/* … */`"),
        ("«--» it's\na", "`--` does not start a comment", "comments are written `// …` or `/* … */`"),
        ("«'hi'»", "unexpected quotes ' around a string", 'strings are written with double quotes: `"hi"`'),
        ("«“hi”»", "unexpected quotes “ around a string", 'strings are written with double quotes: `"hi"`'),
        ("«`a`»", "unexpected quotes ` around `a`", "names are written without quotes"),
        ("«'»hi", "unexpected character `'`", 'strings are written with double quotes: `"…"`'),
        ("a «→» b", "unexpected character `→`", "write `->`"),
        ("a «≤» b", "unexpected character `≤`", "write `<=`"),
        ("a«\u00a0»b", "unexpected character U+00A0 NO-BREAK SPACE", "use an ordinary space or line break"),
        ("a«\u200b»b", "unexpected character U+200B ZERO WIDTH SPACE", "delete it: it can't be seen"),
        ("a«\ufeff»b", "unexpected character U+FEFF ZERO WIDTH NO-BREAK SPACE", "delete it: it can't be seen"),
        ("a «–» b", "unexpected character `–` (U+2013 EN DASH)", "write an ordinary `-`"),
        (
            "na«ï»ve",
            "unexpected letter `ï` (U+00EF LATIN SMALL LETTER I WITH DIAERESIS) in a name",
            "names are made of the letters a-z and A-Z, digits and `_`",
        ),
        ("«$» a", "expected a name after `$`", "a variable is written `$name`, without a space"),
        ("«$1»", "`$1` is not a variable", "the name of a variable starts with a letter"),
        ("«$Pet»", "`$Pet` is not a variable", "variables start with a small letter: did you mean `$pet`?"),
        ("a «/*» b", "this comment is never closed", "add the closing `*/`"),
        (
            'a «"»b',
            "this string is never closed",
            'add the closing `"`; a string ends on the line on which it starts (a line break in it is `\\n`)',
        ),
        (
            r'"a«\q»"',
            r"unknown escape `\q`",
            r"the escapes are `\"` `\\` `\n` `\r` `\t` and `\uXXXX`; a backslash itself is `\\`",
        ),
        (r'"«\u»12"', r"`\u` needs four hexadecimal digits", r"for example `\u00e9`"),
        (
            r'"«\ud800»"',
            r"`\ud800` is half of a character",
            r"write both halves of the pair, `\ud83d\ude00`, or the character itself",
        ),
        (
            r'"\u0041«\udc00»"',
            r"`\udc00` is half of a character",
            r"write both halves of the pair, `\ud83d\ude00`, or the character itself",
        ),
    ],
)
def test_what_can_not_be_read_is_explained(text: str, message: str, help: str) -> None:
    found, span = finding(text)

    assert found == Diagnostic("S000", span, message, help)


@pytest.mark.parametrize("around", ["{}", '"{}"', "// {}", "/* {} */"])
@pytest.mark.parametrize(
    "char, name",
    [("\0", "U+0000"), ("\u202e", "U+202E RIGHT-TO-LEFT OVERRIDE"), ("\x0b", "U+000B"), ("\x85", "U+0085")],
)
def test_controls_and_direction_marks_are_refused_everywhere(around: str, char: str, name: str) -> None:
    found, span = finding(around.format(f"«{char}»"))

    help_ = f"delete it; in a string, write `\\u{ord(char):04x}`"
    assert found == Diagnostic("S000", span, f"the character {name} is not allowed", help_)


def test_half_a_character_is_refused_without_advice_to_escape_it() -> None:
    found, span = finding('"«\ud800»"')

    help_ = "the text was decoded wrongly: save it as UTF-8"
    assert found == Diagnostic("S000", span, "the character U+D800 is not allowed", help_)


@pytest.mark.parametrize(
    "text, message",
    [
        ("a" * 256, f"a name has at most 255 characters, and `{'a' * 37}…` has 256"),
        ("$" + "a" * 256, f"a name has at most 255 characters, and `{'a' * 37}…` has 256"),
        ("9" * 41, "a number has at most 40 digits, and this one has 41"),
        ("1." + "9" * 40, "a number has at most 40 digits, and this one has 41"),
        ("1.0e400", "the number `1.0e400` is too large for a 64-bit float"),
    ],
)
def test_names_and_numbers_have_a_limit(text: str, message: str) -> None:
    (found,) = tokenize(Source(text), Language.QUERY).diagnostics

    assert (found.code, found.span, found.message) == ("Q001", Span(0, len(text)), message)


@pytest.mark.parametrize("text", ["a" * 255, "$" + "a" * 255, "9" * 40, "1." + "9" * 39])
def test_the_limit_itself_is_allowed(text: str) -> None:
    assert len(tokens(text)) == 1


def test_at_most_fifty_findings_are_reported() -> None:
    lexed = tokenize(Source("€ " * 60), Language.QUERY)

    assert len(lexed.diagnostics) == 50
    assert lexed.tokens[-1].kind is TokenKind.END
