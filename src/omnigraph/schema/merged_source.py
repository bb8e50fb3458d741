"""Assemble the text of a merged schema from the texts of the base and both sides, with their comments.

A declaration is copied from a side whose type equals the merged one. A declaration that merges changes of both sides is
printed, after the comments that preceded it. The result is the same with sides swapped.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.lang.diagnostics import SourceError
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.schema.bind import load_schema
from omnigraph.schema.catalog import AnyType, Catalog, InterfaceType
from omnigraph.schema.catalog_printer import format_type_declaration, print_catalog, print_declaration

# A comment after a declaration, on its last line.
_TRAILING_COMMENT = re.compile(r"[ \t]*(?://[^\n]*|/\*.*?\*/[ \t]*(?=[\r\n]|\Z))?", re.DOTALL)
# The text before the last empty line above the first declaration: a comment about the file, not about that type.
_HEADER = re.compile(r"\A(?:.*\n)?[ \t]*\r?\n", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeclarationText:
    """The source text of a declaration, with white space and comments before it, and a comment after it."""

    leading: str
    text: str
    trailing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSource:
    """A catalog with the text that it was bound from."""

    catalog: Catalog
    text: str


@dataclass(frozen=True, slots=True)
class _SplitSource:
    """A schema text split into header, declarations and tail."""

    header: str
    by_name: Mapping[str, _DeclarationText]
    tail: str


def merge_sources(
    merged: Catalog, states: tuple[SchemaSource, SchemaSource, SchemaSource], is_right: Callable[[Catalog], bool]
) -> str:
    """Return the text of a merged catalog, with the comments of the base and both sides.

    `is_right` checks the catalog that the assembled text is bound to. If it differs, the merged catalog is printed
    without comments instead.
    """
    try:
        text = _assemble_source(merged, states)
        if is_right(load_schema(Source(text, "merged.pg"))):
            return text
    except SourceError:
        pass  # a declaration of one text may conflict with those of another
    return print_catalog(merged)


def _assemble_source(merged: Catalog, states: Sequence[SchemaSource]) -> str:
    sources = [_split_source(state.text) for state in states]
    parts = [_pick_text(*(source.header for source in sources))]
    for type_ in _sort_types(merged, states[0], sources[0]):
        versions = [_find_version(type_, state.catalog, source) for state, source in zip(states, sources, strict=True)]
        parts.append(_merge_declaration(type_, versions))
    text = ""
    for part in parts:
        # An empty part counts as separated too: `"" in "\r\n"` is true.
        is_separated = not text or text.endswith("\n") or part[:1] in "\r\n"
        text += part if is_separated else f"\n\n{part}"
    tail = _pick_text(*(source.tail for source in sources)).rstrip()
    return f"{text if parts[0] else text.lstrip()}{tail}\n"


def _sort_types(merged: Catalog, base: SchemaSource, source: _SplitSource) -> list[AnyType | InterfaceType]:
    """Sort the merged types: those of the base in the order of its text, then the new ones in catalog order."""
    positions = {name: position for position, name in enumerate(source.by_name)}
    # By identity, because a side may have renamed a type of the base.
    base_positions: dict[int | str, int] = {
        _get_identity(type_): positions[type_.name] for type_ in _list_types(base.catalog) if type_.name in positions
    }
    types = _list_types(merged)
    return sorted(types, key=lambda type_: base_positions.get(_get_identity(type_), len(positions)))


def _list_types(catalog: Catalog) -> list[AnyType | InterfaceType]:
    return [*catalog.interfaces.values(), *catalog.nodes.values(), *catalog.edges.values()]


def _get_identity(type_: AnyType | InterfaceType) -> int | str:
    # An interface has no identity: its name is one.
    return type_.name if isinstance(type_, InterfaceType) else type_.identity


def _find_version(
    type_: AnyType | InterfaceType, catalog: Catalog, source: _SplitSource
) -> tuple[AnyType | InterfaceType, _DeclarationText] | None:
    """Return the version of a type in one catalog, with its text; None if the catalog does not have it."""
    for version in _list_types(catalog):
        if _get_identity(version) == _get_identity(type_) and version.name in source.by_name:
            return version, source.by_name[version.name]
    return None


def _merge_declaration(
    type_: AnyType | InterfaceType, versions: Sequence[tuple[AnyType | InterfaceType, _DeclarationText] | None]
) -> str:
    """Return the text of a merged declaration, with the comments before and after it."""
    base, *sides = versions
    merged = format_type_declaration(type_)
    leading = _pick_text(*("" if version is None else version[1].leading for version in versions))
    trailing = _pick_text(*("" if version is None else version[1].trailing for version in versions))
    # Sorted, so that the choice between two equal declarations does not depend on the order of the sides.
    fitting = sorted(
        {side[1].text for side in sides if side is not None and format_type_declaration(side[0]) == merged}
    )
    base_text = None if base is None else base[1].text
    # A side that changed only comments or layout still differs from the base, and is preferred.
    changed = [text for text in fitting if text != base_text]
    text = (changed or fitting or [print_declaration(type_)])[0]
    return f"{leading}{text}{trailing}"


def _pick_text(base: str, ours: str, theirs: str) -> str:
    """Return the text of the side that changed it; if both did, the smaller text, whichever side it is of."""
    if ours == base:
        return theirs
    return ours if theirs == base else min(ours, theirs)


def _split_source(text: str) -> _SplitSource:
    source = Source(text, "schema.pg")
    declarations = parse_schema(source).require(source).declarations
    by_name: dict[str, _DeclarationText] = {}
    header = ""
    end = 0
    for declaration in declarations:
        span = declaration.span
        leading = text[end : span.start]
        if not by_name:
            match = _HEADER.match(leading)
            header = leading[: match.end()] if match and match[0].strip() else ""
            leading = leading[len(header) :]
        trailing = _TRAILING_COMMENT.match(text, span.end)
        end = span.end if trailing is None else trailing.end()
        by_name[declaration.name.text] = _DeclarationText(
            leading=leading, text=text[span.start : span.end], trailing=text[span.end : end]
        )
    return _SplitSource(header, by_name, text[end:])
