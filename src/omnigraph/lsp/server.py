"""The language server over stdin and stdout: one feature of the protocol, one function."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams, JsonRpcInvalidRequest
from pygls.lsp.server import LanguageServer

from omnigraph import __version__
from omnigraph.lang.diagnostic_rendering import diagnostic_to_json
from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.formatter import format_source
from omnigraph.lang.lexer import Language, reveal, tokenize
from omnigraph.lang.names import NameKind, NameUse
from omnigraph.lang.proposals import Completion, ProposalKind
from omnigraph.lang.source import Source, Span
from omnigraph.lsp import semantic_tokens
from omnigraph.lsp.describe import describe
from omnigraph.lsp.files import to_path, to_uri
from omnigraph.lsp.markup import build_markup
from omnigraph.lsp.navigation import RenameRefusedError, check_renamed, find_use, find_uses, rename
from omnigraph.lsp.protocol import EditorProtocol
from omnigraph.lsp.schemas import ReadSchema, choose_source, read_settings
from omnigraph.lsp.symbols import list_symbols
from omnigraph.lsp.text import Text
from omnigraph.lsp.workspace import File, Workspace
from omnigraph.query.completion import KnownNames, complete
from omnigraph.query.help_fixes import Fix, find_fixes, find_schema_fix
from omnigraph.query.incremental_check import QueryFileChecker, collect_diagnostics
from omnigraph.query.static_checks import check_schema
from omnigraph.schema.catalog import build_catalog
from omnigraph.schema.completion import complete_schema

_SOURCE = "omnigraph"
# While somebody types without a pause of this length, nothing is published.
_PAUSE_SECONDS = 0.05
_RELOAD = "omnigraph.reloadSchema"
_REQUEST_FAILED = -32803
_KINDS = {
    ProposalKind.KEYWORD: lsp.CompletionItemKind.Keyword,
    ProposalKind.TYPE: lsp.CompletionItemKind.Class,
    ProposalKind.PROPERTY: lsp.CompletionItemKind.Property,
    ProposalKind.VARIABLE: lsp.CompletionItemKind.Variable,
    ProposalKind.EDGE: lsp.CompletionItemKind.Reference,
    ProposalKind.FUNCTION: lsp.CompletionItemKind.Function,
    ProposalKind.VALUE: lsp.CompletionItemKind.EnumMember,
    ProposalKind.COLUMN: lsp.CompletionItemKind.Field,
    ProposalKind.PATTERN: lsp.CompletionItemKind.Interface,
}


class Refusal(JsonRpcException):
    """A request that can't be answered as asked; the editor shows why."""

    CODE = _REQUEST_FAILED
    MESSAGE = "refused"


# What a client is told; none of it is a failure of the server.
_NO_FAILURES = (Refusal, JsonRpcInvalidParams, JsonRpcInvalidRequest, json.JSONDecodeError, UnicodeDecodeError)


