"""The prompt of a shell at a terminal: keys, highlighting, completion, history."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer

from omnigraph.cli.render import print_error
from omnigraph.cli.shell_session import ShellSession
from omnigraph.cli.shell_statements import is_complete
from omnigraph.errors import OmnigraphError
from omnigraph.lang.lexer import RESERVED_WORDS, Language, TokenKind, reveal, tokenize
from omnigraph.lang.source import Source

# Beside the reserved words, those that begin a part of a query where no name of the user can stand.
_CLAUSE_WORDS = (
    "by",
    "case",
    "each",
    "either",
    "else",
    "exists",
    "for",
    "from",
    "having",
    "if",
    "let",
    "on",
    "optional",
)
_MORE_WORDS = ("per", "query", "returning", "then", "union", "when", "with")
_KEYWORDS = RESERVED_WORDS.union(_CLAUSE_WORDS, _MORE_WORDS)
_STYLES = {
    TokenKind.TYPE: "ansicyan",
    TokenKind.VARIABLE: "ansiyellow",
    TokenKind.STRING: "ansigreen",
    TokenKind.INT: "ansimagenta",
    TokenKind.FLOAT: "ansimagenta",
}
_KEYWORD_STYLE, _COMMENT_STYLE, _COMMAND_STYLE = "bold ansiblue", "ansibrightblack", "bold"
_HISTORY_MODE = 0o600


class QueryLexer(Lexer):
    """Colours a text by the tokens of the language."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        """Return the styled parts of each line."""
        text = document.text
        styles = _style_chars(text)
        starts = [0]
        for line in document.lines:
            starts.append(starts[-1] + len(line) + 1)

        def get_line(number: int) -> StyleAndTextTuples:
            if number >= len(document.lines):
                return []
            parts: StyleAndTextTuples = []
            for position in range(starts[number], starts[number] + len(document.lines[number])):
                style = styles[position]
                # One part per run of a style.
                if parts and parts[-1][0] == style:
                    parts[-1] = (style, parts[-1][1] + text[position])
                else:
                    parts.append((style, text[position]))
            return parts

        return get_line


def _style_chars(text: str) -> list[str]:
    styles = [""] * len(text)
    if text.startswith("."):
        end = len(text.partition(" ")[0])
        styles[:end] = [_COMMAND_STYLE] * end
        return styles
    stream = tokenize(Source(text), Language.QUERY)
    for token in stream.tokens:
        style = _STYLES.get(token.kind, "")
        if token.kind is TokenKind.IDENT and token.text in _KEYWORDS:
            style = _KEYWORD_STYLE
        styles[token.span.start : token.span.end] = [style] * (token.span.end - token.span.start)
    for comment in stream.comments:
        styles[comment.span.start : comment.span.end] = [_COMMENT_STYLE] * (comment.span.end - comment.span.start)
    return styles


class SessionCompleter(Completer):
    """Proposes what the session's completion proposes."""

    def __init__(self, session: ShellSession) -> None:
        self._session = session

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the proposals at the cursor."""
        del complete_event
        try:
            completion = self._session.complete(document.text, document.cursor_position)
        except OmnigraphError:
            # A server that is away must not end the line that is being typed.
            return
        for proposal in completion.proposals:
            yield Completion(
                proposal.text,
                start_position=completion.start - document.cursor_position,
                display_meta=reveal(proposal.detail or proposal.kind.value),
            )


class ShellPrompt:
    """Reads texts at the terminal until the user ends the session."""

    def __init__(self, session: ShellSession, history: Path) -> None:
        self._session = session
        self._prompt: PromptSession[str] = PromptSession(
            history=_open_history(history),
            lexer=QueryLexer(),
            completer=SessionCompleter(session),
            complete_while_typing=False,
            complete_in_thread=True,
            key_bindings=_bind_keys(),
            multiline=True,
            prompt_continuation=lambda width, _number, _wrapped: " " * (width - 2) + "| ",
            enable_history_search=False,
        )

    def read(self) -> str:
        """Return the next text that the user runs.

        Raises:
            EOFError: The user ends the session.
            KeyboardInterrupt: The user throws away what was typed.
        """
        prefill, self._session.prefill = self._session.prefill, ""
        return self._prompt.prompt(reveal(self._session.prompt), default=prefill)


def _bind_keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _run_or_add(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("escape", "enter")
    def _add_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


def _open_history(path: Path) -> History:
    """Return the history in a file; where none can be written, as in many containers, one of this session."""
    try:
        return FileHistory(str(_create_private(path)))
    except OSError as error:
        print_error(f"note: no history is kept, as {reveal(str(path))} can't be written: {error.strerror}")
        return InMemoryHistory()


def _create_private(path: Path) -> Path:
    """Return the history file, which only its owner may read: queries may contain names and values."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, _HISTORY_MODE)
    try:
        os.fchmod(descriptor, _HISTORY_MODE)
    finally:
        os.close(descriptor)
    return path
