"""Where a name is declared and used, over all files that share a schema, and its rename."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.lexer import Language, tokenize
from omnigraph.lang.names import (
    SHARED_KINDS,
    NameKind,
    NameUse,
    Symbol,
    explain_bad_name,
    normalize_name,
    write_name,
)
from omnigraph.lang.source import Source
from omnigraph.lsp.workspace import File, Workspace
from omnigraph.query.incremental_check import Placed, QueryFileChecker, collect_diagnostics
from omnigraph.query.static_checks import check_schema

_RENAMED_KINDS = SHARED_KINDS | {
    NameKind.VARIABLE,
    NameKind.PARAMETER,
    NameKind.COLUMN,
    NameKind.QUERY,
    NameKind.PATTERN,
}


class RenameRefusedError(Exception):
    """A name can't be changed so, and why."""


@dataclass(frozen=True, slots=True)
class FileUse:
    """A use of a name in a file."""

    file: File
    use: NameUse


async def find_use(workspace: Workspace, file: File, offset: int) -> NameUse | None:
    """Return the name at a place, or the one that ends there."""
    names = await workspace.find_names(file)
    starts = [use.span.start for use in names]
    for index in (bisect_right(starts, offset) - 1, bisect_right(starts, offset - 1) - 1):
        # The sign of a variable belongs to it.
        if 0 <= index + 1 < len(names) and file.text.value[offset : offset + 1] == "$":
            following = names[index + 1]
            if following.span.start == offset + 1:
                return following
        if index >= 0 and names[index].span.start <= offset <= names[index].span.end:
            return names[index]
    return None


async def find_uses(workspace: Workspace, file: File, symbols: Sequence[Symbol]) -> list[FileUse]:
    """Return every use of one of these symbols: in this file, or in all that share its schema."""
    wanted = frozenset(symbols)
    files = [file]
    if any(symbol.kind in SHARED_KINDS for symbol in symbols):
        files = await list_related(workspace, file)
    return [
        FileUse(each, use)
        for each in files
        for use in await workspace.find_names(each)
        if not wanted.isdisjoint(use.symbols)
    ]


async def list_related(workspace: Workspace, file: File) -> list[File]:
    """Return the files that share the schema of a file: that schema first, then the queries."""
    uri = workspace.find_schema_uri(file)
    schema = None if uri is None else workspace.find_file(uri)
    queries = [
        each
        for each in workspace.list_files(Language.QUERY)
        if each is file or (workspace.find_schema_uri(each) == uri and (uri is not None or each.version is not None))
    ]
    if file.language is Language.QUERY and file not in queries:
        queries.append(file)
    return [*([] if schema is None else [schema]), *queries]


async def rename(workspace: Workspace, file: File, offset: int, new: str) -> list[tuple[FileUse, str]]:
    """Return the uses to change, each with the text that it gets.

    Raises:
        RenameRefusedError: There is no name, the new one can't be given to it, or what it means is unclear somewhere.
    """
    use = await find_use(workspace, file, offset)
    symbols = await check_renamed(workspace, file, use)
    symbol = symbols[0]
    name = normalize_name(symbol.kind, new)
    reason = explain_bad_name(symbol.kind, name)
    if reason is not None:
        message = f"`{new}` can't be the name of a {symbol.kind.value}: {reason}"
        raise RenameRefusedError(message)
    if name == symbol.name:
        return []
    uses = await find_uses(workspace, file, symbols)
    if symbol.kind in SHARED_KINDS and workspace.unread is not None:
        message = f"`{symbol.name}` may be used in a file that is not read: {workspace.unread}"
        raise RenameRefusedError(message)
    await _refuse_unclear(workspace, file, symbol)
    changes = [
        (each, write_name(each.use, each.file.text.value[each.use.span.start : each.use.span.end], name))
        for each in uses
    ]
    await _refuse_mistakes(workspace, file, changes, symbol, name)
    return changes


async def check_renamed(workspace: Workspace, file: File, use: NameUse | None) -> tuple[Symbol, ...]:
    """Return the symbols of a name that can be renamed.

    Raises:
        RenameRefusedError: There is none, or nothing here declares it.
    """
    if use is None or not use.symbols:
        message = "there is no name here that can be renamed"
        if use is not None:
            message = f"it is not clear what `{file.text.value[use.span.start : use.span.end]}` means here"
            message += ": mend the errors of this query first, or open the schema"
        raise RenameRefusedError(message)
    kinds = {symbol.kind for symbol in use.symbols}
    if not kinds <= _RENAMED_KINDS:
        message = f"a {use.symbols[0].kind.value} can't be renamed here"
        raise RenameRefusedError(message)
    if kinds & SHARED_KINDS:
        uri = workspace.find_schema_uri(file)
        schema = None if uri is None else workspace.read_schema(uri)
        if schema is None:
            message = "the schema is in no file of this workspace: it is changed with `omnigraph schema apply`"
            raise RenameRefusedError(message)
        if schema.checked[1] is None:
            message = "the schema has errors: mend these first"
            raise RenameRefusedError(message)
        declared = {symbol for each in schema.names if each.is_declaration for symbol in each.symbols}
        if not declared.issuperset(use.symbols):
            message = f"`{use.symbols[0].name}` is not declared in the schema"
            raise RenameRefusedError(message)
    if len(use.symbols) > 1:
        owners = " and ".join(f"`{symbol.owner}`" for symbol in use.symbols)
        message = f"this name is a property of {owners} at once: rename each where it is declared, or unite them first"
        raise RenameRefusedError(message)
    return use.symbols


