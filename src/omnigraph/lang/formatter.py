"""The formatter (`omnigraph fmt`): the canonical text of a source, with its comments and blank lines.

The printer anchors each line at its first token in the source. All tokens up to the next anchor belong to the line, so
a comment is inside a line (then it moves before it), after it, or on separate lines before the next one.
"""

import bisect
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from omnigraph.lang.diagnostics import Diagnostic, StageResult
from omnigraph.lang.layout import INDENT, Anchor, Item, LineGroup, PrintedLine, iter_leaf_lines, lay_out
from omnigraph.lang.lexer import Comment, Language, TokenStream, tokenize
from omnigraph.lang.printer import build_declaration_items
from omnigraph.lang.query_ast import QueryFile
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.query_printer import build_pattern_items, build_query_items
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source, Span

_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_BLANKS_AT_LINE_END = re.compile(r"[ \t]+$", re.MULTILINE)


def format_source(source: Source, language: Language) -> StageResult[str]:
    r"""Format the source canonically, or return its diagnostics and an empty text if it has errors.

    The tree stays the same, and so do the comments and their order, but for blanks at line ends. At most one blank
    line is kept between lines. The text ends in one `\n`, unless it is empty. Formatting twice changes nothing.
    """
    declarations, diagnostics = _build_items(source, language)
    if declarations is None:
        return StageResult("", diagnostics)
    places = _TokenIndex(source, tokenize(source, language))
    lines = lay_out(declarations, places.must_break)
    return StageResult("".join(f"{line}\n" for line in _merge_comments(places, lines)), diagnostics)


def _build_items(source: Source, language: Language) -> tuple[list[list[Item]] | None, tuple[Diagnostic, ...]]:
    """Parse the source into items to print; None for a source with errors, whose tree is partial."""
    match language:
        case Language.SCHEMA:
            schema = parse_schema(source)
            items = [build_declaration_items(each) for each in schema.tree.declarations] if schema.ok else None
            return items, schema.diagnostics
        case Language.QUERY:
            queries = parse_queries(source)
            if not queries.ok:
                return None, queries.diagnostics
            return _build_file_items(queries.tree), queries.diagnostics
        case _:
            assert_never(language)


def _build_file_items(file: QueryFile) -> list[list[Item]]:
    """Build the items of queries and named patterns in the order of the source."""
    declarations = [(each.span.start, build_query_items(each)) for each in file.queries]
    declarations += [(each.span.start, build_pattern_items(each)) for each in file.patterns]
    return [items for _, items in sorted(declarations, key=lambda declaration: declaration[0])]


class _TokenIndex:
    """An index of token and comment offsets, searched by bisection."""

    def __init__(self, source: Source, lexed: TokenStream) -> None:
        self.tokens = lexed.tokens[:-1]
        self.comments = lexed.comments
        self.token_starts = [token.span.start for token in self.tokens]
        self.comment_starts = [comment.span.start for comment in self.comments]
        self.line_breaks = [found.start() for found in _LINE_BREAK.finditer(source.text)]
        self.by_text: dict[str, list[int]] = {}
        for token in self.tokens:
            self.by_text.setdefault(token.text, []).append(token.span.start)

    def find(self, anchor: Anchor | None) -> int | None:
        """Find the offset of an anchor; None if there is no such token."""
        if anchor is None:
            return None
        offset = anchor.offset
        for word in anchor.words:
            starts = self.by_text.get(word, [])
            index = bisect.bisect_left(starts, offset) - 1
            if index < 0:
                return None
            offset = starts[index]
        return offset if anchor.skipped is None else self._include_parentheses(offset, anchor.skipped)

    def _include_parentheses(self, offset: int, skipped: int) -> int:
        token = first = bisect.bisect_left(self.token_starts, offset)
        while first and self.tokens[first - 1].text == "(":
            first -= 1
        return self.token_starts[min(first + skipped, token)]

    def find_last_token(self, before: int | None) -> Span:
        """Find the span of the last token that starts before an offset; without one, of the last token."""
        index = len(self.tokens) if before is None else bisect.bisect_left(self.token_starts, before)
        return self.tokens[index - 1].span if index else Span(0, 0)

    def must_break(self, group: LineGroup, following: Anchor | None) -> bool:
        """Return whether a comment is inside the group, other than in what becomes its first line."""
        start = self.find(group.flat.anchor)
        if start is None:
            return False
        places = (self.find(line.anchor) for line in iter_leaf_lines(group))
        second = next((place for place in places if place is not None and place > start), None)
        if second is None:
            return False
        low = bisect.bisect_left(self.comment_starts, self.find_last_token(second).end)
        return low < bisect.bisect_left(self.comment_starts, self.find_last_token(self.find(following)).start)

    def find_comments(self, start: int, end: int | None) -> Sequence[Comment]:
        """Find the comments that start in a range."""
        high = None if end is None else bisect.bisect_left(self.comment_starts, end)
        return self.comments[bisect.bisect_left(self.comment_starts, start) : high]

    def is_blank_before(self, offset: int) -> bool:
        """Return whether an empty line comes before a token or comment."""
        return self._count_breaks(self._find_end_before(offset), offset) > 1

    def is_trailing(self, comment: Comment) -> bool:
        """Return whether a comment follows something on its line, and nothing but comments follow it."""
        if self._count_breaks(self._find_end_before(comment.span.start), comment.span.start):
            return False
        following = bisect.bisect_left(self.token_starts, comment.span.end)
        if following == len(self.tokens):
            return True
        return self._count_breaks(comment.span.end, self.token_starts[following]) > 0

    def _count_breaks(self, start: int, end: int) -> int:
        # By bisection and not by scanning the text: the next token may be far away, and every comment before it asks.
        return bisect.bisect_left(self.line_breaks, end) - bisect.bisect_left(self.line_breaks, start)

    def _find_end_before(self, offset: int) -> int:
        token = self.find_last_token(offset).end
        index = bisect.bisect_left(self.comment_starts, offset) - 1
        return max(token, self.comments[index].span.end) if index >= 0 else token


