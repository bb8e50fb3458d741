"""The token cursor of all parsers: look-ahead, error reporting and error recovery."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, NoReturn, TypeVar

from omnigraph.lang.diagnostics import MAX_DIAGNOSTICS, Diagnostic, WithDiagnostics, sort_diagnostics
from omnigraph.lang.lexer import RESERVED_WORDS, Comment, Language, Token, TokenKind, TokenStream, abbreviate, tokenize
from omnigraph.lang.literals import Name
from omnigraph.lang.source import Source, Span

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ParseResult(WithDiagnostics, Generic[T]):
    """A syntax tree with its diagnostics and comments.

    With errors the tree is partial: it contains what could be parsed, repaired where the fix is obvious. `steps` counts
    the work done, so that a test can show that it grows linearly with the text.
    """

    tree: T
    diagnostics: tuple[Diagnostic, ...]
    comments: tuple[Comment, ...]
    steps: int

    def require(self, source: Source) -> T:
        """Return the tree.

        Raises:
            SourceError: The text has an error; it carries all diagnostics.
        """
        self.refuse_errors(source)
        return self.tree


# Each level is several frames of recursive descent on the interpreter's stack.
MAX_DEPTH = 64


class GaveUpError(Exception):
    """The construct being parsed can't be repaired; it was reported, and the enclosing block resumes after it."""


class EnoughError(Exception):
    """The limit of diagnostics is reached; parsing stops."""


class TokenReader:
    """A reader of tokens with look-ahead; `steps` counts looks and moves."""

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self.steps = 0
        self._tokens = tokens
        self._index = 0

    def peek(self, ahead: int = 0) -> Token:
        """Return the token at the cursor or `ahead` tokens after it; past the last one, `END`."""
        self.steps += 1
        index = self._index + ahead
        return self._tokens[index] if index < len(self._tokens) else self._tokens[-1]

    @property
    def previous(self) -> Span:
        """The span of the token before the cursor; the start of the text before the first."""
        return self._tokens[self._index - 1].span if self._index else Span(0, 0)

    @property
    def index(self) -> int:
        """The number of tokens before the cursor."""
        return self._index

    def is_at(self, *texts: str) -> bool:
        """Return whether the next token is one of these words or signs."""
        return self.peek().text in texts

    def is_followed_by(self, *texts: str) -> bool:
        """Return whether the token after the next one is one of these words or signs."""
        return self.peek(1).text in texts

    def is_at_kind(self, *kinds: TokenKind) -> bool:
        """Return whether the next token is of one of these kinds."""
        return self.peek().kind in kinds

    @property
    def is_at_end(self) -> bool:
        """Whether every token has been read."""
        return self.peek().kind is TokenKind.END

    def is_glued(self, ahead: int = 0) -> bool:
        """Return whether that token directly follows the one before it, without a space."""
        index = self._index + ahead
        return 0 < index < len(self._tokens) and self._tokens[index - 1].span.end == self._tokens[index].span.start

    def advance(self) -> Token:
        """Return the next token and move past it; `END` is never passed."""
        self.steps += 1
        token = self._tokens[self._index]
        if token.kind is not TokenKind.END:
            self._index += 1
        return token

    def accept(self, *texts: str) -> Token | None:
        """Return the next token and move past it if it is one of these words or signs, else None."""
        return self.advance() if self.is_at(*texts) else None


