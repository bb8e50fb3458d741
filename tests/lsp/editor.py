"""An editor for tests: pytest-lsp's client beside a server process, with calls that wait for their answers."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pytest_lsp.client import make_test_lsp_client

from omnigraph.lsp.text import Text

T = TypeVar("T")
SECONDS = 120

__all__ = ["Editor", "JsonRpcException"]


class Editor:
    """A client of one server, in a loop of its own thread."""

    def __init__(
        self,
        folder: Path,
        *,
        words: Sequence[str] = (),
        options: object = None,
        encodings: Sequence[str] | None = None,
        document_changes: bool = True,
    ) -> None:
        self.folder = folder
        self.encoding = lsp.PositionEncodingKind.Utf16.value
        self.texts: dict[str, Text] = {}
        self.versions: dict[str, int] = {}
        self.published: dict[str, lsp.PublishDiagnosticsParams] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._news = asyncio.Event()
        self.run(self._start(words, options, encodings, document_changes))

    async def _start(
        self, words: Sequence[str], options: object, encodings: Sequence[str] | None, document_changes: bool
    ) -> None:
        self.client: Any = make_test_lsp_client()

        def publish(params: lsp.PublishDiagnosticsParams) -> None:
            self.published[params.uri] = params
            self._news.set()

        # Instead of the one that pytest-lsp has, which keeps no versions.
        self.client.protocol.fm.features[lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS] = publish
        await self.client.start_io(sys.executable, "-m", "omnigraph", "lsp", *words)
        general = None
        if encodings is not None:
            general = lsp.GeneralClientCapabilities(position_encodings=[lsp.PositionEncodingKind(e) for e in encodings])
        capabilities = lsp.ClientCapabilities(
            general=general,
            workspace=lsp.WorkspaceClientCapabilities(
                workspace_edit=lsp.WorkspaceEditClientCapabilities(document_changes=document_changes)
            ),
            text_document=lsp.TextDocumentClientCapabilities(
                hover=lsp.HoverClientCapabilities(content_format=[lsp.MarkupKind.Markdown])
            ),
        )
        params = lsp.InitializeParams(
            capabilities=capabilities, root_uri=self.folder.as_uri(), initialization_options=options
        )
        result = await self.client.initialize_session(params)
        self.capabilities = result.capabilities
        self.encoding = str(result.capabilities.position_encoding or self.encoding)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work in the client's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    def close(self) -> None:
        """Say goodbye, and end the process."""
        self.run(self.client.shutdown_session())
        self.run(self.client.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()

    # --- files -----------------------------------------------------------------------------------------

    def uri(self, name: str) -> str:
        """The URI of a file of the workspace."""
        return (self.folder / name).as_uri()

    def write(self, name: str, text: str) -> str:
        """Write a file that is not opened."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8"))
        return path.as_uri()

    def open(self, name: str, text: str, *, waits: bool = True) -> list[lsp.Diagnostic]:
        """Open a text as that file; its diagnostics."""
        uri = self.uri(name) if "://" not in name else name
        self.texts[uri] = Text(text, self.encoding)
        self.versions[uri] = self.versions.get(uri, 0) + 1
        item = lsp.TextDocumentItem(uri, "omnigraph-query", self.versions[uri], text)
        self.run(self._notify(self.client.text_document_did_open, lsp.DidOpenTextDocumentParams(item)))
        return self.wait(name) if waits else []

    def close_file(self, name: str) -> None:
        """Close a file."""
        uri = self.uri(name)
        self.texts.pop(uri)
        identifier = lsp.TextDocumentIdentifier(uri)
        self.run(self._notify(self.client.text_document_did_close, lsp.DidCloseTextDocumentParams(identifier)))

    def edit(self, name: str, old: str, new: str, *, waits: bool = True) -> list[lsp.Diagnostic]:
        """Replace the first place of a text by another one, as a change of a part; the diagnostics then."""
        uri = self.uri(name)
        text = self.texts[uri]
        at = text.value.index(old)
        change = lsp.TextDocumentContentChangePartial(
            range=lsp.Range(text.position(at), text.position(at + len(old))), text=new
        )
        self.texts[uri] = text.change(change)
        self.versions[uri] += 1
        identifier = lsp.VersionedTextDocumentIdentifier(self.versions[uri], uri)
        params = lsp.DidChangeTextDocumentParams(identifier, [change])
        self.run(self._notify(self.client.text_document_did_change, params))
        return self.wait(name) if waits else []

    def wait(self, name: str) -> list[lsp.Diagnostic]:
        """The diagnostics of a file's newest version."""
        uri = self.uri(name) if "://" not in name else name
        self.run(self._wait(uri))
        return list(self.published[uri].diagnostics)

    async def _wait(self, uri: str) -> None:
        while (found := self.published.get(uri)) is None or found.version != self.versions[uri]:
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), SECONDS)

    def wait_until(self, name: str, holds: Callable[[Sequence[lsp.Diagnostic]], bool]) -> list[lsp.Diagnostic]:
        """The diagnostics of a file once they are as they should be."""
        uri = self.uri(name)
        self.run(self._wait_until(uri, holds))
        return list(self.published[uri].diagnostics)

    async def _wait_until(self, uri: str, holds: Callable[[Sequence[lsp.Diagnostic]], bool]) -> None:
        while not holds(self.published[uri].diagnostics):
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), SECONDS)

    async def _notify(self, send: Any, params: object) -> None:
        send(params)

    # --- places ----------------------------------------------------------------------------------------

    def place(self, name: str, mark: str, *, after: int = 0) -> dict[str, Any]:
        """The document and the position of a mark in a text, `after` characters in it."""
        uri = self.uri(name) if "://" not in name else name
        text = self.texts.get(uri) or Text((self.folder / name).read_text(encoding="utf-8"), self.encoding)
        at = text.value.index(mark) + after
        return {"text_document": lsp.TextDocumentIdentifier(uri), "position": text.position(at)}

    def ask(self, request: str, params: object) -> Any:
        """The answer to a request."""
        return self.run(getattr(self.client, f"{request}_async")(params))

    def slice(self, uri: str, range_: lsp.Range) -> str:
        """The text of a range of a file."""
        text = self.texts.get(uri) or Text(Path(uri.removeprefix("file://")).read_text(encoding="utf-8"), self.encoding)
        span = text.span(range_)
        return text.value[span.start : span.end]

    def apply(self, edit: lsp.WorkspaceEdit) -> dict[str, str]:
        """The texts of files after an edit, by file name."""
        edits: dict[str, list[Any]] = {}
        for change in edit.document_changes or ():
            assert isinstance(change, lsp.TextDocumentEdit)
            assert change.text_document.version == self.versions.get(change.text_document.uri)
            edits[change.text_document.uri] = list(change.edits)
        edits |= {uri: list(each) for uri, each in (edit.changes or {}).items()}
        result = {}
        for uri, each in edits.items():
            path = Path(uri.removeprefix("file://"))
            text = self.texts.get(uri) or Text(path.read_text(encoding="utf-8"), self.encoding)
            for one in sorted(each, key=lambda e: (-e.range.start.line, -e.range.start.character)):
                text = text.change(lsp.TextDocumentContentChangePartial(range=one.range, text=one.new_text))
            result[path.name] = text.value
        return result
