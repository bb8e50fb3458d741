"""The text of a merged schema, out of the texts that people wrote: with their comments, as far as these say the same.

A declaration is taken as it stands from a side whose type is the merged one. One that has something of both is written
anew, behind the comments that stood before it. Which side is which makes no difference.
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

_TRAILING_COMMENT = re.compile(r"[ \t]*(?://[^\n]*|/\*.*?\*/[ \t]*(?=[\r\n]|\Z))?", re.DOTALL)
"""A comment behind a declaration, on its last line."""
_HEADER = re.compile(r"\A(?:.*\n)?[ \t]*\r?\n", re.DOTALL)
"""What stands before the last empty line above the first declaration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeclarationText:
    """A declaration as it stands: the white space and comments before it, itself, and a comment behind it."""

    before: str
    text: str
    behind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSource:
    """A schema and the text that it was bound from."""

    catalog: Catalog
    text: str


@dataclass(frozen=True, slots=True)
class _SplitSource:
    """A text in its parts."""

    header: str
    by_name: Mapping[str, _DeclarationText]
    tail: str


def merge_sources(
    merged: Catalog, states: tuple[SchemaSource, SchemaSource, SchemaSource], is_right: Callable[[Catalog], bool]
) -> str:
    """The text of a merged catalog, with the comments of the base and both sides.

    Where putting the parts together gives something else, as `is_right` says of what it is bound to, it is the
    catalog's own text, without any comment.
    """
    try:
        text = _assemble_source(merged, states)
        if is_right(load_schema(Source(text, "merged.pg"))):
            return text
    except SourceError:
        pass  # a part of one text may make no sense beside those of another
    return print_catalog(merged)


def _assemble_source(merged: Catalog, states: Sequence[SchemaSource]) -> str:
    pieces = [_split_source(state.text) for state in states]
    parts = [_pick_text(*(one.header for one in pieces))]
    for type_ in _sort_types(merged, states[0], pieces[0]):
        found = [_find_version(type_, state.catalog, one) for state, one in zip(states, pieces, strict=True)]
        parts.append(_merge_declaration(type_, found))
    text = ""
    for part in parts:
        is_apart = not text or text.endswith("\n") or part[:1] in "\r\n"  # an empty part is apart too
        text += part if is_apart else f"\n\n{part}"
    tail = _pick_text(*(one.tail for one in pieces)).rstrip()
    return f"{text if parts[0] else text.lstrip()}{tail}\n"


def _sort_types(merged: Catalog, base: SchemaSource, pieces: _SplitSource) -> list[AnyType | InterfaceType]:
    """The merged types in the order of the base's text, then what came, in the merged catalog's own."""
    places = {name: place for place, name in enumerate(pieces.by_name)}
    known: dict[int | str, int] = {
        _get_identity(one): places[one.name] for one in _list_types(base.catalog) if one.name in places
    }
    types = _list_types(merged)
    return sorted(types, key=lambda one: known.get(_get_identity(one), len(places)))


def _list_types(catalog: Catalog) -> list[AnyType | InterfaceType]:
    return [*catalog.interfaces.values(), *catalog.nodes.values(), *catalog.edges.values()]


def _get_identity(type_: AnyType | InterfaceType) -> int | str:
    return type_.name if isinstance(type_, InterfaceType) else type_.identity


def _find_version(
    type_: AnyType | InterfaceType, catalog: Catalog, pieces: _SplitSource
) -> tuple[AnyType | InterfaceType, _DeclarationText] | None:
    """A state's own version of a type, and how it is written there."""
    for one in _list_types(catalog):
        if _get_identity(one) == _get_identity(type_) and one.name in pieces.by_name:
            return one, pieces.by_name[one.name]
    return None


def _merge_declaration(
    type_: AnyType | InterfaceType, found: Sequence[tuple[AnyType | InterfaceType, _DeclarationText] | None]
) -> str:
    """One declaration, with what stands before and behind it."""
    base, *sides = found
    wanted = format_type_declaration(type_)
    before = _pick_text(*("" if one is None else one[1].before for one in found))
    behind = _pick_text(*("" if one is None else one[1].behind for one in found))
    fitting = sorted({one[1].text for one in sides if one is not None and format_type_declaration(one[0]) == wanted})
    old = None if base is None else base[1].text
    fresh = [text for text in fitting if text != old]  # if only its comments or its layout changed: that
    text = (fresh or fitting or [print_declaration(type_)])[0]
    return f"{before}{text}{behind}"


def _pick_text(base: str, ours: str, theirs: str) -> str:
    """The side that changed it; of two different ones, the same whichever is which."""
    if ours == base:
        return theirs
    return ours if theirs == base else min(ours, theirs)


def _split_source(text: str) -> _SplitSource:
    source = Source(text, "schema.pg")
    declarations = parse_schema(source).require(source).declarations
    by_name: dict[str, _DeclarationText] = {}
    header, end = "", 0
    for one in declarations:
        before = text[end : one.span.start]
        if not by_name:
            match = _HEADER.match(before)
            header = before[: match.end()] if match and match[0].strip() else ""
            before = before[len(header) :]
        behind = _TRAILING_COMMENT.match(text, one.span.end)
        end = one.span.end if behind is None else behind.end()
        by_name[one.name.text] = _DeclarationText(
            before=before, text=text[one.span.start : one.span.end], behind=text[one.span.end : end]
        )
    return _SplitSource(header, by_name, text[end:])