@dataclass(frozen=True, slots=True)
class _Segment:
    """An anchored line, the lines without an anchor after it, and the comments in its range of text."""

    start: int
    lines: tuple[PrintedLine, ...]
    inside: Sequence[Comment]
    trailing: Sequence[Comment]


def _iter_segments(places: _TokenIndex, lines: Sequence[PrintedLine]) -> Iterator[_Segment]:
    firsts: list[int] = []
    starts: list[int] = []
    for index, line in enumerate(lines):
        start = places.find(line.anchor)
        if start is not None and (not starts or start > starts[-1]):
            firsts.append(index)
            starts.append(start)
    for number, (index, start) in enumerate(zip(firsts, starts, strict=True)):
        is_last = number + 1 == len(starts)
        end = None if is_last else starts[number + 1]
        comments = places.find_comments(start, end)
        split = sum(comment.span.start < places.find_last_token(end).start for comment in comments)
        here = lines[index:] if is_last else lines[index : firsts[number + 1]]
        yield _Segment(start, tuple(here), comments[:split], comments[split:])


class _CommentMerger:
    """A writer of lines and comments in the order of the source."""

    def __init__(self, places: _TokenIndex) -> None:
        self.places = places
        self._lines: list[list[str]] = []
        self._pending_comments: list[Comment] = []
        self._blank_allowed = False

    @property
    def output(self) -> list[str]:
        """The lines so far."""
        return ["".join(parts) for parts in self._lines]

    def add_comments(self, comments: Iterable[Comment]) -> None:
        """Add comments: after the last line if they were there, else before the next one."""
        for comment in comments:
            if self._lines and not self._pending_comments and self.places.is_trailing(comment):
                self._lines[-1].append(f" {_format_comment(comment)}")
            else:
                self._pending_comments.append(comment)

    def add_segment(self, segment: _Segment) -> None:
        """Add the lines of a segment, after the comments that belong before them."""
        first = segment.lines[0]
        is_blank = self.places.is_blank_before(segment.start)
        depth = first.depth + first.closes
        forced = self._write_pending_comments(depth, forced=first.blank_before)
        for comment in segment.inside:
            blank_before = forced or is_blank or self.places.is_blank_before(comment.span.start)
            self._write(INDENT * depth + _format_comment(comment), blank_before=blank_before)
            forced = is_blank = False
        self._write(str(first), blank_before=forced or (is_blank and not first.closes))
        for line in segment.lines[1:]:
            self._write(str(line), blank_before=False)
        self._blank_allowed = not segment.lines[-1].text.endswith(("{", "("))
        self.add_comments(segment.trailing)

    def finish(self) -> None:
        """Write the comments after the last line."""
        self._write_pending_comments(0, forced=False)

    def _write_pending_comments(self, depth: int, *, forced: bool) -> bool:
        """Write the pending comments; return whether the `forced` blank line is still due."""
        for index, comment in enumerate(self._pending_comments):
            if index and self.places.is_trailing(comment):
                self._lines[-1].append(f" {_format_comment(comment)}")
            else:
                blank_before = forced or self.places.is_blank_before(comment.span.start)
                self._write(INDENT * depth + _format_comment(comment), blank_before=blank_before)
            forced = False
        self._pending_comments = []
        return forced

    def _write(self, text: str, *, blank_before: bool) -> None:
        if blank_before and self._blank_allowed:
            self._lines.append([])
        self._lines.append([text])
        self._blank_allowed = True


def _merge_comments(places: _TokenIndex, lines: Sequence[PrintedLine]) -> list[str]:
    merger = _CommentMerger(places)
    segments = list(_iter_segments(places, lines))
    merger.add_comments(places.find_comments(0, segments[0].start if segments else None))
    for segment in segments:
        merger.add_segment(segment)
    merger.finish()
    return merger.output


def _format_comment(comment: Comment) -> str:
    return _BLANKS_AT_LINE_END.sub("", _LINE_BREAK.sub("\n", comment.text))