async def _refuse_unclear(workspace: Workspace, file: File, symbol: Symbol) -> None:
    """Refuse if a place may mean the symbol and the checks can't tell, as in a query with an error."""
    for each in await list_related(workspace, file) if symbol.kind in SHARED_KINDS else [file]:
        if each.language is Language.SCHEMA:
            continue
        for place in _iter_unclear(await workspace.check_queries(each), symbol):
            line = each.text.position(place).line + 1
            message = (
                f"it is not clear what `{symbol.name}` means in {each.uri.rpartition('/')[2]}, line {line}:"
                " mend the errors of that query first"
            )
            raise RenameRefusedError(message)


def _iter_unclear(placed: Sequence[Placed], symbol: Symbol) -> Iterator[int]:
    """Yield the places with the name of a symbol that have no meaning."""
    for each in placed:
        if symbol.is_local and not symbol.owner.startswith(f"{each.start}:"):
            continue
        known = {use.span.start for use in each.checked.names if use.symbols}
        unclear = {use.span.start for use in each.checked.names if not use.symbols}
        is_broken = any(diagnostic.is_error for diagnostic in each.checked.diagnostics)
        for token in each.piece.lexed.tokens:
            start = token.span.start
            name = str(token.value) if token.value is not None else token.text
            is_same = name.lower() == symbol.name.lower() if symbol.kind is NameKind.TYPE else name == symbol.name
            # The name of a variable starts after its sign, a quoted one after its quote.
            if is_same and known.isdisjoint((start, start + 1)) and (is_broken or start in unclear):
                yield each.start + start


async def _refuse_mistakes(
    workspace: Workspace, file: File, changes: Sequence[tuple[FileUse, str]], symbol: Symbol, name: str
) -> None:
    """Refuse a rename after which there are mistakes that were not there before."""
    texts: dict[str, str] = {}
    for each, text in sorted(changes, key=lambda change: -change[0].use.span.start):
        old = texts.get(each.file.uri, each.file.text.value)
        texts[each.file.uri] = old[: each.use.span.start] + text + old[each.use.span.end :]
    files = {each.file.uri: each.file for each, _ in changes}
    schema_uri = workspace.find_schema_uri(file) or ""
    catalog = await workspace.find_catalog(file)
    if schema_uri in texts:
        report, catalog = check_schema(Source(texts[schema_uri]))
        _refuse_new((), report.diagnostics, symbol, name)
    if symbol.kind in SHARED_KINDS:
        files |= {related.uri: related for related in await list_related(workspace, file)}
    for uri, other in files.items():
        if other.language is Language.SCHEMA:
            continue
        before = collect_diagnostics(await workspace.check_queries(other), other.checker.catalog)
        checker = QueryFileChecker(catalog)
        after = collect_diagnostics(checker.check(texts.get(uri, other.text.value)), catalog)
        _refuse_new(before, after, symbol, name)
    if symbol.kind in (NameKind.VARIABLE, NameKind.PARAMETER, NameKind.COLUMN):
        _refuse_capture(file, changes, name)


def _refuse_new(before: Sequence[Diagnostic], after: Sequence[Diagnostic], symbol: Symbol, name: str) -> None:
    errors = [diagnostic for diagnostic in after if diagnostic.is_error]
    if len(errors) > sum(diagnostic.is_error for diagnostic in before):
        known = {(diagnostic.code, diagnostic.message) for diagnostic in before}
        first = next((each for each in errors if (each.code, each.message) not in known), errors[0])
        message = f"`{symbol.name}` can't become `{name}`: {first.message}"
        raise RenameRefusedError(message)


def _refuse_capture(file: File, changes: Sequence[tuple[FileUse, str]], name: str) -> None:
    """Refuse the name of another variable or column of the same query: both would become one."""
    starts = {each.use.span.start for each, _ in changes}
    for placed in file.placed:
        if not any(placed.start <= start < placed.end for start in starts):
            continue
        for token in tokenize(Source(placed.piece.text), Language.QUERY).tokens:
            if token.value == name and token.text.startswith("$"):
                message = f"there is already a `${name}` in this query"
                raise RenameRefusedError(message)