@dataclass
class Door:
    """The server and what it knows of the editor's files."""

    server: LanguageServer
    workspace: Workspace
    is_plain: bool = True
    """Whether the editor shows texts without markup."""
    knows_versions: bool = False
    is_shutting_down: bool = False
    """Whether the editor asked for the end before it told the server to exit."""
    was_told_to_exit: bool = False
    pending: dict[str, "asyncio.Task[None]"] = field(default_factory=dict)

    # --- settings and files ----------------------------------------------------------------------------

    def initialize(self, params: lsp.InitializeParams) -> None:
        """Take over what the editor can do, its folders and settings."""
        folders = [folder.uri for folder in params.workspace_folders or ()]
        if not folders and params.root_uri:
            folders = [params.root_uri]
        self.workspace.folders = [path for uri in folders if (path := to_path(uri)) is not None]
        document = params.capabilities.text_document
        hover = None if document is None else document.hover
        formats = (hover.content_format if hover is not None else None) or ()
        self.is_plain = lsp.MarkupKind.Markdown not in formats
        edits = None if params.capabilities.workspace is None else params.capabilities.workspace.workspace_edit
        self.knows_versions = bool(edits and edits.document_changes)
        self.set_settings(params.initialization_options)

    def set_settings(self, value: object) -> None:
        """Take over settings; a wrong one is shown and changes nothing."""
        settings, mistake = read_settings(value)
        if mistake is not None:
            self.workspace.report(mistake)
            return
        self.workspace.settings = settings
        self.workspace.forget_schema()
        source = choose_source(settings, self.workspace.folders)
        if isinstance(source, Path) and self.workspace.read_schema(to_uri(source)) is None:
            self.workspace.report(f"{source} can't be read as a schema, so queries are checked without one")

    def refresh_all(self) -> None:
        """Check all open files anew."""
        for uri in self.workspace.open:
            self.refresh(uri)

    def refresh(self, uri: str) -> None:
        """Check a file after a short pause, and the queries of a schema with it; what was waiting is dropped."""
        self._plan(uri)
        file = self.workspace.open.get(uri)
        if file is not None and file.language is Language.SCHEMA:
            for other in self.workspace.open.values():
                if other.language is Language.QUERY and self.workspace.find_schema_uri(other) == uri:
                    self._plan(other.uri)

    def _plan(self, uri: str) -> None:
        earlier = self.pending.pop(uri, None)
        if earlier is not None:
            earlier.cancel()
        task = self.pending[uri] = asyncio.get_running_loop().create_task(self._publish(uri))
        task.add_done_callback(lambda done: self._finish(uri, done))

    def _finish(self, uri: str, task: "asyncio.Task[None]") -> None:
        if self.pending.get(uri) is task:
            del self.pending[uri]
        if not task.cancelled() and (error := task.exception()) is not None:
            logging.getLogger(__name__).error("check of %s failed", uri, exc_info=error)

    async def _publish(self, uri: str) -> None:
        await asyncio.sleep(_PAUSE_SECONDS)
        file = self.workspace.open.get(uri)
        if file is None:
            return
        text, version = file.text, file.version
        findings = await self.workspace.find_diagnostics(file)
        if file.text is not text:
            return  # it was edited, and its next check is planned
        shown = [show_diagnostic(text, each, file.uri) for each in findings]
        self.server.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(uri=uri, diagnostics=shown, version=version)
        )

    def find(self, document: lsp.TextDocumentIdentifier) -> File | None:
        """Return the file that a request is about; None if it is no file of ours."""
        return self.workspace.find_file(document.uri)


def show_diagnostic(text: Text, diagnostic: Diagnostic, uri: str) -> lsp.Diagnostic:
    """Return a diagnostic as editors show it: its help is the last line."""
    value = diagnostic_to_json(Source(text.value, uri), diagnostic)
    message = "\n".join(reveal(line) for line in str(value["message"]).split("\n"))
    if value["help"] is not None:
        message += f"\nhelp: {reveal(str(value['help']))}"
    severity = lsp.DiagnosticSeverity.Error if diagnostic.is_error else lsp.DiagnosticSeverity.Warning
    return lsp.Diagnostic(
        range=text.range(diagnostic.span), message=message, severity=severity, code=diagnostic.code, source=_SOURCE
    )


def build_server(schema: Path | ReadSchema | None = None) -> tuple[LanguageServer, Door]:
    """Build the server; `schema` is that of the command line, which the editor's settings may replace."""
    server = LanguageServer("omnigraph", __version__, protocol_cls=EditorProtocol)
    door = Door(server, Workspace(report=lambda message: _show_message(server, message), given=schema))
    _add_files(server, door)
    _add_reading(server, door)
    _add_navigation(server, door)
    _add_outlines(server, door)
    _add_changing(server, door)
    return server, door