class Cursor(TokenReader):
    """A token reader that reports mistakes and recovers from them.

    `report` is for a mistake that is repaired on the spot, `report_missing` for something that is missing, `fail` for
    what can't be repaired. The last two report nothing at a position that was reported before, or where the lexer found
    something unreadable: one mistake gives one diagnostic.
    """

    def __init__(self, source: Source, language: Language, lexed: TokenStream | None = None) -> None:
        lexed = lexed or tokenize(source, language)
        super().__init__(lexed.tokens)
        self.source = source
        self.language = language
        self.syntax_code = language.syntax_code
        self.limit_code = language.limit_code
        self._comments = lexed.comments
        self._diagnostics = list(lexed.diagnostics)
        self._damaged = lexed.damaged
        self._depth = 0
        self._reported_at = -1

    def expect(self, text: str, help: str | None = None) -> Token:
        """Return the next token and move past it; give up if it is another word or sign."""
        if not self.is_at(text):
            self.fail(f"`{text}`", help)
        return self.advance()

    # --- reporting -------------------------------------------------------------------------------------

    def report(self, span: Span, message: str, help: str | None = None, *, code: str | None = None) -> None:
        """Report a mistake that parsing continues after as if it were not there.

        A mistake with its own code does not break the grammar, so it does not suppress a later syntax error here.
        """
        # Only a syntax error marks the position, see `is_explained`.
        if code is None:
            self._reported_at = self._index
        self._diagnostics.append(Diagnostic(code or self.syntax_code, span, message, help))
        if len(self._diagnostics) >= MAX_DIAGNOSTICS:
            raise EnoughError

    def report_limit(self, span: Span, message: str, help: str | None = None) -> None:
        """Report something that is too long, too deep or too large."""
        self.report(span, message, help, code=self.limit_code)

    def report_missing(self, message: str, help: str | None = None) -> None:
        """Report something missing right after the previous token; parsing continues as if it were there."""
        if not self.is_explained:
            self.report(self.previous.after, message, help)

    def fail(self, expected: str, help: str | None = None) -> NoReturn:
        """Raise `GaveUpError` after reporting what was expected at the cursor."""
        token = self.peek()
        # At the end there is no token to underline, so the position after the last one is.
        span = self.previous.after if token.kind is TokenKind.END else token.span
        self.refuse(span, f"expected {expected}, found {describe_token(token)}", help)

    def refuse(self, span: Span, message: str, help: str | None = None, *, code: str | None = None) -> NoReturn:
        """Raise `GaveUpError` after reporting this message."""
        if not self.is_explained:
            self.report(span, message, help, code=code)
        raise GaveUpError

    @property
    def is_explained(self) -> bool:
        """Whether a mistake was reported at the cursor, or something unreadable comes before it."""
        return self._reported_at == self._index or self._index in self._damaged

    def format_position(self, span: Span) -> str:
        """Format the line and column of a span, for a help line."""
        position = self.source.position(span.start)
        return f"line {position.line}, column {position.column}"

    @contextmanager
    def nest(self, levels: int = 1) -> Iterator[None]:
        """Enter nesting levels for the duration of the block; give up beyond `MAX_DEPTH`."""
        if self._depth + levels > MAX_DEPTH:
            if not self.is_explained:
                message = f"nested more than {MAX_DEPTH // levels} deep"
                self.report_limit(self.peek().span, message, "split it, or flatten it")
            raise GaveUpError
        self._depth += levels
        try:
            yield
        finally:
            self._depth -= levels

    # --- recovering ------------------------------------------------------------------------------------

    def parse_block(
        self,
        opening: Token,
        what: str,
        item: Callable[[], None],
        *,
        is_item_start: Callable[[], bool],
        is_block_end: Callable[[], bool],
        stops: Callable[[], bool] | None = None,
    ) -> None:
        """Parse items up to the `}` that closes `opening`, resuming with the next item after a broken one.

        `is_item_start` returns whether an item may start at the cursor; `is_block_end` whether the cursor is at
        something that only occurs outside the block, so that its `}` is missing; `stops` whether another part of the
        block starts at the cursor, which the caller parses.
        """
        is_at_part = stops or _never
        while not self.accept("}"):
            if is_at_part():
                return
            if self.is_at_end or is_block_end():
                hint = f"its `{{` is in {self.format_position(opening.span)}"
                self.report_missing(f"missing `}}` at the end of {what}", hint)
                return
            # An item that moved the cursor before it failed may have left it at the start of the next one.
            before = self._index
            try:
                item()
            except GaveUpError:
                self._skip(is_item_start, lambda: is_at_part() or is_block_end(), has_moved=self._index > before)

    def _skip(self, starts: Callable[[], bool], ends: Callable[[], bool], *, has_moved: bool) -> None:
        """Move to the end of the block or to the next item in it, past balanced pairs of braces."""
        depth = 0
        while not (self.is_at_end or ends()):
            if depth == 0 and (self.is_at("}") or (has_moved and starts())):
                return
            token = self.advance()
            depth += (token.text == "{") - (token.text == "}")
            has_moved = True

    def skip_to(self, stops: Callable[[], bool]) -> None:
        """Move forward until `stops` holds, or to the end."""
        while not (self.is_at_end or stops()):
            self.advance()

    # --- finishing -------------------------------------------------------------------------------------

    @property
    def diagnostic_count(self) -> int:
        """The number of diagnostics so far."""
        return len(self._diagnostics)

    @property
    def is_full(self) -> bool:
        """Whether the lexer alone reached the limit of diagnostics."""
        return len(self._diagnostics) >= MAX_DIAGNOSTICS

    def build_result(self, tree: T) -> ParseResult[T]:
        """Return the tree with its diagnostics and comments."""
        return ParseResult(tree, sort_diagnostics(self._diagnostics), self._comments, self.steps)


def _never() -> bool:
    return False


def describe_token(token: Token) -> str:
    """Return a token as messages name it."""
    if token.kind is TokenKind.END:
        return str(token.kind.value)
    # The text of a word of Cypher is in capitals, and its value as written.
    text = token.value if token.kind is TokenKind.IDENT and isinstance(token.value, str) else token.text
    return f"`{abbreviate(text)}`"


