"""Texts of both languages: right ones, right ones with comments put in, and ones that are nearly right."""

import re

from hypothesis import strategies as st

from language_query_trees import query_files
from language_trees import schemas
from omnigraph.lang.lexer import RESERVED_WORDS, Language, tokenize
from omnigraph.lang.printer import print_queries, print_schema
from omnigraph.lang.source import Source

schema_texts = schemas().map(print_schema)
query_texts = query_files().map(print_queries)

# --- texts that are nearly right -------------------------------------------------------------------------

_PIECE = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|\s+|\$?\w+|.', re.DOTALL)
_VOCABULARY = [
    *"{}()[]<>:;,.?*=@$-\"'/\\#",
    *("->", "..", "!=", "<=", ">=", "//", "/*", "*/", "--", ".@id", "@src", " ", "\n", "\r", "\t"),
    *("node", "edge", "interface", "implements", "enum", "Vector", "String", "@key", "@card", "@range", "query"),
    *(*sorted(RESERVED_WORDS), "count", "date", "A", "x", "$x", "$_", "0", "-1", "1.5", "1.0e400", '"s"', '"\\ud800"'),
    *("let", "each", "optional", "either", "exists", "collect", "path", "with", "having", "union", "per", "over", "|"),
    *("\x00", "\x7f", "\ufeff", "\u202e", "\u2066", "\u200d", "\ud800", "é", "中", "🙂", "\u2028", "\x0b", "\x85"),
]
_noise = st.one_of(
    st.sampled_from(_VOCABULARY),
    st.text(st.characters(), min_size=1, max_size=3),
    st.binary(min_size=1, max_size=6).map(lambda data: data.decode("utf-8", "surrogateescape")),
    st.binary(min_size=1, max_size=6).map(lambda data: data.decode("latin-1")),
)


def pieces_of(text: str) -> list[str]:
    """The text cut at token boundaries; joined, the pieces are the text."""
    return _PIECE.findall(text)


@st.composite
def mutated(draw: st.DrawFn, texts: st.SearchStrategy[str], most: int = 4) -> str:
    """A text with a few pieces deleted, doubled, swapped, replaced or put in between."""
    pieces = pieces_of(draw(texts))
    for _ in range(draw(st.integers(0, most))):
        at = draw(st.integers(0, len(pieces)))
        match draw(st.sampled_from(["delete", "double", "swap", "replace", "insert"])):
            case "delete":
                del pieces[at : at + draw(st.integers(1, 3))]
            case "double":
                pieces[at:at] = pieces[at : at + draw(st.integers(1, 3))]
            case "swap":
                pieces[at : at + 2] = reversed(pieces[at : at + 2])
            case "replace":
                pieces[at : at + 1] = [draw(_noise)]
            case _:
                pieces.insert(at, draw(_noise))
    return "".join(pieces)


anything = st.one_of(
    st.text(st.characters(), max_size=60),
    st.lists(_noise, max_size=40).map("".join),
    st.binary(max_size=60).map(lambda data: data.decode("utf-8", "surrogateescape")),
)
"""Texts that need not look like anything, surrogates included."""

# --- white space and comments ----------------------------------------------------------------------------

_GAPS = ["", " ", "\n", "\r\n", "\r", "\n\n", "\n\n\n\t"]
_COMMENTS = ["// a", "//", "// b  ", '// "', "// {", "/* c */", "/**/", "/* d\n   e */", "/* f *//* g */", "/* // */"]


@st.composite
def _fillers(draw: st.DrawFn) -> str:
    comment = draw(st.sampled_from(_COMMENTS))
    after = draw(st.sampled_from(_GAPS))
    if comment.startswith("//"):
        after = f"\n{after}"
    return draw(st.sampled_from(_GAPS)) + comment + after


@st.composite
def commented(draw: st.DrawFn, texts: st.SearchStrategy[str], language: Language, most: int = 6) -> str:
    """A text with comments and white space put between some of its tokens."""
    text = draw(texts)
    starts = [token.span.start for token in tokenize(Source(text), language).tokens]
    places = [start for start in starts if not _is_inside_a_value(text, start)]
    for place in sorted(draw(st.lists(st.sampled_from(places), max_size=most)), reverse=True):
        text = text[:place] + draw(st.one_of(_fillers(), st.sampled_from(_GAPS))) + text[place:]
    return text


def _is_inside_a_value(text: str, place: int) -> bool:
    """Whether a place is within an enum's value, which may be several tokens, or before the `.` of a field."""
    return text[place : place + 1] == "." or re.fullmatch(r"[\w-]{2}", text[max(place - 1, 0) : place + 1]) is not None