def serve_lsp(schema: Path | ReadSchema | None = None) -> int:
    """Serve an editor over stdin and stdout until it ends.

    Args:
        schema: The schema file that queries are checked against, or what reads their schema, unless the editor's
            settings name one. Without it, the nearest `.pg` file is theirs.

    Returns:
        The exit code of the process: 1 if the editor told it to exit without asking it to shut down first.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR)
    for name in ("pygls.protocol.json_rpc", "pygls.server"):
        logging.getLogger(name).addFilter(_is_failure)
    server, door = build_server(schema)
    # The server closes what it writes to, and the process still has to flush its stdout.
    server.start_io(stdout=os.fdopen(os.dup(sys.stdout.fileno()), "wb"))
    return 1 if door.was_told_to_exit and not door.is_shutting_down else 0


def _is_failure(record: logging.LogRecord) -> bool:
    """Return whether a record is about a failure of ours, and not about an answer that says no, or a wrong message.

    The editor hears of both.
    """
    if record.funcName == "structure_message":
        return False
    return not (record.exc_info and isinstance(record.exc_info[1], _NO_FAILURES))


def _show_message(server: LanguageServer, message: str) -> None:
    server.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Error, f"omnigraph: {reveal(message)}"))


# --- files -----------------------------------------------------------------------------------------------


def _add_files(server: LanguageServer, door: Door) -> None:
    @server.feature(lsp.INITIALIZE)
    def initialize(params: lsp.InitializeParams) -> None:
        door.initialize(params)
        door.workspace.encoding = server.protocol.workspace.position_encoding or lsp.PositionEncodingKind.Utf16

    @server.feature(lsp.SHUTDOWN)
    def shut_down(params: None) -> None:
        del params
        door.is_shutting_down = True

    @server.feature(lsp.EXIT)
    def exit_(params: None) -> None:
        del params
        door.was_told_to_exit = True

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def open_(params: lsp.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        if door.workspace.open_file(document.uri, document.language_id, document.text, document.version):
            # A schema may be that of files which were open before it.
            door.refresh_all()

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def change(params: lsp.DidChangeTextDocumentParams) -> None:
        file = door.workspace.open.get(params.text_document.uri)
        if file is None:
            return
        for each in params.content_changes:
            if isinstance(each, lsp.TextDocumentContentChangePartial):
                file.text = file.text.change(each)
            else:
                file.text = Text(each.text, door.workspace.encoding)
        file.version = params.text_document.version
        door.refresh(file.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def close(params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        if door.workspace.open.pop(uri, None) is not None:
            # Its findings would stay in the list of problems.
            server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri=uri, diagnostics=[]))
            door.refresh_all()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def configure(params: lsp.DidChangeConfigurationParams) -> None:
        # Some editors only tell that something changed, without the settings.
        if params.settings is not None:
            door.set_settings(params.settings)
            door.refresh_all()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def watch(params: lsp.DidChangeWatchedFilesParams) -> None:
        del params  # the files on disk are compared by their times
        door.refresh_all()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def change_folders(params: lsp.DidChangeWorkspaceFoldersParams) -> None:
        removed = {to_path(folder.uri) for folder in params.event.removed}
        added = [path for folder in params.event.added if (path := to_path(folder.uri)) is not None]
        door.workspace.folders = [path for path in door.workspace.folders if path not in removed] + added
        door.refresh_all()

    @server.command(_RELOAD)
    def reload(*arguments: object) -> None:
        del arguments
        door.workspace.forget_schema()
        door.refresh_all()


# --- reading ---------------------------------------------------------------------------------------------


def _add_reading(server: LanguageServer, door: Door) -> None:
    workspace = door.workspace

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        file = door.find(params.text_document)
        if file is None:
            return None
        use = await find_use(workspace, file, file.text.offset(params.position))
        if use is None:
            return None
        placed = file.placed if file.language is Language.QUERY else []
        description = describe(use, await workspace.find_catalog(file), placed)
        if description is None:
            return None
        code, note = description
        language = (
            "omnigraph-schema" if use.symbols[0].kind in (NameKind.TYPE, NameKind.PROPERTY) else "omnigraph-query"
        )
        contents = build_markup(code, note, language=language, is_plain=door.is_plain)
        return lsp.Hover(contents, file.text.range(use.span))

    @server.feature(
        lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[".", "$", "@", ":", " ", "{"])
    )
    async def complete_(params: lsp.CompletionParams) -> lsp.CompletionList:
        file = door.find(params.text_document)
        if file is None:
            return lsp.CompletionList(is_incomplete=False, items=[])
        completion, shift = await _complete(workspace, file, file.text.offset(params.position))
        edited = file.text.range(Span(completion.start + shift, completion.end + shift))
        items = [
            lsp.CompletionItem(
                label=each.text,
                kind=_KINDS.get(each.kind, lsp.CompletionItemKind.Text),
                detail=reveal(each.detail) or None,
                # In the order of likelihood, and not of the alphabet.
                sort_text=f"{index:05}",
                filter_text=each.text,
                insert_text_format=lsp.InsertTextFormat.PlainText,
                text_edit=lsp.TextEdit(edited, each.text),
            )
            for index, each in enumerate(completion.proposals)
        ]
        return lsp.CompletionList(is_incomplete=False, items=items)


def _add_navigation(server: LanguageServer, door: Door) -> None:
    workspace = door.workspace

    async def find(document: lsp.TextDocumentIdentifier, position: lsp.Position) -> tuple[File | None, NameUse | None]:
        file = door.find(document)
        return file, None if file is None else await find_use(workspace, file, file.text.offset(position))

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    async def define(params: lsp.DefinitionParams) -> list[lsp.Location]:
        file, use = await find(params.text_document, params.position)
        if file is None or use is None:
            return []
        uses = await find_uses(workspace, file, use.symbols)
        declared = [each for each in uses if each.use.is_declaration]
        if not declared and use.symbols and use.symbols[0].kind is NameKind.VARIABLE:
            # A variable is declared where it stands first.
            declared = uses[:1]
        return [lsp.Location(each.file.uri, each.file.text.range(each.use.span)) for each in declared]

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    async def refer(params: lsp.ReferenceParams) -> list[lsp.Location]:
        file, use = await find(params.text_document, params.position)
        if file is None or use is None:
            return []
        uses = await find_uses(workspace, file, use.symbols)
        kept = [each for each in uses if params.context.include_declaration or not each.use.is_declaration]
        return [lsp.Location(each.file.uri, each.file.text.range(each.use.span)) for each in kept]

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    async def highlight(params: lsp.DocumentHighlightParams) -> list[lsp.DocumentHighlight]:
        file, use = await find(params.text_document, params.position)
        if file is None or use is None:
            return []
        names = await workspace.find_names(file)
        same = [each for each in names if not set(each.symbols).isdisjoint(use.symbols)]
        return [lsp.DocumentHighlight(file.text.range(each.span)) for each in same]


def _add_outlines(server: LanguageServer, door: Door) -> None:
    workspace = door.workspace

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    async def outline(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        file = door.find(params.text_document)
        if file is None:
            return []
        placed = await workspace.check_queries(file) if file.language is Language.QUERY else []
        return list_symbols(file.text, placed, file.language)

    legend = lsp.SemanticTokensLegend(list(semantic_tokens.TYPES), list(semantic_tokens.MODIFIERS))

    @server.feature(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, legend)
    async def color(params: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
        return await _color(door, params.text_document, None)

    @server.feature(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, legend)
    async def color_range(params: lsp.SemanticTokensRangeParams) -> lsp.SemanticTokens:
        return await _color(door, params.text_document, params.range)


async def _complete(workspace: Workspace, file: File, offset: int) -> tuple[Completion, int]:
    """Return the proposals at a place, and where the text starts that their places count from."""
    if file.language is Language.SCHEMA:
        return complete_schema(file.text.value, offset), 0
    catalog = await workspace.find_catalog(file) or build_catalog()
    # Only the declaration around the place is read: a file may be long.
    pieces = file.checker.split(file.text.value)
    patterns = tuple(name for _, piece in pieces for name in piece.patterns)
    start, piece = next((each for each in reversed(pieces) if each[0] <= offset), (0, None))
    text = file.text.value if piece is None else piece.text
    return complete(text, offset - start, catalog, KnownNames(patterns=patterns)), start


async def _color(door: Door, document: lsp.TextDocumentIdentifier, range_: lsp.Range | None) -> lsp.SemanticTokens:
    file = door.find(document)
    if file is None:
        return lsp.SemanticTokens([])
    text = file.text
    wanted = Span(0, len(text.value)) if range_ is None else text.span(range_)
    marks: list[tuple[Span, str, bool]] = []
    if file.language is Language.SCHEMA:
        stream = tokenize(Source(text.value), Language.SCHEMA)
        marks += semantic_tokens.iter_tokens(stream.tokens, stream.comments, await door.workspace.find_names(file))
    else:
        for placed in await door.workspace.check_queries(file):
            if placed.end <= wanted.start or placed.start >= wanted.end:
                continue
            lexed = placed.piece.lexed
            for span, kind, is_declaration in semantic_tokens.iter_tokens(
                lexed.tokens, lexed.comments, placed.checked.names
            ):
                marks.append((Span(span.start + placed.start, span.end + placed.start), kind, is_declaration))
    kept = (each for each in marks if each[0].end > wanted.start and each[0].start < wanted.end)
    return lsp.SemanticTokens(semantic_tokens.encode(text, kept))


# --- changing --------------------------------------------------------------------------------------------


def _add_changing(server: LanguageServer, door: Door) -> None:
    workspace = door.workspace

    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    async def prepare(params: lsp.PrepareRenameParams) -> lsp.Range:
        file = door.find(params.text_document)
        if file is None:
            raise Refusal("this file can't be read")
        use = await find_use(workspace, file, file.text.offset(params.position))
        try:
            await check_renamed(workspace, file, use)
        except RenameRefusedError as error:
            raise Refusal(reveal(str(error))) from error
        assert use is not None  # noqa: S101 - it was checked
        return file.text.range(use.span)

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    async def rename_(params: lsp.RenameParams) -> lsp.WorkspaceEdit:
        file = door.find(params.text_document)
        if file is None:
            raise Refusal("this file can't be read")
        try:
            changes = await rename(workspace, file, file.text.offset(params.position), params.new_name)
        except RenameRefusedError as error:
            raise Refusal(reveal(str(error))) from error
        edits: dict[str, list[lsp.TextEdit]] = {}
        files = {each.file.uri: each.file for each, _ in changes}
        for each, text in changes:
            edits.setdefault(each.file.uri, []).append(lsp.TextEdit(each.file.text.range(each.use.span), text))
        return _build_edit(door, files, edits)

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    async def format_(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit] | None:
        file = door.find(params.text_document)
        if file is None:
            return None
        result = format_source(Source(file.text.value), file.language)
        # With errors there is no text; they are shown already.
        return _build_smallest_edit(file.text, result.value) if result.ok else None

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])
    )
    async def act(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        file = door.find(params.text_document)
        if file is None:
            return []
        wanted = file.text.span(params.range)
        findings = [
            each
            for each in await workspace.find_diagnostics(file)
            if each.span.start <= wanted.end and each.span.end >= wanted.start
        ]
        actions = []
        for diagnostic in findings:
            fixes = _find_fixes(file, diagnostic)
            actions += [_build_action(door, file, file, diagnostic, fix) for fix in fixes]
            uri = workspace.find_schema_uri(file)
            schema = None if uri is None or file.language is Language.SCHEMA else workspace.find_file(uri)
            change = None if schema is None else find_schema_fix(schema.text.value, diagnostic)
            if schema is not None and change is not None:
                actions.append(_build_action(door, file, schema, diagnostic, change))
        return actions


def _find_fixes(file: File, diagnostic: Diagnostic) -> list[Fix]:
    if file.language is Language.SCHEMA:
        return find_fixes(file.text.value, diagnostic, lambda text: check_schema(Source(text))[0].diagnostics)
    catalog = file.checker.catalog
    # One of its own, so that texts that are only tried don't push out what is kept of the file.
    checker = QueryFileChecker(catalog)

    def check(text: str) -> Sequence[Diagnostic]:
        return collect_diagnostics(checker.check(text), catalog)

    placed = next((each for each in reversed(file.placed) if each.start <= diagnostic.span.start), None)
    if placed is None or placed.checked.patterns:
        return find_fixes(file.text.value, diagnostic, check)
    # Only the declaration with the mistake is tried, at its place: others have nothing to do with it.
    shift = placed.start
    local = next((each for each in check(placed.piece.text) if _is_same(each, diagnostic, shift)), None)
    if local is None:
        return find_fixes(file.text.value, diagnostic, check)
    fixes = find_fixes(placed.piece.text, local, check)
    return [Fix(fix.title, Span(fix.span.start + shift, fix.span.end + shift), fix.text) for fix in fixes]


def _is_same(local: Diagnostic, diagnostic: Diagnostic, shift: int) -> bool:
    return (local.code, local.message, local.span.start + shift) == (
        diagnostic.code,
        diagnostic.message,
        diagnostic.span.start,
    )


def _build_action(door: Door, file: File, changed: File, diagnostic: Diagnostic, fix: Fix) -> lsp.CodeAction:
    edit = lsp.TextEdit(changed.text.range(fix.span), fix.text)
    return lsp.CodeAction(
        title=reveal(fix.title),
        kind=lsp.CodeActionKind.QuickFix,
        diagnostics=[show_diagnostic(file.text, diagnostic, file.uri)],
        edit=_build_edit(door, {changed.uri: changed}, {changed.uri: [edit]}),
        is_preferred=changed is file,
    )


def _build_edit(door: Door, files: dict[str, File], edits: dict[str, list[lsp.TextEdit]]) -> lsp.WorkspaceEdit:
    """Return changes of files, with their versions if the editor compares these."""
    if not door.knows_versions:
        return lsp.WorkspaceEdit(changes=edits)
    changes: list[Any] = [
        lsp.TextDocumentEdit(lsp.OptionalVersionedTextDocumentIdentifier(uri, files[uri].version), list(each))
        for uri, each in edits.items()
    ]
    return lsp.WorkspaceEdit(document_changes=changes)


def _build_smallest_edit(text: Text, new: str) -> list[lsp.TextEdit]:
    """Return the change from a text to another one without what both begin and end with, so that the cursor stays."""
    old = text.value
    if old == new:
        return []
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-end - 1] == new[-end - 1]:
        end += 1
    # Not inside of a line break of two characters, which is no position.
    start -= old[start - 1 : start] == "\r"
    end -= end > 0 and old[len(old) - end] == "\n" and old[len(old) - end - 1 : len(old) - end] == "\r"
    return [lsp.TextEdit(text.range(Span(start, len(old) - end)), new[start : len(new) - end])]