_TYPE_NAME_HINT = "type names start with a capital, as in `Person`"


def parse_type_name(cursor: Cursor, what: str, *, unknown_code: str | None = None) -> Name:
    """Parse the name of a node, edge or interface type; `what` names it in messages, with its article.

    A lower-case word or a string in its place is reported and repaired. Where a type is used and not declared,
    `unknown_code` is the diagnostic code of an unknown type.
    """
    token = cursor.peek()
    if token.kind is TokenKind.TYPE:
        cursor.advance()
        return Name(token.text, token.span)
    if token.kind is TokenKind.IDENT and not token.starts_line and token.text not in RESERVED_WORDS:
        fixed = capitalize_name(token.text)
        hint = f"type names start with a capital: did you mean `{fixed}`?"
        cursor.report(token.span, f"expected {what}, found `{token.text}`", hint, code=unknown_code)
        cursor.advance()
        return Name(fixed, token.span)
    if token.kind is TokenKind.STRING and (bare := str(token.value)).isidentifier() and bare.isascii():
        hint = f"type names are written without quotes: `{abbreviate(capitalize_name(bare))}`"
        cursor.report(token.span, f"expected {what}, found a string", hint, code=unknown_code)
        cursor.advance()
        return Name(capitalize_name(bare), token.span)
    if token.kind is TokenKind.VARIABLE:
        cursor.fail(what, f"type names are written without `$`: did you mean `{capitalize_name(str(token.value))}`?")
    if token.starts_line:
        cursor.report_missing(f"missing {what}", _TYPE_NAME_HINT)
    return cursor.fail(what, _TYPE_NAME_HINT)


def parse_property_name(cursor: Cursor, what: str) -> Name:
    """Parse the name of a property: any lower-case word, reserved or not."""
    token = cursor.peek()
    if token.kind is TokenKind.IDENT:
        cursor.advance()
        return Name(token.text, token.span)
    if token.kind is TokenKind.TYPE:
        fixed = decapitalize_name(token.text)
        hint = f"property names start with a small letter: did you mean `{fixed}`?"
        cursor.report(token.span, f"expected {what}, found `{token.text}`", hint)
        cursor.advance()
        return Name(fixed, token.span)
    if token.kind is TokenKind.STRING and (bare := str(token.value)).isidentifier() and bare.isascii():
        fixed = decapitalize_name(bare)
        hint = f"property names are written without quotes: `{abbreviate(fixed)}`"
        cursor.report(token.span, f"expected {what}, found a string", hint)
        cursor.advance()
        return Name(fixed, token.span)
    if token.kind is TokenKind.VARIABLE:
        hint = f"property names are written without `$`: did you mean `{token.value}`?"
        if cursor.is_followed_by(".") and cursor.peek(2).kind is TokenKind.IDENT:
            hint = f"property names are written without a variable: did you mean `{cursor.peek(2).text}`?"
        if not cursor.is_followed_by(":", "="):
            cursor.fail(what, hint)
        cursor.report(token.span, f"expected {what}, found `{token.text}`", hint)
        cursor.advance()
        return Name(str(token.value), token.span)
    if token.text == "@" and cursor.peek(1).text in ("id", "src", "dst"):
        cursor.fail(what, f"an id is compared in a clause of its own: `$p.@{cursor.peek(1).text} = …`")
    return cursor.fail(what, "property names start with a small letter, as in `name`")


def parse_comma_list(cursor: Cursor, item: Callable[[], None], *, closing: str, what: str) -> None:
    """Parse one or more items separated by commas, and the `closing` sign after them.

    A missing comma or a trailing one is reported and repaired.
    """
    while True:
        item()
        if comma := cursor.accept(","):
            if cursor.is_at(closing):
                cursor.report(comma.span, f"unexpected `,` before `{closing}`", f"delete it, or add {what} after it")
                break
        elif cursor.is_at(closing) or not _is_next_item(cursor):
            break
        else:
            cursor.report_missing("missing `,`", f"put a `,` between {what} and the next")
    cursor.expect(closing)


def _is_next_item(cursor: Cursor) -> bool:
    token = cursor.peek()
    return not token.starts_line and token.kind not in (TokenKind.SIGN, TokenKind.END)


def capitalize_name(name: str) -> str:
    """Return a name as a type's name: `WorksAt` for `works_at` and `worksAt`."""
    parts = [part for part in name.split("_") if part]
    return "".join(part[0].upper() + part[1:] for part in parts) or "T"


def decapitalize_name(name: str) -> str:
    """Return a name as a property's name: `firstName` for `FirstName`, `id` for `ID`."""
    return name.lower() if name.isupper() else name[:1].lower() + name[1:]
