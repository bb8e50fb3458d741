"""The open files and those of the workspace, what has been read of each, and the schema that belongs to each."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from lsprotocol.types import PositionEncodingKind

from omnigraph.errors import LimitError, OmnigraphError
from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.lexer import Language
from omnigraph.lang.names import NameUse
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source, Span
from omnigraph.lsp.files import (
    MAX_FILE_BYTES,
    TooManyFilesError,
    find_language,
    find_schema,
    list_files,
    read_text,
    to_path,
    to_uri,
)
from omnigraph.lsp.schemas import ReadSchema, SchemaSettings, choose_source, load
from omnigraph.lsp.text import Text
from omnigraph.query.incremental_check import Placed, QueryFileChecker, collect_diagnostics
from omnigraph.query.static_checks import check_schema
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.name_uses import find_schema_names


@dataclass
class SchemaText:
    """A schema as it was read: of a file, or of a graph, whose schema is in no file."""

    uri: str | None
    text: Text

    @cached_property
    def checked(self) -> tuple[tuple[Diagnostic, ...], Catalog | None]:
        """Its findings, and its catalog if it has no errors."""
        report, catalog = check_schema(Source(self.text.value))
        return report.diagnostics, catalog

    @cached_property
    def names(self) -> tuple[NameUse, ...]:
        """Every name in it."""
        return find_schema_names(parse_schema(Source(self.text.value)).tree, self.checked[1])


@dataclass
class File:
    """A file of queries or a schema. `version` is None for one that is not open."""

    uri: str
    language: Language
    text: Text
    version: int | None = None
    checker: QueryFileChecker = field(default_factory=QueryFileChecker)
    placed: list[Placed] = field(default_factory=list)
    stamp: tuple[int, int] = (0, 0)
    """When a file that is not open was written, and its size."""


@dataclass
class Workspace:
    """What the language server knows of the files."""

    report: Callable[[str], None]
    """Shows a message to the user."""
    encoding: str = PositionEncodingKind.Utf16
    folders: list[Path] = field(default_factory=list)
    settings: SchemaSettings = field(default_factory=SchemaSettings)
    given: Path | ReadSchema | None = None
    """The schema that the command line names; the editor's settings win over it."""
    open: dict[str, File] = field(default_factory=dict)
    unread: str | None = None
    """Why the files that were listed last are not all there are."""
    _read: dict[str, File] = field(default_factory=dict)
    _schemas: dict[str, SchemaText] = field(default_factory=dict)
    _catalogs: dict[str, Catalog] = field(default_factory=dict)
    _loaded: "asyncio.Task[SchemaText | None] | None" = None

    # --- files -----------------------------------------------------------------------------------------

    def open_file(self, uri: str, language_id: str, text: str, version: int) -> File | None:
        """Take over a file from the editor; None if it is in neither language."""
        language = find_language(uri, language_id)
        if language is None:
            return None
        file = self.open[uri] = File(uri, language, Text(text, self.encoding), version)
        return file

    def find_file(self, uri: str) -> File | None:
        """Return a file as the editor has it, else as it is on disk; None if it can't be read."""
        opened = self.open.get(uri)
        if opened is not None:
            return opened
        path, language = to_path(uri), find_language(uri)
        if path is None or language is None:
            return None
        try:
            stat = path.stat()
        except OSError:
            return None
        stamp = (stat.st_mtime_ns, stat.st_size)
        known = self._read.get(uri)
        if known is None or known.stamp != stamp or known.text.encoding != self.encoding:
            text = read_text(path)
            if text is None:
                return None
            known = self._read[uri] = File(uri, language, Text(text, self.encoding), stamp=stamp)
        return known

    def list_files(self, language: Language) -> list[File]:
        """Return the files of the workspace in one language, the open ones first; `unread` says what is left out."""
        suffix = ".pg" if language is Language.SCHEMA else ".gq"
        uris = dict.fromkeys(uri for uri, file in self.open.items() if file.language is language)
        self.unread = None
        for folder in self.folders:
            try:
                for path in list_files(folder, suffix):
                    uris[to_uri(path)] = None
            except TooManyFilesError:
                self.unread = f"the folder {folder.name} has too many; open a smaller one"
        files = []
        for uri in uris:
            file = self.find_file(uri)
            if file is None:
                self.unread = f"{uri.rpartition('/')[2]} is too large or no text; mend or move it"
            else:
                files.append(file)
        return files

    # --- schemas ---------------------------------------------------------------------------------------

    def find_schema_uri(self, file: File) -> str | None:
        """Return the schema file of a file, which is itself for a schema; None if its schema is no file."""
        if file.language is Language.SCHEMA:
            return file.uri
        source = self._choose_source()
        if isinstance(source, Path):
            return to_uri(source)
        if source is not None:
            return None
        path = to_path(file.uri)
        found = None if path is None else find_schema(path, self.folders)
        if found is not None:
            return to_uri(found)
        # A query that is not saved yet belongs to the only schema that is open.
        opened = [each.uri for each in self.open.values() if each.language is Language.SCHEMA]
        return opened[0] if path is None and len(opened) == 1 else None

    def read_schema(self, uri: str) -> SchemaText | None:
        """Return the schema of a file as it is now; None if it can't be read."""
        file = self.find_file(uri)
        if file is None or len(file.text.value) > MAX_FILE_BYTES:
            return None
        known = self._schemas.get(uri)
        if known is None or known.text != file.text:
            known = self._schemas[uri] = SchemaText(uri, file.text)
        return known

    async def find_schema(self, file: File) -> SchemaText | None:
        """Return the schema that belongs to a file; waits for that of a graph. None if there is none."""
        uri = self.find_schema_uri(file)
        if uri is not None:
            return self.read_schema(uri)
        source = self._choose_source()
        if source is None or isinstance(source, Path):
            return None
        if self._loaded is None:
            self._loaded = asyncio.create_task(self._load(source))
        # A request that is cancelled while it waits must not cancel what others wait for.
        return await asyncio.shield(self._loaded)

    def _choose_source(self) -> Path | ReadSchema | None:
        return choose_source(self.settings, self.folders) or self.given

    async def _load(self, source: ReadSchema) -> SchemaText | None:
        try:
            loaded = await load(source)
        except OmnigraphError as error:
            self.report(f"the schema could not be read, so queries are checked without one: {error}")
            return None
        except Exception as error:
            # Everybody waits for this task: what it raised would end every check until the schema is read anew.
            logging.getLogger(__name__).exception("read of the schema failed")
            reason = f"{type(error).__name__}: {error}"
            self.report(f"the schema could not be read, so queries are checked without one: {reason}")
            return None
        return SchemaText(None, Text(loaded.text, self.encoding))

    def forget_schema(self) -> None:
        """Read the schema of a graph anew at its next use."""
        self._loaded = None
        self._catalogs = {}

    async def find_catalog(self, file: File) -> Catalog | None:
        """Return the catalog for a file: while its schema has errors, the last one without."""
        schema = await self.find_schema(file)
        if schema is None:
            return None
        key = schema.uri or ""
        catalog = schema.checked[1]
        known = self._catalogs.get(key)
        # Equal catalogs are the same one, so that queries are not checked anew for a comment in the schema.
        if catalog is None or catalog == known:
            return known
        self._catalogs[key] = catalog
        return catalog

    # --- checks ----------------------------------------------------------------------------------------

    async def check_queries(self, file: File) -> list[Placed]:
        """Return the declarations of a query file, each checked; other requests run between two of them."""
        while True:
            catalog = await self.find_catalog(file)
            file.checker.replace_catalog(catalog)
            text = file.text
            checked = file.checker.declarations_checked
            placed = []
            for each in file.checker.iter_check(text.value):
                placed.append(each)
                if file.checker.declarations_checked > checked:
                    checked = file.checker.declarations_checked
                    await asyncio.sleep(0)
                    if file.text is not text or file.checker.catalog is not catalog:
                        break
            else:
                file.placed = placed
                return placed

    async def find_diagnostics(self, file: File) -> tuple[Diagnostic, ...]:
        """Return the findings about a file, as `omnigraph lint` reports them."""
        limit = MAX_FILE_BYTES
        if len(file.text.value) > limit:
            return (_refuse_size(file.language, limit),)
        if file.language is Language.SCHEMA:
            schema = self.read_schema(file.uri)
            return () if schema is None else schema.checked[0]
        placed = await self.check_queries(file)
        return collect_diagnostics(placed, file.checker.catalog)

    async def find_names(self, file: File) -> Sequence[NameUse]:
        """Return every name of a file with its meaning; those of a query file have places in the file."""
        if len(file.text.value) > MAX_FILE_BYTES:
            return ()
        if file.language is Language.SCHEMA:
            schema = self.read_schema(file.uri)
            return () if schema is None else schema.names
        return [shift_use(use, placed) for placed in await self.check_queries(file) for use in placed.checked.names]


def shift_use(use: NameUse, placed: Placed) -> NameUse:
    """Return a name of a declaration with its place in the file, and its local symbols with their declaration."""
    symbols = tuple(
        type(symbol)(symbol.kind, symbol.name, f"{placed.start}:{symbol.owner}") if symbol.is_local else symbol
        for symbol in use.symbols
    )
    span = Span(use.span.start + placed.start, use.span.end + placed.start)
    return NameUse(span, symbols, use.is_declaration, use.form, use.type)


def _refuse_size(language: Language, limit: int) -> Diagnostic:
    message = str(LimitError.text_too_large(language.value, limit))
    return Diagnostic(language.limit_code, Span(0, 0), message, "split the file")
